// SPDX-License-Identifier: MIT OR Apache-2.0
//! Thin owners of the library's objects, as a C program would hold them: a NIC with its protection
//! tag, registered memory, a VI.
//!
//! The calls of the data path are one `extern "C"` call each and return a small [`CallFailed`];
//! text is made only when something fails. Invariants: E1, a [`Block`] is registered with the NIC
//! it came from and mapped until it is dropped. E2, descriptors given to a VI lie in such a block,
//! 64-byte aligned, and are not touched between post and completion. E3, handles are used only
//! while their owner lives.

mod block;
pub mod cq;
mod vi;

pub use block::Block;
pub use vi::{SEND, Vi, arm, rearm};

use std::ffi::{CString, c_void};
use std::net::IpAddr;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::job::Waiting;
use crate::vipl_abi::{self, Api, Handle, MemAttributes, ViAttributes, check, code};

/// How long one side waits for the other.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Longest host address that is handled.
const HOST_ADDRESS_MAX: usize = 64;
/// Bytes of the discriminators: run, epoch, index.
const DISCRIMINATOR_BYTES: usize = 16;

/// A call of the data path that did not return success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallFailed {
    call: &'static str,
    value: i32,
    status: u32,
}

impl From<CallFailed> for Error {
    #[cold]
    fn from(failed: CallFailed) -> Self {
        let status = if failed.status != 0 { format!(" (descriptor status {:#x})", failed.status) } else { String::new() };
        Error::failed(format!("{} returned {}{status}", failed.call, vipl_abi::return_name(failed.value)))
    }
}

/// An open NIC with one protection tag.
#[derive(Debug)]
pub struct Nic {
    api: Api,
    handle: Handle,
    ptag: Handle,
    address: Vec<u8>,
    /// Of the NIC that connections go to.
    remote: Vec<u8>,
    /// Largest transfer in bytes.
    pub transfer_max: usize,
    /// The open NIC itself, closed last.
    pub nic: vipl_abi::Nic,
}

impl Nic {
    /// Loads the library and opens `device`; connections go to the host `remote`, or to this NIC's
    /// own address.
    ///
    /// # Errors
    /// If the library is not found or refuses.
    pub fn open(library: Option<&std::path::Path>, device: &str, remote: Option<IpAddr>) -> Result<Self, Error> {
        let nic = vipl_abi::Nic::open(library, device)?;
        let (api, handle, attributes) = (nic.api, nic.handle, nic.attributes);
        let mut ptag = null_mut();
        // SAFETY: E3; the out pointer is to a live local.
        check("VipCreatePtag", unsafe { (api.create_ptag)(handle, &mut ptag) })?;
        let len = usize::from(attributes.nic_address_len).min(HOST_ADDRESS_MAX);
        let mut address = vec![0; len];
        if len > 0 && !attributes.local_nic_address.is_null() {
            // SAFETY: the library says that this many bytes of address are there.
            unsafe { core::ptr::copy_nonoverlapping(attributes.local_nic_address, address.as_mut_ptr(), len) };
        }
        let remote = match remote {
            None => address.clone(),
            Some(host) => look_up(&api, handle, host)?,
        };
        Ok(Nic { api, handle, ptag, address, remote, transfer_max: attributes.max_transfer_size as usize, nic })
    }

