/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An ordinary program of the library with a hostile peer (attacker.c) and an honest one. It serves both. It must not crash, hang or grow; not a byte outside what
 * it granted may change; and its traffic with the honest peer, and with newcomers, must go on.
 *
 *   victim [seconds]     SEED=n repeats the attackers' choices; the seed is printed
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "honest.h"

enum {
    SECONDS_DEFAULT = 10,
    EVIL_VIS = 12,
    EVIL_LIFE_MS = 300,
    SLOTS = 8,
    AREA = 1 << 16, /* canary, region, canary, .. of this many bytes */
    AREAS = 7,
    ODD = 24,       /* regions begin and end off the page */
    ATTACKERS = 2,
    RESIDENT_KB_MAX = 200 * 1024,
    CANARY = 0xc5
};

static double ends_at;

/* ---- what is granted, and what lies around it */

typedef struct {
    unsigned char *base;      /* AREAS areas: canary, granted, canary, not granted, canary, receives, canary */
    VIP_MEM_HANDLE granted, refused, receives;
    int engine;
} Ground;

static VIP_PROTECTION_HANDLE evil_tag;
static Ground grounds[2];

static unsigned char *area(const Ground *g, int i) { return g->base + (size_t)i * AREA; }

static void ground_make(Ground *g, int engine) {
    VIP_MEM_ATTRIBUTES rights = {0};
    void *base = NULL;
    g->engine = engine;
    if (engine) CHECK_RETURN(VipxAllocMem(nic, AREAS * AREA, &base), VIP_SUCCESS);
    else base = aligned_alloc(4096, AREAS * AREA);
    if (base == NULL) abort();
    g->base = base;
    memset(g->base, CANARY, AREAS * AREA);
    rights.Ptag = evil_tag;
    rights.EnableRdmaRead = VIP_TRUE;
    rights.EnableRdmaWrite = VIP_TRUE;
    CHECK_RETURN(VipRegisterMem(nic, area(g, 1) + ODD, AREA - 2 * ODD, &rights, &g->granted), VIP_SUCCESS);
    rights.EnableRdmaWrite = VIP_FALSE;
    CHECK_RETURN(VipRegisterMem(nic, area(g, 3) + ODD, AREA - 2 * ODD, &rights, &g->refused), VIP_SUCCESS);
    rights.EnableRdmaRead = VIP_FALSE;
    CHECK_RETURN(VipRegisterMem(nic, area(g, 5) + ODD, AREA - 2 * ODD, &rights, &g->receives), VIP_SUCCESS);
}

static int untouched(const unsigned char *from, const unsigned char *to) {
    for (; from < to; from++) if (*from != CANARY) return 0;
    return 1;
}

static void ground_check(const Ground *g) {
    CHECK(untouched(area(g, 0), area(g, 1) + ODD));
    CHECK(untouched(area(g, 2) - ODD, area(g, 5) + ODD)); /* with all of the region that may not be written */
    CHECK(untouched(area(g, 6) - ODD, area(g, 7)));
}

static void ground_give_back(Ground *g) {
    CHECK_RETURN(VipDeregisterMem(nic, area(g, 1) + ODD, g->granted), VIP_SUCCESS);
    CHECK_RETURN(VipDeregisterMem(nic, area(g, 3) + ODD, g->refused), VIP_SUCCESS);
    CHECK_RETURN(VipDeregisterMem(nic, area(g, 5) + ODD, g->receives), VIP_SUCCESS);
    if (g->engine) CHECK_RETURN(VipxFreeMem(nic, g->base), VIP_SUCCESS);
    else free(g->base);
}

/* ---- serving the hostile: receives, sends, RDMA to where it says that something is */

typedef struct {
    VIP_VI_HANDLE vi;
    const Ground *ground;
    VIP_DESCRIPTOR *descriptors; /* sends below SLOTS, receives above */
    unsigned sent, sent_back, received, received_back;
    double since;
} Evil;

static VIP_MEM_HANDLE descriptors_handle;
static volatile long evil_connections, evil_messages;

