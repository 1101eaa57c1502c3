/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Two processes: every kind of message, with every number of arguments, to handlers that reply in every way; and what comes back. */
#include "check.h"
#include "pair.h"

#include <stdlib.h>
#include <string.h>

enum { ECHO = 1, ECHO_M, ECHO_X, STOP, ANSWER, ANSWER_M, ANSWER_X, ANY, NO_SUCH };
enum { SEGMENT = 1 << 20, HALF = SEGMENT / 2 };

static volatile int stopped, answers, answers_m, answers_x, returns;
static int32_t last[16];
static int last_count, last_status, last_op, bad;
static size_t last_bytes;
static en_t source_name;
static ep_t own_endpoint;
static char *segment;

static unsigned char byte_at(size_t seed, size_t i) { return (unsigned char)(i * 31 + (i >> 8) + seed * 131); }

/* ---------------------------------------------------------------------------------------------- the child answers */

#define A16 int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t a4, int32_t a5, int32_t a6, int32_t a7, int32_t a8, int32_t a9, int32_t a10, int32_t a11, int32_t a12, int32_t a13, int32_t a14, int32_t a15
#define V16 a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15

static void echo(void *token, int32_t a0, int32_t a1) {
    tag_t tag = 0;
    ep_t ep = NULL;
    if (AM_GetMsgTag(token, &tag) != AM_OK || tag != TAG || AM_GetDestEndpoint(token, &ep) != AM_OK || ep != own_endpoint) bad = 1;
    if (AM_Request0(ep, 0, ECHO) != AM_ERR_BAD_ARG) bad = 1; /* handlers may only reply */
    if (AM_Reply2(token, ANSWER, a0, a1) != AM_OK || AM_Reply0(token, ANSWER) != AM_ERR_BAD_ARG) bad = 1;
}

static void echo_m(void *token, void *buf, size_t nbytes, A16) {
    if (AM_ReplyI16(token, ANSWER_M, buf, nbytes, V16) != AM_OK) bad = 1;
}

static void echo_x(void *token, void *buf, size_t nbytes, int32_t to) {
    if ((char *)buf < segment || (char *)buf + nbytes > segment + SEGMENT) bad = 1;
    if (AM_ReplyXfer1(token, SEGMENT, ANSWER_X, buf, 1, to) != AM_ERR_BAD_ARG) bad = 1;
    if (AM_ReplyXfer1(token, (uintptr_t)to, ANSWER_X, buf, nbytes, to) != AM_OK) bad = 1;
}

/* Says what it saw: -1 for the length of a short message, and of others the number of arguments
 * added to a hundred times the length. */
static void any(void *token, const am_message_t *message, void *context) {
    ep_t ep = NULL;
    int seen = message->data == NULL ? -1 : (int)message->nbytes * 100 + message->num_args;
    if (context != &bad || AM_GetDestEndpoint(token, &ep) != AM_OK || ep != own_endpoint) bad = 1;
    if ((message->data == NULL) != (message->nbytes == 0)) bad = 1;
    if (AM_Reply2(token, ANSWER, message->num_args > 0 ? message->args[message->num_args - 1] : 0, seen) != AM_OK) bad = 1;
}

static void stop(void *token) { (void)token; stopped = 1; }

static int child(Pair *pair) {
    own_endpoint = pair->endpoint;
    AM_SetHandler(pair->endpoint, ECHO, echo);
    AM_SetHandler(pair->endpoint, ECHO_M, echo_m);
    AM_SetHandler(pair->endpoint, ECHO_X, echo_x);
    AM_SetHandler(pair->endpoint, STOP, stop);
    if (AMX_SetMessageHandler(pair->endpoint, ANY, any, &bad) != AM_OK) bad = 1;
    AM_SetEventMask(pair->bundle, AM_NOTEMPTY);
    while (!stopped) {
        if (AM_WaitSema(pair->bundle) != AM_OK || AM_Poll(pair->bundle) != AM_OK) return 1;
    }
    return AM_Terminate() != AM_OK || bad;
}

