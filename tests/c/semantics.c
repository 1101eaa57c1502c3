/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The rules that classic VIPL programs lean on, one numbered group for each habit. Connection set-up
   is in connect.c, protection in protection.c. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ends.h"

static VIP_NIC_HANDLE nic_a, nic_b; /* two NICs of this process, which every group uses */

static void receives_before_connect(void) {
    End c, s;
    int i;
    check_group("1. receives posted before the connection wait for it");
    end_create(&c, nic_a, NULL);
    end_create(&s, nic_b, NULL);
    for (i = 0; i < 8; i++) post_recv(&s, work_recv(&s, i, (size_t)i * 64, 64));
    CHECK_RETURN(ends_connect(&c, &s, NULL), VIP_SUCCESS);
    for (i = 0; i < 8; i++) {
        pattern_fill(c.data + i * 64, 64, (unsigned)i);
        post_send(&c, work_send(&c, i, (size_t)i * 64, 64));
    }
    for (i = 0; i < 8; i++) {
        expect_send(&c, &c.descriptors[i], 0);
        expect_recv(&s, &s.descriptors[i], 0);
        CHECK(pattern_ok(s.data + i * 64, 64, (unsigned)i));
    }
    end_destroy(&c);
    end_destroy(&s);
}

static void descriptor_arrays(void) {
    VIP_DESCRIPTOR *array;
    char *raw = malloc(64 * 9);
    uintptr_t rounded;
    VIP_MEM_HANDLE handle;
    VIP_MEM_ATTRIBUTES rights = {0};
    End e;
    check_group("2. descriptors are 64 bytes: arrays of them, and any block rounded up to 64, can be posted");
    end_create(&e, nic_a, NULL);
    rounded = ((uintptr_t)raw + 16 + 63) & ~(uintptr_t)63;
    array = (VIP_DESCRIPTOR *)rounded;
    rights.Ptag = e.tag;
    CHECK_RETURN(VipRegisterMem(nic_a, raw, 64 * 9, &rights, &handle), VIP_SUCCESS);
    memset(array, 0, 2 * sizeof *array);
    CHECK_RETURN(VipPostRecv(e.vi, &array[0], handle), VIP_SUCCESS);
    CHECK_RETURN(VipPostRecv(e.vi, &array[1], handle), VIP_SUCCESS);
    CHECK_RETURN(VipDeregisterMem(nic_a, raw, handle), VIP_ERROR_RESOURCE);
    CHECK_RETURN(VipDisconnect(e.vi), VIP_SUCCESS);
    expect_recv(&e, &array[0], VIP_STATUS_DESC_FLUSHED_ERROR);
    expect_recv(&e, &array[1], VIP_STATUS_DESC_FLUSHED_ERROR);
    CHECK_RETURN(VipDeregisterMem(nic_a, raw, handle), VIP_SUCCESS);
    post_recv(&e, work_recv(&e, 0, 0, 8));
    post_recv(&e, work_recv(&e, END_DESCRIPTORS - 1, 0, 8));
    end_destroy(&e);
    free(raw);
}

static void handles_not_zero(void) {
    static char bytes[100][32];
    VIP_MEM_HANDLE handles[100];
    int i, zero = 0, same = 0;
    check_group("3. memory handles are never 0");
    for (i = 0; i < 100; i++) {
        CHECK_RETURN(VipRegisterMem(nic_a, bytes[i], 32, NULL, &handles[i]), VIP_SUCCESS);
        zero += handles[i] == 0;
        same += i > 0 && handles[i] == handles[i - 1];
    }
    CHECK_SAME(zero, 0);
    CHECK_SAME(same, 0);
    for (i = 0; i < 100; i++) CHECK_RETURN(VipDeregisterMem(nic_a, bytes[i], handles[i]), VIP_SUCCESS);
}

