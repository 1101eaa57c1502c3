// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tag matching with many peers.

use bellwire_tag::{Bindings, Endpoint, NAME_BYTES, Name, Notes, OwnedBytes, Piece, Queue, SendFlags, SendOne, SharedRegions, WantOne};

use super::{Crowd, MESSAGE_BYTES, RECEIVES, Talk};
use crate::am::Seen;
use crate::clock::Patience;
use crate::endpoint::PATIENCE;
use crate::error::Error;
use std::sync::Arc;

const TAG: u64 = 7;
/// Things that one look takes, as the libfabric provider does.
const LOOK_MAX: u32 = 16;
/// Completions that one look reads at most.
const ROOM: usize = 16;

fn failed(error: impl core::fmt::Debug) -> Error {
    Error::failed(format!("tag matching: {error:?}"))
}

/// Buffers of receives that are complete, in order.
#[derive(Default)]
struct Log {
    received: Vec<usize>,
    has_failed: bool,
}

impl Log {
    /// A look at an endpoint, as the libfabric provider's. `false`: there was nothing.
    #[inline]
    fn look(&mut self, endpoint: &Endpoint) -> Result<bool, Error> {
        let read = endpoint.read_completions(Queue::Receives, ROOM, LOOK_MAX, |c| {
            if c.notes.contains(Notes::RECEIVE) {
                self.received.push(c.context);
            }
        });
        let read = read.map_err(failed)?;
        self.has_failed |= read.has_failure;
        Ok(read.has_moved)
    }
}

/// Connects and measures.
pub fn run(crowd: &mut Crowd<'_>, count: u64) -> Result<Vec<f64>, Error> {
    let open = || {
        let config = bellwire_via::nic::NicConfig::from_env().map_err(failed)?;
        let endpoint = Endpoint::open(config, None, SharedRegions::default()).map_err(failed)?;
        let queue = Some(Arc::default());
        endpoint.bind(Bindings { queues: [queue.clone(), queue], ..Bindings::default() });
        Ok::<_, Error>(endpoint)
    };
    let ends = (0..crowd.peers).map(|_| open()).collect::<Result<Vec<_>, Error>>()?;
    // Freed never: that is how the endpoints know that it is there.
    let memory: &'static OwnedBytes = Box::leak(Box::new(OwnedBytes::new((RECEIVES + 1) * MESSAGE_BYTES)));
    let own: Vec<u8> = ends.iter().flat_map(|end| end.name().to_bytes()).collect();
    let others = crowd.exchange(&own)?;
    let main = &ends[0];
    for (index, name) in others.as_chunks::<NAME_BYTES>().0.iter().enumerate() {
        let name = Name::from_bytes(name).ok_or_else(|| Error::failed("the other process has no name"))?;
        main.learn(index as u64, name);
    }
    // The first message to an endpoint connects with it. All go to the same place: nothing is there
    // to be read.
    for end in &ends {
        end.receive_one(&want(memory, RECEIVES)).map_err(failed)?;
    }
    let mut talk = Main { endpoint: main, memory, log: Log::default() };
    let mut patience = Patience::lasting(PATIENCE);
    for peer in 0..crowd.peers as u64 {
        while !talk.send_to(peer, 0)? {
            talk.log.look(main)?;
            patience.tick()?;
        }
    }
    let peers = crowd.peers;
    crowd.look_until_both(|| {
        for end in &ends {
            talk.log.look(end)?;
        }
        Ok(talk.log.received.len() == peers)
    })?;
    talk.log.received.clear();
    for place in 0..RECEIVES {
        main.receive_one(&want(memory, place)).map_err(failed)?;
    }
    crowd.measure(&mut talk, count)
}

/// The receive of a place, whose number is its context.
fn want(memory: &'static OwnedBytes, place: usize) -> WantOne {
    let to = Piece::of_owned(memory, place * MESSAGE_BYTES, MESSAGE_BYTES).expect("within the memory");
    WantOne { tagged: true, source: None, tag: TAG, ignore: 0, to, context: place, silent: false }
}

struct Main<'e> {
    endpoint: &'e Endpoint,
    memory: &'static OwnedBytes,
    log: Log,
}

impl Main<'_> {
    #[inline]
    fn send_to(&mut self, peer: u64, number: u64) -> Result<bool, Error> {
        self.memory.write(RECEIVES * MESSAGE_BYTES, &number.to_ne_bytes());
        let from = Piece::of_owned(self.memory, RECEIVES * MESSAGE_BYTES, MESSAGE_BYTES).expect("within the memory");
        let send = SendOne { peer, tag: Some(TAG), data: None, from, context: 0, flags: SendFlags::INJECT };
        match self.endpoint.send_one(&send) {
            Ok(()) => Ok(true),
            Err(bellwire_tag::Error::Again) => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }
}

impl Talk for Main<'_> {
    #[inline]
    fn send(&mut self, number: u64) -> Result<bool, Error> {
        self.send_to(0, number)
    }

    #[inline]
    fn look(&mut self, seen: &Seen) -> Result<(), Error> {
        if !self.log.look(self.endpoint)? && self.endpoint.should_give_way() {
            self.endpoint.give_way();
        }
        if self.log.has_failed {
            return Err(Error::failed("tag matching: a request has failed"));
        }
        let mut received = core::mem::take(&mut self.log.received);
        for place in received.drain(..) {
            let at = place * MESSAGE_BYTES;
            let bytes: [u8; MESSAGE_BYTES] = core::array::from_fn(|i| self.memory.byte(at + i));
            seen.take(u64::from_ne_bytes(bytes) as i32);
            self.endpoint.receive_one(&want(self.memory, place)).map_err(failed)?;
        }
        // A receive may have found its message waiting.
        received.append(&mut self.log.received);
        self.log.received = received;
        Ok(())
    }
}
