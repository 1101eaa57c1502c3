// SPDX-License-Identifier: MIT OR Apache-2.0
//! The public C interface of libvipl, `vipl.h` and `viplx.h`, found and loaded at run time, for the
//! layers that reach a network by it alone: Active Messages (`bellwire-amvia`) and Split-C
//! (`bellwire-gasvia`). `probe.rs` has the marks on a message's way that both make for those who
//! measure.
//!
//! Invariant V1: the functions are those of the headers, for the library's name promises its ABI;
//! it is never unloaded. A pointer that is passed is to a live object of the type that the header
//! names. Handles are numbers; a stale one gives `VIP_INVALID_PARAMETER`.

pub mod probe;

use std::ffi::{c_char, c_int, c_ulong, c_ushort, c_void};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

pub use bellwire_vipl_abi::{Descriptor, NicAttributes, Segment, code};
use bellwire_vipl_abi::{FILE_NAMES, MemAttributes, ViAttributes, control, load, within};

/// `VIP_SERVICE_RELIABLE_DELIVERY`.
pub const RELIABLE_DELIVERY: c_ushort = 2;
/// `VIP_CONTROL_OP_SENDRECV`.
pub const CONTROL_SEND: u16 = control::OP_SENDRECV;
/// `VIP_CONTROL_OP_RDMAWRITE`.
pub const CONTROL_RDMA_WRITE: u16 = control::OP_RDMAWRITE;
/// `VIP_CONTROL_IMMEDIATE`.
pub const CONTROL_IMMEDIATE: u16 = control::IMMEDIATE;
/// `VIP_STATUS_OP_MASK` with `VIP_STATUS_IMMEDIATE`, and what they are of a receive that an RDMA
/// write with immediate data has taken.
pub const STATUS_OP_MASK: u32 = 0xF_0000;
/// See [`STATUS_OP_MASK`].
pub const STATUS_WRITTEN: u32 = 0xB_0000;
/// `VIP_INFINITE`.
pub const INFINITE: c_ulong = 0xFFFF_FFFF;
/// `VIPX_BY_PEER`.
pub const BY_PEER: u32 = 2;
/// `VIPX_CAUSE_DISCONNECTED`.
pub const CAUSE_DISCONNECTED: u32 = 16;

/// A handle, which is a number in pointer's clothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Handle(usize);

impl Handle {
    /// No handle.
    pub const NONE: Self = Self(0);

    /// As the library takes it.
    pub fn raw(self) -> *mut c_void {
        core::ptr::without_provenance_mut(self.0)
    }
}

/// `VIPX_CAUSE_INFO`.
#[repr(C)]
struct CauseInfo {
    size: u32,
    cause: u32,
    by: u32,
    reserved: u32,
    text: [u8; 112],
}

const _: () = assert!(size_of::<CauseInfo>() == 128);

const HOST_BYTES_MAX: usize = 18;
/// Longest discriminator.
pub const DISCRIMINATOR_BYTES_MAX: usize = 64;

/// `VIP_NET_ADDRESS` with the room behind it.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub struct Address {
    host_len: u16,
    discriminator_len: u16,
    bytes: [u8; HOST_BYTES_MAX + DISCRIMINATOR_BYTES_MAX],
}

impl Address {
    /// An address. Both parts are cut at their greatest length; no caller has longer ones.
    pub fn new(host: &[u8], discriminator: &[u8]) -> Self {
        let (host, discriminator) = (&host[..host.len().min(HOST_BYTES_MAX)], &discriminator[..discriminator.len().min(DISCRIMINATOR_BYTES_MAX)]);
        let mut bytes = [0; HOST_BYTES_MAX + DISCRIMINATOR_BYTES_MAX];
        bytes[..host.len()].copy_from_slice(host);
        bytes[host.len()..host.len() + discriminator.len()].copy_from_slice(discriminator);
        Self { host_len: host.len() as u16, discriminator_len: discriminator.len() as u16, bytes }
    }

    /// Room for an address of a NIC whose own host address has so many bytes.
    fn room(host_len: usize) -> Self {
        Self { host_len: host_len as u16, discriminator_len: DISCRIMINATOR_BYTES_MAX as u16, bytes: [0; HOST_BYTES_MAX + DISCRIMINATOR_BYTES_MAX] }
    }

