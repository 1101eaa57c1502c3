// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remote interrupts: with nothing but the fact ([`LocalInterrupt`]), or with data
//! ([`DataInterrupt`]).
//!
//! An interrupt is a counter in memory that the owner shares with those that trigger it; the owner
//! sleeps on it in the kernel. A data interrupt is a message on the connection, so it is whole, in
//! order, and of a sender that the owner has let in.

use crate::error::Error;
use crate::events::{Action, Runner};
use crate::handles::Object;
use crate::library::{Descriptor, Library};
use crate::message::{Answer, Hello, MESSAGE_MAX, Wish, data_interrupt_name, interrupt_name};
use crate::rendezvous::{Deadline, Listener, Owner, call, wait_for};
use crate::service::{Peer, Source};
use crate::thread;
use bellwire_memory::MemoryError;
use bellwire_memory::atomic::{AtomicBool, AtomicU64, Ordering};
use bellwire_memory::counter::{Counter, CounterAdder, Taken};
use bellwire_memory::event::Bell;
use bellwire_memory::fd_passing::{self, Socket};
use rustix::event::{PollFlags, epoll};
use rustix::fd::{AsFd, OwnedFd};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// Owners of one shared number.
const SHARED_MAX: u32 = 8;
/// Numbers that are given out begin here; lower ones are for programs that choose.
const FIRST_NUMBER: u32 = 0x1_0000;
/// Numbers that are tried.
const NUMBERS_TRIED: u32 = 1 << 12;
/// Bytes that a data interrupt may have.
pub const DATA_MAX: usize = 4096;
/// Connections to an interrupt at a time.
const CALLERS_MAX: usize = 1 << 12;

/// What an interrupt is to be.
#[derive(Clone, Copy, Debug, Default)]
pub struct InterruptKind {
    /// The number, if the program chooses it.
    pub number: Option<u32>,
    /// Several interrupts may have the number; all are triggered.
    pub shared: bool,
    /// Interrupts are counted; else several before a wait are one.
    pub counts: bool,
}

/// What the program runs for an interrupt.
pub type InterruptCallback = Box<dyn FnMut() -> Action + Send>;
/// What the program runs for a data interrupt.
pub type DataCallback = Box<dyn FnMut(&[u8]) -> Action + Send>;

