#!/bin/sh
# Is this the limit of the route? limit.sh ROUTE REQUESTS PER
found=$(awk -v name="  $1:" '
  $0 == name {on=1; next}
  /^  [a-z#]/ || /^[a-z#]/ {on=0}
  on && /^    limit:/ {gsub(/[{},]/, ""); for (i=2; i<NF; i+=2) v[$i]=$(i+1)}
  on && /^      requests:/ {v["requests:"]=$2}
  on && /^      per:/ {v["per:"]=$2}
  END {print v["requests:"], v["per:"]}' config/routes.yml)
[ "$found" = "$2 $3" ] || { echo "the limit of $1 is '$found' and should be '$2 $3'"; exit 1; }
