/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The start-up layer that AM-II programs of the AMX family (AMUDP, AMMPI, and the tests that came with them) expect, on Bellwire's own: their sources compile as they are, with this directory before
 * all others. Everything of AM-II itself is am.h's. */
#ifndef AMMPI_H
#define AMMPI_H

#include <am.h>

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef am_handler_fn_t amx_handler_fn_t;
typedef am_statistics_t amx_stats_t;

__attribute__((unused)) static int AMX_VerboseErrors;
__attribute__((unused)) static const amx_stats_t AMX_initial_stats;

#define AMX_GetEndpointStatistics(endpoint, statistics) AMX_GetStatistics((endpoint), (statistics))

static inline int AMX_AggregateStatistics(amx_stats_t *sum, const amx_stats_t *statistics) {
    AMX_AddStatistics(sum, statistics);
    return AM_OK;
}

static inline const char *AMX_DumpStatistics(FILE *file, const amx_stats_t *statistics, int is_global) {
    static const char *const kinds[] = {"short", "medium", "bulk", "gets"};
    for (int kind = 0; kind < 4; kind++) {
        fprintf(file, "%s %s: %" PRIu64 " requests sent, %" PRIu64 " received, %" PRIu64 " replies sent, %" PRIu64 " received\n", is_global ? "all," : "one,", kinds[kind],
                statistics->requests_sent[kind], statistics->requests_received[kind], statistics->replies_sent[kind], statistics->replies_received[kind]);
    }
    return "";
}

__attribute__((noreturn, format(printf, 1, 2))) static inline void AMX_FatalErr(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    abort();
}

/* There is no master: every process is a worker, started by `bellwire run` or another launcher. */
#define AMX_SPMDIsWorker(arguments) 1

static inline int AMX_SPMDStartup(int *argc, char ***argv, int processes, uint64_t *network, eb_t *bundle, ep_t *endpoint) {
    (void)argc, (void)argv, (void)processes;
    if (network != NULL) *network = 0;
    return AMX_Start(bundle, endpoint);
}

static inline int AMX_SPMDMyProc(void) { return AMX_Rank(); }
static inline int AMX_SPMDNumProcs(void) { return AMX_Size(); }
static inline int AMX_SPMDBarrier(void) { return AMX_Barrier(); }
static inline int AMX_SPMDAllGather(const void *block, void *all, size_t nbytes) { return AMX_AllGather(block, nbytes, all); }
static inline const char *AMX_SPMDgetenvMaster(const char *name) { return getenv(name); }
static inline int AMX_SPMDSetExitCallback(void (*function)(int)) { return function == NULL ? AM_OK : AM_ERR_RESOURCE; }
static inline void AMX_SPMDkillmyprocess(int signal) { (void)signal, kill(getpid(), SIGKILL); }

/* A proper end is everybody's; another ends the job. */
static inline int AMX_SPMDExit(int status) {
    fflush(NULL);
    if (status == 0 && AMX_Finish() == AM_OK) exit(0);
    AMX_Exit(status == 0 ? 1 : status & 0xff);
}

#endif
