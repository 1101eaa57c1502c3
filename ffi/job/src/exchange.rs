// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks, fences and barriers.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::code::{Failure, call};
use crate::joined;

/// A key.
fn key<'a>(key: *const c_char) -> Result<&'a str, Failure> {
    if key.is_null() {
        return Err(Failure::argument("the key is NULL"));
    }
    // SAFETY: C1: a string.
    unsafe { CStr::from_ptr(key) }.to_str().map_err(|_| Failure::argument("the key is not text"))
}

/// A block to read; NULL is right for one of no bytes.
fn block<'a>(block: *const c_void, bytes: usize) -> Result<&'a [u8], Failure> {
    if bytes == 0 {
        return Ok(&[]);
    }
    if block.is_null() {
        return Err(Failure::argument("the block is NULL"));
    }
    if bytes > bellwire_job::BLOCK_MAX_BYTES {
        return Err(bellwire_job::Error::TooLong { bytes }.into());
    }
    // SAFETY: C1: so many readable bytes, and not more than there can be.
    Ok(unsafe { std::slice::from_raw_parts(block.cast(), bytes) })
}

/// Copies bytes to a place with enough room.
///
/// # Safety
/// `to` has room for them.
unsafe fn copy(bytes: &[u8], to: *mut c_void) {
    if !bytes.is_empty() {
        // SAFETY: the caller's promise; nothing of ours overlaps memory of the program.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), bytes.len()) };
    }
}

/// `bw_job_put`
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_job_put(name: *const c_char, data: *const c_void, bytes: usize) -> c_int {
    call(|| Ok(joined()?.put(key(name)?, block(data, bytes)?)?))
}

/// `bw_job_fence`
#[unsafe(no_mangle)]
pub extern "C" fn bw_job_fence() -> c_int {
    call(|| Ok(joined()?.fence()?))
}

/// `bw_job_get`
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_job_get(rank: c_int, name: *const c_char, buffer: *mut c_void, capacity: usize, bytes: *mut usize) -> c_int {
    call(|| {
        if bytes.is_null() || (buffer.is_null() && capacity > 0) {
            return Err(Failure::argument("the buffer or the place for the length is NULL"));
        }
        let rank = u32::try_from(rank).map_err(|_| Failure::argument(format!("there is no rank {rank}")))?;
        let found = joined()?.get(rank, key(name)?)?;
        // SAFETY: C1, not NULL.
        unsafe { *bytes = found.len() };
        // SAFETY: C1: room for `capacity` bytes.
        unsafe { copy(&found[..found.len().min(capacity)], buffer) };
        if found.len() > capacity { Err(Failure::space(format!("a block of {} bytes does not fit {capacity}", found.len()))) } else { Ok(()) }
    })
}

/// `bw_job_allgather`
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_job_allgather(data: *const c_void, bytes: usize, all: *mut c_void) -> c_int {
    call(|| {
        if all.is_null() && bytes > 0 {
            return Err(Failure::argument("the place for the blocks is NULL"));
        }
        let blocks = joined()?.all_gather(block(data, bytes)?)?;
        if let Some(rank) = blocks.iter().position(|block| block.len() != bytes) {
            return Err(Failure::argument(format!(
                "rank {rank} gave a block of {} bytes, this process one of {bytes}: bw_job_allgatherv is for different lengths",
                blocks[rank].len()
            )));
        }
        // SAFETY: C1: room for all, which have the same length.
        unsafe { copy(&blocks.concat(), all) };
        Ok(())
    })
}

/// `bw_job_allgatherv`
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_job_allgatherv(data: *const c_void, bytes: usize, all: *mut c_void, capacity: usize, lengths: *mut usize) -> c_int {
    call(|| {
        if lengths.is_null() || (all.is_null() && capacity > 0) {
            return Err(Failure::argument("the place for the blocks or for their lengths is NULL"));
        }
        let blocks = joined()?.all_gather(block(data, bytes)?)?;
        for (rank, block) in blocks.iter().enumerate() {
            // SAFETY: C1: one for each process, of which there are as many as blocks.
            unsafe { lengths.add(rank).write(block.len()) };
        }
        let joint = blocks.concat();
        if joint.len() > capacity {
            return Err(Failure::space(format!("blocks of {} bytes together do not fit {capacity}", joint.len())));
        }
        // SAFETY: C1: room for `capacity` bytes.
        unsafe { copy(&joint, all) };
        Ok(())
    })
}

/// `bw_job_barrier`
#[unsafe(no_mangle)]
pub extern "C" fn bw_job_barrier() -> c_int {
    call(|| Ok(joined()?.barrier()?))
}

/// `bw_job_barrier_start`
#[unsafe(no_mangle)]
pub extern "C" fn bw_job_barrier_start() -> c_int {
    call(|| Ok(joined()?.barrier_start()?))
}

/// `bw_job_barrier_done`
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_job_barrier_done(done: *mut c_int) -> c_int {
    call(|| {
        if done.is_null() {
            return Err(Failure::argument("the place for the answer is NULL"));
        }
        let is_done = joined()?.barrier_done()?;
        // SAFETY: C1, not NULL.
        unsafe { *done = c_int::from(is_done) };
        Ok(())
    })
}
