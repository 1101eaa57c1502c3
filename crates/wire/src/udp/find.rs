// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding a NIC on another host: from an address and a discriminator to the UDP port of the
//! process that waits there.
//!
//! ```text
//!   asker                          the host asked                                  the process that waits
//!   FIND { nonce, name }  ------>  directory (one process for each address, port 7118)
//!                                    connects to the abstract socket of that name --->  accepts, says its UDP port
//!                         <------  FOUND { nonce, port or none }
//! ```
//!
//! Every NIC wants to be the directory of its address; the first gets the port. The others hold a
//! connection to the directory's abstract socket; its end tells them that the place is free. So
//! nothing is registered and nothing goes stale: the waits are known from the listening sockets,
//! and both end with their process. Addresses with a port need no directory: the port is the NIC's.
//!
//! A wait belongs to a user: it listens under a name with the user's id, which counts only if a
//! process of that user answers (`users.rs`). Beside it, it listens under a name without, which the
//! first user to come has, as with a TCP port: that one is for questions from other hosts. FOUND
//! says whose it is. For an address of this host no directory is asked: the asker looks for the
//! names itself (`find/here.rs`), so no process of another user can answer for it.
//!
//! Of two peers that name each other each waits under its own name for the other and looks for the
//! other; what both find becomes one session.
//!
//! Nobody is believed: FOUND is taken only with the nonce of an open question, from the host that
//! was asked; answers are no longer than questions; what a directory does for strangers is bounded.
//! A lying host can only say where on *its* address to look.
//!
//! With keys, questions and answers are sealed, and no others are followed; a directory says that
//! it has no key, or another one, which ends a question only when its time is over. The process
//! that answers for an address needs the keys that its peers have: it is one of this host's.
//!
//! Here: waiting and asking. What the directory of an address does: `find/directory.rs`.

mod directory;
mod here;