static void untagged_vi(void) {
    EndOptions options = {0};
    End c, s;
    VIP_DESCRIPTOR *d;
    static VIP_UINT64 plain[8];
    VIP_MEM_HANDLE handle = 0;
    check_group("4. a VI without tag reaches tagged memory, and memory registered with NULL attributes");
    options.no_tag = 1;
    ends_pair(&c, nic_a, &s, nic_b, &options);
    CHECK_RETURN(VipRegisterMem(nic_a, plain, sizeof plain, NULL, &handle), VIP_SUCCESS);
    plain[0] = 0x1122334455667788u;
    post_recv(&s, work_recv(&s, 0, 0, 64));
    d = work_send(&c, 0, 0, 8);
    d->DS[0].Local.Data.Address = plain;
    d->DS[0].Local.Handle = handle;
    post_send(&c, d);
    expect_send(&c, d, 0);
    expect_recv(&s, &s.descriptors[0], 0);
    CHECK(memcmp(s.data, plain, 8) == 0);
    CHECK_RETURN(VipDeregisterMem(nic_a, plain, handle), VIP_SUCCESS);
    end_destroy(&c);
    end_destroy(&s);
}

static void name_service(void) {
    Address by_name, by_number;
    char host[256], name[256];
    VIP_ULONG room;
    char *dot;
    check_group("8, 9. names: localhost, this host whole and cut at the dot, dotted numbers; NSShutdown loses nothing");
    memset(host, 0, sizeof host);
    gethostname(host, sizeof host - 1);
    CHECK_RETURN(VipNSInit(nic_a, NULL), VIP_SUCCESS);
    address_room(&by_name);
    CHECK_RETURN(VipNSGetHostByName(nic_a, "localhost", &by_name.net, 0), VIP_SUCCESS);
    CHECK_SAME(by_name.net.HostAddressLen, 4);
    CHECK_RETURN(VipNSGetHostByName(nic_a, host, &by_name.net, 0), VIP_SUCCESS);
    dot = strchr(host, '.');
    if (dot != NULL) *dot = '\0';
    CHECK_RETURN(VipNSGetHostByName(nic_a, host, &by_name.net, 0), VIP_SUCCESS);
    CHECK_RETURN(VipNSGetHostByName(nic_a, "127.0.0.1", &by_number.net, 0), VIP_SUCCESS);
    CHECK(memcmp(by_number.net.HostAddress, "\177\0\0\1", 4) == 0);
    CHECK_RETURN(VipNSGetHostByName(nic_a, "no-such-host-here", &by_name.net, 0), VIP_ERROR_NAMESERVICE);
    CHECK_RETURN(VipNSGetHostByName(nic_a, "localhost", &by_name.net, 1), VIP_ERROR_NAMESERVICE);
    room = sizeof name;
    CHECK_RETURN(VipNSGetHostByAddr(nic_a, &by_number.net, name, &room), VIP_SUCCESS);
    CHECK_SAME(room, strlen(name) + 1);
    room = 1;
    CHECK_RETURN(VipNSGetHostByAddr(nic_a, &by_number.net, name, &room), VIP_ERROR_RESOURCE);
    CHECK(room > 1);
    CHECK_RETURN(VipNSShutdown(nic_a), VIP_SUCCESS);
}

static void device_names(void) {
    static const char *const good[] = {"/dev/via_eth0", "/etc/via_lo", "/dev/via_lo", "/dev/clanvi0", "VINIC0", "nic0",
                                       "nic1",          "via",         "clanvi0",     "",             "bellwire", "bellwire:x"};
    static const char *const bad[] = {"\\\\.\\VI1", "eth0", "xyz", "/tmp/nic", " nic0"};
    VIP_NIC_HANDLE nic;
    size_t i;
    check_group("10. device names");
    for (i = 0; i < sizeof good / sizeof good[0]; i++) {
        nic = NULL;
        if (CHECK_RETURN(VipOpenNic(good[i], &nic), VIP_SUCCESS)) CHECK_RETURN(VipCloseNic(nic), VIP_SUCCESS);
    }
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) CHECK_RETURN(VipOpenNic(bad[i], &nic), VIP_INVALID_PARAMETER);
}

