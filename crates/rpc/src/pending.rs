// SPDX-License-Identifier: MIT OR Apache-2.0
//! A call that is under way: waited for, asked about, awaited, or given up.

use crate::calls::{Data, Outcome};
use crate::codec::Codec;
use crate::drive::{SLICE, Unpark};
use crate::error::CallError;
use crate::names::Outstanding;
use crate::node::Node;
use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};

/// A call that is under way. It is a future, too, which some thread's polling of the node completes
/// ([`Node::drive`], [`Node::block_on`]). If it is dropped, the call is cancelled.
#[derive(Debug)]
#[must_use = "a call that is dropped is cancelled"]
pub struct Pending<'n, R> {
    node: &'n Node,
    call: Option<Outstanding>,
    types: PhantomData<fn() -> R>,
}

impl Node {
    /// Whether a call is over.
    #[inline]
    pub fn is_done(&self, call: Outstanding) -> bool {
        self.inner.state().calls.is_over(call.0)
    }

    /// Waits until a call is over, polling.
    ///
    /// # Errors
    /// [`Error::WrongMoment`](crate::Error::WrongMoment).
    #[inline]
    pub fn wait_for(&self, call: Outstanding) -> Result<(), crate::Error> {
        self.wait_until(&mut |node| node.is_done(call), &mut |state| {
            state.calls.under_way(call.0)?.waker = Some(Unpark::waker());
            Some(SLICE)
        })
    }

    /// The outcome of a call that is over, once; `None`: it is not, or was taken.
    pub fn take(&self, call: Outstanding) -> Option<Result<Vec<u8>, CallError>> {
        let outcome = self.take_outcome(call)?;
        Some(outcome.map(|data| match data {
            Data::Large(data) => data,
            small => small.as_slice().to_vec(),
        }))
    }

    #[inline]
    fn take_outcome(&self, call: Outstanding) -> Option<Outcome> {
        self.inner.state().calls.take(call.0)
    }

    /// Cancels a call, unless it is over: it is over then, and the peer is told.
    pub fn cancel(&self, call: Outstanding) {
        let waker = self.inner.state().give_up(call.0, CallError::Cancelled);
        if let Some(waker) = waker {
            waker.wake();
        }
        self.send_now();
    }

    /// Cancels a call whose outcome nobody wants.
    pub fn abandon(&self, call: Outstanding) {
        self.cancel(call);
        drop(self.take_outcome(call));
    }
}

impl<'n, R: Codec> Pending<'n, R> {
    #[inline]
    pub(crate) fn new(node: &'n Node, call: Outstanding) -> Self {
        Self { node, call: Some(call), types: PhantomData }
    }

    /// Whether the call is over.
    pub fn is_done(&self) -> bool {
        self.call.is_none_or(|call| self.node.is_done(call))
    }

    /// Waits for the call's end, polling; other calls and handlers go on meanwhile.
    ///
    /// # Errors
    /// See [`CallError`].
    #[inline]
    pub fn wait(mut self) -> Result<R, CallError> {
        let Some(call) = self.call else { return Err(CallError::Cancelled) };
        let outcome = self.node.wait_alone(call.0)?;
        self.call = None;
        outcome.map_or(Err(CallError::Cancelled), decode)
    }

    /// Cancels the call, unless it is over. What it ended with is there to be waited for.
    pub fn cancel(&mut self) {
        if let Some(call) = self.call {
            self.node.cancel(call);
        }
    }
}

#[inline]
fn decode<R: Codec>(outcome: Outcome) -> Result<R, CallError> {
    match outcome? {
        Data::Large(data) => R::decode_owned(data),
        small => R::decode(small.as_slice()),
    }
    .ok_or(CallError::BadReply)
}

impl<R: Codec> Future for Pending<'_, R> {
    type Output = Result<R, CallError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Some(call) = this.call else { return Poll::Ready(Err(CallError::Cancelled)) };
        let mut state = this.node.inner.state();
        if let Some(slot) = state.calls.under_way(call.0) {
            if !slot.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                slot.waker = Some(context.waker().clone());
            }
            return Poll::Pending;
        }
        let outcome = state.calls.take(call.0);
        drop(state);
        this.call = None;
        Poll::Ready(outcome.map_or(Err(CallError::Cancelled), decode))
    }
}

impl<R> Drop for Pending<'_, R> {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            self.node.abandon(call);
        }
    }
}
