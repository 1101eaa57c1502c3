/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A small key-value store: one server, many client processes, each with a VI of its own; all completions of the server come out of one completion
 * queue.
 *
 * Protocol: a client sends one Message and gets one back. Request: operation, key, value (put only). Answer: the operation replaced by a
 * result, and the value (get only). A client has one request under way, so that one receive and one send for each VI are enough.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

static const char help[] =
    "kv_store [server|client] [--clients N] [--operations N] [--name NAME]\n"
    "\n"
    "Without server or client one server and --clients clients run, each as a process.\n"
    "In two terminals:   kv_store server      kv_store client\n"
    "On two hosts:       BELLWIRE_ADDRESS=auto kv_store server      BELLWIRE_ADDRESS=auto kv_store client --name kv_store@HOST\n"
    "\n"
    "  --clients N     clients to start; as server: stop after so many have come and gone (default: 3; as server: never)\n"
    "  --operations N  operations of each client, checked against what it knows (default 20000)\n"
    "  --name NAME     where they meet (default kv_store); a client may add @HOST\n";

enum { KEY_BYTES_MAX = 32, VALUE_BYTES_MAX = 400, CLIENTS_MAX = 256, BUCKETS = 4096 };

typedef enum { GET = 1, PUT = 2, DELETE = 3, OK = 100, ABSENT = 101, MALFORMED = 102 } Operation;

typedef struct {
    uint32_t operation; /* Operation */
    uint16_t key_bytes, value_bytes;
    unsigned char key[KEY_BYTES_MAX];
    unsigned char value[VALUE_BYTES_MAX];
} Message;

enum { MESSAGE_HEAD = offsetof(Message, value) };

/* ------------------------------------------------------------------ the table */

typedef struct Entry {
    struct Entry *next;
    Message content;
} Entry;

static Entry *buckets[BUCKETS];
static long entries;

static Entry **find(const Message *m) {
    uint32_t hash = 2166136261u;
    unsigned i;
    Entry **at;
    for (i = 0; i < m->key_bytes; i++) hash = (hash ^ m->key[i]) * 16777619u;
    for (at = &buckets[hash % BUCKETS]; *at != NULL; at = &(*at)->next) {
        if ((*at)->content.key_bytes == m->key_bytes && memcmp((*at)->content.key, m->key, m->key_bytes) == 0) break;
    }
    return at;
}

/* Does what a request says; the answer may be any Message. A client is not trusted: lengths are checked against what came. */
static void serve(const Message *request, uint32_t request_bytes, Message *answer) {
    Entry **at;
    memset(answer, 0, MESSAGE_HEAD);
    answer->operation = MALFORMED;
    if (request_bytes < MESSAGE_HEAD || request->key_bytes == 0 || request->key_bytes > KEY_BYTES_MAX) return;
    if (request->value_bytes > VALUE_BYTES_MAX || request_bytes != (uint32_t)MESSAGE_HEAD + request->value_bytes) return;
    at = find(request);
    if (request->operation == PUT) {
        if (*at == NULL) {
            *at = calloc(1, sizeof **at);
            if (*at == NULL) fail("out of memory");
            entries++;
        }
        memcpy(&(*at)->content, request, request_bytes);
        answer->operation = OK;
    } else if (request->operation == GET) {
        answer->operation = *at == NULL ? ABSENT : OK;
        if (*at != NULL) {
            answer->value_bytes = (*at)->content.value_bytes;
            memcpy(answer->value, (*at)->content.value, answer->value_bytes);
        }
    } else if (request->operation == DELETE) {
        Entry *gone = *at;
        answer->operation = gone == NULL ? ABSENT : OK;
        if (gone != NULL) {
            *at = gone->next;
            free(gone);
            entries--;
        }
    }
}

/* ------------------------------------------------------------------ the server */

/* What one client has in the server's memory. */
typedef struct {
    VIP_DESCRIPTOR recv, send;
    Message request, answer;
} Desk;

typedef struct {
    VIP_VI_HANDLE vi; /* NULL: free */
    int posted;       /* descriptors that have not come back */
} Client;

static struct {
    VIP_NIC_HANDLE nic;
    Memory memory;
    VIP_CQ_HANDLE cq;
    const char *name;
    pthread_mutex_t lock; /* clients[], came */
    Client clients[CLIENTS_MAX];
    long came, gone, served, enough;
    volatile sig_atomic_t stop;
} server;

static Desk *desk_of(int i) {
    return (Desk *)(server.memory.bytes + (size_t)i * ((sizeof(Desk) + 63) & ~(size_t)63));
}

static void post_request(int i) {
    Desk *desk = desk_of(i);
    describe(&desk->recv, &server.memory, &desk->request, sizeof desk->request);
    MUST(VipPostRecv(server.clients[i].vi, &desk->recv, server.memory.handle));
    server.clients[i].posted++;
}

