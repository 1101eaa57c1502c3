// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a request failed, beyond its status: the `vendor_err` of a work completion.
//!
//! "The peer does not answer" is all that a status says of a peer that was killed, closed its
//! device, or was never there. Programs print `vendor_err` beside the status, so the reason of the
//! lost connection goes there. The numbers are documented in docs/guide/verbs.md and
//! bellwire-verbs(7); a number never changes its meaning.

use bellwire_peer::Death;
use bellwire_via::Cause;
use bellwire_via::frame::DisconnectReason;
use bellwire_via::wire::LinkFailure;

/// Why a request failed, beyond its status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u16)]
pub enum Reason {
    /// The request succeeded, or its status says it all.
    #[default]
    None = 0,
    /// The peer process exited.
    PeerDied = 1,
    /// The peer closed its device.
    PeerClosed = 2,
    /// Another process took the peer's place.
    PeerRestarted = 3,
    /// The peer no longer knows the session.
    PeerForgot = 4,
    /// The peer gave no sign of life for too long.
    PeerSilent = 5,
    /// One of both broke the protocol.
    Protocol = 6,
    /// The peer does not read the answers that it asked for.
    PeerStalled = 7,
    /// This process has no memory or descriptors left.
    LocalLimit = 8,
    /// No process waits at the peer's address.
    NobodyThere = 9,
    /// The peer refused the connection, or has no room for it.
    Refused = 10,
    /// The host cannot be reached.
    NotReachable = 11,
    /// The peer's process did not answer the connection request in time.
    NoAnswer = 12,
    /// The peer runs another version of Bellwire's packets.
    OtherVersion = 13,
    /// The peer's process has no such queue pair, or it is not ready to receive.
    NoQueuePair = 14,
    /// The port of this device is down.
    PortDown = 15,
    /// A fault that `BELLWIRE_FAULTS` asked for.
    Fault = 16,
    /// The peer's process is another user's, and one of both does not allow the other.
    NotAllowed = 17,
    /// The two sides do not have keys that belong together.
    Keys = 18,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::None,
        Self::PeerDied,
        Self::PeerClosed,
        Self::PeerRestarted,
        Self::PeerForgot,
        Self::PeerSilent,
        Self::Protocol,
        Self::PeerStalled,
        Self::LocalLimit,
        Self::NobodyThere,
        Self::Refused,
        Self::NotReachable,
        Self::NoAnswer,
        Self::OtherVersion,
        Self::NoQueuePair,
        Self::PortDown,
        Self::Fault,
        Self::NotAllowed,
        Self::Keys,
    ];

    /// For people: a clause without a full stop.
    pub const fn text(self) -> &'static str {
        match self {
            Self::None => "the status says it all",
            Self::PeerDied => "the peer process exited",
            Self::PeerClosed => "the peer closed its device",
            Self::PeerRestarted => "another process took the peer's place",
            Self::PeerForgot => "the peer no longer knows the session",
            Self::PeerSilent => "the peer gave no sign of life for too long",
            Self::Protocol => "the protocol was broken",
            Self::PeerStalled => "the peer does not read the answers that it asked for",
            Self::LocalLimit => "this process has no memory or descriptors left",
            Self::NobodyThere => "no process waits at the peer's address",
            Self::Refused => "the peer refused the connection",
            Self::NotReachable => "the host cannot be reached",
            Self::NoAnswer => "the peer did not answer the connection request in time",
            Self::OtherVersion => "the peer runs another version of Bellwire's packets",
            Self::NoQueuePair => "the peer has no such queue pair, or it is not ready to receive",
            Self::PortDown => "the port of this device is down",
            Self::Fault => "a fault that BELLWIRE_FAULTS asked for",
            Self::NotAllowed => "the peer's process is another user's; both need the other one in BELLWIRE_ALLOW, or UDP",
            Self::Keys => "the two sides do not have keys that belong together (BELLWIRE_KEY_FILE)",
        }
    }

    /// Why the requests of a connection fail that ended so.
    pub(crate) fn of(death: Death) -> Self {
        match death {
            Death::Unreachable(error) => Self::of_attempt(error),
            Death::OtherVersion(_) => Self::OtherVersion,
            Death::Broken(Cause::Link(failure)) => Self::of_link(failure),
            Death::Broken(Cause::Peer(DisconnectReason::Requested)) => Self::PeerClosed,
            Death::Broken(Cause::Peer(_) | Cause::Here(_)) | Death::Misbehaved => Self::Protocol,
        }
    }

    /// Why the requests of a connection fail that could not be made.
    pub(crate) fn of_attempt(error: bellwire_via::Error) -> Self {
        match error {
            bellwire_via::Error::NoMatch => Self::NobodyThere,
            bellwire_via::Error::Timeout => Self::NoAnswer,
            bellwire_via::Error::NotReachable => Self::NotReachable,
            bellwire_via::Error::Resource => Self::LocalLimit,
            bellwire_via::Error::NotAllowedHere | bellwire_via::Error::NotAllowedThere => Self::NotAllowed,
            bellwire_via::Error::Key(_) => Self::Keys,
            _ => Self::Refused,
        }
    }

    fn of_link(failure: LinkFailure) -> Self {
        match failure {
            LinkFailure::NobodyThere => Self::NobodyThere,
            LinkFailure::Busy => Self::Refused,
            LinkFailure::NotReachable | LinkFailure::OtherVersion => Self::NotReachable,
            LinkFailure::PeerDied => Self::PeerDied,
            LinkFailure::PeerClosed => Self::PeerClosed,
            LinkFailure::PeerRestarted => Self::PeerRestarted,
            LinkFailure::PeerForgot => Self::PeerForgot,
            LinkFailure::PeerSilent => Self::PeerSilent,
            LinkFailure::PeerMisbehaved | LinkFailure::BadFrame => Self::Protocol,
            LinkFailure::PeerStalled => Self::PeerStalled,
            LinkFailure::LocalLimit => Self::LocalLimit,
            LinkFailure::NotAllowedHere | LinkFailure::NotAllowedThere => Self::NotAllowed,
            LinkFailure::KeyWanted | LinkFailure::KeyMissing | LinkFailure::KeyOther | LinkFailure::KeyUnknown => Self::Keys,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Reason;

    #[test]
    fn numbers_are_those_of_the_documents() {
        for (page, row) in [
            (include_str!("../../../docs/guide/verbs.md"), (|number, text| format!("| {number} | {text} |")) as fn(usize, &str) -> String),
            (include_str!("../../../docs/man/bellwire-verbs.7"), |number, text| format!("{number}\t{text}\n")),
        ] {
            // Long texts are blocks in the manual's table.
            let page = page.replace("T{\n", "").replace("\nT}", "");
            for (number, reason) in Reason::ALL.iter().enumerate() {
                assert_eq!(*reason as usize, number);
                assert!(page.contains(&row(number, reason.text())), "{number}: {}", reason.text());
            }
        }
    }
}
