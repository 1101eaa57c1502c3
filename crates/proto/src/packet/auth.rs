// SPDX-License-Identifier: MIT OR Apache-2.0
//! Authenticated packets as they travel: those of a session, which a trailer follows, and the HELLO
//! and WELCOME that hold the messages of a Noise handshake instead of plain parties.
//!
//! ```text
//!   DATA:  header (32), with its length at 30 | encrypted frames | trailer (24)
//!   PING:  common header (16), with its length at 2 | encrypted rest | trailer
//!   others of a session: common header (16) | encrypted rest | trailer
//!   HELLO: common header, short = pattern | 16 nonce (8) | 24 initiator's session (8)
//!          | 32 cookie (16) | 48 message, zero to 256
//!   WELCOME: common header, short = version | 16 nonce (8) | 24 message
//! ```
//!
//! Lengths are in the clear so that packets that the network joined can be cut.

use super::handshake::{HELLO_BYTES, Party, PartyRaw};
use super::header::{self, AUTH, HEADER, Header, Kind, kind_of};
use crate::config::DATA_HEADER;
use crate::error::PacketError;
pub use bellwire_seal::TRAILER;
use bellwire_seal::{Association, OpenError, Pattern};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Where a DATA packet has its length, and where a PING has.
pub(super) const DATA_LENGTH: usize = 30;
pub(super) const PING_LENGTH: usize = 2;
/// Bytes of the payload of both messages: a party, the nonce, versions, zeros.
pub(crate) const PAYLOAD: usize = 72;
/// Bytes of a HELLO before its message, and of a WELCOME.
const HELLO_CLEAR: usize = 48;
const WELCOME_CLEAR: usize = 24;
/// Bytes of the longest first message.
pub(crate) const MESSAGE_MAX: usize = HELLO_BYTES - HELLO_CLEAR;
const _: () = assert!(Pattern::Both.first_bytes(PAYLOAD) <= MESSAGE_MAX);
/// Bytes of a WELCOME: all patterns have the same.
pub(crate) const WELCOME_BYTES: usize = WELCOME_CLEAR + Pattern::Shared.second_bytes(PAYLOAD);
/// Bytes of the second message.
pub(crate) const ANSWER_MESSAGE: usize = WELCOME_BYTES - WELCOME_CLEAR;

/// Whether it says of itself that it is authenticated.
#[inline]
pub(crate) fn is_marked(packet: &[u8]) -> bool {
    packet.len() >= HEADER && packet[1] & AUTH != 0
}

/// Bytes at the beginning that stay readable.
#[inline]
const fn clear(kind: Kind) -> usize {
    if matches!(kind, Kind::Data) { DATA_HEADER } else { HEADER }
}

/// Where the length stands, if it does.
#[inline]
const fn length_at(kind: Kind) -> Option<usize> {
    match kind {
        Kind::Data => Some(DATA_LENGTH),
        Kind::Ping => Some(PING_LENGTH),
        _ => None,
    }
}

/// Marks a packet of a session and seals it; its last [`TRAILER`] bytes are free for that.
//= P-AUTH-4
#[inline]
pub(crate) fn seal(association: &mut Association, packet: &mut [u8]) {
    let Ok(kind) = kind_of(packet) else { unreachable!("a packet that was written here") };
    packet[1] |= AUTH;
    if let Some(at) = length_at(kind) {
        let length = packet.len() as u16;
        packet[at..at + 2].copy_from_slice(&length.to_le_bytes());
    }
    association.seal(packet, clear(kind));
}

/// Makes a packet as it was before it was sealed, but for its trailer.
fn unmark(packet: &mut [u8], kind: Kind) {
    packet[1] &= !AUTH;
    if let Some(at) = length_at(kind) {
        packet[at..at + 2].fill(0);
    }
}

/// Takes back [`seal`], if it was done.
//= P-AUTH-9
pub(crate) fn unseal(association: &Association, packet: &mut [u8]) {
    if !is_marked(packet) {
        return;
    }
    let Ok(kind) = kind_of(packet) else { unreachable!("a packet that was written here") };
    let is_whole = association.unseal(packet, clear(kind));
    assert!(is_whole, "what was sealed with the key in use lies unchanged in the ring");
    unmark(packet, kind);
}

/// Opens a packet of the peer's; it is the plain one then, with [`TRAILER`] bytes too many.
#[inline]
pub(crate) fn open(association: &mut Association, packet: &mut [u8], kind: Kind) -> Result<(), OpenError> {
    let told = |at: usize| packet.get(at..).and_then(<[u8]>::first_chunk).map(|bytes| usize::from(u16::from_le_bytes(*bytes)));
    if length_at(kind).is_some_and(|at| told(at) != Some(packet.len())) {
        return Err(OpenError::Short);
    }
    association.open(packet, clear(kind))?;
    unmark(packet, kind);
    Ok(())
}

