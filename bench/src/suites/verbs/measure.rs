// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency and bandwidth of one reliable queue pair. Everything is opened for one figure and closed
//! after it.
//!
//! The first process measures. The receiver of a send, and of a write in a ping-pong, reads both
//! ends of the message. Nobody reads what a stream of writes brings, and of a stream of reads the
//! last ones alone are read: the tables say so.

use std::time::Instant;

use bellwire_verbs::{Completion, Extra, Opcode, SendFlags, SendRequest, WcOpcode, WcStatus};
use serde::{Deserialize, Serialize};

use super::{Memory, NAME_BYTES, Queues, READS, failed, open};
use crate::clock::Patience;
use crate::crowd::Crowd;
use crate::endpoint::PATIENCE;
use crate::error::Error;
use crate::job::{Request, Setup};
use crate::shared::SharedMap;

/// Requests under way in a stream.
const WINDOW: usize = READS as usize;
/// Receives that are posted.
const RECEIVES: usize = 2 * WINDOW;
/// Streamed sends after which the receiver sends one back; twice as many are fewer than its
/// receives.
const ACKNOWLEDGE_AFTER: u64 = WINDOW as u64 / 2;
/// The word that memory holds for reads.
const MARK: u64 = 0x7061_7474_6572_6e21;
/// Bytes of the word at an end of a message.
const WORD: usize = 8;
/// Largest message.
pub const SIZE_MAX: usize = 1 << 20;

/// A request of verbs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// A send into a posted receive.
    Send,
    /// RDMA write.
    Write,
    /// RDMA read.
    Read,
    /// Fetch and add of a word.
    FetchAdd,
    /// Compare and swap of a word.
    CompareSwap,
}

impl Operation {
    fn opcode(self) -> Opcode {
        match self {
            Operation::Send => Opcode::Send,
            Operation::Write => Opcode::Write,
            Operation::Read => Opcode::Read,
            Operation::FetchAdd => Opcode::FetchAdd,
            Operation::CompareSwap => Opcode::CompareSwap,
        }
    }
}

/// `[ns]` of half a round trip (send, write) or of one request (read, atomics); of a stream
/// `[GB/s]`, or of atomics `[requests/s]`. The second process `[]`.
///
/// # Errors
/// If the device cannot be opened, a request fails, or what comes is not what was sent.
pub fn run(setup: &Setup, request: &Request, map: &SharedMap, operation: Operation, size: usize, count: u64, stream: bool) -> Result<Vec<f64>, Error> {
    if !(WORD..=SIZE_MAX).contains(&size) || !size.is_multiple_of(WORD) {
        return Err(Error::unsupported(format!("{size} bytes; 8 to {SIZE_MAX}, in words")));
    }
    let mut crowd = Crowd::new(setup, request, map, 1);
    let port = open()?;
    let queues = Queues::new(&port, 4 * (RECEIVES + WINDOW))?;
    let memory = queues.allocate((RECEIVES + WINDOW) * size)?;
    let qp = queues.create_qp(2 * WINDOW, RECEIVES)?;
    let mut own = queues.name(qp).to_vec();
    own.extend_from_slice(&(memory.at(0, size).expose_provenance() as u64).to_ne_bytes());
    own.extend_from_slice(&u64::from(memory.key).to_ne_bytes());
    let other = crowd.exchange(&own)?;
    let word = |at: usize| u64::from_ne_bytes(core::array::from_fn(|i| other[NAME_BYTES + at + i]));
    let remote = (word(0), word(8) as u32);
    queues.connect(qp, &other)?;
    let patience = Patience::lasting(PATIENCE);
    let mut end = End { queues: &queues, qp, memory: &memory, size, remote, first: setup.first, sent: 0, ended: 0, received: 0, written: 0, patience };
    match operation {
        Operation::Send => (0..RECEIVES).try_for_each(|place| end.post_receive(place))?,
        Operation::Read => end.stamp(0, MARK),
        _ => {}
    }
    crowd.meet()?;
    let one = |end: &mut End<'_>, count| match (operation, stream) {
        (Operation::Send, false) => end.ping_pong(count),
        (Operation::Write, false) => end.write_ping_pong(count),
        (Operation::Send, true) => end.send_stream(count),
        (_, _) => end.requests(operation, count, if stream { WINDOW } else { 1 }),
    };
    let count = count.next_multiple_of(ACKNOWLEDGE_AFTER);
    one(&mut end, (count / 8).next_multiple_of(ACKNOWLEDGE_AFTER))?;
    let start = Instant::now();
    one(&mut end, count)?;
    let each = start.elapsed().as_nanos() as f64 / count as f64;
    // The other process serves what is asked of its memory until both are done.
    crowd.look_until_both(|| {
        end.look()?;
        Ok(end.ended == end.sent)
    })?;
    let is_atomic = matches!(operation, Operation::FetchAdd | Operation::CompareSwap);
    let figure = match (stream, operation) {
        (true, _) if is_atomic => 1e9 / each,
        (true, _) => size as f64 / each,
        (false, Operation::Send | Operation::Write) => each / 2.0,
        (false, _) => each,
    };
    Ok(if setup.first { vec![figure] } else { Vec::new() })
}

