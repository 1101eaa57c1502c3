// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a NIC is opened at the host's agent, and why it may not be.

use super::link::AgentFailure;
use super::messages::Label;
use super::name_of_agent;
use crate::users::Allow;
use bellwire_proto::Seed;
use core::fmt;
use core::net::IpAddr;

/// How to open the port.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// The agent's address; `None`: the host's first agent.
    pub address: Option<IpAddr>,
    /// The virtual network to be in; empty for the default one.
    pub network: Label,
    /// Its key.
    pub key: Label,
    /// Seed of the questions' nonces.
    pub seed: Seed,
    /// Other users of this host that are looked for; if it names any, no others are. Groups are not
    /// looked at: the agent tells users.
    pub allow: Allow,
}

impl AgentConfig {
    /// The host's first agent, and the default network.
    pub fn new(seed: Seed) -> Self {
        Self { address: None, network: Label::default(), key: Label::default(), seed, allow: Allow::NOBODY }
    }
}

/// Why the port could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentError {
    /// The agent's address, if one was given.
    pub address: Option<IpAddr>,
    /// Why.
    pub failure: AgentFailure,
}

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = name_of_agent(self.address);
        write!(f, "the host's agent, by the abstract socket @{}: ", String::from_utf8_lossy(&name))?;
        match self.failure {
            AgentFailure::NobodyThere => {
                f.write_str("nobody accepts there; start bellwired")?;
                if let Some(ip) = self.address {
                    write!(f, " --address {ip}")?;
                }
                f.write_str(", or leave BELLWIRE_NIC unset")
            }
            AgentFailure::Crowded => f.write_str("more programs ask than it has accepted; try again"),
            AgentFailure::HungUp => f.write_str("it closed the connection: it has ended, or it has no room for another connection"),
            AgentFailure::NotTrusted { uid } => write!(f, "the process that accepts there is user {uid}'s; only root's and your own are trusted"),
            AgentFailure::Refused(reason) => write!(f, "it refuses: {}", reason.text()),
            AgentFailure::Misbehaved => f.write_str("it breaks the rules; is it of this version?"),
            AgentFailure::Silent => f.write_str("it does not answer"),
            AgentFailure::Memory(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for AgentError {}
