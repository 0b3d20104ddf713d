#!/bin/sh
set -eu
NOTES=$(mktemp -d)
export NOTES
trap 'rm -rf "$NOTES"' EXIT
fail() { echo "FAIL: $1"; exit 1; }

echo "bread and tea" | sh notes add shopping
echo "tea for two" | sh notes add _draft
sh notes list | grep -q '^shopping  *bread and tea$' || fail "notes list lacks the note shopping"
if sh notes list | grep -q '_draft'; then fail "notes list shows the hidden note _draft"; fi
sh notes find tea | grep -q '^_draft$' || fail "notes find does not find the hidden note _draft"
sh notes show _draft | grep -q 'two' || fail "notes show _draft does not show it"
echo ok
