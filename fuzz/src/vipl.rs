// SPDX-License-Identifier: MIT OR Apache-2.0
//! A libvipl for tests: it delivers what the test says, completes sends when the test says, and
//! looks closely at the layer above. One for each thread.
//!
//! Asserted: posted descriptors and segments lie in registered memory; nobody touches a posted
//! descriptor or its buffer before it completes; in the end nothing is left.
//!
//! Invariant F1: the pointers are those that the calls of `vipl.h` promise to be good.

use bellwire_vipl_calls::{Descriptor, Nic, Segment, code};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{c_int, c_ulong, c_void};
use std::ptr::NonNull;

/// The bytes of a buffer that is posted to receive.
pub const UNTOUCHED: u8 = 0xee;
const FAILED: c_int = 2;

/// A posted descriptor, with what was in it and in its first segment.
struct Posted(*mut Descriptor, Descriptor, Vec<u8>);

#[derive(Default)]
struct Vi {
    has_ended: bool,
    cqs: [usize; 2],
    receives: VecDeque<Posted>,
    sends: VecDeque<Posted>,
    /// Completed, and whether well: sends, then receives.
    done: [VecDeque<(*mut Descriptor, bool)>; 2],
}

/// The library's state.
#[derive(Default)]
pub struct Library {
    regions: BTreeMap<u32, (u64, u64)>,
    blocks: BTreeMap<usize, Layout>,
    last: u32,
    vis: Vec<Vi>,
    cqs: Vec<VecDeque<usize>>,
    /// Messages that the layer above has posted, and that it has taken: VI, bytes.
    pub said: Vec<(usize, Vec<u8>)>,
    /// See `said`.
    pub taken: Vec<(usize, Vec<u8>)>,
}

thread_local! {
    static LIBRARY: RefCell<Library> = RefCell::default();
}

/// Uses the state.
pub fn with<R>(f: impl FnOnce(&mut Library) -> R) -> R {
    LIBRARY.with_borrow_mut(f)
}

fn bytes_of(segment: &Segment) -> Vec<u8> {
    // SAFETY: F1: registered memory, as the caller has found.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(segment.address as usize), segment.length as usize) }.to_vec()
}

impl Library {
    fn is_registered(&self, segment: &Segment) -> bool {
        let end = segment.address + u64::from(segment.length);
        self.regions.get(&segment.handle).is_some_and(|(first, length)| segment.address >= *first && end <= first + length)
    }

    fn register(&mut self, address: *mut c_void, length: c_ulong) -> u32 {
        self.last += 1;
        self.regions.insert(self.last, (address.expose_provenance() as u64, length));
        self.last
    }

    fn posted(&self, descriptor: *mut Descriptor, handle: u32) -> Posted {
        let own = Segment { address: descriptor.expose_provenance() as u64, handle, length: size_of::<Descriptor>() as u32 };
        assert!(self.is_registered(&own), "a descriptor elsewhere");
        // SAFETY: F1.
        let made = unsafe { descriptor.read() };
        let segments = &made.segments[..usize::from(made.segment_count)];
        assert!(segments.iter().all(|segment| self.is_registered(segment)), "a segment that is not registered");
        assert_eq!(segments.iter().map(|segment| segment.length).sum::<u32>(), made.length, "a length that is not the segments'");
        Posted(descriptor, made, bytes_of(&segments[0]))
    }

    /// Completes what was posted; nobody has touched it.
    fn complete(&mut self, vi: usize, posted: &Posted, is_receive: bool, is_well: bool) {
        let Posted(descriptor, made, bytes) = posted;
        // SAFETY: F1.
        let now = unsafe { descriptor.read() };
        assert_eq!(
            (now.segments[0].address, now.length, now.control),
            (made.segments[0].address, made.length, made.control),
            "a posted descriptor has changed"
        );
        assert!(made.segments[..usize::from(made.segment_count)].iter().all(|segment| self.is_registered(segment)), "given back before it has completed");
        assert!(bytes_of(&made.segments[0]) == *bytes, "a posted buffer has changed");
        self.vis[vi].done[usize::from(is_receive)].push_back((*descriptor, is_well));
        let cq = self.vis[vi].cqs[usize::from(is_receive)];
        self.cqs[cq].push_back(vi);
    }

    /// How many VIs there are.
    pub fn vis(&self) -> usize {
        self.vis.len()
    }

