// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_getinfo`: one answer, with what was asked for, or none.

use crate::abi::{Outcome, control, error};
use crate::address;
use crate::attributes::{DomainAttr, EpAttr, FabricAttr, Info, RxAttr, TxAttr, allocate, copy_bytes};
use crate::flags::*;
use crate::hints::{
    self, ADDR_FORMAT, CAPS, INJECT_BYTES, MESSAGE_BYTES, OBJECTS, ORDERED_BYTES, ORDERS, PROTOCOL, PROTOCOL_VERSION, QUEUE_SIZE, RDM, REGIONS, RMA_IOVS,
};
use crate::host::{NAME, VERSION};
use bellwire_tag::{NAME_BYTES, PIECES_MAX};
use core::ffi::{c_char, c_int, c_void};

/// The version of the interface before which memory registration had two modes and no others.
const MODE_BITS_SINCE: u32 = 1 << 16 | 5;
const PROGRESS_MANUAL: c_int = 2;
const THREAD_SAFE: c_int = 1;
const RM_ENABLED: c_int = 2;
const AV_TABLE: c_int = 2;
/// All bits of a tag are the program's, in two fields.
const TAG_FORMAT: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// The provider's `getinfo`.
///
/// # Safety
/// F2.
pub(crate) unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    asked: *const Info,
    to: *mut *mut Info,
) -> c_int {
    control(|| {
        if to.is_null() {
            return Err(error::EINVAL);
        }
        // SAFETY: F2.
        let asked = unsafe { asked.as_ref() };
        // SAFETY: F2.
        if asked.is_some_and(|asked| !unsafe { hints::fit(asked) }) {
            return Err(error::ENODATA);
        }
        // The addresses are ours, or who asks has them from us. On which of its addresses a host is found the environment says, not the node of a source.
        let given = |at: *mut c_void| (!at.is_null()).then(|| at.cast::<[u8; NAME_BYTES]>());
        let is_source = flags & FROM_SOURCE != 0;
        // SAFETY: F2; `fit` has looked at the addresses' lengths.
        let (source, destination) = unsafe {
            let source = match asked.and_then(|a| given(a.src_addr)).filter(|_| !is_source) {
                Some(name) => *name,
                None => address::source(if is_source { service } else { core::ptr::null() })?.to_bytes(),
            };
            let is_named = !(is_source || node.is_null() && service.is_null());
            let destination =
                if is_named { Some(address::destination(node, service)?.to_bytes()) } else { asked.and_then(|a| given(a.dest_addr)).map(|name| *name) };
            (source, destination)
        };
        let answer = answer(asked)?;
        // SAFETY: just made; F2.
        unsafe {
            let domain = &mut *(*answer).domain_attr;
            if version < MODE_BITS_SINCE && domain.mr_mode == 0 {
                domain.mr_mode = MR_SCALABLE;
            }
            ((*answer).src_addr, (*answer).src_addrlen) = (copy_bytes(&source), NAME_BYTES);
            if let Some(destination) = destination {
                ((*answer).dest_addr, (*answer).dest_addrlen) = (copy_bytes(&destination), NAME_BYTES);
            }
            *to = answer;
        }
        Ok(())
    })
}

/// Memory of the host for one structure.
fn part<'a, T>() -> Outcome<&'a mut T> {
    // SAFETY: zeroed memory is a value of each of these structures, and nobody else has it.
    unsafe { allocate::<T>().as_mut() }.ok_or(error::ENOMEM)
}

/// What a field of the hints says, if there are hints, that part of them, and something in it.
macro_rules! said {
    ($asked:expr, $part:ident . $field:ident, $usual:expr) => {
        // SAFETY: F2 for the hints.
        match $asked.and_then(|a| unsafe { a.$part.as_ref() }).map(|p| p.$field) {
            Some(value) if value != 0 => value,
            _ => $usual,
        }
    };
}

