# SPDX-License-Identifier: MIT OR Apache-2.0
# Sourced by run.sh: the C interface without Split-C, from C11 and from C++.
include=$here/../../ffi/gas/include
for language in "clang-14 -std=c11 -pedantic-errors -Wno-gnu" "clang++-14 -std=c++14 -x c++"; do
    # shellcheck disable=SC2086
    $language -O2 -g -Wall -Wextra -Werror -Wno-long-long -no-pie -fno-pie -I"$include" "$here/c/interface.c" -o "$work/interface" -L"$build/lib" -Wl,-rpath,"$build/lib" -lbellwire_gas > "$work/log" 2>&1
    result "interface: ${language%% *} compiles" $? "$work/log"
    for n in 1 2 3 4; do
        for way in on off; do
            BELLWIRE_SHM=$way timeout -s KILL 60 "$bellwire" run -n $n "$work/interface" > "$work/log" 2>&1 && grep -q "^[0-9]* checks, 0 failed" "$work/log"
            result "interface: ${language%% *}, $n processes, shared memory $way" $? "$work/log"
        done
    done
done
