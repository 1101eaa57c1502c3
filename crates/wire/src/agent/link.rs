// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection with an agent: asked, attached, over. The agent is believed only if it is root's or
//! this user's own; what it says is checked all the same.

use super::messages::{Label, MESSAGE_BYTES_MAX, RefuseReason, ToAgent, ToProgram};
use super::name_of_agent;
use super::segment::{ProgramEnd, Sizes};
use bellwire_memory::MemoryError;
use bellwire_memory::fd_passing::{self, Socket};
use core::net::{IpAddr, SocketAddr};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

/// Messages taken per look.
const PER_LOOK: usize = 64;

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentFailure {
    /// No agent listens at this address.
    NobodyThere,
    /// More programs ask than it has accepted.
    Crowded,
    /// It closed the connection.
    HungUp,
    /// The process that listens there is another user's.
    NotTrusted {
        /// That user.
        uid: u32,
    },
    /// The agent refuses.
    Refused(RefuseReason),
    /// It broke the rules.
    Misbehaved,
    /// It gave no answer in time.
    Silent,
    /// This process is out of descriptors or memory.
    Memory(MemoryError),
}

impl From<MemoryError> for AgentFailure {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

/// What a connection has told.
#[derive(Debug)]
pub(super) enum Told {
    /// The endpoint is there.
    Attached,
    /// The answer to a LISTEN.
    Listening(u128, bool),
    /// It is over.
    Over(AgentFailure),
}

/// An endpoint.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) end: ProgramEnd,
    /// The endpoint's number: the port of its address.
    pub(super) number: u16,
    /// The agent's address.
    pub(super) agent: SocketAddr,
    /// The tag of the virtual network.
    pub(super) network: u64,
    /// The segment's memory: shows the next agent which endpoint this was.
    ticket: OwnedFd,
}

impl Attached {
    /// What the next agent is shown.
    pub(super) fn into_ticket(self) -> (u16, OwnedFd) {
        (self.number, self.ticket)
    }
}

/// Whether the agent will hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Yes,
    /// It has not read what it was told before.
    NotYet,
    /// It is gone.
    Never,
}

/// Connects to the agent of an address, or the host's first one, if it is root's or this user's
/// own: anybody may take an abstract name.
///
/// # Errors
/// Why there is no connection.
pub fn connect(address: Option<IpAddr>) -> Result<Socket, AgentFailure> {
    let socket = match fd_passing::connect_abstract(&name_of_agent(address)) {
        Ok(socket) => socket,
        Err(MemoryError::ConnectionRefused) => return Err(AgentFailure::NobodyThere),
        Err(MemoryError::WouldBlock) => return Err(AgentFailure::Crowded),
        Err(error) => return Err(error.into()),
    };
    let uid = fd_passing::peer_credentials(socket.as_fd())?.uid;
    if uid != 0 && uid != rustix::process::geteuid().as_raw() {
        return Err(AgentFailure::NotTrusted { uid });
    }
    Ok(socket)
}

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    socket: Socket,
    pub(super) attached: Option<Attached>,
}

impl Link {
    /// Asks the agent of an address (the first one of the host) for an endpoint: the one that
    /// `ticket` shows, if there is one. The agent rings by `bell`.
    pub(super) fn ask(
        address: Option<IpAddr>,
        network: Label,
        key: Label,
        bell: BorrowedFd<'_>,
        ticket: Option<(u16, BorrowedFd<'_>)>,
    ) -> Result<Self, AgentFailure> {
        let socket = connect(address)?;
        let number = ticket.map_or(0, |(number, _)| number);
        let attach = ToAgent::Attach { number, network, key }.store();
        let sent = match ticket {
            Some((_, segment)) => fd_passing::send(socket.as_fd(), &attach, &[bell, segment]),
            None => fd_passing::send(socket.as_fd(), &attach, &[bell]),
        };
        sent.map_err(|_| AgentFailure::HungUp)?;
        Ok(Self { socket, attached: None })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Says something.
    pub(super) fn say(&self, message: &ToAgent) -> Said {
        match fd_passing::send(self.socket.as_fd(), &message.store(), &[]) {
            Ok(()) => Said::Yes,
            Err(MemoryError::WouldBlock) => Said::NotYet,
            Err(_) => Said::Never,
        }
    }

    /// Takes what has come.
    pub(super) fn take(&mut self, mut told: impl FnMut(Told)) {
        let mut bytes = [0; MESSAGE_BYTES_MAX];
        for _ in 0..PER_LOOK {
            let received = match fd_passing::receive(self.socket.as_fd(), &mut bytes) {
                Ok(received) => received,
                Err(MemoryError::WouldBlock) => return,
                Err(_) => return told(Told::Over(AgentFailure::HungUp)),
            };
            match ToProgram::load(&bytes[..received.len]) {
                Some(ToProgram::Attached { number, sizes, agent, network }) if self.attached.is_none() => {
                    match attach(received.fds, sizes, (number, agent, network)) {
                        Ok(attached) => {
                            self.attached = Some(attached);
                            told(Told::Attached);
                        }
                        Err(failure) => return told(Told::Over(failure)),
                    }
                }
                Some(ToProgram::Refused(reason)) => return told(Told::Over(AgentFailure::Refused(reason))),
                Some(ToProgram::Listening(name, ready)) => told(Told::Listening(name, ready)),
                _ => return told(Told::Over(AgentFailure::Misbehaved)),
            }
        }
    }
}

fn attach(fds: Vec<OwnedFd>, sizes: Sizes, (number, agent, network): (u16, SocketAddr, u64)) -> Result<Attached, AgentFailure> {
    let Ok([segment, page]) = <[OwnedFd; 2]>::try_from(fds) else { return Err(AgentFailure::Misbehaved) };
    let ticket = rustix::io::fcntl_dupfd_cloexec(&segment, 0).map_err(|e| AgentFailure::Memory(MemoryError::os("fcntl(F_DUPFD)", e)))?;
    let end = ProgramEnd::map(segment, page, sizes)?;
    Ok(Attached { end, number, agent, network, ticket })
}
