// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many processors there are, which of them this process may use, which belong to one core, and whether others want ours.

use std::fs;

use rustix::thread::{CpuSet, sched_getaffinity};

/// Processors of the machine that are online, at least 1, whichever of them this process may use.
pub fn online() -> usize {
    // SAFETY: asks for a number.
    let n = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(n).unwrap_or(1).max(1)
}

/// The processors this process may run on, in order; none if the kernel does not say.
pub fn allowed() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
        Err(_) => Vec::new(),
    }
}

/// The hardware threads of the core that `cpu` belongs to; empty if unknown.
pub fn siblings(cpu: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    fs::read_to_string(path).map(|text| parse_list(&text)).unwrap_or_default()
}

/// Numbers of a list such as `0-2,5`, as the kernel writes them; what is not a number is left out.
pub fn parse_list(text: &str) -> Vec<usize> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let mut ends = part.splitn(2, '-').map(|end| end.trim().parse::<usize>());
        match (ends.next(), ends.next()) {
            (Some(Ok(low)), Some(Ok(high))) if high >= low && high - low < CpuSet::MAX_CPU => cpus.extend(low..=high),
            (Some(Ok(cpu)), None) => cpus.push(cpu),
            _ => {}
        }
    }
    cpus
}

/// How often the calling thread has been taken off its processor, or has given it up, for another that wanted it.
pub fn times_displaced() -> u64 {
    // SAFETY: zeroes are a valid rusage, and the kernel fills ours.
    let usage = unsafe {
        let mut usage: libc::rusage = core::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    usage.ru_nivcsw.unsigned_abs()
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    #[test]
    fn at_least_those_that_we_may_use() {
        assert!(super::online() >= std::thread::available_parallelism().map_or(1, usize::from));
    }

    #[test]
    fn lists_of_processors() {
        assert_eq!(super::parse_list("0-2,5\n"), vec![0, 1, 2, 5]);
        assert_eq!(super::parse_list("7"), vec![7]);
        assert_eq!(super::parse_list("x,3-1,"), Vec::<usize>::new());
    }
}
