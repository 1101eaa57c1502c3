/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program that lends memory to its peers, as mapped mode is meant to be used, with a hostile peer (borrower.c) that is given it. What is lent may be scribbled
 * over; not one byte beside it may change or be told: other allocations, pages and regions, private memory. The program must not crash, hang or grow, and its
 * traffic with an honest peer must go on. In guarded mode nothing is lent and the same bytes go as frames, with the same end to every region.
 *
 *   lender [seconds]     SEED=n repeats the borrowers' choices; the seed is printed
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "honest.h"
#include "scores.h"

enum {
    SECONDS_DEFAULT = 6,
    ATTACK_FACTOR = 12,
    VIS = 6,
    LIFE_MS = 400,
    SLOTS = 8,
    RECEIVE_BYTES = 32768,
    LENT_BYTES = 512 * 1024, /* its second half holds receives */
    BLOCK = 65536,
    ODD = 40,                /* regions begin and end off the page */
    BORROWERS = 2,
    RESIDENT_KB_MAX = 100 * 1024,
    DESCRIPTORS_MAX = 400
};

/* ---- what is lent, and what lies around it */

static struct {
    unsigned char *fence[4];   /* allocations, not registered, made between the others */
    unsigned char *lent;       /* registered for reading and writing, all of it: lent */
    unsigned char *shown;      /* registered for reading, all of it: lent for reading */
    unsigned char *foreign;    /* registered for everything under another tag */
    unsigned char *half;       /* registered for everything in its first half: not lent */
    unsigned char *own;        /* private; three blocks: registered for everything in the middle one, off the page */
    unsigned char *pages;      /* private, not registered */
    VIP_MEM_HANDLE lent_h, shown_h, foreign_h, half_h, own_h;
} estate;
static unsigned char constant[BLOCK];
static VIP_PROTECTION_HANDLE evil_tag, other_tag;

static unsigned char *filled(int engine, size_t bytes, int value) {
    void *base = NULL;
    if (engine) CHECK_RETURN(VipxAllocMem(nic, bytes, &base), VIP_SUCCESS);
    else base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == NULL || base == MAP_FAILED) abort();
    return memset(base, value, bytes);
}

static VIP_MEM_HANDLE registered(unsigned char *at, size_t bytes, VIP_PROTECTION_HANDLE tag, int write) {
    VIP_MEM_ATTRIBUTES rights = {0};
    VIP_MEM_HANDLE handle = 0;
    rights.Ptag = tag;
    rights.EnableRdmaRead = VIP_TRUE;
    rights.EnableRdmaWrite = write ? VIP_TRUE : VIP_FALSE;
    CHECK_RETURN(VipRegisterMem(nic, at, bytes, &rights, &handle), VIP_SUCCESS);
    return handle;
}

static void estate_make(void) {
    CHECK_RETURN(VipCreatePtag(nic, &evil_tag), VIP_SUCCESS);
    CHECK_RETURN(VipCreatePtag(nic, &other_tag), VIP_SUCCESS);
    estate.fence[0] = filled(1, BLOCK, CANARY);
    estate.lent = filled(1, LENT_BYTES, 1);
    estate.fence[1] = filled(1, BLOCK, CANARY);
    estate.shown = filled(1, BLOCK, READ_ONLY);
    estate.fence[2] = filled(1, BLOCK, CANARY);
    estate.foreign = filled(1, BLOCK, CANARY);
    estate.half = filled(1, BLOCK, CANARY);
    estate.fence[3] = filled(1, BLOCK, CANARY);
    estate.pages = filled(0, BLOCK, CANARY);
    estate.own = filled(0, 3 * BLOCK, CANARY);
    memset(constant, CANARY, sizeof constant);
    memset(estate.half + ODD, 1, BLOCK / 2 - 2 * ODD);
    memset(estate.own + BLOCK + ODD, 1, BLOCK - 2 * ODD);
    estate.lent_h = registered(estate.lent, LENT_BYTES, evil_tag, 1);
    estate.shown_h = registered(estate.shown, BLOCK, evil_tag, 0);
    estate.foreign_h = registered(estate.foreign, BLOCK, other_tag, 1);
    estate.half_h = registered(estate.half + ODD, BLOCK / 2 - 2 * ODD, evil_tag, 1);
    estate.own_h = registered(estate.own + BLOCK + ODD, BLOCK - 2 * ODD, evil_tag, 1);
}

