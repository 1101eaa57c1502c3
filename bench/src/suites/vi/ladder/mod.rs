// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small message-passing library whose way of using the network is a rung of a ladder: from UDP
//! sockets with acknowledgements and copies of its own, step by step, to virtual interfaces that
//! send from and receive into the program's memory. `bellwire paper 001` measures the rungs.
//!
//! | file | rungs, concern |
//! |---|---|
//! | `memory.rs` | memory of messages, whose owners keep it for as long as a descriptor names it |
//! | `channel.rs` | send, receive, both also without waiting, between two processes; the trait of a rung |
//! | `group.rs` | barrier, broadcast, allreduce among many |
//! | `packets.rs` | messages cut into packets and copied at both ends; acknowledged, or not |
//! | `udp.rs` | packets by UDP sockets |
//! | `port.rs`, `vi.rs` | a NIC with one VI; packets by it |
//! | `direct.rs` | no copy at the receiver, none at the sender, registered on demand |
//! | `measure.rs`, `load.rs` | the measurements; processor time at fixed rates |

mod channel;
mod direct;
mod group;
mod load;
mod measure;
mod memory;
mod packets;
mod port;
mod udp;
mod vi;

pub use load::{Carries, LoadJob, run as load};
pub use measure::{LadderJob, run};

use serde::{Deserialize, Serialize};

/// Meetings of a request that bare sockets may use.
const MEETINGS_OF_SOCKETS: u64 = 2;

/// A way of using the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rung {
    /// UDP sockets; each message is acknowledged, and copied by the library at both ends.
    Udp,
    /// The same on a VI with Reliable Delivery.
    Vi,
    /// No acknowledgements: the VI is reliable. Receivers return buffers, a few at a time.
    Unacknowledged,
    /// Messages come into the receiver's memory, which is of a registered pool.
    Placed,
    /// They also leave from such memory.
    Pooled,
    /// They leave from and come into any memory, registered on demand through the cache.
    Cached,
}

impl Rung {
    /// All of them, from below.
    pub const ALL: [Self; 6] = [Self::Udp, Self::Vi, Self::Unacknowledged, Self::Placed, Self::Pooled, Self::Cached];

    /// In tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Udp => "UDP sockets",
            Self::Vi => "VI, else the same",
            Self::Unacknowledged => "no acknowledgements",
            Self::Placed => "no copy at the receiver",
            Self::Pooled => "no copy at the sender, pools",
            Self::Cached => "no copies, any memory",
        }
    }
}

/// How a receiver waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// It looks again and again.
    Poll,
    /// It calls what sleeps: `VipCQWait`, which spins first as the NIC is told; `poll` on a socket.
    Sleep,
}
