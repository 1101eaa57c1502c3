#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# bellwire perf over UDP, in its quick form: over loopback, and between two network namespaces where
# there may be any; and over calls of SISCI. Every figure of ours and every limit must be there;
# nothing is left of the namespaces, neither in the end nor after an interrupt. BELLWIRE is the
# command.
set -u
bellwire=${BELLWIRE:-bellwire}
json=$(mktemp) || exit 1
trap 'rm -f "$json"' EXIT
passed=0 failed=0
check() { # what, command ..
    local what=$1
    shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $what"; fi
}
# The figure of a metric, a series and a size is there and is more than nothing.
has() { # metric, series, size
    python3 - "$json" "$@" <<'PY'
import json, sys
path, metric, series, size = sys.argv[1:]
found = [f for f in json.load(open(path))["figures"] if (f["metric"], f["series"], f["size"]) == (metric, series, int(size))]
sys.exit(0 if found and found[0]["median"] > 0 else 1)
PY
}
wire_is() { python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["wire"] != sys.argv[2])' "$json" "$1"; }
left() { ls -d /run/netns/bellwire-perf-"$1"-* 2> /dev/null; }
none_left() { [ -z "$(left "$1")" ]; }

figures() { # wire
    check "the wire is named" wire_is "$1"
    for figure in "latency bellwire 8" "rate bellwire 56" "write-bandwidth bellwire 65536" "blocking blocking 8"; do
        check "$1: $figure" has $figure
    done
    check "$1: bare UDP" has latency "bare UDP" 8
    check "$1: bare TCP" has blocking "bare TCP" 8
    check "$1: bare stream of datagrams" has write-bandwidth "UDP, GSO+GRO" 65536
}
# No other libraries: they take long. An empty path hides them, but ip must be found.
tools=$(mktemp -d) || exit 1
trap 'rm -f "$json"; rm -rf "$tools"' EXIT
timeout=$(command -v timeout)
ip=$(PATH=$PATH:/usr/sbin:/sbin command -v ip) && ln -s "$ip" "$tools/ip"
command=$(command -v "$bellwire") || { echo "no $bellwire"; exit 1; }
quick() { env PATH="$tools" "$timeout" 400 "$command" perf --wire udp --compare --quick --rounds 1 --make-up 0 --quiet --json "$json" "$@"; }

# The ways at the sockets alone, of which decision 14 has the figures.
ways() { cc -O1 -Wall -Wextra -Werror -o "$tools/udp_ways" research/udp-ways/udp_ways.c && timeout 120 "$tools/udp_ways" -r 1 -t 2 >"$tools/ways" && [ "$(grep -cE '[0-9]\.[0-9]+ +[0-9]+\.[0-9]+$' "$tools/ways")" = 12 ]; }
check "research/udp-ways" ways
check "over loopback" quick --only lat,rate,write,wait > /dev/null
figures udp-loopback

quick --netns --only lat,rate,write,wait > /dev/null 2> "$tools/said"
status=$?
if [ $status = 77 ]; then
    cat "$tools/said"
    check "the reason is named" grep -q '^SKIPPED: ' "$tools/said"
else
    check "between namespaces: $(cat "$tools/said")" [ $status = 0 ]
    figures udp-netns
    "$command" perf --wire udp --netns --without-library --compare --quiet --only lat > /dev/null 2>&1 &
    process=$!
    for _ in $(seq 100); do
        [ "$(left $process | wc -l)" = 2 ] && break
        sleep 0.05
    done
    check "the namespaces are there" [ "$(left $process | wc -l)" = 2 ]
    kill -TERM $process
    for _ in $(seq 100); do
        kill -0 $process 2> /dev/null || break
        sleep 0.05
    done
    check "a signal ends it" sh -c '! kill -0 "$1" 2> /dev/null' - $process
    kill -KILL $process 2> /dev/null
    wait $process 2> /dev/null
    check "nothing is left after a signal" none_left $process
fi
check "what is not measured over UDP is refused" sh -c '! "$1" perf --wire udp --only vis 2> /dev/null' - "$command"

# Over calls of SISCI, of the library beside the command.
sisci=${BELLWIRE_LIBSISCI:-$(dirname "$command")/libsisci.so}
if [ -e "$sisci" ]; then
    check "over SISCI" env BELLWIRE_LIBSISCI="$sisci" "$timeout" 200 "$command" perf --wire sisci --quick --rounds 1 --make-up 0 --quiet --json "$json" --only lat,write > /dev/null
    check "the wire is named" wire_is sisci
    for figure in "latency bellwire 8" "latency bellwire 65536" "write-bandwidth bellwire 65536"; do check "sisci: $figure" has $figure; done
    check "what is not measured over SISCI is refused" sh -c '! "$1" perf --wire sisci --only vis 2> /dev/null' - "$command"
else
    echo "SKIPPED over SISCI: no $sisci"
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