use super::packet::{self, Find, Found, NoKey};
use crate::address::NetAddress;
use crate::time::{Duration, Instant};
use crate::udp::UdpConfig;
use crate::udp::find::directory::{Asked, Place};
use crate::udp::find::here::{Here, is_of_this_host};
use crate::users::{Allow, OwnedName};
use crate::{LinkFailure, Rendezvous, names};
use bellwire_memory::{MemoryError, fd_passing};
use bellwire_proto::seal::Keys;
use bellwire_proto::{Purpose, Stream};
use rand_core::Rng;
use rustix::event::{PollFd, PollFlags, epoll, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::sync::Arc;

/// The directory's UDP port, unless configured.
pub const DIRECTORY_PORT: u16 = 7118;
/// A question is repeated after this, and given up after so many.
const FIND_PERIOD: Duration = Duration::from_millis(20);
const FIND_TRIES: u32 = 5;
/// A peer that was not there is asked for again after this: the one that comes later finds the
/// other at once, so this is for questions that were lost or crossed.
const PATIENCE: Duration = Duration::from_millis(50);
/// A name that another user had first is tried again after this.
const SHARED_PERIOD: Duration = Duration::from_millis(500);
/// Datagrams and connections taken per look, so that strangers do not keep us here.
const PER_LOOK: usize = 64;

const DIRECTORY: u64 = 1 << 56;
const SUCCESSION: u64 = 2 << 56;
const HOLDER: u64 = 3 << 56;
const WAIT: u64 = 4 << 56;
const ASKED: u64 = 5 << 56;
const HERE: u64 = 6 << 56;
const KIND_MASK: u64 = 0xff << 56;

/// Somebody of this NIC waits to be found.
#[derive(Debug)]
struct Waiting {
    /// Under its user's name.
    listener: OwnedFd,
    /// Under the name that the first user to come has; `None`: another user has it.
    shared: Option<OwnedFd>,
    name: u128,
    users: u32,
}

/// Our question.
#[derive(Debug)]
struct Question {
    to: SocketAddr,
    find: Find,
    /// As it travels.
    bytes: Vec<u8>,
    /// A directory does not answer it, it says.
    refused: Option<NoKey>,
    tries: u32,
    next_at: Instant,
    /// Of two peers: asked again until it is cancelled, for the other may come at any time.
    patient: bool,
}

/// One NIC's part in finding and being found.
#[derive(Debug)]
pub(super) struct Finder {
    epoll: OwnedFd,
    own: SocketAddr,
    user: u32,
    allow: Allow,
    directory_port: u16,
    place: Place,
    waits: BTreeMap<u64, Waiting>,
    asked: BTreeMap<u64, Asked>,
    /// Names of other users are tried again then.
    shared_at: Instant,
    /// Questions about addresses of this host are put to the directory, too: tests of the
    /// directory.
    asks_directory: bool,
    /// Questions to processes of this host, by number.
    here: BTreeMap<u64, Here>,
    /// By request.
    questions: BTreeMap<u64, Question>,
    /// The wait that a request of two peers keeps, by request.
    mutual: BTreeMap<u64, u128>,
    found: VecDeque<(u64, Result<SocketAddr, LinkFailure>)>,
    next: u64,
    next_timeout: Instant,
    random: Stream,
    keys: Option<Arc<Keys>>,
    seals: Stream,
    /// Datagrams that were none of ours.
    pub(super) malformed: u64,
}

impl Finder {
    /// For a NIC whose data socket is bound to `own`.
    pub(super) fn new(own: SocketAddr, config: &UdpConfig, now: Instant) -> Result<Self, MemoryError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| MemoryError::os("epoll_create1", e))?;
        let mut finder = Self {
            epoll,
            own,
            user: rustix::process::geteuid().as_raw(),
            allow: config.allow.clone(),
            directory_port: config.directory_port,
            place: Place::Vacant { retry_at: Instant::NEVER },
            waits: BTreeMap::new(),
            asked: BTreeMap::new(),
            shared_at: Instant::NEVER,
            asks_directory: false,
            here: BTreeMap::new(),
            questions: BTreeMap::new(),
            mutual: BTreeMap::new(),
            found: VecDeque::new(),
            next: 1,
            next_timeout: Instant::NEVER,
            random: config.seed.stream(Purpose::Questions),
            keys: config.keys.clone(),
            seals: config.seed.stream(Purpose::Datagrams),
            malformed: 0,
        };
        finder.take_place(now);
        Ok(finder)
    }

    /// Readable when [`handle_ready`](Self::handle_ready) has something to do.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    pub(super) fn next_timeout(&self) -> Instant {
        self.next_timeout
    }

    /// The outcome of a request.
    pub(super) fn poll_found(&mut self) -> Option<(u64, Result<SocketAddr, LinkFailure>)> {
        self.found.pop_front()
    }

    /// Whether somebody may look for this NIC, or it looks for somebody.
    pub(super) fn is_busy(&self) -> bool {
        !self.waits.is_empty() || self.is_asking()
    }

    /// Whether it looks for somebody.
    pub(super) fn is_asking(&self) -> bool {
        !self.questions.is_empty() || !self.here.is_empty() || !self.found.is_empty()
    }

    // ---- waiting

    /// Waits to be found under `local`. `false`: another process of this user does.
    pub(super) fn listen(&mut self, now: Instant, local: &NetAddress) -> bool {
        let ready = self.wait_under(now, names::hash_of(&[local]));
        self.seek_place(now);
        ready
    }

    pub(super) fn unlisten(&mut self, local: &NetAddress) {
        self.wait_no_more(names::hash_of(&[local]));
    }

    fn wait_under(&mut self, now: Instant, name: u128) -> bool {
        if let Some(w) = self.waits.values_mut().find(|w| w.name == name) {
            w.users += 1;
            return true;
        }
        let Ok(listener) = name_of_wait(name).claim(self.user) else { return false };
        let number = self.number();
        if self.watch(listener.as_fd(), WAIT | number).is_err() {
            return false;
        }
        let shared = self.share(number, name);
        if shared.is_none() {
            self.shared_at = self.shared_at.min(now + SHARED_PERIOD);
            self.note_timeouts();
        }
        self.waits.insert(number, Waiting { listener, shared, name, users: 1 });
        true
    }

    /// Listens under the name that the first user to come has.
    fn share(&self, number: u64, name: u128) -> Option<OwnedFd> {
        fd_passing::listen_abstract(&shared_name_of_wait(name)).ok().filter(|s| self.watch(s.as_fd(), WAIT | number).is_ok())
    }

    /// Tries again for the names that other users had.
    fn share_again(&mut self, now: Instant) {
        let without: Vec<(u64, u128)> = self.waits.iter().filter(|(_, w)| w.shared.is_none()).map(|(n, w)| (*n, w.name)).collect();
        self.shared_at = Instant::NEVER;
        for (number, name) in without {
            let shared = self.share(number, name);
            if shared.is_none() {
                self.shared_at = now + SHARED_PERIOD;
            }
            if let Some(w) = self.waits.get_mut(&number) {
                w.shared = shared;
            }
        }
    }

    fn wait_no_more(&mut self, name: u128) {
        let Some((number, w)) = self.waits.iter_mut().find(|(_, w)| w.name == name) else { return };
        w.users -= 1;
        if w.users == 0 {
            let number = *number;
            if let Some(w) = self.waits.remove(&number) {
                self.unwatch(w.listener.as_fd());
                w.shared.iter().for_each(|s| self.unwatch(s.as_fd()));
            }
        }
    }

    // ---- asking

    /// Looks for the NIC at `remote`; answered by [`poll_found`](Self::poll_found).
    pub(super) fn locate(&mut self, now: Instant, socket: &UdpSocket, request: u64, how: Rendezvous, local: &NetAddress, remote: &NetAddress) {
        let Some((ip, port)) = ip_and_port(remote.host()) else { return self.answer(request, Err(LinkFailure::NotReachable)) };
        if ip.is_ipv4() != self.own.is_ipv4() {
            return self.answer(request, Err(LinkFailure::NotReachable));
        }
        let is_here = !self.asks_directory && is_of_this_host(self.own, ip);
        // On this host it is known whether somebody waits at a port, and whose process that is. A
        // NIC behind a port that this host passes on is at another IP address than this one.
        if let Some(port) = port
            && !(is_here && how == Rendezvous::Client && (ip == self.own.ip() || self.knows_here(how, local, remote)))
        {
            return self.answer(request, Ok(on_link_of(self.own, ip, port)));
        }
        let name = match how {
            Rendezvous::Client => names::hash_of(&[remote]),
            Rendezvous::Peer => {
                let own = names::hash_of(&[local, remote]);
                // Taken by another process with the same two addresses: then that one is found, and
                // we may still find.
                if self.wait_under(now, own) {
                    self.mutual.insert(request, own);
                }
                self.seek_place(now);
                names::hash_of(&[remote, local])
            }
        };
        let find = Find { nonce: self.next_nonce(), name };
        let patient = how == Rendezvous::Peer;
        if is_here {
            return self.ask_here(now, request, ip, name, patient);
        }
        let bytes = match &self.keys {
            None => find.store().to_vec(),
            Some(keys) => match packet::seal_find(keys, &mut self.seals, ip, find) {
                Some(bytes) => bytes,
                None => return self.answer(request, Err(LinkFailure::KeyUnknown)),
            },
        };
        let to = on_link_of(self.own, ip, self.directory_port);
        let mut question = Question { to, find, bytes, refused: None, tries: 0, next_at: now, patient };
        if ask(&mut question, socket, now) {
            self.questions.insert(request, question);
            self.note_timeouts();
        } else {
            self.answer(request, Err(LinkFailure::NotReachable));
        }
    }

    /// By which the answer to the next question is known.
    pub(super) fn next_nonce(&mut self) -> u64 {
        self.random.next_u64()
    }

    /// The answer is no longer wanted.
    pub(super) fn cancel(&mut self, request: u64) {
        self.questions.remove(&request);
        self.forget_here(request);
        self.found.retain(|(r, _)| *r != request);
        if let Some(name) = self.mutual.remove(&request) {
            self.wait_no_more(name);
        }
        self.note_timeouts();
    }

    fn answer(&mut self, request: u64, answer: Result<SocketAddr, LinkFailure>) {
        self.questions.remove(&request);
        if answer.is_err()
            && let Some(name) = self.mutual.remove(&request)
        {
            self.wait_no_more(name);
        }
        self.found.push_back((request, answer));
        self.note_timeouts();
    }

    /// A datagram of [`packet`] that came to the data socket.
    pub(super) fn handle_packet(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        let said = self.questions.iter_mut().filter(|(_, q)| q.to == from).find_map(|(r, q)| Some((packet::load_no_key(&q.bytes, bytes)?, *r, q)));
        if let Some((why, request, question)) = said {
            question.refused = Some(why);
            // Without a key there is no answer that could still come.
            if self.keys.is_none() && why == NoKey::Wanted {
                self.answer(request, Err(why.failure()));
            }
            return;
        }
        let found = match &self.keys {
            None => Found::load(bytes),
            Some(keys) => packet::open_found(keys, from.ip(), bytes),
        };
        let Some(found) = found else {
            self.malformed += 1;
            return;
        };
        let open = self.questions.iter().find(|(_, q)| q.find == Find { nonce: found.nonce, name: found.name } && q.to == from);
        let Some(request) = open.map(|(r, _)| *r) else { return };
        if found.port == 0
            && let Some(q) = self.questions.get_mut(&request).filter(|q| q.patient)
        {
            (q.tries, q.next_at) = (0, now + PATIENCE);
            return self.note_timeouts();
        }
        let answer = if found.port == 0 { Err(LinkFailure::NobodyThere) } else { Ok(on_link_of(self.own, from.ip(), found.port)) };
        self.answer(request, answer);
    }

    // ---- time, and what the sockets say

    pub(super) fn handle_timeout(&mut self, now: Instant, socket: &UdpSocket) {
        if self.next_timeout > now {
            return;
        }
        let due: Vec<u64> = self.questions.iter().filter(|(_, q)| q.next_at <= now).map(|(r, _)| *r).collect();
        for request in due {
            let Some(q) = self.questions.get_mut(&request) else { continue };
            if q.tries >= FIND_TRIES && (!q.patient || q.refused.is_some()) {
                let why = q.refused.map_or(LinkFailure::NobodyThere, NoKey::failure);
                self.answer(request, Err(why));
            } else if !ask(q, socket, now) {
                self.answer(request, Err(LinkFailure::NotReachable));
            }
        }
        let late: Vec<u64> = self.asked.iter().filter(|(_, a)| a.deadline <= now).map(|(n, _)| *n).collect();
        for number in late {
            self.reply(number, None);
        }
        self.here_is_late(now);
        if self.shared_at <= now {
            self.share_again(now);
        }
        if matches!(self.place, Place::Vacant { retry_at } if retry_at <= now) {
            self.take_place(now);
        }
        self.note_timeouts();
    }

    pub(super) fn handle_ready(&mut self, now: Instant) {
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; PER_LOOK];
        let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let n = epoll::wait(&self.epoll, &mut events[..], Some(&at_once)).unwrap_or(0);
        for e in &events[..n] {
            let data = e.data.u64();
            let number = data & !KIND_MASK;
            match data & KIND_MASK {
                DIRECTORY => self.take_questions(now),
                SUCCESSION => self.take_heirs(),
                HOLDER => self.take_place(now),
                WAIT => self.say_port(number),
                ASKED => self.pass_on(number),
                HERE => self.hear_here(now, number),
                _ => {}
            }
        }
        self.note_timeouts();
    }

    // ---- the directory

    // ---- small things

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn watch(&self, fd: BorrowedFd<'_>, data: u64) -> Result<(), MemoryError> {
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(data), epoll::EventFlags::IN).map_err(|e| MemoryError::os("epoll_ctl", e))
    }

    fn unwatch(&self, fd: BorrowedFd<'_>) {
        // Also needed before closing: a forked child may keep the description open.
        let _ = epoll::delete(&self.epoll, fd);
    }

    fn note_timeouts(&mut self) {
        let place = match self.place {
            // Nobody has to be found by those who do not wait.
            Place::Vacant { retry_at } if !self.waits.is_empty() => retry_at,
            _ => Instant::NEVER,
        };
        let questions = self.questions.values().map(|q| q.next_at);
        let asked = self.asked.values().map(|a| a.deadline);
        let here = self.here.values().map(|h| h.at);
        self.next_timeout = questions.chain(asked).chain(here).fold(place.min(self.shared_at), Instant::min);
    }
}

