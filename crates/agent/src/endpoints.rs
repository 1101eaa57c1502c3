// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables: endpoints by their place, their number, and the names under which they wait.

use bellwire_memory::event::PeerBell;
use bellwire_memory::fd_passing::{Credentials, Socket};
use bellwire_wire::agent::segment::{AgentEnd, Indices};
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Packets kept until their endpoint is loaded: the longest of them, and bytes for all endpoints of
/// a user. Each counts for [`PARKED_OVERHEAD`] bytes more.
const PARKED_PACKET_MAX: usize = 2048;
const PARKED_USER_MAX: usize = 4 << 20;
const PARKED_OVERHEAD: usize = 64;
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
    /// Mapped while it is resident, and for some time after that.
    pub(crate) end: Option<AgentEnd>,
    pub(crate) at: Indices,
    /// The number of the unload by which it left its frame, if it is mapped and not resident.
    pub(crate) unloaded: Option<u64>,
    parked: Vec<(SocketAddr, Vec<u8>)>,
    parked_bytes: usize,
    /// A packet for it was refused, and will come again: it is not idle before that.
    pub(crate) is_expecting: bool,
    pub(crate) names: Vec<u128>,
    /// Packets that it has sent.
    pub(crate) packets: u64,
    /// In the list of those to be rung.
    pub(crate) is_dirty: bool,
}

impl Endpoint {
    /// A new one, in host memory.
    pub(crate) fn new(number: u16, network: u64, uid: u32, connection: usize, memfd: OwnedFd, bell: PeerBell) -> Self {
        Self {
            number,
            network,
            uid,
            connection,
            memfd,
            bell,
            end: None,
            at: Indices::default(),
            unloaded: None,
            parked: Vec::new(),
            parked_bytes: 0,
            is_expecting: false,
            names: Vec::new(),
            packets: 0,
            is_dirty: false,
        }
    }

    /// Gives up its mapping.
    pub(crate) fn unmap(&mut self) {
        self.unloaded = None;
        if let Some(mut end) = self.end.take() {
            // A broken end is found when it is used.
            let _ = end.release();
            self.at = end.indices();
            // Afterwards it cannot be asked whether it sleeps.
            if core::mem::take(&mut self.is_dirty) && end.wants_ring().0 {
                let _ = self.bell.ring();
            }
        }
    }
}

/// What a user has.
#[derive(Clone, Copy, Debug, Default)]
struct User {
    endpoints: usize,
    parked_bytes: usize,
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
    users: BTreeMap<u32, User>,
    /// How many are in each network.
    networks: BTreeMap<u64, u64>,
    count: usize,
    /// For one endpoint.
    parked_bytes_max: usize,
}

/// Numbers that are given out begin here: those below are kept for services.
const NUMBERS_FROM: u16 = 1024;

impl Endpoints {
    pub(crate) fn new(parked_bytes_max: usize) -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            numbers: vec![0; 1 << 16],
            next_number: NUMBERS_FROM,
            names: BTreeMap::new(),
            users: BTreeMap::new(),
            networks: BTreeMap::new(),
            count: 0,
            parked_bytes_max,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn of_network(&self, network: u64) -> u64 {
        self.networks.get(&network).copied().unwrap_or(0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Endpoint> {
        self.places.iter().flatten()
    }

    pub(crate) fn of_user(&self, uid: u32) -> usize {
        self.users.get(&uid).map_or(0, |u| u.endpoints)
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

    /// Gives back memory of all that are mapped; those that broke their end.
    pub(crate) fn release(&mut self) -> Vec<u32> {
        let ends = (0..).zip(&mut self.places).filter_map(|(place, e)| Some((place, e.as_mut()?.end.as_mut()?)));
        ends.filter_map(|(place, end)| end.release().is_err().then_some(place)).collect()
    }

    /// Puts an endpoint into a place; its number must be free.
    pub(crate) fn insert(&mut self, endpoint: Endpoint) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        self.numbers[usize::from(endpoint.number)] = place + 1;
        self.users.entry(endpoint.uid).or_default().endpoints += 1;
        *self.networks.entry(endpoint.network).or_default() += 1;
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
        if let Some(user) = self.users.get_mut(&endpoint.uid) {
            user.endpoints -= 1;
            user.parked_bytes -= endpoint.parked_bytes;
            if user.endpoints == 0 {
                self.users.remove(&endpoint.uid);
            }
        }
        if let Some(count) = self.networks.get_mut(&endpoint.network) {
            *count -= 1;
            if *count == 0 {
                self.networks.remove(&endpoint.network);
            }
        }
        self.free.push(place);
        self.count -= 1;
        Some(endpoint)
    }

    /// Keeps a packet of `length` bytes for an endpoint that is not resident, if there is room.
    pub(crate) fn park(&mut self, place: u32, from: SocketAddr, length: usize, copy: impl FnOnce(&mut [u8])) -> bool {
        let Some(endpoint) = self.places.get_mut(place as usize).and_then(Option::as_mut) else { return false };
        let Some(user) = self.users.get_mut(&endpoint.uid) else { return false };
        let takes = length + PARKED_OVERHEAD;
        if length > PARKED_PACKET_MAX || endpoint.parked_bytes + takes > self.parked_bytes_max || user.parked_bytes + takes > PARKED_USER_MAX {
            return false;
        }
        let mut bytes = vec![0; length];
        copy(&mut bytes);
        endpoint.parked.push((from, bytes));
        endpoint.parked_bytes += takes;
        user.parked_bytes += takes;
        true
    }

    /// The packets that were kept for an endpoint.
    pub(crate) fn unpark(&mut self, place: u32) -> Vec<(SocketAddr, Vec<u8>)> {
        let Some(endpoint) = self.places.get_mut(place as usize).and_then(Option::as_mut) else { return Vec::new() };
        if let Some(user) = self.users.get_mut(&endpoint.uid) {
            user.parked_bytes -= endpoint.parked_bytes;
        }
        endpoint.parked_bytes = 0;
        core::mem::take(&mut endpoint.parked)
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
