// SPDX-License-Identifier: MIT OR Apache-2.0
//! How MAP objects begin and end, and what comes back then.

use crate::core::Core;
use crate::map::{Map, State};
use crate::record::{Departed, End};
use bellwire_am::tables::Slot;
use bellwire_am::{Error, Status};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long the end of an endpoint waits for what has been sent to leave.
const LEAVE_MAX: Duration = Duration::from_secs(5);

impl<H> Core<H> {
    /// All VIs of a MAP object are connected. Both sides have room for `credits` requests.
    pub(crate) fn open(&mut self, id: u32, credits: u32) {
        let Some(map) = self.maps.get_mut(&id) else { return };
        map.state = State::Open;
        let wanted = self.endpoints.get(&map.endpoint).map_or(1, |e| e.credits);
        let shapes = self.shared.mapping.shapes(credits.min(u32::from(self.shared.credits)).max(1));
        for (at, (lane, shape)) in map.lanes.iter_mut().zip(shapes).enumerate() {
            lane.window = wanted.min(shape.credits as u32).max(1);
            self.vis.insert(lane.vi.handle, (id, at));
            lane.opened();
        }
        self.noticed.extend(self.early.iter().filter(|vi| self.vis.contains_key(vi)).map(|vi| (*vi, 0)));
        self.early.retain(|vi| !self.vis.contains_key(vi));
        self.tell_segment(id);
    }

    /// A VI says that its connection has ended.
    #[cold]
    pub(crate) fn broken(&mut self, id: u32) {
        let Some(cause) = self.maps.get(&id).and_then(|m| m.lanes.first()).map(|lane| lane.vi.cause()) else { return };
        let status = if cause.by_peer { Status::BadEndpoint } else { Status::Unreachable };
        self.bury(id, &End { status, has_left: cause.by_peer, text: cause.text });
    }

    /// A peer has sent what cannot be: its connection ends.
    #[cold]
    pub(crate) fn broke_rules(&mut self, id: u32) {
        if let Some(endpoint) = self.maps.get(&id).and_then(|m| self.endpoints.get_mut(&m.endpoint)) {
            endpoint.counters.malformed += 1;
        }
        self.bury(id, &End { text: "the peer broke the rules".to_owned(), ..Status::Unreachable.into() });
    }

    /// A MAP object ends: requests that are out come back, and the endpoint hears of it.
    pub(crate) fn bury(&mut self, id: u32, end: &End) {
        let Some(map) = self.maps.get_mut(&id).filter(|m| !matches!(m.state, State::Dead(_))) else { return };
        map.state = State::Dead(end.clone());
        map.waiting.clear();
        map.held.clear();
        map.late.clear();
        let (endpoint, peer) = (map.endpoint, map.peer);
        self.returns.extend(map.out().map(|record| (endpoint, record.returned(end))));
        (map.streams, map.fetches, map.streams_done) = (VecDeque::new(), VecDeque::new(), map.streams_begun);
        for lane in map.lanes.drain(..) {
            self.vis.remove(&lane.vi.handle);
        }
        if let Some(endpoint_) = self.endpoints.get_mut(&endpoint) {
            if endpoint_.peers.get(&peer) == Some(&id) {
                endpoint_.peers.remove(&peer);
            }
            if !matches!(endpoint_.on_departure, Slot::Free) {
                self.departures.push_back((endpoint, Departed { name: peer }));
            }
        }
        self.forget(id);
    }

    /// A dead MAP object goes when no entry of a table leads to it.
    fn forget(&mut self, id: u32) {
        if self.maps.get(&id).is_some_and(|m| matches!(m.state, State::Dead(_)) && m.entries == 0) {
            self.maps.remove(&id);
        }
    }

    /// Frees entry `index`; requests sent there that are not handled come back. The MAP object
    /// stays: the peer may be using it.
    pub(crate) fn unmap(&mut self, id: u32, index: u32) -> Result<(), Error> {
        let entry = self.endpoint_mut(id)?.translations.get_mut(index).ok_or(Error::BadArgument)?;
        let translation = entry.take().ok_or(Error::BadArgument)?;
        let Some(at) = translation.map else { return Ok(()) };
        // Nobody may read the memory of a request that has come back.
        if !self.settle(at, LEAVE_MAX) {
            self.bury(at, &Status::BadEntry.into());
        }
        let Some(map) = self.maps.get_mut(&at) else { return Ok(()) };
        map.entries -= 1;
        // What of it has not left does not leave any more.
        if map.streams.front().is_some_and(|stream| stream.record.index == index)
            && let Some(stream) = map.streams.pop_front()
        {
            map.streams_done += 1;
            self.returns.push_back((id, stream.record.returned(&Status::BadEntry.into())));
        }
        let fetched = map.fetches.iter_mut().map(|fetch| &mut fetch.record);
        for record in map.lanes.iter_mut().flat_map(|lane| &mut lane.records).flatten().chain(fetched) {
            if record.index == index && !record.is_abandoned {
                record.is_abandoned = true;
                self.returns.push_back((id, record.returned(&Status::BadEntry.into())));
            }
        }
        self.forget(at);
        Ok(())
    }

    /// Waits until all that was sent by a MAP object has left. `false`: it has not in that time.
    fn settle(&mut self, id: u32, most: Duration) -> bool {
        let end = Instant::now() + most;
        loop {
            self.send_waiting();
            self.retire::<crate::probe::Off>(usize::MAX);
            let is_idle = |map: &Map| map.waiting.is_empty() && map.lanes.iter().all(|lane| lane.vi.is_idle());
            if self.maps.get(&id).is_none_or(is_idle) {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            std::thread::yield_now();
        }
    }

    /// Ends an endpoint, when what it has sent has left: peers' requests come back to them, its own
    /// are dropped.
    pub(crate) fn remove_endpoint(&mut self, id: u32) -> Result<(), Error> {
        let ptag = self.endpoint(id)?.ptag;
        let of: Vec<u32> = self.maps.iter().filter(|(_, m)| m.endpoint == id).map(|(id, _)| *id).collect();
        for map in &of {
            self.settle(*map, LEAVE_MAX);
        }
        self.requests.retain(|delivery| delivery.endpoint != id);
        self.ready.retain(|delivery| delivery.endpoint != id);
        for map in of {
            self.bury(map, &Status::BadEndpoint.into());
            self.maps.remove(&map);
        }
        if let Some(segment) = self.endpoints.remove(&id).and_then(|e| e.segment) {
            let _ = self.shared.nic.deregister(segment.address, segment.handle);
        }
        self.returns.retain(|(of, _)| *of != id);
        self.departures.retain(|(of, _)| *of != id);
        self.shared.nic.destroy_ptag(ptag);
        Ok(())
    }
}
