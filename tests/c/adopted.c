/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Memory of the program whose pages are exchanged for shared ones when it is registered, so that a
 * peer's request is one copy: between two processes, with a region of whole pages and one that
 * begins and ends within pages, with threads that store meanwhile, across a fork, and when it is
 * registered anew. Whatever becomes of the pages, every byte arrives, and the program's bytes stay
 * what they were.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"

enum { ROUNDS = 60, PAGE = 4096, BYTES = 80 * PAGE, MESSAGE = 64 << 10, HALF = 32 * PAGE };

enum { WHOLE_PAGES, WITHIN_PAGES, NEVER, THREADS, ORDINARY_THREADS, CASES };
static const char *const case_names[CASES] = {"whole pages", "a region that begins and ends within pages", "never adopted", "threads that store meanwhile",
                                              "threads of an ordinary user"};

/* The number of the file that is mapped at an address; 0: private memory. */
static unsigned long inode_at(const void *address) {
    char line[512];
    unsigned long from, to, inode, found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%lx-%lx %*s %*s %*s %lu", &from, &to, &inode) == 3 && (unsigned long)address >= from && (unsigned long)address < to) found = inode;
    }
    if (maps != NULL) fclose(maps);
    return found;
}

/* The server's memory: room for a message that is received, and behind it for one written. */
typedef struct {
    unsigned char *data;
    size_t skip; /* from its first page to the region's first byte */
    VIP_MEM_HANDLE handle;
} Room;

/* Private memory with a pattern in it. A region is to leave `skip` bytes out at both ends. */
static void room_map(Room *room, size_t skip) {
    room->skip = skip;
    room->data = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(room->data != MAP_FAILED);
    pattern_fill(room->data, BYTES, 77);
}

static void room_register(Room *room, End *end) {
    VIP_MEM_ATTRIBUTES rights = {0};
    rights.Ptag = end->tag;
    rights.EnableRdmaWrite = VIP_TRUE;
    rights.EnableRdmaRead = VIP_TRUE;
    CHECK_RETURN(VipRegisterMem(end->nic, room->data + room->skip, BYTES - 2 * room->skip, &rights, &room->handle), VIP_SUCCESS);
}

static void room_deregister(Room *room, End *end) {
    CHECK_RETURN(VipDeregisterMem(end->nic, room->data + room->skip, room->handle), VIP_SUCCESS);
}

/* Threads that count in words of the room which no message touches. */
typedef struct {
    volatile unsigned long *word;
    unsigned long count;
    volatile int *over;
} Counter;

static void *count(void *argument) {
    Counter *c = argument;
    while (!__atomic_load_n(c->over, __ATOMIC_RELAXED)) {
        if (__atomic_add_fetch(c->word, 1, __ATOMIC_RELAXED) != ++c->count) abort();
    }
    return NULL;
}

typedef struct {
    unsigned char *data;
    VIP_MEM_HANDLE handle;
} Place;

static void tell(End *end, const Room *room) {
    Place here;
    VIP_DESCRIPTOR *d;
    here.data = room->data;
    here.handle = room->handle;
    memcpy(end->data, &here, sizeof here);
    d = work_send(end, 1, 0, sizeof here);
    post_send(end, d);
    expect_send(end, d, 0);
}

static VIP_DESCRIPTOR *room_recv(End *end, Room *room) {
    VIP_DESCRIPTOR *d = work_recv(end, 0, 0, MESSAGE);
    d->DS[0].Local.Data.Address = room->data + PAGE;
    d->DS[0].Local.Handle = room->handle;
    post_recv(end, d);
    return d;
}

/* A write, and a read of the same, at the very ends of the room as well. */
static int write_and_read(End *end, const Place *there, size_t at, VIP_UINT32 bytes, unsigned seed) {
    VIP_DESCRIPTOR *d;
    pattern_fill(end->data, bytes, seed);
    d = work_rdma(end, 2, VIP_CONTROL_OP_RDMAWRITE, 0, bytes, there->data + at, there->handle);
    post_send(end, d);
    expect_send(end, d, 0);
    memset(end->data, 0, bytes);
    d = work_rdma(end, 3, VIP_CONTROL_OP_RDMAREAD, 0, bytes, there->data + at, there->handle);
    post_send(end, d);
    expect_send(end, d, 0);
    return pattern_ok(end->data, bytes, seed);
}

static int has_threads(int which) {
    return which == THREADS || which == ORDINARY_THREADS;
}

/* What a process of the case does before it opens a NIC: root may have the kernel stop threads that
 * touch the pages, others stop all of them. */
