// SPDX-License-Identifier: MIT OR Apache-2.0
//! The object of an endpoint, and what its calls for data begin with.

use crate::abi::{Fid, Outcome, TableRef, code, error};
use crate::av::AvShared;
use crate::cm::Connector;
use crate::counter::CounterShared;
use crate::flags;
use crate::format::Format;
use crate::limits::{CONTEXT_SHIFT, PEER};
use crate::polled::EpShared;
use crate::queue::CqShared;
use crate::resources::DomainShared;
use crate::shared::ReceiveContext;
use bellwire_tag::Name;
use core::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// What the numbers mean by which calls name peers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Addressing {
    /// They are the address vector's.
    Plain,
    /// Nothing: there is one peer.
    Pair,
    /// So many of the highest bits say which context of a scalable endpoint.
    Contexts(u32),
}

impl Addressing {
    /// The number by which the endpoint knows a peer.
    #[cold]
    pub(crate) fn number(self, named: u64) -> u64 {
        match self {
            Self::Plain => named,
            Self::Pair => PEER,
            Self::Contexts(bits) => {
                let (context, at) = (named >> (64 - bits), named & (u64::MAX >> bits));
                if at >> CONTEXT_SHIFT == 0 { at | context << CONTEXT_SHIFT } else { flags::ADDR_NONE }
            }
        }
    }
}

/// What the program has bound an endpoint to.
#[derive(Default)]
pub(crate) struct Binding {
    pub tx: Option<Arc<CqShared>>,
    pub rx: Option<Arc<CqShared>>,
    /// Only what asks for it completes there.
    pub tx_selective: bool,
    pub rx_selective: bool,
    /// By what they count.
    pub counters: [Option<Arc<CounterShared>>; 6],
    pub av: Option<Arc<AvShared>>,
    /// Receives that it shares with others, in place of its own.
    pub receives: Option<Arc<ReceiveContext>>,
}

/// The part of it that calls for data need; fixed when the endpoint is enabled.
pub(crate) struct Bound {
    pub addressing: Addressing,
    pub tx_selective: bool,
    pub rx_selective: bool,
    pub shares_receives: bool,
    pub av: Option<Arc<AvShared>>,
}

/// A scalable endpoint, to its contexts.
pub(crate) trait Whole {
    /// The addresses that its contexts send to.
    fn av(&self) -> Option<Arc<AvShared>>;
}

/// `struct fid_ep`, and ours behind it.
#[repr(C)]
pub(crate) struct EpObject {
    pub fid: Fid,
    pub ops: TableRef,
    pub cm: TableRef,
    pub msg: TableRef,
    pub rma: TableRef,
    pub tagged: TableRef,
    pub atomic: TableRef,
    pub collective: TableRef,
    pub shared: Arc<EpShared>,
    pub bound: Arc<OnceLock<Bound>>,
    /// Of those that are connected in pairs.
    pub connector: Option<Arc<Connector>>,
    /// Flags of calls that have none of their own.
    pub tx_flags: u64,
    pub rx_flags: u64,
    pub caps: u64,
    pub format: Format,
    pub told: Option<Name>,
    pub domain: Arc<DomainShared>,
    /// Of which it is a context.
    pub scalable: Option<Arc<dyn Whole>>,
    /// What it is bound to, until it is closed.
    pub binding: Arc<Mutex<Binding>>,
    /// The request that it is to accept.
    pub request: *mut Fid,
    pub is_alias: bool,
}

impl EpObject {
    pub(crate) fn binding(&self) -> MutexGuard<'_, Binding> {
        self.binding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whom an operation is for.
    #[inline]
    pub(crate) fn peer(&self, bound: &Bound, named: u64) -> u64 {
        if bound.addressing == Addressing::Plain { named } else { bound.addressing.number(named) }
    }

    /// Runs a call for data; again, if its peer is one that another process has put into the
    /// address vector meanwhile.
    #[inline]
    pub(crate) fn run(&self, bound: &Bound, call: impl Fn() -> Result<(), bellwire_tag::Error>) -> Outcome {
        match call() {
            Ok(()) => Ok(()),
            Err(bellwire_tag::Error::BadArgument) if bound.av.as_ref().is_some_and(|av| av.learn_more()) => call().map_err(|e| self.failed(e)),
            Err(e) => Err(self.failed(e)),
        }
    }

    /// An error of a call for data: a connected endpoint that knows no peer is not connected.
    #[inline]
    pub(crate) fn failed(&self, e: bellwire_tag::Error) -> c_int {
        if e == bellwire_tag::Error::BadArgument && self.connector.is_some() { error::ENOTCONN } else { code(e) }
    }

    /// What it is bound to, if it is enabled.
    #[inline]
    pub(crate) fn enabled(&self) -> Outcome<&Bound> {
        self.bound.get().ok_or(error::BAD_STATE)
    }
}

/// The object of a call for data.
///
/// # Safety
/// F1.
#[inline]
pub(crate) unsafe fn of<'a>(fid: *mut Fid) -> &'a EpObject {
    // SAFETY: the caller's.
    unsafe { &*fid.cast::<EpObject>() }
}