static int all_are(const unsigned char *from, const unsigned char *to, int value) {
    for (; from < to; from++) if (*from != value) return 0;
    return 1;
}

static void estate_check(void) {
    int i;
    for (i = 0; i < 4; i++) CHECK(all_are(estate.fence[i], estate.fence[i] + BLOCK, CANARY));
    CHECK(all_are(estate.shown, estate.shown + BLOCK, READ_ONLY));
    CHECK(all_are(estate.foreign, estate.foreign + BLOCK, CANARY));
    CHECK(all_are(estate.half, estate.half + ODD, CANARY));
    CHECK(all_are(estate.half + BLOCK / 2 - ODD, estate.half + BLOCK, CANARY));
    CHECK(all_are(estate.pages, estate.pages + BLOCK, CANARY));
    CHECK(all_are(estate.own, estate.own + BLOCK + ODD, CANARY));
    CHECK(all_are(estate.own + 2 * BLOCK - ODD, estate.own + 3 * BLOCK, CANARY));
    CHECK(all_are(constant, constant + sizeof constant, CANARY));
}

static void estate_give_back(void) {
    int i;
    CHECK_RETURN(VipDeregisterMem(nic, estate.lent, estate.lent_h), VIP_SUCCESS);
    CHECK_RETURN(VipDeregisterMem(nic, estate.shown, estate.shown_h), VIP_SUCCESS);
    CHECK_RETURN(VipDeregisterMem(nic, estate.foreign, estate.foreign_h), VIP_SUCCESS);
    CHECK_RETURN(VipDeregisterMem(nic, estate.half + ODD, estate.half_h), VIP_SUCCESS);
    CHECK_RETURN(VipDeregisterMem(nic, estate.own + BLOCK + ODD, estate.own_h), VIP_SUCCESS);
    CHECK_RETURN(VipxFreeMem(nic, estate.lent), VIP_SUCCESS);
    CHECK_RETURN(VipxFreeMem(nic, estate.shown), VIP_SUCCESS);
    CHECK_RETURN(VipxFreeMem(nic, estate.foreign), VIP_SUCCESS);
    CHECK_RETURN(VipxFreeMem(nic, estate.half), VIP_SUCCESS);
    for (i = 0; i < 4; i++) CHECK_RETURN(VipxFreeMem(nic, estate.fence[i]), VIP_SUCCESS);
    munmap(estate.pages, BLOCK), munmap(estate.own, 3 * BLOCK);
    CHECK_RETURN(VipDestroyPtag(nic, evil_tag), VIP_SUCCESS);
    CHECK_RETURN(VipDestroyPtag(nic, other_tag), VIP_SUCCESS);
}

/* ---- serving borrowers */

typedef struct {
    VIP_VI_HANDLE vi;            /* written by who accepts, taken by who serves */
    VIP_DESCRIPTOR *descriptors; /* private; sends below SLOTS, receives above */
    unsigned sent, sent_back, received, received_back;
    double since;
} Served;

static Served served[VIS];
static VIP_MEM_HANDLE descriptors_handle;
static volatile struct { long connections, sends, writes, received_bytes, failed, sent, direct, attached; } counted;

static void post_receive(Served *e) {
    VIP_DESCRIPTOR *d = &e->descriptors[SLOTS + e->received % SLOTS];
    memset(d, 0, sizeof *d);
    d->CS.SegCount = 1;
    d->CS.Length = RECEIVE_BYTES;
    d->DS[0].Local.Data.Address = estate.lent + LENT_BYTES / 2 + RECEIVE_BYTES * (e->received % SLOTS);
    d->DS[0].Local.Handle = estate.lent_h;
    d->DS[0].Local.Length = RECEIVE_BYTES;
    if (VipPostRecv(e->vi, d, descriptors_handle) == VIP_SUCCESS) e->received++;
}

