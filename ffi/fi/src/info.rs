// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_getinfo`: an answer for each kind of endpoint that has what was asked for, or none.

use crate::abi::{Outcome, control, error};
use crate::attributes::{DomainAttr, EpAttr, FabricAttr, Info, RxAttr, TxAttr, allocate, copy_bytes};
use crate::flags::*;
use crate::format::Format;
use crate::handles;
use crate::hints::{self, MESSAGE_BYTES, OBJECTS, ORDERED_BYTES, ORDERS, PROTOCOL, PROTOCOL_VERSION, REGIONS, RMA_IOVS};
use crate::limits::{INJECT_BYTES, NAME, PREFIX_BYTES, QUEUE_SIZE, VERSION};
use crate::names::{self, Ends};
use bellwire_tag::{Name, PIECES_MAX};
use core::ffi::{c_char, c_int};

const PROGRESS_MANUAL: c_int = 2;
const THREAD_SAFE: c_int = 1;
/// libfabric's own: whoever asks is a provider (`OFI_CORE_PROV_ONLY`).
const FOR_LAYERS: u64 = 1 << 59;
/// `FI_VERSION(1, 5)`.
const FIRST_WITH_MODES: u32 = 1 << 16 | 5;
const RM_ENABLED: c_int = 2;
const AV_MAP: c_int = 1;
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
        // A provider that wants to be put on top of others asks with this flag: reliable datagrams
        // are there without it.
        let kinds = if flags & FOR_LAYERS != 0 { &hints::KINDS[..1] } else { &hints::KINDS[..] };
        // SAFETY: F2.
        let fitting: Vec<i32> = kinds.iter().copied().filter(|kind| asked.is_none_or(|asked| unsafe { hints::fit(asked, *kind) })).collect();
        if fitting.is_empty() {
            return Err(error::ENODATA);
        }
        // SAFETY: F2.
        let mut ends = unsafe { names::ends(node, service, flags, asked) }?;
        let handle = asked.map_or(core::ptr::null_mut(), |asked| asked.handle);
        // The endpoint is to take over the name of one that waits for requests.
        ends.source = handles::name_of(handle).or(ends.source);
        // Programs of the first interfaces leave the mode open, and take one of the two that there
        // were.
        let is_old = version < FIRST_WITH_MODES;
        let mut first = core::ptr::null_mut();
        for kind in fitting.into_iter().rev() {
            let info = answer(asked, &ends, is_old, kind)?;
            // SAFETY: just made.
            unsafe { ((*info).next, (*info).handle) = (first, handle) };
            first = info;
        }
        // SAFETY: F2.
        unsafe { *to = first };
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
fn answer(asked: Option<&Info>, ends: &Ends, is_old: bool, kind: c_int) -> Outcome<*mut Info> {
    let info = part::<Info>()?;
    info.caps = hints::caps_for(asked.map_or(0, |a| a.caps), kind);
    let format = Format::of_answer(asked.map_or(0, |a| a.addr_format));
    info.addr_format = format.number();
    for (name, address, length) in [(ends.source, &mut info.src_addr, &mut info.src_addrlen), (ends.destination, &mut info.dest_addr, &mut info.dest_addrlen)] {
        if let Some(name) = name {
            *address = copy_bytes(format.write(&name).as_bytes());
            *length = format.bytes();
        }
    }
    info.tx_attr = tx(asked, info.caps)?;
    info.rx_attr = rx(asked, info.caps)?;
    info.ep_attr = ep(asked, kind)?;
    info.domain_attr = domain(asked, is_old, kind)?;
    if hints::wants_prefix(asked.map_or(0, |a| a.mode)) {
        info.mode = MSG_PREFIX;
        // SAFETY: just made.
        unsafe { ((*info.tx_attr).mode, (*info.rx_attr).mode, (*info.ep_attr).msg_prefix_size) = (MSG_PREFIX, MSG_PREFIX, PREFIX_BYTES) };
    }
    let fabric = part::<FabricAttr>()?;
    // The provider's name is for the host to fill in: it would put its own before ours.
    fabric.name = copy_bytes(NAME.to_bytes_with_nul()).cast();
    fabric.prov_version = VERSION;
    info.fabric_attr = fabric;
    Ok(info)
}

fn tx(asked: Option<&Info>, caps: u64) -> Outcome<*mut TxAttr> {
    let a = part::<TxAttr>()?;
    a.caps = said!(asked, tx_attr.caps, caps & (hints::TX_CAPS | NAMED_RX_CTX));
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
    a.caps = said!(asked, rx_attr.caps, caps & hints::RX_CAPS);
    a.op_flags = said!(asked, rx_attr.op_flags, 0);
    a.msg_order = ORDERS;
    a.total_buffered_recv = bellwire_tag::UNEXPECTED_BYTES_MAX;
    a.size = QUEUE_SIZE;
    a.iov_limit = PIECES_MAX;
    Ok(a)
}

