#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Keys between two hosts (scripts/two-hosts.sh): programs run with a shared key and with keys of
# hosts; an attacker at each end of the wire (attacker.py) hears everything and forges without end,
# reads nothing and disturbs nothing; sides without the right key are told so.
#   check.sh DIR LIBDIR BELLWIRE     DIR holds the C examples, BELLWIRE is the command
bellwire=$3
source "$(dirname "$0")/../../scripts/two-hosts.sh"
command -v python3 >/dev/null || skip "no python3"
attacker=$(dirname "$0")/attacker.py
keys=$log/../bellwire-keys-$$
mkdir -m 700 "$keys"
trap 'cleanup; rm -rf "$keys"' EXIT
"$bellwire" key --shared "$keys/shared" >/dev/null || exit 1
"$bellwire" key --shared "$keys/other" >/dev/null || exit 1
echo "$here $("$bellwire" key "$keys/a")" >"$keys/hosts"
echo "$there $("$bellwire" key "$keys/b")" >>"$keys/hosts"
# The client believes the true server, and has a key of its own that nobody knows.
cp "$keys/hosts" "$keys/posing"
"$bellwire" key "$keys/stranger" >/dev/null || exit 1

pair() { # program, server's arguments, client's arguments, server's variables, client's variables; exit status of the client
    rm -f "$log"/server "$log"/client
    # A simple command, so that its number is the one of `timeout`, which ends the server too.
    # shellcheck disable=SC2086
    ip netns exec "$a" env BELLWIRE_ADDRESS="${address[$a]}" $4 timeout 100 "$examples/$1" server $2 >"$log/server" 2>&1 &
    local server=$!
    # shellcheck disable=SC2086
    on "$b" env $5 timeout 100 "$examples/$1" client --name "$1@$here" $3 >"$log/client" 2>&1
    local code=$?
    if [ $code -eq 0 ]; then wait $server; else kill $server 2>/dev/null; wait $server 2>/dev/null; fi
    return $code
}
both() { pair "$1" "$2" "$3" "$4" "$4"; }
shared=BELLWIRE_KEY_FILE=$keys/shared
field() { python3 -c 'import json, sys; print(json.loads(open(sys.argv[1]).readlines()[-1])[sys.argv[2]])' "$log/$1" "$2"; }

hears() { # namespace: waits until its attacker does
    for _ in $(seq 400); do
        [ -s "$log/attacker-$1" ] && return
        sleep 0.05
    done
    bad "the attacker in $1 does not begin"
}

attack() { # title, variables: all programs under attack
    local title=$1 began=$SECONDS
    attackers=
    for end in "$a" "$b"; do
        ip netns exec "$end" python3 "$attacker" eth0 60 kv_store pingpong rdma_write >"$log/attacker-$end" &
        attackers="$attackers $!"
    done
    hears "$a"
    hears "$b"
    if both kv_store "--clients 1" "--operations 2000" "$2" && both pingpong "--count 2000" "--count 2000" "$2" &&
        both pingpong "--size 300000 --count 30" "--size 300000 --count 30" "$2" && both rdma_write "" "--count 200" "$2"; then
        worked=1
    else
        worked=0
    fi
    # shellcheck disable=SC2086
    kill $attackers 2>/dev/null
    # shellcheck disable=SC2086
    wait $attackers
    told=0 forged=0
    for end in "$a" "$b"; do told=$((told + $(field "attacker-$end" told))); forged=$((forged + $(field "attacker-$end" forged))); done
    echo "    $title: worked $worked, $told packets told something, $forged forged, $((SECONDS - began)) s"
}

# The attacker is one: without keys it reads names.
rm -f "$log"/*
ip netns exec "$a" python3 "$attacker" eth0 20 kv_store >"$log/attacker-$a" &
listener=$!
hears "$a"
both kv_store "--clients 1" "--operations 100" "" || true
kill $listener 2>/dev/null
wait $listener
if [ "$(field "attacker-$a" told)" -gt 0 ]; then ok "without keys an attacker reads what connections ask for"; else bad "the attacker reads nothing even without keys"; fi

both pingpong "--count 3000" "--count 3000" "$shared" && ok "a shared key" || bad "a shared key"
if pair pingpong "--count 3000" "--count 3000" "BELLWIRE_KEY_FILE=$keys/a BELLWIRE_KEY_HOSTS=$keys/hosts" "BELLWIRE_KEY_FILE=$keys/b BELLWIRE_KEY_HOSTS=$keys/hosts"; then ok "keys of hosts"; else bad "keys of hosts"; fi
both rdma_write "" "--count 300" "$shared BELLWIRE_FAULTS=loss=0.05,dup=0.05,reorder=0.05:300us,seed=3" && ok "a shared key, packets lost, doubled, overtaken" || bad "a shared key and faults"

attack "a shared key" "$shared"
if [ $worked = 1 ] && [ $told = 0 ] && [ $forged -gt 1000 ]; then ok "an attacker reads nothing and disturbs nothing ($forged packets forged)"; else bad "attacked"; fi

# The programs say which key is missing, and nothing goes without it.
fails() { # title, server's variables, client's variables
    if pair pingpong "--count 10" "--count 10" "$2" "$3"; then bad "$1: it worked"; else ok "$1: $(tail -n 1 "$log/client")"; fi
}
fails "only the server has a key" "$shared" ""
fails "only the client has a key" "" "$shared"
fails "different keys" "$shared" "BELLWIRE_KEY_FILE=$keys/other"
fails "a host that poses as another" "BELLWIRE_KEY_FILE=$keys/a BELLWIRE_KEY_HOSTS=$keys/hosts" "BELLWIRE_KEY_FILE=$keys/stranger BELLWIRE_KEY_HOSTS=$keys/posing"
chmod 644 "$keys/shared"
fails "a key file that others can read" "$shared" "$shared"
chmod 600 "$keys/shared"
if BELLWIRE_KEY_FILE=$keys/shared "$bellwire" info | tr -s '[:space:]' ' ' | grep -c "authenticated and encrypted: BELLWIRE_KEY_FILE" >/dev/null; then ok "bellwire info names the key file"; else bad "bellwire info"; fi

[ $failed = 0 ] && echo "all well: $passed checks of keys"
exit $failed
