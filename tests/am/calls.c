/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The calls that send nothing: what they give, what they refuse, what ends with what. */
#include "check.h"
#include "pair.h"

#include <string.h>

static void nothing(void *token) { (void)token; }
static void any(void *token, const am_message_t *message, void *context) { (void)token, (void)message, (void)context; }
static volatile int seen;
static void count(void *token) { (void)token; seen++; }

static void before_init(void) {
    eb_t bundle;
    void *memory;
    check_group("before AM_Init");
    CHECK_SAME(AM_Terminate(), AM_ERR_NOT_INIT);
    CHECK_SAME(AM_AllocateBundle(AM_SEQ, &bundle), AM_ERR_NOT_INIT);
    CHECK_SAME(AMX_Alloc(8, &memory), AM_ERR_NOT_INIT);
}

static void tables(void) {
    eb_t bundle;
    ep_t ep;
    en_t name, got;
    tag_t tag;
    int n;
    handler_t h;
    check_group("tables");
    CHECK_SAME(AM_AllocateBundle(7, &bundle), AM_ERR_BAD_ARG);
    CHECK_SAME(AM_AllocateBundle(AM_PAR, NULL), AM_ERR_BAD_ARG);
    CHECK_SAME(AM_AllocateBundle(AM_PAR, &bundle), AM_OK);
    CHECK_SAME(AM_AllocateEndpoint(bundle, NULL, &name), AM_ERR_BAD_ARG);
    CHECK_SAME(AM_AllocateEndpoint(bundle, &ep, &name), AM_OK);
    CHECK_SAME(AM_GetTag(ep, &tag), AM_OK);
    CHECK(tag == AM_NONE);
    CHECK_SAME(AM_SetTag(ep, 77), AM_OK);
    CHECK(AM_GetTag(ep, &tag) == AM_OK && tag == 77);
    CHECK(AM_GetNumTranslations(ep, &n) == AM_OK && n == 256);
    CHECK(AM_MaxNumTranslations(&n) == AM_OK && n >= 256);
    CHECK_SAME(AM_Map(ep, -1, name, 5), AM_ERR_BAD_ARG);
    CHECK_SAME(AM_Map(ep, 256, name, 5), AM_ERR_BAD_ARG);
    CHECK_SAME(AM_Map(ep, 3, name, 5), AM_OK);
    CHECK_SAME(AM_Map(ep, 3, name, 5), AM_ERR_IN_USE);
    memset(&got, 0xee, sizeof got);
    CHECK_SAME(AM_Map(ep, 4, got, 5), AM_ERR_BAD_ARG);
    CHECK(AM_MapAny(ep, &n, name, 6) == AM_OK && n == 0);
    CHECK_SAME(AM_GetTranslationInuse(ep, 3), AM_OK);
    CHECK_SAME(AM_GetTranslationInuse(ep, 4), AM_ERR_RESOURCE);
    CHECK(AM_GetTranslationTag(ep, 3, &tag) == AM_OK && tag == 5);
    CHECK(AM_GetTranslationName(ep, 3, &got) == AM_OK && memcmp(&got, &name, sizeof name) == 0);
    CHECK_SAME(AM_SetNumTranslations(ep, 3), AM_ERR_IN_USE);
    CHECK_SAME(AM_UnMap(ep, 3), AM_OK);
    CHECK_SAME(AM_UnMap(ep, 3), AM_ERR_BAD_ARG);
    CHECK_SAME(AM_SetNumTranslations(ep, 3), AM_OK);
    CHECK(AM_GetNumHandlers(ep, &n) == AM_OK && n == 256);
    CHECK_SAME(AM_SetNumHandlers(ep, 256), AM_OK);
    CHECK_SAME(AM_SetNumHandlers(ep, 257), AM_ERR_RESOURCE);
    CHECK_SAME(AM_SetHandler(ep, 1, nothing), AM_OK);
    CHECK(AM_SetHandlerAny(ep, &h, nothing) == AM_OK && h == 2);
    CHECK_SAME(AM_SetHandler(ep, 1, NULL), AM_ERR_BAD_ARG);
    CHECK_SAME(AMX_SetMessageHandler(ep, 1, NULL, &n), AM_ERR_BAD_ARG);
    CHECK_SAME(AMX_SetMessageHandler(ep, 0, any, &n), AM_ERR_BAD_ARG);
    CHECK_SAME(AMX_SetMessageHandler(ep, 1, any, NULL), AM_OK);
    CHECK(AM_GetEventMask(bundle, &n) == AM_OK && n == AM_NOEVENTS);
    CHECK_SAME(AM_WaitSema(bundle), AM_ERR_BAD_ARG);
    CHECK_SAME(AM_SetEventMask(bundle, 9), AM_ERR_BAD_ARG);
    CHECK_SAME(AM_SetEventMask(bundle, AM_NOTEMPTY), AM_OK);
    CHECK(AM_GetEventMask(bundle, &n) == AM_OK && n == AM_NOTEMPTY);
    CHECK_SAME(AM_FreeEndpoint(ep), AM_OK);
    CHECK_SAME(AM_FreeBundle(bundle), AM_OK);
}

