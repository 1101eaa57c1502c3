/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Every rule of protection tried from the wrong side: nothing moves, the right status on the right side, the right error at the target. Run once
 * with BELLWIRE_MODE=mapped and once with BELLWIRE_MODE=guarded; here each case also runs with memory of the engine and of the program.
 */
#include <stdlib.h>
#include <string.h>

#include "ends.h"

static VIP_NIC_HANDLE nic_c, nic_s; /* initiator, target */
static Errors target_errors;

enum {
    FENCE = 256,     /* bytes left and right of the region that must not change */
    REGION = 8192,   /* the region that the peer may reach */
    FIRST = 65536    /* where it begins in the target's data */
};

/* A connected pair whose target offers one region of its own: data + FIRST, REGION bytes. */
typedef struct {
    End c, s;
    VIP_MEM_HANDLE region;
    VIP_MEM_ATTRIBUTES rights;
} Pair;

static unsigned char *region_of(Pair *p) {
    return p->s.data + FIRST;
}

static void pair_open(Pair *p, const EndOptions *client, const EndOptions *server) {
    memset(p, 0, sizeof *p);
    end_create(&p->c, nic_c, client);
    end_create(&p->s, nic_s, server);
    /* The whole block is registered too, with rights; take them away, so that the region alone counts. */
    p->rights.Ptag = p->s.tag;
    CHECK_RETURN(VipSetMemAttributes(nic_s, p->s.block, p->s.memory, &p->rights), VIP_SUCCESS);
    p->rights.EnableRdmaWrite = p->rights.EnableRdmaRead = VIP_TRUE;
    CHECK_RETURN(VipRegisterMem(nic_s, region_of(p), REGION, &p->rights, &p->region), VIP_SUCCESS);
    CHECK_RETURN(ends_connect(&p->c, &p->s, NULL), VIP_SUCCESS);
    pattern_fill(p->s.data, END_DATA_BYTES, 1);
    pattern_fill(p->c.data, END_DATA_BYTES, 2);
    errors_watch(nic_s, &target_errors);
}

static void pair_close(Pair *p) {
    CHECK_RETURN(VipDisconnect(p->c.vi), VIP_SUCCESS);
    CHECK_RETURN(VipDisconnect(p->s.vi), VIP_SUCCESS);
    if (p->region != 0) CHECK_RETURN(VipDeregisterMem(nic_s, region_of(p), p->region), VIP_SUCCESS);
    end_destroy(&p->c);
    end_destroy(&p->s);
}

/*
 * An RDMA operation that must be refused: `remote` .. + bytes with `handle`. Nothing may change at either side, the initiator's descriptor must say
 * so (a write at Reliable Delivery may be done already for the initiator), both connections break, the target's handler hears `code`.
 */
static void refused(Pair *p, int operation, void *remote, VIP_UINT32 bytes, VIP_MEM_HANDLE handle) {
    int write = operation == VIP_CONTROL_OP_RDMAWRITE;
    int told = !write || p->c.attributes.ReliabilityLevel == VIP_SERVICE_RELIABLE_RECEPTION;
    VIP_DESCRIPTOR *d = work_rdma(&p->c, 0, operation, 0, bytes, remote, handle), *got = NULL;
    VIP_RETURN result;
    post_send(&p->c, d);
    result = VipSendWait(p->c.vi, WAIT_MS, &got);
    CHECK(got == d);
    if (told) {
        CHECK_RETURN(result, VIP_DESCRIPTOR_ERROR);
        CHECK_SAME(d->CS.Status & VIP_STATUS_ERROR_MASK, VIP_STATUS_RDMA_PROT_ERROR);
    } else {
        CHECK(result == VIP_SUCCESS || (result == VIP_DESCRIPTOR_ERROR && (d->CS.Status & VIP_STATUS_RDMA_PROT_ERROR) != 0));
    }
    CHECK_SAME(d->CS.Status & VIP_STATUS_OP_MASK, write ? VIP_STATUS_OP_RDMA_WRITE : VIP_STATUS_OP_RDMA_READ);
    CHECK(errors_wait(&target_errors, write ? VIP_ERROR_RDMAW_PROT : VIP_ERROR_RDMAR_PROT, WAIT_MS));
    CHECK(target_errors.last.NicHandle == nic_s);
    expect_state(&p->c, VIP_STATE_ERROR);
    expect_state(&p->s, VIP_STATE_ERROR);
    CHECK(pattern_ok(p->s.data, END_DATA_BYTES, 1));
    CHECK(pattern_ok(p->c.data, END_DATA_BYTES, 2));
}

