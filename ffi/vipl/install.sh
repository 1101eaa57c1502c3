#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Installs what is built: libvipl, libbellwire_am, libbellwire_job and libsisci with their links, headers and pkg-config files, the libfabric provider, manual pages, and the commands that are there.
#   PREFIX  where programs will find it (default /usr/local)
#   LIBDIR  where in it the libraries go (default lib; Debian: lib/x86_64-linux-gnu). What the
#           command chooses by itself is always in lib/bellwire.
#   DESTDIR put in front of every path, for packagers
#   BUILD   cargo's output directory (default: target/release of this tree)
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH= cd -- "$here/../.." && pwd)
prefix=${PREFIX:-/usr/local}
case $prefix in
    /*) ;;
    *) prefix=$(pwd)/$prefix ;;
esac
to=${DESTDIR:-}$prefix
build=${BUILD:-$root/target/release}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1)
abi=1
lib=${LIBDIR:-lib}

for built in libvipl.so libbellwire_am.so libbellwire_job_c.so libsisci.so libbellwire_fi.so; do
    if [ ! -f "$build/$built" ]; then
        echo "install: $build/$built is not there; build it first: make build" >&2
        exit 1
    fi
done

mkdir -p "$to/$lib/pkgconfig" "$to/include" "$to/bin" "$to/share/man/man1" "$to/share/man/man3" "$to/share/man/man7"

# A library: the built file, its name, where its headers and its pkg-config file are.
# NAME.so.1.<version> is the file; .so.1 is what programs are bound to, .so is for -l.
library() {
    file=$2.so.$abi.$version
    install -m 755 "$build/$1" "$to/$lib/$file"
    ln -sf "$file" "$to/$lib/$2.so.$abi"
    ln -sf "$2.so.$abi" "$to/$lib/$2.so"
    install -m 644 "$3"/include/*.h "$to/include/"
    for module in "$3"/*.pc.in; do
        pc=$to/$lib/pkgconfig/$(basename "$module" .in)
        sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" -e "s|^libdir=.*|libdir=\${prefix}/$lib|" "$module" > "$pc"
        chmod 644 "$pc"
    done
}
library libvipl.so libvipl "$here"
library libbellwire_am.so libbellwire_am "$root/ffi/am"
library libbellwire_job_c.so libbellwire_job "$root/ffi/job"
library libsisci.so libsisci "$root/ffi/sisci"
# Where libfabric does not look by itself: it is chosen, by `bellwire env`.
mkdir -p "$to/lib/bellwire"
install -m 755 "$build/libbellwire_fi.so" "$to/lib/bellwire/libbellwire-fi.so"
# Chosen by `bellwire run --verbs`.
"$root/ffi/verbs/link.sh" "$build/libbellwire_verbs_c.a" "$to/lib/bellwire"
# For dlopen.
ln -sf "libvipl.so.$abi" "$to/$lib/vipl.so"

# A page documents several calls: ".\" calls:" in its second line names them, and each gets a page
# that points to it.
for page in "$root"/docs/man/*.1 "$root"/docs/man/*.3 "$root"/docs/man/*.7; do
    [ -f "$page" ] || continue
    section=${page##*.}
    name=$(basename "$page")
    install -m 644 "$page" "$to/share/man/man$section/$name"
    for call in $(sed -n 's/^\.\\" calls: //p' "$page"); do
        printf '.so man%s/%s\n' "$section" "$name" > "$to/share/man/man3/$call.3"
    done
done

# bellwire finds the others beside itself.
commands=
for command in bellwire bellwired bellwire-bench bellwire-ni; do
    [ -x "$build/$command" ] || continue
    install -m 755 "$build/$command" "$to/bin/$command"
    commands="$commands, $command"
done
echo "installed in $to, version $version: $(ls "$to/$lib/pkgconfig" | sed -n 's/\.pc$//p' | tr '\n' ' ')(pkg-config modules), the libfabric provider, RDMA$commands"
