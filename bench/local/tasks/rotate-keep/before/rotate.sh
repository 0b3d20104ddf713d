#!/bin/sh
# Rotate a log file: LOG becomes LOG.1, LOG.1 becomes LOG.2 and so on.
# usage: rotate.sh LOG
set -eu

log=$1
keep=5

if [ ! -f "$log" ]; then
	echo "rotate: no file $log" >&2
	exit 1
fi

# the oldest goes, the others move up by one
rm -f "$log.$keep"
n=$keep
while [ "$n" -gt 1 ]; do
	before=$((n - 1))
	if [ -f "$log.$before" ]; then
		mv "$log.$before" "$log.$n"
	fi
	n=$before
done

mv "$log" "$log.1"
: > "$log"		# the writer expects the file to be there
