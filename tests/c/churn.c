/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Many processes that do anything at any time: connect to each other, send, write and read by RDMA, disconnect, leave with and without a word, come back under the
 * same name. All data carries checksums and all messages numbers; a process that sees a wrong one ends with an error, and so does the run.
 *
 *   churn [--seconds n] [--processes n] [--seed n]
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"

enum {
    PROCESSES_MAX = 256,
    LINES_MAX = 6,
    RECEIVES = 16,
    SENDS = 8,
    SLOT = 8192,
    SENDS_AT = RECEIVES * SLOT,          /* in an end's data */
    READ_AT = SENDS_AT + SENDS * SLOT,   /* what peers read: a pattern */
    WRITE_AT = READ_AT + 32768,          /* what peers write */
    AREA = 32768,
    SILENT_MS_MAX = 30000,               /* a process that does nothing for so long hangs */
    SUDDEN = 7,                          /* exit code of who leaves without a word */
    MAGIC = 0x6c68ab21
};

/* Seen by all processes. */
typedef struct {
    volatile long messages, bytes, writes, reads, connections, lost;
    volatile long beats[PROCESSES_MAX];
    volatile int over;
} Board;

typedef struct {
    uint32_t magic, kind, bytes, handle;
    uint64_t number, sum, address;
} Header;

enum { HELLO, DATA, WROTE, TAKEN };

typedef struct {
    End end;
    int used, said_hello, heard_hello, broken, writing;
    uint64_t sent_number, heard_number;
    unsigned sent, sent_back, received;
    uint64_t remote;
    VIP_MEM_HANDLE remote_handle;
    unsigned char reading[SENDS];
    unsigned remote_seed;
} Line;

static VIP_NIC_HANDLE nic;
static Board *board;
static int self, processes;
static uint64_t state;
static Line lines[LINES_MAX];

static uint64_t rnd(uint64_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (state >> 11) % below;
}

static void seed_with(uint64_t seed) { state = seed * 0x9e3779b97f4a7c15u | 1; }

static void wrong(const char *what, const Line *l, uint64_t a, uint64_t b) {
    printf("process %d: wrong: %s (%llu, %llu) on VI %d\n", self, what, (unsigned long long)a, (unsigned long long)b, (int)(l - lines));
    fflush(stdout);
    _exit(1);
}

static uint64_t checksum(const unsigned char *bytes, size_t count) {
    uint64_t sum = 0xcbf29ce484222325u ^ count, word;
    size_t i;
    for (i = 0; i + 8 <= count; i += 8) memcpy(&word, bytes + i, 8), sum = (sum ^ word) * 0x100000001b3u, sum ^= sum >> 29;
    for (; i < count; i++) sum = (sum ^ bytes[i]) * 0x100000001b3u;
    return sum;
}

/* ---- one VI */

static void post_receive(Line *l, unsigned slot) {
    VIP_DESCRIPTOR *d = work_recv(&l->end, SENDS + (int)slot, (size_t)slot * SLOT, SLOT);
    if (VipPostRecv(l->end.vi, d, l->end.memory) != VIP_SUCCESS) l->broken = 1;
    else l->received++;
}

static void line_make(Line *l, VIP_RELIABILITY_LEVEL level) {
    EndOptions options = {0};
    unsigned i;
    memset(l, 0, sizeof *l);
    options.rnr_wait = 1;
    options.foreign_memory = (int)rnd(2);
    options.level = level;
    end_create(&l->end, nic, &options);
    pattern_fill(l->end.data + READ_AT, AREA, (unsigned)self + 1);
    for (i = 0; i < RECEIVES; i++) post_receive(l, i);
    l->used = 1;
}

static void line_end(Line *l) {
    end_destroy(&l->end);
    l->used = 0;
}

static int may_send(const Line *l) { return !l->broken && l->sent - l->sent_back < SENDS; }

