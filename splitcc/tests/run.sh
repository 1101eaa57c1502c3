#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The tests of splitcc: programs on 1, 2 and 4 processes over shared memory, on 2 and 3 by packets,
# messages, debug information, the cost of local code and of words, killed processes.
# PARTS=vis: accesses by VIs of libvipl instead (vis.sh).
#   tests/run.sh BUILD [BELLWIRE]       BUILD: the folder of make; BELLWIRE: the command that starts processes
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
bellwire=${2:-bellwire}
splitcc=$build/bin/splitcc
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
faults=loss=0.05,dup=0.05,reorder=0.05:300us,seed=$$

result() { # name, status, file with output
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $1"
        head -n 20 "$3" | sed 's/^/    /'
    fi
}

for part in ${PARTS:-programs messages wrong interface debug speed killed}; do
    # shellcheck source=/dev/null
    . "$here/$part.sh"
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
