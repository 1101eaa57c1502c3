// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections: programs come, attach, name themselves, ring, and go. What a connection says is
//! bounded per look, so none keeps the agent.

use crate::agent::Agent;
use crate::endpoints::{Connection, Endpoint};
use bellwire_memory::event::PeerBell;
use bellwire_memory::region::{memfd_origin, sparse_memfd};
use bellwire_memory::{MemoryError, fd_passing};
use bellwire_residency::EndpointId;
use bellwire_wire::agent::messages::{Label, RefuseReason, ToAgent, ToProgram};
use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

/// Messages of one connection, and connections, taken per look.
const PER_LOOK: usize = 16;
/// Connections of one user beside those of its endpoints: attaching, or never doing so.
const SPARE_CONNECTIONS: usize = 16;

/// The name of an endpoint's memory: by it the agent's successor knows whose number it was. Nobody
/// can change it, and only the agent's user can make one that the agent's user owns.
fn name_of_segment(number: u16, uid: u32, network: u64) -> String {
    format!("bellwire-endpoint/{number}/{uid}/{network:016x}")
}

impl Agent {
    /// Takes those who connect.
    pub(crate) fn accept(&mut self, listener: usize) {
        for _ in 0..PER_LOOK {
            let Some(socket) = self.listeners.get(listener).and_then(|l| fd_passing::accept(l.as_fd()).ok().flatten()) else { return };
            let Ok(credentials) = fd_passing::peer_credentials(socket.as_fd()) else { continue };
            let open = self.connections_of.get(&credentials.uid).copied().unwrap_or(0);
            // It hears the end of the connection: there is no room.
            if self.connections_open >= self.connections_max || (credentials.uid != self.uid && open >= self.connections_of_user()) {
                self.counters.refused += 1;
                continue;
            }
            let place = self.connections.iter().position(Option::is_none).filter(|_| self.connections_open < self.connections.len());
            let place = place.unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            let data = epoll::EventData::new_u64(place as u64);
            if epoll::add(&self.epoll, &socket, data, epoll::EventFlags::IN).is_ok() {
                *self.connections_of.entry(credentials.uid).or_insert(0) += 1;
                self.connections_open += 1;
                self.connections[place] = Some(Connection { socket, credentials, endpoint: None });
            }
        }
    }

    /// Connections that one user may have: half of what the agent's descriptors allow, at most.
    fn connections_of_user(&self) -> usize {
        self.config.user_endpoints.saturating_add(SPARE_CONNECTIONS).min(self.connections_max.div_ceil(2))
    }

    /// A connection has something to say.
    pub(crate) fn hear(&mut self, place: usize) {
        let mut heard = core::mem::take(&mut self.heard);
        self.hear_in(place, &mut heard);
        self.heard = heard;
    }

    fn hear_in(&mut self, place: usize, bytes: &mut [u8]) {
        for _ in 0..PER_LOOK {
            let Some(connection) = self.connections.get(place).and_then(Option::as_ref) else { return };
            let received = match fd_passing::receive(connection.socket.as_fd(), bytes) {
                Ok(received) => received,
                Err(MemoryError::WouldBlock) => return,
                Err(_) => return self.hang_up(place),
            };
            let (endpoint, uid, bytes) = (connection.endpoint, connection.credentials.uid, &bytes[..received.len]);
            match (ToAgent::load(bytes), endpoint) {
                (Some(ToAgent::Attach { number, network, key }), None) => match self.attach(place, number, network, key, received.fds) {
                    Ok(()) => {}
                    Err(reason) => return self.refuse(place, reason),
                },
                (Some(ToAgent::Listen(name)), Some(endpoint)) => {
                    let ready = self.endpoints.listen(endpoint, name);
                    self.say(place, &ToProgram::Listening(name, ready));
                }
                (Some(ToAgent::Unlisten(name)), Some(endpoint)) => self.endpoints.unlisten(endpoint, name),
                // Seldom is there more behind it, and then the next look finds it.
                (Some(ToAgent::Ring), Some(endpoint)) => return self.demand(endpoint),
                // Of one that asks for much the rest waits for the next look.
                (None, None) if bytes.first() == Some(&b'{') => {
                    let answer = self.command(uid, bytes);
                    return self.answer(place, &answer);
                }
                (None, None) if ToAgent::is_of_other_version(bytes) => return self.refuse(place, RefuseReason::Version),
                _ => return self.hang_up(place),
            }
        }
    }

