// SPDX-License-Identifier: MIT OR Apache-2.0
//! The objects of programs: a node, which others reach at its address, its peers, and the
//! procedures that it serves.

use crate::codec::Codec;
use crate::deferred::Responder;
use crate::error::{CallError, Error, Failure};
use crate::names::{Address, Peer};
use crate::procedure::{NAME_BYTES_MAX, Procedure, Signature};
use crate::result;
use crate::route::To;
use crate::serve;
use crate::state::{Context, Entry, Function, Incoming, Inner, Limits, Served, State};
use crate::wire::{self, status};
use bellwire_am::{Bundle, Device, EndpointId};
use bellwire_memory::token::{Token, Watcher};
use bellwire_trace::here;
use bellwire_via::nic::NicConfig;
use rustix::rand::{GetRandomFlags, getrandom};
use std::sync::{Arc, OnceLock};

/// A party to remote procedure calls: it serves procedures, and calls those of its peers. All
/// methods may be called by any thread; handlers run one at a time, on the thread that polls, and
/// may start nothing that waits. When it is dropped, its peers' calls to it end with
/// [`CallError::Gone`]; [`Gone::why`](crate::Gone::why) says so.
pub struct Node {
    pub(crate) inner: Arc<Inner>,
    pub(crate) bundle: Arc<Bundle>,
    device: Arc<Device>,
    address: Address,
}

impl core::fmt::Debug for Node {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Node").field("address", &self.address).finish_non_exhaustive()
    }
}

pub(crate) fn random() -> Result<u64, Error> {
    let mut bytes = [0; 8];
    getrandom(&mut bytes, GetRandomFlags::empty()).map_err(|e| Error::Device(format!("random numbers: {e}")))?;
    Ok(u64::from_ne_bytes(bytes))
}

