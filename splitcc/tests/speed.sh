# SPDX-License-Identifier: MIT OR Apache-2.0
# Sourced by run.sh: code that touches only local memory is clang's own, instruction for instruction; a word operation costs at most 10 instructions more than a plain one.
cat > "$work/local.c" <<'PROGRAM'
double dot(const double *a, const double *b, int n) { double s = 0; int i; for (i = 0; i < n; i++) s += a[i] * b[i]; return s; }
void scale(float *to, const float *from, float by, int n) { int i; for (i = 0; i < n; i++) to[i] = from[i] * by; }
int count(const char *text, char c) { int n = 0; while (*text) n += *text++ == c; return n; }
struct pair { int a; long b; };
long sum(struct pair *p, int n) { long s = 0; while (n-- > 0) s += p[n].a * p[n].b; return s; }
PROGRAM
cp "$work/local.c" "$work/local.sc"
clang-14 -std=gnu89 -fno-pie -fcommon -O2 -S -o - "$work/local.c" | grep -vE '^\s*\.(file|ident)' > "$work/plain.s"
"$splitcc" -O2 -S -o - "$work/local.sc" | grep -vE '^\s*\.(file|ident)' > "$work/ours.s"
diff "$work/plain.s" "$work/ours.s" > "$work/log"
result "local code is clang's own" $? "$work/log"

cat > "$work/word.sc" <<'PROGRAM'
#include <split-c/split-c.h>
int read_plain(int *p) { return *p; }
int read_global(int *global p) { return *p; }
void write_plain(int *p, int v) { *p = v; }
void write_global(int *global p, int v) { *p = v; }
void put_global(int *global p, int v) { *p := v; }
PROGRAM
# Of the short way: up to its return, without the call of the long way and the stack's alignment for that.
"$splitcc" -O2 -S -o - "$work/word.sc" > "$work/word.s" 2> "$work/log"
short() { awk -v f="$1:" '$1 == f {on = 1; next} on && /ret/ {print n; exit} on && /^\t[a-z]/ && !/^\t\./ && !/push|pop/ {n++}' "$work/word.s"; }
for pair in "read_global read_plain" "write_global write_plain" "put_global write_plain"; do
    more=$(($(short "${pair% *}") - $(short "${pair#* }")))
    echo "${pair% *}: $more instructions more than ${pair#* }" > "$work/log"
    [ $more -le 10 ]
    result "instructions of a word: ${pair% *} ($more more)" $? "$work/log"
done
