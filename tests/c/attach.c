/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Memory of the program between two processes, large messages, RDMA writes and reads: by cross-memory attach where the kernel permits it, and through the rings where it does
 * not, from the start or from some moment on. Whatever is forbidden, every byte arrives. The kernel forbids it here by: a process that is not
 * dumpable, a seccomp filter that refuses process_vm_readv, and a peer whose process id means somebody else here. (Needs to give up root for the first: root
 * may read everybody; and to be root for the last.)
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"

/* The data of an end: messages, RDMA, answers. */
enum { ROUNDS = 24, PART = END_DATA_BYTES / 4, RDMA_AT = PART, ANSWER_AT = 2 * PART, NOBODY = 65534 };

enum { PERMITTED, UNDUMPABLE, FILTERED, UNDUMPABLE_LATER, FOREIGN_PIDS, CASES };
static const char *const case_names[CASES] = {"permitted", "not dumpable", "refused by seccomp", "not dumpable any more half-way",
                                              "process ids of another namespace"};

/* process_vm_readv fails with EPERM from now on. */
static int filter(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), /* the system call's number */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* What a process of the case does before it opens a NIC. */
static void prepare(int which) {
    if (geteuid() == 0) {
        CHECK(setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
    }
    /* Changing the user has made the process undumpable. */
    CHECK(prctl(PR_SET_DUMPABLE, which == UNDUMPABLE ? 0 : 1, 0, 0, 0) == 0);
    if (which == FILTERED) CHECK(filter());
}

/* An end with memory of the program, on a NIC of its own, in a process of the case. */
static void open_as(int which, End *end) {
    EndOptions options = {0};
    prepare(which);
    options.foreign_memory = 1;
    end_create(end, nic_open(), &options);
}

/* The end of such a process. */
static void close_and_exit(End *end) {
    end_close(end);
    exit(check_end());
}

static void half_way(int which) {
    if (which == UNDUMPABLE_LATER) CHECK(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
}

/* Where the other's data is, told in the first message. */
typedef struct {
    void *data;
    VIP_MEM_HANDLE memory;
} Place;

static VIP_UINT32 bytes_of_round(int i) {
    static const VIP_UINT32 sizes[] = {PART, 4096, 50000, 32768, PART - 1, 7};
    return sizes[i % 6];
}

/* Client: each round a send of the first half of its data, a write of the same to the server's second half, and a read back of what was written. */
static void client(int which, const Address *at) {
    End end;
    VIPX_VI_INFO info;
    VIP_DESCRIPTOR *d;
    Place there;
    int i, bad = 0;
    open_as(which, &end);
    post_recv(&end, work_recv(&end, 0, 0, sizeof there));
    CHECK_RETURN(end_request_soon(&end, at), VIP_SUCCESS);
    CHECK_RETURN(VipRecvWait(end.vi, WAIT_MS, &d), VIP_SUCCESS);
    memcpy(&there, end.data, sizeof there);
    post_recv(&end, work_recv(&end, 0, ANSWER_AT, 8));
    for (i = 0; i < ROUNDS; i++) {
        const VIP_UINT32 bytes = bytes_of_round(i);
        if (i == ROUNDS / 2) half_way(which);
        pattern_fill(end.data, bytes, (unsigned)i);
        d = work_send(&end, 1, 0, bytes);
        post_send(&end, d);
        expect_send(&end, d, 0);
        d = work_rdma(&end, 2, VIP_CONTROL_OP_RDMAWRITE, 0, bytes, (char *)there.data + RDMA_AT, there.memory);
        post_send(&end, d);
        expect_send(&end, d, 0);
        memset(end.data + RDMA_AT, 0, bytes);
        d = work_rdma(&end, 3, VIP_CONTROL_OP_RDMAREAD, RDMA_AT, bytes, (char *)there.data + RDMA_AT, there.memory);
        post_send(&end, d);
        expect_send(&end, d, 0);
        bad += !pattern_ok(end.data + RDMA_AT, bytes, (unsigned)i);
        /* The other has looked, and is ready for the next. */
        if (!CHECK_RETURN(VipRecvWait(end.vi, WAIT_MS, &d), VIP_SUCCESS)) break;
        post_recv(&end, work_recv(&end, 0, ANSWER_AT, 8));
    }
    CHECK_SAME(bad, 0);
    memset(&info, 0, sizeof info);
    info.Size = sizeof info;
    CHECK_RETURN(VipxQueryVi(end.vi, &info), VIP_SUCCESS);
    printf("%s: %d requests, %d attached, %d as frames\n", case_names[which], (int)info.MessagesSent, (int)info.AttachCount, (int)info.FrameCount);
    CHECK_SAME(info.MessagesSent, 3 * ROUNDS);
    switch (which) {
    case PERMITTED:
        CHECK_SAME(info.Attach, 1);
        CHECK(info.AttachCount >= 2 * ROUNDS);
        break;
    case UNDUMPABLE_LATER:
        CHECK_SAME(info.Attach, 0);
        CHECK(info.AttachCount > 0 && info.AttachCount < 2 * ROUNDS);
        break;
    default:
        CHECK_SAME(info.Attach, 0);
        CHECK_SAME(info.AttachCount, 0);
    }
    close_and_exit(&end);
}

static void server(int which, const Address *at) {
    End end;
    VIP_DESCRIPTOR *d;
    Place here;
    int i, bad = 0;
    open_as(which, &end);
    post_recv(&end, work_recv(&end, 0, 0, PART));
    CHECK_RETURN(end_accept(&end, at, WAIT_MS), VIP_SUCCESS);
    here.data = end.data;
    here.memory = end.memory;
    memcpy(end.data + RDMA_AT, &here, sizeof here);
    d = work_send(&end, 1, RDMA_AT, sizeof here);
    post_send(&end, d);
    expect_send(&end, d, 0);
    for (i = 0; i < ROUNDS; i++) {
        if (!CHECK_RETURN(VipRecvWait(end.vi, WAIT_MS, &d), VIP_SUCCESS)) break;
        bad += d->CS.Length != bytes_of_round(i) || !pattern_ok(end.data, d->CS.Length, (unsigned)i);
        if (i == ROUNDS / 2) half_way(which);
        post_recv(&end, work_recv(&end, 0, 0, PART));
        d = work_send(&end, 1, ANSWER_AT, 8);
        post_send(&end, d);
        expect_send(&end, d, 0);
    }
    CHECK_SAME(bad, 0);
    /* The client's last requests need us until it has gone. */
    expect_state(&end, VIP_STATE_ERROR);
    close_and_exit(&end);
}

/* A client whose process ids are another namespace's, which begins with the next child. */
static void client_apart(int which, const Address *at) {
    pid_t child;
    int status;
    CHECK(unshare(CLONE_NEWPID) == 0);
    child = fork();
    if (child == 0) client(which, at);
    exit(waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

int main(void) {
    int which;
    const char *mode = getenv("BELLWIRE_MODE");
    if (mode != NULL && strcmp(mode, "guarded") == 0) {
        printf("attach is for mapped mode\n");
        return 0;
    }
    setenv("BELLWIRE_ATTACH", "always", 1);
    setenv("BELLWIRE_ADOPT", "never", 1); /* memory that a peer maps needs no attach */
    for (which = 0; which < CASES; which++) {
        if (which == FOREIGN_PIDS && geteuid() != 0) {
            printf("SKIPPED %s: needs root\n", case_names[which]);
            continue;
        }
        check_group(case_names[which]);
        /* Each case has processes of its own, since nothing that is given up can be taken back. */
        ends_in_processes(which, server, which == FOREIGN_PIDS ? client_apart : client);
    }
    return check_end();
}
