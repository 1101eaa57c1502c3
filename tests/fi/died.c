// SPDX-License-Identifier: MIT OR Apache-2.0
// A peer whose process is killed: operations under way fail, and so do later ones. The error entry
// says why, as a number and as a text.
#include "common.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define LONG (1 << 20)
static char from[LONG], into[64];

static void check_error(struct side *s, void *context) {
	struct fi_cq_data_entry e;
	time_t begun = 0;
	ssize_t n;
	while ((n = fi_cq_read(s->cq, &e, 1)) == -FI_EAGAIN) {
		if (is_late(&begun)) FAIL("no failure comes");
	}
	IS(n, -FI_EAVAIL);
	struct fi_cq_err_entry error = {0};
	IS(fi_cq_readerr(s->cq, &error, 0), 1);
	IS(error.err, FI_ECONNRESET);
	if (context && error.op_context != context) FAIL("another operation's");
	IS(error.prov_errno, 1000);
	char text[20];
	const char *why = fi_cq_strerror(s->cq, error.prov_errno, error.err_data, text, sizeof text);
	if (strcmp(why, "the peer process exited") || strcmp(text, "the peer process ex")) FAIL("'%s', '%s'", why, text);
}

int main(void) {
	int names[2], go[2];
	char name[64] = "", byte;
	OK(pipe(names));
	OK(pipe(go));
	pid_t child = fork();
	struct side s, none;
	memset(&none, 0, sizeof none);
	if (child == 0) {
		// The peer: one message, then nothing more.
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		open_fabric(&s, ask(NULL, NULL, 0, FI_EP_RDM, FI_MSG | FI_DIRECTED_RECV));
		open_endpoint(&s);
		size_t length = sizeof name;
		OK(fi_getname(&s.ep->fid, name, &length));
		OK(fi_recv(s.ep, into, sizeof into, NULL, FI_ADDR_UNSPEC, into));
		IS(write(names[1], name, sizeof name), sizeof name);
		struct fi_cq_data_entry e;
		while (fi_cq_read(s.cq, &e, 1) != 1) {}
		IS(write(names[1], name, 1), 1);
		for (;;) pause();
	}
	open_fabric(&s, ask(NULL, NULL, 0, FI_EP_RDM, FI_MSG | FI_DIRECTED_RECV));
	open_endpoint(&s);
	IS(read(names[0], name, sizeof name), sizeof name);
	fi_addr_t to;
	IS(fi_av_insert(s.av, name, 1, &to, 0, NULL), 1);
	OK(fi_send(s.ep, "first", 6, NULL, to, from));
	struct fi_cq_data_entry e;
	time_t begun = 0;
	while (fi_cq_read(s.cq, &e, 1) != 1) {
		if (is_late(&begun)) FAIL("nothing is sent");
	}
	IS(read(names[0], &byte, 1), 1);
	// Posted before its end.
	OK(fi_recv(s.ep, into, sizeof into, NULL, to, into));
	OK(fi_send(s.ep, from, LONG, NULL, to, from));
	OK(kill(child, SIGKILL));
	check_error(&s, NULL);
	check_error(&s, NULL);
	IS(waitpid(child, NULL, 0), child);
	// Posted after it.
	OK(fi_recv(s.ep, into, sizeof into, NULL, to, &byte));
	check_error(&s, &byte);
	IS(fi_send(s.ep, from, 8, NULL, to, from), -FI_EHOSTUNREACH);
	IS(fi_send(s.ep, from, LONG, NULL, to, from), -FI_EHOSTUNREACH);
	close_side(&s);
	puts("died: all well");
	return 0;
}