/// The answer. What is left of a failure for want of memory is not given back.
fn answer(asked: Option<&Info>) -> Outcome<*mut Info> {
    let info = part::<Info>()?;
    info.caps = asked.map_or(CAPS, |a| hints::caps_for(a.caps));
    info.addr_format = ADDR_FORMAT;
    info.tx_attr = tx(asked, info.caps)?;
    info.rx_attr = rx(asked, info.caps)?;
    info.ep_attr = ep()?;
    info.domain_attr = domain(asked)?;
    let fabric = part::<FabricAttr>()?;
    // The provider's name is for the host to fill in: it would put its own before ours.
    fabric.name = copy_bytes(NAME.to_bytes_with_nul()).cast();
    fabric.prov_version = VERSION;
    info.fabric_attr = fabric;
    Ok(info)
}

fn tx(asked: Option<&Info>, caps: u64) -> Outcome<*mut TxAttr> {
    let a = part::<TxAttr>()?;
    a.caps = said!(asked, tx_attr.caps, caps & hints::TX_CAPS & !hints::DOMAIN_CAPS);
    a.op_flags = said!(asked, tx_attr.op_flags, 0);
    a.msg_order = ORDERS;
    a.inject_size = INJECT_BYTES;
    a.size = QUEUE_SIZE;
    a.iov_limit = PIECES_MAX;
    a.rma_iov_limit = RMA_IOVS;
    Ok(a)
}

fn rx(asked: Option<&Info>, caps: u64) -> Outcome<*mut RxAttr> {
    let a = part::<RxAttr>()?;
    a.caps = said!(asked, rx_attr.caps, caps & hints::RX_CAPS & !hints::DOMAIN_CAPS);
    a.op_flags = said!(asked, rx_attr.op_flags, 0);
    a.msg_order = ORDERS;
    a.total_buffered_recv = bellwire_tag::UNEXPECTED_BYTES_MAX;
    a.size = QUEUE_SIZE;
    a.iov_limit = PIECES_MAX;
    Ok(a)
}

fn ep() -> Outcome<*mut EpAttr> {
    let a = part::<EpAttr>()?;
    (a.kind, a.protocol, a.protocol_version) = (RDM, PROTOCOL, PROTOCOL_VERSION);
    a.max_msg_size = MESSAGE_BYTES;
    (a.max_order_raw_size, a.max_order_war_size, a.max_order_waw_size) = (ORDERED_BYTES, ORDERED_BYTES, ORDERED_BYTES);
    a.mem_tag_format = TAG_FORMAT;
    (a.tx_ctx_cnt, a.rx_ctx_cnt) = (1, 1);
    Ok(a)
}

fn domain(asked: Option<&Info>) -> Outcome<*mut DomainAttr> {
    let a = part::<DomainAttr>()?;
    a.name = copy_bytes(NAME.to_bytes_with_nul()).cast();
    a.threading = said!(asked, domain_attr.threading, THREAD_SAFE);
    a.control_progress = said!(asked, domain_attr.control_progress, PROGRESS_MANUAL);
    a.data_progress = said!(asked, domain_attr.data_progress, PROGRESS_MANUAL);
    a.resource_mgmt = said!(asked, domain_attr.resource_mgmt, RM_ENABLED);
    a.av_type = said!(asked, domain_attr.av_type, AV_TABLE);
    // No mode is needed of the program; the two old names are modes of their own.
    let mode = said!(asked, domain_attr.mr_mode, 0);
    a.mr_mode = if mode == MR_BASIC || mode == MR_SCALABLE { mode } else { 0 };
    (a.mr_key_size, a.cq_data_size) = (8, 8);
    (a.cq_cnt, a.ep_cnt, a.cntr_cnt, a.tx_ctx_cnt, a.rx_ctx_cnt) = (OBJECTS, OBJECTS, OBJECTS, OBJECTS, OBJECTS);
    (a.max_ep_tx_ctx, a.max_ep_rx_ctx) = (1, 1);
    a.mr_iov_limit = 1;
    a.caps = hints::DOMAIN_CAPS;
    a.mr_cnt = REGIONS;
    Ok(a)
}
