// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data interrupts: messages of a connection, so they are whole, in order, and of a sender that the
//! owner has let in.

use crate::error::Error;
use crate::events::{Action, Runner};
use crate::far::{Export, ExportId, Handled, Name, Said, SessionId, What};
use crate::handles::Object;
use crate::interrupt::{CALLERS_MAX, answer, locked, numbers};
use crate::library::{Descriptor, Library};
use crate::message::{DATA_MAX, Hello, Wish, data_interrupt_name};
use crate::rendezvous::{Deadline, Listener, Owner, call, wait_for};
use crate::service::Peer;
use crate::thread;
use bellwire_memory::MemoryError;
use bellwire_memory::event::Bell;
use bellwire_memory::fd_passing::{self, Socket};
use rustix::event::{PollFlags, epoll};
use rustix::fd::{AsFd, OwnedFd};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

/// What the program runs for a data interrupt.
pub type DataCallback = Box<dyn FnMut(&[u8]) -> Action + Send>;

/// A data interrupt of this process.
pub struct DataInterrupt {
    descriptor: Arc<Descriptor>,
    inbox: Arc<Inbox>,
    library: &'static Library,
    listener: OnceLock<Arc<Listener>>,
    export: Option<ExportId>,
    runner: OnceLock<Runner>,
}

/// The name of [`Inbox::rung`] in the set; senders have higher ones.
const RUNG: u64 = 1;

/// The connections of those that send, behind one descriptor to sleep on.
struct Inbox {
    set: OwnedFd,
    closed: Bell,
    /// Rung while there is something of other hosts.
    rung: Bell,
    far: Mutex<VecDeque<(u32, Vec<u8>)>>,
    library: &'static Library,
    senders: Mutex<(u64, BTreeMap<u64, Socket>)>,
}

impl Inbox {
    fn create(library: &'static Library) -> Result<Self, Error> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|_| Error::NoSpace)?;
        let (closed, rung) = (Bell::create()?, Bell::create()?);
        epoll::add(&set, &closed, epoll::EventData::new_u64(0), epoll::EventFlags::IN).map_err(|_| Error::NoSpace)?;
        epoll::add(&set, &rung, epoll::EventData::new_u64(RUNG), epoll::EventFlags::IN).map_err(|_| Error::NoSpace)?;
        Ok(Self { set, closed, rung, far: Mutex::default(), library, senders: Mutex::new((RUNG + 1, BTreeMap::new())) })
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

    /// The next message of another host, and its user.
    fn next_far(&self) -> Option<(u32, Vec<u8>)> {
        let mut far = locked(&self.far);
        let next = far.pop_front();
        if far.is_empty() {
            let _ = self.rung.clear();
        }
        next
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
            if name == RUNG {
                let Some((user, data)) = self.next_far() else { continue };
                self.library.far().into_iter().for_each(|far| far.take(user));
                buffer[..data.len()].copy_from_slice(&data);
                return Ok(data.len());
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

impl Export for Inbox {
    fn admit(&self, _: u32, _: u32) -> Result<(), Error> {
        Ok(())
    }

    fn hear(&self, user: u32, _: u32, said: Said<'_>) -> Handled {
        match said {
            Said::Data(data) => {
                let mut far = locked(&self.far);
                far.push_back((user, data.to_vec()));
                let _ = self.rung.ring();
                Handled::Later
            }
            Said::Is(_) => Handled::Done,
            Said::Mapped(_) | Said::Trigger | Said::Flag(_) | Said::Store(..) => Handled::Nonsense,
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
        let inbox = Arc::new(Inbox::create(library)?);
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
        let name = Name { what: What::DataInterrupt, node: library.nodes.own, id: number, slot: 0 };
        let object = Arc::downgrade(&inbox) as Weak<dyn Export>;
        let export = library.far().map(|far| far.export(name, object, None)).transpose().inspect_err(|_| listener.close())?;
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
            Ok(Arc::new(Self { descriptor, inbox, library, listener: at, export, runner }))
        });
        let undo = |_: &Error| {
            listener.close();
            library.withdraw(export);
        };
        Ok((handle.inspect_err(undo)?, number))
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

    /// The object that users of other hosts connect to.
    pub(crate) fn as_export(&self) -> Weak<dyn Export> {
        Arc::downgrade(&self.inbox) as Weak<dyn Export>
    }

    /// Takes the next message of another host, without telling its user.
    pub(crate) fn next_far(&self) -> Option<(u32, Vec<u8>)> {
        self.inbox.next_far()
    }

    /// Removes it; those that are connected are told when they trigger it.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`] if the handle names none.
    pub fn remove(library: &'static Library, handle: u64) -> Result<(), Error> {
        let interrupt = library.remove::<DataInterrupt>(handle)?;
        if let Some(listener) = interrupt.listener.get() {
            listener.close();
        }
        library.withdraw(interrupt.export);
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

/// The way to a data interrupt.
enum Way {
    Here(Peer),
    Far(SessionId),
}

/// A connection to a data interrupt.
pub struct RemoteDataInterrupt {
    descriptor: Arc<Descriptor>,
    library: &'static Library,
    way: Way,
}

impl Object for RemoteDataInterrupt {
    const KIND: u8 = 11;
}

impl RemoteDataInterrupt {
    /// Connects, and gives the handle.
    ///
    /// # Errors
    /// As [`RemoteInterrupt::connect`](crate::RemoteInterrupt::connect).
    pub fn connect(library: &'static Library, descriptor: u64, node: u32, number: u32, timeout: Option<Duration>) -> Result<u64, Error> {
        let descriptor = library.get::<Descriptor>(descriptor)?;
        if let Some((far, host)) = library.far_of(node) {
            let name = Name { what: What::DataInterrupt, node, id: number, slot: 0 };
            let links = far.connect(host, &[name], Deadline::after(timeout), Error::NoSuchInterrupt)?;
            let id = links.first().ok_or(Error::System)?.id;
            descriptor.hold();
            let made = library.insert(|_| Ok(Arc::new(Self { descriptor, library, way: Way::Far(id) })));
            return made.inspect_err(|_| far.disconnect(id));
        }
        let missing = library.missing(node, Error::NoSuchInterrupt)?;
        let called = call(&data_interrupt_name(node, number), Wish::DataInterrupt, &library.nodes, Deadline::after(timeout), missing)?;
        descriptor.hold();
        library.insert(|_| Ok(Arc::new(Self { descriptor, library, way: Way::Here(called.peer) })))
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
        let peer = match &self.way {
            Way::Here(peer) => peer,
            Way::Far(id) => {
                self.library.flush_stores();
                return self.library.far().ok_or(Error::NotConnected)?.send(*id, &copy[..data.len()]);
            }
        };
        if peer.is_dead() {
            return Err(Error::NotConnected);
        }
        fd_passing::send(peer.socket.as_fd(), &copy[..data.len()], &[]).map_err(|error| match error {
            MemoryError::WouldBlock => Error::WouldBlock,
            error => error.into(),
        })
    }

    /// Ends the connection.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`] if the handle names none.
    pub fn disconnect(library: &'static Library, handle: u64) -> Result<(), Error> {
        let interrupt = library.remove::<RemoteDataInterrupt>(handle)?;
        if let (Way::Far(id), Some(far)) = (&interrupt.way, library.far()) {
            far.disconnect(*id);
        }
        interrupt.descriptor.release();
        Ok(())
    }
}
