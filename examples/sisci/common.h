/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the examples have in common: start, errors, a segment to offer, one to connect to. */
#ifndef COMMON_H
#define COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <sisci_api.h>

static sci_error_t error;

/* Makes a call, and ends the program if it fails. */
#define CALL(call)                                                                  \
    do {                                                                            \
        call;                                                                       \
        if (error != SCI_ERR_OK) {                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, SCIGetErrorString(error)); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

/* The side, 0 or 1, and the other side's node: this one, unless the command line says which. */
static int side;
static unsigned int other_node;
static sci_desc_t device;

static inline void start(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s 0|1 [node of the other side]\nStart it twice: as 0 and as 1.\n", argv[0]);
        exit(2);
    }
    side = atoi(argv[1]) != 0;
    CALL(SCIInitialize(0, &error));
    CALL(SCIOpen(&device, 0, &error));
    CALL(SCIGetLocalNodeId(0, &other_node, 0, &error));
    if (argc > 2) other_node = (unsigned int)strtoul(argv[2], NULL, 10);
}

static inline sci_local_segment_t offer(unsigned int id, size_t size) {
    sci_local_segment_t segment;
    CALL(SCICreateSegment(device, &segment, id, size, NULL, NULL, 0, &error));
    CALL(SCIPrepareSegment(segment, 0, 0, &error));
    CALL(SCISetSegmentAvailable(segment, 0, 0, &error));
    return segment;
}

/* Waits for the other side to offer it. */
static inline sci_remote_segment_t connect_to(unsigned int id) {
    sci_remote_segment_t segment;
    CALL(SCIConnectSegment(device, &segment, other_node, id, 0, NULL, NULL, SCI_INFINITE_TIMEOUT, 0, &error));
    return segment;
}

#endif
