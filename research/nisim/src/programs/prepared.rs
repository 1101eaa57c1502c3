// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inputs, and what a sequential run makes of them. A figure runs a program on the same input many
//! times, on different designs: both are made once for all cases of a process, on all its threads.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{Setup, Size};

/// How many are kept; the oldest goes first.
const KEPT: usize = 16;

/// Program, nodes, size, seed.
type Key = (&'static str, usize, Size, u64);
type Slot = Arc<OnceLock<(Arc<dyn Any + Send + Sync>, Arc<[f64]>)>>;

static SLOTS: Mutex<VecDeque<(Key, Slot)>> = Mutex::new(VecDeque::new());

/// The input of a case of `program`, and what a sequential run makes of it.
pub fn prepared<T: Send + Sync + 'static>(
    program: &'static str,
    setup: &Setup<'_>,
    new: fn(usize, Size, u64) -> T,
    sequential: fn(&T) -> Vec<f64>,
) -> (Arc<T>, Arc<[f64]>) {
    let (nodes, size, seed) = (setup.machine.nodes, setup.size, setup.seed);
    let make = || {
        let input = Arc::new(new(nodes, size, seed));
        let expected = sequential(&input).into();
        (input, expected)
    };
    // Another thread that wants the same waits here, not at the lock.
    let slot = slot((program, nodes, size, seed));
    let (input, expected) = slot.get_or_init(|| {
        let (input, expected) = make();
        (input as Arc<dyn Any + Send + Sync>, expected)
    });
    input.clone().downcast().map_or_else(|_| make(), |input| (input, expected.clone()))
}

fn slot(key: Key) -> Slot {
    let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, slot)) = slots.iter().find(|(kept, _)| *kept == key) {
        return slot.clone();
    }
    if slots.len() == KEPT {
        slots.pop_front();
    }
    slots.push_back((key, Slot::default()));
    slots[slots.len() - 1].1.clone()
}