    fn say(&mut self, place: usize, message: &ToProgram) {
        self.say_with(place, message, &[]);
    }

    fn say_with(&self, place: usize, message: &ToProgram, fds: &[BorrowedFd<'_>]) {
        if let Some(connection) = self.connections.get(place).and_then(Option::as_ref) {
            // A program that does not read its answers goes without.
            let _ = fd_passing::send(connection.socket.as_fd(), &message.store(), fds);
        }
    }

    fn answer(&self, place: usize, answer: &str) {
        if let Some(connection) = self.connections.get(place).and_then(Option::as_ref) {
            // A program that does not read its answers goes without.
            let _ = fd_passing::send(connection.socket.as_fd(), answer.as_bytes(), &[]);
        }
    }

    fn refuse(&mut self, place: usize, reason: RefuseReason) {
        self.counters.refused += 1;
        self.say(place, &ToProgram::Refused(reason));
        self.hang_up(place);
    }

    fn attach(&mut self, place: usize, wanted: u16, network: Label, key: Label, fds: Vec<OwnedFd>) -> Result<(), RefuseReason> {
        let Some(connection) = self.connections.get(place).and_then(Option::as_ref) else { return Ok(()) };
        let uid = connection.credentials.uid;
        let network = self.network_of(uid, network, key).ok_or(RefuseReason::Network)?;
        if self.endpoints.count() >= self.config.endpoints {
            return Err(RefuseReason::Full);
        }
        if uid != 0 && uid != self.uid && self.endpoints.of_user(uid) >= self.config.user_endpoints {
            return Err(RefuseReason::Quota);
        }
        let mut fds = fds.into_iter();
        let bell = fds.next().and_then(|fd| PeerBell::from_fd(fd).ok()).ok_or(RefuseReason::Limit)?;
        // The number that it had, if its old segment shows that it did.
        let shown = fds.next().and_then(|old| memfd_origin(old.as_fd()).ok());
        let had = shown.is_some_and(|old| old.uid == self.uid && old.name == name_of_segment(wanted, uid, network));
        let number = self.endpoints.free_number(if had { wanted } else { 0 }).ok_or(RefuseReason::Full)?;
        let rings = self.config.rings;
        let memfd = sparse_memfd(&name_of_segment(number, uid, network), rings.bytes()).map_err(|_| RefuseReason::Limit)?;
        let told = ToProgram::Attached { number, sizes: rings, agent: self.network.own(), network };
        self.say_with(place, &told, &[memfd.as_fd(), self.page.fd()]);
        let endpoint = self.endpoints.insert(Endpoint::new(number, network, uid, place, memfd, bell));
        self.residency.set_owner(EndpointId(endpoint), uid);
        if let Some(connection) = self.connections[place].as_mut() {
            connection.endpoint = Some(endpoint);
        }
        self.counters.attached += 1;
        Ok(())
    }

    /// Ends a connection, and its endpoint with it.
    pub(crate) fn hang_up(&mut self, place: usize) {
        let Some(connection) = self.connections.get_mut(place).and_then(Option::take) else { return };
        let _ = epoll::delete(&self.epoll, &connection.socket);
        self.connections_open -= 1;
        if let Some(count) = self.connections_of.get_mut(&connection.credentials.uid) {
            *count -= 1;
            if *count == 0 {
                self.connections_of.remove(&connection.credentials.uid);
            }
        }
        if let Some(endpoint) = connection.endpoint {
            self.residency.remove(self.now, EndpointId(endpoint));
            self.resident.retain(|e| *e != endpoint);
            if let Some(unload) = self.endpoints.remove(endpoint).and_then(|e| e.unloaded) {
                self.parted.remove(&unload);
            }
        }
    }

    /// An endpoint broke the rules (A3).
    pub(crate) fn end_endpoint(&mut self, endpoint: u32) {
        if let Some(connection) = self.endpoints.get(endpoint).map(|e| e.connection) {
            self.counters.broken += 1;
            self.hang_up(connection);
        }
    }
}
