/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The calls of a request of two words and its reply, each in a function of its own:
 * callgrind counts their instructions (cost.sh). Two bundles in one process, one thread.
 */
#include <am.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MESSAGES = 4000, TAG = 7 };
static eb_t bundles[2];
static ep_t endpoints[2];
static volatile int served, replied;

static void reply(void *token) {
    (void)token;
    replied++;
}

static void serve(void *token, int a, int b) {
    served++;
    if (AM_Reply2(token, 2, b, a) != AM_OK) exit(3);
}

__attribute__((noinline)) void counted_request(void) {
    if (AM_Request2(endpoints[0], 0, 1, 3, 4) != AM_OK) exit(4);
}

__attribute__((noinline)) void counted_serve(int count) {
    while (served < count) AM_Poll(bundles[1]);
}

__attribute__((noinline)) void counted_reply(int count) {
    while (replied < count) AM_Poll(bundles[0]);
}

int main(void) {
    en_t names[2];
    int i;
    /* Nothing is to take long. */
    alarm(150);
    if (AM_Init() != AM_OK) return 2;
    for (i = 0; i < 2; i++) {
        if (AM_AllocateBundle(AM_SEQ, &bundles[i]) != AM_OK || AM_AllocateEndpoint(bundles[i], &endpoints[i], &names[i]) != AM_OK) return 2;
        AM_SetTag(endpoints[i], TAG);
    }
    AM_SetHandler(endpoints[1], 1, serve);
    AM_SetHandler(endpoints[0], 2, reply);
    if (AM_Map(endpoints[0], 0, names[1], TAG) != AM_OK) return 2;
    for (i = 1; i <= MESSAGES; i++) {
        counted_request();
        counted_serve(i);
        counted_reply(i);
    }
    printf("%d requests, %d replies\n", served, replied);
    AM_Terminate();
    return 0;
}
