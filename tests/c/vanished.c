/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Memory that goes away while it is registered: unmapped, moved, made inaccessible, its file cut off. In strict mode (BELLWIRE_MEMORY=strict) whoever uses it gets a
 * status, never a fault, nothing hangs, and other VIs go on. In both modes other memory at the same address is as good as what was there before.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"

enum { LAND = 1 << 20, HALF = LAND / 2 };

typedef enum { UNMAPPED, MOVED, FORBIDDEN, CUT_OFF, FATES } Fate;
typedef enum { SEND, RECEIVE, WRITE_FROM, WRITE_TO, READ_FROM, READ_TO, USES } Use;
static const char *const fate_names[FATES] = {"munmap", "mremap", "mprotect(PROT_NONE)", "truncated file"};
static const char *const use_names[USES] = {"send", "receive", "RDMA write, source", "RDMA write, target", "RDMA read, source", "RDMA read, target"};

static VIP_NIC_HANDLE nic, other_nic;
static Errors errors;

/* Registered memory that is to go, and what is left of it. */
typedef struct {
    End *end;
    unsigned char *at;
    VIP_MEM_HANDLE handle;
    int fd;
    void *moved;
} Land;

static unsigned char *next_land = (unsigned char *)0x100000000000;

static void land_make(Land *land, End *end, Fate fate) {
    VIP_MEM_ATTRIBUTES rights = {0};
    memset(land, 0, sizeof *land);
    land->end = end;
    land->fd = fate == CUT_OFF ? memfd_create("cut off", 0) : -1;
    if (land->fd >= 0) CHECK(ftruncate(land->fd, LAND) == 0);
    /* Far from where the kernel puts what the library maps, which may not come into the hole. */
    int kind = land->fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    land->at = mmap(next_land, LAND, PROT_READ | PROT_WRITE, MAP_FIXED_NOREPLACE | kind, land->fd, 0);
    next_land += 2 * LAND;
    if (land->at == MAP_FAILED) abort();
    memset(land->at, 3, LAND);
    rights.Ptag = end->tag;
    rights.EnableRdmaRead = rights.EnableRdmaWrite = VIP_TRUE;
    CHECK_RETURN(VipRegisterMem(end->nic, land->at, LAND, &rights, &land->handle), VIP_SUCCESS);
}

/* All of it goes, or its second half. */
static void land_lose(Land *land, Fate fate, int half) {
    unsigned char *from = land->at + (half ? HALF : 0);
    size_t bytes = half ? HALF : LAND;
    switch (fate) {
    case UNMAPPED: CHECK(munmap(from, bytes) == 0); break;
    case MOVED:
        land->moved = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, land->moved) == land->moved);
        break;
    case FORBIDDEN: CHECK(mprotect(from, bytes, PROT_NONE) == 0); break;
    default: CHECK(ftruncate(land->fd, half ? HALF : 0) == 0); break;
    }
}

static void land_end(Land *land, int half) {
    CHECK_RETURN(VipDeregisterMem(land->end->nic, land->at, land->handle), VIP_SUCCESS);
    if (land->moved != NULL) munmap(land->moved, half ? HALF : LAND);
    if (land->fd >= 0) close(land->fd);
    munmap(land->at, LAND); /* or what is left: a hole is no error */
}

/* A descriptor of `end` (in the engine's memory) with one segment anywhere. */
static VIP_DESCRIPTOR *describe(End *end, int slot, int operation, void *address, VIP_MEM_HANDLE handle, VIP_UINT32 bytes, void *remote, VIP_MEM_HANDLE remote_handle) {
    VIP_DESCRIPTOR *d = &end->descriptors[slot];
    int i = 0;
    memset(d, 0, sizeof *d);
    d->CS.Control = (VIP_UINT16)operation;
    d->CS.Length = bytes;
    if (remote != NULL) {
        d->DS[0].Remote.Data.Address = remote;
        d->DS[0].Remote.Handle = remote_handle;
        i = 1;
    }
    d->CS.SegCount = (VIP_UINT16)(i + 1);
    d->DS[i].Local.Data.Address = address;
    d->DS[i].Local.Handle = handle;
    d->DS[i].Local.Length = bytes;
    return d;
}

