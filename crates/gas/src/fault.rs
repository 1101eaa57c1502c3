// SPDX-License-Identifier: MIT OR Apache-2.0
//! A touch of a hole in another process's alias: the pointer was inside its window, but nothing is
//! there. Told plainly, where a bare SIGSEGV would say nothing.
//!
//! The program's own faults stay what they are; a handler of the program's is left alone.

use std::io::Write;
use std::sync::OnceLock;

use bellwire_memory::atomic::{AtomicU32, Ordering};

use crate::layout;

/// For the handler: this process, and those whose aliases there are.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static GROUP: OnceLock<Vec<u32>> = OnceLock::new();

/// Watches over the aliases from now on: those of the processes `group`, in order.
pub fn watch(process: u32, group: &[u32]) {
    // Relaxed: set before the handler is installed, by the same thread.
    PROCESS.store(process, Ordering::Relaxed);
    let _ = GROUP.set(group.to_vec());
    // SAFETY: the action is whole, and its function does only what a handler may.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGSEGV, std::ptr::null(), &raw mut now) != 0 || now.sa_sigaction != libc::SIG_DFL {
            return;
        }
        let mut ours: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = tell as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESETHAND | libc::SA_NODEFER;
        libc::sigaction(libc::SIGSEGV, &raw const ours, std::ptr::null_mut());
    }
}

/// Writes without allocating.
struct Line {
    bytes: [u8; 160],
    length: usize,
}

impl Write for Line {
    fn write(&mut self, from: &[u8]) -> std::io::Result<usize> {
        let n = from.len().min(self.bytes.len() - self.length);
        self.bytes[self.length..self.length + n].copy_from_slice(&from[..n]);
        self.length += n;
        Ok(from.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The handler: says what it was if it was ours, and lets the default action follow (SA_RESETHAND:
/// the access is made again).
extern "C" fn tell(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO its information.
    let address = unsafe { (*info).si_addr() } as u64;
    // Relaxed: written before the handler was installed.
    let process = PROCESS.load(Ordering::Relaxed);
    let group = GROUP.get().map_or(&[][..], Vec::as_slice);
    if let Some((index, at)) = layout::of_alias(address, group.len() as u32)
        && let Some(other) = group.get(index as usize)
    {
        let mut line = Line { bytes: [0; 160], length: 0 };
        let _ = writeln!(line, "bellwire: process {process}: a global pointer to process {other}, address {at:#x}: no memory is there");
        // SAFETY: writes bytes of ours; allowed in a handler.
        unsafe { libc::write(2, line.bytes.as_ptr().cast(), line.length) };
    }
}
