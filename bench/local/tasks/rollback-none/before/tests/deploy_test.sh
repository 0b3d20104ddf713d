#!/bin/sh
set -u
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
deploy() { sh deploy.sh -r "$root/app" "$@"; }
fail() { echo "FAIL: $1"; exit 1; }

deploy init
RELEASE_NAME=2024a deploy push tests >/dev/null || fail "push"
out=$(deploy rollback 2>&1) && fail "rollback without an earlier release must fail"
case $out in
    *"no earlier release"*) ;;
    *) fail "rollback must say 'no earlier release', it says: $out" ;;
esac
[ "$(readlink "$root/app/current")" = releases/2024a ] || fail "the link current has changed: $(readlink "$root/app/current")"
RELEASE_NAME=2024b deploy push tests >/dev/null || fail "push again"
[ "$(deploy rollback)" = "2024a is live" ] || fail "rollback with an earlier release"
[ "$(readlink "$root/app/current")" = releases/2024a ] || fail "rollback did not change the link"
echo ok
