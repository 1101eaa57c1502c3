/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A server and a client, on one host or on two: short requests, medium ones whose payload comes back, bulk ones into the server's segment, and gets that read it again. Every byte is checked.
 *
 *   ask server            prints the name of its endpoint, and ends when a client says that it is done
 *   ask client NAME [n]   n rounds, 1000 by default
 *
 * Between hosts, BELLWIRE_ADDRESS is the address, or the interface, by which the others reach each.
 */
#include <am.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT = 1, MEDIUM = 2, BULK = 3, DONE = 4, ANSWER = 5, CAME_BACK = 6, GOT = 7 };
enum { BYTES = 20000, SEGMENT = 1 << 16 };

#define TRY(call)                                            \
    do {                                                     \
        int code_ = (call);                                  \
        if (code_ != AM_OK) {                                \
            fprintf(stderr, "%s: error %d\n", #call, code_); \
            exit(1);                                         \
        }                                                    \
    } while (0)

static eb_t bundle;
static ep_t endpoint;
static unsigned char *segment, data[BYTES];
static int32_t expected;
static long answers, served;
static int is_done;

static unsigned char byte_of(int32_t seed, size_t at) { return (unsigned char)(at * 31 ^ at >> 8 ^ (size_t)seed * 131); }

static void fail(const char *why) {
    fprintf(stderr, "%s\n", why);
    exit(1);
}

static void check(const void *buf, size_t nbytes, int32_t seed) {
    const unsigned char *bytes = buf;
    size_t i;
    if (nbytes != BYTES) fail("a payload has another length");
    for (i = 0; i < nbytes; i++)
        if (bytes[i] != byte_of(seed, i)) fail("a payload has other bytes");
}

/* At the server. */
static void short_request(void *token, int32_t a, int32_t b) { served++; TRY(AM_Reply1(token, ANSWER, a + b)); }
static void medium_request(void *token, void *buf, size_t nbytes, int32_t seed) { served++; TRY(AM_ReplyI1(token, CAME_BACK, buf, nbytes, seed)); }
static void bulk_request(void *token, void *buf, size_t nbytes, int32_t seed) { served++; check(buf, nbytes, seed); TRY(AM_Reply1(token, ANSWER, seed)); }
static void done_request(void *token) { is_done = 1; TRY(AM_Reply1(token, ANSWER, 0)); }

/* At the client. */
static void answer(void *token, int32_t value) {
    (void)token;
    if (value != expected) fail("another answer");
    answers++;
}
static void came_back(void *token, void *buf, size_t nbytes, int32_t seed) { check(buf, nbytes, seed); answer(token, seed); }

static void lost(int status, op_t op, void *argblock) {
    (void)argblock;
    fprintf(stderr, "a message of kind %d came back: status %d\n", op, status);
    exit(1);
}

static void await(long count) {
    while (answers < count) {
        TRY(AM_WaitSema(bundle));
        TRY(AM_Poll(bundle));
    }
}

static void open_endpoint(en_t *name) {
    void *memory;
    TRY(AM_Init());
    TRY(AM_AllocateBundle(AM_SEQ, &bundle));
    TRY(AM_AllocateEndpoint(bundle, &endpoint, name));
    TRY(AM_SetTag(endpoint, 4711));
    TRY(AM_SetHandler(endpoint, 0, lost));
    TRY(AM_SetEventMask(bundle, AM_NOTEMPTY));
    TRY(AMX_Alloc(SEGMENT, &memory));
    segment = memory;
    TRY(AM_SetSeg(endpoint, memory, SEGMENT));
}

static int serve(void) {
    en_t name;
    size_t i;
    open_endpoint(&name);
    TRY(AM_SetHandler(endpoint, SHORT, short_request));
    TRY(AM_SetHandler(endpoint, MEDIUM, medium_request));
    TRY(AM_SetHandler(endpoint, BULK, bulk_request));
    TRY(AM_SetHandler(endpoint, DONE, done_request));
    for (i = 0; i < sizeof name; i++) printf("%02x", ((const unsigned char *)&name)[i]);
    printf("\n");
    fflush(stdout);
    while (!is_done) {
        TRY(AM_WaitSema(bundle));
        TRY(AM_Poll(bundle));
    }
    printf("%ld requests served\n", served);
    TRY(AM_Terminate());
    return 0;
}

static int read_name(const char *text, en_t *name) {
    size_t i;
    unsigned value;
    if (strlen(text) != 2 * sizeof *name) return 0;
    for (i = 0; i < sizeof *name; i++) {
        if (sscanf(text + 2 * i, "%2x", &value) != 1) return 0;
        ((unsigned char *)name)[i] = (unsigned char)value;
    }
    return 1;
}

static int ask(en_t server, int32_t rounds) {
    en_t name;
    int32_t round;
    size_t i;
    open_endpoint(&name);
    TRY(AM_SetHandler(endpoint, ANSWER, answer));
    TRY(AM_SetHandler(endpoint, CAME_BACK, came_back));
    TRY(AM_SetHandler(endpoint, GOT, came_back));
    TRY(AM_Map(endpoint, 0, server, 4711));
    for (round = 0; round < rounds; round++) {
        long before = answers;
        for (i = 0; i < BYTES; i++) data[i] = byte_of(round, i);
        expected = round;
        TRY(AM_Request2(endpoint, 0, SHORT, round - 5, 5));
        TRY(AM_RequestI1(endpoint, 0, MEDIUM, data, BYTES, round));
        TRY(AM_RequestXfer1(endpoint, 0, 100, BULK, data, BYTES, round));
        await(before + 3);
        memset(segment, 0, SEGMENT);
        TRY(AM_GetXfer1(endpoint, 0, 100, GOT, 200, BYTES, round));
        await(before + 4);
    }
    expected = 0;
    TRY(AM_Request0(endpoint, 0, DONE));
    await(answers + 1);
    printf("%ld answers\n", answers);
    TRY(AM_Terminate());
    return 0;
}

int main(int count, char **arguments) {
    en_t server;
    if (count == 2 && strcmp(arguments[1], "server") == 0) return serve();
    if (count >= 3 && strcmp(arguments[1], "client") == 0 && read_name(arguments[2], &server)) return ask(server, count > 3 ? atoi(arguments[3]) : 1000);
    fprintf(stderr, "usage: ask server | ask client NAME [rounds]\n");
    return 2;
}