    /// A message arrives. Without a receive, or longer than it, it ends the connection.
    pub fn deliver(&mut self, vi: usize, message: &[u8]) {
        if self.vis[vi].has_ended {
            return;
        }
        let fits = self.vis[vi].receives.front().is_some_and(|receive| message.len() <= receive.1.length as usize);
        let Some(receive) = self.vis[vi].receives.pop_front().filter(|_| fits) else { return self.end(vi) };
        self.complete(vi, &receive, true, true);
        let to = std::ptr::with_exposed_provenance_mut::<u8>(receive.1.segments[0].address as usize);
        // SAFETY: F1: a registered buffer, of at least so many bytes.
        unsafe { to.copy_from_nonoverlapping(message.as_ptr(), message.len()) };
        // SAFETY: F1.
        unsafe { (*receive.0).length = message.len() as u32 };
    }

    /// The oldest send leaves.
    pub fn leave(&mut self, vi: usize) {
        if let Some(send) = self.vis[vi].sends.pop_front() {
            self.complete(vi, &send, false, true);
        }
    }

    /// A connection ends: whatever is posted completes with an error.
    pub fn end(&mut self, vi: usize) {
        self.vis[vi].has_ended = true;
        while let Some(send) = self.vis[vi].sends.pop_front() {
            self.complete(vi, &send, false, false);
        }
        while let Some(receive) = self.vis[vi].receives.pop_front() {
            self.complete(vi, &receive, true, false);
        }
    }
}

/// A NIC of this library, which has forgotten what was before.
pub fn open() -> Nic {
    with(|library| *library = Library::default());
    // SAFETY: V1 of `bellwire-vipl-calls`: functions as the header has them, below.
    unsafe { Nic::open_from(find) }.expect("a NIC")
}

/// Asserts that nothing is left.
pub fn check_empty() {
    with(|library| assert!(library.regions.is_empty() && library.blocks.is_empty(), "registered or allocated still"));
}

type Raw = *mut c_void;

fn number(handle: Raw) -> usize {
    handle.addr() - 1
}

fn handle(number: usize) -> Raw {
    std::ptr::without_provenance_mut(number + 1)
}

extern "C" fn well() -> c_int {
    code::SUCCESS
}

extern "C" fn absent() -> c_int {
    FAILED
}

unsafe extern "C" fn open_nic(_: Raw, out: *mut Raw) -> c_int {
    // SAFETY: F1.
    unsafe { out.write(handle(0)) };
    code::SUCCESS
}

unsafe extern "C" fn create_ptag(nic: Raw, out: *mut Raw) -> c_int {
    // SAFETY: F1.
    unsafe { open_nic(nic, out) }
}

unsafe extern "C" fn query_nic(_: Raw, attributes: *mut bellwire_vipl_calls::NicAttributes) -> c_int {
    static HOST: [u8; 4] = [127, 0, 0, 1];
    // SAFETY: F1.
    let attributes = unsafe { &mut *attributes };
    (attributes.nic_address_len, attributes.local_nic_address) = (HOST.len() as u16, HOST.as_ptr());
    code::SUCCESS
}

unsafe extern "C" fn register(_: Raw, address: Raw, length: c_ulong, _: Raw, out: *mut u32) -> c_int {
    // SAFETY: F1.
    unsafe { out.write(with(|library| library.register(address, length))) };
    code::SUCCESS
}

extern "C" fn release(_: Raw, address: Raw, handle: u32) -> c_int {
    let region = with(|library| library.regions.remove(&handle));
    assert_eq!(region.map(|(first, _)| first), Some(address.addr() as u64), "a registration that there is not");
    code::SUCCESS
}

unsafe extern "C" fn alloc_mem(_: Raw, bytes: c_ulong, out: *mut Raw) -> c_int {
    let layout = Layout::from_size_align(bytes as usize, 64).expect("a size");
    // SAFETY: it has a size.
    let memory = unsafe { alloc_zeroed(layout) };
    with(|library| library.blocks.insert(memory.addr(), layout));
    // SAFETY: F1.
    unsafe { out.write(memory.cast()) };
    code::SUCCESS
}

unsafe extern "C" fn free_mem(_: Raw, memory: Raw) -> c_int {
    let layout = with(|library| library.blocks.remove(&memory.addr())).expect("memory of ours");
    // SAFETY: allocated so.
    unsafe { dealloc(memory.cast(), layout) };
    code::SUCCESS
}

unsafe extern "C" fn create_vi(_: Raw, _: Raw, send: Raw, receive: Raw, out: *mut Raw) -> c_int {
    let made = with(|library| {
        library.vis.push(Vi { cqs: [number(send), number(receive)], ..Vi::default() });
        library.vis.len() - 1
    });
    // SAFETY: F1.
    unsafe { out.write(handle(made)) };
    code::SUCCESS
}

extern "C" fn disconnect(vi: Raw) -> c_int {
    with(|library| {
        library.vis[number(vi)].has_ended = true;
        library.vis[number(vi)].sends.clear();
        library.vis[number(vi)].receives.clear();
    });
    code::SUCCESS
}

