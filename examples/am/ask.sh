#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# A server of the example `ask` and a client that is told its name: ask.sh PROGRAM [ROUNDS]. Where either runs may be said by $SERVER and $CLIENT, commands to be put before the program.
names=$(mktemp) || exit 1
trap 'rm -f "$names"' EXIT
$SERVER timeout 60 "$1" server >"$names" &
server=$!
tries=0
until [ -s "$names" ]; do
    tries=$((tries + 1))
    if [ $tries -gt 300 ] || ! kill -0 $server 2>/dev/null; then echo "the server says no name" >&2; exit 1; fi
    sleep 0.1
done
if ! $CLIENT timeout 60 "$1" client "$(head -n 1 "$names")" "${2:-1000}"; then kill $server 2>/dev/null; exit 1; fi
wait $server || exit 1
tail -n 1 "$names"
