// SPDX-License-Identifier: MIT OR Apache-2.0
// Loaded before librspreload 65, it has librdmacm begin no thread for connections: then a program
// connects its rsockets alone. librdmacm has that thread and the program handle the events of one
// identifier without a lock that both take (`rs_handle_cm_event`, `ucma_complete`): an event is
// freed twice.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

static int is_librdmacms(const void *address)
{
    Dl_info of;
    return address && dladdr(address, &of) && of.dli_fname && strstr(of.dli_fname, "librdmacm");
}

// Only threads for all rsockets have a variable of the library as their argument.
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *of)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    if (is_librdmacms(of) && is_librdmacms(*(void **)&run))
        return EAGAIN;
    return real(thread, attributes, run, of);
}
