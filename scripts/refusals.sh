#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Wrong options, missing files, values that mean nothing, limits that are too low: each must end soon, with the status that is documented, and say what is wrong. No panic, no hang.
#   refusals.sh BELLWIRE EXAMPLES       EXAMPLES: the folder of the examples in C
set -u
bellwire=$1 examples=$2
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
unset BELLWIRE_VIPL BELLWIRE_MODE BELLWIRE_ADDRESS BELLWIRE_UDP BELLWIRE_SHM BELLWIRE_JOB_VIA BELLWIRE_JOB_TIMEOUT_S
good=0 bad=0

# refused STATUS TEXT COMMAND..: it ends (a measurement takes a minute beside many others) with that status and says that text, on its standard error or output, and nothing of a panic.
refused() {
    local status=$1 text=$2 said is
    shift 2
    said=$(timeout 300 "$@" 2>&1 </dev/null)
    is=$?
    if [ "$is" = "$status" ] && [[ $said == *"$text"* ]] && [[ $said != *panicked* ]]; then
        good=$((good + 1))
    else
        bad=$((bad + 1))
        echo "FAILED: $*: status $is (expected $status), which should say \"$text\": $(head -c 600 <<<"$said")"
    fi
}
# A measurement of a second, if it were not refused.
short=("$bellwire" perf --quick --only lat --rounds 1 --make-up 0 --quiet)

refused 2 "unrecognized subcommand" "$bellwire" nonsense
refused 2 "is not among the allowed ones" "$bellwire" perf --cpus 0,9999
refused 2 "two different processor numbers" "$bellwire" perf --cpus 0,0
refused 2 "there is no folder /nonexistent" "${short[@]}" --json /nonexistent/x.json
refused 2 "there is no folder /nonexistent" "${short[@]}" --plot /nonexistent/x.svg
refused 2 "cannot be written" "${short[@]}" --json /
refused 2 "there is no folder" "$bellwire" contend --json /nonexistent/x.json
refused 2 "there is no folder" "$bellwire" breakdown --json /nonexistent/x.json
refused 2 "there is no folder" "$bellwire" ni report --out /nonexistent/x.html
refused 2 "there is no folder" "$bellwire" sim logp --plot /nonexistent/x.svg
refused 2 "there is no folder" "$bellwire" sim --seed 3 --trace /nonexistent/x
refused 2 "there is no folder" "$bellwire" logp --json /nonexistent/x.json
refused 2 "there is no folder" "$bellwire" gas --plot /nonexistent/x.svg
refused 2 "there is no folder" "$bellwire" bench mpi --json /nonexistent/x.json
refused 2 "is not among the allowed ones" "$bellwire" contend --cpus 0,9999
refused 2 "no processors are named" "$bellwire" contend --cpus ""
refused 2 "a clause is name=value" "$bellwire" sim --faults nonsense
refused 2 "NAME=VALUE" "$bellwire" ni table5 --set nonsense
refused 2 "a number, or inf" "$bellwire" ni table5 --set memory_ns=much
refused 2 "of --layer vi" "$bellwire" logp --layer am --sizes 8
refused 2 "bellwire perf --compare" "$bellwire" logp --compare
refused 2 "nothing to plot" "$bellwire" logp --layer rpc --plot "$PWD/x.svg"
# One side fails, the other would wait for it.
refused 1 "VIP_ERROR_RESOURCE" bash -c "ulimit -n 24; $(printf '%q ' "${short[@]}")"
refused 1 "libvipl not found" "$bellwire" perf --lib /nonexistent/libvipl.so
refused 1 "invalid ELF header" "$bellwire" perf --lib /etc/passwd
refused 1 "is not measured over UDP" "$bellwire" perf --wire udp --only pairs
refused 1 "there is no process" "$bellwire" top 999999 --once
refused 1 "there is no process" "$bellwire" info --peer 999999

