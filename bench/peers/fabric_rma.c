/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libfabric's remote memory between two processes over its provider shm, for `bellwire gas --compare`: read and write are fi_read and fi_write, each until its completion; get and put 64 of them, then until
 * all are complete. The second process polls its queue, as the provider needs for some sizes.
 *
 * Usage: fabric_rma CPU0,CPU1 BUDGET_MS SIZE...
 */
#include "rma.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* What the two processes tell each other. */
static volatile struct told {
    volatile size_t length;
    char name[256];
    volatile uint64_t address, key;
    volatile int is_there, is_over;
} *told;

static struct fid_ep *endpoint;
static struct fid_cq *queue;
static fi_addr_t peer;
static uint64_t there, key;
static char *here;
static void *descriptor;
static long under_way;

#define TRY(call)                                                                                 \
    do {                                                                                          \
        long code_ = (call);                                                                      \
        if (code_ < 0) {                                                                          \
            fprintf(stderr, "fabric_rma: error: " #call ": %s\n", fi_strerror((int)-code_));      \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

static void complete(void) {
    struct fi_cq_entry entries[RMA_RUN];
    const ssize_t n = fi_cq_read(queue, entries, RMA_RUN);
    if (n > 0)
        under_way -= n;
    else if (n != -FI_EAGAIN)
        TRY(n);
}

static void each(int is_get, size_t bytes, long count, long run) {
    for (long i = 0; i < count; i++) {
        const size_t at = rma_place(bytes, i);
        ssize_t code;
        do {
            code = is_get ? fi_read(endpoint, here + at, bytes, descriptor, peer, there + at, key, NULL) : fi_write(endpoint, here + at, bytes, descriptor, peer, there + at, key, NULL);
            if (code == -FI_EAGAIN) complete();
        } while (code == -FI_EAGAIN);
        TRY(code);
        under_way++;
        if ((i + 1) % run == 0) while (under_way > 0) complete();
    }
    while (under_way > 0) complete();
}
static void read_each(size_t bytes, long count) { each(1, bytes, count, 1); }
static void write_each(size_t bytes, long count) { each(0, bytes, count, 1); }
static void get_run(size_t bytes, long count) { each(1, bytes, count, RMA_RUN); }
static void put_run(size_t bytes, long count) { each(0, bytes, count, RMA_RUN); }

static void await(volatile int *flag) {
    while (!*flag) usleep(100);
}

int main(int argc, char **argv) {
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *table;
    struct fid_mr *region;
    struct fi_cq_attr of_queue = {.format = FI_CQ_FORMAT_CONTEXT, .size = 1024};
    struct fi_av_attr of_table = {.type = FI_AV_UNSPEC};
    char *memory = aligned_alloc(4096, 2 * RMA_BYTES_MAX);
    int is_target;
    told = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc < 4 || memory == NULL || told == MAP_FAILED) return 2;
    const pid_t child = fork();
    is_target = child == 0;
    if (is_target) prctl(PR_SET_PDEATHSIG, SIGKILL);
    rma_pin(argv[1], is_target);
    memset(memory, 1, 2 * RMA_BYTES_MAX);
    hints->fabric_attr->prov_name = strdup("shm");
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_RMA | FI_MSG;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL;
    TRY(fi_getinfo(FI_VERSION(1, 14), NULL, NULL, 0, hints, &info));
    TRY(fi_fabric(info->fabric_attr, &fabric, NULL));
    TRY(fi_domain(fabric, info, &domain, NULL));
    TRY(fi_cq_open(domain, &of_queue, &queue, NULL));
    TRY(fi_av_open(domain, &of_table, &table, NULL));
    TRY(fi_endpoint(domain, info, &endpoint, NULL));
    TRY(fi_ep_bind(endpoint, &queue->fid, FI_TRANSMIT | FI_RECV));
    TRY(fi_ep_bind(endpoint, &table->fid, 0));
    TRY(fi_enable(endpoint));
    TRY(fi_mr_reg(domain, memory, 2 * RMA_BYTES_MAX, FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, is_target + 1, 0, &region, NULL));
    if (is_target) {
        size_t length = sizeof told->name;
        TRY(fi_getname(&endpoint->fid, (void *)told->name, &length));
        told->address = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)memory : 0;
        told->key = fi_mr_key(region);
        told->is_there = 1;
        while (!told->is_over) {
            struct fi_cq_entry entry;
            (void)fi_cq_read(queue, &entry, 1);
        }
        _exit(0);
    }
    await(&told->is_there);
    if (fi_av_insert(table, (void *)told->name, 1, &peer, 0, NULL) != 1) return 1;
    there = told->address;
    key = told->key;
    here = memory + RMA_BYTES_MAX;
    descriptor = fi_mr_desc(region);
    rma_tell_all(argv, read_each, write_each, get_run, put_run);
    told->is_over = 1;
    waitpid(child, NULL, 0);
    fi_close(&endpoint->fid);
    return 0;
}