/* The error bits of the next completion of a queue; ~0: none came. */
static VIP_UINT32 error_of(End *end, int receive) {
    VIP_DESCRIPTOR *d = NULL;
    VIP_RETURN result = receive ? VipRecvWait(end->vi, WAIT_MS, &d) : VipSendWait(end->vi, WAIT_MS, &d);
    if (!CHECK(result == VIP_SUCCESS || result == VIP_DESCRIPTOR_ERROR)) return ~0u;
    CHECK(d->CS.Status & VIP_STATUS_DONE);
    /* The call says what the descriptor says. */
    CHECK((result == VIP_DESCRIPTOR_ERROR) == ((d->CS.Status & VIP_STATUS_ERROR_MASK) != 0));
    return d->CS.Status & VIP_STATUS_ERROR_MASK;
}

/* Both ends, in this order: the one whose memory goes, its peer. */
typedef struct {
    End a, b;
    Land land, partner;
    VIP_RELIABILITY_LEVEL level;
} Pair;

/* Posts what uses the memory that has gone, and checks what becomes of it. */
static void use(Pair *p, Use how, unsigned char *gone, VIP_UINT32 bytes) {
    unsigned char *there = p->partner.at;
    VIP_MEM_HANDLE gone_h = p->land.handle, there_h = p->partner.handle;
    int reliable = p->level != VIP_SERVICE_UNRELIABLE, reception = p->level == VIP_SERVICE_RELIABLE_RECEPTION;
    VIP_UINT32 status;
    switch (how) {
    case SEND:
        post_recv(&p->b, describe(&p->b, 0, 0, there, there_h, bytes, NULL, 0));
        post_send(&p->a, describe(&p->a, 0, VIP_CONTROL_OP_SENDRECV, gone, gone_h, bytes, NULL, 0));
        CHECK_SAME(error_of(&p->a, 0), VIP_STATUS_PROTECTION_ERROR);
        break;
    case RECEIVE:
        post_recv(&p->a, describe(&p->a, 0, 0, gone, gone_h, bytes, NULL, 0));
        post_send(&p->b, describe(&p->b, 0, VIP_CONTROL_OP_SENDRECV, there, there_h, bytes, NULL, 0));
        CHECK_SAME(error_of(&p->a, 1), VIP_STATUS_PROTECTION_ERROR);
        status = error_of(&p->b, 0);
        if (reception) CHECK_SAME(status, VIP_STATUS_REMOTE_DESC_ERROR);
        else CHECK(status == 0 || (reliable && (status & VIP_STATUS_DESC_FLUSHED_ERROR)));
        break;
    case WRITE_FROM:
        post_send(&p->a, describe(&p->a, 0, VIP_CONTROL_OP_RDMAWRITE, gone, gone_h, bytes, there, there_h));
        CHECK_SAME(error_of(&p->a, 0), VIP_STATUS_PROTECTION_ERROR);
        break;
    case WRITE_TO:
        errors_watch(nic, &errors);
        post_send(&p->b, describe(&p->b, 0, VIP_CONTROL_OP_RDMAWRITE, there, there_h, bytes, gone, gone_h));
        status = error_of(&p->b, 0);
        if (reception) CHECK_SAME(status, VIP_STATUS_RDMA_PROT_ERROR);
        else CHECK(status == 0 || status == VIP_STATUS_RDMA_PROT_ERROR);
        CHECK(errors_wait(&errors, VIP_ERROR_RDMAW_PROT, WAIT_MS));
        break;
    case READ_FROM:
        errors_watch(nic, &errors);
        post_send(&p->b, describe(&p->b, 0, VIP_CONTROL_OP_RDMAREAD, there, there_h, bytes, gone, gone_h));
        CHECK_SAME(error_of(&p->b, 0), VIP_STATUS_RDMA_PROT_ERROR);
        CHECK(errors_wait(&errors, VIP_ERROR_RDMAR_PROT, WAIT_MS));
        break;
    default:
        post_send(&p->a, describe(&p->a, 0, VIP_CONTROL_OP_RDMAREAD, gone, gone_h, bytes, there, there_h));
        CHECK_SAME(error_of(&p->a, 0), VIP_STATUS_PROTECTION_ERROR);
        break;
    }
    expect_state(&p->a, reliable ? VIP_STATE_ERROR : VIP_STATE_CONNECTED);
    expect_state(&p->b, reliable ? VIP_STATE_ERROR : VIP_STATE_CONNECTED);
}

