// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the machine itself allows between two processes: the yardsticks that every other figure is
//! divided by.
//!
//! Each limit is a function run by both measuring processes over the same mapping, after
//! [`crate::shared::SharedMap::meet`]. Layout:
//!
//! | bytes | used by |
//! |---|---|
//! | 0 .. 4096 | meeting point |
//! | 4096 .. 8192 | [`crate::exchange`]: one line per direction, two lines apart |
//! | 8192 .. 40 Ki | indices of [`ring`], flags of [`copy`], whereabouts for [`attach`] |
//! | 40 Ki .. 44 Ki | words of [`sleep`] |
//! | 44 Ki .. 48 Ki | ports of [`net`] |
//! | 48 Ki .. 64 Ki | addresses that the benchmarks tell each other |
//! | 64 Ki .. 1 Mi | slots of [`ring`] |
//! | 1 Mi .. | destination of [`copy`] |

pub mod attach;
pub mod copy;
pub mod net;
pub mod ring;
pub mod sleep;

use std::time::Duration;

/// Where indices and flags lie.
pub(crate) const CONTROL_OFFSET: usize = 8192;
/// Where words that are slept on lie.
pub(crate) const FUTEX_OFFSET: usize = 40 << 10;
/// Where processes tell each other their ports.
pub(crate) const NET_OFFSET: usize = 44 << 10;
/// Where the ring's slots lie.
pub(crate) const SLOTS_OFFSET: usize = 64 << 10;
/// Where copies go.
pub(crate) const DATA_OFFSET: usize = 1 << 20;
/// Bytes that copies may use.
pub(crate) const DATA_BYTES: usize = 16 << 20;
/// Bytes of the whole mapping.
pub const SHARED_BYTES: usize = DATA_OFFSET + DATA_BYTES;

/// How long one side waits for the other.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// What two processes have: the same memory at two addresses.
#[cfg(test)]
fn two_mappings() -> (crate::shared::SharedMap, crate::shared::SharedMap) {
    let fd = crate::shared::create(SHARED_BYTES).unwrap();
    let map = || crate::shared::SharedMap::map(&fd, SHARED_BYTES).unwrap();
    (map(), map())
}
