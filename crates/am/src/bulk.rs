// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bulk messages and gets: data into the peer's segment, and a message behind it.
//!
//! Data goes straight into the segment, by the caller's copy, where that is mapped; else by RDMA
//! write with trailer in the engine's own time. Then the write waits in `out` like a message, so
//! that the order stays; its memory is registered, and kept until the engine is done with it.

use crate::acceptor::LIMIT;
use crate::connection::{Connection, ConnectionId, Keep, Out, Record, Registration, Role, State, Write};
use crate::core::{Core, Sent, place};
use crate::header::{ARGS_MAX, Answer, BULK_BYTES_MAX, Head, HeadBytes, Kind, bulk_word, word0};
use crate::life::finish_write;
use crate::name::EndpointId;
use crate::payload::NO_DATA;
use crate::probe::{Off, Probe, Stage, mark};
use crate::region::Region;
use crate::status::{Error, Operation, Status};
use crate::tables::lies_within;
use bellwire_peer::Put;
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, MemAttributes, PtagHandle, Segment, WRITE_COPIED_BYTES_MAX};
use std::sync::Arc;

/// Index of bulk messages, and of gets, in the counters.
pub(crate) const BULK: usize = 2;
pub(crate) const GET: usize = 3;

/// Where bulk data is. Invariant U2: readable for `length` bytes until it is sent: while the caller
/// waits for that, or for as long as `keep` does.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub from: *const u8,
    pub length: usize,
    pub region: Option<&'a Arc<Region>>,
}

/// A bulk request.
#[derive(Debug)]
pub(crate) struct Bulk<'a> {
    pub endpoint: EndpointId,
    pub index: u32,
    pub handler: u8,
    pub args: &'a [i32],
    /// In the receiver's segment.
    pub offset: u64,
    pub source: Source<'a>,
}

/// A get.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Get<'a> {
    pub endpoint: EndpointId,
    pub index: u32,
    pub handler: u8,
    pub args: &'a [i32],
    /// In the other's segment, and in that of the endpoint.
    pub offset: u64,
    pub to: u64,
    pub length: usize,
}

/// How much of a bulk message's data is in the peer's segment, and in which one: how many the peer
/// had told of.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub bytes: usize,
    segment: (u64, u32),
    heard: u32,
}

/// Copies up to [`WRITE_COPIED_BYTES_MAX`] bytes more into the peer's segment at `to`. `false`:
/// that cannot be done so.
fn write_more<W: Wire>(engine: &mut Engine<W>, connection: &Connection, source: &Source<'_>, to: (u64, u32), written: &mut Written) -> bool {
    if written.segment != to || written.heard != connection.segments_heard {
        *written = Written { bytes: 0, segment: to, heard: connection.segments_heard };
    }
    let n = (source.length - written.bytes).min(WRITE_COPIED_BYTES_MAX);
    // SAFETY: U2.
    let done =
        n == 0 || unsafe { engine.write_copied(connection.channel.vi(), source.from.wrapping_add(written.bytes), n, (to.0 + written.bytes as u64, to.1)) };
    if done {
        written.bytes += n;
    }
    done
}

/// What a posted write of the rest of `source` needs, registered.
fn rest<W: Wire>(engine: &mut Engine<W>, ptag: PtagHandle, source: &Source<'_>, written: &Written, keep: Keep) -> Result<Write, Error> {
    let (from, length) = (source.from.wrapping_add(written.bytes).expose_provenance() as u64, source.length - written.bytes);
    let registration = if matches!(keep, Keep::Other) { Registration::Cached } else { Registration::Once };
    let attributes = MemAttributes { ptag: Some(ptag), ..MemAttributes::default() };
    // SAFETY: U0 of the engine: U2, for the registration ends with the write. The region that it
    // keeps or the program owns the bytes, and they are only read.
    let handle = unsafe {
        if registration == Registration::Cached {
            engine.register_cached(from, length as u64, &attributes)
        } else {
            engine.register(from, length as u64, &attributes)
        }
    }?;
    let from = Segment { address: from, length: length as u32, handle: handle.raw() };
    let (address, handle) = written.segment;
    Ok(Write { from, registration, keep, remote: (address + written.bytes as u64, handle) })
}

