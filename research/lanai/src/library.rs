// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of libvipl as the simulated NICs have them: those that the mappings use.
//!
//! A handle is a number that names a cluster, a host of it, and a thing of that host, so a stale
//! one is refused. RDMA is not there: short messages go without.
//!
//! Invariant L1: the pointers are those that the calls of `vipl.h` promise to be good.

use crate::costs::{Costs, Queue};
use crate::nic::{Posted, Time, Vi};
use crate::world::{Ask, Cluster, World, now, pass};
use bellwire_vipl_abi::{Descriptor, NicAttributes, ViAttributes, code};
use bellwire_vipl_calls::{Address, Nic};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::RefCell;
use std::ffi::{c_int, c_ulong, c_void};
use std::ptr::NonNull;
use std::sync::{Arc, MutexGuard};

type Raw = *mut c_void;

const FAILED: c_int = code::ERROR_NOT_SUPPORTED;
const HOST_SHIFT: u32 = 20;
/// A look takes so long at least, so that the time of a program that waits goes on.
const CALL_MIN: Time = 10;

thread_local! {
    /// The host whose NIC is being opened.
    static OPENING: RefCell<Option<(Arc<Cluster>, usize)>> = const { RefCell::new(None) };
}

/// The NIC of a host.
///
/// # Errors
/// Why not, for people.
pub fn open(cluster: &Arc<Cluster>, host: usize) -> Result<Nic, String> {
    OPENING.set(Some((Arc::clone(cluster), host)));
    // SAFETY: V1 of `bellwire-vipl-calls`: functions as the header has them, below.
    let nic = unsafe { Nic::open_from(find) };
    OPENING.set(None);
    nic
}

/// Number `index` of a host as a handle.
fn handle(cluster: usize, host: usize, index: usize) -> Raw {
    std::ptr::without_provenance_mut(((cluster << 1 | host) << HOST_SHIFT) | (index + 1))
}

/// What a handle names.
fn named(handle: Raw) -> Option<(Arc<Cluster>, usize, usize)> {
    let (of, index) = (handle.addr() >> HOST_SHIFT, (handle.addr() & ((1 << HOST_SHIFT) - 1)).checked_sub(1)?);
    Some((Cluster::find(of >> 1)?, of & 1, index))
}

extern "C" fn well() -> c_int {
    code::SUCCESS
}

extern "C" fn absent() -> c_int {
    FAILED
}

unsafe extern "C" fn open_nic(_: Raw, out: *mut Raw) -> c_int {
    let Some((cluster, host)) = OPENING.take() else { return FAILED };
    // SAFETY: L1.
    unsafe { out.write(handle(cluster.id, host, 0)) };
    code::SUCCESS
}

extern "C" fn close_nic(nic: Raw) -> c_int {
    let Some((cluster, host, _)) = named(nic) else { return FAILED };
    cluster.lock().hosts[host].is_closed = true;
    cluster.met.notify_all();
    code::SUCCESS
}

unsafe extern "C" fn create_ptag(nic: Raw, out: *mut Raw) -> c_int {
    // SAFETY: L1. There is one protection tag, as each host has one program.
    unsafe { out.write(nic) };
    code::SUCCESS
}

unsafe extern "C" fn query_nic(nic: Raw, attributes: *mut NicAttributes) -> c_int {
    static HOSTS: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 2]];
    let Some((_, host, _)) = named(nic) else { return FAILED };
    // SAFETY: L1.
    let attributes = unsafe { &mut *attributes };
    (attributes.nic_address_len, attributes.local_nic_address) = (HOSTS[host].len() as u16, HOSTS[host].as_ptr());
    code::SUCCESS
}

unsafe extern "C" fn register(nic: Raw, address: Raw, length: c_ulong, _: Raw, out: *mut u32) -> c_int {
    let Some((cluster, host, _)) = named(nic) else { return FAILED };
    let region = cluster.lock().hosts[host].register(address.expose_provenance() as u64, length);
    // SAFETY: L1.
    unsafe { out.write(region) };
    code::SUCCESS
}

