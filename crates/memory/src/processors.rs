// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many processors there are, which of them this process may use, which belong to one core, and
//! whether others want ours.

use std::fs;

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Processors of the machine that are online, at least 1, whichever of them this process may use.
pub fn online() -> usize {
    // SAFETY: sysconf asks for a number, and touches no memory of ours.
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

/// The processor that the calling thread runs on, as long as it does.
pub fn current() -> usize {
    sched_getcpu()
}

/// Has the calling thread go on another processor than `here`; afterwards it may run wherever it
/// might before. `false`: it may only run there.
pub fn leave(here: usize) -> bool {
    let Ok(all) = sched_getaffinity(None) else { return false };
    let mut others = all;
    if here >= CpuSet::MAX_CPU || others.count() < 2 {
        return false;
    }
    others.unset(here);
    let has_left = sched_setaffinity(None, &others).is_ok();
    has_left && sched_setaffinity(None, &all).is_ok()
}

/// The hardware threads of the core that `cpu` belongs to; empty if unknown.
pub fn siblings(cpu: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    fs::read_to_string(path).map(|text| parse_list(&text)).unwrap_or_default()
}

/// Numbers of a list such as `0-2,5`, as the kernel writes them; anything but numbers is left out.
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

/// How often the calling thread has been taken off its processor, or has given it up, for another
/// that wanted it.
pub fn times_displaced() -> u64 {
    // SAFETY: zeroes are a valid rusage, and the kernel fills ours.
    let usage = unsafe {
        let mut usage: libc::rusage = core::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    usage.ru_nivcsw.unsigned_abs()
}

/// Shortest turn on a processor that a thread can ask for, nanoseconds.
const SHORT_TURN_NS: u64 = 100_000;

/// `struct sched_attr` of the kernel, as its first version has it.
#[repr(C)]
#[derive(Default)]
struct Scheduling {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Asks the scheduler for short turns for the calling thread. Its share of the processor stays what
/// it is. Only the moment changes: a thread with short turns that wakes up runs before one that is
/// in the midst of a long turn, and giving way costs it a short turn, not a long one. A kernel
/// without such turns (before Linux 6.12) ignores this. `false`: the thread's scheduling is not the
/// usual one, or the kernel refuses.
pub fn ask_short_turns() -> bool {
    let mut attributes = Scheduling::default();
    let size = size_of::<Scheduling>() as u32;
    // SAFETY: the kernel writes at most `size` bytes, as many as there are; 0 is the calling
    // thread.
    if unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) } != 0 {
        return false;
    }
    if attributes.policy != libc::SCHED_OTHER as u32 {
        return false;
    }
    (attributes.size, attributes.runtime) = (size, SHORT_TURN_NS);
    // SAFETY: the kernel reads `size` bytes, as many as there are.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    #[test]
    fn short_turns_leave_the_rest_as_it_was() {
        // In a thread of its own: how it is scheduled is its own, too.
        std::thread::spawn(|| {
            // SAFETY: asks for a number; 0 is the calling thread.
            let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
            let before = nice();
            assert!(super::ask_short_turns());
            assert_eq!(nice(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn at_least_those_that_we_may_use() {
        assert!(super::online() >= std::thread::available_parallelism().map_or(1, usize::from));
    }

    #[test]
    fn leaving_a_processor() {
        // In a thread of its own: what it may use is its own, too.
        let left = std::thread::spawn(|| {
            let before = super::allowed();
            let here = super::current();
            let left = super::leave(here);
            assert_eq!(super::allowed(), before, "it may run where it might before");
            (before.len() > 1, left)
        });
        let (may, left) = left.join().unwrap();
        assert_eq!(may, left);
        assert!(!super::leave(usize::MAX));
    }

    #[test]
    fn lists_of_processors() {
        assert_eq!(super::parse_list("0-2,5\n"), vec![0, 1, 2, 5]);
        assert_eq!(super::parse_list("7"), vec![7]);
        assert_eq!(super::parse_list("x,3-1,"), Vec::<usize>::new());
    }
}
