/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The helpers of ends.h. */
#include "ends.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const size_t BLOCK_BYTES = END_DESCRIPTORS * sizeof(VIP_DESCRIPTOR) + END_DATA_BYTES;

VIP_NIC_HANDLE nic_open(void) {
    VIP_NIC_HANDLE nic = NULL;
    CHECK_RETURN(VipOpenNic("nic0", &nic), VIP_SUCCESS);
    CHECK(nic != NULL);
    return nic;
}

static void block_allocate(End *end, int foreign) {
    end->engine_memory = !foreign;
    if (foreign) {
        end->block = aligned_alloc(4096, (BLOCK_BYTES + 4095) & ~(size_t)4095);
        CHECK(end->block != NULL);
    } else {
        CHECK_RETURN(VipxAllocMem(end->nic, BLOCK_BYTES, &end->block), VIP_SUCCESS);
    }
    if (end->block == NULL) abort();
    memset(end->block, 0, BLOCK_BYTES);
    end->descriptors = (VIP_DESCRIPTOR *)end->block;
    end->data = (unsigned char *)end->block + END_DESCRIPTORS * sizeof(VIP_DESCRIPTOR);
}

void end_create(End *end, VIP_NIC_HANDLE nic, const EndOptions *options) {
    static const EndOptions usual;
    VIP_MEM_ATTRIBUTES rights = {0};
    VIPX_VI_ATTRIBUTES waits = {0};
    VIPX_VI_ATTRIBUTES *extension;
    if (options == NULL) options = &usual;
    memset(end, 0, sizeof *end);
    end->nic = nic;
    CHECK_RETURN(VipCreatePtag(nic, &end->tag), VIP_SUCCESS);
    block_allocate(end, options->foreign_memory);
    rights.Ptag = end->tag;
    rights.EnableRdmaWrite = VIP_TRUE;
    rights.EnableRdmaRead = VIP_TRUE;
    CHECK_RETURN(VipRegisterMem(nic, end->block, BLOCK_BYTES, &rights, &end->memory), VIP_SUCCESS);
    end->attributes.ReliabilityLevel = options->level != 0 ? options->level : VIP_SERVICE_RELIABLE_DELIVERY;
    end->attributes.MaxTransferSize = options->transfer_bytes_max != 0 ? options->transfer_bytes_max : END_DATA_BYTES;
    end->attributes.Ptag = options->no_tag ? NULL : end->tag;
    end->attributes.EnableRdmaWrite = !options->no_rdma_write;
    end->attributes.EnableRdmaRead = !options->no_rdma_read && end->attributes.ReliabilityLevel != VIP_SERVICE_UNRELIABLE;
    waits.Size = sizeof waits;
    waits.Flags = VIPX_VI_RNR_WAIT;
    extension = options->rnr_wait ? &waits : options->extension;
    CHECK_RETURN(VipxCreateVi(nic, &end->attributes, extension, options->send_cq, options->recv_cq, &end->vi),
                 VIP_SUCCESS);
}

void end_destroy(End *end) {
    if (end->vi != NULL) {
        CHECK_RETURN(VipDisconnect(end->vi), VIP_SUCCESS);
        CHECK_RETURN(VipDestroyVi(end->vi), VIP_SUCCESS);
    }
    CHECK_RETURN(VipDeregisterMem(end->nic, end->block, end->memory), VIP_SUCCESS);
    CHECK_RETURN(VipDestroyPtag(end->nic, end->tag), VIP_SUCCESS);
    if (end->engine_memory) {
        CHECK_RETURN(VipxFreeMem(end->nic, end->block), VIP_SUCCESS);
    } else {
        free(end->block);
    }
    memset(end, 0, sizeof *end);
}

void end_close(End *end) {
    VIP_NIC_HANDLE nic = end->nic;
    end_destroy(end);
    CHECK_RETURN(VipCloseNic(nic), VIP_SUCCESS);
}

void address_set(Address *address, VIP_NIC_HANDLE nic, const void *discriminator, size_t bytes) {
    VIP_NIC_ATTRIBUTES a;
    memset(address, 0, sizeof *address);
    CHECK_RETURN(VipQueryNic(nic, &a), VIP_SUCCESS);
    address->net.HostAddressLen = a.NicAddressLen;
    address->net.DiscriminatorLen = (VIP_UINT16)bytes;
    memcpy(address->bytes + 4, a.LocalNicAddress, a.NicAddressLen);
    memcpy(address->bytes + 4 + a.NicAddressLen, discriminator, bytes);
}

void address_unique(Address *address, VIP_NIC_HANDLE nic) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t count;
    uint64_t words[2];
    pthread_mutex_lock(&lock);
    words[0] = (uint64_t)getpid();
    words[1] = ++count;
    pthread_mutex_unlock(&lock);
    address_set(address, nic, words, sizeof words);
}

AddressText address_text(const Address *address) {
    AddressText text = {""};
    int i;
    for (i = 0; i < address->net.DiscriminatorLen; i++) sprintf(text.hex + 2 * i, "%02x", address->bytes[4 + address->net.HostAddressLen + i]);
    return text;
}

