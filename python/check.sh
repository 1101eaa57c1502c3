#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The Python package: a wheel of an installation, installed in an environment of its own; its tests,
# and the programs of its guide page.
#   python/check.sh PREFIX OUT      PREFIX: what `make install` has made; OUT: a folder
# SKIPPED without Python's venv, or where cffi cannot be installed.
set -u
cd "$(dirname "$0")/.." || exit 1
prefix=$1 out=$2
mkdir -p "$out"
out=$(realpath "$out")
# The system's Python first: those of version managers may lack parts.
python=/usr/bin/python3
[ -x $python ] || python=$(command -v python3) || { echo "SKIPPED: no python3"; exit 0; }
$python -c 'import venv, ensurepip' 2>/dev/null || { echo "SKIPPED: no venv for $python (python3-venv)"; exit 0; }
passed=0 failed=0
check() { # what, command ..
    local what=$1
    shift
    if timeout 600 "$@" >"$out/log" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $what"; tail -n 30 "$out/log"; fi
}

rm -rf "$out/wheel" "$out/again" "$out/venv"
check "a wheel of the installation" $python packaging/wheel.py "$prefix" "$out/wheel"
wheel=$(ls "$out"/wheel/bellwire-*.whl) || { echo "FAILED: no wheel"; exit 1; }
check "the same files give the same wheel" $python packaging/wheel.py "$prefix" "$out/again"
check "the same bytes" cmp "$wheel" "$out/again/$(basename "$wheel")"
check "at most 15 MB" test "$(stat -c %s "$wheel")" -le 15000000
if ! { $python -m venv "$out/venv" && "$out/venv/bin/pip" install -q --disable-pip-version-check "cffi>=1.15"; } >"$out/log" 2>&1; then
    tail -n 1 "$out/log"
    echo "SKIPPED: its tests: cffi cannot be installed"
    [ $failed = 0 ]
    exit
fi
check "pip installs it" "$out/venv/bin/pip" install -q --disable-pip-version-check --no-index "$wheel"
# Nothing of the checkout or of another installation is used.
cd "$out" || exit 1
unset BELLWIRE_PREFIX PYTHONPATH LD_LIBRARY_PATH
here=$OLDPWD
check "the command" "$out/venv/bin/bellwire" --version
for test in "$here"/python/tests/test_*.py; do
    check "$(basename "$test")" "$out/venv/bin/python" "$test"
    sed -n 's/^Ran \(.*\) in .*/'"$(basename "$test")"': \1/p' "$out/log"
done
# A C program against the package's headers and libraries.
cat >"$out/version.c" <<'END'
#include <vipl.h>
#include <am.h>
int main(void) { VIP_NIC_HANDLE nic; return AM_MaxShort() == 16 && VipOpenNic("no such", &nic) != VIP_SUCCESS ? 0 : 1; }
END
native=$("$out/venv/bin/python" -c 'import bellwire; print(bellwire.prefix())')
check "a C program is compiled against it" sh -c "cc '$out/version.c' -o '$out/version' \$(PKG_CONFIG_PATH='$native/lib/pkgconfig' pkg-config --cflags --libs vipl bellwire-am)"
check "and runs" env LD_LIBRARY_PATH="$native/lib" "$out/version"
# The programs of the guide, and of the wheel's page.
awk -v out="$out" '/^```python/ { n++; file = out "/guide" n ".py"; job = $0 ~ /job:/ ? substr($0, index($0, "job:") + 4) : 0; print file, job; inside = 1; next }
    /^```$/ { if (inside) close(file); inside = 0 } inside { print > file }' "$here/docs/guide/python.md" "$here/python/README.md" >"$out/programs"
[ "$(wc -l <"$out/programs")" -ge 4 ] || { echo "FAILED: no programs in the guide"; failed=$((failed + 1)); }
while read -r file job; do
    if [ "$job" = 0 ]; then check "$(basename "$file") of the guide" "$out/venv/bin/python" "$file"
    else check "$(basename "$file") of the guide" "$out/venv/bin/bellwire" run -n "$job" "$out/venv/bin/python" "$file"; fi </dev/null
done <"$out/programs"
check "the figure" "$out/venv/bin/python" "$here/python/tests/figure.py"
cat "$out/log"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
