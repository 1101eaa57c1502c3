/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The library loaded by name, as programs do that look for a provider at run time: all 41 functions and the extensions are there and one of them works. */
#include <dlfcn.h>
#include <stdio.h>

#include "check.h"
#include "viplx.h"

static const char *const names[] = {
    "VipOpenNic",      "VipCloseNic",      "VipQueryNic",      "VipErrorCallback",      "VipQuerySystemManagementInfo",
    "VipCreatePtag",   "VipDestroyPtag",   "VipRegisterMem",   "VipDeregisterMem",      "VipQueryMem",
    "VipSetMemAttributes", "VipCreateVi",  "VipDestroyVi",     "VipQueryVi",            "VipSetViAttributes",
    "VipPostSend",     "VipPostRecv",      "VipSendDone",      "VipRecvDone",           "VipSendWait",
    "VipRecvWait",     "VipSendNotify",    "VipRecvNotify",    "VipConnectWait",        "VipConnectAccept",
    "VipConnectReject", "VipConnectRequest", "VipDisconnect",  "VipConnectPeerRequest", "VipConnectPeerDone",
    "VipConnectPeerWait", "VipCreateCQ",   "VipDestroyCQ",     "VipResizeCQ",           "VipCQDone",
    "VipCQWait",       "VipCQNotify",      "VipNSInit",        "VipNSGetHostByName",    "VipNSGetHostByAddr",
    "VipNSShutdown",
};
static const char *const extensions[] = {
    "VipxVersion",   "VipxAllocMem",   "VipxFreeMem",     "VipxQueryVi",  "VipxQueryLink", "VipxQueryMem",   "VipxQueryNic", "VipxQueryCause",
    "VipxCreateSrq", "VipxDestroySrq", "VipxPostSrqRecv", "VipxCreateVi", "VipxSetWeight", "VipxSendInline", "VipxRegisterCached", "VipxReleaseCached", "VipxQueryCache",
    "VipxSetSpin",   "VipxSendWait",   "VipxRecvWait",    "VipxCQWait",   "VipxCQFd",       "VipxCQArm",
};

int main(int argc, char **argv) {
    const char *file = argc > 1 ? argv[1] : "vipl.so";
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    size_t i;
    check_group(file);
    if (!CHECK(library != NULL)) {
        printf("%s\n", dlerror());
        return check_end();
    }
    CHECK_SAME(sizeof names / sizeof names[0], 41);
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!CHECK(dlsym(library, names[i]) != NULL)) printf("no %s\n", names[i]);
    }
    for (i = 0; i < sizeof extensions / sizeof extensions[0]; i++) {
        if (!CHECK(dlsym(library, extensions[i]) != NULL)) printf("no %s\n", extensions[i]);
    }
    {
        union {
            void *object;
            VIP_RETURN (*call)(const VIP_CHAR *, VIP_NIC_HANDLE *);
        } open;
        open.object = dlsym(library, "VipOpenNic");
        if (open.object != NULL) CHECK_RETURN(open.call("nic0", NULL), VIP_INVALID_PARAMETER);
    }
    return check_end();
}
