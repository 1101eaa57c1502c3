/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Peers that die. This program starts itself again as a peer, exchanges all kinds of traffic with it over several VIs, and the peer ends at a random moment: by
 * SIGKILL, or by exit() from another thread in the middle of whatever it does; sometimes while connections are being made, sometimes stopped for a while before.
 * The survivor must get back every descriptor that it posted, hear of the loss, find nothing left over, and a new process must be able to take the peer's place,
 * under the same address, at once.
 *
 *   mortality [rounds]     SEED=n repeats a run; the seed is printed
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"

enum {
    VIS_MAX = 3,
    WINDOW = 8,      /* outstanding in each direction of a VI */
    RECV_SLOT = 16,  /* descriptor slots: sends below, receives from here */
    FIRST_SLOT = 40, /* where the first message lies, and after it that of the peer, in place of descriptors */
    FIRST_BYTES = 64, /* the first message: where the sender's memory is */
    LIFE_US_MAX = 4000,
    LOST_MS_MAX = 1000, /* far beyond what is asked for: an error, not a measurement */
    MEDIAN_MS_MAX = 100, /* an event tells it: patience would take a second; beside busy programs, turns of theirs */
    ROUNDS_DEFAULT = 50,
    WARM_ROUNDS = 5
};

static VIP_NIC_HANDLE nic;
static uint64_t state;

static uint64_t rnd(uint64_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return below == 0 ? 0 : (state >> 11) % below;
}

static void seed_with(uint64_t seed) {
    state = seed * 0x9e3779b97f4a7c15u + 0x1234567;
    (void)rnd(1), (void)rnd(1);
}

/* ---- one VI under load */

typedef struct {
    End end;
    uint64_t remote; /* the peer's data, once known */
    VIP_MEM_HANDLE remote_handle;
    int known, broken;
    unsigned sent, sent_back, received, received_back;
} Line;

typedef struct {
    uint64_t address;
    VIP_MEM_HANDLE handle;
} Window;

static VIP_UINT32 any_size(void) {
    static const VIP_UINT32 sizes[] = {0, 1, 8, 55, 56, 57, 200, 2047, 2048, 4096, 16384, 16385, 65536, 131072, 262144};
    VIP_UINT32 bytes = sizes[rnd(sizeof sizes / sizeof sizes[0])];
    return rnd(3) != 0 ? bytes : (VIP_UINT32)rnd(bytes + 1);
}

static void line_make(Line *l, int foreign, VIP_RELIABILITY_LEVEL level) {
    EndOptions options = {0};
    VIP_DESCRIPTOR *d;
    memset(l, 0, sizeof *l);
    options.rnr_wait = 1;
    options.foreign_memory = foreign;
    options.level = level;
    end_create(&l->end, nic, &options);
    /* One receive until the first message is there, and not into the data: who knows our memory may write it before we have read that message. */
    d = work_recv(&l->end, RECV_SLOT, 0, FIRST_BYTES);
    d->DS[0].Local.Data.Address = &l->end.descriptors[FIRST_SLOT + 1];
    l->received += VipPostRecv(l->end.vi, d, l->end.memory) == VIP_SUCCESS;
}

static void line_open(Line *l) {
    VIP_DESCRIPTOR *d;
    Window w;
    w.address = (uint64_t)(uintptr_t)l->end.data;
    w.handle = l->end.memory;
    /* Not in the data: while this waits for room on the link, the peer's first messages may arrive there. */
    memcpy(&l->end.descriptors[FIRST_SLOT], &w, sizeof w);
    d = work_send(&l->end, 0, 0, sizeof w);
    d->DS[0].Local.Data.Address = &l->end.descriptors[FIRST_SLOT];
    l->sent += VipPostSend(l->end.vi, d, l->end.memory) == VIP_SUCCESS;
}

static void post_receive(Line *l) {
    VIP_DESCRIPTOR *d = work_recv(&l->end, RECV_SLOT + (int)(l->received % WINDOW), 0, END_DATA_BYTES);
    if (VipPostRecv(l->end.vi, d, l->end.memory) == VIP_SUCCESS) l->received++;
}

static void post_something(Line *l) {
    int slot = (int)(l->sent % WINDOW);
    VIP_UINT32 bytes = any_size();
    VIP_DESCRIPTOR *d;
    switch (l->known ? rnd(4) : 0) {
    case 1:
        d = work_rdma(&l->end, slot, VIP_CONTROL_OP_RDMAWRITE, 0, bytes, (void *)(uintptr_t)l->remote, l->remote_handle);
        if (rnd(3) == 0) with_immediate(d, 7);
        break;
    case 2: d = work_rdma(&l->end, slot, VIP_CONTROL_OP_RDMAREAD, 0, bytes, (void *)(uintptr_t)l->remote, l->remote_handle); break;
    default: d = work_send(&l->end, slot, 0, bytes); break;
    }
    if (VipPostSend(l->end.vi, d, l->end.memory) == VIP_SUCCESS) l->sent++;
}