fn ep(asked: Option<&Info>, kind: c_int) -> Outcome<*mut EpAttr> {
    let a = part::<EpAttr>()?;
    (a.kind, a.protocol, a.protocol_version) = (kind, PROTOCOL, PROTOCOL_VERSION);
    a.max_msg_size = MESSAGE_BYTES;
    (a.max_order_raw_size, a.max_order_war_size, a.max_order_waw_size) = (ORDERED_BYTES, ORDERED_BYTES, ORDERED_BYTES);
    a.mem_tag_format = TAG_FORMAT;
    (a.tx_ctx_cnt, a.rx_ctx_cnt) = (said!(asked, ep_attr.tx_ctx_cnt, 1), said!(asked, ep_attr.rx_ctx_cnt, 1));
    Ok(a)
}

fn domain(asked: Option<&Info>, is_old: bool, kind: c_int) -> Outcome<*mut DomainAttr> {
    let a = part::<DomainAttr>()?;
    a.name = copy_bytes(NAME.to_bytes_with_nul()).cast();
    a.threading = said!(asked, domain_attr.threading, THREAD_SAFE);
    a.control_progress = said!(asked, domain_attr.control_progress, PROGRESS_MANUAL);
    a.data_progress = said!(asked, domain_attr.data_progress, PROGRESS_MANUAL);
    a.resource_mgmt = said!(asked, domain_attr.resource_mgmt, RM_ENABLED);
    // Numbers are what `fi_av_insert` gives, whatever the type: who leaves it open may read them
    // there.
    a.av_type = said!(asked, domain_attr.av_type, if asked.is_some() { AV_MAP } else { AV_TABLE });
    // No mode is needed of the program; the two old names are modes of their own.
    let mode = said!(asked, domain_attr.mr_mode, 0);
    a.mr_mode = match mode {
        MR_BASIC | MR_SCALABLE => mode,
        0 if is_old => MR_SCALABLE,
        _ => 0,
    };
    (a.mr_key_size, a.cq_data_size) = (8, 8);
    (a.cq_cnt, a.ep_cnt, a.cntr_cnt, a.tx_ctx_cnt, a.rx_ctx_cnt) = (OBJECTS, OBJECTS, OBJECTS, OBJECTS, OBJECTS);
    (a.max_ep_tx_ctx, a.max_ep_rx_ctx) = (hints::contexts_of(kind), hints::contexts_of(kind));
    (a.max_ep_stx_ctx, a.max_ep_srx_ctx) = (1, 1);
    a.mr_iov_limit = 1;
    a.caps = hints::DOMAIN_CAPS | SHARED_AV & (said!(asked, domain_attr.caps, 0) | asked.map_or(0, |a| a.caps));
    a.mr_cnt = REGIONS;
    Ok(a)
}

/// Information of ours, which nobody else frees.
pub(crate) struct Owned(*mut Info);

// SAFETY: read only, until it is dropped.
unsafe impl Send for Owned {}
// SAFETY: read only, until it is dropped.
unsafe impl Sync for Owned {}

impl Owned {
    /// As this, which is of an endpoint that waits for requests and has this name.
    pub(crate) fn like(info: &Info, name: Name) -> Outcome<Self> {
        // What its requests' endpoints are like says nothing of the one that waits.
        let handle = core::ptr::null_mut();
        answer(Some(&Info { handle, ..*info }), &Ends { source: Some(name), destination: None }, false, hints::MSG_KIND).map(Self)
    }

    pub(crate) fn as_info(&self) -> &Info {
        // SAFETY: made by `answer`, and nobody changes it.
        unsafe { &*self.0 }
    }

    /// The same, the caller's, with a peer.
    pub(crate) fn copy_for(&self, peer: Name) -> Outcome<*mut Info> {
        // SAFETY: made by `answer`.
        let like = unsafe { &*self.0 };
        // SAFETY: made by `answer`, whose pointers are NULL or name what it allocated with it.
        let source = unsafe { names::source_of(like) };
        let info = answer(Some(like), &Ends { source, destination: Some(peer) }, false, hints::MSG_KIND)?;
        // The host does not see this one, so it fills nothing in.
        // SAFETY: just made.
        unsafe { (*(*info).fabric_attr).prov_name = copy_bytes(NAME.to_bytes_with_nul()).cast() };
        Ok(info)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        free(self.0);
    }
}

/// Frees what [`answer`] has made.
pub(crate) fn free(info: *mut Info) {
    // SAFETY: made by `answer`: all of it by `calloc`, or NULL.
    unsafe {
        let i = &*info;
        for text in [(*i.domain_attr).name, (*i.fabric_attr).name, (*i.fabric_attr).prov_name] {
            libc::free(text.cast());
        }
        for part in [i.src_addr, i.dest_addr, i.tx_attr.cast(), i.rx_attr.cast(), i.ep_attr.cast(), i.domain_attr.cast(), i.fabric_attr.cast(), info.cast()] {
            libc::free(part);
        }
    }
}
