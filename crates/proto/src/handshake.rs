// SPDX-License-Identifier: MIT OR Apache-2.0
//! Making sessions.
//!
//! ```text
//!   initiator            responder
//!     HELLO ------------->           nothing is remembered
//!       <------------- COOKIE
//!     HELLO + cookie ---->           half a session
//!       <------------ WELCOME
//!     PING, DATA, .. ---->           the other half
//! ```
//!
//! Two NICs that begin at once end with one session: that of the greater name. A NIC counts its
//! handshakes (`attempt`), so that a HELLO that was on its way when a session came up is told from
//! one of a peer that has lost that session.

use crate::config::{Config, common_version};
use crate::delivery::Buffer;
use crate::event::{DownReason, Event, FailReason};
use crate::ids::{NicId, PeerKey, SessionId};
use crate::opening::{Half, Opening};
use crate::packet::handshake::{Party, RejectReason};
use crate::packet::{Cookie, Hello, Packet, Reject, Welcome};
use crate::places::Place;
use crate::session::{Session, Stage};
use crate::transport::Transport;
use bellwire_seal::{Answering, Association};
use bellwire_time::{Duration, Instant};
use core::net::SocketAddr;
use rand_core::Rng;

impl<B: Buffer> Transport<B> {
    /// Begins a handshake. See [`Transport::connect`].
    pub(crate) fn begin(&mut self, now: Instant, to: SocketAddr, context: u64) -> Option<SessionId> {
        // A peer at this address has begun: its handshake comes first.
        //= P-HAND-7
        let next =
            self.halves.iter().filter_map(|id| self.places.half(*id)).filter(|h| h.address == to && h.peer.nic != self.config.nic).map(|h| h.patience).max();
        let (random, nonce, psn) = (self.rng.next_u32(), self.rng.next_u64(), self.rng.next_u32());
        self.attempt += 1;
        let (config, attempt) = (&self.config, self.attempt);
        let id = self.places.insert(random, |id| {
            Place::Opening(Box::new(Opening {
                id,
                to,
                contexts: vec![context],
                party: party(config, id, attempt, psn),
                nonce,
                cookie: [0; 16],
                peer: None,
                next: next.unwrap_or(now),
                wait: config.handshake_retry,
                until: now + config.handshake_time,
                hellos: 0,
                extensions: 0,
                auth: None,
                rejected: None,
            }))
        })?;
        self.openings.push(id);
        self.timers.reserve(id.slot());
        self.arm_opening(now, id);
        Some(id)
    }

    /// HELLO leaves now, or an alarm is set for it.
    pub(crate) fn arm_opening(&mut self, now: Instant, id: SessionId) {
        let Some(opening) = self.places.opening(id) else { return };
        let (next, until) = (opening.next, opening.until);
        if next <= now {
            self.queue_transmit(id.slot());
        }
        self.timers.set(id.slot(), if next <= now { until } else { next.min(until) });
    }

    /// A HELLO.
    pub(crate) fn handle_hello(&mut self, now: Instant, from: SocketAddr, hello: &Hello) {
        //= P-HAND-3
        if !self.baker.is_good(now, from, hello) {
            self.statistics.cookies_bad += u64::from(hello.cookie != [0; 16]);
            self.statistics.cookies_out += 1;
            let cookie = self.baker.bake(now, from, hello);
            let (nic, boot) = (self.config.nic, self.config.boot);
            return self.answer(
                from,
                &Packet::Cookie(Cookie { session: hello.party.session, echo: hello.timestamp, nic, boot, nonce: hello.nonce, cookie, auth: false }),
            );
        }
        //= P-AUTH-3
        if self.config.keys.is_some() {
            return self.answer(from, &Packet::Reject(Reject { session: hello.party.session, reason: RejectReason::WantsKey, nonce: hello.nonce }));
        }
        self.follow_hello(now, from, hello, None);
    }