enum { CQ_VIS = 8, CQ_MESSAGES = 16 };

static void one_queue_many_vis(void) {
    End c[CQ_VIS], s[CQ_VIS];
    EndOptions options = {0};
    VIP_CQ_HANDLE cq;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN is_recv;
    VIP_DESCRIPTOR *d;
    int i, m, polls, sends = 0, next_recv[CQ_VIS] = {0}, next_send[CQ_VIS] = {0};
    check_group("11, 12. one CQ for many VIs and both queues: one completion for each entry, in order; poll, then wait");
    CHECK_RETURN(VipCreateCQ(nic_b, 1024, &cq), VIP_SUCCESS);
    for (i = 0; i < CQ_VIS; i++) {
        end_create(&c[i], nic_a, NULL);
        options.send_cq = cq;
        options.recv_cq = cq;
        end_create(&s[i], nic_b, &options);
        for (m = 0; m < CQ_MESSAGES; m++) post_recv(&s[i], work_recv(&s[i], m, (size_t)m * 64, 64));
        CHECK_RETURN(ends_connect(&c[i], &s[i], NULL), VIP_SUCCESS);
        for (m = 0; m < CQ_MESSAGES; m++) post_recv(&c[i], work_recv(&c[i], 32 + m, (size_t)m * 64, 64));
    }
    for (m = 0; m < CQ_MESSAGES; m++) {
        for (i = 0; i < CQ_VIS; i++) {
            post_send(&c[i], work_send(&c[i], m, 0, (VIP_UINT32)m));
            post_send(&s[i], work_send(&s[i], 32 + m, 0, 4));
            sends++;
        }
    }
    for (m = 0; m < 2 * CQ_VIS * CQ_MESSAGES; m++) {
        VIP_RETURN result = VIP_NOT_DONE;
        for (polls = 0; polls < 100 && result == VIP_NOT_DONE; polls++) result = VipCQDone(cq, &vi, &is_recv);
        if (result == VIP_NOT_DONE) result = VipCQWait(cq, 5000, &vi, &is_recv);
        CHECK_RETURN(result, VIP_SUCCESS);
        if (result != VIP_SUCCESS) break;
        for (i = 0; i < CQ_VIS && s[i].vi != vi; i++) {
        }
        if (!CHECK(i < CQ_VIS)) continue;
        d = NULL;
        if (is_recv) {
            CHECK_RETURN(VipRecvDone(vi, &d), VIP_SUCCESS);
            CHECK(d == &s[i].descriptors[next_recv[i]]);
            if (d != NULL) CHECK_SAME(d->CS.Length, next_recv[i]);
            next_recv[i]++;
        } else {
            CHECK_RETURN(VipSendDone(vi, &d), VIP_SUCCESS);
            CHECK(d == &s[i].descriptors[32 + next_send[i]]);
            next_send[i]++;
        }
    }
    CHECK_RETURN(VipCQDone(cq, &vi, &is_recv), VIP_NOT_DONE);
    CHECK_RETURN(VipCQWait(cq, 10, &vi, &is_recv), VIP_TIMEOUT);
    CHECK_RETURN(VipDestroyCQ(cq), VIP_ERROR_RESOURCE);
    for (i = 0; i < CQ_VIS; i++) {
        end_destroy(&c[i]);
        end_destroy(&s[i]);
    }
    CHECK_RETURN(VipDestroyCQ(cq), VIP_SUCCESS);
}

