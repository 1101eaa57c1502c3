/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * bellwire_job.h: start-up of programs that run as many equal processes (SPMD).
 *
 * The same program runs under bellwire run, MPICH's mpiexec and srun --mpi=pmi2 (PMI-1), Open MPI's mpirun and srun --mpi=pmix (PMIx; libpmix.so.2 is loaded only then), and alone
 * as a job of one. Link with -lbellwire_job (pkg-config bellwire-job).
 *
 * All functions but the plain questions return BW_JOB_OK or one of the codes below; bw_job_error() has the reason as text. They may be called from any thread, one at a time: a second
 * caller waits. fence, barrier and allgather are collective: every process of the job calls them, in the same order.
 *
 * Blocks are bytes that nobody interprets, at most BW_JOB_BLOCK_MAX of them. They are for start-up, such as addresses and keys: each stays with the launcher until the job ends.
 */
#ifndef BELLWIRE_JOB_H
#define BELLWIRE_JOB_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Longest block, bytes; longest key, characters. */
#define BW_JOB_BLOCK_MAX 65536
#define BW_JOB_KEY_MAX 24

#define BW_JOB_OK 0
#define BW_JOB_ERR_ARGUMENT 1    /* a pointer, key, rank or length that may not be, or a call at the wrong moment */
#define BW_JOB_ERR_NOT_JOINED 2  /* bw_job_join has not been called */
#define BW_JOB_ERR_ENVIRONMENT 3 /* the launcher's variables or its library cannot be used */
#define BW_JOB_ERR_LAUNCHER 4    /* the launcher does not keep to its protocol, or refuses */
#define BW_JOB_ERR_TIMEOUT 5     /* it did not answer in time (BELLWIRE_JOB_TIMEOUT_S) */
#define BW_JOB_ERR_GONE 6        /* it has gone: the job is ending */
#define BW_JOB_ERR_NOT_FOUND 7   /* nothing was put under this key */
#define BW_JOB_ERR_SPACE 8       /* the buffer is too short */
#define BW_JOB_ERR_SYSTEM 9      /* a system call failed */

/* Joins the job that this process was started in. May be called again, by other libraries of the process; each call is undone by one of bw_job_leave, and a process that exits has left. */
int bw_job_join(void);
int bw_job_leave(void);

/* This process's number from 0, and how many there are; the same among the processes of this host. -1 before bw_job_join. */
int bw_job_rank(void);
int bw_job_size(void);
int bw_job_local_rank(void);
int bw_job_local_size(void);

/* The launcher's name for the job, the same in all its processes; in what way it was started: "alone", "pmi" or "pmix". NULL before bw_job_join; valid until the process ends. */
const char *bw_job_id(void);
const char *bw_job_launcher(void);

/* Puts a block under a key (1 to BW_JOB_KEY_MAX letters, digits, '.', '-', '_'), once for each key. Others can get it after the next fence. */
int bw_job_put(const char *key, const void *block, size_t bytes);
/* Waits until all processes have come here. */
int bw_job_fence(void);
/* The block that a process put before the last fence: up to `capacity` bytes of it into `buffer`, its whole length into *bytes. BW_JOB_ERR_SPACE if it is longer. */
int bw_job_get(int rank, const char *key, void *buffer, size_t capacity, size_t *bytes);

/* Everybody's block to everybody. All blocks have the same length, and `all` has room for bw_job_size() of them, in order of rank. BW_JOB_ERR_ARGUMENT if lengths differ. */
int bw_job_allgather(const void *block, size_t bytes, void *all);
/* The same for blocks of different lengths: one after the other into `all` (BW_JOB_ERR_SPACE if `capacity` is too small, with the lengths known), lengths into `lengths`, of bw_job_size(). */
int bw_job_allgatherv(const void *block, size_t bytes, void *all, size_t capacity, size_t *lengths);

/* Waits until all processes have come here. */
int bw_job_barrier(void);
/* The same in two halves, for who must do something meanwhile: come, then ask until *done is not 0. No other call but bw_job_exit in between. */
int bw_job_barrier_start(void);
int bw_job_barrier_done(int *done);

/* Ends the whole job with an exit status, 0 to 255, and this process. */
#if defined(__GNUC__)
__attribute__((noreturn))
#endif
void bw_job_exit(int status);

/* What went wrong in this thread's last call that failed; "" if none has. Valid until the thread's next call. */
const char *bw_job_error(void);

#ifdef __cplusplus
}
#endif

#endif