    /// A HELLO with a good cookie, and with keys if this NIC has some: `answering` is the handshake
    /// then.
    pub(crate) fn follow_hello(&mut self, now: Instant, from: SocketAddr, hello: &Hello, answering: Option<Answering>) {
        let reject = |reason| Packet::Reject(Reject { session: hello.party.session, reason, nonce: hello.nonce });
        //= P-HAND-8
        let Some(version) = common_version(self.config.versions, hello.versions) else {
            return self.answer(from, &reject(RejectReason::Version));
        };
        if let Some(half) = self.half_of(hello) {
            return self.hello_again(now, from, hello, half, answering);
        }
        if self.is_unwanted(now, from, hello) {
            self.statistics.hellos_stale += 1;
            return;
        }
        if !self.config.accept {
            return self.answer(from, &reject(RejectReason::NotAccepting));
        }
        let (random, psn) = (self.rng.next_u32(), self.rng.next_u32());
        // The other side may get our WELCOME at the end of its handshake, and then tries the
        // session for as long as that of any silent peer.
        let yields = now + self.config.handshake_time;
        let until = yields + self.config.unreachable_after;
        let patience = now + Duration(4 * self.config.handshake_retry.0);
        // Peers that come and go while nobody fetches events must not fill memory.
        if self.halves.len() >= self.config.handshakes_max {
            self.drop_spare_half(now);
        }
        let crowded = self.halves.len() >= self.config.handshakes_max || self.events.len() > 4 * self.config.sessions_max;
        let id = if crowded {
            None
        } else {
            self.places
                .insert(random, |id| Place::Half(Box::new(Half { id, address: from, peer: hello.party, version, psn, yields, until, patience, auth: None })))
        };
        //= P-HAND-5
        let Some(id) = id else {
            self.statistics.sessions_refused += 1;
            return self.answer(from, &reject(RejectReason::Full));
        };
        self.halves.push(id);
        self.timers.reserve(id.slot());
        self.timers.set(id.slot(), until);
        self.step_back(now, from, hello.party.nic, patience);
        match answering {
            Some(answering) => self.welcome_auth(now, from, hello, id, (psn, version), answering),
            None => self.welcome(from, hello, id, psn, version),
        }
    }

    fn welcome(&mut self, to: SocketAddr, hello: &Hello, id: SessionId, psn: u32, version: u8) {
        let party = party(&self.config, id, self.attempt, psn);
        self.answer(to, &Packet::Welcome(Welcome { session: hello.party.session, echo: hello.timestamp, party, nonce: hello.nonce, version }));
    }

    /// The unconfirmed session with the NIC that the HELLO names.
    fn half_of(&self, hello: &Hello) -> Option<SessionId> {
        let places = &self.places;
        self.halves.iter().copied().find(|id| places.half(*id).is_some_and(|h| h.peer.nic == hello.party.nic))
    }

    /// A HELLO from a NIC that has begun already: the same again, a newer one, or an older one.
    fn hello_again(&mut self, now: Instant, from: SocketAddr, hello: &Hello, id: SessionId, answering: Option<Answering>) {
        let Some(half) = self.places.half(id) else { return };
        let known = (half.peer.boot, half.peer.attempt);
        let (psn, version) = (half.psn, half.version);
        if answering.is_none() && half.peer.session == hello.party.session && half.address == from && known == (hello.party.boot, hello.party.attempt) {
            //= P-HAND-4
            self.welcome(from, hello, id, psn, version);
        } else if (hello.party.boot, hello.party.attempt) > known {
            self.drop_half(id);
            self.follow_hello(now, from, hello, answering);
        } else {
            self.statistics.hellos_stale += 1;
        }
    }

    /// Whether a HELLO with a good cookie is not to be followed: it is old, ours goes before, or
    /// somebody uses another's name.
    fn is_unwanted(&mut self, now: Instant, from: SocketAddr, hello: &Hello) -> bool {
        let party = &hello.party;
        let is_self = party.nic == self.config.nic;
        if is_self {
            // Only our own HELLO may carry our name.
            let places = &self.places;
            let ours = |id: &SessionId| places.opening_ref(*id).is_some_and(|o| o.nonce == hello.nonce && o.party.session == party.session);
            if !self.openings.iter().any(ours) {
                return true;
            }
        } else if self.config.nic > party.nic && self.opening_towards(from, party.nic).is_some() {
            //= P-HAND-7
            return true;
        }
        let Some(id) = self.by_peer.get(&(party.nic, is_self)).copied() else { return false };
        let Some(session) = self.places.live(id) else { return false };
        let newer = (party.boot, party.attempt) > (session.peer_boot, session.peer_attempt);
        //= P-HAND-6
        if newer && session.address.ip() == from.ip() {
            return false;
        }
        // It may be true all the same: if the session that there is proves dead, the next HELLO
        // will be followed.
        if !newer && party.boot == session.peer_boot {
            return true;
        }
        session.life.want(now);
        self.touch(now, id.slot());
        true
    }

    /// Our handshake with the NIC, if there is one.
    fn opening_towards(&self, address: SocketAddr, nic: NicId) -> Option<SessionId> {
        let places = &self.places;
        let is_towards = |o: &Opening| o.peer.map_or(o.to == address, |(peer, _)| peer == nic);
        self.openings.iter().copied().find(|id| places.opening_ref(*id).is_some_and(&is_towards))
    }