static void immediate_data(void) {
    End c, s;
    check_group("13, 14. immediate data with and without bytes, with sends and RDMA writes");
    ends_pair(&c, nic_a, &s, nic_b, NULL);
    post_recv(&s, work_recv(&s, 0, 0, 64));
    post_recv(&s, work_recv(&s, 1, 0, 0));
    post_recv(&s, work_recv(&s, 2, 64, 64));
    post_recv(&s, work_recv(&s, 3, 128, 64));
    post_recv(&s, work_recv(&s, 4, 128, 64));
    post_send(&c, with_immediate(work_send(&c, 0, 0, 0), 0xAABBCCDDu));
    post_send(&c, work_send(&c, 1, 0, 0));
    post_send(&c, with_immediate(work_send(&c, 2, 0, 33), 7));
    pattern_fill(c.data + 4096, 5000, 3);
    post_send(&c, with_immediate(work_rdma(&c, 3, VIP_CONTROL_OP_RDMAWRITE, 4096, 5000, s.data + 9000, s.memory), 99));
    post_send(&c, with_immediate(work_rdma(&c, 4, VIP_CONTROL_OP_RDMAWRITE, 4096, 0, s.data + 9000, s.memory), 100));
    expect_recv(&s, &s.descriptors[0], 0);
    CHECK_SAME(s.descriptors[0].CS.Length, 0);
    CHECK_SAME(s.descriptors[0].CS.ImmediateData, 0xAABBCCDDu);
    CHECK_SAME(s.descriptors[0].CS.Status, VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE);
    expect_recv(&s, &s.descriptors[1], 0);
    CHECK_SAME(s.descriptors[1].CS.Length, 0);
    CHECK_SAME(s.descriptors[1].CS.Status, VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE);
    expect_recv(&s, &s.descriptors[2], 0);
    CHECK_SAME(s.descriptors[2].CS.Length, 33);
    CHECK_SAME(s.descriptors[2].CS.ImmediateData, 7);
    expect_recv(&s, &s.descriptors[3], 0);
    CHECK_SAME(s.descriptors[3].CS.Length, 5000);
    CHECK_SAME(s.descriptors[3].CS.ImmediateData, 99);
    CHECK_SAME(s.descriptors[3].CS.Status, VIP_STATUS_DONE | VIP_STATUS_OP_REMOTE_RDMA_WRITE | VIP_STATUS_IMMEDIATE);
    CHECK(pattern_ok(s.data + 9000, 5000, 3));
    expect_recv(&s, &s.descriptors[4], 0);
    CHECK_SAME(s.descriptors[4].CS.ImmediateData, 100);
    expect_send(&c, &c.descriptors[0], 0);
    CHECK_SAME(c.descriptors[0].CS.Status & ~VIP_STATUS_IMMEDIATE, VIP_STATUS_DONE | VIP_STATUS_OP_SEND);
    expect_send(&c, &c.descriptors[1], 0);
    expect_send(&c, &c.descriptors[2], 0);
    expect_send(&c, &c.descriptors[3], 0);
    CHECK_SAME(c.descriptors[3].CS.Status & VIP_STATUS_OP_MASK, VIP_STATUS_OP_RDMA_WRITE);
    expect_send(&c, &c.descriptors[4], 0);
    end_destroy(&c);
    end_destroy(&s);
}

static void repost(void) {
    End c, s;
    int round;
    VIP_DESCRIPTOR *d;
    check_group("15. the same descriptor, read and posted again, a thousand times");
    ends_pair(&c, nic_a, &s, nic_b, NULL);
    post_recv(&s, work_recv(&s, 0, 0, 4096));
    for (round = 0; round < 1000; round++) {
        VIP_UINT32 bytes = (VIP_UINT32)(round * 37 % 4096);
        pattern_fill(c.data, bytes, (unsigned)round);
        post_send(&c, with_immediate(work_send(&c, 0, 0, bytes), (VIP_UINT32)round));
        expect_send(&c, &c.descriptors[0], 0);
        d = NULL;
        if (!CHECK_RETURN(VipRecvWait(s.vi, WAIT_MS, &d), VIP_SUCCESS) || d == NULL) break;
        CHECK_SAME(d->CS.Length, bytes);
        CHECK_SAME(d->CS.ImmediateData, round);
        CHECK(pattern_ok(s.data, bytes, (unsigned)round));
        d->CS.Length = 4096;
        d->CS.Status = 0;
        d->CS.Control = VIP_CONTROL_OP_SENDRECV;
        post_recv(&s, d);
    }
    end_destroy(&c);
    end_destroy(&s);
}

