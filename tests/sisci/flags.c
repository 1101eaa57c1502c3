/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Interrupts by stores to flags of a segment. `flags` forks both sides; `flags owner NODE` and
 * `flags user NODE` are one each, where NODE is the other's.
 */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "sisci_api.h"

enum { SEGMENT = 70, BACK = 71, SIZE = 16384, ROUNDS = 100 };
/* Words: conditional flags of two pages, a flag of data, and data. */
enum { FIRST = 16, SECOND = 1024 + 7, DATA = 2048 + 3, PLAIN = 3072 };
static sci_error_t e;
static sci_desc_t sd;

#define OK(call) do { e = SCI_ERR_BUSY; call; if (!CHECK_SAME(e, SCI_ERR_OK)) printf("  %s: %s\n", #call, SCIGetErrorString(e)); } while (0)
#define GIVES(call, error) do { e = SCI_ERR_OK; call; if (!CHECK_SAME(e, error)) printf("  %s: %s\n", #call, SCIGetErrorString(e)); } while (0)
#define MUST(call) do { call; if (e != SCI_ERR_OK) { printf("%s: %s\n", #call, SCIGetErrorString(e)); exit(9); } } while (0)

static volatile int called;
static sci_callback_action_t count(void *word, sci_local_interrupt_t interrupt, sci_error_t error) {
    (void)interrupt, (void)error;
    ++*(volatile int *)word;
    return SCI_CALLBACK_CONTINUE;
}

/* Whether or not it was triggered meanwhile. */
static void enable(sci_local_interrupt_t flag) {
    do SCIEnableConditionalInterrupt(flag, 0, &e); while (e == SCI_ERR_COND_INT_RACE_PROBLEM);
    CHECK_SAME(e, SCI_ERR_OK);
}