    /// The peer's handshake goes before ours.
    fn step_back(&mut self, now: Instant, address: SocketAddr, nic: NicId, patience: Instant) {
        if nic != self.config.nic
            && let Some(id) = self.opening_towards(address, nic)
            && let Some(opening) = self.places.opening(id)
        {
            opening.next = patience;
            self.arm_opening(now, id);
        }
    }

    /// A COOKIE: who it is, and the HELLO again with it.
    pub(crate) fn handle_cookie(&mut self, now: Instant, from: SocketAddr, cookie: &Cookie) {
        let is_ours = |o: &Opening| o.nonce == cookie.nonce && o.to == from && o.cookie != cookie.cookie && o.auth.is_some() == cookie.auth;
        let Some(id) = self.expected(cookie.session, is_ours) else { return };
        if cookie.auth {
            return self.handle_auth_cookie(now, id, from, cookie);
        }
        // The NIC is known under another address.
        //= P-HAND-9
        if let Some(known) = self.by_peer.get(&(cookie.nic, false)).copied()
            && let Some(session) = self.places.live(known).filter(|s| s.peer_boot == cookie.boot)
        {
            // It is being closed: frames sent on it come first.
            if session.stage != Stage::Up {
                let next = now + Duration(4 * self.config.handshake_retry.0);
                if let Some(opening) = self.places.opening(id) {
                    opening.next = next;
                }
                return self.arm_opening(now, id);
            }
            let contexts = self.drop_opening(id);
            return contexts.into_iter().for_each(|c| self.tell_up(known, Some(c)));
        }
        let places = &self.places;
        let half = self.halves.iter().find_map(|h| places.half(*h).filter(|h| h.peer.nic == cookie.nic && h.peer.nic != self.config.nic).map(|h| h.patience));
        let wait = self.config.handshake_retry;
        if let Some(opening) = self.places.opening(id) {
            opening.cookie = cookie.cookie;
            // The peer is there: packets missing now were lost, and nobody is crowded.
            opening.wait = wait;
            opening.peer = Some((cookie.nic, cookie.boot));
            opening.next = half.map_or(now, |patience| patience.max(now));
        }
        self.arm_opening(now, id);
    }

    /// A WELCOME: the session is up.
    pub(crate) fn handle_welcome(&mut self, now: Instant, from: SocketAddr, welcome: &Welcome) {
        let is_ours = |o: &Opening| o.nonce == welcome.nonce && o.to == from && o.auth.is_none() && o.peer == Some((welcome.party.nic, welcome.party.boot));
        let Some(id) = self.expected(welcome.session, is_ours) else { return };
        if !self.speaks(welcome.version) {
            return self.statistics.implausible += 1;
        }
        self.come_up(now, from, id, &welcome.party, (welcome.version, welcome.echo), None);
    }

    /// Whether a peer may choose this version: we offered it.
    pub(crate) fn speaks(&self, version: u8) -> bool {
        let [lowest, highest] = self.config.versions;
        (lowest..=highest).contains(&version)
    }

    /// A session that we began is up: its version, and the clock that the WELCOME echoed.
    pub(crate) fn come_up(&mut self, now: Instant, from: SocketAddr, id: SessionId, peer: &Party, (version, echo): (u8, u32), seal: Option<Box<Association>>) {
        let Some(opening) = self.places.opening(id) else { return };
        let contexts = core::mem::take(&mut opening.contexts);
        let mut session = Session::new(&self.config, now, id, from, peer, opening.party.psn, false).sealed(seal);
        session.version = version;
        session.handshake_took(now, echo);
        //= P-HAND-10
        session.life.want(now);
        self.openings.retain(|o| *o != id);
        self.replace_peer((peer.nic, false), peer.boot);
        self.forget_older_halves(peer);
        self.install(now, session, (peer.nic, false));
        contexts.into_iter().for_each(|c| self.tell_up(id, Some(c)));
    }

    /// A REJECT.
    pub(crate) fn handle_reject(&mut self, now: Instant, from: SocketAddr, reject: &Reject) {
        let Some(id) = self.expected(reject.session, |o| o.nonce == reject.nonce && o.to == from) else { return };
        let reason = match reject.reason {
            RejectReason::Version => FailReason::Version,
            RejectReason::Full => FailReason::PeerFull,
            RejectReason::NotAccepting => FailReason::NotAccepting,
            RejectReason::WantsKey => FailReason::PeerWantsKey,
            RejectReason::NoKey => FailReason::PeerHasNoKey,
            RejectReason::OtherKey => FailReason::OtherKey,
        };
        if self.config.keys.is_some() {
            return self.note_reject(now, id, reason);
        }
        self.fail(id, reason);
    }

