/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * outsider - a program of another user of the host, who is allowed nothing.
 *
 *   outsider SECONDS ADDRESS NAME VICTIM UID..
 *
 * It takes first all names under which a process of one of the users UID would wait at ADDRESS
 * for NAME, and the port of the directory there. It says "ready", and answers all who ask, as the
 * rightful process would. Meanwhile it looks for processes called VICTIM.. of other users, tries
 * to open what /proc shows of them, to read their memory, and to be linked to all that listens
 * under a name of Bellwire's, and sends packets to all UDP ports. It goes on for SECONDS, or until
 * SIGTERM.
 *
 * A breach: memory or a descriptor of another user, an offer or a session made with it, or an
 * answer to its knock that is no refusal. It ends with 1 if there was one.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "protocol.h"

enum { SOCKETS_MAX = 64, DIRECTORY = 7118, FIND_BYTES = 64 };
enum Kind { LISTENS_AS_WAITER, LISTENS_AS_WAIT, LISTENS_AS_DIRECTORY, KNOCKED, DATA, QUESTIONS };

static struct pollfd sockets[SOCKETS_MAX];
static enum Kind kinds[SOCKETS_MAX];
static int count;
static uint16_t own_port;
static unsigned char id[16];
static long breaches, names, refusals, closed_doors, asked, sent;

static volatile sig_atomic_t is_over;

static void end(int signal) {
    (void)signal;
    is_over = 1;
}

static void breach(const char *what) {
    fprintf(stderr, "breach: %s\n", what);
    breaches++;
}

static void add(int fd, enum Kind kind) {
    if (fd < 0) return;
    if (count == SOCKETS_MAX) {
        close(fd);
        return;
    }
    sockets[count].fd = fd, sockets[count].events = POLLIN, kinds[count++] = kind;
}

static void drop(int at) {
    close(sockets[at].fd);
    sockets[at] = sockets[--count], kinds[at] = kinds[count];
}

static socklen_t abstract(struct sockaddr_un *a, const char *name) {
    size_t n = strlen(name);
    if (n > sizeof a->sun_path - 1) n = sizeof a->sun_path - 1;
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    memcpy(a->sun_path + 1, name, n);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

static void take(const char *name, enum Kind kind) {
    struct sockaddr_un a;
    socklen_t length = abstract(&a, name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bind(fd, (struct sockaddr *)&a, length) != 0 || listen(fd, 64) != 0) {
        perror(name);
        exit(2);
    }
    names++;
    add(fd, kind);
}

static int udp_at(uint32_t host, uint16_t port) {
    struct sockaddr_in a;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    memset(&a, 0, sizeof a);
    a.sin_family = AF_INET, a.sin_addr.s_addr = host, a.sin_port = htons(port);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) != 0) {
        perror("UDP");
        exit(2);
    }
    return fd;
}

/* Handles one readable socket. */
static void serve(int at) {
    uint8_t m[2048];
    char what[80];
    int fds[8], n, got, fd, i;
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    switch (kinds[at]) {
    case LISTENS_AS_WAITER:
        fd = accept4(sockets[at].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) add(fd, KNOCKED);
        break;
    case LISTENS_AS_WAIT:
        fd = accept4(sockets[at].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) break;
        /* "At my port": a process that believes it comes there. */
        m[0] = 1, m[1] = 0, m[2] = (uint8_t)own_port, m[3] = (uint8_t)(own_port >> 8);
        tell(fd, m, 4, NULL, 0);
        asked++;
        close(fd);
        break;
    case LISTENS_AS_DIRECTORY:
        add(accept4(sockets[at].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), KNOCKED);
        break;
    case KNOCKED:
        got = hear(sockets[at].fd, m, sizeof m, fds, &n, 0);
        for (i = 0; i < n; i++) close(fds[i]);
        if (n > 0) breach("a process has given us its memory");
        if (got == MESSAGE_BYTES && m[0] == KNOCK) {
            breach("a process knocks at a name that is not our user's");
            message(m, HERE, 0, 0, id);
            tell(sockets[at].fd, m, MESSAGE_BYTES, NULL, 0);
        } else if (got <= 0) {
            drop(at);
        }
        break;
    case DATA:
        got = (int)recvfrom(sockets[at].fd, m, sizeof m, 0, (struct sockaddr *)&from, &length);
        /* RESET only answers what we have sent to its port. */
        if (got > 0 && m[0] != 0x18) {
            snprintf(what, sizeof what, "a packet of kind %#x, %d bytes, has come to our port", m[0], got);
            breach(what);
        }
        break;
    case QUESTIONS:
        got = (int)recvfrom(sockets[at].fd, m, sizeof m, 0, (struct sockaddr *)&from, &length);
        if (got == FIND_BYTES) {
            m[0] = 0xf2, m[1] = 2, m[2] = (uint8_t)own_port, m[3] = (uint8_t)(own_port >> 8), memset(m + 4, 0, 4);
            sendto(sockets[at].fd, m, 32, 0, (struct sockaddr *)&from, length);
            asked++;
        }
        break;
    }
}

