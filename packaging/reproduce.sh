#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds everything twice from the checkout's last commit and compares all packages byte by byte.
#   packaging/reproduce.sh OUT [PACKAGES ..]      PACKAGES: deb tarball wheel crates (default: all)
#   packaging/reproduce.sh compare A B     only compares two folders of packages
#   MACHINES      which wheels: "x86_64 aarch64" (default: this machine's)
# The two clones differ in path, target folder, Cargo's folder, caches, time, umask, locale, time
# zone and number of build jobs. The compilers and the machine are the same. For each file that
# differs, also within a package, it prints the first bytes that do; diffoscope says more where it
# is installed. It takes the time of two builds of a release, and for each wheel of two more.
set -eu
cd "$(dirname "$0")/.."

# What a package holds, as files: its entries, and a list of their modes, owners, times and order.
unpacked() { # package, folder
    local file=$1 to=$2
    mkdir -p "$to/files"
    case $file in
        *.deb)
            mkdir "$to/parts" && (cd "$to/parts" && ar x "$file") && ar tv "$file" >"$to/list.ar"
            for part in "$to"/parts/*.tar*; do tar -tvf "$part" --full-time >"$to/list.$(basename "$part")"; done
            rm -r "$to/parts"
            dpkg-deb -x "$file" "$to/files" && dpkg-deb -e "$file" "$to/control" ;;
        *.tar.gz | *.crate) tar -tvf "$file" --full-time >"$to/list" && tar -xf "$file" -C "$to/files" ;;
        *.whl)
            python3 -c 'import sys, zipfile
for e in zipfile.ZipFile(sys.argv[1]).infolist(): print(e.filename, e.date_time, oct(e.external_attr >> 16), e.CRC)' "$file" >"$to/list"
            python3 -m zipfile -e "$file" "$to/files" ;;
    esac
    chmod -R u+rwX "$to"
}
# The first bytes that differ, and the text around them in both files.
first_difference() { # name, a, b
    local at
    at=$(cmp "$2" "$3" 2>&1 | sed -n 's/.*byte \([0-9]*\).*/\1/p')
    at=${at:-1}
    echo "  $1 differs from byte $at on:"
    for file in "$2" "$3"; do
        printf '    %s\n' "$(tail -c "+$((at > 24 ? at - 24 : 1))" "$file" | head -c 96 | tr -c '[:print:]' '.')"
    done
}
# Prints what differs; the status says whether anything does.
compare() { # folder, folder
    local differ=0 count=0 name work
    work=$(mktemp -d)
    while read -r name; do
        count=$((count + 1))
        if [ ! -f "$1/$name" ] || [ ! -f "$2/$name" ]; then
            echo "DIFFERS: $name is in one folder only"
            differ=$((differ + 1))
            continue
        fi
        cmp -s "$1/$name" "$2/$name" && continue
        differ=$((differ + 1))
        echo "DIFFERS: $name"
        rm -rf "$work/a" "$work/b"
        unpacked "$(realpath "$1/$name")" "$work/a"
        unpacked "$(realpath "$2/$name")" "$work/b"
        if diff -rq --no-dereference "$work/a" "$work/b" >"$work/said"; then first_difference "the package itself" "$1/$name" "$2/$name"; fi
        sed -n "s|^Files $work/a/\(.*\) and .* differ\$|\1|p" "$work/said" | while read -r file; do
            case $file in
                list*) diff "$work/a/$file" "$work/b/$file" | sed -n 's/^[<>]/    &/p' | head -n 4 ;;
                *) first_difference "$file" "$work/a/$file" "$work/b/$file" ;;
            esac
        done
        sed -n "s|^Only in $work/\(.*\)\$|  only in \1|p" "$work/said"
        ! command -v diffoscope >/dev/null || timeout 300 diffoscope --max-report-size 20000 "$1/$name" "$2/$name" || true
    done < <({ cd "$1" && ls; cd "$OLDPWD" && cd "$2" && ls; } | sort -u)
    rm -rf "$work"
    [ $count -gt 0 ] || { echo "FAILED: no packages"; return 1; }
    [ $differ = 0 ] || { echo "FAILED: $differ of $count packages differ"; return 1; }
    echo "$count packages are the same bytes in both builds"
}
say() { echo "reproduce: $((SECONDS / 60)):$(printf %02d $((SECONDS % 60))) $*"; }

