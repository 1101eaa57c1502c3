// SPDX-License-Identifier: MIT OR Apache-2.0
//! A capture of a NIC's virtual interfaces (decision 46): each request of a send queue is told of
//! as one of a queue pair, with its bytes. Looked at where a trace looks (`trace.rs`), so a
//! NIC that is not captured executes nothing for it.
//!
//! A connection's number, which is the same on both sides, stands for the queue pair's. Requests of
//! a captured NIC go the general way, which leaves them in the queue with their segments until the
//! program takes them off.

use crate::attributes::Reliability;
use crate::engine::Engine;
use crate::status::{Operation, Status, WorkFlags};
use crate::user_memory::Gather;
use crate::vi::Vi;
use crate::wire::Wire;
use crate::work_queue::SendWork;
use bellwire_trace::address::ip_words;
use bellwire_trace::{Kind, here};
use std::collections::VecDeque;
use std::net::IpAddr;

/// In the objects of events: it is no queue pair's number.
const VI_OBJECT: u32 = 1 << 31;
/// The longest packet.
const MTU: u32 = 4096;
/// Numbers of packets have 24 bits.
const NUMBERS: u32 = 1 << 24;
/// Services of queue pairs: connected, reliable or not.
const RELIABLE: u64 = 2;
const UNRELIABLE: u64 = 3;

/// The opcode of a request, as libibverbs numbers it.
fn opcode(work: &SendWork) -> u64 {
    match (work.operation, work.flags.contains(WorkFlags::IMMEDIATE)) {
        (Operation::RdmaWrite, false) => 0,
        (Operation::RdmaWrite, true) => 1,
        (Operation::Send, false) => 2,
        (Operation::Send, true) => 3,
        (Operation::RdmaRead, _) => 4,
    }
}

/// A status, as libibverbs numbers it.
fn status(of: Status) -> u64 {
    if !of.is_error() {
        0
    } else if of.contains(Status::RDMA_PROTECTION_ERROR) {
        10
    } else if of.contains(Status::REMOTE_DESCRIPTOR_ERROR) {
        11
    } else {
        12
    }
}

/// A request that is not complete.
struct Request {
    /// Its place in the queue.
    at: u32,
    psn: u32,
    has_left: bool,
    /// As it was posted.
    work: SendWork,
}

/// A VI's connection, as far as it was told of.
struct Connection {
    number: u32,
    /// The place of the next request in the queue.
    next: u32,
    /// The number of its first packet.
    psn: u32,
    requests: VecDeque<Request>,
    is_told: bool,
}

/// A capture of a NIC.
pub(super) struct Captured {
    snap: usize,
    host: IpAddr,
    /// By the VIs' indices.
    vis: Vec<Option<Connection>>,
}

impl Captured {
    /// Of a NIC at an address, of whose requests the first `snap` bytes are told.
    pub(super) fn new(snap: usize, host: IpAddr) -> Self {
        Self { snap, host, vis: Vec::new() }
    }

    /// Takes what a VI's queue has as seen.
    pub(super) fn begin(&mut self, at: usize, vi: &Vi) {
        if let Some(connection) = self.connection(at, vi) {
            connection.next = vi.send.works.tail();
        }
    }

    fn connection(&mut self, at: usize, vi: &Vi) -> Option<&mut Connection> {
        if at >= self.vis.len() {
            self.vis.resize_with(at + 1, || None);
        }
        let place = self.vis.get_mut(at)?;
        let number = vi.connection?.raw();
        if place.as_ref().is_none_or(|known| known.number != number) {
            *place = Some(Connection { number, next: vi.send.done, psn: 0, requests: VecDeque::new(), is_told: false });
        }
        place.as_mut()
    }

    /// Tells what has become of a VI's requests.
    pub(super) fn look<W: Wire>(&mut self, nic: u32, at: usize, vi: &Vi, engine: &Engine<W>) {
        let (snap, host) = (self.snap, self.host);
        let Some(connection) = self.connection(at, vi) else { return };
        let object = VI_OBJECT | nic << 24 | connection.number & 0xff_ffff;
        let queue = &vi.send;
        while connection.next != queue.works.tail() {
            let place = connection.next;
            connection.next = place.wrapping_add(1);
            if !queue.works.contains(place) {
                continue;
            }
            if !connection.is_told {
                connection.is_told = true;
                let there = engine.wire.link_info(vi.link).path.map_or(host, |path| path.address.ip());
                let service = if vi.attributes.reliability == Reliability::Unreliable { UNRELIABLE } else { RELIABLE };
                let ([from, from_low], [to, to_low]) = (ip_words(host), ip_words(there));
                let peer = u64::from(vi.remote_connection & 0xff_ffff);
                here::note_more(Kind::Path, object, [service, MTU.into()], &[peer, from, from_low, to, to_low]);
            }
            let work = queue.works.get(place);
            let psn = connection.psn;
            connection.psn = (psn + work.length.div_ceil(MTU).max(1)) % NUMBERS;
            connection.requests.push_back(Request { at: place, psn, has_left: false, work });
            let name = if work.context == 0 { work.descriptor as u64 } else { work.context };
            let rest = [opcode(&work), 0, name, work.remote_address, work.remote_handle.into(), work.immediate.into()];
            here::note_more(Kind::Request, object, [psn.into(), work.length.into()], &rest);
            if work.operation != Operation::RdmaRead {
                tell_bytes(Kind::RequestBytes, (object, psn), vi, &work, snap, engine);
            }
        }
        for request in &mut connection.requests {
            let is_before = |end: u32| request.at.wrapping_sub(end).cast_signed() < 0;
            if !request.has_left && (is_before(queue.next) || is_before(queue.done)) {
                request.has_left = true;
                here::note(Kind::RequestLeft, object, [request.psn.into(), 0]);
            }
        }
        while connection.requests.front().is_some_and(|request| request.at.wrapping_sub(queue.done).cast_signed() < 0) {
            let Some(request) = connection.requests.pop_front() else { break };
            // One that was taken off the queue in the same call counts as well.
            let ended = if queue.works.contains(request.at) { queue.works.get(request.at).status } else { Status::DONE };
            if request.work.operation == Operation::RdmaRead && !ended.is_error() {
                tell_bytes(Kind::AnswerBytes, (object, request.psn), vi, &request.work, snap, engine);
            }
            here::note(Kind::Answered, object, [request.psn.into(), status(ended)]);
        }
    }
}

/// Tells a request's bytes; of memory that may not be read, or is no longer known, none.
fn tell_bytes<W: Wire>(kind: Kind, (object, psn): (u32, u32), vi: &Vi, work: &SendWork, snap: usize, engine: &Engine<W>) {
    let (list, more) = (work.segments, &vi.send.segments);
    let is_known = list.count <= 1 || (more.contains(list.more_at) && more.contains(list.more_at.wrapping_add(u32::from(list.count) - 1)));
    if !is_known || work.flags.contains(WorkFlags::INLINE) {
        return;
    }
    let length = work.length.min(u32::try_from(snap).unwrap_or(u32::MAX));
    Gather::new(list, more).show(&engine.registry, vi.ptag, length, |at, bytes| here::note_bytes(kind, object, psn.into(), at, bytes));
}
