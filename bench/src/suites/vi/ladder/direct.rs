// SPDX-License-Identifier: MIT OR Apache-2.0
//! A message is one send, which comes into the receiver's memory: a receive names that memory
//! behind room for a header. The sender copies, or sends from where the bytes lie.
//!
//! A sender must know that a receive is posted. Receivers count their receives. Each header tells
//! the number; if no message leaves, it is written to the peer's memory.

use std::collections::VecDeque;
use std::rc::Rc;

use bellwire_vipl_calls::{CONTROL_RDMA_WRITE, CONTROL_SEND, Descriptor, Segment};

use super::channel::Link;
use super::memory::{Block, Span};
use super::port::{Arena, Port, failed};
use super::{Rung, Wait};
use crate::crowd::Crowd;
use crate::error::Error;
use crate::job::{Request, Setup};

/// Messages under way in each direction.
const SLOTS: usize = 16;
/// Longest message.
pub const MESSAGE_MAX: usize = 64 << 10;
/// Bytes of a header: the number of receives.
const HEADER_BYTES: usize = 16;
/// A descriptor, a header behind it.
const SLOT_BYTES: usize = 128;
/// The slot of the write that tells the number, and where it writes from.
const TELLER: usize = 2 * SLOTS;
const ARENA_BYTES: usize = (2 * SLOTS + 1) * SLOT_BYTES;

/// A message under way.
struct Under {
    slot: usize,
    /// Keeps the memory (O1).
    span: Span,
    /// To be released: what the cache gave.
    handle: Option<u32>,
}

/// See the module. Slots from `SLOTS` on are receives.
pub struct Direct {
    rung: Rung,
    port: Port,
    arena: Arena,
    /// Where messages are copied to, if they are.
    copies: Option<Arena>,
    /// Where the peer writes the number of its receives.
    count: Arena,
    /// Where that is in the peer.
    there: (u64, u32),
    sending: VecDeque<Under>,
    receiving: VecDeque<Under>,
    free_sends: Vec<usize>,
    free_receives: Vec<usize>,
    given: u32,
    posted_there: u32,
    posted: u32,
    told: u32,
    is_telling: bool,
    sent: u64,
    received: u64,
}

impl Direct {
    /// Connected with the other process.
    ///
    /// # Errors
    /// The library fails, or the other process does not come.
    pub fn open(setup: &Setup, request: &Request, crowd: &mut Crowd<'_>, rung: Rung, wait: Wait) -> Result<Self, Error> {
        let port = Port::open(setup, wait)?;
        let (arena, count) = (port.arena(ARENA_BYTES, false)?, port.arena(64, true)?);
        let copies = if rung == Rung::Placed { Some(port.arena(SLOTS * MESSAGE_MAX, false)?) } else { None };
        let own = count.segment(0, 4);
        let mut said = [0; 16];
        said[..8].copy_from_slice(&own.address.to_ne_bytes());
        said[8..12].copy_from_slice(&own.handle.to_ne_bytes());
        let heard = port.connect(setup, request, crowd, said)?;
        let there = (u64::from_ne_bytes(std::array::from_fn(|i| heard[i])), u32::from_ne_bytes(std::array::from_fn(|i| heard[8 + i])));
        Ok(Self {
            rung,
            port,
            arena,
            copies,
            count,
            there,
            sending: VecDeque::new(),
            receiving: VecDeque::new(),
            free_sends: (0..SLOTS).collect(),
            free_receives: (SLOTS..2 * SLOTS).collect(),
            given: 0,
            posted_there: 0,
            posted: 0,
            told: 0,
            is_telling: false,
            sent: 0,
            received: 0,
        })
    }

    fn descriptor(&self, slot: usize) -> *mut Descriptor {
        self.arena.at.as_ptr().wrapping_add(slot * SLOT_BYTES).cast()
    }

    fn header(&self, slot: usize) -> *mut u32 {
        self.arena.at.as_ptr().wrapping_add(slot * SLOT_BYTES + size_of::<Descriptor>()).cast()
    }

    fn header_segment(&self, slot: usize, bytes: usize) -> Segment {
        self.arena.segment(slot * SLOT_BYTES + size_of::<Descriptor>(), bytes)
    }

    /// Describes a message: a header, and bytes unless there are none.
    fn arm(&self, slot: usize, bytes: Segment) -> *mut Descriptor {
        let segments = [self.header_segment(slot, HEADER_BYTES), bytes];
        let (segment_count, length) = (1 + u16::from(bytes.length != 0), HEADER_BYTES as u32 + bytes.length);
        let descriptor = self.descriptor(slot);
        // SAFETY: within the arena, at a multiple of 64, and not posted.
        unsafe { descriptor.write(Descriptor { segment_count, control: CONTROL_SEND, length, segments, ..Default::default() }) };
        descriptor
    }

    /// A message's memory, as a descriptor names it; and what is to be released then.
    fn register(&self, span: &Span) -> Result<(Segment, Option<u32>), Error> {
        let segment = |handle| Segment { address: span.address(), handle, length: span.len() as u32 };
        if self.rung != Rung::Cached || span.len() == 0 {
            return Ok((segment(span.block.handle), None));
        }
        // SAFETY: the span is kept until the registration is released.
        let handle = unsafe { self.port.nic.register_cached(span.address(), span.len(), self.port.ptag) }.map_err(failed("VipxRegisterCached"))?;
        Ok((segment(handle), Some(handle)))
    }

    fn release(&self, under: &Under) {
        if let Some(handle) = under.handle {
            self.port.nic.release_cached(under.span.address(), handle);
        }
    }