# All packages of a clone, in the environment of the caller.
build() { # commit, clone, folder for packages, packages
    local clone=$2 to=$3 wanted=" $4 " made target=$CARGO_TARGET_DIR
    makes() { case $wanted in *" $1 "*) ;; *) return 1 ;; esac; }
    git clone -q . "$clone"
    git -C "$clone" checkout -q --detach "$1"
    rm -rf "$to"
    mkdir -p "$to"
    made=$clone.made
    cd "$clone"
    # This compiles; the archive is of the same programs.
    if makes deb || makes tarball; then packaging/deb.sh "$made"; fi
    if makes deb; then mv "$made"/*.deb "$to/"; fi
    if makes tarball; then
        BUILD=$target/release packaging/tarball.sh "$made"
        mv "$made"/*.tar.gz "$to/"
    fi
    if makes wheel; then
        # shellcheck disable=SC2086 # words
        TARGET_DIR=$target packaging/wheels.sh "$made" ${MACHINES:-$(uname -m)}
        mv "$made"/*.whl "$to/"
    fi
    if makes crates; then
        scripts/crates.sh
        mv "$target"/package/package/tmp-crate/*.crate "$to/"
    fi
    # Disks are small.
    rm -rf "$made" "$clone" "$target"
}
case ${1:-} in
    compare) compare "$2" "$3"; exit ;;
    build) shift; build "$@"; exit ;;
esac

mkdir -p "$1"
out=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- deb tarball wheel crates
for tool in dpkg-buildpackage dh lintian; do
    command -v $tool >/dev/null || { echo "SKIPPED: no $tool (dpkg-dev debhelper lintian)"; exit 0; }
done
commit=$(git rev-parse HEAD)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The comparison can fail: one byte of one file of a package, and a mode.
for one in a b c; do
    mkdir -p "$work/$one/bellwire" "$work/packages-$one"
    echo "built in $one" >"$work/$one/bellwire/file"
done
cp "$work/a/bellwire/file" "$work/c/bellwire/file"
chmod 600 "$work/c/bellwire/file"
for one in a b c; do tar --mtime=@0 -C "$work/$one" -czf "$work/packages-$one/x.tar.gz" bellwire; done
finds() { # folder, words
    if compare "$work/packages-a" "$work/$1" >"$work/said"; then echo "FAILED: the comparison finds no difference"; exit 1; fi
    grep -q "$2" "$work/said" || { cat "$work/said"; echo "FAILED: the comparison does not say: $2"; exit 1; }
}
finds packages-b "files/bellwire/file differs from byte 10 on"
finds packages-c "rw------- .* bellwire/file"
compare "$work/packages-a" "$work/packages-a" >/dev/null

export CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
unset SOURCE_DATE_EPOCH RUSTFLAGS BUILD TARGET_DIR MAKEFLAGS MAKELEVEL
# Another folder of Cargo's, with what it has fetched. Links would lead to the paths of the first.
mkdir "$work/cargo"
for part in registry git config.toml; do [ ! -e "$CARGO_HOME/$part" ] || cp -a "$CARGO_HOME/$part" "$work/cargo/"; done
language=$(locale -a | grep -vE '^(C|POSIX)$' | tail -n 1)
differently() { # name, umask, NAME=VALUE .., clone
    local name=$1 mask=$2
    shift 2
    say "build $name: umask $mask, $*"
    (umask "$mask" && env "${@:1:$#-1}" packaging/reproduce.sh build "$commit" "${@: -1}" "$out/$name" "$packages") >"$out/$name.log" 2>&1 ||
        { tail -n 30 "$out/$name.log"; echo "FAILED: build $name"; exit 1; }
    grep '^SKIPPED' "$out/$name.log" || true
}
packages=$*
differently a 022 LC_ALL=C TZ=UTC CARGO_BUILD_JOBS=1 CARGO_TARGET_DIR="$work/one/target" "$work/one"
differently b 077 LC_ALL="${language:-C}" TZ=Pacific/Kiritimati CARGO_BUILD_JOBS="$(nproc)" CARGO_HOME="$work/cargo" XDG_CACHE_HOME="$work/cache" CARGO_TARGET_DIR="$work/built/elsewhere" "$work/another/place/bellwire-checkout"
say "comparing"
compare "$out/a" "$out/b"
