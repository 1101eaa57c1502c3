/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A job of many processes: each sends numbered messages to every other, which answers them; crates/spmd/examples/all_to_all.rs is the same in Rust.
 *
 *   bellwire run -n 4 all_to_all [messages]        or mpiexec, mpirun, srun
 */
#include <am.h>
#include <stdio.h>
#include <stdlib.h>

enum { GREET = 1, ANSWER = 2 };

static volatile long answers, returned;
static long sum;

#define TRY(call)                                                               \
    do {                                                                        \
        int code_ = (call);                                                     \
        if (code_ != AM_OK) {                                                   \
            fprintf(stderr, "%s: error %d: %s\n", #call, code_, AMX_Reason());  \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

static void greet(void *token, int32_t number) { AM_Reply1(token, ANSWER, number); }

static void answer(void *token, int32_t number) {
    (void)token;
    sum += number;
    answers++;
}

/* A message came back: its receiver is gone. */
static void lost(int status, op_t op, void *argblock) {
    (void)op;
    fprintf(stderr, "a message to process %d came back: status %d\n", ((am_returned_t *)argblock)->dest, status);
    returned++;
}

int main(int count, char **arguments) {
    const int messages = count > 1 ? atoi(arguments[1]) : 10000;
    eb_t bundle;
    ep_t endpoint;
    long *sums, expected;
    int number, to, size, well = 1;
    TRY(AMX_Start(&bundle, &endpoint));
    TRY(AM_SetHandler(endpoint, GREET, greet));
    TRY(AM_SetHandler(endpoint, ANSWER, answer));
    TRY(AM_SetHandler(endpoint, 0, lost));
    TRY(AM_SetEventMask(bundle, AM_NOTEMPTY));
    TRY(AMX_Barrier()); /* everybody's handlers are there */
    size = AMX_Size();
    for (number = 0; number < messages; number++)
        for (to = 0; to < size; to++) TRY(AM_Request1(endpoint, to, GREET, number));
    while (answers + returned < (long)messages * size) {
        TRY(AM_WaitSema(bundle));
        TRY(AM_Poll(bundle));
    }
    sums = malloc(sizeof *sums * (size_t)size);
    TRY(AMX_AllGather(&sum, sizeof sum, sums));
    expected = (long)messages * (messages - 1) / 2 * size;
    for (to = 0; to < size; to++) well &= sums[to] == expected;
    free(sums);
    if (AMX_Rank() == 0) printf("%d processes, %ld messages each: %s\n", size, (long)messages * size, well ? "all answered" : "WRONG");
    TRY(AMX_Finish());
    return !well;
}
