// SPDX-License-Identifier: MIT OR Apache-2.0
//! The messages of programs and their agent on the connection between them, a packet of a
//! SEQPACKET socket each. Numbers are of this host's order: both are processes of one machine.
//!
//! ```text
//!  program                                                              agent
//!    ATTACH { number wanted, network, key } + bell (+ old segment) --->
//!      <--- ATTACHED { number, sizes, address, tag } + segment, page         or REFUSED { reason }
//!    LISTEN { name } --->            <--- LISTENING { name, whether }
//!    UNLISTEN { name } --->
//!    RING --->                       (the program's bell is a pipe)
//! ```

use super::segment::{ADDRESS_BYTES, Sizes, load_address, store_address};
use core::net::SocketAddr;

const VERSION: u8 = 3;
const ATTACH: u8 = 1;
const ATTACHED: u8 = 2;
const REFUSED: u8 = 3;
const LISTEN: u8 = 4;
const UNLISTEN: u8 = 5;
const LISTENING: u8 = 6;
const RING: u8 = 7;

const ATTACHED_BYTES: usize = 24 + ADDRESS_BYTES;

/// Most bytes of a message.
pub const MESSAGE_BYTES_MAX: usize = 80;
/// Most bytes of a network's name, and of its key.
pub const NETWORK_BYTES_MAX: usize = 32;

/// Why an agent refuses a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RefuseReason {
    /// It has no room for another endpoint.
    Full = 1,
    /// The user has as many as he may have.
    Quota = 2,
    /// There is no such network, the user is no member, or the key is wrong.
    Network = 3,
    /// It speaks another version.
    Version = 4,
    /// It lacks memory or descriptors.
    Limit = 5,
}

impl RefuseReason {
    /// For people: a clause without a full stop.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Full => "it has no room for another endpoint (bellwired --endpoints)",
            Self::Quota => "this user has as many endpoints as one user may have (bellwired --user-endpoints)",
            Self::Network => "there is no such virtual network, this user is no member of it, or the key is another one (bellwire vn list)",
            Self::Version => "it speaks another version; install the same version of library and bellwired",
            Self::Limit => "it is out of memory or descriptors",
        }
    }
}

/// A network's name, or a key: up to 32 bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    length: u8,
    bytes: [u8; NETWORK_BYTES_MAX],
}

impl Label {
    /// `None`: too long.
    pub fn new(text: &[u8]) -> Option<Self> {
        let mut bytes = [0; NETWORK_BYTES_MAX];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Self { length: text.len() as u8, bytes })
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length as usize]
    }
}

impl core::fmt::Debug for Label {
    /// Without its bytes, which may be a key.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Label({} bytes)", self.length)
    }
}

/// Of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToAgent {
    /// It wants an endpoint.
    Attach {
        /// The number that it had before, 0 for any.
        number: u16,
        /// The virtual network; empty for the default one.
        network: Label,
        /// The network's key, if it has one.
        key: Label,
    },
    /// It waits to be found.
    Listen(u128),
    /// No longer.
    Unlisten(u128),
    /// Look at my rings.
    Ring,
}

/// Of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToProgram {
    /// The endpoint is made.
    Attached {
        /// Its number: the port of its address.
        number: u16,
        /// Its rings.
        sizes: Sizes,
        /// The agent's own address.
        agent: SocketAddr,
        /// The tag of the network: the same for all who are in it. 0: the default one.
        network: u64,
    },
    /// It is not.
    Refused(RefuseReason),
    /// The answer to a LISTEN.
    Listening(u128, bool),
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[at..at + N]);
    part
}

fn named(kind: u8, flag: bool, name: u128) -> Vec<u8> {
    let mut b = vec![0; 24];
    (b[0], b[1]) = (kind, u8::from(flag));
    b[8..].copy_from_slice(&name.to_ne_bytes());
    b
}

impl ToAgent {
    /// As it is sent.
    pub fn store(&self) -> Vec<u8> {
        match self {
            Self::Attach { number, network, key } => {
                let mut b = vec![0; 72];
                (b[0], b[1]) = (ATTACH, VERSION);
                b[2..4].copy_from_slice(&number.to_ne_bytes());
                (b[4], b[5]) = (network.length, key.length);
                b[8..40].copy_from_slice(&network.bytes);
                b[40..72].copy_from_slice(&key.bytes);
                b
            }
            Self::Listen(name) => named(LISTEN, false, *name),
            Self::Unlisten(name) => named(UNLISTEN, false, *name),
            Self::Ring => vec![RING],
        }
    }

