#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Breaks one operation at a time, in a copy, and sees that the random programs (random.sh) find it: a test that has never found anything may be none.
#   mutations.sh XTASK BUILD BELLWIRE FOLDER LIB       as random.sh; LIB: folder of libbellwire_gas_c.so
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
xtask=$1 build=$(cd "$2" && pwd) bellwire=$3 folder=$4 lib=$(cd "$5" && pwd)
rm -rf "$folder"
mkdir -p "$folder/tree/ffi/gas"
cp -a "$here/splitcc" "$folder/tree/splitcc"
cp -a "$here/ffi/gas/include" "$folder/tree/ffi/gas/include"
header=$folder/tree/ffi/gas/include/bellwire_gas.h runtime=$folder/tree/splitcc/runtime/inline.c
found=0 missed=0

mutate() { # what is wrong then, file, words of the line, replacement, in which of them
    local what=$1 file=$2 from=$3 to=$4 which=${5:-1}
    cp -a "$file" "$folder/sound"
    FROM=$from TO=$to WHICH=$which perl -0pi -e '
        my ($from, $to, $which, $n) = ($ENV{FROM}, $ENV{TO}, $ENV{WHICH}, 0);
        s/\Q$from\E/++$n == $which ? $to : $from/ge' "$file"
    if cmp -s "$file" "$folder/sound"; then
        echo "FAILED mutation: $what: the place is not there any more"
        missed=$((missed + 1))
        return
    fi
    rm -rf "$folder/build"
    cp -a "$build" "$folder/build"
    if ! make -s -C "$folder/tree/splitcc" LIB="$lib" OUT="$folder/build" > "$folder/log" 2>&1; then
        echo "FAILED mutation: $what: it does not build"
        head -n 5 "$folder/log"
        missed=$((missed + 1))
    elif FIRST_ONLY=1 LIMIT=20 "$here/splitcc/tests/random.sh" "$xtask" "$folder/build" "$bellwire" "$folder/programs" 1 12 3 > "$folder/log" 2>&1; then
        echo "FAILED mutation: $what: not found"
        missed=$((missed + 1))
    else
        echo "found: $what ($(grep -m 1 '^FAILED' "$folder/log"))"
        found=$((found + 1))
    fi
    cp -a "$folder/sound" "$file"
    touch "$file"
}

near='*(volatile type *)(peer->base + offset) = value;'
mutate "a read takes one byte" "$header" 'value = *(const volatile type *)(peer->base + offset)' 'value = (type)*(const volatile uint8_t *)(peer->base + offset)'
mutate "a write leaves out the upper half" "$header" "$near" '*(volatile type *)(peer->base + offset) = (type)(value & (type)~(type)0 >> (sizeof(type) > 4 ? 8 * sizeof(type) / 2 : 0));' 1
mutate "a get goes to the next place" "$header" '*(type *)to = *(const volatile' '((type *)to)[sizeof(type) == 4] = *(const volatile'
mutate "a put of a short is not made" "$header" "$near" '{ if (sizeof(type) != 2) *(volatile type *)(peer->base + offset) = value; }' 2
mutate "a store changes a bit" "$header" "$near" '*(volatile type *)(peer->base + offset) = (type)(value ^ (sizeof(type) == 8));' 3
mutate "a get of many bytes is too short" "$runtime" 'gas_bulk_get(to, from, bytes)' 'gas_bulk_get(to, from, bytes > 16 ? 32 : bytes)'
mutate "a store of many bytes is a write, and is not counted" "$runtime" 'gas_bulk_store(to, from, bytes)' 'gas_bulk_write(to, from, bytes)'
echo "mutations of operations: $found found, $missed missed"
[ $missed = 0 ]
