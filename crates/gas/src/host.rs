// SPDX-License-Identifier: MIT OR Apache-2.0
//! One memfd for all processes of a group: the first makes it, the others come for it.
//!
//! The way is a socket of the abstract namespace whose name the launcher tells them; both ends look
//! at the other's user. Nobody outside the job gets the descriptor.

use std::thread;
use std::time::{Duration, Instant};

use bellwire_job::Job;
use bellwire_memory::{MemoryError, fd_passing};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};

use crate::error::Error;
use crate::group::Group;

/// How long the processes of a job may take to meet.
const MEETING: Duration = Duration::from_secs(60);

/// The memfd of a group, of `bytes` bytes. Collective: all processes of the job call it, at the
/// same time.
///
/// # Errors
/// [`Error::NoRendezvous`] if somebody did not come; what the system and the launcher say.
pub fn share(job: &Job, group: &Group, bytes: u64) -> Result<OwnedFd, Error> {
    if job.size() == 1 {
        return create(bytes);
    }
    if group.leader() == job.rank() {
        let memfd = create(bytes)?;
        let (listener, name) = listen()?;
        job.all_gather(name.as_bytes())?;
        hand_out(&listener, &memfd, group.size() - 1)?;
        Ok(memfd)
    } else {
        let names = job.all_gather(b"")?;
        let name = names.get(group.leader() as usize).filter(|name| !name.is_empty());
        let memfd = fetch(name.ok_or(Error::NoRendezvous("no process has offered the shared memory"))?)?;
        let size = fstat(&memfd).map_err(Error::from_call("fstat"))?.st_size;
        if u64::try_from(size) == Ok(bytes) { Ok(memfd) } else { Err(Error::NoRendezvous("the shared memory has another size than expected")) }
    }
}

fn create(bytes: u64) -> Result<OwnedFd, Error> {
    let memfd = memfd_create("bellwire-gas", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).map_err(Error::from_call("memfd_create"))?;
    ftruncate(&memfd, bytes).map_err(Error::from_call("ftruncate"))?;
    // Its size is what everybody's mappings rely on.
    fcntl_add_seals(&memfd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).map_err(Error::from_call("fcntl"))?;
    Ok(memfd)
}

fn listen() -> Result<(OwnedFd, String), Error> {
    let pid = std::process::id();
    // A name may be taken by a process of another pid namespace.
    for attempt in 0..100 {
        let name = format!("bellwire/gas/{pid}/{attempt}");
        match fd_passing::listen_abstract(name.as_bytes()) {
            Ok(listener) => return Ok((listener, name)),
            Err(MemoryError::AddressInUse) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::NoRendezvous("no name is free to offer the shared memory under"))
}

fn is_same_user(socket: &fd_passing::Socket) -> Result<bool, Error> {
    Ok(fd_passing::peer_credentials(socket.as_fd())?.uid == rustix::process::geteuid().as_raw())
}

fn hand_out(listener: &OwnedFd, memfd: &OwnedFd, mut others: u32) -> Result<(), Error> {
    let begin = Instant::now();
    while others > 0 {
        match fd_passing::accept(listener.as_fd())? {
            Some(socket) if is_same_user(&socket)? => {
                fd_passing::send(socket.as_fd(), b"memory", &[memfd.as_fd()])?;
                others -= 1;
            }
            Some(_) => {}
            None if begin.elapsed() > MEETING => return Err(Error::NoRendezvous("a process of this host has not come for the shared memory")),
            None => thread::sleep(Duration::from_micros(100)),
        }
    }
    Ok(())
}

fn fetch(name: &[u8]) -> Result<OwnedFd, Error> {
    let begin = Instant::now();
    let socket = loop {
        match fd_passing::connect_abstract(name) {
            Ok(socket) => break socket,
            Err(MemoryError::WouldBlock) if begin.elapsed() < MEETING => thread::sleep(Duration::from_micros(200)),
            Err(error) => return Err(error.into()),
        }
    };
    if !is_same_user(&socket)? {
        return Err(Error::NoRendezvous("the shared memory is offered by another user"));
    }
    let mut bytes = [0; 16];
    loop {
        match fd_passing::receive(socket.as_fd(), &mut bytes) {
            Ok(received) => return received.fds.into_iter().next().ok_or(Error::NoRendezvous("the shared memory did not come")),
            Err(MemoryError::WouldBlock) if begin.elapsed() < MEETING => thread::sleep(Duration::from_micros(200)),
            Err(error) => return Err(error.into()),
        }
    }
}
