#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Device files and /sys as RDMA programs see them, several devices and their limits, ports down and up.
#   tests/devices/check.sh PREFIX OUT       PREFIX: where `make install` put everything
set -u
prefix=$1 out=$2
here=$(cd "$(dirname "$0")" && pwd)
bellwire=$prefix/bin/bellwire library=$prefix/lib/bellwire/libbellwire-verbs.so
mkdir -p "$out"
if [ ! -e /usr/include/infiniband/verbs.h ]; then
    echo "SKIPPED devices: no libibverbs-dev"
    exit 0
fi
unset BELLWIRE_ADDRESS BELLWIRE_DEVICE_FILE LD_PRELOAD
export XDG_CONFIG_HOME=$out/no-configuration
passed=0 failed=0 patience=$("$here/../patience.sh" 120)
ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAILED $*"; }
# says TEXT COMMAND..: the command says that text.
says() {
    local text=$1 said
    shift
    said=$(timeout $patience "$@" 2>&1 </dev/null)
    if [[ $said == *"$text"* ]]; then ok; else bad "$* should say \"$text\": $(tail -c 600 <<<"$said")"; fi
}
seen=("$bellwire" run --verbs)
make_program() { # name, libraries
    local name=$1
    shift
    if cc -std=gnu11 -Wall -Wextra -Werror -O1 -o "$out/$name" "$here/$name.c" "$@"; then ok; else bad "$name.c"; fi
}
for program in limits port received; do make_program $program -libverbs; done
make_program connections -lrdmacm -libverbs
make_program walk -ldl
make_program farm

# ---- every call of the C library, by a program in C; both packagings
for how in --verbs --verbs=replace; do
    said=$(timeout $patience "$bellwire" run $how "$out/walk" 2>&1)
    if [[ $said == *", 0 failures"* ]]; then ok; else bad "walk by $how: $said"; fi
done
# Optimised, its calls are the fortified ones.
if cc -std=gnu11 -O2 -D_FORTIFY_SOURCE=2 -o "$out/walk-fortified" "$here/walk.c" -ldl 2>"$out/walk.log" && "${seen[@]}" "$out/walk-fortified" >"$out/walk.log" 2>&1; then ok; else bad "walk, fortified: $(cat "$out/walk.log")"; fi
# Without the library nothing of it is there.
if "$out/walk" >/dev/null 2>&1; then bad "walk finds devices without Bellwire"; else ok; fi

# ---- other programs
python=$(command -v /usr/bin/python3 || command -v python3)
if [ -n "$python" ]; then
    says "python: all well" "${seen[@]}" "$python" "$here/walk.py"
else
    echo "SKIPPED walk.py: no python3"
fi
says "bellwire0 -> ../../devices/pcib311:00/b311:00:00.0/infiniband/bellwire0" "${seen[@]}" ls -l /sys/class/infiniband
says "crw-rw-rw- 1 root root 231, 192" "${seen[@]}" ls -l /dev/infiniband/uverbs0
says "4: ACTIVE" "${seen[@]}" cat /sys/class/infiniband/bellwire0/ports/1/state
says "/sys/class/infiniband/bellwire0/ports/1/gids/0:0000:0000:0000:0000:0000:ffff:7f00:0001" "${seen[@]}" grep -r . /sys/class/infiniband/bellwire0/ports/1/
says "/sys/class/infiniband/bellwire0/ports/1/gid_attrs/ndevs/0" "${seen[@]}" find /sys/class/infiniband/bellwire0/ -name 0
says "/sys/devices/pcib311:00/b311:00:00.0" "${seen[@]}" readlink -f /sys/class/infiniband/bellwire0/device
if command -v ibstat >/dev/null 2>&1; then says "State: Active" "${seen[@]}" ibstat; else echo "SKIPPED ibstat: no infiniband-diags"; fi
if command -v ibv_devinfo >/dev/null 2>&1; then says "board_id:" "${seen[@]}" ibv_devinfo; else echo "SKIPPED ibv_devinfo: no ibverbs-utils"; fi
if command -v ucx_info >/dev/null 2>&1; then
    says "bellwire0:1" "${seen[@]}" ucx_info -d
    says "rc_verbs" "${seen[@]}" ucx_info -d
else
    echo "SKIPPED ucx_info: no ucx-utils"
fi
# A library of a vendor that reads the driver's calls of every device.
if [ -e /usr/include/infiniband/mlx5dv.h ] && command -v valgrind >/dev/null 2>&1; then
    make_program vendor -libverbs -lmlx5
    LD_PRELOAD=$library timeout $patience valgrind --error-exitcode=9 "$out/vendor" >"$out/vendor.log" 2>&1
    if [ $? = 0 ]; then ok; else bad "mlx5dv_is_supported reads what is not there: $(grep -m 3 -A 4 'Invalid read' "$out/vendor.log")"; fi
