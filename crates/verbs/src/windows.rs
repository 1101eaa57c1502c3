// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory windows: keys of their own for a range of a registered region, which a program gives out
//! and takes back by requests in its send queue, without registering anything anew.
//!
//! A window of type 1 belongs to a protection domain, one of type 2 to the queue pair that bound
//! it. A peer's request whose key is no region's is looked for here; the memory itself is then
//! looked up under the region's key (R1), so a window never outlives the registration beneath it.
//!
//! Invariant W1: the twelve highest bits of a window's key are all ones, which no region's key has
//! (`is_window_key`). Its eight lowest are the program's to choose (type 2) or count its bindings
//! (type 1).

use crate::types::Access;

/// Windows that a device may have.
pub const WINDOWS_MAX: usize = 1 << 12;
const TAG_BITS: u32 = 8;
const KEY_BASE: u32 = 0xfff << 20;

/// What a window is bound by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowKind {
    /// Its protection domain may use it.
    Domain = 1,
    /// The queue pair that bound it may use it, and the program chooses the key's lowest byte.
    QueuePair = 2,
}

/// A request to bind a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind {
    /// Any key of the window.
    pub window: u32,
    /// Its key from now on.
    pub key: u32,
    /// The region's key.
    pub region: u32,
    /// First byte, as requests call it in the region.
    pub address: u64,
    /// Bytes; 0 leaves a window of type 1 bound to nothing.
    pub length: u64,
    /// Rights of peers.
    pub access: Access,
    /// Peers call the first byte 0.
    pub zero_based: bool,
}

/// What a window is bound to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub region: u32,
    /// First byte, as requests call it in the region, and as peers call it.
    pub address: u64,
    pub first: u64,
    pub length: u64,
    pub access: Access,
    /// The queue pair that bound it.
    pub qp: u32,
}

/// A window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub kind: WindowKind,
    pub domain: u32,
    pub key: u32,
    pub bound: Option<Bound>,
}

/// Where a range of a window lies in its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beneath {
    pub region: u32,
    pub address: u64,
}

/// All windows of a device.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    pub slots: Vec<Option<Window>>,
    pub count: usize,
    pub next: usize,
}

/// Whether a key is of the kind that windows have (W1).
#[inline]
pub(crate) fn is_window_key(key: u32) -> bool {
    key & KEY_BASE == KEY_BASE
}

pub(crate) fn index_of(key: u32) -> usize {
    ((key & !KEY_BASE) >> TAG_BITS) as usize
}

impl Windows {
    pub(crate) fn insert(&mut self, kind: WindowKind, domain: u32) -> Option<u32> {
        if self.count == WINDOWS_MAX {
            return None;
        }
        // The slot that has not been used for longest: a key that is given back stays unknown for
        // as long as possible.
        let index = loop {
            let index = self.next;
            self.next = (index + 1) % WINDOWS_MAX;
            if self.slots.len() <= index {
                self.slots.resize(index + 1, None);
            }
            if self.slots[index].is_none() {
                break index;
            }
        };
        let key = KEY_BASE | (index as u32) << TAG_BITS;
        self.slots[index] = Some(Window { kind, domain, key, bound: None });
        self.count += 1;
        Some(key)
    }

    pub(crate) fn slot(&mut self, key: u32) -> Option<&mut Option<Window>> {
        self.slots.get_mut(index_of(key)).filter(|_| is_window_key(key))
    }

    /// The window that has this key now.
    pub(crate) fn get(&mut self, key: u32) -> Option<&mut Window> {
        self.slot(key)?.as_mut().filter(|w| w.key == key)
    }

    pub(crate) fn remove(&mut self, key: u32) -> Option<Window> {
        // The key's lowest byte may have changed since the program last heard of it.
        let window = self.slot(key)?.take()?;
        self.count -= 1;
        Some(window)
    }

    /// Where `length` bytes at `address` lie that a peer of queue pair `qp` asks for by a window's
    /// key.
    pub(crate) fn find(&self, qp: u32, domain: u32, key: u32, address: u64, length: u64, access: Access) -> Option<Beneath> {
        let window = self.slots.get(index_of(key)).filter(|_| is_window_key(key))?.as_ref().filter(|w| w.key == key && w.domain == domain)?;
        let bound = window.bound.as_ref().filter(|b| b.access.contains(access) && (window.kind == WindowKind::Domain || b.qp == qp))?;
        let offset = address.checked_sub(bound.first)?;
        (offset.checked_add(length)? <= bound.length).then_some(Beneath { region: bound.region, address: bound.address + offset })
    }