static void bystanders_go_on(End *c, End *d, unsigned seed) {
    pattern_fill(c->data, 3000, seed);
    post_recv(d, work_recv(d, 0, 8192, 3000));
    post_send(c, work_send(c, 0, 0, 3000));
    expect_recv(d, &d->descriptors[0], 0);
    expect_send(c, &c->descriptors[0], 0);
    CHECK(pattern_ok(d->data + 8192, 3000, seed));
}

/* On a connection that still stands the next message arrives. */
static void next_message(Pair *p) {
    VIP_DESCRIPTOR *d;
    VIP_RETURN result;
    while (VipRecvDone(p->a.vi, &d) == VIP_SUCCESS || VipRecvDone(p->b.vi, &d) == VIP_SUCCESS) continue;
    result = VipRecvDone(p->b.vi, &d);
    CHECK(result == VIP_NOT_DONE);
    post_recv(&p->a, work_recv(&p->a, 5, 8192, 4096));
    pattern_fill(p->b.data, 700, 9);
    post_send(&p->b, work_send(&p->b, 6, 0, 700));
    expect_send(&p->b, &p->b.descriptors[6], 0);
    expect_recv(&p->a, &p->a.descriptors[5], 0);
    CHECK(pattern_ok(p->a.data + 8192, 700, 9));
}

static void vanish(Fate fate, Use how, VIP_RELIABILITY_LEVEL level, VIP_UINT32 bytes, int half, End *c, End *d) {
    EndOptions options = {0};
    Pair p;
    unsigned char *gone;
    options.level = level;
    options.transfer_bytes_max = LAND;
    memset(&p, 0, sizeof p);
    p.level = level;
    ends_pair(&p.a, nic, &p.b, other_nic, &options);
    land_make(&p.land, &p.a, fate);
    land_make(&p.partner, &p.b, UNMAPPED);
    /* With half of it gone a request begins well: its last bytes are not there. */
    gone = half ? p.land.at + HALF - bytes / 2 : p.land.at + 100;
    land_lose(&p.land, fate, half);
    use(&p, how, gone, bytes);
    if (level == VIP_SERVICE_UNRELIABLE && how == RECEIVE) next_message(&p);
    bystanders_go_on(c, d, bytes + (unsigned)how);
    CHECK_RETURN(VipDisconnect(p.a.vi), VIP_SUCCESS);
    CHECK_RETURN(VipDisconnect(p.b.vi), VIP_SUCCESS);
    land_end(&p.land, half);
    land_end(&p.partner, 0);
    end_destroy(&p.a);
    end_destroy(&p.b);
}

static void all_that_can_vanish(void) {
    static const VIP_UINT32 sizes[] = {8, 48, 1000, 4096, 60000, 700000};
    static const VIP_RELIABILITY_LEVEL levels[] = {VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION};
    End c, d;
    int fate, how, level, size, half;
    char name[128];
    ends_pair(&c, nic, &d, other_nic, NULL);
    for (how = 0; how < USES; how++) {
        for (fate = 0; fate < FATES; fate++) {
            sprintf(name, "%s: %s", use_names[how], fate_names[fate]);
            check_group(name);
            for (level = 0; level < 3; level++) {
                if (level == 0 && how >= READ_FROM) continue; /* no reads there */
                for (size = 0; size < 6; size++) {
                    for (half = 0; half < 2; half++) vanish((Fate)fate, (Use)how, levels[level], sizes[size], half, &c, &d);
                }
            }
        }
    }
    end_destroy(&c);
    end_destroy(&d);
}

