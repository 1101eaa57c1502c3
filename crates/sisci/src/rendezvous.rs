// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a caller and the owner of an object find each other: abstract UNIX sockets, with the
//! kernel's word on who the other process is. Both sides refuse other users unless
//! `BELLWIRE_SISCI=users=all`; root may, as always.

use crate::error::Error;
use crate::message::{Answer, Hello, MESSAGE_MAX, Wish};
use crate::nodes::Nodes;
use crate::service::{Peer, Service, Source};
use bellwire_memory::MemoryError;
use bellwire_memory::fd_passing::{self, Socket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Callers of one name that have said nothing yet; more are turned away.
const SILENT_MAX: usize = 256;

/// The end of a wait; `None` never comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub fn after(timeout: Option<Duration>) -> Self {
        Self(timeout.map(|t| Instant::now() + t))
    }

    pub fn left(self) -> Option<Duration> {
        self.0.map(|d| d.saturating_duration_since(Instant::now()))
    }

    pub fn is_over(self) -> bool {
        self.left().is_some_and(|l| l.is_zero())
    }
}

/// Waits until a descriptor is ready; `false` if the time is over.
pub(crate) fn wait_for(fd: BorrowedFd<'_>, what: PollFlags, deadline: Deadline) -> bool {
    loop {
        let left = deadline.left().map(|l| Timespec { tv_sec: l.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: l.subsec_nanos().into() });
        match poll(&mut [PollFd::from_borrowed_fd(fd, what)], left.as_ref()) {
            Ok(0) if deadline.is_over() => return false,
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            _ => return true,
        }
    }
}

fn may(nodes: &Nodes, credentials: fd_passing::Credentials) -> bool {
    let own = rustix::process::geteuid().as_raw();
    nodes.all_users || credentials.uid == own || credentials.uid == 0
}

/// The owner of a name.
pub(crate) trait Owner: Send + Sync {
    /// A caller that may call, and has said what it wants.
    fn admit(&self, hello: Hello, caller: Peer);
}

/// A name that this process owns.
pub(crate) struct Listener {
    socket: Mutex<Option<OwnedFd>>,
    token: Mutex<u64>,
    shared: Arc<Shared>,
}

