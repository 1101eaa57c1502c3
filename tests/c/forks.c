/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * fork, exec and memory that goes away under the library. A parent that forks goes on undisturbed, whatever its child does with its own copy; a child may open a NIC of
 * its own; a peer hears of the death of a process although a child of it lives; memory that was unmapped hurts nobody but who unmapped it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"

enum { MESSAGES = 200, FORKS = 20, TOLD_MS_MAX = 1000 };

static VIP_NIC_HANDLE nic, other_nic;

/* Messages there and back between two ends of this process. */
static void traffic(End *a, End *b, unsigned from) {
    unsigned i;
    for (i = from; i < from + MESSAGES; i++) {
        VIP_UINT32 bytes = 1 + (i * 7919) % 60000;
        post_recv(b, work_recv(b, 0, 131072, 65536));
        pattern_fill(a->data, bytes, i);
        post_send(a, work_send(a, 1, 0, bytes));
        expect_recv(b, &b->descriptors[0], 0);
        expect_send(a, &a->descriptors[1], 0);
        if (!CHECK(pattern_ok(b->data + 131072, bytes, i))) return;
        post_send(b, work_rdma(b, 2, VIP_CONTROL_OP_RDMAREAD, 65536, bytes, a->data, a->memory));
        expect_send(b, &b->descriptors[2], 0);
        if (!CHECK(pattern_ok(b->data + 65536, bytes, i))) return;
    }
}

static void ended_well(pid_t pid) {
    int status = -1;
    waitpid(pid, &status, 0);
    CHECK_SAME(status, 0);
}

static pid_t child(void) {
    pid_t pid;
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(20);
    }
    return pid;
}

static void children_that_leave(int foreign) {
    EndOptions options = {0};
    End a, b;
    int i;
    check_group(foreign ? "children leave, the program's memory" : "children leave, the engine's memory");
    options.foreign_memory = foreign;
    ends_pair(&a, nic, &b, other_nic, &options);
    for (i = 0; i < FORKS; i++) {
        pid_t pid = child();
        if (pid == 0) {
            if (i % 3 == 0) _exit(0);
            if (i % 3 == 1) execl("/bin/true", "true", (char *)NULL);
            exit(0); /* with all that runs at exit */
        }
        if (i % 2 == 0) ended_well(pid);
        traffic(&a, &b, (unsigned)i);
        if (i % 2 == 1) ended_well(pid);
    }
    end_destroy(&a);
    end_destroy(&b);
}

/* Both write the pages that were registered before: each to its own copy. */
static void a_child_that_writes(void) {
    EndOptions options = {0};
    End a, b;
    pid_t pid;
    int i;
    check_group("a child writes its copy of registered memory");
    options.foreign_memory = 1;
    ends_pair(&a, nic, &b, other_nic, &options);
    post_recv(&b, work_recv(&b, 0, 131072, 65536)); /* posted before, used after */
    pid = child();
    if (pid == 0) {
        for (;;) {
            memset(a.data, 0xee, END_DATA_BYTES);
            memset(b.data, 0xee, END_DATA_BYTES);
        }
    }
    pattern_fill(a.data, 50000, 77);
    post_send(&a, work_send(&a, 1, 0, 50000));
    expect_recv(&b, &b.descriptors[0], 0);
    expect_send(&a, &a.descriptors[1], 0);
    CHECK(pattern_ok(b.data + 131072, 50000, 77));
    for (i = 0; i < 5; i++) traffic(&a, &b, (unsigned)i * 1000);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    traffic(&a, &b, 5);
    end_destroy(&a);
    end_destroy(&b);
}

/* What a child may call on its parent's NIC: it is refused; and a NIC of its own: it works, with its parent too. */
static int in_child(End *parents, const Address *at) {
    VIP_NIC_HANDLE own = NULL;
    VIP_DESCRIPTOR *d = NULL;
    End end;
    if (VipRecvWait(parents->vi, 10, &d) != VIP_INVALID_PARAMETER || VipSendDone(parents->vi, &d) != VIP_INVALID_PARAMETER) return 3;
    if (VipPostSend(parents->vi, parents->descriptors, parents->memory) != VIP_INVALID_PARAMETER || VipCloseNic(nic) != VIP_INVALID_PARAMETER) return 4;
    if (VipOpenNic("nic0", &own) != VIP_SUCCESS) return 5;
    end_create(&end, own, NULL);
    if (end_request(&end, at, WAIT_MS) != VIP_SUCCESS) return 6;
    pattern_fill(end.data, 1000, 5);
    post_send(&end, work_send(&end, 0, 0, 1000));
    expect_send(&end, &end.descriptors[0], 0);
    end_destroy(&end);
    return VipCloseNic(own) == VIP_SUCCESS ? 0 : 7;
}

