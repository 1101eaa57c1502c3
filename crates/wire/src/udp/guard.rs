// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames that wait to share a packet leave when the application looks again. In case it computes
//! instead, the helper is asked to look after them: once, then it does so until none has waited for
//! a while.

use bellwire_memory::MemoryError;
use bellwire_memory::event::Bell;
use rustix::fd::BorrowedFd;

#[derive(Debug)]
pub(crate) struct Guard {
    bell: Bell,
    /// The helper looks every so often.
    on: bool,
    /// Something has waited since this was last asked.
    needed: bool,
}

impl Guard {
    pub(crate) fn new() -> Result<Self, MemoryError> {
        Ok(Self { bell: Bell::create()?, on: false, needed: false })
    }

    /// Rings once each time that a guard is wanted; nobody need silence it (edge-triggered).
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.bell.fd()
    }

    /// Something waits.
    #[inline]
    pub(crate) fn call(&mut self) {
        self.needed = true;
        if !self.on {
            self.on = self.bell.ring().is_ok();
        }
    }

    /// Whether the guard may go; asked again and again by the guard.
    pub(crate) fn may_go(&mut self) -> bool {
        self.on = core::mem::take(&mut self.needed);
        !self.on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_called_once_until_it_has_gone() {
        let mut guard = Guard::new().unwrap();
        let rang = |guard: &Guard| guard.bell.clear().unwrap();
        for _ in 0..2 {
            guard.call();
            assert!(rang(&guard));
            guard.call();
            assert!(!rang(&guard));
            assert!(!guard.may_go(), "something has waited");
            guard.call();
            assert!(!rang(&guard), "it is there still");
            assert!(!guard.may_go());
            assert!(guard.may_go());
        }
    }
}