static int owner(unsigned int user) {
    sci_local_segment_t s;
    sci_map_t map;
    sci_local_interrupt_t first = NULL, second = NULL, data = NULL, none = NULL;
    sci_remote_data_interrupt_t back;
    unsigned int n = 0;
    check_group("owner of flags");
    MUST(SCICreateSegment(sd, &s, SEGMENT, SIZE, NULL, NULL, 0, &e));
    volatile uint32_t *at = SCIMapLocalSegment(s, &map, 0, SIZE, NULL, 0, &e);
    if (!at) exit(8);
    GIVES(SCIRegisterInterruptFlag(0, &none, s, SIZE, NULL, NULL, 0, &e), SCI_ERR_OUT_OF_RANGE);
    GIVES(SCIRegisterInterruptFlag(0, &none, s, 6, NULL, NULL, 0, &e), SCI_ERR_OFFSET_ALIGNMENT);
    GIVES(SCIRegisterInterruptFlag(0, &none, s, ~(size_t)3, NULL, NULL, 0, &e), SCI_ERR_OUT_OF_RANGE);
    OK(SCIRegisterInterruptFlag(0, &first, s, 4 * FIRST, NULL, NULL, SCI_FLAG_CONDITIONAL_INTERRUPT, &e));
    OK(SCIRegisterInterruptFlag(0, &second, s, 4 * SECOND, count, (void *)&called, SCI_FLAG_CONDITIONAL_INTERRUPT | SCI_FLAG_USE_CALLBACK, &e));
    OK(SCIRegisterInterruptFlag(0, &data, s, 4 * DATA, NULL, NULL, 0, &e));
    GIVES(SCIEnableConditionalInterrupt(data, 0, &e), SCI_ERR_ILLEGAL_OPERATION);
    GIVES(SCIGetConditionalInterruptTrigCounter(data, &n, 0, &e), SCI_ERR_ILLEGAL_OPERATION);
    OK(SCIGetConditionalInterruptTrigCounter(first, &n, 0, &e));
    CHECK_SAME(n, 0);
    MUST(SCIPrepareSegment(s, 0, 0, &e));
    MUST(SCISetSegmentAvailable(s, 0, 0, &e));
    MUST(SCIConnectDataInterrupt(sd, &back, user, 0, BACK, SCI_INFINITE_TIMEOUT, 0, &e));

    /* Disabled: it counts, and does not interrupt. */
    MUST(SCITriggerDataInterrupt(back, "1", 1, 0, &e));
    while (at[PLAIN] != 1) usleep(50);
    for (int tries = 0; n == 0 && tries < 20000; tries++) {
        usleep(1000);
        OK(SCIGetConditionalInterruptTrigCounter(first, &n, 0, &e));
    }
    CHECK(n >= 1); /* a slow thread's store is told of twice, here and below */
    GIVES(SCIWaitForInterrupt(first, 0, 0, &e), SCI_ERR_TIMEOUT);

    /* Enabled: once for each time, behind what was stored before. */
    enable(first);
    OK(SCIEnableConditionalInterrupt(second, 0, &e));
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        MUST(SCITriggerDataInterrupt(back, "2", 1, 0, &e));
        uint32_t seen;
        do {
            OK(SCIWaitForInterrupt(first, 60000, 0, &e));
            if (e) break;
            seen = at[PLAIN];
            enable(first);
        } while (seen < 100 + i);
        if (e) break;
    }
    CHECK_SAME(called, 0);

    /* A trigger that was not looked at is told of. */
    MUST(SCITriggerDataInterrupt(back, "3", 1, 0, &e));
    for (int tries = 0; !called && tries < 20000; tries++) usleep(1000);
    CHECK_SAME(called, 1);
    OK(SCIGetConditionalInterruptTrigCounter(second, &n, 0, &e));
    CHECK(n >= 1);
    MUST(SCITriggerDataInterrupt(back, "4", 1, 0, &e));
    while (at[PLAIN] != 4) usleep(50);
    for (int tries = 0; at[SECOND] == n && tries < 20000; tries++) usleep(1000);
    GIVES(SCIEnableConditionalInterrupt(second, 0, &e), SCI_ERR_COND_INT_RACE_PROBLEM);
    CHECK_SAME(called, 1);
    enable(second);
    OK(SCIDisableConditionalInterrupt(second, 0, &e));

    /* A store of data is there when it interrupts; also one of what is there. */
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        MUST(SCITriggerDataInterrupt(back, "5", 1, 0, &e));
        do OK(SCIWaitForInterrupt(data, 60000, 0, &e)); while (!e && at[DATA] != i);
        if (e) break;
    }
    do SCIWaitForInterrupt(data, 300, 0, &e); while (!e);
    MUST(SCITriggerDataInterrupt(back, "5", 1, 0, &e));
    OK(SCIWaitForInterrupt(data, 60000, 0, &e));
    CHECK_SAME(at[DATA - 1], 0);
    CHECK_SAME(called, 1);
    MUST(SCITriggerDataInterrupt(back, "6", 1, 0, &e));
    MUST(SCIDisconnectDataInterrupt(back, 0, &e));
    OK(SCIRemoveInterrupt(first, 0, &e));
    GIVES(SCIEnableConditionalInterrupt(first, 0, &e), SCI_ERR_ILLEGAL_PARAMETER);
    OK(SCIUnmapSegment(map, 0, &e));
    do SCIRemoveSegment(s, 0, &e); while (e == SCI_ERR_BUSY);
    GIVES(SCIEnableConditionalInterrupt(second, 0, &e), SCI_ERR_NOT_CONNECTED);
    OK(SCIRemoveInterrupt(second, 0, &e));
    OK(SCIRemoveInterrupt(data, 0, &e));
    return check_end();
}

static char told(sci_local_data_interrupt_t from) {
    char what = 0;
    unsigned int length = 1;
    OK(SCIWaitForDataInterrupt(from, &what, &length, 60000, 0, &e));
    return what;
}