    /// A queue pair ended: what it bound is bound no more. A later one may get its number.
    pub(crate) fn forget_pair(&mut self, qp: u32) {
        if self.count == 0 {
            return;
        }
        for window in self.slots.iter_mut().flatten().filter(|w| w.kind == WindowKind::QueuePair) {
            window.bound = window.bound.filter(|b| b.qp != qp);
        }
    }

    /// Makes a type-2 window's key invalid, if this queue pair has bound it.
    pub(crate) fn invalidate(&mut self, qp: u32, domain: u32, key: u32) -> bool {
        let found = self.get(key).filter(|w| w.kind == WindowKind::QueuePair && w.domain == domain && w.bound.is_some_and(|b| b.qp == qp));
        found.is_some_and(|w| w.bound.take().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(qp: u32) -> Bound {
        Bound { region: 7, address: 1000, first: 1000, length: 100, access: Access::REMOTE_READ, qp }
    }

    #[test]
    fn keys_are_windows_alone() {
        let mut windows = Windows::default();
        let keys: Vec<u32> = (0..WINDOWS_MAX).map(|_| windows.insert(WindowKind::Domain, 1).unwrap()).collect();
        assert!(keys.iter().all(|k| is_window_key(*k)));
        assert!(windows.insert(WindowKind::Domain, 1).is_none(), "all are taken");
        assert!(!is_window_key(0xffe0_0001) && !is_window_key(1));
        assert!(windows.remove(keys[5]).is_some() && windows.remove(keys[5]).is_none());
        assert!(windows.insert(WindowKind::Domain, 1).is_some());
    }

    #[test]
    fn ranges_domains_and_pairs_are_checked() {
        let mut windows = Windows::default();
        let one = windows.insert(WindowKind::Domain, 1).unwrap();
        let two = windows.insert(WindowKind::QueuePair, 1).unwrap();
        assert!(windows.find(5, 1, one, 1000, 1, Access::REMOTE_READ).is_none(), "bound to nothing");
        for key in [one, two] {
            windows.get(key).unwrap().bound = Some(bound(5));
        }
        let found = Some(Beneath { region: 7, address: 1090 });
        assert_eq!(windows.find(5, 1, one, 1090, 10, Access::REMOTE_READ), found);
        assert_eq!(windows.find(6, 1, one, 1090, 10, Access::REMOTE_READ), found, "the domain's");
        assert_eq!(windows.find(5, 1, two, 1090, 10, Access::REMOTE_READ), found);
        assert_eq!(windows.find(6, 1, two, 1090, 10, Access::REMOTE_READ), None, "the queue pair's");
        for (domain, key, address, length, access) in [
            (2, one, 1000, 1, Access::REMOTE_READ),
            (1, one, 1000, 1, Access::REMOTE_WRITE),
            (1, one, 999, 1, Access::REMOTE_READ),
            (1, one, 1090, 11, Access::REMOTE_READ),
            (1, one, 1090, u64::MAX, Access::REMOTE_READ),
            (1, one | 1, 1000, 1, Access::REMOTE_READ),
        ] {
            assert_eq!(windows.find(5, domain, key, address, length, access), None);
        }
    }

    #[test]
    fn what_a_queue_pair_bound_ends_with_it() {
        let mut windows = Windows::default();
        let one = windows.insert(WindowKind::Domain, 1).unwrap();
        let two = windows.insert(WindowKind::QueuePair, 1).unwrap();
        for key in [one, two] {
            windows.get(key).unwrap().bound = Some(bound(5));
        }
        windows.forget_pair(6);
        assert!(windows.find(5, 1, two, 1000, 1, Access::REMOTE_READ).is_some());
        windows.forget_pair(5);
        assert!(windows.find(5, 1, two, 1000, 1, Access::REMOTE_READ).is_none());
        assert!(windows.find(5, 1, one, 1000, 1, Access::REMOTE_READ).is_some(), "the domain's stays");
    }

    #[test]
    fn only_the_binder_invalidates_and_once() {
        let mut windows = Windows::default();
        let key = windows.insert(WindowKind::QueuePair, 1).unwrap();
        assert!(!windows.invalidate(5, 1, key));
        windows.get(key).unwrap().bound = Some(bound(5));
        assert!(!windows.invalidate(6, 1, key) && !windows.invalidate(5, 2, key) && !windows.invalidate(5, 1, key ^ 1));
        assert!(windows.invalidate(5, 1, key) && !windows.invalidate(5, 1, key));
    }
}
