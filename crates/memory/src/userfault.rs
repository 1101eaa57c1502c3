// SPDX-License-Identifier: MIT OR Apache-2.0
//! `userfaultfd`: the kernel's numbers and shapes, as far as this project needs them.

use core::ops::Range;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::ioctl::{Updater, ioctl, opcode};
use rustix::mm::{UserfaultfdFlags, userfaultfd};

/// Which faults and events a descriptor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    /// Those of the program's own accesses. Any user may have such a descriptor (Linux 5.11).
    OfUserMode,
    /// Those of system calls too. That takes root, or `vm.unprivileged_userfaultfd=1`.
    All,
}

/// How a range is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Mode {
    /// A thread that touches a page which is not there waits.
    Missing = 1,
    /// A thread that writes a page which was protected waits.
    WriteProtected = 2,
    /// A thread that touches a page of shared memory which is there, but not mapped, waits.
    Hidden = 4,
}

/// What a kernel can do beyond waiting for missing pages.
pub mod feature {
    /// Pages can be protected from writing.
    pub const PAGEFAULT_FLAG_WP: u64 = 1;
    /// An event when memory is moved.
    pub const EVENT_REMAP: u64 = 1 << 2;
    /// An event when memory is unmapped.
    pub const EVENT_UNMAP: u64 = 1 << 6;
    /// [`super::Mode::Hidden`] (Linux 5.14).
    pub const MINOR_SHMEM: u64 = 1 << 10;
    /// The address of a fault is that of the access, not of its page (Linux 5.18).
    pub const EXACT_ADDRESS: u64 = 1 << 11;
    /// Protection of shared memory and of huge pages (Linux 5.19).
    pub const WP_HUGETLBFS_SHMEM: u64 = 1 << 12;
    /// Protection of any memory (Linux 6.7).
    pub const WP_ASYNC: u64 = 1 << 15;
}

const API: u64 = 0xaa;
const USER_MODE_ONLY: u32 = 1;
const EVENT_PAGEFAULT: u8 = 0x12;
const FAULT_MINOR: u64 = 4;
const CONTINUE_PROTECTED: u64 = 2;
const EVENT_REMAP: u8 = 0x14;
const EVENT_REMOVE: u8 = 0x15;
const EVENT_UNMAP: u8 = 0x16;

#[repr(C)]
struct Hello {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Register {
    start: u64,
    length: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct Protect {
    start: u64,
    length: u64,
    mode: u64,
}

#[repr(C)]
struct Continue {
    start: u64,
    length: u64,
    mode: u64,
    mapped: i64,
}

#[repr(C)]
struct Wake {
    start: u64,
    length: u64,
}

const _: () = assert!(size_of::<Protect>() == 24 && size_of::<Continue>() == 32 && size_of::<Wake>() == 16);
const _: () = assert!(size_of::<Hello>() == 24 && size_of::<Register>() == 32 && size_of::<Message>() == 32);

/// An event: its kind in the first byte; two or three words, of which the first says where.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Message {
    head: u64,
    words: [u64; 3],
}

impl Message {
    /// The address at which a thread waits.
    pub fn fault(&self) -> Option<u64> {
        (self.head.to_ne_bytes()[0] == EVENT_PAGEFAULT).then_some(self.words[1])
    }

    /// Whether the thread waits for a page that is hidden.
    pub fn is_hidden(&self) -> bool {
        self.words[0] & FAULT_MINOR != 0
    }

    /// The range that is no longer mapped, or is other memory now.
    pub fn range(&self) -> Option<Range<u64>> {
        let [from, to, length] = self.words;
        match self.head.to_ne_bytes()[0] {
            EVENT_UNMAP | EVENT_REMOVE => Some(from..to),
            EVENT_REMAP => Some(from..from.saturating_add(length)),
            _ => None,
        }
    }
}

/// A descriptor that has agreed with the kernel on the interface.
#[derive(Debug)]
pub struct Userfault(OwnedFd);

impl Userfault {
    /// The [`feature`]s that this kernel has for such a descriptor; `None` if the process can have
    /// no such descriptor.
    pub fn features(faults: Faults) -> Option<u64> {
        // A descriptor agrees once, so this one is for asking.
        agree(&descriptor(faults)?, 0)
    }

    /// A descriptor with these [`feature`]s. It does not block.
    pub fn open(faults: Faults, features: u64) -> Option<Self> {
        let fd = descriptor(faults)?;
        agree(&fd, features)?;
        Some(Self(fd))
    }

