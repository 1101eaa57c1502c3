// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases of an experiment, run on several processors, and a line of progress meanwhile.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};

/// Cells of the bar.
const BAR: usize = 24;

/// How far an experiment is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Cases that are done.
    pub done: usize,
    /// All cases.
    pub all: usize,
    /// The case that was done last.
    pub case: &'a str,
}

/// Told of each case that is done.
pub type Listener<'a> = &'a (dyn Fn(Progress<'_>) + Sync);

/// Does something while progress can be told, in one line on standard error that is written over;
/// on a terminal only, and not if `quiet`.
pub fn with_progress<T>(quiet: bool, work: impl FnOnce(Listener<'_>) -> T) -> T {
    let shows = !quiet && std::io::stderr().is_terminal();
    let result = work(&|Progress { done, all, case }| {
        if shows {
            let full = done * BAR / all.max(1);
            eprint!("\r\x1b[K[{}{}] {done} of {all}: {case}", "#".repeat(full), ".".repeat(BAR - full));
        }
    });
    if shows {
        eprint!("\r\x1b[K");
    }
    result
}

/// The number of threads for cases that may run at the same time.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Does something with each case on this many threads; gives the results in the order of the cases.
///
/// # Errors
/// The first case, in their order, that has one.
///
/// # Panics
/// When a case does.
pub fn each<T: Sync, R: Send, E: Send>(
    threads: usize,
    listener: Listener<'_>,
    cases: &[T],
    name: impl Fn(&T) -> String + Sync,
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let (next, done) = (Mutex::new(cases.iter().enumerate()), Mutex::new(0));
    let worker = || {
        let mut results = Vec::new();
        loop {
            let Some((index, case)) = next.lock().unwrap_or_else(PoisonError::into_inner).next() else { return results };
            results.push((index, work(case)));
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            *done += 1;
            listener(Progress { done: *done, all: cases.len(), case: &name(case) });
        }
    };
    let mut all = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.min(cases.len())).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|w| w.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect::<Vec<_>>()
    });
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_the_first_error_counts() {
        let cases: Vec<u64> = (0..50).collect();
        let each = |work: fn(&u64) -> Result<u64, String>| super::each(processors(), &|_| {}, &cases, u64::to_string, work);
        assert_eq!(each(|case| Ok(case * 2)), Ok((0..50).map(|case| case * 2).collect()));
        assert_eq!(each(|case| if case % 10 == 9 { Err(case.to_string()) } else { Ok(0) }), Err("9".into()));
    }
}
