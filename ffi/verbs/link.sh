#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes the two libraries of the archive that Cargo builds, with the versions of symbols that programs were linked with (Cargo's own shared libraries cannot have any):
#   ffi/verbs/link.sh ARCHIVE DIRECTORY
# DIRECTORY/libbellwire-verbs.so           to be preloaded; the real libibverbs may be there beside it
# DIRECTORY/bellwire-verbs/libibverbs.so.1 in its place, for LD_LIBRARY_PATH: brings the other one; has names that vendors' libraries want of the private interface, which do nothing
set -eu
archive=$1 out=$2
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out/bellwire-verbs"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A node of the version script for each version, the older before the newer. Only IBVERBS_1.1 stands
# before IBVERBS_1.0: a program that asks for no version gets what the first node has.
map() { # file of "name version"; "- version" is a version without a name of its own
    before=
    for version in $(awk '{print $2}' "$1" | sort -uV | awk 'NR == 1 { oldest = $0; next } { print } NR == 2 { print oldest }'); do
        printf '%s {\n' "$version"
        awk -v v="$version" '$2 == v && $1 != "-" {names = names "    " $1 ";\n"} END {if (names != "") printf "  global:\n%s", names}' "$1"
        [ -n "$before" ] || printf '  local: *;\n'
        printf '}%s;\n' "$before"
        case $version in *PRIVATE*) ;; *) before=" $version" ;; esac
    done
}
# What Rust's standard library needs of the system (`rustc --print native-static-libs`).
libraries="-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc"
# The preloaded library has calls of the C library too (`files.txt`), which must have no version:
# programs ask for them under the C library's, and only what has none stands for any. A version
# script gives each name a version or hides it; so here names are hidden before, in one object file
# made of the archive.
#
# Names that have a second version (`older.txt`) get both there: `NAME@VERSION` is how an object
# file says so, as `.symver` in an assembler would. (In the archive's own files it cannot be said:
# the directive has to stand in the unit that defines the function, and the compiler chooses that.)
awk '{print $1, "IBVERBS_1.0"}' "$here/older.txt" >"$work/older"
awk '
    FNR == NR { older[$1]; next }
    $1 in older { print $1, $1 "@@" $2; print "older_" $1, $1 "@IBVERBS_1.0" }' "$here/older.txt" "$here/symbols.txt" >"$work/versions"

# One object file, of which only these names are seen.
object() { # file, lists of names
    to=$1
    shift
    { awk '{print $1}' "$@"; sed 's/^/older_/' "$here/older.txt"; } >"$work/kept"
    # shellcheck disable=SC2046
    ${LD:-ld} -r --gc-sections $(awk '{print "-u " $1}' "$work/kept") -o "$to" "$archive"
    ${OBJCOPY:-objcopy} --keep-global-symbols="$work/kept" --strip-debug "$to"
    ${OBJCOPY:-objcopy} --redefine-syms="$work/versions" "$to"
}
link() { # soname, file, object, version script, further options
    soname=$1 to=$2 object=$3 script=$4
    shift 4
    # shellcheck disable=SC2086
    ${CC:-cc} -shared -o "$to.new" -Wl,-soname,"$soname" -Wl,--version-script="$script" "$@" "$object" \
        -Wl,--gc-sections -Wl,-z,defs -Wl,-z,relro -Wl,-z,now -Wl,-z,nodelete $libraries
    mv "$to.new" "$to"
}

object "$work/preload.o" "$here/symbols.txt" "$here/files.txt"
cat "$here/symbols.txt" "$work/older" >"$work/names"
map "$work/names" | sed '/local: \*;/d' >"$work/preload.map"
link libbellwire-verbs.so "$out/libbellwire-verbs.so" "$work/preload.o" "$work/preload.map"

# This library is a filter: a loader puts the other one in front of it, so before the C library, and
# finds the names there. It asks this one for the versions of names, which have nodes without names
# here.
{ awk '{print "-", $2}' "$work/names"; cat "$here/unused.txt"; } >"$work/names-here"
map "$work/names-here" >"$work/replace.map"
# Nothing calls the unused ones: they belong to drivers and to what speaks with the kernel, and
# there is no device for those.
{
    echo 'static int nothing(void) { return 0; }'
    awk '{print "int " $1 "(void) __attribute__((alias(\"nothing\")));"}' "$here/unused.txt"
} >"$work/unused.c"
# Unless -g0 forbids it, Zig's compiler writes this folder's name for debuggers, and the library's
# build ID covers that.
# shellcheck disable=SC2086
${CC:-cc} -w -O2 -g0 -fPIC -c "$work/unused.c" -o "$work/unused.o"
# Zig's linker makes no filters, and binutils for another machine have no C library: one without
# anything in it gives its name.
${CC:-cc} -c -x c /dev/null -o "$work/empty.o"
${LD:-ld} -shared -soname libc.so.6 -o "$work/libc.so" "$work/empty.o"
# shellcheck disable=SC2016 # the loader's word
${LD:-ld} -shared -o "$out/bellwire-verbs/libibverbs.so.1.new" -soname libibverbs.so.1 --version-script="$work/replace.map" --filter=libbellwire-verbs.so \
    -rpath '$ORIGIN/..' --enable-new-dtags --build-id --hash-style=gnu -z defs -z relro -z now -z nodelete "$work/unused.o" --no-as-needed "$work/libc.so"
mv "$out/bellwire-verbs/libibverbs.so.1.new" "$out/bellwire-verbs/libibverbs.so.1"