    /// Takes back what has left.
    fn reclaim(&mut self) -> Result<(), Error> {
        while let Some(descriptor) = self.port.sent()? {
            if descriptor == self.descriptor(TELLER) {
                self.is_telling = false;
                continue;
            }
            let Some(under) = self.sending.pop_front().filter(|under| self.descriptor(under.slot) == descriptor) else {
                return Err(Error::failed("a send that was not posted"));
            };
            self.release(&under);
            self.free_sends.push(under.slot);
            self.sent += 1;
        }
        Ok(())
    }

    /// Writes the number of receives to the peer, unless the last such write is still under way.
    fn tell(&mut self) -> Result<(), Error> {
        self.reclaim()?;
        if self.is_telling {
            return Ok(());
        }
        (self.told, self.is_telling) = (self.posted, true);
        // SAFETY: within the arena, and no write is under way.
        unsafe { self.header(TELLER).write(self.posted) };
        let segments = [Segment { address: self.there.0, handle: self.there.1, length: 0 }, self.header_segment(TELLER, 4)];
        let descriptor = self.descriptor(TELLER);
        // SAFETY: within the arena, and the teller's descriptor is not posted.
        unsafe { descriptor.write(Descriptor { segment_count: 2, control: CONTROL_RDMA_WRITE, length: 4, segments, ..Default::default() }) };
        self.post_send(descriptor)
    }

    fn post_send(&self, descriptor: *mut Descriptor) -> Result<(), Error> {
        // SAFETY: O1.
        if unsafe { self.port.nic.post_send(self.port.vi, descriptor, self.arena.handle) } { Ok(()) } else { Err(Error::failed("VipPostSend fails")) }
    }

    /// Whether the peer has posted a receive for another message.
    fn may_send(&mut self) -> bool {
        if self.given == self.posted_there {
            // SAFETY: memory of the NIC's, which the peer writes at any time: each of its values is
            // one that was true.
            self.heard(unsafe { self.count.at.as_ptr().cast::<u32>().read_volatile() });
        }
        self.given != self.posted_there
    }

    /// The peer has posted so many receives, in all. It counts up, beyond the greatest number.
    fn heard(&mut self, posted: u32) {
        if posted.wrapping_sub(self.given) <= SLOTS as u32 && posted.wrapping_sub(self.posted_there) <= SLOTS as u32 {
            self.posted_there = posted;
        }
    }
}

impl Link for Direct {
    fn memory(&mut self, bytes: usize) -> Result<Rc<Block>, Error> {
        if self.rung == Rung::Cached { Ok(Block::of_heap(bytes)) } else { self.port.block(bytes.max(1)) }
    }

    fn send(&mut self, from: &Span) -> Result<bool, Error> {
        if from.len() > MESSAGE_MAX {
            return Err(Error::unsupported(format!("{} bytes; the most is {MESSAGE_MAX}", from.len())));
        }
        self.reclaim()?;
        if !self.may_send() {
            return Ok(false);
        }
        let Some(slot) = self.free_sends.pop() else { return Ok(false) };
        let (segment, handle) = match self.copies {
            None => self.register(from)?,
            Some(copies) => {
                let to = copies.at.as_ptr().wrapping_add(slot * MESSAGE_MAX);
                // SAFETY: within the arena of copies; a free slot's is used by nobody.
                from.read(0, unsafe { std::slice::from_raw_parts_mut(to, from.len()) });
                (copies.segment(slot * MESSAGE_MAX, from.len()), None)
            }
        };
        self.told = self.posted;
        // SAFETY: within the arena, and not posted.
        unsafe { self.header(slot).write(self.posted) };
        let descriptor = self.arm(slot, segment);
        self.post_send(descriptor)?;
        self.given = self.given.wrapping_add(1);
        self.sending.push_back(Under { slot, span: from.clone(), handle });
        Ok(true)
    }

    fn post(&mut self, to: &Span) -> Result<bool, Error> {
        let Some(slot) = self.free_receives.pop() else { return Ok(false) };
        let (segment, handle) = self.register(to)?;
        let descriptor = self.arm(slot, segment);
        // SAFETY: O1.
        if !unsafe { self.port.nic.post_receive(self.port.vi, descriptor, self.arena.handle) } {
            return Err(Error::failed("VipPostRecv fails"));
        }
        self.receiving.push_back(Under { slot, span: to.clone(), handle });
        self.posted = self.posted.wrapping_add(1);
        Ok(true)
    }

    fn look(&mut self) -> Result<bool, Error> {
        let Some(descriptor) = self.port.receive()? else {
            self.reclaim()?;
            if self.posted != self.told {
                self.tell()?;
            }
            return Ok(false);
        };
        let Some(under) = self.receiving.pop_front().filter(|under| self.descriptor(under.slot) == descriptor) else {
            return Err(Error::failed("a receive that was not posted"));
        };
        self.release(&under);
        // SAFETY: within the arena; it has come back.
        self.heard(unsafe { self.header(under.slot).read() });
        self.free_receives.push(under.slot);
        self.received += 1;
        Ok(true)
    }

    fn sent(&self) -> u64 {
        self.sent
    }

    fn received(&self) -> u64 {
        self.received
    }

    fn sleep(&mut self) -> Result<(), Error> {
        self.port.sleep()
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        // Ends the VI first (O1): its own drop finds it ended.
        self.port.nic.end_vi(self.port.vi);
        self.sending.iter().chain(&self.receiving).for_each(|under| self.release(under));
    }
}