static void took_receive(Line *l, VIP_DESCRIPTOR *d, VIP_RETURN result) {
    l->received_back++;
    if (result != VIP_SUCCESS) {
        l->broken = 1;
    } else if (!l->known) {
        Window w;
        memcpy(&w, d->DS[0].Local.Data.Address, sizeof w);
        l->remote = w.address, l->remote_handle = w.handle, l->known = 1;
    }
}

/* Takes what is there. 1 if there was something. */
static int collect(Line *l) {
    VIP_DESCRIPTOR *d = NULL;
    int any = 0;
    VIP_RETURN result = VipRecvDone(l->end.vi, &d);
    if (result == VIP_SUCCESS || result == VIP_DESCRIPTOR_ERROR) took_receive(l, d, result), any = 1;
    result = VipSendDone(l->end.vi, &d);
    if (result == VIP_SUCCESS || result == VIP_DESCRIPTOR_ERROR) {
        l->sent_back++, any = 1;
        l->broken |= result == VIP_DESCRIPTOR_ERROR;
    }
    return any;
}

/* Takes what is there and posts anew. */
static void pump(Line *l) {
    int i;
    for (i = 0; i < 4 && collect(l); i++) continue;
    if (l->broken) return;
    while (l->known && l->received - l->received_back < WINDOW - 2) {
        unsigned before = l->received;
        post_receive(l);
        if (l->received == before) break;
    }
    if (l->sent - l->sent_back < WINDOW && rnd(4) != 0) post_something(l);
}

/* ---- connecting */

static void meeting(Address *at, int which) {
    /* The same for all rounds: who comes next takes the name of who has died. */
    char name[32];
    int bytes = snprintf(name, sizeof name, "mortality-%d-%s", which >= 0 ? which : 0, getenv("MORTALITY_NAME"));
    address_set(at, nic, name, (size_t)bytes);
}

static int join(Line *l, int index, int listens, int ms) {
    Address at;
    meeting(&at, index);
    return (listens ? end_accept(&l->end, &at, ms) : end_request(&l->end, &at, ms)) == VIP_SUCCESS;
}

/* ---- the peer */

typedef struct {
    int vis, listens, foreign, connects; /* connects: nothing but connecting and disconnecting */
    int exit_us;                         /* after which it calls exit(); 0: it waits to be killed */
    int fresh;                           /* checks that everything works, and ends well */
    VIP_RELIABILITY_LEVEL level;
    unsigned long long seed;
} Job;

static void *leave(void *argument) {
    usleep((useconds_t) * (int *)argument);
    exit(7);
}

static int peer_fresh(void) {
    Line l;
    VIP_DESCRIPTOR *d;
    int i;
    line_make(&l, 0, VIP_SERVICE_RELIABLE_DELIVERY);
    if (!join(&l, 0, 0, WAIT_MS)) return 3;
    line_open(&l);
    if (VipRecvWait(l.end.vi, WAIT_MS, &d) != VIP_SUCCESS || VipSendWait(l.end.vi, WAIT_MS, &d) != VIP_SUCCESS) return 4;
    for (i = 0; i < 20; i++) {
        VIP_UINT32 bytes = 1 + (VIP_UINT32)(i * i * 300);
        VIP_DESCRIPTOR *receive = work_recv(&l.end, RECV_SLOT, 131072, 131072);
        if (VipPostRecv(l.end.vi, receive, l.end.memory) != VIP_SUCCESS) return 5;
        pattern_fill(l.end.data, bytes, (unsigned)i);
        if (VipPostSend(l.end.vi, work_send(&l.end, 0, 0, bytes), l.end.memory) != VIP_SUCCESS) return 6;
        if (VipRecvWait(l.end.vi, WAIT_MS, &d) != VIP_SUCCESS || VipSendWait(l.end.vi, WAIT_MS, &d) != VIP_SUCCESS) return 7;
        if (receive->CS.Length != bytes || !pattern_ok(l.end.data + 131072, bytes, (unsigned)i)) return 8;
    }
    end_destroy(&l.end);
    return VipCloseNic(nic) == VIP_SUCCESS ? 0 : 9;
}