static void post_request(Served *e) {
    VIP_DESCRIPTOR *d = &e->descriptors[e->sent % SLOTS];
    static const VIP_UINT32 sizes[] = {8, 100, 3000, 60000};
    VIP_UINT32 bytes = sizes[(unsigned)rand() % 4];
    int kind = rand() % 3, i = kind == 0 ? 0 : 1, from = rand() % 3;
    memset(d, 0, sizeof *d);
    d->CS.SegCount = (VIP_UINT16)(i + 1);
    d->CS.Length = bytes;
    d->CS.Control = (VIP_UINT16)(kind == 0 ? VIP_CONTROL_OP_SENDRECV : kind == 1 ? VIP_CONTROL_OP_RDMAWRITE : VIP_CONTROL_OP_RDMAREAD);
    if (i == 1) { /* where the borrower says that there is something */
        d->DS[0].Remote.Data.Address = (void *)(uintptr_t)(0x10000 + (unsigned)rand() % 65536);
        d->DS[0].Remote.Handle = (VIP_MEM_HANDLE)((unsigned)rand() % 64 | 1u << 20);
    }
    /* What an RDMA read brings goes where the hostile may write anyway. */
    d->DS[i].Local.Data.Address = kind != 2 && from == 0 ? estate.shown : from == 1 ? estate.own + BLOCK + ODD : estate.lent;
    d->DS[i].Local.Handle = kind != 2 && from == 0 ? estate.shown_h : from == 1 ? estate.own_h : estate.lent_h;
    d->DS[i].Local.Length = bytes;
    if (VipPostSend(e->vi, d, descriptors_handle) == VIP_SUCCESS) e->sent++;
}

/* Takes what is there; 1 if something failed. */
static int collect(Served *e) {
    VIP_DESCRIPTOR *d;
    int failed = 0;
    VIP_RETURN result;
    while ((result = VipRecvDone(e->vi, &d)) == VIP_SUCCESS || result == VIP_DESCRIPTOR_ERROR) {
        int written = (d->CS.Status & VIP_STATUS_OP_MASK) == VIP_STATUS_OP_REMOTE_RDMA_WRITE;
        e->received_back++;
        if (result != VIP_SUCCESS) { failed = 1, counted.failed++; continue; }
        if (written) counted.writes++;
        else counted.sends++;
        CHECK(d->CS.Length <= (written ? LENT_BYTES : RECEIVE_BYTES));
        counted.received_bytes += d->CS.Length;
    }
    while ((result = VipSendDone(e->vi, &d)) == VIP_SUCCESS || result == VIP_DESCRIPTOR_ERROR) {
        e->sent_back++;
        failed |= result != VIP_SUCCESS;
        counted.sent += result == VIP_SUCCESS;
    }
    return failed;
}

static void serve_end(Served *e) {
    VIPX_VI_INFO info;
    memset(&info, 0, sizeof info);
    info.Size = sizeof info;
    CHECK_RETURN(VipxQueryVi(e->vi, &info), VIP_SUCCESS);
    counted.direct += (long)info.DirectCount, counted.attached += (long)info.AttachCount;
    CHECK_RETURN(VipDisconnect(e->vi), VIP_SUCCESS);
    collect(e);
    CHECK_SAME(e->sent_back, e->sent);
    CHECK_SAME(e->received_back, e->received);
    CHECK_RETURN(VipDestroyVi(e->vi), VIP_SUCCESS);
    __atomic_store_n(&e->vi, NULL, __ATOMIC_RELEASE);
}

static void serve_turn(Served *e) {
    int i;
    if (collect(e) || now_ms() - e->since > LIFE_MS) {
        serve_end(e);
        return;
    }
    for (i = 0; i < SLOTS && e->received - e->received_back < SLOTS - 1; i++) post_receive(e);
    if (e->sent - e->sent_back < 2 && rand() % 50 == 0) post_request(e);
}

static void *serve_borrowers(void *unused) {
    int i;
    (void)unused;
    while (!stop) {
        int some = 0;
        for (i = 0; i < VIS; i++) if (__atomic_load_n(&served[i].vi, __ATOMIC_ACQUIRE) != NULL) serve_turn(&served[i]), some = 1;
        if (!some) sleep_ms(1);
    }
    for (i = 0; i < VIS; i++) if (__atomic_load_n(&served[i].vi, __ATOMIC_ACQUIRE) != NULL) serve_end(&served[i]);
    return NULL;
}

