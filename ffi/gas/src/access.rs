// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bulk copies, and words whose place is not mapped. Gets, puts and stores over shared memory are
//! done when they are asked for, and completion is a matter of order alone; elsewhere they are
//! messages.

use std::ffi::{CStr, c_char, c_int, c_void};

use bellwire_gas::{Atomic, Error};
use bellwire_memory::atomic::{Ordering, compiler_fence};

use crate::{fail, give_up, process};

/// What an access came to, or the job's end: with a message that says which access it was, unless
/// the error does. `name` is that of its call.
macro_rules! access {
    ($name:expr, $what:literal, $pointer:expr, $bytes:expr, |$process:ident| $body:expr) => {
        call!($name, [$pointer, $bytes as u64], |$process| $body).unwrap_or_else(|error| refuse(error, $what, $pointer, $bytes))
    };
}

#[cold]
fn refuse(error: Error, what: &str, pointer: u64, bytes: usize) -> ! {
    if matches!(error, Error::Left(_) | Error::Trouble(_) | Error::Nic(_)) {
        give_up(&error);
    }
    let (process, address) = (pointer >> 48, pointer & ((1 << 48) - 1));
    fail(&format!("{what} of {bytes} bytes at a global pointer to process {process}, address {address:#x}: {error}"))
}

/// A word as it lies in memory.
fn bytes_of(value: u64) -> [u8; 8] {
    value.to_le_bytes()
}

/// Reads, waiting.
fn read(name: &str, to: *mut u8, from: u64, bytes: usize) {
    // SAFETY: C1.
    access!(name, "a read", from, bytes, |process| unsafe { process.read(to, from, bytes) });
    // Acquire, for the compiler: the next read is not moved before this one. x86-64 keeps loads in
    // order.
    compiler_fence(Ordering::Acquire);
}

/// `gas_far_read`
#[unsafe(no_mangle)]
pub extern "C" fn gas_far_read(from: u64, bytes: usize) -> u64 {
    let mut word = [0u8; 8];
    read("gas_far_read", word.as_mut_ptr(), from, bytes.min(8));
    u64::from_le_bytes(word)
}

/// `gas_far_write`
#[unsafe(no_mangle)]
pub extern "C" fn gas_far_write(to: u64, value: u64, bytes: usize) {
    // SAFETY: an array of ours; C1 for the place.
    access!("gas_far_write", "a write", to, bytes, |process| unsafe { process.write(to, bytes_of(value).as_ptr(), bytes.min(8)) });
}

/// `gas_far_get`
///
/// # Safety
/// C1, until `gas_sync`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gas_far_get(to: *mut c_void, from: u64, bytes: usize) {
    // SAFETY: C1.
    access!("gas_far_get", "a get", from, bytes, |process| unsafe { process.get(to.cast(), from, bytes) });
}

/// `gas_far_put`
#[unsafe(no_mangle)]
pub extern "C" fn gas_far_put(to: u64, value: u64, bytes: usize) {
    // SAFETY: an array of ours; C1 for the place.
    access!("gas_far_put", "a put", to, bytes, |process| unsafe { process.put(to, bytes_of(value).as_ptr(), bytes.min(8)) });
}

/// `gas_far_store`
#[unsafe(no_mangle)]
pub extern "C" fn gas_far_store(to: u64, value: u64, bytes: usize) {
    // SAFETY: an array of ours; C1 for the place.
    access!("gas_far_store", "a store", to, bytes, |process| unsafe { process.store(to, bytes_of(value).as_ptr(), bytes.min(8)) });
}

/// `gas_bulk_read`
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gas_bulk_read(to: *mut c_void, from: u64, bytes: usize) {
    read("gas_bulk_read", to.cast(), from, bytes);
}

/// `gas_bulk_get`
///
/// # Safety
/// C1, until `gas_sync`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gas_bulk_get(to: *mut c_void, from: u64, bytes: usize) {
    // SAFETY: C1.
    access!("gas_bulk_get", "a get", from, bytes, |process| unsafe { process.get(to.cast(), from, bytes) });
    // Acquire: as in `read`.
    compiler_fence(Ordering::Acquire);
}

