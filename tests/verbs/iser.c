/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* An initiator of libiscsi over iSER: writes blocks of a logical unit, and reads back these and the
   ones beside them.
       iser URL INITIATOR FILE       FILE has what the logical unit had before; it gets what it must
                                     have now */
#include <fcntl.h>
#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            printf("line %d: %s: %s\n", __LINE__, #what, iscsi_get_error(iscsi)); \
            exit(1); \
        } \
    } while (0)
#define BLOCK 512

int main(int argc, char **argv)
{
    struct iscsi_context *iscsi = argc == 4 ? iscsi_create_context(argv[2]) : NULL;
    struct iscsi_url *url = iscsi ? iscsi_parse_full_url(iscsi, argv[1]) : NULL;
    if (!url)
        return 2;
    /* A context speaks iSER once it has been told. */
    CHECK(iscsi_init_transport(iscsi, ISER_TRANSPORT) == 0);
    iscsi_set_session_type(iscsi, ISCSI_SESSION_NORMAL);
    CHECK(iscsi_full_connect_sync(iscsi, url->portal, url->lun) == 0);
    struct stat is;
    int file = open(argv[3], O_RDWR);
    CHECK(file >= 0 && fstat(file, &is) == 0);
    unsigned char *must = mmap(NULL, is.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(must != MAP_FAILED);
    long blocks = is.st_size / BLOCK, written = 0, checked = 0;
    srand(7);
    for (int round = 0; round < 200; round++) {
        long count = 1 + rand() % 128, at = rand() % (blocks - count);
        if (round % 2 == 0) {
            for (long i = 0; i < count * BLOCK; i++)
                must[at * BLOCK + i] = rand();
            struct scsi_task *task = iscsi_write16_sync(iscsi, url->lun, at, must + at * BLOCK, count * BLOCK, BLOCK, 0, 0, 0, 0, 0);
            CHECK(task && task->status == SCSI_STATUS_GOOD);
            scsi_free_scsi_task(task);
            written += count;
        }
        struct scsi_task *task = iscsi_read16_sync(iscsi, url->lun, at, count * BLOCK, BLOCK, 0, 0, 0, 0, 0);
        CHECK(task && task->status == SCSI_STATUS_GOOD && task->datain.size == count * BLOCK);
        CHECK(memcmp(task->datain.data, must + at * BLOCK, count * BLOCK) == 0);
        scsi_free_scsi_task(task);
        checked += count;
    }
    CHECK(iscsi_logout_sync(iscsi) == 0);
    iscsi_destroy_url(url);
    iscsi_destroy_context(iscsi);
    printf("iser: all well, %ld blocks written, %ld read and compared\n", written, checked);
    return 0;
}
