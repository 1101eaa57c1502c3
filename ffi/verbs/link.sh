#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes the two libraries of the archive that Cargo builds, with the versions of symbols that programs were linked with (Cargo's own shared libraries cannot have any):
#   ffi/verbs/link.sh ARCHIVE DIRECTORY
# DIRECTORY/libbellwire-verbs.so           to be preloaded; the real libibverbs may be there beside it
# DIRECTORY/bellwire-verbs/libibverbs.so.1 in its place, for LD_LIBRARY_PATH; with names that vendors' libraries want of the private interface, which do nothing
set -eu
archive=$1 out=$2
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out/bellwire-verbs"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A node of the version script for each version, the older before the newer.
map() { # file of "name version"
    before=
    for version in $(awk '{print $2}' "$1" | sort -uV); do
        printf '%s {\n  global:\n' "$version"
        awk -v v="$version" '$2 == v {print "    " $1 ";"}' "$1"
        [ -n "$before" ] || printf '  local: *;\n'
        printf '}%s;\n' "$before"
        case $version in *PRIVATE*) ;; *) before=" $version" ;; esac
    done
}
# What Rust's standard library needs of the system (`rustc --print native-static-libs`).
libraries="-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc"
link() { # soname, file, list of symbols, further options
    soname=$1 to=$2 list=$3
    shift 3
    map "$list" >"$work/map"
    # shellcheck disable=SC2046,SC2086
    ${CC:-cc} -shared -o "$to.new" -Wl,-soname,"$soname" -Wl,--version-script="$work/map" $(awk '{print "-Wl,-u," $1}' "$here/symbols.txt") "$@" "$archive" \
        -Wl,--gc-sections -Wl,--strip-debug -Wl,-z,defs -Wl,-z,relro -Wl,-z,now -Wl,-z,nodelete $libraries
    mv "$to.new" "$to"
}

# The preloaded library has calls of the C library too (`files.txt`), which must have no version:
# programs ask for them under the C library's, and only what has none stands for any. A version
# script gives each name a version or hides it; so here names are hidden before, in one object file
# made of the archive.
preloaded() {
    awk '{print $1}' "$here/symbols.txt" "$here/files.txt" >"$work/kept"
    # shellcheck disable=SC2046
    ${LD:-ld} -r --gc-sections $(awk '{print "-u " $1}' "$work/kept") -o "$work/all.o" "$archive"
    ${OBJCOPY:-objcopy} --keep-global-symbols="$work/kept" --strip-debug "$work/all.o"
    map "$here/symbols.txt" | sed '/local: \*;/d' >"$work/map"
    # shellcheck disable=SC2086
    ${CC:-cc} -shared -o "$1.new" -Wl,-soname,libbellwire-verbs.so -Wl,--version-script="$work/map" "$work/all.o" \
        -Wl,--gc-sections -Wl,-z,defs -Wl,-z,relro -Wl,-z,now -Wl,-z,nodelete $libraries
    mv "$1.new" "$1"
}
preloaded "$out/libbellwire-verbs.so"

cat "$here/symbols.txt" "$here/unused.txt" >"$work/all"
# Nothing calls them: they belong to drivers and to what speaks with the kernel, and there is no
# device for those. shellcheck disable=SC2046
link libibverbs.so.1 "$out/bellwire-verbs/libibverbs.so.1" "$work/all" $(awk '{print "-Wl,--defsym=" $1 "=ibv_fork_init"}' "$here/unused.txt")