/* Thread that lets clients in: makes a VI on the common CQ, posts its receive, waits for somebody to take it. */
static void *doorkeeper(void *unused) {
    (void)unused;
    while (!server.stop && (server.enough == 0 || server.came < server.enough)) {
        int i;
        pthread_mutex_lock(&server.lock);
        for (i = 0; i < CLIENTS_MAX && server.clients[i].vi != NULL; i++) {
        }
        if (i < CLIENTS_MAX) {
            server.clients[i].posted = 0;
            server.clients[i].vi = vi_open(&server.memory, server.cq, server.cq);
            post_request(i);
        }
        pthread_mutex_unlock(&server.lock);
        if (i == CLIENTS_MAX) {
            usleep(10000); /* full: look again when somebody may have left */
            continue;
        }
        while (!server.stop && !vi_accept(server.nic, server.name, 200, server.clients[i].vi)) {
        }
        if (server.stop) break;
        server.came++;
    }
    return NULL;
}

static int client_of(VIP_VI_HANDLE vi) {
    int i;
    for (i = 0; i < CLIENTS_MAX; i++) {
        if (server.clients[i].vi == vi) return i;
    }
    fail("a completion of an unknown VI");
    return 0;
}

static void forget(int i) {
    vi_close(server.clients[i].vi);
    server.clients[i].vi = NULL;
    server.gone++;
}

/* One completion of client i. Takes the lock's protection from the caller. */
static void complete(int i, VIP_BOOLEAN is_recv) {
    Client *client = &server.clients[i];
    Desk *desk = desk_of(i);
    VIP_DESCRIPTOR *done;
    VIP_RETURN result = is_recv ? VipRecvDone(client->vi, &done) : VipSendDone(client->vi, &done);
    client->posted--;
    if (result != VIP_DESCRIPTOR_ERROR) must(result, "VipRecvDone or VipSendDone");
    if (result == VIP_DESCRIPTOR_ERROR || !is_recv) {
        /* While a client is there its receive is posted. With nothing posted it has gone and all its descriptors are back. */
        if (client->posted == 0) forget(i);
        return;
    }
    serve(&desk->request, done->CS.Length, &desk->answer);
    server.served++;
    /* The next request can come as soon as the answer is there: its receive is posted first. */
    post_request(i);
    describe(&desk->send, &server.memory, &desk->answer, (VIP_UINT32)(MESSAGE_HEAD + desk->answer.value_bytes));
    MUST(VipPostSend(client->vi, &desk->send, server.memory.handle));
    client->posted++;
}

static void on_signal(int number) {
    (void)number;
    server.stop = 1;
}

static void run_server(const char *name, long enough) {
    pthread_t thread;
    int i;
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    server.name = name;
    server.enough = enough;
    pthread_mutex_init(&server.lock, NULL);
    MUST(VipOpenNic("nic0", &server.nic));
    memory_open(&server.memory, server.nic, CLIENTS_MAX * ((sizeof(Desk) + 63ul) & ~63ul));
    MUST(VipCreateCQ(server.nic, 2 * CLIENTS_MAX, &server.cq));
    pthread_create(&thread, NULL, doorkeeper, NULL);
    printf("server: waiting at \"%s\"\n", name);
    fflush(stdout);
    while (!server.stop && (enough == 0 || server.gone < enough)) {
        VIP_VI_HANDLE vi;
        VIP_BOOLEAN is_recv;
        VIP_RETURN result = VipCQWait(server.cq, 200, &vi, &is_recv);
        if (result == VIP_TIMEOUT) continue;
        must(result, "VipCQWait");
        pthread_mutex_lock(&server.lock);
        complete(client_of(vi), is_recv);
        pthread_mutex_unlock(&server.lock);
    }
    server.stop = 1;
    pthread_join(thread, NULL);
    for (i = 0; i < CLIENTS_MAX; i++) {
        if (server.clients[i].vi != NULL) vi_close(server.clients[i].vi);
    }
    printf("server: %ld clients, %ld requests, %ld keys in the end\n", server.came, server.served, entries);
    MUST(VipDestroyCQ(server.cq));
    memory_close(&server.memory);
    MUST(VipCloseNic(server.nic));
}

/* ------------------------------------------------------------------ a client */

typedef struct {
    VIP_NIC_HANDLE nic;
    Memory memory;
    VIP_VI_HANDLE vi;
    Desk *desk;
} Caller;

