/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * protocol.h - what a peer on this host can know of the shared-memory wire, written down a second time for an attacker: this directory's attacker includes
 * nothing of the library and links none of it. The library's own words for it are in crates/wire/src/shm/{layout,message}.rs and crates/wire/src/frame.rs.
 */
#ifndef PROTOCOL_H
#define PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

enum {
    VERSION = 4,
    LINES = 1024,
    PAYLOAD_BYTES = 256 * 1024,
    ADVERTS = 1024,
    CATALOGUE_ENTRIES = 4096,
    HEAD_AT = 128,
    ARMED_AT = 256,
    EPOCH_AT = 384,
    PROOF_AT = 512,
    AWAY_AT = 640,
    LINES_AT = 4096,
    ADVERTS_AT = LINES_AT + LINES * 64,
    LINK_BYTES = ADVERTS_AT + ADVERTS * 32,
    CATALOGUE_BYTES = CATALOGUE_ENTRIES * 64,
    MESSAGE_BYTES = 32
};

/* Messages of the socket. */
enum { KNOCK = 1, HERE, EXISTING, OFFER, WANT, GIVE, GONE, BARRED };

/* Operations of frames. */
enum {
    OP_SEND = 1, OP_SEND_PLACED, OP_WRITE, OP_WRITE_PLACED, OP_READ_REQUEST, OP_READ_RESPONSE, OP_ACK, OP_NOT_READY, OP_READY, OP_REFUSED,
    OP_DISCONNECT, OP_CONNECT_REQUEST, OP_CONNECT_REPLY, OP_CONNECT_CANCEL, OP_PEER_REQUEST, OP_PEER_ACCEPT, OP_COUNT, OP_SEND_PULL = OP_COUNT, OP_WRITE_PULL, OP_PULLED
};

/* What an entry of the catalogue says. */
typedef struct {
    uint64_t tag, rights, address, length, segment, offset, unused[2];
} Entry;

/* A peer as the attacker has it. */
typedef struct {
    int socket;
    unsigned char own_id[16], id[16];
    uint8_t *out;             /* our link region: ours to write */
    uint8_t *out_payload;     /* our payload bytes */
    volatile uint8_t *in;     /* the victim's */
    volatile uint8_t *in_payload; /* the victim's: ours to write too, unless it is guarded */
    int in_payload_fd;        /* the same, as a file */
    int in_payload_writable;
    uint64_t *own_catalogue;  /* ours to write */
    volatile Entry *catalogue; /* the victim's */
    int bell;                 /* the victim's */
    int own_bell;             /* ours: what the victim rings */
    uint8_t block[24];        /* what the victim is to find in our memory, if it may look: our id and a number */
    uint64_t peer_probe;      /* where the victim wants to be read, to see whether it can be */
    uint32_t tail, head;      /* lines that we wrote, lines that we read */
    uint32_t payload;         /* where our next payload goes */
    uint32_t vi;              /* the victim's connection id, once connected */
    uint32_t vi_tag, vi_flags; /* what the acceptance told besides: its tag; 1 RDMA write, 2 RDMA read, 4 it answers when there is no receive */
    uint32_t own_tag, own_flags, own_connection; /* what our next request for a connection says */
    uint32_t sequence;        /* of the next message to it */
} Link;

uint64_t rnd(uint64_t below);
void seed_with(uint64_t seed);

/* What an IPv4 address and a discriminator are in names: 32 digits and a 0. */
enum { HASH_TEXT = 33 };
void address_hash(char *text, uint32_t host, const char *discriminator);

/* The socket's name of who waits at an IPv4 address under a discriminator; gives its length. */
int waiter_name(char *name, size_t room, uint32_t host, const char *discriminator);
int knock_at(uint32_t host, const char *discriminator);
int tell(int socket, const void *bytes, size_t count, const int *fds, int fd_count);
int hear(int socket, void *bytes, size_t room, int *fds, int *fd_count, int ms);
void message(uint8_t *m, int kind, int flags, uint32_t segment, const uint8_t *id);

int sealed_memory(size_t bytes, void **base, int seals);
/* Becomes a link as an honest peer would. 1 if it worked. */
int link_up(Link *l, uint32_t host, const char *discriminator);
void link_down(Link *l);

/* Puts a line into our queue as it stands, room or not. */
void push(Link *l, const uint64_t *words);
/* Asks for a connection to a waiter and waits for the answer. 1: l->vi is ours. */
int connect_vi(Link *l, uint32_t host, const char *discriminator, int reliability, int ms);
void connection_request(Link *l, uint32_t host, const char *discriminator, int reliability, uint32_t connection);

#endif