refused 127 "a program of this folder is ./nosuch" "$bellwire" run nosuch
refused 126 "may not be executed" "$bellwire" run /etc/passwd
refused 127 "there is no folder /nonexistent" "$bellwire" run -C /nonexistent true
refused 2 "is not set here" "$bellwire" run -x BELLWIRE_NO_SUCH_VARIABLE true
refused 2 "the job's ranks are 0 to 1" "$bellwire" run --stdin 7 -n 2 true
refused 2 "there is no folder" "$bellwire" run --json /nonexistent/x true
refused 124 "(--timeout); ending it" "$bellwire" run --timeout 0.2 sleep 20
refused 2 "1: a probability lies between 0 and 1" "$bellwire" sim --faults loss=1.1
refused 1 "No such file" "$bellwire" sim --topology /nonexistent
refused 2 "lists them" "$bellwire" ni table5 --set nosuch=3
refused 1 "No such file" "$bellwire" ni sweep /nonexistent.toml

# Variables of the environment: what it must be, and what it is.
refused 1 'BELLWIRE_MODE must be "mapped" or "guarded"; it is "open"' env BELLWIRE_MODE=open "$examples/pingpong" --count 10
refused 1 'it is ""' env BELLWIRE_SPIN_US= "$examples/pingpong" --count 10
refused 1 'it is "-1"' env BELLWIRE_SPIN_US=-1 "$examples/pingpong" --count 10
refused 1 'must be "auto", "never" or "always"' env BELLWIRE_ATTACH=perhaps "$examples/pingpong" --count 10
refused 1 'must be "auto", "no-ptrace" or "never"' env BELLWIRE_ADOPT=off "$examples/pingpong" --count 10
refused 1 'must be "trust" or "strict"' env BELLWIRE_MEMORY=perhaps "$examples/pingpong" --count 10
refused 1 '"intervals", "page-hash" or "off"' env BELLWIRE_REGISTRATION_CACHE=lru "$examples/pingpong" --count 10
refused 1 "1024 to 1048576" env BELLWIRE_TURN_BYTES=0 "$examples/pingpong" --count 10
refused 1 "the name of an interface" env BELLWIRE_ADDRESS=300.1.1.1 "$examples/pingpong" --count 10
refused 1 "must be one of this host's" env BELLWIRE_ADDRESS=192.0.2.1 "$examples/pingpong" --count 10
refused 1 '"off", "on" or "native"' env BELLWIRE_ADDRESS=127.0.0.2 BELLWIRE_UDP=on BELLWIRE_XDP=yes "$examples/pingpong" --count 10
refused 1 "a port, 1 to 65535" env BELLWIRE_DIRECTORY_PORT=0 "$examples/pingpong" --count 10
refused 1 "a plan of faults" env BELLWIRE_FAULTS=loss=2 "$examples/pingpong" --count 10
refused 1 "it may be auto, pmi, pmix or alone" env BELLWIRE_JOB_VIA=foo "$examples/ring"
refused 1 "it is a number of seconds above 0" env BELLWIRE_JOB_TIMEOUT_S=x "$bellwire" run -n 2 "$examples/ring" --rounds 10
refused 1 "which is no descriptor here" env PMI_FD=77 PMI_RANK=0 PMI_SIZE=2 "$examples/ring"

# Limits.
refused 1 "ulimit -n" bash -c "ulimit -n 10; exec $examples/pingpong --count 10"
refused 1 "ulimit -f unlimited" bash -c "ulimit -f 100; exec $examples/pingpong --count 10"

# The examples.
refused 1 "is not an option here" "$examples/pingpong" --coumt 10
refused 1 "is not a number" "$examples/pingpong" --count ten
refused 1 "no server waits under the name" "$examples/pingpong" client --name "nobody $$"
refused 1 "--clients must be 1 to 256" "$examples/kv_store" --clients 0

if [ "$bad" = 0 ]; then
    echo "all well: $good wrong uses were refused with a reason"
else
    echo "$bad of $((good + bad)) wrong uses were not refused as they should be"
    exit 1
fi
