/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a program has come to, as a number of all bytes and of whose they are: the same by every way, while times are not. scripts/gas-results.sh compares what programs print. */
#ifndef RESULT_H
#define RESULT_H

/* Collective: `bytes` bytes at `data` of each process. Process 0 has the number. */
static unsigned long result_of(const void *data, long bytes) {
    unsigned long sum = 0xcbf29ce484222325UL;
    long i;
    for (i = 0; i < bytes; i++) sum = (sum ^ ((const unsigned char *)data)[i]) * 0x100000001b3UL;
    return all_reduce_to_one_add_ul(sum * (2 * MYPROC + 1));
}

#endif
