/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Stands for the genuine libibverbs on a computer that has a real device "real0": it notes which of
   its calls was made last, and what it sees of /sys/class/infiniband. Built as libibverbs.so.1. */
#include <dirent.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

const char *genuine_last = "";
int genuine_sees_bellwire;

static struct ibv_device device = {.node_type = IBV_NODE_CA, .name = "real0", .dev_name = "uverbs0"};
static struct ibv_context context = {.device = &device, .cmd_fd = -1, .async_fd = -1};
/* The objects of the device: whatever they are, they begin with their context. */
static struct {
    struct ibv_context *context;
    char rest[512];
} object = {&context, ""};

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#define NOTES(type, result, name, arguments) \
    type name arguments; \
    type name arguments { genuine_last = #name; return result; }
#define PLAIN(name, arguments) NOTES(int, 40, name, arguments)
#define MAKES(type, name, arguments) NOTES(type *, (type *)&object, name, arguments)
#define NOTHING(name, arguments) \
    void name arguments; \
    void name arguments { genuine_last = #name; }

struct ibv_device **ibv_get_device_list(int *count)
{
    DIR *folder = opendir("/sys/class/infiniband");
    for (struct dirent *e; folder && (e = readdir(folder));)
        genuine_sees_bellwire |= strncmp(e->d_name, "bellwire", 8) == 0;
    if (folder)
        closedir(folder);
    genuine_last = "ibv_get_device_list";
    struct ibv_device **list = calloc(2, sizeof *list);
    list[0] = &device;
    *count = 1;
    return list;
}
void ibv_free_device_list(struct ibv_device **list)
{
    genuine_last = list[0] == &device && !list[1] ? "ibv_free_device_list" : "a list that is not the genuine one";
    free(list);
}
NOTES(__be64, 0x1234, ibv_get_device_guid, (struct ibv_device * d))
PLAIN(ibv_get_device_index, (struct ibv_device * d))
NOTES(struct ibv_context *, &context, ibv_open_device, (struct ibv_device * d))
NOTES(struct ibv_context *, &context, ibv_import_device, (int fd))
PLAIN(ibv_close_device, (struct ibv_context * c))
PLAIN(ibv_get_async_event, (struct ibv_context * c, struct ibv_async_event *e))
NOTHING(ibv_ack_async_event, (struct ibv_async_event * e))
PLAIN(ibv_query_device, (struct ibv_context * c, struct ibv_device_attr *a))
PLAIN(ibv_query_port, (struct ibv_context * c, uint8_t p, struct _compat_ibv_port_attr *a))
PLAIN(ibv_query_gid, (struct ibv_context * c, uint8_t p, int i, union ibv_gid *g))
PLAIN(ibv_query_pkey, (struct ibv_context * c, uint8_t p, int i, __be16 *k))
PLAIN(ibv_get_pkey_index, (struct ibv_context * c, uint8_t p, __be16 k))
PLAIN(_ibv_query_gid_ex, (struct ibv_context * c, uint32_t p, uint32_t i, struct ibv_gid_entry *e, uint32_t f, size_t s))
NOTES(ssize_t, 40, _ibv_query_gid_table, (struct ibv_context * c, struct ibv_gid_entry *e, size_t n, uint32_t f, size_t s))
PLAIN(ibv_query_gid_type, (struct ibv_context * c, uint8_t p, unsigned i, void *t))
MAKES(struct ibv_pd, ibv_alloc_pd, (struct ibv_context * c))
PLAIN(ibv_dealloc_pd, (struct ibv_pd * p))
MAKES(struct ibv_mr, ibv_reg_mr, (struct ibv_pd * p, void *a, size_t n, int f))
MAKES(struct ibv_mr, ibv_reg_mr_iova, (struct ibv_pd * p, void *a, size_t n, uint64_t v, int f))
MAKES(struct ibv_mr, ibv_reg_mr_iova2, (struct ibv_pd * p, void *a, size_t n, uint64_t v, unsigned f))
MAKES(struct ibv_mr, ibv_reg_dmabuf_mr, (struct ibv_pd * p, uint64_t o, size_t n, uint64_t v, int d, int f))
PLAIN(ibv_rereg_mr, (struct ibv_mr * m, int w, struct ibv_pd *p, void *a, size_t n, int f))
PLAIN(ibv_dereg_mr, (struct ibv_mr * m))
MAKES(struct ibv_comp_channel, ibv_create_comp_channel, (struct ibv_context * c))
PLAIN(ibv_destroy_comp_channel, (struct ibv_comp_channel * c))
MAKES(struct ibv_cq, ibv_create_cq, (struct ibv_context * c, int n, void *m, struct ibv_comp_channel *h, int v))
PLAIN(ibv_resize_cq, (struct ibv_cq * c, int n))
PLAIN(ibv_destroy_cq, (struct ibv_cq * c))
PLAIN(ibv_get_cq_event, (struct ibv_comp_channel * h, struct ibv_cq **c, void **m))
NOTHING(ibv_ack_cq_events, (struct ibv_cq * c, unsigned n))
MAKES(struct ibv_srq, ibv_create_srq, (struct ibv_pd * p, struct ibv_srq_init_attr *a))
PLAIN(ibv_modify_srq, (struct ibv_srq * s, struct ibv_srq_attr *a, int m))
PLAIN(ibv_query_srq, (struct ibv_srq * s, struct ibv_srq_attr *a))
PLAIN(ibv_destroy_srq, (struct ibv_srq * s))
MAKES(struct ibv_qp, ibv_create_qp, (struct ibv_pd * p, struct ibv_qp_init_attr *a))
PLAIN(ibv_modify_qp, (struct ibv_qp * q, struct ibv_qp_attr *a, int m))
PLAIN(ibv_query_qp, (struct ibv_qp * q, struct ibv_qp_attr *a, int m, struct ibv_qp_init_attr *i))
PLAIN(ibv_query_qp_data_in_order, (struct ibv_qp * q, enum ibv_wr_opcode o, uint32_t f))
PLAIN(ibv_destroy_qp, (struct ibv_qp * q))
MAKES(struct ibv_qp_ex, ibv_qp_to_qp_ex, (struct ibv_qp * q))
PLAIN(ibv_query_ece, (struct ibv_qp * q, struct ibv_ece *e))
PLAIN(ibv_set_ece, (struct ibv_qp * q, struct ibv_ece *e))
PLAIN(ibv_attach_mcast, (struct ibv_qp * q, const union ibv_gid *g, uint16_t l))
PLAIN(ibv_detach_mcast, (struct ibv_qp * q, const union ibv_gid *g, uint16_t l))
MAKES(struct ibv_ah, ibv_create_ah, (struct ibv_pd * p, struct ibv_ah_attr *a))
MAKES(struct ibv_ah, ibv_create_ah_from_wc, (struct ibv_pd * p, struct ibv_wc *w, struct ibv_grh *g, uint8_t n))
PLAIN(ibv_init_ah_from_wc, (struct ibv_context * c, uint8_t n, struct ibv_wc *w, struct ibv_grh *g, struct ibv_ah_attr *a))
PLAIN(ibv_destroy_ah, (struct ibv_ah * a))
PLAIN(ibv_resolve_eth_l2_from_gid, (struct ibv_context * c, struct ibv_ah_attr *a, uint8_t m[6], uint16_t *v))
MAKES(struct ibv_pd, ibv_import_pd, (struct ibv_context * c, uint32_t h))
MAKES(struct ibv_mr, ibv_import_mr, (struct ibv_pd * p, uint32_t h))
MAKES(struct ibv_dm, ibv_import_dm, (struct ibv_context * c, uint32_t h))
NOTHING(ibv_unimport_pd, (struct ibv_pd * p))
NOTHING(ibv_unimport_mr, (struct ibv_mr * m))
NOTHING(ibv_unimport_dm, (struct ibv_dm * d))
PLAIN(ibv_fork_init, (void))
NOTES(enum ibv_fork_status, 1, ibv_is_fork_initialized, (void))
PLAIN(ibv_dontfork_range, (void *b, size_t n))
PLAIN(ibv_dofork_range, (void *b, size_t n))
/* What the program is linked with beside. */
const char *ibv_get_device_name(struct ibv_device *d) { return d->name; }
