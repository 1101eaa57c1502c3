#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Installs what is built: libvipl with its links, headers, pkg-config file, manual pages, and the bellwire command if it is there.
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

# libvipl.so.1.<version> is the file; .so.1 is what programs are bound to, libvipl.so is for -lvipl, vipl.so for dlopen.
file=libvipl.so.$abi.$version
install -m 755 "$build/libvipl.so" "$to/lib/$file"
ln -sf "$file" "$to/lib/libvipl.so.$abi"
ln -sf "libvipl.so.$abi" "$to/lib/libvipl.so"
ln -sf "libvipl.so.$abi" "$to/lib/vipl.so"

install -m 644 "$here/include/vipl.h" "$here/include/viplx.h" "$to/include/"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$here/vipl.pc.in" > "$to/lib/pkgconfig/vipl.pc"
chmod 644 "$to/lib/pkgconfig/vipl.pc"

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
