// SPDX-License-Identifier: MIT OR Apache-2.0
//! HELLO, COOKIE, WELCOME, REJECT: how a session is made. No answer is longer than the HELLO that
//! it answers.

use super::header::{self, AUTH, Header, Kind};
use crate::config::{DATAGRAM_BASE, DATAGRAM_MAX};
use crate::error::PacketError;
use crate::ids::NicId;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `features`: the party has instructions for AES; in an answer: AES is what the session uses.
pub const FAST_AES: u64 = 1 << 1;

/// Bytes of a HELLO.
pub const HELLO_BYTES: usize = 256;

/// A party, and the nonce of the handshake, as they travel in HELLO and WELCOME.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct PartyRaw {
    nic: [u8; 16],
    boot: U64,
    nonce: U64,
    session: U64,
    attempt: U64,
    features: U64,
    datagram: U32,
    psn: U32,
    room: U32,
}

impl PartyRaw {
    pub(super) fn new(p: &Party, nonce: u64) -> Self {
        Self {
            nic: p.nic.0,
            boot: p.boot.into(),
            nonce: nonce.into(),
            session: p.session.into(),
            attempt: p.attempt.into(),
            features: p.features.into(),
            datagram: p.datagram.into(),
            psn: p.psn.into(),
            room: p.room.into(),
        }
    }

    pub(super) const fn nonce(&self) -> u64 {
        self.nonce.get()
    }

    pub(super) fn party(&self) -> Result<Party, PacketError> {
        let party = Party {
            nic: NicId(self.nic),
            boot: self.boot.get(),
            session: self.session.get(),
            attempt: self.attempt.get(),
            features: self.features.get(),
            datagram: self.datagram.get(),
            psn: self.psn.get(),
            room: self.room.get(),
        };
        party.check()
    }
}

/// `word`: the initiator's clock. Padded with zeros to [`HELLO_BYTES`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HelloRaw {
    header: Header,
    party: PartyRaw,
    versions: [u8; 2],
    zero: [u8; 2],
    cookie: [u8; 16],
}

/// What both ends tell about themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Party {
    /// Its name.
    pub nic: NicId,
    /// Its life.
    pub boot: u64,
    /// Its id for the session; not zero.
    pub session: u64,
    /// How many handshakes it has begun in this life.
    pub attempt: u64,
    /// What it can do beyond version 1: [`FAST_AES`], and only in authenticated handshakes.
    pub features: u64,
    /// The largest datagram that it receives, in bytes.
    pub datagram: u32,
    /// The number of its first data packet.
    pub psn: u32,
    /// Bytes that may be in flight towards it (what its socket can hold); at least one datagram is
    /// always allowed.
    pub room: u32,
}

impl Party {
    fn check(self) -> Result<Self, PacketError> {
        //= P-HAND-2
        if self.session == 0 || (self.datagram as usize) < DATAGRAM_BASE || self.datagram as usize > DATAGRAM_MAX {
            return Err(PacketError::Value);
        }
        Ok(self)
    }
}

/// Begins a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The initiator's clock, echoed by the answer.
    pub timestamp: u32,
    /// The initiator.
    pub party: Party,
    /// Random, echoed by every answer.
    pub nonce: u64,
    /// The lowest and highest version that the initiator speaks.
    pub versions: [u8; 2],
    /// The responder's cookie; zero when there is none yet.
    pub cookie: [u8; 16],
}

impl Hello {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, PacketError> {
        //= P-HAND-1
        if bytes.len() < HELLO_BYTES {
            return Err(PacketError::Short);
        }
        if bytes.len() > HELLO_BYTES {
            return Err(PacketError::Long);
        }
        let raw: &HelloRaw = header::padded(bytes)?;
        header::reserved(raw.header.flags == 0 && raw.header.short.get() == 0 && raw.header.session.get() == 0 && raw.zero == [0; 2])?;
        if raw.versions[0] == 0 || raw.versions[0] > raw.versions[1] || raw.versions[1] > 15 {
            return Err(PacketError::Value);
        }
        Ok(Self { timestamp: raw.header.word.get(), party: raw.party.party()?, nonce: raw.party.nonce.get(), versions: raw.versions, cookie: raw.cookie })
    }

    pub(crate) fn emit(&self, out: &mut [u8]) -> usize {
        let raw = HelloRaw {
            header: Header::new(Kind::Hello, 0, 0, self.timestamp, 0),
            party: PartyRaw::new(&self.party, self.nonce),
            versions: self.versions,
            zero: [0; 2],
            cookie: self.cookie,
        };
        let n = header::put(&raw, out);
        out[n..HELLO_BYTES].fill(0);
        HELLO_BYTES
    }
}

