// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words and bulk data by VIs of libvipl (`crates/gasvia`), in the place of this layer's messages:
//! `BELLWIRE_GAS=vi`. Atomics, functions on places, checks, collective calls and farewells stay
//! messages.
//!
//! An access that waits looks at the messages now and then, which tell why a process is gone. A
//! call that waits for messages looks here before it sleeps ([`Net::poll_beside`]).
//!
//! C1 is that of `net.rs`.

use std::ffi::CStr;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bellwire_gasvia::probe::Off;
use bellwire_gasvia::{Access as Used, Core, Failure, Kind, Nic, Station, Stop, There, Version};

use super::memory::Memory;
use super::{FAREWELL, Net, SLICE_UNRUNG};
use crate::call::Lock;
use crate::error::{Access, Error, Trouble, Why};
use crate::window::Window;

/// How long the messages may take to tell why a process is gone whose VIs have ended.
const REASON: Duration = Duration::from_secs(3);

/// How accesses go, with the word for it, out of `BELLWIRE_GAS`; `None`: not by VIs.
///
/// # Errors
/// [`Error::Nic`]: the word is unknown.
pub(crate) fn version() -> Result<Option<(&'static str, Version)>, Error> {
    match std::env::var("BELLWIRE_GAS").as_deref() {
        Err(_) | Ok("") => Ok(None),
        Ok("vi" | "vi1") => Ok(Some(("vi1", Version::One))),
        Ok("vi2") => Ok(Some(("vi2", Version::Two))),
        Ok(other) => Err(Error::Nic(format!("BELLWIRE_GAS={other} is none of vi, vi1, vi2"))),
    }
}

impl Net {
    /// Loads libvipl and connects to all processes by it. Collective, as [`open`](Self::open).
    ///
    /// # Errors
    /// As there.
    pub fn open_vis(
        &mut self,
        version: Version,
        of: (u32, u32),
        (window, lock): (Window, Lock),
        gather: impl FnOnce(&[u8]) -> Result<Vec<Vec<u8>>, Error>,
    ) -> Result<(), Error> {
        let nic = Nic::open(own_file().as_deref()).map_err(Error::Nic)?;
        let mut core = Core::new(Arc::new(nic), version, of, Memory::new(window, lock)).map_err(|failure| self.error(failure))?;
        let names = gather(&core.name())?;
        core.meet(&names).map_err(|failure| self.error(failure))?;
        self.beside = Some(Station::new(core).map_err(|e| Error::Nic(format!("no thread to serve others: {e}")))?);
        Ok(())
    }

    /// Whether accesses go by VIs.
    pub fn is_by_vis(&self) -> bool {
        self.beside.is_some()
    }

    /// Tries until there is a result, serving others meanwhile. `rank`: of a process that has to be
    /// there for that; else those that have not answered.
    fn by_vi<R>(&self, rank: Option<u32>, attempt: impl FnMut(&mut Core<Memory>) -> Result<Option<R>, Failure>) -> Result<R, Error> {
        let vis = self.beside.as_ref().ok_or(Error::NoMemoryThere)?;
        vis.until(rank, |awaited| self.look_for(awaited), attempt).map_err(|stop| self.stopped(stop))
    }

    /// Looks at the messages, for a failure that ends the job or a farewell of a process.
    fn look_for(&self, rank: Option<u32>) -> Result<(), Error> {
        self.station.poll(|core, engine| {
            core.step(engine);
            core.check()?;
            core.check_left(|left, _| rank == Some(left))
        })
    }

    /// The error of a call that has ended.
    fn stopped(&self, stop: Stop<Error>) -> Error {
        match stop {
            Stop::Failure(failure) => self.error(failure),
            Stop::Beside(error) => error,
        }
    }

    /// The error for a failure, as the messages tell it, if they do.
    fn error(&self, failure: Failure) -> Error {
        match failure {
            Failure::Gone { process, why } => {
                let end = Instant::now() + REASON;
                while Instant::now() < end {
                    if let Err(error) = self.look_for(Some(process)) {
                        return error;
                    }
                    std::thread::sleep(SLICE_UNRUNG);
                }
                Error::Nic(format!("process {process} of the job is gone: {why}"))
            }
            Failure::Unreachable { process, why } => {
                Error::Nic(format!("process {process} of the job cannot be reached by VIs: {why} (see BELLWIRE_ADDRESS, BELLWIRE_UDP)"))
            }
            Failure::Misbehaved(process) => Error::Trouble(Trouble::Misbehaved(process)),
            Failure::Refused { process, access, why, address, bytes } => {
                let access = match access {
                    Used::Get => Access::Get,
                    Used::Put => Access::Put,
                    Used::Store => Access::Store,
                };
                Error::Trouble(Trouble::Refused { process, access, why: Why::from_bits(why), address, bytes })
            }
            Failure::Library(call, code) => Error::Nic(format!("{call} gives {code}")),
            other => Error::Nic(format!("{other:?}")),
        }
    }

    /// Reads, waiting.
    ///
    /// # Errors
    /// [`Error::Trouble`], [`Error::Left`], [`Error::Nic`].
    ///
    /// # Safety
    /// C1.
    pub unsafe fn vi_read(&self, rank: u32, address: u64, to: *mut u8, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { self.vi_get(rank, address, to, bytes)? };
        self.vi_answered(rank)
    }

