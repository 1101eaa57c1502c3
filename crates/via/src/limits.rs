// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of a NIC, and lengths at which a request takes another way.

/// Longest message, bytes.
pub const TRANSFER_BYTES_MAX: u64 = 1 << 30;
/// Descriptors that one queue may hold.
pub const DESCRIPTORS_PER_QUEUE_MAX: u32 = 1 << 16;
/// VIs that one NIC may hold.
pub const VIS_MAX: usize = 1 << 16;
/// Completion queues that one NIC may hold.
pub const CQS_MAX: usize = 1 << 14;
/// Shared receive queues that one NIC may hold.
pub const SRQS_MAX: usize = 1 << 12;
/// Inboxes that one NIC may hold.
pub const INBOXES_MAX: usize = 1 << 14;

/// Most bytes that a post copies itself; longer requests move in
/// [`Engine::progress`](crate::Engine::progress).
pub const POST_COPY_BYTES_MAX: u32 = 64 * 1024;
/// Sends at least this long ask for the peer's advertised descriptor.
pub const PLACE_BYTES_MIN: u32 = 2048;

/// Bytes of a turn, unless told otherwise.
pub const TURN_BYTES_DEFAULT: u32 = 128 << 10;
/// Fewest bytes of a turn.
pub const TURN_BYTES_MIN: u32 = 1 << 10;
/// Most bytes of a turn: it bounds how long a turn of the engine takes.
pub const TURN_BYTES_MAX: u32 = 1 << 20;
/// Largest weight of a VI.
pub const WEIGHT_MAX: u8 = 16;
