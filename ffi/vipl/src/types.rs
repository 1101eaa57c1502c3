// SPDX-License-Identifier: MIT OR Apache-2.0
//! The structures of `vipl.h` and `viplx.h`, with their sizes and offsets on a machine with 64-bit
//! pointers, and the constants that the code needs.

use core::ffi::{c_char, c_int, c_ulong, c_ushort, c_void};
use core::mem::offset_of;

/// A handle as C passes it.
pub(crate) type VipHandle = *mut c_void;
pub(crate) type VipUlong = c_ulong;
pub(crate) type VipBoolean = c_int;

pub(crate) const VIP_TRUE: VipBoolean = 1;
pub(crate) const VIP_FALSE: VipBoolean = 0;
pub(crate) const VIP_INFINITE: VipUlong = 0xFFFF_FFFF;
pub(crate) const VIP_SMI_AUTODISCOVERY: VipUlong = 1;

pub(crate) const VIP_RESOURCE_NIC: c_int = 0;
pub(crate) const VIP_RESOURCE_VI: c_int = 1;
pub(crate) const VIP_RESOURCE_CQ: c_int = 2;

pub(crate) const VIPX_WIRE_LOOPBACK: u32 = 1;
pub(crate) const VIPX_WIRE_SHM: u32 = 2;
pub(crate) const VIPX_WIRE_UDP: u32 = 3;
pub(crate) const VIPX_REASON_SAME_HOST: u32 = 1;
pub(crate) const VIPX_REASON_OTHER_HOST: u32 = 2;
pub(crate) const VIPX_REASON_SHM_OFF: u32 = 3;
pub(crate) const VIPX_MEMORY_TRUST: u32 = 1;
pub(crate) const VIPX_MEMORY_STRICT: u32 = 2;
pub(crate) const VIPX_MODE_MAPPED: u32 = 1;
pub(crate) const VIPX_MODE_GUARDED: u32 = 2;
pub(crate) const VIPX_MEM_FOREIGN: u32 = 0;
pub(crate) const VIPX_MEM_ENGINE: u32 = 1;
pub(crate) const VIPX_VI_RNR_WAIT: u32 = 1;
pub(crate) const VIPX_SEND_IMMEDIATE: u32 = 1;
pub(crate) const VIPX_SEND_UNSIGNALLED: u32 = 2;

/// `VIP_DESCRIPTOR`, which only the engine looks into.
#[repr(C, align(64))]
pub(crate) struct VipDescriptor {
    opaque: [u8; 64],
}

/// `VIP_NET_ADDRESS`: the lengths; host address and discriminator follow.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct VipNetAddress {
    pub host_address_len: u16,
    pub discriminator_len: u16,
    pub host_address: [u8; 4],
}

/// `VIP_NIC_ATTRIBUTES`.
#[repr(C)]
pub(crate) struct VipNicAttributes {
    pub name: [c_char; 64],
    pub hardware_version: c_ulong,
    pub provider_version: c_ulong,
    pub nic_address_len: u16,
    pub local_nic_address: *const u8,
    pub thread_safe: VipBoolean,
    pub max_discriminator_len: u16,
    pub max_register_bytes: c_ulong,
    pub max_register_regions: c_ulong,
    pub max_register_block_bytes: c_ulong,
    pub max_vi: c_ulong,
    pub max_descriptors_per_queue: c_ulong,
    pub max_segments_per_desc: c_ulong,
    pub max_cq: c_ulong,
    pub max_cq_entries: c_ulong,
    pub max_transfer_size: c_ulong,
    pub native_mtu: c_ulong,
    pub max_ptags: c_ulong,
    pub reliability_level_support: c_ushort,
    pub rdma_read_support: c_ushort,
}

/// `VIP_VI_ATTRIBUTES`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct VipViAttributes {
    pub reliability_level: c_ushort,
    pub max_transfer_size: c_ulong,
    pub qos: *mut c_void,
    pub ptag: VipHandle,
    pub enable_rdma_write: VipBoolean,
    pub enable_rdma_read: VipBoolean,
}

/// `VIP_MEM_ATTRIBUTES`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct VipMemAttributes {
    pub ptag: VipHandle,
    pub enable_rdma_write: VipBoolean,
    pub enable_rdma_read: VipBoolean,
}

/// `VIP_ERROR_DESCRIPTOR`.
#[repr(C)]
pub(crate) struct VipErrorDescriptor {
    pub nic: VipHandle,
    pub vi: VipHandle,
    pub cq: VipHandle,
    pub descriptor: *mut VipDescriptor,
    pub op_code: c_ulong,
    pub resource_code: c_int,
    pub error_code: c_int,
}

/// `VIP_AUTODISCOVERY_LIST`.
#[repr(C)]
pub(crate) struct VipAutodiscoveryList {
    pub number_of_hops: c_ulong,
    pub addresses: *mut *mut VipNetAddress,
    pub address_count: c_ulong,
}