/* The source is the program's, the target the engine's and mapped: the initiator copies straight into it. */
static void direct_write_from_nothing(void) {
    End a, b;
    Land land;
    VIP_UINT32 bytes;
    int i;
    check_group("RDMA write from what has gone into mapped memory");
    for (bytes = 8; bytes <= 200000; bytes = bytes * 25) {
        ends_pair(&a, nic, &b, other_nic, NULL);
        land_make(&land, &a, UNMAPPED);
        for (i = 0; i < 50; i++) {
            post_send(&a, describe(&a, 0, VIP_CONTROL_OP_RDMAWRITE, land.at, land.handle, bytes, b.data, b.memory));
            expect_send(&a, &a.descriptors[0], 0);
            sleep_ms(i < 5);
        }
        land_lose(&land, UNMAPPED, 0);
        post_send(&a, describe(&a, 0, VIP_CONTROL_OP_RDMAWRITE, land.at, land.handle, bytes, b.data, b.memory));
        CHECK_SAME(error_of(&a, 0), VIP_STATUS_PROTECTION_ERROR);
        expect_state(&a, VIP_STATE_ERROR);
        expect_state(&b, VIP_STATE_ERROR);
        land_end(&land, 0);
        end_destroy(&a);
        end_destroy(&b);
    }
}

/* Several pieces, of which the middle one is gone; and requests before it, which are well. */
static void one_segment_of_three(void) {
    End a, b;
    Land land;
    VIP_DESCRIPTOR *d;
    int i;
    check_group("one segment of three");
    ends_pair(&a, nic, &b, other_nic, NULL);
    land_make(&land, &a, UNMAPPED);
    land_lose(&land, UNMAPPED, 1);
    for (i = 0; i < 3; i++) post_recv(&b, work_recv(&b, i, (size_t)i * 8192, 8192));
    post_send(&a, work_send(&a, 0, 0, 5000));
    d = work_send(&a, 1, 0, 1000);
    d->CS.SegCount = 3;
    d->CS.Length = 3000;
    d->DS[1] = d->DS[0];
    d->DS[1].Local.Data.Address = land.at + HALF, d->DS[1].Local.Handle = land.handle;
    d->DS[2] = d->DS[0];
    post_send(&a, d);
    expect_send(&a, &a.descriptors[0], 0);
    CHECK_SAME(error_of(&a, 0), VIP_STATUS_PROTECTION_ERROR);
    expect_recv(&b, &b.descriptors[0], 0);
    CHECK_SAME(error_of(&b, 1), VIP_STATUS_DESC_FLUSHED_ERROR);
    CHECK_RETURN(VipDisconnect(a.vi), VIP_SUCCESS);
    land_end(&land, 1);
    end_destroy(&a);
    end_destroy(&b);
}

/* Registration names addresses: what is mapped there now is what is used, whether or not it is what
 * was there when it was registered. (But for pages that were exchanged, see adopted.c.) */