/// Numbers to try.
fn numbers(chosen: Option<u32>) -> impl Iterator<Item = u32> {
    let first = std::process::id().wrapping_mul(0x9E37_79B1) % 0x7000_0000;
    let free = (0..NUMBERS_TRIED).map(move |n| FIRST_NUMBER + (first + n) % 0x7000_0000);
    chosen.into_iter().chain(free.take(if chosen.is_some() { 0 } else { usize::MAX }))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(caller: &Peer, result: Result<(), Error>, memory: &[rustix::fd::BorrowedFd<'_>]) -> bool {
    fd_passing::send(caller.socket.as_fd(), &Answer { result, size: 0 }.bytes(), memory).is_ok()
}

/// An interrupt of this process.
pub struct LocalInterrupt {
    descriptor: Arc<Descriptor>,
    library: &'static Library,
    number: u32,
    counter: Arc<Counter>,
    listener: OnceLock<Arc<Listener>>,
    runner: OnceLock<Runner>,
    callers: Mutex<BTreeMap<u64, Arc<Peer>>>,
    me: Weak<Self>,
}

impl Object for LocalInterrupt {
    const KIND: u8 = 8;
}

impl LocalInterrupt {
    /// Creates an interrupt, and gives its handle and number.
    ///
    /// # Errors
    /// [`Error::InterruptUsed`]; [`Error::NoSpace`].
    pub fn create(
        library: &'static Library,
        descriptor: u64,
        kind: InterruptKind,
        callback: impl FnOnce(u64) -> Option<InterruptCallback>,
    ) -> Result<(u64, u32), Error> {
        let descriptor = library.get::<Descriptor>(descriptor)?;
        let counter = Arc::new(Counter::create(kind.counts)?);
        let mut number = 0;
        let handle = library.insert(|handle| {
            for candidate in numbers(kind.number) {
                number = candidate;
                let interrupt = Arc::new_cyclic(|me: &Weak<Self>| Self {
                    descriptor: Arc::clone(&descriptor),
                    library,
                    number,
                    counter: Arc::clone(&counter),
                    listener: OnceLock::new(),
                    runner: OnceLock::new(),
                    callers: Mutex::default(),
                    me: me.clone(),
                });
                match interrupt.listen(kind.shared) {
                    Ok(listener) => {
                        let _ = interrupt.listener.set(listener);
                    }
                    Err(Error::InterruptUsed) => continue,
                    Err(error) => return Err(error),
                }
                if let Some(mut callback) = callback(handle) {
                    let counter = Arc::clone(&counter);
                    let thread = thread::spawn(c"bellwire-call", move || while counter.wait(None) == Taken::One && callback() == Action::Continue {});
                    let thread = thread.inspect_err(|_| interrupt.stop_listening())?;
                    let _ = interrupt.runner.set(Runner::new(thread));
                }
                descriptor.hold();
                return Ok(interrupt);
            }
            Err(Error::InterruptUsed)
        })?;
        Ok((handle, number))
    }

    fn listen(&self, shared: bool) -> Result<Arc<Listener>, Error> {
        let node = self.library.nodes.own;
        let open = |slot| {
            Listener::open(
                &interrupt_name(node, self.number, slot),
                self.me.clone() as Weak<dyn Owner>,
                &self.library.service,
                &self.library.nodes,
                Error::InterruptUsed,
            )
        };
        let is_taken = |slot| fd_passing::connect_abstract(interrupt_name(node, self.number, slot).as_bytes()).is_ok();
        let listener = if shared {
            let free = (1..=SHARED_MAX).find_map(|slot| match open(slot) {
                Err(Error::InterruptUsed) => None,
                result => Some(result),
            });
            free.unwrap_or(Err(Error::InterruptUsed))?
        } else {
            open(0)?
        };
        // One that is alone and one that shares exclude each other.
        let others = if shared { 0..=0 } else { 1..=SHARED_MAX };
        if others.into_iter().any(is_taken) {
            listener.close();
            return Err(Error::InterruptUsed);
        }
        Ok(listener)
    }

    fn stop_listening(&self) {
        if let Some(listener) = self.listener.get() {
            listener.close();
        }
    }

    /// Waits for an interrupt.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::Cancelled`] if it is removed; [`Error::IllegalOperation`] if a
    /// callback takes them.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<(), Error> {
        if self.runner.get().is_some() {
            return Err(Error::IllegalOperation);
        }
        match self.counter.wait(timeout) {
            Taken::One => Ok(()),
            Taken::Timeout => Err(Error::Timeout),
            Taken::Closed => Err(Error::Cancelled),
        }
    }

    /// Removes it; those that are connected are told when they trigger it.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`] if there is none.
    pub fn remove(library: &'static Library, handle: u64) -> Result<(), Error> {
        let interrupt = library.remove::<LocalInterrupt>(handle)?;
        interrupt.stop_listening();
        for (token, caller) in core::mem::take(&mut *locked(&interrupt.callers)) {
            library.service.remove_peer(token, &caller);
            let _ = rustix::net::shutdown(&caller.socket, rustix::net::Shutdown::Both);
        }
        interrupt.counter.close();
        if let Some(runner) = interrupt.runner.get() {
            runner.join();
        }
        interrupt.descriptor.release();
        Ok(())
    }
}

impl Owner for LocalInterrupt {
    fn admit(&self, hello: Hello, caller: Peer) {
        let mut callers = locked(&self.callers);
        if hello.wish != Wish::Interrupt || callers.len() >= CALLERS_MAX {
            answer(&caller, Err(Error::ConnectionRefused), &[]);
            return;
        }
        let caller = Arc::new(caller);
        let source = Arc::new(CallerSource { interrupt: self.me.clone(), caller: Arc::clone(&caller) });
        let Ok(token) = self.library.service.add_peer(&caller, source) else {
            answer(&caller, Err(Error::NoSpace), &[]);
            return;
        };
        if answer(&caller, Ok(()), &[self.counter.fd()]) {
            callers.insert(token, caller);
        } else {
            self.library.service.remove_peer(token, &caller);
        }
    }
}

struct CallerSource {
    interrupt: Weak<LocalInterrupt>,
    caller: Arc<Peer>,
}

impl Source for CallerSource {
    fn ready(&self, token: u64) {
        let Some(interrupt) = self.interrupt.upgrade() else { return };
        let mut bytes = [0; MESSAGE_MAX];
        if matches!(fd_passing::receive(self.caller.socket.as_fd(), &mut bytes), Err(MemoryError::WouldBlock)) && !self.caller.is_dead() {
            return;
        }
        // It has left, or speaks where nothing is to be said.
        locked(&interrupt.callers).remove(&token);
        interrupt.library.service.remove_peer(token, &self.caller);
    }
}

struct Target {
    adder: CounterAdder,
    peer: Peer,
    token: AtomicU64,
    lost: AtomicBool,
}

struct TargetSource(Weak<Target>, &'static Library);

impl Source for TargetSource {
    fn ready(&self, token: u64) {
        let Some(target) = self.0.upgrade() else { return };
        let mut bytes = [0; MESSAGE_MAX];
        if matches!(fd_passing::receive(target.peer.socket.as_fd(), &mut bytes), Err(MemoryError::WouldBlock)) && !target.peer.is_dead() {
            return;
        }
        // Release: pairs with the acquire of trigger().
        target.lost.store(true, Ordering::Release);
        self.1.service.remove_peer(token, &target.peer);
    }
}

/// A connection to an interrupt, or to all that share its number.
pub struct RemoteInterrupt {
    descriptor: Arc<Descriptor>,
    targets: Vec<Arc<Target>>,
}

impl Object for RemoteInterrupt {
    const KIND: u8 = 9;
}

impl RemoteInterrupt {
    /// Connects, and gives the handle.
    ///
    /// # Errors
    /// [`Error::NoSuchInterrupt`] after the time; [`Error::ConnectionRefused`];
    /// [`Error::NoSuchNodeId`], [`Error::NodeNotResponding`].
    pub fn connect(library: &'static Library, descriptor: u64, node: u32, number: u32, timeout: Option<Duration>) -> Result<u64, Error> {
        let descriptor = library.get::<Descriptor>(descriptor)?;
        let missing = library.missing(node, Error::NoSuchInterrupt)?;
        let deadline = Deadline::after(timeout);
        let mut targets = Vec::new();
        let mut pause = Duration::from_micros(100);
        let at_once = Deadline::after(Some(Duration::ZERO));
        loop {
            for slot in 0..=SHARED_MAX {
                match call(&interrupt_name(node, number, slot), Wish::Interrupt, &library.nodes, at_once, missing) {
                    Ok(mut called) => {
                        let adder = CounterAdder::map(called.fds.pop().ok_or(Error::InconsistentVersions)?)?;
                        let target = Arc::new(Target { adder, peer: called.peer, token: AtomicU64::new(0), lost: AtomicBool::new(false) });
                        let token = library.service.add_peer(&target.peer, Arc::new(TargetSource(Arc::downgrade(&target), library)))?;
                        // Relaxed: published with the handle.
                        target.token.store(token, Ordering::Relaxed);
                        targets.push(target);
                    }
                    Err(error) if error == missing || error == Error::Timeout => {}
                    Err(error) => return Err(error),
                }
            }
            if !targets.is_empty() {
                break;
            }
            if deadline.is_over() {
                return Err(missing);
            }
            std::thread::sleep(deadline.left().map_or(pause, |l| l.min(pause)));
            pause = (pause * 2).min(Duration::from_millis(10));
        }
        descriptor.hold();
        library.insert(|_| Ok(Arc::new(Self { descriptor, targets })))
    }

    /// Triggers it. The owner sees earlier stores when it wakes.
    ///
    /// # Errors
    /// [`Error::NotConnected`] if the owner is gone.
    pub fn trigger(&self) -> Result<(), Error> {
        let mut told = false;
        for target in &self.targets {
            // Acquire: pairs with the release of the source; the flag alone matters.
            if !target.lost.load(Ordering::Acquire) {
                target.adder.add()?;
                told = true;
            }
        }
        if told { Ok(()) } else { Err(Error::NotConnected) }
    }

    /// Ends the connection.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`] if there is none.
    pub fn disconnect(library: &'static Library, handle: u64) -> Result<(), Error> {
        let interrupt = library.remove::<RemoteInterrupt>(handle)?;
        for target in &interrupt.targets {
            // Relaxed: published with the handle.
            library.service.remove_peer(target.token.load(Ordering::Relaxed), &target.peer);
        }
        interrupt.descriptor.release();
        Ok(())
    }
}

/// A data interrupt of this process.
pub struct DataInterrupt {
    descriptor: Arc<Descriptor>,
    inbox: Arc<Inbox>,
    library: &'static Library,
    listener: OnceLock<Arc<Listener>>,
    runner: OnceLock<Runner>,
}

/// The connections of those that send, behind one descriptor to sleep on.
struct Inbox {
    set: OwnedFd,
    closed: Bell,
    senders: Mutex<(u64, BTreeMap<u64, Socket>)>,
}

impl Inbox {
    fn create() -> Result<Self, Error> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|_| Error::NoSpace)?;
        let closed = Bell::create()?;
        epoll::add(&set, &closed, epoll::EventData::new_u64(0), epoll::EventFlags::IN).map_err(|_| Error::NoSpace)?;
        Ok(Self { set, closed, senders: Mutex::new((1, BTreeMap::new())) })
    }

    fn add(&self, socket: Socket) -> Result<(), Error> {
        let mut senders = locked(&self.senders);
        if senders.1.len() >= CALLERS_MAX {
            return Err(Error::NoSpace);
        }
        let name = senders.0;
        epoll::add(&self.set, &socket, epoll::EventData::new_u64(name), epoll::EventFlags::IN).map_err(|_| Error::NoSpace)?;
        senders.0 += 1;
        senders.1.insert(name, socket);
        Ok(())
    }

    /// The next message, of any sender; senders take turns.
    fn wait(&self, deadline: Deadline, buffer: &mut [u8; DATA_MAX]) -> Result<usize, Error> {
        let none = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            let mut events = [none; 1];
            let n = epoll::wait(&self.set, &mut events, Some(&at_once)).unwrap_or(0);
            if n == 0 {
                if !wait_for(self.set.as_fd(), PollFlags::IN, deadline) {
                    return Err(Error::Timeout);
                }
                continue;
            }
            let name = events[0].data.u64();
            if name == 0 {
                return Err(Error::Cancelled);
            }
            let mut senders = locked(&self.senders);
            let Some(socket) = senders.1.get(&name) else { continue };
            match fd_passing::receive(socket.as_fd(), buffer) {
                Ok(received) => return Ok(received.len),
                Err(MemoryError::WouldBlock) => {}
                // It has left, or sends what it may not.
                Err(_) => {
                    if let Some(socket) = senders.1.remove(&name) {
                        let _ = epoll::delete(&self.set, &socket);
                    }
                }
            }
        }
    }
}

