// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells of the first store to each page of shared memory since the page was last protected:
//! `userfaultfd` in the mode of write protection.
//!
//! The thread that stores waits in the kernel until its page is released, so a thread must always
//! read here, and release what it reads. No signal is used, so that handlers of the program are
//! not concerned, and no mapping is split.
//!
//! A process with the right to it (root, or `vm.unprivileged_userfaultfd=1`) also hears of the
//! stores of system calls, such as a `read` into the memory. In others such a call fails with
//! `EFAULT` while the page is protected.

use crate::userfault::{Faults, Message, Mode, Userfault, feature};
use core::ops::Range;
use rustix::event::{PollFd, PollFlags, poll};

/// Stores that are told at a time.
const BATCH: usize = 16;
const NEEDED: u64 = feature::PAGEFAULT_FLAG_WP | feature::WP_HUGETLBFS_SHMEM | feature::EXACT_ADDRESS;

/// A watch over stores.
#[derive(Debug)]
pub struct WriteWatch {
    fd: Userfault,
    faults: Faults,
}

impl WriteWatch {
    /// `None`: it cannot be had (a kernel before 5.19, a seccomp filter such as a container's).
    pub fn open() -> Option<Self> {
        [Faults::All, Faults::OfUserMode].into_iter().find_map(|faults| {
            let is_able = Userfault::features(faults)? & NEEDED == NEEDED;
            let fd = Userfault::open(faults, NEEDED).filter(|_| is_able)?;
            Some(Self { fd, faults })
        })
    }

    /// Whether stores of system calls wait too.
    pub fn hears_system_calls(&self) -> bool {
        self.faults == Faults::All
    }

    /// Watches pages, and protects them. `false`: they cannot be watched, or not all of them.
    pub fn watch(&self, pages: &Range<u64>) -> bool {
        self.fd.register(pages, Mode::WriteProtected) && self.protect(pages)
    }

    /// Protects pages that are watched: the next store to each of them waits.
    pub fn protect(&self, pages: &Range<u64>) -> bool {
        self.fd.protect(pages, true)
    }

    /// Sleeps until threads wait to store; gives the addresses of their stores.
    pub fn wait(&self, mut each: impl FnMut(u64)) {
        let mut messages = [Message::default(); BATCH];
        let _ = poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], None);
        let got = self.fd.read(&mut messages);
        messages[..got].iter().filter_map(Message::fault).for_each(&mut each);
    }

    /// The threads that wait to store to these pages go on, and later stores do not wait.
    pub fn release(&self, pages: &Range<u64>) {
        // Pages that are no longer mapped: threads that wait there try again, and fault.
        if !self.fd.protect(pages, false) {
            self.fd.wake(pages);
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::region::{Access, Region, RegionKind};
    use crate::view::{At, View};
    use std::io::Read;
    use std::sync::mpsc::channel;

    #[test]
    fn the_first_store_to_a_page_is_told_and_no_other() {
        let Some(watch) = WriteWatch::open() else {
            println!("skipped: no userfaultfd for stores");
            return;
        };
        let page = rustix::param::page_size() as u64;
        let region = Region::create("watched", 4 * page as usize, RegionKind::Shared).unwrap();
        let view = View::map(region.fd(), 0, region.len(), Access::ReadWrite, At::Anywhere).unwrap();
        let first = view.base().addr() as u64;
        assert!(watch.watch(&(first..first + 4 * page)));
        let (tell, told) = channel();
        std::thread::scope(|scope| {
            let (watch, view) = (&watch, &view);
            scope.spawn(move || {
                // Ends with the store to the last page.
                let mut is_last = false;
                while !is_last {
                    watch.wait(|address| {
                        let at = address & !(page - 1);
                        tell.send((at - first) / page).unwrap();
                        is_last |= at == first + 3 * page;
                        watch.release(&(at..at + page));
                    });
                }
            });
            let store = |at: usize| view.bytes().copy_in(at, &[1]).unwrap();
            let page = page as usize;
            store(5);
            store(6);
            store(page + 1);
            assert!(watch.protect(&(first..first + page as u64)));
            store(7);
            // Other mappings of the memory are not concerned, nor are loads.
            region.bytes().copy_in(2 * page, &[1]).unwrap();
            view.bytes().copy_out(2 * page, &mut [0]).unwrap();
            if watch.hears_system_calls() {
                let place = view.base().wrapping_add(2 * page);
                // SAFETY: a page of the view, which only this thread uses.
                let bytes = unsafe { core::slice::from_raw_parts_mut(place, page) };
                std::fs::File::open("/dev/zero").unwrap().read_exact(bytes).unwrap();
            } else {
                store(2 * page);
            }
            store(3 * page);
        });
        assert_eq!(told.iter().collect::<Vec<_>>(), [0, 1, 0, 2, 3]);
        // Gone: nobody waits for ever.
        drop(view);
        watch.release(&(first..first + page));
    }
}
