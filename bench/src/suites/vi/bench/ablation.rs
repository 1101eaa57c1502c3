// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a message-passing library may use a VI: the ablation of the MPICH2 device of the paper on
//! VIA2SISCI and MPICH2-CH3, repeated on libvipl.
//!
//! Two processes exchange messages that lie in memory of the program, unregistered, by one of four
//! protocols:
//!
//! - *segments*: copied into pre-registered pieces of 16 KiB, sent, copied out of those they arrive
//!   in. No RDMA.
//! - *registering*: from 32,000 bytes on the sender announces a message, the receiver registers its
//!   buffer and says where it is, the sender registers its own and writes it there with immediate
//!   data; both deregister. Below, segments.
//! - *cached*: the same, but what has been registered stays so: two handles of two buffers, the
//!   limit of a registration cache that never misses.
//! - *polled*: as cached; below 16 KiB messages are written into a place that the receiver polls,
//!   one of a set: first the data, then a word that says that they are there.
//!
//! Both sides post receives for two whole messages, which is as far as a peer can be ahead in a
//! ping-pong or an exchange, so no credits are needed.

use std::hint::spin_loop;
use std::time::Instant;

use super::payload::{Pattern, Touch};
use super::{AREA_BYTES, Context, Remote};
use crate::clock::Patience;
use crate::endpoint::{Block, PATIENCE, SEND, Vi, arm, rearm};
use crate::error::Error;
use crate::job::{Ablated, Exchanged};
use crate::vipl_abi::{Descriptor, Segment, control};

/// Bytes of a pre-registered piece.
const PIECE: usize = 16 << 10;
/// From so many bytes on messages go by RDMA, in the protocols that have it: the paper's value.
const RDMA_MIN: usize = 32_000;
/// Longest message that is polled for.
const POLLED_MAX: usize = 16 << 10;
/// Longest message at all: two of them fit into the receives of a side.
pub const MESSAGE_MAX: usize = AREA_BYTES / 4;
/// Pieces that receives are posted for, and that are sent from.
const RECEIVES: usize = AREA_BYTES / 2 / PIECE;
const SENDS: usize = 32;
/// Descriptor of an RDMA write, and of that of the word behind it.
const WRITE: usize = RECEIVES + SENDS;
/// Where the places that are polled lie in the incoming area, behind the pieces. Each is two, used
/// by turns: of data, and a word in a line of its own.
const PLACES_AT: usize = AREA_BYTES / 2;
const HALF_BYTES: usize = POLLED_MAX + 64;
/// Most places.
const PLACES_MAX: usize = (AREA_BYTES - PLACES_AT) / HALF_BYTES / 2;
/// Looks at all places between two calls that let the library make progress.
const LOOKS_PER_CALL: u32 = 1024;
/// Bytes of a control message: what it is about, and where a registered buffer is.
const CONTROL_BYTES: usize = 24;

/// One side.
struct Device<'c> {
    context: &'c Context<'c>,
    vi: Vi,
    remote: Remote,
    how: Ablated,
    /// The program's messages: what goes out, and at `stride` what comes in.
    user: Block,
    stride: usize,
    /// Their registrations, if they are kept.
    kept: [Option<u32>; 2],
    /// Sends, and those whose completions have been collected.
    posted: usize,
    collected: usize,
    sequence: u64,
    patience: Patience,
}

/// `[ns]`: half a round trip, or a call in which both send and receive.
///
/// # Errors
/// If the library fails, nothing comes, or what comes is damaged.
pub fn run(context: &Context<'_>, how: Ablated, exchanged: Exchanged, size: usize, count: u64) -> Result<Vec<f64>, Error> {
    let mut device = Device::connect(context, how, size)?;
    let pattern = Pattern::new(size);
    // SAFETY: P1: our own memory, of which nobody else knows yet.
    unsafe { pattern.fill(device.user.at(0, size)) };
    let warm_up = count / 4 + 2;
    let mut start = Instant::now();
    for turn in 0..warm_up + count {
        if turn == warm_up {
            start = Instant::now();
        }
        device.turn(exchanged, &pattern)?;
    }
    let elapsed = start.elapsed().as_nanos() as f64 / count as f64;
    device.end()?;
    Ok(vec![if exchanged == Exchanged::PingPong { elapsed / 2.0 } else { elapsed }])
}

impl<'c> Device<'c> {
    fn connect(context: &'c Context<'c>, how: Ablated, size: usize) -> Result<Self, Error> {
        if size > MESSAGE_MAX || how.places() > PLACES_MAX {
            return Err(Error::unsupported(format!("at most {MESSAGE_MAX} bytes and {PLACES_MAX} places")));
        }
        let vi = context.create_vi()?;
        for at in 0..RECEIVES {
            // SAFETY: E2: not posted yet.
            unsafe { arm(context.descriptor(at), SEND, PIECE as u32, &[context.incoming(at * PIECE, PIECE)]) };
            vi.post_recv(context.descriptor(at))?;
        }
        for half in 0..2 * PLACES_MAX {
            // SAFETY: P1: our own area, before the other side knows it.
            unsafe { word_of(context, half).write_volatile(0) };
        }
        context.connect(&vi, 0)?;
        let remote = context.exchange_areas(1)?;
        let stride = size.next_multiple_of(4096);
        let user = context.nic.allocate_unregistered(2 * stride, false)?;
        let patience = Patience::lasting(PATIENCE);
        Ok(Device { context, vi, remote, how, user, stride, kept: [None; 2], posted: 0, collected: 0, sequence: 0, patience })
    }

