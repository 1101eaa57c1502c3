// SPDX-License-Identifier: MIT OR Apache-2.0
//! A NIC with one VI, connected with the other process's.
//!
//! Invariant O1: a descriptor that is posted, and what it names, is memory of the NIC's own, of a
//! block that its rung keeps, or both. The VI ends before any of these is given up.

use std::ops::Deref;
use std::ptr::NonNull;
use std::rc::Rc;

use bellwire_vipl_calls::{Address, Completed, Descriptor, Handle, Nic, Segment};

use super::Wait;
use super::memory::Block;
use crate::crowd::Crowd;
use crate::endpoint::PATIENCE;
use crate::error::Error;
use crate::job::{Request, Setup};
use crate::mapped::check_library;

/// A NIC that is closed at its end.
pub struct Opened(Nic);

impl Deref for Opened {
    type Target = Nic;

    fn deref(&self) -> &Nic {
        &self.0
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Memory of the NIC's, registered.
#[derive(Clone, Copy)]
pub struct Arena {
    pub at: NonNull<u8>,
    pub handle: u32,
}

impl Arena {
    /// A segment of it.
    pub fn segment(self, at: usize, bytes: usize) -> Segment {
        Segment { address: self.at.as_ptr().expose_provenance() as u64 + at as u64, handle: self.handle, length: bytes as u32 }
    }
}

/// Bytes that a process says of itself: the length of its host address, that, and what its rung
/// adds.
const SAID_BYTES: usize = 48;
const RUNG_AT: usize = 32;
/// Longest sleep.
const SLEEP_MS: u32 = 100;
/// Entries of a completion queue: more than any rung has receives.
const ENTRIES: usize = 256;

/// See the module.
pub struct Port {
    pub nic: Rc<Opened>,
    pub ptag: Handle,
    pub vi: Handle,
    queue: Option<Handle>,
    /// An entry of the queue has been taken, and its receive has not.
    is_due: bool,
}

/// A failure of the library.
pub fn failed(what: &'static str) -> impl Fn(i32) -> Error {
    move |value| Error::failed(format!("{what} gives {value}"))
}

impl Port {
    /// Opens a NIC, and makes a VI.
    ///
    /// # Errors
    /// The library fails.
    pub fn open(setup: &Setup, wait: Wait) -> Result<Self, Error> {
        check_library(setup)?;
        let nic = Rc::new(Opened(Nic::open(std::env::current_exe().ok().as_deref()).map_err(Error::failed)?));
        let ptag = nic.create_ptag().map_err(failed("VipCreatePtag"))?;
        let queue = if wait == Wait::Sleep { Some(nic.create_cq(ENTRIES).map_err(failed("VipCreateCQ"))?) } else { None };
        let vi = nic.create_vi(ptag, 0, Handle::NONE, queue.unwrap_or(Handle::NONE)).map_err(failed("VipCreateVi"))?;
        Ok(Self { nic, ptag, vi, queue, is_due: false })
    }

    /// Memory of the NIC's; if `is_open`, the peer may write it.
    ///
    /// # Errors
    /// The library fails.
    pub fn arena(&self, bytes: usize, is_open: bool) -> Result<Arena, Error> {
        let at = NonNull::new(self.nic.allocate(bytes).map_err(failed("VipxAllocMem"))?).ok_or_else(|| Error::failed("VipxAllocMem gives nothing"))?;
        // SAFETY: it stays until the NIC is closed.
        let handle = unsafe { self.nic.register(at.as_ptr() as u64, bytes, self.ptag, is_open) }.map_err(failed("VipRegisterMem"))?;
        Ok(Arena { at, handle })
    }

    /// The same as a block.
    ///
    /// # Errors
    /// The library fails.
    pub fn block(&self, bytes: usize) -> Result<Rc<Block>, Error> {
        let arena = self.arena(bytes, false)?;
        // SAFETY: S1: fresh memory, which stays until the NIC is closed.
        Ok(unsafe { Block::of_pool(&self.nic, arena.at, bytes, arena.handle) })
    }

    /// Connects with the other process's VI. Each rung says something of itself, and hears as much.
    ///
    /// # Errors
    /// The other one does not come.
    pub fn connect(
        &self,
        setup: &Setup,
        request: &Request,
        crowd: &mut Crowd<'_>,
        said: [u8; SAID_BYTES - RUNG_AT],
    ) -> Result<[u8; SAID_BYTES - RUNG_AT], Error> {
        let host = self.nic.host();
        let mut own = [0; SAID_BYTES];
        own[0] = host.len() as u8;
        own[1..=host.len()].copy_from_slice(host);
        own[RUNG_AT..].copy_from_slice(&said);
        let other = crowd.exchange(&own)?;
        let there = other.get(1..=usize::from(other[0])).unwrap_or_default();
        let name = |first: bool| format!("ladder {} {} {}", request.run, request.epoch, u8::from(first));
        let milliseconds = PATIENCE.as_millis() as _;
        if setup.first {
            let (from, to) = (Address::new(host, name(true).as_bytes()), Address::new(there, name(false).as_bytes()));
            self.nic.connect(self.vi, &from, &to, milliseconds).map_err(failed("VipConnectRequest"))?;
        } else {
            let (_, asked) = self.nic.connect_wait_for(&Address::new(host, name(false).as_bytes()), milliseconds).map_err(failed("VipConnectWait"))?;
            self.nic.accept(asked, self.vi).map_err(failed("VipConnectAccept"))?;
        }
        let mut heard = [0; SAID_BYTES - RUNG_AT];
        heard.copy_from_slice(&other[RUNG_AT..SAID_BYTES]);
        Ok(heard)
    }

    /// A receive that has completed.
    ///
    /// # Errors
    /// The connection is broken.
    #[inline]
    pub fn receive(&mut self) -> Result<Option<*mut Descriptor>, Error> {
        if let Some(queue) = self.queue
            && !std::mem::take(&mut self.is_due)
            && self.nic.cq_done(queue).map_err(failed("VipCQDone"))?.is_none()
        {
            return Ok(None);
        }
        self.whole(self.nic.receive_done(self.vi))
    }

    /// A send that has completed.
    ///
    /// # Errors
    /// The connection is broken.
    #[inline]
    pub fn sent(&self) -> Result<Option<*mut Descriptor>, Error> {
        self.whole(self.nic.send_done(self.vi))
    }

    #[inline]
    fn whole(&self, completed: Completed) -> Result<Option<*mut Descriptor>, Error> {
        match completed {
            None => Ok(None),
            Some((descriptor, true)) => Ok(Some(descriptor)),
            Some((_, false)) => Err(Error::failed(format!("the connection is broken: {}", self.nic.cause(self.vi).text))),
        }
    }

    /// Sleeps until a receive has completed, or for a while.
    ///
    /// # Errors
    /// The library fails.
    pub fn sleep(&mut self) -> Result<(), Error> {
        let Some(queue) = self.queue.filter(|_| !self.is_due) else { return Ok(()) };
        self.is_due = self.nic.cq_wait(queue, SLEEP_MS.into()).map_err(failed("VipCQWait"))?.is_some();
        Ok(())
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.nic.end_vi(self.vi);
    }
}
