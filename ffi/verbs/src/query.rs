// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a device tells of itself: its limits, its port, its address and partition.

use crate::abi::{IbvContext, IbvDeviceAttr, IbvGidEntry, IbvPortAttr};
use crate::beside::or_real;
use crate::devices::Own;
use crate::set_errno;
use crate::types::{Context, context};
use bellwire_devices::{Atomics, Device};
use bellwire_verbs::{GROUP_QPS_MAX, GROUPS_MAX, MESSAGE_MAX, WINDOWS_MAX};
use core::ffi::c_int;
use core::mem::offset_of;

/// What `ibv_query_port` tells of the port.
const PORT_DOWN: u32 = 1;
const PORT_ACTIVE: u32 = 4;
const POLLING: u8 = 2;
const LINK_UP: u8 = 5;
const MTU_4096: u32 = 5;
const LINK_LAYER_ETHERNET: u8 = 2;
/// LID of the port: this host, for programs that connect or make address handles without a GID.
pub(crate) const LID: u16 = 1;
/// Connection management, and addresses made of IP addresses.
pub(crate) const PORT_CAPABILITIES: u32 = 1 << 16 | 1 << 26;
/// RoCE v2.
const GID_TYPE: u32 = 2;
/// What a device can do: say that it has no receive; change the length of shared receive queues;
/// memory windows; extended reliable connections.
const RNR_REFUSALS: u32 = 1 << 12;
const SRQ_RESIZE: u32 = 1 << 13;
const MEMORY_WINDOWS: u32 = 1 << 17;
const XRC: u32 = 1 << 20;
/// A window of type 2 belongs to the queue pair that bound it and to its protection domain: that is
/// type 2B. A device has 2A or 2B. The bit of 2A (23) stays clear for old programs, too: perftest
/// of 2018 takes it for contiguous memory, and registers address 0 to be given some.
const WINDOWS_2B: u32 = 1 << 24;

/// The firmware's version: Bellwire's, but for what imitates another.
pub(crate) fn firmware(own: &Own) -> &'static str {
    own.device.model.firmware().unwrap_or(env!("CARGO_PKG_VERSION"))
}

/// The limits.
pub(crate) fn attributes(own: &Own) -> IbvDeviceAttr {
    let (device, limits) = (&own.device, &own.device.limits);
    let (vendor_id, vendor_part_id, hw_ver) = device.model.numbers();
    let small = |n: u64| c_int::try_from(n).unwrap_or(c_int::MAX);
    let mut fw_ver = [0; 64];
    let version = firmware(own).as_bytes();
    fw_ver[..version.len()].copy_from_slice(version);
    IbvDeviceAttr {
        fw_ver,
        node_guid: own.guid().to_be(),
        sys_image_guid: own.guid().to_be(),
        max_mr_size: limits.max_mr_size,
        page_size_cap: !0xfff,
        vendor_id,
        vendor_part_id,
        hw_ver,
        max_qp: small(limits.max_qp),
        max_qp_wr: small(limits.max_qp_wr),
        device_cap_flags: RNR_REFUSALS | SRQ_RESIZE | MEMORY_WINDOWS | WINDOWS_2B | XRC,
        max_sge: small(limits.max_sge),
        max_sge_rd: small(limits.max_sge),
        max_cq: small(limits.max_cq),
        max_cqe: small(limits.max_cqe),
        max_mr: small(limits.max_mr),
        max_pd: small(limits.max_pd),
        max_qp_rd_atom: small(limits.max_qp_rd_atom),
        max_ee_rd_atom: 0,
        max_res_rd_atom: small(limits.max_qp * limits.max_qp_rd_atom),
        max_qp_init_rd_atom: small(limits.max_qp_init_rd_atom),
        max_ee_init_rd_atom: 0,
        atomic_cap: c_int::from(device.atomics != Atomics::None),
        unused: [0, 0, WINDOWS_MAX as c_int, 0, 0],
        max_mcast_grp: GROUPS_MAX as c_int,
        max_mcast_qp_attach: GROUP_QPS_MAX as c_int,
        max_total_mcast_qp_attach: (GROUPS_MAX * GROUP_QPS_MAX) as c_int,
        max_ah: small(limits.max_ah),
        max_fmr: 0,
        max_map_per_fmr: 0,
        max_srq: small(limits.max_srq),
        max_srq_wr: small(limits.max_srq_wr),
        max_srq_sge: small(limits.max_srq_sge),
        max_pkeys: 1,
        local_ca_ack_delay: device.model.acknowledge_delay(),
        phys_port_cnt: 1,
    }
}

/// The limits of a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_device(public: *mut IbvContext, to: *mut IbvDeviceAttr) -> c_int {
    or_real!(public, ibv_query_device(public, to));
    // SAFETY: V1, V2.
    unsafe { to.write(attributes(context(public).own)) };
    0
}