impl<H> Core<H> {
    /// Sends a bulk request, or a part of it: see [`Sent`].
    pub(crate) fn request_bulk<W: Wire, P: Probe<Stage>>(&mut self, engine: &mut Engine<W>, r: &Bulk<'_>, written: &mut Written) -> Result<Sent, Error> {
        mark!(P, Entered);
        let length = r.source.length;
        if r.args.len() > ARGS_MAX || r.handler == 0 || length > BULK_BYTES_MAX {
            return Err(Error::BadArgument);
        }
        let endpoint = self.endpoints.get_mut(place(r.endpoint)).ok_or(Error::BadArgument)?;
        let id = endpoint.translations.get(r.index).map(|t| t.connection);
        let Some((id, connection)) = id.and_then(|id| Some((id, self.connections.get_mut(id).filter(|c| c.state == State::Open)?))) else {
            let record = r.record()?;
            return match self.open_connection(r.endpoint, r.index, &record)? {
                Ok(_) => Ok(Sent::Wait),
                Err(sent) => Ok(sent),
            };
        };
        if !connection.may_send() {
            return Ok(Sent::Wait);
        }
        let Some(segment) = connection.peer_segment else { return Ok(Sent::Wait) };
        if !lies_within(r.offset, length as u64, segment.length) {
            let returned = connection.returned_record(&r.record()?, Status::BadSegmentOffset);
            self.returns.push_back((r.endpoint, returned));
            return Ok(Sent::Yes);
        }
        mark!(P, Allowed);
        let is_direct = write_more(engine, connection, &r.source, (segment.address + r.offset, segment.handle), written);
        if is_direct && written.bytes < length {
            return Ok(Sent::More);
        }
        mark!(P, Written);
        let mut bytes = HeadBytes::new();
        let head = bytes.store(word0(Kind::Xfer, r.handler, r.args.len(), 0), &[r.offset, bulk_word(length, written.heard)], r.args, false);
        mark!(P, Built);
        let sent = if is_direct {
            match connection.send(engine, head, NO_DATA) {
                Put::Left | Put::Kept => {}
                Put::Stuck | Put::Broken => return Ok(Sent::Wait),
            }
            Sent::Yes
        } else {
            let keep = r.source.region.map_or(Keep::Other, |region| Keep::Region(Arc::clone(region)));
            let write = rest(engine, endpoint.ptag, &r.source, written, keep)?;
            connection.queue(Out { write: Some(write), bytes: head.to_vec() });
            Sent::Posted(id, connection.writes_queued)
        };
        mark!(P, Sent);
        r.fill(connection.note());
        endpoint.counters.requests_sent[BULK] += 1;
        endpoint.counters.bytes_sent += length as u64;
        if !connection.is_clear() {
            self.leave(engine, id);
        }
        mark!(P, Noted);
        Ok(sent)
    }

    /// Sends a get.
    pub(crate) fn get<W: Wire>(&mut self, engine: &mut Engine<W>, g: &Get<'_>) -> Result<Sent, Error> {
        let record = Record { operation: Operation::Get, length: g.length as u32, offset: g.offset, ..Record::new(g.handler, g.args)? };
        let own = self.endpoint(g.endpoint)?.segment.as_ref().map_or(0, |s| s.length);
        if g.length > BULK_BYTES_MAX || !lies_within(g.to, g.length as u64, own) {
            return Err(Error::BadArgument);
        }
        let (id, _) = match self.open_connection(g.endpoint, g.index, &record)? {
            Ok(open) => open,
            Err(sent) => return Ok(sent),
        };
        let Some(connection) = self.connections.get_mut(id) else { return Err(Error::BadArgument) };
        let head = Head { words: [g.offset, g.to, g.length as u64], ..Head::new(Kind::Get, g.handler, g.args) }.to_bytes();
        match connection.send(engine, &head, NO_DATA) {
            Put::Left | Put::Kept => {}
            Put::Stuck | Put::Broken => return Ok(Sent::Wait),
        }
        *connection.note() = record;
        self.count_request(g.endpoint, GET, 0);
        self.leave(engine, id);
        Ok(Sent::Yes)
    }

