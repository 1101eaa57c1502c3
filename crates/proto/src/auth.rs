// SPDX-License-Identifier: MIT OR Apache-2.0
//! Making sessions with keys. The way is that of `handshake.rs`; in HELLO and WELCOME travel the
//! two messages of a Noise handshake, and what the parties tell of themselves is their payload.
//!
//! Unauthenticated packets are hints at most: a COOKIE is used, a REJECT shortens the wait.

use crate::config::Config;
use crate::delivery::Buffer;
use crate::event::FailReason;
use crate::ids::SessionId;
use crate::opening::{Answered, Begun};
use crate::packet::auth::{ANSWER_MESSAGE, AuthHello, AuthWelcome, MESSAGE_MAX, PAYLOAD, Told, WELCOME_BYTES};
use crate::packet::handshake::{FAST_AES, RejectReason};
use crate::packet::{Cookie, Hello, Packet, Reject};
use crate::session::Stage;
use crate::transport::Transport;
use bellwire_seal::{Answering, Association, Cipher, HandshakeError, Secrets};
use bellwire_time::{Duration, Instant};
use core::net::SocketAddr;
use std::collections::VecDeque;

/// Cookies whose answers are waited for at a time.
const COOKIES_MAX: usize = 8;
/// A handshake against which a REJECT came goes on for so long: anybody may have sent it.
const REJECTED_TIME: Duration = Duration::from_secs(1);

impl<B: Buffer> Transport<B> {
    /// The HELLO without a cookie for an opening that was just put into its place.
    //= P-AUTH-1
    pub(crate) fn begin_auth(&mut self, id: SessionId) {
        let Some(keys) = &self.config.keys else { return };
        let Some(opening) = self.places.opening(id) else { return };
        if !keys.can_seal(Some(opening.to.ip())) {
            return self.fail(id, FailReason::HostUnknown);
        }
        opening.party.features = features(&self.config);
        let (nonce, session) = (opening.nonce, opening.id.raw());
        let hello = AuthHello { timestamp: 0, nonce, session, cookie: [0; 16], pattern: keys.pattern(), message: [0; MESSAGE_MAX] };
        opening.auth = Some(Box::new(Begun { hello, states: VecDeque::new() }));
    }

    /// The first message, for a cookie. It is good with that alone, so that nobody else can use it,
    /// nor anybody later.
    //= P-AUTH-1
    fn bind(&mut self, id: SessionId, cookie: [u8; 16]) {
        let Some(keys) = &self.config.keys else { return };
        let Some(opening) = self.places.opening(id) else { return };
        let payload = Told { party: opening.party, nonce: opening.nonce, versions: self.config.versions }.emit();
        let Some(begun) = &mut opening.auth else { return };
        let mut message = [0; MESSAGE_MAX];
        let Ok(state) = keys.begin(&mut self.key_rng, opening.to.ip(), &cookie, &payload, &mut message) else { return };
        begun.states.push_front(state);
        begun.states.truncate(COOKIES_MAX);
        (begun.hello.cookie, begun.hello.message) = (cookie, message);
    }

    /// A HELLO with the first message.
    //= P-AUTH-1
    //= P-AUTH-3
    pub(crate) fn handle_auth_hello(&mut self, now: Instant, from: SocketAddr, hello: &AuthHello) {
        //= P-HAND-3
        if !self.baker.is_good_auth(now, from, hello) {
            self.statistics.cookies_bad += u64::from(hello.cookie != [0; 16]);
            self.statistics.cookies_out += 1;
            let cookie = self.baker.bake_auth(now, from, hello);
            let (nic, boot) = Default::default();
            return self
                .answer(from, &Packet::Cookie(Cookie { session: hello.session, echo: hello.timestamp, nic, boot, nonce: hello.nonce, cookie, auth: true }));
        }
        let reject = |reason| Packet::Reject(Reject { session: hello.session, reason, nonce: hello.nonce });
        let Some(keys) = self.config.keys.clone() else { return self.answer(from, &reject(RejectReason::NoKey)) };
        //= P-HAND-4
        let places = &self.places;
        let again = self.halves.iter().filter_map(|id| places.half(*id)).find(|h| h.address == from && h.peer.session == hello.session);
        if let Some(answered) = again.and_then(|h| h.auth.as_ref()).filter(|a| a.welcome.nonce == hello.nonce) {
            let welcome = AuthWelcome { echo: hello.timestamp, ..answered.welcome };
            return self.answer_welcome(from, &welcome);
        }
        if keys.pattern() != hello.pattern {
            self.statistics.handshakes_forged += 1;
            return self.answer(from, &reject(RejectReason::OtherKey));
        }
        if !self.may_look(now, from) {
            return;
        }
        let mut payload = [0; PAYLOAD];
        let answering = match keys.answer(&mut self.key_rng, from.ip(), &hello.cookie, hello.message(), &mut payload) {
            Ok(answering) => answering,
            Err(HandshakeError::Key | HandshakeError::Unknown) => {
                self.statistics.handshakes_forged += 1;
                return self.answer(from, &reject(RejectReason::OtherKey));
            }
        };
        let told = match Told::parse(&payload) {
            Ok(told) if told.party.session == hello.session && told.nonce == hello.nonce => told,
            Ok(_) => return self.statistics.implausible += 1,
            Err(e) => return self.statistics.count_malformed(e),
        };
        let Told { party, nonce, versions } = told;
        let plain = Hello { timestamp: hello.timestamp, party, nonce, versions, cookie: hello.cookie };
        self.follow_hello(now, from, &plain, Some(answering));
    }

