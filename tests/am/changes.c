/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A receiver changes its tag or its segment while bulk data is on its way to it. A handler that
 * runs finds all of the data; otherwise the request comes back. Run by mappings.sh.
 */
#include "check.h"

#include <am.h>
#include <string.h>
#include <time.h>

enum { STORE = 1, HANDLED, GOT, PING, TAG = 0x5eed, OTHER_TAG, BYTES = 5 * 65000 + 17, SEGMENT = 1 << 19, PATIENCE_SECONDS = 60, LOOKS_MAX = 40 };

static eb_t bundles[2];
static ep_t endpoints[2];
static en_t names[2];
static unsigned char *segments[2], *spare, data[BYTES];
static int handled, torn, came_back;

static unsigned char byte_at(size_t i) { return (unsigned char)(i * 7 + (i >> 9) + 1); }
static int is_whole(const unsigned char *at, size_t nbytes) {
    size_t i;
    for (i = 0; i < nbytes && at[i] == byte_at(i); i++) {}
    return nbytes == BYTES && i == nbytes;
}

static void on_store(void *token, void *at, size_t nbytes) {
    torn += !is_whole((const unsigned char *)at, nbytes);
    AM_Reply0(token, HANDLED);
}
static void on_ping(void *token, void *at, size_t nbytes) {
    torn += at != NULL && nbytes != 0;
    AM_Reply0(token, HANDLED);
}
static void on_handled(void *token) { (void)token; handled++; }
static void on_got(void *token, void *at, size_t nbytes) {
    (void)token;
    torn += !is_whole((const unsigned char *)at, nbytes);
    handled++;
}
static void on_return(int status, op_t op, void *argblock) { (void)status; (void)op; (void)argblock; came_back++; }

static void look(int times) {
    for (; times > 0; times--) {
        AM_Poll(bundles[0]);
        AM_Poll(bundles[1]);
    }
}

static int is_over(int before) {
    const time_t end = time(NULL) + PATIENCE_SECONDS;
    while (handled + came_back == before) {
        look(1);
        if (time(NULL) > end) return 0;
    }
    return handled + came_back == before + 1;
}

static void begin(int is_get) {
    if (is_get) {
        memset(segments[0], 0, SEGMENT);
        CHECK_SAME(AM_GetXfer0(endpoints[0], 0, 0, GOT, 0, BYTES), AM_OK);
    } else {
        int code;
        memset(segments[1], 0, SEGMENT);
        while ((code = AM_RequestXferAsync0(endpoints[0], 0, 0, STORE, data, BYTES)) == AM_ERR_NOT_SENT) look(1);
        CHECK_SAME(code, AM_OK);
    }
}

/* Connects, with looks of both sides: some layers need them. */
static void connect_both(void) {
    const int before = handled + came_back;
    int code;
    while ((code = AM_RequestXferAsync0(endpoints[0], 0, 0, PING, data, 0)) == AM_ERR_NOT_SENT) look(1);
    CHECK(code == AM_OK && is_over(before));
}

/* The tag is another one from the start or after so many looks, for as many. */
static void tags(int is_get) {
    int start, looks;
    check_group(is_get ? "the tag changes during a get" : "the tag changes during a bulk request");
    handled = came_back = torn = 0;
    for (start = 0; start < LOOKS_MAX; start += 3) {
        for (looks = 0; looks < LOOKS_MAX; looks += start == 0 ? 1 : 5) {
            const int before = handled + came_back;
            if (start == 0) AM_SetTag(endpoints[1], OTHER_TAG);
            if (is_get) {
                size_t i;
                for (i = 0; i < BYTES; i++) segments[1][i] = byte_at(i);
            }
            begin(is_get);
            look(start);
            AM_SetTag(endpoints[1], OTHER_TAG);
            look(looks);
            AM_SetTag(endpoints[1], TAG);
            CHECK(is_over(before));
        }
    }
    CHECK_SAME(torn, 0);
    CHECK(handled > 0 && came_back > 0);
}

/* The segment is another one after so many looks, of both or of the other side alone. On some
 * layers that ends the connection: the table's entry is made anew then. */
static void segment_changes(int is_get) {
    const int of = is_get ? 0 : 1;
    int looks, i;
    check_group(is_get ? "the segment changes during a get" : "the segment changes during a bulk request");
    handled = came_back = torn = 0;
    for (looks = 0; looks < LOOKS_MAX; looks++) {
        const int before = handled + came_back, returns = came_back;
        unsigned char *const old = segments[of];
        if (is_get) {
            size_t byte;
            for (byte = 0; byte < BYTES; byte++) segments[1][byte] = byte_at(byte);
        }
        memset(spare, 0, SEGMENT);
        begin(is_get);
        if (looks % 2 == 0) look(looks / 2);
        else for (i = 0; i < looks; i++) AM_Poll(bundles[1 - of]);
        if (AM_SetSeg(endpoints[of], spare, SEGMENT) == AM_OK) {
            segments[of] = spare;
            spare = old;
        }
        CHECK(is_over(before));
        /* A connection that has ended takes nothing more. */
        if (came_back != returns) {
            CHECK_SAME(AM_UnMap(endpoints[0], 0), AM_OK);
            CHECK_SAME(AM_Map(endpoints[0], 0, names[1], TAG), AM_OK);
            connect_both();
        }
    }
    CHECK_SAME(torn, 0);
    CHECK(handled > 0);
}

int main(void) {
    void *memory;
    size_t i;
    int at, before;
    for (i = 0; i < BYTES; i++) data[i] = byte_at(i);
    if (AM_Init() != AM_OK) return 2;
    for (at = 0; at < 2; at++) {
        if (AM_AllocateBundle(AM_SEQ, &bundles[at]) != AM_OK || AM_AllocateEndpoint(bundles[at], &endpoints[at], &names[at]) != AM_OK) return 2;
        if (AMX_Alloc(SEGMENT, &memory) != AM_OK || AM_SetSeg(endpoints[at], memory, SEGMENT) != AM_OK) return 2;
        segments[at] = (unsigned char *)memory;
        AM_SetTag(endpoints[at], TAG);
        AM_SetHandler(endpoints[at], 0, on_return);
        AM_SetHandler(endpoints[at], STORE, on_store);
        AM_SetHandler(endpoints[at], HANDLED, on_handled);
        AM_SetHandler(endpoints[at], GOT, on_got);
        AM_SetHandler(endpoints[at], PING, on_ping);
    }
    if (AMX_Alloc(SEGMENT, &memory) != AM_OK) return 2;
    spare = (unsigned char *)memory;
    if (AM_Map(endpoints[0], 0, names[1], TAG) != AM_OK) return 2;
    check_group("nothing changes");
    for (at = 0; at < 2; at++) {
        before = handled + came_back;
        begin(0);
        CHECK(is_over(before));
    }
    CHECK(handled == 2 && torn == 0);
    tags(0);
    tags(1);
    segment_changes(0);
    segment_changes(1);
    CHECK_SAME(AM_Terminate(), AM_OK);
    return check_end();
}