/// Whether there is something to be read, or the other end is closed.
fn is_readable(fd: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// Sends a question (again). `false`: there is no way to that host.
fn ask(q: &mut Question, socket: &UdpSocket, now: Instant) -> bool {
    q.tries += 1;
    q.next_at = now + if q.tries > FIND_TRIES { PATIENCE } else { FIND_PERIOD };
    // A directory of release 0.1.0 does not read the question as it is.
    let old = if q.tries.is_multiple_of(2) { packet::old_find(&q.bytes) } else { None };
    match socket.send_to(old.as_ref().unwrap_or(&q.bytes), q.to) {
        Err(e) => !matches!(e.kind(), io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable | io::ErrorKind::PermissionDenied),
        Ok(_) => true,
    }
}

/// The IP address and, if it has one, port of a NIC's host address: 4 or 16 bytes, and 2 more (in
/// network order) for a port.
pub(crate) fn ip_and_port(host: &[u8]) -> Option<(IpAddr, Option<u16>)> {
    let (ip, port) = match host.len() {
        4 | 16 => (host, None),
        6 | 18 => {
            let (ip, port) = host.split_at(host.len() - 2);
            (ip, Some(u16::from_be_bytes([port[0], port[1]])))
        }
        _ => return None,
    };
    let ip = match <[u8; 4]>::try_from(ip) {
        Ok(v4) => IpAddr::V4(Ipv4Addr::from(v4)),
        Err(_) => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(ip).ok()?)),
    };
    (port != Some(0)).then_some((ip, port))
}

