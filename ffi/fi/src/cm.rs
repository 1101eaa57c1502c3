// SPDX-License-Identifier: MIT OR Apache-2.0
//! Endpoints that are connected in pairs (`FI_EP_MSG`), and those that wait for requests: who asks,
//! accepts, refuses and ends, by words between the endpoints.
//!
//! A request carries a random number, which the answer repeats: an answer may come from an endpoint
//! that the requester does not know yet. Words are another process's: whatever does not fit the
//! state is not heard.

use crate::abi::{Fid, Outcome, class, code, error};
use crate::attributes::Info;
use crate::eq::{CONNECTED, CONNREQ, EqShared, SHUTDOWN};
use crate::info;
use crate::limits::{DATA_BYTES_MAX, PEER};
use crate::polled::EpShared;
use crate::reasons;
use bellwire_memory::atomic::{AtomicBool, Ordering};
use bellwire_tag::{Failure, Listener, Name, Verdict, WORDS_BYTES_MAX};
use core::ffi::c_void;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is said, its number, its data.
const HEAD_BYTES: usize = 16;
const _: () = assert!(HEAD_BYTES + DATA_BYTES_MAX <= WORDS_BYTES_MAX);
/// Requests that wait for the program.
const REQUESTS_MAX: usize = 4096;

/// What is said.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Said {
    Request = 1,
    Accept,
    Reject,
    Shutdown,
}

/// How an endpoint stands.
enum State {
    Idle,
    Listening,
    Asking {
        to: Name,
        number: u64,
    },
    /// It has accepted, and the other side is to hear of it.
    Accepting(Name),
    Connected(Name),
    Over,
}

/// A request that the program has been told of and has not answered. Its identifier is what the
/// program has of it.
pub(crate) struct Request {
    from: Name,
    number: u64,
}

/// Requests by the addresses of their identifiers: what a program gives as one is looked up, not
/// followed.
static REQUESTS: Mutex<BTreeMap<usize, (Box<Fid>, Request)>> = Mutex::new(BTreeMap::new());

// SAFETY: an identifier of a request is never followed by us, and its pointers are NULL.
unsafe impl Send for Fid {}

fn requests() -> MutexGuard<'static, BTreeMap<usize, (Box<Fid>, Request)>> {
    REQUESTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the request that an identifier names; once.
pub(crate) fn take_request(handle: *mut Fid) -> Outcome<Request> {
    requests().remove(&handle.addr()).map(|(_, request)| request).ok_or(error::EINVAL)
}

pub(crate) fn is_request(handle: *mut Fid) -> bool {
    requests().contains_key(&handle.addr())
}

