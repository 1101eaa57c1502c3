/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* C of the time of GCC 2: implicit int, K&R definitions, old inline, string literals over lines, labels and ternaries beside the signs. */
#include "check.h"
#define log2(x) ((x) > 1)
#define GPTR(t) t *global
#define GET(to, from) to := from

extern inline int never_emitted(int x) { return x; }
/* GCC 2 emitted nothing for these, since it inlined them: not so if they call themselves, or by a pointer. */
extern inline int down(int n) { return n > 0 ? n + down(n - 1) : 0; }
extern inline int taken(int x) { return 3 * x; }
extern inline int replaced(int x) { return x; }
int replaced(int x) { return x + 5; }
int (*taken_by)(int) = taken;
inline int emitted(int x) { return x + 1; }
counter = 5;
int tentative;
int tentative;
typedef int *global shared_int;
typedef struct { shared_int p; GPTR(double) q, *r; } pointers;
static shared_int pick(a, b, which) shared_int a, b; { return which ? a : b; }
GPTR(int) identity(GPTR(int) p) { return p; }
int *global (*chooser)(int *global, int *global, int) = pick;
register_walk(s) register int *spread s; { register int i, sum = 0; for (i = 0; i < PROCS; i++) sum += *s++; return sum; }

main_part(argc, argv) char **argv; {
    int a = 3, b, n[PROCS]::;
    int x = a ? 1 :-1, y = a == 4 ? 1:-1;
    struct { int f, g; } old = { f:-3, g: 4 };
    pointers ps;
    /* comment /* in a comment */
    char *text = "one
two";
    CHECK(strcmp(text, "one\ntwo") == 0);
    CHECK(x == 1 && y == -1 && old.f == -3);
    switch (a) {
    case 3:-a;
    default:-a;
    }
    goto out;
out:-a;
    ps.p = toglobal(MYPROC, &a);
    ps.q = 0;
    CHECK(ps.q == NULL && !ps.q);
    CHECK(*(*chooser)(ps.p, NULL, 1) == 3);
    GET(b, *identity(ps.p));
    sync();
    CHECK(b == 3);
    *ps.p :--7;
    all_store_sync();
    CHECK(*(volatile int *)&a == -7);
    a = 0;
    a ? *ps.p = 1 : (*ps.p := 2);
    sync();
    CHECK(*(volatile int *)&a == 2);
    n[MYPROC] = MYPROC;
    barrier();
    CHECK(register_walk(n) == PROCS * (PROCS - 1) / 2);
    CHECK(down(10) == 55 && taken_by(4) == 12 && replaced(1) == 6 && never_emitted(2) == 2);
    CHECK(emitted(counter) == 6 && sizeof(ps.p) == 8 && log2(2));
    barrier();
}

void splitc_main(int argc, char *argv[]) {
    main_part(argc, argv);
    if (check_end()) exit(1);
}
