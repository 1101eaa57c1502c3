// SPDX-License-Identifier: MIT OR Apache-2.0
// How peers are named, and buffers that begin with a prefix: addresses of sockets, names that are set or taken over, scalable endpoints, address vectors that are opened by a name.
#include "common.h"
#include <arpa/inet.h>

static struct fi_info *ask_in(uint32_t format, const char *node, const char *service, uint64_t flags, enum fi_ep_type type, uint64_t caps, uint64_t mode, struct fid *handle) {
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	hints->fabric_attr->prov_name = strdup("bellwire");
	hints->ep_attr->type = type;
	hints->caps = caps, hints->mode = mode, hints->addr_format = format, hints->handle = handle;
	int outcome = fi_getinfo(VERSION, node, service, flags, hints, &info);
	fi_freeinfo(hints);
	if (outcome) errno = -outcome;
	return outcome ? NULL : info;
}

// Waits for one completion of a queue; others are polled too.
static struct fi_cq_data_entry one(struct fid_cq *cq, struct fid_cq *other, fi_addr_t *source) {
	struct fi_cq_data_entry e;
	time_t begun = 0;
	for (;;) {
		ssize_t n = fi_cq_readfrom(cq, &e, 1, source);
		if (n == 1) return e;
		if (n != -FI_EAGAIN) FAIL("a queue: %zd", n);
		if (other) fi_cq_read(other, NULL, 0);
		if (is_late(&begun)) FAIL("nothing comes");
	}
}

// Endpoints whose addresses are those of sockets.
static void sockets(enum fi_ep_type type) {
	struct side a, b;
	open_fabric(&a, ask_in(FI_SOCKADDR, "127.0.0.1", port, FI_SOURCE, type, FI_MSG | FI_SOURCE, 0, NULL));
	open_fabric(&b, ask_in(FI_SOCKADDR_IN, "127.0.0.1", port, 0, type, FI_MSG | FI_SOURCE, 0, NULL));
	IS(a.info->addr_format, FI_SOCKADDR_IN);
	IS(a.info->src_addrlen, sizeof(struct sockaddr_in));
	struct sockaddr_in *source = a.info->src_addr, *peer = b.info->dest_addr, own;
	if (source->sin_family != AF_INET || ntohs(source->sin_port) != atoi(port) || source->sin_addr.s_addr != htonl(INADDR_LOOPBACK)) FAIL("not its address");
	if (memcmp(source, peer, sizeof *peer)) FAIL("a service has two addresses");
	open_endpoint(&a);
	open_endpoint(&b);
	size_t length = sizeof own;
	OK(fi_getname(&a.ep->fid, &own, &length));
	if (length != sizeof own || memcmp(&own, source, length)) FAIL("not its name");
	length = sizeof own;
	OK(fi_getname(&b.ep->fid, &own, &length));
	// Who asked for none has some port, by which it can be answered.
	if (!own.sin_port || own.sin_addr.s_addr != htonl(INADDR_LOOPBACK)) FAIL("no port");
	fi_addr_t to_a, to_b, from;
	IS(fi_av_insert(b.av, peer, 1, &to_a, 0, NULL), 1);
	IS(fi_av_insert(a.av, &own, 1, &to_b, 0, NULL), 1);
	struct sockaddr_in nobody = {0}, found;
	IS(fi_av_insert(a.av, &nobody, 1, NULL, 0, NULL), 0);
	length = sizeof found;
	OK(fi_av_lookup(a.av, to_b, &found, &length));
	if (memcmp(&found, &own, sizeof own)) FAIL("looked up: another");
	char text[64], wanted[64], into[8] = "";
	length = sizeof text;
	snprintf(wanted, sizeof wanted, "fi_sockaddr_in://127.0.0.1:%s", port);
	if (strcmp(fi_av_straddr(b.av, peer, text, &length), wanted)) FAIL("'%s'", text);
	OK(fi_recv(a.ep, into, sizeof into, NULL, FI_ADDR_UNSPEC, into));
	OK(fi_send(b.ep, "hello", 6, NULL, to_a, NULL));
	one(a.cq, b.cq, &from);
	if (from != to_b || strcmp(into, "hello")) FAIL("'%s' from %lu", into, (unsigned long)from);
	close_side(&b);
	close_side(&a);
	// The other family; a format of something else.
	if (ask_in(FI_SOCKADDR_IN6, NULL, NULL, 0, type, FI_MSG, 0, NULL) || ask_in(FI_SOCKADDR_IB, NULL, NULL, 0, type, FI_MSG, 0, NULL)) FAIL("a format that is not there");
}

