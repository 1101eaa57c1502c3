// SPDX-License-Identifier: MIT OR Apache-2.0
// What the programs that try the provider have in common: asking, opening, closing, waiting. Waits end when what is waited for is there; there is no time in here but a patience of a minute.
#ifndef BELLWIRE_TESTS_FI_COMMON_H
#define BELLWIRE_TESTS_FI_COMMON_H
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>

#define VERSION FI_VERSION(1, 17)
#define FAIL(...) (fprintf(stderr, "%s:%d: ", __func__, __LINE__), fprintf(stderr, __VA_ARGS__), fprintf(stderr, "\n"), exit(1))
#define IS(call, value) do { long got_ = (long)(call), want_ = (long)(value); if (got_ != want_) FAIL("%s: %ld, not %ld", #call, got_, want_); } while (0)
#define OK(call) IS(call, 0)

__attribute__((unused)) static char port[8];
// How event queues are waited for.
static enum fi_wait_obj event_wait = FI_WAIT_FD;

__attribute__((unused)) static struct fi_info *ask(const char *node, const char *service, uint64_t flags, enum fi_ep_type type, uint64_t caps) {
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	hints->fabric_attr->prov_name = strdup("bellwire");
	hints->ep_attr->type = type;
	hints->caps = caps;
	int outcome = fi_getinfo(VERSION, node, service, flags, hints, &info);
	fi_freeinfo(hints);
	if (outcome) errno = -outcome;
	return outcome ? NULL : info;
}

static int is_late(time_t *begun) {
	if (!*begun) *begun = time(NULL);
	return time(NULL) - *begun > 60;
}

// An endpoint with queues and a counter of its own.
struct side {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
};

static void open_fabric(struct side *s, struct fi_info *info) {
	memset(s, 0, sizeof *s);
	s->info = info;
	if (!info) FAIL("no such endpoint: %s", fi_strerror(errno));
	OK(fi_fabric(info->fabric_attr, &s->fabric, NULL));
	struct fi_eq_attr eq = {.wait_obj = event_wait};
	OK(fi_eq_open(s->fabric, &eq, &s->eq, NULL));
}

static void open_domain(struct side *s) {
	OK(fi_domain(s->fabric, s->info, &s->domain, NULL));
}

static void open_endpoint(struct side *s) {
	if (!s->domain) open_domain(s);
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE};
	OK(fi_cq_open(s->domain, &cq, &s->cq, s));
	OK(fi_endpoint(s->domain, s->info, &s->ep, s));
	OK(fi_ep_bind(s->ep, &s->cq->fid, FI_SEND | FI_RECV));
	if (s->info->ep_attr->type == FI_EP_MSG) {
		OK(fi_ep_bind(s->ep, &s->eq->fid, 0));
	} else {
		struct fi_av_attr av = {.type = FI_AV_MAP};
		OK(fi_av_open(s->domain, &av, &s->av, NULL));
		OK(fi_ep_bind(s->ep, &s->av->fid, 0));
	}
	OK(fi_enable(s->ep));
}

static void close_side(struct side *s) {
	if (s->ep) OK(fi_close(&s->ep->fid));
	if (s->cq) OK(fi_close(&s->cq->fid));
	if (s->av) OK(fi_close(&s->av->fid));
	if (s->domain) OK(fi_close(&s->domain->fid));
	if (s->eq) OK(fi_close(&s->eq->fid));
	OK(fi_close(&s->fabric->fid));
	fi_freeinfo(s->info);
}

// Waits for one completion of `s`; the other side is polled too.
__attribute__((unused)) static struct fi_cq_data_entry completion(struct side *s, struct side *other) {
	struct fi_cq_data_entry e;
	time_t begun = 0;
	for (;;) {
		ssize_t n = fi_cq_read(s->cq, &e, 1);
		if (n == 1) return e;
		if (n != -FI_EAGAIN) FAIL("a queue: %zd", n);
		fi_cq_read(other->cq, NULL, 0);
		if (is_late(&begun)) FAIL("nothing comes");
	}
}
#endif