static void send_kind(Line *l, uint32_t kind, uint32_t bytes, uint64_t sum) {
    unsigned slot = l->sent % SENDS;
    unsigned char *at = l->end.data + SENDS_AT + slot * SLOT;
    Header h;
    memset(&h, 0, sizeof h);
    h.magic = MAGIC, h.kind = kind, h.bytes = bytes, h.number = l->sent_number;
    h.address = kind == HELLO ? (uint64_t)(uintptr_t)l->end.data : (uint64_t)self;
    h.handle = kind == HELLO ? l->end.memory : 0;
    h.sum = sum;
    if (kind == DATA) {
        uint32_t i;
        for (i = 0; i < bytes; i += 64) memcpy(at + sizeof h + i, &state, 8), state += 0x9e3779b97f4a7c15u;
        h.sum = checksum(at + sizeof h, bytes);
    }
    if (kind == HELLO) h.sum = (uint64_t)self + 1;
    memcpy(at, &h, sizeof h);
    l->reading[slot] = 0;
    if (VipPostSend(l->end.vi, work_send(&l->end, (int)slot, SENDS_AT + slot * SLOT, (VIP_UINT32)sizeof h + (kind == DATA ? bytes : 0)), l->end.memory) ==
        VIP_SUCCESS) {
        l->sent++, l->sent_number++;
    } else {
        l->broken = 1;
    }
}

static void heard(Line *l, VIP_DESCRIPTOR *d) {
    const unsigned char *at = d->DS[0].Local.Data.Address;
    Header h;
    memcpy(&h, at, sizeof h);
    if (d->CS.Length < sizeof h || h.magic != MAGIC) wrong("no header", l, d->CS.Length, h.magic);
    if (h.number != l->heard_number++) wrong("message number", l, h.number, l->heard_number - 1);
    switch (h.kind) {
    case HELLO: l->remote = h.address, l->remote_handle = h.handle, l->remote_seed = (unsigned)h.sum, l->heard_hello = 1; break;
    case DATA:
        if (d->CS.Length != sizeof h + h.bytes || checksum(at + sizeof h, h.bytes) != h.sum) wrong("data of a message", l, d->CS.Length, h.bytes);
        break;
    case WROTE:
        if (checksum(l->end.data + WRITE_AT, h.bytes) != h.sum) wrong("data of a write", l, h.bytes, h.sum);
        l->said_hello |= 2; /* an answer is due */
        break;
    case TAKEN: l->writing = 0; break;
    default: wrong("kind", l, h.kind, 0);
    }
    __atomic_fetch_add(&board->messages, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&board->bytes, d->CS.Length, __ATOMIC_RELAXED);
}

static void write_remote(Line *l) {
    unsigned slot = l->sent % SENDS;
    unsigned char *at = l->end.data + SENDS_AT + slot * SLOT;
    uint32_t bytes = 1 + (uint32_t)rnd(SLOT);
    pattern_fill(at, bytes, (unsigned)rnd(1000));
    l->reading[slot] = 0;
    if (VipPostSend(l->end.vi, work_rdma(&l->end, (int)slot, VIP_CONTROL_OP_RDMAWRITE, SENDS_AT + slot * SLOT, bytes,
                                         (void *)(uintptr_t)(l->remote + WRITE_AT), l->remote_handle), l->end.memory) != VIP_SUCCESS) {
        l->broken = 1;
        return;
    }
    l->sent++, l->writing = 1;
    __atomic_fetch_add(&board->writes, 1, __ATOMIC_RELAXED);
    send_kind(l, WROTE, bytes, checksum(at, bytes));
}

static void read_remote(Line *l) {
    unsigned slot = l->sent % SENDS;
    uint32_t bytes = 1 + (uint32_t)rnd(SLOT);
    if (VipPostSend(l->end.vi, work_rdma(&l->end, (int)slot, VIP_CONTROL_OP_RDMAREAD, SENDS_AT + slot * SLOT, bytes,
                                         (void *)(uintptr_t)(l->remote + READ_AT), l->remote_handle), l->end.memory) != VIP_SUCCESS) {
        l->broken = 1;
        return;
    }
    l->reading[slot] = 1;
    l->sent++;
}

static void sent_back(Line *l, VIP_DESCRIPTOR *d) {
    unsigned slot = l->sent_back++ % SENDS;
    if (d != &l->end.descriptors[slot]) wrong("order of completions", l, slot, 0);
    if (!l->reading[slot]) return;
    if (!pattern_ok(l->end.data + SENDS_AT + slot * SLOT, d->CS.Length, l->remote_seed)) wrong("data of a read", l, d->CS.Length, l->remote_seed);
    __atomic_fetch_add(&board->reads, 1, __ATOMIC_RELAXED);
}