static void segments(void) {
    static char memory[10000];
    eb_t bundle;
    ep_t ep;
    en_t name;
    void *at, *block;
    uintptr_t bytes;
    check_group("segments");
    CHECK(AM_AllocateBundle(AM_SEQ, &bundle) == AM_OK && AM_AllocateEndpoint(bundle, &ep, &name) == AM_OK);
    CHECK(AM_GetSeg(ep, &at, &bytes) == AM_OK && at == NULL && bytes == 0);
    CHECK(AM_MaxSegLength(&bytes) == AM_OK && bytes >= sizeof memory);
    CHECK_SAME(AM_SetSeg(ep, memory, sizeof memory), AM_OK);
    CHECK(AM_GetSeg(ep, &at, &bytes) == AM_OK && at == memory && bytes == sizeof memory);
    CHECK_SAME(AM_SetSeg(ep, (void *)64, 100), AM_ERR_BAD_ARG);
    CHECK_SAME(AMX_Alloc(5000, &block), AM_OK);
    CHECK_SAME(AM_SetSeg(ep, block, 5000), AM_OK);
    CHECK_SAME(AM_SetSeg(ep, NULL, 0), AM_OK);
    CHECK_SAME(AMX_Free(block), AM_OK);
    CHECK_SAME(AMX_Free(block), AM_ERR_BAD_ARG);
    CHECK_SAME(AM_FreeBundle(bundle), AM_OK);
}

/* Messages to oneself, and an endpoint that moves between bundles. */
static void oneself(void) {
    eb_t first, second;
    ep_t ep;
    en_t name;
    am_statistics_t statistics, sum;
    int i;
    check_group("oneself");
    CHECK(AM_AllocateBundle(AM_SEQ, &first) == AM_OK && AM_AllocateBundle(AM_SEQ, &second) == AM_OK);
    CHECK(AM_AllocateEndpoint(first, &ep, &name) == AM_OK && AM_SetTag(ep, AM_ALL) == AM_OK && AM_SetHandler(ep, 9, count) == AM_OK);
    CHECK_SAME(AM_Map(ep, 0, name, 5), AM_OK);
    for (i = 0; i < 100; i++) CHECK_SAME(AM_Request0(ep, 0, 9), AM_OK);
    while (seen < 100) CHECK_SAME(AM_Poll(first), AM_OK);
    CHECK_SAME(AM_MoveEndpoint(ep, second, first), AM_ERR_BAD_ARG);
    CHECK_SAME(AM_MoveEndpoint(ep, first, second), AM_OK);
    CHECK_SAME(AM_Request0(ep, 0, 9), AM_OK);
    while (seen < 101) CHECK_SAME(AM_Poll(second), AM_OK);
    CHECK_SAME(AMX_GetStatistics(ep, &statistics), AM_OK);
    CHECK(statistics.requests_sent[0] == 101 && statistics.requests_received[0] == 101 && statistics.returned == 0);
    memset(&sum, 0, sizeof sum);
    AMX_AddStatistics(&sum, &statistics);
    AMX_AddStatistics(&sum, &statistics);
    CHECK(sum.requests_sent[0] == 202);
    CHECK(AMX_ResetStatistics(ep) == AM_OK && AMX_GetStatistics(ep, &statistics) == AM_OK && statistics.requests_sent[0] == 0);
    CHECK_SAME(AM_FreeBundle(first), AM_OK);
    CHECK_SAME(AM_FreeBundle(second), AM_OK);
}

int main(void) {
    before_init();
    CHECK_SAME(AM_Init(), AM_OK);
    CHECK_SAME(AM_Init(), AM_OK);
    tables();
    segments();
    oneself();
    CHECK_SAME(AM_Terminate(), AM_OK);
    CHECK_SAME(AM_Terminate(), AM_OK);
    CHECK_SAME(AM_Terminate(), AM_ERR_NOT_INIT);
    return check_end();
}
