// SPDX-License-Identifier: MIT OR Apache-2.0
// Levels of completion that need the receiver: a send with FI_MATCH_COMPLETE or
// FI_DELIVERY_COMPLETE does not complete before a receive has taken the message, however long the
// message is. MPICH's rendezvous by a pipeline of chunks asks for the former.
#include "common.h"

enum { LONG = 100000 };
static char from[LONG], into[LONG];

// Whether a message waits at `s` that nobody has asked for.
static int has_message(struct side *s) {
	struct fi_msg_tagged m = {.addr = FI_ADDR_UNSPEC, .tag = 5, .context = into};
	struct fi_cq_data_entry e;
	ssize_t n;
	OK(fi_trecvmsg(s->ep, &m, FI_PEEK | FI_COMPLETION));
	while ((n = fi_cq_read(s->cq, &e, 1)) == -FI_EAGAIN);
	if (n == 1) return 1;
	struct fi_cq_err_entry error = {0};
	IS(fi_cq_readerr(s->cq, &error, 0), 1);
	IS(error.err, FI_ENOMSG);
	return 0;
}

static void completes_when_taken(struct side *a, struct side *b, fi_addr_t to, uint64_t level, size_t length) {
	struct iovec piece = {from, length};
	struct fi_msg_tagged m = {.msg_iov = &piece, .iov_count = 1, .addr = to, .tag = 5, .context = from};
	memset(from, (int)length, length);
	OK(fi_tsendmsg(b->ep, &m, FI_COMPLETION | level));
	struct fi_cq_data_entry e;
	time_t begun = 0;
	while (!has_message(a)) {
		IS(fi_cq_read(b->cq, &e, 1), -FI_EAGAIN);
		if (is_late(&begun)) FAIL("nothing comes");
	}
	// It is there, and both sides have had every chance to say so.
	for (int i = 0; i < 1000; i++) {
		IS(fi_cq_read(b->cq, &e, 1), -FI_EAGAIN);
		IS(fi_cq_read(a->cq, &e, 1), -FI_EAGAIN);
	}
	OK(fi_trecv(a->ep, into, length, NULL, FI_ADDR_UNSPEC, 5, 0, into));
	if (completion(a, b).op_context != into || memcmp(from, into, length)) FAIL("not the message");
	if (completion(b, a).op_context != from) FAIL("not the send");
}

int main(void) {
	struct side a, b;
	open_fabric(&a, ask(NULL, NULL, 0, FI_EP_RDM, FI_TAGGED));
	open_fabric(&b, ask(NULL, NULL, 0, FI_EP_RDM, FI_TAGGED));
	open_endpoint(&a);
	open_endpoint(&b);
	char name[64];
	size_t length = sizeof name;
	fi_addr_t to;
	OK(fi_getname(&a.ep->fid, name, &length));
	IS(fi_av_insert(b.av, name, 1, &to, 0, NULL), 1);
	static const uint64_t levels[] = {FI_MATCH_COMPLETE, FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE | FI_DELIVERY_COMPLETE};
	static const size_t lengths[] = {0, 8, 4096, LONG};
	for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
		for (size_t j = 0; j < sizeof lengths / sizeof lengths[0]; j++) completes_when_taken(&a, &b, to, levels[i], lengths[j]);
	close_side(&b);
	close_side(&a);
	puts("matched: all well");
	return 0;
}