void address_of_text(Address *address, VIP_NIC_HANDLE nic, const char *hex) {
    unsigned char bytes[DISCRIMINATOR_MAX];
    size_t i, count = strlen(hex) / 2;
    for (i = 0; i < count && i < sizeof bytes; i++) {
        unsigned value = 0;
        sscanf(hex + 2 * i, "%2x", &value);
        bytes[i] = (unsigned char)value;
    }
    address_set(address, nic, bytes, i);
}

void address_room(Address *address) {
    memset(address, 0, sizeof *address);
    address->net.HostAddressLen = 4;
    address->net.DiscriminatorLen = DISCRIMINATOR_MAX;
}

typedef struct {
    End *server;
    Address at;
    VIP_RETURN result;
} Acceptor;

static void *accept_one(void *argument) {
    Acceptor *a = argument;
    Address remote;
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE connection = NULL;
    address_room(&remote);
    a->result = VipConnectWait(a->server->nic, &a->at.net, WAIT_MS, &remote.net, &attributes, &connection);
    if (a->result != VIP_SUCCESS) return NULL;
    a->result = VipConnectAccept(connection, a->server->vi);
    if (a->result == VIP_INVALID_RELIABILITY_LEVEL || a->result == VIP_INVALID_MTU) {
        CHECK_RETURN(VipConnectReject(connection), VIP_SUCCESS);
    }
    return NULL;
}

VIP_RETURN ends_connect(End *client, End *server, VIP_RETURN *accepted) {
    Acceptor acceptor;
    Address local;
    VIP_VI_ATTRIBUTES attributes;
    VIP_RETURN result;
    pthread_t thread;
    acceptor.server = server;
    address_unique(&acceptor.at, server->nic);
    address_unique(&local, client->nic);
    pthread_create(&thread, NULL, accept_one, &acceptor);
    result = VipConnectRequest(client->vi, &local.net, &acceptor.at.net, WAIT_MS, &attributes);
    pthread_join(thread, NULL);
    if (accepted != NULL) *accepted = acceptor.result;
    return result;
}

VIP_RETURN end_request(End *end, const Address *at, int ms) {
    Address local, remote = *at;
    VIP_VI_ATTRIBUTES attributes;
    address_unique(&local, end->nic);
    return VipConnectRequest(end->vi, &local.net, &remote.net, (VIP_ULONG)ms, &attributes);
}

VIP_RETURN end_request_soon(End *end, const Address *at) {
    VIP_RETURN code = VIP_NO_MATCH;
    int i;
    for (i = 0; i < 100 && code == VIP_NO_MATCH; i++) code = end_request(end, at, WAIT_MS);
    return code;
}