/// What the payload of a handshake's message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) party: Party,
    pub(crate) nonce: u64,
    pub(crate) versions: [u8; 2],
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ToldRaw {
    party: PartyRaw,
    versions: [u8; 2],
    zero: [u8; 2],
}

const _: () = assert!(size_of::<ToldRaw>() == PAYLOAD);

impl Told {
    pub(crate) fn emit(&self) -> [u8; PAYLOAD] {
        let mut out = [0; PAYLOAD];
        header::put(&ToldRaw { party: PartyRaw::new(&self.party, self.nonce), versions: self.versions, zero: [0; 2] }, &mut out);
        out
    }

    pub(crate) fn parse(bytes: &[u8; PAYLOAD]) -> Result<Self, PacketError> {
        let raw: &ToldRaw = header::exact(bytes)?;
        header::reserved(raw.zero == [0; 2])?;
        if raw.versions[0] == 0 || raw.versions[0] > raw.versions[1] || raw.versions[1] > 15 {
            return Err(PacketError::Value);
        }
        Ok(Self { party: raw.party.party()?, nonce: raw.party.nonce(), versions: raw.versions })
    }
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HelloRaw {
    header: Header,
    nonce: U64,
    session: U64,
    cookie: [u8; 16],
    message: [u8; MESSAGE_MAX],
}

/// Begins an authenticated session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuthHello {
    pub(crate) timestamp: u32,
    pub(crate) nonce: u64,
    /// The initiator's id for the session.
    pub(crate) session: u64,
    pub(crate) cookie: [u8; 16],
    pub(crate) pattern: Pattern,
    /// The first message, and zeros.
    pub(crate) message: [u8; MESSAGE_MAX],
}

impl AuthHello {
    //= P-AUTH-1
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, PacketError> {
        let raw: &HelloRaw = header::exact(bytes)?;
        header::reserved(raw.header.flags == AUTH && raw.header.session.get() == 0)?;
        let pattern = Pattern::from_raw(raw.header.short.get()).ok_or(PacketError::Value)?;
        header::reserved(raw.message[pattern.first_bytes(PAYLOAD)..].iter().all(|b| *b == 0))?;
        if raw.session.get() == 0 {
            return Err(PacketError::Value);
        }
        Ok(Self { timestamp: raw.header.word.get(), nonce: raw.nonce.get(), session: raw.session.get(), cookie: raw.cookie, pattern, message: raw.message })
    }

    pub(crate) fn emit(&self, out: &mut [u8]) -> usize {
        let raw = HelloRaw {
            header: Header::new(Kind::Hello, AUTH, self.pattern as u16, self.timestamp, 0),
            nonce: self.nonce.into(),
            session: self.session.into(),
            cookie: self.cookie,
            message: self.message,
        };
        header::put(&raw, out)
    }

    /// The first message.
    pub(crate) fn message(&self) -> &[u8] {
        &self.message[..self.pattern.first_bytes(PAYLOAD)]
    }
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct WelcomeRaw {
    header: Header,
    nonce: U64,
    message: [u8; ANSWER_MESSAGE],
}

/// The answer to an [`AuthHello`] with a good cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AuthWelcome {
    /// The initiator's id for the session.
    pub(crate) session: u64,
    pub(crate) echo: u32,
    pub(crate) nonce: u64,
    /// The version chosen. The message says it too, authenticated.
    pub(crate) version: u8,
    pub(crate) message: [u8; ANSWER_MESSAGE],
}

impl AuthWelcome {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, PacketError> {
        let raw: &WelcomeRaw = header::exact(bytes)?;
        header::reserved(raw.header.flags == AUTH)?;
        let version = header::chosen_version(raw.header.short.get())?;
        Ok(Self { session: raw.header.session.get(), echo: raw.header.word.get(), nonce: raw.nonce.get(), version, message: raw.message })
    }