    fn turn(&mut self, exchanged: Exchanged, pattern: &Pattern) -> Result<(), Error> {
        self.sequence += 1;
        let size = pattern.len();
        // SAFETY: P1: our own memory; what was sent from it has been taken.
        unsafe { pattern.stamp(self.user.at(0, size), self.sequence) };
        match exchanged {
            Exchanged::PingPong => {
                let first = self.context.first;
                self.message(size, first, !first)?;
                self.message(size, !first, first)?;
            }
            Exchanged::Sendrecv => self.message(size, true, true)?,
        }
        // SAFETY: P1: our own memory, and the message in it is whole.
        let intact = unsafe { pattern.matches(self.user.at(self.stride, size), self.sequence, Touch::Ends) };
        if intact { Ok(()) } else { Err(Error::failed("a message arrived damaged")) }
    }

    /// Sends a message, receives one, or both at once.
    fn message(&mut self, size: usize, sends: bool, receives: bool) -> Result<(), Error> {
        let polled = matches!(self.how, Ablated::Polled(_)) && size <= POLLED_MAX;
        if self.how != Ablated::Segments && size >= RDMA_MIN {
            return self.rendezvous(size, sends, receives);
        }
        if sends {
            if polled { self.write_and_tell(size)? } else { self.send_pieces(size)? }
        }
        match receives {
            true if polled => self.poll_places(size),
            true => self.receive_pieces(size),
            false => Ok(()),
        }
    }

    /// Waits until at most `most` sends are not collected yet.
    fn collect(&mut self, most: usize) -> Result<(), Error> {
        while self.posted - self.collected > most {
            self.vi.next_send(&mut self.patience)?;
            self.collected += 1;
        }
        Ok(())
    }

    /// A piece to send from, and its descriptor, both free.
    fn piece(&mut self, len: usize) -> Result<(*mut Descriptor, Segment), Error> {
        self.collect(SENDS - 1)?;
        let at = self.posted % SENDS;
        Ok((self.context.descriptor(RECEIVES + at), self.context.outgoing(at * PIECE, len)))
    }

    fn post(&mut self, descriptor: *mut Descriptor) -> Result<(), Error> {
        self.vi.post_send(descriptor)?;
        self.posted += 1;
        Ok(())
    }

    fn send_pieces(&mut self, size: usize) -> Result<(), Error> {
        for at in (0..size).step_by(PIECE) {
            let len = PIECE.min(size - at);
            let (descriptor, piece) = self.piece(len)?;
            // SAFETY: E2 and P1: descriptor and piece are free; the message is ours.
            unsafe {
                core::ptr::copy_nonoverlapping(self.user.at(at, len), piece.address as *mut u8, len);
                arm(descriptor, SEND, len as u32, &[piece]);
            }
            self.post(descriptor)?;
        }
        Ok(())
    }

    fn receive_pieces(&mut self, size: usize) -> Result<(), Error> {
        let mut at = 0;
        while at < size {
            let to = self.user.at(self.stride + at, size - at);
            at += self.receive(|data, len| {
                // A peer that sends more than was agreed on writes nowhere.
                let len = len.min(size - at);
                // SAFETY: P1: the piece holds so many bytes and is ours until posted again; the
                // other memory is ours and long enough.
                unsafe { core::ptr::copy_nonoverlapping(data, to, len) };
                len.max(1)
            })?;
        }
        Ok(())
    }

    /// What is made of the next arrival; its descriptor is posted again.
    fn receive<T>(&mut self, take: impl FnOnce(*const u8, usize) -> T) -> Result<T, Error> {
        let descriptor = self.vi.next_recv(&mut self.patience)?;
        // SAFETY: E2: ours since it completed.
        let (data, len) = unsafe { ((*descriptor).segments[0].address as *const u8, (*descriptor).length as usize) };
        let taken = take(data, len);
        // SAFETY: E2: ours since it completed.
        unsafe { rearm(descriptor, SEND, PIECE as u32) };
        self.vi.post_recv(descriptor)?;
        Ok(taken)
    }

