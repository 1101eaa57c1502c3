// SPDX-License-Identifier: MIT OR Apache-2.0
//! The extensions of `viplx.h`, except `VipxCreateVi` (`vi.rs`) and the
//! registration cache (`cached.rs`).

use crate::handles::{self, Kind};
use crate::memory::{REGISTER_BLOCK_BYTES_MAX, ptag_of};
use crate::status::{Outcome, VipReturn, call, guard};
use crate::types::{
    VIPX_MEM_ENGINE, VIPX_MEM_FOREIGN, VIPX_MEMORY_STRICT, VIPX_MEMORY_TRUST, VIPX_MODE_GUARDED, VIPX_MODE_MAPPED, VIPX_REASON_OTHER_HOST,
    VIPX_REASON_SAME_HOST, VIPX_REASON_SHM_OFF, VIPX_SEND_IMMEDIATE, VIPX_SEND_UNSIGNALLED, VIPX_WIRE_LOOPBACK, VIPX_WIRE_SHM, VIPX_WIRE_UDP, VipDescriptor,
    VipHandle, VipUlong, VipxLinkInfo, VipxMemInfo, VipxNicInfo, VipxViInfo,
};
use crate::work::{descriptor_at, enter_vi};
use bellwire_via::wire::{LinkInfo, SessionInfo, WireReason};
use bellwire_via::work_queue::INLINE_SEND_BYTES_MAX;
use bellwire_via::{Error, MemHandle, MemoryMode, SendRequest, ViState, WorkFlags};
use core::ffi::c_void;
use core::net::{IpAddr, SocketAddr};

/// major * 65536 + minor * 256 + patch, of this crate.
pub(crate) const VERSION: u32 =
    number(env!("CARGO_PKG_VERSION_MAJOR")) << 16 | number(env!("CARGO_PKG_VERSION_MINOR")) << 8 | number(env!("CARGO_PKG_VERSION_PATCH"));

const fn number(text: &str) -> u32 {
    match u32::from_str_radix(text, 10) {
        Ok(n) if n < 256 => n,
        _ => panic!("a version number is too large"),
    }
}

const fn mode_code(is_mapped: bool) -> u32 {
    if is_mapped { VIPX_MODE_MAPPED } else { VIPX_MODE_GUARDED }
}

fn wire_code(link: &LinkInfo) -> u32 {
    match link {
        LinkInfo { loopback: true, .. } => VIPX_WIRE_LOOPBACK,
        LinkInfo { path: Some(_), .. } => VIPX_WIRE_UDP,
        _ => VIPX_WIRE_SHM,
    }
}

const fn reason_code(reason: WireReason) -> u32 {
    match reason {
        // Of a NIC in a process, shared memory is always one of the wires.
        WireReason::OnlyWire | WireReason::SameHost => VIPX_REASON_SAME_HOST,
        WireReason::NotOnThisHost => VIPX_REASON_OTHER_HOST,
        WireReason::SharedMemoryOff => VIPX_REASON_SHM_OFF,
    }
}

/// Bytes of the first version of [`VipxNicInfo`].
const NIC_INFO_BYTES_FIRST: usize = core::mem::offset_of!(VipxNicInfo, memory);

/// The caller's `Size` of a structure that begins with it, if it is at least `first`, that of the
/// first version.
pub(crate) fn size_of_info<T>(info: *const T, first: usize) -> Result<u32, VipReturn> {
    if info.is_null() {
        return Err(VipReturn::InvalidParameter);
    }
    // SAFETY: C1: whatever the version, Size comes first.
    let size = unsafe { info.cast::<u32>().read() };
    if (size as usize) < first { Err(VipReturn::InvalidParameter) } else { Ok(size) }
}

/// Fills a structure, as far as the caller's version knows it.
///
/// # Safety
/// C1, for the `size` bytes that the caller says there are.
pub(crate) unsafe fn fill_info<T>(info: *mut T, filled: &T, size: u32) {
    // SAFETY: the caller's; no more than either has.
    unsafe { core::ptr::from_ref(filled).cast::<u8>().copy_to_nonoverlapping(info.cast(), size_of::<T>().min(size as usize)) };
}

#[unsafe(no_mangle)]
pub extern "C" fn VipxVersion() -> u32 {
    VERSION
}

