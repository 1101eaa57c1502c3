// SPDX-License-Identifier: MIT OR Apache-2.0
// A stream of bytes that comes back, by plain sockets: for librspreload, which makes rsockets of
// them.     echo PORT [ADDRESS]     With an address it is the client.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BYTES = 1 << 20, PART = 8192 };

static void all(int fd, char *bytes, size_t length, int is_sent)
{
    while (length) {
        ssize_t done = is_sent ? send(fd, bytes, length, 0) : recv(fd, bytes, length, 0);
        if (done <= 0) {
            perror("the stream ended early");
            exit(1);
        }
        bytes += done;
        length -= (size_t)done;
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[1])), .sin_addr = {htonl(INADDR_ANY)}};
    int own = socket(AF_INET, SOCK_STREAM, 0);
    char part[PART];
    if (argc < 3) {
        if (bind(own, (struct sockaddr *)&at, sizeof at) || listen(own, 1)) {
            perror("listen");
            return 1;
        }
        int peer = accept(own, NULL, NULL);
        for (int at_byte = 0; at_byte < BYTES; at_byte += PART) {
            all(peer, part, PART, 0);
            all(peer, part, PART, 1);
        }
        // The client closes first.
        recv(peer, part, 1, 0);
        close(peer);
    } else {
        inet_pton(AF_INET, argv[2], &at.sin_addr);
        if (connect(own, (struct sockaddr *)&at, sizeof at)) {
            perror("connect");
            return 1;
        }
        for (int at_byte = 0; at_byte < BYTES; at_byte += PART) {
            for (int i = 0; i < PART; i++)
                part[i] = (char)(at_byte / PART + i * 7);
            all(own, part, PART, 1);
            all(own, part, PART, 0);
            for (int i = 0; i < PART; i++) {
                if (part[i] != (char)(at_byte / PART + i * 7)) {
                    puts("other bytes");
                    return 1;
                }
            }
        }
        puts("the same bytes");
    }
    close(own);
    return 0;
}
