// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collective calls.

use std::ffi::{c_int, c_long, c_void};
use std::slice;

use bellwire_gas::Process;

use crate::{fail, or_end, process};

/// `gas_sync`
#[unsafe(no_mangle)]
pub extern "C" fn gas_sync() {
    or_end(call!("gas_sync", [0; 2], |process| process.sync()));
}

/// `gas_is_sync`
#[unsafe(no_mangle)]
pub extern "C" fn gas_is_sync() -> c_int {
    c_int::from(or_end(process().is_sync()))
}

/// `gas_store_sync`
#[unsafe(no_mangle)]
pub extern "C" fn gas_store_sync(bytes: usize) {
    or_end(call!("gas_store_sync", [bytes as u64, 0], |process| process.store_sync(bytes as u64)));
}

/// `gas_store_count`
#[unsafe(no_mangle)]
pub extern "C" fn gas_store_count() -> usize {
    process().store_count() as usize
}

/// `gas_reset_store_sync`
#[unsafe(no_mangle)]
pub extern "C" fn gas_reset_store_sync() {
    process().reset_store_sync();
}

/// `gas_all_store_sync`
#[unsafe(no_mangle)]
pub extern "C" fn gas_all_store_sync() {
    or_end(call!("gas_all_store_sync", [0; 2], |process| process.all_store_sync()));
}

/// `gas_barrier`
#[unsafe(no_mangle)]
pub extern "C" fn gas_barrier() {
    or_end(call!("gas_barrier", [0; 2], |process| process.barrier()));
}

/// `gas_spread_make`
#[unsafe(no_mangle)]
pub extern "C" fn gas_spread_make(blocks: c_long, block_bytes: usize, is_automatic: c_int) -> u64 {
    let made = u64::try_from(blocks)
        .ok()
        .map_or(0, |blocks| or_end(call!("gas_spread_make", [blocks, block_bytes as u64], |process| process.spread_make(blocks, block_bytes as u64))));
    if made == 0 && is_automatic != 0 {
        fail(&format!("no memory for a spread array of {blocks} blocks of {block_bytes} bytes: BELLWIRE_GAS_SYMMETRIC_MIB sets how much there is"));
    }
    made
}

/// `gas_spread_make_alone`
#[unsafe(no_mangle)]
pub extern "C" fn gas_spread_make_alone(blocks: c_long, block_bytes: usize) -> u64 {
    u64::try_from(blocks).ok().map_or(0, |blocks| process().spread_make_alone(blocks, block_bytes as u64))
}

/// `gas_spread_end`
#[unsafe(no_mangle)]
pub extern "C" fn gas_spread_end(made: u64) {
    if made != 0 && !process().spread_end(made) {
        fail("spread memory is freed that was not allocated here, or that is freed already");
    }
}

/// `gas_exchange`
///
/// # Safety
/// C1: `bytes` bytes at `mine`, as many for each process at `all`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gas_exchange(mine: *const c_void, all: *mut c_void, bytes: usize) {
    let processes = process().processes() as usize;
    // SAFETY: C1.
    let (mine, all) = unsafe { (slice::from_raw_parts(mine.cast(), bytes), slice::from_raw_parts_mut(all.cast(), bytes * processes)) };
    or_end(call!("gas_exchange", [bytes as u64, 0], |process| process.exchange(mine, all)));
}

/// `gas_broadcast`
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gas_broadcast(data: *mut c_void, bytes: usize, root: c_int) {
    let Ok(root) = u32::try_from(root) else { fail("a broadcast from a process that does not exist") };
    // SAFETY: C1.
    let data = unsafe { slice::from_raw_parts_mut(data.cast(), bytes) };
    or_end(call!("gas_broadcast", [bytes as u64, root.into()], |process| process.broadcast(data, root)));
}

/// `gas_seconds`
#[unsafe(no_mangle)]
pub extern "C" fn gas_seconds() -> f64 {
    Process::now().as_secs_f64()
}