/// `word`: the echoed clock; `session`: the initiator's id.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct CookieRaw {
    header: Header,
    nic: [u8; 16],
    boot: U64,
    nonce: U64,
    cookie: [u8; 16],
}

/// The answer to a HELLO without a good cookie. Nothing is remembered of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie {
    /// The initiator's id for the session.
    pub session: u64,
    /// The HELLO's timestamp.
    pub echo: u32,
    /// The responder's name.
    pub nic: NicId,
    /// The responder's life.
    pub boot: u64,
    /// The HELLO's nonce.
    pub nonce: u64,
    /// To be put into the next HELLO.
    pub cookie: [u8; 16],
    /// It answers an authenticated HELLO, and does not tell who the responder is.
    pub auth: bool,
}

impl Cookie {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, PacketError> {
        let raw: &CookieRaw = header::exact(bytes)?;
        let auth = raw.header.flags == AUTH;
        header::reserved((auth || raw.header.flags == 0) && raw.header.short.get() == 0)?;
        header::reserved(!auth || (raw.nic == [0; 16] && raw.boot.get() == 0))?;
        if raw.cookie == [0; 16] {
            return Err(PacketError::Value);
        }
        Ok(Self {
            session: raw.header.session.get(),
            echo: raw.header.word.get(),
            nic: NicId(raw.nic),
            boot: raw.boot.get(),
            nonce: raw.nonce.get(),
            cookie: raw.cookie,
            auth,
        })
    }

    pub(crate) fn emit(&self, out: &mut [u8]) -> usize {
        let raw = CookieRaw {
            header: Header::new(Kind::Cookie, if self.auth { AUTH } else { 0 }, 0, self.echo, self.session),
            nic: self.nic.0,
            boot: self.boot.into(),
            nonce: self.nonce.into(),
            cookie: self.cookie,
        };
        header::put(&raw, out)
    }
}

/// `short`: the version chosen; `word`: the echoed clock; `session`: the initiator's id.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct WelcomeRaw {
    header: Header,
    party: PartyRaw,
    zero: U32,
}

/// The answer to a HELLO with a good cookie: the session's other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The initiator's id for the session.
    pub session: u64,
    /// The HELLO's timestamp.
    pub echo: u32,
    /// The responder.
    pub party: Party,
    /// The HELLO's nonce.
    pub nonce: u64,
    /// The version chosen.
    pub version: u8,
}

impl Welcome {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, PacketError> {
        let raw: &WelcomeRaw = header::exact(bytes)?;
        header::reserved(raw.header.flags == 0 && raw.zero.get() == 0)?;
        let version = header::chosen_version(raw.header.short.get())?;
        Ok(Self { session: raw.header.session.get(), echo: raw.header.word.get(), party: raw.party.party()?, nonce: raw.party.nonce.get(), version })
    }

    pub(crate) fn emit(&self, out: &mut [u8]) -> usize {
        let raw = WelcomeRaw {
            header: Header::new(Kind::Welcome, 0, u16::from(self.version), self.echo, self.session),
            party: PartyRaw::new(&self.party, self.nonce),
            zero: 0.into(),
        };
        header::put(&raw, out)
    }
}

/// Why there is no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RejectReason {
    /// No version in common.
    Version = 1,
    /// No room.
    Full = 2,
    /// The NIC takes no sessions.
    NotAccepting = 3,
    /// The NIC has a key, and takes authenticated packets only.
    WantsKey = 4,
    /// The HELLO was authenticated, and the NIC has no key.
    NoKey = 5,
    /// The NIC's key is not that of the HELLO's sender, or it does not believe it.
    OtherKey = 6,
}

/// `short`: the reason; `session`: the initiator's id.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RejectRaw {
    header: Header,
    nonce: U64,
}

/// The answer to a HELLO with a good cookie, when there is no session to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    /// The initiator's id for the session.
    pub session: u64,
    /// Why.
    pub reason: RejectReason,
    /// The HELLO's nonce.
    pub nonce: u64,
}

impl Reject {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, PacketError> {
        let raw: &RejectRaw = header::exact(bytes)?;
        header::reserved(raw.header.flags == 0 && raw.header.word.get() == 0)?;
        let reason = match raw.header.short.get() {
            1 => RejectReason::Version,
            2 => RejectReason::Full,
            3 => RejectReason::NotAccepting,
            4 => RejectReason::WantsKey,
            5 => RejectReason::NoKey,
            6 => RejectReason::OtherKey,
            _ => return Err(PacketError::Value),
        };
        Ok(Self { session: raw.header.session.get(), reason, nonce: raw.nonce.get() })
    }

    pub(crate) fn emit(&self, out: &mut [u8]) -> usize {
        header::put(&RejectRaw { header: Header::new(Kind::Reject, 0, self.reason as u16, 0, self.session), nonce: self.nonce.into() }, out)
    }
}