/* What is allowed must work: the first and last byte of the region, and all of it. */
static void allowed(Pair *p) {
    unsigned char *region = region_of(p);
    post_send(&p->c, work_rdma(&p->c, 0, VIP_CONTROL_OP_RDMAWRITE, 0, REGION, region, p->region));
    expect_send(&p->c, &p->c.descriptors[0], 0);
    post_send(&p->c, work_rdma(&p->c, 1, VIP_CONTROL_OP_RDMAREAD, 100000, REGION, region, p->region));
    expect_send(&p->c, &p->c.descriptors[1], 0);
    CHECK(memcmp(p->c.data + 100000, p->c.data, REGION) == 0);
    CHECK(memcmp(region, p->c.data, REGION) == 0);
    post_send(&p->c, work_rdma(&p->c, 2, VIP_CONTROL_OP_RDMAWRITE, 5, 1, region + REGION - 1, p->region));
    expect_send(&p->c, &p->c.descriptors[2], 0);
    post_send(&p->c, work_rdma(&p->c, 3, VIP_CONTROL_OP_RDMAREAD, 120000, 1, region + REGION - 1, p->region));
    expect_send(&p->c, &p->c.descriptors[3], 0);
    CHECK_SAME(p->c.data[120000], p->c.data[5]);
    CHECK_SAME(p->s.data[FIRST - 1], (unsigned char)((FIRST - 1) * 31 + ((FIRST - 1) >> 8) * 7 + 101 + 1));
    pattern_fill(p->s.data, END_DATA_BYTES, 1);
    pattern_fill(p->c.data, END_DATA_BYTES, 2);
}

typedef struct {
    EndOptions client, server;
} Kind;

static void bounds(const Kind *k) {
    static const struct {
        long before;
        VIP_UINT32 bytes;
    } out[] = {
        {1, 1}, {1, 2}, {1, REGION + 1}, {-REGION, 1}, {-(REGION - 1), 2}, {0, REGION + 1}, {FENCE, 16}, {-(REGION + FENCE), 16},
        {1, REGION + 2},
    };
    size_t i;
    int write;
    check_group("one byte before, one byte after, across an edge, outside");
    for (i = 0; i < sizeof out / sizeof out[0]; i++) {
        for (write = 0; write < 2; write++) {
            Pair p;
            pair_open(&p, &k->client, &k->server);
            allowed(&p);
            refused(&p, write ? VIP_CONTROL_OP_RDMAWRITE : VIP_CONTROL_OP_RDMAREAD, region_of(&p) - out[i].before, out[i].bytes,
                    p.region);
            pair_close(&p);
        }
    }
}

static void handles(const Kind *k) {
    int which, write;
    check_group("handles: 0, garbage, of the initiator, stale, of a region without the right");
    for (which = 0; which < 5; which++) {
        for (write = 0; write < 2; write++) {
            Pair p;
            VIP_MEM_HANDLE handle = 0;
            pair_open(&p, &k->client, &k->server);
            allowed(&p);
            if (which == 1) handle = p.region ^ 0x5A500000u;
            if (which == 2) handle = p.c.memory ^ 0x00100000u;
            if (which == 3) {
                handle = p.region;
                CHECK_RETURN(VipDeregisterMem(nic_s, region_of(&p), p.region), VIP_SUCCESS);
                CHECK_RETURN(VipRegisterMem(nic_s, region_of(&p), REGION, &p.rights, &p.region), VIP_SUCCESS);
                CHECK(handle != p.region);
            }
            if (which == 4) handle = p.s.memory; /* covers the address, with no right */
            refused(&p, write ? VIP_CONTROL_OP_RDMAWRITE : VIP_CONTROL_OP_RDMAREAD, region_of(&p), 64, handle);
            pair_close(&p);
        }
    }
}