static void children_with_a_nic(void) {
    int i;
    for (i = 0; i < FORKS / 4; i++) {
        End a, b, server;
        Address at;
        pid_t pid;
        check_group("a child with a NIC of its own");
        ends_pair(&a, nic, &b, other_nic, NULL);
        end_create(&server, nic, NULL);
        post_recv(&server, work_recv(&server, 0, 0, 4096));
        address_unique(&at, nic);
        pid = child();
        if (pid == 0) {
            int code = in_child(&a, &at);
            /* No check_end: the parent counts. */
            fflush(stdout);
            _exit(code);
        }
        if (CHECK_RETURN(end_accept(&server, &at, WAIT_MS), VIP_SUCCESS)) {
            expect_recv(&server, &server.descriptors[0], 0);
            CHECK(pattern_ok(server.data, 1000, 5));
        }
        traffic(&a, &b, 1);
        ended_well(pid);
        end_destroy(&server);
        end_destroy(&a);
        end_destroy(&b);
    }
}

/* ---- other processes */

/* The peer is killed; a child that it has forked holds every descriptor that it had. */
static void a_peer_with_a_child(void) {
    End end;
    Address at;
    pid_t pid, grandchild = 0;
    double killed;
    check_group("death of a process that has forked");
    address_unique(&at, nic);
    end_create(&end, nic, NULL);
    post_recv(&end, work_recv(&end, 0, 0, 64));
    post_recv(&end, work_recv(&end, 1, 64, 64));
    pid = start_again("forker", address_text(&at).hex);
    CHECK_RETURN(end_accept(&end, &at, WAIT_MS), VIP_SUCCESS);
    expect_recv(&end, &end.descriptors[0], 0);
    memcpy(&grandchild, end.data, sizeof grandchild);
    CHECK(kill(grandchild, 0) == 0);
    killed = now_ms();
    kill(pid, SIGKILL);
    expect_recv(&end, &end.descriptors[1], VIP_STATUS_DESC_FLUSHED_ERROR);
    CHECK(now_ms() - killed < TOLD_MS_MAX);
    expect_state(&end, VIP_STATE_ERROR);
    CHECK(kill(grandchild, 0) == 0);
    kill(grandchild, SIGKILL);
    waitpid(pid, NULL, 0);
    end_destroy(&end);
}

static const char *const unmappings[] = {"unmap-receive", "unmap-send", "move-receive", "unmap-read", "unmap-write", "protect-receive"};

/* Who unmaps memory that it has registered is hurt itself at most (an error, or SIGSEGV); the other is told and goes on. */
static void unmapped(const char *job) {
    End end;
    Address at;
    pid_t pid;
    int status = 0, i;
    VIP_DESCRIPTOR *d;
    VIP_RETURN result = VIP_SUCCESS;
    check_group(job);
    address_unique(&at, nic);
    end_create(&end, nic, NULL);
    post_recv(&end, work_recv(&end, 0, 131072, 64));
    for (i = 1; i < 4; i++) post_recv(&end, work_recv(&end, i, 0, 65536));
    pid = start_again(job, address_text(&at).hex);
    CHECK_RETURN(end_accept(&end, &at, WAIT_MS), VIP_SUCCESS);
    expect_recv(&end, &end.descriptors[0], 0); /* where its memory is, and that it is gone */
    if (strstr(job, "receive") != NULL) {
        post_send(&end, work_send(&end, 8, 0, 50000));
    } else if (strcmp(job, "unmap-send") != 0) {
        uint64_t words[2];
        memcpy(words, end.data + 131072, sizeof words);
        post_send(&end, work_rdma(&end, 8, strcmp(job, "unmap-read") == 0 ? VIP_CONTROL_OP_RDMAREAD : VIP_CONTROL_OP_RDMAWRITE, 0, 50000,
                                  (void *)(uintptr_t)words[0], (VIP_MEM_HANDLE)words[1]));
    }
    /* It breaks, one way or the other, and everything comes back. */
    for (i = 0; i < 3 && (result == VIP_SUCCESS || result == VIP_DESCRIPTOR_ERROR); i++) result = VipRecvWait(end.vi, WAIT_MS, &d);
    CHECK_RETURN(result, VIP_DESCRIPTOR_ERROR);
    expect_state(&end, VIP_STATE_ERROR);
    waitpid(pid, &status, 0);
    CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGSEGV : WEXITSTATUS(status) == 0);
    printf("%s: its process %s\n", job, WIFSIGNALED(status) ? "got SIGSEGV" : "went on");
    end_destroy(&end);
}