static void collect(Line *l) {
    VIP_DESCRIPTOR *d;
    VIP_RETURN result;
    int i;
    for (i = 0; i < RECEIVES; i++) {
        result = VipRecvDone(l->end.vi, &d);
        if (result == VIP_NOT_DONE) break;
        if (result != VIP_SUCCESS) { l->broken = 1; break; }
        heard(l, d);
        post_receive(l, (unsigned)(d - l->end.descriptors) - SENDS);
    }
    for (i = 0; i < SENDS; i++) {
        result = VipSendDone(l->end.vi, &d);
        if (result == VIP_NOT_DONE) break;
        if (result != VIP_SUCCESS) { l->broken = 1; break; }
        sent_back(l, d);
    }
}

static void line_turn(Line *l) {
    collect(l);
    if (!l->broken && (l->said_hello & 1) == 0 && may_send(l)) send_kind(l, HELLO, 0, 0), l->said_hello |= 1;
    if ((l->said_hello & 2) != 0 && may_send(l)) send_kind(l, TAKEN, 0, 0), l->said_hello &= ~2;
    if (l->broken) {
        __atomic_fetch_add(&board->lost, 1, __ATOMIC_RELAXED);
        line_end(l);
        return;
    }
    if (!l->heard_hello || l->sent - l->sent_back > SENDS - 3) return;
    switch (rnd(5)) {
    case 0: if (!l->writing) write_remote(l); break;
    case 1: read_remote(l); break;
    case 2: case 3: send_kind(l, DATA, (uint32_t)(rnd(4) ? rnd(200) : rnd(SLOT - sizeof(Header) + 1)), 0); break;
    default: break;
    }
}

/* ---- one process */

static void name_of(Address *at, int who) {
    char name[64];
    int bytes = snprintf(name, sizeof name, "churn-%s-%d", getenv("CHURN"), who);
    address_set(at, nic, name, (size_t)bytes);
}

static void call_somebody(Line *l) {
    Address to;
    name_of(&to, (int)rnd((uint64_t)processes)); /* ourselves too: a loopback that nobody accepts */
    line_make(l, rnd(2) ? VIP_SERVICE_RELIABLE_DELIVERY : VIP_SERVICE_RELIABLE_RECEPTION);
    if (end_request(&l->end, &to, 1 + (int)rnd(40)) != VIP_SUCCESS) line_end(l);
    else __atomic_fetch_add(&board->connections, 1, __ATOMIC_RELAXED);
}

static void be_called(Line *l) {
    Address at, from;
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE connection;
    name_of(&at, self);
    address_room(&from);
    if (VipConnectWait(nic, &at.net, (VIP_ULONG)rnd(20), &from.net, &attributes, &connection) != VIP_SUCCESS) return;
    if (rnd(8) == 0) {
        VipConnectReject(connection);
        return;
    }
    line_make(l, attributes.ReliabilityLevel);
    if (VipConnectAccept(connection, l->end.vi) != VIP_SUCCESS) line_end(l);
}

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error) { (void)context, (void)error; }

static void *leave_suddenly(void *argument) {
    usleep((useconds_t)(uintptr_t)argument);
    _exit(SUDDEN);
}

static int live(uint64_t seed) {
    int i;
    double leaves;
    pthread_t thread;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    seed_with(seed);
    leaves = now_ms() + 50 + (double)rnd(3000);
    nic = nic_open();
    CHECK_RETURN(VipErrorCallback(nic, NULL, on_error), VIP_SUCCESS);
    if (rnd(3) == 0) pthread_create(&thread, NULL, leave_suddenly, (void *)(uintptr_t)(1000 + rnd(2000000)));
    while (!board->over && now_ms() < leaves) {
        __atomic_fetch_add(&board->beats[self], 1, __ATOMIC_RELAXED);
        for (i = 0; i < LINES_MAX; i++) {
            Line *l = &lines[i];
            if (l->used) {
                int turns;
                for (turns = 0; turns < 20 && l->used; turns++) line_turn(l);
                if (l->used && rnd(400) == 0) line_end(l);
            } else if (rnd(10) == 0) {
                if (rnd(2)) call_somebody(l);
                else be_called(l);
            }
        }
        if (rnd(50) == 0) usleep((useconds_t)rnd(3000));
    }
    for (i = 0; i < LINES_MAX; i++) if (lines[i].used) line_end(&lines[i]);
    CHECK_RETURN(VipErrorCallback(nic, NULL, NULL), VIP_SUCCESS);
    CHECK_RETURN(VipCloseNic(nic), VIP_SUCCESS);
    if (freopen("/dev/null", "w", stdout) == NULL) return 1;
    return check_end();
}

