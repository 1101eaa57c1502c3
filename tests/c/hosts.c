/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Host addresses of every kind, two NICs of this process at a time: IPv4 and IPv6, with a port and without, found by shared memory and, with that switched off, by UDP. Each pair
 * connects by address and by name, passes messages, and says what its link is. Arguments: two addresses more, as BELLWIRE_ADDRESS takes them, to be tried over UDP.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ends.h"

enum { MESSAGES = 50, BYTES = 40000 };

static VIP_NIC_HANDLE open_at(const char *address, int shm) {
    VIP_NIC_HANDLE nic = NULL;
    setenv("BELLWIRE_ADDRESS", address, 1);
    setenv("BELLWIRE_UDP", "on", 1);
    setenv("BELLWIRE_SHM", shm ? "on" : "off", 1);
    CHECK_RETURN(VipOpenNic("nic0", &nic), VIP_SUCCESS);
    return nic;
}

static void messages(End *from, End *to) {
    int i;
    for (i = 0; i < MESSAGES; i++) {
        post_recv(to, work_recv(to, 0, 0, BYTES));
        memset(from->data, i + 1, BYTES);
        post_send(from, work_send(from, 0, 0, BYTES));
        expect_send(from, &from->descriptors[0], 0);
        expect_recv(to, &to->descriptors[0], 0);
        CHECK_SAME(to->data[BYTES - 1], i + 1);
    }
}

static void link_is(End *end, VIP_NIC_HANDLE peer, int shm) {
    VIPX_LINK_INFO link;
    VIPX_VI_INFO vi;
    VIP_NIC_ATTRIBUTES there;
    link.Size = sizeof link;
    vi.Size = sizeof vi;
    CHECK_RETURN(VipxQueryLink(end->vi, &link), VIP_SUCCESS);
    CHECK_RETURN(VipxQueryVi(end->vi, &vi), VIP_SUCCESS);
    CHECK_RETURN(VipQueryNic(peer, &there), VIP_SUCCESS);
    CHECK_SAME(link.Wire, shm ? VIPX_WIRE_SHM : VIPX_WIRE_UDP);
    CHECK_SAME(vi.Wire, link.Wire);
    CHECK_SAME(link.Reason, shm ? VIPX_REASON_SAME_HOST : VIPX_REASON_SHM_OFF);
    if (shm) return;
    CHECK_SAME(link.AddressLen, there.NicAddressLen & ~2);
    CHECK(memcmp(link.Address, there.LocalNicAddress, link.AddressLen) == 0);
    CHECK(link.Port != 0);
    if (there.NicAddressLen & 2) {
        CHECK_SAME(link.Port, there.LocalNicAddress[link.AddressLen] << 8 | there.LocalNicAddress[link.AddressLen + 1]);
    }
    CHECK((link.ScopeId != 0) == (link.AddressLen == 16 && link.Address[0] == 0xFE));
    CHECK(link.DatagramBytes >= 1200 && link.Window > 0 && link.RttNs > 0 && link.RttMinNs > 0 && link.RttMinNs < 1000000000);
    CHECK(link.PacketsSent > MESSAGES && link.PacketsReceived > 0);
}

/* By the text of its address the peer's NIC is found, too. */
static void named(VIP_NIC_HANDLE nic, VIP_NIC_HANDLE peer) {
    VIP_NIC_ATTRIBUTES there;
    Address found;
    char ip[INET6_ADDRSTRLEN], text[INET6_ADDRSTRLEN + 8];
    unsigned bytes, port = 0;
    CHECK_RETURN(VipQueryNic(peer, &there), VIP_SUCCESS);
    bytes = there.NicAddressLen & ~2u;
    CHECK(inet_ntop(bytes == 4 ? AF_INET : AF_INET6, there.LocalNicAddress, ip, sizeof ip) != NULL);
    if (there.NicAddressLen & 2) port = (unsigned)there.LocalNicAddress[bytes] << 8 | there.LocalNicAddress[bytes + 1];
    snprintf(text, sizeof text, port == 0 ? "%s" : bytes == 4 ? "%s:%u" : "[%s]:%u", ip, port);
    memset(&found, 0, sizeof found);
    CHECK_RETURN(VipNSGetHostByName(nic, text, &found.net, 0), VIP_SUCCESS);
    CHECK_SAME(found.net.HostAddressLen, there.NicAddressLen);
    CHECK(memcmp(found.net.HostAddress, there.LocalNicAddress, there.NicAddressLen) == 0);
}

/* Whether a client asked a NIC with a port of its own before its server waited: such a NIC is found by UDP without a question whether anybody waits. */
static int was_early(End *client) {
    VIPX_LINK_INFO link;
    link.Size = sizeof link;
    CHECK_RETURN(VipxQueryLink(client->vi, &link), VIP_SUCCESS);
    return link.Reason == VIPX_REASON_OTHER_HOST;
}

static void both_at(const char *first, const char *second, int shm) {
    VIP_NIC_HANDLE a, b;
    End client, server;
    int tries;
    check_group(first);
    a = open_at(first, shm);
    b = open_at(second, shm);
    if (a == NULL || b == NULL) return;
    named(a, b);
    ends_pair(&client, a, &server, b, NULL);
    for (tries = 0; shm && strchr(first, ':') != NULL && was_early(&client) && tries < 50; tries++) {
        end_destroy(&client);
        end_destroy(&server);
        ends_pair(&client, a, &server, b, NULL);
    }
    messages(&client, &server);
    messages(&server, &client);
    link_is(&client, b, shm);
    link_is(&server, a, shm);
    end_destroy(&client);
    end_destroy(&server);
    CHECK_RETURN(VipCloseNic(a), VIP_SUCCESS);
    CHECK_RETURN(VipCloseNic(b), VIP_SUCCESS);
}

int main(int argc, char **argv) {
    char with_port[4][64];
    unsigned port = 20000 + (unsigned)getpid() % 20000;
    int shm;
    snprintf(with_port[0], sizeof with_port[0], "127.0.0.4:%u", port);
    snprintf(with_port[1], sizeof with_port[1], "127.0.0.5:%u", port);
    snprintf(with_port[2], sizeof with_port[2], "[::1]:%u", port);
    snprintf(with_port[3], sizeof with_port[3], "[::1]:%u", port + 1);
    for (shm = 0; shm < 2; shm++) {
        both_at("127.0.0.2", "127.0.0.3", shm);
        both_at(with_port[0], with_port[1], shm);
        if (access("/proc/net/if_inet6", R_OK) == 0) {
            both_at("::1", "::1", shm);
            both_at(with_port[2], with_port[3], shm);
        }
    }
    if (argc == 3) both_at(argv[1], argv[2], 0);
    return check_end();
}
