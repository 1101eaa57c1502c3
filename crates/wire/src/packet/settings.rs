// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings that the transports of all NICs in real processes share, whatever carries their
//! packets.

use crate::clock::clock;
use crate::time::Duration;
use bellwire_memory::MemoryError;
use bellwire_proto::{Config, NicId};

/// A peer that cannot be reached for so long is lost: longer than a cable is out for a moment,
/// shorter than people wait.
const UNREACHABLE_AFTER: Duration = Duration::from_secs(5);
/// With timeouts of up to a second each, more would take longer than is promised
/// (docs/guide/hosts.md: 5 to 7 s).
const RETRIES_MAX: u32 = 5;
/// Most bytes of a session's transmit ring.
pub(crate) const RING_BYTES_MAX: usize = 1 << 20;

/// The settings of a new NIC, whose peers may have `receive_bytes` in flight towards it.
///
/// # Errors
/// [`MemoryError::Os`]: no randomness.
pub(crate) fn settings(receive_bytes: usize) -> Result<Config, MemoryError> {
    let mut nic = [0; 16];
    rustix::rand::getrandom(&mut nic, rustix::rand::GetRandomFlags::empty()).map_err(|e| MemoryError::os("getrandom", e))?;
    Ok(Config { nic: NicId(nic), boot: clock().0, receive_bytes, unreachable_after: UNREACHABLE_AFTER, retries_max: RETRIES_MAX, ..Config::default() })
}