    pub(crate) fn emit(&self, out: &mut [u8]) -> usize {
        let header = Header::new(Kind::Welcome, AUTH, u16::from(self.version), self.echo, self.session);
        header::put(&WelcomeRaw { header, nonce: self.nonce.into(), message: self.message }, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NicId;
    use crate::packet::data::{Answer, Data};
    use crate::packet::{Ack, Close, CloseAck, Nack, Packet, Ping, Pong};
    use crate::{Instant, Refusal};
    use bellwire_seal::{Cipher, Limits, Secrets};

    fn association(send: u8, receive: u8) -> Association {
        Association::new(Cipher::ChaCha20Poly1305, Limits::default(), Secrets::chosen([send; 32], [receive; 32]), Instant(0))
    }

    fn of_a_session() -> Vec<Packet<'static>> {
        const FRAMES: &[u8] = &[1, 0, 3, 0, 8, 7, 6, 5, 4, 3, 2, 1, b'x', b'y', b'z'];
        let session = 0x0102_0304_0506_0708;
        let answer = Answer { ack: Some(4), echo: Some((9, 1)) };
        let data =
            Data { session, psn: 7, stream_back: 2, ordered: false, ack_now: true, retransmitted: false, timestamp: 5, answer, frames: FRAMES, count: 1 };
        let mut bitmap = [0; 16];
        bitmap[1] = 3;
        vec![
            Packet::Data(data.clone()),
            Packet::Data(Data { frames: &[], count: 0, ..data }),
            Packet::Ack(Ack { session, ack: 3, echo: None, bitmap, words: 2 }),
            Packet::Nack(Nack { session, psn: 3, reason: Refusal::Busy, echo: 1, consumed: 0 }),
            Packet::Close(Close { session, psn: 3, own: 8 }),
            Packet::CloseAck(CloseAck { session, psn: 3 }),
            Packet::Ping(Ping { session, token: 3, timestamp: 9, length: 600 }),
            Packet::Pong(Pong { session, token: 3, echo: 9, length: 600 }),
        ]
    }

    #[test]
    fn each_kind_is_sealed_cut_and_opened() {
        //= P-AUTH-4
        //= P-AUTH-9
        let (mut a, mut b) = (association(1, 2), association(2, 1));
        let mut joined = Vec::new();
        let mut plain = Vec::new();
        for packet in of_a_session() {
            let mut bytes = vec![0; 2000];
            let length = packet.emit(&mut bytes);
            bytes.truncate(length + TRAILER);
            bytes[length..].fill(0xee);
            plain.push(bytes[..length].to_vec());
            seal(&mut a, &mut bytes);
            assert!(is_marked(&bytes) && Packet::parse(&bytes).is_err());
            let mut back = bytes.clone();
            unseal(&a, &mut back);
            assert_eq!(back[..length], plain[plain.len() - 1]);
            unseal(&a, &mut back);
            joined.extend(bytes);
        }
        let mut rest = joined.as_slice();
        for (packet, plain) in of_a_session().iter().zip(&plain) {
            let length = crate::packet::length(rest);
            assert_eq!(length, plain.len() + TRAILER);
            let mut bytes = rest[..length].to_vec();
            rest = &rest[length..];
            let kind = kind_of(&bytes).unwrap();
            assert_eq!(open(&mut b, &mut bytes, kind), Ok(()));
            assert_eq!(Packet::parse(&bytes[..length - TRAILER]).as_ref(), Ok(packet));
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn hello_and_welcome_have_no_room_for_anything_else() {
        //= P-AUTH-1
        let party = Party { nic: NicId([3; 16]), boot: 1, session: 2, attempt: 3, features: 1, datagram: 1200, psn: 9, room: 1 << 20 };
        let told = Told { party, nonce: 5, versions: [1, 1] };
        assert_eq!(Told::parse(&told.emit()), Ok(told));
        let mut bad = told.emit();
        bad[71] = 1;
        assert_eq!(Told::parse(&bad), Err(PacketError::Reserved));
        for pattern in [Pattern::Shared, Pattern::Hosts, Pattern::Both] {
            let mut message = [0; MESSAGE_MAX];
            message[..pattern.first_bytes(PAYLOAD)].fill(9);
            let hello = AuthHello { timestamp: 1, nonce: 2, session: 3, cookie: [4; 16], pattern, message };
            let mut bytes = [0; 300];
            assert_eq!(hello.emit(&mut bytes), HELLO_BYTES);
            assert_eq!(AuthHello::parse(&bytes[..HELLO_BYTES]), Ok(hello));
            for at in [2, 3, 8, HELLO_CLEAR + pattern.first_bytes(PAYLOAD), 255] {
                let mut bent = bytes;
                bent[at] ^= 0x80;
                assert!(AuthHello::parse(&bent[..HELLO_BYTES]).is_err(), "byte {at}");
            }
            assert!(AuthHello::parse(&bytes[..255]).is_err() && AuthHello::parse(&bytes[..257]).is_err());
        }
        let welcome = AuthWelcome { session: 1, echo: 2, nonce: 3, version: 1, message: [7; ANSWER_MESSAGE] };
        let mut bytes = [0; WELCOME_BYTES];
        assert_eq!(welcome.emit(&mut bytes), WELCOME_BYTES);
        assert_eq!(AuthWelcome::parse(&bytes), Ok(welcome));
        const { assert!(WELCOME_BYTES <= HELLO_BYTES, "no answer is longer than its question") }
    }
}
