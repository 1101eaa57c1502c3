/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* An rsocket that echoes, and one that asks, without end: stream PORT [HOST]. With odd ports they
   sleep in rpoll, with even ones in rrecv. Each ends when it is told that its peer is gone.
   (rstream takes the end of a stream, rrecv() == 0, for "try again" and never ends.) */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES 4096

static int fails(const char *what)
{
    printf("%s: %s\n", what, strerror(errno));
    return 1;
}

int main(int count, char **values)
{
    static char buffer[BYTES];
    int port = count > 1 ? atoi(values[1]) : 0, one = 1, s = rsocket(AF_INET, SOCK_STREAM, 0), asks = count > 2;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (asks) {
        if (inet_pton(AF_INET, values[2], &at.sin_addr) != 1 || rconnect(s, (void *)&at, sizeof at))
            return fails("rconnect");
    } else {
        if (rsetsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) || rbind(s, (void *)&at, sizeof at) || rlisten(s, 1))
            return fails("rlisten");
        if ((s = raccept(s, NULL, NULL)) < 0)
            return fails("raccept");
    }
    /* A client hears of a killed peer by what it sends: rsockets ignore receives that end undone,
       and read no event of a connection that rconnect made. */
    if (rsetsockopt(s, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one) || rsetsockopt(s, IPPROTO_TCP, TCP_KEEPIDLE, &one, sizeof one))
        return fails("rsetsockopt");
    printf("connected\n");
    for (int sends = asks;; sends = !sends) {
        for (size_t done = 0; done < BYTES;) {
            struct pollfd p = {s, sends ? POLLOUT : POLLIN, 0};
            if (port % 2 && rpoll(&p, 1, -1) < 0)
                return fails("rpoll");
            ssize_t n = sends ? rsend(s, buffer + done, BYTES - done, 0) : rrecv(s, buffer + done, BYTES - done, 0);
            if (n == 0)
                return printf("the stream ended\n"), 0;
            if (n < 0)
                return fails(sends ? "rsend" : "rrecv");
            done += n;
        }
    }
}
