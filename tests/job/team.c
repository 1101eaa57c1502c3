/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Active Messages' own start-up under whatever launcher starts this: everybody talks to everybody, in all sizes. Compiled as C11 and as C++17.
 *   team [messages]    everything
 *   team exit STATUS   rank 0 ends the job with it, while the others wait in a barrier
 *   team again STATUS  so, and an exit handler of rank 0 ends it once more, as GASNet's does
 *   team kill          the last rank is killed, while the others wait: each hears of it, unless the launcher is faster
 * The last line of rank 0 begins with "team: all well".
 */
#include <am.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ECHO = 1, ANSWER = 2, PLACED = 3, SLOT = 5000 };

static int rank, size;
static eb_t bundle;
static ep_t endpoint;
static volatile int answers, placed, returned, wrong;
static unsigned char *segment;

#define CHECK(what)                                                                                           \
    do {                                                                                                      \
        if (!(what)) {                                                                                        \
            fprintf(stderr, "team: rank %d, line %d: %s (%s)\n", rank, __LINE__, #what, AMX_Reason());        \
            _exit(99);                                                                                        \
        }                                                                                                     \
    } while (0)

static unsigned char byte_of(int of, int number, size_t i) { return (unsigned char)(i * 7 + (size_t)of * 13 + (size_t)number); }

static void is_pattern(const unsigned char *data, size_t n, int of, int number) {
    size_t i;
    for (i = 0; i < n; i++)
        if (data[i] != byte_of(of, number, i)) wrong = 1;
}

static void echo(void *token, void *buf, size_t nbytes, int32_t from, int32_t number) {
    int source = -1;
    if (AMX_SourceRank(token, &source) != AM_OK || source != from) wrong = 1;
    is_pattern((const unsigned char *)buf, nbytes, from, number);
    if (AM_ReplyI2(token, ANSWER, buf, nbytes, from, number) != AM_OK) wrong = 1;
}

static void answer(void *token, void *buf, size_t nbytes, int32_t from, int32_t number) {
    (void)token;
    is_pattern((const unsigned char *)buf, nbytes, from, number);
    answers++;
}

static void is_placed(void *token, void *buf, size_t nbytes, int32_t from) {
    (void)token;
    is_pattern((const unsigned char *)buf, nbytes, from, 0);
    placed++;
}

static void came_back(int status, op_t op, void *argblock) {
    (void)status; (void)op; (void)argblock;
    returned++;
}

static void start(void) {
    void *memory;
    int before = -2;
    CHECK(AMX_Rank() == -1 && AMX_Barrier() == AM_ERR_NOT_INIT && AMX_Reason()[0] != 0);
    CHECK(AMX_Start(&bundle, &endpoint) == AM_OK);
    CHECK(AMX_Start(&bundle, &endpoint) == AM_ERR_IN_USE);
    rank = AMX_Rank();
    size = AMX_Size();
    CHECK(size >= 1 && rank >= 0 && rank < size);
    CHECK(AM_GetTranslationInuse(endpoint, size - 1) == AM_OK && AM_GetTranslationInuse(endpoint, size) != AM_OK);
    CHECK(AM_SetHandler(endpoint, ECHO, echo) == AM_OK && AM_SetHandler(endpoint, ANSWER, answer) == AM_OK);
    CHECK(AM_SetHandler(endpoint, PLACED, is_placed) == AM_OK && AM_SetHandler(endpoint, 0, came_back) == AM_OK);
    CHECK(AMX_Alloc((size_t)size * SLOT, &memory) == AM_OK);
    segment = (unsigned char *)memory;
    CHECK(AM_SetSeg(endpoint, segment, (uintptr_t)size * SLOT) == AM_OK);
    CHECK(AMX_SourceRank(NULL, &before) == AM_ERR_BAD_ARG);
    CHECK(AMX_Barrier() == AM_OK);
}

static void exchange(int messages) {
    unsigned char data[SLOT];
    int number, to;
    for (number = 0; number < messages; number++) {
        for (to = 0; to < size; to++) {
            size_t n = (size_t)(number * 997 + rank * 131) % SLOT, i;
            for (i = 0; i < n; i++) data[i] = byte_of(rank, number, i);
            CHECK(AM_RequestI2(endpoint, to, ECHO, data, n, rank, number) == AM_OK);
        }
    }
    for (to = 0; to < size; to++) {
        size_t i;
        for (i = 0; i < SLOT; i++) data[i] = byte_of(rank, 0, i);
        CHECK(AM_RequestXfer1(endpoint, to, (uintptr_t)rank * SLOT, PLACED, data, SLOT, rank) == AM_OK);
    }
    while (answers < messages * size) CHECK(AM_Poll(bundle) == AM_OK && !returned);
    CHECK(AMX_Barrier() == AM_OK);
    while (placed < size) CHECK(AM_Poll(bundle) == AM_OK);
    for (to = 0; to < size; to++) is_pattern(segment + (size_t)to * SLOT, SLOT, to, 0);
    CHECK(!wrong && !returned);
}

static void gather(void) {
    long mine = (long)rank * rank, *all = (long *)malloc(sizeof(long) * (size_t)size);
    int of, round;
    for (round = 0; round < 100; round++, mine += 3) {
        CHECK(AMX_AllGather(&mine, sizeof mine, all) == AM_OK);
        for (of = 0; of < size; of++) CHECK(all[of] == (long)of * of + 3 * round);
    }
    free(all);
}

static int status;
static void end_again(void) { AMX_Exit(status); }

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "200";
    start();
    if (strcmp(what, "again") == 0) {
        status = atoi(arguments[2]);
        if (rank == 0) CHECK(atexit(end_again) == 0);
        what = "exit";
    }
    if (strcmp(what, "exit") == 0) {
        if (rank == 0) AMX_Exit(atoi(arguments[2]));
        CHECK(AMX_Barrier() != AM_OK);
        return 0;
    }
    if (strcmp(what, "kill") == 0) {
        if (rank == size - 1) raise(SIGKILL);
        CHECK(AMX_Barrier() == AMX_ERR_LOST && AMX_Barrier() == AMX_ERR_LOST && strstr(AMX_Reason(), "is gone") != NULL);
        CHECK(AM_RequestI2(endpoint, size - 1, ECHO, "", 0, rank, 0) == AM_OK);
        while (!returned) CHECK(AM_Poll(bundle) == AM_OK);
        CHECK(AMX_Finish() == AMX_ERR_LOST && AMX_Rank() == -1);
        return 8;
    }
    exchange(atoi(what));
    gather();
    CHECK(AMX_Finish() == AM_OK && AMX_Rank() == -1);
    if (rank == 0) printf("team: all well: %d processes\n", size);
    return 0;
}
