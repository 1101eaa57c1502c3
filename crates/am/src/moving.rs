// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moving an endpoint from a bundle to another: its connections, what waits on them, and what comes
//! back go with it.

use crate::acceptor::mailbox;
use crate::connection::{ConnectionId, Role};
use crate::core::{Core, place};
use crate::name::EndpointId;
use crate::objects::Bundle;
use crate::status::{Error, Status};
use bellwire_memory::token::{Claim, thread_id};
use bellwire_via::Engine;
use bellwire_via::wire::Wire;
use std::collections::VecDeque;
use std::sync::Arc;

impl Bundle {
    /// Moves an endpoint to another bundle of the same device, where it has another id; its name
    /// stays. Waits for handlers that other threads run.
    ///
    /// # Errors
    /// [`Error::BadArgument`]: no such endpoint, or another device; [`Error::InUse`]: within a
    /// handler of either bundle; [`Error::Resource`].
    pub fn move_endpoint(&self, endpoint: EndpointId, to: &Bundle) -> Result<EndpointId, Error> {
        if core::ptr::eq(self, to) {
            return self.core().endpoint(endpoint).map(|_| endpoint);
        }
        if !Arc::ptr_eq(&self.device, &to.device) {
            return Err(Error::BadArgument);
        }
        loop {
            let (mut here, mut there) = self.core.enter_both(&to.core, Claim::Bias);
            let running = [here.running, there.running];
            if running.contains(&thread_id()) {
                return Err(Error::InUse);
            }
            if running == [0, 0] {
                let name = here.endpoint(endpoint)?.name;
                let mut acceptor = self.device.acceptor();
                let moved = self.device.nic.with(|engine| here.move_endpoint(engine, endpoint, &mut there))?;
                acceptor.relist(&name, there.inbox);
                return Ok(moved);
            }
            drop((here, there));
            std::thread::yield_now();
        }
    }
}

impl<H> Core<H> {
    fn move_endpoint<W: Wire>(&mut self, engine: &mut Engine<W>, id: EndpointId, to: &mut Self) -> Result<EndpointId, Error> {
        let endpoint = self.endpoints.remove(place(id)).ok_or(Error::BadArgument)?;
        let number = endpoint.name.endpoint;
        let moved = EndpointId::from_raw(to.endpoints.insert(endpoint).ok_or(Error::Resource)?.raw());
        self.numbers.remove(&number);
        to.numbers.insert(number, moved);
        let of: Vec<ConnectionId> = self.connections.iter().filter(|(_, c)| c.endpoint == id).map(|(h, _)| h).collect();
        for connection in of {
            self.move_connection(engine, connection, moved, to);
        }
        move_queued(&mut self.returns, id, &mut to.returns, moved);
        move_queued(&mut self.departures, id, &mut to.departures, moved);
        Ok(moved)
    }

    fn move_connection<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, endpoint: EndpointId, to: &mut Self) {
        let Some(mut connection) = self.connections.remove(id) else { return };
        connection.endpoint = endpoint;
        let (vi, role) = (connection.channel.vi(), connection.role);
        let is_noted = [connection.is_untold, connection.is_writing];
        let Some(moved) = to.connections.insert(connection) else { return };
        if let Some(connection) = to.connections.get(moved) {
            to.unsent.adopt(&connection.channel, moved);
        }
        for (is_noted, list) in is_noted.into_iter().zip([&mut to.untold, &mut to.writing]) {
            if is_noted {
                list.push(moved);
            }
        }
        if let Role::Client { index } = role
            && let Some(entry) = to.endpoints.get_mut(place(endpoint)).and_then(|e| e.translations.get_mut(index)?.as_mut())
        {
            entry.connection = moved;
        }
        let Some(ptag) = to.endpoints.get(place(endpoint)).map(|e| e.ptag) else { return };
        if vi.raw() != 0 && !mailbox(ptag, to.inbox).adopt(engine, vi, u64::from(moved.raw())) {
            to.broken(engine, moved, Status::Unreachable);
        }
    }
}

/// What a handler is still to hear moves with its endpoint.
fn move_queued<T>(from: &mut VecDeque<(EndpointId, T)>, id: EndpointId, to: &mut VecDeque<(EndpointId, T)>, moved: EndpointId) {
    let (queued, rest): (VecDeque<_>, _) = core::mem::take(from).into_iter().partition(|(of, _)| *of == id);
    *from = rest;
    to.extend(queued.into_iter().map(|(_, what)| (moved, what)));
}
