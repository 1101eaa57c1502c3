/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* kill -9 of the process that is talked to: each request is answered or comes back, once; nothing hangs. */
#include "check.h"
#include "pair.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { ECHO = 1, ANSWER = 2, REQUESTS = 2000, ROUNDS = 10 };

static volatile int done;
static unsigned char fate[REQUESTS];
static int wrong;

static void echo(void *token, void *buf, size_t nbytes, int32_t number) { AM_ReplyI1(token, ANSWER, buf, nbytes, number); }

static void over(int32_t number) {
    if (number < 0 || number >= REQUESTS || fate[number]++ != 0) wrong = 1;
    done++;
}

static void answer(void *token, void *buf, size_t nbytes, int32_t number) {
    (void)token; (void)buf; (void)nbytes;
    over(number);
}

static void returned(int status, op_t op, void *argblock) {
    if (status != EUNREACHABLE || op != AM_REQUEST_IM) wrong = 1;
    /* It says why: one that is under way when the process dies, and one that is sent afterwards. */
    if (strstr(((am_returned_t *)argblock)->reason, "the peer process exited") == NULL) wrong = 1;
    over(((am_returned_t *)argblock)->args[0]);
}

static void round_(int round) {
    Pair pair = pair_fork();
    char data[3000];
    int i;
    memset(data, round, sizeof data);
    AM_SetHandler(pair.endpoint, ECHO, echo);
    if (pair.child == 0) {
        for (;;) AM_Poll(pair.bundle);
    }
    AM_SetHandler(pair.endpoint, 0, returned);
    AM_SetHandler(pair.endpoint, ANSWER, answer);
    memset(fate, 0, sizeof fate);
    done = 0;
    for (i = 0; i < REQUESTS; i++) {
        if (i == 100 + 170 * round) kill(pair.child, SIGKILL);
        CHECK_SAME(AM_RequestI1(pair.endpoint, 0, ECHO, data, (size_t)(i % 3000), i), AM_OK);
    }
    CHECK(pair_until(&pair, &done, REQUESTS));
    CHECK(!wrong && !pair_ended(&pair));
    CHECK_SAME(AM_Terminate(), AM_OK);
}

int main(void) {
    int round;
    for (round = 0; round < ROUNDS; round++) {
        check_group("killed");
        round_(round);
    }
    return check_end();
}