/// The side of an endpoint that connects.
pub(crate) struct Connector {
    /// What events name.
    fid: Mutex<usize>,
    eq: Mutex<Option<Arc<EqShared>>>,
    state: Mutex<State>,
    is_over: AtomicBool,
    /// Of one that listens: what its requests' endpoints are like.
    like: Option<info::Owned>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connector {
    pub(crate) fn new(like: Option<info::Owned>) -> Self {
        Self { fid: Mutex::new(0), eq: Mutex::new(None), state: Mutex::new(State::Idle), is_over: AtomicBool::new(false), like }
    }

    /// The object that events name; once it has an address.
    pub(crate) fn is_of(&self, fid: *mut Fid) {
        *lock(&self.fid) = fid.expose_provenance();
    }

    pub(crate) fn bind(&self, eq: &Arc<EqShared>) {
        *lock(&self.eq) = Some(Arc::clone(eq));
    }

    /// Its event queue, given up.
    pub(crate) fn unbind(&self) -> Option<Arc<EqShared>> {
        lock(&self.eq).take()
    }

    pub(crate) fn eq(&self) -> Option<Arc<EqShared>> {
        lock(&self.eq).clone()
    }

    /// Nothing can be received any more.
    pub(crate) fn is_over(&self) -> bool {
        // Relaxed: who asks too early has its receive given back.
        self.is_over.load(Ordering::Relaxed)
    }

    pub(crate) fn peer(&self) -> Option<Name> {
        match &*lock(&self.state) {
            State::Accepting(name) | State::Connected(name) => Some(*name),
            _ => None,
        }
    }

    pub(crate) fn is_listening(&self) -> bool {
        matches!(*lock(&self.state), State::Listening)
    }

    pub(crate) fn listen(&self) -> Outcome {
        let mut state = lock(&self.state);
        if !matches!(*state, State::Idle | State::Listening) || lock(&self.eq).is_none() {
            return Err(error::EINVAL);
        }
        *state = State::Listening;
        Ok(())
    }

    fn tell(&self, kind: u32, info: *mut Info, data: &[u8]) {
        if let Some(eq) = self.eq() {
            eq.tell_connection(kind, *lock(&self.fid), info, data);
        }
    }

    fn tell_failure(&self, number: i32, reason: i32, data: &[u8]) {
        if let Some(eq) = self.eq() {
            eq.tell_refusal(*lock(&self.fid), number, reason, data);
        }
    }

    fn asked(&self, from: Name, number: u64, data: &[u8]) {
        let Some(like) = self.like.as_ref().filter(|_| matches!(*lock(&self.state), State::Listening)) else { return };
        let Ok(info) = like.copy_for(from) else { return };
        let handle = Box::new(Fid { class: class::CONNREQ, context: core::ptr::null_mut(), ops: crate::abi::TableRef::NONE });
        let at = (&raw const *handle).cast_mut();
        let mut requests = requests();
        if requests.len() >= REQUESTS_MAX {
            drop(requests);
            info::free(info);
            return;
        }
        requests.insert(at.expose_provenance(), (handle, Request { from, number }));
        drop(requests);
        // SAFETY: just made.
        unsafe { (*info).handle = at };
        self.tell(CONNREQ, info, data);
    }

    /// A peer's endpoint has said something.
    fn said(&self, from: Name, words: &[u8]) -> Verdict {
        let Some((head, data)) = words.split_at_checked(HEAD_BYTES).filter(|(_, data)| data.len() <= DATA_BYTES_MAX) else { return Verdict::Nothing };
        let number = u64::from_le_bytes(*head.last_chunk().unwrap_or(&[0; 8]));
        let kind = [Said::Request, Said::Accept, Said::Reject, Said::Shutdown].into_iter().find(|k| *k as u8 == head[0]);
        let mut state = lock(&self.state);
        let asked = if let State::Asking { to, number: n } = *state { Some(to).filter(|_| n == number) } else { None };
        match (kind, &*state) {
            (Some(Said::Request), State::Listening) => {
                drop(state);
                self.asked(from, number, data);
                Verdict::Nothing
            }
            (Some(Said::Accept), _) if asked.is_some() => {
                *state = State::Connected(from);
                drop(state);
                self.tell(CONNECTED, core::ptr::null_mut(), data);
                // Who listens has nothing more to say.
                Verdict::Known(PEER, asked)
            }
            (Some(Said::Reject), _) if asked.is_some() => {
                drop(state);
                self.failed(error::ECONNREFUSED, 0, data)
            }
            (Some(Said::Shutdown), State::Accepting(peer) | State::Connected(peer)) if *peer == from => {
                drop(state);
                self.ended()
            }
            _ => Verdict::Nothing,
        }
    }

    /// There is a connection to a peer, which has heard that it is accepted: if the program heard
    /// of it before, it might never look again at this endpoint, which has yet to say so.
    pub(crate) fn reached(&self, peer: Name) {
        let mut state = lock(&self.state);
        if matches!(*state, State::Accepting(name) if name == peer) {
            *state = State::Connected(peer);
            drop(state);
            self.tell(CONNECTED, core::ptr::null_mut(), &[]);
        }
    }

    /// There is no connection to a peer any more.
    fn lost(&self, peer: Name, failure: Failure) -> Verdict {
        let state = lock(&self.state);
        let reason = failure.gone().map_or(0, reasons::number);
        match *state {
            State::Asking { to, .. } if to == peer => {
                drop(state);
                self.failed(if matches!(failure, Failure::Unreachable(_)) { error::ECONNREFUSED } else { error::ECONNRESET }, reason, &[])
            }
            State::Accepting(name) if name == peer => {
                drop(state);
                self.failed(error::ECONNRESET, reason, &[])
            }
            State::Connected(name) if name == peer => {
                drop(state);
                self.ended()
            }
            _ => Verdict::Nothing,
        }
    }

    fn failed(&self, number: i32, reason: i32, data: &[u8]) -> Verdict {
        let verdict = self.over();
        self.tell_failure(number, reason, data);
        verdict
    }

    fn ended(&self) -> Verdict {
        let verdict = self.over();
        self.tell(SHUTDOWN, core::ptr::null_mut(), &[]);
        verdict
    }

    fn over(&self) -> Verdict {
        *lock(&self.state) = State::Over;
        self.hear_no_more();
        Verdict::Over
    }

    fn hear_no_more(&self) {
        // Relaxed: see `is_over`.
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// A connector, to its endpoint.
pub(crate) struct Ear(pub Arc<Connector>);

impl Listener for Ear {
    fn said(&mut self, from: Name, words: &[u8]) -> Verdict {
        self.0.said(from, words)
    }

    fn reached(&mut self, peer: Name) {
        self.0.reached(peer);
    }

    fn lost(&mut self, peer: Name, failure: Failure) -> Verdict {
        self.0.lost(peer, failure)
    }
}

fn words(kind: Said, number: u64, data: &[u8]) -> Vec<u8> {
    let mut words = vec![kind as u8, 0, 0, 0, 0, 0, 0, 0];
    words.extend_from_slice(&number.to_le_bytes());
    words.extend_from_slice(data);
    words
}

/// A program's data for the other side.
///
/// # Safety
/// F2: `length` bytes.
pub(crate) unsafe fn data_of<'a>(at: *const c_void, length: usize) -> Outcome<&'a [u8]> {
    if length > DATA_BYTES_MAX || (at.is_null() && length != 0) {
        return Err(error::EINVAL);
    }
    // SAFETY: the caller's.
    Ok(if length == 0 { &[] } else { unsafe { core::slice::from_raw_parts(at.cast(), length) } })
}

fn say(ep: &EpShared, to: Name, words: &[u8]) -> Outcome {
    ep.endpoint.say(to, words).map_err(code)
}

/// Asks to be connected.
pub(crate) fn connect(ep: &EpShared, connector: &Connector, to: Name, data: &[u8]) -> Outcome {
    let mut number = [0; 8];
    // SAFETY: `number` has as many bytes as the call is told.
    if unsafe { libc::getrandom(number.as_mut_ptr().cast(), number.len(), 0) } != number.len() as isize {
        return Err(error::EAGAIN);
    }
    let number = u64::from_ne_bytes(number);
    let mut state = lock(&connector.state);
    if !matches!(*state, State::Idle) {
        return Err(libc::EISCONN);
    }
    *state = State::Asking { to, number };
    drop(state);
    say(ep, to, &words(Said::Request, number, data)).inspect_err(|_| *lock(&connector.state) = State::Idle)
}

/// Accepts a request.
pub(crate) fn accept(ep: &EpShared, connector: &Connector, request: &Request, data: &[u8]) -> Outcome {
    let mut state = lock(&connector.state);
    if !matches!(*state, State::Idle) {
        return Err(libc::EISCONN);
    }
    *state = State::Accepting(request.from);
    drop(state);
    ep.endpoint.learn(PEER, request.from);
    say(ep, request.from, &words(Said::Accept, request.number, data))?;
    if ep.endpoint.reaches(request.from) {
        connector.reached(request.from);
    }
    Ok(())
}

/// Refuses a request.
pub(crate) fn reject(ep: &EpShared, request: &Request, data: &[u8]) -> Outcome {
    say(ep, request.from, &words(Said::Reject, request.number, data))
}

/// Ends a connection: the peer hears of it behind what was sent before. What it sends is heard no
/// more but its own end.
pub(crate) fn shut_down(ep: &EpShared, connector: &Connector) -> Outcome {
    let peer = connector.peer().ok_or(error::ENOTCONN)?;
    say(ep, peer, &words(Said::Shutdown, 0, &[]))?;
    connector.hear_no_more();
    ep.endpoint.forget(PEER);
    ep.endpoint.give_receives_back();
    Ok(())
}
