// SPDX-License-Identifier: MIT OR Apache-2.0
//! Authenticated packets that arrive: a packet of a session is opened where it lies, and is then
//! one like any other. Nothing of it is believed before.

use super::Transport;
use super::input::Trace;
use crate::delivery::Buffer;
use crate::error::PacketError;
use crate::ids::SessionId;
use crate::packet::auth::{self, AuthHello, AuthWelcome, TRAILER};
use crate::packet::data::Data;
use crate::packet::header::{self, Header, Kind};
use crate::packet::{Packet, Reset};
use crate::places::Place;
use crate::rx_window::Arrival;
use crate::session::Arrived;
use bellwire_seal::OpenError;
use bellwire_time::Instant;
use core::net::SocketAddr;
use zerocopy::FromBytes;

impl<B: Buffer> Transport<B> {
    /// A packet that cannot be read as an unauthenticated one; `error` says why. It may be an
    /// authenticated one.
    pub(super) fn handle_sealed(&mut self, now: Instant, from: SocketAddr, mut buffer: B, error: PacketError) {
        let bytes = buffer.as_ref();
        let Ok(kind) = header::kind_of(bytes).and_then(|kind| if auth::is_marked(bytes) { Ok(kind) } else { Err(error) }) else {
            return self.statistics.count_malformed(error);
        };
        let read = match kind {
            Kind::Hello => AuthHello::parse(bytes).map(|hello| self.handle_auth_hello(now, from, &hello)),
            Kind::Welcome => AuthWelcome::parse(bytes).map(|welcome| self.handle_auth_welcome(now, from, &welcome)),
            Kind::Cookie | Kind::Reject | Kind::Reset => Err(error),
            _ => {
                if let Some(id) = self.open(now, from, &mut buffer, kind) {
                    self.handle_opened(now, from, id, buffer);
                }
                Ok(())
            }
        };
        if let Err(e) = read {
            self.statistics.count_malformed(e);
        }
    }

    /// Opens a packet of a session, if it is the peer's and new; which session. The first one of a
    /// session that is half made makes it whole.
    //= P-AUTH-6
    //= P-HAND-5
    fn open(&mut self, now: Instant, from: SocketAddr, buffer: &mut B, kind: Kind) -> Option<SessionId> {
        let length = buffer.as_ref().len();
        let (header, _) = Header::read_from_prefix(buffer.as_ref()).ok()?;
        let id = SessionId(header.session.get());
        let (is_half, address, seal) = match self.places.get_mut(id.slot()) {
            Some(Place::Live(s)) if s.id == id && !s.is_down() => (false, s.address, s.seal.as_deref_mut()),
            Some(Place::Half(h)) if h.id == id => (true, h.address, h.auth.as_mut().map(|a| &mut *a.seal)),
            _ => {
                let trace = Trace { kind, word: header.word.get(), length };
                self.answer_reset(now, from, Reset { kind: trace.kind, word: trace.word, unknown: id.raw() }, trace.length);
                return None;
            }
        };
        let Some(seal) = seal.filter(|_| address == from) else {
            self.statistics.implausible += 1;
            return None;
        };
        match auth::open(seal, buffer.as_mut(), kind) {
            Ok(()) => buffer.truncate(length - TRAILER),
            Err(e) => {
                match e {
                    //= P-AUTH-7
                    OpenError::Replayed => self.statistics.replayed += 1,
                    OpenError::Short | OpenError::Key | OpenError::Forged => self.statistics.forged += 1,
                }
                return None;
            }
        }
        if is_half {
            self.confirm(now, id);
        }
        Some(id)
    }

    /// A packet that was opened, as any other: while it is handled, its session takes packets as
    /// they are.
    fn handle_opened(&mut self, now: Instant, from: SocketAddr, id: SessionId, buffer: B) {
        self.set_plain(id, id);
        let length = buffer.as_ref().len();
        if header::kind_of(buffer.as_ref()) == Ok(Kind::Data) {
            match Data::parse(buffer.as_ref()) {
                Ok(data) => {
                    let arrival =
                        Arrival { psn: data.psn, stream_back: data.stream_back, ordered: data.ordered, timestamp: data.timestamp, is_empty: data.count == 0 };
                    let arrived = Arrived { arrival, ack_now: data.ack_now, answer: data.answer };
                    self.handle_data(now, from, id, arrived, buffer, length);
                }
                Err(e) => self.statistics.count_malformed(e),
            }
        } else {
            match Packet::parse(buffer.as_ref()) {
                Ok(packet) => self.handle_other(now, from, &packet, length),
                Err(e) => self.statistics.count_malformed(e),
            }
        }
        self.set_plain(id, SessionId::NONE);
    }

    fn set_plain(&mut self, id: SessionId, plain: SessionId) {
        if let Some(session) = self.places.live(id) {
            session.plain_id = plain;
        }
    }
}