static void evil_receive(Evil *e) {
    VIP_DESCRIPTOR *d = &e->descriptors[SLOTS + e->received % SLOTS];
    /* Receives of 4 KiB, with as much between them, in the middle of the registered region. */
    memset(d, 0, sizeof *d);
    d->CS.SegCount = 1;
    d->CS.Length = 4096;
    d->DS[0].Local.Data.Address = area(e->ground, 5) + ODD + 8192 * (e->received % 7);
    d->DS[0].Local.Handle = e->ground->receives;
    d->DS[0].Local.Length = 4096;
    if (VipPostRecv(e->vi, d, descriptors_handle) == VIP_SUCCESS) e->received++;
}

static void evil_send(Evil *e) {
    VIP_DESCRIPTOR *d = &e->descriptors[e->sent % SLOTS];
    static const VIP_UINT32 sizes[] = {8, 100, 3000, 60000};
    VIP_UINT32 bytes = sizes[(unsigned)rand() % 4];
    int kind = rand() % 3, i = kind == 0 ? 0 : 1;
    memset(d, 0, sizeof *d);
    d->CS.SegCount = (VIP_UINT16)(i + 1);
    d->CS.Length = bytes;
    d->CS.Control = (VIP_UINT16)(kind == 0 ? VIP_CONTROL_OP_SENDRECV : kind == 1 ? VIP_CONTROL_OP_RDMAWRITE : VIP_CONTROL_OP_RDMAREAD);
    if (i == 1) {
        d->DS[0].Remote.Data.Address = (void *)(uintptr_t)0x10000;
        d->DS[0].Remote.Handle = (VIP_MEM_HANDLE)((unsigned)rand() % 64 | (1u + (unsigned)rand() % 4) << 20);
    }
    /* What an RDMA read brings goes where the hostile may write anyway. */
    d->DS[i].Local.Data.Address = area(e->ground, 1) + ODD;
    d->DS[i].Local.Handle = e->ground->granted;
    d->DS[i].Local.Length = bytes;
    if (VipPostSend(e->vi, d, descriptors_handle) == VIP_SUCCESS) e->sent++;
}

/* Takes what is there; 1 if something failed. */
static int evil_collect(Evil *e) {
    VIP_DESCRIPTOR *d;
    int failed = 0;
    VIP_RETURN result;
    while ((result = VipRecvDone(e->vi, &d)) == VIP_SUCCESS || result == VIP_DESCRIPTOR_ERROR) {
        e->received_back++;
        failed |= result != VIP_SUCCESS;
        if (result == VIP_SUCCESS) {
            evil_messages++;
            /* With an RDMA write the length is that of what was written, anywhere in the granted region. */
            CHECK(d->CS.Length <= ((d->CS.Status & VIP_STATUS_OP_MASK) == VIP_STATUS_OP_REMOTE_RDMA_WRITE ? AREA - 2 * ODD : 4096));
        }
    }
    while ((result = VipSendDone(e->vi, &d)) == VIP_SUCCESS || result == VIP_DESCRIPTOR_ERROR) {
        e->sent_back++;
        failed |= result != VIP_SUCCESS;
    }
    return failed;
}

static void evil_end(Evil *e) {
    CHECK_RETURN(VipDisconnect(e->vi), VIP_SUCCESS);
    evil_collect(e);
    CHECK_SAME(e->sent_back, e->sent);
    CHECK_SAME(e->received_back, e->received);
    CHECK_RETURN(VipDestroyVi(e->vi), VIP_SUCCESS);
    e->vi = NULL;
}

static void evil_turn(Evil *e) {
    int i;
    if (evil_collect(e) || now_ms() - e->since > EVIL_LIFE_MS) {
        evil_end(e);
        return;
    }
    for (i = 0; i < 4 && e->received - e->received_back < 5; i++) evil_receive(e);
    if (e->sent - e->sent_back < SLOTS - 2) evil_send(e);
}