    /// The connection of entry `index`, if a request may leave there now, with the endpoint's tag;
    /// else what became of the request.
    fn open_connection(&mut self, endpoint: EndpointId, index: u32, record: &Record) -> Result<Result<(ConnectionId, PtagHandle), Sent>, Error> {
        let e = self.endpoint(endpoint)?;
        let (ptag, entry) = (e.ptag, e.translations.get(index).map(|t| t.connection));
        let Some(id) = entry else { return Ok(Err(self.return_unmapped(endpoint, index, record))) };
        let Some(connection) = self.connections.get(id) else { return Err(Error::BadArgument) };
        if connection.state != State::Open {
            return self.request_unconnected(id, record).map(Err);
        }
        let waits = !connection.may_send();
        Ok(if waits { Err(Sent::Wait) } else { Ok((id, ptag)) })
    }

    fn count_request(&mut self, endpoint: EndpointId, kind: usize, bytes: u64) {
        if let Some(e) = self.endpoints.get_mut(place(endpoint)) {
            e.counters.requests_sent[kind] += 1;
            e.counters.bytes_sent += bytes;
        }
    }

    /// Answers a request with bulk data into the requester's segment; the server's count goes up
    /// before. Data that cannot be written at once is written later: out of `region`, out of the
    /// endpoint's own segment `of_own`, or out of a copy.
    pub(crate) fn answer_bulk<W: Wire>(
        &mut self,
        engine: &mut Engine<W>,
        id: ConnectionId,
        mut answer: Answer<'_>,
        source: &Source<'_>,
        of_own: Option<u32>,
    ) -> Result<(), Error> {
        let Some(connection) = self.connections.get(id).filter(|c| c.state == State::Open) else { return Err(Error::NotSent) };
        if connection.out.len() + connection.writes.len() >= LIMIT as usize {
            self.malformed(engine, id);
            return Err(Error::NotSent);
        }
        let segment = connection.peer_segment.filter(|s| lies_within(answer.words[0], source.length as u64, s.length)).ok_or(Error::BadArgument)?;
        let to = (segment.address + answer.words[0], segment.handle);
        answer.words[1] = bulk_word(source.length, connection.segments_heard);
        let mut written = Written::default();
        while write_more(engine, connection, source, to, &mut written) {
            // A get is answered within a turn of the engine: no longer than one piece.
            if written.bytes == source.length {
                return self.answer::<W, Off>(engine, id, &answer, NO_DATA);
            }
            if of_own.is_some() {
                break;
            }
        }
        let rest_at = source.from.wrapping_add(written.bytes);
        let rest_bytes = source.length - written.bytes;
        let ptag = self.endpoint(connection.endpoint)?.ptag;
        let write = match (of_own, source.region) {
            (Some(handle), _) => Write {
                from: Segment { address: rest_at.addr() as u64, length: rest_bytes as u32, handle },
                registration: Registration::Segment,
                keep: Keep::Other,
                remote: (to.0 + written.bytes as u64, to.1),
            },
            (None, Some(region)) => rest(engine, ptag, source, &written, Keep::Region(Arc::clone(region)))?,
            (None, None) => {
                let mut copy = vec![0; rest_bytes];
                // SAFETY: U2; the vector has as many bytes.
                unsafe { bellwire_memory::bytes::copy(copy.as_mut_ptr(), rest_at, rest_bytes) };
                let source = Source { from: copy.as_ptr(), length: rest_bytes, region: None };
                let at = Written { bytes: 0, segment: (to.0 + written.bytes as u64, to.1), heard: written.heard };
                // The vector's bytes stay where they are when it moves.
                let keep = Keep::Bytes(Vec::new());
                let mut write = rest(engine, ptag, &source, &at, keep)?;
                write.keep = Keep::Bytes(copy);
                write
            }
        };
        let Some(connection) = self.connections.get_mut(id) else { return Err(Error::NotSent) };
        connection.credits.has_told();
        let bytes = answer.store(connection.credits.handled(), &mut HeadBytes::new()).to_vec();
        connection.queue(Out { write: Some(write), bytes });
        self.leave(engine, id);
        Ok(())
    }

