# SPDX-License-Identifier: MIT OR Apache-2.0
# Sourced by run.sh. Each file of messages/ says in comments what is to be printed: "expect: text" for its own line.
for source in "$here"/messages/*.sc; do
    name=$(basename "$source")
    "$splitcc" -fsyntax-only "$source" > "$work/log" 2>&1
    status=0
    count=$(grep -c 'expect: ' "$source")
    while IFS=: read -r line text; do
        text=${text#*expect: }
        text=${text% \*/*}
        grep -F "$name:$line:" "$work/log" | grep -qF -- "$text" || { status=1; echo "missing at line $line: $text" >> "$work/log"; }
    done < <(grep -n 'expect: ' "$source")
    told=$(grep -cE "^[^ ].*: (error|warning): " "$work/log")
    [ "$told" = "$count" ] || { status=1; echo "$told messages instead of $count" >> "$work/log"; }
    result "messages: $name" $status "$work/log"
done
# What the lowering and the linker have to say.
printf 'int x;\nint *global g = (int *global)&x;\nsplitc_main() {}\n' > "$work/static.sc"
"$splitcc" -w -c "$work/static.sc" -o "$work/static.o" > "$work/log" 2>&1
grep -q "static.sc.*'g'\|'g': a local pointer becomes a global one when the program runs\|not a compile-time constant" "$work/log"
result "messages: static initial value" $? "$work/log"
# A wrong pointer ends the job with the place in the source.
cat > "$work/wrong.sc" <<'PROGRAM'
#include <split-c/split-c.h>
#include <stdlib.h>
int x[4];
splitc_main(argc, argv) char **argv; {
    int *global g = toglobal(0, &x[0]);
    barrier();
    switch (atoi(argv[1])) {
    case 0: g = NULL; break;
    case 1: g = toglobal(77, &x[0]); break;
    case 2: g = (int *global)((char *global)g + 1); break;
    case 3: g = toglobal(0, (int *)0x300000000); break;
    }
    *g = 1;
    return 0;
}
PROGRAM
"$splitcc" -w -g -fsplitc-check "$work/wrong.sc" -o "$work/wrong" > "$work/log" 2>&1
for way in on off; do
    for wrong in "0:no memory is there" "1:there is no process 77" "2:not aligned to 4" "3:"; do
        BELLWIRE_SHM=$way timeout -s KILL 20 "$bellwire" run -n 2 "$work/wrong" "${wrong%%:*}" > "$work/log" 2>&1
        status=$?
        [ $status != 0 ] && grep -q "${wrong#*:}" "$work/log" && { [ "${wrong%%:*}" = 3 ] || grep -q "wrong.sc:13:8: " "$work/log"; }
        result "messages: wrong pointer ${wrong%%:*}, shared memory $way" $? "$work/log"
    done
done
# The same without checks: by packets the owner of the place says that nothing is there, for each operation.
cat > "$work/far.sc" <<'PROGRAM'
#include <split-c/split-c.h>
#include <stdlib.h>
splitc_main(argc, argv) char **argv; {
    int *global g = toglobal(0, (int *)64), x = 1;
    if (MYPROC == 1) switch (atoi(argv[1])) {
    case 0: x = *g; break;
    case 1: *g = x; break;
    case 2: x := *g; break;
    case 3: *g := x; break;
    case 4: *g :- x; break;
    case 5: x = fetch_and_add(g, 1); break;
    }
    sync();
    all_store_sync();
    return 0;
}
PROGRAM
"$splitcc" -w "$work/far.sc" -o "$work/far" > "$work/log" 2>&1
for operation in 0 1 2 3 4 5; do
    BELLWIRE_SHM=off timeout -s KILL 20 "$bellwire" run -n 2 "$work/far" $operation > "$work/log" 2>&1
    status=$?
    [ $status != 0 ] && [ $status != 137 ] && grep -q "process 1: .* at a global pointer to process 0, address 0x40: no memory is there" "$work/log"
    result "messages: operation $operation on a place that is not there, by packets" $? "$work/log"
done