extern "C" fn deregister(nic: Raw, address: Raw, region: u32) -> c_int {
    let Some((cluster, host, _)) = named(nic) else { return FAILED };
    let regions = &mut cluster.lock().hosts[host].regions;
    if regions.get(&region).is_none_or(|(first, _)| *first != address.addr() as u64) {
        return FAILED;
    }
    regions.remove(&region);
    code::SUCCESS
}

unsafe extern "C" fn alloc_mem(nic: Raw, bytes: c_ulong, out: *mut Raw) -> c_int {
    let Some((cluster, host, _)) = named(nic) else { return FAILED };
    let Some(layout) = Layout::from_size_align(bytes as usize, 64).ok().filter(|layout| layout.size() > 0) else { return FAILED };
    // SAFETY: it has a size.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        return code::ERROR_RESOURCE;
    }
    cluster.lock().hosts[host].blocks.insert(memory.addr(), layout);
    // SAFETY: L1.
    unsafe { out.write(memory.cast()) };
    code::SUCCESS
}

unsafe extern "C" fn free_mem(nic: Raw, memory: Raw) -> c_int {
    let Some((cluster, host, _)) = named(nic) else { return FAILED };
    let Some(layout) = cluster.lock().hosts[host].blocks.remove(&memory.addr()) else { return FAILED };
    // SAFETY: allocated so.
    unsafe { dealloc(memory.cast(), layout) };
    code::SUCCESS
}

unsafe extern "C" fn create_vi(nic: Raw, attributes: *const ViAttributes, send: Raw, receive: Raw, out: *mut Raw) -> c_int {
    let Some((cluster, host, _)) = named(nic) else { return FAILED };
    let queues = [send, receive].map(|queue| named(queue).map(|(_, _, index)| index));
    // SAFETY: L1.
    let offer = unsafe { (*attributes).qos.addr() };
    let mut world = cluster.lock();
    let vis = &mut world.hosts[host].nic.vis;
    vis.push(Vi { offer, queues, ..Vi::default() });
    // SAFETY: L1.
    unsafe { out.write(handle(cluster.id, host, vis.len() - 1)) };
    code::SUCCESS
}

/// A VI that there is, with the state.
fn vi_of(world: &mut World, host: usize, index: usize) -> Option<&mut Vi> {
    world.hosts[host].nic.vis.get_mut(index)
}

extern "C" fn disconnect(vi: Raw) -> c_int {
    let Some((cluster, host, index)) = named(vi) else { return FAILED };
    let mut world = cluster.lock();
    let Some(vi) = vi_of(&mut world, host, index) else { return FAILED };
    vi.has_ended = true;
    vi.posted.iter_mut().for_each(std::collections::VecDeque::clear);
    if let Some(peer) = vi.peer {
        world.hosts[1 - host].nic.vis[peer].has_ended = true;
    }
    code::SUCCESS
}

extern "C" fn destroy_vi(vi: Raw) -> c_int {
    let Some((cluster, host, index)) = named(vi) else { return FAILED };
    let mut world = cluster.lock();
    let Some(vi) = vi_of(&mut world, host, index) else { return FAILED };
    (vi.done, vi.peer) = (Default::default(), None);
    code::SUCCESS
}

unsafe fn post(vi: Raw, descriptor: *mut Descriptor, region: u32, is_receive: bool) -> c_int {
    let Some((cluster, host, index)) = named(vi) else { return FAILED };
    let address = descriptor.expose_provenance();
    let call = |costs: &Costs| if is_receive { costs.host.post_receive } else { costs.host.post_send };
    let (mut world, mut costs) = cluster.enter(host, call);
    // An emulated doorbell's word is looked at until it is free, then written.
    while let Some(of) = &costs
        && !world.hosts[host].nic.is_free(of, now())
    {
        drop(world);
        (world, costs) = cluster.enter(host, |costs| costs.host.read.max(CALL_MIN));
    }
    if costs.is_some() {
        drop(world);
        (world, costs) = cluster.enter(host, |costs| costs.host.write);
    }
    let Some(of) = vi_of(&mut world, host, index) else { return FAILED };
    if of.has_ended || (of.peer.is_none() && !is_receive) {
        return FAILED;
    }
    // SAFETY: L1: registered memory stays mapped.
    if !unsafe { world.hosts[host].may_post(address, region) } {
        return FAILED;
    }
    match costs {
        Some(costs) => world.hosts[host].nic.ring(&costs, index, is_receive, Posted { address, at: now() }),
        None if is_receive => world.hosts[host].nic.vis[index].posted[1].push_back(Posted { address, at: 0 }),
        None if world.carry(host, index, address) => {}
        None => return FAILED,
    }
    code::SUCCESS
}

