// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calling side: calls leave, at once if they can.

use crate::codec::Codec;
use crate::drive::SLICE_UNSENT;
use crate::error::{CallError, Error};
use crate::names::{Outstanding, Peer};
use crate::node::Node;
use crate::pending::Pending;
use crate::procedure::{NAME_BYTES_MAX, Procedure, Signature};
use crate::route::{Body, Known, Out, Route, To};
use crate::state::State;
use crate::wire::{Args, CALL, CALL_NAMED, CallId, INLINE_MAX, OPEN, PART, PART_BYTES, split};
use bellwire_am::Bundle;
use std::time::{Duration, Instant};

/// Everything of a call but its values.
struct Start<'a> {
    index: u32,
    known: u32,
    number: Option<u32>,
    name: &'a str,
    signature: Signature,
    /// Milliseconds left, or 0.
    left_ms: i32,
    data: &'a [u8],
}

impl Node {
    /// Calls a procedure and waits for its end, polling; other calls and handlers go on meanwhile.
    ///
    /// # Errors
    /// See [`CallError`].
    #[inline]
    pub fn call<A: Codec, R: Codec>(&self, peer: Peer, procedure: &Procedure<A, R>, arguments: &A) -> Result<R, CallError> {
        self.start(peer, procedure, arguments, None)?.wait()
    }

    /// As [`call`](Self::call), for at most so long.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn call_within<A: Codec, R: Codec>(&self, peer: Peer, procedure: &Procedure<A, R>, arguments: &A, time: Duration) -> Result<R, CallError> {
        self.start(peer, procedure, arguments, Some(time))?.wait()
    }

    /// Starts a call, which ends by its result or another [`CallError`], after `time` at the
    /// latest, if that is given. While as many calls to the peer are under way as the window
    /// allows, this polls; within a handler that is [`Error::Busy`].
    ///
    /// # Errors
    /// [`Error::BadPeer`], [`Error::Busy`], [`Error::Messages`].
    #[inline]
    pub fn start<A: Codec, R: Codec>(&self, peer: Peer, procedure: &Procedure<A, R>, arguments: &A, time: Option<Duration>) -> Result<Pending<'_, R>, Error> {
        arguments.with_bytes(|data| {
            let call = self.start_bytes(peer, procedure.name(), procedure.signature(), data, time)?;
            Ok(Pending::new(self, call))
        })
    }

    /// As [`start`](Self::start), but never waits: [`Error::Busy`] instead.
    ///
    /// # Errors
    /// As there.
    pub fn try_start<A: Codec, R: Codec>(
        &self,
        peer: Peer,
        procedure: &Procedure<A, R>,
        arguments: &A,
        time: Option<Duration>,
    ) -> Result<Pending<'_, R>, Error> {
        arguments.with_bytes(|data| {
            let call = self.try_start_bytes(peer, (procedure.name(), procedure.signature()), data, time)?;
            Ok(Pending::new(self, call))
        })
    }

    /// As [`start`](Self::start), without types.
    ///
    /// # Errors
    /// As there; [`Error::BadName`].
    #[inline]
    pub fn start_bytes(&self, peer: Peer, name: &str, signature: Signature, data: &[u8], time: Option<Duration>) -> Result<Outstanding, Error> {
        match self.try_start_bytes(peer, (name, signature), data, time) {
            Err(Error::Busy) => self.start_later(peer, (name, signature), data, time),
            started => started,
        }
    }

    /// Waits for a place among the calls to a peer.
    #[cold]
    fn start_later(&self, peer: Peer, procedure: (&str, Signature), data: &[u8], time: Option<Duration>) -> Result<Outstanding, Error> {
        if self.bundle.is_in_handler() {
            return Err(Error::Busy);
        }
        let end = time.map(|time| Instant::now() + time);
        loop {
            self.wait_until(&mut |node| node.inner.state().has_place(peer), &mut |_| Some(SLICE_UNSENT))?;
            // If the time is over, the call ends so.
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            match self.try_start_bytes(peer, procedure, data, left) {
                Err(Error::Busy) => {}
                started => return started,
            }
        }
    }

    /// As [`try_start`](Self::try_start), without types.
    ///
    /// # Errors
    /// As there; [`Error::BadName`].
    pub fn try_start_bytes(&self, peer: Peer, (name, signature): (&str, Signature), data: &[u8], time: Option<Duration>) -> Result<Outstanding, Error> {
        let (deadline, left_ms) = match time {
            None => (None, 0),
            Some(time) => (Some(Instant::now() + time), time.as_millis().clamp(1, i32::MAX as u128) as i32),
        };
        let mut guard = self.inner.state();
        let state = &mut *guard;
        let window = state.limits.window.max(1);
        let route = state.peer(peer)?;
        if route.is_broken || !route.has_greeted {
            state.prepare(&self.bundle, peer.index)?;
        }
        let (known, number) = state.peer(peer)?.begin(name, signature, window)?;
        let id = state.calls.begin(peer.index, known, deadline);
        let start = Start { index: peer.index, known, number, name, signature, left_ms, data };
        if let Err(e) = state.send_call(&self.bundle, id, &start) {
            state.end(id, Err(CallError::NotStarted(e.into())));
            state.calls.take(id);
            return Err(e.into());
        }
        Ok(Outstanding(id))
    }
}

