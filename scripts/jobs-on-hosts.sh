# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
# Sourced after two-hosts.sh: jobs whose processes are on the two hosts in turn.

# A process of the job, on the host that its number says.
cat >"$log/.place" <<'PLACE'
#!/bin/sh
if [ $((PMI_RANK % 2)) = 0 ]; then exec ip netns exec "$HOST_A" env BELLWIRE_ADDRESS="$ADDRESS_A" "$@"; fi
exec ip netns exec "$HOST_B" env BELLWIRE_ADDRESS="$ADDRESS_B" "$@"
PLACE
chmod +x "$log/.place"
job() { # processes, program..
    local n=$1
    shift
    HOST_A=$a HOST_B=$b ADDRESS_A=${address[$a]} ADDRESS_B=${address[$b]} timeout -s KILL 300 "$bellwire" run -n "$n" "$log/.place" "$@"
}
