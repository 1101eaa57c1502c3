// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library as a process has it: its objects, its thread, and what the environment says.
//!
//! It is made at the first start and lives as long as the process. A forked child has none of its
//! parent's: its calls say [`Error::NotInitialized`] until it starts its own.

use crate::auto_flush::{AutoFlush, Stores};
use crate::error::Error;
use crate::far::{Export, ExportId, Far, Handled, Said};
use crate::handles::{Object, Table};
use crate::message::{Answer, Hello, Wish, node_name};
use crate::mover::Mover;
use crate::nodes::{Here, ID_MAX, Nodes, Surroundings};
use crate::rendezvous::{Deadline, Listener, Owner, call};
use crate::service::{Peer, Service};
use bellwire_memory::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use bellwire_memory::fd_passing;
use rustix::fd::AsFd;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::time::Duration;

/// Processes of a node that can be seen by name.
const PROCESSES_SEEN: u32 = 16;

/// Everything of this process.
pub struct Library {
    starts: AtomicU32,
    /// Node ids.
    pub nodes: Arc<Nodes>,
    pub(crate) service: Arc<Service>,
    pub(crate) mover: Mover,
    objects: Table,
    far: Option<Far>,
    auto_flush: Mutex<Option<Arc<AutoFlush>>>,
    /// Maps of segments of other hosts.
    stores: Mutex<Vec<Weak<dyn Stores>>>,
    _presence: (Arc<Present>, Option<Arc<Listener>>),
}

/// A virtual device that a program has opened.
#[derive(Debug, Default)]
pub struct Descriptor {
    objects: AtomicUsize,
}

