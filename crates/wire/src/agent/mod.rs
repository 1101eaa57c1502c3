// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host's agent (`bellwired`) as a network interface: the port of a packet wire whose packets
//! go through rings in memory shared with the agent, which routes them.
//!
//! ```text
//!   engine, transport --> AgentPort --> tx ring -->  agent  --> rx ring of another endpoint
//!                     <--           <-- rx ring <--         <-> UDP to agents of other hosts
//! ```
//!
//! The agent is trusted with nothing but delivery. The transport's state is the program's, so an
//! agent that ends takes packets with it, as a network does, and no message; the port attaches
//! itself to the next one. Both sides take what the other one writes for hostile.
//!
//! | file | concern |
//! |---|---|
//! | `config.rs` | how a NIC is opened, and why it may not be |
//! | `segment.rs` | an endpoint's memory: rings and words; both ends |
//! | `messages.rs` | the messages of the connection: attaching, names, rings |
//! | `link.rs` | a connection with an agent, from the first message to the end |
//! | `search.rs` | finding a NIC by its name |
//! | `port.rs` | [`AgentPort`], the port |
//! | `waiting.rs` | what it waits for: room, the endpoint's turn |

mod config;
mod link;
pub mod messages;
mod port;
mod search;
pub mod segment;
mod transport;
mod waiting;

use bellwire_proto::packet::{Kind, header};

pub use config::{AgentConfig, AgentError};
pub use link::{AgentFailure, connect};
pub use port::AgentPort;
pub use transport::REFUSAL_WAIT_MAX;

/// The UDP port of agents: the same on all hosts.
pub const AGENT_PORT: u16 = 7120;

/// Bytes of a refused packet that come back with the notice: the header of a data packet.
pub const SHOWN_BYTES: usize = bellwire_proto::config::DATA_HEADER;

/// Whether a packet that begins so is a data packet, the only kind of which there are refusals.
pub fn is_data(begin: &[u8; SHOWN_BYTES]) -> bool {
    matches!(header::addressee(begin), Ok((Kind::Data, _)))
}

/// The questions of programs to the directory of an address, and its answers: packets to and from
/// endpoint 0.
pub mod directory {
    use crate::udp::packet::{Find, Found};

    /// Bytes of a question.
    pub const QUESTION_BYTES: usize = crate::udp::packet::FIND_BYTES;

    /// The answer to a question: the number of the endpoint that waits under the name, and its
    /// user. `None`: no question.
    pub fn answer(question: &[u8], find: impl FnOnce(u128) -> Option<(u16, u32)>) -> Option<Vec<u8>> {
        let asked = Find::load(question)?;
        let (port, user) = find(asked.name).unwrap_or((0, 0));
        Some(Found { nonce: asked.nonce, name: asked.name, user, port }.store().to_vec())
    }
}

/// The abstract name under which the agent of an address accepts programs; without one, the host's
/// first agent.
pub fn name_of_agent(address: Option<core::net::IpAddr>) -> Vec<u8> {
    match address {
        Some(ip) => format!("bellwire/agent/{ip}").into_bytes(),
        None => b"bellwire/agent".to_vec(),
    }
}
