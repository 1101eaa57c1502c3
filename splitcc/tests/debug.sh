# SPDX-License-Identifier: MIT OR Apache-2.0
# Sourced by run.sh: gdb stops at lines of the source, shows variables, steps from line to line; the line table has no line that the source has not.
if command -v gdb > /dev/null 2>&1; then
    cat > "$work/debug.sc" <<'PROGRAM'
#include <split-c/split-c.h>
static int x;
int look(int *global g) {
    int here = *g;
    here += 1;
    return here;
}
splitc_main() {
    int A[PROCS]::[4];
    A[MYPROC][2] = 41;
    x = look(&A[MYPROC][2]);
    return x != 42;
}
PROGRAM
    "$splitcc" -g -O0 -w "$work/debug.sc" -o "$work/debug" > "$work/log" 2>&1
    timeout -s KILL 60 gdb -nx -batch -ex 'set debuginfod enabled off' -ex 'break look' -ex run -ex next -ex next -ex 'print here' -ex backtrace -ex finish -ex next -ex 'print x' "$work/debug" > "$work/log" 2>&1
    grep -q 'look (g=.*) at .*debug.sc:4' "$work/log" && grep -q '^5.*here += 1;' "$work/log" && grep -q '^6.*return here;' "$work/log" && grep -q '= 42' "$work/log" &&
        grep -q 'splitc_main () at .*debug.sc:11' "$work/log" && grep -q '^12.*return x' "$work/log"
    result "gdb steps through the source" $? "$work/log"
else
    echo "SKIPPED gdb: not installed"
fi
