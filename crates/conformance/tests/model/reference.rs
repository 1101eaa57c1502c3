// SPDX-License-Identifier: MIT OR Apache-2.0
//! VIA's semantics in small: the completions, their results, and the content of memory, after a
//! batch of requests has settled.
//!
//! Independent of the engine: no frame, ring or sequence number in here. A batch is sent by one
//! side of one VI pair; receives of any side come before it.

use bellwire_via::event::AsyncErrorCode;
use bellwire_via::{Reliability, Status, ViState};
use std::collections::VecDeque;

/// What a completion must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Without error.
    Good,
    /// With these error bits.
    Failed(Status),
    /// The connection broke while it was under way: good or flushed.
    GoodOrFlushed,
    /// Not in the target's memory: the target says so, or the request was flushed before it was all
    /// there.
    NotTaken,
    /// A write that was refused at reliable delivery: done for the initiator, refused, or flushed.
    Refused,
}

impl Outcome {
    pub fn allows(self, status: Status) -> bool {
        let errors = status & Status::ERRORS;
        let flushed = errors.contains(Status::FLUSHED) && (errors - Status::FLUSHED - Status::PARTIAL_ERROR).is_empty();
        match self {
            Self::Good => errors.is_empty(),
            Self::Failed(Status::FLUSHED) => flushed,
            Self::Failed(bits) => errors == bits,
            Self::GoodOrFlushed => errors.is_empty() || flushed,
            Self::NotTaken => flushed || errors == Status::REMOTE_DESCRIPTOR_ERROR,
            Self::Refused => errors.is_empty() || flushed || errors == Status::RDMA_PROTECTION_ERROR,
        }
    }
}

/// A send-side request.
#[derive(Clone, Copy, Debug)]
pub enum Request {
    Send { length: usize, immediate: bool },
    Write { offset: usize, length: usize, immediate: bool, valid: bool },
    Read { offset: usize, length: usize, valid: bool },
}

/// A received message: length, immediate data, and the context of the send that it came from, if
/// its bytes are in the descriptor.
pub type Received = (Outcome, usize, Option<u32>, Option<u64>);

/// One VI.
#[derive(Clone, Debug)]
pub struct Vi {
    pub state: ViState,
    /// Posted receives: context and capacity.
    pub posted: VecDeque<(u64, usize)>,
    pub sends: Vec<(u64, Outcome)>,
    pub receives: Vec<(u64, Received)>,
    pub errors: Vec<AsyncErrorCode>,
}

/// Reads that must have brought these bytes: context, bytes.
pub type Brought = Vec<(u64, Vec<u8>)>;

/// Two sides, each with one VI per pair and one region that the other side may write and read.
#[derive(Clone, Debug)]
pub struct Model {
    pub level: Reliability,
    /// By side, then pair.
    pub vis: [Vec<Vi>; 2],
    pub regions: [Vec<u8>; 2],
    /// Bytes that may have any value of these: of writes behind a break, which a direct wire may
    /// have done before it heard.
    pub doubtful: [Vec<(usize, Vec<u8>)>; 2],
    pub brought: Brought,
}

impl Model {
    pub fn new(level: Reliability, pairs: usize, region: usize) -> Self {
        let vi = Vi { state: ViState::Idle, posted: VecDeque::new(), sends: Vec::new(), receives: Vec::new(), errors: Vec::new() };
        Self {
            level,
            vis: [vec![vi.clone(); pairs], vec![vi; pairs]],
            regions: [vec![0; region], vec![0; region]],
            doubtful: [Vec::new(), Vec::new()],
            brought: Vec::new(),
        }
    }

    fn flush_receives(&mut self, side: usize, pair: usize) {
        let vi = &mut self.vis[side][pair];
        while let Some((context, _)) = vi.posted.pop_front() {
            vi.receives.push((context, (Outcome::Failed(Status::FLUSHED), 0, None, None)));
        }
    }

    pub fn receive(&mut self, side: usize, pair: usize, context: u64, capacity: usize) {
        self.vis[side][pair].posted.push_back((context, capacity));
        if self.vis[side][pair].state == ViState::Error {
            self.flush_receives(side, pair);
        }
    }

    pub fn connect(&mut self, pair: usize) {
        for side in 0..2 {
            self.vis[side][pair].state = ViState::Connected;
        }
    }

    pub fn disconnect(&mut self, side: usize, pair: usize) {
        if self.vis[side][pair].state == ViState::Connected {
            self.fail(1 - side, pair, AsyncErrorCode::ConnectionLost);
        }
        self.vis[side][pair].state = ViState::Idle;
        self.flush_receives(side, pair);
    }

    fn fail(&mut self, side: usize, pair: usize, code: AsyncErrorCode) {
        self.vis[side][pair].state = ViState::Error;
        self.vis[side][pair].errors.push(code);
        self.flush_receives(side, pair);
    }

