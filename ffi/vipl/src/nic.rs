// SPDX-License-Identifier: MIT OR Apache-2.0
//! NICs: opened, closed, queried. `VipErrorCallback` is in `notify.rs`.

use crate::connect::{host_room, write_address};
use crate::ext::VERSION;
use crate::forks;
use crate::handles::{self, Cell};
use crate::memory::REGISTER_BLOCK_BYTES_MAX;
use crate::status::{Outcome, VipReturn, call, traced};
use crate::types::{VIP_SMI_AUTODISCOVERY, VIP_TRUE, VipAutodiscoveryList, VipHandle, VipNicAttributes, VipUlong};
use bellwire_via::Nic;
use bellwire_via::attributes::DISCRIMINATOR_BYTES_MAX;
use bellwire_via::completion_queue::CQ_ENTRIES_MAX;
use bellwire_via::descriptor::SEGMENTS_MAX;
use bellwire_via::limits::{CQS_MAX, DESCRIPTORS_PER_QUEUE_MAX, TRANSFER_BYTES_MAX, VIS_MAX};
use bellwire_via::nic::NicConfig;
use bellwire_via::registration::{PTAGS_MAX, REGIONS_MAX};
use bellwire_via::wire::shm::ProtectionMode;
use bellwire_via::wire::{LinkId, Wire};
use core::ffi::{c_char, c_void};

const NIC_NAME: &[u8] = b"Bellwire";
/// Sum of all registered bytes: no limit but the address space.
const REGISTER_BYTES_MAX: VipUlong = 1 << 47;
/// Beginnings of device names: of this library, and of those that programs were written for.
const NAMES: [&[u8]; 7] = [b"/dev/", b"/etc/", b"nic", b"VINIC", b"via", b"clanvi", b"bellwire"];
const RELIABILITY_LEVELS: u16 = 1 | 2 | 4;
const RELIABLE_LEVELS: u16 = 2 | 4;

/// Whether a device name is one of ours. Reads no further than it must.
fn is_known(name: *const c_char) -> bool {
    let byte = |i| {
        // SAFETY: C1: `i` is at most the index of the first 0, since every byte before has been
        // compared with one that is not 0.
        unsafe { name.add(i).read() as u8 }
    };
    byte(0) == 0 || NAMES.iter().any(|known| known.iter().enumerate().all(|(i, b)| byte(i) == *b))
}

fn open() -> Result<VipHandle, VipReturn> {
    let config = NicConfig::from_env().map_err(|e| refused(&e))?;
    let (host, is_mapped_mode) = (config.host.clone().into_boxed_slice(), config.mode == ProtectionMode::Mapped);
    let reaches_others = config.udp.is_some() || config.agent.is_some();
    let nic = Nic::open(config).map_err(|e| refused(&e))?;
    nic.ignore_errors();
    forks::watch();
    handles::open(nic, host, is_mapped_mode, reaches_others)
}

/// The code alone would leave its reader in the dark.
#[cold]
fn refused(error: &dyn core::fmt::Display) -> VipReturn {
    // One write: two processes of a terminal that fail at a time would mix their pieces.
    let line = format!("libvipl: VipOpenNic: {error}\n");
    eprint!("{line}");
    VipReturn::ErrorResource
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipOpenNic(name: *const c_char, out: *mut VipHandle) -> VipReturn {
    traced("VipOpenNic", [name.addr(), 0], || {
        if name.is_null() || out.is_null() || !is_known(name) {
            return Err(VipReturn::InvalidParameter);
        }
        let handle = open()?;
        // SAFETY: C1, not NULL.
        unsafe { out.write(handle) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipCloseNic(nic: VipHandle) -> VipReturn {
    traced("VipCloseNic", [nic.addr(), 0], || handles::close(nic))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipQueryNic(nic: VipHandle, out: *mut VipNicAttributes) -> VipReturn {
    call(|| {
        let nic = handles::enter_nic(nic)?;
        if out.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        let mut name = [0; 64];
        name.iter_mut().zip(NIC_NAME).for_each(|(to, from)| *to = *from as c_char);
        let attributes = VipNicAttributes {
            name,
            hardware_version: VipUlong::from(VERSION),
            provider_version: VipUlong::from(VERSION),
            nic_address_len: nic.host.len() as u16,
            local_nic_address: nic.host.as_ptr(),
            thread_safe: VIP_TRUE,
            max_discriminator_len: DISCRIMINATOR_BYTES_MAX as u16,
            max_register_bytes: REGISTER_BYTES_MAX,
            max_register_regions: REGIONS_MAX as VipUlong,
            max_register_block_bytes: REGISTER_BLOCK_BYTES_MAX,
            max_vi: VIS_MAX as VipUlong,
            max_descriptors_per_queue: VipUlong::from(DESCRIPTORS_PER_QUEUE_MAX),
            max_segments_per_desc: SEGMENTS_MAX as VipUlong,
            max_cq: CQS_MAX as VipUlong,
            max_cq_entries: CQ_ENTRIES_MAX as VipUlong,
            max_transfer_size: TRANSFER_BYTES_MAX,
            native_mtu: nic.nic.with(|e| e.wire().payload_bytes_max(LinkId::from_raw(0))) as VipUlong,
            max_ptags: PTAGS_MAX as VipUlong,
            reliability_level_support: RELIABILITY_LEVELS,
            rdma_read_support: RELIABLE_LEVELS,
        };
        // SAFETY: C1, not NULL.
        unsafe { out.write(attributes) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipQuerySystemManagementInfo(nic: VipHandle, info_type: VipUlong, info: *mut c_void) -> VipReturn {
    call(|| {
        let nic = handles::enter_nic(nic)?;
        if info_type != VIP_SMI_AUTODISCOVERY || info.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        // SAFETY: C1: of this type by the value of `info_type`.
        discover(&nic, unsafe { &mut *info.cast::<VipAutodiscoveryList>() })
    })
}

/// This host, and nothing else: the wire leads no further.
fn discover(nic: &Cell, list: &mut VipAutodiscoveryList) -> Outcome {
    if list.address_count > 0 {
        if list.addresses.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        // SAFETY: C1: the list has room for `address_count` pointers.
        let first = unsafe { list.addresses.read() };
        if first.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        write_address(first, &nic.host, host_room(nic), &[], 0);
        list.address_count = 1;
    }
    list.number_of_hops = 0;
    Ok(())
}
