/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* am.h compiles as C11 and as C++17, has all names of AM-II with the values that programs rely on, and every call with every number of arguments. */
#include <am.h>

#include "check.h"

static void values(void) {
    check_group("values");
    CHECK(AM_OK == 0 && AM_ERR_NOT_INIT == 1 && AM_ERR_BAD_ARG == 2 && AM_ERR_RESOURCE == 3 && AM_ERR_NOT_SENT == 4 && AM_ERR_IN_USE == 5);
    CHECK(EBADARGS == 1 && EBADENTRY == 2 && EBADTAG == 3 && EBADHANDLER == 4 && EBADSEGOFF == 5 && EBADLENGTH == 6 && EBADENDPOINT == 7);
    CHECK(ECONGESTION == 8 && EUNREACHABLE == 9 && EREPLYREJECTED == 10);
    CHECK(AM_REQUEST_M == 1 && AM_REQUEST_IM == 2 && AM_REQUEST_XFER_M == 3 && AM_REPLY_M == 4 && AM_REPLY_IM == 5 && AM_REPLY_XFER_M == 6);
    CHECK(AM_ALL == 1 && AM_NONE == 0 && AM_NOEVENTS == 0 && AM_NOTEMPTY == 1 && AM_SEQ == 0 && AM_PAR == 1);
    CHECK(sizeof(tag_t) == 8 && sizeof(handler_t) == 1 && sizeof(en_t) == 48);
    CHECK(AM_MaxShort() >= 8 && AM_MaxMedium() >= 512 && AM_MaxLong() >= 8192 && AM_MaxNumHandlers() == 256);
}

/* Each call with M arguments, on nothing: the library must be asked, and refuse. */
#define L0
#define L1 , 1
#define L2 L1, 2
#define L3 L2, 3
#define L4 L3, 4
#define L5 L4, 5
#define L6 L5, 6
#define L7 L6, 7
#define L8 L7, 8
#define L9 L8, 9
#define L10 L9, 10
#define L11 L10, 11
#define L12 L11, 12
#define L13 L12, 13
#define L14 L13, 14
#define L15 L14, 15
#define L16 L15, 16
#define EACH(M)                                                                        \
    do {                                                                               \
        CHECK_SAME(AM_Request##M(ep, 0, 1 L##M), AM_ERR_BAD_ARG);                      \
        CHECK_SAME(AM_RequestI##M(ep, 0, 1, &ep, 8 L##M), AM_ERR_BAD_ARG);             \
        CHECK_SAME(AM_RequestXfer##M(ep, 0, 0, 1, &ep, 8 L##M), AM_ERR_BAD_ARG);       \
        CHECK_SAME(AM_RequestXferAsync##M(ep, 0, 0, 1, &ep, 8 L##M), AM_ERR_BAD_ARG);  \
        CHECK_SAME(AM_GetXfer##M(ep, 0, 0, 1, 0, 8 L##M), AM_ERR_BAD_ARG);             \
        CHECK_SAME(AM_Reply##M(NULL, 1 L##M), AM_ERR_BAD_ARG);                         \
        CHECK_SAME(AM_ReplyI##M(NULL, 1, &ep, 8 L##M), AM_ERR_BAD_ARG);                \
        CHECK_SAME(AM_ReplyXfer##M(NULL, 0, 1, &ep, 8 L##M), AM_ERR_BAD_ARG);          \
    } while (0)

static void calls(void) {
    ep_t ep = NULL;
    check_group("calls on nothing");
    EACH(0); EACH(1); EACH(2); EACH(3); EACH(4); EACH(5); EACH(6); EACH(7); EACH(8);
    EACH(9); EACH(10); EACH(11); EACH(12); EACH(13); EACH(14); EACH(15); EACH(16);
}

int main(void) {
    values();
    calls();
    return check_end();
}
