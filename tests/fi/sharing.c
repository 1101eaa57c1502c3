// SPDX-License-Identifier: MIT OR Apache-2.0
// The libfabric provider through libfabric's public calls: contexts that endpoints share, wait sets, who hears of a connection when, operations that wait for a counter.
#include "common.h"

enum { MEMBERS = 3, BYTES = 40000 };

// Endpoints of one domain with a queue and a receive context in common, and one that talks to all of them.
static void shared_receives(int tagged) {
	struct side s, other;
	struct fi_info *hints = fi_allocinfo(), *info;
	hints->fabric_attr->prov_name = strdup("bellwire");
	hints->ep_attr->type = FI_EP_RDM;
	hints->ep_attr->tx_ctx_cnt = hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	hints->caps = FI_MSG | FI_TAGGED;
	OK(fi_getinfo(VERSION, NULL, NULL, 0, hints, &info));
	fi_freeinfo(hints);
	if (info->ep_attr->rx_ctx_cnt != FI_SHARED_CONTEXT || info->ep_attr->tx_ctx_cnt != FI_SHARED_CONTEXT) FAIL("not shared");
	open_fabric(&s, info);
	open_fabric(&other, ask(NULL, NULL, 0, FI_EP_RDM, FI_MSG | FI_TAGGED));
	open_endpoint(&other);
	OK(fi_domain(s.fabric, s.info, &s.domain, NULL));
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE};
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	OK(fi_cq_open(s.domain, &cq, &s.cq, NULL));
	OK(fi_av_open(s.domain, &av, &s.av, NULL));
	struct fid_ep *srx, *eps[MEMBERS];
	struct fid_stx *stx;
	OK(fi_srx_context(s.domain, s.info->rx_attr, &srx, NULL));
	OK(fi_stx_context(s.domain, s.info->tx_attr, &stx, NULL));
	fi_addr_t to[MEMBERS];
	static char into[2 * MEMBERS][BYTES], from[2 * MEMBERS][BYTES];
	for (int i = 0; i < MEMBERS; i++) {
		char name[64];
		size_t length = sizeof name;
		OK(fi_endpoint(s.domain, s.info, &eps[i], NULL));
		OK(fi_ep_bind(eps[i], &s.av->fid, 0));
		OK(fi_ep_bind(eps[i], &s.cq->fid, FI_SEND | FI_RECV));
		OK(fi_ep_bind(eps[i], &stx->fid, 0));
		OK(fi_ep_bind(eps[i], &srx->fid, 0));
		OK(fi_enable(eps[i]));
		IS(fi_recv(eps[i], into, BYTES, NULL, FI_ADDR_UNSPEC, NULL), -FI_EOPBADSTATE);
		OK(fi_getname(&eps[i]->fid, name, &length));
		IS(fi_av_insert(other.av, name, 1, &to[i], 0, NULL), 1);
	}
	IS(fi_close(&srx->fid), -FI_EBUSY);
	IS(fi_send(srx, from, 1, NULL, 0, NULL), -FI_ENOSYS);
	// Half of the messages find a receive, half wait for one; some are long.
	for (int i = 0; i < 2 * MEMBERS; i++) {
		memset(from[i], 'a' + i, BYTES);
		if (i == MEMBERS) fi_cq_read(s.cq, NULL, 0);
		for (int k = 0; k < MEMBERS && i == 0; k++) {
			if (tagged) OK(fi_trecv(srx, into[k], BYTES, NULL, FI_ADDR_UNSPEC, 5, 0, into[k]));
			else OK(fi_recv(srx, into[k], BYTES, NULL, FI_ADDR_UNSPEC, into[k]));
		}
		size_t n = i % 2 ? BYTES : 100;
		if (tagged) OK(fi_tsend(other.ep, from[i], n, NULL, to[i % MEMBERS], 5, NULL));
		else OK(fi_send(other.ep, from[i], n, NULL, to[i % MEMBERS], NULL));
	}
	int seen[26] = {0};
	for (int done = 0; done < 2 * MEMBERS; done++) {
		struct fi_cq_data_entry e = completion(&s, &other);
		char *at = e.op_context;
		if (at[0] != at[e.len - 1] || e.len != ((at[0] - 'a') % 2 ? BYTES : 100)) FAIL("%zu bytes of '%c'", e.len, at[0]);
		seen[at[0] - 'a']++;
		if (done >= MEMBERS) continue;
		char *next = into[MEMBERS + done];
		if (tagged) OK(fi_trecv(srx, next, BYTES, NULL, FI_ADDR_UNSPEC, 5, 0, next));
		else OK(fi_recv(srx, next, BYTES, NULL, FI_ADDR_UNSPEC, next));
	}
	for (int i = 0; i < 2 * MEMBERS; i++) IS(seen[i], 1);
	// Taken back.
	OK(fi_recv(srx, into, BYTES, NULL, FI_ADDR_UNSPEC, from));
	OK(fi_cancel(&srx->fid, from));
	IS(fi_cancel(&srx->fid, from), -FI_ENOENT);
	struct fi_cq_data_entry e;
	struct fi_cq_err_entry error = {0};
	IS(fi_cq_read(s.cq, &e, 1), -FI_EAVAIL);
	IS(fi_cq_readerr(s.cq, &error, 0), 1);
	if (error.err != FI_ECANCELED || error.op_context != from) FAIL("error %d", error.err);
	for (int i = 0; i < MEMBERS; i++) OK(fi_close(&eps[i]->fid));
	OK(fi_close(&srx->fid));
	OK(fi_close(&stx->fid));
	close_side(&other);
	close_side(&s);
}

