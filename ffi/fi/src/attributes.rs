// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_info` and what hangs on it, as far as libfabric 1.17 has it. Newer libfabrics have
//! added fields at the ends: what we allocate has room for them, zeroed, and what we are given is
//! read only as far as this goes. The host frees what we allocate, by `free`.

use crate::abi::Fid;
use core::ffi::{c_char, c_int, c_void};

/// Zeroed bytes behind each structure, for fields that newer hosts know.
const ROOM: usize = 512;

/// `struct fi_tx_attr`.
#[repr(C)]
pub(crate) struct TxAttr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub inject_size: usize,
    pub size: usize,
    pub iov_limit: usize,
    pub rma_iov_limit: usize,
    pub tclass: u32,
}

/// `struct fi_rx_attr`.
#[repr(C)]
pub(crate) struct RxAttr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub total_buffered_recv: usize,
    pub size: usize,
    pub iov_limit: usize,
}

/// `struct fi_ep_attr`.
#[repr(C)]
pub(crate) struct EpAttr {
    pub kind: c_int,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: usize,
    pub msg_prefix_size: usize,
    pub max_order_raw_size: usize,
    pub max_order_war_size: usize,
    pub max_order_waw_size: usize,
    pub mem_tag_format: u64,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub auth_key_size: usize,
    pub auth_key: *mut u8,
}

/// `struct fi_domain_attr`.
#[repr(C)]
pub(crate) struct DomainAttr {
    pub domain: *mut c_void,
    pub name: *mut c_char,
    pub threading: c_int,
    pub control_progress: c_int,
    pub data_progress: c_int,
    pub resource_mgmt: c_int,
    pub av_type: c_int,
    pub mr_mode: c_int,
    pub mr_key_size: usize,
    pub cq_data_size: usize,
    pub cq_cnt: usize,
    pub ep_cnt: usize,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub max_ep_tx_ctx: usize,
    pub max_ep_rx_ctx: usize,
    pub max_ep_stx_ctx: usize,
    pub max_ep_srx_ctx: usize,
    pub cntr_cnt: usize,
    pub mr_iov_limit: usize,
    pub caps: u64,
    pub mode: u64,
    pub auth_key: *mut u8,
    pub auth_key_size: usize,
    pub max_err_data: usize,
    pub mr_cnt: usize,
    pub tclass: u32,
}

/// `struct fi_fabric_attr`.
#[repr(C)]
pub(crate) struct FabricAttr {
    pub fabric: *mut c_void,
    pub name: *mut c_char,
    pub prov_name: *mut c_char,
    pub prov_version: u32,
    pub api_version: u32,
}

/// `struct fi_info`.
#[repr(C)]
pub(crate) struct Info {
    pub next: *mut Info,
    pub caps: u64,
    pub mode: u64,
    pub addr_format: u32,
    pub src_addrlen: usize,
    pub dest_addrlen: usize,
    pub src_addr: *mut c_void,
    pub dest_addr: *mut c_void,
    pub handle: *mut Fid,
    pub tx_attr: *mut TxAttr,
    pub rx_attr: *mut RxAttr,
    pub ep_attr: *mut EpAttr,
    pub domain_attr: *mut DomainAttr,
    pub fabric_attr: *mut FabricAttr,
    pub nic: *mut c_void,
}

const _: () = assert!(size_of::<TxAttr>() == 80 && size_of::<RxAttr>() == 64 && size_of::<EpAttr>() == 96);
const _: () = assert!(size_of::<DomainAttr>() == 192 && size_of::<FabricAttr>() == 32 && size_of::<Info>() == 120);

/// Zeroed memory for a structure, the host's to free; NULL if there is none.
pub(crate) fn allocate<T>() -> *mut T {
    // SAFETY: any sizes.
    unsafe { libc::calloc(1, size_of::<T>() + ROOM) }.cast()
}

/// A copy of bytes, the host's to free; NULL if there is no memory.
pub(crate) fn copy_bytes(of: &[u8]) -> *mut c_void {
    // SAFETY: any sizes; the copy is within what was allocated.
    unsafe {
        let copy = libc::calloc(1, of.len().max(1));
        if !copy.is_null() {
            core::ptr::copy_nonoverlapping(of.as_ptr(), copy.cast(), of.len());
        }
        copy
    }
}
