/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Looks at the device files by each of the C library's calls, as tests/devices/check.sh runs it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures, checks;
#define CHECK(what) \
    do { \
        checks++; \
        if (!(what)) { \
            failures++; \
            printf("line %d: %s (errno %d)\n", __LINE__, #what, errno); \
        } \
    } while (0)
#define FAILS(call, number) \
    do { \
        errno = 0; \
        checks++; \
        if ((call) != -1 || errno != (number)) { \
            failures++; \
            printf("line %d: %s: errno %d, not %d\n", __LINE__, #call, errno, number); \
        } \
    } while (0)

/* Old names, which new headers no longer declare, and those that the compiler chooses itself. */
int __xstat(int, const char *, struct stat *);
int __lxstat(int, const char *, struct stat *);
int __fxstat(int, int, struct stat *);
int __fxstatat(int, int, const char *, struct stat *, int);
int __open_2(const char *, int);
int __open64_2(const char *, int);
int __openat_2(int, const char *, int);
char *__realpath_chk(const char *, char *, size_t);
ssize_t __readlink_chk(const char *, char *, size_t, size_t);
ssize_t __readlinkat_chk(int, const char *, char *, size_t, size_t);
ssize_t __read_chk(int, void *, size_t, size_t);

#define CLASS "/sys/class/infiniband"
#define DEVICE CLASS "/bellwire0"
#define STATE DEVICE "/ports/1/state"
#define UVERBS "/dev/infiniband/uverbs0"
#define REAL "/sys/devices/pcib311:00/b311:00:00.0/infiniband/bellwire0"

static int holds(int fd, const char *text)
{
    char got[256];
    ssize_t n = read(fd, got, sizeof got);
    return n == (ssize_t)strlen(text) && memcmp(got, text, n) == 0 && close(fd) == 0;
}

static void opens(void)
{
    CHECK(holds(open(STATE, O_RDONLY), "4: ACTIVE\n"));
    CHECK(holds(open64(STATE, O_RDONLY | O_CLOEXEC), "4: ACTIVE\n"));
    CHECK(holds(openat(AT_FDCWD, STATE, O_RDONLY), "4: ACTIVE\n"));
    CHECK(holds(openat64(-5, STATE, O_RDONLY), "4: ACTIVE\n"));
    CHECK(holds(__open_2(STATE, O_RDONLY), "4: ACTIVE\n"));
    CHECK(holds(__open64_2(STATE, O_RDONLY), "4: ACTIVE\n"));
    CHECK(holds(__openat_2(AT_FDCWD, STATE, O_RDONLY), "4: ACTIVE\n"));
    CHECK(holds(open("//sys/class/./infiniband//bellwire0/device/../b311:00:00.0/infiniband/bellwire0/ports/1/link_layer", O_RDONLY), "Ethernet\n"));
    int folder = open(DEVICE, O_RDONLY | O_DIRECTORY);
    CHECK(folder >= 0);
    CHECK(holds(openat(folder, "ports/1/gid_attrs/types/0", O_RDONLY), "RoCE v2\n"));
    CHECK(holds(openat(folder, "../../infiniband_verbs/uverbs0/ibdev", O_RDONLY), "bellwire0\n"));
    FAILS(openat(folder, "nothing", O_RDONLY), ENOENT);
    CHECK(close(folder) == 0);
    FAILS(openat(folder, "ports", O_RDONLY), EBADF);
    FAILS(open(STATE, O_RDWR), EACCES);
    FAILS(open(STATE, O_RDONLY | O_DIRECTORY), ENOTDIR);
    FAILS(open(DEVICE "/ports", O_WRONLY), EISDIR);
    FAILS(open(DEVICE, O_RDONLY | O_NOFOLLOW), ELOOP);
    FAILS(open(CLASS "/mlx5_0", O_RDONLY), ENOENT);
    FAILS(open(STATE "/x", O_RDONLY), ENOTDIR);
    FAILS(open(UVERBS "9", O_RDWR), ENOENT);
    FAILS(open("/dev/infiniband/new", O_RDWR | O_CREAT, 0600), ENOENT);
    FILE *file = fopen(STATE, "r");
    char line[64];
    CHECK(file && fgets(line, sizeof line, file) && strcmp(line, "4: ACTIVE\n") == 0 && fclose(file) == 0);
    file = fopen64(DEVICE "/node_type", "re");
    CHECK(file && fgets(line, sizeof line, file) && strcmp(line, "1: CA\n") == 0 && fclose(file) == 0);
    CHECK(!fopen(STATE, "w") && errno == EACCES);
    CHECK(!fopen(CLASS "/nothing", "r") && errno == ENOENT);
    /* The number of a stream that was closed is another file's now. */
    int other = open("/proc/self/stat", O_RDONLY);
    struct stat s;
    CHECK(fstat(other, &s) == 0 && s.st_dev != makedev(0, 0xb311));
    close(other);
    CHECK(__read_chk(other, line, 1, sizeof line) == -1 && errno == EBADF);
}

static void stats(void)
{
    struct stat s;
    struct stat64 s64;
    struct statx x;
    CHECK(stat(UVERBS, &s) == 0 && S_ISCHR(s.st_mode) && s.st_rdev == makedev(231, 192));
    CHECK(stat64(UVERBS, &s64) == 0 && S_ISCHR(s64.st_mode));
    CHECK(__xstat(1, UVERBS, &s) == 0 && S_ISCHR(s.st_mode));
    CHECK(__lxstat(1, DEVICE, &s) == 0 && S_ISLNK(s.st_mode));
    CHECK(__fxstatat(1, AT_FDCWD, STATE, &s, 0) == 0 && S_ISREG(s.st_mode));
    CHECK(lstat(DEVICE, &s) == 0 && S_ISLNK(s.st_mode));
    CHECK(lstat64(DEVICE "/", &s64) == 0 && S_ISDIR(s64.st_mode));
    CHECK(fstatat(AT_FDCWD, DEVICE, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(s.st_mode));
    CHECK(fstatat64(AT_FDCWD, DEVICE, &s64, 0) == 0 && S_ISDIR(s64.st_mode));
    CHECK(statx(AT_FDCWD, UVERBS, 0, STATX_BASIC_STATS, &x) == 0 && S_ISCHR(x.stx_mode) && x.stx_rdev_major == 231 && x.stx_rdev_minor == 192);
    FAILS(stat(CLASS "/mlx5_0", &s), ENOENT);
    FAILS(statx(AT_FDCWD, CLASS "_nothing", 0, STATX_BASIC_STATS, &x), ENOENT);
    int fd = open(UVERBS, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && fstat(fd, &s) == 0 && S_ISCHR(s.st_mode) && s.st_rdev == makedev(231, 192));
    CHECK(fstat64(fd, &s64) == 0 && S_ISCHR(s64.st_mode));
    CHECK(__fxstat(1, fd, &s) == 0 && S_ISCHR(s.st_mode));
    CHECK(fstatat(fd, "", &s, AT_EMPTY_PATH) == 0 && S_ISCHR(s.st_mode));
    CHECK(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &x) == 0 && S_ISCHR(x.stx_mode));
    close(fd);
    FAILS(fstat(fd, &s), EBADF);
}

static void names(void)
{
    char path[PATH_MAX], *made;
    CHECK(access(UVERBS, R_OK | W_OK) == 0);
    CHECK(access(STATE, F_OK) == 0 && access(STATE, R_OK) == 0);
    FAILS(access(STATE, W_OK), EACCES);
    FAILS(access(CLASS "/mlx5_0", F_OK), ENOENT);
    CHECK(eaccess(UVERBS, R_OK | W_OK) == 0 && euidaccess(UVERBS, R_OK) == 0);
    CHECK(faccessat(AT_FDCWD, UVERBS, R_OK | W_OK, 0) == 0);
    const char *link = "../../devices/pcib311:00/b311:00:00.0/infiniband/bellwire0";
    ssize_t n = strlen(link);
    CHECK(readlink(DEVICE, path, sizeof path) == n && memcmp(path, link, n) == 0);
    CHECK(readlink(DEVICE, path, 5) == 5);
    CHECK(readlinkat(AT_FDCWD, DEVICE, path, sizeof path) == n);
    CHECK(__readlink_chk(DEVICE, path, sizeof path, sizeof path) == n);
    CHECK(__readlinkat_chk(AT_FDCWD, DEVICE, path, sizeof path, sizeof path) == n);
    FAILS(readlink(STATE, path, sizeof path), EINVAL);
    CHECK(realpath(DEVICE, path) == path && strcmp(path, REAL) == 0);
    CHECK(__realpath_chk(DEVICE "/device", path, sizeof path) && strcmp(path, "/sys/devices/pcib311:00/b311:00:00.0") == 0);
    /* How Mooncake and others find the place on the bus. */
    CHECK((made = realpath(DEVICE "/../..", NULL)) && strcmp(made, "/sys/devices/pcib311:00/b311:00:00.0") == 0);
    free(made);
    CHECK((made = canonicalize_file_name(CLASS)) && strcmp(made, CLASS) == 0);
    free(made);
    CHECK(!realpath(CLASS "/mlx5_0", path) && errno == ENOENT);
    /* The interface is there with `rdma_cm`; its files are the system's. */
    if (access("/dev/infiniband/rdma_cm", F_OK) == 0) {
        CHECK(realpath(DEVICE "/device/net/lo", path) && strstr(path, "/net/lo"));
        CHECK(access(DEVICE "/device/net/lo/mtu", R_OK) == 0);
    }
}

static int has(DIR *folder, const char *name)
{
    for (struct dirent *e; (e = readdir(folder));)
        if (strcmp(e->d_name, name) == 0)
            return 1;
    return 0;
}

static int visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static void folders(void)
{
    DIR *folder = opendir(CLASS);
    CHECK(folder && has(folder, "bellwire0") && !has(folder, "bellwire0"));
    if (!folder)
        return;
    rewinddir(folder);
    CHECK(has(folder, ".") && has(folder, ".."));
    long at = telldir(folder);
    CHECK(has(folder, "bellwire0"));
    seekdir(folder, at);
    CHECK(has(folder, "bellwire0"));
    struct stat s;
    CHECK(fstat(dirfd(folder), &s) == 0 && S_ISDIR(s.st_mode));
    CHECK(fstatat(dirfd(folder), "bellwire0", &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(s.st_mode));
    CHECK(closedir(folder) == 0);
    int fd = open("/dev/infiniband", O_RDONLY | O_DIRECTORY);
    folder = fdopendir(fd);
    struct dirent64 *e;
    int found = 0;
    while (folder && (e = readdir64(folder)))
        found |= strcmp(e->d_name, "uverbs0") == 0 && e->d_type == DT_CHR;
    CHECK(found && closedir(folder) == 0);
    CHECK(!opendir(STATE) && errno == ENOTDIR);
    CHECK(!opendir(CLASS "/mlx5_0") && errno == ENOENT);
    struct dirent **list;
    int n = scandir(DEVICE "/ports/1", &list, visible, alphasort);
    CHECK(n > 10 && strcmp(list[0]->d_name, "cap_mask") == 0);
    for (int i = 0; i < n; i++)
        free(list[i]);
    if (n >= 0)
        free(list);
    FAILS(scandir(CLASS "/mlx5_0", &list, NULL, NULL), ENOENT);
    glob_t g;
    CHECK(glob(CLASS "/*/ports/*/gids/*", 0, NULL, &g) == 0 && g.gl_pathc == 1 && strcmp(g.gl_pathv[0], DEVICE "/ports/1/gids/0") == 0);
    globfree(&g);
    /* More streams than there are places: an error, and then all is well again. */
    DIR *many[600];
    int opened = 0;
    while (opened < 600 && (many[opened] = opendir(CLASS)))
        opened++;
    CHECK(opened >= 256 && opened < 600 && errno == EMFILE);
    while (opened)
        closedir(many[--opened]);
    CHECK((folder = opendir(CLASS)) && closedir(folder) == 0);
    /* Other folders are the system's. */
    folder = opendir("/proc/self");
    CHECK(folder && has(folder, "maps") && dirfd(folder) >= 0 && closedir(folder) == 0);
}

static void descriptors(void)
{
    struct stat s;
    int fd = open(UVERBS, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC && (fcntl(fd, F_GETFL) & O_NONBLOCK));
    CHECK(fcntl(fd, F_SETFL, 0) == 0 && !(fcntl(fd, F_GETFL) & O_NONBLOCK));
    struct pollfd p = {fd, POLLIN, 0};
    CHECK(poll(&p, 1, 0) == 0);
    FAILS(write(fd, "x", 1), EINVAL);
    FAILS((int)read(fd, &s, 1), EINVAL);
    int copies[] = {dup(fd), dup2(fd, 100), dup3(fd, 101, O_CLOEXEC), fcntl(fd, F_DUPFD, 102), fcntl(fd, F_DUPFD_CLOEXEC, 103)};
    close(fd);
    for (int i = 0; i < 5; i++)
        CHECK(copies[i] >= 0 && fstat(copies[i], &s) == 0 && S_ISCHR(s.st_mode));
    /* Another file takes the place of one. */
    int null = open("/dev/null", O_RDWR);
    CHECK(dup2(null, copies[1]) == copies[1] && write(copies[1], "x", 1) == 1);
    pid_t child = fork();
    if (child == 0) {
        int well = fstat(copies[0], &s) == 0 && S_ISCHR(s.st_mode) && close(copies[0]) == 0 && access(STATE, R_OK) == 0;
        _exit(well ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(fstat(copies[0], &s) == 0 && S_ISCHR(s.st_mode));
    child = vfork();
    if (child == 0) {
        close(copies[0]);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && fstat(copies[0], &s) == 0 && S_ISCHR(s.st_mode));
    for (int i = 0; i < 5; i++)
        close(copies[i]);
    close(null);
}

static void libraries(void)
{
    const char *names[] = {"libibverbs.so.1", "libibverbs.so", "/nonexistent/libibverbs-1de1263b.so.1.14"};
    for (int i = 0; i < 3; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        void *(*list)(int *) = library ? (void *(*)(int *))dlsym(library, "ibv_get_device_list") : NULL;
        int n = 0;
        CHECK(list && list(&n) && n == 1);
        CHECK(library && dlvsym(library, "ibv_open_device", "IBVERBS_1.1"));
    }
    CHECK(dlopen("libm.so.6", RTLD_NOW) && !dlopen("libnothing.so", RTLD_NOW) && dlerror());
}

int main(void)
{
    opens();
    stats();
    names();
    folders();
    descriptors();
    libraries();
    printf("%d checks, %d failures\n", checks, failures);
    return failures != 0;
}