    /// What a program has sent. `None`: nonsense.
    pub fn load(b: &[u8]) -> Option<Self> {
        match (*b.first()?, b.len()) {
            (ATTACH, 72) if b[1] == VERSION => {
                let label = |length: u8, at: usize| Label::new(&b[at..at + usize::from(length).min(NETWORK_BYTES_MAX)]);
                Some(Self::Attach { number: u16::from_ne_bytes(part(b, 2)), network: label(b[4], 8)?, key: label(b[5], 40)? })
            }
            (LISTEN, 24) => Some(Self::Listen(u128::from_ne_bytes(part(b, 8)))),
            (UNLISTEN, 24) => Some(Self::Unlisten(u128::from_ne_bytes(part(b, 8)))),
            (RING, 1) => Some(Self::Ring),
            _ => None,
        }
    }

    /// Whether it is an ATTACH of another version.
    pub fn is_of_other_version(b: &[u8]) -> bool {
        b.len() >= 2 && b[0] == ATTACH && b[1] != VERSION
    }
}

impl ToProgram {
    /// As it is sent.
    pub fn store(&self) -> Vec<u8> {
        match self {
            Self::Attached { number, sizes, agent, network } => {
                let mut b = vec![0; ATTACHED_BYTES];
                (b[0], b[1]) = (ATTACHED, VERSION);
                b[2..4].copy_from_slice(&number.to_ne_bytes());
                b[8..12].copy_from_slice(&sizes.tx.to_ne_bytes());
                b[12..16].copy_from_slice(&sizes.rx.to_ne_bytes());
                b[16..16 + ADDRESS_BYTES].copy_from_slice(&store_address(agent));
                b[16 + ADDRESS_BYTES..].copy_from_slice(&network.to_ne_bytes());
                b
            }
            Self::Refused(reason) => vec![REFUSED, VERSION, *reason as u8, 0],
            Self::Listening(name, ready) => named(LISTENING, *ready, *name),
        }
    }

    /// What an agent has sent. `None`: nonsense.
    pub fn load(b: &[u8]) -> Option<Self> {
        match (*b.first()?, b.len()) {
            (ATTACHED, ATTACHED_BYTES) if b[1] == VERSION => Some(Self::Attached {
                number: Some(u16::from_ne_bytes(part(b, 2))).filter(|n| *n != 0)?,
                sizes: Sizes::new(u32::from_ne_bytes(part(b, 8)), u32::from_ne_bytes(part(b, 12)))?,
                agent: load_address(&part(b, 16))?,
                network: u64::from_ne_bytes(part(b, 16 + ADDRESS_BYTES)),
            }),
            (REFUSED, 4) => {
                use RefuseReason::{Full, Limit, Network, Quota, Version};
                [Full, Quota, Network, Version, Limit].into_iter().find(|r| *r as u8 == b[2]).map(Self::Refused)
            }
            (LISTENING, 24) => Some(Self::Listening(u128::from_ne_bytes(part(b, 8)), b[1] != 0)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_survive_and_nonsense_is_found() {
        let label = |text: &str| Label::new(text.as_bytes()).unwrap();
        for message in
            [ToAgent::Attach { number: 4711, network: label("physics"), key: label("") }, ToAgent::Listen(u128::MAX / 3), ToAgent::Unlisten(5), ToAgent::Ring]
        {
            assert_eq!(ToAgent::load(&message.store()), Some(message));
            assert!(message.store().len() <= MESSAGE_BYTES_MAX && ToProgram::load(&message.store()).is_none());
        }
        let agent = "10.1.2.3:7120".parse().unwrap();
        for message in [
            ToProgram::Attached { number: 9, sizes: Sizes::new(1 << 16, 1 << 17).unwrap(), agent, network: 1 << 63 | 5 },
            ToProgram::Refused(RefuseReason::Quota),
            ToProgram::Listening(7, true),
        ] {
            assert_eq!(ToProgram::load(&message.store()), Some(message));
        }
        for length in 0..100 {
            for byte in 0..=8 {
                // Only that nothing panics.
                let _ = (ToAgent::load(&vec![byte; length]), ToProgram::load(&vec![byte; length]));
            }
        }
        assert_eq!(Label::new(&[0; 33]), None);
        assert!(ToAgent::is_of_other_version(&[ATTACH, 9]) && ToAgent::load(&[ATTACH, 9]).is_none());
    }
}