// An endpoint that waits for requests gets a name, and another takes it over.
static void names_taken_over(void) {
	struct side s, c;
	open_fabric(&s, ask_in(FI_SOCKADDR, "127.0.0.1", NULL, FI_SOURCE, FI_EP_MSG, FI_MSG, 0, NULL));
	struct fid_pep *pep, *listener;
	OK(fi_passive_ep(s.fabric, s.info, &pep, NULL));
	OK(fi_passive_ep(s.fabric, s.info, &listener, NULL));
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(atoi(port) + 1), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, told, at;
	IS(fi_setname(&pep->fid, &name, 4), -FI_EINVAL);
	struct sockaddr_in elsewhere = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000201)};
	IS(fi_setname(&pep->fid, &elsewhere, sizeof elsewhere), -EADDRNOTAVAIL);
	OK(fi_setname(&pep->fid, &name, sizeof name));
	size_t length = sizeof told;
	OK(fi_getname(&pep->fid, &told, &length));
	if (memcmp(&told, &name, sizeof name)) FAIL("another name");
	length = sizeof at;
	OK(fi_getname(&listener->fid, &at, &length));
	OK(fi_pep_bind(listener, &s.eq->fid, 0));
	OK(fi_listen(listener));
	IS(fi_setname(&listener->fid, &name, sizeof name), -FI_EOPBADSTATE);
	char service[8];
	snprintf(service, sizeof service, "%d", ntohs(at.sin_port));
	open_fabric(&c, ask_in(FI_SOCKADDR, "127.0.0.1", service, 0, FI_EP_MSG, FI_MSG, 0, &pep->fid));
	if (c.info->handle != &pep->fid || memcmp(c.info->src_addr, &name, sizeof name)) FAIL("not its name");
	open_endpoint(&c);
	length = sizeof told;
	OK(fi_getname(&c.ep->fid, &told, &length));
	if (memcmp(&told, &name, sizeof name)) FAIL("not taken over");
	// Once.
	struct fid_ep *again;
	IS(fi_endpoint(c.domain, c.info, &again, NULL), -FI_EINVAL);
	OK(fi_close(&pep->fid));
	OK(fi_connect(c.ep, c.info->dest_addr, NULL, 0));
	struct fi_eq_cm_entry e;
	uint32_t event;
	time_t begun = 0;
	while (fi_eq_read(s.eq, &event, &e, sizeof e, 0) == -FI_EAGAIN) {
		fi_eq_read(c.eq, &event, &e, 0, 0);
		if (is_late(&begun)) FAIL("no request");
	}
	IS(event, FI_CONNREQ);
	if (memcmp(e.info->dest_addr, &name, sizeof name) || memcmp(e.info->src_addr, &at, sizeof at)) FAIL("a request of others");
	// As with sockets, who accepts has the address that was asked.
	fi_freeinfo(s.info);
	s.info = e.info;
	open_endpoint(&s);
	length = sizeof told;
	OK(fi_getname(&s.ep->fid, &told, &length));
	if (memcmp(&told, &at, sizeof at)) FAIL("another address");
	OK(fi_accept(s.ep, NULL, 0));
	for (int connected = 0; connected < 2;) {
		connected += fi_eq_read(s.eq, &event, &e, sizeof e, 0) == sizeof e;
		connected += fi_eq_read(c.eq, &event, &e, sizeof e, 0) == sizeof e;
		if (is_late(&begun)) FAIL("not connected");
	}
	OK(fi_close(&listener->fid));
	close_side(&c);
	close_side(&s);
}

enum { CONTEXTS = 3, BITS = 2 };

struct scalable {
	struct side of;
	struct fid_ep *sep, *tx[CONTEXTS], *rx[CONTEXTS];
	struct fid_cq *sent[CONTEXTS], *came[CONTEXTS];
};

