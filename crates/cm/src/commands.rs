// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program's commands about identifiers, addresses and groups.

use crate::cm::{Cm, Membership};
use crate::devices::Unbound;
use crate::host::Host;
use crate::id::{Id, State};
use crate::types::{Channel, Error, Event, EventBody, EventKind, Gid, IdOption, Joined, MULTICAST_QP, Parameters, QpKind, Route, Service, Space, UDP_QKEY};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Ports that are chosen for programs that name none.
const CHOSEN: core::ops::Range<u64> = 32_768..61_000;
const CHOICES: u32 = 200;
/// Requests that may wait for the program, at most.
const BACKLOG_MAX: u32 = 1024;
/// Groups that an identifier may be in.
const GROUPS_MAX: usize = 1 << 12;

impl Cm {
    /// Makes an identifier; its number.
    ///
    /// # Errors
    /// [`Error::Missing`]: no such channel; [`Error::Full`].
    pub fn create_id(&mut self, channel: Channel, uid: u64, space: Space, kind: QpKind) -> Result<u32, Error> {
        let number = self.number();
        self.create_id_as(number, channel, uid, space, kind)?;
        Ok(number)
    }

    /// Makes an identifier with a number that the caller chose.
    ///
    /// # Errors
    /// As there; [`Error::InUse`]: the number is.
    pub fn create_id_as(&mut self, number: u32, channel: Channel, uid: u64, space: Space, kind: QpKind) -> Result<(), Error> {
        self.put_unbound(channel, number, Unbound(Id::new(channel, uid, space, kind)))
    }

    /// Ends an identifier; how many events of it the program was given.
    ///
    /// # Errors
    /// [`Error::Missing`]; [`Error::Invalid`]: it is another channel's.
    pub fn destroy_id<H: Host>(&mut self, host: &mut H, channel: Channel, id: u32) -> Result<u32, Error> {
        self.of(channel, id)?;
        Ok(self.end(host, id))
    }

    /// Gives an identifier an address; port 0: any. `has_device`: the address is the device's, not
    /// that of all interfaces.
    ///
    /// # Errors
    /// [`Error::Invalid`]: it has one; [`Error::InUse`]; [`Error::Full`]: no port is left.
    pub fn bind<H: Host>(&mut self, host: &mut H, channel: Channel, id: u32, address: SocketAddr, has_device: bool) -> Result<(), Error> {
        let state = self.of(channel, id)?;
        if state.state != State::Idle {
            return Err(Error::Invalid);
        }
        (state.source, state.has_device) = (Some(address), has_device);
        let (space, reuse) = (state.space, state.reuse);
        let bound = self.take_port(host, id, space, address.port(), reuse);
        let state = self.of(channel, id)?;
        match bound {
            Ok(service) => {
                state.source = Some(SocketAddr::new(address.ip(), service.port));
                state.state = State::Bound;
                Ok(())
            }
            Err(error) => {
                (state.source, state.has_device) = (None, false);
                Err(error)
            }
        }
    }

    fn take_port<H: Host>(&mut self, host: &mut H, id: u32, space: Space, port: u16, reuse: bool) -> Result<Service, Error> {
        let mut taken = None;
        if port == 0 {
            for _ in 0..CHOICES {
                let port = (CHOSEN.start + self.draw() % (CHOSEN.end - CHOSEN.start)) as u16;
                let service = Service { space, port };
                if !self.ports.contains_key(&service) && self.claim(host, service) {
                    taken = Some(service);
                    break;
                }
            }
        } else {
            let service = Service { space, port };
            // A port that may be had more than once is claimed by the one that listens.
            if self.is_free(service, id, false) && (reuse || self.claim(host, service)) {
                taken = Some(service);
            }
        }
        let service = taken.ok_or(if port == 0 { Error::Full } else { Error::InUse })?;
        self.ports.entry(service).or_default().insert(id);
        if let Some(state) = self.ids.get_mut(&id) {
            state.service = Some(service);
        }
        Ok(service)
    }