impl Owner for Inbox {
    fn admit(&self, hello: Hello, caller: Peer) {
        if hello.wish != Wish::DataInterrupt {
            answer(&caller, Err(Error::ConnectionRefused), &[]);
            return;
        }
        // Answered first: the connection then belongs to those that wait.
        let result = if locked(&self.senders).1.len() >= CALLERS_MAX { Err(Error::NoSpace) } else { Ok(()) };
        if answer(&caller, result, &[]) && result.is_ok() {
            let _ = self.add(caller.socket);
        }
    }
}

impl Object for DataInterrupt {
    const KIND: u8 = 10;
}

impl DataInterrupt {
    /// Creates a data interrupt, and gives its handle and number.
    ///
    /// # Errors
    /// [`Error::InterruptUsed`]; [`Error::NoSpace`].
    pub fn create(
        library: &'static Library,
        descriptor: u64,
        number: Option<u32>,
        callback: impl FnOnce(u64) -> Option<DataCallback>,
    ) -> Result<(u64, u32), Error> {
        let descriptor = library.get::<Descriptor>(descriptor)?;
        let inbox = Arc::new(Inbox::create()?);
        let owner: Weak<dyn Owner> = Arc::downgrade(&(Arc::clone(&inbox) as Arc<dyn Owner>));
        let mut found = None;
        for candidate in numbers(number) {
            let name = data_interrupt_name(library.nodes.own, candidate);
            match Listener::open(&name, owner.clone(), &library.service, &library.nodes, Error::InterruptUsed) {
                Ok(listener) => {
                    found = Some((listener, candidate));
                    break;
                }
                Err(Error::InterruptUsed) => {}
                Err(error) => return Err(error),
            }
        }
        let (listener, number) = found.ok_or(Error::InterruptUsed)?;
        let handle = library.insert(|handle| {
            let runner = OnceLock::new();
            if let Some(mut callback) = callback(handle) {
                let inbox = Arc::clone(&inbox);
                let thread = thread::spawn(c"bellwire-call", move || {
                    let mut buffer = [0; DATA_MAX];
                    while let Ok(len) = inbox.wait(Deadline::after(None), &mut buffer) {
                        if callback(&buffer[..len]) == Action::Cancel {
                            break;
                        }
                    }
                });
                let _ = runner.set(Runner::new(thread?));
            }
            descriptor.hold();
            let at = OnceLock::new();
            let _ = at.set(Arc::clone(&listener));
            Ok(Arc::new(Self { descriptor, inbox, library, listener: at, runner }))
        });
        Ok((handle.inspect_err(|_| listener.close())?, number))
    }