static void open_scalable(struct scalable *s, struct fi_info *info) {
	open_fabric(&s->of, info);
	OK(fi_domain(s->of.fabric, info, &s->of.domain, NULL));
	struct fi_av_attr av = {.type = FI_AV_MAP, .rx_ctx_bits = BITS};
	OK(fi_av_open(s->of.domain, &av, &s->of.av, NULL));
	info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = CONTEXTS;
	OK(fi_scalable_ep(s->of.domain, info, &s->sep, NULL));
	OK(fi_scalable_ep_bind(s->sep, &s->of.av->fid, 0));
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_DATA};
	for (int i = 0; i < CONTEXTS; i++) {
		OK(fi_cq_open(s->of.domain, &cq, &s->sent[i], NULL));
		OK(fi_cq_open(s->of.domain, &cq, &s->came[i], NULL));
		OK(fi_tx_context(s->sep, i, NULL, &s->tx[i], NULL));
		OK(fi_rx_context(s->sep, i, NULL, &s->rx[i], NULL));
		OK(fi_ep_bind(s->tx[i], &s->sent[i]->fid, FI_SEND));
		OK(fi_ep_bind(s->rx[i], &s->came[i]->fid, FI_RECV));
		OK(fi_enable(s->tx[i]));
		OK(fi_enable(s->rx[i]));
	}
	OK(fi_enable(s->sep));
	struct fid_ep *more;
	IS(fi_tx_context(s->sep, CONTEXTS, NULL, &more, NULL), -FI_EINVAL);
	IS(fi_rx_context(s->sep, -1, NULL, &more, NULL), -FI_EINVAL);
	IS(fi_rx_context(s->sep, 0, NULL, &more, NULL), -FI_EBUSY);
	IS(fi_close(&s->sep->fid), -FI_EBUSY);
}

static void close_scalable(struct scalable *s) {
	for (int i = 0; i < CONTEXTS; i++) {
		OK(fi_close(&s->tx[i]->fid));
		OK(fi_close(&s->rx[i]->fid));
		OK(fi_close(&s->sent[i]->fid));
		OK(fi_close(&s->came[i]->fid));
	}
	OK(fi_close(&s->sep->fid));
	close_side(&s->of);
}

// Each sending context to each receiving one; all of them are one source.
static void scalable(uint32_t format) {
	static struct scalable a, b;
	open_scalable(&a, ask_in(format, NULL, NULL, 0, FI_EP_RDM, FI_MSG | FI_TAGGED | FI_SOURCE | FI_DIRECTED_RECV | FI_NAMED_RX_CTX, 0, NULL));
	open_scalable(&b, ask_in(format, NULL, NULL, 0, FI_EP_RDM, FI_MSG | FI_TAGGED | FI_SOURCE | FI_DIRECTED_RECV | FI_NAMED_RX_CTX, 0, NULL));
	char name[64];
	size_t length = sizeof name;
	fi_addr_t to, other, back, from;
	OK(fi_getname(&a.sep->fid, name, &length));
	// Not the first numbers of both, so that they differ.
	IS(fi_av_insert(b.of.av, name, 1, &other, 0, NULL), 1);
	IS(fi_av_insert(b.of.av, name, 1, &to, 0, NULL), 1);
	length = sizeof name;
	OK(fi_getname(&b.sep->fid, name, &length));
	IS(fi_av_insert(a.of.av, name, 1, &back, 0, NULL), 1);
	for (int i = 0; i < CONTEXTS; i++)
		for (int j = 0; j < CONTEXTS; j++) {
			int value = 0, said = 10 * i + j;
			// A receive for one source takes what any of its contexts sends.
			OK(fi_recv(a.rx[j], &value, sizeof value, NULL, back, &value));
			OK(fi_send(b.tx[i], &said, sizeof said, NULL, fi_rx_addr(to, j, BITS), NULL));
			one(a.came[j], b.sent[i], &from);
			if (value != said || from != back) FAIL("%d from %lu, not %d", value, (unsigned long)from, said);
		}
	// A context does its half; and there are not as many of them as numbers.
	IS(fi_send(a.rx[0], name, 1, NULL, back, NULL), -FI_ENOSYS);
	IS(fi_recv(a.tx[0], name, 1, NULL, back, NULL), -FI_ENOSYS);
	IS(fi_send(a.tx[0], name, 1, NULL, fi_rx_addr(back + 1, 0, BITS), NULL), -FI_EINVAL);
	close_scalable(&b);
	close_scalable(&a);
}

