// SPDX-License-Identifier: MIT OR Apache-2.0
//! Capability and operation flags, with the public header's values.

pub(crate) const MSG: u64 = 1 << 1;
pub(crate) const RMA: u64 = 1 << 2;
pub(crate) const TAGGED: u64 = 1 << 3;
pub(crate) const ATOMIC: u64 = 1 << 4;
pub(crate) const READ: u64 = 1 << 8;
pub(crate) const WRITE: u64 = 1 << 9;
pub(crate) const RECV: u64 = 1 << 10;
pub(crate) const SEND: u64 = 1 << 11;
pub(crate) const REMOTE_READ: u64 = 1 << 12;
pub(crate) const REMOTE_WRITE: u64 = 1 << 13;
pub(crate) const MULTI_RECV: u64 = 1 << 16;
pub(crate) const REMOTE_CQ_DATA: u64 = 1 << 17;
pub(crate) const MORE: u64 = 1 << 18;
pub(crate) const PEEK: u64 = 1 << 19;
pub(crate) const TRIGGER: u64 = 1 << 20;
pub(crate) const FENCE: u64 = 1 << 21;
pub(crate) const COMPLETION: u64 = 1 << 24;
pub(crate) const INJECT: u64 = 1 << 25;
pub(crate) const INJECT_COMPLETE: u64 = 1 << 26;
pub(crate) const TRANSMIT_COMPLETE: u64 = 1 << 27;
pub(crate) const DELIVERY_COMPLETE: u64 = 1 << 28;
pub(crate) const MATCH_COMPLETE: u64 = 1 << 31;
pub(crate) const LOCAL_COMM: u64 = 1 << 51;
pub(crate) const REMOTE_COMM: u64 = 1 << 52;
pub(crate) const SHARED_AV: u64 = 1 << 53;
pub(crate) const RMA_EVENT: u64 = 1 << 56;
pub(crate) const SOURCE: u64 = 1 << 57;
pub(crate) const NAMED_RX_CTX: u64 = 1 << 58;
pub(crate) const DIRECTED_RECV: u64 = 1 << 59;
/// In receives: that message alone which was set aside.
pub(crate) const CLAIM: u64 = 1 << 59;
/// In receives: drop the message.
pub(crate) const DISCARD: u64 = 1 << 58;
/// When a queue is bound: only what asks for it completes there.
pub(crate) const SELECTIVE_COMPLETION: u64 = 1 << 59;
/// In `fi_getinfo`: node and service name the source.
pub(crate) const FROM_SOURCE: u64 = SOURCE;

/// A mode: buffers of messages begin with room for the provider.
pub(crate) const MSG_PREFIX: u64 = 1 << 58;

/// Not an address.
pub(crate) const ADDR_NONE: u64 = u64::MAX;

/// Memory registration: `FI_MR_BASIC`, `FI_MR_SCALABLE`.
pub(crate) const MR_BASIC: i32 = 1;
pub(crate) const MR_SCALABLE: i32 = 2;
