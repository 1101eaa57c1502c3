// SPDX-License-Identifier: MIT OR Apache-2.0
//! The split-transaction memory bus of a node: arbitration, address phase, snoop, data phase; and
//! the ports of the memories on it.
//!
//! A transaction is placed in time when it is requested: requests are served first come first
//! served, the data phases in any order, each in the first gap after its data are there. So an
//! uncontended transaction costs no event beside the waking of its waiter.

use std::cell::{Cell, RefCell};

use crate::machine::Parameters;
use crate::time::Time;

/// A memory that does one access at a time. A write waits in a buffer for its data; reads that come
/// before it has begun go first.
#[derive(Default)]
pub struct Port {
    free: Cell<Time>,
    /// When the last write begins, and from when on the port would be free without it.
    writing: Cell<(Time, Time)>,
}

impl Port {
    /// When it is free.
    pub fn free(&self) -> Time {
        self.free.get()
    }

    /// Takes the port for a read of `length` from `at` on; when it ends.
    pub fn access(&self, at: Time, length: Time) -> Time {
        let (begins, before) = self.writing.get();
        if at >= begins {
            let end = at.max(self.free.get()) + length;
            self.free.set(end);
            return end;
        }
        let end = at.max(before) + length;
        let later = Time(end.0.saturating_sub(begins.0));
        self.free.set(self.free.get() + later);
        self.writing.set((begins + later, end));
        end
    }

    /// Takes the port for a write whose data are there at `at`; when it ends if no read goes first.
    pub fn write(&self, at: Time, length: Time) -> Time {
        let begins = at.max(self.free.get());
        self.writing.set((begins, self.free.get()));
        self.free.set(begins + length);
        begins + length
    }
}

/// The transactions on a bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Transactions.
    pub transactions: u64,
    /// Of these, blocks that went from main memory to the processor's cache.
    pub memory_to_cache: u64,
    /// Of these, blocks of queues between processor and NI.
    pub queue_to_cache: u64,
    /// Of the transactions, blocks that went from one cache to another.
    pub cache_to_cache: u64,
    /// Of these, uncached accesses to the NI, single ones and blocks.
    pub uncached: u64,
    /// Time in which the data bus was taken.
    pub data: Time,
}

/// The bus.
pub struct Bus {
    cycle: Time,
    arbitration: Time,
    address: Time,
    snoop: Time,
    data_arbitration: Time,
    turnaround: Time,
    bytes: u64,
    address_free: Cell<Time>,
    /// When the data bus is taken: spans in order, those past are dropped.
    taken: RefCell<Vec<(Time, Time)>>,
    /// The past transactions.
    pub traffic: Cell<Traffic>,
}

impl Bus {
    /// The bus of a machine.
    pub fn new(parameters: &Parameters) -> Self {
        let (cycle, costs) = (parameters.bus_cycle, &parameters.costs);
        Self {
            cycle,
            arbitration: cycle * costs.arbitration,
            address: cycle * costs.address,
            snoop: cycle * costs.snoop,
            data_arbitration: cycle * costs.data_arbitration,
            turnaround: cycle * costs.turnaround,
            bytes: parameters.bus_bytes,
            address_free: Cell::default(),
            taken: RefCell::default(),
            traffic: Cell::default(),
        }
    }

    /// Wins the address bus for a request made at `now`: the end of the address phase.
    pub fn request(&self, now: Time) -> Time {
        let grant = (now.align(self.cycle) + self.arbitration).max(self.address_free.get());
        let end = grant + self.address;
        self.address_free.set(end);
        self.count(|traffic| traffic.transactions += 1);
        end
    }

    /// When the snoop's result is known, after an address phase that ended at `address_end`.
    pub fn snooped(&self, address_end: Time) -> Time {
        address_end + self.snoop
    }

    /// Moves `bytes` that are ready at `ready`: when they have been taken in.
    pub fn transfer(&self, now: Time, ready: Time, bytes: u64) -> Time {
        let length = self.cycle * bytes.div_ceil(self.bytes);
        let occupied = length + self.turnaround;
        let mut start = (ready + self.data_arbitration).align(self.cycle);
        let mut taken = self.taken.borrow_mut();
        taken.retain(|&(_, end)| end > now);
        let mut place = taken.len();
        for (index, &(from, to)) in taken.iter().enumerate() {
            if start + occupied <= from {
                place = index;
                break;
            }
            start = start.max(to);
        }
        taken.insert(place, (start, start + occupied));
        debug_assert!(taken.windows(2).all(|pair| pair[0].1 <= pair[1].0), "the data bus carries one thing at a time");
        self.count(|traffic| traffic.data += occupied);
        start + length
    }

    /// Counts something.
    pub fn count(&self, what: impl FnOnce(&mut Traffic)) {
        let mut traffic = self.traffic.get();
        what(&mut traffic);
        self.traffic.set(traffic);
    }
}
