/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Many threads on one NIC: traffic on a VI each, objects made and destroyed beside it, one VI shared, waits that other threads end. */
#include <pthread.h>
#include <string.h>

#include "ends.h"

enum { THREADS = 8, ROUNDS = 2000, SHARED_ROUNDS = 4000 };

static VIP_NIC_HANDLE nic_a, nic_b;

typedef struct {
    End c, s;
    int number;
    int bad;
} Worker;

/* Both ends of one connection in one thread: send there, send back, check. */
static void *traffic(void *argument) {
    Worker *w = argument;
    int i;
    for (i = 0; i < ROUNDS && w->bad == 0; i++) {
        VIP_UINT32 bytes = (VIP_UINT32)((i * 61 + w->number * 7) % 3000);
        VIP_DESCRIPTOR *d = NULL;
        unsigned seed = (unsigned)(i + w->number * 1000);
        pattern_fill(w->c.data, bytes, seed);
        w->bad |= VipPostRecv(w->s.vi, work_recv(&w->s, 0, 0, 4096), w->s.memory) != VIP_SUCCESS;
        w->bad |= VipPostSend(w->c.vi, work_send(&w->c, 1, 0, bytes), w->c.memory) != VIP_SUCCESS;
        w->bad |= VipSendWait(w->c.vi, WAIT_MS, &d) != VIP_SUCCESS;
        w->bad |= VipRecvWait(w->s.vi, WAIT_MS, &d) != VIP_SUCCESS;
        w->bad |= d == NULL || d->CS.Length != bytes || !pattern_ok(w->s.data, bytes, seed);
    }
    CHECK_SAME(w->bad, 0);
    return NULL;
}

static void *churn(void *argument) {
    int i;
    static VIP_UINT64 bytes[64];
    (void)argument;
    for (i = 0; i < 1000; i++) {
        VIP_CQ_HANDLE cq = NULL;
        VIP_VI_HANDLE vi = NULL;
        VIP_MEM_HANDLE handle = 0;
        VIP_PROTECTION_HANDLE tag = NULL;
        VIP_VI_ATTRIBUTES a = {0};
        VIP_MEM_ATTRIBUTES m = {0};
        int ok = 1;
        a.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
        a.MaxTransferSize = 4096;
        ok &= VipCreatePtag(nic_a, &tag) == VIP_SUCCESS;
        a.Ptag = m.Ptag = tag;
        ok &= VipCreateCQ(nic_a, 8, &cq) == VIP_SUCCESS;
        ok &= VipCreateVi(nic_a, &a, cq, cq, &vi) == VIP_SUCCESS;
        ok &= VipRegisterMem(nic_a, bytes, sizeof bytes, &m, &handle) == VIP_SUCCESS;
        ok &= VipDeregisterMem(nic_a, bytes, handle) == VIP_SUCCESS;
        ok &= VipDestroyVi(vi) == VIP_SUCCESS;
        ok &= VipDestroyCQ(cq) == VIP_SUCCESS;
        ok &= VipDestroyPtag(nic_a, tag) == VIP_SUCCESS;
        CHECK(ok);
        if (!ok) break;
    }
    return NULL;
}