    /// A batch of one VI. `data` gives the bytes of a request.
    pub fn batch(&mut self, side: usize, pair: usize, requests: &[(u64, Request)], data: impl Fn(u64, usize) -> Vec<u8>) {
        let connected = self.vis[side][pair].state == ViState::Connected;
        let mut broken = false;
        let mut reads = Vec::new();
        for (context, request) in requests {
            let outcome = if matches!(request, Request::Read { .. }) && !self.level.is_reliable() {
                // A fault of the request itself, told whatever the state.
                Outcome::Failed(Status::FORMAT_ERROR)
            } else if !connected {
                Outcome::Failed(Status::FLUSHED)
            } else if broken {
                self.doubt(1 - side, request, *context, &data);
                self.after_the_break(request)
            } else {
                let (outcome, breaks) = self.one(side, pair, *context, request, &data);
                if let Some(code) = breaks {
                    broken = true;
                    self.fail(1 - side, pair, code);
                    self.fail(side, pair, AsyncErrorCode::ConnectionLost);
                }
                if matches!(request, Request::Read { .. }) && outcome == Outcome::Good {
                    reads.push(self.vis[side][pair].sends.len());
                }
                outcome
            };
            self.vis[side][pair].sends.push((*context, outcome));
        }
        if broken {
            // The answer of a read may not have left before the connection broke.
            for at in reads {
                self.vis[side][pair].sends[at].1 = Outcome::GoodOrFlushed;
            }
            self.brought.clear();
        }
    }

    fn after_the_break(&self, request: &Request) -> Outcome {
        match request {
            Request::Send { .. } if self.level == Reliability::ReliableReception => Outcome::Failed(Status::FLUSHED),
            Request::Write { valid: false, .. } | Request::Read { valid: false, .. } => Outcome::Refused,
            _ => Outcome::GoodOrFlushed,
        }
    }

    fn doubt(&mut self, side: usize, request: &Request, context: u64, data: &impl Fn(u64, usize) -> Vec<u8>) {
        if let Request::Write { offset, length, valid: true, .. } = request {
            self.doubtful[side].push((*offset, data(context, *length)));
        }
    }

    /// One request on a good connection: its outcome, and why the target breaks the connection, if
    /// it does.
    fn one(&mut self, side: usize, pair: usize, context: u64, request: &Request, data: &impl Fn(u64, usize) -> Vec<u8>) -> (Outcome, Option<AsyncErrorCode>) {
        let reliable = self.level.is_reliable();
        match *request {
            Request::Send { length, immediate } => self.arrive(1 - side, pair, context, length, immediate, true),
            Request::Write { offset, length, immediate, valid } => {
                if !valid && length > 0 {
                    let code = AsyncErrorCode::RdmaWriteProtection;
                    if !reliable {
                        self.vis[1 - side][pair].errors.push(code);
                        return (Outcome::Good, None);
                    }
                    let outcome = if self.level == Reliability::ReliableReception { Outcome::Failed(Status::RDMA_PROTECTION_ERROR) } else { Outcome::Refused };
                    return (outcome, Some(code));
                }
                self.regions[1 - side][offset..offset + length].copy_from_slice(&data(context, length));
                if immediate { self.arrive(1 - side, pair, context, length, true, false) } else { (Outcome::Good, None) }
            }
            Request::Read { offset, length, valid } => {
                if !valid && length > 0 {
                    return (Outcome::Failed(Status::RDMA_PROTECTION_ERROR), Some(AsyncErrorCode::RdmaReadProtection));
                }
                self.brought.push((context, self.regions[1 - side][offset..offset + length].to_vec()));
                (Outcome::Good, None)
            }
        }
    }

    /// A message takes a receive descriptor.
    fn arrive(&mut self, side: usize, pair: usize, context: u64, length: usize, immediate: bool, placed: bool) -> (Outcome, Option<AsyncErrorCode>) {
        let good = if self.level == Reliability::ReliableReception { Outcome::NotTaken } else { Outcome::GoodOrFlushed };
        let value = immediate.then_some(context as u32);
        let reliable = self.level.is_reliable();
        let vi = &mut self.vis[side][pair];
        match vi.posted.pop_front() {
            None if reliable => (good, Some(AsyncErrorCode::ReceiveQueueEmpty)),
            None => (Outcome::Good, None),
            Some((receive, capacity)) if placed && length > capacity => {
                vi.receives.push((receive, (Outcome::Failed(Status::LENGTH_ERROR), 0, value, None)));
                if reliable { (good, Some(AsyncErrorCode::Overrun)) } else { (Outcome::Good, None) }
            }
            Some((receive, _)) => {
                vi.receives.push((receive, (Outcome::Good, length, value, placed.then_some(context))));
                (Outcome::Good, None)
            }
        }
    }
}
