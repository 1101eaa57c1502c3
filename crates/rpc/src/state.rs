// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a node knows, behind one token; with the functions that it serves calls by, so that what
//! they are given is here too.

use crate::assembly::Assembly;
use crate::calls::{Calls, Data, Outcome};
use crate::error::{CallError, Error};
use crate::names::{Address, Peer};
use crate::observed::Observed;
use crate::procedure::Signature;
use crate::route::{Body, Out, Route, To};
use crate::wire::{Args, CANCEL, CallId, HELLO, VERSION, split};
use bellwire_am::{Bundle, EndpointId, Message, Name};
use bellwire_memory::atomic::{AtomicBool, Ordering};
use bellwire_memory::token::{Claim, Held, Token};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::thread::Thread;
use std::time::{Duration, Instant};

/// What a node allows others and itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls to one peer that may be under way; 64 at first.
    pub window: u32,
    /// Calls of one caller that may be answered later or be arriving in parts; 256 at first. More
    /// are answered with [`CallError::Overloaded`].
    pub served: u32,
    /// Bytes of large values that may be arriving, of all peers together; 2^30 at first.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { window: 64, served: 256, memory: 1 << 30 }
    }
}

/// The state that a node shares with its handlers and with deferred answers.
pub(crate) struct Inner {
    pub(crate) state: Token<State>,
    pub(crate) bundle: OnceLock<Weak<Bundle>>,
}

impl Inner {
    #[inline]
    pub(crate) fn state(&self) -> Held<'_, State> {
        self.state.enter(Claim::Bias)
    }

    /// The bundle, unless the node is no more.
    pub(crate) fn bundle(&self) -> Option<Arc<Bundle>> {
        self.bundle.get().and_then(Weak::upgrade)
    }
}

/// The function that runs for a call.
pub(crate) type Function = Box<dyn FnMut(&mut Incoming<'_, '_>) + Send>;

/// A call that has arrived. It is answered once: by [`reply`](Self::reply), or by who it is
/// [deferred](Self::defer) to, or, if its handler does neither, as dropped.
pub struct Incoming<'a, 'm> {
    pub(crate) inner: &'a Arc<Inner>,
    pub(crate) message: &'a mut Message<'m>,
    pub(crate) id: CallId,
    pub(crate) number: u32,
    /// Whether the caller is told the number.
    pub(crate) tells: bool,
    pub(crate) data: Data,
    pub(crate) context: Context,
    pub(crate) is_answered: bool,
}

/// What a handler may know of a call beside its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    pub(crate) caller: Name,
    pub(crate) deadline: Option<Instant>,
}

impl Context {
    /// The caller, as it says.
    pub fn caller(&self) -> Name {
        self.caller
    }

    /// How long the caller still waits; `None`: for ever.
    pub fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }
}

/// A call that is to be answered.
#[derive(Debug)]
pub(crate) struct Running {
    /// Which use of its place in the caller's table.
    pub generation: u32,
    pub is_cancelled: AtomicBool,
}

impl Running {
    pub(crate) fn new(generation: u32) -> Self {
        Self { generation, is_cancelled: AtomicBool::new(false) }
    }

    /// Nobody wants the answer any more.
    pub(crate) fn cancel(&self) {
        // Relaxed: a hint; nothing else is read because of it.
        self.is_cancelled.store(true, Ordering::Relaxed);
    }
}

/// A procedure that is served, or was: its number stays its own.
pub(crate) struct Served {
    pub name: Box<str>,
    pub signature: Signature,
    pub entry: Entry,
}

/// Where a procedure's function is.
pub(crate) enum Entry {
    /// Served no more.
    Free,
    Here(Function),
    /// It runs.
    Out,
}

/// A large call that is arriving.
#[derive(Debug)]
pub(crate) struct Arriving {
    pub generation: u32,
    pub number: u32,
    pub deadline: Option<Instant>,
    pub assembly: Assembly,
}

