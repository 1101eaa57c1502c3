#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Installs what is built: libvipl, and libbellwire_am if it is there, with links, headers and pkg-config files; manual pages; and the bellwire command if it is there.
#   PREFIX  where programs will find it (default /usr/local)
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

if [ ! -f "$build/libvipl.so" ]; then
    echo "install: $build/libvipl.so is not there; build it first: cargo build --release -p vipl" >&2
    exit 1
fi

mkdir -p "$to/lib/pkgconfig" "$to/include" "$to/bin" "$to/share/man/man1" "$to/share/man/man3" "$to/share/man/man7"

# <library>.1.<version> is the file; .so.1 is what programs are bound to, .so is for -l.
library() { # libX.so, folder of its headers and pkg-config file, name of that file, headers ..
    library=$1 folder=$2 module=$3 file=$1.$abi.$version
    shift 3
    install -m 755 "$build/$library" "$to/lib/$file"
    ln -sf "$file" "$to/lib/$library.$abi"
    ln -sf "$library.$abi" "$to/lib/$library"
    for header; do install -m 644 "$folder/include/$header" "$to/include/"; done
    sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$folder/$module.pc.in" > "$to/lib/pkgconfig/$module.pc"
    chmod 644 "$to/lib/pkgconfig/$module.pc"
}
library libvipl.so "$here" vipl vipl.h viplx.h
ln -sf "libvipl.so.$abi" "$to/lib/vipl.so" # for dlopen
if [ -f "$build/libbellwire_am.so" ]; then
    library libbellwire_am.so "$root/ffi/am" bellwire-am am.h
fi

# A page documents several calls: ".\" calls:" in its second line names them, and each gets a page that points to it.
for page in "$root"/docs/man/*.1 "$root"/docs/man/*.3 "$root"/docs/man/*.7; do
    [ -f "$page" ] || continue
    section=${page##*.}
    name=$(basename "$page")
    install -m 644 "$page" "$to/share/man/man$section/$name"
    for call in $(sed -n 's/^\.\\" calls: //p' "$page"); do
        printf '.so man%s/%s\n' "$section" "$name" > "$to/share/man/man3/$call.3"
    done
done

if [ -x "$build/bellwire" ]; then
    install -m 755 "$build/bellwire" "$to/bin/bellwire"
fi
echo "installed in $to: libvipl $version (pkg-config module vipl)$([ -x "$build/bellwire" ] && echo ', bellwire' || true)"