/// A socket address as the NIC at `own` sends to it: addresses that mean something on one link only
/// are on its own link.
pub(crate) fn on_link_of(own: SocketAddr, ip: IpAddr, port: u16) -> SocketAddr {
    match (own, ip) {
        (SocketAddr::V6(own), IpAddr::V6(ip)) if ip.is_unicast_link_local() => SocketAddrV6::new(ip, port, 0, own.scope_id()).into(),
        _ => SocketAddr::new(ip, port),
    }
}

/// Where a NIC of that host address has its socket; port 0: anywhere.
pub fn socket_address(host: &[u8]) -> Option<SocketAddr> {
    ip_and_port(host).map(|(ip, port)| SocketAddr::new(ip, port.unwrap_or(0)))
}

/// The names of a wait: of its user, and of the first user to come.
/// Whether a process of another user of this host waits to be found under this address.
pub(crate) fn others_listen(address: &NetAddress) -> bool {
    !name_of_wait(names::hash_of(&[address])).others(rustix::process::geteuid().as_raw()).is_empty()
}

fn name_of_wait(name: u128) -> OwnedName {
    OwnedName { before: "bellwire/udp/".into(), after: format!("/{name:032x}") }
}

fn shared_name_of_wait(name: u128) -> Vec<u8> {
    format!("bellwire/udp/{name:032x}").into_bytes()
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
