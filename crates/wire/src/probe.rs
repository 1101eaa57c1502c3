// SPDX-License-Identifier: MIT OR Apache-2.0
//! The use that memory of the program allows: looked at when it is registered.

use crate::MemoryKind;

/// Brings the pages of a range in and tells what they are good for. Like the pinning of a hardware
/// NIC it costs by the page, and spares the data path its page faults. Where the kernel does not
/// know the request (before 5.14) the caller is believed.
pub(crate) fn probe(address: u64, length: u64) -> MemoryKind {
    use rustix::mm::Advice;
    let page = rustix::param::page_size() as u64;
    let start = address & !(page - 1);
    let Some(end) = address.checked_add(length).and_then(|e| e.checked_next_multiple_of(page)) else { return MemoryKind::Unmapped };
    if populate(start, end, Advice::LinuxPopulateWrite) {
        return MemoryKind::Writable;
    }
    // Missing permission and a missing system call give the same error: ask about a page that is
    // writable for certain.
    let here = 0u8;
    let own = core::ptr::from_ref(&here).addr() as u64 & !(page - 1);
    if !populate(own, own + page, Advice::LinuxPopulateWrite) {
        return MemoryKind::Writable;
    }
    if populate(start, end, Advice::LinuxPopulateRead) { MemoryKind::ReadOnly } else { MemoryKind::Unmapped }
}

/// Faults the pages from `start` to `end` in, for reading or writing. `false`: they cannot be, or
/// the kernel cannot do that.
fn populate(start: u64, end: u64, advice: rustix::mm::Advice) -> bool {
    use rustix::io::Errno;
    loop {
        // SAFETY: populating changes no content and no mapping; a range that is not mapped is an
        // error, not undefined.
        match unsafe { rustix::mm::madvise(core::ptr::with_exposed_provenance_mut(start as usize), (end - start) as usize, advice) } {
            Err(Errno::INTR | Errno::AGAIN) => {}
            outcome => return outcome.is_ok(),
        }
    }
}