/* ---------------------------------------------------------------------------------------------- the parent asks */

static void answer(void *token, int32_t a0, int32_t a1) {
    last[0] = a0;
    last[1] = a1;
    if (AM_GetSourceEndpoint(token, &source_name) != AM_OK || AM_Reply0(token, ECHO) != AM_ERR_BAD_ARG) bad = 1;
    answers++;
}

static void answer_m(void *token, void *buf, size_t nbytes, A16) {
    const int32_t all[] = {V16};
    size_t i;
    (void)token;
    memcpy(last, all, sizeof all);
    for (i = 0; i < nbytes; i++) bad |= ((unsigned char *)buf)[i] != byte_at(nbytes, i);
    last_bytes = nbytes;
    answers_m++;
}

static void answer_x(void *token, void *buf, size_t nbytes, int32_t to) {
    size_t i;
    (void)token;
    if ((char *)buf != segment + to) bad = 1;
    for (i = 0; i < nbytes; i++) bad |= ((unsigned char *)buf)[i] != byte_at(nbytes, i);
    last_bytes = nbytes;
    answers_x++;
}

static void returned(int status, op_t op, void *argblock) {
    const am_returned_t *message = (const am_returned_t *)argblock;
    last_status = status;
    last_op = op;
    last_count = message->num_args;
    if (message->reason == NULL || message->reason[0] == 0) bad = 1;
    memcpy(last, message->args, sizeof last);
    returns++;
}

static unsigned char *filled(size_t nbytes) {
    unsigned char *data = (unsigned char *)malloc(nbytes + 1);
    size_t i;
    for (i = 0; i < nbytes; i++) data[i] = byte_at(nbytes, i);
    return data;
}

static void shorts(Pair *pair) {
    int i;
    check_group("short");
    for (i = 0; i < 1000; i++) CHECK_SAME(AM_Request2(pair->endpoint, 0, ECHO, i, -i), AM_OK);
    CHECK(pair_until(pair, &answers, 1000));
    CHECK(last[0] == 999 && last[1] == -999 && memcmp(&source_name, &pair->other, sizeof source_name) == 0);
}

static void mediums(Pair *pair) {
    static const size_t sizes[] = {0, 1, 8, 55, 100, 4096, 65000};
    size_t i;
    check_group("medium");
    for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *data = filled(sizes[i]);
        CHECK_SAME(AM_RequestI16(pair->endpoint, 0, ECHO_M, data, sizes[i], 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, -16), AM_OK);
        free(data);
        CHECK(pair_until(pair, &answers_m, (int)i + 1));
        CHECK(last_bytes == sizes[i] && last[0] == 1 && last[14] == 15 && last[15] == -16);
    }
    CHECK_SAME(AM_RequestI0(pair->endpoint, 0, ECHO_M, NULL, 4), AM_ERR_BAD_ARG);
    CHECK_SAME(AM_RequestI0(pair->endpoint, 0, ECHO_M, sizes, (size_t)AM_MaxMedium() + 1), AM_ERR_BAD_ARG);
}

static void of_any_kind(Pair *pair) {
    ep_t ep = pair->endpoint;
    check_group("a handler of messages of all kinds");
    answers = 0;
    CHECK_SAME(AM_Request3(ep, 0, ANY, 7, 8, 9), AM_OK);
    CHECK(pair_until(pair, &answers, 1));
    CHECK(last[0] == 9 && last[1] == -1);
    CHECK_SAME(AM_RequestI2(ep, 0, ANY, "12345", 5, 1, 2), AM_OK);
    CHECK(pair_until(pair, &answers, 2));
    CHECK(last[0] == 2 && last[1] == 502);
    CHECK_SAME(AM_RequestXfer1(ep, 0, 7, ANY, "123456", 6, 3), AM_OK);
    CHECK(pair_until(pair, &answers, 3));
    CHECK(last[0] == 3 && last[1] == 601);
}

