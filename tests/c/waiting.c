/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waits with a spin of their own, and completion queues in epoll: readable exactly when there is an entry after arming, level- and
 * edge-triggered, no entry lost over many sleeps.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"

static VIP_NIC_HANDLE nic_a, nic_b;

enum { ROUNDS = 2000, WINDOW = 8 };

static int is_readable(int fd, int ms) {
    struct pollfd p;
    p.fd = fd;
    p.events = POLLIN;
    return poll(&p, 1, ms) == 1 && (p.revents & POLLIN) != 0;
}

/* Takes the receive that an entry has announced. */
static void take_recv(End *end, int slot) {
    VIP_DESCRIPTOR *done = NULL;
    CHECK_RETURN(VipRecvDone(end->vi, &done), VIP_SUCCESS);
    CHECK(done == &end->descriptors[slot]);
}

static void spins(void) {
    End c, s;
    VIP_DESCRIPTOR *done;
    VIP_CQ_HANDLE cq;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN is_recv;
    double began;
    check_group("VipxSetSpin and waits with a spin of their own");
    CHECK_RETURN(VipxSetSpin(NULL, 0), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxSetSpin(nic_a, VIPX_SPIN_MAX + 1), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxSetSpin(nic_a, VIPX_SPIN_NIC), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxSetSpin(nic_a, VIPX_SPIN_MAX), VIP_SUCCESS);
    CHECK_RETURN(VipxSetSpin(nic_a, 0), VIP_SUCCESS);
    ends_pair(&c, nic_a, &s, nic_b, NULL);
    CHECK_RETURN(VipxRecvWait(c.vi, 0, 0, NULL), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxRecvWait(c.vi, 0, VIPX_SPIN_MAX + 1, &done), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxSendWait(NULL, 0, 0, &done), VIP_INVALID_PARAMETER);
    began = now_ms();
    CHECK_RETURN(VipxRecvWait(c.vi, 20, 0, &done), VIP_TIMEOUT);
    CHECK_RETURN(VipxRecvWait(c.vi, 20, VIPX_SPIN_MAX, &done), VIP_TIMEOUT);
    CHECK_RETURN(VipxSendWait(c.vi, 20, VIPX_SPIN_NIC, &done), VIP_TIMEOUT);
    CHECK(now_ms() - began >= 60 && now_ms() - began < 1000);
    CHECK_RETURN(VipCreateCQ(nic_a, 8, &cq), VIP_SUCCESS);
    CHECK_RETURN(VipxCQWait(cq, 10, 0, &vi, &is_recv), VIP_TIMEOUT);
    CHECK_RETURN(VipxCQWait(cq, 10, 0, NULL, &is_recv), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipDestroyCQ(cq), VIP_SUCCESS);
    post_recv(&c, work_recv(&c, 0, 0, 64));
    post_send(&s, work_send(&s, 0, 0, 8));
    CHECK_RETURN(VipxRecvWait(c.vi, WAIT_MS, 100, &done), VIP_SUCCESS);
    CHECK(done == &c.descriptors[0]);
    CHECK_RETURN(VipxSendWait(s.vi, WAIT_MS, 0, &done), VIP_SUCCESS);
    CHECK_RETURN(VipxSetSpin(nic_a, 50), VIP_SUCCESS);
    end_destroy(&c);
    end_destroy(&s);
}