static void drain_after_disconnect(void) {
    End c, s;
    VIP_DESCRIPTOR *d;
    int i, drained = 0;
    check_group("16. after VipDisconnect everything posted comes back flushed, in order; the peer sees state Error");
    ends_pair(&c, nic_a, &s, nic_b, NULL);
    for (i = 0; i < 10; i++) post_recv(&c, work_recv(&c, i, 0, 64));
    for (i = 0; i < 10; i++) post_recv(&s, work_recv(&s, i, 0, 64));
    CHECK_RETURN(VipDisconnect(c.vi), VIP_SUCCESS);
    CHECK_SAME(state_of(&c), VIP_STATE_IDLE);
    for (;;) {
        VIP_RETURN result = VipRecvDone(c.vi, &d);
        if (result != VIP_SUCCESS && (result != VIP_DESCRIPTOR_ERROR || d == NULL)) {
            CHECK_RETURN(result, VIP_NOT_DONE);
            break;
        }
        CHECK(d == &c.descriptors[drained]);
        CHECK_SAME(d->CS.Status & VIP_STATUS_ERROR_MASK, VIP_STATUS_DESC_FLUSHED_ERROR);
        drained++;
    }
    CHECK_SAME(drained, 10);
    CHECK_RETURN(VipSendDone(c.vi, &d), VIP_NOT_DONE);
    expect_state(&s, VIP_STATE_ERROR);
    for (i = 0; i < 10; i++) expect_recv(&s, &s.descriptors[i], VIP_STATUS_DESC_FLUSHED_ERROR);
    post_send(&s, work_send(&s, 20, 0, 8));
    expect_send(&s, &s.descriptors[20], VIP_STATUS_DESC_FLUSHED_ERROR);
    post_recv(&s, work_recv(&s, 21, 0, 8));
    expect_recv(&s, &s.descriptors[21], VIP_STATUS_DESC_FLUSHED_ERROR);
    CHECK_RETURN(VipDestroyVi(s.vi), VIP_INVALID_STATE);
    CHECK_RETURN(VipDisconnect(s.vi), VIP_SUCCESS);
    CHECK_SAME(state_of(&s), VIP_STATE_IDLE);
    CHECK_RETURN(ends_connect(&c, &s, NULL), VIP_SUCCESS); /* and again */
    post_recv(&s, work_recv(&s, 0, 0, 64));
    post_send(&c, work_send(&c, 0, 0, 8));
    expect_send(&c, &c.descriptors[0], 0);
    expect_recv(&s, &s.descriptors[0], 0);
    end_destroy(&c);
    end_destroy(&s);
}

