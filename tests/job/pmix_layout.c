/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The layout of PMIx in crates/job/src/pmix/abi.rs is compared with an installed header. */
#include <pmix.h>

#include <stddef.h>
#include <stdio.h>

#define SAME(what, value) _Static_assert((what) == (value), #what)

SAME(sizeof(pmix_proc_t), 260);
SAME(offsetof(pmix_proc_t, rank), 256);
SAME(sizeof(pmix_value_t), 32);
SAME(offsetof(pmix_value_t, data), 8);
SAME(sizeof(pmix_info_t), 552);
SAME(offsetof(pmix_info_t, flags), 512);
SAME(offsetof(pmix_info_t, value), 520);
SAME(sizeof(pmix_data_type_t), 2);
SAME(sizeof(pmix_scope_t), 1);
SAME(sizeof(pmix_rank_t), 4);
SAME(sizeof(pmix_status_t), 4);
SAME(offsetof(pmix_byte_object_t, size), 8);
SAME(PMIX_SUCCESS, 0);
SAME(PMIX_OPERATION_SUCCEEDED, -157);
SAME(PMIX_ERR_NOT_FOUND, -46);
SAME((pmix_rank_t)(PMIX_RANK_WILDCARD), 0xfffffffeu);
SAME(PMIX_GLOBAL, 3);
SAME(PMIX_BOOL, 1);
SAME(PMIX_UINT16, 13);
SAME(PMIX_UINT32, 14);
SAME(PMIX_BYTE_OBJECT, 27);

int main(void) {
    printf("all well: PMIx as declared\n");
    return 0;
}