    /// Memory of the engine's, or, where the library has no such call, of the process; registered
    /// for everything.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn allocate(&self, len: usize, engine: bool) -> Result<Block, Error> {
        let mut block = self.allocate_unregistered(len, engine)?;
        block.handle = self.register(block.base, len)?;
        Ok(block)
    }

    /// As [`Nic::allocate`], but not registered yet.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn allocate_unregistered(&self, len: usize, engine: bool) -> Result<Block, Error> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let mut base = null_mut();
        let engine = engine && self.nic.has_memory();
        match self.api.alloc_mem {
            // SAFETY: E3; `base` is a live out pointer.
            Some(alloc_mem) if engine => check("VipxAllocMem", unsafe { alloc_mem(self.handle, len as _, &mut base) })?,
            // SAFETY: a fresh mapping at an address of the kernel's choice touches no existing
            // memory.
            _ => unsafe {
                base = mmap_anonymous(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::POPULATE)?;
            },
        }
        let base = base.cast::<u8>();
        // SAFETY: E1: `len` bytes from `base` are ours; touching them now keeps page faults out of
        // the measurements.
        unsafe { core::ptr::write_bytes(base, 0, len) };
        Ok(Block { api: self.api, nic: self.handle, base, len, handle: 0, engine })
    }

    /// Registers memory under the NIC's tag with all rights.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn register(&self, base: *mut u8, len: usize) -> Result<u32, Error> {
        let mut attributes = MemAttributes { ptag: self.ptag, enable_rdma_write: 1, enable_rdma_read: 1 };
        let mut handle = 0;
        // SAFETY: E3; the caller owns `len` bytes at `base`.
        let value = unsafe { (self.api.register_mem)(self.handle, base.cast(), len as _, &mut attributes, &mut handle) };
        check("VipRegisterMem", value).map(|()| handle)
    }

    /// Takes a registration back.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn deregister(&self, base: *mut u8, handle: u32) -> Result<(), Error> {
        // SAFETY: E3.
        check("VipDeregisterMem", unsafe { (self.api.deregister_mem)(self.handle, base.cast(), handle) })
    }

    /// A VI at a reliability level, unconnected; `descriptors` is the registered block that its
    /// descriptors lie in.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn create_vi(&self, reliability: u16, descriptors: &Block, waiting: Waiting) -> Result<Vi, Error> {
        let mut attributes = self.vi_attributes(reliability);
        let mut handle = null_mut();
        // SAFETY: E3; no completion queues.
        check("VipCreateVi", unsafe { (self.api.create_vi)(self.handle, &mut attributes, null_mut(), null_mut(), &mut handle) })?;
        Ok(Vi { api: self.api, handle, descriptors: descriptors.handle, waiting })
    }

    fn vi_attributes(&self, reliability: u16) -> ViAttributes {
        ViAttributes {
            reliability_level: reliability,
            max_transfer_size: self.transfer_max as _,
            qos: null_mut(),
            ptag: self.ptag,
            enable_rdma_write: 1,
            enable_rdma_read: i32::from(reliability != 1),
        }
    }

    /// `VIP_NET_ADDRESS` of this NIC with a discriminator.
    fn net_address(&self, discriminator: &[u8]) -> Box<NetAddress> {
        NetAddress::new(&self.address, discriminator)
    }

    /// Connects `vi` with the other process, which calls this with the same `name` and the other
    /// `first`.
    ///
    /// # Errors
    /// If they do not find each other in time.
    pub fn connect(&self, vi: &Vi, first: bool, name: (u64, u64)) -> Result<(), Error> {
        let mut discriminator = [0; DISCRIMINATOR_BYTES];
        discriminator[..8].copy_from_slice(&name.0.to_le_bytes());
        discriminator[8..].copy_from_slice(&name.1.to_le_bytes());
        if first { self.request(vi, &discriminator) } else { self.wait(vi, &discriminator) }
    }

    fn request(&self, vi: &Vi, discriminator: &[u8]) -> Result<(), Error> {
        let mut own = self.net_address(discriminator);
        let mut other = NetAddress::new(&self.remote, discriminator);
        let mut attributes = self.vi_attributes(0);
        let deadline = Instant::now() + PATIENCE;
        loop {
            // SAFETY: E3; the addresses are longer than any length they declare.
            let value = unsafe { (self.api.connect_request)(vi.handle, own.pointer(), other.pointer(), PATIENCE.as_millis() as _, &mut attributes) };
            match value {
                code::NO_MATCH | code::TIMEOUT | code::REJECT if Instant::now() < deadline => std::thread::sleep(Duration::from_micros(200)),
                value => return check("VipConnectRequest", value),
            }
        }
    }

    fn wait(&self, vi: &Vi, discriminator: &[u8]) -> Result<(), Error> {
        let mut own = self.net_address(discriminator);
        let mut other = self.net_address(discriminator);
        let mut attributes = self.vi_attributes(0);
        let mut connection = null_mut();
        // SAFETY: E3; the addresses have room for anything the library may write.
        unsafe {
            let value = (self.api.connect_wait)(self.handle, own.pointer(), PATIENCE.as_millis() as _, other.pointer(), &mut attributes, &mut connection);
            check("VipConnectWait", value)?;
            check("VipConnectAccept", (self.api.connect_accept)(connection, vi.handle))
        }
    }
}

/// `VIP_NET_ADDRESS` with room behind it.
#[repr(C, align(8))]
struct NetAddress {
    host_len: u16,
    discriminator_len: u16,
    bytes: [u8; 160],
}

impl NetAddress {
    fn new(host: &[u8], discriminator: &[u8]) -> Box<Self> {
        let mut address = Box::new(NetAddress { host_len: host.len() as u16, discriminator_len: discriminator.len() as u16, bytes: [0; 160] });
        address.bytes[..host.len()].copy_from_slice(host);
        address.bytes[host.len()..host.len() + discriminator.len()].copy_from_slice(discriminator);
        address
    }

    fn pointer(&mut self) -> *mut c_void {
        core::ptr::from_mut(self).cast()
    }
}

/// The host address that the library's name service gives for an IP address.
fn look_up(api: &Api, nic: Handle, host: IpAddr) -> Result<Vec<u8>, Error> {
    let (Some(init), Some(by_name)) = (api.ns_init, api.ns_get_host_by_name) else {
        return Err(Error::unsupported("the library has no name service"));
    };
    let name = CString::new(host.to_string()).map_err(|_| Error::failed("an address with a NUL"))?;
    let mut address = NetAddress::new(&[], &[]);
    // SAFETY: E3; the address has room for the longest host address.
    unsafe {
        check("VipNSInit", init(nic, null_mut()))?;
        check("VipNSGetHostByName", by_name(nic, name.as_ptr(), address.pointer(), 0)).map_err(|error| error.within(&host.to_string()))?;
    }
    let len = usize::from(address.host_len).min(HOST_ADDRESS_MAX);
    Ok(address.bytes[..len].to_vec())
}