void ends_in_processes(int which, void (*server)(int which, const Address *at), void (*client)(int which, const Address *at)) {
    Address at;
    VIP_NIC_HANDLE nic = nic_open();
    pid_t pids[2];
    int i, status;
    address_unique(&at, nic);
    CHECK_RETURN(VipCloseNic(nic), VIP_SUCCESS);
    fflush(stdout);
    for (i = 0; i < 2; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            (i == 0 ? server : client)(which, &at);
            _exit(1);
        }
    }
    for (i = 0; i < 2; i++) CHECK(waitpid(pids[i], &status, 0) == pids[i] && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

VIP_RETURN end_accept(End *end, const Address *at, int ms) {
    Address from, local = *at;
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE connection = NULL;
    VIP_RETURN result;
    address_room(&from);
    result = VipConnectWait(end->nic, &local.net, (VIP_ULONG)ms, &from.net, &attributes, &connection);
    return result == VIP_SUCCESS ? VipConnectAccept(connection, end->vi) : result;
}

void ends_pair(End *client, VIP_NIC_HANDLE client_nic, End *server, VIP_NIC_HANDLE server_nic, const EndOptions *options) {
    VIP_RETURN accepted;
    end_create(client, client_nic, options);
    end_create(server, server_nic, options);
    CHECK_RETURN(ends_connect(client, server, &accepted), VIP_SUCCESS);
    CHECK_RETURN(accepted, VIP_SUCCESS);
}

static VIP_DESCRIPTOR *work_local(End *end, int slot, int segment, size_t offset, VIP_UINT32 bytes) {
    VIP_DESCRIPTOR *d = &end->descriptors[slot];
    memset(d, 0, sizeof *d);
    d->CS.SegCount = (VIP_UINT16)(segment + 1);
    d->CS.Length = bytes;
    d->DS[segment].Local.Data.Address = end->data + offset;
    d->DS[segment].Local.Handle = end->memory;
    d->DS[segment].Local.Length = bytes;
    return d;
}

VIP_DESCRIPTOR *work_send(End *end, int slot, size_t offset, VIP_UINT32 bytes) {
    VIP_DESCRIPTOR *d = work_local(end, slot, 0, offset, bytes);
    if (bytes == 0) d->CS.SegCount = 0;
    return d;
}

VIP_DESCRIPTOR *work_recv(End *end, int slot, size_t offset, VIP_UINT32 bytes) {
    return work_send(end, slot, offset, bytes);
}

VIP_DESCRIPTOR *work_rdma(End *end, int slot, int operation, size_t offset, VIP_UINT32 bytes, void *remote,
                          VIP_MEM_HANDLE handle) {
    VIP_DESCRIPTOR *d = work_local(end, slot, 1, offset, bytes);
    d->CS.Control = (VIP_UINT16)operation;
    d->DS[0].Remote.Data.Address = remote;
    d->DS[0].Remote.Handle = handle;
    return d;
}

VIP_DESCRIPTOR *with_immediate(VIP_DESCRIPTOR *descriptor, VIP_UINT32 value) {
    descriptor->CS.Control |= VIP_CONTROL_IMMEDIATE;
    descriptor->CS.ImmediateData = value;
    return descriptor;
}

void post_send(End *end, VIP_DESCRIPTOR *descriptor) {
    CHECK_RETURN(VipPostSend(end->vi, descriptor, end->memory), VIP_SUCCESS);
}

void post_recv(End *end, VIP_DESCRIPTOR *descriptor) {
    CHECK_RETURN(VipPostRecv(end->vi, descriptor, end->memory), VIP_SUCCESS);
}

static void expect(VIP_RETURN result, VIP_DESCRIPTOR *got, VIP_DESCRIPTOR *expected, VIP_UINT32 status) {
    CHECK_RETURN(result, status == 0 ? VIP_SUCCESS : VIP_DESCRIPTOR_ERROR);
    CHECK(got == expected);
    if (got == NULL) return;
    CHECK_SAME(got->CS.Status & VIP_STATUS_ERROR_MASK, status);
    CHECK((got->CS.Status & VIP_STATUS_DONE) != 0);
}

void expect_send(End *end, VIP_DESCRIPTOR *expected, VIP_UINT32 status) {
    VIP_DESCRIPTOR *got = NULL;
    VIP_RETURN result = VipSendWait(end->vi, WAIT_MS, &got);
    expect(result, got, expected, status);
}

void expect_recv(End *end, VIP_DESCRIPTOR *expected, VIP_UINT32 status) {
    VIP_DESCRIPTOR *got = NULL;
    VIP_RETURN result = VipRecvWait(end->vi, WAIT_MS, &got);
    expect(result, got, expected, status);
}

VIP_VI_STATE state_of(End *end) {
    VIP_VI_STATE state = VIP_STATE_IDLE;
    VIP_VI_ATTRIBUTES attributes;
    VIP_BOOLEAN send_empty, recv_empty;
    CHECK_RETURN(VipQueryVi(end->vi, &state, &attributes, &send_empty, &recv_empty), VIP_SUCCESS);
    return state;
}

void expect_state(End *end, VIP_VI_STATE state) {
    double deadline = now_ms() + WAIT_MS;
    VIP_VI_STATE seen = state_of(end);
    while (seen != state && now_ms() < deadline) {
        sleep_ms(1);
        seen = state_of(end);
    }
    CHECK_SAME(seen, state);
}

double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

void sleep_ms(int ms) {
    struct timespec t;
    t.tv_sec = ms / 1000;
    t.tv_nsec = (long)(ms % 1000) * 1000000L;
    nanosleep(&t, NULL);
}

pid_t start_again(const char *job, const char *argument) {
    pid_t pid;
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/proc/self/exe", program_invocation_short_name, job, argument, (char *)NULL);
        _exit(127);
    }
    return pid;
}

int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

void pattern_fill(unsigned char *bytes, size_t count, unsigned seed) {
    size_t i;
    for (i = 0; i < count; i++) bytes[i] = (unsigned char)(i * 31 + (i >> 8) * 7 + seed * 101 + 1);
}

int pattern_ok(const unsigned char *bytes, size_t count, unsigned seed) {
    size_t i;
    for (i = 0; i < count; i++) {
        if (bytes[i] != (unsigned char)(i * 31 + (i >> 8) * 7 + seed * 101 + 1)) return 0;
    }
    return 1;
}

static void error_seen(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error) {
    Errors *errors = context;
    errors->last.ViHandle = error->ViHandle;
    errors->last.NicHandle = error->NicHandle;
    errors->last.CQHandle = error->CQHandle;
    errors->last.ResourceCode = error->ResourceCode;
    errors->last.ErrorCode = error->ErrorCode;
    __atomic_fetch_add(&errors->seen[(unsigned)error->ErrorCode % 16], 1, __ATOMIC_RELEASE);
}

void errors_watch(VIP_NIC_HANDLE nic, Errors *errors) {
    memset((void *)errors, 0, sizeof *errors);
    CHECK_RETURN(VipErrorCallback(nic, errors, error_seen), VIP_SUCCESS);
}

int errors_wait(Errors *errors, VIP_ERROR_CODE code, int ms) {
    double deadline = now_ms() + ms;
    while (__atomic_load_n(&errors->seen[code], __ATOMIC_ACQUIRE) == 0) {
        if (now_ms() > deadline) return 0;
        sleep_ms(1);
    }
    return 1;
}
