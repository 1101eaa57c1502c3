// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conversions between the kernel's shapes and those of the public headers, which librdmacm asks of
//! libibverbs.

use crate::abi::{IbvAhAttr, IbvQpAttr, IbvQpCap};
use bellwire_cm_device::QP_ATTRIBUTES;

/// `struct ib_uverbs_ah_attr`.
const AH: usize = 32;
/// Paths: `struct ib_user_path_rec`, `struct ibv_sa_path_rec`.
const PATH: usize = 64;

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_ne_bytes)
}

fn address_handle(bytes: &[u8]) -> IbvAhAttr {
    let double = |at: usize| bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes);
    IbvAhAttr {
        dgid: [double(0), double(8)],
        flow_label: word(bytes, 16),
        sgid_index: bytes[20],
        hop_limit: bytes[21],
        traffic_class: bytes[22],
        dlid: half(bytes, 24),
        sl: bytes[26],
        src_path_bits: bytes[27],
        static_rate: bytes[28],
        is_global: bytes[29],
        port_num: bytes[30],
        ..IbvAhAttr::default()
    }
}

/// Attributes of an address handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_copy_ah_attr_from_kern(to: *mut IbvAhAttr, from: *const [u8; AH]) {
    // SAFETY: V2.
    unsafe { to.write(address_handle(&*from)) };
}

/// Attributes of a queue pair. The state to move to is the program's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_copy_qp_attr_from_kern(to: *mut IbvQpAttr, from: *const [u8; QP_ATTRIBUTES]) {
    // SAFETY: V2.
    let (to, from) = unsafe { (&mut *to, &*from) };
    *to = IbvQpAttr {
        qp_state: to.qp_state,
        cur_qp_state: word(from, 8),
        path_mtu: word(from, 12),
        path_mig_state: word(from, 16),
        qkey: word(from, 20),
        rq_psn: word(from, 24),
        sq_psn: word(from, 28),
        dest_qp_num: word(from, 32),
        qp_access_flags: word(from, 36),
        ah_attr: address_handle(&from[40..72]),
        alt_ah_attr: address_handle(&from[72..104]),
        cap: IbvQpCap {
            max_send_wr: word(from, 104),
            max_recv_wr: word(from, 108),
            max_send_sge: word(from, 112),
            max_recv_sge: word(from, 116),
            max_inline_data: word(from, 120),
        },
        pkey_index: half(from, 124),
        alt_pkey_index: half(from, 126),
        en_sqd_async_notify: from[128],
        sq_draining: from[129],
        max_rd_atomic: from[130],
        max_dest_rd_atomic: from[131],
        min_rnr_timer: from[132],
        port_num: from[133],
        timeout: from[134],
        retry_cnt: from[135],
        rnr_retry: from[136],
        alt_port_num: from[137],
        alt_timeout: from[138],
        rate_limit: to.rate_limit,
    };
}

/// Where the bytes of a path lie: at the kernel's, at the header's, how many. Words of the kernel's
/// are bytes of the header's in two places.
const FIELDS: [(usize, usize, usize); 15] = [
    (0, 0, 36),
    (36, 36, 4),
    (40, 40, 4),
    (44, 48, 4),
    (52, 54, 2),
    (54, 44, 1),
    (55, 45, 1),
    (56, 52, 1),
    (57, 56, 1),
    (58, 57, 1),
    (59, 59, 1),
    (60, 60, 1),
    (61, 61, 1),
    (62, 62, 1),
    (63, 63, 1),
];

/// A path.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_copy_path_rec_from_kern(to: *mut [u8; PATH], from: *const [u8; PATH]) {
    // SAFETY: V2.
    let from = unsafe { *from };
    let mut path = [0; PATH];
    for (kernel, header, n) in FIELDS {
        path[header..header + n].copy_from_slice(&from[kernel..kernel + n]);
    }
    // The MTU is a word there.
    path[58] = word(&from, 48) as u8;
    // SAFETY: V2.
    unsafe { to.write(path) };
}

/// A path, the other way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_copy_path_rec_to_kern(to: *mut [u8; PATH], from: *const [u8; PATH]) {
    // SAFETY: V2.
    let from = unsafe { *from };
    let mut path = [0; PATH];
    for (kernel, header, n) in FIELDS {
        path[kernel..kernel + n].copy_from_slice(&from[header..header + n]);
    }
    path[48..52].copy_from_slice(&u32::from(from[58]).to_ne_bytes());
    // SAFETY: V2.
    unsafe { to.write(path) };
}