static void bulk(Pair *pair) {
    static const size_t sizes[] = {0, 1, 100, 5000, 65536, 300000};
    size_t i;
    int code, expected = 0;
    check_group("bulk, asynchronous bulk, get");
    for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *data = filled(sizes[i]);
        CHECK_SAME(AM_RequestXfer1(pair->endpoint, 0, 7, ECHO_X, data, sizes[i], 13), AM_OK);
        CHECK(pair_until(pair, &answers_x, ++expected));
        CHECK(last_bytes == sizes[i]);
        while ((code = AM_RequestXferAsync1(pair->endpoint, 0, 9, ECHO_X, data, sizes[i], 64)) == AM_ERR_NOT_SENT) AM_Poll(pair->bundle);
        CHECK_SAME(code, AM_OK);
        CHECK(pair_until(pair, &answers_x, ++expected));
        free(data);
        memset(segment + HALF, 0, sizes[i]);
        CHECK_SAME(AM_GetXfer1(pair->endpoint, 0, 9, ANSWER_X, HALF, sizes[i], HALF), AM_OK);
        CHECK(pair_until(pair, &answers_x, ++expected));
        CHECK(last_bytes == sizes[i]);
    }
}

static void comes_back(Pair *pair, int code, int status, int op) {
    static int expected;
    CHECK_SAME(code, AM_OK);
    CHECK(pair_until(pair, &returns, ++expected));
    CHECK_SAME(last_status, status);
    CHECK_SAME(last_op, op);
}

static void returns_to_sender(Pair *pair) {
    char data[10] = {0};
    ep_t ep = pair->endpoint;
    check_group("return to sender");
    CHECK_SAME(AM_Map(ep, 1, pair->other, TAG + 1), AM_OK);
    comes_back(pair, AM_Request3(ep, 0, NO_SUCH, 4, 5, 6), EBADHANDLER, AM_REQUEST_M);
    CHECK(last_count == 3 && last[0] == 4 && last[2] == 6);
    comes_back(pair, AM_RequestI0(ep, 1, ECHO_M, data, 10), EBADTAG, AM_REQUEST_IM);
    comes_back(pair, AM_Request0(ep, 2, ECHO), EBADENTRY, AM_REQUEST_M);
    comes_back(pair, AM_RequestXfer0(ep, 0, SEGMENT - 9, ECHO_X, data, 10), EBADSEGOFF, AM_REQUEST_XFER_M);
    comes_back(pair, AM_GetXfer0(ep, 0, SEGMENT - 9, ANSWER_X, 0, 10), EBADSEGOFF, AM_GET_XFER_M);
    AM_SetHandler(ep, ANSWER, answer);
    CHECK_SAME(AM_UnMap(ep, 1), AM_OK);
}

static void parent(Pair *pair) {
    AM_SetHandler(pair->endpoint, 0, returned);
    AM_SetHandler(pair->endpoint, ANSWER, answer);
    AM_SetHandler(pair->endpoint, ANSWER_M, answer_m);
    AM_SetHandler(pair->endpoint, ANSWER_X, answer_x);
    shorts(pair);
    mediums(pair);
    of_any_kind(pair);
    bulk(pair);
    returns_to_sender(pair);
    CHECK_SAME(AM_Request0(pair->endpoint, 0, STOP), AM_OK);
    CHECK(pair_ended(pair));
    CHECK_SAME(returns, 5);
    check_group("nobody there");
    CHECK_SAME(AM_Request0(pair->endpoint, 0, ECHO), AM_OK);
    CHECK(pair_until(pair, &returns, 6));
    CHECK(last_status == EBADENDPOINT || last_status == EUNREACHABLE);
    CHECK_SAME(AM_Terminate(), AM_OK);
    CHECK(!bad);
}

int main(void) {
    Pair pair = pair_fork();
    void *memory = NULL;
    if (AMX_Alloc(SEGMENT, &memory) != AM_OK || AM_SetSeg(pair.endpoint, memory, SEGMENT) != AM_OK) return 2;
    segment = (char *)memory;
    if (pair.child == 0) return child(&pair);
    parent(&pair);
    return check_end();
}