// Messages begin behind a prefix, which stays the program's.
static void prefixes(enum fi_ep_type type) {
	if (ask_in(0, NULL, NULL, 0, type, FI_MSG, ~0ull, NULL)->ep_attr->msg_prefix_size) FAIL("a prefix that nobody wants");
	struct side s;
	open_fabric(&s, ask_in(0, NULL, NULL, 0, type, FI_MSG, FI_MSG_PREFIX, NULL));
	size_t prefix = s.info->ep_attr->msg_prefix_size, length = 64;
	if (!prefix || prefix % 8 || !(s.info->tx_attr->mode & s.info->rx_attr->mode & s.info->mode & FI_MSG_PREFIX)) FAIL("no prefix");
	open_endpoint(&s);
	char from[64], into[64], name[64];
	fi_addr_t self;
	OK(fi_getname(&s.ep->fid, name, &length));
	IS(fi_av_insert(s.av, name, 1, &self, 0, NULL), 1);
	memset(from, 'f', sizeof from);
	memset(into, 'i', sizeof into);
	// In pieces, and injected; the room is not sent.
	struct iovec pieces[2] = {{from, prefix}, {"message", 8}};
	for (int round = 0; round < 2; round++) {
		OK(fi_recv(s.ep, into, sizeof into, NULL, FI_ADDR_UNSPEC, into));
		memcpy(from + prefix, "message", 8);
		if (round) {
			OK(fi_inject(s.ep, from, prefix + 8, self));
		} else {
			OK(fi_sendv(s.ep, pieces, NULL, 2, self, from));
		}
		struct fi_cq_data_entry e;
		for (int n = 0; n < 2 - round; n++)
			if ((e = one(s.cq, NULL, NULL)).op_context == into) IS(e.len, prefix + 8);
		if (into[0] != 'i' || into[prefix - 1] != 'i' || strcmp(into + prefix, "message")) FAIL("'%.40s'", into);
	}
	IS(fi_send(s.ep, from, prefix - 1, NULL, self, NULL), -FI_EINVAL);
	IS(fi_recv(s.ep, from, prefix - 1, NULL, self, NULL), -FI_EINVAL);
	close_side(&s);
}

// One writes the vector, another reads it: by the same numbers, also those that came later.
static void shared_vectors(void) {
	char name[32];
	snprintf(name, sizeof name, "addressing %s", port);
	struct side a, b;
	open_fabric(&a, ask(NULL, NULL, 0, FI_EP_RDM, FI_MSG | FI_SHARED_AV));
	open_fabric(&b, ask(NULL, NULL, 0, FI_EP_RDM, FI_MSG | FI_SHARED_AV));
	open_endpoint(&a);
	struct fid_av *written, *more;
	struct fi_av_attr attr = {.type = FI_AV_MAP, .name = name}, only_read = {.type = FI_AV_MAP, .name = name, .flags = FI_READ};
	OK(fi_domain(b.fabric, b.info, &b.domain, NULL));
	IS(fi_av_open(b.domain, &only_read, &b.av, NULL), -FI_ENOENT);
	OK(fi_av_open(a.domain, &attr, &written, NULL));
	IS(fi_av_open(a.domain, &attr, &more, NULL), -FI_EBUSY);
	OK(fi_av_open(b.domain, &only_read, &b.av, NULL));
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_DATA};
	OK(fi_cq_open(b.domain, &cq, &b.cq, NULL));
	OK(fi_endpoint(b.domain, b.info, &b.ep, NULL));
	OK(fi_ep_bind(b.ep, &b.cq->fid, FI_SEND | FI_RECV));
	OK(fi_ep_bind(b.ep, &b.av->fid, 0));
	OK(fi_enable(b.ep));
	char own[64], into[8] = "";
	size_t length = sizeof own;
	OK(fi_getname(&a.ep->fid, own, &length));
	IS(fi_send(b.ep, "early", 6, NULL, 0, NULL), -FI_EINVAL);
	fi_addr_t at;
	IS(fi_av_insert(written, own, 1, &at, 0, NULL), 1);
	IS(fi_av_insert(b.av, own, 1, &at, 0, NULL), 0);
	IS(((fi_addr_t *)only_read.map_addr)[at == FI_ADDR_NOTAVAIL ? 0 : at], ((fi_addr_t *)attr.map_addr)[0]);
	at = ((fi_addr_t *)only_read.map_addr)[0];
	OK(fi_recv(a.ep, into, sizeof into, NULL, FI_ADDR_UNSPEC, NULL));
	OK(fi_send(b.ep, "later", 6, NULL, at, NULL));
	one(a.cq, b.cq, NULL);
	if (strcmp(into, "later")) FAIL("'%s'", into);
	IS(fi_av_remove(b.av, &at, 1, 0), -FI_EACCES);
	OK(fi_close(&written->fid));
	IS(fi_av_open(b.domain, &only_read, &more, NULL), -FI_ENOENT);
	close_side(&b);
	close_side(&a);
}

int main(void) {
	snprintf(port, sizeof port, "%d", 20000 + (int)(getpid() % 10000));
	event_wait = FI_WAIT_NONE;
	sockets(FI_EP_RDM);
	sockets(FI_EP_DGRAM);
	names_taken_over();
	scalable(0);
	scalable(FI_SOCKADDR);
	prefixes(FI_EP_RDM);
	prefixes(FI_EP_DGRAM);
	shared_vectors();
	puts("addressing: all well");
	return 0;
}
