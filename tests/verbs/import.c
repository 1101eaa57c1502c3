/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Objects taken over by another context of the process, and numbers of shared receive queues.
   Compiles as C and as C++. */
#include "sides.h"
#include <fcntl.h>

static struct ibv_context *refused(int fd, int why)
{
    errno = 0;
    struct ibv_context *c = ibv_import_device(fd);
    if (c || errno != why)
        fprintf(stderr, "descriptor %d: %p, %s\n", fd, (void *)c, strerror(errno));
    CHECK(!c && errno == why);
    return c;
}

/* Domains, regions and device memory of the first context work by the second; a queue pair made by
   the second uses them. */
static void imports(struct side *a, struct side *b)
{
    int fd = dup(b->context->cmd_fd);
    struct ibv_context *second = ibv_import_device(fd);
    MUST(second && second != b->context);
    CHECK(second->cmd_fd == fd && second->device == b->context->device);
    CHECK(!ibv_import_pd(second, b->pd->handle + 1000) && errno == EINVAL);
    struct ibv_pd *pd = ibv_import_pd(second, b->pd->handle), *other = ibv_alloc_pd(second);
    MUST(pd && other);
    CHECK(!ibv_import_mr(pd, b->mr->handle + 1000) && errno == EINVAL);
    CHECK(!ibv_import_mr(other, b->mr->handle) && errno == EINVAL);
    struct ibv_mr *mr = ibv_import_mr(pd, b->mr->handle);
    MUST(mr);
    CHECK(mr->lkey == b->mr->lkey && mr->rkey == b->mr->rkey && mr->pd == pd && mr->context == second);
    struct side c = *b;
    c.context = second;
    c.pd = pd;
    c.mr = mr;
    MUST(c.cq = ibv_create_cq(second, 64, NULL, NULL, 0));
    MUST(c.qp = create(&c, IBV_QPT_RC));
    connect_two(a, &c);
    strcpy(a->memory, "written through an import");
    CHECK(!post(a, IBV_WR_RDMA_WRITE, 26, a->mr->lkey, (uintptr_t)b->memory, mr->rkey, 1));
    ends_well(a, 1, IBV_WC_RDMA_WRITE);
    CHECK(!strcmp(b->memory, a->memory));
    CHECK(!post(&c, IBV_WR_RDMA_READ, 26, mr->lkey, (uintptr_t)a->memory, a->mr->rkey, 2));
    ends_well(&c, 2, IBV_WC_RDMA_READ);

    struct ibv_alloc_dm_attr how;
    memset(&how, 0, sizeof how);
    how.length = 4096;
    struct ibv_dm *dm = ibv_alloc_dm(b->context, &how), *two = ibv_alloc_dm(b->context, &how);
    MUST(dm && two);
    CHECK(dm->handle != two->handle);
    CHECK(!ibv_import_dm(second, 1000000) && errno == EINVAL);
    struct ibv_dm *same = ibv_import_dm(second, dm->handle);
    MUST(same);
    char text[32] = "in device memory", back[32];
    CHECK(!ibv_memcpy_to_dm(dm, 64, text, 32) && !ibv_memcpy_from_dm(back, same, 64, 32) && !memcmp(text, back, 32));
    ibv_unimport_dm(same);
    CHECK(!ibv_free_dm(dm) && !ibv_free_dm(two));
    CHECK(!ibv_import_dm(second, 1) && errno == EINVAL);

    /* The imports are given back; the first context's objects stay. */
    CHECK(!ibv_destroy_qp(c.qp) && !ibv_destroy_cq(c.cq) && !ibv_dealloc_pd(other));
    ibv_unimport_mr(mr);
    ibv_unimport_pd(pd);
    CHECK(!ibv_close_device(second) && fcntl(fd, F_GETFD) == -1);
    connect_two(a, b);
    CHECK(!post(a, IBV_WR_RDMA_WRITE, 4, a->mr->lkey, (uintptr_t)b->memory, b->mr->rkey, 3));
    ends_well(a, 3, IBV_WC_RDMA_WRITE);
}

/* Descriptors of other things than a context of this process are refused. */
static void refusals(struct side *a)
{
    int pipes[2], ready[2];
    MUST(!pipe(pipes) && !pipe(ready));
    refused(-1, EBADF);
    refused(1 << 20, EBADF);
    refused(pipes[0], EINVAL);
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        /* The parent's device is none of the child's. */
        int failed = ibv_import_device(dup(a->context->cmd_fd)) || errno != EOPNOTSUPP;
        struct ibv_context *own = device();
        int told[2] = {own->cmd_fd, failed};
        if (write(pipes[1], told, sizeof told) != sizeof told)
            _exit(1);
        char byte;
        _exit(read(ready[0], &byte, 1) != 1);
    }
    int told[2];
    MUST(read(pipes[0], told, sizeof told) == sizeof told);
    CHECK(!told[1]);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)child, told[0]);
    int theirs = open(path, O_RDWR | O_CLOEXEC);
    if (theirs >= 0) {
        refused(theirs, EOPNOTSUPP);
        close(theirs);
    } else
        CHECK(errno == EACCES || errno == EPERM);
    MUST(write(ready[1], "x", 1) == 1);
    int status;
    MUST(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (int i = 0; i < 2; i++)
        close(pipes[i]), close(ready[i]);
}

/* No two queues of a host have the same number, whichever process has them. */
static void numbers(struct side *a, struct side *b)
{
    struct side *of[4] = {a, b, a, b};
    struct ibv_srq *srqs[4];
    uint32_t number[4];
    struct ibv_srq_init_attr how;
    memset(&how, 0, sizeof how);
    how.attr.max_wr = how.attr.max_sge = 1;
    for (int i = 0; i < 4; i++) {
        MUST(srqs[i] = ibv_create_srq(of[i]->pd, &how));
        CHECK(!ibv_get_srq_num(srqs[i], &number[i]) && number[i] != 0 && number[i] < 1 << 24);
        for (int k = 0; k < i; k++)
            CHECK(number[k] != number[i]);
    }
    for (int i = 0; i < 4; i++)
        CHECK(!ibv_destroy_srq(srqs[i]));
    /* That of a queue that has ended is not the next one's. */
    MUST(srqs[0] = ibv_create_srq(a->pd, &how));
    uint32_t again;
    CHECK(!ibv_get_srq_num(srqs[0], &again) && again != number[0] && again != number[2]);
    CHECK(!ibv_destroy_srq(srqs[0]));
}

int main(void)
{
    struct side a, b;
    open_side(&a, device());
    open_side(&b, device());
    imports(&a, &b);
    refusals(&a);
    numbers(&a, &b);
    printf("%d failures\n", failures);
    return failures != 0;
}
