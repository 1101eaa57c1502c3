// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processor's own counter of time.

/// Its value; 0 where there is none that a program may read.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: every x86-64 processor has the instruction, and it only reads a counter.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        0
    }
}
