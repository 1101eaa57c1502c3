#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# `bellwire run --verbs` as it is installed: both packagings, what it explains, the strict mode, what it refuses, other users, what it leaves behind.
#   tests/verbs/command.sh PREFIX OUT       PREFIX: where make install put everything; OUT has tests/verbs/check.sh's programs
set -u
bellwire=$1/bin/bellwire out=$2 prefix=$1
if ! command -v ibv_rc_pingpong >/dev/null 2>&1 || [ ! -x "$out/strict" ]; then
    echo "SKIPPED run --verbs: no ibverbs-utils, or no $out/strict"
    exit 0
fi
unset BELLWIRE_ADDRESS LD_PRELOAD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAILED $*"; }
# says STATUS TEXT COMMAND..: it ends with that status, and says that text.
says() {
    local status=$1 text=$2 said is
    shift 2
    said=$(timeout 60 "$@" 2>&1 </dev/null)
    is=$?
    if [ $is = "$status" ] && [[ $said == *"$text"* ]]; then ok; else bad "$*: status $is (expected $status), which should say \"$text\": $(head -c 600 <<<"$said")"; fi
}
# A server and a client, each run so; the server's end, then the client's.
pingpong() { # port, command and options
    local port=$1 server code
    shift
    timeout 60 "$@" ibv_rc_pingpong -g 0 -n 200 -p "$port" >"$work/server" 2>&1 &
    server=$!
    for _ in $(seq 100); do
        awk -v p="$(printf ':%04X ' "$port")" '$4 == "0A" && index($2 " ", p) {found = 1} END {exit !found}' /proc/net/tcp /proc/net/tcp6 2>/dev/null && break
        sleep 0.05
    done
    timeout 60 "$@" ibv_rc_pingpong -g 0 -n 200 -p "$port" 127.0.0.1 >"$work/client" 2>&1
    code=$?
    wait $server && [ $code = 0 ] && grep -q '200 iters in' "$work/client"
}
port=$((20000 + $$ % 20000))

# ---- both packagings; what a program finds
for how in --verbs --verbs=preload --verbs=replace; do
    says 0 bellwire0 "$bellwire" run "$how" ibv_devices
    port=$((port + 1))
    if pingpong $port "$bellwire" run "$how"; then ok; else bad "ibv_rc_pingpong by run $how: $(tail -n 2 "$work/client" "$work/server")"; fi
done
# The libraries' variables that were set already stay.
says 0 "libbellwire-verbs.so:libm.so.6" env LD_PRELOAD=libm.so.6 "$bellwire" run --verbs printenv LD_PRELOAD
says 0 "bellwire-verbs:/nonexistent" env LD_LIBRARY_PATH=/nonexistent "$bellwire" run --verbs=replace printenv LD_LIBRARY_PATH
# The program's own end is the command's.
says 7 "" "$bellwire" run --verbs sh -c 'exit 7'

# ---- what it says that it did
says 0 "verbs: LD_PRELOAD=$prefix/lib/bellwire/libbellwire-verbs.so" "$bellwire" run --verbs --explain ibv_devices
says 0 "verbs: LD_LIBRARY_PATH=$prefix/lib/bellwire/bellwire-verbs" "$bellwire" run --verbs=replace --explain ibv_devices
says 0 "verbs: device bellwire0 at 127.0.0.1: this host only; BELLWIRE_ADDRESS=auto" "$bellwire" run --verbs --explain ibv_devices
says 0 "verbs: device bellwire0 at 127.0.0.2 (BELLWIRE_ADDRESS)" env BELLWIRE_ADDRESS=127.0.0.2 "$bellwire" run --verbs --explain ibv_devices
says 0 "verbs: BELLWIRE_VERBS_STRICT=json:$work/a" "$bellwire" run --verbs --strict=json:"$work/a" --explain ibv_devices
if [ "$("$bellwire" run --verbs ibv_devices 2>&1 | grep -c 'verbs:')" = 0 ]; then ok; else bad "it explains unasked"; fi
for option in --verbs --strict --explain; do says 0 "$option" "$bellwire" run --help; done

# ---- the strict mode
says 0 "bellwire-verbs: strict: key: queue pair" "$bellwire" run --verbs --strict "$out/strict" keys bad
says 0 '"rule":"key"' "$bellwire" run --verbs --strict=json "$out/strict" keys bad
(cd "$work" && "$bellwire" run --verbs --strict=text:reports -C / "$out/strict" keys bad >/dev/null 2>&1)
if grep -q 'strict: key' "$work/reports" 2>/dev/null; then ok; else bad "no reports in the file that the caller named"; fi
says 2 "text or json" "$bellwire" run --verbs --strict=loud ibv_devices
says 2 "--verbs" "$bellwire" run --strict ibv_devices

# ---- what cannot be
says 2 "preload, replace" "$bellwire" run --verbs=kernel ibv_devices
mkdir -p "$work/alone/bin" && cp "$bellwire" "$work/alone/bin/"
says 1 "make install puts it there" "$work/alone/bin/bellwire" run --verbs ibv_devices
says 127 "nonexistent" "$bellwire" run --verbs /nonexistent/program

# ---- another user, who may do nothing more than others; no file is made but in his own places
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null 2>&1; then
    mkdir -p "$work/home" && chmod 755 "$work" && chown 65534:65534 "$work/home"
    other=(setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all env HOME="$work/home" TMPDIR="$work/home")
    if "${other[@]}" test -x "$bellwire" 2>/dev/null; then
        port=$((port + 1))
        if pingpong $port "${other[@]}" "$bellwire" run --verbs; then ok; else bad "ibv_rc_pingpong as another user: $(tail -n 2 "$work/client" "$work/server")"; fi
    else
        echo "SKIPPED another user: $prefix cannot be read by others"
    fi
fi
if command -v strace >/dev/null 2>&1; then
    strace -f -qq -e trace=openat,open,creat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,mknod,mknodat -o "$work/trace" "$bellwire" run --verbs "$out/events" >/dev/null 2>&1
    made=$(grep -E 'O_CREAT|^[0-9]+ +(creat|mkdir|rename|link|symlink|mknod)' "$work/trace" | grep -vE ' = -1 |"/dev/shm/bellwire|"/tmp/bellwire|"/run/user/')
    if [ -s "$work/trace" ] && [ -z "$made" ]; then ok; else bad "files are made: $(head -n 3 <<<"$made")"; fi
fi

echo "$passed well, $failed failed"
[ $failed = 0 ]
