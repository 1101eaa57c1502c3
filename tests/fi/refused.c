// SPDX-License-Identifier: MIT OR Apache-2.0
// What the provider does not do, and says so: hints that ask for something else, calls out of order, arguments that cannot be. Each gives what the man pages say.
#include "common.h"
#include <rdma/fi_atomic.h>

// ---- hints

static void set_caps(struct fi_info *h) { h->caps = FI_MSG | FI_MULTICAST; }
static void set_collective(struct fi_info *h) { h->caps = FI_COLLECTIVE; }
static void set_hmem(struct fi_info *h) { h->caps = FI_MSG | FI_HMEM; }
static void set_type(struct fi_info *h) { h->ep_attr->type = FI_EP_SOCK_STREAM; }
static void set_format(struct fi_info *h) { h->addr_format = FI_SOCKADDR_IB; }
static void set_provider(struct fi_info *h) { free(h->fabric_attr->prov_name), h->fabric_attr->prov_name = strdup("bellwires"); }
static void set_fabric(struct fi_info *h) { h->fabric_attr->name = strdup("another"); }
static void set_domain(struct fi_info *h) { h->domain_attr->name = strdup("another"); }
static void set_protocol(struct fi_info *h) { h->ep_attr->protocol = FI_PROTO_RXM; }
static void set_prefix(struct fi_info *h) { h->ep_attr->msg_prefix_size = 8; }
static void set_inject(struct fi_info *h) { h->tx_attr->inject_size = 1 << 20; }
static void set_iovs(struct fi_info *h) { h->rx_attr->iov_limit = 64; }
static void set_rma_iovs(struct fi_info *h) { h->tx_attr->rma_iov_limit = 2; }
static void set_queue(struct fi_info *h) { h->tx_attr->size = 1 << 24; }
static void set_order(struct fi_info *h) { h->tx_attr->comp_order = FI_ORDER_STRICT; }
static void set_ordered_bytes(struct fi_info *h) { h->ep_attr->max_order_waw_size = 1 << 20; }
static void set_contexts(struct fi_info *h) { h->ep_attr->tx_ctx_cnt = 1000; }
static void set_message(struct fi_info *h) { h->ep_attr->max_msg_size = SIZE_MAX; }
static void set_data(struct fi_info *h) { h->domain_attr->cq_data_size = 16; }
static void set_key(struct fi_info *h) { h->domain_attr->mr_key_size = 16; }
static void set_auth(struct fi_info *h) { h->domain_attr->auth_key_size = 16, h->domain_attr->auth_key = calloc(1, 16); }
static void set_tx_caps(struct fi_info *h) { h->tx_attr->caps = FI_MULTICAST; }
static void set_rx_caps(struct fi_info *h) { h->rx_attr->caps = FI_SEND; }
static void set_tx_flags(struct fi_info *h) { h->tx_attr->op_flags = FI_PEEK; }
static void set_av(struct fi_info *h) { h->domain_attr->av_type = (enum fi_av_type)7; }
static void set_progress(struct fi_info *h) { h->domain_attr->data_progress = (enum fi_progress)9; }

static void hints(void) {
	static void (*const wrong[])(struct fi_info *) = {
		set_caps, set_collective, set_hmem, set_type, set_format, set_provider, set_fabric, set_domain, set_protocol, set_prefix, set_inject, set_iovs, set_rma_iovs,
		set_queue, set_order, set_ordered_bytes, set_contexts, set_message, set_data, set_key, set_auth, set_tx_caps, set_rx_caps, set_tx_flags, set_av, set_progress,
	};
	for (size_t i = 0; i < 1 + sizeof wrong / sizeof wrong[0]; i++) {
		struct fi_info *h = fi_allocinfo(), *info = NULL;
		h->fabric_attr->prov_name = strdup("bellwire");
		if (i) wrong[i - 1](h);
		int outcome = fi_getinfo(VERSION, NULL, NULL, 0, h, &info);
		// libfabric would put layers of its own on top where it could.
		if (outcome != (i ? -FI_ENODATA : 0)) FAIL("hints %zu: %d, %s", i, outcome, info ? info->fabric_attr->prov_name : "");
		if (info) fi_freeinfo(info);
		fi_freeinfo(h);
	}
}