static void arming(void) {
    End c, s;
    EndOptions options;
    VIP_CQ_HANDLE cq, other;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN is_recv;
    int fd = -1, second = -1, i;
    memset(&options, 0, sizeof options);
    check_group("VipxCQFd and VipxCQArm");
    CHECK_RETURN(VipCreateCQ(nic_a, 64, &cq), VIP_SUCCESS);
    CHECK_RETURN(VipxCQFd(NULL, &fd), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxCQFd(cq, NULL), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxCQArm(cq), VIP_INVALID_STATE);
    CHECK_RETURN(VipxCQFd(cq, &fd), VIP_SUCCESS);
    CHECK_RETURN(VipxCQFd(cq, &second), VIP_SUCCESS);
    CHECK(fd >= 0 && second >= 0 && fd != second);
    CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    options.recv_cq = cq;
    end_create(&c, nic_a, &options);
    end_create(&s, nic_b, NULL);
    CHECK_RETURN(ends_connect(&s, &c, NULL), VIP_SUCCESS);
    for (i = 0; i < 5; i++) post_recv(&c, work_recv(&c, i, 0, 64));
    /* Not armed: silent, whatever comes. */
    post_send(&s, work_send(&s, 0, 0, 8));
    expect_send(&s, &s.descriptors[0], 0);
    CHECK(!is_readable(fd, 30));
    /* An entry that is there is told at once. */
    CHECK_RETURN(VipxCQArm(cq), VIP_NOT_DONE);
    CHECK(is_readable(fd, 0) && is_readable(second, 0));
    CHECK_RETURN(VipCQDone(cq, &vi, &is_recv), VIP_SUCCESS);
    CHECK(vi == c.vi && is_recv == VIP_TRUE);
    take_recv(&c, 0);
    CHECK_RETURN(VipCQDone(cq, &vi, &is_recv), VIP_NOT_DONE);
    /* Armed and empty: silent until the next. */
    CHECK_RETURN(VipxCQArm(cq), VIP_SUCCESS);
    CHECK(!is_readable(fd, 30));
    for (i = 1; i < 3; i++) {
        post_send(&s, work_send(&s, i, 0, 8));
        expect_send(&s, &s.descriptors[i], 0);
        CHECK(is_readable(fd, WAIT_MS));
        CHECK(is_readable(fd, 0)); /* level-triggered: it stays */
        CHECK_RETURN(VipCQDone(cq, &vi, &is_recv), VIP_SUCCESS);
        take_recv(&c, i);
        CHECK_RETURN(VipxCQArm(cq), VIP_SUCCESS);
        CHECK(!is_readable(fd, 5));
    }
    close(second);
    /* In the child of a fork its parent's handles name nothing. */
    i = (int)fork();
    if (i == 0) {
        VIP_DESCRIPTOR *done;
        _exit(VipxCQArm(cq) == VIP_INVALID_PARAMETER && VipSendWait(c.vi, 10, &done) == VIP_INVALID_PARAMETER ? 0 : 1);
    }
    CHECK(waitpid(i, &i, 0) > 0);
    CHECK_SAME(i, 0);
    /* A queue that is destroyed wakes its sleeper; descriptors of the gone queue are silent or readable, never stuck. */
    CHECK_RETURN(VipCreateCQ(nic_a, 8, &other), VIP_SUCCESS);
    CHECK_RETURN(VipxCQFd(other, &second), VIP_SUCCESS);
    CHECK_RETURN(VipxCQArm(other), VIP_SUCCESS);
    CHECK_RETURN(VipDestroyCQ(other), VIP_SUCCESS);
    CHECK(is_readable(second, WAIT_MS));
    CHECK_RETURN(VipxCQArm(other), VIP_INVALID_PARAMETER);
    close(second);
    end_destroy(&c);
    end_destroy(&s);
    close(fd);
    CHECK_RETURN(VipDestroyCQ(cq), VIP_SUCCESS);
}

/* The other process: sends one message for each one it gets. */
static void echo(const Address *at) {
    End e;
    VIP_DESCRIPTOR *done;
    VIP_NIC_HANDLE nic;
    int i, failed = 0;
    if (VipOpenNic("nic0", &nic) != VIP_SUCCESS) _exit(1);
    end_create(&e, nic, NULL);
    for (i = 0; i < WINDOW; i++) post_recv(&e, work_recv(&e, i, (size_t)i * 64, 64));
    if (end_request(&e, at, WAIT_MS) != VIP_SUCCESS) _exit(2);
    for (i = 0; i < ROUNDS && !failed; i++) {
        if (VipRecvWait(e.vi, WAIT_MS, &done) != VIP_SUCCESS) _exit(3);
        post_recv(&e, work_recv(&e, i % WINDOW, 0, 64));
        if (i % 50 == 0) usleep(1000); /* the other side surely sleeps */
        post_send(&e, work_send(&e, WINDOW, 0, 8));
        if (VipSendWait(e.vi, WAIT_MS, &done) != VIP_SUCCESS) _exit(4);
    }
    VipRecvWait(e.vi, WAIT_MS, &done); /* until it hangs up */
    _exit(0);
}

