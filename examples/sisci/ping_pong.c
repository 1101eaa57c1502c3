/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two processes store a number into each other's memory, and spin on their own until it arrives.
 * The flush sends a store to another host; within a host it is there already.
 */
#include "common.h"

#include <sched.h>
#include <time.h>

int main(int argc, char **argv) {
    start(argc, argv);
    const int rounds = argc > 3 ? atoi(argv[3]) : 10000;
    sci_local_segment_t mine = offer(1000u + (unsigned int)side, 4096);
    sci_remote_segment_t theirs = connect_to(1001u - (unsigned int)side);
    sci_map_t map, remote_map;
    sci_sequence_t sequence;
    volatile int *in, *out;
    CALL(in = SCIMapLocalSegment(mine, &map, 0, 4096, NULL, 0, &error));
    CALL(out = SCIMapRemoteSegment(theirs, &remote_map, 0, 4096, NULL, 0, &error));
    CALL(SCICreateMapSequence(remote_map, &sequence, 0, &error));

    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int n = 1; n <= rounds; n++) {
        if (side == 0) {
            *out = n;
            SCIFlush(sequence, 0);
        }
        for (int spins = 0; *in != n; spins++)
            if (spins % 1000 == 999) sched_yield();
        if (side == 1) {
            *out = n;
            SCIFlush(sequence, 0);
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double ns = (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
    if (side == 0) printf("%d round trips, one way in %.0f ns\n", rounds, ns / rounds / 2);

    CALL(SCIRemoveSequence(sequence, 0, &error));
    CALL(SCIUnmapSegment(remote_map, 0, &error));
    CALL(SCIDisconnectSegment(theirs, 0, &error));
    CALL(SCIUnmapSegment(map, 0, &error));
    /* Busy until the other side has left. */
    do SCIRemoveSegment(mine, 0, &error);
    while (error == SCI_ERR_BUSY);
    CALL(SCIClose(device, 0, &error));
    SCITerminate();
    return 0;
}
