// SPDX-License-Identifier: MIT OR Apache-2.0
// The owner of a region computes: it calls nothing while a peer writes, reads and changes its
// memory, with manual progress as MPICH asks for. A region may be registered before its endpoint is
// enabled.
#include "common.h"
#include <rdma/fi_atomic.h>

enum { TIMES = 500, LONG = 100000 };
static char window[LONG];

static void ends(struct side *b) {
	struct fi_cq_data_entry e;
	time_t begun = 0;
	ssize_t n;
	while ((n = fi_cq_read(b->cq, &e, 1)) == -FI_EAGAIN)
		if (is_late(&begun)) FAIL("nobody serves it");
	IS(n, 1);
}

static struct fid_mr *region(struct side *a) {
	struct fid_mr *mr;
	OK(fi_mr_reg(a->domain, window, sizeof window, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 7, 0, &mr, NULL));
	return mr;
}

static void serves(int registers_first) {
	struct side a, b;
	open_fabric(&a, ask(NULL, NULL, 0, FI_EP_RDM, FI_MSG | FI_RMA | FI_ATOMIC));
	open_fabric(&b, ask(NULL, NULL, 0, FI_EP_RDM, FI_MSG | FI_RMA | FI_ATOMIC));
	IS(a.info->domain_attr->data_progress, FI_PROGRESS_MANUAL);
	open_domain(&a);
	struct fid_mr *mr = registers_first ? region(&a) : NULL;
	open_endpoint(&a);
	open_endpoint(&b);
	if (!mr) mr = region(&a);
	char name[64];
	size_t length = sizeof name;
	fi_addr_t to;
	OK(fi_getname(&a.ep->fid, name, &length));
	IS(fi_av_insert(b.av, name, 1, &to, 0, NULL), 1);

	static char from[LONG], back[LONG];
	memset(window, 0, sizeof window);
	memset(from, 3 + registers_first, sizeof from);
	uint64_t one = 1, was = 0;
	for (uint64_t i = 0; i < TIMES; i++) {
		OK(fi_fetch_atomic(b.ep, &one, 1, NULL, &was, NULL, to, 0, 7, FI_UINT64, FI_SUM, NULL));
		ends(&b);
		IS(was, i);
	}
	OK(fi_write(b.ep, from, LONG - 8, NULL, to, 8, 7, NULL));
	ends(&b);
	OK(fi_read(b.ep, back, LONG, NULL, to, 0, 7, NULL));
	ends(&b);
	if (memcmp(back + 8, from, LONG - 8) || memcmp(back, &(uint64_t){TIMES}, 8)) FAIL("not what was written");
	OK(fi_close(&mr->fid));
	close_side(&b);
	close_side(&a);
}

int main(void) {
	serves(0);
	serves(1);
	puts("computes: all well");
	return 0;
}