// ---- out of order

static void endpoints(void) {
	struct side s;
	open_fabric(&s, ask(NULL, NULL, 0, FI_EP_RDM, 0));
	OK(fi_domain(s.fabric, s.info, &s.domain, NULL));
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	OK(fi_endpoint(s.domain, s.info, &s.ep, NULL));
	char b[64] = "";
	// Before it is enabled nothing goes, and it is not enabled without what it needs.
	IS(fi_send(s.ep, b, 1, NULL, 0, NULL), -FI_EOPBADSTATE);
	IS(fi_recv(s.ep, b, 1, NULL, 0, NULL), -FI_EOPBADSTATE);
	IS(fi_write(s.ep, b, 1, NULL, 0, 0, 0, NULL), -FI_EOPBADSTATE);
	IS(fi_enable(s.ep), -FI_ENOAV);
	OK(fi_av_open(s.domain, &av, &s.av, NULL));
	OK(fi_ep_bind(s.ep, &s.av->fid, 0));
	IS(fi_enable(s.ep), -FI_ENOCQ);
	OK(fi_cq_open(s.domain, &cq, &s.cq, NULL));
	IS(fi_ep_bind(s.ep, &s.cq->fid, 0), -FI_EBADFLAGS);
	IS(fi_ep_bind(s.ep, &s.domain->fid, 0), -FI_EINVAL);
	OK(fi_ep_bind(s.ep, &s.cq->fid, FI_SEND | FI_RECV));
	OK(fi_enable(s.ep));
	IS(fi_enable(s.ep), -FI_EOPBADSTATE);
	IS(fi_ep_bind(s.ep, &s.cq->fid, FI_SEND), -FI_EOPBADSTATE);
	// What is in use stays.
	IS(fi_close(&s.av->fid), -FI_EBUSY);
	IS(fi_close(&s.cq->fid), -FI_EBUSY);
	IS(fi_close(&s.domain->fid), -FI_EBUSY);
	// Calls for pairs.
	IS(fi_connect(s.ep, b, NULL, 0), -FI_ENOSYS);
	IS(fi_accept(s.ep, NULL, 0), -FI_ENOSYS);
	IS(fi_shutdown(s.ep, 0), -FI_ENOSYS);
	size_t none = 0;
	IS(fi_getname(&s.ep->fid, b, &none), -FI_ETOOSMALL);
	if (!none) FAIL("no length");
	int value = 1;
	IS(fi_setopt(&s.ep->fid, FI_OPT_ENDPOINT, 99, &value, sizeof value), -FI_ENOPROTOOPT);
	IS(fi_setopt(&s.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, 1), -FI_EINVAL);
	close_side(&s);
}

// ---- arguments

static void fails(struct side *s, void *context, int number) {
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry error = {0};
	time_t begun = 0;
	ssize_t n;
	while ((n = fi_cq_read(s->cq, &e, 1)) == -FI_EAGAIN)
		if (is_late(&begun)) FAIL("nothing comes");
	IS(n, -FI_EAVAIL);
	IS(fi_cq_readerr(s->cq, &error, 0), 1);
	if (error.op_context != context) FAIL("not its context");
	IS(error.err, number);
	IS(fi_cq_readerr(s->cq, &error, 0), -FI_EAGAIN);
}