    /// Waits for the next one; copies its data into `buffer`, and says how many bytes there are.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::Cancelled`] if it is removed; [`Error::IllegalOperation`] if a
    /// callback takes them; [`Error::Overflow`] if the buffer was too short: the beginning is in
    /// it, the rest is gone.
    pub fn wait(&self, buffer: SharedBytesOut<'_>, timeout: Option<Duration>) -> Result<usize, (Error, usize)> {
        if self.runner.get().is_some() {
            return Err((Error::IllegalOperation, 0));
        }
        let mut data = [0; DATA_MAX];
        let len = self.inbox.wait(Deadline::after(timeout), &mut data).map_err(|error| (error, 0))?;
        let fits = len.min(buffer.len());
        buffer.copy_in(0, &data[..fits]).map_err(|error| (error.into(), 0))?;
        if fits < len { Err((Error::Overflow, len)) } else { Ok(len) }
    }

    /// Removes it; those that are connected are told when they trigger it.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`] if there is none.
    pub fn remove(library: &'static Library, handle: u64) -> Result<(), Error> {
        let interrupt = library.remove::<DataInterrupt>(handle)?;
        if let Some(listener) = interrupt.listener.get() {
            listener.close();
        }
        let _ = interrupt.inbox.closed.ring();
        if let Some(runner) = interrupt.runner.get() {
            runner.join();
        }
        for socket in locked(&interrupt.inbox.senders).1.values() {
            let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
        }
        interrupt.descriptor.release();
        debug_assert!(core::ptr::eq(interrupt.library, library), "a process has one library");
        Ok(())
    }
}