static void rights(const Kind *k) {
    int write;
    check_group("the right missing on the region, on the VI; taken away while connected; another tag");
    for (write = 0; write < 2; write++) {
        int operation = write ? VIP_CONTROL_OP_RDMAWRITE : VIP_CONTROL_OP_RDMAREAD;
        Pair p;
        Kind no = *k;
        VIP_PROTECTION_HANDLE other;
        pair_open(&p, &k->client, &k->server);
        allowed(&p);
        if (write) p.rights.EnableRdmaWrite = VIP_FALSE;
        else p.rights.EnableRdmaRead = VIP_FALSE;
        CHECK_RETURN(VipSetMemAttributes(nic_s, region_of(&p), p.region, &p.rights), VIP_SUCCESS);
        refused(&p, operation, region_of(&p), 64, p.region);
        pair_close(&p);

        no.server.no_rdma_write = write;
        no.server.no_rdma_read = !write;
        pair_open(&p, &no.client, &no.server);
        refused(&p, operation, region_of(&p), 64, p.region);
        pair_close(&p);

        pair_open(&p, &k->client, &k->server);
        allowed(&p);
        CHECK_RETURN(VipCreatePtag(nic_s, &other), VIP_SUCCESS);
        p.rights.Ptag = other;
        CHECK_RETURN(VipSetMemAttributes(nic_s, region_of(&p), p.region, &p.rights), VIP_SUCCESS);
        refused(&p, operation, region_of(&p), 64, p.region);
        pair_close(&p);
        CHECK_RETURN(VipDestroyPtag(nic_s, other), VIP_SUCCESS);

        no = *k;
        no.server.no_tag = 1; /* a VI without tag admits no remote access */
        pair_open(&p, &no.client, &no.server);
        refused(&p, operation, region_of(&p), 64, p.region);
        pair_close(&p);

        pair_open(&p, &k->client, &k->server);
        allowed(&p);
        CHECK_RETURN(VipDeregisterMem(nic_s, region_of(&p), p.region), VIP_SUCCESS);
        refused(&p, operation, region_of(&p), 64, p.region);
        p.region = 0;
        pair_close(&p);
    }
}

/* A local segment that must be refused: send completes with `status`, receive too; nothing moves. */
static void local_refused(Pair *p, unsigned char *address, VIP_UINT32 bytes, VIP_MEM_HANDLE handle) {
    VIP_DESCRIPTOR *d;
    d = work_send(&p->c, 0, 0, bytes);
    d->CS.SegCount = 1;
    d->DS[0].Local.Data.Address = address;
    d->DS[0].Local.Handle = handle;
    d->DS[0].Local.Length = bytes;
    post_send(&p->c, d);
    expect_send(&p->c, d, VIP_STATUS_PROTECTION_ERROR);
    CHECK(pattern_ok(p->s.data, END_DATA_BYTES, 1));
}

