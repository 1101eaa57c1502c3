// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bulk copies, and words whose place is not mapped. Gets, puts and stores over shared memory are done when they are asked for; completion is a matter of order alone.

use std::ffi::{CStr, c_char, c_int, c_void};

use bellwire_gas::{Direction, Error};
use bellwire_memory::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};

use crate::{fail, process};

#[cold]
fn refuse(error: &Error, what: &str, pointer: u64, bytes: usize) -> ! {
    let (process, address) = (pointer >> 48, pointer & ((1 << 48) - 1));
    fail(&format!("{what} of {bytes} bytes at a global pointer to process {process}, address {address:#x}: {error}"))
}

/// Copies from a global place.
fn fetch(what: &str, to: *mut u8, from: u64, bytes: usize) {
    // SAFETY: C1.
    if let Err(error) = unsafe { process().copy(Direction::In, from, to, bytes) } {
        refuse(&error, what, from, bytes);
    }
    // Acquire, for the compiler: what is read next was not read before. x86-64 keeps loads in order.
    compiler_fence(Ordering::Acquire);
}

/// Copies to a global place.
fn send(what: &str, to: u64, from: *const u8, bytes: usize) {
    // SAFETY: C1.
    if let Err(error) = unsafe { process().copy(Direction::Out, to, from.cast_mut(), bytes) } {
        refuse(&error, what, to, bytes);
    }
}

fn send_word(what: &str, to: u64, value: u64, bytes: usize) {
    send(what, to, value.to_le_bytes().as_ptr(), bytes.min(8));
}

/// `gas_far_read`
#[unsafe(no_mangle)]
pub extern "C" fn gas_far_read(from: u64, bytes: usize) -> u64 {
    let mut word = [0u8; 8];
    fetch("a read", word.as_mut_ptr(), from, bytes.min(8));
    u64::from_le_bytes(word)
}

/// `gas_far_write`
#[unsafe(no_mangle)]
pub extern "C" fn gas_far_write(to: u64, value: u64, bytes: usize) {
    send_word("a write", to, value, bytes);
}

/// `gas_far_get`
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gas_far_get(to: *mut c_void, from: u64, bytes: usize) {
    fetch("a get", to.cast(), from, bytes);
}

/// `gas_far_put`
#[unsafe(no_mangle)]
pub extern "C" fn gas_far_put(to: u64, value: u64, bytes: usize) {
    send_word("a put", to, value, bytes);
}

/// `gas_far_store`
#[unsafe(no_mangle)]
pub extern "C" fn gas_far_store(to: u64, value: u64, bytes: usize) {
    send_word("a store", to, value, bytes);
    count(to, bytes);
}

fn count(to: u64, bytes: usize) {
    if let Err(error) = process().count_store(to, bytes) {
        refuse(&error, "a store", to, bytes);
    }
}

/// `gas_bulk_read`
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gas_bulk_read(to: *mut c_void, from: u64, bytes: usize) {
    fetch("a read", to.cast(), from, bytes);
}

/// `gas_bulk_get`
///
/// # Safety
/// C1, until `gas_sync`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gas_bulk_get(to: *mut c_void, from: u64, bytes: usize) {
    fetch("a get", to.cast(), from, bytes);
}

/// `gas_bulk_write`
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gas_bulk_write(to: u64, from: *const c_void, bytes: usize) {
    send("a write", to, from.cast(), bytes);
}

/// `gas_bulk_put`
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gas_bulk_put(to: u64, from: *const c_void, bytes: usize) {
    send("a put", to, from.cast(), bytes);
}

/// `gas_bulk_store`
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gas_bulk_store(to: u64, from: *const c_void, bytes: usize) {
    send("a store", to, from.cast(), bytes);
    count(to, bytes);
}

/// `gas_bulk_set`
#[unsafe(no_mangle)]
pub extern "C" fn gas_bulk_set(to: u64, value: c_int, bytes: usize) {
    if let Err(error) = process().fill(to, value as u8, bytes) {
        refuse(&error, "a write", to, bytes);
    }
}

/// `gas_check`
///
/// # Safety
/// `place` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gas_check(at: u64, bytes: usize, align: usize, place: *const c_char) {
    let is_aligned = align < 2 || at.is_multiple_of(align as u64);
    let found = process().check(at, bytes);
    if is_aligned && found.is_ok() {
        return;
    }
    // SAFETY: a string of the compiler's.
    let place = unsafe { CStr::from_ptr(place) }.to_string_lossy();
    let (owner, address) = (at >> 48, at & ((1 << 48) - 1));
    match found {
        Err(error) => fail(&format!("{place}: {bytes} bytes at a global pointer to process {owner}, address {address:#x}: {error}")),
        Ok(()) => fail(&format!("{place}: {bytes} bytes at a global pointer to process {owner}, address {address:#x}: not aligned to {align}")),
    }
}

/// An atomic operation, or the job's end.
fn atomic<T>(result: Result<T, Error>, at: u64, bytes: usize) -> T {
    result.unwrap_or_else(|error| refuse(&error, "an atomic operation", at, bytes))
}

fn on32(at: u64, operation: impl FnOnce(&AtomicU32) -> u32) -> i32 {
    atomic(process().atomic32(at, operation), at, 4).cast_signed()
}

fn on64(at: u64, operation: impl FnOnce(&AtomicU64) -> u64) -> i64 {
    atomic(process().atomic64(at, operation), at, 8).cast_signed()
}

// SeqCst in all of them: programs build locks out of these, and know nothing of weaker orders.

/// `gas_fetch_add_4`
#[unsafe(no_mangle)]
pub extern "C" fn gas_fetch_add_4(at: u64, value: i32) -> i32 {
    on32(at, |word| word.fetch_add(value.cast_unsigned(), Ordering::SeqCst))
}

/// `gas_fetch_add_8`
#[unsafe(no_mangle)]
pub extern "C" fn gas_fetch_add_8(at: u64, value: i64) -> i64 {
    on64(at, |word| word.fetch_add(value.cast_unsigned(), Ordering::SeqCst))
}

/// `gas_swap_4`
#[unsafe(no_mangle)]
pub extern "C" fn gas_swap_4(at: u64, value: i32) -> i32 {
    on32(at, |word| word.swap(value.cast_unsigned(), Ordering::SeqCst))
}

/// `gas_swap_8`
#[unsafe(no_mangle)]
pub extern "C" fn gas_swap_8(at: u64, value: i64) -> i64 {
    on64(at, |word| word.swap(value.cast_unsigned(), Ordering::SeqCst))
}

/// `gas_compare_swap_4`
#[unsafe(no_mangle)]
pub extern "C" fn gas_compare_swap_4(at: u64, expected: i32, value: i32) -> i32 {
    let exchange = |word: &AtomicU32| word.compare_exchange(expected.cast_unsigned(), value.cast_unsigned(), Ordering::SeqCst, Ordering::SeqCst);
    on32(at, |word| exchange(word).unwrap_or_else(|found| found))
}

/// `gas_compare_swap_8`
#[unsafe(no_mangle)]
pub extern "C" fn gas_compare_swap_8(at: u64, expected: i64, value: i64) -> i64 {
    let exchange = |word: &AtomicU64| word.compare_exchange(expected.cast_unsigned(), value.cast_unsigned(), Ordering::SeqCst, Ordering::SeqCst);
    on64(at, |word| exchange(word).unwrap_or_else(|found| found))
}
