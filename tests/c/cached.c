/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * viplx.h's registration cache: regions are found again, and never after their memory was unmapped,
 * moved or replaced, by any call and thread; peers reach nothing that was released; a fork changes
 * nothing. Each group runs with each way of finding regions, and with and without the kernel's word
 * on what is unmapped.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"

enum { PAGE = 4096, LAND = 64 * PAGE, LARGE = 2 << 20, THREADS = 4, ROUNDS = 60 };

static VIP_NIC_HANDLE nic, other_nic;
static int intervals;

static VIPX_CACHE_INFO cache(void) {
    VIPX_CACHE_INFO info;
    memset(&info, 0, sizeof info);
    info.Size = sizeof info;
    CHECK_RETURN(VipxQueryCache(nic, &info), VIP_SUCCESS);
    return info;
}

static unsigned char *map(size_t bytes) {
    unsigned char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) abort();
    return at;
}

static VIP_MEM_HANDLE registered(void *at, size_t bytes, VIP_MEM_ATTRIBUTES *attributes) {
    VIP_MEM_HANDLE handle = 0;
    CHECK_RETURN(VipxRegisterCached(nic, at, bytes, attributes, &handle), VIP_SUCCESS);
    return handle;
}

static void arguments(void) {
    VIP_MEM_HANDLE handle = 0, plain = 0;
    VIP_MEM_ATTRIBUTES rights = {0};
    VIPX_CACHE_INFO info = {0};
    unsigned char *at = map(LAND);
    check_group("arguments");
    CHECK_RETURN(VipxRegisterCached(NULL, at, 1, NULL, &handle), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxRegisterCached(nic, NULL, 1, NULL, &handle), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxRegisterCached(nic, at, 0, NULL, &handle), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxRegisterCached(nic, at, 1, NULL, NULL), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxRegisterCached(nic, at, ~0ul, NULL, &handle), VIP_INVALID_PARAMETER);
    rights.EnableRdmaWrite = VIP_TRUE;
    CHECK_RETURN(VipxRegisterCached(nic, at, 1, &rights, &handle), VIP_INVALID_PTAG);
    CHECK_RETURN(VipxQueryCache(nic, &info), VIP_INVALID_PARAMETER); /* Size 0 */
    CHECK_RETURN(VipxQueryCache(nic, NULL), VIP_INVALID_PARAMETER);
    handle = registered(at + 100, 5000, NULL);
    CHECK(handle != 0);
    CHECK_RETURN(VipDeregisterMem(nic, at, handle), VIP_INVALID_PARAMETER);
    rights.EnableRdmaWrite = VIP_FALSE;
    CHECK_RETURN(VipSetMemAttributes(nic, at + 100, handle, &rights), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxReleaseCached(nic, at + LAND, handle), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxReleaseCached(nic, at, handle + 1), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxReleaseCached(nic, at + 100, handle), VIP_SUCCESS);
    CHECK_RETURN(VipxReleaseCached(nic, at + 100, handle), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipRegisterMem(nic, at, PAGE, NULL, &plain), VIP_SUCCESS);
    CHECK_RETURN(VipxReleaseCached(nic, at, plain), VIP_INVALID_PARAMETER); /* not the cache's */
    CHECK_RETURN(VipDeregisterMem(nic, at, plain), VIP_SUCCESS);
    munmap(at, LAND);
}

/* One message of `bytes` out of memory of the program, registered for it. */
static void message(End *a, End *b, unsigned char *at, VIP_UINT32 bytes, unsigned pattern) {
    VIP_MEM_ATTRIBUTES local = {0};
    VIP_MEM_HANDLE handle;
    VIP_DESCRIPTOR *d = work_send(a, 1, 0, bytes);
    local.Ptag = a->tag;
    handle = registered(at, bytes, &local);
    d->DS[0].Local.Data.Address = at;
    d->DS[0].Local.Handle = handle;
    pattern_fill(at, bytes, pattern);
    post_recv(b, work_recv(b, 0, 0, END_DATA_BYTES));
    post_send(a, d);
    expect_recv(b, &b->descriptors[0], 0);
    expect_send(a, &a->descriptors[1], 0);
    CHECK(pattern_ok(b->data, bytes, pattern));
    CHECK_RETURN(VipxReleaseCached(nic, at, handle), VIP_SUCCESS);
}

