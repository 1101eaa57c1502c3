// SPDX-License-Identifier: MIT OR Apache-2.0
// The calls of a tagged message of 8 bytes, as MPIs make them, each in a function of its own: callgrind counts their instructions (cost.sh). Two endpoints in one process, one thread.
#include "common.h"

enum { MESSAGES = 4000 };
static struct side from, to;
static fi_addr_t address;
static struct fi_context context;
static uint64_t word;

__attribute__((noinline)) void counted_inject(void) {
	while (fi_tinjectdata(from.ep, &word, sizeof word, 7, address, 5)) fi_cq_read(from.cq, NULL, 0);
}

__attribute__((noinline)) void counted_receive(void) {
	OK(fi_trecv(to.ep, &word, sizeof word, NULL, FI_ADDR_UNSPEC, 5, 0, &context));
}

__attribute__((noinline)) void counted_read(void) {
	struct fi_cq_data_entry e;
	while (fi_cq_read(to.cq, &e, 1) != 1) {}
}

static void open_side(struct side *s) {
	open_fabric(s, ask(NULL, NULL, 0, FI_EP_RDM, FI_TAGGED));
	open_endpoint(s);
}

int main(void) {
	char name[256];
	size_t length = sizeof name;
	open_side(&from), open_side(&to);
	OK(fi_getname(&to.ep->fid, name, &length));
	IS(fi_av_insert(from.av, name, 1, &address, 0, NULL), 1);
	// The first one connects; nothing is to take long.
	alarm(120);
	for (int i = 0; i < MESSAGES; i++) {
		counted_receive();
		counted_inject();
		if (!i) {
			struct fi_cq_data_entry e = completion(&to, &from);
			IS(e.data, 7);
			counted_receive();
			counted_inject();
		}
		counted_read();
		// Credits.
		fi_cq_read(from.cq, NULL, 0);
	}
	close_side(&from), close_side(&to);
}