unsafe extern "C" fn post_send(vi: Raw, descriptor: *mut Descriptor, region: u32) -> c_int {
    // SAFETY: L1.
    unsafe { post(vi, descriptor, region, false) }
}

unsafe extern "C" fn post_receive(vi: Raw, descriptor: *mut Descriptor, region: u32) -> c_int {
    // SAFETY: L1.
    unsafe { post(vi, descriptor, region, true) }
}

/// # Safety
/// L1.
unsafe fn done(vi: Raw, out: *mut *mut Descriptor, is_receive: bool) -> c_int {
    let Some((cluster, host, index)) = named(vi) else { return FAILED };
    let (mut world, costs) = cluster.enter(host, |costs| costs.host.look.max(CALL_MIN));
    let Some(of) = vi_of(&mut world, host, index) else { return FAILED };
    let queue = &mut of.done[usize::from(is_receive)];
    let Some(done) = queue.front().copied().filter(|done| is_seen(costs.as_deref(), done.at)) else { return code::NOT_DONE };
    queue.pop_front();
    if let Some(costs) = costs {
        let call = if is_receive { costs.host.receive_done } else { costs.host.send_done };
        pass(call.saturating_sub(costs.host.look));
    }
    // SAFETY: L1.
    unsafe { out.write(std::ptr::with_exposed_provenance_mut(done.address)) };
    if done.is_well { code::SUCCESS } else { code::DESCRIPTOR_ERROR }
}

fn is_seen(costs: Option<&Costs>, at: Time) -> bool {
    costs.is_none() || at <= now()
}

unsafe extern "C" fn send_done(vi: Raw, out: *mut *mut Descriptor) -> c_int {
    // SAFETY: L1.
    unsafe { done(vi, out, false) }
}

unsafe extern "C" fn receive_done(vi: Raw, out: *mut *mut Descriptor) -> c_int {
    // SAFETY: L1.
    unsafe { done(vi, out, true) }
}

unsafe extern "C" fn create_cq(nic: Raw, _: c_ulong, out: *mut Raw) -> c_int {
    let Some((cluster, host, _)) = named(nic) else { return FAILED };
    let mut world = cluster.lock();
    let queues = &mut world.hosts[host].nic.queues;
    queues.push(std::collections::VecDeque::new());
    // SAFETY: L1.
    unsafe { out.write(handle(cluster.id, host, queues.len() - 1)) };
    code::SUCCESS
}

unsafe extern "C" fn cq_done(cq: Raw, vi: *mut Raw, _: *mut c_int) -> c_int {
    let Some((cluster, host, index)) = named(cq) else { return FAILED };
    let look = |costs: &Costs| match costs.queue {
        Queue::Nic => costs.host.read.max(CALL_MIN),
        Queue::Host => costs.host.look.max(CALL_MIN),
    };
    let (mut world, costs) = cluster.enter(host, look);
    let Some(queue) = world.hosts[host].nic.queues.get_mut(index) else { return FAILED };
    let Some((_, found)) = queue.front().copied().filter(|(at, _)| is_seen(costs.as_deref(), *at)) else { return code::NOT_DONE };
    queue.pop_front();
    if let Some(costs) = costs {
        pass(match costs.queue {
            Queue::Nic => costs.host.write,
            // The line that the NIC has written is not in the cache any more.
            Queue::Host => costs.host.send_done.saturating_sub(costs.host.look),
        });
    }
    // SAFETY: L1.
    unsafe { vi.write(handle(cluster.id, host, found)) };
    code::SUCCESS
}

/// # Safety
/// L1.
unsafe fn address(at: *const Address) -> Vec<u8> {
    // SAFETY: L1: an address as `bellwire-vipl-calls` has it.
    unsafe { (*at).discriminator() }.to_vec()
}