static int user(unsigned int node) {
    sci_remote_segment_t r = NULL;
    sci_map_t plain, bells, words, none;
    sci_sequence_t q = NULL;
    sci_local_data_interrupt_t from = NULL;
    unsigned int number = BACK;
    check_group("user of flags");
    OK(SCICreateDataInterrupt(sd, &from, 0, &number, NULL, NULL, SCI_FLAG_FIXED_INTNO, &e));
    OK(SCIConnectSegment(sd, &r, node, SEGMENT, 0, NULL, NULL, SCI_INFINITE_TIMEOUT, 0, &e));
    volatile uint32_t *at = SCIMapRemoteSegment(r, &plain, 0, SIZE, NULL, 0, &e);
    volatile uint32_t *bell = SCIMapRemoteSegment(r, &bells, 8, SIZE - 8, NULL, SCI_FLAG_CONDITIONAL_INTERRUPT_MAP, &e);
    if (e == SCI_ERR_NOT_SUPPORTED) {
        puts("SKIPPED flags: stores cannot be heard of here (userfaultfd)");
        exit(77);
    }
    volatile uint32_t *word = SCIMapRemoteSegment(r, &words, 8, SIZE - 8, NULL, SCI_FLAG_UNCONDITIONAL_DATA_INTERRUPT_MAP, &e);
    if (!at || !bell || !word) exit(8);
    GIVES(SCIMapRemoteSegment(r, &none, 0, 64, NULL, SCI_FLAG_CONDITIONAL_INTERRUPT_MAP | SCI_FLAG_READONLY_MAP, &e), SCI_ERR_ILLEGAL_FLAG);
    GIVES(SCIMapRemoteSegment(r, &none, 0, 64, NULL, 0x18, &e), SCI_ERR_ILLEGAL_FLAG);
    GIVES(SCIMapRemoteSegment(r, &none, 8, SIZE, NULL, SCI_FLAG_CONDITIONAL_INTERRUPT_MAP, &e), SCI_ERR_OUT_OF_RANGE);
    bell -= 2, word -= 2; /* as in the segment */
    OK(SCICreateMapSequence(bells, &q, 0, &e));
    CHECK_SAME(told(from), '1');
    bell[FIRST] = 0;
    SCIFlush(q, 0);
    at[PLAIN] = 1;
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        if (!CHECK_SAME(told(from), '2')) break;
        at[PLAIN] = 100 + i;
        bell[FIRST] = i % 3 ? i : bell[FIRST + 1]; /* also the value that a board holds */
        if (i % 10 == 0) OK(CHECK_SAME(SCICheckSequence(q, 0, &e), SCI_SEQ_OK));
    }
    CHECK_SAME(told(from), '3');
    bell[SECOND] = 5;
    CHECK_SAME(told(from), '4');
    bell[SECOND] = 6;
    SCIStoreBarrier(q, 0);
    at[PLAIN] = 4;
    for (uint32_t i = 1; i <= ROUNDS + 1; i++) {
        if (!CHECK_SAME(told(from), '5')) break;
        word[DATA] = i <= ROUNDS ? i : ROUNDS;
    }
    CHECK_SAME(told(from), '6');
    OK(SCIRemoveSequence(q, 0, &e));
    GIVES(SCIDisconnectSegment(r, 0, &e), SCI_ERR_BUSY);
    OK(SCIUnmapSegment(bells, 0, &e));
    OK(SCIUnmapSegment(words, 0, &e));
    OK(SCIUnmapSegment(plain, 0, &e));
    OK(SCIDisconnectSegment(r, 0, &e));
    OK(SCIRemoveDataInterrupt(from, 0, &e));
    return check_end();
}

int main(int argc, char **argv) {
    int is_owner = argc > 1 && strcmp(argv[1], "owner") == 0;
    pid_t child = -1;
    if (argc < 2) is_owner = (child = fork()) != 0;
    OK(SCIInitialize(0, &e));
    OK(SCIOpen(&sd, 0, &e));
    unsigned int node = argc > 2 ? (unsigned int)atoi(argv[2]) : 0;
    if (argc < 3) OK(SCIGetLocalNodeId(0, &node, 0, &e));
    if (!is_owner) return user(node);
    if (child < 0) return owner(node);
    /* The user may have nothing to do here. */
    pid_t serves = fork();
    if (serves == 0) {
        OK(SCIInitialize(0, &e));
        OK(SCIOpen(&sd, 0, &e));
        return owner(node);
    }
    int status = 0, other = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        kill(serves, 9);
        return 0;
    }
    waitpid(serves, &other, 0);
    return WIFEXITED(status) && WIFEXITED(other) ? WEXITSTATUS(status) | WEXITSTATUS(other) : 1;
}