extern "C" fn destroy_vi(vi: Raw) -> c_int {
    with(|library| library.vis[number(vi)].done = Default::default());
    code::SUCCESS
}

extern "C" fn post_send(vi: Raw, descriptor: *mut Descriptor, handle: u32) -> c_int {
    if vi.is_null() {
        return FAILED;
    }
    with(|library| {
        let posted = library.posted(descriptor, handle);
        if library.vis[number(vi)].has_ended {
            return FAILED;
        }
        let message = posted.1.segments[..usize::from(posted.1.segment_count)].iter().flat_map(bytes_of).collect();
        library.said.push((number(vi), message));
        library.vis[number(vi)].sends.push_back(posted);
        code::SUCCESS
    })
}

extern "C" fn post_receive(vi: Raw, descriptor: *mut Descriptor, handle: u32) -> c_int {
    if vi.is_null() {
        return FAILED;
    }
    with(|library| {
        let mut posted = library.posted(descriptor, handle);
        if library.vis[number(vi)].has_ended {
            return FAILED;
        }
        posted.2.fill(UNTOUCHED);
        // SAFETY: F1: a registered buffer, which is the library's now.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(posted.1.segments[0].address as usize).write_bytes(UNTOUCHED, posted.2.len()) };
        library.vis[number(vi)].receives.push_back(posted);
        code::SUCCESS
    })
}

/// # Safety
/// F1.
unsafe fn done(vi: Raw, out: *mut *mut Descriptor, is_receive: bool) -> c_int {
    // A VI that is gone, of which an entry of a queue has told.
    if vi.is_null() {
        return FAILED;
    }
    with(|library| {
        let vi = number(vi);
        let Some((descriptor, is_well)) = library.vis[vi].done[usize::from(is_receive)].pop_front() else { return code::NOT_DONE };
        // SAFETY: F1.
        unsafe { out.write(descriptor) };
        if is_well && is_receive {
            // SAFETY: F1: a completed descriptor.
            let made = unsafe { descriptor.read() };
            library.taken.push((vi, bytes_of(&Segment { length: made.length, ..made.segments[0] })));
        }
        if is_well { code::SUCCESS } else { code::DESCRIPTOR_ERROR }
    })
}

unsafe extern "C" fn send_done(vi: Raw, out: *mut *mut Descriptor) -> c_int {
    // SAFETY: F1.
    unsafe { done(vi, out, false) }
}

unsafe extern "C" fn receive_done(vi: Raw, out: *mut *mut Descriptor) -> c_int {
    // SAFETY: F1.
    unsafe { done(vi, out, true) }
}

unsafe extern "C" fn create_cq(_: Raw, _: c_ulong, out: *mut Raw) -> c_int {
    let made = with(|library| {
        library.cqs.push(VecDeque::new());
        library.cqs.len() - 1
    });
    // SAFETY: F1.
    unsafe { out.write(handle(made)) };
    code::SUCCESS
}

unsafe extern "C" fn cq_done(cq: Raw, vi: *mut Raw, _: *mut c_int) -> c_int {
    let Some(found) = with(|library| library.cqs[number(cq)].pop_front()) else { return code::NOT_DONE };
    // SAFETY: F1.
    unsafe { vi.write(handle(found)) };
    code::SUCCESS
}

fn find(name: &'static str) -> NonNull<c_void> {
    let function = match name {
        "VipOpenNic" => open_nic as *const c_void,
        "VipQueryNic" => query_nic as *const c_void,
        "VipCreatePtag" => create_ptag as *const c_void,
        "VipRegisterMem" | "VipxRegisterCached" => register as *const c_void,
        "VipDeregisterMem" | "VipxReleaseCached" => release as *const c_void,
        "VipxAllocMem" => alloc_mem as *const c_void,
        "VipxFreeMem" => free_mem as *const c_void,
        "VipCreateVi" => create_vi as *const c_void,
        "VipDisconnect" => disconnect as *const c_void,
        "VipDestroyVi" => destroy_vi as *const c_void,
        "VipPostSend" => post_send as *const c_void,
        "VipPostRecv" => post_receive as *const c_void,
        "VipSendDone" => send_done as *const c_void,
        "VipRecvDone" => receive_done as *const c_void,
        "VipCreateCQ" => create_cq as *const c_void,
        "VipCQDone" => cq_done as *const c_void,
        "VipCloseNic" | "VipDestroyPtag" | "VipDestroyCQ" => well as *const c_void,
        _ => absent as *const c_void,
    };
    NonNull::new(function.cast_mut()).expect("a function")
}