    /// The discriminator.
    pub fn discriminator(&self) -> &[u8] {
        let (host, discriminator) = (usize::from(self.host_len), usize::from(self.discriminator_len));
        self.bytes.get(host..host + discriminator).unwrap_or_default()
    }
}

type Out = *mut *mut c_void;

macro_rules! api {
    ($($field:ident = $name:literal : fn($($type:ty),*);)*) => {
        /// The functions.
        #[derive(Clone, Copy)]
        struct Api {
            $($field: unsafe extern "C" fn($($type),*) -> c_int,)*
        }

        impl Api {
            /// # Safety
            /// V1 for what `find` gives.
            unsafe fn resolve<E>(mut find: impl FnMut(&'static str) -> Result<NonNull<c_void>, E>) -> Result<Self, E> {
                // SAFETY: V1: a pointer to a function, of the type that the header names.
                Ok(Self { $($field: unsafe { core::mem::transmute::<NonNull<c_void>, unsafe extern "C" fn($($type),*) -> c_int>(find($name)?) },)* })
            }
        }
    };
}

api! {
    open_nic = "VipOpenNic": fn(*const c_char, Out);
    close_nic = "VipCloseNic": fn(*mut c_void);
    query_nic = "VipQueryNic": fn(*mut c_void, *mut NicAttributes);
    create_ptag = "VipCreatePtag": fn(*mut c_void, Out);
    destroy_ptag = "VipDestroyPtag": fn(*mut c_void, *mut c_void);
    register_mem = "VipRegisterMem": fn(*mut c_void, *mut c_void, c_ulong, *mut MemAttributes, *mut u32);
    deregister_mem = "VipDeregisterMem": fn(*mut c_void, *mut c_void, u32);
    register_cached = "VipxRegisterCached": fn(*mut c_void, *mut c_void, c_ulong, *mut MemAttributes, *mut u32);
    release_cached = "VipxReleaseCached": fn(*mut c_void, *mut c_void, u32);
    alloc_mem = "VipxAllocMem": fn(*mut c_void, c_ulong, Out);
    free_mem = "VipxFreeMem": fn(*mut c_void, *mut c_void);
    create_vi = "VipCreateVi": fn(*mut c_void, *mut ViAttributes, *mut c_void, *mut c_void, Out);
    destroy_vi = "VipDestroyVi": fn(*mut c_void);
    post_send = "VipPostSend": fn(*mut c_void, *mut Descriptor, u32);
    post_recv = "VipPostRecv": fn(*mut c_void, *mut Descriptor, u32);
    send_done = "VipSendDone": fn(*mut c_void, *mut *mut Descriptor);
    recv_done = "VipRecvDone": fn(*mut c_void, *mut *mut Descriptor);
    connect_wait = "VipConnectWait": fn(*mut c_void, *mut Address, c_ulong, *mut Address, *mut ViAttributes, Out);
    connect_accept = "VipConnectAccept": fn(*mut c_void, *mut c_void);
    connect_reject = "VipConnectReject": fn(*mut c_void);
    connect_request = "VipConnectRequest": fn(*mut c_void, *mut Address, *mut Address, c_ulong, *mut ViAttributes);
    disconnect = "VipDisconnect": fn(*mut c_void);
    create_cq = "VipCreateCQ": fn(*mut c_void, c_ulong, Out);
    destroy_cq = "VipDestroyCQ": fn(*mut c_void);
    resize_cq = "VipResizeCQ": fn(*mut c_void, c_ulong);
    cq_done = "VipCQDone": fn(*mut c_void, Out, *mut c_int);
    cq_wait = "VipCQWait": fn(*mut c_void, c_ulong, Out, *mut c_int);
    query_cause = "VipxQueryCause": fn(*mut c_void, *mut CauseInfo);
}

/// Where the library may be. If `BELLWIRE_VIPL` names a file, it is that one alone. Otherwise the
/// folder of `beside` comes first, then that of the file which `beside` is a link to, each with the
/// folder of libraries next to it (a program's is next to `bin`), then the loader's.
fn candidates(named: Option<PathBuf>, beside: Option<&Path>) -> Vec<PathBuf> {
    if let Some(named) = named {
        return vec![named];
    }
    let real = beside.and_then(|path| path.canonicalize().ok());
    let folders = [beside, real.as_deref()].into_iter().flatten().filter_map(Path::parent);
    let folders: Vec<PathBuf> = folders.flat_map(|folder| [folder.to_path_buf(), folder.join("../lib")]).collect();
    let mut paths = within(folders.iter().map(PathBuf::as_path));
    paths.push(PathBuf::from(FILE_NAMES[0]));
    paths
}

/// How a connection ended, as the library says.
#[derive(Clone, Debug)]
pub struct Cause {
    /// The peer has ended it on purpose.
    pub by_peer: bool,
    /// For people; empty: it did not end.
    pub text: String,
}

/// What a work queue has completed: which descriptor, and whether well.
pub type Completed = Option<(*mut Descriptor, bool)>;

/// An open NIC, as the library gives it.
pub struct Nic {
    api: Api,
    nic: Handle,
    host: Vec<u8>,
}

fn result(value: c_int) -> Result<(), c_int> {
    if value == code::SUCCESS { Ok(()) } else { Err(value) }
}

impl Nic {
    /// Loads the library and opens a NIC. `beside`: a file in whose folder the library may be.
    ///
    /// # Errors
    /// Why not, for people.
    pub fn open(beside: Option<&Path>) -> Result<Self, String> {
        let places = candidates(std::env::var_os("BELLWIRE_VIPL").map(PathBuf::from), beside);
        // SAFETY: V1: it is the library that is meant, where it is looked for.
        let (library, path) = unsafe { load(places) }.map_err(|tried| format!("libvipl is not found: {}", tried.join("; ")))?;
        // SAFETY: V1: the library's own.
        let api = unsafe { Api::resolve(|name| library.get::<NonNull<c_void>>(name.as_bytes()).map(|symbol| *symbol)) };
        let api = api.map_err(|e| format!("{}: {e}", path.display()))?;
        std::mem::forget(library);
        Self::open_with(api)
    }

    /// Opens a NIC by functions that `find` gives for the headers' names: of a test, which plays
    /// the library and the peers.
    ///
    /// # Errors
    /// Why not, for people.
    ///
    /// # Safety
    /// V1 for these functions.
    pub unsafe fn open_from(mut find: impl FnMut(&'static str) -> NonNull<c_void>) -> Result<Self, String> {
        // SAFETY: V1: the caller's promise.
        let api = unsafe { Api::resolve(|name| Ok::<_, String>(find(name))) };
        Self::open_with(api?)
    }

    fn open_with(api: Api) -> Result<Self, String> {
        let mut raw = core::ptr::null_mut();
        // SAFETY: V1.
        result(unsafe { (api.open_nic)(c"bellwire".as_ptr(), &raw mut raw) }).map_err(|e| format!("VipOpenNic gives {e}"))?;
        let mut nic = Self { api, nic: Handle(raw.addr()), host: Vec::new() };
        // SAFETY: numbers and pointers may be zero.
        let mut attributes: NicAttributes = unsafe { core::mem::zeroed() };
        // SAFETY: V1.
        if let Err(e) = result(unsafe { (api.query_nic)(raw, &raw mut attributes) }) {
            nic.close();
            return Err(format!("VipQueryNic gives {e}"));
        }
        let length = usize::from(attributes.nic_address_len).min(HOST_BYTES_MAX);
        // SAFETY: V1: so many bytes of the library's, until the NIC is closed.
        nic.host = unsafe { core::slice::from_raw_parts(attributes.local_nic_address, length) }.to_vec();
        Ok(nic)
    }

    /// Closes it. Calls that wait on it return.
    pub fn close(&self) {
        // SAFETY: V1.
        unsafe { (self.api.close_nic)(self.nic.raw()) };
    }

    /// Its host address.
    pub fn host(&self) -> &[u8] {
        &self.host
    }

    /// A protection tag.
    ///
    /// # Errors
    /// What the library returns.
    pub fn create_ptag(&self) -> Result<Handle, c_int> {
        let mut out = core::ptr::null_mut();
        // SAFETY: V1.
        result(unsafe { (self.api.create_ptag)(self.nic.raw(), &raw mut out) }).map(|()| Handle(out.addr()))
    }

    /// Gives it back.
    pub fn destroy_ptag(&self, ptag: Handle) {
        // SAFETY: V1.
        unsafe { (self.api.destroy_ptag)(self.nic.raw(), ptag.raw()) };
    }

    /// Registers memory: for `ptag`; if `is_open`, peers may write it.
    ///
    /// # Errors
    /// What the library returns.
    ///
    /// # Safety
    /// The memory stays mapped until it is deregistered, and its owner bears with writes of the
    /// library, and of peers if `is_open`.
    pub unsafe fn register(&self, address: u64, length: usize, ptag: Handle, is_open: bool) -> Result<u32, c_int> {
        let mut attributes = MemAttributes { ptag: ptag.raw(), enable_rdma_write: c_int::from(is_open), enable_rdma_read: 0 };
        let (mut handle, at) = (0, core::ptr::with_exposed_provenance_mut(address as usize));
        // SAFETY: V1, and the caller's promise.
        result(unsafe { (self.api.register_mem)(self.nic.raw(), at, length as c_ulong, &raw mut attributes, &raw mut handle) }).map(|()| handle)
    }

    /// Ends a registration. `Err`: it is in use.
    ///
    /// # Errors
    /// What the library returns.
    pub fn deregister(&self, address: u64, handle: u32) -> Result<(), c_int> {
        // SAFETY: V1.
        result(unsafe { (self.api.deregister_mem)(self.nic.raw(), core::ptr::with_exposed_provenance_mut(address as usize), handle) })
    }

    /// Registers memory to be sent from, through the registration cache.
    ///
    /// # Errors
    /// What the library returns.
    ///
    /// # Safety
    /// The memory stays mapped until it is released and no descriptor names it.
    pub unsafe fn register_cached(&self, address: u64, length: usize, ptag: Handle) -> Result<u32, c_int> {
        let mut attributes = MemAttributes { ptag: ptag.raw(), enable_rdma_write: 0, enable_rdma_read: 0 };
        let (mut handle, at) = (0, core::ptr::with_exposed_provenance_mut(address as usize));
        // SAFETY: V1, and the caller's promise.
        result(unsafe { (self.api.register_cached)(self.nic.raw(), at, length as c_ulong, &raw mut attributes, &raw mut handle) }).map(|()| handle)
    }

    /// Releases what [`register_cached`](Self::register_cached) gave.
    pub fn release_cached(&self, address: u64, handle: u32) {
        // SAFETY: V1.
        unsafe { (self.api.release_cached)(self.nic.raw(), core::ptr::with_exposed_provenance_mut(address as usize), handle) };
    }

    /// Zeroed memory of the library's.
    ///
    /// # Errors
    /// What the library returns.
    pub fn allocate(&self, bytes: usize) -> Result<*mut u8, c_int> {
        let mut out = core::ptr::null_mut();
        // SAFETY: V1.
        result(unsafe { (self.api.alloc_mem)(self.nic.raw(), bytes as c_ulong, &raw mut out) })?;
        out.expose_provenance();
        Ok(out.cast())
    }

    /// Gives it back. `Err`: it is in use, or not such memory.
    ///
    /// # Errors
    /// What the library returns.
    pub fn free(&self, base: *mut u8) -> Result<(), c_int> {
        // SAFETY: V1.
        result(unsafe { (self.api.free_mem)(self.nic.raw(), base.cast()) })
    }

    /// A VI with reliable delivery whose peer may write memory of `ptag`; it tells its peer
    /// `offer`.
    ///
    /// # Errors
    /// What the library returns.
    pub fn create_vi(&self, ptag: Handle, offer: usize, send: Handle, receive: Handle) -> Result<Handle, c_int> {
        let (mut attributes, mut out) = (vi_attributes(ptag, offer), core::ptr::null_mut());
        // SAFETY: V1.
        result(unsafe { (self.api.create_vi)(self.nic.raw(), &raw mut attributes, send.raw(), receive.raw(), &raw mut out) }).map(|()| Handle(out.addr()))
    }

    /// Ends a VI's connection and the VI: none of its descriptors is used any more.
    pub fn end_vi(&self, vi: Handle) {
        // SAFETY: V1.
        unsafe { (self.api.disconnect)(vi.raw()) };
        // SAFETY: V1.
        unsafe { (self.api.destroy_vi)(vi.raw()) };
    }

    /// Posts a send or a write.
    ///
    /// # Safety
    /// The descriptor, and what it names, belong to the library until it completes.
    #[inline]
    pub unsafe fn post_send(&self, vi: Handle, descriptor: *mut Descriptor, handle: u32) -> bool {
        // SAFETY: V1, and the caller's promise.
        unsafe { (self.api.post_send)(vi.raw(), descriptor, handle) == code::SUCCESS }
    }

    /// Posts a receive.
    ///
    /// # Safety
    /// As of [`post_send`](Self::post_send).
    #[inline]
    pub unsafe fn post_receive(&self, vi: Handle, descriptor: *mut Descriptor, handle: u32) -> bool {
        // SAFETY: V1, and the caller's promise.
        unsafe { (self.api.post_recv)(vi.raw(), descriptor, handle) == code::SUCCESS }
    }

    /// The next completed send, if there is one.
    #[inline]
    pub fn send_done(&self, vi: Handle) -> Completed {
        let mut descriptor = core::ptr::null_mut();
        // SAFETY: V1.
        completed(unsafe { (self.api.send_done)(vi.raw(), &raw mut descriptor) }, descriptor)
    }

    /// The next completed receive, if there is one.
    #[inline]
    pub fn receive_done(&self, vi: Handle) -> Completed {
        let mut descriptor = core::ptr::null_mut();
        // SAFETY: V1.
        completed(unsafe { (self.api.recv_done)(vi.raw(), &raw mut descriptor) }, descriptor)
    }

    /// A completion queue with so many entries.
    ///
    /// # Errors
    /// What the library returns.
    pub fn create_cq(&self, entries: usize) -> Result<Handle, c_int> {
        let mut out = core::ptr::null_mut();
        // SAFETY: V1.
        result(unsafe { (self.api.create_cq)(self.nic.raw(), entries as c_ulong, &raw mut out) }).map(|()| Handle(out.addr()))
    }

    /// Gives it back. No VI completes there any more.
    pub fn destroy_cq(&self, cq: Handle) {
        // SAFETY: V1.
        unsafe { (self.api.destroy_cq)(cq.raw()) };
    }

    /// Gives a completion queue so many entries.
    ///
    /// # Errors
    /// What the library returns.
    pub fn resize_cq(&self, cq: Handle, entries: usize) -> Result<(), c_int> {
        // SAFETY: V1.
        result(unsafe { (self.api.resize_cq)(cq.raw(), entries as c_ulong) })
    }

    /// The VI of the oldest entry of a completion queue, which is taken off it.
    ///
    /// # Errors
    /// What the library returns.
    #[inline]
    pub fn cq_done(&self, cq: Handle) -> Result<Option<Handle>, c_int> {
        let (mut vi, mut is_receive) = (core::ptr::null_mut(), 0);
        // SAFETY: V1.
        match unsafe { (self.api.cq_done)(cq.raw(), &raw mut vi, &raw mut is_receive) } {
            code::SUCCESS => Ok(Some(Handle(vi.addr()))),
            code::NOT_DONE => Ok(None),
            e => Err(e),
        }
    }

    /// As [`cq_done`](Self::cq_done), but waits so many milliseconds.
    ///
    /// # Errors
    /// What the library returns.
    pub fn cq_wait(&self, cq: Handle, milliseconds: c_ulong) -> Result<Option<Handle>, c_int> {
        let (mut vi, mut is_receive) = (core::ptr::null_mut(), 0);
        // SAFETY: V1.
        match unsafe { (self.api.cq_wait)(cq.raw(), milliseconds, &raw mut vi, &raw mut is_receive) } {
            code::SUCCESS => Ok(Some(Handle(vi.addr()))),
            code::TIMEOUT => Ok(None),
            e => Err(e),
        }
    }

    /// Waits until somebody asks for a connection at an address: who, and the request.
    ///
    /// # Errors
    /// What the library returns.
    pub fn connect_wait(&self, at: &Address) -> Result<(Address, Handle), c_int> {
        self.connect_wait_for(at, INFINITE)
    }

    /// As [`connect_wait`](Self::connect_wait), for so many milliseconds at most.
    ///
    /// # Errors
    /// What the library returns.
    pub fn connect_wait_for(&self, at: &Address, milliseconds: c_ulong) -> Result<(Address, Handle), c_int> {
        let (mut at, mut remote, mut attributes, mut out) = (*at, Address::room(self.host.len()), vi_attributes(Handle::NONE, 0), core::ptr::null_mut());
        // SAFETY: V1.
        result(unsafe { (self.api.connect_wait)(self.nic.raw(), &raw mut at, milliseconds, &raw mut remote, &raw mut attributes, &raw mut out) })
            .map(|()| (remote, Handle(out.addr())))
    }

    /// Accepts a request by a VI.
    ///
    /// # Errors
    /// What the library returns.
    pub fn accept(&self, request: Handle, vi: Handle) -> Result<(), c_int> {
        // SAFETY: V1.
        result(unsafe { (self.api.connect_accept)(request.raw(), vi.raw()) })
    }

    /// Refuses a request.
    pub fn reject(&self, request: Handle) {
        // SAFETY: V1.
        unsafe { (self.api.connect_reject)(request.raw()) };
    }

    /// Asks for a connection; gives what the peer's VI offers.
    ///
    /// # Errors
    /// What the library returns.
    pub fn connect(&self, vi: Handle, local: &Address, remote: &Address, milliseconds: c_ulong) -> Result<usize, c_int> {
        let (mut local, mut remote, mut attributes) = (*local, *remote, vi_attributes(Handle::NONE, 0));
        // SAFETY: V1.
        result(unsafe { (self.api.connect_request)(vi.raw(), &raw mut local, &raw mut remote, milliseconds, &raw mut attributes) })
            .map(|()| attributes.qos.addr())
    }

    /// Why a VI's connection ended.
    pub fn cause(&self, vi: Handle) -> Cause {
        let mut info = CauseInfo { size: size_of::<CauseInfo>() as u32, cause: 0, by: 0, reserved: 0, text: [0; 112] };
        // SAFETY: V1.
        if unsafe { (self.api.query_cause)(vi.raw(), &raw mut info) } != code::SUCCESS {
            return Cause { by_peer: false, text: String::new() };
        }
        let text = info.text.split(|b| *b == 0).next().unwrap_or_default();
        Cause { by_peer: info.by == BY_PEER && info.cause == CAUSE_DISCONNECTED, text: String::from_utf8_lossy(text).into_owned() }
    }
}

#[inline]
fn completed(value: c_int, descriptor: *mut Descriptor) -> Completed {
    match value {
        code::SUCCESS => Some((descriptor, true)),
        code::DESCRIPTOR_ERROR => Some((descriptor, false)),
        _ => None,
    }
}

fn vi_attributes(ptag: Handle, offer: usize) -> ViAttributes {
    ViAttributes {
        reliability_level: RELIABLE_DELIVERY,
        max_transfer_size: 1 << 30,
        qos: core::ptr::without_provenance_mut(offer),
        ptag: ptag.raw(),
        enable_rdma_write: c_int::from(ptag != Handle::NONE),
        enable_rdma_read: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_library_is_the_only_one() {
        assert_eq!(candidates(Some("/x.so".into()), Some(Path::new("/lib/libbellwire_am.so.1"))), [PathBuf::from("/x.so")]);
        assert_eq!(candidates(None, None), [PathBuf::from("libvipl.so.1")]);
    }

    #[test]
    fn a_program_finds_it_in_the_folder_of_libraries() {
        let found = candidates(None, Some(Path::new("/nonexistent/bin/bellwire-bench")));
        assert_eq!(found.first(), Some(&PathBuf::from("/nonexistent/bin/libvipl.so.1")));
        assert!(found.contains(&PathBuf::from("/nonexistent/bin/../lib/libvipl.so.1")));
        assert_eq!(found.last(), Some(&PathBuf::from("libvipl.so.1")));
    }

    #[test]
    fn addresses_give_their_discriminator_back() {
        assert_eq!(Address::new(&[127, 0, 0, 1], b"where").discriminator(), b"where");
        assert_eq!(Address::new(&[0; 40], &[7; 100]).discriminator(), [7; 64]);
    }
}
