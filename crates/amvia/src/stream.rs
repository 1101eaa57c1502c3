// SPDX-License-Identifier: MIT OR Apache-2.0
//! v1: bulk data in pieces, by send and receive alone.
//!
//! A bulk request or get is cut into pieces, each a request of its own on the VI for bulk; the last
//! one runs the handler. A reply that is too long for the VI of its request is held by its sender,
//! and fetched in parts by the requester.

use crate::carrying::{Data, NO_DATA};
use crate::core::{Core, Request, Sent, What};
use crate::cut::{Fetch, Stream};
use crate::delivery::Delivery;
use crate::head::{Head, Kind};
use crate::map::State;
use crate::probe::Off;
use crate::record::{Cut, Record};
use bellwire_am::{BULK_BYTES_MAX, MEDIUM_BYTES_MAX, Status};
use bellwire_memory::bytes;

/// Bytes of a piece.
const PIECE: usize = MEDIUM_BYTES_MAX;
/// The VI for bulk.
const LANE: usize = 2;

impl<H> Core<H> {
    /// Begins a bulk request or get.
    pub(crate) fn begin_stream(&mut self, id: u32, request: &Request<'_>, record: Record, head: Head) -> Sent {
        let Some(map) = self.maps.get_mut(&id) else { return Sent::Wait };
        if !map.streams.is_empty() {
            return Sent::Wait;
        }
        let data = if let What::Xfer(data, _) = request.what { data.0 } else { core::ptr::null() };
        map.streams_begun += 1;
        let number = map.streams_begun;
        map.streams.push_back(Stream { record, head, data, sent: 0 });
        self.pump(id);
        if data.is_null() { Sent::Yes } else { Sent::Posted { map: id, lane: LANE, number } }
    }

    /// Sends what there are slots for, of all MAP objects.
    #[cold]
    pub(crate) fn pump_all(&mut self) {
        for id in core::mem::take(&mut self.pumping) {
            if let Some(map) = self.maps.get_mut(&id) {
                map.is_pumping = false;
                self.pump(id);
            }
        }
    }

    fn pump(&mut self, id: u32) {
        while self.pump_one(id) {}
        if let Some(map) = self.maps.get_mut(&id)
            && !map.is_pumping
            && !(map.streams.is_empty() && map.fetches.iter().all(|fetch| fetch.asked == fetch.length))
        {
            map.is_pumping = true;
            self.pumping.push(id);
        }
    }

    /// Sends a piece, or asks for a part. `false`: there is nothing, or no slot.
    fn pump_one(&mut self, id: u32) -> bool {
        let Some(map) = self.maps.get(&id).filter(|m| m.state == State::Open) else { return false };
        let is_fetching = map.fetches.iter().any(|fetch| fetch.asked < fetch.length);
        if map.streams.is_empty() && !is_fetching {
            return false;
        }
        let Some(slot) = self.take_slot(id, LANE, 0) else { return false };
        let Some(map) = self.maps.get_mut(&id) else { return false };
        let (head, payload, record): (Head, Data, Record) = if let Some(fetch) = map.fetches.iter_mut().find(|fetch| fetch.asked < fetch.length) {
            let n = PIECE.min(fetch.length - fetch.asked);
            let words = [fetch.number, fetch.asked as u64, n as u64];
            fetch.asked += n;
            let head = Head { words, tag: fetch.record.tag, ..Head::new(Kind::Fetch, 0, slot, &[]) };
            (head, NO_DATA, Record { is_abandoned: true, cut: Cut::Fetch, ..fetch.record })
        } else if let Some(stream) = map.streams.front_mut() {
            let (whole, at) = (stream.record.length, stream.sent);
            let n = PIECE.min(whole - at);
            let (is_first, is_last) = (at == 0, at + n == whole);
            stream.sent += n;
            let mut head = Head { slot, ..stream.head };
            let mut payload = NO_DATA;
            let offset = stream.record.offset + at as u64;
            if head.kind == Kind::Get {
                head.words = [offset, n as u64, head.words[2] + at as u64];
            } else {
                if !is_last {
                    head = Head { tag: head.tag, ..Head::new(Kind::Piece, 0, slot, &[]) };
                }
                head.status = u8::from(is_first);
                head.words = [offset, n as u64, whole as u64];
                payload = (stream.data.wrapping_add(at), n);
            }
            (head, payload, Record { is_abandoned: !is_last, cut: if is_first { Cut::First } else { Cut::No }, ..stream.record })
        } else {
            return false;
        };
        if !record.is_abandoned {
            map.streams.pop_front();
            map.streams_done += 1;
        }
        self.post::<Off>(id, LANE, slot, &head, payload);
        if let Some(place) = self.maps.get_mut(&id).and_then(|m| m.lanes.get_mut(LANE)?.records.get_mut(usize::from(slot))) {
            *place = Some(record);
        }
        true
    }

