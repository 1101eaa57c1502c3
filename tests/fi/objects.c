// SPDX-License-Identifier: MIT OR Apache-2.0
// The libfabric provider through libfabric's public calls, both sides in one process: addresses, poll sets, counters of regions, connected endpoints, datagrams.
#include "common.h"
#include <rdma/fi_atomic.h>

static void addresses(void) {
	struct fi_info *info = ask("127.0.0.1", port, FI_SOURCE, FI_EP_RDM, 0);
	if (!info || !info->src_addr || info->dest_addr) FAIL("a source: %p", (void *)info);
	struct fi_info *peer = ask("localhost", port, 0, FI_EP_RDM, 0);
	if (!peer || !peer->src_addr || peer->dest_addrlen != info->src_addrlen) FAIL("a destination: %p", (void *)peer);
	if (memcmp(peer->dest_addr, info->src_addr, info->src_addrlen)) FAIL("a service has two names");
	fi_freeinfo(peer);
	// Nothing is answered that was not asked for.
	if (ask("192.0.2.1", port, FI_SOURCE, FI_EP_RDM, 0)) FAIL("we are not there");
	if (ask(NULL, "no-number", 0, FI_EP_RDM, 0)) FAIL("not a service");
	if (ask(NULL, NULL, 0, FI_EP_DGRAM, FI_TAGGED)) FAIL("tagged datagrams");
	if (ask(NULL, NULL, 0, FI_EP_MSG, FI_DIRECTED_RECV)) FAIL("a pair chooses no source");
	fi_freeinfo(info);
}

// Names a peer by its service, and talks to it through a poll set.
static void services_and_poll_sets(enum fi_ep_type type) {
	struct side a, b;
	open_fabric(&a, ask("127.0.0.1", port, FI_SOURCE, type, FI_MSG));
	open_fabric(&b, ask(NULL, NULL, 0, type, FI_MSG));
	open_endpoint(&a);
	open_endpoint(&b);
	fi_addr_t to[3];
	IS(fi_av_insertsvc(b.av, "127.0.0.1", port, to, 0, NULL), 1);
	IS(fi_av_insertsym(b.av, "127.0.0.1", 2, "7", 1, to + 1, 0, NULL), 2);
	IS(fi_av_insertsvc(b.av, "127.0.0.1", "x", to + 1, 0, NULL), -FI_EINVAL);
	struct fid_poll *set;
	struct fi_poll_attr none = {0};
	OK(fi_poll_open(a.domain, &none, &set));
	OK(fi_poll_add(set, &a.cq->fid, 0));
	void *which[2] = {NULL, NULL};
	IS(fi_poll(set, which, 2), 0);
	char from[] = "by service", into[32] = "";
	OK(fi_recv(a.ep, into, sizeof into, NULL, FI_ADDR_UNSPEC, into));
	OK(fi_send(b.ep, from, sizeof from, NULL, to[0], from));
	time_t begun = 0;
	int n;
	while ((n = fi_poll(set, which, 2)) == 0) {
		fi_cq_read(b.cq, NULL, 0);
		if (is_late(&begun)) FAIL("nothing comes");
	}
	IS(n, 1);
	if (which[0] != &a) FAIL("not the queue's context");
	IS(fi_close(&a.cq->fid), -FI_EBUSY);
	if (completion(&a, &b).op_context != into || strcmp(from, into)) FAIL("'%s'", into);
	OK(fi_poll_del(set, &a.cq->fid, 0));
	IS(fi_poll_del(set, &a.cq->fid, 0), -FI_EINVAL);
	OK(fi_close(&set->fid));
	close_side(&b);
	close_side(&a);
}

