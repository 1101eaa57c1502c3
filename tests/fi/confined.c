// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs a program as a default container would: no tracing, no other process's memory, no descriptor out of another process.
//   confined PROGRAM ARGUMENT ..
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static const int refused[] = {
	SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, SYS_perf_event_open, SYS_bpf,
#ifdef SYS_userfaultfd
	SYS_userfaultfd,
#endif
#ifdef SYS_pidfd_getfd
	SYS_pidfd_getfd,
#endif
#ifdef SYS_io_uring_setup
	SYS_io_uring_setup,
#endif
};
enum { REFUSED = sizeof refused / sizeof refused[0] };

int main(int argc, char **argv) {
	if (argc < 2) return 2;
	struct sock_filter code[2 * REFUSED + 2];
	size_t n = 0;
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < REFUSED; i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)refused[i], 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog filter = {(unsigned short)n, code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
		perror("confined: no filter");
		return 77;
	}
	// Its own memory is read nowhere else either.
	char from = 1, to = 0;
	struct iovec local = {&to, 1}, remote = {&from, 1};
	if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != -1 || errno != EPERM) {
		fprintf(stderr, "confined: the filter does nothing\n");
		return 1;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 127;
}