    /// The handshake that an answer belongs to.
    pub(crate) fn expected(&mut self, session: u64, is_ours: impl Fn(&Opening) -> bool) -> Option<SessionId> {
        let id = SessionId(session);
        if self.places.opening_ref(id).is_some_and(is_ours) {
            return Some(id);
        }
        self.statistics.unknown_session += 1;
        None
    }

    /// The first packet of a session that a peer began: it got our WELCOME.
    //= P-HAND-5
    pub(crate) fn confirm(&mut self, now: Instant, id: SessionId) {
        let Some(half) = self.places.half_mut(id) else { return };
        let (peer, address, psn, version) = (half.peer, half.address, half.psn, half.version);
        let seal = half.auth.take().map(|answered| answered.seal);
        let key = (peer.nic, peer.nic == self.config.nic);
        let mut session = Session::new(&self.config, now, id, address, &peer, psn, true).sealed(seal);
        session.version = version;
        self.halves.retain(|h| *h != id);
        self.replace_peer(key, peer.boot);
        self.install(now, session, key);
        let mut waiting = Vec::new();
        while !key.1
            && let Some(opening) = self.opening_towards(address, peer.nic)
        {
            waiting.extend(self.drop_opening(opening));
        }
        if waiting.is_empty() {
            self.tell_up(id, None);
        }
        waiting.into_iter().for_each(|c| self.tell_up(id, Some(c)));
    }

    fn install(&mut self, now: Instant, session: Session<B>, key: PeerKey) {
        let id = session.id;
        self.statistics.sessions_up += 1;
        self.by_peer.insert(key, id);
        self.by_path.insert((session.address, session.peer_id), id);
        self.places.replace(id, Place::Live(Box::new(session)));
        self.timers.set(id.slot(), Instant::NEVER);
        self.touch(now, id.slot());
    }

    /// Ends the session that there is with a peer, before a new one comes up.
    fn replace_peer(&mut self, key: PeerKey, boot: u64) {
        if let Some(old) = self.by_peer.get(&key).copied() {
            let same_life = self.places.live(old).is_some_and(|s| s.peer_boot == boot);
            //= P-HAND-6
            self.end(old, if same_life { DownReason::PeerForgot } else { DownReason::PeerRestarted });
        }
    }

    /// What the peer had begun before it answered us will not be confirmed.
    fn forget_older_halves(&mut self, peer: &Party) {
        let places = &self.places;
        let is_older = |h: &Half| h.peer.nic == peer.nic && (h.peer.boot, h.peer.attempt) <= (peer.boot, peer.attempt);
        let older: Vec<SessionId> = self.halves.iter().copied().filter(|id| places.half(*id).is_some_and(&is_older)).collect();
        if peer.nic != self.config.nic {
            older.into_iter().for_each(|id| self.drop_half(id));
        }
    }

    pub(crate) fn tell_up(&mut self, session: SessionId, context: Option<u64>) {
        if let Some(s) = self.places.live_ref(session) {
            self.events.push_back(Event::Up { session, context, peer: s.peer, incoming: s.incoming });
        }
    }

    /// A handshake has failed.
    pub(crate) fn fail(&mut self, id: SessionId, reason: FailReason) {
        let contexts = self.drop_opening(id);
        self.events.extend(contexts.into_iter().map(|context| Event::Failed { context, reason }));
    }

    pub(crate) fn drop_opening(&mut self, id: SessionId) -> Vec<u64> {
        self.openings.retain(|o| *o != id);
        self.timers.set(id.slot(), Instant::NEVER);
        match self.places.remove(id) {
            Place::Opening(opening) => opening.contexts,
            _ => Vec::new(),
        }
    }

    /// Makes room for a peer that begins: the oldest half session goes, if it has had its time.
    fn drop_spare_half(&mut self, now: Instant) {
        let oldest = self.halves.first().copied();
        if let Some(oldest) = oldest.filter(|id| self.places.half(*id).is_none_or(|h| h.yields <= now)) {
            self.drop_half(oldest);
        }
    }

    pub(crate) fn drop_half(&mut self, id: SessionId) {
        self.halves.retain(|h| *h != id);
        self.timers.set(id.slot(), Instant::NEVER);
        self.places.remove(id);
    }
}

pub(crate) fn party(config: &Config, id: SessionId, attempt: u64, psn: u32) -> Party {
    let (datagram, room) = (config.datagram_max as u32, config.receive_bytes as u32);
    Party { nic: config.nic, boot: config.boot, session: id.raw(), attempt, features: 0, datagram, psn, room }
}
