// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models of the door: the data behind it are not dropped while a thread uses them, and a thread
//! that comes later does not get in. The data are a model cell: an access that is not ordered is
//! the error.
#![cfg(loom)]

use bellwire_memory::door::{Door, Mark};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

const KEY: u32 = 5;
const NONE: u32 = 9;
const NAME: u32 = 1;

struct Shared {
    door: Door,
    marks: [Mark; 2],
    behind: UnsafeCell<u32>,
}

// SAFETY: the model checks every access to `behind`.
unsafe impl Sync for Shared {}
// SAFETY: nothing in it is tied to a thread.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        let shared = Arc::new(Self { door: Door::new(NONE), marks: [Mark::new(), Mark::new()], behind: UnsafeCell::new(0) });
        // SAFETY: nobody else is there yet.
        shared.behind.with_mut(|p| unsafe { *p = 1 });
        shared.door.open(KEY);
        shared
    }

    /// A call: uses what is behind if the door is open.
    fn look(&self) {
        if self.door.key() == KEY {
            // SAFETY: the model checks it.
            self.behind.with(|p| assert_eq!(unsafe { *p }, 1, "used after it was dropped"));
        }
    }

    fn call_marked(&self, mark: usize) {
        let me = mark + 1;
        assert!(self.marks[mark].claim(me));
        self.marks[mark].enter(NAME);
        self.look();
        self.marks[mark].leave();
    }

    fn call_counted(&self) {
        self.door.count_in();
        self.look();
        self.door.count_out();
    }

    fn close(&self) -> bool {
        if !self.door.shut(KEY, NONE) {
            return false;
        }
        while self.door.is_counted() || self.marks.iter().any(|m| m.is_behind(NAME)) {
            thread::yield_now();
        }
        // SAFETY: the model checks it.
        self.behind.with_mut(|p| unsafe { *p = 2 });
        true
    }
}

#[test]
fn a_marked_caller_and_the_closer() {
    loom::model(|| {
        let shared = Shared::new();
        let theirs = Arc::clone(&shared);
        let caller = thread::spawn(move || {
            theirs.call_marked(0);
            theirs.call_marked(0);
        });
        assert!(shared.close());
        caller.join().unwrap();
    });
}

#[test]
fn a_counted_caller_and_the_closer() {
    loom::model(|| {
        let shared = Shared::new();
        let theirs = Arc::clone(&shared);
        let caller = thread::spawn(move || theirs.call_counted());
        assert!(shared.close());
        caller.join().unwrap();
    });
}

#[test]
fn two_callers_and_the_closer() {
    loom::model(|| {
        let shared = Shared::new();
        let (a, b) = (Arc::clone(&shared), Arc::clone(&shared));
        let marked = thread::spawn(move || a.call_marked(0));
        let counted = thread::spawn(move || b.call_counted());
        assert!(shared.close());
        marked.join().unwrap();
        counted.join().unwrap();
    });
}

#[test]
fn one_of_two_closers() {
    loom::model(|| {
        let shared = Shared::new();
        let theirs = Arc::clone(&shared);
        let other = thread::spawn(move || theirs.close());
        let mine = shared.close();
        assert!(mine != other.join().unwrap());
    });
}