    /// Sees to the writes that the engine has done.
    #[cold]
    pub(crate) fn finish_writes<W: Wire>(&mut self, engine: &mut Engine<W>) {
        let Self { connections, writing, garbage, .. } = self;
        writing.retain(|id| {
            let Some(connection) = connections.get_mut(*id) else { return false };
            while !connection.writes.is_empty() && matches!(engine.send_done(connection.channel.vi()), Ok(Some(_))) {
                connection.writes_done = connection.writes_done.wrapping_add(1);
                if let Some(write) = connection.writes.pop_front() {
                    finish_write(engine, write, garbage);
                }
            }
            connection.is_writing = !connection.writes.is_empty();
            connection.is_writing
        });
    }

    /// A get has come: its data goes into the segment of the requester.
    pub(crate) fn get_arrived<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, head: &Head) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.credits.has_handled();
        let [offset, to, length] = head.words;
        let (tag, endpoint_id) = (connection.tag, connection.endpoint);
        let Some(endpoint) = self.endpoints.get_mut(place(endpoint_id)) else { return };
        let source = endpoint.segment.as_ref().filter(|s| length <= BULK_BYTES_MAX as u64 && lies_within(offset, length, s.length)).map(|s| {
            let from = core::ptr::with_exposed_provenance((s.address + offset) as usize);
            (Source { from, length: length as usize, region: None }, s.handle.raw())
        });
        let wrong = match (endpoint.accepts(tag), source) {
            (false, _) => Status::BadTag,
            (true, None) => Status::BadSegmentOffset,
            (true, Some((source, handle))) => {
                endpoint.counters.requests_received[GET] += 1;
                let reply = Answer { kind: Kind::ReplyXfer, handler: head.handler, words: [to, 0, 0], args: head.args() };
                match self.answer_bulk(engine, id, reply, &source, Some(handle)) {
                    Ok(()) => {
                        if let Some(endpoint) = self.endpoints.get_mut(place(endpoint_id)) {
                            endpoint.counters.replies_sent[GET] += 1;
                            endpoint.counters.bytes_sent += length;
                        }
                        return;
                    }
                    Err(Error::NotSent) => return,
                    Err(_) => Status::BadSegmentOffset,
                }
            }
        };
        self.refuse(engine, id, wrong);
    }

    /// Sends a request back that counts as handled already.
    pub(crate) fn refuse<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, why: Status) {
        let Some(endpoint) = self.connections.get(id).map(|c| c.endpoint) else { return };
        if let Some(endpoint) = self.endpoints.get_mut(place(endpoint)) {
            endpoint.counters.refused += 1;
        }
        let _ = self.answer::<W, Off>(engine, id, &Answer::of(Kind::Returned, why as u8), NO_DATA);
    }

    /// Sets an endpoint's segment; the one before is returned, and reached by nobody any more.
    pub(crate) fn set_segment<W: Wire>(
        &mut self,
        engine: &mut Engine<W>,
        id: EndpointId,
        memory: Option<(u64, u64, Option<Arc<Region>>)>,
    ) -> Result<(), Error> {
        let endpoint = self.endpoints.get_mut(place(id)).ok_or(Error::BadArgument)?;
        let ptag = endpoint.ptag;
        if self.connections.iter().any(|(_, c)| c.endpoint == id && c.state == State::Open && c.segments_left == 0) {
            return Err(Error::Resource);
        }
        if let Some(old) = &endpoint.segment {
            // The answer to a get waits to read it: not yet known to the engine, which knows of
            // those that are posted.
            let is_read = |out: &Out| out.write.as_ref().is_some_and(|w| w.registration == Registration::Segment);
            if self.connections.iter().any(|(_, c)| c.endpoint == id && c.out.iter().any(is_read)) {
                return Err(Error::InUse);
            }
            engine.deregister(old.address, old.handle).map_err(|_| Error::InUse)?;
            let owner = endpoint.segment.take().and_then(|s| s.owner);
            // A handler that runs may be reading it.
            if self.running == 0 { self.garbage.extend(owner) } else { self.held.extend(owner) }
        }
        let registered = memory.map(|(address, length, owner)| {
            let attributes = MemAttributes { ptag: Some(ptag), rdma_write: true, rdma_read: false };
            // SAFETY: U0 of the engine: G1 of the region, which the segment owns; without one P2,
            // promised to `Bundle::set_segment_of_program`.
            let handle = unsafe { engine.register(address, length, &attributes) }?;
            Ok(crate::endpoint::Segment { address, length, handle, owner })
        });
        let result = registered.transpose().map(|segment| endpoint.segment = segment);
        let of: Vec<ConnectionId> = self.connections.iter().filter(|(_, c)| c.endpoint == id && c.state == State::Open).map(|(h, _)| h).collect();
        for connection in of {
            self.tell_segment(engine, connection);
        }
        result
    }

    /// Whether a write of a connection is over.
    pub(crate) fn is_written(&self, id: ConnectionId, number: u32) -> bool {
        self.connections.get(id).is_none_or(|c| (c.writes_done.wrapping_sub(number) as i32) >= 0)
    }

    /// The peer has told of its segment. `false`: it cannot be.
    pub(crate) fn heard_segment(&mut self, id: ConnectionId, head: &Head) -> bool {
        let Some(connection) = self.connections.get_mut(id) else { return true };
        let [address, length, handle] = head.words;
        if address.checked_add(length).is_none() || handle > u64::from(u32::MAX) {
            return false;
        }
        connection.peer_segment = Some(crate::connection::PeerSegment { address, length, handle: handle as u32 });
        connection.segments_heard = connection.segments_heard.wrapping_add(1);
        connection.role == Role::Server || connection.credits.acknowledge(head.handled).is_some()
    }
}