unsafe extern "C" fn connect_request(vi: Raw, local: *mut Address, remote: *mut Address, _: c_ulong, attributes: *mut ViAttributes) -> c_int {
    let Some((cluster, host, index)) = named(vi) else { return FAILED };
    let mut world = cluster.lock();
    world.ask_count += 1;
    let id = world.ask_count;
    // SAFETY: L1.
    let (to, from) = unsafe { (address(remote), *local) };
    world.asks.push(Ask { id, to, host, vi: index, from, is_taken: false, answer: None });
    cluster.met.notify_all();
    loop {
        let place = world.asks.iter().position(|ask| ask.id == id);
        let Some(place) = place.filter(|_| !world.hosts.iter().any(|host| host.is_closed)) else { return code::NO_MATCH };
        if let Some(answer) = world.asks[place].answer {
            world.asks.remove(place);
            let Some(offer) = answer else { return code::REJECT };
            // SAFETY: L1.
            unsafe { (*attributes).qos = std::ptr::without_provenance_mut(offer) };
            return code::SUCCESS;
        }
        world = cluster.wait(world);
    }
}

unsafe extern "C" fn connect_wait(nic: Raw, local: *mut Address, _: c_ulong, remote: *mut Address, _: Raw, out: *mut Raw) -> c_int {
    let Some((cluster, host, _)) = named(nic) else { return FAILED };
    // SAFETY: L1.
    let at = unsafe { address(local) };
    let mut world = cluster.lock();
    loop {
        if world.hosts[host].is_closed {
            return FAILED;
        }
        if let Some(ask) = world.asks.iter_mut().find(|ask| !ask.is_taken && ask.to == at) {
            ask.is_taken = true;
            // SAFETY: L1: room for an address as `bellwire-vipl-calls` has it.
            unsafe { remote.write(ask.from) };
            // SAFETY: L1.
            unsafe { out.write(handle(cluster.id, host, ask.id)) };
            return code::SUCCESS;
        }
        world = cluster.wait(world);
    }
}

/// Answers a request.
fn answer(cluster: &Cluster, mut world: MutexGuard<'_, World>, id: usize, offer: Option<usize>) -> c_int {
    let Some(ask) = world.asks.iter_mut().find(|ask| ask.id == id) else { return FAILED };
    ask.answer = Some(offer);
    cluster.met.notify_all();
    code::SUCCESS
}

extern "C" fn connect_accept(request: Raw, vi: Raw) -> c_int {
    let (Some((cluster, host, id)), Some((_, _, index))) = (named(request), named(vi)) else { return FAILED };
    let mut world = cluster.lock();
    let Some((peer, asker)) = world.asks.iter().find(|ask| ask.id == id).map(|ask| (ask.vi, ask.host)) else { return FAILED };
    if asker == host {
        return FAILED;
    }
    world.hosts[asker].nic.vis[peer].peer = Some(index);
    let Some(vi) = vi_of(&mut world, host, index) else { return FAILED };
    vi.peer = Some(peer);
    let offer = vi.offer;
    answer(&cluster, world, id, Some(offer))
}

extern "C" fn connect_reject(request: Raw) -> c_int {
    let Some((cluster, _, id)) = named(request) else { return FAILED };
    answer(&cluster, cluster.lock(), id, None)
}

fn find(name: &'static str) -> NonNull<c_void> {
    let function = match name {
        "VipOpenNic" => open_nic as *const c_void,
        "VipCloseNic" => close_nic as *const c_void,
        "VipQueryNic" => query_nic as *const c_void,
        "VipCreatePtag" => create_ptag as *const c_void,
        "VipRegisterMem" | "VipxRegisterCached" => register as *const c_void,
        "VipDeregisterMem" | "VipxReleaseCached" => deregister as *const c_void,
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
        "VipConnectRequest" => connect_request as *const c_void,
        "VipConnectWait" => connect_wait as *const c_void,
        "VipConnectAccept" => connect_accept as *const c_void,
        "VipConnectReject" => connect_reject as *const c_void,
        "VipDestroyPtag" | "VipDestroyCQ" | "VipResizeCQ" => well as *const c_void,
        _ => absent as *const c_void,
    };
    // SAFETY: functions are somewhere.
    unsafe { NonNull::new_unchecked(function.cast_mut()) }
}