// One sleep for a queue and a counter, which have an endpoint each.
static void wait_sets(void) {
	struct side a, b;
	open_fabric(&a, ask(NULL, NULL, 0, FI_EP_RDM, FI_MSG | FI_RMA | FI_RMA_EVENT));
	open_fabric(&b, ask(NULL, NULL, 0, FI_EP_RDM, FI_MSG | FI_RMA | FI_RMA_EVENT));
	open_endpoint(&b);
	struct fid_wait *set;
	struct fi_wait_attr how = {.wait_obj = FI_WAIT_FD};
	IS(fi_wait_open(a.fabric, &how, &set), -FI_ENOSYS);
	how.wait_obj = FI_WAIT_UNSPEC;
	OK(fi_wait_open(a.fabric, &how, &set));
	IS(fi_wait(set, 0), -FI_ETIMEDOUT);
	OK(fi_domain(a.fabric, a.info, &a.domain, NULL));
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_SET};
	IS(fi_cq_open(a.domain, &cq, &a.cq, NULL), -FI_EINVAL);
	cq.wait_set = set;
	OK(fi_cq_open(a.domain, &cq, &a.cq, NULL));
	struct fi_cntr_attr counting = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_SET, .wait_set = set};
	struct fid_cntr *counter;
	OK(fi_cntr_open(a.domain, &counting, &counter, NULL));
	IS(fi_close(&set->fid), -FI_EBUSY);
	struct fi_av_attr av = {.type = FI_AV_MAP};
	OK(fi_av_open(a.domain, &av, &a.av, NULL));
	OK(fi_endpoint(a.domain, a.info, &a.ep, NULL));
	OK(fi_ep_bind(a.ep, &a.av->fid, 0));
	OK(fi_ep_bind(a.ep, &a.cq->fid, FI_SEND | FI_RECV));
	OK(fi_enable(a.ep));
	char window[8] = "", into[8] = "", name[64];
	struct fid_mr *region;
	OK(fi_mr_reg(a.domain, window, sizeof window, FI_REMOTE_WRITE, 0, 9, 0, &region, NULL));
	OK(fi_mr_bind(region, &counter->fid, FI_REMOTE_WRITE));
	size_t length = sizeof name;
	fi_addr_t to;
	OK(fi_getname(&a.ep->fid, name, &length));
	IS(fi_av_insert(b.av, name, 1, &to, 0, NULL), 1);
	IS(fi_wait(set, 1), -FI_ETIMEDOUT);
	OK(fi_recv(a.ep, into, sizeof into, NULL, FI_ADDR_UNSPEC, into));
	OK(fi_send(b.ep, "message", 8, NULL, to, NULL));
	// The other side, in this process too, connects meanwhile.
	time_t begun = 0;
	int n;
	while ((n = fi_wait(set, 1)) == -FI_ETIMEDOUT) {
		fi_cq_read(b.cq, NULL, 0);
		if (is_late(&begun)) FAIL("nothing comes");
	}
	OK(n);
	completion(&a, &b);
	if (strcmp(into, "message")) FAIL("'%s'", into);
	OK(fi_write(b.ep, "counted", 8, NULL, to, 0, 9, NULL));
	OK(fi_wait(set, 60000));
	IS(fi_cntr_read(counter), 1);
	IS(fi_wait(set, 1), -FI_ETIMEDOUT);
	OK(fi_close(&region->fid));
	close_side(&b);
	OK(fi_close(&a.ep->fid));
	a.ep = NULL;
	OK(fi_close(&counter->fid));
	OK(fi_close(&a.cq->fid));
	a.cq = NULL;
	OK(fi_close(&set->fid));
	close_side(&a);
}

static int has_event(struct side *s, uint32_t wanted, struct fi_eq_cm_entry *e) {
	uint32_t kind;
	ssize_t n = fi_eq_read(s->eq, &kind, e, sizeof *e, 0);
	if (n == -FI_EAGAIN) return 0;
	IS(n, sizeof *e);
	IS(kind, wanted);
	return 1;
}