// ---- memory of the engine

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipxAllocMem(nic: VipHandle, bytes: VipUlong, out: *mut *mut c_void) -> VipReturn {
    call(|| {
        let nic = handles::enter_nic(nic)?;
        if bytes == 0 || out.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        if bytes > REGISTER_BLOCK_BYTES_MAX {
            return Err(VipReturn::ErrorResource);
        }
        let base = nic.nic.with(|e| e.allocate(bytes as usize))?;
        // SAFETY: C1, not NULL.
        unsafe { out.write(base.cast()) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipxFreeMem(nic: VipHandle, address: *mut c_void) -> VipReturn {
    call(|| {
        let nic = handles::enter_nic(nic)?;
        Ok(nic.nic.with(|e| e.free(address.cast()))?)
    })
}

// ---- sharing a link

#[unsafe(no_mangle)]
pub extern "C" fn VipxSetWeight(vi: VipHandle, weight: u32) -> VipReturn {
    call(|| {
        let (nic, vi) = enter_vi(vi)?;
        let weight = u8::try_from(weight).map_err(|_| VipReturn::InvalidParameter)?;
        nic.nic.with(|e| e.set_weight(vi, weight))?;
        Ok(())
    })
}

// ---- queries

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipxQueryVi(vi: VipHandle, info: *mut VipxViInfo) -> VipReturn {
    call(|| {
        let (nic, vi) = enter_vi(vi)?;
        let size = size_of_info(info, size_of::<VipxViInfo>())?;
        let (link, counted) = nic.nic.with(|e| Ok::<_, Error>((e.vi_link(vi)?, e.vi_counters(vi)?)))?;
        let mut filled = VipxViInfo {
            size,
            inline_bytes_max: INLINE_SEND_BYTES_MAX as u32,
            messages_sent: counted.sent,
            messages_received: counted.received,
            bytes_sent: counted.sent_bytes,
            bytes_received: counted.received_bytes,
            direct_count: counted.direct,
            frame_count: counted.sent.saturating_sub(counted.direct + counted.attached),
            attach_count: counted.attached,
            ..VipxViInfo::default()
        };
        if let Some((link, about)) = link {
            filled.wire = wire_code(&about);
            filled.mode = mode_code(about.mapped);
            filled.peer_pid = about.peer_pid;
            filled.link_id = link.raw();
            filled.attach = u32::from(about.attaches);
        }
        // SAFETY: C1, and Size says that the structure is no shorter.
        unsafe { info.write(filled) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipxQueryLink(vi: VipHandle, info: *mut VipxLinkInfo) -> VipReturn {
    call(|| {
        let (nic, vi) = enter_vi(vi)?;
        let size = size_of_info(info, size_of::<VipxLinkInfo>())?;
        let mut filled = VipxLinkInfo { size, ..VipxLinkInfo::default() };
        if let Some((link, about)) = nic.nic.with(|e| e.vi_link(vi))? {
            (filled.wire, filled.reason, filled.link_id) = (wire_code(&about), reason_code(about.reason), link.raw());
            about.path.inspect(|path| fill_path(&mut filled, path));
        }
        // SAFETY: C1, and Size says that the structure is no shorter.
        unsafe { info.write(filled) };
        Ok(())
    })
}

fn fill_path(filled: &mut VipxLinkInfo, path: &SessionInfo) {
    let address = path.address;
    let octets = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    filled.address[..octets.len()].copy_from_slice(&octets);
    (filled.address_len, filled.port) = (octets.len() as u16, address.port());
    filled.scope_id = if let SocketAddr::V6(v6) = address { v6.scope_id() } else { 0 };
    (filled.datagram_bytes, filled.window, filled.in_flight) = (path.datagram as u32, path.window, path.in_flight);
    (filled.rtt_ns, filled.rtt_deviation_ns, filled.rtt_min_ns) = (path.rtt.0, path.rtt_deviation.0, path.rtt_min.0);
    (filled.packets_sent, filled.packets_received) = (path.data_out, path.data_in);
    (filled.packets_resent, filled.packets_lost) = (path.retransmitted, path.lost);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipxQueryMem(nic: VipHandle, address: *mut c_void, handle: u32, info: *mut VipxMemInfo) -> VipReturn {
    call(|| {
        let nic = handles::enter_nic(nic)?;
        let size = size_of_info(info, size_of::<VipxMemInfo>())?;
        let at = address.addr() as u64;
        let filled = nic.nic.with(|e| {
            e.query_memory(at, MemHandle::from_raw(handle))?;
            Ok::<_, Error>(match e.allocation_at(at) {
                None => VipxMemInfo { size, origin: VIPX_MEM_FOREIGN, ..VipxMemInfo::default() },
                Some((segment, peers)) => {
                    let shareable = nic.is_mapped_mode && e.is_mappable(segment);
                    let origin = if e.is_allocated(at, 1) { VIPX_MEM_ENGINE } else { VIPX_MEM_FOREIGN };
                    VipxMemInfo { size, origin, shareable: u32::from(shareable), peer_count: peers }
                }
            })
        })?;
        // SAFETY: C1, and Size says that the structure is no shorter.
        unsafe { info.write(filled) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipxQueryNic(nic: VipHandle, info: *mut VipxNicInfo) -> VipReturn {
    call(|| {
        let nic = handles::enter_nic(nic)?;
        let size = size_of_info(info, NIC_INFO_BYTES_FIRST)?;
        let (usage, memory) = nic.nic.with(|e| (e.usage(), e.memory_mode()));
        let filled = VipxNicInfo {
            size,
            mode: mode_code(nic.is_mapped_mode),
            link_count: usage.links as u32,
            vi_count: usage.vis as u32,
            region_count: usage.regions as u32,
            inline_bytes_max: INLINE_SEND_BYTES_MAX as u32,
            registered_bytes: usage.registered_bytes,
            allocated_bytes: usage.allocated_bytes,
            memory: if memory == MemoryMode::Strict { VIPX_MEMORY_STRICT } else { VIPX_MEMORY_TRUST },
            reserved: 0,
        };
        // SAFETY: C1, not NULL.
        unsafe { fill_info(info, &filled, size) };
        Ok(())
    })
}

// ---- shared receive queues

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipxCreateSrq(nic: VipHandle, ptag: VipHandle, out: *mut VipHandle) -> VipReturn {
    call(|| {
        let nic = handles::enter_nic(nic)?;
        if out.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        let ptag = ptag_of(&nic, ptag)?;
        let srq = nic.nic.with(|e| e.create_srq(ptag))?;
        // SAFETY: C1, not NULL.
        unsafe { out.write(nic.handle(Kind::Srq, srq)) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipxDestroySrq(srq: VipHandle) -> VipReturn {
    call(|| {
        let (nic, srq) = handles::enter_object(Kind::Srq, srq)?;
        Ok(nic.nic.with(|e| e.destroy_srq(srq))?)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipxPostSrqRecv(srq: VipHandle, descriptor: *mut VipDescriptor, handle: u32) -> VipReturn {
    call(|| {
        let (nic, srq) = handles::enter_object(Kind::Srq, srq)?;
        Ok(nic.nic.with(|e| e.post_shared_receive_descriptor(srq, descriptor_at(descriptor, handle)))?)
    })
}

// ---- inline sends

/// A send that does not go the short way: it waits its turn, wants immediate data, or is wrong.
#[inline(never)]
fn send_inline(vi: VipHandle, data: *const c_void, length: u32, flags: u32, immediate: u32) -> Outcome {
    let (nic, vi) = enter_vi(vi)?;
    let length = length as usize;
    let known = VIPX_SEND_IMMEDIATE | VIPX_SEND_UNSIGNALLED;
    if length > INLINE_SEND_BYTES_MAX || (data.is_null() && length != 0) || flags & !known != 0 || flags & VIPX_SEND_UNSIGNALLED == 0 {
        return Err(VipReturn::InvalidParameter);
    }
    let mut bytes = [0u8; INLINE_SEND_BYTES_MAX];
    if length != 0 {
        // SAFETY: C1: `length` bytes are readable; `bytes` has room, checked above.
        unsafe { data.cast::<u8>().copy_to_nonoverlapping(bytes.as_mut_ptr(), length) };
    }
    let work_flags = if flags & VIPX_SEND_IMMEDIATE != 0 { WorkFlags::UNSIGNALED | WorkFlags::IMMEDIATE } else { WorkFlags::UNSIGNALED };
    let request = SendRequest { flags: work_flags, immediate, ..SendRequest::default() };
    nic.nic.with(|e| {
        if e.query_vi(vi)?.0 != ViState::Connected {
            return Err(Error::InvalidState);
        }
        match e.post_send_inline(vi, &bytes[..length], &request) {
            Err(Error::Resource) => {
                // Nobody collects these sends, so nobody else may ever make room.
                e.progress();
                e.post_send_inline(vi, &bytes[..length], &request)
            }
            posted => posted,
        }
    })?;
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipxSendInline(vi: VipHandle, data: *const c_void, length: u32, flags: u32, immediate: u32) -> VipReturn {
    guard(|| {
        let is_usual = flags == VIPX_SEND_UNSIGNALLED && !data.is_null();
        // SAFETY: C1: `length` bytes are readable.
        let is_sent = is_usual
            && handles::with_object(Kind::Vi, vi, |nic, vi| match unsafe { nic.nic.send_inline_now(vi, data.cast(), length as usize) } {
                Ok(true) => VipReturn::Success,
                _ => VipReturn::NotDone,
            }) == VipReturn::Success;
        if is_sent { VipReturn::Success } else { call(|| send_inline(vi, data, length, flags, immediate)) }
    })
}