/* ---- all of them */

typedef struct {
    pid_t pid;
    long beat;
    double beat_at;
} Worker;

static pid_t start(int who, int fd, uint64_t seed) {
    char texts[4][32];
    pid_t pid;
    snprintf(texts[0], 32, "%d", who), snprintf(texts[1], 32, "%d", fd), snprintf(texts[2], 32, "%llu", (unsigned long long)seed);
    snprintf(texts[3], 32, "%d", processes);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "churn", "worker", texts[0], texts[1], texts[2], texts[3], (char *)NULL);
        _exit(127);
    }
    return pid;
}

/* Waits for those who have ended; 0 if one of them ended badly. */
static int look_after(Worker *w, int who, int block, long *ends) {
    int status;
    if (w->pid == 0) return 1;
    if (waitpid(w->pid, &status, block ? 0 : WNOHANG) == 0) {
        if (board->beats[who] != w->beat) w->beat = board->beats[who], w->beat_at = now_ms();
        if (!CHECK(now_ms() - w->beat_at < SILENT_MS_MAX)) {
            printf("process %d (pid %d) does nothing\n", who, (int)w->pid);
            kill(w->pid, SIGABRT);
            return 0;
        }
        return 1;
    }
    w->pid = 0;
    ends[WIFSIGNALED(status) ? 2 : WEXITSTATUS(status) == SUDDEN ? 1 : 0]++;
    if (!CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == SUDDEN)) {
        printf("process %d ended with status 0x%x\n", who, (unsigned)status);
        return 0;
    }
    return 1;
}

static int run(double seconds, uint64_t seed) {
    static Worker workers[PROCESSES_MAX];
    long ends[3] = {0, 0, 0};
    int fd = memfd_create("churn", 0), i, fine = 1;
    double until = now_ms() + seconds * 1000;
    char name[16];
    if (fd < 0 || ftruncate(fd, sizeof(Board)) != 0) return 1;
    board = mmap(NULL, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    snprintf(name, sizeof name, "%d", (int)getpid());
    setenv("CHURN", name, 1);
    printf("%d processes, %.0f s, --seed %llu\n", processes, seconds, (unsigned long long)seed);
    seed_with(seed);
    while (now_ms() < until && fine) {
        check_group("churn");
        for (i = 0; i < processes && fine; i++) {
            fine = look_after(&workers[i], i, 0, ends);
            if (workers[i].pid == 0) workers[i].pid = start(i, fd, rnd((uint64_t)1 << 40)), workers[i].beat_at = now_ms();
        }
        i = (int)rnd((uint64_t)processes);
        if (rnd(10) == 0 && workers[i].pid > 0) kill(workers[i].pid, SIGKILL);
        sleep_ms(10);
    }
    board->over = 1;
    for (i = 0; i < processes; i++) if (workers[i].pid != 0) fine &= look_after(&workers[i], i, 1, ends);
    printf("%ld messages, %ld MB, %ld writes, %ld reads, %ld connections, %ld lost; processes left: %ld in order, %ld suddenly, %ld killed\n", board->messages,
           board->bytes / 1000000, board->writes, board->reads, board->connections, board->lost, ends[0], ends[1], ends[2]);
    CHECK(board->messages > 0 && board->writes > 0 && board->reads > 0 && board->connections > 0);
    return check_end();
}

int main(int argc, char **argv) {
    double seconds = 20;
    uint64_t seed = (uint64_t)getpid() * 7919u;
    int i;
    processes = 8;
    if (argc == 6 && strcmp(argv[1], "worker") == 0) {
        self = atoi(argv[2]), processes = atoi(argv[5]);
        board = mmap(NULL, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[3]), 0);
        check_group("a process");
        return board == MAP_FAILED ? 1 : live(strtoull(argv[4], NULL, 0));
    }
    for (i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seconds") == 0) seconds = atof(argv[i + 1]);
        else if (strcmp(argv[i], "--processes") == 0) processes = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 0);
        else return 2;
    }
    if (processes < 2 || processes > PROCESSES_MAX) return 2;
    return run(seconds, seed);
}
