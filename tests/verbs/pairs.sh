# SPDX-License-Identifier: MIT OR Apache-2.0
# Pairs of programs, a server and a client; for tests/verbs/check.sh. Wants $out, $preloaded, ok() and bad().
patience=$("$here/../patience.sh" 60)
port=$((20000 + $$ % 20000))
# Waits until somebody listens at a port (the server's first step).
listens() {
    local hex i
    hex=$(printf ':%04X ' "$1")
    for i in $(seq 600); do
        awk -v p="$hex" '$4 == "0A" && index($2 " ", p) {found = 1} END {exit !found}' /proc/net/tcp /proc/net/tcp6 2>/dev/null && return
        sleep 0.05
    done
    return 1
}
# Runs both with an environment.
both() { # NAME=VALUE program arguments
    local setting=$1 server code served
    shift
    port=$((port + 1))
    env "$setting" timeout $patience "$1" -p $port "${@:2}" >"$out/server.log" 2>&1 &
    server=$!
    listens $port
    env "$setting" timeout $patience "$1" -p $port "${@:2}" 127.0.0.1 >"$out/client.log" 2>&1
    code=$?
    wait $server
    served=$?
    if [ $code = 0 ] && [ $served = 0 ]; then ok; else bad "$* ($code, $served): $(tail -n 2 "$out/client.log" | tr '\n' ' ') | $(tail -n 2 "$out/server.log" | tr '\n' ' ')"; fi
}
pair() { both "LD_PRELOAD=$preloaded" "$@"; }
by_library() { both "LD_LIBRARY_PATH=$out/bellwire-verbs" "$@"; }
