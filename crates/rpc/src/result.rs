// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calling side: results and returned messages. Handlers of messages, with no lock held.

use crate::assembly::{Assembly, Part};
use crate::calls::{Data, Outcome};
use crate::error::{CallError, Gone};
use crate::route::{Body, Out, Route, To};
use crate::state::{Inner, State};
use crate::wire::{self, Args, CallId, INLINE_MAX, inline_data, join, status};
use bellwire_am::{Departed, Message, Returned, Status};
use std::sync::Arc;
use std::task::Waker;

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

fn id(index: i32, generation: i32) -> CallId {
    CallId { index: index as u32, generation: generation as u32 }
}

fn outcome(code: i32, data: Data) -> Outcome {
    match CallError::of(code as u32, data.as_slice()) {
        None => Ok(data),
        Some(e) => Err(e),
    }
}

/// A result as a reply.
#[inline]
pub(crate) fn result(inner: &Arc<Inner>, message: &mut Message<'_>) {
    let &[index, generation, code, number, ..] = message.args() else { return };
    let data = if message.is_short() {
        let mut small = [0; INLINE_MAX];
        inline_data(message.args(), &mut small).map(|length| Data::small(small, length))
    } else {
        Some(Data::Large(message.payload().to_vec()))
    };
    let outcome = data.map_or(Err(CallError::BadReply), |data| outcome(code, data));
    let id = id(index, generation);
    let mut state = inner.state();
    let Some((route, known)) = state.calls.under_way(id).map(|slot| (slot.route, slot.known)) else { return };
    // A reply comes over the connection of its request, which was made to this name.
    let Some(to) = state.route_mut(route).filter(|route| route.address.name == message.source()) else { return };
    to.learn(known, number);
    let waker = state.end(id, outcome);
    drop(state);
    wake(waker);
}

impl Route {
    /// A peer has told the number of a procedure.
    #[inline]
    fn learn(&mut self, known: u32, number: i32) {
        if let (To::Peer { known: all, .. }, Some(number)) = (&mut self.to, (number as u32).checked_sub(1))
            && let Some(known) = all.get_mut(known as usize)
        {
            known.number = Some(number);
        }
    }
}

/// A result, or a part of one, that is given later.
pub(crate) fn later(inner: &Arc<Inner>, message: &mut Message<'_>) {
    let &[index, generation, code, number, s0, s1, o0, o1, t0, t1] = message.args() else { return };
    let (id, offset, total) = (id(index, generation), join(o0, o1), join(t0, t1));
    let connection = message.connection();
    let mut guard = inner.state();
    let state = &mut *guard;
    let Some((route, known)) = state.calls.under_way(id).map(|slot| (slot.route, slot.known)) else { return };
    let Some(to) = state.route_mut(route).filter(|route| matches!(route.to, To::Peer { secret, .. } if secret == join(s0, s1))) else { return };
    to.learn(known, number);
    to.back = Some(connection);
    let payload = message.payload();
    let waker = if offset == 0 && payload.len() as u64 == total {
        state.end(id, outcome(code, Data::of(&payload.to_vec())))
    } else {
        match state.assemble(id, (offset, total), message) {
            Ok(None) => None,
            Ok(Some(data)) => state.end(id, outcome(code, Data::Large(data))),
            Err(e) => state.give_up(id, e),
        }
    };
    drop(guard);
    wake(waker);
}

impl State {
    /// Adds a part to a large result.
    fn assemble(&mut self, id: CallId, (offset, total): (u64, u64), message: &Message<'_>) -> Result<Option<Vec<u8>>, CallError> {
        let room = self.limits.memory.saturating_sub(self.memory);
        let Some(slot) = self.calls.under_way(id) else { return Ok(None) };
        if slot.assembly.is_none() {
            if total > room {
                return Err(CallError::TooLarge);
            }
            self.memory += total;
            slot.assembly = Some(Assembly::new(total));
        }
        let Some(assembly) = slot.assembly.as_mut().filter(|assembly| assembly.total() == total) else { return Err(CallError::BadReply) };
        match assembly.take(offset, &message.payload()) {
            Part::More => Ok(None),
            Part::Wrong => Err(CallError::BadReply),
            Part::NoMemory => Err(CallError::TooLarge),
            Part::Whole => {
                self.memory -= total;
                Ok(slot.assembly.take().map(Assembly::into_data))
            }
        }
    }
}

/// A message came back.
#[cold]
pub(crate) fn returned(inner: &Arc<Inner>, returned: &Returned) {
    let of = match (returned.handler, returned.args()) {
        (wire::CALL | wire::CALL_NAMED | wire::OPEN, &[_, index, generation, ..]) | (wire::PART, &[index, generation, ..]) => id(index, generation),
        (wire::LATER, args) => return lost(inner, returned.index, args),
        _ => return,
    };
    let mut state = inner.state();
    if state.calls.under_way(of).is_none_or(|slot| slot.route != returned.index) {
        return;
    }
    let why = match returned.status {
        Status::BadTag | Status::BadHandler => CallError::Incompatible,
        status => {
            let before = state.route_mut(returned.index).and_then(|route| route.ended);
            CallError::Gone(Gone::new(status, returned.death).after(before))
        }
    };
    let waker = state.end(of, Err(why));
    drop(state);
    wake(waker);
}

/// An answer could not be delivered, although who asked is still there, perhaps: it hears that
/// there is none.
fn lost(inner: &Arc<Inner>, index: u32, args: &[i32]) {
    let &[place, use_, code, number, s0, s1, ..] = args else { return };
    let mut state = inner.state();
    let Some(route) = state.routes.get(index as usize).and_then(Option::as_ref) else { return };
    if code as u32 == status::DROPPED || !matches!(route.to, To::Caller(connection) if state.callers.contains_key(&connection)) {
        return;
    }
    let args = Args::new([place, use_, status::DROPPED as i32, number, s0, s1, 0, 0, 0, 0]);
    state.push(index, Out { handler: wire::LATER, args, body: Body::Whole(Vec::new()), call: None });
}

/// A connection has ended.
#[cold]
pub(crate) fn departed(inner: &Arc<Inner>, departed: &Departed) {
    let mut state = inner.state();
    let mut wakers = Vec::new();
    let status = departed.death.map_or(Status::BadEndpoint, |_| Status::Unreachable);
    let mut gone = Gone::new(status, departed.death);
    match departed.index {
        Some(index) => {
            if let Some(route) = state.route_mut(index) {
                gone = gone.after(route.ended);
                (route.is_broken, route.ended) = (true, Some(gone));
                if matches!(route.to, To::Peer { .. }) {
                    wakers = state.end_all(index, &CallError::Gone(gone));
                }
            }
        }
        None => {
            state.forget_caller(departed.connection);
            // Answers that are given later will not come any more.
            let back = |route: &Option<Route>| route.as_ref().is_some_and(|route| route.back == Some(departed.connection));
            if let Some(index) = state.routes.iter().position(back) {
                wakers = state.end_all(index as u32, &CallError::Gone(gone));
            }
        }
    }
    drop(state);
    wakers.into_iter().for_each(Waker::wake);
}