static void messages(void) {
    End a, b;
    VIPX_CACHE_INFO before, after;
    unsigned char *at = map(LAND);
    unsigned i;
    check_group("messages out of memory that is unmapped, replaced, moved and emptied in between");
    ends_pair(&a, nic, &b, other_nic, NULL);
    before = cache();
    for (i = 0; i < 20; i++) message(&a, &b, at, LAND, i);
    after = cache();
    CHECK_SAME(after.Misses - before.Misses, 1);
    CHECK_SAME(after.Hits - before.Hits, 19);
    for (i = 0; i < ROUNDS; i++) {
        switch (i % 5) {
        case 0: /* gone, and other memory in the same place */
            munmap(at, LAND);
            if (mmap(at, LAND, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at) abort();
            break;
        case 1: /* mapped over, a part */
            if (mmap(at + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at + PAGE) abort();
            break;
        case 2: { /* moved away, and another moved there */
            unsigned char *other = map(LAND);
            if (mremap(other, LAND, LAND, MREMAP_MAYMOVE | MREMAP_FIXED, at) != at) abort();
            break;
        }
        case 3: madvise(at, LAND, MADV_DONTNEED); break;
        default: break;
        }
        message(&a, &b, at, LAND, i);
        message(&a, &b, at + PAGE, PAGE + i, i + 7);
    }
    CHECK(i == ROUNDS);
    end_destroy(&a); /* its tag goes, and what is kept under it */
    end_destroy(&b);
    munmap(at, LAND);
}

/* Memory that is not mapped is refused, although it was registered a moment ago. */
static void holes(void) {
    VIP_MEM_HANDLE handle;
    unsigned i;
    check_group("memory that is gone is refused");
    for (i = 0; i < 40; i++) {
        size_t bytes = i % 2 ? LARGE : LAND;
        unsigned char *at = map(bytes), *moved;
        unsigned times;
        for (times = 0; times < 1 + i % 4; times++) CHECK_RETURN(VipxReleaseCached(nic, at, registered(at, bytes, NULL)), VIP_SUCCESS);
        if (i % 3 == 0) {
            moved = mremap(at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, map(bytes));
            munmap(moved, bytes);
        } else if (i % 3 == 1) {
            munmap(at + bytes / 2, PAGE);
        } else {
            munmap(at, bytes);
        }
        CHECK_RETURN(VipxRegisterCached(nic, at, bytes, NULL, &handle), VIP_INVALID_PARAMETER);
        munmap(at, bytes);
    }
}

/* The report's counter-example: a region inside another one registers once, by intervals. */
static void inside(void) {
    unsigned char *at = map(LAND);
    VIPX_CACHE_INFO before = cache(), after;
    VIP_MEM_HANDLE first, second;
    check_group("a region inside another one");
    first = registered(at, LAND, NULL);
    second = registered(at + 3 * PAGE, LAND / 4, NULL);
    after = cache();
    CHECK_SAME(after.Hits - before.Hits, intervals);
    CHECK_SAME(first == second, intervals);
    CHECK_RETURN(VipxReleaseCached(nic, at, first), VIP_SUCCESS);
    CHECK_RETURN(VipxReleaseCached(nic, at + 3 * PAGE, second), VIP_SUCCESS);
    munmap(at, LAND);
}

/* Peers write while it is registered, and not a moment longer; the owner reuses the memory. */
static void rights(void) {
    End a, b;
    unsigned char *at = map(LAND);
    VIP_MEM_ATTRIBUTES remote = {0};
    VIP_MEM_HANDLE handle;
    unsigned i;
    check_group("peers reach what is registered, and nothing that was released");
    ends_pair(&b, nic, &a, other_nic, NULL);
    remote.Ptag = b.tag;
    remote.EnableRdmaWrite = VIP_TRUE;
    for (i = 0; i < 5; i++) {
        handle = registered(at + PAGE, PAGE, &remote);
        pattern_fill(a.data, PAGE, i);
        post_send(&a, work_rdma(&a, 0, VIP_CONTROL_OP_RDMAWRITE, 0, PAGE, at + PAGE, handle));
        expect_send(&a, &a.descriptors[0], 0);
        /* Delivered before the next message, which is waited for. */
        post_recv(&b, work_recv(&b, 1, 0, 8));
        post_send(&a, work_send(&a, 1, 0, 8));
        expect_send(&a, &a.descriptors[1], 0);
        expect_recv(&b, &b.descriptors[1], 0);
        CHECK(pattern_ok(at + PAGE, PAGE, i));
        CHECK_RETURN(VipxReleaseCached(nic, at + PAGE, handle), VIP_SUCCESS);
    }
    memset(at, 9, LAND);
    post_send(&a, work_rdma(&a, 2, VIP_CONTROL_OP_RDMAWRITE, 0, PAGE, at + PAGE, handle));
    {
        VIP_DESCRIPTOR *d = NULL;
        VIP_RETURN result = VipSendWait(a.vi, WAIT_MS, &d);
        CHECK(result == VIP_DESCRIPTOR_ERROR || result == VIP_SUCCESS);
        for (i = 0; i < LAND; i++)
            if (at[i] != 9) break;
        CHECK_SAME(i, LAND);
    }
    end_destroy(&a);
    end_destroy(&b);
    munmap(at, LAND);
}

/* A parent that writes after a fork has pages of its own, which are sent; the child has others. */
static void forks(void) {
    End a, b;
    unsigned char *at = map(LAND);
    VIPX_CACHE_INFO before;
    unsigned i;
    check_group("fork");
    ends_pair(&a, nic, &b, other_nic, NULL);
    for (i = 0; i < 3; i++) message(&a, &b, at, LAND, i);
    before = cache();
    for (i = 0; i < 10; i++) {
        pid_t child;
        int status = -1;
        fflush(stdout);
        child = fork();
        if (child == 0) {
            memset(at, 0, LAND);
            if (i % 2) munmap(at, LAND);
            if (i % 3 == 0) {
                /* A NIC of its own, with a watch of its own: the parent's is not there. */
                VIP_NIC_HANDLE own = NULL;
                VIP_MEM_HANDLE handle = 0;
                unsigned char *land = map(LARGE);
                if (VipOpenNic("nic0", &own) != VIP_SUCCESS) _exit(2);
                if (VipxRegisterCached(own, land, LARGE, NULL, &handle) != VIP_SUCCESS) _exit(3);
                if (VipxReleaseCached(own, land, handle) != VIP_SUCCESS) _exit(4);
                munmap(land, LARGE);
                if (VipxRegisterCached(own, land, LARGE, NULL, &handle) != VIP_INVALID_PARAMETER) _exit(5);
            }
            _exit(0);
        }
        message(&a, &b, at, LAND, 100 + i);
        waitpid(child, &status, 0);
        CHECK_SAME(status, 0);
    }
    CHECK_SAME(cache().Misses - before.Misses, 0);
    CHECK_SAME(cache().Unmapped - before.Unmapped, 0);
    end_destroy(&a);
    end_destroy(&b);
    munmap(at, LAND);
}

/*
 * Threads unmap memory that they have registered, or free it to the allocator, which unmaps it:
 * nobody waits for ever, and no stale region is found.
 */
static void *churn(void *arg) {
    unsigned seed = (unsigned)(uintptr_t)arg, i, wrong = 0;
    for (i = 0; i < ROUNDS; i++) {
        size_t bytes = (size_t)(1 + (seed * 7919 + i * 104729) % 600) * 1024;
        unsigned char *at = i % 2 ? malloc(bytes) : map(bytes);
        VIP_MEM_HANDLE handle = 0;
        unsigned times;
        for (times = 0; times < 3; times++) {
            wrong += VipxRegisterCached(nic, at, bytes, NULL, &handle) != VIP_SUCCESS;
            at[i % bytes] = 1;
            wrong += VipxReleaseCached(nic, at, handle) != VIP_SUCCESS;
        }
        if (i % 2) {
            free(at);
        } else {
            munmap(at, bytes);
        }
    }
    CHECK_SAME(wrong, 0);
    return NULL;
}

static void threads(void) {
    pthread_t thread[THREADS];
    unsigned i;
    check_group("threads that register and unmap");
    for (i = 0; i < THREADS; i++) CHECK(pthread_create(&thread[i], NULL, churn, (void *)(uintptr_t)(i + 1)) == 0);
    for (i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
}

/* More than is kept. By intervals most newcomers are not kept. */
static void evictions(void) {
    unsigned char *at = map(64 * PAGE);
    unsigned i, round;
    VIPX_CACHE_INFO info;
    check_group("more regions than are kept");
    for (round = 0; round < 3; round++)
        for (i = 0; i < 32; i++) CHECK_RETURN(VipxReleaseCached(nic, at + 2 * i * PAGE, registered(at + 2 * i * PAGE, PAGE, NULL)), VIP_SUCCESS);
    info = cache();
    CHECK_SAME(info.Regions, 8);
    CHECK_SAME(info.Unused, 8);
    if (intervals) {
        CHECK(info.Hits >= 10);
        CHECK_SAME(info.Hits + info.Misses + info.Uncached, 96);
    } else {
        CHECK(info.Evictions >= 88);
    }
    CHECK_SAME(info.Bytes, 8 * PAGE);
    munmap(at, 64 * PAGE);
}

static void open_with(const char *algorithm, const char *watch, const char *entries) {
    setenv("BELLWIRE_REGISTRATION_CACHE", algorithm, 1);
    setenv("BELLWIRE_REGISTRATION_WATCH", watch, 1);
    setenv("BELLWIRE_REGISTRATION_CACHE_ENTRIES", entries, 1);
    nic = nic_open();
    other_nic = nic_open();
    intervals = strcmp(algorithm, "intervals") == 0;
}

static void close_both(void) {
    CHECK_RETURN(VipCloseNic(nic), VIP_SUCCESS);
    CHECK_RETURN(VipCloseNic(other_nic), VIP_SUCCESS);
}

int main(void) {
    static const char *const ways[][2] = {{"intervals", "on"}, {"intervals", "off"}, {"page-hash", "on"}, {"page-hash", "off"}};
    size_t i;
    for (i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        printf("%s, watch %s\n", ways[i][0], ways[i][1]);
        open_with(ways[i][0], ways[i][1], "256");
        arguments();
        messages();
        holes();
        inside();
        rights();
        forks();
        threads();
        if (i % 2 == 0 && cache().WatchedBytes == 0 && cache().Checks > 0) printf("SKIPPED: the kernel tells this user nothing of what is unmapped; pages were looked at\n");
        close_both();
        open_with(ways[i][0], ways[i][1], "8");
        evictions();
        close_both();
    }
    setenv("BELLWIRE_REGISTRATION_CACHE", "lru", 1);
    check_group("a setting that means nothing");
    CHECK(VipOpenNic("nic0", &nic) != VIP_SUCCESS);
    return check_end();
}