// A counter that is bound to a region alone makes progress for it.
static void counters_of_regions(void) {
	struct side a, b;
	open_fabric(&a, ask(NULL, NULL, 0, FI_EP_RDM, FI_MSG | FI_RMA | FI_RMA_EVENT));
	open_fabric(&b, ask(NULL, NULL, 0, FI_EP_RDM, FI_MSG | FI_RMA | FI_RMA_EVENT));
	open_endpoint(&a);
	open_endpoint(&b);
	char name[64], window[8] = "", from[8] = "counted";
	size_t length = sizeof name;
	fi_addr_t to;
	OK(fi_getname(&a.ep->fid, name, &length));
	IS(fi_av_insert(b.av, name, 1, &to, 0, NULL), 1);
	struct fid_cntr *counter;
	struct fid_mr *region;
	struct fid_poll *set;
	struct fi_poll_attr none = {0};
	int mark;
	OK(fi_cntr_open(a.domain, NULL, &counter, &mark));
	OK(fi_mr_reg(a.domain, window, sizeof window, FI_REMOTE_WRITE, 0, 9, 0, &region, NULL));
	OK(fi_mr_bind(region, &counter->fid, FI_REMOTE_WRITE));
	OK(fi_poll_open(a.domain, &none, &set));
	OK(fi_poll_add(set, &counter->fid, 0));
	OK(fi_write(b.ep, from, sizeof from, NULL, to, 0, 9, NULL));
	time_t begun = 0;
	void *which = NULL;
	while (fi_poll(set, &which, 1) == 0) {
		fi_cq_read(b.cq, NULL, 0);
		if (is_late(&begun)) FAIL("nobody counts");
	}
	if (which != &mark) FAIL("not the counter's context");
	IS(fi_cntr_read(counter), 1);
	IS(fi_poll(set, &which, 1), 0);
	if (strcmp(window, from)) FAIL("'%s'", window);
	completion(&b, &a);
	OK(fi_close(&set->fid));
	OK(fi_close(&region->fid));
	close_side(&b);
	// The endpoint goes before the counter that has polled it.
	OK(fi_close(&a.ep->fid));
	a.ep = NULL;
	OK(fi_close(&counter->fid));
	close_side(&a);
}

// Waits for an event of `s` by its descriptor; the other side makes progress by itself. Returns the length, or that it is an error.
static ssize_t event(struct side *s, uint32_t *kind, void *to, size_t room) {
	int fd;
	OK(fi_control(&s->eq->fid, FI_GETWAIT, &fd));
	time_t begun = 0;
	for (;;) {
		ssize_t n = fi_eq_read(s->eq, kind, to, room, 0);
		if (n != -FI_EAGAIN) return n;
		struct fid *fids[1] = {&s->eq->fid};
		struct pollfd p = {fd, POLLIN, 0};
		if (fi_trywait(s->fabric, fids, 1) == 0) poll(&p, 1, 10000);
		if (is_late(&begun)) FAIL("no event");
	}
}

struct room {
	struct fi_eq_cm_entry entry;
	char data[64];
};

static struct fi_info *request(struct side *s, const char *data) {
	struct room r = {0};
	uint32_t kind = 99;
	IS(event(s, &kind, &r, sizeof r), sizeof r.entry + strlen(data));
	IS(kind, FI_CONNREQ);
	if (!r.entry.info || !r.entry.info->handle || memcmp(r.entry.data, data, strlen(data))) FAIL("not the request");
	return r.entry.info;
}

static void is_told(struct side *s, uint32_t what, const char *data) {
	struct room r = {0};
	uint32_t kind = 99;
	IS(event(s, &kind, &r, sizeof r), sizeof r.entry + strlen(data));
	IS(kind, what);
	if (r.entry.fid != &s->ep->fid || memcmp(r.entry.data, data, strlen(data))) FAIL("not this endpoint's, or not this");
}

static void is_refused(struct side *s, const char *data) {
	struct room r;
	uint32_t kind;
	struct fi_eq_err_entry e = {0};
	IS(event(s, &kind, &r, sizeof r), -FI_EAVAIL);
	IS(fi_eq_readerr(s->eq, &e, 0), sizeof e);
	IS(e.err, FI_ECONNREFUSED);
	if (e.fid != &s->ep->fid || e.err_data_size != strlen(data) || memcmp(e.err_data, data, strlen(data))) FAIL("not the refusal");
}