    /// Asks for bytes, which are there after a sync.
    ///
    /// # Errors
    /// As for [`vi_read`](Self::vi_read).
    ///
    /// # Safety
    /// C1.
    pub unsafe fn vi_get(&self, rank: u32, address: u64, to: *mut u8, bytes: usize) -> Result<(), Error> {
        let mut done = 0;
        // SAFETY: the caller's; after a failure no answer is written.
        self.by_vi(Some(rank), |core| Ok(unsafe { core.try_get::<Off>(There { rank, address }, (to, bytes), &mut done)? }.then_some(())))
    }

    /// Writes, waiting until it is done.
    ///
    /// # Errors
    /// As for [`vi_read`](Self::vi_read).
    ///
    /// # Safety
    /// C1.
    pub unsafe fn vi_write(&self, rank: u32, address: u64, from: *const u8, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { self.vi_put(rank, address, from, bytes)? };
        self.vi_answered(rank)
    }

    /// Sends bytes, which are there after a sync.
    ///
    /// # Errors
    /// As for [`vi_read`](Self::vi_read).
    ///
    /// # Safety
    /// C1.
    pub unsafe fn vi_put(&self, rank: u32, address: u64, from: *const u8, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { self.vi_send(Kind::Put, There { rank, address }, (from, bytes)) }
    }

    /// Sends bytes, which are counted where they arrive.
    ///
    /// # Errors
    /// As for [`vi_read`](Self::vi_read).
    ///
    /// # Safety
    /// C1.
    pub unsafe fn vi_store(&self, rank: u32, address: u64, from: *const u8, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { self.vi_send(Kind::Store, There { rank, address }, (from, bytes)) }
    }

    /// # Safety
    /// C1.
    unsafe fn vi_send(&self, kind: Kind, to: There, data: (*const u8, usize)) -> Result<(), Error> {
        let vis = self.beside.as_ref().ok_or(Error::NoMemoryThere)?;
        // SAFETY: the caller's.
        unsafe { vis.send(kind, to, data, |awaited| self.look_for(awaited)) }.map_err(|stop| self.stopped(stop))
    }

    /// Waits until a process has answered all.
    fn vi_answered(&self, rank: u32) -> Result<(), Error> {
        self.by_vi(Some(rank), |core| Ok(core.try_flush::<Off>(Some(rank), false)?.then_some(())))
    }

    /// Waits until a process has done all that it was asked, before it is asked by a message.
    ///
    /// # Errors
    /// As for [`vi_read`](Self::vi_read).
    pub fn vi_settle(&self, rank: u32) -> Result<(), Error> {
        self.by_vi(Some(rank), |core| Ok(core.try_flush::<Off>(Some(rank), true)?.then_some(())))
    }

    /// Waits until this process's gets and puts are done, whichever way they go.
    ///
    /// # Errors
    /// As for [`vi_read`](Self::vi_read).
    pub fn sync_all(&self) -> Result<(), Error> {
        match self.beside {
            None => self.sync(),
            Some(_) => self.by_vi(None, |core| Ok(core.try_flush::<Off>(None, false)?.then_some(()))),
        }
    }

    /// Whether they are.
    ///
    /// # Errors
    /// As for [`vi_read`](Self::vi_read).
    pub fn vi_is_sync(&self) -> Result<bool, Error> {
        let mut looks = 0;
        self.by_vi(None, |core| {
            looks += 1;
            let is_sync = core.try_flush::<Off>(None, false)?;
            Ok((is_sync || looks > 1).then_some(is_sync))
        })
    }

    /// Waits until all accesses of this process by VIs are done, stores included.
    ///
    /// # Errors
    /// As for [`vi_read`](Self::vi_read).
    pub fn vi_flush(&self) -> Result<(), Error> {
        match self.beside {
            None => Ok(()),
            Some(_) => self.by_vi(None, |core| Ok(core.try_flush::<Off>(None, true)?.then_some(()))),
        }
    }

    /// Serves others until they have got from here `gets` times in all.
    ///
    /// # Errors
    /// As for [`vi_read`](Self::vi_read).
    pub fn vi_serve(&self, gets: u32) -> Result<(), Error> {
        self.by_vi(None, |core| Ok((core.served() >= u64::from(gets)).then_some(())))
    }

    /// Bytes that others have stored here by VIs.
    pub fn vi_stored(&self) -> u64 {
        let look = |core: &mut Core<Memory>| {
            let _ = core.poll::<Off>();
            core.stored()
        };
        self.beside.as_ref().map_or(0, |vis| vis.with(look))
    }

    /// A look at the VIs, if there are any: whether something has come.
    pub(super) fn poll_beside(&self) -> Option<bool> {
        self.beside.as_ref().map(|vis| vis.with(|core| core.poll::<Off>().unwrap_or(false)))
    }

    /// Gives what has been asked for until an instant to be done.
    pub(super) fn finish_beside(&self, end: Instant) {
        if self.beside.is_none() {
            return;
        }
        // A process that is gone needs nothing of ours.
        let _ = self.by_vi(None, |core| {
            let is_over = Instant::now() >= end;
            Ok(if is_over || core.try_flush::<Off>(None, true)? { Some(()) } else { None })
        });
    }
}

/// The file that this library is in, beside which libvipl may be.
fn own_file() -> Option<PathBuf> {
    // SAFETY: pointers may be NULL.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let of: fn() -> Option<PathBuf> = own_file;
    // SAFETY: an address of this library, and a place for what is known of it.
    if unsafe { libc::dladdr(of as *const libc::c_void, &raw mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's string, which stays as long as this library does.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

const _: () = assert!(REASON.as_millis() <= FAREWELL.as_millis());
