// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether what is asked for is what we offer. Whatever is not is refused: a provider that answers
//! more than it can has layers put on top of it, or programs that fail later.

use crate::attributes::{DomainAttr, EpAttr, FabricAttr, Info, RxAttr, TxAttr};
use crate::flags::*;
use crate::format::Format;
use crate::handles;
use crate::limits::{CONTEXTS_MAX, INJECT_BYTES, NAME, PREFIX_BYTES, QUEUE_SIZE};
use bellwire_tag::{EAGER_BYTES_MAX, PIECES_MAX};
use core::ffi::{CStr, c_char};

/// Everything that can be asked for.
pub(crate) const CAPS: u64 =
    MSG | RMA | TAGGED | ATOMIC | TX_MODIFIERS | RX_MODIFIERS | MULTI_RECV | LOCAL_COMM | REMOTE_COMM | SOURCE | RMA_EVENT | FENCE | DIRECTED_RECV;
/// What says what of it.
pub(crate) const PRIMARY: u64 = MSG | RMA | TAGGED | ATOMIC;
const TX_MODIFIERS: u64 = SEND | READ | WRITE;
const RX_MODIFIERS: u64 = RECV | REMOTE_READ | REMOTE_WRITE;
/// What a kind of endpoint has of it, beside triggered operations, which are there for who asks for
/// them. Datagrams are messages alone; a pair has no sources to tell or to choose.
pub(crate) fn caps_of(kind: i32) -> u64 {
    match kind {
        MSG_KIND => CAPS & !(SOURCE | DIRECTED_RECV),
        DGRAM => MSG | SEND | RECV | MULTI_RECV | LOCAL_COMM | REMOTE_COMM | SOURCE | FENCE | DIRECTED_RECV,
        _ => CAPS,
    }
}

/// What there is for who asks for it, and nobody hears of else: programs that take all that is
/// offered would pay for it, or be confused. Triggered operations; contexts of scalable endpoints
/// by their numbers; address vectors of several processes.
fn unoffered(kind: i32) -> u64 {
    TRIGGER | SHARED_AV | if kind == RDM { NAMED_RX_CTX } else { 0 }
}

/// Contexts that an endpoint can have.
pub(crate) fn contexts_of(kind: i32) -> usize {
    if kind == RDM { CONTEXTS_MAX } else { 1 }
}

/// What a transmit context has of it, and a receive context. Those of the domain may be asked of
/// them too.
pub(crate) const TX_CAPS: u64 = PRIMARY | TX_MODIFIERS | FENCE;
pub(crate) const RX_CAPS: u64 = PRIMARY | RX_MODIFIERS | MULTI_RECV | SOURCE | RMA_EVENT | DIRECTED_RECV;
pub(crate) const DOMAIN_CAPS: u64 = LOCAL_COMM | REMOTE_COMM;
const TX_OP_FLAGS: u64 = INJECT | COMPLETION | INJECT_COMPLETE | TRANSMIT_COMPLETE | DELIVERY_COMPLETE | MATCH_COMPLETE | FENCE | MORE;
const RX_OP_FLAGS: u64 = COMPLETION | MULTI_RECV;

const RAR: u64 = 1;
const RAW: u64 = 2;
const WAR: u64 = 1 << 3;
const WAW: u64 = 1 << 4;
const SAS: u64 = 1 << 8;
/// The orders that hold: of messages; of what does not exceed [`ORDERED_BYTES`] on remote memory,
/// with its newer and finer names; of atomics.
pub(crate) const ORDERS: u64 = RAR | RAW | WAR | WAW | SAS | 0xff << 32;
pub(crate) const ORDERED_BYTES: usize = EAGER_BYTES_MAX;

/// Kinds of endpoints: connected in pairs, datagrams, reliable datagrams.
pub(crate) const MSG_KIND: i32 = 1;
pub(crate) const DGRAM: i32 = 2;
pub(crate) const RDM: i32 = 3;
/// In the order of answers: who takes the first that fits wants the last named kind.
pub(crate) const KINDS: [i32; 3] = [RDM, MSG_KIND, DGRAM];
/// Ours alone.
pub(crate) const PROTOCOL: u32 = 1 << 31 | 0x4257;
pub(crate) const PROTOCOL_VERSION: u32 = 1;
pub(crate) const MESSAGE_BYTES: usize = isize::MAX as usize;
pub(crate) const RMA_IOVS: usize = 1;
/// In place of a number of contexts: one that others share (`FI_SHARED_CONTEXT`).
pub(crate) const SHARED_CONTEXT: usize = usize::MAX;
pub(crate) const OBJECTS: usize = 1 << 10;
pub(crate) const REGIONS: usize = 1 << 16;

/// A structure that is there, or not.
///
/// # Safety
/// F2.
unsafe fn of<'a, T>(at: *const T) -> Option<&'a T> {
    // SAFETY: the caller's.
    unsafe { at.as_ref() }
}

fn within(asked: u64, offered: u64) -> bool {
    asked & !offered == 0
}

/// Whether a name is given that is not ours.
///
/// # Safety
/// F2.
unsafe fn is_other(name: *const c_char) -> bool {
    // SAFETY: F2: a string.
    !name.is_null() && unsafe { CStr::from_ptr(name) } != NAME
}

