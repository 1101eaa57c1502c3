/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A port goes down and up at run time, by `bellwire port` (its first argument): the peer is kept out of
   memory that it has mapped, both get the events of devices, and all goes on afterwards. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            printf("line %d: %s (errno %d)\n", __LINE__, #what, errno); \
            exit(1); \
        } \
    } while (0)

#define BYTES (8 * 4096)
#define POLLS 2000
#define UNTIL(what) \
    while (!(what)) \
        __asm__ volatile("pause")

struct side {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
};

struct known {
    uint32_t qp, key;
    uint64_t address;
    union ibv_gid gid;
};

/* Writes that were completed, how often the writer has polled, and whether there are to be more. */
struct shared {
    volatile uint64_t done, polls;
    volatile int ends;
};

static struct side make(int device, void *memory, struct known *own)
{
    struct side s;
    struct ibv_device **list = ibv_get_device_list(NULL);
    CHECK(list && list[device] && (s.context = ibv_open_device(list[device])));
    CHECK((s.pd = ibv_alloc_pd(s.context)));
    CHECK((s.cq = ibv_create_cq(s.context, 16, NULL, NULL, 0)));
    CHECK((s.mr = ibv_reg_mr(s.pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
    struct ibv_qp_init_attr a = {.send_cq = s.cq, .recv_cq = s.cq, .qp_type = IBV_QPT_RC, .cap = {4, 4, 1, 1, 0}};
    CHECK((s.qp = ibv_create_qp(s.pd, &a)));
    *own = (struct known){s.qp->qp_num, s.mr->rkey, (uintptr_t)memory, {{0}}};
    CHECK(ibv_query_gid(s.context, 1, 0, &own->gid) == 0);
    return s;
}

static void connect_to(struct side *s, const struct known *peer)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    CHECK(ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qp, .max_dest_rd_atomic = 1, .min_rnr_timer = 12};
    a.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.dgid = peer->gid, .hop_limit = 1}};
    CHECK(ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 21, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
    CHECK(ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

/* Writes a number that grows into the peer's memory, for ever. */
static int writer(int in, int out, struct shared *shared)
{
    uint64_t *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct known own, peer;
    struct side s = make(0, memory, &own);
    CHECK(write(out, &own, sizeof own) == sizeof own && read(in, &peer, sizeof peer) == sizeof peer);
    connect_to(&s, &peer);
    while (!shared->ends) {
        *memory = shared->done + 1;
        struct ibv_sge piece = {(uintptr_t)memory, 8, s.mr->lkey};
        struct ibv_send_wr *bad, w = {.sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
        w.wr.rdma.remote_addr = peer.address;
        w.wr.rdma.rkey = peer.key;
        CHECK(ibv_post_send(s.qp, &w, &bad) == 0);
        struct ibv_wc c;
        int n;
        do {
            n = ibv_poll_cq(s.cq, 1, &c);
            shared->polls++;
        } while (n == 0);
        CHECK(n == 1);
        if (c.status != IBV_WC_SUCCESS) {
            printf("writer: %s\n", ibv_wc_status_str(c.status));
            return 1;
        }
        shared->done++;
    }
    return 0;
}

static char *command;

static void order(const char *what)
{
    char text[4096];
    snprintf(text, sizeof text, "env -u LD_PRELOAD %s port small %s --pid %d >/dev/null", command, what, getpid());
    CHECK(system(text) == 0);
}

static void event_is(struct side *s, enum ibv_event_type type)
{
    struct ibv_async_event e;
    CHECK(ibv_get_async_event(s->context, &e) == 0);
    if (e.event_type != type)
        printf("event %s, not %s\n", ibv_event_type_str(e.event_type), ibv_event_type_str(type));
    CHECK(e.event_type == type && e.element.port_num == 1);
    ibv_ack_async_event(&e);
}

static void port_is(struct side *s, enum ibv_port_state state, const char *text)
{
    struct ibv_port_attr p;
    char got[64] = "";
    CHECK(ibv_query_port(s->context, 1, &p) == 0 && p.state == state);
    FILE *file = fopen("/sys/class/infiniband/small/ports/1/state", "r");
    CHECK(file && fgets(got, sizeof got, file) && fclose(file) == 0 && strcmp(got, text) == 0);
}

/* Whether the memory was exchanged for pages that peers map: else nothing is shown here. */
static int is_mapped(const void *memory)
{
    char line[512], start[32];
    int found = 0;
    snprintf(start, sizeof start, "%lx-", (unsigned long)memory);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        found |= strncmp(line, start, strlen(start)) == 0 && strstr(line, "memfd:bellwire-memory");
    fclose(maps);
    return found;
}

/* Whether the peer writes while this process is stopped, for a second at most. */
static int goes_on_without_us(struct shared *shared)
{
    int status;
    pid_t own = getpid(), helper = fork();
    if (helper == 0) {
        char path[64], state = 0;
        snprintf(path, sizeof path, "/proc/%d/stat", own);
        time_t end = time(NULL) + 60;
        while (state != 'T' && time(NULL) < end) {
            FILE *file = fopen(path, "r");
            if (!file || fscanf(file, "%*d %*s %c", &state) != 1)
                state = 0;
            if (file)
                fclose(file);
        }
        uint64_t before = shared->done;
        end = time(NULL) + 2;
        while (shared->done < before + 100 && time(NULL) < end)
            ;
        int well = shared->done >= before + 100;
        kill(own, SIGCONT);
        _exit(well ? 0 : 1);
    }
    raise(SIGSTOP);
    CHECK(waitpid(helper, &status, 0) == helper);
    return status == 0;
}

/* The memory comes to be in use as mapped. The peer asks for the mapping when it first writes, and
   may write much in packets before it has it, on a busy machine. */
static int comes_to_go_on_without_us(struct shared *shared)
{
    for (int tries = 0; tries < 30; tries++) {
        if (goes_on_without_us(shared))
            return 1;
        uint64_t before = shared->done;
        UNTIL(shared->done > before + 100);
    }
    return 0;
}

int main(int count, char **values)
{
    CHECK(count == 2);
    command = values[1];
    alarm(100);
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct shared *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int to[2], from[2];
    CHECK(pipe(to) == 0 && pipe(from) == 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(100);
        return writer(to[0], from[1], shared);
    }
    volatile uint64_t *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *memory = 0;
    struct known own, peer;
    struct side s = make(1, (void *)memory, &own);
    CHECK(is_mapped((void *)memory));
    CHECK(read(from[0], &peer, sizeof peer) == sizeof peer);
    connect_to(&s, &peer);
    CHECK(write(to[1], &own, sizeof own) == sizeof own);
    port_is(&s, IBV_PORT_ACTIVE, "4: ACTIVE\n");
    for (int round = 0; round < 3; round++) {
        uint64_t before = *memory;
        UNTIL(*memory > before + 1000);
        /* In each round: also after the port was down. */
        CHECK(comes_to_go_on_without_us(shared));
        order("down");
        before = *memory;
        event_is(&s, IBV_EVENT_PORT_ERR);
        port_is(&s, IBV_PORT_DOWN, "1: DOWN\n");
        /* The writer runs, and could have written. */
        uint64_t polls = shared->polls;
        UNTIL(shared->polls > polls + POLLS);
        if (*memory != before) {
            printf("round %d: the peer wrote while the port was down\n", round);
            return 1;
        }
        order("up");
        event_is(&s, IBV_EVENT_PORT_ACTIVE);
        port_is(&s, IBV_PORT_ACTIVE, "4: ACTIVE\n");
        UNTIL(*memory > before + 1000);
    }
    order("gid-change");
    event_is(&s, IBV_EVENT_GID_CHANGE);
    shared->ends = 1;
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    printf("well: %lu writes\n", (unsigned long)shared->done);
    return 0;
}