/// Where the data goes.
pub type SharedBytesOut<'a> = bellwire_memory::bytes::SharedBytes<'a>;

/// A connection to a data interrupt.
pub struct RemoteDataInterrupt {
    descriptor: Arc<Descriptor>,
    peer: Peer,
}

impl Object for RemoteDataInterrupt {
    const KIND: u8 = 11;
}

impl RemoteDataInterrupt {
    /// Connects, and gives the handle.
    ///
    /// # Errors
    /// As [`RemoteInterrupt::connect`].
    pub fn connect(library: &'static Library, descriptor: u64, node: u32, number: u32, timeout: Option<Duration>) -> Result<u64, Error> {
        let descriptor = library.get::<Descriptor>(descriptor)?;
        let missing = library.missing(node, Error::NoSuchInterrupt)?;
        let called = call(&data_interrupt_name(node, number), Wish::DataInterrupt, &library.nodes, Deadline::after(timeout), missing)?;
        descriptor.hold();
        library.insert(|_| Ok(Arc::new(Self { descriptor, peer: called.peer })))
    }

    /// Sends up to [`DATA_MAX`] bytes.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for none or more; [`Error::WouldBlock`] if the owner has not taken
    /// those before; [`Error::NotConnected`] if it is gone.
    pub fn trigger(&self, data: bellwire_memory::bytes::SharedBytes<'_>) -> Result<(), Error> {
        if data.is_empty() || data.len() > DATA_MAX {
            return Err(Error::OutOfRange);
        }
        let mut copy = [0; DATA_MAX];
        data.copy_out(0, &mut copy[..data.len()])?;
        if self.peer.is_dead() {
            return Err(Error::NotConnected);
        }
        fd_passing::send(self.peer.socket.as_fd(), &copy[..data.len()], &[]).map_err(|error| match error {
            MemoryError::WouldBlock => Error::WouldBlock,
            error => error.into(),
        })
    }

    /// Ends the connection.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`] if there is none.
    pub fn disconnect(library: &'static Library, handle: u64) -> Result<(), Error> {
        library.remove::<RemoteDataInterrupt>(handle).map(|i| i.descriptor.release())
    }
}
