#!/bin/sh
fail() { echo "FAIL: $1"; exit 1; }
here=$(dirname "$0")

out=$(bin/wait-for "$here/wait_test.sh" 0) || fail "a file that is there must be found"
[ "$out" = "$here/wait_test.sh is there" ] || fail "wrong message: $out"

out=$(bin/wait-for no-such-file 0 2>/dev/null)
code=$?
[ "$code" -eq 3 ] || fail "a time-out must exit with 3, not $code"
[ -z "$out" ] || fail "the message of a time-out must not be on standard output"
err=$(bin/wait-for no-such-file 0 2>&1 >/dev/null)
case $err in
  *"did not come within 0 s"*) ;;
  *) fail "the message of a time-out must be on standard error, there is: $err" ;;
esac
echo ok
