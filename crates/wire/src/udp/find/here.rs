// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding a NIC at an address of this host: its process is asked itself, by its user's name, and
//! known by its credentials. No datagram is sent, and no directory is believed.
//!
//! Looked for, in this order: a process of this user; one of the users that are allowed; if none is
//! allowed, one of any user, unless those of several users wait there.

use crate::LinkFailure;
use crate::address::NetAddress;
use crate::time::Instant;
use crate::udp::find::directory::ASKED_TIME;
use crate::udp::find::{Finder, HERE, PATIENCE, name_of_wait, on_link_of, shared_name_of_wait};
use crate::udp::packet;
use crate::{Rendezvous, names};
use bellwire_memory::MemoryError;
use bellwire_memory::fd_passing::{self, Socket};
use rustix::fd::AsFd;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// A question to a process of this host.
#[derive(Debug)]
pub(super) struct Here {
    request: u64,
    ip: IpAddr,
    name: u128,
    /// As in [`Question`](super::Question).
    patient: bool,
    /// `None`: nobody was there.
    socket: Option<Socket>,
    /// Given up, or asked again, then.
    pub(super) at: Instant,
}

impl Finder {
    pub(super) fn ask_here(&mut self, now: Instant, request: u64, ip: IpAddr, name: u128, patient: bool) {
        let number = self.number();
        match self.reach_here(name) {
            Ok(socket) if self.watch(socket.as_fd(), HERE | number).is_ok() => {
                self.here.insert(number, Here { request, ip, name, patient, socket: Some(socket), at: now + ASKED_TIME });
            }
            Ok(_) => return self.answer(request, Err(LinkFailure::LocalLimit)),
            Err(_) if patient => {
                self.here.insert(number, Here { request, ip, name, patient, socket: None, at: now + PATIENCE });
            }
            Err(reason) => return self.answer(request, Err(reason)),
        }
        self.note_timeouts();
    }

    fn reach_here(&self, name: u128) -> Result<Socket, LinkFailure> {
        let names = name_of_wait(name);
        for found in [names.reach(self.user), names.reach_allowed(self.user, &self.allow)] {
            match found {
                Err(MemoryError::ConnectionRefused) => {}
                other => return Ok(other?.0),
            }
        }
        // Each process that waits has this name, too, unless another user's has it.
        let first = match fd_passing::connect_abstract(&shared_name_of_wait(name)) {
            Err(MemoryError::ConnectionRefused) => return Err(LinkFailure::NobodyThere),
            first => first,
        };
        let others = names.others(self.user);
        match (others.len(), others.first()) {
            _ if !self.allow.is_empty() => Err(LinkFailure::NotAllowedHere),
            // A process whose user has another id where it runs (a user namespace).
            (0, _) | (_, None) => Ok(first?),
            (1, Some(only)) => Ok(names.reach(*only)?.0),
            // Whose it should be is for this process's user to say.
            _ => Err(LinkFailure::NotAllowedHere),
        }
    }

    /// Whether a process of this host waits under the name of such a question.
    pub(super) fn knows_here(&self, how: Rendezvous, local: &NetAddress, remote: &NetAddress) -> bool {
        let name = match how {
            Rendezvous::Client => names::hash_of(&[remote]),
            Rendezvous::Peer => names::hash_of(&[remote, local]),
        };
        !matches!(self.reach_here(name), Err(LinkFailure::NobodyThere))
    }

    /// The process that was asked has said its port, or hung up.
    pub(super) fn hear_here(&mut self, now: Instant, number: u64) {
        let Some(h) = self.here.get(&number) else { return };
        let Some(socket) = &h.socket else { return };
        let mut bytes = [0; packet::WAITS_BYTES + 1];
        let port = match fd_passing::receive(socket.as_fd(), &mut bytes) {
            Err(MemoryError::WouldBlock) => return,
            Err(_) => None,
            Ok(r) => packet::load_port(&bytes[..r.len]),
        };
        let Some(h) = self.take_here(number) else { return };
        match port {
            Some(port) => self.answer(h.request, Ok(on_link_of(self.own, h.ip, port))),
            None => self.nobody_here(now, h),
        }
    }

    fn nobody_here(&mut self, now: Instant, h: Here) {
        if !h.patient {
            return self.answer(h.request, Err(LinkFailure::NobodyThere));
        }
        let number = self.number();
        self.here.insert(number, Here { socket: None, at: now + PATIENCE, ..h });
        self.note_timeouts();
    }

    pub(super) fn here_is_late(&mut self, now: Instant) {
        let late: Vec<u64> = self.here.iter().filter(|(_, h)| h.at <= now).map(|(n, _)| *n).collect();
        for number in late {
            match self.take_here(number) {
                Some(h) if h.socket.is_none() => self.ask_here(now, h.request, h.ip, h.name, h.patient),
                Some(h) => self.nobody_here(now, h),
                None => {}
            }
        }
    }

    pub(super) fn forget_here(&mut self, request: u64) {
        let gone: Vec<u64> = self.here.iter().filter(|(_, h)| h.request == request).map(|(n, _)| *n).collect();
        for number in gone {
            self.take_here(number);
        }
    }

    fn take_here(&mut self, number: u64) -> Option<Here> {
        let h = self.here.remove(&number)?;
        h.socket.iter().for_each(|s| self.unwatch(s.as_fd()));
        Some(h)
    }

    /// The process that has the name of a wait for questions from other hosts.
    pub(super) fn reach_shared(&self, name: u128) -> Option<(Socket, u32)> {
        let socket = fd_passing::connect_abstract(&shared_name_of_wait(name)).ok()?;
        let peer = fd_passing::peer_credentials(socket.as_fd()).ok()?;
        Some((socket, peer.uid))
    }
}

/// Whether an address is one of this host's, or of this network namespace's, where abstract sockets
/// end, too.
pub(super) fn is_of_this_host(own: SocketAddr, ip: IpAddr) -> bool {
    let version = if ip.is_ipv4() { "ipv4" } else { "ipv6" };
    // With this setting, sockets are bound to addresses of other hosts.
    let binds_tell = || std::fs::read_to_string(format!("/proc/sys/net/{version}/ip_nonlocal_bind")).map_or(true, |on| on.trim() == "0");
    ip == own.ip() || ip.is_loopback() || (UdpSocket::bind(on_link_of(own, ip, 0)).is_ok() && binds_tell())
}