/// `gas_bulk_write`
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gas_bulk_write(to: u64, from: *const c_void, bytes: usize) {
    // SAFETY: C1.
    access!("gas_bulk_write", "a write", to, bytes, |process| unsafe { process.write(to, from.cast(), bytes) });
}

/// `gas_bulk_put`
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gas_bulk_put(to: u64, from: *const c_void, bytes: usize) {
    // SAFETY: C1.
    access!("gas_bulk_put", "a put", to, bytes, |process| unsafe { process.put(to, from.cast(), bytes) });
}

/// `gas_bulk_store`
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gas_bulk_store(to: u64, from: *const c_void, bytes: usize) {
    // SAFETY: C1.
    access!("gas_bulk_store", "a store", to, bytes, |process| unsafe { process.store(to, from.cast(), bytes) });
}

/// `gas_bulk_set`
#[unsafe(no_mangle)]
pub extern "C" fn gas_bulk_set(to: u64, value: c_int, bytes: usize) {
    // SAFETY: C1.
    access!("gas_bulk_set", "a write", to, bytes, |process| unsafe { process.fill(to, value as u8, bytes) });
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
        Err(error @ (Error::Left(_) | Error::Trouble(_) | Error::Nic(_))) => give_up(&error),
        Err(error) => fail(&format!("{place}: {bytes} bytes at a global pointer to process {owner}, address {address:#x}: {error}")),
        Ok(()) => fail(&format!("{place}: {bytes} bytes at a global pointer to process {owner}, address {address:#x}: not aligned to {align}")),
    }
}

fn on32(name: &str, at: u64, operation: Atomic, operand: i32, expected: i32) -> i32 {
    let (operand, expected) = (u64::from(operand.cast_unsigned()), u64::from(expected.cast_unsigned()));
    // SAFETY: C1.
    (access!(name, "an atomic operation", at, 4, |process| unsafe { process.atomic(at, operation, 4, operand, expected) }) as u32).cast_signed()
}

fn on64(name: &str, at: u64, operation: Atomic, operand: i64, expected: i64) -> i64 {
    // SAFETY: C1.
    access!(name, "an atomic operation", at, 8, |process| unsafe { process.atomic(at, operation, 8, operand.cast_unsigned(), expected.cast_unsigned()) })
        .cast_signed()
}

/// `gas_call`
#[unsafe(no_mangle)]
pub extern "C" fn gas_call(at: u64, function: u64, argument: i64) -> i64 {
    // SAFETY: C1; the table's functions take any place.
    access!("gas_call", "a call on a place", at, 1, |process| unsafe { process.call(at, function, argument) })
}

/// `gas_fetch_add_4`
#[unsafe(no_mangle)]
pub extern "C" fn gas_fetch_add_4(at: u64, value: i32) -> i32 {
    on32("gas_fetch_add_4", at, Atomic::Add, value, 0)
}

/// `gas_fetch_add_8`
#[unsafe(no_mangle)]
pub extern "C" fn gas_fetch_add_8(at: u64, value: i64) -> i64 {
    on64("gas_fetch_add_8", at, Atomic::Add, value, 0)
}

/// `gas_swap_4`
#[unsafe(no_mangle)]
pub extern "C" fn gas_swap_4(at: u64, value: i32) -> i32 {
    on32("gas_swap_4", at, Atomic::Swap, value, 0)
}

/// `gas_swap_8`
#[unsafe(no_mangle)]
pub extern "C" fn gas_swap_8(at: u64, value: i64) -> i64 {
    on64("gas_swap_8", at, Atomic::Swap, value, 0)
}

/// `gas_compare_swap_4`
#[unsafe(no_mangle)]
pub extern "C" fn gas_compare_swap_4(at: u64, expected: i32, value: i32) -> i32 {
    on32("gas_compare_swap_4", at, Atomic::CompareSwap, value, expected)
}

/// `gas_compare_swap_8`
#[unsafe(no_mangle)]
pub extern "C" fn gas_compare_swap_8(at: u64, expected: i64, value: i64) -> i64 {
    on64("gas_compare_swap_8", at, Atomic::CompareSwap, value, expected)
}
