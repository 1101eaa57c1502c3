// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrival: the fragments of a message go into the receive descriptor at the front, which completes
//! with the last one. Called by `deliver.rs` for what came as frames, by `pull.rs` for what is
//! copied from the peer's process.
//!
//! Lengths and offsets are the peer's: they are compared with the descriptor before a byte moves. A
//! message that loss cut off leaves its descriptor to the next one.

use crate::cause::Cause;
use crate::complete::{finish_receive, sink};
use crate::engine::Engine;
use crate::event::AsyncErrorCode;
use crate::frame::{self, Bulk, DisconnectReason, Head, INLINE_BYTES_MAX, Op};
use crate::limits::PLACE_BYTES_MIN;
use crate::status::Status;
use crate::user_memory::Gather;
use crate::wire::{Frame, Wire};

/// Small messages in a row after which a VI stops advertising.
const SMALL_IN_A_ROW_MAX: u32 = 64;

/// Where the bytes of a fragment are.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// In the wire.
    Here(*const u8),
    /// In the memory of the peer's process, to be copied by us; the peer's name for the request.
    Peer(u64, u32),
}

/// A fragment of a message for a receive descriptor.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub from: Source,
    pub offset: u32,
    pub length: u32,
    pub total: u32,
    pub immediate: Option<u32>,
    pub last: bool,
}

/// What to do with the rest of a message.
pub(crate) enum Taken {
    /// Placed or dropped: fine.
    Fine,
    /// The connection breaks: event here, reason for the peer.
    Break(AsyncErrorCode, DisconnectReason),
}

impl<W: Wire> Engine<W> {
    /// Takes a fragment into the descriptor at the front, with all that can be wrong about it.
    #[inline]
    pub(crate) fn receive_fragment(&mut self, index: usize, arrival: Arrival, operation: Status) {
        match self.place_fragment(index, arrival, operation) {
            Taken::Fine => {}
            Taken::Break(code, reason) => self.break_connection(index, Some(code), Cause::Here(reason)),
        }
    }

    #[inline]
    fn place_fragment(&mut self, index: usize, a: Arrival, operation: Status) -> Taken {
        let Some(handle) = self.vis.handle_at(index) else { return Taken::Fine };
        let mut vi = match self.vis.at(index) {
            Some(vi) => vi,
            None => return Taken::Fine,
        };
        if !(vi.arriving && a.offset != 0 && a.offset == vi.arrived) {
            if (a.offset != 0 || vi.arriving) && !self.restart_arrival(index, &a) {
                return Taken::Fine;
            }
            match self.begin_arrival(index, &a, operation) {
                Ok(true) => {}
                Ok(false) => return Taken::Fine,
                Err(broken) => return broken,
            }
            vi = match self.vis.at(index) {
                Some(vi) => vi,
                None => return Taken::Fine,
            };
        }
        let work = vi.receive.works.at(vi.receive.done);
        if a.offset > work.capacity || a.length > work.capacity - a.offset {
            return Taken::Break(AsyncErrorCode::ConnectionLost, DisconnectReason::Protocol);
        }
        let segments = work.segments;
        let there = match a.from {
            Source::Here(from) if segments.count == 1 => {
                // SAFETY: U1 (user_memory.rs): checked and held since post; bounds just checked.
                // `from` is readable for `length` bytes (send_arrival).
                unsafe { self.registry.copy_in(segments.only.address + u64::from(a.offset), from, a.length as usize) }
            }
            // SAFETY: U1 (user_memory.rs): checked and held since post; bounds just checked. `from`
            // is readable for `length` bytes (send_arrival).
            Source::Here(from) => unsafe { Gather::new(segments, &vi.receive.segments).copy_in(&self.registry, a.offset, a.length, from) },
            Source::Peer(address, name) => {
                let (wire, link) = (&mut self.wire, vi.link);
                // SAFETY: U1 (user_memory.rs): checked and held since post; bounds just checked, so
                // `to` may be written for `n` bytes.
                let whole = Gather::new(segments, &vi.receive.segments)
                    .each(a.offset, a.length, |to, at, n| unsafe { wire.pull(link, address.wrapping_add(at), to, n) });
                if !whole {
                    // It comes again, from its beginning, as frames. The rest of it is dropped
                    // like the rest of a message that was cut off.
                    vi.set_arriving(false);
                    vi.arrived = 0;
                    self.answer_pull(index, name, false);
                    return Taken::Fine;
                }
                true
            }
        };
        if !there {
            self.receive_faulted(index, &a, operation);
            return Taken::Fine;
        }
        if a.last {
            vi.set_arriving(false);
            self.end_arrival(index, handle, a.total, a.immediate, operation);
            if let Source::Peer(_, name) = a.from {
                self.answer_pull(index, name, true);
            }
        } else {
            vi.set_arriving(true);
            vi.arrived = a.offset + a.length;
        }
        Taken::Fine
    }

    /// A fragment that does not continue what was arriving: `true` if it begins a message.
    #[cold]
    fn restart_arrival(&mut self, index: usize, a: &Arrival) -> bool {
        let Some(vi) = self.vis.at(index) else { return false };
        // The message before was cut off by loss; its descriptor stays for the next one.
        vi.set_arriving(false);
        vi.arrived = 0;
        if a.offset != 0 {
            if a.last {
                vi.discarding = false;
            }
            return false;
        }
        true
    }

