// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process's memory, as its peers reach it.

/// What the addresses that peers name mean here. Whatever they name, nothing else is touched.
pub trait Memory: Send + 'static {
    /// Where so many bytes from an address are, if they stay mapped and readable until the process
    /// ends.
    fn find(&self, address: u64, bytes: usize) -> Option<*mut u8>;

    /// Copies so many bytes from an address to `to`.
    ///
    /// # Errors
    /// Why not, as a number that the requester is told.
    ///
    /// # Safety
    /// `to` is writable for `bytes` bytes.
    unsafe fn read(&self, address: u64, to: *mut u8, bytes: usize) -> Result<(), u8>;

    /// Copies so many bytes from `from` to an address.
    ///
    /// # Errors
    /// As of [`read`](Self::read).
    ///
    /// # Safety
    /// `from` is readable for `bytes` bytes, which a peer may be writing.
    unsafe fn write(&self, address: u64, from: *const u8, bytes: usize) -> Result<(), u8>;
}