/// One side of the queue pair. Its memory has a place for each receive, then one for each request
/// under way. The peer writes and reads place 0.
struct End<'a> {
    queues: &'a Queues<'a>,
    qp: u32,
    memory: &'a Memory<'a>,
    size: usize,
    remote: (u64, u32),
    first: bool,
    /// Requests that were posted, and those that are complete.
    sent: u64,
    ended: u64,
    /// Messages received; each carries its number.
    received: u64,
    /// Numbers that a ping-pong of writes has written.
    written: u64,
    patience: Patience,
}

impl End<'_> {
    /// A word of memory at either end of a place, which peers may write meanwhile.
    fn word(&self, place: usize, is_last: bool) -> *mut u64 {
        self.memory.at(place * self.size + if is_last { self.size - WORD } else { 0 }, WORD).cast()
    }

    /// Where the next request has its bytes.
    fn place(&self) -> usize {
        RECEIVES + (self.sent % WINDOW as u64) as usize
    }

    /// Writes a number to both ends of a place.
    fn stamp(&self, place: usize, number: u64) {
        for is_last in [false, true] {
            // SAFETY: R1: within the memory, aligned, and mapped while it lives; nothing refers to
            // it.
            unsafe { self.word(place, is_last).write_volatile(number) };
        }
    }

    fn holds(&self, place: usize, number: u64) -> bool {
        // SAFETY: R1: within the memory, aligned, and mapped while it lives.
        [false, true].into_iter().all(|is_last| unsafe { self.word(place, is_last).read_volatile() } == number)
    }

    fn post_receive(&self, place: usize) -> Result<(), Error> {
        let piece = self.memory.piece(place * self.size, self.size);
        if self.queues.port.post_receive_short(self.qp, place as u64, &piece) {
            return Ok(());
        }
        self.queues.port.post_receive(self.qp, place as u64, &[piece]).map_err(failed)
    }

    #[inline]
    fn post(&mut self, operation: Operation) -> Result<(), Error> {
        let place = self.place();
        let is_atomic = matches!(operation, Operation::FetchAdd | Operation::CompareSwap);
        let pieces = [self.memory.piece(place * self.size, if is_atomic { WORD } else { self.size })];
        let (flags, operands, (address, key)) = (SendFlags::SIGNALED, [1, 2], self.remote);
        let opcode = operation.opcode();
        let request = SendRequest { wr_id: 0, opcode, flags, pieces: &pieces, immediate: 0, address, key, operands, extra: Extra::None, to: None };
        self.queues.port.post_registered(self.qp, &request).map_err(failed)?;
        self.sent += 1;
        Ok(())
    }

    /// One look: completions, and received messages are checked and posted again.
    #[inline]
    fn look(&mut self) -> Result<(), Error> {
        let (mut places, mut received, mut status) = ([0; WINDOW], 0, WcStatus::Success);
        let ended = &mut self.ended;
        let take = |c: &Completion| {
            if c.status != WcStatus::Success {
                status = c.status;
            } else if c.opcode == WcOpcode::Receive {
                places[received] = c.wr_id as usize;
                received += 1;
            } else {
                *ended += 1;
            }
        };
        let found = self.queues.port.poll_cq(self.queues.cq, WINDOW, take).map_err(failed)?;
        if status != WcStatus::Success {
            return Err(failed(status));
        }
        for place in &places[..received] {
            if !self.holds(*place, self.received) {
                return Err(Error::failed(format!("verbs: message {} arrived damaged", self.received)));
            }
            self.received += 1;
            self.post_receive(*place)?;
        }
        if found == 0 { self.patience.tick() } else { Ok(()) }
    }

    /// Looks until so many messages have come.
    #[inline]
    fn until(&mut self, received: u64) -> Result<(), Error> {
        while self.received < received {
            self.look()?;
        }
        Ok(())
    }

    /// Looks until at most so many requests are under way.
    #[inline]
    fn until_under_way(&mut self, most: usize) -> Result<(), Error> {
        while self.sent - self.ended > most as u64 {
            self.look()?;
        }
        Ok(())
    }

    #[inline(never)]
    fn ping_pong(&mut self, count: u64) -> Result<(), Error> {
        for _ in 0..count {
            let due = self.received + 1;
            if !self.first {
                self.until(due)?;
            }
            self.send()?;
            if self.first {
                self.until(due)?;
            }
        }
        Ok(())
    }

    /// Sends the number of the message.
    #[inline]
    fn send(&mut self) -> Result<(), Error> {
        self.until_under_way(WINDOW - 1)?;
        self.stamp(self.place(), self.sent);
        self.post(Operation::Send)
    }

    /// Each side polls the memory that the other writes.
    #[inline(never)]
    fn write_ping_pong(&mut self, count: u64) -> Result<(), Error> {
        for _ in 0..count {
            self.written += 1;
            if !self.first {
                self.until_written()?;
            }
            self.until_under_way(0)?;
            self.stamp(self.place(), self.written);
            self.post(Operation::Write)?;
            if self.first {
                self.until_written()?;
            }
        }
        Ok(())
    }

    #[inline]
    fn until_written(&mut self) -> Result<(), Error> {
        // Between hosts a write comes by a look.
        while !self.holds(0, self.written) {
            self.look()?;
        }
        Ok(())
    }

    /// Sends of the first process, and acknowledgements of the second.
    #[inline(never)]
    fn send_stream(&mut self, count: u64) -> Result<(), Error> {
        let before = self.received;
        for number in 1..=count {
            if self.first {
                self.send()?;
                self.until(before + (number / ACKNOWLEDGE_AFTER).saturating_sub(1))?;
            } else if number.is_multiple_of(ACKNOWLEDGE_AFTER) {
                self.until(before + number)?;
                self.send()?;
            }
        }
        if self.first { self.until(before + count / ACKNOWLEDGE_AFTER) } else { Ok(()) }
    }

    /// Requests of the first process to memory of the second.
    #[inline(never)]
    fn requests(&mut self, operation: Operation, count: u64, window: usize) -> Result<(), Error> {
        if !self.first {
            return Ok(());
        }
        for _ in 0..count {
            self.until_under_way(window - 1)?;
            self.post(operation)?;
        }
        self.until_under_way(0)?;
        let is_damaged = operation == Operation::Read && !self.holds(RECEIVES + ((self.sent - 1) % WINDOW as u64) as usize, MARK);
        if is_damaged { Err(Error::failed("verbs: a read brought something else")) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_measured() {
        for operation in [Operation::Send, Operation::Write, Operation::Read, Operation::FetchAdd, Operation::CompareSwap] {
            for (size, stream) in [(8, false), (4096, false), (4096, true)] {
                let figures = crate::crowd::in_threads(|setup, request, map| run(setup, request, map, operation, size, 16, stream));
                let figures = figures.unwrap_or_else(|error| panic!("{operation:?}, {size} bytes, stream: {stream}: {error}"));
                assert!(matches!(figures[..], [figure] if figure > 0.0), "{operation:?}: {figures:?}");
            }
        }
    }
}
