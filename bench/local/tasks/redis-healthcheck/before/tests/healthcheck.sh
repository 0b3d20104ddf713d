#!/bin/sh
# Has the service a healthcheck with this command? healthcheck.sh SERVICE COMMAND
block=$(awk -v name="  $1:" '$0 == name {on=1; next} /^  [a-z]/ || /^[a-z]/ {on=0} on' compose.yml)
echo "$block" | grep -q '^    healthcheck:$' || { echo "$1 has no healthcheck"; exit 1; }
for word in test interval timeout retries; do
  echo "$block" | grep -q "^      $word: " || { echo "the healthcheck of $1 has no $word"; exit 1; }
done
echo "$block" | grep '^      test: ' | grep -q -- "$2" || { echo "the healthcheck of $1 does not run $2"; exit 1; }