impl Descriptor {
    pub(crate) fn hold(&self) {
        // Relaxed, all three: a count; closing while another thread makes an object is a race of
        // the program's.
        self.objects.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn release(&self) {
        self.objects.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Object for Descriptor {
    const KIND: u8 = 1;
}

impl core::ops::Deref for Library {
    type Target = Table;
    fn deref(&self) -> &Table {
        &self.objects
    }
}

static CURRENT: AtomicPtr<Library> = AtomicPtr::new(core::ptr::null_mut());
static STARTING: Mutex<()> = Mutex::new(());

extern "C" fn in_child() {
    // Relaxed: the child of a fork has one thread.
    CURRENT.store(core::ptr::null_mut(), Ordering::Relaxed);
}

/// Starts the library; each start needs an end.
///
/// # Errors
/// [`Error::NoSpace`]; [`Error::IllegalParameter`] and a line on standard error for a variable
/// that means nothing.
pub fn initialize() -> Result<(), Error> {
    start(Library::new)
}

/// Starts the library; if it is the first start, `make` makes it.
pub(crate) fn start(make: impl FnOnce() -> Result<Library, Error>) -> Result<(), Error> {
    let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    // Acquire: pairs with the release below.
    let mut library = CURRENT.load(Ordering::Acquire);
    if library.is_null() {
        static FORKS: Once = Once::new();
        FORKS.call_once(|| {
            // SAFETY: a function of this library that stores a word, as a child may do. Without
            // memory for it a child has to start the library itself, as it should anyway.
            let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
        library = Box::into_raw(Box::new(make()?));
        // Release: pairs with the acquire in current().
        CURRENT.store(library, Ordering::Release);
    }
    // SAFETY: made by Box::into_raw, and never dropped.
    let library = unsafe { &*library };
    // Relaxed: a count under the lock.
    library.starts.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Ends a start. Objects that the program has not removed stay until the process ends.
pub fn terminate() {
    let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Ok(library) = current() {
        // Relaxed: a count under the lock.
        library.starts.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The library.
///
/// # Errors
/// [`Error::NotInitialized`].
pub fn current() -> Result<&'static Library, Error> {
    // Acquire: pairs with the release in initialize().
    let library = CURRENT.load(Ordering::Acquire);
    if library.is_null() {
        return Err(Error::NotInitialized);
    }
    // SAFETY: made by Box::into_raw, and never dropped.
    let library = unsafe { &*library };
    // Relaxed: a count; a call beside the last end may still go through.
    if library.starts.load(Ordering::Relaxed) == 0 { Err(Error::NotInitialized) } else { Ok(library) }
}

impl Library {
    fn new() -> Result<Self, Error> {
        let nodes = Nodes::from(&Here).map_err(|text| {
            eprintln!("bellwire: {text}");
            Error::IllegalParameter
        })?;
        if nodes.explain {
            eprintln!("bellwire: SISCI node {}, from {}; {} nodes in the table", nodes.own, nodes.reason, nodes.table.len());
        }
        // Without a network the host's own nodes are still there.
        let far = match Far::open(&nodes) {
            Err(Error::NoLinkAccess) => None,
            far => far?,
        };
        Self::of(nodes, far)
    }

    /// That of a process with these node ids, and a way to other hosts.
    pub(crate) fn of(nodes: Nodes, far: Option<Far>) -> Result<Self, Error> {
        let nodes = Arc::new(nodes);
        let service = Service::start()?;
        let present = Arc::new(Present);
        let owner: Weak<dyn Owner> = Arc::downgrade(&(Arc::clone(&present) as Arc<dyn Owner>));
        // Each process has one of the names; those that find none free are not seen by themselves.
        let listener = (0..PROCESSES_SEEN).find_map(|slot| Listener::open(&node_name(nodes.own, slot), owner.clone(), &service, &nodes, Error::Busy).ok());
        if let Some(far) = &far {
            far.be_seen(&(Arc::downgrade(&present) as Weak<dyn Export>));
        }
        Ok(Self {
            starts: AtomicU32::new(0),
            nodes,
            service,
            mover: Mover::default(),
            objects: Table::default(),
            far,
            auto_flush: Mutex::default(),
            stores: Mutex::default(),
            _presence: (present, listener),
        })
    }

    /// The way to other hosts, if there is one.
    pub(crate) fn far(&self) -> Option<&Far> {
        self.far.as_ref()
    }

    /// Ends what users of other hosts connect to, if there is such.
    pub(crate) fn withdraw(&self, export: Option<ExportId>) {
        if let (Some(far), Some(id)) = (&self.far, export) {
            far.withdraw(id);
        }
    }

    /// The way to a node, and the address of its host, if it is another one.
    pub(crate) fn far_of(&self, node: u32) -> Option<(&Far, IpAddr)> {
        let far = self.far.as_ref().filter(|_| node != self.nodes.own)?;
        let address = self.nodes.address_of(node)?;
        (self.nodes.apart || !Here.is_own(address)).then_some((far, address))
    }

    /// The threads by which stores to other hosts leave by themselves; starts them.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    pub(crate) fn auto_flush(&self) -> Result<Arc<AutoFlush>, Error> {
        let mut auto_flush = self.auto_flush.lock().unwrap_or_else(PoisonError::into_inner);
        let started = match auto_flush.take() {
            Some(started) => started,
            None => AutoFlush::start(self.nodes.finding, self.nodes.explain)?,
        };
        Ok(Arc::clone(auto_flush.insert(started)))
    }

    /// Flushes of all maps of other hosts' segments include this one.
    pub(crate) fn add_stores(&self, of: Weak<dyn Stores>) {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.retain(|s| s.strong_count() > 0);
        // Data leaves before what interrupts.
        stores.insert(0, of);
    }

    /// The same of one that interrupts.
    pub(crate) fn add_interrupting_stores(&self, of: Weak<dyn Stores>) {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner).push(of);
    }

    /// Sends what was stored through maps of other hosts' segments. Those whose peer is gone lose
    /// it; their sequences say so.
    pub fn flush_stores(&self) {
        let stores: Vec<_> = self.stores.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect();
        for of in stores {
            let _ = of.flush();
        }
    }

    /// Opens a descriptor.
    ///
    /// # Errors
    /// [`Error::ApiNoSpace`].
    pub fn open(&self) -> Result<u64, Error> {
        self.objects.insert::<Descriptor>(|_| Ok(Arc::default()))
    }

    /// Closes it.
    ///
    /// # Errors
    /// [`Error::Busy`] while it has objects.
    pub fn close(&self, handle: u64) -> Result<(), Error> {
        // Relaxed: see `Descriptor::hold`.
        if self.get::<Descriptor>(handle)?.objects.load(Ordering::Relaxed) > 0 {
            return Err(Error::Busy);
        }
        self.remove::<Descriptor>(handle).map(|_| ())
    }

    /// What it means that nobody of a node answers to a name: `nothing` if the node is this host,
    /// else that the node does not respond.
    ///
    /// # Errors
    /// [`Error::IllegalNodeId`], [`Error::NoSuchNodeId`].
    pub(crate) fn missing(&self, node: u32, nothing: Error) -> Result<Error, Error> {
        if node == 0 || node > ID_MAX {
            return Err(Error::IllegalNodeId);
        }
        if node == self.nodes.own {
            return Ok(nothing);
        }
        match self.probe(node) {
            Ok(()) => Ok(nothing),
            // It may come up.
            Err(Error::NodeNotResponding) => Ok(Error::NodeNotResponding),
            Err(error) => Err(error),
        }
    }

    /// Whether a node answers.
    ///
    /// # Errors
    /// [`Error::IllegalNodeId`]; [`Error::NoSuchNodeId`] if no address is known for it;
    /// [`Error::NodeNotResponding`].
    pub fn probe(&self, node: u32) -> Result<(), Error> {
        if node == 0 || node > ID_MAX {
            return Err(Error::IllegalNodeId);
        }
        if let Some((far, host)) = self.far_of(node) {
            return far.probe(host, node);
        }
        let at_once = Deadline::after(Some(Duration::ZERO));
        let answers = |slot| call(&node_name(node, slot), Wish::Probe, &self.nodes, at_once, Error::NodeNotResponding).is_ok();
        if node == self.nodes.own || (0..PROCESSES_SEEN).any(answers) {
            return Ok(());
        }
        Err(if self.nodes.address_of(node).is_some() { Error::NodeNotResponding } else { Error::NoSuchNodeId })
    }

    /// The node of an address.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`] for what is no address; [`Error::NoSuchNodeId`].
    pub fn node_of(&self, address: &str) -> Result<u32, Error> {
        let address = address.parse().map_err(|_| Error::IllegalParameter)?;
        self.nodes.node_of(address, &Here).ok_or(Error::NoSuchNodeId)
    }
}

/// Answers those that ask whether the node is there.
struct Present;

impl Owner for Present {
    fn admit(&self, hello: Hello, caller: Peer) {
        let result = if hello.wish == Wish::Probe { Ok(()) } else { Err(Error::IllegalParameter) };
        let _ = fd_passing::send(caller.socket.as_fd(), &Answer { result, size: 0 }.bytes(), &[]);
    }
}

impl Export for Present {
    fn admit(&self, _: u32, _: u32) -> Result<(), Error> {
        Ok(())
    }

    fn hear(&self, _: u32, _: u32, said: Said<'_>) -> Handled {
        if matches!(said, Said::Is(_)) { Handled::Done } else { Handled::Nonsense }
    }
}