static void sleeping(unsigned trigger) {
    End c;
    EndOptions options;
    Address at;
    VIP_CQ_HANDLE cq;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN is_recv;
    struct epoll_event event;
    int set = epoll_create1(0), fd = -1, got = 0, sent = 0, sleeps = 0, status = 0;
    pid_t child;
    memset(&options, 0, sizeof options);
    check_group(trigger != 0 ? "a program that sleeps in epoll, edge-triggered" : "a program that sleeps in epoll");
    address_unique(&at, nic_a);
    child = fork();
    if (child == 0) echo(&at);
    CHECK_RETURN(VipCreateCQ(nic_a, 64, &cq), VIP_SUCCESS);
    CHECK_RETURN(VipxCQFd(cq, &fd), VIP_SUCCESS);
    event.events = EPOLLIN | trigger;
    event.data.u32 = 1;
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    options.recv_cq = cq;
    end_create(&c, nic_a, &options);
    CHECK_RETURN(end_accept(&c, &at, WAIT_MS), VIP_SUCCESS);
    post_recv(&c, work_recv(&c, 0, 0, 64));
    post_send(&c, work_send(&c, 1, 0, 8));
    sent = 1;
    while (got < ROUNDS) {
        VIP_DESCRIPTOR *done;
        while (VipCQDone(cq, &vi, &is_recv) == VIP_SUCCESS) {
            got++;
            if (VipRecvDone(c.vi, &done) != VIP_SUCCESS) CHECK(0);
            if (VipSendWait(c.vi, WAIT_MS, &done) != VIP_SUCCESS) CHECK(0);
            if (sent < ROUNDS) {
                post_recv(&c, work_recv(&c, 0, 0, 64));
                post_send(&c, work_send(&c, 1, 0, 8));
                sent++;
            }
        }
        if (got == ROUNDS) break;
        if (VipxCQArm(cq) == VIP_NOT_DONE) continue;
        sleeps++;
        if (epoll_wait(set, &event, 1, WAIT_MS) != 1) {
            CHECK(!"a wake-up was lost");
            break;
        }
    }
    CHECK_SAME(got, ROUNDS);
    CHECK(sleeps >= ROUNDS / 50 / 2);
    end_destroy(&c);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_SAME(status, 0);
    CHECK_RETURN(VipDestroyCQ(cq), VIP_SUCCESS);
    close(fd);
    close(set);
}

/* Another thread waits for another VI: it leads, and rings the queue's descriptor besides. */
static void *wait_for_long(void *vi) {
    VIP_DESCRIPTOR *done;
    VIP_RETURN result = VipRecvWait(vi, 400, &done);
    return result == VIP_TIMEOUT ? vi : NULL;
}

static void beside_a_waiter(void) {
    End c, s, c2, s2;
    EndOptions options;
    VIP_CQ_HANDLE cq;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN is_recv;
    pthread_t thread;
    void *outcome = NULL;
    int fd = -1, i;
    memset(&options, 0, sizeof options);
    check_group("a descriptor while another thread waits");
    CHECK_RETURN(VipCreateCQ(nic_a, 64, &cq), VIP_SUCCESS);
    CHECK_RETURN(VipxCQFd(cq, &fd), VIP_SUCCESS);
    options.recv_cq = cq;
    end_create(&c, nic_a, &options);
    end_create(&s, nic_b, NULL);
    CHECK_RETURN(ends_connect(&s, &c, NULL), VIP_SUCCESS);
    ends_pair(&c2, nic_a, &s2, nic_b, NULL);
    pthread_create(&thread, NULL, wait_for_long, c2.vi);
    sleep_ms(30);
    for (i = 0; i < 20; i++) {
        double began;
        post_recv(&c, work_recv(&c, i, 0, 64));
        CHECK_RETURN(VipxCQArm(cq), VIP_SUCCESS);
        if (i % 4 == 0) sleep_ms(7);
        began = now_ms();
        post_send(&s, work_send(&s, i, 0, 8));
        expect_send(&s, &s.descriptors[i], 0);
        CHECK(is_readable(fd, WAIT_MS));
        CHECK(now_ms() - began < 1000);
        CHECK_RETURN(VipCQDone(cq, &vi, &is_recv), VIP_SUCCESS);
        take_recv(&c, i);
    }
    pthread_join(thread, &outcome);
    CHECK(outcome == c2.vi);
    end_destroy(&c);
    end_destroy(&s);
    end_destroy(&c2);
    end_destroy(&s2);
    close(fd);
    CHECK_RETURN(VipDestroyCQ(cq), VIP_SUCCESS);
}

int main(void) {
    nic_a = nic_open();
    sleeping(0);
    sleeping(EPOLLET);
    nic_b = nic_open();
    spins();
    arming();
    beside_a_waiter();
    CHECK_RETURN(VipCloseNic(nic_a), VIP_SUCCESS);
    CHECK_RETURN(VipCloseNic(nic_b), VIP_SUCCESS);
    return check_end();
}