static void try_file(const char *directory, const char *file) {
    char path[64], byte;
    int fd;
    snprintf(path, sizeof path, "%s/%s", directory, file);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        closed_doors++;
        return;
    }
    if (strcmp(file, "fd") == 0 || strcmp(file, "map_files") == 0 || read(fd, &byte, 1) > 0) breach(path);
    close(fd);
}

/* Everything that /proc shows of the victims. */
static void scan_processes(const char *victims) {
    static const char *files[] = {"mem", "maps", "environ", "fd", "map_files", "pagemap", "auxv"};
    DIR *all = opendir("/proc");
    struct dirent *e;
    while (all != NULL && (e = readdir(all)) != NULL) {
        char directory[32], path[64], name[32] = "", bytes[16];
        struct stat s;
        struct iovec here, there;
        int fd, pid = atoi(e->d_name);
        size_t i;
        if (pid <= 0) continue;
        snprintf(directory, sizeof directory, "/proc/%d", pid);
        snprintf(path, sizeof path, "%s/comm", directory);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) continue;
        if (read(fd, name, sizeof name - 1) <= 0) name[0] = 0;
        close(fd);
        name[strcspn(name, "\n")] = 0;
        if (name[0] == 0 || strstr(victims, name) == NULL || stat(directory, &s) != 0 || s.st_uid == geteuid()) continue;
        for (i = 0; i < sizeof files / sizeof *files; i++) try_file(directory, files[i]);
        here.iov_base = bytes, here.iov_len = sizeof bytes, there.iov_base = (void *)0x400000, there.iov_len = sizeof bytes;
        if (process_vm_readv(pid, &here, 1, &there, 1, 0) >= 0 || errno != EPERM) {
            if (errno != ESRCH) breach("memory of a process could be read");
        } else {
            closed_doors++;
        }
    }
    if (all != NULL) closedir(all);
}

/* Knocks at all listeners with a name of ours, and offers what a peer would. */
static void scan_names(void) {
    char line[512];
    FILE *table = fopen("/proc/net/unix", "re");
    while (table != NULL && fgets(line, sizeof line, table) != NULL) {
        char *name = strstr(line, "@bellwire/");
        struct sockaddr_un a;
        uint8_t m[4096];
        int fd, fds[8], n, got, i;
        socklen_t length;
        unsigned long flags;
        if (name == NULL || sscanf(line, "%*s %*s %*s %lx", &flags) != 1 || (flags & 0x10000) == 0) continue;
        name[strcspn(name, "\n")] = 0;
        length = abstract(&a, name + 1);
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (connect(fd, (struct sockaddr *)&a, length) == 0) {
            struct ucred peer;
            socklen_t size = sizeof peer;
            if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid != geteuid()) {
                int turn;
                for (turn = 0; turn < 2; turn++) {
                    message(m, turn == 0 ? KNOCK : OFFER, turn == 0 ? 0 : 3, 0, id);
                    tell(fd, m, MESSAGE_BYTES, NULL, 0);
                    got = hear(fd, m, sizeof m, fds, &n, 20);
                    for (i = 0; i < n; i++) close(fds[i]);
                    if (n > 0) breach("descriptors for a knock");
                    if (got == MESSAGE_BYTES && m[0] == BARRED) refusals++;
                    /* 4 bytes: a port, which anybody may know. */
                    else if (got > 0 && got != 4) breach(name);
                }
            }
        }
        close(fd);
    }
    if (table != NULL) fclose(table);
}

