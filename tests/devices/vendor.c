/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Asks a vendor's library about every device: it reads behind the public part. */
#include <infiniband/mlx5dv.h>
#include <stdio.h>

int main(void)
{
    int n, i;
    struct ibv_device **list = ibv_get_device_list(&n);
    for (i = 0; i < n; i++)
        if (mlx5dv_is_supported(list[i]))
            return 1;
    ibv_free_device_list(list);
    printf("%d devices of no vendor's\n", n);
    return n == 0;
}