/* Makes a VI for who knocks; it is served once it is complete. */
static void accept_one(Served *slot) {
    Served e = *slot;
    Address at, from;
    VIP_CONN_HANDLE connection;
    VIP_VI_ATTRIBUTES attributes;
    VIPX_VI_ATTRIBUTES extension;
    int i;
    memset(&extension, 0, sizeof extension);
    extension.Size = sizeof extension;
    extension.Flags = rand() % 2 ? VIPX_VI_RNR_WAIT : 0;
    address_of(&at, "evil");
    address_room(&from);
    if (VipConnectWait(nic, &at.net, 50, &from.net, &attributes, &connection) != VIP_SUCCESS) return;
    attributes.Ptag = evil_tag;
    attributes.EnableRdmaWrite = VIP_TRUE;
    attributes.EnableRdmaRead = attributes.ReliabilityLevel != VIP_SERVICE_UNRELIABLE;
    if (VipxCreateVi(nic, &attributes, &extension, NULL, NULL, &e.vi) != VIP_SUCCESS) {
        VipConnectReject(connection);
        return;
    }
    e.sent = e.sent_back = e.received = e.received_back = 0;
    e.since = now_ms();
    for (i = 0; i < SLOTS - 1; i++) post_receive(&e);
    if (VipConnectAccept(connection, e.vi) != VIP_SUCCESS) {
        serve_end(&e);
        return;
    }
    counted.connections++;
    slot->sent = e.sent, slot->sent_back = 0, slot->received = e.received, slot->received_back = 0, slot->since = e.since;
    __atomic_store_n(&slot->vi, e.vi, __ATOMIC_RELEASE);
}

static void *accept_borrowers(void *unused) {
    int i;
    (void)unused;
    while (!stop) {
        for (i = 0; i < VIS && __atomic_load_n(&served[i].vi, __ATOMIC_ACQUIRE) != NULL; i++) continue;
        if (i < VIS) accept_one(&served[i]);
        else sleep_ms(1);
    }
    return NULL;
}

static void *descriptors_make(void) {
    size_t bytes = VIS * 2 * SLOTS * sizeof(VIP_DESCRIPTOR);
    VIP_MEM_ATTRIBUTES none = {0};
    VIP_DESCRIPTOR *all = aligned_alloc(64, bytes);
    int i;
    if (all == NULL) abort();
    none.Ptag = evil_tag;
    CHECK_RETURN(VipRegisterMem(nic, all, bytes, &none, &descriptors_handle), VIP_SUCCESS);
    for (i = 0; i < VIS; i++) served[i].descriptors = all + i * 2 * SLOTS;
    return all;
}

/* ---- the whole */

static Scores *scores;
static int scores_fd, guarded;

static pid_t start_borrower(const char *program, unsigned long long seed) {
    char address[16], discriminator[64], seconds[16], seed_text[32], fd[16];
    VIP_NIC_ATTRIBUTES a;
    uint32_t host;
    char *words[] = {(char *)(uintptr_t)program, address, discriminator, seconds, seed_text, (char *)(uintptr_t)(guarded ? "guarded" : "mapped"), fd, NULL};
    VipQueryNic(nic, &a);
    memcpy(&host, a.LocalNicAddress, 4);
    snprintf(address, sizeof address, "%08x", host);
    name_of(discriminator, "evil");
    snprintf(seconds, sizeof seconds, "%.2f", 0.6 + (double)(seed % 13) / 8);
    snprintf(seed_text, sizeof seed_text, "%llu", seed);
    snprintf(fd, sizeof fd, "%d", scores_fd);
    return start(words);
}

/* Whether there was an attack: the victim must have taken much, else nothing was tried. */
static int is_attack(double seconds) {
    long least = (long)(seconds * 16);
    int much = counted.sends > least * 2 && counted.writes > least / 4 && counted.sent > least / 2 && scores->sends_acknowledged > least &&
               scores->reads_answered > least && scores->read_back > least / 4 && scores->corrupted > least / 2 && scores->disconnects > least / 20 &&
               scores->refused > least / 4;
    if (guarded) return much;
    return much && scores->mapped_for_writing >= 2 && scores->mapped_for_reading >= 2 && scores->bytes_scribbled > 1000000 && scores->placed > least / 4 &&
           counted.direct > 0;
}