static void evil_accept(Evil *e) {
    Address at, from;
    VIP_CONN_HANDLE connection;
    VIP_VI_ATTRIBUTES attributes;
    VIPX_VI_ATTRIBUTES extension;
    VIP_DESCRIPTOR *descriptors = e->descriptors;
    int i;
    memset(&extension, 0, sizeof extension);
    extension.Size = sizeof extension;
    extension.Flags = rand() % 2 ? VIPX_VI_RNR_WAIT : 0;
    address_of(&at, "evil");
    address_room(&from);
    if (VipConnectWait(nic, &at.net, 2, &from.net, &attributes, &connection) != VIP_SUCCESS) return;
    memset(e, 0, sizeof *e);
    e->descriptors = descriptors;
    e->ground = &grounds[rand() % 2];
    e->since = now_ms();
    attributes.Ptag = evil_tag;
    attributes.EnableRdmaWrite = VIP_TRUE;
    attributes.EnableRdmaRead = attributes.ReliabilityLevel != VIP_SERVICE_UNRELIABLE;
    if (VipxCreateVi(nic, &attributes, &extension, NULL, NULL, &e->vi) != VIP_SUCCESS) {
        e->vi = NULL;
        VipConnectReject(connection);
        return;
    }
    for (i = 0; i < 5; i++) evil_receive(e);
    if (VipConnectAccept(connection, e->vi) == VIP_SUCCESS) evil_connections++;
    else evil_end(e);
}

static void *serve_evil(void *unused) {
    static Evil evil[EVIL_VIS];
    VIP_MEM_ATTRIBUTES rights = {0};
    size_t bytes = EVIL_VIS * 2 * SLOTS * sizeof(VIP_DESCRIPTOR);
    VIP_DESCRIPTOR *descriptors = aligned_alloc(64, bytes);
    int i;
    (void)unused;
    if (descriptors == NULL) abort();
    rights.Ptag = evil_tag;
    CHECK_RETURN(VipRegisterMem(nic, descriptors, bytes, &rights, &descriptors_handle), VIP_SUCCESS);
    for (i = 0; i < EVIL_VIS; i++) evil[i].descriptors = descriptors + i * 2 * SLOTS;
    while (!stop) {
        for (i = 0; i < EVIL_VIS && !stop; i++) {
            if (evil[i].vi != NULL) evil_turn(&evil[i]);
            else evil_accept(&evil[i]);
        }
    }
    for (i = 0; i < EVIL_VIS; i++) if (evil[i].vi != NULL) evil_end(&evil[i]);
    CHECK_RETURN(VipDeregisterMem(nic, descriptors, descriptors_handle), VIP_SUCCESS);
    free(descriptors);
    return NULL;
}

/* ---- the whole */

static pid_t start_attacker(const char *program, unsigned long long seed) {
    char address[16], discriminator[64], seconds[16], seed_text[32];
    VIP_NIC_ATTRIBUTES a;
    VIPX_NIC_INFO info;
    uint32_t host;
    char *words[] = {(char *)(uintptr_t)program, address, discriminator, seconds, seed_text, NULL, NULL};
    VipQueryNic(nic, &a);
    memcpy(&host, a.LocalNicAddress, 4);
    memset(&info, 0, sizeof info);
    info.Size = sizeof info;
    VipxQueryNic(nic, &info);
    words[5] = (char *)(uintptr_t)(info.Mode == VIPX_MODE_GUARDED ? "guarded" : "mapped");
    snprintf(address, sizeof address, "%08x", host);
    name_of(discriminator, "evil");
    snprintf(seconds, sizeof seconds, "%.2f", 0.3 + (double)(seed % 13) / 10);
    snprintf(seed_text, sizeof seed_text, "%llu", seed);
    return start(words);
}

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error) {
    (void)error;
    __atomic_fetch_add((long *)context, 1, __ATOMIC_RELAXED);
}