static void levels(void) {
    static const VIP_RELIABILITY_LEVEL level[] = {VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY,
                                                  VIP_SERVICE_RELIABLE_RECEPTION};
    static const VIP_UINT32 sizes[] = {0, 1, 8, 55, 56, 57, 4096, 16384, 32000, 65536, 262144};
    VIP_NIC_ATTRIBUTES a;
    EndOptions options = {0};
    End c, s;
    size_t l, i;
    check_group("17, 18. all three levels are there and large messages arrive whole at each");
    CHECK_RETURN(VipQueryNic(nic_a, &a), VIP_SUCCESS);
    CHECK_SAME(a.ReliabilityLevelSupport & VIP_BASE_SERVICES, VIP_BASE_SERVICES);
    CHECK_SAME(a.RDMAReadSupport & VIP_BASE_SERVICES, VIP_SERVICE_RELIABLE_DELIVERY | VIP_SERVICE_RELIABLE_RECEPTION);
    CHECK(a.MaxTransferSize >= 262144 && a.MaxDiscriminatorLen == 64 && a.ThreadSafe == VIP_TRUE && a.NicAddressLen == 4);
    CHECK(a.MaxCQEntries >= 1024 && a.MaxSegmentsPerDesc >= 2 && a.MaxVI >= 1000 && a.LocalNicAddress != NULL);
    for (l = 0; l < 3; l++) {
        options.level = level[l];
        for (options.foreign_memory = 0; options.foreign_memory < 2; options.foreign_memory++) {
            ends_pair(&c, nic_a, &s, nic_b, &options);
            for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
                pattern_fill(c.data, sizes[i], (unsigned)(l + i));
                memset(s.data, 0, END_DATA_BYTES);
                post_recv(&s, work_recv(&s, 0, 0, END_DATA_BYTES));
                post_send(&c, work_send(&c, 0, 0, sizes[i]));
                expect_send(&c, &c.descriptors[0], 0);
                expect_recv(&s, &s.descriptors[0], 0);
                CHECK_SAME(s.descriptors[0].CS.Length, sizes[i]);
                CHECK(pattern_ok(s.data, sizes[i], (unsigned)(l + i)));
            }
            end_destroy(&c);
            end_destroy(&s);
        }
    }
}

static void destroy_with_receives(void) {
    End e, c, s;
    VIP_CQ_HANDLE cq;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN is_recv;
    EndOptions options = {0};
    int i;
    check_group("19. VIs are destroyed with receives still posted, idle or after VipDisconnect; the CQ names them no more");
    end_create(&e, nic_a, NULL);
    for (i = 0; i < 8; i++) post_recv(&e, work_recv(&e, i, 0, 64));
    end_destroy(&e);
    CHECK_RETURN(VipCreateCQ(nic_b, 64, &cq), VIP_SUCCESS);
    options.recv_cq = cq;
    end_create(&c, nic_a, NULL);
    end_create(&s, nic_b, &options);
    for (i = 0; i < 8; i++) post_recv(&s, work_recv(&s, i, 0, 64));
    CHECK_RETURN(ends_connect(&c, &s, NULL), VIP_SUCCESS);
    end_destroy(&c);
    end_destroy(&s);
    CHECK_RETURN(VipCQDone(cq, &vi, &is_recv), VIP_NOT_DONE);
    CHECK_RETURN(VipDestroyCQ(cq), VIP_SUCCESS);
}

static void rdma_read(void) {
    End c, s;
    VIP_DESCRIPTOR *d;
    int i;
    check_group("20. RDMA read, alone, many in flight, and before a fenced send");
    ends_pair(&c, nic_a, &s, nic_b, NULL);
    pattern_fill(s.data, 100000, 9);
    post_send(&c, work_rdma(&c, 0, VIP_CONTROL_OP_RDMAREAD, 0, 100000, s.data, s.memory));
    expect_send(&c, &c.descriptors[0], 0);
    CHECK_SAME(c.descriptors[0].CS.Status & VIP_STATUS_OP_MASK, VIP_STATUS_OP_RDMA_READ);
    CHECK(pattern_ok(c.data, 100000, 9));
    memset(c.data, 0, 100000);
    for (i = 0; i < 32; i++) {
        post_send(&c, work_rdma(&c, i, VIP_CONTROL_OP_RDMAREAD, (size_t)i * 1000, 1000, s.data + i * 1000, s.memory));
    }
    post_recv(&s, work_recv(&s, 0, 200000, 1000));
    d = work_send(&c, 40, 31000, 1000);
    d->CS.Control |= VIP_CONTROL_QFENCE;
    post_send(&c, d); /* sends what the last read brings */
    for (i = 0; i < 32; i++) expect_send(&c, &c.descriptors[i], 0);
    expect_send(&c, d, 0);
    CHECK(pattern_ok(c.data, 32000, 9));
    expect_recv(&s, &s.descriptors[0], 0);
    CHECK(memcmp(s.data + 200000, s.data + 31000, 1000) == 0);
    post_send(&c, work_rdma(&c, 0, VIP_CONTROL_OP_RDMAREAD, 0, 0, s.data, s.memory));
    expect_send(&c, &c.descriptors[0], 0);
    end_destroy(&c);
    end_destroy(&s);
}