static int peer(const Job *job) {
    static Line lines[VIS_MAX];
    pthread_t thread;
    int i;
    seed_with(job->seed);
    if (job->exit_us != 0) pthread_create(&thread, NULL, leave, (void *)&job->exit_us);
    nic = nic_open();
    if (job->fresh) return peer_fresh();
    while (job->connects) {
        line_make(&lines[0], job->foreign, job->level);
        if (join(&lines[0], 0, job->listens, WAIT_MS)) {
            line_open(&lines[0]);
            for (i = (int)rnd(200); i > 0; i--) pump(&lines[0]);
        }
        end_destroy(&lines[0].end);
    }
    for (i = 0; i < job->vis; i++) {
        line_make(&lines[i], job->foreign, job->level);
        if (!join(&lines[i], i, job->listens, WAIT_MS)) return 3;
        line_open(&lines[i]);
    }
    for (;;) {
        for (i = 0; i < job->vis; i++) pump(&lines[i]);
        if (lines[0].broken) return 2;
    }
}

static pid_t start(const Job *job) {
    char text[128];
    snprintf(text, sizeof text, "%d %d %d %d %d %d %d %llu", job->vis, job->listens, job->foreign, job->connects, job->exit_us, job->fresh,
             (int)job->level, job->seed);
    return start_again("peer", text);
}

/* ---- who kills */

typedef struct {
    pid_t pid;
    int after_us, stop_us;
    volatile double killed_at;
    volatile int lost_while_stopped;
} Killer;

static volatile int lost_count;
static volatile double lost_at;
static volatile unsigned codes_seen; /* of the VIs watched: bits by error code */
static VIP_VI_HANDLE volatile watched[VIS_MAX];

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error) {
    int i, ours = 0;
    (void)context;
    /* The successor of the round before may be told of late. */
    for (i = 0; i < VIS_MAX; i++) ours |= error->ViHandle == watched[i];
    if (ours) codes_seen |= 1u << ((unsigned)error->ErrorCode % 32);
    if (error->ErrorCode == VIP_ERROR_CONN_LOST && ours) {
        lost_at = now_ms();
        __atomic_fetch_add(&lost_count, 1, __ATOMIC_RELEASE);
    }
}

static void *kill_later(void *argument) {
    Killer *k = argument;
    usleep((useconds_t)k->after_us);
    if (k->stop_us != 0) {
        kill(k->pid, SIGSTOP);
        usleep((useconds_t)k->stop_us);
        k->lost_while_stopped = lost_count;
        kill(k->pid, SIGCONT);
        usleep(1000);
    }
    k->killed_at = now_ms();
    kill(k->pid, SIGKILL);
    return NULL;
}

/* ---- what is left over */

typedef struct {
    int descriptors, shared_maps, files;
    long resident_kb;
} Things;

static int count_files(const char *directory, const char *with) {
    DIR *d = opendir(directory);
    struct dirent *e;
    int count = 0;
    while (d != NULL && (e = readdir(d)) != NULL) count += with == NULL || strstr(e->d_name, with) != NULL;
    if (d != NULL) closedir(d);
    return count;
}

static Things things(void) {
    Things t = {0, 0, 0, 0};
    char line[512];
    FILE *f = fopen("/proc/self/maps", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) t.shared_maps += strstr(line, "memfd:") != NULL;
    if (f != NULL) fclose(f);
    f = fopen("/proc/self/status", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) sscanf(line, "VmRSS: %ld", &t.resident_kb);
    if (f != NULL) fclose(f);
    t.descriptors = count_files("/proc/self/fd", NULL);
    t.files = count_files("/dev/shm", "bellwire");
    return t;
}

/* The link to a peer that has gone is given back by the helper thread: at once, but not before we look. */
static void nothing_left(const Things *before) {
    double deadline = now_ms() + LOST_MS_MAX;
    Things now = things();
    while ((now.descriptors > before->descriptors || now.shared_maps > before->shared_maps) && now_ms() < deadline) {
        sleep_ms(1);
        now = things();
    }
    CHECK_SAME(now.descriptors, before->descriptors);
    CHECK_SAME(now.shared_maps, before->shared_maps);
    CHECK_SAME(now.files, before->files);
    CHECK(waitpid(-1, NULL, WNOHANG) == -1);
}

/* ---- the survivor */

static int all_back(const Line *lines, int count) {
    int i;
    for (i = 0; i < count; i++) {
        if (lines[i].sent != lines[i].sent_back || lines[i].received != lines[i].received_back) return 0;
    }
    return 1;
}

static int all_broken(const Line *lines, int count) {
    int i;
    for (i = 0; i < count; i++) {
        if (!lines[i].broken) return 0;
    }
    return 1;
}