static void local_segments(const Kind *k) {
    Pair p;
    VIP_PROTECTION_HANDLE other;
    VIP_MEM_ATTRIBUTES rights_other = {0};
    VIP_MEM_HANDLE tagged = 0;
    int which;
    check_group("local segments: outside their region, wrong tag, stale handle: VIP_STATUS_PROTECTION_ERROR");
    for (which = 0; which < 5; which++) {
        unsigned char *begin;
        pair_open(&p, &k->client, &k->server);
        post_recv(&p.s, work_recv(&p.s, 1, 0, 4096));
        CHECK_RETURN(VipCreatePtag(nic_c, &other), VIP_SUCCESS);
        rights_other.Ptag = which == 4 ? p.c.tag : other;
        begin = p.c.data + 4096;
        CHECK_RETURN(VipRegisterMem(nic_c, begin, 4096, &rights_other, &tagged), VIP_SUCCESS);
        if (which == 0) local_refused(&p, p.c.data + END_DATA_BYTES - 7, 8, p.c.memory);
        if (which == 1) local_refused(&p, (unsigned char *)p.c.block - 1, 2, p.c.memory);
        if (which == 2) local_refused(&p, begin, 64, tagged); /* wrong tag */
        if (which == 3) local_refused(&p, begin, 64, 0);
        CHECK_RETURN(VipDeregisterMem(nic_c, begin, tagged), VIP_SUCCESS);
        if (which == 4) local_refused(&p, begin, 64, tagged); /* stale */
        CHECK_RETURN(VipDestroyPtag(nic_c, other), VIP_SUCCESS);
        pair_close(&p);
    }
}

/* Regions withdrawn while a peer writes them in a loop: afterwards not one byte changes. */
static void withdrawn_in_flight(const Kind *k) {
    int round;
    check_group("a region deregistered under a stream of writes does not change any more");
    for (round = 0; round < 10; round++) {
        Pair p;
        int i;
        VIP_DESCRIPTOR *d;
        unsigned char *copy = malloc(REGION);
        pair_open(&p, &k->client, &k->server);
        for (i = 0; i < 32; i++) {
            post_send(&p.c, work_rdma(&p.c, i, VIP_CONTROL_OP_RDMAWRITE, (size_t)i * 100, REGION, region_of(&p), p.region));
            if (i == round * 3) CHECK_RETURN(VipDeregisterMem(nic_s, region_of(&p), p.region), VIP_SUCCESS);
            if (i == round * 3) memcpy(copy, region_of(&p), REGION);
        }
        for (i = 0; i < 32; i++) {
            d = NULL;
            VIP_RETURN result = VipSendWait(p.c.vi, WAIT_MS, &d);
            CHECK(result == VIP_SUCCESS || result == VIP_DESCRIPTOR_ERROR);
            CHECK(d == &p.c.descriptors[i]); /* each once, in order */
        }
        expect_state(&p.s, VIP_STATE_ERROR);
        CHECK(memcmp(copy, region_of(&p), REGION) == 0);
        p.region = 0;
        pair_close(&p);
        free(copy);
    }
}

int main(void) {
    static const VIP_RELIABILITY_LEVEL level[] = {VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION};
    Kind kind;
    VIPX_NIC_INFO info;
    const char *wanted = getenv("BELLWIRE_MODE");
    size_t l;
    int foreign;
    nic_c = nic_open();
    nic_s = nic_open();
    memset(&info, 0, sizeof info);
    info.Size = sizeof info;
    CHECK_RETURN(VipxQueryNic(nic_s, &info), VIP_SUCCESS);
    if (wanted != NULL) CHECK_SAME(info.Mode, strcmp(wanted, "guarded") == 0 ? VIPX_MODE_GUARDED : VIPX_MODE_MAPPED);
    for (l = 0; l < 2; l++) {
        for (foreign = 0; foreign < 2; foreign++) {
            memset(&kind, 0, sizeof kind);
            kind.client.level = kind.server.level = level[l];
            kind.client.foreign_memory = kind.server.foreign_memory = foreign;
            bounds(&kind);
            handles(&kind);
            rights(&kind);
            local_segments(&kind);
            withdrawn_in_flight(&kind);
        }
    }
    CHECK_RETURN(VipCloseNic(nic_c), VIP_SUCCESS);
    CHECK_RETURN(VipCloseNic(nic_s), VIP_SUCCESS);
    return check_end();
}
