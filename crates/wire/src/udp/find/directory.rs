// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directory of an address: getting its place, passing questions on to the NICs that wait on
//! this host, and telling the heirs when it goes.

use crate::time::{Duration, Instant};
use crate::udp::find::{ASKED, DIRECTORY, Finder, HOLDER, PER_LOOK, SUCCESSION, is_readable, on_link_of};
use crate::udp::packet::{self, Find, Found, NoKey};
use bellwire_memory::fd_passing::Socket;
use bellwire_memory::{MemoryError, fd_passing};
use rustix::event::epoll;
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Questions of strangers that a directory has open; beyond, the oldest is dropped.
pub(super) const ASKED_MAX: usize = 64;

/// How long a process that waits may take to say its port.
pub(super) const ASKED_TIME: Duration = Duration::from_millis(200);

/// Connections that a directory holds for those who would succeed it.
const HEIRS_MAX: usize = 1024;

/// The time after which a NIC that found neither the port nor its holder looks again.
const PLACE_PERIOD: Duration = Duration::from_millis(500);

/// The process that answers for our address.
#[derive(Debug)]
pub(super) enum Place {
    /// We do.
    Directory { socket: UdpSocket, succession: Option<OwnedFd>, heirs: Vec<Socket> },
    /// Somebody else, at the other end.
    Heir(#[allow(dead_code, reason = "held: its end is the news")] Socket),
    /// Nobody that we know of.
    Vacant { retry_at: Instant },
}

/// A stranger's question, passed on to the process that waits.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) socket: Socket,
    pub(super) from: SocketAddr,
    /// The user whose process is asked.
    pub(super) user: u32,
    pub(super) find: Find,
    /// It was asked as release 0.1.0 asks.
    pub(super) is_old: bool,
    pub(super) deadline: Instant,
}

impl Finder {
    /// A waiter wants a directory to be there.
    pub(super) fn seek_place(&mut self, now: Instant) {
        if matches!(self.place, Place::Vacant { .. }) {
            self.take_place(now);
            self.note_timeouts();
        }
    }

    /// Takes the directory's place, or stands behind who has it.
    pub(super) fn take_place(&mut self, now: Instant) {
        self.leave_place();
        let name = name_of_directory(self.own.ip(), self.directory_port);
        self.place = match UdpSocket::bind(on_link_of(self.own, self.own.ip(), self.directory_port)) {
            Ok(socket) => self.become_directory(socket, &name),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => match fd_passing::connect_abstract(&name) {
                Ok(holder) if self.watch(holder.as_fd(), HOLDER).is_ok() => Place::Heir(holder),
                _ => Place::Vacant { retry_at: now + PLACE_PERIOD },
            },
            Err(_) => Place::Vacant { retry_at: now + PLACE_PERIOD },
        };
    }

    fn become_directory(&self, socket: UdpSocket, name: &[u8]) -> Place {
        if socket.set_nonblocking(true).is_err() || self.watch(socket.as_fd(), DIRECTORY).is_err() {
            return Place::Vacant { retry_at: Instant::NEVER };
        }
        let succession = fd_passing::listen_abstract(name).ok().filter(|s| self.watch(s.as_fd(), SUCCESSION).is_ok());
        Place::Directory { socket, succession, heirs: Vec::new() }
    }

    fn leave_place(&mut self) {
        match core::mem::replace(&mut self.place, Place::Vacant { retry_at: Instant::NEVER }) {
            Place::Directory { socket, succession, heirs } => {
                self.unwatch(socket.as_fd());
                heirs.iter().for_each(|heir| self.unwatch(heir.as_fd()));
                succession.iter().for_each(|s| self.unwatch(s.as_fd()));
            }
            Place::Heir(holder) => self.unwatch(holder.as_fd()),
            Place::Vacant { .. } => {}
        }
    }