    /// Watches the pages of a range, from now on and until they are unmapped. `false`: they cannot
    /// be watched, or not all of them.
    pub fn register(&self, pages: &Range<u64>, modes: &[Mode]) -> bool {
        let mode = modes.iter().fold(0, |all, mode| all | *mode as u64);
        let mut register = Register { start: pages.start, length: pages.end - pages.start, mode, ioctls: 0 };
        // SAFETY: the number and the shape of UFFDIO_REGISTER. By itself it changes no memory: at
        // most a thread waits that touches a page which is missing.
        unsafe { ioctl(&self.0, Updater::<{ opcode::read_write::<Register>(0xaa, 0x00) }, Register>::new(&mut register)) }.is_ok()
    }

    /// Protects pages that are watched ([`Mode::WriteProtected`]) from stores, or lets stores and
    /// those that wait with them go on. `false`: they are not all watched.
    pub fn protect(&self, pages: &Range<u64>, on: bool) -> bool {
        let mut protect = Protect { start: pages.start, length: pages.end - pages.start, mode: u64::from(on) };
        // SAFETY: the number and the shape of UFFDIO_WRITEPROTECT. It changes no memory: at most a
        // thread waits that stores.
        unsafe { ioctl(&self.0, Updater::<{ opcode::read_write::<Protect>(0xaa, 0x06) }, Protect>::new(&mut protect)) }.is_ok()
    }

    /// Maps pages that are watched ([`Mode::Hidden`]), with the memory that they have; threads that
    /// wait for them go on. Whether they are protected from stores, if that was asked for (it takes
    /// Linux 6.4).
    pub fn show(&self, pages: &Range<u64>, mut protected: bool) -> bool {
        let page = rustix::param::page_size() as u64;
        let mut begin = pages.start;
        while begin < pages.end {
            let mode = if protected { CONTINUE_PROTECTED } else { 0 };
            let mut show = Continue { start: begin, length: pages.end - begin, mode, mapped: 0 };
            // SAFETY: the number and the shape of UFFDIO_CONTINUE. It changes no memory: pages
            // become accessible that the mapping has.
            let shown = unsafe { ioctl(&self.0, Updater::<{ opcode::read_write::<Continue>(0xaa, 0x07) }, Continue>::new(&mut show)) };
            if protected && shown == Err(rustix::io::Errno::INVAL) {
                (protected, begin) = (false, pages.start);
                continue;
            }
            // It stops at a page that is mapped already.
            begin += u64::try_from(show.mapped).unwrap_or(0).max(page);
        }
        self.wake(pages);
        protected
    }

    /// Threads that wait at these pages try again.
    pub fn wake(&self, pages: &Range<u64>) {
        let mut wake = Wake { start: pages.start, length: pages.end - pages.start };
        // SAFETY: the number and the shape of UFFDIO_WAKE. Nobody waits there: nothing happens.
        let _ = unsafe { ioctl(&self.0, Updater::<{ opcode::read::<Wake>(0xaa, 0x02) }, Wake>::new(&mut wake)) };
    }

    /// Reads the messages that are there, at most as many as fit; how many.
    pub fn read(&self, messages: &mut [Message]) -> usize {
        use std::os::fd::AsRawFd;
        // SAFETY: `messages` is writable for so many bytes, and any bits are a message.
        let got = unsafe { libc::read(self.0.as_raw_fd(), messages.as_mut_ptr().cast(), size_of_val(messages)) };
        usize::try_from(got).unwrap_or(0) / size_of::<Message>()
    }
}

impl AsFd for Userfault {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn descriptor(faults: Faults) -> Option<OwnedFd> {
    let own = if faults == Faults::OfUserMode { USER_MODE_ONLY } else { 0 };
    let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK | UserfaultfdFlags::from_bits_retain(own);
    // SAFETY: a descriptor that watches nothing yet.
    unsafe { userfaultfd(flags) }.ok()
}

/// Agrees on the interface with the kernel; what it can do.
fn agree(fd: &OwnedFd, features: u64) -> Option<u64> {
    let mut hello = Hello { api: API, features, ioctls: 0 };
    // SAFETY: the number and the shape of UFFDIO_API.
    unsafe { ioctl(fd, Updater::<{ opcode::read_write::<Hello>(0xaa, 0x3f) }, Hello>::new(&mut hello)) }.ok()?;
    Some(hello.features)
}