impl Bulk<'_> {
    #[inline]
    fn fill(&self, record: &mut Record) {
        (record.operation, record.handler, record.arg_count) = (Operation::RequestXfer, self.handler, self.args.len() as u8);
        (record.length, record.source, record.offset) = (self.source.length as u32, self.source.from.addr(), self.offset);
        record.args[..self.args.len()].copy_from_slice(self.args);
    }

    #[cold]
    pub(crate) fn record(&self) -> Result<Record, Error> {
        if self.args.len() > ARGS_MAX || self.handler == 0 {
            return Err(Error::BadArgument);
        }
        let mut record = Record::default();
        self.fill(&mut record);
        Ok(record)
    }
}

impl<'a> Source<'a> {
    pub(crate) fn of_region(region: &'a Arc<Region>, at: usize, length: usize) -> Result<Self, Error> {
        Ok(Self { from: region.part(at, length)?, length, region: Some(region) })
    }
}

impl Record {
    /// A record without what the kinds add.
    pub(crate) fn new(handler: u8, args: &[i32]) -> Result<Self, Error> {
        if args.len() > ARGS_MAX || handler == 0 {
            return Err(Error::BadArgument);
        }
        let mut record = Self { handler, arg_count: args.len() as u8, ..Self::default() };
        record.args[..args.len()].copy_from_slice(args);
        Ok(record)
    }
}