    /// Has an identifier take requests, of which `backlog` may wait for the program.
    ///
    /// # Errors
    /// [`Error::Invalid`]: its state does not allow it; [`Error::InUse`]; [`Error::Full`].
    pub fn listen<H: Host>(&mut self, host: &mut H, channel: Channel, id: u32, backlog: u32) -> Result<(), Error> {
        if self.of(channel, id)?.state == State::Idle {
            self.bind(host, channel, id, SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), false)?;
        }
        let state = self.of(channel, id)?;
        let Some(service) = state.service.filter(|_| state.state == State::Bound) else { return Err(Error::Invalid) };
        if !self.is_free(service, id, true) || !self.claim(host, service) {
            return Err(Error::InUse);
        }
        let state = self.of(channel, id)?;
        state.state = State::Listening;
        state.backlog = if (1..=BACKLOG_MAX).contains(&backlog) { backlog } else { BACKLOG_MAX };
        Ok(())
    }

    /// Has an identifier resolve a peer's address. `found`: its own address towards it, and the
    /// peer's device; or an error of the system. An event tells.
    ///
    /// # Errors
    /// [`Error::Invalid`]: its state does not allow it.
    pub fn resolve_address<H: Host>(
        &mut self,
        host: &mut H,
        channel: Channel,
        id: u32,
        destination: SocketAddr,
        found: Result<(IpAddr, Gid), i32>,
    ) -> Result<(), Error> {
        let port = (CHOSEN.start + self.draw() % (CHOSEN.end - CHOSEN.start)) as u16;
        let state = self.of(channel, id)?;
        if !matches!(state.state, State::Idle | State::Bound) {
            return Err(Error::Invalid);
        }
        let (kind, status) = match found {
            Ok((own, gid)) => {
                let bound = state.source.map(|s| if s.ip().is_unspecified() { SocketAddr::new(own, s.port()) } else { s });
                state.source = Some(bound.unwrap_or(SocketAddr::new(own, port)));
                (state.destination, state.peer_gid, state.has_device, state.state) = (Some(destination), Some(gid), true, State::Resolved);
                (EventKind::AddressResolved, 0)
            }
            Err(errno) => (EventKind::AddressError, -errno),
        };
        self.tell(host, id, kind, status, EventBody::Nothing);
        Ok(())
    }

    /// Has an identifier resolve its route. An event tells.
    ///
    /// # Errors
    /// [`Error::Invalid`]: it has no peer's address.
    pub fn resolve_route<H: Host>(&mut self, host: &mut H, channel: Channel, id: u32) -> Result<(), Error> {
        let state = self.of(channel, id)?;
        if state.state != State::Resolved {
            return Err(Error::Invalid);
        }
        state.state = State::Routed;
        self.tell(host, id, EventKind::RouteResolved, 0, EventBody::Nothing);
        Ok(())
    }

    /// An identifier's way, as far as it is known.
    ///
    /// # Errors
    /// [`Error::Missing`]; [`Error::Invalid`].
    pub fn route(&mut self, channel: Channel, id: u32) -> Result<Route, Error> {
        let own = self.own;
        let state = self.of(channel, id)?;
        Ok(Route {
            source: state.source,
            destination: state.destination,
            own: state.has_device.then_some(own),
            peer: state.peer_gid,
            has_path: state.peer_gid.is_some() && state.state != State::Resolved,
        })
    }

    /// The port space of an identifier.
    ///
    /// # Errors
    /// [`Error::Missing`]; [`Error::Invalid`].
    pub fn space(&mut self, channel: Channel, id: u32) -> Result<Space, Error> {
        Ok(self.of(channel, id)?.space)
    }

    /// Sets an option.
    ///
    /// # Errors
    /// [`Error::Invalid`]: it is too late for it.
    pub fn set_option(&mut self, channel: Channel, id: u32, option: IdOption) -> Result<(), Error> {
        let state = self.of(channel, id)?;
        match option {
            IdOption::Tos(_) => {}
            IdOption::ReuseAddress(on) if state.state == State::Idle || (on && state.state == State::Bound) => state.reuse = on,
            IdOption::FamilyOnly(on) if matches!(state.state, State::Idle | State::Bound) => state.family_only = on,
            IdOption::AckTimeout(time) if time <= 31 && state.kind.is_reliable() => state.ack_timeout = Some(time),
            _ => return Err(Error::Invalid),
        }
        Ok(())
    }

    /// Moves an identifier, with its events, to another channel; how many events of it the program
    /// was given.
    ///
    /// # Errors
    /// [`Error::Missing`]; [`Error::Invalid`].
    pub fn migrate<H: Host>(&mut self, host: &mut H, from: Channel, id: u32, to: Channel) -> Result<u32, Error> {
        if !self.channels.contains_key(&to) {
            return Err(Error::Missing);
        }
        self.of(from, id)?;
        let moved = if from == to { Vec::new() } else { self.discard(host, from, |e| e.owner == id) };
        let state = self.of(from, id)?;
        state.channel = to;
        let reported = state.reported;
        for event in moved {
            // Identifiers of requests that are not given yet go with their listener.
            if event.id != id
                && let Some(child) = self.ids.get_mut(&event.id).filter(|_| event.kind == EventKind::ConnectRequest)
            {
                child.channel = to;
            }
            self.push(host, event);
        }
        Ok(reported)
    }

    /// Has an identifier join a group. An event tells; its `uid` is the one given here.
    ///
    /// # Errors
    /// [`Error::Invalid`]: it has no device, or is not of datagrams; [`Error::Full`].
    pub fn join<H: Host>(&mut self, host: &mut H, channel: Channel, id: u32, uid: u64, group: Gid) -> Result<Joined, Error> {
        let state = self.of(channel, id)?;
        if state.kind != QpKind::Datagram || !matches!(state.state, State::Bound | State::Resolved | State::Routed | State::Established) || !state.has_device {
            return Err(Error::Invalid);
        }
        if self.memberships.values().filter(|m| m.id == id).count() >= GROUPS_MAX {
            return Err(Error::Full);
        }
        let number = self.number();
        self.memberships.insert(number, Membership { id, reported: 0 });
        let parameters = Parameters { qp: MULTICAST_QP, qkey: UDP_QKEY, ..Parameters::default() };
        let body = EventBody::Datagram(group, Box::new(parameters));
        self.push(host, Event { kind: EventKind::MulticastJoin, id: number, uid, status: 0, body, owner: id });
        Ok(Joined { number })
    }

    /// Ends a membership; how many events of it the program was given.
    ///
    /// # Errors
    /// [`Error::Missing`]; [`Error::Invalid`].
    pub fn leave<H: Host>(&mut self, host: &mut H, channel: Channel, membership: u32) -> Result<u32, Error> {
        let id = self.memberships.get(&membership).ok_or(Error::Missing)?.id;
        self.of(channel, id)?;
        self.discard(host, channel, |e| e.membership() == Some(membership));
        Ok(self.memberships.remove(&membership).map_or(0, |m| m.reported))
    }
}

impl Event {
    /// The membership that it is of.
    pub(crate) fn membership(&self) -> Option<u32> {
        matches!(self.kind, EventKind::MulticastJoin | EventKind::MulticastError).then_some(self.id)
    }
}
