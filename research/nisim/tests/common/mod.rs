// SPDX-License-Identifier: MIT OR Apache-2.0
//! Helpers of several tests.

use std::sync::Mutex;

use bellwire_nisim::experiment::{Case, Measured};

/// Runs cases on all processors; what they gave, in their order.
pub fn run_all(cases: &[Case]) -> Vec<Measured> {
    let (next, results) = (Mutex::new(cases.iter().enumerate()), Mutex::new(vec![None; cases.len()]));
    let work = || {
        loop {
            let Some((index, case)) = next.lock().unwrap().next() else { return };
            let measured = case.run().unwrap_or_else(|error| panic!("{case}: {error}"));
            results.lock().unwrap()[index] = Some(measured);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    results.into_inner().unwrap().into_iter().map(|measured| measured.expect("each case was run")).collect()
}