/// A node that calls this one, over one connection.
#[derive(Debug)]
pub(crate) struct Caller {
    pub address: Address,
    pub secret: u64,
    /// The way back, once it was needed.
    pub route: Option<u32>,
    /// Calls that are answered later, and calls that are arriving, by their place in the caller's
    /// table.
    pub running: BTreeMap<u32, Arc<Running>>,
    pub arriving: BTreeMap<u32, Arriving>,
}

/// All of it.
pub(crate) struct State {
    pub limits: Limits,
    pub calls: Calls,
    /// By entry of the translation table.
    pub routes: Vec<Option<Route>>,
    pub generation: u32,
    pub procedures: Vec<Served>,
    pub callers: BTreeMap<u64, Caller>,
    /// Routes whose queues are not empty.
    pub unsent: Vec<u32>,
    /// Entries of the translation table that are to be unmapped.
    pub unmapped: Vec<u32>,
    /// Bytes announced for large values that are arriving.
    pub memory: u64,
    /// Calls that are answered later.
    pub deferred: usize,
    /// Polls that have looked after more than messages.
    pub polls: u32,
    /// Whether a thread moves what there is, and who else waits.
    pub is_driven: bool,
    pub followers: Vec<Thread>,
    /// The endpoint, and its tag, which others must know to send here.
    pub endpoint: EndpointId,
    pub tag: u64,
    /// Of a node that is traced.
    pub observed: Option<Box<Observed>>,
}

impl State {
    pub(crate) fn new(endpoint: EndpointId, own: &Address) -> Self {
        Self {
            limits: Limits::default(),
            calls: Calls::default(),
            routes: Vec::new(),
            generation: 0,
            procedures: Vec::new(),
            callers: BTreeMap::new(),
            unsent: Vec::new(),
            unmapped: Vec::new(),
            memory: 0,
            deferred: 0,
            polls: 0,
            is_driven: false,
            followers: Vec::new(),
            endpoint,
            tag: own.tag,
            observed: None,
        }
    }

    /// Before the token of a traced node is let go.
    pub(crate) fn trace(&mut self) {
        let Some(observed) = &mut self.observed else { return };
        observed.calls(&self.calls, &self.routes);
        let procedures = self.procedures.iter().map(|served| (&*served.name, matches!(served.entry, Entry::Out)));
        observed.procedures(procedures, self.callers.len(), self.deferred);
    }

    /// The route to a peer.
    pub(crate) fn peer(&mut self, peer: Peer) -> Result<&mut Route, Error> {
        let route = self.routes.get_mut(peer.index as usize).and_then(Option::as_mut);
        route.filter(|route| route.generation == peer.generation && matches!(route.to, To::Peer { .. })).ok_or(Error::BadPeer)
    }

