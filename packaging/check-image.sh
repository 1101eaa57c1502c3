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
# The pod of docs/guide/containers.md: its containers' commands, in one network and one space of
# processes, without capabilities, as its user, on a root that cannot be written.
if python3 -c 'import yaml' 2>/dev/null; then
    user=$(python3 - "$root/tmp/pod" <<'PYTHON'
import re, shlex, sys, yaml
pod = yaml.safe_load(re.search(r"^```yaml\n(.*?)^```", open("docs/guide/containers.md").read(), re.M | re.S).group(1))["spec"]
commands = [shlex.join(map(str, container["command"])) for container in pod["containers"]]
assert len(commands) == 2 and all(c["securityContext"]["readOnlyRootFilesystem"] for c in pod["containers"])
open(sys.argv[1], "w").write(f"{commands[0]} &\n{commands[1]} && wait $!\n")
print(pod["securityContext"]["runAsUser"])
PYTHON
    )
    # shellcheck disable=SC2016
    check "the pod of the guide" timeout 100 unshare --mount --pid --ipc --net --fork sh -c '
        ip link set lo up
        mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount -t tmpfs tmpfs "$1/dev/shm" || exit 1
        exec chroot --userspec="$2:$2" --groups="" "$1" setpriv --no-new-privs env -i PATH=/usr/bin:/bin sh -c "! touch /tmp/written 2>/dev/null && . /tmp/pod"' sh "$root" "$user"
    cp "$out/log" "$out/pod"
    check "its table" grep -E '^ 65536 ' "$out/pod"
else
    echo "SKIPPED the pod: no PyYAML (python3-yaml)"
fi
if command -v skopeo >/dev/null; then check "skopeo reads it" skopeo inspect "oci-archive:$image"; fi
counted