// Whoever has accepted and heard that it is connected may never look at that endpoint again: the other side has heard it by then.
static void connected_is_connected(void) {
	struct side listener, a, b;
	struct fid_pep *pep;
	struct fi_eq_cm_entry e;
	time_t begun = 0;
	event_wait = FI_WAIT_NONE;
	open_fabric(&listener, ask("127.0.0.1", port, FI_SOURCE, FI_EP_MSG, FI_MSG));
	OK(fi_passive_ep(listener.fabric, listener.info, &pep, NULL));
	OK(fi_pep_bind(pep, &listener.eq->fid, 0));
	OK(fi_listen(pep));
	open_fabric(&a, ask("127.0.0.1", port, 0, FI_EP_MSG, FI_MSG));
	open_endpoint(&a);
	OK(fi_connect(a.ep, a.info->dest_addr, NULL, 0));
	while (!has_event(&listener, FI_CONNREQ, &e)) {
		IS(has_event(&a, FI_CONNECTED, &e), 0);
		if (is_late(&begun)) FAIL("nobody asks");
	}
	open_fabric(&b, e.info);
	open_endpoint(&b);
	OK(fi_accept(b.ep, NULL, 0));
	begun = 0;
	int heard = 0;
	while (!has_event(&b, FI_CONNECTED, &e)) {
		heard |= has_event(&a, FI_CONNECTED, &e);
		if (is_late(&begun)) FAIL("never connected");
	}
	begun = 0;
	while (!heard && !has_event(&a, FI_CONNECTED, &e)) {
		if (is_late(&begun)) FAIL("nobody has said so");
	}
	close_side(&a);
	close_side(&b);
	OK(fi_close(&pep->fid));
	close_side(&listener);
}

// Operations that wait for a counter begin in the order of its values, whatever the order in which they were asked for.
static void triggered(void) {
	struct side a, b;
	open_fabric(&a, ask(NULL, NULL, 0, FI_EP_RDM, FI_MSG | FI_RMA | FI_TRIGGER));
	open_fabric(&b, ask(NULL, NULL, 0, FI_EP_RDM, FI_MSG | FI_RMA));
	open_endpoint(&a);
	open_endpoint(&b);
	char name[64], window[8] = "", into[3][8] = {"", "", ""};
	size_t length = sizeof name;
	fi_addr_t to;
	OK(fi_getname(&b.ep->fid, name, &length));
	IS(fi_av_insert(a.av, name, 1, &to, 0, NULL), 1);
	struct fid_cntr *counter;
	struct fid_mr *region;
	struct fid_ep *later = NULL;
	OK(fi_cntr_open(a.domain, NULL, &counter, NULL));
	OK(fi_mr_reg(b.domain, window, sizeof window, FI_REMOTE_WRITE, 0, 9, 0, &region, NULL));
	OK(fi_ep_alias(a.ep, &later, FI_TRANSMIT | FI_TRIGGER));
	for (int i = 0; i < 3; i++) OK(fi_recv(b.ep, into[i], 8, NULL, FI_ADDR_UNSPEC, into[i]));
	IS(fi_send(later, "none", 5, NULL, to, NULL), -FI_EINVAL);
	struct fi_triggered_context c[3], never;
	for (int i = 0; i < 3; i++) c[i] = (struct fi_triggered_context){.event_type = FI_TRIGGER_THRESHOLD, .trigger.threshold = {counter, 3 - (size_t)i}};
	never = c[0];
	never.trigger.threshold.threshold = 100;
	OK(fi_send(later, "third", 6, NULL, to, &c[0]));
	OK(fi_send(later, "second", 7, NULL, to, &c[1]));
	OK(fi_write(later, "written", 8, NULL, to, 0, 9, &c[2]));
	OK(fi_send(later, "never", 6, NULL, to, &never));
	// Nothing yet; an operation of its own goes at once.
	OK(fi_send(a.ep, "first", 6, NULL, to, window));
	if (completion(&a, &b).op_context != window || completion(&b, &a).op_context != into[0] || strcmp(into[0], "first")) FAIL("'%s'", into[0]);
	for (int i = 0; i < 1000; i++) IS(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
	if (window[0]) FAIL("written too early");
	OK(fi_cntr_set(counter, 1));
	if (completion(&a, &b).op_context != &c[2] || strcmp(window, "written") || into[1][0]) FAIL("'%s', and '%s'", window, into[1]);
	OK(fi_cntr_add(counter, 2));
	if (completion(&b, &a).op_context != into[1] || completion(&b, &a).op_context != into[2]) FAIL("another receive");
	if (strcmp(into[1], "second") || strcmp(into[2], "third")) FAIL("'%s', then '%s'", into[1], into[2]);
	IS(fi_close(&a.ep->fid), -FI_EBUSY);
	IS(fi_close(&counter->fid), -FI_EBUSY);
	OK(fi_close(&later->fid));
	OK(fi_close(&counter->fid));
	OK(fi_close(&region->fid));
	close_side(&a);
	close_side(&b);
}

int main(void) {
	snprintf(port, sizeof port, "%d", 20000 + (int)(getpid() % 40000));
	shared_receives(0);
	shared_receives(1);
	wait_sets();
	connected_is_connected();
	triggered();
	puts("sharing: all well");
	return 0;
}