/* Lasts longer than asked for, up to ATTACK_FACTOR times, on a busy machine. */
static void attack(const char *program, unsigned long long seed, double seconds) {
    double ends_at = now_ms() + seconds * 1000, ends_at_last = now_ms() + seconds * 1000 * ATTACK_FACTOR;
    pid_t evil[BORROWERS] = {0};
    int status, i, started = 0, most = 0;
    long resident = 0;
    while (now_ms() < ends_at || (!is_attack(seconds) && now_ms() < ends_at_last)) {
        check_group("while memory is lent");
        for (i = 0; i < BORROWERS; i++) {
            if (evil[i] != 0 && rand() % 200 == 0) kill(evil[i], SIGKILL);
            if (evil[i] != 0 && waitpid(evil[i], &status, WNOHANG) == 0) continue;
            if (evil[i] != 0) CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
            evil[i] = start_borrower(program, seed + (unsigned long long)started++);
        }
        sleep_ms(20);
        estate_check();
        if (resident_kb() > resident) resident = resident_kb();
        if (descriptors_open() > most) most = descriptors_open();
    }
    for (i = 0; i < BORROWERS; i++) kill(evil[i], SIGKILL), waitpid(evil[i], &status, 0);
    printf("%d borrowers; at most %ld KiB resident, %d descriptors\n", started, resident, most);
    CHECK(resident < RESIDENT_KB_MAX);
    CHECK(most < DESCRIPTORS_MAX);
}

/* Prints the scores. It must have been an attack, and nothing may have leaked. */
static void weigh(double seconds) {
    static const char *const names[] = {SCORE_NAMES};
    const long *each = (const long *)scores;
    int i;
    check_group("how much of it arrived");
    for (i = 0; i < SCORES; i++) printf("%s%s %ld", i == 0 ? "borrowers: " : ", ", names[i], each[i]);
    printf("\nlender: %ld connections, %ld sends and %ld writes of theirs taken (%ld bytes), %ld failed; %ld requests of ours done, %ld directly, %ld by attach\n",
           counted.connections, counted.sends, counted.writes, counted.received_bytes, counted.failed, counted.sent, counted.direct, counted.attached);
    CHECK(is_attack(seconds));
    CHECK_SAME(scores->leaks, 0);
    CHECK_SAME(scores->given_in_guarded_mode, 0);
    if (guarded) CHECK(scores->mapped_for_writing == 0 && scores->mapped_for_reading == 0);
}

int main(int argc, char **argv) {
    const char *given = getenv("SEED");
    unsigned long long seed = given != NULL ? strtoull(given, NULL, 0) : (unsigned long long)getpid() * 7919u;
    double seconds = argc > 1 ? atof(argv[1]) : SECONDS_DEFAULT;
    pthread_t threads[3];
    pid_t friend_of_ours;
    VIPX_NIC_INFO info;
    int before, i, status;
    char program[4096], name[16];
    void *descriptors;
    ssize_t n;
    if (argc == 3) return honest(argv[1], atof(argv[2]));
    printf("seed %llu (SEED=%llu repeats the borrowers)\n", seed, seed);
    srand((unsigned)seed);
    snprintf(name, sizeof name, "%d", (int)getpid());
    setenv("VICTIM", name, 1);
    n = readlink("/proc/self/exe", program, sizeof program - 16);
    if (n <= 0) return 1;
    program[n] = '\0';
    strcpy(strrchr(program, '/') + 1, "borrower");
    scores_fd = memfd_create("scores", 0);
    if (ftruncate(scores_fd, sizeof *scores) != 0) return 1;
    scores = mmap(NULL, sizeof *scores, PROT_READ | PROT_WRITE, MAP_SHARED, scores_fd, 0);
    if (scores == MAP_FAILED) return 1;
    check_group("before memory is lent");
    nic = nic_open();
    memset(&info, 0, sizeof info);
    info.Size = sizeof info;
    CHECK_RETURN(VipxQueryNic(nic, &info), VIP_SUCCESS);
    guarded = info.Mode == VIPX_MODE_GUARDED;
    estate_make();
    descriptors = descriptors_make();
    before = descriptors_open();
    pthread_create(&threads[0], NULL, serve_borrowers, NULL);
    pthread_create(&threads[1], NULL, accept_borrowers, NULL);
    pthread_create(&threads[2], NULL, serve_honest, (void *)(uintptr_t) "friend");
    friend_of_ours = start_honest("friend", seconds);
    attack(program, seed, seconds);
    check_group("after memory was lent");
    waitpid(friend_of_ours, &status, 0);
    CHECK_SAME(status, 0);
    stop = 1;
    for (i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    estate_check();
    for (i = 0; i < 300 && descriptors_open() > before; i++) sleep_ms(10);
    CHECK(descriptors_open() <= before + 3); /* bells of waiters are kept */
    weigh(seconds);
    CHECK_RETURN(VipDeregisterMem(nic, descriptors, descriptors_handle), VIP_SUCCESS);
    free(descriptors);
    estate_give_back();
    CHECK_RETURN(VipCloseNic(nic), VIP_SUCCESS);
    return check_end();
}
