// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls that a stop has interrupted begin again.

#[cfg(target_arch = "x86_64")]
use super::trace;
use core::ffi::{c_int, c_long};

/// The numbers of ptrace(2).
#[cfg(target_arch = "x86_64")]
const PEEK_SIGNALS: c_long = 0x4209;
#[cfg(target_arch = "x86_64")]
const GET_MASK: c_long = 0x420a;
/// Which signals are looked at, by the flags of `PEEK_SIGNALS`; and how many of them.
#[cfg(target_arch = "x86_64")]
const OWN: u32 = 0;
#[cfg(target_arch = "x86_64")]
const OF_PROCESS: u32 = 1;
#[cfg(target_arch = "x86_64")]
const SIGNALS_MAX: u64 = 64;

/// Has a system call of a stopped thread begin again that failed with `EINTR` because of the stop,
/// and would not have otherwise. It has done nothing yet.
#[cfg(target_arch = "x86_64")]
pub(super) fn begin_again(thread: c_int) {
    const GET_REGISTERS: c_long = 12;
    const SET_REGISTERS: c_long = 13;
    /// Bytes of the instruction `syscall`.
    const CALL: u64 = 2;
    // SAFETY: numbers.
    let mut registers: libc::user_regs_struct = unsafe { core::mem::zeroed() };
    if trace(GET_REGISTERS, thread, 0, (&raw mut registers).expose_provenance()) != 0 {
        return;
    }
    let call = registers.orig_rax as c_long;
    if registers.rax as i64 == -i64::from(libc::EINTR) && BEGIN_AGAIN.contains(&call) && !hears(thread) {
        registers.rax = registers.orig_rax;
        registers.rip = registers.rip.wrapping_sub(CALL);
        trace(SET_REGISTERS, thread, 0, (&raw const registers).expose_provenance());
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn begin_again(_thread: c_int) {}

/// Calls that fail with `EINTR` when a thread is stopped, only before they have done anything, and
/// mean the same when they are called again.
#[cfg(target_arch = "x86_64")]
const BEGIN_AGAIN: [c_long; 15] = [
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_io_getevents,
    libc::SYS_io_uring_enter,
    libc::SYS_read,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
];

/// Whether a signal waits that the thread is to hear of: its own or the process's, not blocked, and
/// not ignored. While a thread is traced, the kernel has those wait too that are ignored.
#[cfg(target_arch = "x86_64")]
fn hears(thread: c_int) -> bool {
    #[repr(C)]
    struct Which {
        from: u64,
        flags: u32,
        count: i32,
    }
    let mut blocked = 0_u64;
    if trace(GET_MASK, thread, size_of_val(&blocked), (&raw mut blocked).expose_provenance()) != 0 {
        return true;
    }
    let one_waits = |flags: u32| {
        for from in 0..SIGNALS_MAX {
            let which = Which { from, flags, count: 1 };
            // A `siginfo_t`, which begins with the signal's number.
            let mut found = [0_u64; 16];
            match trace(PEEK_SIGNALS, thread, (&raw const which).addr(), (&raw mut found).expose_provenance()) {
                0 => return false,
                1 => {}
                _ => return true,
            }
            let signal = found[0] as u32 as c_int;
            let is_blocked = (1..=64).contains(&signal) && blocked >> (signal - 1) & 1 == 1;
            if !is_blocked && !is_ignored(signal) {
                return true;
            }
        }
        true
    };
    one_waits(OWN) || one_waits(OF_PROCESS)
}

/// Whether the program ignores a signal: by what it had set when the helper began, whose own table
/// is a copy of that one.
pub(super) fn is_ignored(signal: c_int) -> bool {
    /// `rt_sigaction` fills these: handler, flags, restorer, mask.
    const WORDS: usize = 4;
    let mut action = [0_usize; WORDS];
    // SAFETY: nothing is changed; the kernel fills what is this function's.
    let got = unsafe { libc::syscall(libc::SYS_rt_sigaction, c_long::from(signal), 0, action.as_mut_ptr(), 8) };
    let unless_handled = [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH];
    got == 0 && (action[0] == libc::SIG_IGN || (action[0] == libc::SIG_DFL && unless_handled.contains(&signal)))
}
