/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What one process does alone: memory in all processes or in another one; functions on places of others. */
#include "check.h"

struct list { int count; long items[200]; };
static struct list lists;
static long push(struct list *list, long item) {
    list->items[list->count] = item;
    return list->count++;
}
static long larger(long *place, long value) {
    const long before = *place;
    if (value > before) *place = value;
    return before;
}
static long most = -1;

splitc_main() {
    int i, p, step = 50;
    long sum = 0;
    int *spread mine = spread_malloc(3 * PROCS, sizeof(int));
    int *spread theirs, *spread table[PROCS]::;
    long *global there = global_malloc((MYPROC + 1) % PROCS, 10 * sizeof(long));
    double *same = all_malloc(4 * sizeof(double));
    void *spread other = spread_malloc(1, 100000);
    CHECK(mine != NULL && there != NULL && same != NULL && other != NULL);
    CHECK(toproc(there) == (MYPROC + 1) % PROCS && toproc(mine) == 0);
    for (i = 0; i < 3 * PROCS; i++) mine[i] = 1000 * MYPROC + i;
    for (i = 0; i < 10; i++) there[i] := i * MYPROC;
    sync();
    table[MYPROC] = mine;
    same[1] = MYPROC;
    barrier();
    for (p = 0; p < PROCS; p++) {
        theirs = table[p];
        for (i = 0; i < 3 * PROCS; i++) CHECK(theirs[i] == 1000 * p + i);
        CHECK(*toglobal(p, &same[1]) == p);
    }
    for (i = 0; i < 10; i++) CHECK(there[i] == i * MYPROC);
    /* Everybody pushes to process 0's list: nothing is lost, and every place is given once. */
    for (i = 0; i < step; i++) {
        const long at = atomic(push, toglobal(0, &lists), MYPROC * step + i + 1);
        if (PROCS * step <= 200) CHECK(at >= 0 && at < PROCS * step);
        atomic(larger, toglobal(PROCS - 1, &most), MYPROC * step + i);
    }
    barrier();
    on_one {
        CHECK(lists.count == PROCS * step);
        for (i = 0; i < lists.count; i++) sum += lists.items[i];
        CHECK(sum == (long)PROCS * step * (PROCS * step + 1) / 2);
    }
    on_proc(PROCS - 1) CHECK(most == PROCS * step - 1);
    barrier();
    spread_free(mine);
    spread_free(other);
    global_free(there);
    all_free(same);
    CHECK(spread_malloc(1, 100000) != NULL);
    CHECK(spread_malloc(1, (size_t)1 << 50) == NULL);
    return check_end();
}
