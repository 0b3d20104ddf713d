#!/bin/sh
# Run from the top of the repository.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "FAIL: $1"; exit 1; }

for i in 1 2 3 4 5 6 7; do
	echo "$i" > "$dir/a.log"
	sh rotate.sh "$dir/a.log"
done
[ "$(cat "$dir/a.log.1")" = 7 ] || fail "the newest old log is not a.log.1"
[ -f "$dir/a.log.5" ] || fail "5 old logs are kept when no number is given"
[ ! -f "$dir/a.log.6" ] || fail "more than 5 old logs were kept when no number is given"

for i in 1 2 3 4; do
	echo "$i" > "$dir/b.log"
	sh rotate.sh "$dir/b.log" 2
done
[ "$(cat "$dir/b.log.2")" = 3 ] || fail "rotate.sh LOG 2: b.log.2 is not the second newest"
[ ! -f "$dir/b.log.3" ] || fail "rotate.sh LOG 2: more than 2 old logs were kept"
echo ok
