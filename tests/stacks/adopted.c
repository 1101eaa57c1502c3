/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Memory of a program with threads becomes the engine's when it is registered, in place, whoever
   the user is: then peers write to it without a copy. Threads that use it meanwhile, one of them
   by system calls, and one that sleeps in epoll_wait, notice nothing. */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 1 << 20, REGIONS = 8 };
static unsigned char *memory;
static volatile int is_over;
static int wakes;

#define MUST(what) \
    do { \
        if (!(what)) { \
            printf("line %d: %s (errno %d)\n", __LINE__, #what, errno); \
            exit(1); \
        } \
    } while (0)

static void *counts(void *own) {
    uint64_t count = 0;
    for (; !is_over; count++)
        for (size_t at = (size_t)own * 64; at < BYTES; at += 4096) {
            volatile uint64_t *word = (volatile uint64_t *)(memory + at);
            MUST(*word == count);
            *word = count + 1;
        }
    return NULL;
}
static void *reads(void *own) {
    int zero = open("/dev/zero", O_RDONLY);
    (void)own;
    while (!is_over)
        for (size_t at = 512; at < BYTES; at += 4096)
            MUST(read(zero, memory + at, 64) == 64);
    return NULL;
}
static void *sleeps(void *own) {
    struct epoll_event event = {.events = EPOLLIN};
    int epoll = epoll_create1(0);
    (void)own;
    MUST(!epoll_ctl(epoll, EPOLL_CTL_ADD, wakes, &event));
    MUST(epoll_wait(epoll, &event, 1, -1) == 1);
    return NULL;
}
static int is_adopted(const void *at) {
    char line[400];
    FILE *maps = fopen("/proc/self/maps", "r");
    int found = 0;
    MUST(maps);
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char rights[5];
        if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) == 3 && from <= (uintptr_t)at && (uintptr_t)at < to)
            found = !strcmp(rights, "rw-s") && strstr(line, "/memfd:bellwire-memory");
    }
    fclose(maps);
    return found;
}

int main(void) {
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context;
    struct ibv_pd *pd;
    pthread_t threads[5];
    int adopted = 0;
    MUST(list && list[0] && (context = ibv_open_device(list[0])) && (pd = ibv_alloc_pd(context)));
    MUST((wakes = eventfd(0, 0)) >= 0);
    for (int i = 0; i < REGIONS; i++) {
        uint64_t one = 1;
        is_over = 0;
        MUST((memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED);
        for (long t = 0; t < 3; t++)
            MUST(!pthread_create(&threads[t], NULL, counts, (void *)t));
        MUST(!pthread_create(&threads[3], NULL, reads, NULL) && !pthread_create(&threads[4], NULL, sleeps, NULL));
        usleep(2000);
        struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        MUST(mr);
        adopted += is_adopted(memory);
        usleep(2000);
        is_over = 1;
        MUST(write(wakes, &one, 8) == 8);
        for (int t = 0; t < 5; t++)
            MUST(!pthread_join(threads[t], NULL));
        MUST(read(wakes, &one, 8) == 8 && !ibv_dereg_mr(mr) && !munmap(memory, BYTES));
    }
    printf("%d of %d regions are the engine's\n", adopted, REGIONS);
    return 0;
}