else
    echo "SKIPPED mlx5dv_is_supported: no valgrind, or no mlx5dv.h"
fi

# ---- real devices are hidden, or shown beside, if the system has any
says "bellwire0" "$bellwire" run --verbs=beside ls /sys/class/infiniband
real=$(ls /sys/class/infiniband 2>/dev/null | head -n 1)
if [ -n "$real" ]; then
    says "$real" "$bellwire" run --verbs=beside ls /sys/class/infiniband
    if "${seen[@]}" ls /sys/class/infiniband | grep -q "$real"; then bad "$real is not hidden"; else ok; fi
fi

# Where there is none, one that a folder imitates, in a mount namespace of this test.
if unshare -m mount -t tmpfs none /sys/class 2>/dev/null; then
    beside=(unshare -m sh -c 'mount -t tmpfs none /sys/class && mkdir -p /sys/class/infiniband/real0/ports/1 /sys/class/infiniband_verbs/uverbs0 || exit 1
            echo "5: REAL" >/sys/class/infiniband/real0/ports/1/state; echo real0 >/sys/class/infiniband_verbs/uverbs0/ibdev; exec "$@"' - "$bellwire" run)
    for path in /sys/class/infiniband/real0 /sys/class/infiniband/bellwire0; do says "$path" "${beside[@]}" --verbs=beside find /sys/class/infiniband/ -maxdepth 1; done
    says "5: REAL" "${beside[@]}" --verbs=beside cat /sys/class/infiniband/real0/ports/1/state
    says "4: ACTIVE" "${beside[@]}" --verbs=beside cat /sys/class/infiniband/bellwire0/ports/1/state
    # Each has a file of its own.
    says "real0" "${beside[@]}" --verbs=beside cat /sys/class/infiniband_verbs/uverbs0/ibdev
    says "bellwire0" "${beside[@]}" --verbs=beside cat /sys/class/infiniband_verbs/uverbs1/ibdev
    says "231, 193" "${beside[@]}" --verbs=beside ls -l /dev/infiniband/uverbs1
    says "bellwire0" "${beside[@]}" --verbs cat /sys/class/infiniband_verbs/uverbs0/ibdev
    says "No such file" "${beside[@]}" --verbs ls /sys/class/infiniband/real0
    # libibverbs lists ours.
    if command -v ibv_devices >/dev/null 2>&1; then says "bellwire0" "${beside[@]}" --verbs=beside ibv_devices; fi
else
    echo "SKIPPED an imitated real device: no mount namespace (root)"
fi

# ---- real devices in libibverbs' list: a library in place of the genuine one has a real device,
# and notes its calls
if cc -std=gnu11 -Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-field-initializers -shared -fPIC -Wl,-soname,libibverbs.so.1 -o "$out/libibverbs.so.1" "$here/genuine.c" &&
    cc -std=gnu11 -Wall -Wextra -Werror -o "$out/beside" "$here/beside.c" "$out/libibverbs.so.1"; then ok; else bad "beside.c, genuine.c"; fi
says ", 0 failures" env LD_LIBRARY_PATH="$out" "$bellwire" run --verbs=beside "$out/beside"
rm -f "$out/libibverbs.so.1"

# ---- a device is removed by plan: at a time, or at a moment that the seed chooses
make_program removal -libverbs
removed() { LD_PRELOAD=$library BELLWIRE_FAULTS=$1 timeout $patience "$out/removal"; }
if removed remove=50ms | grep -q "^removed after"; then ok; else bad "remove=50ms: $(removed remove=50ms 2>&1)"; fi
if removed remove=10ms..200ms,seed=7 | grep -q "^removed after"; then ok; else bad "remove=10ms..200ms"; fi
says "must be a plan of faults" env LD_PRELOAD="$library" BELLWIRE_FAULTS=remove=2s.. "$out/removal"

# ---- programs that do not see them: said by --explain
echo 'int main(void) { return 0; }' >"$out/static.c"
if cc -static -o "$out/static" "$out/static.c" 2>/dev/null; then
    says "is linked statically" "${seen[@]}" --explain "$out/static"
else
    echo "SKIPPED a static program: no static C library"
fi
if "${seen[@]}" --explain "$out/walk" 2>&1 | grep -q "not seen"; then bad "--explain says that walk does not see the devices"; else ok; fi
says "device bellwire0 at 127.0.0.1" "${seen[@]}" --explain true

# ---- several devices: a file by the variable, or in the usual places; errors in the file
export BELLWIRE_DEVICE_FILE=$here/limits.toml
says "0 failures" "${seen[@]}" "$out/limits"
says "mlx5_0" "${seen[@]}" ls /sys/class/infiniband
says "200 Gb/sec (4X HDR)" "${seen[@]}" cat /sys/class/infiniband/mlx5_0/ports/1/rate
says "0x02c9" "${seen[@]}" cat /sys/class/infiniband/mlx5_0/device/vendor
says "uverbs2" "${seen[@]}" ls /dev/infiniband
says "devices of $here/limits.toml" "${seen[@]}" --explain true
says "device small at 127.0.0.2" "${seen[@]}" --explain true
unset BELLWIRE_DEVICE_FILE
mkdir -p "$out/configuration/bellwire"
printf '[[device]]\nname = "mine"\n' >"$out/configuration/bellwire/bellwire-device.toml"
says "mine" env XDG_CONFIG_HOME="$out/configuration" "$bellwire" run --verbs ls /sys/class/infiniband
says "bellwire0" env XDG_CONFIG_HOME="$out/configuration" BELLWIRE_DEVICE_FILE= "$bellwire" run --verbs ls /sys/class/infiniband
# The kernel's software device is on no bus, and so is its imitation.
printf '[[device]]\nname = "rxe0"\nimitate = "rxe"\n' >"$out/rxe.toml"
said=$(BELLWIRE_DEVICE_FILE=$out/rxe.toml "${seen[@]}" sh -c 'ls /sys/class/infiniband/rxe0/ports; ls /sys/class/infiniband/rxe0 | grep -c device; ls /sys/bus/pci/devices | grep -c b311' 2>/dev/null)
if [ "$said" = "1
0
0" ]; then ok; else bad "a device that imitates rxe is on a bus: $said"; fi
says GRH env BELLWIRE_DEVICE_FILE="$out/rxe.toml" "${seen[@]}" "$out/received"
says plain "${seen[@]}" "$out/received"
printf '[[device]]\n[device.limits]\nmax_qp = 9000\n' >"$out/wrong.toml"
says "$out/wrong.toml:3: max_qp: a number from 1 to 8191" env BELLWIRE_DEVICE_FILE="$out/wrong.toml" "$bellwire" run --verbs true
says "$out/wrong.toml:3: max_qp: a number from 1 to 8191" env BELLWIRE_DEVICE_FILE="$out/wrong.toml" LD_PRELOAD="$library" ls /sys/class/infiniband
says "nonexistent.toml: No such file" env BELLWIRE_DEVICE_FILE=/nonexistent.toml "$bellwire" run --verbs true

# ---- ports down and up, at run time and by plan
export BELLWIRE_DEVICE_FILE=$here/port.toml
said=$(LD_PRELOAD=$library timeout $patience "$out/port" "$bellwire" 2>&1)
if [[ $said == *"well:"* ]]; then ok; else bad "port: $said"; fi
# ---- connection management on several devices
said=$(LD_PRELOAD=$library timeout $patience "$out/connections" "$bellwire" 2>&1)
if [[ $said == *"well"* ]]; then ok; else bad "connections: $said"; fi
unset BELLWIRE_DEVICE_FILE
says "process 1 has no RDMA device of Bellwire open" "$bellwire" port bellwire0 down --pid 1

# ---- nothing is left behind, whatever the end
before=$(ls -A /tmp /dev/shm | sort)
{ timeout -s KILL 1 env LD_PRELOAD="$library" sh -c 'while cat /sys/class/infiniband/bellwire0/ports/1/state; do :; done'; } >/dev/null 2>&1
after=$(ls -A /tmp /dev/shm | sort)
if [ -z "$(comm -13 <(echo "$before") <(echo "$after") | grep -i bellwire)" ]; then ok; else bad "files are left: $(comm -13 <(echo "$before") <(echo "$after"))"; fi

# ---- what it costs who uses none of it: instructions of open, read, fstat, close and stat
if command -v valgrind >/dev/null 2>&1; then
    instructions() { # library, rounds
        LD_PRELOAD=$1 timeout $patience valgrind --tool=callgrind --callgrind-out-file="$out/farm.callgrind" "$out/farm" "$2" >/dev/null 2>&1
        awk '/^summary:/ {print $2}' "$out/farm.callgrind"
    }
    plain=$(($(instructions "" 10000) - $(instructions "" 0)))
    with=$(($(instructions "$library" 10000) - $(instructions "$library" 0)))
    each=$(((with - plain) / 50000))
    echo "a call on other files: $each instructions more"
    if [ "$plain" -gt 0 ] && [ $each -le 30 ]; then ok; else bad "cost: $each instructions more for each call"; fi
else
    echo "SKIPPED cost: no valgrind"
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