fn port_attributes(device: &Device, is_up: bool) -> IbvPortAttr {
    IbvPortAttr {
        state: if is_up { PORT_ACTIVE } else { PORT_DOWN },
        max_mtu: MTU_4096,
        active_mtu: device.mtu_code(),
        gid_tbl_len: device.gids.into(),
        port_cap_flags: PORT_CAPABILITIES,
        max_msg_sz: MESSAGE_MAX as u32,
        pkey_tbl_len: 1,
        lid: LID,
        max_vl_num: 1,
        active_width: device.rate.width,
        active_speed: device.rate.speed,
        phys_state: if is_up { LINK_UP } else { POLLING },
        link_layer: LINK_LAYER_ETHERNET,
        ..IbvPortAttr::default()
    }
}

pub(crate) unsafe extern "C" fn query_port(public: *mut IbvContext, port: u8, to: *mut IbvPortAttr, room: usize) -> c_int {
    if port != 1 {
        return libc::EINVAL;
    }
    // SAFETY: V1.
    let inner = unsafe { context(public) };
    let attributes = port_attributes(&inner.own.device, inner.port.is_up());
    // SAFETY: V2: `room` bytes.
    unsafe {
        to.cast::<u8>().write_bytes(0, room);
        core::ptr::from_ref(&attributes).cast::<u8>().copy_to_nonoverlapping(to.cast(), room.min(size_of::<IbvPortAttr>()));
    }
    0
}

/// The port as older programs ask: without what came later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port(context: *mut IbvContext, port: u8, to: *mut IbvPortAttr) -> c_int {
    or_real!(context, ibv_query_port(context, port, to));
    // SAFETY: V2: older structures end behind `flags`.
    unsafe { query_port(context, port, to, offset_of!(IbvPortAttr, port_cap_flags2)) }
}

/// An address of the port.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_gid(public: *mut IbvContext, port: u8, index: c_int, to: *mut [u8; 16]) -> c_int {
    or_real!(public, ibv_query_gid(public, port, index, to));
    // SAFETY: V1.
    let inner = unsafe { context(public) };
    if port != 1 || !(0..c_int::from(inner.own.device.gids)).contains(&index) {
        set_errno(libc::EINVAL);
        return -1;
    }
    // SAFETY: V2.
    unsafe { to.write(inner.port.gid()) };
    0
}

/// The kind of an address, as a private symbol of libibverbs tells `ibv_devinfo`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_gid_type(context: *mut IbvContext, port: u8, index: u32, to: *mut u32) -> c_int {
    or_real!(context, ibv_query_gid_type(context, port, index, to));
    // SAFETY: V2. Here the numbers begin with RoCE v1 (or InfiniBand).
    unsafe { to.write(1) };
    0
}

fn gid_entry(inner: &Context, index: u32) -> IbvGidEntry {
    let gid = inner.port.gid();
    let half = |at: usize| u64::from_ne_bytes(gid[at..at + 8].try_into().unwrap_or_default());
    IbvGidEntry { gid: [half(0), half(8)], gid_index: index, port_num: 1, gid_type: GID_TYPE, ndev_ifindex: inner.own.interface.as_ref().map_or(0, |i| i.1) }
}

/// An address with what is known of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_ex(public: *mut IbvContext, port: u32, index: u32, to: *mut IbvGidEntry, flags: u32, size: usize) -> c_int {
    or_real!(public, _ibv_query_gid_ex(public, port, index, to, flags, size));
    if port != 1 || flags != 0 || size < size_of::<IbvGidEntry>() {
        return libc::EINVAL;
    }
    // SAFETY: V1.
    let inner = unsafe { context(public) };
    if index >= inner.own.device.gids.into() {
        return libc::ENODATA;
    }
    // SAFETY: V2.
    unsafe { to.write(gid_entry(inner, index)) };
    0
}

/// All addresses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_table(public: *mut IbvContext, to: *mut IbvGidEntry, room: usize, flags: u32, size: usize) -> isize {
    or_real!(public, _ibv_query_gid_table(public, to, room, flags, size));
    if flags != 0 || size < size_of::<IbvGidEntry>() {
        return -(libc::EINVAL as isize);
    }
    // SAFETY: V1.
    let inner = unsafe { context(public) };
    let gids = inner.own.device.gids;
    if room < gids.into() {
        return -(libc::EINVAL as isize);
    }
    for index in 0..gids {
        // SAFETY: V2: `room` entries.
        unsafe { to.add(index.into()).write(gid_entry(inner, index.into())) };
    }
    gids.into()
}

/// The partition: there is only the default one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_pkey(context: *mut IbvContext, port: u8, index: c_int, to: *mut u16) -> c_int {
    or_real!(context, ibv_query_pkey(context, port, index, to));
    if port != 1 || index != 0 {
        set_errno(libc::EINVAL);
        return -1;
    }
    // SAFETY: V2.
    unsafe { to.write(0xffff) };
    0
}

/// Where the partition is in the table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_pkey_index(context: *mut IbvContext, port: u8, pkey: u16) -> c_int {
    or_real!(context, ibv_get_pkey_index(context, port, pkey));
    if pkey == 0xffff { 0 } else { -1 }
}