static void attack(const char *attacker, unsigned long long seed) {
    pid_t evil[ATTACKERS] = {0}, newcomer = 0;
    int status, i, started = 0, newcomers = 0, most = 0;
    long resident = 0;
    /* Longer on a machine that is too busy for an attack in that time. */
    double ends_at_last = now_ms() + 12 * (ends_at - now_ms());
    while (now_ms() < ends_at || ((evil_connections == 0 || evil_messages == 0) && now_ms() < ends_at_last)) {
        check_group("under attack");
        for (i = 0; i < ATTACKERS; i++) {
            if (evil[i] != 0 && rand() % 100 == 0) kill(evil[i], SIGKILL);
            if (evil[i] != 0 && waitpid(evil[i], &status, WNOHANG) == 0) continue;
            if (evil[i] != 0) CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
            evil[i] = start_attacker(attacker, seed + (unsigned long long)started++);
        }
        if (newcomer == 0 || waitpid(newcomer, &status, WNOHANG) == newcomer) {
            if (newcomer != 0) CHECK_SAME(status, 0);
            newcomer = start_honest("newcomer", 0);
            newcomers++;
        }
        sleep_ms(20);
        for (i = 0; i < 2; i++) ground_check(&grounds[i]);
        if (resident_kb() > resident) resident = resident_kb();
        if (descriptors_open() > most) most = descriptors_open();
    }
    for (i = 0; i < ATTACKERS; i++) kill(evil[i], SIGKILL), waitpid(evil[i], &status, 0);
    waitpid(newcomer, &status, 0);
    CHECK_SAME(status, 0);
    printf("%d attackers, %ld connections and %ld messages of theirs; %d newcomers; at most %ld KiB resident, %d descriptors\n", started, evil_connections,
           evil_messages, newcomers, resident, most);
    CHECK(resident < RESIDENT_KB_MAX);
    CHECK(evil_connections > 0 && evil_messages > 0); /* else it was no attack */
}

int main(int argc, char **argv) {
    const char *given = getenv("SEED");
    unsigned long long seed = given != NULL ? strtoull(given, NULL, 0) : (unsigned long long)getpid() * 7919u;
    double seconds = argc > 1 ? atof(argv[1]) : SECONDS_DEFAULT;
    pthread_t threads[3];
    pid_t friend_of_ours;
    static long errors;
    int before, i, status;
    char attacker[4096], name[16];
    ssize_t n;
    if (argc == 3) return honest(argv[1], atof(argv[2]));
    printf("seed %llu (SEED=%llu repeats the attackers)\n", seed, seed);
    srand((unsigned)seed);
    snprintf(name, sizeof name, "%d", (int)getpid());
    setenv("VICTIM", name, 1);
    n = readlink("/proc/self/exe", attacker, sizeof attacker - 16);
    if (n <= 0) return 1;
    attacker[n] = '\0';
    strcpy(strrchr(attacker, '/') + 1, "attacker");
    check_group("before the attack");
    nic = nic_open();
    CHECK_RETURN(VipErrorCallback(nic, &errors, on_error), VIP_SUCCESS);
    CHECK_RETURN(VipCreatePtag(nic, &evil_tag), VIP_SUCCESS);
    for (i = 0; i < 2; i++) ground_make(&grounds[i], i);
    before = descriptors_open();
    pthread_create(&threads[0], NULL, serve_evil, NULL);
    pthread_create(&threads[1], NULL, serve_honest, (void *)(uintptr_t) "friend");
    pthread_create(&threads[2], NULL, serve_honest, (void *)(uintptr_t) "newcomer");
    friend_of_ours = start_honest("friend", seconds);
    ends_at = now_ms() + seconds * 1000;
    attack(attacker, seed);
    check_group("after the attack");
    waitpid(friend_of_ours, &status, 0);
    CHECK_SAME(status, 0);
    stop = 1;
    for (i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    for (i = 0; i < 2; i++) ground_check(&grounds[i]);
    for (i = 0; i < 300 && descriptors_open() > before; i++) sleep_ms(10);
    CHECK(descriptors_open() <= before + 3); /* bells of waiters are kept */
    for (i = 0; i < 2; i++) ground_give_back(&grounds[i]);
    CHECK_RETURN(VipDestroyPtag(nic, evil_tag), VIP_SUCCESS);
    CHECK_RETURN(VipErrorCallback(nic, NULL, NULL), VIP_SUCCESS);
    CHECK_RETURN(VipCloseNic(nic), VIP_SUCCESS);
    return check_end();
}