impl Node {
    /// A node on a NIC of its own, opened as the environment says (`BELLWIRE_ADDRESS` and so on).
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Messages`].
    pub fn open() -> Result<Self, Error> {
        let config = NicConfig::from_env().map_err(|e| Error::Device(e.to_string()))?;
        Self::on(&Device::open(config).map_err(|e| Error::Device(e.to_string()))?)
    }

    /// A node on a device, which bundles and other nodes may share.
    ///
    /// # Errors
    /// [`Error::Messages`].
    pub fn on(device: &Arc<Device>) -> Result<Self, Error> {
        let bundle = Arc::new(Bundle::new(device)?);
        let endpoint = bundle.create_endpoint()?;
        // Neither TAG_NONE nor TAG_ALL.
        let tag = random()? | 1 << 63;
        bundle.set_tag(endpoint, tag)?;
        let address = Address { name: bundle.name(endpoint)?, tag };
        let inner = Arc::new(Inner { state: Token::new(State::new(endpoint, &address)), bundle: OnceLock::new() });
        let _ = inner.bundle.set(Arc::downgrade(&bundle));
        if here::is_on() {
            inner.state().observed = Some(Box::default());
            inner.state.watch(Some(Watcher { entered: |_| {}, leaves: State::trace }));
        }
        set_handlers(&bundle, endpoint, &inner)?;
        Ok(Self { inner, bundle, device: Arc::clone(device), address })
    }

    /// The address, by which others call this node.
    pub fn address(&self) -> Address {
        self.address
    }

    /// The NIC.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Whether the calling thread is inside a handler of this node.
    pub fn is_in_handler(&self) -> bool {
        self.bundle.is_in_handler()
    }

    /// Sets what this node allows, from now on.
    pub fn set_limits(&self, limits: Limits) {
        self.inner.state().limits = limits;
    }

    /// A peer to call. Nothing is sent yet: the first call connects. The next call tries a peer
    /// again that could not be reached or exited.
    ///
    /// # Errors
    /// [`Error::Messages`].
    pub fn connect(&self, address: &Address) -> Result<Peer, Error> {
        let to = To::Peer { secret: random()?, known: Vec::new(), calls: 0 };
        let mut state = self.inner.state();
        let index = state.add_route(&self.bundle, *address, to)?;
        Ok(Peer { index, generation: state.generation })
    }

    /// Gives a peer up: calls to it that are under way end with [`CallError::Cancelled`].
    ///
    /// # Errors
    /// [`Error::BadPeer`].
    pub fn disconnect(&self, peer: Peer) -> Result<(), Error> {
        let mut state = self.inner.state();
        state.peer(peer)?;
        let wakers = state.end_all(peer.index, &CallError::Cancelled);
        state.remove_route(peer.index);
        drop(state);
        wakers.into_iter().for_each(core::task::Waker::wake);
        Ok(())
    }

    /// Serves a procedure: `handler` runs for each call, on a thread that polls. It must not wait;
    /// long work is for [`serve_later`](Self::serve_later).
    ///
    /// # Errors
    /// [`Error::BadName`].
    pub fn serve<A: Codec, R: Codec>(
        &self,
        procedure: &Procedure<A, R>,
        mut handler: impl FnMut(A, &Context) -> Result<R, Failure> + Send + 'static,
    ) -> Result<(), Error> {
        self.serve_bytes(procedure.name(), procedure.signature(), move |call| {
            let Some(arguments) = call.decode::<A>() else { return call.refuse(status::BAD_ARGUMENTS) };
            match handler(arguments, call.context()) {
                Ok(result) => result.with_bytes(|bytes| call.reply(Ok(bytes))),
                Err(failure) => call.reply(Err(&failure)),
            }
        })
    }

    /// As [`serve`](Self::serve), but the answer may be given later, and by another thread.
    ///
    /// # Errors
    /// [`Error::BadName`].
    pub fn serve_later<A: Codec, R: Codec>(&self, procedure: &Procedure<A, R>, mut handler: impl FnMut(A, Responder<R>) + Send + 'static) -> Result<(), Error> {
        self.serve_bytes(procedure.name(), procedure.signature(), move |call| {
            let Some(arguments) = call.decode::<A>() else { return call.refuse(status::BAD_ARGUMENTS) };
            if let Some(reply) = call.defer() {
                handler(arguments, Responder::new(reply));
            }
        })
    }

    /// As both, without types: of arguments and results as bytes.
    ///
    /// # Errors
    /// [`Error::BadName`].
    pub fn serve_bytes(&self, name: &str, signature: Signature, handler: impl FnMut(&mut Incoming<'_, '_>) + Send + 'static) -> Result<(), Error> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(Error::BadName);
        }
        let entry = Entry::Here(Box::new(handler) as Function);
        let mut state = self.inner.state();
        if state.procedures.iter().any(|p| *p.name == *name && !matches!(p.entry, Entry::Free)) {
            return Err(Error::BadName);
        }
        match state.procedures.iter_mut().find(|p| *p.name == *name && p.signature == signature) {
            Some(served) => served.entry = entry,
            None => state.procedures.push(Served { name: name.into(), signature, entry }),
        }
        Ok(())
    }

    /// Serves a procedure no more: calls of it end with [`CallError::UnknownProcedure`].
    ///
    /// # Errors
    /// [`Error::BadName`]: it is not served.
    pub fn withdraw(&self, name: &str) -> Result<(), Error> {
        let mut state = self.inner.state();
        let served = state.procedures.iter_mut().find(|p| *p.name == *name && !matches!(p.entry, Entry::Free)).ok_or(Error::BadName)?;
        let old = core::mem::replace(&mut served.entry, Entry::Free);
        drop(state);
        drop(old); // With no lock held: it may own anything.
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Functions of the program are dropped with no lock held: they may own anything.
        let procedures = core::mem::take(&mut self.inner.state().procedures);
        drop(procedures);
        let endpoint = self.inner.state().endpoint;
        // Within a handler of this node it goes with the bundle.
        let _ = self.bundle.destroy_endpoint(endpoint);
    }
}

fn set_handlers(bundle: &Bundle, endpoint: EndpointId, inner: &Arc<Inner>) -> Result<(), Error> {
    type OnMessage = fn(&Arc<Inner>, &mut bellwire_am::Message<'_>);
    let handlers: [(u8, OnMessage); 8] = [
        (wire::HELLO, serve::hello),
        (wire::CALL, serve::call),
        (wire::CALL_NAMED, serve::call_named),
        (wire::OPEN, serve::open),
        (wire::PART, serve::part),
        (wire::CANCEL, serve::cancel),
        (wire::RESULT, result::result),
        (wire::LATER, result::later),
    ];
    for (index, handler) in handlers {
        let inner = Arc::clone(inner);
        bundle.set_handler(endpoint, index, move |message| handler(&inner, message))?;
    }
    let [on_return, on_departure] = [(); 2].map(|()| Arc::clone(inner));
    bundle.set_error_handler(endpoint, move |returned| result::returned(&on_return, returned))?;
    bundle.set_departure_handler(endpoint, move |departed| result::departed(&on_departure, departed))?;
    Ok(())
}
