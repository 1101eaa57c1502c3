// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answers to a peer. Short answers that are ready together leave as one message, in the order
//! of the requests; a long one leaves alone, from where it lies.

use std::collections::VecDeque;

use bellwire_via::Engine;
use bellwire_via::wire::Wire;

use super::{PENDING_MAX, Peer};
use crate::error::{Access, Error, Why};
use crate::net::header::{Head, Kind};
use crate::net::memory::Memory;
use crate::net::pack::PACKED_BYTES_MAX;
use crate::net::parts::{UNFLUSHED_BYTES_MAX, part_of};
use crate::probe::Off;

/// Bytes of answers that are put together, if they have waited.
const REPLY_BYTES_MAX: usize = 1024;

/// An answer that a peer has asked for and not got yet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// Bytes of our memory, in messages of so many bytes (0: not cut yet).
    Memory {
        address: u64,
        bytes: usize,
        part: usize,
    },
    Word(u64),
    Refused {
        what: u16,
        address: u64,
        bytes: u64,
    },
}

/// Answers that have not left.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    waiting: VecDeque<Answer>,
    /// Short ones put together, before all that wait, and how many they are.
    reply: Vec<u8>,
    short: usize,
}

impl Answers {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.reply.is_empty()
    }

    /// One more. A short one is made now, so that what its peer does afterwards does not change it.
    /// `false`: the peer has asked for more than it may.
    #[inline]
    pub(crate) fn push(&mut self, answer: Answer, memory: &Memory) -> bool {
        if !self.waiting.is_empty() || !self.make(answer, memory) {
            self.waiting.push_back(answer);
        }
        // Twice: besides what it waits for, puts and stores may have been refused.
        self.waiting.len() + self.short <= 2 * PENDING_MAX
    }

    /// Puts an answer behind those put together. `false`: it is to leave alone.
    #[inline]
    fn make(&mut self, answer: Answer, memory: &Memory) -> bool {
        let at = self.reply.len();
        match answer {
            Answer::Word(word) => self.reply.extend_from_slice(&word.to_le_bytes()),
            Answer::Memory { address, bytes, .. } if bytes <= PACKED_BYTES_MAX => {
                self.reply.resize(at + bytes, 0);
                if memory.read(address, &mut self.reply[at..]).is_err() {
                    self.reply.truncate(at);
                    return false;
                }
            }
            Answer::Memory { .. } | Answer::Refused { .. } => return false,
        }
        self.short += 1;
        true
    }

    /// Puts those together that have waited for a long one.
    fn gather(&mut self, memory: &Memory) {
        while let Some(answer) = self.waiting.front().copied()
            && self.reply.len() < REPLY_BYTES_MAX
            && self.make(answer, memory)
        {
            self.waiting.pop_front();
        }
    }
}

/// The answer to a get of memory that is not there.
fn refused(error: &Error, address: u64, bytes: usize) -> Answer {
    Answer::Refused { what: Access::Get.to_bits(Why::of(error)), address, bytes: bytes as u64 }
}

const DATA: Head = Head::new(Kind::Data, [0; 3]);

impl Peer {
    /// Sends the answers that can leave, behind the rest of a message that has begun to. Long ones
    /// share system calls.
    pub(crate) fn send_answers<W: Wire>(&mut self, engine: &mut Engine<W>, memory: &Memory) {
        while self.channel.push(engine) {
            if self.answers.reply.is_empty() {
                self.answers.gather(memory);
            }
            let has_left = match (self.answers.reply.is_empty(), self.answers.waiting.front().copied()) {
                (false, _) => self.send_reply(engine),
                (true, Some(Answer::Memory { address, bytes, part })) => self.send_part(engine, memory, (address, bytes), part),
                (true, Some(answer)) => self.send_alone(engine, answer),
                (true, None) => break,
            };
            if !has_left {
                break;
            }
            if self.channel.queued() >= UNFLUSHED_BYTES_MAX {
                self.flush(engine);
            }
        }
        self.flush(engine);
    }

    /// Sends what is put together. `false`: it cannot leave now.
    fn send_reply<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        let reply = std::mem::take(&mut self.answers.reply);
        // SAFETY: a vector of ours.
        let has_left = unsafe { self.send(engine, &DATA, (reply.as_ptr(), reply.len())) };
        self.answers.reply = reply;
        if has_left {
            self.answers.reply.clear();
            self.answers.short = 0;
        }
        has_left
    }

    /// Sends the next part of the first answer, which is long or not in the window. `false`: it
    /// cannot leave now.
    fn send_part<W: Wire>(&mut self, engine: &mut Engine<W>, memory: &Memory, (address, bytes): (u64, usize), part: usize) -> bool {
        let part = if part == 0 { part_of(bytes, self.part_bytes) } else { part };
        let n = bytes.min(part);
        let has_left = if let Some(from) = memory.find(address, n) {
            // SAFETY: in the window (G1).
            unsafe { self.put::<Off, W>(engine, &DATA, (from, n)) }
        } else {
            let mut copy = vec![0; n];
            if let Err(error) = memory.read(address, &mut copy) {
                return self.send_alone(engine, refused(&error, address, bytes));
            }
            // SAFETY: a vector of ours.
            unsafe { self.put::<Off, W>(engine, &DATA, (copy.as_ptr(), n)) }
        };
        if has_left {
            match self.answers.waiting.front_mut() {
                Some(first) if n < bytes => *first = Answer::Memory { address: address.wrapping_add(n as u64), bytes: bytes - n, part },
                _ => drop(self.answers.waiting.pop_front()),
            }
        }
        has_left
    }

    /// Sends an answer of a few bytes in the place of the first. `false`: it cannot leave now.
    fn send_alone<W: Wire>(&mut self, engine: &mut Engine<W>, answer: Answer) -> bool {
        let (head, word) = match answer {
            Answer::Word(word) => (DATA, Some(word.to_le_bytes())),
            Answer::Refused { what, address, bytes } => (Head { what, ..Head::new(Kind::Refused, [address, bytes, 0]) }, None),
            // Those leave by parts.
            Answer::Memory { .. } => return false,
        };
        // SAFETY: an array of ours, or no payload.
        let has_left = unsafe { self.send(engine, &head, word.as_ref().map_or((std::ptr::null(), 0), |word| (word.as_ptr(), word.len()))) };
        if has_left {
            self.answers.waiting.pop_front();
        }
        has_left
    }
}
