# SPDX-License-Identifier: MIT OR Apache-2.0
# Sourced by run.sh: every operation through every kind of wrong pointer (wrong/operations.sc). Compiled with -g and checking, each ends the job with the line of the source, over shared memory and by packets;
# without checking it ends the job too where it could do harm. Nothing else of any process's memory has changed.
source=$here/wrong/operations.sc
mapfile -t operations < <(sed -n 's/.*CASE("\([^"]*\)").*/\1/p' "$source")
"$splitcc" -w -O1 -g -fsplitc-check "$source" -o "$work/checked" > "$work/log" 2>&1 && "$splitcc" -w -O2 "$source" -o "$work/unchecked" >> "$work/log" 2>&1
result "wrong pointers: compile" $? "$work/log"
# Of bytes and bulk nothing is unaligned; without checking, a word that is not aligned is no mistake that a processor minds, atomics aside.
is_aligned() { case $1 in bulk_*|*char|atomic) true ;; *) false ;; esac; }
said=0
wrong_one() { # program, operation, kind, shared memory, pattern
    BELLWIRE_SHM=$4 timeout -s KILL 20 "$bellwire" run -n 2 "$work/$1" "$2" "$3" > "$work/log" 2>&1
    local status=$?
    said=$((said + 1))
    [ $status != 0 ] && [ $status != 137 ] && grep -qE -- "$5" "$work/log" && ! grep -qE 'CHANGED|went on' "$work/log"
}
# All kinds for each operation with WRONG=long; else each has one kind over shared memory and another one by packets, and some have all.
kinds=(null nowhere process odd own last)
is_its_turn() { # number of the operation, its name, number of the kind, shared memory
    [ "${WRONG:-short}" = long ] && return 0
    case $2 in read | put | struct-get | bulk_store | exchange) return 0 ;; esac
    local turn=$1
    [ "$4" = off ] && turn=$(($1 + 2))
    [ $((turn % 4)) = "$3" ]
}
for way in on off; do
    for k in "${!kinds[@]}"; do
        kind=${kinds[k]} missing=
        for o in "${!operations[@]}"; do
            operation=${operations[o]}
            [ $kind = odd ] && is_aligned "$operation" && continue
            is_its_turn "$o" "$operation" "$k" $way || continue
            line=$(grep -n "/\* $operation \*/" "$source" | cut -d : -f 1)
            case $kind in
            null | nowhere | own) why='no memory is there' ;;
            process) why='there is no process 77' ;;
            last) why='there is no process 65535' ;;
            odd) why='not aligned to [248]' ;;
            esac
            wrong_one checked "$operation" $kind $way "process 1: .*operations.sc:$line:[0-9]+: .*$why" || { missing="$missing $operation"; cp "$work/log" "$work/missed"; }
        done
        [ -z "$missing" ]
        result "wrong pointers: $kind, shared memory $way:$missing" $? "$work/missed"
    done
    # Without checking there is no line, and what is not aligned is no mistake that a processor minds: an error or a fault, and nothing written.
    missing=
    for o in "${!operations[@]}"; do
        for k in 0 1 2; do
            is_its_turn "$o" "${operations[o]}" "$k" $way || continue
            wrong_one unchecked "${operations[o]}" "${kinds[k]}" $way 'process 1: .* global pointer to process [0-9]+, address 0x[0-9a-f]+: (no memory is there|there is no process)' || { missing="$missing ${operations[o]}/${kinds[k]}"; cp "$work/log" "$work/missed"; }
        done
    done
    [ -z "$missing" ]
    result "wrong pointers without checking, shared memory $way:$missing" $? "$work/missed"
done
echo "wrong pointers: $said runs"