static int unmapper(const char *job, End *end) {
    VIP_MEM_ATTRIBUTES rights = {0};
    VIP_MEM_HANDLE handle;
    VIP_DESCRIPTOR *d = work_recv(end, 4, 0, 65536);
    unsigned char *memory = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t words[2];
    signal(SIGSEGV, SIG_DFL);
    rights.Ptag = end->tag, rights.EnableRdmaWrite = VIP_TRUE, rights.EnableRdmaRead = VIP_TRUE;
    if (memory == MAP_FAILED || VipRegisterMem(nic, memory, 65536, &rights, &handle) != VIP_SUCCESS) return 3;
    d->DS[0].Local.Data.Address = memory, d->DS[0].Local.Handle = handle;
    if (strstr(job, "receive") != NULL) post_recv(end, d);
    if (strncmp(job, "move", 4) == 0) {
        if (mremap(memory, 65536, 65536, MREMAP_MAYMOVE | MREMAP_FIXED, mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) == MAP_FAILED) return 4;
    } else if (strncmp(job, "protect", 7) == 0) {
        mprotect(memory, 65536, PROT_READ);
    } else {
        munmap(memory, 65536);
    }
    words[0] = (uint64_t)(uintptr_t)memory, words[1] = handle;
    memcpy(end->data, words, sizeof words);
    post_send(end, work_send(end, 0, 0, sizeof words));
    expect_send(end, &end->descriptors[0], 0);
    if (strcmp(job, "unmap-send") == 0) VipPostSend(end->vi, d, end->memory);
    for (;;) { /* until it is over */
        VIP_RETURN result = strstr(job, "receive") != NULL ? VipRecvWait(end->vi, 200, &d) : VipSendWait(end->vi, 200, &d);
        if (result != VIP_TIMEOUT) return 0;
        if (strcmp(job, "unmap-send") != 0 && strstr(job, "receive") == NULL) return 0;
    }
}

static int other_end(const char *job, const char *hex) {
    End end;
    Address at;
    pid_t pid;
    check_group("the other process");
    nic = nic_open();
    address_of_text(&at, nic, hex);
    end_create(&end, nic, NULL);
    if (end_request(&end, &at, WAIT_MS) != VIP_SUCCESS) return 2;
    if (strcmp(job, "forker") != 0) return unmapper(job, &end);
    pid = fork();
    if (pid == 0) {
        sleep(20);
        _exit(0);
    }
    memcpy(end.data, &pid, sizeof pid);
    post_send(&end, work_send(&end, 0, 0, sizeof pid));
    expect_send(&end, &end.descriptors[0], 0);
    sleep(20);
    return 1;
}

int main(int argc, char **argv) {
    size_t i;
    if (argc == 3) return other_end(argv[1], argv[2]);
    nic = nic_open();
    other_nic = nic_open();
    children_that_leave(0);
    children_that_leave(1);
    a_child_that_writes();
    children_with_a_nic();
    a_peer_with_a_child();
    for (i = 0; i < sizeof unmappings / sizeof unmappings[0]; i++) unmapped(unmappings[i]);
    CHECK_RETURN(VipCloseNic(other_nic), VIP_SUCCESS);
    CHECK_RETURN(VipCloseNic(nic), VIP_SUCCESS);
    return check_end();
}
