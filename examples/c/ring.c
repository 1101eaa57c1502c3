/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ring: a job of many processes pass a token from NIC to NIC, all the way round.
 *
 *   bellwire run -n 4 ring [--rounds 1000]        or mpiexec, mpirun, srun; alone it has nobody to pass it to
 *
 * Each process says at which name its NIC can be reached; an all-gather gives everybody's to everybody; then each connects to its right neighbour.
 */
#include "common.h"

#include <arpa/inet.h>
#include <bellwire_job.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_MS = 20000 };

/* What a process tells the others: NAME@HOST, where it waits for its left neighbour. */
typedef struct {
    char name[96];
} Place;

/* What goes round. */
typedef struct {
    VIP_DESCRIPTOR descriptor;
    uint64_t hops;
} Token;

static void job(int result) {
    if (result != BW_JOB_OK) fail("job: %s", bw_job_error());
}

static Place own_place(VIP_NIC_HANDLE nic, int rank) {
    Place place;
    VIP_NIC_ATTRIBUTES attributes;
    char host[INET6_ADDRSTRLEN];
    MUST(VipQueryNic(nic, &attributes));
    if (inet_ntop(attributes.NicAddressLen == 16 ? AF_INET6 : AF_INET, attributes.LocalNicAddress, host, sizeof host) == NULL) fail("this NIC has no address");
    memset(&place, 0, sizeof place);
    /* The job's name makes it another than that of any other job of this host; the end of it is what differs. */
    const char *id = bw_job_id();
    size_t length = strlen(id);
    snprintf(place.name, sizeof place.name, "ring-%d-%s@%s", rank, id + (length > 32 ? length - 32 : 0), host);
    return place;
}

/* The part before the @. */
static void name_of(const Place *place, char *name, size_t size) {
    snprintf(name, size, "%.*s", (int)strcspn(place->name, "@"), place->name);
}

static void send_on(VIP_VI_HANDLE right, const Memory *memory, Token *token) {
    VIP_DESCRIPTOR *done;
    describe(&token->descriptor, memory, &token->hops, sizeof token->hops);
    MUST(VipPostSend(right, &token->descriptor, memory->handle));
    MUST(VipSendWait(right, VIP_INFINITE, &done));
}

static const char *const words[] = {"--rounds=", NULL};

int main(int argc, char **argv) {
    long rounds = option_number(argc, argv, "--rounds", 1000), round;
    VIP_NIC_HANDLE nic;
    VIP_DESCRIPTOR *done;
    Memory memory;
    check_options(argc, argv, words);
    job(bw_job_join());
    int rank = bw_job_rank(), size = bw_job_size();
    if (size == 1) {
        printf("a ring of one: start it with bellwire run -n 4\n");
        return 0;
    }
    MUST(VipOpenNic("nic0", &nic));
    memory_open(&memory, nic, 4096);
    Token *in = (Token *)memory.bytes, *out = (Token *)(memory.bytes + 1024); /* descriptors begin at a multiple of 64 bytes */
    VIP_VI_HANDLE left = vi_open(&memory, NULL, NULL), right = vi_open(&memory, NULL, NULL);

    Place mine = own_place(nic, rank), *all = malloc(sizeof(Place) * (size_t)size);
    if (all == NULL) fail("no memory");
    job(bw_job_allgather(&mine, sizeof mine, all));

    /* The receive is there before the sender can be. */
    describe(&in->descriptor, &memory, &in->hops, sizeof in->hops);
    MUST(VipPostRecv(left, &in->descriptor, memory.handle));
    char name[sizeof mine.name];
    name_of(&mine, name, sizeof name);
    const char *neighbour = all[(rank + 1) % size].name;
    /* Rank 0 begins, and is connected to last. */
    if (rank == 0) vi_dial(nic, neighbour, WAIT_MS, right);
    if (!vi_accept(nic, name, WAIT_MS, left)) fail("rank %d: nobody came from the left", rank);
    if (rank != 0) vi_dial(nic, neighbour, WAIT_MS, right);
    job(bw_job_barrier());

    double start = seconds();
    out->hops = 0;
    for (round = 0; round < rounds; round++) {
        if (rank == 0) send_on(right, &memory, out);
        MUST(VipRecvWait(left, VIP_INFINITE, &done));
        out->hops = in->hops + 1;
        describe(&in->descriptor, &memory, &in->hops, sizeof in->hops);
        MUST(VipPostRecv(left, &in->descriptor, memory.handle));
        if (rank != 0) send_on(right, &memory, out);
    }
    double time = seconds() - start;
    if (rank == 0) {
        if (out->hops != (uint64_t)rounds * (uint64_t)size) fail("the token made %llu hops", (unsigned long long)out->hops);
        printf("%ld rounds by %d processes: %.2f us a hop\n", rounds, size, time / (double)(rounds * size) * 1e6);
    }
    /* Nobody hangs up while others still wait for the token. */
    job(bw_job_barrier());
    vi_close(left);
    vi_close(right);
    memory_close(&memory);
    MUST(VipCloseNic(nic));
    free(all);
    return 0;
}