static void prepare(int which) {
    enum { NOBODY = 65534 };
    if (which == ORDINARY_THREADS && geteuid() == 0) {
        CHECK(setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
        /* Changing the user has made the process undumpable. */
        CHECK(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
    }
}

static VIPX_VI_INFO info_of(End *end) {
    VIPX_VI_INFO info;
    memset(&info, 0, sizeof info);
    info.Size = sizeof info;
    CHECK_RETURN(VipxQueryVi(end->vi, &info), VIP_SUCCESS);
    return info;
}

/* Writes go as frames until the other side's pages are mapped here, which the first one asks for.
 * Returns how many there were. */
static int write_until_one_copy(int which, End *end, const Place *there) {
    double deadline = now_ms() + WAIT_MS;
    int writes = 0;
    VIP_UINT64 before = info_of(end).DirectCount;
    if (which != WHOLE_PAGES && which != WITHIN_PAGES) return 0;
    do {
        VIP_DESCRIPTOR *d = work_rdma(end, 2, VIP_CONTROL_OP_RDMAWRITE, 0, 8, there->data + HALF, there->handle);
        post_send(end, d);
        expect_send(end, d, 0);
        writes++;
        sleep_ms(1);
    } while (info_of(end).DirectCount == before && now_ms() < deadline);
    return writes;
}

static void client(int which, const Address *at) {
    End end;
    VIPX_VI_INFO info;
    VIP_DESCRIPTOR *d;
    Place there;
    size_t skip = which == WITHIN_PAGES ? 100 : 0;
    int i, bad = 0, others = 0;
    prepare(which);
    end_create(&end, nic_open(), NULL);
    post_recv(&end, work_recv(&end, 0, 0, sizeof there));
    CHECK_RETURN(end_request_soon(&end, at), VIP_SUCCESS);
    for (i = 0; i < ROUNDS; i++) {
        /* The other is ready, and says where its memory is. */
        if (!CHECK_RETURN(VipRecvWait(end.vi, WAIT_MS, &d), VIP_SUCCESS)) break;
        memcpy(&there, end.data, sizeof there);
        post_recv(&end, work_recv(&end, 0, 0, sizeof there));
        /* The memory is registered anew half-way. */
        if (i == 0 || i == ROUNDS / 2 + 1) others += write_until_one_copy(which, &end, &there);
        bad += !write_and_read(&end, &there, HALF, MESSAGE, (unsigned)i);
        bad += !write_and_read(&end, &there, skip, 64, (unsigned)i);
        bad += !write_and_read(&end, &there, BYTES - skip - 64, 64, (unsigned)i);
        pattern_fill(end.data + sizeof there, MESSAGE, (unsigned)i);
        d = work_send(&end, 1, sizeof there, MESSAGE);
        post_send(&end, d);
        expect_send(&end, d, 0);
    }
    CHECK_SAME(bad, 0);
    info = info_of(&end);
    printf("%s: %d requests, %d of them one copy\n", case_names[which], (int)info.MessagesSent, (int)info.DirectCount);
    CHECK_SAME(info.MessagesSent, 7 * ROUNDS + others);
    /* Of a region that ends within pages, only what lies in whole ones is one copy. The first sends
     * find no place told of. */
    switch (which) {
    case NEVER: CHECK_SAME(info.DirectCount, 0); break;
    case WHOLE_PAGES: CHECK(info.DirectCount >= 6 * ROUNDS); break;
    case WITHIN_PAGES: CHECK(info.DirectCount >= 2 * ROUNDS && info.DirectCount <= 3 * ROUNDS + 2); break;
    default: break; /* whether pages are exchanged is up to the kernel's permissions */
    }
    end_destroy(&end);
    exit(check_end());
}

/* A child's stores are its own; ours, and the client's, are ours. */
static void fork_and_store(Room *room) {
    int status;
    pid_t child;
    unsigned char before = room->data[HALF];
    fflush(stdout);
    child = fork();
    if (child == 0) {
        int saw = room->data[HALF] == before;
        memset(room->data + PAGE, 0xee, BYTES - 2 * PAGE);
        _exit(saw && inode_at(room->data + PAGE) == 0 ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(room->data[HALF] == before);
}

static void server(int which, const Address *at) {
    End end;
    VIP_DESCRIPTOR *d, *posted;
    Room room;
    Counter counters[2];
    pthread_t threads[2];
    volatile int over = 0;
    int i, bad = 0;
    prepare(which);
    if (which == NEVER) setenv("BELLWIRE_ADOPT", "never", 1);
    end_create(&end, nic_open(), NULL);
    room_map(&room, which == WITHIN_PAGES ? 100 : 0);
    memset(room.data + BYTES - 2 * PAGE, 0, 2 * sizeof(long));
    for (i = 0; has_threads(which) && i < 2; i++) {
        counters[i].word = (volatile unsigned long *)(void *)(room.data + BYTES - 2 * PAGE) + i;
        counters[i].count = 0;
        counters[i].over = &over;
        CHECK(pthread_create(&threads[i], NULL, count, &counters[i]) == 0);
    }
    room_register(&room, &end);
    CHECK(pattern_ok(room.data, BYTES - 2 * PAGE, 77));
    if (which == NEVER) CHECK(inode_at(room.data + PAGE) == 0);
    if (which == WHOLE_PAGES || which == WITHIN_PAGES) {
        CHECK(inode_at(room.data + PAGE) != 0);
        CHECK((inode_at(room.data) == 0) == (which == WITHIN_PAGES));
    }
    posted = room_recv(&end, &room);
    CHECK_RETURN(end_accept(&end, at, WAIT_MS), VIP_SUCCESS);
    for (i = 0; i < ROUNDS; i++) {
        tell(&end, &room);
        if (!CHECK_RETURN(VipRecvWait(end.vi, WAIT_MS, &d), VIP_SUCCESS)) break;
        CHECK(d == posted);
        bad += d->CS.Length != MESSAGE || !pattern_ok(room.data + PAGE, MESSAGE, (unsigned)i) || !pattern_ok(room.data + HALF, MESSAGE, (unsigned)i);
        bad += !pattern_ok(room.data + room.skip, 64, (unsigned)i) || !pattern_ok(room.data + BYTES - room.skip - 64, 64, (unsigned)i);
        if (i == ROUNDS / 4) fork_and_store(&room);
        if (i == ROUNDS / 2) {
            room_deregister(&room, &end);
            bad += !pattern_ok(room.data + HALF, MESSAGE, (unsigned)i);
            room_register(&room, &end);
            bad += !pattern_ok(room.data + HALF, MESSAGE, (unsigned)i);
        }
        posted = room_recv(&end, &room);
    }
    CHECK_SAME(bad, 0);
    /* The client's last requests need us until it has gone. */
    expect_state(&end, VIP_STATE_ERROR);
    over = 1;
    for (i = 0; has_threads(which) && i < 2; i++) {
        pthread_join(threads[i], NULL);
        CHECK(*counters[i].word == counters[i].count && counters[i].count > 0);
    }
    CHECK_RETURN(VipRecvWait(end.vi, WAIT_MS, &d), VIP_DESCRIPTOR_ERROR);
    room_deregister(&room, &end);
    end_destroy(&end);
    exit(check_end());
}

/* A program that registers for each request does not pay for an exchange each time. */
static void many(void) {
    End end;
    Room room;
    int i, exchanged = 0;
    unsigned long before, now;
    check_group("registered again and again");
    end_create(&end, nic_open(), NULL);
    room_map(&room, 0);
    before = inode_at(room.data);
    for (i = 0; i < 600; i++) {
        room_register(&room, &end);
        room_deregister(&room, &end);
        now = inode_at(room.data);
        exchanged += now != before;
        before = now;
    }
    printf("exchanged in %d of 600 registrations\n", exchanged);
    CHECK(exchanged > 1 && exchanged <= 256);
    CHECK(pattern_ok(room.data, BYTES, 77));
    munmap(room.data, BYTES);
    end_close(&end);
}

/* Memory of one NIC stays that NIC's when another registers it. */
static void of_another_nic(void) {
    End one, other;
    Room room;
    void *memory = NULL;
    unsigned long number;
    check_group("memory of another NIC");
    end_create(&one, nic_open(), NULL);
    end_create(&other, nic_open(), NULL);
    CHECK_RETURN(VipxAllocMem(one.nic, BYTES, &memory), VIP_SUCCESS);
    number = inode_at(memory);
    room.skip = 0;
    room.data = memory;
    room_register(&room, &other);
    CHECK(number != 0 && inode_at(memory) == number);
    room_deregister(&room, &other);
    CHECK_RETURN(VipxFreeMem(one.nic, memory), VIP_SUCCESS);
    end_close(&one);
    end_close(&other);
}

/* Memory must stay mapped. If it does not, peers go on with the pages that were exchanged, as an
 * adapter does with pinned ones; what the program has mapped in their place is nobody's but its own. */
static void unmapped_meanwhile(void) {
    End a, b;
    Room room;
    Place there;
    double deadline = now_ms() + WAIT_MS;
    VIP_UINT64 before;
    int i, bad = 0;
    check_group("unmapped while it is registered");
    ends_pair(&a, nic_open(), &b, nic_open(), NULL);
    room_map(&room, 0);
    room_register(&room, &a);
    there.data = room.data;
    there.handle = room.handle;
    if (inode_at(room.data) == 0) {
        printf("SKIPPED: two NICs are two threads that might copy, and this user may not stop threads\n");
    } else {
        before = info_of(&b).DirectCount;
        while (info_of(&b).DirectCount == before && now_ms() < deadline) {
            CHECK(write_and_read(&b, &there, 0, 64, 3));
            sleep_ms(1);
        }
        CHECK(mmap(room.data, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == (void *)room.data);
        CHECK(write_and_read(&b, &there, HALF, MESSAGE, 4));
        for (i = 0; i < BYTES; i++) bad += room.data[i] != 0;
        CHECK_SAME(bad, 0);
    }
    room_deregister(&room, &a);
    munmap(room.data, BYTES);
    end_close(&a);
    end_close(&b);
}

int main(void) {
    int which;
    const char *mode = getenv("BELLWIRE_MODE");
    if (mode != NULL && strcmp(mode, "guarded") == 0) {
        printf("adoption is for mapped mode\n");
        return 0;
    }
    for (which = 0; which < CASES; which++) {
        check_group(case_names[which]);
        ends_in_processes(which, server, client);
    }
    of_another_nic();
    unmapped_meanwhile();
    many();
    return check_end();
}
