// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words between the users of endpoints, beside the messages that are matched: a layer above that
//! connects endpoints in pairs says by them who asks, accepts and ends.
//!
//! An endpoint of a pair takes messages only from peers that its program knows by a number
//! ([`Endpoint::take_known_only`](crate::Endpoint::take_known_only)); words it takes from anybody.

use crate::arrive::Arrived;
use crate::completion::{Error, Failure, NOBODY};
use crate::connection::{Body, ConnectionId, Order, Out, Then};
use crate::core::{Core, PeerIndex};
use crate::gone::Gone;
use crate::header::{Head, Kind};
use crate::listener::Verdict;
use crate::name::Name;
use bellwire_memory::bytes;
use bellwire_via::Engine;
use bellwire_via::wire::Wire;

/// Longest words, bytes.
pub const WORDS_BYTES_MAX: usize = 512;

impl Core {
    /// Says something to the user of an endpoint, behind what was sent there before.
    pub(crate) fn say<W: Wire>(&mut self, engine: &mut Engine<W>, to: Name, words: &[u8]) -> Result<(), Error> {
        if words.len() > WORDS_BYTES_MAX {
            return Err(Error::TooLong);
        }
        let peer = self.peer(to);
        let id = match self.peers[peer as usize].out {
            Some(id) => id,
            None => self.connect(engine, peer)?,
        };
        self.make_room(engine, id)?;
        let head = Head::new(Kind::Word, 0, [0; 4]).store(words.len());
        self.queue(engine, id, Out { head, body: Body::Owned(words.into()), then: Then::Nothing, order: Order::Behind });
        Ok(())
    }

    /// A peer's user has said something.
    pub(crate) fn words_arrived<W: Wire>(&mut self, engine: &mut Engine<W>, a: &Arrived<'_>) -> bool {
        let mut words = [0; WORDS_BYTES_MAX];
        let Some(room) = words.get_mut(..a.payload.1) else { return false };
        // SAFETY: the payload is readable for as many bytes; the copy allows that they change.
        unsafe { bytes::copy(room.as_mut_ptr(), a.payload.0, room.len()) };
        let Some(peer) = self.connections.get(a.from).map(|c| c.peer) else { return true };
        let name = self.peers[peer as usize].name;
        let verdict = self.listener.as_mut().map_or(Verdict::Nothing, |l| l.0.said(name, room));
        self.follow(engine, peer, verdict, Failure::ConnectionLost(Gone::ENDED_THERE));
        true
    }

    /// Does what the user of this endpoint concludes.
    pub(crate) fn follow<W: Wire>(&mut self, engine: &mut Engine<W>, peer: PeerIndex, verdict: Verdict, failure: Failure) {
        match verdict {
            Verdict::Nothing => {}
            Verdict::Known(address, through) => {
                self.learn(address, self.peers[peer as usize].name);
                let through = through.and_then(|name| self.by_name.get(&name).copied()).filter(|other| *other != peer);
                let ids: Vec<ConnectionId> = self.connections.iter().filter(|(_, c)| Some(c.peer) == through).map(|(id, _)| id).collect();
                ids.into_iter().for_each(|id| self.broken(engine, id, Gone::ENDED_HERE));
            }
            Verdict::Over => {
                self.forget(self.peers[peer as usize].address);
                self.give_receives_back(failure);
            }
        }
    }

    /// All receives that are posted fail.
    pub(crate) fn give_receives_back(&mut self, failure: Failure) {
        for at in 0..self.queues.len() {
            while let Some(receive) = self.queues[at].cancel(|_| true) {
                self.end_receive(&receive, at == 1, failure);
            }
        }
    }

    /// Whether this endpoint takes messages from who is at the other end of a connection.
    #[inline]
    pub(crate) fn admits(&self, id: ConnectionId, kind: Kind) -> bool {
        !self.known_only || matches!(kind, Kind::Word | Kind::Credit | Kind::Done | Kind::Ask | Kind::Data) || self.is_known(id)
    }

    fn is_known(&self, id: ConnectionId) -> bool {
        self.connections.get(id).is_some_and(|c| self.address_of(c.peer) != NOBODY)
    }
}
