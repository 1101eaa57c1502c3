// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of a transport whose packets go by the host's agent.

use super::segment::PACKET_BYTES_MAX;
use crate::packet::settings::{RING_BYTES_MAX, settings};
use crate::time::Duration;
use bellwire_memory::MemoryError;
use bellwire_proto::Config;

/// Refused packets are tried again at the latest after this, and so often: for half a minute. An
/// endpoint that was loaded for a packet is gone again after a few milliseconds, and its turn may
/// come after that of many others.
pub const REFUSAL_WAIT_MAX: Duration = Duration::from_micros(2_500);
const REFUSALS_MAX: u32 = 12_000;
/// A peer that is one of thousands over few frames may be loaded seconds after a packet came for
/// it. So it is given up later than on a wire, and asked less often. Of a peer that has ended the
/// agent tells at once.
const UNREACHABLE_AFTER: Duration = Duration::from_secs(30);
/// And not before so many questions had no answer: a program of thousands of endpoints on a busy
/// machine may ask each of its peers only every few seconds.
const RETRIES_MAX: u32 = 20;
const HANDSHAKE_TIME: Duration = Duration::from_secs(15);
const HANDSHAKE_RETRY_MAX: Duration = Duration::from_secs(1);

/// The settings of a NIC whose peers may have `receive_bytes` in flight towards it.
///
/// # Errors
/// [`MemoryError::Os`]: no randomness.
pub(super) fn settings_by_agent(receive_bytes: usize) -> Result<Config, MemoryError> {
    Ok(Config {
        datagram_max: PACKET_BYTES_MAX,
        ring_bytes: (2 * receive_bytes).clamp(4 * PACKET_BYTES_MAX, RING_BYTES_MAX),
        run_bytes_max: PACKET_BYTES_MAX,
        run_packets_max: 1,
        refusal_wait_max: REFUSAL_WAIT_MAX,
        refusals_max: REFUSALS_MAX,
        unreachable_after: UNREACHABLE_AFTER,
        retries_max: RETRIES_MAX,
        handshake_time: HANDSHAKE_TIME,
        handshake_retry_max: HANDSHAKE_RETRY_MAX,
        ..settings(receive_bytes)?
    })
}