static void other_memory_at_the_same_place(void) {
    static const VIP_UINT32 sizes[] = {8, 1000, 60000, 700000};
    Pair p;
    EndOptions options = {0};
    int i;
    check_group("other memory at the same address");
    memset(&p, 0, sizeof p);
    options.transfer_bytes_max = LAND;
    ends_pair(&p.a, nic, &p.b, other_nic, &options);
    land_make(&p.land, &p.a, UNMAPPED);
    land_make(&p.partner, &p.b, UNMAPPED);
    for (i = 0; i < 12; i++) {
        VIP_UINT32 bytes = sizes[i % 4];
        unsigned char *there = p.partner.at;
        CHECK(munmap(p.land.at, LAND) == 0);
        CHECK(mmap(p.land.at, LAND, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == (void *)p.land.at);
        pattern_fill(p.land.at, bytes, (unsigned)i);
        post_recv(&p.b, describe(&p.b, 0, 0, there, p.partner.handle, bytes, NULL, 0));
        post_send(&p.a, describe(&p.a, 0, VIP_CONTROL_OP_SENDRECV, p.land.at, p.land.handle, bytes, NULL, 0));
        expect_recv(&p.b, &p.b.descriptors[0], 0);
        expect_send(&p.a, &p.a.descriptors[0], 0);
        CHECK(pattern_ok(there, bytes, (unsigned)i));
        pattern_fill(there, bytes, (unsigned)i + 50);
        post_recv(&p.a, describe(&p.a, 1, 0, p.land.at, p.land.handle, bytes, NULL, 0));
        post_send(&p.b, describe(&p.b, 1, VIP_CONTROL_OP_SENDRECV, there, p.partner.handle, bytes, NULL, 0));
        expect_recv(&p.a, &p.a.descriptors[1], 0);
        expect_send(&p.b, &p.b.descriptors[1], 0);
        CHECK(pattern_ok(p.land.at, bytes, (unsigned)i + 50));
        pattern_fill(there, bytes, (unsigned)i + 70);
        post_send(&p.b, describe(&p.b, 1, VIP_CONTROL_OP_RDMAWRITE, there, p.partner.handle, bytes, p.land.at, p.land.handle));
        expect_send(&p.b, &p.b.descriptors[1], 0);
        memset(there, 0, bytes);
        post_send(&p.b, describe(&p.b, 1, VIP_CONTROL_OP_RDMAREAD, there, p.partner.handle, bytes, p.land.at, p.land.handle));
        expect_send(&p.b, &p.b.descriptors[1], 0);
        CHECK(pattern_ok(there, bytes, (unsigned)i + 70));
    }
    land_end(&p.land, 0);
    land_end(&p.partner, 0);
    end_destroy(&p.a);
    end_destroy(&p.b);
}

/* Where the kernel does not copy, strict memory cannot be had, and that is said at once. */
static void refused(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), /* the system call's number */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    int status = -1;
    pid_t pid;
    check_group("refused by seccomp");
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        VIP_NIC_HANDLE own;
        alarm(10);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(2);
        _exit(VipOpenNic("nic0", &own) == VIP_ERROR_RESOURCE ? 0 : 1);
    }
    waitpid(pid, &status, 0);
    CHECK_SAME(status, 0);
}

static void memory_mode_is(VIP_UINT32 mode) {
    VIPX_NIC_INFO info;
    memset(&info, 0, sizeof info);
    info.Size = sizeof info;
    CHECK_RETURN(VipxQueryNic(nic, &info), VIP_SUCCESS);
    CHECK_SAME(info.Memory, mode);
}

int main(void) {
    setenv("BELLWIRE_MEMORY", "trust", 1);
    setenv("BELLWIRE_ADOPT", "never", 1);
    nic = nic_open();
    other_nic = nic_open();
    memory_mode_is(VIPX_MEMORY_TRUST);
    other_memory_at_the_same_place();
    CHECK_RETURN(VipCloseNic(nic), VIP_SUCCESS);
    CHECK_RETURN(VipCloseNic(other_nic), VIP_SUCCESS);
    setenv("BELLWIRE_MEMORY", "strict", 1);
    nic = nic_open();
    other_nic = nic_open();
    memory_mode_is(VIPX_MEMORY_STRICT);
    other_memory_at_the_same_place();
    all_that_can_vanish();
    direct_write_from_nothing();
    one_segment_of_three();
    refused();
    CHECK_RETURN(VipErrorCallback(nic, NULL, NULL), VIP_SUCCESS);
    CHECK_RETURN(VipCloseNic(nic), VIP_SUCCESS);
    CHECK_RETURN(VipCloseNic(other_nic), VIP_SUCCESS);
    return check_end();
}
