/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Instructions of the four calls of the data path: a gate that does not depend on the machine's speed or load. The process steps itself through the call to be counted, with the trap flag of
 * x86-64 and a handler that counts; a debugger outside would take milliseconds on a busy machine, in which the NIC's helper thread believes that nobody polls and takes the token away. It
 * may do so now and then all the same, and then a call goes the long way: of many tries the smallest counts.
 */
#include "ends.h"

#if defined(__x86_64__) && defined(__linux__)

#include <signal.h>
#include <stdint.h>
#include <string.h>

enum { CALLS = 4, SIZES = 2, TRIES = 12, WARM = 20000, ROUNDS = 20, STEPS_MAX = 100000 };

static const char *const names[CALLS] = {"VipPostRecv", "VipPostSend", "VipSendDone", "VipRecvDone"};
/*
 * What the calls may cost, some compilers' whims included; with rustc 1.95, 8 bytes: 173, 268, 748. The two last count together: which of them finds the frame depends on which end of the NIC's
 * link with itself is looked at first (174 and 574). The NIC has two ends here, and beside another link no look is left out behind a message (decision 31); while some were, it was
 * 470. Beside other programs that compute each poll sees to it, too, whether it is time to let them run: 53 more for each of the two, 855 and 1191.
 */
enum { GATES = 3 };
static const long most[SIZES][GATES] = {{200, 300, 900}, {200, 620, 1240}};

static volatile sig_atomic_t steps;

static void on_step(int signal_) {
    (void)signal_;
    steps++;
}

/* The trap flag, bit 8 of the flags; what lies below the stack pointer is the compiler's. */
#define FLAGS(operation) __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; " operation ", (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::: "memory", "cc")
#define STEP_ON FLAGS("orq $0x100")
#define STEP_OFF FLAGS("andq $~0x100")

/* Steps that are counted around nothing. */
static long own_steps(void) {
    steps = 0;
    STEP_ON;
    STEP_OFF;
    return steps;
}

static long best[SIZES][CALLS];

static long gated(int size, int gate) {
    return best[size][gate] + (gate == 2 ? best[size][3] : 0);
}

static int within(void) {
    int size, gate;
    for (size = 0; size < SIZES; size++)
        for (gate = 0; gate < GATES; gate++)
            if (gated(size, gate) > most[size][gate]) return 0;
    return 1;
}

/* For each try and call WARM messages, and one whose call is stepped through. */
static void measure(End *a, End *b, int size) {
    const VIP_UINT32 bytes = size ? 1024 : 8;
    const long own = own_steps();
    VIP_DESCRIPTOR *out = NULL, *in = NULL, *done = NULL;
    VIP_RETURN returned = VIP_SUCCESS;
    long wrong = 0;
    int try_, call, i, early = 0;
    for (try_ = 0; try_ < TRIES; try_++) {
        for (call = 0; call < CALLS; call++) {
            /* Not the same number each time: what is done every so many calls would fall on the same one. */
            const int warm = WARM + 7 * try_;
            for (i = 0; i <= warm; i++) {
                const int counted = i == warm ? call : -1;
                out = work_send(a, 0, 0, bytes);
                in = work_recv(b, 1, 4096, bytes);
                steps = 0;
                if (counted == 0) STEP_ON;
                returned = VipPostRecv(b->vi, in, b->memory);
                if (counted == 0) STEP_OFF;
                wrong += !(returned == VIP_SUCCESS);
                if (counted == 1) STEP_ON;
                returned = VipPostSend(a->vi, out, a->memory);
                if (counted == 1) STEP_OFF;
                wrong += !(returned == VIP_SUCCESS);
                if (counted == 2) STEP_ON;
                returned = VipSendDone(a->vi, &done);
                if (counted == 2) STEP_OFF;
                early = counted == 2 && returned == VIP_NOT_DONE;
                while (returned == VIP_NOT_DONE) returned = VipSendDone(a->vi, &done);
                wrong += !(returned == VIP_SUCCESS && done == out);
                if (counted == 3) STEP_ON;
                returned = VipRecvDone(b->vi, &done);
                if (counted == 3) STEP_OFF;
                early |= counted == 3 && returned == VIP_NOT_DONE;
                while (returned == VIP_NOT_DONE) returned = VipRecvDone(b->vi, &done);
                wrong += !(returned == VIP_SUCCESS && done == in);
            }
            if (!early && steps - own > 0 && steps - own < best[size][call]) best[size][call] = steps - own;
        }
    }
    CHECK_SAME(wrong, 0);
}

/* A send without a descriptor: 200. */
static const long inline_most = 230;