/* Works with the peer until all VIs are broken and everything is back; gives the time. */
static double live_through(Line *lines, int count, const Killer *k, int sleeps) {
    double deadline = now_ms() + WAIT_MS;
    int i;
    while (!(all_broken(lines, count) && all_back(lines, count)) && now_ms() < deadline) {
        for (i = 0; i < count; i++) pump(&lines[i]);
        if (sleeps && !lines[0].broken) {
            VIP_DESCRIPTOR *d;
            VIP_RETURN result = VipRecvWait(lines[0].end.vi, k->killed_at != 0 ? WAIT_MS : 2, &d);
            if (result == VIP_SUCCESS || result == VIP_DESCRIPTOR_ERROR) took_receive(&lines[0], d, result);
        }
    }
    return now_ms();
}

static void check_line(Line *l) {
    VIP_VI_STATE seen;
    VIP_VI_ATTRIBUTES attributes;
    VIP_BOOLEAN send_empty = VIP_FALSE, recv_empty = VIP_FALSE;
    CHECK_SAME(l->sent_back, l->sent);
    CHECK_SAME(l->received_back, l->received);
    CHECK_RETURN(VipQueryVi(l->end.vi, &seen, &attributes, &send_empty, &recv_empty), VIP_SUCCESS);
    CHECK_SAME(seen, VIP_STATE_ERROR);
    CHECK(send_empty == VIP_TRUE && recv_empty == VIP_TRUE);
}

/* One peer lives and dies. Gives the milliseconds from its death to the last thing that told us, or -1 if that cannot be said. */
static double one_life(const Job *job, Killer *k, int sleeps) {
    static Line lines[VIS_MAX];
    pthread_t killer;
    int joined = 0, i, status;
    double over = -1, deadline, ready;
    lost_count = 0, codes_seen = 0;
    for (i = 0; i < job->vis; i++) line_make(&lines[i], job->foreign, job->level), watched[i] = lines[i].end.vi;
    k->pid = start(job);
    if (job->exit_us == 0) pthread_create(&killer, NULL, kill_later, k);
    while (joined < job->vis && join(&lines[joined], joined, !job->listens, 100)) line_open(&lines[joined++]);
    ready = now_ms();
    if (joined != 0) {
        over = live_through(lines, joined, k, sleeps);
        for (deadline = now_ms() + LOST_MS_MAX; lost_count < joined && now_ms() < deadline;) sched_yield();
        if (lost_at > over) over = lost_at;
        if (!CHECK_SAME(lost_count, joined)) {
            printf("codes seen 0x%x; vis %d, listens %d, foreign %d, exit %d us, level %d, sleeps %d\n", codes_seen, job->vis, job->listens, job->foreign,
                   job->exit_us, (int)job->level, sleeps);
        }
    }
    if (job->exit_us == 0) pthread_join(killer, NULL);
    if (k->stop_us != 0) CHECK_SAME(k->lost_while_stopped, 0);
    for (i = 0; i < joined; i++) check_line(&lines[i]);
    for (i = 0; i < job->vis; i++) watched[i] = NULL, end_destroy(&lines[i].end);
    waitpid(k->pid, &status, 0);
    /* Timed only when we had not been waiting for a connection of the dead. */
    return joined != job->vis || k->killed_at < ready ? -1 : over - k->killed_at;
}

/* A peer that connects and disconnects until it dies; we do what it asks for. */
static void many_connections(const Job *job, Killer *k) {
    pthread_t killer;
    int status, connected = 0;
    k->pid = start(job);
    if (job->exit_us == 0) pthread_create(&killer, NULL, kill_later, k);
    while (waitpid(k->pid, &status, WNOHANG) == 0) {
        Line l;
        double deadline = now_ms() + WAIT_MS;
        line_make(&l, job->foreign, job->level);
        if (join(&l, 0, !job->listens, 50)) {
            connected++;
            line_open(&l);
            while (!(l.broken && all_back(&l, 1)) && now_ms() < deadline) pump(&l);
            check_line(&l);
        }
        end_destroy(&l.end);
    }
    if (job->exit_us == 0) pthread_join(killer, NULL);
}

