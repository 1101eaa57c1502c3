/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Opens, looks at and closes files that are none of RDMA's, so often as its argument says. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int count, char **values)
{
    char byte;
    struct stat s;
    for (int i = count > 1 ? atoi(values[1]) : 0; i > 0; i--) {
        int fd = open("/usr/include/stdio.h", O_RDONLY);
        if (fd < 0 || read(fd, &byte, 1) != 1 || fstat(fd, &s) != 0 || close(fd) != 0 || stat("/proc/self/exe", &s) != 0)
            return 1;
    }
    return 0;
}