fn tx_fits(a: &TxAttr, kind: i32) -> bool {
    within(a.caps, TX_CAPS & caps_of(kind) | unoffered(kind) | DOMAIN_CAPS)
        && within(a.op_flags, TX_OP_FLAGS)
        && within(a.msg_order, ORDERS)
        && a.comp_order == 0
        && a.inject_size <= INJECT_BYTES
        && a.size <= QUEUE_SIZE
        && a.iov_limit <= PIECES_MAX
        && a.rma_iov_limit <= RMA_IOVS
}

fn rx_fits(a: &RxAttr, kind: i32) -> bool {
    within(a.caps, RX_CAPS & caps_of(kind) | unoffered(kind) & !TRIGGER | DOMAIN_CAPS)
        && within(a.op_flags, RX_OP_FLAGS)
        && within(a.msg_order, ORDERS)
        && a.comp_order == 0
        && a.size <= QUEUE_SIZE
        && a.iov_limit <= PIECES_MAX
}

fn ep_fits(a: &EpAttr, kind: i32, has_prefix: bool) -> bool {
    (a.kind == 0 || a.kind == kind)
        && (a.protocol == 0 || a.protocol == PROTOCOL)
        && a.protocol_version <= PROTOCOL_VERSION
        && a.max_msg_size <= MESSAGE_BYTES
        && a.msg_prefix_size <= if has_prefix { PREFIX_BYTES } else { 0 }
        && [a.max_order_raw_size, a.max_order_war_size, a.max_order_waw_size].iter().all(|n| *n <= ORDERED_BYTES)
        && [a.tx_ctx_cnt, a.rx_ctx_cnt].iter().all(|n| *n <= contexts_of(kind) || *n == SHARED_CONTEXT)
        && a.auth_key_size == 0
}

/// # Safety
/// F2.
unsafe fn domain_fits(a: &DomainAttr, kind: i32) -> bool {
    // SAFETY: the caller's.
    let other = unsafe { is_other(a.name) };
    !other
        && (0..=5).contains(&a.threading)
        && (0..=3).contains(&a.control_progress)
        && (0..=2).contains(&a.data_progress)
        && (0..=2).contains(&a.resource_mgmt)
        && (0..=2).contains(&a.av_type)
        && a.mr_key_size <= 8
        && a.cq_data_size <= 8
        && [a.cq_cnt, a.ep_cnt, a.tx_ctx_cnt, a.rx_ctx_cnt, a.cntr_cnt].iter().all(|n| *n <= OBJECTS)
        && a.max_ep_tx_ctx <= contexts_of(kind)
        && a.max_ep_rx_ctx <= contexts_of(kind)
        && a.max_ep_stx_ctx <= 1
        && a.max_ep_srx_ctx <= 1
        && a.mr_iov_limit <= 1
        && within(a.caps, DOMAIN_CAPS | SHARED_AV)
        && a.auth_key_size == 0
        && a.max_err_data == 0
        && a.mr_cnt <= REGIONS
}

/// # Safety
/// F2.
unsafe fn fabric_fits(a: &FabricAttr) -> bool {
    // SAFETY: the caller's.
    unsafe { !is_other(a.name) && !is_other(a.prov_name) }
}

/// Whether hints ask for nothing that is not offered by this kind of endpoint.
///
/// # Safety
/// F2 for the hints and all that hangs on them.
pub(crate) unsafe fn fit(h: &Info, kind: i32) -> bool {
    // SAFETY: the caller's.
    unsafe {
        within(h.caps, caps_of(kind) | unoffered(kind))
            && Format::of(h.addr_format).is_some()
            && (h.handle.is_null() || (kind == MSG_KIND && handles::name_of(h.handle).is_some()))
            && of(h.tx_attr).is_none_or(|a| tx_fits(a, kind))
            && of(h.rx_attr).is_none_or(|a| rx_fits(a, kind))
            && of(h.ep_attr).is_none_or(|a| ep_fits(a, kind, wants_prefix(h.mode)))
            && of(h.domain_attr).is_none_or(|a| domain_fits(a, kind))
            && of(h.fabric_attr).is_none_or(|a| fabric_fits(a))
    }
}

/// Whether messages are to have prefixes: who says so among other things means it; who says that
/// anything is possible does not.
pub(crate) fn wants_prefix(mode: u64) -> bool {
    mode & MSG_PREFIX != 0 && mode != u64::MAX
}

/// The capabilities of an answer: what was asked for, with what belongs to it when nothing was said
/// of directions.
pub(crate) fn caps_for(asked: u64, kind: i32) -> u64 {
    if asked & PRIMARY == 0 {
        return caps_of(kind) | asked;
    }
    let mut caps = asked | LOCAL_COMM | REMOTE_COMM;
    if asked & (MSG | TAGGED) != 0 && asked & (SEND | RECV) == 0 {
        caps |= SEND | RECV;
    }
    if asked & (RMA | ATOMIC) != 0 && asked & (READ | WRITE | REMOTE_READ | REMOTE_WRITE) == 0 {
        caps |= READ | WRITE | REMOTE_READ | REMOTE_WRITE;
    }
    caps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_of_answers() {
        assert_eq!((caps_for(0, RDM), caps_for(NAMED_RX_CTX, RDM)), (CAPS, CAPS | NAMED_RX_CTX));
        assert_eq!(caps_for(TAGGED, RDM), TAGGED | SEND | RECV | LOCAL_COMM | REMOTE_COMM);
        assert_eq!(caps_for(MSG | RECV | RMA, MSG_KIND), MSG | RECV | RMA | READ | WRITE | REMOTE_READ | REMOTE_WRITE | LOCAL_COMM | REMOTE_COMM);
    }
}
