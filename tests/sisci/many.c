/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * many P S: P processes with S segments each. Each connects to one segment of every other
 * process, and stores into it.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "sisci_api.h"

static sci_error_t e;

static int run(int me, int processes, int segments) {
    sci_desc_t sd;
    unsigned int node;
    sci_map_t map;
    SCIInitialize(0, &e);
    SCIOpen(&sd, 0, &e);
    SCIGetLocalNodeId(0, &node, 0, &e);
    if (e != SCI_ERR_OK) return 1;
    sci_local_segment_t own = NULL;
    for (int s = 0; s < segments; s++) {
        SCICreateSegment(sd, &own, (unsigned int)(10000 + me * segments + s), 4096, NULL, NULL, 0, &e);
        if (e != SCI_ERR_OK) return 2;
        SCIPrepareSegment(own, 0, 0, &e);
        SCISetSegmentAvailable(own, 0, 0, &e);
        if (e != SCI_ERR_OK) return 3;
    }
    /* All store into the last segment of each. */
    volatile int *mine = SCIMapLocalSegment(own, &map, 0, 4096, NULL, 0, &e);
    for (int k = 0; k < processes; k++) {
        int other = (me + k) % processes;
        sci_remote_segment_t r;
        SCIConnectSegment(sd, &r, node, (unsigned int)(10000 + other * segments + segments - 1), 0, NULL, NULL, SCI_INFINITE_TIMEOUT, 0, &e);
        if (e != SCI_ERR_OK) {
            printf("%d to %d: %s\n", me, other, SCIGetErrorString(e));
            return 4;
        }
        volatile int *at = SCIMapRemoteSegment(r, &map, 0, 4096, NULL, 0, &e);
        if (!at) return 5;
        at[me] = me + 1;
        SCIUnmapSegment(map, 0, &e);
        SCIDisconnectSegment(r, 0, &e);
        if (e != SCI_ERR_OK) return 6;
    }
    for (int k = 0; k < processes; k++)
        while (mine[k] != k + 1) usleep(1000);
    return 0;
}

int main(int argc, char **argv) {
    int processes = argc > 1 ? atoi(argv[1]) : 200, segments = argc > 2 ? atoi(argv[2]) : 5;
    check_group("many");
    for (int p = 0; p < processes; p++) {
        if (fork() == 0) _exit(run(p, processes, segments));
    }
    for (int p = 0; p < processes; p++) {
        int status;
        wait(&status);
        CHECK_SAME(status, 0);
    }
    return check_end();
}