struct Shared {
    owner: Weak<dyn Owner>,
    service: Arc<Service>,
    nodes: Arc<Nodes>,
    silent: Mutex<usize>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listener {
    /// Takes the name, or says `used` if it is taken.
    pub fn open(name: &str, owner: Weak<dyn Owner>, service: &Arc<Service>, nodes: &Arc<Nodes>, used: Error) -> Result<Arc<Self>, Error> {
        let socket = fd_passing::listen_abstract(name.as_bytes()).map_err(|error| match error {
            MemoryError::AddressInUse => used,
            error => error.into(),
        })?;
        let shared = Arc::new(Shared { owner, service: Arc::clone(service), nodes: Arc::clone(nodes), silent: Mutex::new(0) });
        let listener = Arc::new(Self { socket: Mutex::new(Some(socket)), token: Mutex::new(0), shared });
        let socket = locked(&listener.socket);
        if let Some(fd) = socket.as_ref() {
            *locked(&listener.token) = service.add(fd.as_fd(), Arc::clone(&listener) as Arc<dyn Source>)?;
        }
        drop(socket);
        Ok(listener)
    }

    /// Gives the name back; it is free when this returns.
    pub fn close(&self) {
        if let Some(socket) = locked(&self.socket).take() {
            let token = *locked(&self.token);
            self.shared.service.remove(token, socket.as_fd());
        }
    }
}

impl Source for Listener {
    fn ready(&self, _: u64) {
        // Held, so that close() is exact.
        let socket = locked(&self.socket);
        let Some(socket) = socket.as_ref() else { return };
        loop {
            match fd_passing::accept(socket.as_fd()) {
                Ok(None) => return,
                Ok(Some(caller)) => Shared::take(&self.shared, caller),
                Err(_) => {
                    // No descriptors left: the caller stays in the backlog, and is told again.
                    std::thread::sleep(Duration::from_millis(5));
                    return;
                }
            }
        }
    }
}

impl Shared {
    fn take(self: &Arc<Self>, caller: Socket) {
        let Ok(credentials) = fd_passing::peer_credentials(caller.as_fd()) else { return };
        if !may(&self.nodes, credentials) {
            let refusal = Answer { result: Err(Error::ConnectionRefused), size: 0 };
            let _ = fd_passing::send(caller.as_fd(), &refusal.bytes(), &[]);
            return;
        }
        let mut silent = locked(&self.silent);
        if *silent >= SILENT_MAX {
            return;
        }
        let caller = Arc::new(Caller { peer: Mutex::new(Some(Peer::new(caller, credentials.pid))), shared: Arc::clone(self) });
        // Held, so that the caller is not served before it is watched.
        let peer = locked(&caller.peer);
        if let Some(peer) = peer.as_ref()
            && self.service.add_peer(peer, Arc::clone(&caller) as Arc<dyn Source>).is_ok()
        {
            *silent += 1;
        }
    }
}

/// A caller that has said nothing yet.
struct Caller {
    peer: Mutex<Option<Peer>>,
    shared: Arc<Shared>,
}

impl Source for Caller {
    fn ready(&self, token: u64) {
        let Some(peer) = locked(&self.peer).take() else { return };
        self.shared.service.remove_peer(token, &peer);
        *locked(&self.shared.silent) -= 1;
        let mut bytes = [0; MESSAGE_MAX];
        let Ok(received) = fd_passing::receive(peer.socket.as_fd(), &mut bytes) else { return };
        match (Hello::parse(&bytes[..received.len]), self.shared.owner.upgrade()) {
            (Ok(hello), Some(owner)) => owner.admit(hello, peer),
            (Err(error), _) => {
                let _ = fd_passing::send(peer.socket.as_fd(), &Answer { result: Err(error), size: 0 }.bytes(), &[]);
            }
            (Ok(_), None) => {}
        }
    }
}

/// A connection to an owner, with its answer and what came with it.
pub(crate) struct Called {
    pub peer: Peer,
    pub answer: Answer,
    pub fds: Vec<OwnedFd>,
}

/// Calls a name until its owner lets the caller in, refuses for good, or the time is over.
///
/// # Errors
/// `missing` if nobody has the name; [`Error::ConnectionRefused`]; [`Error::Timeout`] if the owner
/// does not answer; any other that the owner says.
pub(crate) fn call(name: &str, wish: Wish, nodes: &Nodes, deadline: Deadline, missing: Error) -> Result<Called, Error> {
    let mut pause = Duration::from_micros(100);
    loop {
        let why = match try_call(name, wish, nodes, deadline) {
            Ok(called) => match called.answer.result {
                Ok(()) => return Ok(called),
                // It may become available.
                Err(Error::NotAvailable) => Error::ConnectionRefused,
                Err(error) => return Err(error),
            },
            // Nobody, or an owner that is just leaving.
            Err(MemoryError::ConnectionRefused | MemoryError::PeerClosed) => missing,
            // A full backlog, or no answer in time.
            Err(MemoryError::WouldBlock) => Error::Timeout,
            Err(error) => return Err(error.into()),
        };
        if deadline.is_over() {
            return Err(why);
        }
        std::thread::sleep(deadline.left().map_or(pause, |l| l.min(pause)));
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

/// How long an owner may take to answer a caller that does not want to wait.
const ANSWER: Duration = Duration::from_secs(2);
/// How often a caller looks whether the owner still lives.
const LOOK: Duration = Duration::from_millis(50);

fn try_call(name: &str, wish: Wish, nodes: &Nodes, deadline: Deadline) -> Result<Called, MemoryError> {
    let socket = fd_passing::connect_abstract(name.as_bytes())?;
    let credentials = fd_passing::peer_credentials(socket.as_fd())?;
    if !may(nodes, credentials) {
        let answer = Answer { result: Err(Error::ConnectionRefused), size: 0 };
        return Ok(Called { peer: Peer::new(socket, 0), answer, fds: Vec::new() });
    }
    match fd_passing::send(socket.as_fd(), &Hello { wish, node: nodes.own }.bytes(), &[]) {
        // An owner that refuses strangers may have answered and closed already: its answer waits.
        Ok(()) | Err(MemoryError::PeerClosed) => {}
        Err(error) => return Err(error),
    }
    let until = match deadline.left() {
        Some(left) => Deadline::after(Some(left.max(ANSWER))),
        None => deadline,
    };
    let peer = Peer::new(socket, credentials.pid);
    // A forked child may keep a dead owner's socket open.
    while !wait_for(peer.socket.as_fd(), PollFlags::IN, Deadline::after(Some(until.left().map_or(LOOK, |l| l.min(LOOK))))) {
        if peer.is_dead() {
            return Err(MemoryError::PeerClosed);
        }
        if until.is_over() {
            return Err(MemoryError::WouldBlock);
        }
    }
    let mut bytes = [0; MESSAGE_MAX];
    let received = fd_passing::receive(peer.socket.as_fd(), &mut bytes)?;
    let answer = Answer::parse(&bytes[..received.len]).unwrap_or(Answer { result: Err(Error::InconsistentVersions), size: 0 });
    Ok(Called { peer, answer, fds: received.fds })
}
