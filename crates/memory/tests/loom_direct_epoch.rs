// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models of taking memory back: after permission is withdrawn, the barrier issued and the word
//! seen even or changed, the worker writes no more. (`membarrier` is a full fence on both sides in
//! a model.) The memory is a model cell: an access that is not ordered is the error.
#![cfg(loom)]

use bellwire_memory::direct_epoch::{WorkerBarrier, enter, has_left, inside, leave};
use bellwire_memory::membarrier::{Reach, heavy};
use bellwire_memory::tagged_table::{TableReader, TableWriter, Words};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64};
use loom::thread;

const TAG: u64 = 7;

struct Shared {
    epoch: AtomicU32,
    table: [AtomicU64; 2],
    memory: UnsafeCell<u32>,
}

// SAFETY: the model checks every access to `memory`.
unsafe impl Sync for Shared {}
// SAFETY: nothing in it is tied to a thread.
unsafe impl Send for Shared {}

#[derive(Clone)]
struct Handle(Arc<Shared>);

impl Words for Handle {
    fn word(&self, index: usize) -> &AtomicU64 {
        &self.0.table[index]
    }
}

impl Handle {
    fn new() -> Self {
        Self(Arc::new(Shared { epoch: AtomicU32::new(0), table: [AtomicU64::new(0), AtomicU64::new(0)], memory: UnsafeCell::new(0) }))
    }

    /// A worker's direct write, if it is still allowed.
    fn work(&self, barrier: WorkerBarrier) -> bool {
        let table = TableReader::<_, 2>::new(self.clone(), 1);
        enter(&self.0.epoch, barrier);
        let allowed = table.still(0, TAG);
        if allowed {
            // SAFETY: the model checks that nobody else has it.
            self.0.memory.with_mut(|p| unsafe { *p += 1 });
        }
        leave(&self.0.epoch);
        allowed
    }

    /// The owner's withdrawal; then the memory is its own.
    fn take_back(&self, table: &TableWriter<Handle, 2>) -> u32 {
        table.clear(0, TAG);
        heavy(Reach::Registered);
        if let Some(seen) = inside(&self.0.epoch) {
            while !has_left(&self.0.epoch, seen) {
                thread::yield_now();
            }
        }
        // SAFETY: the model checks that nobody else has it.
        self.0.memory.with_mut(|p| unsafe {
            *p += 100;
            *p
        })
    }
}

fn model(rounds: u32, barrier: WorkerBarrier) {
    loom::model(move || {
        let handle = Handle::new();
        let table = TableWriter::<_, 2>::new(handle.clone(), 1);
        table.set(0, &[TAG, 1]);
        let theirs = handle.clone();
        let worker = thread::spawn(move || (0..rounds).filter(|_| theirs.work(barrier)).count() as u32);
        let at_return = handle.take_back(&table);
        let writes = worker.join().unwrap();
        assert_eq!(at_return, 100 + writes, "a write followed the return of the memory");
    });
}

#[test]
fn one_access() {
    model(1, WorkerBarrier::Light);
}

/// The owner waits for the access that it saw, not for the one after.
#[test]
fn accesses_one_after_the_other() {
    model(2, WorkerBarrier::Light);
}

#[test]
fn with_full_fences() {
    model(2, WorkerBarrier::Full);
}