/* Packets to all UDP ports: noise, and beginnings that look like ours. */
static void send_packets(int from) {
    char line[512];
    FILE *table = fopen("/proc/net/udp", "re");
    while (table != NULL && fgets(line, sizeof line, table) != NULL) {
        unsigned address, port;
        struct sockaddr_in to;
        uint8_t m[256];
        int i, k;
        if (sscanf(line, "%*s %8X:%4X", &address, &port) != 2 || port == own_port || port == DIRECTORY) continue;
        memset(&to, 0, sizeof to);
        to.sin_family = AF_INET, to.sin_addr.s_addr = address, to.sin_port = htons((uint16_t)port);
        for (k = 0; k < 8; k++) {
            for (i = 0; i < (int)sizeof m; i++) m[i] = (uint8_t)rnd(256);
            m[0] = (uint8_t)(0x10 + rnd(8)), m[1] = (uint8_t)rnd(4);
            if (sendto(from, m, 16 + rnd(sizeof m - 16), 0, (struct sockaddr *)&to, sizeof to) > 0) sent++;
        }
    }
    if (table != NULL) fclose(table);
}

int main(int argc, char **argv) {
    uint32_t host;
    char hash[HASH_TEXT], name[108];
    int i, data, round = 0;
    time_t until;
    struct sigaction action;
    struct sockaddr_in own;
    socklen_t length = sizeof own;
    if (argc < 6) return 2;
    host = inet_addr(argv[2]);
    address_hash(hash, host, argv[3]);
    seed_with((uint64_t)getpid());
    for (i = 0; i < 16; i++) id[i] = (unsigned char)rnd(256);
    data = udp_at(host, 0);
    getsockname(data, (struct sockaddr *)&own, &length);
    own_port = ntohs(own.sin_port);
    add(data, DATA);
    add(udp_at(host, DIRECTORY), QUESTIONS);
    snprintf(name, sizeof name, "bellwire/udp/directory/%s/%d", argv[2], DIRECTORY), take(name, LISTENS_AS_DIRECTORY);
    snprintf(name, sizeof name, "bellwire/udp/%s", hash), take(name, LISTENS_AS_WAIT);
    snprintf(name, sizeof name, "bellwire/udp/%u/%s", geteuid(), hash), take(name, LISTENS_AS_WAIT);
    for (i = 5; i < argc; i++) {
        snprintf(name, sizeof name, "bellwire/%d/%s/w/%s", VERSION, argv[i], hash), take(name, LISTENS_AS_WAITER);
        snprintf(name, sizeof name, "bellwire/udp/%s/%s", argv[i], hash), take(name, LISTENS_AS_WAIT);
    }
    puts("ready");
    fflush(stdout);
    memset(&action, 0, sizeof action);
    action.sa_handler = end;
    sigaction(SIGTERM, &action, NULL);
    for (until = time(NULL) + atoi(argv[1]); !is_over && time(NULL) < until;) {
        if (poll(sockets, (nfds_t)count, 20) > 0) {
            for (i = count - 1; i >= 0; i--) {
                if (i < count && sockets[i].revents != 0) serve(i);
            }
        }
        if (++round % 4 != 0) continue;
        scan_processes(argv[4]);
        scan_names();
        send_packets(data);
    }
    printf("outsider: %ld names taken, %ld times asked, %ld knocks refused, %ld doors of /proc closed, %ld packets sent, %ld breaches\n", names, asked, refusals,
           closed_doors, sent, breaches);
    return breaches != 0;
}
