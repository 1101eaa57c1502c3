// SPDX-License-Identifier: MIT OR Apache-2.0
//! Address vectors that several processes of a user share by a name. Who creates one writes it: its
//! names lie in a memfd, behind the numbers that programs use for them. Others open it for reading:
//! they ask the creator, at an abstract socket, for the memory and for how many names there are,
//! and ask again when a number is used that they do not know. Nothing of it outlives its processes.
//!
//! The answer comes after the names that it counts were written, by way of the socket, so a reader
//! finds those whole. What lies there is another process's all the same: copied, then checked.

use crate::abi::{Outcome, error};
use bellwire_memory::MemoryError;
use bellwire_memory::event::Bell;
use bellwire_memory::fd_passing;
use bellwire_memory::own_thread;
use bellwire_memory::region::{Access, Region, RegionKind, RemoteRegion};
use bellwire_tag::{NAME_BYTES, Name};
use core::ffi::{c_int, c_void};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Names that fit, unless the program wants room for more; and at most.
const NAMES_MIN: usize = 1 << 10;
const NAMES_MAX: usize = 1 << 20;
/// Bytes of a number, as programs read them, and of a number with its name.
const NUMBER_BYTES: usize = 8;
const ENTRY_BYTES: usize = NUMBER_BYTES + NAME_BYTES;
/// How long a reader waits for the creator's answer, milliseconds.
const PATIENCE: c_int = 2000;
/// An answer: this, for how many names there is room, and how many there are.
const MAGIC: u64 = u64::from_le_bytes(*b"bw av 01");
const ANSWER_BYTES: usize = 24;

fn code(e: &MemoryError) -> c_int {
    match e {
        MemoryError::ConnectionRefused => libc::ENOENT,
        MemoryError::AddressInUse => error::EBUSY,
        MemoryError::BadName { .. } => error::EINVAL,
        MemoryError::WouldBlock | MemoryError::PeerClosed => error::EAGAIN,
        _ => error::ENOMEM,
    }
}

fn own_user() -> u32 {
    // SAFETY: no arguments.
    unsafe { libc::geteuid() }
}

fn socket_name(of: &[u8]) -> Vec<u8> {
    [format!("bellwire/av/{}/", own_user()).as_bytes(), of].concat()
}

/// Waits until one of some descriptors can be read. `false`: the time has passed.
fn wait(for_one_of: &[c_int], milliseconds: c_int) -> bool {
    let mut polled: Vec<libc::pollfd> = for_one_of.iter().map(|fd| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 }).collect();
    // SAFETY: the vector has as many entries as the call is told.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, milliseconds) != 0 }
}

/// A vector that this process writes.
pub(crate) struct Written {
    region: Arc<Region>,
    room: usize,
    count: Arc<Mutex<usize>>,
    bell: Arc<Bell>,
    server: Option<JoinHandle<()>>,
}

impl Written {
    /// Creates the vector of a name.
    pub(crate) fn create(name: &[u8], wanted: usize) -> Outcome<Self> {
        let room = wanted.clamp(NAMES_MIN, NAMES_MAX);
        let listener = fd_passing::listen_abstract(&socket_name(name)).map_err(|e| code(&e))?;
        let region = Arc::new(Region::create("bellwire-av", room * ENTRY_BYTES, RegionKind::WriterOwned).map_err(|e| code(&e))?);
        for number in 0..room {
            region.bytes().copy_in(number * NUMBER_BYTES, &(number as u64).to_ne_bytes()).map_err(|e| code(&e))?;
        }
        let (count, bell) = (Arc::new(Mutex::new(0)), Arc::new(Bell::create().map_err(|_| error::ENOMEM)?));
        let served = (Arc::clone(&region), Arc::clone(&count), Arc::clone(&bell));
        let server = own_thread::spawn(c"bellwire-av", move || serve(&listener, &served.0, room, &served.1, &served.2)).map_err(|_| error::ENOMEM)?;
        Ok(Self { region, room, count, bell, server: Some(server) })
    }

    /// Where programs find the numbers.
    pub(crate) fn numbers(&self) -> *mut c_void {
        self.region.base().cast()
    }