    /// Finds a descriptor for a new message. `Ok(false)`: the message is dropped or refused for
    /// now.
    #[inline]
    pub(crate) fn begin_arrival(&mut self, index: usize, a: &Arrival, operation: Status) -> Result<bool, Taken> {
        let Some(vi) = self.vis.at(index) else { return Ok(false) };
        vi.discarding = false;
        let there = vi.receive.has_posted() || vi.srq.is_some() && self.take_shared(index);
        if !there {
            return self.no_descriptor(index);
        }
        let Some(vi) = self.vis.at(index) else { return Ok(false) };
        if a.total > vi.receive.works.at(vi.receive.done).capacity {
            return Err(self.too_long(index, a, operation));
        }
        Ok(true)
    }

    #[cold]
    fn no_descriptor(&mut self, index: usize) -> Result<bool, Taken> {
        let Some(vi) = self.vis.at(index) else { return Ok(false) };
        if !vi.attributes.reliability.is_reliable() {
            vi.counters.dropped += 1;
            return Ok(false);
        }
        if !vi.attributes.rnr_wait {
            return Err(Taken::Break(AsyncErrorCode::ReceiveQueueEmpty, DisconnectReason::ReceiveQueueEmpty));
        }
        vi.told_not_ready = true;
        vi.update_paths();
        let mut line = frame::short(Head::new(Op::ReceiverNotReady, vi.remote_connection), u64::from(vi.expected_sequence), 0);
        let link = vi.link;
        if let Some(srq) = vi.srq
            && let Some(handle) = self.vis.handle_at(index)
            && let Some(s) = self.srqs.get_mut(srq)
            && !s.waiting.contains(&handle)
        {
            s.waiting.push_back(handle);
        }
        self.send_control_line(link, &mut line);
        Ok(false)
    }

    #[cold]
    fn too_long(&mut self, index: usize, a: &Arrival, operation: Status) -> Taken {
        let Some(handle) = self.vis.handle_at(index) else { return Taken::Fine };
        let mut sink = sink!(self);
        let Some(vi) = self.vis.at(index) else { return Taken::Fine };
        vi.message = vi.message.wrapping_add(1);
        finish_receive(vi, handle, Status::LENGTH_ERROR | operation, 0, a.immediate, &mut sink);
        if vi.attributes.reliability.is_reliable() {
            Taken::Break(AsyncErrorCode::Overrun, DisconnectReason::TooLong)
        } else {
            vi.discarding = !a.last;
            Taken::Fine
        }
    }

    /// The message is whole.
    #[inline]
    pub(crate) fn end_arrival(&mut self, index: usize, handle: crate::handles::ViHandle, total: u32, immediate: Option<u32>, operation: Status) {
        let mut sink = sink!(self);
        let Some(vi) = self.vis.at(index) else { return };
        vi.message = vi.message.wrapping_add(1);
        finish_receive(vi, handle, operation, total, immediate, &mut sink);
        let faulty_next = vi.receive.has_posted() && vi.receive.works.at(vi.receive.done).status.is_error();
        let acknowledge = vi.acknowledges;
        if acknowledge {
            vi.expected_sequence = vi.expected_sequence.wrapping_add(1);
            if vi.told_not_ready {
                vi.told_not_ready = false;
                vi.update_paths();
            }
        }
        if total >= PLACE_BYTES_MIN {
            vi.small_in_a_row = 0;
            if !vi.advertises && vi.srq.is_none() && vi.attributes.reliability.is_reliable() && !vi.attributes.rnr_wait {
                vi.advertises = true;
                vi.update_paths();
            }
        } else if vi.advertises {
            vi.small_in_a_row += 1;
            if vi.small_in_a_row > SMALL_IN_A_ROW_MAX {
                vi.advertises = false;
                vi.update_paths();
            }
        }
        let advertises = vi.advertises;
        if acknowledge {
            self.ready.insert(index);
        }
        if faulty_next {
            self.settle_faulty_receives(index);
        }
        if advertises {
            self.advertise_posted(index);
        }
    }

    /// Moves a descriptor of the shared receive queue to the VI. `false`: there is none.
    fn take_shared(&mut self, index: usize) -> bool {
        let Some(vi) = self.vis.at(index) else { return false };
        let Some(s) = vi.srq.and_then(|s| self.srqs.get_mut(s)) else { return false };
        if s.queue.works.is_empty() {
            return false;
        }
        let mut work = s.queue.works.get(s.queue.works.head());
        if work.segments.count > 1 {
            let from = work.segments.more_at;
            work.segments.more_at = vi.receive.segments.tail();
            for i in 0..u32::from(work.segments.count) {
                vi.receive.segments.push(s.queue.segments.get(from.wrapping_add(i)));
            }
            s.queue.segments.advance(u32::from(work.segments.count));
        }
        s.queue.works.advance(1);
        s.queue.done = s.queue.works.head();
        vi.receive.works.push(work);
        true
    }
}

/// A send frame's fragment, if its lengths agree.
#[inline]
pub(crate) fn send_arrival(head: Head, frame: &Frame) -> Option<Arrival> {
    if head.is_bulk() {
        let b = Bulk::load(frame);
        let end = b.offset.checked_add(b.length)?;
        if b.length as usize != frame.payload_len() || end > b.total || head.is_last() != (end == b.total) || (b.length == 0 && b.total != 0) {
            return None;
        }
        return Some(Arrival {
            from: Source::Here(frame.payload()),
            offset: b.offset,
            length: b.length,
            total: b.total,
            immediate: head.has_immediate().then_some(b.immediate),
            last: head.is_last(),
        });
    }
    let length = head.inline_len()?;
    if !head.is_last() {
        return None;
    }
    let immediate = head.has_immediate();
    debug_assert!(length <= INLINE_BYTES_MAX);
    Some(Arrival {
        from: Source::Here(frame.words_from(1 + usize::from(immediate))),
        offset: 0,
        length: length as u32,
        total: length as u32,
        immediate: immediate.then_some(frame.word(1) as u32),
        last: true,
    })
}
