#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Instructions of a message and of a packet over UDP, by parts, counted by callgrind (user space; a system call counts as one, and so does each byte of a copy by `rep movsb`): the table of docs/perf.md.
# `udp-cost.sh [MESSAGES [WRITES]]`. Exit status 77 without valgrind.
set -eu
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
command -v valgrind >/dev/null || { echo "SKIPPED udp-cost: no valgrind"; exit 77; }
messages=${1:-4000} writes=${2:-300}
cargo build -q --release -p bellwire-via --example udp_cost
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# run WHAT COUNT FUNCTION: counts what FUNCTION calls.
run() {
    valgrind --tool=callgrind --callgrind-out-file="$out/$3" --toggle-collect="*counted_$3*" "$target/release/examples/udp_cost" "$1" "$2" >"$out/$3.said" 2>"$out/$3.log" || { cat "$out/$3.log"; exit 1; }
}

# Sums the costs of a profile by the part that a line of source belongs to. What the compiler has inlined from the standard library belongs to whoever it was inlined into.
parts() { # function, divisor, title
    awk -v divisor="$2" -v title="$3" '
        function part_of(file) {
            if (file ~ /crates\/proto\//) return "transport"
            if (file ~ /crates\/via\/src\/wire\//) return "wire"
            if (file ~ /memmove|memcpy/) return "copying"
            if (file ~ /crates\/(via|memory|time)\//) return "engine"
            if (file ~ /rustix|quinn|vdso|sysdeps\/unix|\/socket\//) return "system"
            return ""
        }
        function name_of(text,   id) {
            if (match(text, /^\([0-9]+\)/)) {
                id = substr(text, 1, RLENGTH)
                if (length(text) > RLENGTH) names[id] = substr(text, RLENGTH + 2)
                return names[id]
            }
            return text
        }
        function function_name(text,   id) {
            if (match(text, /^\([0-9]+\)/)) {
                id = substr(text, 1, RLENGTH)
                if (length(text) > RLENGTH) functions[id] = substr(text, RLENGTH + 2)
                return functions[id]
            }
            return text
        }
        /^fl=/ { own = part_of(name_of(substr($0, 4))); part = own; next }
        /^f[ie]=/ { part = part_of(name_of(substr($0, 4))); next }
        /^cf[il]=/ { name_of(substr($0, 5)); next }
        /^cfn=/ { function_name(substr($0, 5)); next }
        /^fn=/ {
            called = function_name(substr($0, 4))
            if (called ~ /memmove|memcpy/) own = "copying"
            else if (own == "") own = called ~ /bellwire_proto/ ? "transport" : called ~ /wire::/ ? "wire" : called ~ /bellwire/ ? "engine" : "system"
            if (part == "") part = own
            next
        }
        /^calls=/ { skip = 1; next }
        /^[-+*0-9]/ && NF == 2 {
            if (skip) { skip = 0; next }
            p = part == "" ? own : part
            cost[p] += $2
            all += $2
        }
        END {
            printf "%-34s", title
            split("engine transport wire system copying", order, " ")
            for (i = 1; i <= 5; i++) printf " %9.0f", cost[order[i]] / divisor
            printf " %9.0f\n", all / divisor
        }' "$out/$1"
}

run message "$messages" send
run message "$messages" take
run write "$writes" initiator
run write "$writes" target
said() { tr ' ' '\n' <"$out/$1.said" | grep -A1 "^$2\$" | tail -n 1; }
printf '%-34s %9s %9s %9s %9s %9s %9s\n' "instructions of" engine transport wire system copying all
parts send "$(said send send)" "8 bytes: post and send"
parts take "$(said take take)" "8 bytes: receive"
parts initiator "$(said initiator packets)" "packet of an RDMA write: initiator"
parts target "$(said target packets)" "packet of an RDMA write: target"