    /// A reply that is too long for its VI: it is held, and the requester told.
    pub(crate) fn hold(&mut self, at: (u32, usize), head: &Head, payload: Data) -> bool {
        let Some(map) = self.maps.get_mut(&at.0).filter(|m| m.state == State::Open) else { return false };
        if map.held.len() >= map.held_max() {
            self.broke_rules(at.0);
            return false;
        }
        let mut copy = vec![0; payload.1];
        // SAFETY: P1; the copy allows that others write.
        unsafe { bytes::copy(copy.as_mut_ptr(), payload.0, payload.1) };
        map.held_count += 1;
        let number = map.held_count;
        map.held.insert(number, copy);
        let told = Head { kind: Kind::Held, status: head.kind as u8, words: [number, payload.1 as u64, head.words[0]], ..*head };
        self.answer(at, told, NO_DATA, None)
    }

    /// A reply is held for a request of this side. `false`: it cannot be.
    pub(crate) fn held(&mut self, id: u32, head: &Head, record: Record) -> bool {
        let [number, length, offset] = head.words;
        let (kind, most) = if head.status == Kind::ReplyXfer as u8 { (Kind::ReplyXfer, BULK_BYTES_MAX) } else { (Kind::ReplyMedium, MEDIUM_BYTES_MAX) };
        let Some(length) = usize::try_from(length).ok().filter(|length| (1..=most).contains(length)) else { return false };
        let Some(map) = self.maps.get_mut(&id) else { return false };
        let reply = Head { kind, status: 0, words: [offset, length as u64, length as u64], ..*head };
        map.fetches.push_back(Fetch { number, record, head: reply, length, asked: 0, data: Vec::new() });
        self.pump(id);
        true
    }

    /// A part of a held reply has come. The reply, if that was the last one; `Err`: it cannot be.
    pub(crate) fn part(&mut self, delivery: &Delivery) -> Result<Option<(Record, Head, Vec<u8>)>, ()> {
        let [number, first, n] = delivery.head.words;
        let map = self.maps.get_mut(&delivery.map).ok_or(())?;
        let at = map.fetches.iter().position(|fetch| fetch.number == number).ok_or(())?;
        let fetch = &mut map.fetches[at];
        let old = fetch.data.len();
        if first != old as u64 || n != delivery.length as u64 || delivery.length > fetch.length - old {
            return Err(());
        }
        fetch.data.resize(old + delivery.length, 0);
        // SAFETY: D1: the payload is readable; the copy allows that the peer writes.
        unsafe { bytes::copy(fetch.data[old..].as_mut_ptr(), delivery.payload, delivery.length) };
        if fetch.data.len() < fetch.length {
            return Ok(None);
        }
        Ok(map.fetches.remove(at).map(|fetch| (fetch.record, fetch.head, fetch.data)))
    }

    /// A peer asks for a part of a reply that is held for it.
    pub(crate) fn serve_fetch(&mut self, delivery: &Delivery) -> Result<(), Status> {
        let [number, first, n] = delivery.head.words;
        let Some(map) = self.maps.get_mut(&delivery.map) else { return Ok(()) };
        let held = map.held.get(&number).ok_or(Status::BadLength)?;
        let (first_, n_) = (usize::try_from(first).unwrap_or(usize::MAX), usize::try_from(n).unwrap_or(usize::MAX));
        let end = first_.checked_add(n_).filter(|end| *end <= held.len() && n_ <= PIECE).ok_or(Status::BadLength)?;
        let is_last = end == held.len();
        let part = held[first_..end].to_vec();
        if is_last {
            map.held.remove(&number);
        }
        let head = Head { words: [number, first, n], ..Head::new(Kind::Part, 0, delivery.head.slot, &[]) };
        self.answer((delivery.map, delivery.lane), head, (part.as_ptr(), part.len()), None);
        Ok(())
    }
}
