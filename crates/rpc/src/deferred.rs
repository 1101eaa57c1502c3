// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers that are given later, by any thread.

use crate::codec::Codec;
use crate::error::Failure;
use crate::route::{Body, Out, To};
use crate::state::{Context, Inner, Running};
use crate::wire::{Args, CallId, LATER, PART_BYTES, split, status};
use bellwire_memory::atomic::Ordering;
use core::marker::PhantomData;
use std::sync::{Arc, Weak};

/// The right to answer a call, once, with bytes. If it is dropped, the caller hears that there is
/// no answer.
#[derive(Debug)]
pub struct Reply {
    inner: Weak<Inner>,
    connection: u64,
    id: CallId,
    number: u32,
    running: Arc<Running>,
    context: Context,
    is_sent: bool,
}

impl Reply {
    pub(crate) fn new(inner: &Arc<Inner>, connection: u64, id: CallId, number: u32, running: Arc<Running>, context: Context) -> Self {
        Self { inner: Arc::downgrade(inner), connection, id, number, running, context, is_sent: false }
    }

    /// Whether nobody waits for the answer any more: it was cancelled, its time is over, or the
    /// caller is gone.
    pub fn is_cancelled(&self) -> bool {
        // Relaxed: as in Running::cancel().
        self.running.is_cancelled.load(Ordering::Relaxed)
    }

    /// The caller, and its time limit.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Answers. A message that cannot leave at once leaves when the node is polled.
    pub fn send(self, result: Result<Vec<u8>, Failure>) {
        match result {
            Ok(bytes) => self.send_status(status::OK, bytes),
            Err(failure) => self.send_status(status::FAILED, failure.to_bytes()),
        }
    }

    pub(crate) fn send_status(mut self, code: u32, bytes: Vec<u8>) {
        self.answer(code, bytes);
    }

    fn answer(&mut self, code: u32, bytes: Vec<u8>) {
        self.is_sent = true;
        let Some(inner) = self.inner.upgrade() else { return };
        let Some(bundle) = inner.bundle() else { return };
        let mut guard = inner.state();
        let state = &mut *guard;
        let Some(caller) = state.callers.get_mut(&self.connection) else { return };
        // Cancelled meanwhile; or the connection's number is another's now.
        if !caller.running.get(&self.id.index).is_some_and(|running| Arc::ptr_eq(running, &self.running)) {
            return;
        }
        caller.running.remove(&self.id.index);
        state.deferred -= 1;
        let (address, [s0, s1], known) = (caller.address, split(caller.secret), caller.route);
        let route = match known {
            Some(route) => route,
            None => match state.add_route(&bundle, address, To::Caller(self.connection)) {
                Ok(route) => {
                    if let Some(caller) = state.callers.get_mut(&self.connection) {
                        caller.route = Some(route);
                    }
                    route
                }
                // No memory, or no place in the table: its caller waits for its deadline.
                Err(_) => return,
            },
        };
        let _ = state.prepare(&bundle, route);
        let head = [self.id.index as i32, self.id.generation as i32, code as i32, self.number as i32 + 1, s0, s1];
        let (args, body) = if bytes.len() > PART_BYTES {
            (Args::new(head), Body::Parts(bytes, 0))
        } else {
            (Args::new(head).with_offset([0, 0], Some(split(bytes.len() as u64))), Body::Whole(bytes))
        };
        state.push(route, Out { handler: LATER, args, body, call: None });
        let endpoint = state.endpoint;
        if let Some(route_) = state.route_mut(route) {
            // Errors show when a polling thread sends it.
            let _ = route_.send_waiting(&bundle, endpoint, route);
        }
        drop(guard);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.is_sent {
            self.answer(status::DROPPED, Vec::new());
        }
    }
}

/// The right to answer a call, once. If it is dropped, the caller hears that there is no answer.
#[derive(Debug)]
pub struct Responder<R> {
    reply: Reply,
    types: PhantomData<fn(R)>,
}

impl<R: Codec> Responder<R> {
    pub(crate) fn new(reply: Reply) -> Self {
        Self { reply, types: PhantomData }
    }

    /// Answers. A message that cannot leave at once leaves when the node is polled.
    pub fn reply(self, result: Result<R, Failure>) {
        self.reply.send(result.map(|value| {
            let mut bytes = Vec::new();
            value.encode(&mut bytes);
            bytes
        }));
    }

    /// Whether nobody waits for the answer any more: it was cancelled, its time is over, or the
    /// caller is gone.
    pub fn is_cancelled(&self) -> bool {
        self.reply.is_cancelled()
    }

    /// The caller, and its time limit.
    pub fn context(&self) -> &Context {
        self.reply.context()
    }
}