    /// Writes the name of a number, or that it has none any more.
    pub(crate) fn set(&self, number: usize, name: Option<&Name>) -> Outcome {
        if number >= self.room {
            return Err(error::ENOMEM);
        }
        let bytes = name.map_or([0; NAME_BYTES], Name::to_bytes);
        self.region.bytes().copy_in(self.room * NUMBER_BYTES + number * NAME_BYTES, &bytes).map_err(|e| code(&e))?;
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *count = (*count).max(number + 1);
        Ok(())
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = self.bell.ring();
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

/// Answers readers until the bell rings.
fn serve(listener: &OwnedFd, region: &Region, room: usize, count: &Mutex<usize>, bell: &Bell) {
    loop {
        wait(&[listener.as_raw_fd(), bell.fd().as_raw_fd()], -1);
        if wait(&[bell.fd().as_raw_fd()], 0) {
            return;
        }
        let Ok(Some(socket)) = fd_passing::accept(listener.as_fd()) else { continue };
        let is_ours = fd_passing::peer_credentials(socket.as_fd()).is_ok_and(|peer| peer.uid == own_user());
        let Ok(memory) = region.read_only_fd() else { continue };
        if is_ours {
            let known = *count.lock().unwrap_or_else(PoisonError::into_inner);
            let answer = [MAGIC, room as u64, known as u64].map(u64::to_le_bytes).concat();
            let _ = fd_passing::send(socket.as_fd(), &answer, &[memory.as_fd()]);
        }
    }
}

/// A vector that another process writes.
pub(crate) struct Seen {
    name: Vec<u8>,
    region: RemoteRegion,
    room: usize,
}

/// Asks the creator for the memory, for how many names there is room, and how many there are.
fn ask(name: &[u8]) -> Outcome<(OwnedFd, usize, usize)> {
    let socket = fd_passing::connect_abstract(name).map_err(|e| code(&e))?;
    if !fd_passing::peer_credentials(socket.as_fd()).is_ok_and(|peer| peer.uid == own_user()) {
        return Err(error::EACCES);
    }
    if !wait(&[socket.as_fd().as_raw_fd()], PATIENCE) {
        return Err(error::EAGAIN);
    }
    let mut answer = [0; ANSWER_BYTES];
    let mut received = fd_passing::receive(socket.as_fd(), &mut answer).map_err(|e| code(&e))?;
    let word = |at: usize| answer[8 * at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    match received.fds.pop() {
        Some(memory) if received.len == ANSWER_BYTES && word(0) == MAGIC => Ok((memory, word(1) as usize, word(2) as usize)),
        _ => Err(error::EINVAL),
    }
}

impl Seen {
    /// Opens the vector of a name.
    pub(crate) fn open(name: &[u8]) -> Outcome<Self> {
        let name = socket_name(name);
        let (memory, room, _) = ask(&name)?;
        if !(NAMES_MIN..=NAMES_MAX).contains(&room) {
            return Err(error::EINVAL);
        }
        // Whole pages, and not more than that.
        let region = RemoteRegion::map(memory, room * ENTRY_BYTES, room * ENTRY_BYTES + (1 << 16), Access::ReadOnly).map_err(|e| code(&e))?;
        Ok(Self { name, region, room })
    }

    /// Where programs find the numbers.
    pub(crate) fn numbers(&self) -> *mut c_void {
        self.region.base().cast_mut().cast()
    }

    /// The names from a number on that its creator has written by now.
    pub(crate) fn names_from(&self, first: usize) -> Vec<Option<Name>> {
        let count = ask(&self.name).map_or(0, |(_, _, count)| count.min(self.room));
        let name_at = |number: usize| {
            let mut bytes = [0; NAME_BYTES];
            self.region.bytes().copy_out(self.room * NUMBER_BYTES + number * NAME_BYTES, &mut bytes).ok()?;
            Name::from_bytes(&bytes).filter(|name| name.id().is_some())
        };
        (first..count).map(name_at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_seen_by_who_opens_it() {
        let name = format!("test {}", std::process::id()).into_bytes();
        assert_eq!(Seen::open(&name).err(), Some(libc::ENOENT));
        let written = Written::create(&name, 5000).unwrap();
        assert_eq!(Written::create(&name, 5).err(), Some(error::EBUSY));
        let seen = Seen::open(&name).unwrap();
        assert_eq!(seen.names_from(0), []);
        let of = |n: u16| Name::of_service(&[127, 0, 0, 1], n).unwrap();
        for n in 0..3 {
            written.set(n, Some(&of(n as u16))).unwrap();
        }
        written.set(1, None).unwrap();
        assert_eq!(seen.names_from(0), [Some(of(0)), None, Some(of(2))]);
        assert_eq!(seen.names_from(2), [Some(of(2))]);
        assert_eq!(written.set(5000, Some(&of(1))), Err(error::ENOMEM));
        drop(written);
        // Its numbers are there as long as they are mapped; nobody tells of more names.
        assert_eq!(seen.names_from(0), []);
        assert_eq!(Seen::open(&name).err(), Some(libc::ENOENT));
    }
}
