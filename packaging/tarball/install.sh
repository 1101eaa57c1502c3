#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Installs Bellwire out of the archive that this script is in; as an ordinary user below the home
# directory, as root for all.
#   ./install.sh [PREFIX]      PREFIX: /usr/local as root, else $HOME/.local
#   ./install.sh --remove [PREFIX]
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
does=install
case ${1:-} in
    -h | --help) sed -n '3,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --remove) does=remove; shift ;;
    -*) echo "install.sh: no such option: $1 (--help)" >&2; exit 2 ;;
esac
if [ "$(id -u)" = 0 ]; then prefix=${1:-/usr/local}; else prefix=${1:-$HOME/.local}; fi
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
list=$prefix/share/bellwire/installed
if [ $does = remove ]; then
    [ -f "$list" ] || { echo "install.sh: nothing was installed in $prefix by this script" >&2; exit 1; }
    # The list is this script's own, of paths below the prefix; folders go if nothing else is there.
    while IFS= read -r file; do rm -f "$prefix/$file"; done <"$list"
    rm -f "$list"
    (cd "$here/tree" && find . -depth -type d) | while IFS= read -r folder; do rmdir "$prefix/$folder" 2>/dev/null || :; done
    rmdir "$prefix/share/bellwire" "$prefix/share" "$prefix" 2>/dev/null || :
    echo "removed from $prefix"
    exit 0
fi
mkdir -p "$prefix/share/bellwire" 2>/dev/null && [ -w "$prefix" ] || { echo "install.sh: $prefix cannot be written: give another PREFIX, or be root" >&2; exit 1; }
(cd "$here/tree" && find . ! -type d) | sed 's|^\./||' | sort >"$list.new"
(cd "$here/tree" && tar -c .) | tar -x -C "$prefix" --no-same-owner
for module in "$prefix"/lib/pkgconfig/bellwire*.pc "$prefix"/lib/pkgconfig/vipl.pc "$prefix"/lib/pkgconfig/sisci.pc; do
    [ ! -f "$module" ] || sed -i "s|^prefix=.*|prefix=$prefix|" "$module"
done
mv "$list.new" "$list"
echo "installed in $prefix; to use it:"
echo "  export PATH=$prefix/bin:\$PATH LD_LIBRARY_PATH=$prefix/lib PKG_CONFIG_PATH=$prefix/lib/pkgconfig"
echo "  bellwire info"