static void segments(void) {
    End c, s;
    struct {
        VIP_DESCRIPTOR d;
        VIP_DATA_SEGMENT more[14];
    } *wide;
    VIP_DESCRIPTOR *d;
    int i;
    check_group("21. gather and scatter over many segments, empty ones among them");
    ends_pair(&c, nic_a, &s, nic_b, NULL);
    pattern_fill(c.data, 4096, 5);
    d = work_recv(&s, 0, 8192, 10);
    d->CS.SegCount = 2;
    d->CS.Length = 4106;
    d->DS[1].Local.Data.Address = s.data + 16384;
    d->DS[1].Local.Handle = s.memory;
    d->DS[1].Local.Length = 4096;
    post_recv(&s, d);
    wide = (void *)&c.descriptors[8]; /* takes this and the next four */
    memset(wide, 0, sizeof *wide);
    for (i = 0; i < 12; i++) {
        VIP_DATA_SEGMENT *segment = &((VIP_DATA_SEGMENT *)((char *)wide + 32))[i];
        segment->Data.Address = c.data + i / 2 * 100;
        segment->Handle = c.memory;
        segment->Length = i % 2 == 0 ? 100 : 0;
    }
    wide->d.CS.SegCount = 12;
    wide->d.CS.Length = 600;
    post_send(&c, &wide->d);
    expect_send(&c, &wide->d, 0);
    expect_recv(&s, d, 0);
    CHECK_SAME(d->CS.Length, 600);
    CHECK(memcmp(s.data + 8192, c.data, 10) == 0);
    CHECK(memcmp(s.data + 16384, c.data + 10, 590) == 0);
    end_destroy(&c);
    end_destroy(&s);
}

static void self_connection(void) {
    End c, s;
    VIPX_VI_INFO info;
    check_group("22. two VIs of one NIC connected to each other");
    ends_pair(&c, nic_a, &s, nic_a, NULL);
    pattern_fill(c.data, 70000, 4);
    post_recv(&s, work_recv(&s, 0, 0, 70000));
    post_send(&c, work_send(&c, 0, 0, 70000));
    expect_send(&c, &c.descriptors[0], 0);
    expect_recv(&s, &s.descriptors[0], 0);
    CHECK(pattern_ok(s.data, 70000, 4));
    post_send(&s, work_rdma(&s, 1, VIP_CONTROL_OP_RDMAWRITE, 0, 70000, c.data + 100000, c.memory));
    expect_send(&s, &s.descriptors[1], 0);
    post_send(&s, work_rdma(&s, 2, VIP_CONTROL_OP_RDMAREAD, 100000, 70000, c.data + 100000, c.memory));
    expect_send(&s, &s.descriptors[2], 0);
    CHECK(pattern_ok(s.data + 100000, 70000, 4));
    memset(&info, 0, sizeof info);
    info.Size = sizeof info;
    CHECK_RETURN(VipxQueryVi(c.vi, &info), VIP_SUCCESS);
    CHECK_SAME(info.PeerPid, getpid());
    end_destroy(&c);
    end_destroy(&s);
}

int main(void) {
    nic_a = nic_open();
    nic_b = nic_open();
    receives_before_connect();
    descriptor_arrays();
    handles_not_zero();
    untagged_vi();
    name_service();
    device_names();
    one_queue_many_vis();
    immediate_data();
    repost();
    drain_after_disconnect();
    levels();
    destroy_with_receives();
    rdma_read();
    segments();
    self_connection();
    CHECK_RETURN(VipCloseNic(nic_a), VIP_SUCCESS);
    CHECK_RETURN(VipCloseNic(nic_b), VIP_SUCCESS);
    return check_end();
}