static void measure_inline(End *a, End *b) {
    const long own = own_steps();
    const uint64_t data = 7;
    long best_of = STEPS_MAX;
    VIP_DESCRIPTOR *in, *done;
    VIP_RETURN posted, sent, returned;
    int i;
    check_group("instructions of a send without a descriptor");
    for (i = 0; i < 2 * WARM && (i < WARM || best_of > inline_most); i++) {
        const int is_counted = i >= WARM && i % 97 == 0;
        in = work_recv(b, 1, 4096, sizeof data);
        posted = VipPostRecv(b->vi, in, b->memory);
        steps = 0;
        if (is_counted) STEP_ON;
        sent = VipxSendInline(a->vi, &data, sizeof data, VIPX_SEND_UNSIGNALLED, 0);
        if (is_counted) STEP_OFF;
        if (is_counted && steps - own > 0 && steps - own < best_of) best_of = steps - own;
        if (!CHECK_RETURN(posted, VIP_SUCCESS) || !CHECK_RETURN(sent, VIP_SUCCESS)) break;
        while ((returned = VipRecvDone(b->vi, &done)) == VIP_NOT_DONE) {}
        if (!CHECK_RETURN(returned, VIP_SUCCESS) || !CHECK(done == in)) break;
    }
    CHECK(i >= WARM);
    printf("VipxSendInline: %ld instructions (at most %ld)\n", best_of, inline_most);
    CHECK(best_of <= inline_most);
}

enum { BUFFERS = 64, BUFFER_BYTES = 16384 };

/* A hit of the registration cache, both calls, with one buffer and with BUFFERS: 692 and 1164. */
static const long cache_most[2] = {800, 1300};

static void measure_cache(VIP_NIC_HANDLE nic) {
    static unsigned char land[2 * BUFFERS * BUFFER_BYTES] __attribute__((aligned(4096)));
    const long own = own_steps();
    long best_of[2] = {STEPS_MAX, STEPS_MAX};
    int many, try_, i;
    check_group("instructions of the registration cache");
    for (many = 0; many < 2; many++) {
        for (try_ = 0; try_ < TRIES && best_of[many] > cache_most[many]; try_++) {
            for (i = 0; i < (many ? BUFFERS : 4); i++) {
                unsigned char *at = land + (many ? 2 * i * BUFFER_BYTES : 0);
                VIP_MEM_HANDLE handle = 0;
                VIP_RETURN registered, released;
                /* The call that starts a thread blocks signals, and cannot be stepped through. */
                const int is_counted = try_ >= 3;
                steps = 0;
                if (is_counted) STEP_ON;
                registered = VipxRegisterCached(nic, at, BUFFER_BYTES, NULL, &handle);
                released = VipxReleaseCached(nic, at, handle);
                if (is_counted) STEP_OFF;
                if (!CHECK(registered == VIP_SUCCESS && released == VIP_SUCCESS)) return;
                if (steps - own > 0 && steps - own < best_of[many]) best_of[many] = steps - own;
            }
        }
        printf("VipxRegisterCached and VipxReleaseCached, a hit, %d buffers: %ld instructions (at most %ld)\n", many ? BUFFERS : 1, best_of[many], cache_most[many]);
        CHECK(best_of[many] <= cache_most[many]);
    }
}

int main(void) {
    int round, size, call, gate;
    struct sigaction action;
    End a, b;
    EndOptions options;
    VIP_NIC_HANDLE nic = nic_open();
    check_group("instructions of the data path");
    memset(&action, 0, sizeof action);
    action.sa_handler = on_step;
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    memset(&options, 0, sizeof options);
    ends_pair(&a, nic, &b, nic, &options);
    for (size = 0; size < SIZES; size++)
        for (call = 0; call < CALLS; call++) best[size][call] = STEPS_MAX;
    for (round = 0; round < ROUNDS && !within(); round++)
        for (size = 0; size < SIZES; size++) measure(&a, &b, size);
    for (size = 0; size < SIZES; size++) {
        printf("%s:", size ? "1 KiB" : "8 bytes");
        for (call = 0; call < CALLS; call++) printf(" %s %ld", names[call], best[size][call]);
        printf(" instructions (at most %ld, %ld, %ld for both)\n", most[size][0], most[size][1], most[size][2]);
        for (gate = 0; gate < GATES; gate++) CHECK(gated(size, gate) <= most[size][gate]);
    }
    measure_inline(&a, &b);
    measure_cache(nic);
    CHECK_RETURN(VipCloseNic(nic), VIP_SUCCESS);
    return check_end();
}

#else

int main(void) {
    printf("SKIPPED instructions: counted on x86-64 Linux only\n");
    return 0;
}

#endif