static void pairs(void) {
	struct side listener, a, b;
	struct fid_pep *pep, *second;
	open_fabric(&listener, ask("127.0.0.1", port, FI_SOURCE, FI_EP_MSG, FI_MSG | FI_RMA));
	// Nobody waits there yet.
	open_fabric(&a, ask("127.0.0.1", port, 0, FI_EP_MSG, FI_MSG | FI_RMA));
	open_endpoint(&a);
	char into[64] = "", from[64] = "to a peer";
	IS(fi_send(a.ep, from, sizeof from, NULL, 0, NULL), -FI_ENOTCONN);
	IS(fi_shutdown(a.ep, 0), -FI_ENOTCONN);
	OK(fi_connect(a.ep, a.info->dest_addr, NULL, 0));
	is_refused(&a, "");
	close_side(&a);

	OK(fi_passive_ep(listener.fabric, listener.info, &pep, NULL));
	IS(fi_passive_ep(listener.fabric, listener.info, &second, NULL), -FI_EADDRINUSE);
	IS(fi_listen(pep), -FI_EINVAL);
	OK(fi_pep_bind(pep, &listener.eq->fid, 0));
	OK(fi_listen(pep));

	// Refused, with a reason.
	open_fabric(&a, ask("127.0.0.1", port, 0, FI_EP_MSG, FI_MSG | FI_RMA));
	open_endpoint(&a);
	OK(fi_connect(a.ep, a.info->dest_addr, "me?", 3));
	IS(fi_connect(a.ep, a.info->dest_addr, NULL, 0), -FI_EISCONN);
	struct fi_info *asked = request(&listener, "me?");
	OK(fi_reject(pep, asked->handle, "not you", 7));
	IS(fi_reject(pep, asked->handle, NULL, 0), -FI_EINVAL);
	fi_freeinfo(asked);
	is_refused(&a, "not you");
	close_side(&a);

	// Accepted.
	open_fabric(&a, ask("127.0.0.1", port, 0, FI_EP_MSG, FI_MSG | FI_RMA));
	open_endpoint(&a);
	OK(fi_recv(a.ep, into, sizeof into, NULL, 0, into));
	OK(fi_connect(a.ep, a.info->dest_addr, "me?", 3));
	open_fabric(&b, request(&listener, "me?"));
	open_endpoint(&b);
	OK(fi_accept(b.ep, "you", 3));
	is_told(&b, FI_CONNECTED, "");
	is_told(&a, FI_CONNECTED, "you");
	char peer[64];
	size_t length = sizeof peer;
	OK(fi_getpeer(b.ep, peer, &length));
	// Whatever address is named, there is one peer.
	OK(fi_send(b.ep, from, sizeof from, NULL, 77, from));
	if (completion(&a, &b).op_context != into || strcmp(from, into)) FAIL("'%s'", into);
	completion(&b, &a);
	char window[8] = "";
	struct fid_mr *region;
	OK(fi_mr_reg(b.domain, window, sizeof window, FI_REMOTE_WRITE, 0, 4, 0, &region, NULL));
	OK(fi_write(a.ep, "written", 8, NULL, 0, 0, 4, NULL));
	completion(&a, &b);
	if (strcmp(window, "written")) FAIL("'%s'", window);
	OK(fi_close(&region->fid));

	// Ended: the other side hears of it and gets its receives back, behind what was sent before.
	OK(fi_recv(a.ep, into, sizeof into, NULL, 0, into));
	OK(fi_recv(a.ep, from, sizeof from, NULL, 0, from));
	OK(fi_send(b.ep, "the last", 9, NULL, 0, NULL));
	OK(fi_shutdown(b.ep, 0));
	is_told(&a, FI_SHUTDOWN, "");
	if (completion(&a, &b).op_context != into || strcmp(into, "the last")) FAIL("'%s'", into);
	struct fi_cq_data_entry e;
	struct fi_cq_err_entry error = {0};
	IS(fi_cq_read(a.cq, &e, 1), -FI_EAVAIL);
	IS(fi_cq_readerr(a.cq, &error, 0), 1);
	if (error.op_context != from || !error.err) FAIL("not the receive that was left");
	IS(fi_recv(a.ep, into, sizeof into, NULL, 0, into), -FI_ENOTCONN);
	IS(fi_send(a.ep, from, 1, NULL, 0, NULL), -FI_ENOTCONN);
	close_side(&a);
	close_side(&b);

	// Closed: its own events go with it, and the other side hears that it is gone.
	open_fabric(&a, ask("127.0.0.1", port, 0, FI_EP_MSG, FI_MSG));
	open_endpoint(&a);
	OK(fi_connect(a.ep, a.info->dest_addr, NULL, 0));
	open_fabric(&b, request(&listener, ""));
	open_endpoint(&b);
	OK(fi_accept(b.ep, NULL, 0));
	OK(fi_close(&b.ep->fid));
	b.ep = NULL;
	struct room r;
	uint32_t kind;
	IS(fi_eq_read(b.eq, &kind, &r, sizeof r, 0), -FI_EAGAIN);
	is_told(&a, FI_CONNECTED, "");
	is_told(&a, FI_SHUTDOWN, "");
	close_side(&a);
	close_side(&b);
	OK(fi_close(&pep->fid));
	close_side(&listener);
}