/* Sends the request in desk->request and waits for the answer. */
static const Message *ask(Caller *c) {
    VIP_DESCRIPTOR *done;
    Message *answer = &c->desk->answer;
    describe(&c->desk->recv, &c->memory, answer, sizeof *answer);
    MUST(VipPostRecv(c->vi, &c->desk->recv, c->memory.handle));
    describe(&c->desk->send, &c->memory, &c->desk->request, (VIP_UINT32)(MESSAGE_HEAD + c->desk->request.value_bytes));
    MUST(VipPostSend(c->vi, &c->desk->send, c->memory.handle));
    must(VipSendWait(c->vi, 10000, &done), "VipSendWait");
    must(VipRecvWait(c->vi, 10000, &done), "VipRecvWait");
    if (done->CS.Length != (VIP_UINT32)MESSAGE_HEAD + answer->value_bytes) fail("an answer of the wrong length");
    return answer;
}

enum { KEYS = 100 };

static void make_value(Message *m, long key, unsigned version) {
    unsigned i;
    m->value_bytes = (uint16_t)((unsigned)(key * 13) % 200 + version % 200 + 1);
    for (i = 0; i < m->value_bytes; i++) m->value[i] = (unsigned char)((unsigned)key + version * 3 + i);
}

static void run_client(const char *name, long operations) {
    Caller c;
    unsigned version[KEYS] = {0}; /* 0: absent */
    unsigned random = (unsigned)getpid() * 2654435761u + 1;
    long i, wrong = 0;
    double start, took;
    MUST(VipOpenNic("nic0", &c.nic));
    memory_open(&c.memory, c.nic, sizeof(Desk));
    c.desk = (Desk *)c.memory.bytes;
    c.vi = vi_open(&c.memory, NULL, NULL);
    vi_dial(c.nic, name, 20000, c.vi);
    start = seconds();
    for (i = 0; i < operations; i++) {
        Message *request = &c.desk->request;
        const Message *answer;
        long key = (random >> 8) % KEYS;
        random = random * 1664525u + 1013904223u;
        memset(request, 0, MESSAGE_HEAD);
        request->key_bytes = (uint16_t)snprintf((char *)request->key, KEY_BYTES_MAX, "%ld/%ld", (long)getpid(), key);
        request->operation = (random >> 12) % 10 < 6 ? GET : (random >> 12) % 10 < 9 ? PUT : DELETE;
        if (request->operation == PUT) make_value(request, key, (unsigned)i + 1);
        answer = ask(&c);
        if (request->operation == PUT) {
            wrong += answer->operation != OK;
            version[key] = (unsigned)i + 1;
        } else {
            wrong += answer->operation != (version[key] != 0 ? OK : ABSENT);
            if (request->operation == GET && version[key] != 0) {
                Message expected;
                make_value(&expected, key, version[key]);
                wrong += expected.value_bytes != answer->value_bytes || memcmp(expected.value, answer->value, expected.value_bytes) != 0;
            }
            if (request->operation == DELETE) version[key] = 0;
        }
    }
    took = seconds() - start;
    printf("client %ld: %ld operations in %.3f s, %.0f a second, %ld wrong\n", (long)getpid(), operations, took,
           (double)operations / took, wrong);
    vi_close(c.vi);
    memory_close(&c.memory);
    MUST(VipCloseNic(c.nic));
    if (wrong != 0) exit(1);
}

/* ------------------------------------------------------------------ both */

static const char *const words[] = {"server", "client", "--clients=", "--operations=", "--name=", "--help", "-h", NULL};

int main(int argc, char **argv) {
    long clients = option_number(argc, argv, "--clients", 0), operations = option_number(argc, argv, "--operations", 20000), i;
    const char *name = option_text(argc, argv, "--name");
    char own_name[32];
    int status, bad = 0;
    check_options(argc, argv, words);
    if (has_option(argc, argv, "--help") || has_option(argc, argv, "-h")) {
        fputs(help, stdout);
        return 0;
    }
    if (clients > CLIENTS_MAX || (clients == 0 && has_option(argc, argv, "--clients"))) fail("--clients must be 1 to %d; see --help", CLIENTS_MAX);
    if (name == NULL) name = "kv_store";
    if (has_option(argc, argv, "server")) {
        run_server(name, clients);
        return 0;
    }
    if (has_option(argc, argv, "client")) {
        run_client(name, operations);
        return 0;
    }
    if (clients == 0) clients = 3;
    snprintf(own_name, sizeof own_name, "kv_store-%ld", (long)getpid());
    for (i = 0; i < clients; i++) {
        pid_t child = fork();
        if (child < 0) fail("fork failed");
        if (child == 0) {
            run_client(own_name, operations);
            exit(0);
        }
    }
    run_server(own_name, clients);
    for (i = 0; i < clients; i++) {
        wait(&status);
        bad |= status != 0;
    }
    if (bad) fail("a client failed");
    return 0;
}
