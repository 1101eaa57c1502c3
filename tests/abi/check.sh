#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Compares sonames, symbols with their versions, and the sizes and numbers of the headers with those
# of the last release (tests/abi/released).
#
#   tests/abi/check.sh PREFIX OUT            PREFIX: an installation (`make install`); OUT: a folder
#   tests/abi/check.sh PREFIX OUT release    at a release: its list becomes the one to compare with
#
# It tells new names, which are no failure: a release takes them into the list. A name that is gone
# or differs is one: installed programs would not start, or would go wrong.
set -u
cd "$(dirname "$0")/../.." || exit 1
prefix=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2") released=tests/abi/released
. packaging/checks.sh

# soname and symbols: "library SONAME name", "library symbol name[@version]". objdump is binutils'.
symbols_of() { # prefix
    local file name
    for file in "$1"/lib/libvipl.so.1 "$1"/lib/libbellwire_am.so.1 "$1"/lib/libbellwire_job.so.1 "$1"/lib/libsisci.so.1 \
        "$1"/lib/bellwire/libbellwire-fi.so "$1"/lib/bellwire/libbellwire-verbs.so "$1"/lib/bellwire/bellwire-verbs/libibverbs.so.1; do
        name=$(basename "$file")
        # It brings the names of the other one.
        [ $name != libibverbs.so.1 ] || objdump -T "$1/lib/bellwire/libbellwire-verbs.so" | awk -v name=$name '/^[0-9a-f]+ [gw]/ && !/\*UND\*|\*ABS\*/ && $(NF - 1) ~ /IBVERBS/ { print name, "symbol", $NF "@" $(NF - 1) }'
        objdump -p "$file" | awk -v name="$name" '$1 == "SONAME" { print name, "soname", $2 }'
        # An older version of a symbol stands in brackets, and "Base" is none.
        objdump -T "$file" | awk -v name="$name" '/^[0-9a-f]+ [gw]/ && !/\*UND\*|\*ABS\*/ {
            version = $(NF - 1); if ($NF == "") next
            if (version == "Base") version = ""
            if ($NF !~ /^(_init|_fini|_edata|_end|__bss_start)$/) print name, "symbol", $NF (version == "" ? "" : "@" version) }'
    done | sort -u
}
# The headers' numbers: sizes of structures, values of constants, by a program that is made of them.
numbers_of() { # prefix
    local header
    for header in $(cd "$1/include" && ls ./*.h); do
        header=${header#./}
        {
            [ $header = vipl.h ] || [ $header = sisci_api.h ] || echo "#include <stdint.h>"
            echo "#include <$header>"
            echo "#include <stdio.h>"
            echo "int main(void) {"
            # Structures with a name of their own, and constants without arguments that are numbers.
            sed -n 's/^} \([A-Za-z_][A-Za-z0-9_]*\);$/\1/p' "$1/include/$header" | awk -v h=$header '{ printf "    printf(\"%s size %s %%zu\\n\", sizeof(%s));\n", h, $1, $1 }'
            sed -n 's/^#define \([A-Z][A-Z0-9_a-z]*\) \+\(-\{0,1\}(\{0,1\}-\{0,1\}[0-9][0-9a-fA-FxuUlL]*)\{0,1\}\)\( .*\)\{0,1\}$/\1/p' "$1/include/$header" |
                awk -v h=$header '{ printf "    printf(\"%s value %s %%lld\\n\", (long long)(%s));\n", h, $1, $1 }'
            # Values of enumerations.
            awk -v h=$header '/^(typedef )?enum.*{/ { inside = 1 } inside { line = $0; sub(/^.*{/, "", line); sub(/}.*/, "", line); gsub(/\/\*[^*]*\*\//, "", line)
                n = split(line, parts, ","); for (i = 1; i <= n; i++) { gsub(/[ \t]|=.*/, "", parts[i]); if (parts[i] ~ /^[A-Z][A-Za-z0-9_]*$/) printf "    printf(\"%s value %s %%lld\\n\", (long long)%s);\n", h, parts[i], parts[i] } }
                /}/ { inside = 0 }' "$1/include/$header"
            echo "    return 0;"
            echo "}"
        } >"$out/numbers.c"
        if cc -w -I"$1/include" "$out/numbers.c" -o "$out/numbers" 2>"$out/numbers.log"; then "$out/numbers"; else echo "$header does not compile: $(head -n 1 "$out/numbers.log")"; fi
    done | sort -u
}
all_of() { symbols_of "$1"; numbers_of "$1"; }
all_of "$prefix" >"$out/now"
if [ "${3:-}" = release ]; then
    { sed -n 's/^version = "\(.*\)"$/# The interfaces of Bellwire \1 (tests\/abi\/check.sh)./p' Cargo.toml | head -n 1; cat "$out/now"; } >$released
    echo "$(grep -c . "$out/now") names are in $released"
    exit
fi
# Structures that only the library makes, for programs to read: they may grow at their ends.
grow='am_returned_t am_message_t am_statistics_t'
same() { # file of today's: what of the release is gone from it, or differs
    grep -v '^#' $released | LC_ALL=C sort >"$out/then"
    LC_ALL=C sort "$1" | LC_ALL=C comm -23 "$out/then" - |
        awk -v grow=" $grow " 'FNR == NR { if ($2 == "size") now[$1 " " $3] = $4; next } $2 == "size" && index(grow, " " $3 " ") && now[$1 " " $3] > $4 { next } { print }' "$1" - >"$out/gone"
    [ ! -s "$out/gone" ] || { echo "these are gone, or have another value:"; head -n 20 "$out/gone"; return 1; }
}
check "a list of some size" test "$(grep -vc '^#' $released)" -ge 600
check "everything of the last release is there" same "$out/now"
LC_ALL=C sort "$out/now" | LC_ALL=C comm -13 "$out/then" - >"$out/new"
[ ! -s "$out/new" ] || echo "new since the last release: $(wc -l <"$out/new"), such as $(head -n 3 "$out/new" | tr '\n' ';')"
# It can fail: by a symbol, a version, a soname, a size that is another one.
fails() { # what, sed expression
    sed "$2" "$out/now" >"$out/wrong"
    check "finds $1" sh -c "! cmp -s '$out/now' '$out/wrong'"
    # shellcheck disable=SC2016
    if same "$out/wrong" >/dev/null; then failed=$((failed + 1)); echo "FAILED: does not find $1"; else passed=$((passed + 1)); fi
}
fails "a symbol that is gone" '/symbol VipPostSend$/d'
fails "another version of a symbol" 's/symbol ibv_open_device@IBVERBS_1.1/symbol ibv_open_device@IBVERBS_1.2/'
fails "another soname" 's/soname libvipl.so.1/soname libvipl.so.2/'
fails "another size" 's/\(size VIP_DESCRIPTOR\) .*/\1 128/'
fails "a structure that has shrunk" 's/\(size am_returned_t\) .*/\1 144/'
fails "another value" 's/\(value VIP_[A-Z_]*\) .*/\1 99/'
counted
