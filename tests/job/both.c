/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program that uses global memory and Active Messages: two libraries, one job, which both join through the job library.
 *   both
 * The last line of rank 0 begins with "both: all well".
 */
#include <am.h>
#include <gas_table.h>
#include <gas_together.h>

#include <stdio.h>
#include <unistd.h>

enum { TELL = 1 };

static volatile int told = -1;
static int64_t words[64];

#define CHECK(what)                                                                                                        \
    do {                                                                                                                   \
        if (!(what)) {                                                                                                     \
            fprintf(stderr, "both: process %d, line %d: %s (%s)\n", gas_here.process, __LINE__, #what, AMX_Reason());      \
            _exit(99);                                                                                                     \
        }                                                                                                                  \
    } while (0)

static void on_tell(void *token, int from) {
    (void)token;
    told = from;
}

int main(void) {
    const int me = gas_here.process, n = gas_here.processes, next = (me + 1) % n, before = (me + n - 1) % n;
    eb_t bundle;
    ep_t endpoint;
    CHECK(AMX_Start(&bundle, &endpoint) == AM_OK);
    CHECK(AMX_Rank() == me && AMX_Size() == n);
    CHECK(AM_SetHandler(endpoint, TELL, (void (*)())on_tell) == AM_OK);
    CHECK(AMX_Barrier() == AM_OK);
    /* A word into the next process, then a message about it. */
    gas_write_8((gas_ptr)next << 48 | (uintptr_t)&words[me], (uint64_t)me + 100);
    CHECK(AM_Request1(endpoint, next, TELL, me) == AM_OK);
    while (told != before) CHECK(AM_Poll(bundle) == AM_OK);
    CHECK(words[before] == before + 100);
    CHECK(gas_all_add_l(me) == (long)n * (n - 1) / 2);
    CHECK(AMX_Barrier() == AM_OK);
    gas_barrier();
    CHECK(AMX_Finish() == AM_OK);
    gas_barrier();
    if (me == 0) printf("both: all well: %d processes\n", n);
    return 0;
}
