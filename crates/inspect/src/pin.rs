// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which two processors the two processes run on, and putting them there.
//!
//! Pinning is "where possible": a machine with one allowed processor measures unpinned and says so.

use std::process::{Child, Command};

pub use bellwire_memory::processors::{allowed, parse_list as parse_cpu_list};

use bellwire_memory::processors::siblings;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::Error;

/// The processors of the two processes, or none when they are not pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pinning {
    /// First and second process each on a processor of its own.
    Pair(usize, usize),
    /// Left to the scheduler.
    None,
}

impl Pinning {
    /// The processors of both sides.
    pub fn cpus(self) -> Vec<usize> {
        [true, false].into_iter().filter_map(|first| self.cpu(first)).collect()
    }

    /// The processor of one side: the first process or the second.
    pub fn cpu(self, first: bool) -> Option<usize> {
        match self {
            Pinning::Pair(a, b) => Some(if first { a } else { b }),
            Pinning::None => None,
        }
    }
}

/// Two allowed processors, on different cores if there are any.
pub fn choose() -> Pinning {
    choose_from(&allowed(), &siblings)
}

fn choose_from(allowed: &[usize], siblings: &dyn Fn(usize) -> Vec<usize>) -> Pinning {
    let Some((&first, rest)) = allowed.split_first() else { return Pinning::None };
    let same_core = siblings(first);
    match rest.iter().find(|cpu| !same_core.contains(cpu)).or(rest.first()) {
        Some(&second) => Pinning::Pair(first, second),
        None => Pinning::None,
    }
}

/// The processors of pair number `pair` of many: each pair on two neighbours, all pairs over all processors, every other turn the other way round.
pub fn spread(cpus: &[usize], pair: usize) -> Pinning {
    let couples = cpus.len() / 2;
    if couples == 0 {
        return Pinning::None;
    }
    let (a, b) = (cpus[pair % couples * 2], cpus[pair % couples * 2 + 1]);
    if (pair / couples).is_multiple_of(2) { Pinning::Pair(a, b) } else { Pinning::Pair(b, a) }
}

/// Pins the calling thread.
///
/// # Errors
/// If the processor does not exist or is not allowed.
pub fn pin_current(cpu: usize) -> Result<(), Error> {
    pin_current_among(&[cpu])
}

/// Lets the calling thread run wherever this machine lets the process run.
///
/// # Errors
/// If the kernel refuses.
pub fn spread_current() -> Result<(), Error> {
    pin_current_among(&(0..CpuSet::MAX_CPU).collect::<Vec<_>>())
}

fn pin_current_among(cpus: &[usize]) -> Result<(), Error> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(Error::failed(format!("no processor {cpu}")));
        }
        set.set(cpu);
    }
    sched_setaffinity(None, &set).map_err(|error| Error::from(error).within(&format!("pinning to processor {cpus:?}")))
}

/// Starts `command` with its first thread (and so all later ones) on `cpu`.
///
/// The calling thread goes there for the moment of the start, since children inherit where their parent may run.
///
/// # Errors
/// If the processor is not allowed or the program does not start.
pub fn spawn_on(cpu: Option<usize>, command: &mut Command) -> Result<Child, Error> {
    spawn_among(cpu.as_slice(), command)
}

/// As [`spawn_on`], on any of several processors; on any at all if none is named.
///
/// # Errors
/// As there.
pub fn spawn_among(cpus: &[usize], command: &mut Command) -> Result<Child, Error> {
    if cpus.is_empty() {
        return Ok(command.spawn()?);
    }
    let before = sched_getaffinity(None)?;
    pin_current_among(cpus)?;
    let child = command.spawn();
    sched_setaffinity(None, &before)?;
    Ok(child?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_spread() {
        assert_eq!([0, 1, 2].map(|pair| spread(&[0, 1], pair)), [Pinning::Pair(0, 1), Pinning::Pair(1, 0), Pinning::Pair(0, 1)]);
        assert_eq!([0, 1, 2].map(|pair| spread(&[4, 5, 6, 7, 9], pair)), [Pinning::Pair(4, 5), Pinning::Pair(6, 7), Pinning::Pair(5, 4)]);
        assert_eq!(spread(&[3], 1), Pinning::None);
    }

    #[test]
    fn another_core_is_preferred() {
        let pairs = |cpu: usize| vec![cpu & !1, cpu | 1];
        assert_eq!(choose_from(&[0, 1, 2, 3], &pairs), Pinning::Pair(0, 2));
        assert_eq!(choose_from(&[4, 5], &pairs), Pinning::Pair(4, 5));
        assert_eq!(choose_from(&[4], &pairs), Pinning::None);
        assert_eq!(choose_from(&[], &pairs), Pinning::None);
    }
}