    /// Announcement, where the receiver's buffer is, the data: two handshakes made one, as the
    /// paper proposes.
    fn rendezvous(&mut self, size: usize, sends: bool, receives: bool) -> Result<(), Error> {
        let (out, into) = (0, 1);
        let mut handle = 0;
        if sends {
            self.tell([self.sequence, 0, 0])?;
        }
        if receives {
            self.hear()?;
            handle = self.register(into, size)?;
            self.tell([self.sequence, self.user.at(self.stride, size) as u64, u64::from(handle)])?;
        }
        if sends {
            let [_, address, remote] = self.hear()?;
            let own = self.register(out, size)?;
            let (to, from) =
                (Segment { address, handle: remote as u32, length: 0 }, Segment { address: self.user.at(0, size) as u64, handle: own, length: size as u32 });
            let descriptor = self.context.descriptor(WRITE);
            // SAFETY: E2: the last write has been collected.
            unsafe { arm(descriptor, control::OP_RDMAWRITE | control::IMMEDIATE, size as u32, &[to, from]) };
            self.post(descriptor)?;
            self.collect(0)?;
            self.release(out, own)?;
        }
        if receives {
            self.receive(|_, _| ())?;
            self.release(into, handle)?;
        }
        Ok(())
    }

    fn tell(&mut self, words: [u64; 3]) -> Result<(), Error> {
        let (descriptor, piece) = self.piece(CONTROL_BYTES)?;
        // SAFETY: E2 and P1: both are free.
        unsafe {
            (piece.address as *mut [u64; 3]).write_unaligned(words);
            arm(descriptor, SEND, CONTROL_BYTES as u32, &[piece]);
        }
        self.post(descriptor)
    }

    fn hear(&mut self) -> Result<[u64; 3], Error> {
        // SAFETY: P1: a piece is longer than a control message.
        let words = self.receive(|data, _| unsafe { data.cast::<[u64; 3]>().read_unaligned() })?;
        if words[0] == self.sequence { Ok(words) } else { Err(Error::failed("a control message of another turn")) }
    }

    /// The program's outgoing or incoming buffer, registered: now, or since it was used first.
    fn register(&mut self, which: usize, size: usize) -> Result<u32, Error> {
        if let Some(handle) = self.kept[which] {
            return Ok(handle);
        }
        let handle = self.context.nic.register(self.user.at(which * self.stride, size), size)?;
        if self.how != Ablated::Registering {
            self.kept[which] = Some(handle);
        }
        Ok(handle)
    }

    fn release(&self, which: usize, handle: u32) -> Result<(), Error> {
        if self.kept[which].is_some() { Ok(()) } else { self.context.nic.deregister(self.user.at(which * self.stride, 0), handle) }
    }

    /// Writes a message into the place at the other side that is polled for this one, then the
    /// word.
    fn write_and_tell(&mut self, size: usize) -> Result<(), Error> {
        self.collect(0)?;
        let half = self.half(self.how.places() - 1);
        let (piece, word) = (self.context.outgoing(0, size), self.context.outgoing(PIECE, 8));
        let (data, flag) = (self.context.descriptor(WRITE), self.context.descriptor(WRITE + 1));
        // SAFETY: E2 and P1: everything posted before has been collected.
        unsafe {
            core::ptr::copy_nonoverlapping(self.user.at(0, size), piece.address as *mut u8, size);
            (word.address as *mut u64).write(self.sequence);
            arm(data, control::OP_RDMAWRITE, size as u32, &[self.remote.segment(PLACES_AT + half * HALF_BYTES), piece]);
            arm(flag, control::OP_RDMAWRITE, 8, &[self.remote.segment(PLACES_AT + half * HALF_BYTES + POLLED_MAX), word]);
        }
        self.post(data)?;
        self.post(flag)
    }

    /// The half of a place that this turn uses.
    fn half(&self, place: usize) -> usize {
        2 * place + (self.sequence % 2) as usize
    }

    /// Looks at all places until the word is in one.
    fn poll_places(&mut self, size: usize) -> Result<(), Error> {
        let mut looks = 0u32;
        loop {
            for place in 0..self.how.places() {
                let half = self.half(place);
                // SAFETY: P1: a word of our own block that the other process writes as a whole; a
                // volatile read sees each write once it is there.
                if unsafe { word_of(self.context, half).read_volatile() } == self.sequence {
                    let data = self.context.incoming(PLACES_AT + half * HALF_BYTES, size).address as *const u8;
                    // SAFETY: P1: the data came before the word, and are not written again before
                    // we have answered.
                    unsafe { core::ptr::copy_nonoverlapping(data, self.user.at(self.stride, size), size) };
                    return Ok(());
                }
            }
            spin_loop();
            looks += 1;
            if looks.is_multiple_of(LOOKS_PER_CALL) {
                self.vi.recv_done()?;
                self.patience.tick()?;
            }
        }
    }

    fn end(mut self) -> Result<(), Error> {
        self.collect(0)?;
        for which in [0, 1] {
            if let Some(handle) = self.kept[which].take() {
                self.context.nic.deregister(self.user.at(which * self.stride, 0), handle)?;
            }
        }
        self.context.meet(2)
    }
}

/// The word of half a place in our own area.
fn word_of(context: &Context<'_>, half: usize) -> *mut u64 {
    context.incoming(PLACES_AT + half * HALF_BYTES + POLLED_MAX, 8).address as *mut u64
}
