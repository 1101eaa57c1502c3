// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading the fuzzer's bytes; past the end everything is zero.

/// The bytes not yet used.
pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    /// Nothing left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Runs a step while there is something left, at most so many times.
    pub fn drive(&mut self, steps_max: usize, mut step: impl FnMut(&mut Self)) {
        for _ in 0..steps_max {
            if self.is_empty() {
                break;
            }
            step(self);
        }
    }

    /// The next byte.
    pub fn u8(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// The next two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from(self.u8()) << 8 | u16::from(self.u8())
    }

    /// The next four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from(self.u16()) << 16 | u32::from(self.u16())
    }

    /// A number: usually small, now and then any.
    pub fn number(&mut self) -> u64 {
        match self.u8() {
            255 => u64::from(self.u32()) << 32 | u64::from(self.u32()),
            254 => u64::from(self.u32()),
            253 => u64::MAX - u64::from(self.u8()),
            252 => u64::from(self.u16()),
            251 => 1 << (self.u8() % 64),
            n => u64::from(n),
        }
    }
}
