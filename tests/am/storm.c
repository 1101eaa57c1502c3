/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Every process of a job sends requests of all kinds to all, itself too, as fast as it can, and
 * replies in every way; each request is handled once, and each reply comes once with what was sent.
 * Run by mappings.sh.
 *   storm REQUESTS [move]    move: the endpoint moves between two bundles meanwhile
 */
#include <am.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT = 1, MEDIUM, BULK, ANSWER, ANSWER_M, ANSWER_X, GOT, PLACES = 256, PLACE = 2048, RANKS = 16, REQUESTS = 1 << 16 };

static ep_t endpoint;
static eb_t bundles[2];
static unsigned char *segment, *seen[RANKS];
static int size, rank, wrong, expected, gets, sent_to[RANKS];
static volatile int answered, returned_count;
static unsigned long long handled;

static unsigned char byte_at(int seed, size_t i) { return (unsigned char)(seed * 37 + (int)i * 11 + (int)(i >> 8)); }
static size_t place(int half, int of, int number) { return ((size_t)(half * RANKS + of) * PLACES + (size_t)(number % PLACES)) * PLACE; }

static void fault(const char *what, int number) {
    fprintf(stderr, "storm: rank %d: %s, request %d\n", rank, what, number);
    wrong = 1;
}

static void look(const char *what, const void *data, size_t nbytes, int seed, int number) {
    size_t i;
    for (i = 0; i < nbytes; i++) {
        if (((const unsigned char *)data)[i] != byte_at(seed, i)) {
            fault(what, number);
            return;
        }
    }
}

/* The sender's number, how to reply, and how many bytes there are. */
static void serve(void *token, int number, int style, int nbytes) {
    unsigned char data[PLACE];
    int from = -1, i, code = AM_OK;
    if (AMX_SourceRank(token, &from) != AM_OK || from >= size || number < 0 || number >= REQUESTS || seen[from][number]++ != 0) {
        fault("not one request of one process", number);
        return;
    }
    handled++;
    for (i = 0; i < nbytes; i++) data[i] = byte_at(number + 1, (size_t)i);
    if (style == 1) code = AM_Reply2(token, ANSWER, number, rank);
    if (style == 2) code = AM_ReplyI2(token, ANSWER_M, data, (size_t)nbytes, number, nbytes);
    if (style == 3) code = AM_ReplyXfer2(token, place(1, rank, number), ANSWER_X, data, (size_t)nbytes, number, nbytes);
    if (code != AM_OK) fault("no reply", number);
}

static void on_short(void *token, int number, int style, int nbytes) { serve(token, number, style, nbytes); }
static void on_data(void *token, void *data, size_t got, int number, int style, int nbytes) {
    if (got != (size_t)nbytes) fault("length", number);
    look("data of a request", data, got, number, number);
    serve(token, number, style, nbytes);
}
static void on_answer(void *token, int number, int from) {
    (void)token;
    if (from < 0 || from >= size || number >= sent_to[from]) fault("an answer to nothing", number);
    answered++;
}
static void on_answer_data(void *token, void *data, size_t got, int number, int nbytes) {
    (void)token;
    if (got != (size_t)nbytes) fault("length of an answer", number);
    look("data of an answer", data, got, number + 1, number);
    answered++;
}
static void on_got(void *token, void *data, size_t got, int seed) {
    (void)token;
    look("data of a get", data, got, seed, seed);
    answered++;
}
static void on_return(int status, op_t op, void *argblock) {
    fprintf(stderr, "storm: rank %d: status %d, operation %d came back: %s\n", rank, status, (int)op, ((am_returned_t *)argblock)->reason);
    returned_count++;
    wrong = 1;
}

static unsigned long long state;
static int draw(int below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (int)((state >> 33) % (unsigned long long)below);
}

