/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Side 0 computes blocks, and sends each by DMA while it computes the next one. Side 1 checks them.
 * Two buffers on each side; an interrupt says that a block has come, another one that its buffer is
 * free again.
 */
#include "common.h"

#include <stdint.h>

enum { BLOCK = 1 << 20, BLOCKS = 32, WORDS = BLOCK / 8, FULL = 20, FREE = 21 };

static uint64_t value(uint64_t block, uint64_t word) {
    return block * 1000003 + word * word;
}

static void sender(void) {
    sci_local_segment_t buffers;
    sci_map_t map;
    sci_dma_queue_t queue;
    sci_local_interrupt_t is_free;
    sci_remote_interrupt_t is_full;
    unsigned int number = FREE;
    uint64_t *at;
    CALL(SCICreateSegment(device, &buffers, 0, 2 * BLOCK, NULL, NULL, SCI_FLAG_PRIVATE, &error));
    CALL(SCICreateInterrupt(device, &is_free, 0, &number, NULL, NULL, SCI_FLAG_FIXED_INTNO | SCI_FLAG_COUNTING_INT, &error));
    sci_remote_segment_t theirs = connect_to(1010);
    CALL(SCIConnectInterrupt(device, &is_full, other_node, 0, FULL, SCI_INFINITE_TIMEOUT, 0, &error));
    CALL(at = SCIMapLocalSegment(buffers, &map, 0, 2 * BLOCK, NULL, 0, &error));
    CALL(SCICreateDMAQueue(device, &queue, 0, 1, 0, &error));
    for (uint64_t block = 0; block <= BLOCKS; block++) {
        size_t offset = block % 2 * BLOCK;
        if (block < BLOCKS)
            for (uint64_t word = 0; word < WORDS; word++) at[offset / 8 + word] = value(block, word);
        if (block > 0) {
            /* The block before has been copied meanwhile. */
            if (SCIWaitForDMAQueue(queue, SCI_INFINITE_TIMEOUT, 0, &error) != SCI_DMAQUEUE_DONE) exit(1);
            CALL(SCITriggerInterrupt(is_full, 0, &error));
        }
        if (block < BLOCKS) {
            if (block >= 2) CALL(SCIWaitForInterrupt(is_free, SCI_INFINITE_TIMEOUT, 0, &error));
            CALL(SCIStartDmaTransfer(queue, buffers, theirs, offset, BLOCK, offset, NULL, NULL, 0, &error));
        }
    }
    printf("sent %d blocks of %d bytes\n", BLOCKS, BLOCK);
}

static void receiver(void) {
    sci_map_t map;
    sci_local_interrupt_t is_full;
    sci_remote_interrupt_t is_free;
    unsigned int number = FULL;
    volatile uint64_t *at;
    CALL(SCICreateInterrupt(device, &is_full, 0, &number, NULL, NULL, SCI_FLAG_FIXED_INTNO | SCI_FLAG_COUNTING_INT, &error));
    sci_local_segment_t mine = offer(1010, 2 * BLOCK);
    CALL(SCIConnectInterrupt(device, &is_free, other_node, 0, FREE, SCI_INFINITE_TIMEOUT, 0, &error));
    CALL(at = SCIMapLocalSegment(mine, &map, 0, 2 * BLOCK, NULL, 0, &error));
    for (uint64_t block = 0; block < BLOCKS; block++) {
        CALL(SCIWaitForInterrupt(is_full, SCI_INFINITE_TIMEOUT, 0, &error));
        for (uint64_t word = 0; word < WORDS; word++) {
            if (at[block % 2 * WORDS + word] != value(block, word)) {
                fprintf(stderr, "block %d is wrong at word %d\n", (int)block, (int)word);
                exit(1);
            }
        }
        SCITriggerInterrupt(is_free, 0, &error); /* the sender may have left after the last one */
    }
    printf("received %d blocks, all right\n", BLOCKS);
}

int main(int argc, char **argv) {
    start(argc, argv);
    if (side == 0) sender();
    else receiver();
    return 0;
}
