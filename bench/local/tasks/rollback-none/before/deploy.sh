#!/bin/sh
#
# deploy.sh - releases in folders, and a link that says which one is live
#
#   $ROOT/releases/20240131-120000/    a release
#   $ROOT/shared/                      what all releases share: uploads, configuration
#   $ROOT/current                      a link to the live release
#
# usage: deploy.sh [-n] [-k KEEP] [-r ROOT] COMMAND
#
#   init              make the folders
#   push FOLDER       copy FOLDER into a new release and make it live
#   switch RELEASE    make RELEASE live
#   rollback          make the release before the live one live
#   list              show all releases, the live one with a star
#   clean             remove all but the last KEEP releases, never the live one
#   status            show which release is live, and since when

set -eu

ROOT=${DEPLOY_ROOT:-/srv/app}
KEEP=5
DRY=
LOCK=

# ---- small things -----------------------------------------------------------

say()  { printf '%s\n' "$*"; }
warn() { printf 'deploy: %s\n' "$*" >&2; }
die()  { warn "$*"; exit 1; }

# run a command, or only show it with -n
run() {
    if [ -n "$DRY" ]; then
        say "would run: $*"
    else
        "$@"
    fi
}

usage() {
    sed -n '/^# usage/,/^$/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

number() {
    case $1 in
        ''|*[!0-9]*) return 1 ;;
    esac
    [ "$1" -gt 0 ]
}

# ---- one at a time ----------------------------------------------------------

lock() {
    LOCK=$ROOT/.lock
    if ! mkdir "$LOCK" 2>/dev/null; then
        LOCK=
        die "another deploy.sh is running (or has died: remove $ROOT/.lock)"
    fi
    trap unlock EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

unlock() {
    [ -z "$LOCK" ] || rmdir "$LOCK"
    LOCK=
}

# ---- releases ---------------------------------------------------------------

# all releases, the oldest first
releases() {
    for folder in "$ROOT"/releases/*/; do
        [ -d "$folder" ] || continue
        basename "$folder"
    done
}

# the live release, or nothing
current() {
    [ -L "$ROOT/current" ] || return 0
    basename "$(readlink "$ROOT/current")"
}

exists() {
    [ -n "$1" ] && [ -d "$ROOT/releases/$1" ]
}

# make a release live; ln is not atomic, mv is
activate() {
    run ln -s "releases/$1" "$ROOT/current.new"
    run mv -T "$ROOT/current.new" "$ROOT/current"
}

# ---- commands ---------------------------------------------------------------

init() {
    run mkdir -p "$ROOT/releases" "$ROOT/shared"
}

push() {
    source=$1
    [ -d "$source" ] || die "no folder $source"
    name=${RELEASE_NAME:-$(date +%Y%m%d-%H%M%S)}
    exists "$name" && die "there is a release $name already"
    target=$ROOT/releases/$name
    run cp -R "$source" "$target.part"
    for shared in "$ROOT"/shared/*; do
        [ -e "$shared" ] || continue
        run ln -s "../../shared/$(basename "$shared")" "$target.part/$(basename "$shared")"
    done
    run mv "$target.part" "$target"     # whole, or not at all
    activate "$name"
    say "$name is live"
}

switch() {
    exists "$1" || die "no release $1"
    [ "$1" != "$(current)" ] || die "$1 is live already"
    activate "$1"
    say "$1 is live"
}

rollback() {
    live=$(current)
    # The release before the current one, by name: names are times.
    before=
    for name in $(releases); do
        [ "$name" = "$live" ] && break
        before=$name
    done
    activate "$before"
    say "$before is live"
}

# ---- cleaning up ------------------------------------------------------------

clean() {
    live=$(current)
    count=$(releases | wc -l)
    for name in $(releases); do
        [ "$count" -gt "$KEEP" ] || break
        if [ "$name" = "$live" ]; then
            warn "$name is live and stays"
        else
            run rm -rf "$ROOT/releases/$name"
        fi
        count=$((count - 1))
    done
    for part in "$ROOT"/releases/*.part; do
        [ -e "$part" ] || continue
        run rm -rf "$part"
    done
}

list() {
    live=$(current)
    releases | while read -r name; do
        if [ "$name" = "$live" ]; then
            say "* $name"
        else
            say "  $name"
        fi
    done
}

status() {
    live=$(current)
    if [ -z "$live" ]; then
        say "nothing is live"
        return 1
    fi
    say "$live is live"
    if ! exists "$live"; then
        warn "but its folder is gone"
        return 1
    fi
}

# ---- the command line -------------------------------------------------------

while getopts nk:r: option; do
    case $option in
        n) DRY=yes ;;
        k) number "$OPTARG" || die "-k needs a number"; KEEP=$OPTARG ;;
        r) ROOT=$OPTARG ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))

[ $# -ge 1 ] || usage
command=$1; shift
case $command in
    init)     [ $# -eq 0 ] || usage; init ;;
    push)     [ $# -eq 1 ] || usage; lock; push "$1" ;;
    switch)   [ $# -eq 1 ] || usage; lock; switch "$1" ;;
    rollback) [ $# -eq 0 ] || usage; lock; rollback ;;
    clean)    [ $# -eq 0 ] || usage; lock; clean ;;
    list)     [ $# -eq 0 ] || usage; list ;;
    status)   [ $# -eq 0 ] || usage; status ;;
    *)        usage ;;
esac
