// SPDX-License-Identifier: MIT OR Apache-2.0
//! One core's `process_vm_readv` out of the other process's private memory: the yardstick of bulk
//! transfers of user memory.

use std::time::Instant;

use super::{CONTROL_OFFSET, PATIENCE};
use crate::bench::payload::{Pattern, Touch};
use crate::error::Error;
use crate::shared::{LINE_BYTES, SharedMap};
use bellwire_inspect::host::attach;

/// Where the second process says who and where it is: process id, address.
const TARGET: usize = CONTROL_OFFSET + 8 * LINE_BYTES;
/// Largest copy, bytes.
const SIZE_MAX: usize = 64 << 20;

/// Reads `size` bytes `count` times; bytes per nanosecond (GB/s), measured by the first process.
/// Takes part in the two meetings `epoch` and `epoch + 1`.
///
/// # Errors
/// If it is not allowed here ([`Error::Unsupported`]), the other side does not come, or other bytes
/// arrive than are there.
pub fn run(map: &SharedMap, first: bool, size: usize, count: u64, epoch: u64) -> Result<f64, Error> {
    if size == 0 || size > SIZE_MAX {
        return Err(Error::unsupported(format!("copies of {size} bytes")));
    }
    let pattern = Pattern::new(size);
    let mut bytes = vec![0u8; size];
    if !first {
        // SAFETY: P1: the vector is ours and as long as the pattern.
        unsafe {
            pattern.fill(bytes.as_mut_ptr());
            pattern.stamp(bytes.as_mut_ptr(), epoch);
        }
        map.word(TARGET).put(u64::from(std::process::id()));
        map.word(TARGET + 8).put(bytes.as_ptr() as u64);
        map.meet(false, epoch, PATIENCE)?;
        // The bytes stay until the first process has read them.
        map.meet(false, epoch + 1, PATIENCE * 2)?;
        return Ok(0.0);
    }
    map.meet(true, epoch, PATIENCE)?;
    let (pid, address) = (map.word(TARGET).get() as i32, map.word(TARGET + 8).get());
    let result = read_all(pid, address, &mut bytes, count);
    map.meet(true, epoch + 1, PATIENCE)?;
    let elapsed = result?;
    // SAFETY: P1: the vector is ours.
    if !unsafe { pattern.matches(bytes.as_ptr(), epoch, Touch::All) } {
        return Err(Error::failed("attached bytes differ"));
    }
    Ok((size as u64 * count) as f64 / elapsed)
}

/// Nanoseconds of `count` reads, after some for warming up.
fn read_all(pid: i32, address: u64, bytes: &mut [u8], count: u64) -> Result<f64, Error> {
    let mut read = |times: u64| {
        for _ in 0..times {
            match attach::read(pid, address, bytes) {
                Ok(taken) if taken == bytes.len() => {}
                Ok(_) => return Err(Error::failed("process_vm_readv read less than asked for")),
                Err(errno) => return Err(Error::unsupported(format!("process_vm_readv: {}", attach::explain(errno, attach::settings()).0))),
            }
        }
        Ok(())
    };
    read(count / 10 + 1)?;
    let start = Instant::now();
    read(count)?;
    Ok(start.elapsed().as_nanos().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::two_mappings;

    #[test]
    fn reads_what_is_there() {
        let (one, two) = two_mappings();
        std::thread::scope(|scope| {
            let target = scope.spawn(|| run(&two, false, 5000, 20, 1));
            match run(&one, true, 5000, 20, 1) {
                Ok(bandwidth) => assert!(bandwidth > 0.0),
                Err(error) => assert!(matches!(error, Error::Unsupported(_)), "{error}"),
            }
            target.join().unwrap().unwrap();
        });
    }
}
