// SPDX-License-Identifier: MIT OR Apache-2.0
// Loaded beside the library, it takes `connect`, as librspreload does. A connected socket of
// datagrams would be an rsocket there, which asks the device for the way, which connects a socket
// of datagrams, and so on.
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    int type = 0;
    socklen_t size = sizeof type;
    if (address->sa_family != AF_UNIX && !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) && type == SOCK_DGRAM) {
        static const char text[] = "taken: a socket of datagrams was connected\n";
        (void)!write(2, text, sizeof text - 1);
        errno = ELOOP;
        return -1;
    }
    return (int)syscall(SYS_connect, fd, address, length);
}
