/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The job library under whatever launcher starts this: every process checks what it is told. Compiled as C11 and as C++17.
 *   spmd [rounds]                    everything, with random delays
 *   spmd exit STATUS                 rank 0 ends the job with it, while the others wait in a barrier
 *   spmd die STATUS                  the last rank leaves without a word with this status, while the others wait
 *   spmd kill                        the last rank is killed, while the others wait
 * The last line of rank 0 begins with "spmd: all well".
 */
#include <bellwire_job.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

#define CHECK(what)                                                                                                          \
    do {                                                                                                                     \
        if (!(what)) {                                                                                                       \
            fprintf(stderr, "spmd: rank %d, line %d: %s (%s)\n", rank, __LINE__, #what, bw_job_error());                     \
            _exit(99);                                                                                                       \
        }                                                                                                                    \
    } while (0)

/* Up to two milliseconds, differently everywhere. */
static void dawdle(void) { usleep((useconds_t)(rand() % 2000)); }

/* What rank `of` gives in a round: its length and bytes follow from both. */
static size_t block_of(int of, int round, unsigned char *block) {
    size_t n = (size_t)(of * 131 + round * 977) % 3000, i;
    if (round == 3 && of == 0) n = BW_JOB_BLOCK_MAX;
    for (i = 0; i < n; i++) block[i] = (unsigned char)(i * 7 + (size_t)of + (size_t)round * 13);
    return n;
}

static void place(void) {
    CHECK(bw_job_rank() == -1 && bw_job_id() == NULL && bw_job_barrier() == BW_JOB_ERR_NOT_JOINED && bw_job_error()[0] != 0);
    CHECK(bw_job_join() == BW_JOB_OK);
    CHECK(bw_job_join() == BW_JOB_OK && bw_job_leave() == BW_JOB_OK);
    rank = bw_job_rank();
    size = bw_job_size();
    CHECK(size >= 1 && rank >= 0 && rank < size);
    CHECK(bw_job_local_size() >= 1 && bw_job_local_size() <= size && bw_job_local_rank() >= 0 && bw_job_local_rank() < bw_job_local_size());
    CHECK(bw_job_id()[0] != 0 && bw_job_launcher()[0] != 0);
    srand((unsigned)rank + 1);
}

static void gather(int rounds) {
    static unsigned char mine[BW_JOB_BLOCK_MAX], theirs[BW_JOB_BLOCK_MAX];
    size_t room = (size_t)size * 3000 + BW_JOB_BLOCK_MAX;
    unsigned char *all = (unsigned char *)malloc(room);
    size_t *lengths = (size_t *)calloc((size_t)size, sizeof *lengths);
    int *ranks = (int *)calloc((size_t)size, sizeof *ranks);
    int round, of;
    CHECK(all && lengths && ranks);
    for (round = 0; round < rounds; round++) {
        size_t n = block_of(rank, round, mine), at = 0;
        dawdle();
        CHECK(bw_job_allgatherv(mine, n, all, room, lengths) == BW_JOB_OK);
        for (of = 0; of < size; of++) {
            size_t expected = block_of(of, round, theirs);
            CHECK(lengths[of] == expected && memcmp(all + at, theirs, expected) == 0);
            at += expected;
        }
        dawdle();
        CHECK(bw_job_allgather(&rank, sizeof rank, ranks) == BW_JOB_OK);
        for (of = 0; of < size; of++) CHECK(ranks[of] == of);
    }
    CHECK(bw_job_allgather("longer", (size_t)(rank == 0 ? 2 : 1), all) == (size == 1 ? BW_JOB_OK : BW_JOB_ERR_ARGUMENT));
    free(all);
    free(lengths);
    free(ranks);
}

static void keys(void) {
    char text[64];
    char back[64];
    size_t n = 0;
    int of;
    snprintf(text, sizeof text, "address of %d", rank);
    CHECK(bw_job_put("address", text, strlen(text)) == BW_JOB_OK);
    CHECK(bw_job_put("address", text, 1) == BW_JOB_ERR_LAUNCHER);
    CHECK(bw_job_put("empty", NULL, 0) == BW_JOB_OK);
    CHECK(bw_job_put("a b", text, 1) == BW_JOB_ERR_ARGUMENT && bw_job_put("", text, 1) == BW_JOB_ERR_ARGUMENT && bw_job_put(NULL, text, 1) == BW_JOB_ERR_ARGUMENT);
    CHECK(bw_job_put("a-key-of-25-characters...", text, 1) == BW_JOB_ERR_ARGUMENT && bw_job_put("large", text, BW_JOB_BLOCK_MAX + 1) == BW_JOB_ERR_ARGUMENT);
    dawdle();
    CHECK(bw_job_fence() == BW_JOB_OK);
    for (of = size - 1; of >= 0; of--) {
        snprintf(text, sizeof text, "address of %d", of);
        CHECK(bw_job_get(of, "address", back, sizeof back, &n) == BW_JOB_OK && n == strlen(text) && memcmp(back, text, n) == 0);
        CHECK(bw_job_get(of, "address", back, 3, &n) == BW_JOB_ERR_SPACE && n == strlen(text) && memcmp(back, "add", 3) == 0);
        CHECK(bw_job_get(of, "empty", NULL, 0, &n) == BW_JOB_OK && n == 0);
        CHECK(bw_job_get(of, "nothing", back, sizeof back, &n) == BW_JOB_ERR_NOT_FOUND);
    }
    CHECK(bw_job_get(size, "address", back, sizeof back, &n) == BW_JOB_ERR_ARGUMENT && bw_job_get(-1, "address", back, sizeof back, &n) == BW_JOB_ERR_ARGUMENT);
}

/* The last comes late; nobody is through before that. */
static void barriers(void) {
    int round, done = 0, asked = 0;
    CHECK(bw_job_barrier_done(&done) == BW_JOB_ERR_ARGUMENT);
    for (round = 0; round < 3; round++) {
        if (rank == size - 1) usleep(20000);
        CHECK(bw_job_barrier_start() == BW_JOB_OK);
        CHECK(bw_job_barrier_start() == BW_JOB_ERR_ARGUMENT && bw_job_fence() == BW_JOB_ERR_ARGUMENT);
        for (done = 0; !done; asked++) {
            CHECK(bw_job_barrier_done(&done) == BW_JOB_OK);
            if (!done) usleep(500);
        }
        dawdle();
        CHECK(bw_job_barrier() == BW_JOB_OK);
    }
    CHECK(size == 1 || rank == size - 1 || asked > 3);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "4";
    int status = argc > 2 ? atoi(argv[2]) : 0;
    place();
    CHECK(bw_job_barrier() == BW_JOB_OK);
    if (strcmp(what, "exit") == 0) {
        if (rank == 0) bw_job_exit(status);
        bw_job_barrier();
        pause();
    }
    if (strcmp(what, "die") == 0 || strcmp(what, "kill") == 0) {
        if (rank == size - 1) {
            if (what[0] == 'k') raise(SIGKILL);
            _exit(status);
        }
        /* The launcher may end this process first. */
        status = bw_job_barrier();
        fprintf(stderr, "spmd: rank %d: %s\n", rank, bw_job_error());
        return status == BW_JOB_OK ? 98 : 0;
    }
    gather(atoi(what));
    keys();
    barriers();
    if (rank == 0) printf("spmd: all well: %d processes, %d here, job %s by %s\n", size, bw_job_local_size(), bw_job_id(), bw_job_launcher());
    /* The first leaves as it should, the others by coming to their end. */
    return rank == 0 && bw_job_leave() != BW_JOB_OK;
}