/// `VIPX_VI_INFO`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct VipxViInfo {
    pub size: u32,
    pub wire: u32,
    pub mode: u32,
    pub peer_pid: u32,
    pub inline_bytes_max: u32,
    pub link_id: u32,
    pub messages_sent: u64,
    pub messages_received: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub direct_count: u64,
    pub frame_count: u64,
    pub attach_count: u64,
    pub attach: u32,
    pub reserved: u32,
}

/// `VIPX_LINK_INFO`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct VipxLinkInfo {
    pub size: u32,
    pub wire: u32,
    pub reason: u32,
    pub link_id: u32,
    pub address: [u8; 16],
    pub address_len: u16,
    pub port: u16,
    pub scope_id: u32,
    pub datagram_bytes: u32,
    pub window: u32,
    pub in_flight: u32,
    pub reserved: u32,
    pub rtt_ns: u64,
    pub rtt_deviation_ns: u64,
    pub rtt_min_ns: u64,
    pub packets_sent: u64,
    pub packets_received: u64,
    pub packets_resent: u64,
    pub packets_lost: u64,
}

/// `VIPX_CAUSE_INFO`.
#[repr(C)]
pub(crate) struct VipxCauseInfo {
    pub size: u32,
    pub cause: u32,
    pub by: u32,
    pub reserved: u32,
    pub text: [u8; 112],
}

/// `VIPX_MEM_INFO`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct VipxMemInfo {
    pub size: u32,
    pub origin: u32,
    pub shareable: u32,
    pub peer_count: u32,
}

/// `VIPX_NIC_INFO`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct VipxNicInfo {
    pub size: u32,
    pub mode: u32,
    pub link_count: u32,
    pub vi_count: u32,
    pub region_count: u32,
    pub inline_bytes_max: u32,
    pub registered_bytes: u64,
    pub allocated_bytes: u64,
    pub memory: u32,
    pub reserved: u32,
}

/// `VIPX_CACHE_INFO`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct VipxCacheInfo {
    pub size: u32,
    pub reserved: u32,
    pub regions: u64,
    pub unused: u64,
    pub bytes: u64,
    pub watched_bytes: u64,
    pub hits: u64,
    pub misses: u64,
    pub checks: u64,
    pub evictions: u64,
    pub unmapped: u64,
    pub uncached: u64,
}

/// `VIPX_VI_ATTRIBUTES`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct VipxViAttributes {
    pub size: u32,
    pub flags: u32,
    pub srq: VipHandle,
}

/// `VIP_ERROR_HANDLER`.
pub(crate) type ErrorHandler = unsafe extern "C" fn(*mut c_void, *mut VipErrorDescriptor);
/// `VIP_VI_CALLBACK`.
pub(crate) type ViCallback = unsafe extern "C" fn(*mut c_void, VipHandle, VipHandle, *mut VipDescriptor);
/// `VIP_CQ_CALLBACK`.
pub(crate) type CqCallback = unsafe extern "C" fn(*mut c_void, VipHandle, VipHandle, VipBoolean);

macro_rules! layout {
    ($type:ty, $size:literal $(, $field:ident at $offset:literal)*) => {
        const _: () = {
            assert!(size_of::<$type>() == $size);
            $(assert!(offset_of!($type, $field) == $offset);)*
        };
    };
}

layout!(VipDescriptor, 64);
layout!(VipNetAddress, 8, host_address_len at 0, discriminator_len at 2, host_address at 4);
layout!(VipNicAttributes, 200, hardware_version at 64, nic_address_len at 80, local_nic_address at 88, thread_safe at 96,
    max_discriminator_len at 100, max_register_bytes at 104, max_vi at 128, max_cq_entries at 160, native_mtu at 176, max_ptags at 184,
    reliability_level_support at 192, rdma_read_support at 194);
layout!(VipViAttributes, 40, max_transfer_size at 8, qos at 16, ptag at 24, enable_rdma_write at 32, enable_rdma_read at 36);
layout!(VipMemAttributes, 16, ptag at 0, enable_rdma_write at 8, enable_rdma_read at 12);
layout!(VipErrorDescriptor, 48, vi at 8, cq at 16, descriptor at 24, op_code at 32, resource_code at 40, error_code at 44);
layout!(VipAutodiscoveryList, 24, addresses at 8, address_count at 16);
layout!(VipxLinkInfo, 112, address at 16, scope_id at 36, rtt_ns at 56, packets_lost at 104);
layout!(VipxCauseInfo, 128, by at 8, text at 16);
layout!(VipxViInfo, 88, inline_bytes_max at 16, link_id at 20, messages_sent at 24, frame_count at 64, attach_count at 72);
layout!(VipxMemInfo, 16, origin at 4, peer_count at 12);
layout!(VipxNicInfo, 48, inline_bytes_max at 20, registered_bytes at 24, allocated_bytes at 32, memory at 40);
layout!(VipxCacheInfo, 88, regions at 8, hits at 40, uncached at 80);
layout!(VipxViAttributes, 16, flags at 4, srq at 8);
