// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moving an endpoint from a bundle to another: its MAP objects, what waits on them, and what comes
//! back go with it. Its VIs stay on their completion queues, at which both bundles look then.

use crate::core::Core;
use crate::map::State;
use crate::objects::Bundle;
use bellwire_am::{EndpointId, Error};
use bellwire_memory::token::{Claim, thread_id};
use std::collections::VecDeque;
use std::sync::Arc;

impl Bundle {
    /// Moves an endpoint to another bundle of the same device; its name and id stay. Waits for
    /// handlers that other threads run, and for connections that are being made.
    ///
    /// # Errors
    /// [`Error::BadArgument`]: no such endpoint, or another device; [`Error::InUse`]: within a
    /// handler of either bundle.
    pub fn move_endpoint(&self, endpoint: EndpointId, to: &Bundle) -> Result<EndpointId, Error> {
        if core::ptr::eq(self, to) {
            return self.core().endpoint(endpoint.raw()).map(|_| endpoint);
        }
        if !Arc::ptr_eq(&self.inner.shared, &to.inner.shared) {
            return Err(Error::BadArgument);
        }
        loop {
            let (mut here, mut there) = self.inner.core.enter_both(&to.inner.core, Claim::Bias);
            let running = [here.running, there.running];
            if running.contains(&thread_id()) {
                return Err(Error::InUse);
            }
            here.endpoint(endpoint.raw())?;
            let is_asking = here.maps.values().any(|m| m.endpoint == endpoint.raw() && m.state == State::Asking);
            if running == [0, 0] && !is_asking {
                here.move_endpoint(endpoint.raw(), &mut there);
                self.inner.shared.enlist(endpoint.raw(), &to.inner);
                return Ok(endpoint);
            }
            drop((here, there));
            std::thread::yield_now();
        }
    }
}

impl<H> Core<H> {
    fn move_endpoint(&mut self, id: u32, to: &mut Self) {
        if let Some(endpoint) = self.endpoints.remove(&id) {
            to.endpoints.insert(id, endpoint);
        }
        let of: Vec<u32> = self.maps.iter().filter(|(_, m)| m.endpoint == id).map(|(id, _)| *id).collect();
        if of.iter().any(|map| self.maps.get(map).is_some_and(|m| !m.lanes.is_empty())) {
            (self.shares, to.shares) = (true, true);
            for queues in &self.queues {
                if !to.queues.iter().any(|q| Arc::ptr_eq(q, queues)) {
                    to.queues.push(Arc::clone(queues));
                }
            }
        }
        for map in of {
            let Some(moved) = self.maps.remove(&map) else { continue };
            for (at, lane) in moved.lanes.iter().enumerate() {
                self.vis.remove(&lane.vi.handle);
                to.vis.insert(lane.vi.handle, (map, at));
            }
            if moved.is_noted {
                self.waiting.retain(|waiting| *waiting != map);
                to.waiting.push(map);
            }
            if moved.is_pumping {
                self.pumping.retain(|pumping| *pumping != map);
                to.pumping.push(map);
            }
            to.maps.insert(map, moved);
        }
        // The bundle that has its VIs now looks at the entries that were noted of them.
        let vis = &to.vis;
        to.noticed.extend(self.noticed.iter().filter(|(vi, _)| vis.contains_key(vi)));
        self.noticed.retain(|(vi, _)| !vis.contains_key(vi));
        for (from, to) in [(&mut self.requests, &mut to.requests), (&mut self.ready, &mut to.ready)] {
            let (moved, rest): (VecDeque<_>, _) = core::mem::take(from).into_iter().partition(|delivery| delivery.endpoint == id);
            *from = rest;
            to.extend(moved);
        }
        move_queued(&mut self.returns, id, &mut to.returns);
        move_queued(&mut self.departures, id, &mut to.departures);
    }
}

/// What a handler is still to hear moves with its endpoint.
fn move_queued<T>(from: &mut VecDeque<(u32, T)>, id: u32, to: &mut VecDeque<(u32, T)>) {
    let (queued, rest): (VecDeque<_>, _) = core::mem::take(from).into_iter().partition(|(of, _)| *of == id);
    *from = rest;
    to.extend(queued);
}
