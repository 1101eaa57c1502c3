// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many processors there are, and whether others want ours.

/// Processors of the machine that are online, at least 1, whichever of them this process may use.
pub fn online() -> usize {
    // SAFETY: asks for a number.
    let n = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(n).unwrap_or(1).max(1)
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
}
