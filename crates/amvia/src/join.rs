// SPDX-License-Identifier: MIT OR Apache-2.0
//! A peer asks for a connection.
//!
//! Two endpoints may ask each other at a time. Then the connection stays that the one with the
//! lesser name has asked for: it refuses the other's request, and the other takes it in the place
//! of its own.

use crate::core::Core;
use crate::lane::Lane;
use crate::map::{Map, State};
use crate::name::Ask;
use crate::objects::Inner;
use crate::shared::Asked;
use crate::vipl::Handle;
use bellwire_am::Status;
use bellwire_memory::token::Claim;
use std::sync::Arc;

impl Asked for Inner {
    fn asked(&self, ask: &Ask, request: Handle) -> bool {
        self.core.enter(Claim::Visit).accept(ask, request)
    }
}

impl<H> Core<H> {
    fn accept(&mut self, ask: &Ask, request: Handle) -> bool {
        let Some(endpoint) = self.endpoints.get(&ask.wanted) else { return false };
        let (own, ptag) = (endpoint.name, endpoint.ptag);
        let is_self = own == ask.from;
        let at = usize::from(ask.lane);
        let mut known = if is_self { None } else { endpoint.peers.get(&ask.from).copied() };
        if at > 0 {
            let is_next = |map: &Map| map.endpoint == ask.wanted && map.peer == ask.from && map.state == State::Joining && map.lanes.len() == at;
            known = self.maps.iter().find(|(_, map)| is_next(map)).map(|(id, _)| *id);
            if known.is_none() {
                return false;
            }
        } else if let Some(id) = known
            && let Some(map) = self.maps.get_mut(&id)
        {
            match map.state {
                // Its request may have crossed this side's. If it asks once more, it has lost the
                // connection.
                State::Open if map.has_insisted => self.bury(id, &Status::Unreachable.into()),
                State::Open => {
                    map.has_insisted = true;
                    return false;
                }
                State::Asking if own < ask.from => return false,
                // It begins anew.
                State::Joining => self.bury(id, &Status::Unreachable.into()),
                State::Asking | State::Dead(_) => {}
            }
        }
        let shared = Arc::clone(&self.shared);
        let shapes = shared.mapping.shapes(u32::from(shared.credits));
        let (Some(queues), Some(shape)) = (self.queues.first(), shapes.get(at)) else { return false };
        let Ok(lane) = Lane::new(&shared, queues, ptag, *shape) else { return false };
        if shared.nic.accept(request, lane.vi.handle).is_err() {
            // The request is used up, or is to be refused: to refuse it is right in both cases.
            return false;
        }
        let is_alive = |id: &u32| self.maps.get(id).is_some_and(|map| !matches!(map.state, State::Dead(_)));
        let id = match known.filter(is_alive) {
            Some(id) => id,
            None => {
                let Ok(id) = shared.number() else { return true };
                self.maps.insert(id, Map::new(ask.wanted, ask.from, State::Joining));
                if !is_self && let Some(endpoint) = self.endpoints.get_mut(&ask.wanted) {
                    endpoint.peers.insert(ask.from, id);
                }
                id
            }
        };
        if let Some(map) = self.maps.get_mut(&id) {
            self.vis.insert(lane.vi.handle, (id, at));
            map.state = State::Joining;
            map.lanes.push(lane);
        }
        if at + 1 == shapes.len() {
            self.open(id, u32::from(ask.credits));
        }
        true
    }
}