// A request to nobody is refused before the time is over that somebody who is there may take to answer.
static void nobody_is_there(void) {
	struct side a;
	char service[16];
	snprintf(service, sizeof service, "%d", atoi(port) + 7);
	open_fabric(&a, ask("127.0.0.1", service, 0, FI_EP_MSG, FI_MSG));
	open_endpoint(&a);
	time_t begun = time(NULL);
	OK(fi_connect(a.ep, a.info->dest_addr, NULL, 0));
	is_refused(&a, "");
	if (time(NULL) - begun > 30) FAIL("refused after %ld s", (long)(time(NULL) - begun));
	close_side(&a);
}

#if defined __x86_64__
// Atomics of the type that only C has.
static void long_doubles(void) {
	struct side s;
	open_fabric(&s, ask(NULL, NULL, 0, FI_EP_RDM, FI_MSG | FI_ATOMIC));
	open_endpoint(&s);
	char name[64];
	size_t length = sizeof name, count = 0;
	fi_addr_t self;
	OK(fi_getname(&s.ep->fid, name, &length));
	IS(fi_av_insert(s.av, name, 1, &self, 0, NULL), 1);
	static long double cells[3], operands[3], before[3], expected[3];
	// A third has more digits than a double.
	for (int i = 0; i < 3; i++) cells[i] = 1.0L / 3 * (i + 1), operands[i] = 1e-19L * (i + 1), expected[i] = cells[i] + operands[i];
	struct fid_mr *region;
	OK(fi_mr_reg(s.domain, cells, sizeof cells, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 5, 0, &region, NULL));
	OK(fi_fetch_atomicvalid(s.ep, FI_LONG_DOUBLE, FI_SUM, &count));
	if (count < 3) FAIL("%zu at a time", count);
	OK(fi_fetch_atomic(s.ep, operands, 3, NULL, before, NULL, self, 0, 5, FI_LONG_DOUBLE, FI_SUM, NULL));
	completion(&s, &s);
	for (int i = 0; i < 3; i++)
		if (cells[i] != expected[i] || before[i] != 1.0L / 3 * (i + 1)) FAIL("%Lg, not %Lg", cells[i], expected[i]);
	OK(fi_compare_atomic(s.ep, operands, 1, NULL, cells, NULL, before, NULL, self, 0, 5, FI_LONG_DOUBLE, FI_CSWAP_LE, NULL));
	completion(&s, &s);
	if (cells[0] != operands[0] || before[0] != expected[0]) FAIL("%Lg was not swapped", cells[0]);
	OK(fi_close(&region->fid));
	close_side(&s);
}
#else
static void long_doubles(void) {}
#endif

int main(void) {
	snprintf(port, sizeof port, "%d", 20000 + (int)(getpid() % 40000));
	addresses();
	services_and_poll_sets(FI_EP_RDM);
	services_and_poll_sets(FI_EP_DGRAM);
	counters_of_regions();
	pairs();
	nobody_is_there();
	long_doubles();
	puts("objects: all well");
	return 0;
}