    pub(super) fn take_heirs(&mut self) {
        let Place::Directory { succession: Some(s), heirs, .. } = &mut self.place else { return };
        // An heir says nothing: an heir that can be read from has ended.
        heirs.retain(|heir| {
            let lives = !is_readable(heir);
            if !lives {
                // Also needed before closing: a forked child may keep the description open.
                let _ = epoll::delete(&self.epoll, heir);
            }
            lives
        });
        for _ in 0..PER_LOOK {
            match fd_passing::accept(s.as_fd()) {
                Ok(Some(heir)) if heirs.len() < HEIRS_MAX => {
                    let _ = epoll::add(&self.epoll, &heir, epoll::EventData::new_u64(SUCCESSION), epoll::EventFlags::IN);
                    heirs.push(heir);
                }
                // One too many looks again from time to time.
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    pub(super) fn take_questions(&mut self, now: Instant) {
        for _ in 0..PER_LOOK {
            let Place::Directory { socket, .. } = &self.place else { return };
            let mut bytes = [0; packet::LONGEST + 1];
            let Ok((n, from)) = socket.recv_from(&mut bytes) else { return };
            if let Some(find) = self.read_question(from, &bytes[..n]) {
                self.take_question(now, from, find, packet::is_old_find(&bytes[..n]));
            }
        }
    }

    /// What a question asks, if it may: with keys only sealed ones are answered.
    //= P-AUTH-11
    fn read_question(&mut self, from: SocketAddr, bytes: &[u8]) -> Option<Find> {
        let plain = Find::load(bytes);
        let is_sealed = packet::is_sealed_find(bytes);
        let refusal = match (&self.keys, plain, is_sealed) {
            (None, Some(find), _) => return Some(find),
            (Some(keys), _, true) => match packet::open_find(keys, from.ip(), bytes) {
                Some(find) => return Some(find),
                None => packet::store_no_key(bytes, NoKey::Other),
            },
            (None, None, true) => packet::store_no_key(bytes, NoKey::Missing),
            (Some(_), Some(_), _) => packet::store_no_key(bytes, NoKey::Wanted),
            (_, None, false) => {
                self.malformed += 1;
                return None;
            }
        };
        if let Place::Directory { socket, .. } = &self.place {
            let _ = socket.send_to(&refusal, from);
        }
        None
    }

    fn take_question(&mut self, now: Instant, from: SocketAddr, find: Find, is_old: bool) {
        // Asked again: the answer is on its way.
        if self.asked.values().any(|a| a.from == from && a.find == find) {
            return;
        }
        let number = self.number();
        let reached = self.reach_shared(find.name).filter(|(s, _)| self.watch(s.as_fd(), ASKED | number).is_ok());
        match reached {
            Some((socket, user)) => {
                if self.asked.len() >= ASKED_MAX
                    && let Some((_, oldest)) = self.asked.pop_first()
                {
                    self.unwatch(oldest.socket.as_fd());
                }
                self.asked.insert(number, Asked { socket, from, user, find, is_old, deadline: now + ASKED_TIME });
            }
            None => self.say(from, find, is_old, None),
        }
    }

    /// The process that waits has said its port, or gone.
    pub(super) fn pass_on(&mut self, number: u64) {
        let Some(a) = self.asked.get(&number) else { return };
        let mut bytes = [0; packet::WAITS_BYTES + 1];
        let port = match fd_passing::receive(a.socket.as_fd(), &mut bytes) {
            Err(MemoryError::WouldBlock) => return,
            Err(_) => None,
            Ok(r) => packet::load_port(&bytes[..r.len]),
        };
        self.reply(number, port);
    }

    pub(super) fn reply(&mut self, number: u64, port: Option<u16>) {
        if let Some(a) = self.asked.remove(&number) {
            self.unwatch(a.socket.as_fd());
            self.say(a.from, a.find, a.is_old, port.map(|port| (port, a.user)));
        }
    }

    /// The answer: the port and the user of a process that waits.
    pub(super) fn say(&mut self, to: SocketAddr, find: Find, is_old: bool, waits: Option<(u16, u32)>) {
        let (port, user) = waits.unwrap_or((0, 0));
        let found = Found { nonce: find.nonce, name: find.name, user, port };
        let bytes = match &self.keys {
            None if is_old => packet::old_found(found),
            None => found.store().to_vec(),
            Some(keys) => match packet::seal_found(keys, &mut self.seals, to.ip(), found) {
                Some(bytes) => bytes,
                None => return,
            },
        };
        if let Place::Directory { socket, .. } = &self.place {
            // Lost, it is asked again.
            let _ = socket.send_to(&bytes, to);
        }
    }

    /// A directory, or a process of this host, asks one of our waits.
    pub(super) fn say_port(&mut self, number: u64) {
        let Some(w) = self.waits.get(&number) else { return };
        for listener in [Some(&w.listener), w.shared.as_ref()].into_iter().flatten() {
            for _ in 0..PER_LOOK {
                let Ok(Some(socket)) = fd_passing::accept(listener.as_fd()) else { break };
                let _ = fd_passing::send(socket.as_fd(), &packet::store_port(self.own.port()), &[]);
            }
        }
    }
}

fn name_of_directory(own: IpAddr, port: u16) -> Vec<u8> {
    format!("bellwire/udp/directory/{own}/{port}").into_bytes()
}
