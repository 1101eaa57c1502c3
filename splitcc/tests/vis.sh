# SPDX-License-Identifier: MIT OR Apache-2.0
# Sourced by run.sh: accesses by VIs of libvipl (BELLWIRE_GAS) in both ways, over shared memory, in
# guarded mode, over UDP, and with packets lost, doubled and overtaken: the programs, the C
# interface, wrong pointers,
# killed processes. VIS=long: all of them; else a part.
vipl=${BELLWIRE_VIPL:-$(dirname "$(realpath "$(command -v "$bellwire")")")/libvipl.so}
udp='BELLWIRE_SHM=off BELLWIRE_UDP=on'
by_vis() { # environment, number of processes, program and arguments ..
    # shellcheck disable=SC2086
    env BELLWIRE_VIPL="$vipl" $1 timeout -s KILL 120 "$bellwire" run -n "${@:2}" > "$work/log" 2>&1 < /dev/null
}
ways=("vi1||3" "vi2||3" "vi1|$udp BELLWIRE_FAULTS=$faults|2" "vi2|BELLWIRE_MODE=guarded|2")
optimised=(-O2)
if [ "${VIS:-short}" = long ]; then
    ways=() optimised=("-O0" "-O2 -g" "-O1 -fsplitc-check")
    for version in vi1 vi2; do
        for n in 1 2 4; do ways+=("$version||$n" "$version|BELLWIRE_MODE=guarded|$n"); done
        for n in 2 3; do ways+=("$version|$udp|$n" "$version|$udp BELLWIRE_FAULTS=$faults|$n"); done
    done
fi
for source in "$here"/run/*.sc; do
    name=$(basename "$source" .sc)
    for flags in "${optimised[@]}"; do
        # shellcheck disable=SC2086
        "$splitcc" $flags -w "$source" -o "$work/$name" > "$work/log" 2>&1 || result "$name: compile $flags" 1 "$work/log"
        for way in "${ways[@]}"; do
            IFS='|' read -r version setting n <<< "$way"
            by_vis "BELLWIRE_GAS=$version $setting" "$n" "$work/$name" && grep -q ", 0 failed" "$work/log"
            result "$name $flags on $n by $version $setting" $? "$work/log"
        done
    done
done
clang-14 -std=c11 -Wno-gnu -O2 -no-pie -fno-pie -I"$here/../../ffi/gas/include" "$here/c/interface.c" -o "$work/interface" -L"$build/lib" -Wl,-rpath,"$build/lib" -lbellwire_gas > "$work/log" 2>&1
result "interface: compile" $? "$work/log"
for way in "${ways[@]}"; do
    IFS='|' read -r version setting n <<< "$way"
    by_vis "BELLWIRE_GAS=$version $setting" "$n" "$work/interface" && grep -q "^[0-9]* checks, 0 failed" "$work/log"
    result "interface on $n by $version $setting" $? "$work/log"
done
for word in vi9 vi0; do
    by_vis "BELLWIRE_GAS=$word" 2 "$work/interface"
    [ $? != 0 ] && grep -q "BELLWIRE_GAS=$word is none of" "$work/log"
    result "BELLWIRE_GAS=$word is refused" $? "$work/log"
done
by_vis "BELLWIRE_GAS=vi BELLWIRE_VIPL=/nowhere/libvipl.so" 2 "$work/interface"
[ $? != 0 ] && grep -q "no global memory: .*/nowhere" "$work/log"
result "a libvipl that is not there is an error" $? "$work/log"

# Wrong pointers: as by messages, whatever serves them.
"$splitcc" -w -O2 "$here/wrong/operations.sc" -o "$work/unchecked" > "$work/log" 2>&1
result "wrong pointers: compile" $? "$work/log"
some=(read put struct-get bulk_store)
[ "${VIS:-short}" = long ] && mapfile -t some < <(sed -n 's/.*CASE("\([^"]*\)").*/\1/p' "$here/wrong/operations.sc")
for version in vi1 vi2; do
    missing=
    for operation in "${some[@]}"; do
        for kind in null nowhere; do
            by_vis "BELLWIRE_GAS=$version" 2 "$work/unchecked" "$operation" $kind
            [ $? != 0 ] && grep -qE 'process 1: .* global pointer to process [0-9]+, address 0x[0-9a-f]+: no memory is there' "$work/log" && ! grep -qE 'CHANGED|went on' "$work/log" || { missing="$missing $operation/$kind"; cp "$work/log" "$work/missed"; }
        done
    done
    [ -z "$missing" ]
    result "wrong pointers by $version:$missing" $? "$work/missed"
done

kill_ways=("BELLWIRE_VIPL=$vipl BELLWIRE_GAS=vi1")
[ "${VIS:-short}" = long ] && for version in vi1 vi2; do
    kill_ways+=("BELLWIRE_VIPL=$vipl BELLWIRE_GAS=$version BELLWIRE_MODE=guarded" "BELLWIRE_VIPL=$vipl BELLWIRE_GAS=$version $udp")
done
# shellcheck source=/dev/null
. "$here/killed.sh"