/* A new process in the place of the dead one. */
static void successor(void) {
    Job job = {0};
    Line l;
    VIP_DESCRIPTOR *d;
    pid_t pid;
    int status = -1, i;
    job.fresh = 1;
    pid = start(&job);
    line_make(&l, 0, VIP_SERVICE_RELIABLE_DELIVERY);
    if (CHECK(join(&l, 0, 1, WAIT_MS))) {
        line_open(&l);
        CHECK_RETURN(VipRecvWait(l.end.vi, WAIT_MS, &d), VIP_SUCCESS);
        expect_send(&l.end, &l.end.descriptors[0], 0);
        for (i = 0; i < 20; i++) {
            post_recv(&l.end, work_recv(&l.end, RECV_SLOT, 0, 131072));
            if (!CHECK_RETURN(VipRecvWait(l.end.vi, WAIT_MS, &d), VIP_SUCCESS)) break;
            post_send(&l.end, work_send(&l.end, 0, 0, d->CS.Length));
            expect_send(&l.end, &l.end.descriptors[0], 0);
        }
    }
    waitpid(pid, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK_SAME(WEXITSTATUS(status), 0);
    end_destroy(&l.end);
}

static void report(double *took, int told, int rounds) {
    if (!CHECK(told > 0)) return;
    qsort(took, (size_t)told, sizeof took[0], by_value);
    printf("%d rounds, %d deaths timed: from kill to the last word median %.2f ms, 99 %% %.2f ms, most %.2f ms\n", rounds, told, took[told / 2],
           took[told * 99 / 100], took[told - 1]);
    CHECK(took[told / 2] <= MEDIAN_MS_MAX);
}

static double one_round(uint64_t seed) {
    Job job = {0};
    Killer k = {0};
    double took = -1;
    seed_with(seed);
    job.vis = 1 + (int)rnd(VIS_MAX);
    job.listens = (int)rnd(2);
    job.foreign = (int)rnd(2);
    job.connects = rnd(5) == 0;
    job.level = rnd(2) ? VIP_SERVICE_RELIABLE_DELIVERY : VIP_SERVICE_RELIABLE_RECEPTION;
    job.seed = seed + 1;
    job.exit_us = rnd(4) == 0 ? 1 + (int)rnd(3 * LIFE_US_MAX) : 0;
    /* Starting a process takes some milliseconds: many lives end while connections are made. */
    k.after_us = (int)rnd(rnd(3) == 0 ? LIFE_US_MAX : 6 * LIFE_US_MAX);
    k.stop_us = rnd(4) == 0 ? 1000 + (int)rnd(30000) : 0;
    if (job.connects) many_connections(&job, &k);
    else took = one_life(&job, &k, (int)rnd(2));
    return took;
}

int main(int argc, char **argv) {
    const char *given = getenv("SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)getpid() * 1000003u + (uint64_t)now_ms();
    int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS_DEFAULT, i, told = 0;
    Things before = {0, 0, 0, 0}, tenth = {0, 0, 0, 0}, end;
    double *took;
    char name[16];
    if (argc == 3 && strcmp(argv[1], "peer") == 0) {
        Job job;
        int level = 0;
        if (sscanf(argv[2], "%d %d %d %d %d %d %d %llu", &job.vis, &job.listens, &job.foreign, &job.connects, &job.exit_us, &job.fresh, &level,
                   &job.seed) != 8) return 1;
        job.level = (VIP_RELIABILITY_LEVEL)level;
        if (freopen("/dev/null", "w", stdout) == NULL) return 1;
        return peer(&job);
    }
    printf("seed %llu (SEED=%llu repeats it)\n", (unsigned long long)seed, (unsigned long long)seed);
    snprintf(name, sizeof name, "%d", (int)getpid());
    setenv("MORTALITY_NAME", name, 1);
    took = calloc((size_t)rounds, sizeof *took);
    if (took == NULL) return 1;
    check_group("death of peers");
    nic = nic_open();
    CHECK_RETURN(VipErrorCallback(nic, NULL, on_error), VIP_SUCCESS);
    for (i = -WARM_ROUNDS; i < rounds; i++) {
        double ms = one_round(seed + (uint64_t)(i + WARM_ROUNDS) * 2);
        check_group("a peer in the place of a dead one");
        successor();
        check_group("what is left of dead peers");
        if (i < 0) sleep_ms(5), before = things();
        else nothing_left(&before);
        if (i == rounds / 10) tenth = things();
        if (i >= 0 && ms >= 0) took[told++] = ms;
        check_group("death of peers");
    }
    report(took, told, rounds);
    end = things();
    printf("memory: %ld KiB after a tenth of the rounds, %ld KiB at the end\n", tenth.resident_kb, end.resident_kb);
    CHECK(end.resident_kb <= tenth.resident_kb + tenth.resident_kb / 4 + 1024);
    CHECK_RETURN(VipErrorCallback(nic, NULL, NULL), VIP_SUCCESS);
    CHECK_RETURN(VipCloseNic(nic), VIP_SUCCESS);
    free(took);
    return check_end();
}
