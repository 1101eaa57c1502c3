#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The image of packaging/image.sh: its sums are right, and programs run in its files as a container
# runs them, as an ordinary user without a network.
#   packaging/check-image.sh IMAGES OUT      OUT: a folder for the root
set -u
cd "$(dirname "$0")/.." || exit 1
image=$(ls "$1"/bellwire-*-oci.tar 2>/dev/null | head -n 1)
[ "$(id -u)" = 0 ] || { echo "SKIPPED: not root"; exit 0; }
[ -n "$image" ] || { echo "SKIPPED: no image (packaging/image.sh)"; exit 0; }
image=$(realpath "$image")
mkdir -p "$2"
out=$(realpath "$2") root=$(realpath "$2")/root
. packaging/checks.sh
. packaging/inside.sh
rm -rf "$root"
mkdir "$root"
check "unpacked" packaging/image.py unpack "$image" "$root"
# What a container's runtime brings.
mkdir -p "$root/dev/shm" "$root/proc" "$root/sys"
cp -a /dev/null /dev/zero /dev/urandom "$root/dev/"
ordinary() { inside "$root" 65534:65534 "$@"; }
check "its command" ordinary bellwire info
cp packaging/debian/tests/rdma "$root/tmp/rdma"
check "rdma" ordinary sh /tmp/rdma
if command -v mpicc.mpich >/dev/null; then
    check "a program of MPI compiles" mpicc.mpich tests/mpi/collectives.c -o "$root/tmp/collectives"
    check "MPI" ordinary bellwire run --mpi mpich -n 3 /tmp/collectives
else
    echo "SKIPPED MPI: no mpicc.mpich"
fi
if command -v skopeo >/dev/null; then check "skopeo reads it" skopeo inspect "oci-archive:$image"; fi
counted