static void request(void) {
    static unsigned char data[PLACE];
    const int to = draw(size), kind = draw(8), style = draw(4), number = sent_to[to];
    const int nbytes = draw(8) ? draw(200) : draw(PLACE);
    int code = AM_OK, i;
    if (number == REQUESTS) return;
    for (i = 0; i < nbytes; i++) data[i] = byte_at(number, (size_t)i);
    if (kind == 7) { /* out of the part of the other's segment that nobody writes */
        expected++;
        code = AM_GetXfer1(endpoint, to, place(2, 0, 0), GOT, place(2, 1, gets++), (size_t)nbytes, 5);
    } else {
        sent_to[to]++;
        if (style != 0) expected++;
        if (kind < 4) code = AM_Request3(endpoint, to, SHORT, number, style, nbytes);
        else if (kind < 6) code = AM_RequestI3(endpoint, to, MEDIUM, data, (size_t)nbytes, number, style, nbytes);
        else code = AM_RequestXfer3(endpoint, to, place(0, rank, number), BULK, data, (size_t)nbytes, number, style, nbytes);
    }
    if (code != AM_OK) fault("no request", code);
}

int main(int argc, char **argv) {
    const int count = argc > 1 ? atoi(argv[1]) : 1000, moves = argc > 2 && strcmp(argv[2], "move") == 0;
    const size_t bytes = place(2, 2, 0);
    unsigned long long sums[2], all[RANKS][2], sent = 0, served = 0;
    void *memory;
    int i, j, at = 0;
    if (AMX_Start(&bundles[0], &endpoint) != AM_OK) {
        fprintf(stderr, "storm: %s\n", AMX_Reason());
        return 2;
    }
    rank = AMX_Rank();
    size = AMX_Size();
    state = (unsigned long long)rank + 1;
    if (size > RANKS || AM_AllocateBundle(AM_SEQ, &bundles[1]) != AM_OK || AMX_Alloc(bytes, &memory) != AM_OK || AM_SetSeg(endpoint, memory, bytes) != AM_OK) return 2;
    segment = (unsigned char *)memory;
    for (i = 0; i < PLACE; i++) segment[place(2, 0, 0) + (size_t)i] = byte_at(5, (size_t)i);
    for (i = 0; i < size; i++) seen[i] = (unsigned char *)calloc(REQUESTS, 1);
    AM_SetHandler(endpoint, 0, on_return);
    AM_SetHandler(endpoint, SHORT, on_short);
    AM_SetHandler(endpoint, MEDIUM, on_data);
    AM_SetHandler(endpoint, BULK, on_data);
    AM_SetHandler(endpoint, ANSWER, on_answer);
    AM_SetHandler(endpoint, ANSWER_M, on_answer_data);
    AM_SetHandler(endpoint, ANSWER_X, on_answer_data);
    AM_SetHandler(endpoint, GOT, on_got);
    if (AMX_Barrier() != AM_OK) return 2;
    for (i = 0; i < count && !wrong; i++) {
        request();
        if (moves && i % 97 == 0) {
            if (AM_MoveEndpoint(endpoint, bundles[at], bundles[1 - at]) != AM_OK) fault("it does not move", i);
            at = 1 - at;
        }
        if (i % 16 == 0) AM_Poll(bundles[at]);
    }
    while (answered < expected && !wrong) {
        for (j = 0; j < 2; j++) AM_Poll(bundles[j]);
    }
    if (moves && at == 1 && AM_MoveEndpoint(endpoint, bundles[1], bundles[0]) != AM_OK) fault("it does not move back", 0);
    if (wrong) AMX_Exit(1);
    /* Requests without a reply may be out: AMX_Finish waits for them, the sums come before. */
    for (i = 0; i < size; i++) sent += (unsigned long long)sent_to[i];
    do {
        sums[0] = sent;
        sums[1] = handled;
        if (AMX_AllGather(sums, sizeof sums, all) != AM_OK) return 3;
        for (served = 0, sums[0] = 0, i = 0; i < size; i++) {
            sums[0] += all[i][0];
            served += all[i][1];
        }
        AM_Poll(bundles[0]);
    } while (served < sums[0] && !wrong);
    if (served != sums[0]) fault("more handled than sent", 0);
    if (AMX_Barrier() != AM_OK) return 3;
    if (rank == 0 && !wrong) printf("storm: all well, %d processes, %llu requests, each handled once\n", size, served);
    if (AMX_Finish() != AM_OK) return 3;
    return wrong;
}
