#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The wheel for aarch64 under qemu's user emulation: the command, what it says of the system, and a
# ping-pong in C, compiled with the wheel's headers, between two processes.
#   packaging/check-aarch64.sh WHEELS OUT
#   ROOT     a system for aarch64 (default: /usr/aarch64-linux-gnu, Debian's libc6-dev-arm64-cross)
# SKIPPED without the wheel, qemu-user-static, gcc-aarch64-linux-gnu or the system.
set -u
cd "$(dirname "$0")/.." || exit 1
wheel=$(find "$1" -name 'bellwire-*_aarch64.whl' | head -n 1)
mkdir -p "$2"
out=$(realpath "$2") root=${ROOT:-/usr/aarch64-linux-gnu}
[ -n "$wheel" ] || { echo "SKIPPED: no wheel for aarch64 in $1 (packaging/wheels.sh)"; exit 0; }
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || { echo "SKIPPED: no qemu-aarch64 (qemu-user-static)"; exit 0; }
command -v aarch64-linux-gnu-gcc >/dev/null || { echo "SKIPPED: no gcc-aarch64-linux-gnu"; exit 0; }
[ -e "$root/lib/ld-linux-aarch64.so.1" ] || { echo "SKIPPED: no system for aarch64 in $root"; exit 0; }
. packaging/checks.sh
rm -rf "$out/unpacked"
check "unpacked" python3 -m zipfile -e "$wheel" "$out/unpacked"
native=$out/unpacked/bellwire/_native
chmod +x "$native"/bin/*
emulated() { timeout 100 "$emulator" -L "$root" -E LD_LIBRARY_PATH="$native/lib" "$@"; }
check "the command" emulated "$native/bin/bellwire" --version
# The emulator refuses a system call or two, which is said; all that is needed is there.
check "info" sh -c "$(declare -f emulated); emulator='$emulator' root='$root' native='$native'; emulated '$native/bin/bellwire' info; [ \$? -le 1 ]"
check "a C program is compiled" aarch64-linux-gnu-gcc -std=c11 -D_GNU_SOURCE -O1 -I"$native/include" examples/c/pingpong.c examples/c/common.c -o "$out/pingpong" -L"$native/lib" -lvipl
name=aarch64-$$
emulated "$out/pingpong" server --count 2000 --name $name >"$out/server" 2>&1 &
for _ in $(seq 300); do grep -q 'bellwire/.*/w/' /proc/net/unix && break; sleep 0.1; done
check "a ping-pong between two processes" emulated "$out/pingpong" client --count 2000 --name $name
cat "$out/log"
wait $! || { echo "FAILED: the server"; failed=$((failed + 1)); }
counted
