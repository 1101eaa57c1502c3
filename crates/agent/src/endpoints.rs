// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables: endpoints by their place, their number, and the names under which they wait.

use bellwire_memory::event::PeerBell;
use bellwire_memory::fd_passing::{Credentials, Socket};
use bellwire_wire::agent::segment::{AgentEnd, Indices};
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;

/// Packets kept for an endpoint until it is loaded, and the longest of them: the first few short
/// ones. Data beyond that is refused as not resident.
pub(crate) const PARKED_MAX: usize = 8;
pub(crate) const PARKED_BYTES_MAX: usize = 256;
/// Names under which one endpoint may wait.
pub(crate) const NAMES_MAX: usize = 4096;

/// A program's connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: Socket,
    pub(crate) credentials: Credentials,
    pub(crate) endpoint: Option<u32>,
}

/// An endpoint.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// The port of its address.
    pub(crate) number: u16,
    /// The tag of its virtual network.
    pub(crate) network: u64,
    pub(crate) uid: u32,
    pub(crate) connection: usize,
    pub(crate) memfd: OwnedFd,
    pub(crate) bell: PeerBell,
    /// Mapped while it is resident.
    pub(crate) end: Option<AgentEnd>,
    pub(crate) at: Indices,
    pub(crate) parked: Vec<(std::net::SocketAddr, Vec<u8>)>,
    pub(crate) names: Vec<u128>,
    /// In the list of those to be rung.
    pub(crate) is_dirty: bool,
}

/// All endpoints of an agent.
#[derive(Debug)]
pub(crate) struct Endpoints {
    places: Vec<Option<Endpoint>>,
    free: Vec<u32>,
    /// By number: the place plus 1.
    numbers: Vec<u32>,
    next_number: u16,
    names: BTreeMap<(u64, u128), u32>,
    users: BTreeMap<u32, usize>,
    count: usize,
}

/// Numbers that are given out begin here: those below are kept for services.
const NUMBERS_FROM: u16 = 1024;

impl Endpoints {
    pub(crate) fn new() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            numbers: vec![0; 1 << 16],
            next_number: NUMBERS_FROM,
            names: BTreeMap::new(),
            users: BTreeMap::new(),
            count: 0,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn of_user(&self, uid: u32) -> usize {
        self.users.get(&uid).copied().unwrap_or(0)
    }

    pub(crate) fn get(&self, place: u32) -> Option<&Endpoint> {
        self.places.get(place as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut Endpoint> {
        self.places.get_mut(place as usize)?.as_mut()
    }

    /// The place of the endpoint with a number.
    #[inline]
    pub(crate) fn place_of(&self, number: u16) -> Option<u32> {
        self.numbers[usize::from(number)].checked_sub(1)
    }

    /// A number that is free: the one wanted, or the next. Numbers are reused as late as possible.
    pub(crate) fn free_number(&mut self, wanted: u16) -> Option<u16> {
        if wanted != 0 && self.place_of(wanted).is_none() {
            return Some(wanted);
        }
        for _ in NUMBERS_FROM..=u16::MAX {
            let number = self.next_number;
            self.next_number = number.checked_add(1).unwrap_or(NUMBERS_FROM);
            if self.place_of(number).is_none() {
                return Some(number);
            }
        }
        None
    }

    /// Puts an endpoint into a place; its number must be free.
    pub(crate) fn insert(&mut self, endpoint: Endpoint) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        self.numbers[usize::from(endpoint.number)] = place + 1;
        *self.users.entry(endpoint.uid).or_insert(0) += 1;
        self.count += 1;
        self.places[place as usize] = Some(endpoint);
        place
    }

    pub(crate) fn remove(&mut self, place: u32) -> Option<Endpoint> {
        let endpoint = self.places.get_mut(place as usize)?.take()?;
        self.numbers[usize::from(endpoint.number)] = 0;
        for name in &endpoint.names {
            self.names.remove(&(endpoint.network, *name));
        }
        if let Some(count) = self.users.get_mut(&endpoint.uid) {
            *count -= 1;
            if *count == 0 {
                self.users.remove(&endpoint.uid);
            }
        }
        self.free.push(place);
        self.count -= 1;
        Some(endpoint)
    }

    /// The endpoint waits under a name. `false`: another one does.
    pub(crate) fn listen(&mut self, place: u32, name: u128) -> bool {
        let Some(endpoint) = self.places.get_mut(place as usize).and_then(Option::as_mut) else { return false };
        let key = (endpoint.network, name);
        match self.names.get(&key) {
            Some(who) => *who == place,
            None if endpoint.names.len() >= NAMES_MAX => false,
            None => {
                endpoint.names.push(name);
                self.names.insert(key, place);
                true
            }
        }
    }

    /// No longer.
    pub(crate) fn unlisten(&mut self, place: u32, name: u128) {
        let Some(endpoint) = self.places.get_mut(place as usize).and_then(Option::as_mut) else { return };
        if self.names.get(&(endpoint.network, name)) == Some(&place) {
            self.names.remove(&(endpoint.network, name));
            endpoint.names.retain(|n| *n != name);
        }
    }

    /// The number and the user of the endpoint that waits under a name in a network.
    pub(crate) fn find(&self, network: u64, name: u128) -> Option<(u16, u32)> {
        self.get(*self.names.get(&(network, name))?).map(|e| (e.number, e.uid))
    }
}