impl Route {
    /// Counts a call to a peer that begins: the place of its procedure among those known there, and
    /// its number.
    #[inline]
    fn begin(&mut self, name: &str, signature: Signature, window: u32) -> Result<(u32, Option<u32>), Error> {
        let To::Peer { known, calls, .. } = &mut self.to else { return Err(Error::BadPeer) };
        if *calls >= window {
            return Err(Error::Busy);
        }
        let at = match known.iter().position(|known| known.signature == signature && *known.name == *name) {
            Some(at) => at,
            None => learn_name(known, name, signature)?,
        };
        *calls += 1;
        Ok((at as u32, known[at].number))
    }
}

/// Adds a procedure to those known at a peer.
#[cold]
fn learn_name(known: &mut Vec<Known>, name: &str, signature: Signature) -> Result<usize, Error> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Error::BadName);
    }
    known.push(Known { name: name.into(), signature, number: None });
    Ok(known.len() - 1)
}

impl State {
    /// Whether another call to a peer may begin; a call to an unknown peer fails.
    fn has_place(&mut self, peer: Peer) -> bool {
        let window = self.limits.window.max(1);
        !matches!(self.peer(peer), Ok(Route { to: To::Peer { calls, .. }, .. }) if *calls >= window)
    }

    /// Sends what begins a call, or has it wait.
    #[inline]
    fn send_call(&mut self, bundle: &Bundle, id: CallId, start: &Start<'_>) -> Result<(), bellwire_am::Error> {
        let (place, use_) = (id.index as i32, id.generation as i32);
        let Some(number) = start.number.filter(|_| start.data.len() <= PART_BYTES) else { return self.send_named(bundle, id, start) };
        let args = Args::new([number as i32, place, use_, start.left_ms]);
        if start.data.len() <= INLINE_MAX {
            return self.send(bundle, start.index, id, CALL, args.with_data(start.data), None);
        }
        self.send(bundle, start.index, id, CALL, args, Some(start.data))
    }

    /// The same for calls whose procedure has no number yet, and for large ones.
    #[cold]
    fn send_named(&mut self, bundle: &Bundle, id: CallId, start: &Start<'_>) -> Result<(), bellwire_am::Error> {
        let (place, use_) = (id.index as i32, id.generation as i32);
        let [s0, s1] = split(start.signature.0);
        if start.data.len() + start.name.len() <= PART_BYTES {
            let args = Args::new([start.known as i32, place, use_, start.left_ms, s0, s1, start.name.len() as i32]);
            let named = [start.name.as_bytes(), start.data].concat();
            return self.send(bundle, start.index, id, CALL_NAMED, args, Some(&named));
        }
        let [t0, t1] = split(start.data.len() as u64);
        let name = if start.number.is_some() { "" } else { start.name };
        let number = start.number.map_or(0, |number| number as i32 + 1);
        let args = Args::new([number, place, use_, start.left_ms, s0, s1, name.len() as i32, t0, t1]);
        self.send(bundle, start.index, id, OPEN, args, Some(name.as_bytes()))?;
        self.push(start.index, Out { handler: PART, args: Args::new([place, use_]), body: Body::Parts(start.data.to_vec(), 0), call: Some(id) });
        self.send_waiting_of(bundle, start.index)
    }

    /// Sends a message of a call if nothing waits before it and it can leave, else has it wait.
    #[inline]
    fn send(&mut self, bundle: &Bundle, index: u32, id: CallId, handler: u8, args: Args, payload: Option<&[u8]>) -> Result<(), bellwire_am::Error> {
        if self.route_mut(index).is_some_and(|route| route.queue.is_empty()) {
            let sent = match payload {
                None => bundle.try_request(self.endpoint, index, handler, args.as_slice()),
                Some(payload) => bundle.try_request_medium(self.endpoint, index, handler, payload, args.as_slice()),
            };
            if sent != Err(bellwire_am::Error::NotSent) {
                return sent;
            }
        }
        let body = payload.map_or(Body::None, |payload| Body::Whole(payload.to_vec()));
        self.push(index, Out { handler, args, body, call: Some(id) });
        self.send_waiting_of(bundle, index)
    }

    /// Sends the messages that wait on a route, as far as it can. Errors show when a polling thread
    /// sends them.
    fn send_waiting_of(&mut self, bundle: &Bundle, index: u32) -> Result<(), bellwire_am::Error> {
        let endpoint = self.endpoint;
        if let Some(route) = self.route_mut(index) {
            let _ = route.send_waiting(bundle, endpoint, index);
        }
        Ok(())
    }
}
