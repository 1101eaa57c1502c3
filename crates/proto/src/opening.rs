// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sessions that are being made. The rules are in `handshake.rs`.

use crate::config::Config;
use crate::event::FailReason;
use crate::ids::{NicId, SessionId};
use crate::packet::Hello;
use crate::packet::auth::{AuthHello, AuthWelcome};
use crate::packet::handshake::Party;
use crate::sequence::timestamp;
use bellwire_seal::{Association, Initiating};
use bellwire_time::{Duration, Instant};
use core::net::SocketAddr;
use std::collections::VecDeque;

/// A handshake fails only after so many HELLOs, if its process was stopped meanwhile.
const HELLOS_MIN: u32 = 8;
/// It gets more time so often.
const EXTENSIONS_MAX: u32 = 3;

/// A session that we began.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) id: SessionId,
    pub(crate) to: SocketAddr,
    /// Everybody who asked for it.
    pub(crate) contexts: Vec<u64>,
    pub(crate) party: Party,
    pub(crate) nonce: u64,
    pub(crate) cookie: [u8; 16],
    /// The peer that answered: name and incarnation.
    pub(crate) peer: Option<(NicId, u64)>,
    /// When the next HELLO leaves, and the time between two.
    pub(crate) next: Instant,
    pub(crate) wait: Duration,
    pub(crate) until: Instant,
    /// HELLOs that left, and how often it got more time.
    pub(crate) hellos: u32,
    pub(crate) extensions: u32,
    /// Our half of an authenticated handshake.
    pub(crate) auth: Option<Box<Begun>>,
    /// An unauthenticated REJECT came, for this reason.
    pub(crate) rejected: Option<FailReason>,
}

/// An authenticated handshake that we began.
#[derive(Debug)]
pub(crate) struct Begun {
    /// The HELLO that leaves: with the message for the newest cookie.
    pub(crate) hello: AuthHello,
    /// The handshakes of the latest cookies. Anybody can send a cookie, and the true answer may be
    /// to an earlier one.
    pub(crate) states: VecDeque<Initiating>,
}

impl Opening {
    /// The alarm that it needs.
    pub(crate) fn deadline(&self) -> Instant {
        self.next.min(self.until)
    }

    /// Whether it has failed. One that has hardly asked because its process was stopped gets more
    /// time.
    pub(crate) fn is_over(&mut self, now: Instant, config: &Config) -> bool {
        if now < self.until {
            return false;
        }
        let goes_on = self.rejected.is_none() && self.hellos < HELLOS_MIN && self.extensions < EXTENSIONS_MAX;
        if goes_on {
            self.extensions += 1;
            self.until = now + config.handshake_time;
        }
        !goes_on
    }

    /// Writes the HELLO that leaves now; its length.
    //= P-HAND-11
    pub(crate) fn hello(&mut self, now: Instant, config: &Config, out: &mut [u8]) -> usize {
        self.next = now + self.wait;
        self.hellos += 1;
        self.wait = Duration(self.wait.0.saturating_mul(2)).min(config.handshake_retry_max);
        match &mut self.auth {
            Some(begun) => {
                begun.hello.timestamp = timestamp(now);
                begun.hello.emit(out)
            }
            None => Hello { timestamp: timestamp(now), party: self.party, nonce: self.nonce, versions: config.versions, cookie: self.cookie }.emit(out),
        }
    }
}

/// A session that a peer began and has not confirmed.
#[derive(Debug)]
pub(crate) struct Half {
    pub(crate) id: SessionId,
    pub(crate) address: SocketAddr,
    pub(crate) peer: Party,
    /// The version of the protocol that both speak.
    pub(crate) version: u8,
    /// Our first packet's number.
    pub(crate) psn: u32,
    /// From then on it makes room for another one.
    pub(crate) yields: Instant,
    pub(crate) until: Instant,
    /// Until when our own handshake waits for this one. Not for long: it may have come from a HELLO
    /// of the past, said again by somebody else.
    pub(crate) patience: Instant,
    /// With keys: those of the session, and our answer.
    pub(crate) auth: Option<Answered>,
}

/// An authenticated handshake that we answered.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) seal: Box<Association>,
    pub(crate) welcome: AuthWelcome,
}