    /// Whether polling has nothing to do beside messages.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.unsent.is_empty() && self.unmapped.is_empty() && self.calls.first_deadline.is_none()
    }

    pub(crate) fn route_mut(&mut self, index: u32) -> Option<&mut Route> {
        self.routes.get_mut(index as usize)?.as_mut()
    }

    /// Has a message leave behind what waits on its route.
    pub(crate) fn push(&mut self, index: u32, out: Out) {
        let Some(route) = self.routes.get_mut(index as usize).and_then(Option::as_mut) else { return };
        route.queue.push_back(out);
        if !core::mem::replace(&mut route.is_listed, true) {
            self.unsent.push(index);
        }
    }

    /// A free entry of the translation table, mapped to `address`.
    pub(crate) fn add_route(&mut self, bundle: &Bundle, address: Address, to: To) -> Result<u32, Error> {
        let free = (0..self.routes.len()).find(|at| self.routes[*at].is_none() && !self.unmapped.contains(&(*at as u32)));
        let at = free.unwrap_or(self.routes.len());
        let index = at as u32;
        if index >= bundle.translations(self.endpoint)? {
            bundle.set_translations(self.endpoint, index.saturating_mul(2).max(index + 1))?;
        }
        bundle.map(self.endpoint, index, address.name, address.tag)?;
        if at == self.routes.len() {
            self.routes.push(None);
        }
        self.generation = self.generation.wrapping_add(1);
        self.routes[at] = Some(Route::new(address, self.generation, to));
        Ok(index)
    }

    /// Gives a route up; a polling thread unmaps its entry.
    pub(crate) fn remove_route(&mut self, index: u32) {
        if let Some(route) = self.routes.get_mut(index as usize) {
            *route = None;
            self.unmapped.push(index);
        }
    }

    /// Has a route to a peer be ready for a message: mapped, and with a greeting before everything
    /// else.
    pub(crate) fn prepare(&mut self, bundle: &Bundle, index: u32) -> Result<(), Error> {
        let (endpoint, tag) = (self.endpoint, self.tag);
        let Some(route) = self.route_mut(index) else { return Err(Error::BadPeer) };
        if route.is_broken {
            bundle.unmap(endpoint, index)?;
            bundle.map(endpoint, index, route.address.name, route.address.tag)?;
            route.is_broken = false;
            route.has_greeted = false;
            route.back = None;
        }
        if core::mem::replace(&mut route.has_greeted, true) {
            return Ok(());
        }
        if let To::Peer { secret, known, .. } = &mut route.to {
            known.iter_mut().for_each(|known| known.number = None);
            let ([t0, t1], [s0, s1]) = (split(tag), split(*secret));
            self.push(index, Out { handler: HELLO, args: Args::new([VERSION, t0, t1, s0, s1]), body: Body::None, call: None });
        }
        Ok(())
    }

    /// Ends a call of this node. The caller wakes its waiter with no lock held.
    #[inline]
    pub(crate) fn end(&mut self, id: CallId, outcome: Outcome) -> Option<Waker> {
        let ended = self.calls.end(id, outcome)?;
        self.memory -= ended.assembly.as_ref().map_or(0, Assembly::total);
        if let Some(Route { to: To::Peer { calls, .. }, .. }) = self.route_mut(ended.route) {
            *calls -= 1;
        }
        ended.waker
    }

    /// Ends a call before the peer has answered, and has the peer hear of it.
    pub(crate) fn give_up(&mut self, id: CallId, why: CallError) -> Option<Waker> {
        let index = self.calls.under_way(id)?.route;
        let waker = self.end(id, Err(why));
        let Some(route) = self.route_mut(index) else { return waker };
        let mut has_left = true;
        route.queue.retain(|out| {
            if out.call != Some(id) {
                return true;
            }
            // The first message of a call has left if a later one, or none of it, is still here.
            has_left = out.handler == crate::wire::PART && has_left;
            false
        });
        if has_left && !route.is_broken {
            let args = Args::new([id.index as i32, id.generation as i32]);
            self.push(index, Out { handler: CANCEL, args, body: Body::None, call: None });
        }
        waker
    }

    /// A peer's connection has ended, or the peer is given up: all calls to it end.
    pub(crate) fn end_all(&mut self, index: u32, why: &CallError) -> Vec<Waker> {
        if let Some(route) = self.route_mut(index) {
            route.queue.clear();
        }
        let calls = self.calls.pick(|slot| slot.route == index);
        calls.into_iter().filter_map(|id| self.end(id, Err(why.clone()))).collect()
    }

    /// A caller is gone: nothing is to be answered any more.
    pub(crate) fn forget_caller(&mut self, connection: u64) {
        let Some(caller) = self.callers.remove(&connection) else { return };
        for running in caller.running.values() {
            running.cancel();
        }
        self.deferred -= caller.running.len();
        self.memory -= caller.arriving.values().map(|arriving| arriving.assembly.total()).sum::<u64>();
        if let Some(route) = caller.route {
            self.remove_route(route);
        }
    }
}