    /// The WELCOME of a half session, with the second message.
    pub(crate) fn welcome_auth(&mut self, now: Instant, to: SocketAddr, hello: &Hello, id: SessionId, (psn, version): (u32, u8), answering: Answering) {
        let mut party = crate::handshake::party(&self.config, id, self.attempt, psn);
        let cipher = if hello.party.features & FAST_AES != 0 { self.config.cipher } else { Cipher::ChaCha20Poly1305 };
        party.features = if cipher == Cipher::Aes128Gcm { FAST_AES } else { 0 };
        let payload = Told { party, nonce: hello.nonce, versions: [version, version] }.emit();
        let mut message = [0; ANSWER_MESSAGE];
        let Ok(secrets) = answering.finish(&payload, &mut message) else { return self.drop_half(id) };
        let welcome = AuthWelcome { session: hello.party.session, echo: hello.timestamp, nonce: hello.nonce, version, message };
        let seal = self.association(cipher, secrets, now);
        if let Some(half) = self.places.half_mut(id) {
            half.auth = Some(Answered { seal, welcome });
        }
        self.answer_welcome(to, &welcome);
    }

    /// Whether a handshake with an address may be looked at: it costs a Diffie-Hellman, and the
    /// address has proved only that it receives.
    //= P-AUTH-1
    fn may_look(&mut self, now: Instant, from: SocketAddr) -> bool {
        let may = self.key_handshakes.as_mut().is_some_and(|limit| limit.take(now, from.ip()));
        self.statistics.handshakes_limited += u64::from(!may);
        may
    }

    fn answer_welcome(&mut self, to: SocketAddr, welcome: &AuthWelcome) {
        let mut bytes = [0; WELCOME_BYTES];
        let length = welcome.emit(&mut bytes);
        self.answer_bytes(to, bytes, length);
    }

    fn association(&self, cipher: Cipher, secrets: Secrets, now: Instant) -> Box<Association> {
        Box::new(Association::new(cipher, self.config.key_limits, secrets, now))
    }

    /// The HELLO again, with the cookie of somebody at the peer's address.
    pub(crate) fn handle_auth_cookie(&mut self, now: Instant, id: SessionId, from: SocketAddr, cookie: &Cookie) {
        if !self.may_look(now, from) {
            return;
        }
        let half = self.halves.iter().filter_map(|h| self.places.half(*h)).filter(|h| h.address == from && h.peer.nic != self.config.nic).map(|h| h.patience);
        let next = half.max().map_or(now, |patience| patience.max(now));
        let wait = self.config.handshake_retry;
        if let Some(opening) = self.places.opening(id) {
            (opening.cookie, opening.wait, opening.next) = (cookie.cookie, wait, next);
        }
        self.bind(id, cookie.cookie);
        self.arm_opening(now, id);
    }

    /// A WELCOME with the second message: the session is up.
    //= P-AUTH-2
    pub(crate) fn handle_auth_welcome(&mut self, now: Instant, from: SocketAddr, welcome: &AuthWelcome) {
        let Some(id) = self.expected(welcome.session, |o| o.auth.is_some() && o.nonce == welcome.nonce && o.to == from) else { return };
        let Some(opening) = self.places.opening(id) else { return };
        let Some(begun) = &mut opening.auth else { return };
        let mut payload = [0; PAYLOAD];
        let secrets = begun.states.iter_mut().find_map(|state| state.finish(&welcome.message, &mut payload).ok());
        let Some(secrets) = secrets else { return self.statistics.handshakes_forged += 1 };
        // The version in the message counts: that of the header is not authenticated.
        let [lowest, highest] = self.config.versions;
        let is_right = |told: &Told| told.nonce == opening.nonce && told.versions[0] == told.versions[1] && (lowest..=highest).contains(&told.versions[0]);
        let (party, version) = match Told::parse(&payload) {
            Ok(told) if is_right(&told) => (told.party, told.versions[0]),
            // The true peer says nonsense: there will be no other answer.
            _ => return self.fail(id, FailReason::NoAnswer),
        };
        // The NIC is known under another address.
        //= P-HAND-9
        let known = self.by_peer.get(&(party.nic, false)).copied().filter(|_| party.nic != self.config.nic);
        if let Some(known) = known
            && let Some(session) = self.places.live(known).filter(|s| s.peer_boot == party.boot)
        {
            let is_up = session.stage == Stage::Up;
            let contexts = self.drop_opening(id);
            for context in contexts {
                if is_up {
                    self.tell_up(known, Some(context));
                } else {
                    // It is being closed: frames sent on it come first.
                    self.begin_later(now, from, context);
                }
            }
            return;
        }
        let cipher = if party.features & FAST_AES != 0 { Cipher::Aes128Gcm } else { Cipher::ChaCha20Poly1305 };
        let seal = self.association(cipher, secrets, now);
        self.come_up(now, from, id, &party, (version, welcome.echo), Some(seal));
    }

    /// Another handshake, after a while.
    fn begin_later(&mut self, now: Instant, to: SocketAddr, context: u64) {
        let Some(id) = self.begin(now, to, context) else { return };
        let next = now + Duration(4 * self.config.handshake_retry.0);
        if let Some(opening) = self.places.opening(id) {
            opening.next = next;
        }
        self.begin_auth(id);
        self.arm_opening(now, id);
    }

    /// Somebody says that there will be no session. That may be a lie: the true answer has some
    /// time to come.
    //= P-AUTH-10
    pub(crate) fn note_reject(&mut self, now: Instant, id: SessionId, reason: FailReason) {
        let Some(opening) = self.places.opening(id) else { return };
        opening.rejected = Some(reason);
        opening.until = opening.until.min(now + REJECTED_TIME);
        self.arm_opening(now, id);
    }
}

fn features(config: &Config) -> u64 {
    if config.cipher == Cipher::Aes128Gcm { FAST_AES } else { 0 }
}