static void own_vis(void) {
    static Worker w[THREADS];
    pthread_t thread[THREADS], other;
    int i;
    check_group("a VI pair for each thread, beside threads that make and destroy objects");
    for (i = 0; i < THREADS; i++) {
        w[i].number = i;
        w[i].bad = 0;
        ends_pair(&w[i].c, nic_a, &w[i].s, i % 2 == 0 ? nic_b : nic_a, NULL);
    }
    for (i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, traffic, &w[i]);
    pthread_create(&other, NULL, churn, NULL);
    for (i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    pthread_join(other, NULL);
    for (i = 0; i < THREADS; i++) {
        end_destroy(&w[i].c);
        end_destroy(&w[i].s);
    }
}

/* One VI, several threads posting, several collecting. */
static Worker shared;
static int taken[2];
static VIP_UINT64 sum_sent, sum_received;
static int posts_left = SHARED_ROUNDS;

static void *shared_sender(void *argument) {
    (void)argument;
    for (;;) {
        int n = __atomic_sub_fetch(&posts_left, 1, __ATOMIC_RELAXED);
        VIP_RETURN result;
        if (n < 0) return NULL;
        __atomic_add_fetch(&sum_sent, (VIP_UINT64)n * 3 + 1, __ATOMIC_RELAXED);
        do {
            VIP_UINT32 word = (VIP_UINT32)n * 3 + 1;
            result = VipxSendInline(shared.c.vi, &word, sizeof word, VIPX_SEND_UNSIGNALLED, 0);
        } while (result == VIP_ERROR_RESOURCE);
        if (!CHECK_RETURN(result, VIP_SUCCESS)) return NULL;
    }
}

static void *shared_receiver(void *argument) {
    (void)argument;
    for (;;) {
        VIP_DESCRIPTOR *d = NULL;
        VIP_RETURN result = VipRecvWait(shared.s.vi, 20, &d);
        VIP_UINT32 word;
        if (result == VIP_TIMEOUT) {
            if (__atomic_load_n(&taken[0], __ATOMIC_RELAXED) >= SHARED_ROUNDS) return NULL;
            if (__atomic_add_fetch(&taken[1], 1, __ATOMIC_RELAXED) > 1000) return NULL; /* 1000 empty waits: give up */
            continue;
        }
        if (!CHECK_RETURN(result, VIP_SUCCESS)) return NULL;
        memcpy(&word, d->DS[0].Local.Data.Address, sizeof word);
        __atomic_add_fetch(&sum_received, word, __ATOMIC_RELAXED);
        __atomic_add_fetch(&taken[0], 1, __ATOMIC_RELAXED);
        d->CS.Status = 0;
        d->CS.Control = 0;
        d->CS.Length = 64;
        if (!CHECK_RETURN(VipPostRecv(shared.s.vi, d, shared.s.memory), VIP_SUCCESS)) return NULL;
    }
}

static void one_vi(void) {
    EndOptions options;
    pthread_t thread[6];
    int i;
    check_group("one VI shared by three sending and three receiving threads");
    memset(&options, 0, sizeof options);
    options.rnr_wait = 1;
    ends_pair(&shared.c, nic_a, &shared.s, nic_b, &options);
    for (i = 0; i < END_DESCRIPTORS; i++) post_recv(&shared.s, work_recv(&shared.s, i, (size_t)i * 64, 64));
    for (i = 0; i < 6; i++) pthread_create(&thread[i], NULL, i < 3 ? shared_sender : shared_receiver, NULL);
    for (i = 0; i < 6; i++) pthread_join(thread[i], NULL);
    CHECK_SAME(taken[0], SHARED_ROUNDS);
    CHECK(sum_sent == sum_received);
    end_destroy(&shared.c);
    end_destroy(&shared.s);
}

static void *wait_for_ever(void *argument) {
    End *e = argument;
    VIP_DESCRIPTOR *d = NULL;
    VIP_RETURN result = VipRecvWait(e->vi, VIP_INFINITE, &d);
    CHECK_RETURN(result, VIP_DESCRIPTOR_ERROR);
    CHECK(d == &e->descriptors[0]);
    return NULL;
}

static void *wait_for_close(void *argument) {
    End *e = argument;
    VIP_DESCRIPTOR *d = NULL;
    CHECK_RETURN(VipRecvWait(e->vi, ~0UL, &d), VIP_INVALID_PARAMETER);
    return NULL;
}

static void ended_waits(void) {
    End c, s;
    pthread_t thread;
    VIP_NIC_HANDLE third = nic_open();
    check_group("a wait for ever ends when another thread disconnects, and when it closes the NIC");
    ends_pair(&c, nic_a, &s, nic_b, NULL);
    post_recv(&s, work_recv(&s, 0, 0, 64));
    pthread_create(&thread, NULL, wait_for_ever, &s);
    sleep_ms(100);
    CHECK_RETURN(VipDisconnect(s.vi), VIP_SUCCESS);
    pthread_join(thread, NULL);
    end_destroy(&c);
    end_destroy(&s);
    end_create(&c, third, NULL);
    pthread_create(&thread, NULL, wait_for_close, &c);
    sleep_ms(100);
    CHECK_RETURN(VipCloseNic(third), VIP_SUCCESS);
    pthread_join(thread, NULL);
}

/* What the threads below use without asking whether it is still there. */
static VIP_NIC_HANDLE closing_nic;
static VIP_VI_HANDLE closing_vi;
static int closing_over;

static void *use_what_closes(void *argument) {
    int which = *(int *)argument;
    while (!__atomic_load_n(&closing_over, __ATOMIC_RELAXED)) {
        VIP_NIC_HANDLE nic = __atomic_load_n(&closing_nic, __ATOMIC_RELAXED);
        VIP_VI_HANDLE vi = __atomic_load_n(&closing_vi, __ATOMIC_RELAXED);
        VIP_DESCRIPTOR *d = NULL;
        VIP_NIC_ATTRIBUTES a;
        VIP_PROTECTION_HANDLE tag;
        VIP_RETURN result = VIP_INVALID_PARAMETER;
        if (which == 0) result = VipRecvDone(vi, &d);
        if (which == 1) result = VipQueryNic(nic, &a);
        if (which == 2) result = VipCreatePtag(nic, &tag);
        if (which == 3) result = VipRecvWait(vi, 5, &d);
        if (result != VIP_SUCCESS && result != VIP_NOT_DONE && result != VIP_TIMEOUT && result != VIP_ERROR_RESOURCE) {
            if (!CHECK_RETURN(result, VIP_INVALID_PARAMETER)) return NULL;
        }
    }
    return NULL;
}

static void closed_under_calls(void) {
    enum { KINDS = 4, NICS = 100 };
    pthread_t thread[KINDS];
    int kind[KINDS], i;
    check_group("NICs closed while other threads are inside their calls: success or VIP_INVALID_PARAMETER, nothing else");
    for (i = 0; i < KINDS; i++) {
        kind[i] = i;
        pthread_create(&thread[i], NULL, use_what_closes, &kind[i]);
    }
    for (i = 0; i < NICS; i++) {
        End e;
        int polls;
        VIP_DESCRIPTOR *d;
        end_create(&e, nic_open(), NULL);
        __atomic_store_n(&closing_nic, e.nic, __ATOMIC_RELAXED);
        __atomic_store_n(&closing_vi, e.vi, __ATOMIC_RELAXED);
        for (polls = 0; polls < 100; polls++) VipRecvDone(e.vi, &d);
        CHECK_RETURN(VipCloseNic(e.nic), VIP_SUCCESS);
    }
    __atomic_store_n(&closing_over, 1, __ATOMIC_RELAXED);
    for (i = 0; i < KINDS; i++) pthread_join(thread[i], NULL);
}

int main(void) {
    nic_a = nic_open();
    nic_b = nic_open();
    own_vis();
    one_vi();
    ended_waits();
    closed_under_calls();
    CHECK_RETURN(VipCloseNic(nic_a), VIP_SUCCESS);
    CHECK_RETURN(VipCloseNic(nic_b), VIP_SUCCESS);
    return check_end();
}