static void arguments(void) {
	struct side s;
	open_fabric(&s, ask(NULL, NULL, 0, FI_EP_RDM, 0));
	open_endpoint(&s);
	static char b[1 << 16];
	struct fi_cq_data_entry e;
	fi_addr_t self;
	size_t length = sizeof b;
	OK(fi_getname(&s.ep->fid, b, &length));
	IS(fi_av_insert(s.av, b, 1, &self, FI_PEEK, NULL), -FI_EBADFLAGS);
	IS(fi_av_insert(s.av, b, 1, &self, 0, NULL), 1);
	IS(fi_cq_sread(s.cq, &e, 1, NULL, 1), -FI_ENOSYS);
	IS(fi_cq_read(s.cq, &e, 1), -FI_EAGAIN);
	IS(fi_cancel(&s.ep->fid, b), -FI_ENOENT);
	// Nobody of that number; too long to inject; too many pieces; flags of something else.
	IS(fi_send(s.ep, b, 1, NULL, self + 1, NULL), -FI_EINVAL);
	IS(fi_send(s.ep, b, 1, NULL, FI_ADDR_UNSPEC, NULL), -FI_EINVAL);
	IS(fi_inject(s.ep, b, s.info->tx_attr->inject_size + 1, self), -FI_EMSGSIZE);
	IS(fi_inject_write(s.ep, b, s.info->tx_attr->inject_size + 1, self, 0, 0), -FI_EMSGSIZE);
	struct iovec pieces[9] = {{b, 1}, {b, 1}, {b, 1}, {b, 1}, {b, 1}, {b, 1}, {b, 1}, {b, 1}, {b, 1}};
	IS(fi_sendv(s.ep, pieces, NULL, 9, self, NULL), -FI_EINVAL);
	IS(fi_recvv(s.ep, pieces, NULL, 9, self, NULL), -FI_EINVAL);
	struct fi_msg_tagged m = {.msg_iov = pieces, .iov_count = 1, .addr = self, .context = b};
	IS(fi_tsendmsg(s.ep, &m, FI_PEEK), -FI_EBADFLAGS);
	IS(fi_trecvmsg(s.ep, &m, FI_INJECT), -FI_EBADFLAGS);
	IS(fi_trecvmsg(s.ep, &m, FI_DISCARD), -FI_EBADFLAGS);
	IS(fi_trecvmsg(s.ep, &m, FI_CLAIM), -FI_EINVAL);
	OK(fi_trecvmsg(s.ep, &m, FI_PEEK));
	fails(&s, b, FI_ENOMSG);
	// Atomics that there are not; memory that is not, or not so.
	size_t count;
	IS(fi_atomicvalid(s.ep, FI_FLOAT, FI_BOR, &count), -FI_EOPNOTSUPP);
	IS(fi_atomicvalid(s.ep, FI_LONG_DOUBLE, FI_BOR, &count), -FI_EOPNOTSUPP);
	IS(fi_atomicvalid(s.ep, FI_LONG_DOUBLE_COMPLEX, FI_MIN, &count), -FI_EOPNOTSUPP);
	IS(fi_atomicvalid(s.ep, FI_UINT8, FI_CSWAP, &count), -FI_EOPNOTSUPP);
	IS(fi_atomic(s.ep, b, 1, NULL, self, 0, 0, FI_DOUBLE_COMPLEX, FI_MIN, NULL), -FI_EOPNOTSUPP);
	IS(fi_atomic(s.ep, b, 0, NULL, self, 0, 0, FI_UINT8, FI_SUM, NULL), -FI_EINVAL);
	struct fid_mr *region, *second;
	OK(fi_mr_reg(s.domain, b, 100, FI_REMOTE_READ, 0, 9, 0, &region, NULL));
	IS(fi_mr_reg(s.domain, b, 100, FI_REMOTE_READ, 0, 9, 0, &second, NULL), -FI_ENOKEY);
	OK(fi_write(s.ep, b + 200, 8, NULL, self, 0, 9, b));
	fails(&s, b, FI_EACCES);
	OK(fi_read(s.ep, b + 200, 8, NULL, self, 96, 9, b + 1));
	fails(&s, b + 1, FI_EACCES);
	OK(fi_read(s.ep, b + 200, 8, NULL, self, 0, 10, b + 2));
	fails(&s, b + 2, FI_EACCES);
	OK(fi_atomic(s.ep, b + 200, 1, NULL, self, 0, 9, FI_UINT8, FI_SUM, b + 3));
	fails(&s, b + 3, FI_EACCES);
	OK(fi_close(&region->fid));
	// Twice, and what was never there.
	OK(fi_av_remove(s.av, &self, 1, 0));
	IS(fi_av_remove(s.av, &self, 1, 0), -FI_EINVAL);
	IS(fi_av_lookup(s.av, self, b, &length), -FI_EINVAL);
	IS(fi_send(s.ep, b, 1, NULL, self, NULL), -FI_EINVAL);
	close_side(&s);
}

int main(void) {
	snprintf(port, sizeof port, "%d", 20000 + (int)(getpid() % 40000));
	hints();
	endpoints();
	arguments();
	puts("refused: all well");
	return 0;
}
