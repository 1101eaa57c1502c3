// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a job needs of PMIx: its place, blocks, fences.
//!
//! Invariant X2: what a fence needs is shared with the library's thread, which gives its part back
//! by calling `fence_done` once; if it never does, that part is never freed. Invariant X3: a value
//! that `PMIx_Get` returns with success is one allocation of the C library, and what it points to
//! another, both the caller's.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::abi::{self, Api, ByteObject, Data, Info, Proc, Value};
use crate::error::Error;
use crate::text::BLOCK_MAX_BYTES;

/// Whether a fence is done, and how.
struct Fence {
    /// Read by the library until the fence is done.
    collect: Info,
    status: Mutex<Option<c_int>>,
    changed: Condvar,
}

// SAFETY: the directive is not written any more and is a flag, not a pointer; the rest may be sent
// and shared.
unsafe impl Send for Fence {}
// SAFETY: the directive is not written any more and is a flag, not a pointer; a mutex guards the
// rest.
unsafe impl Sync for Fence {}

/// Membership in a PMIx job.
pub(crate) struct Client {
    api: Arc<Api>,
    me: Proc,
    /// Under way.
    fence: Option<Arc<Fence>>,
}

/// Who this process is.
pub(crate) struct Place {
    pub rank: u32,
    pub size: u32,
    /// Rank and size on this host, if the launcher says so.
    pub local: Option<(u32, u32)>,
    pub id: String,
}

impl Client {
    /// Joins the job.
    pub(crate) fn join(_timeout: Duration) -> Result<(Self, Place), Error> {
        let api = Arc::new(Api::load()?);
        let mut me = Proc { nspace: [0; 256], rank: 0 };
        // SAFETY: X1: `me` is a process to be filled in; no directives.
        let status = unsafe { (api.init)(&mut me, ptr::null_mut(), 0) };
        if status != abi::SUCCESS {
            return Err(api.failure("PMIx_Init", status));
        }
        let client = Self { api, me, fence: None };
        let place = client.place();
        if place.is_err() {
            let mut client = client;
            let _ = client.finalize();
            return Err(place.err().unwrap_or(Error::LauncherGone));
        }
        place.map(|place| (client, place))
    }

    fn place(&self) -> Result<Place, Error> {
        let id = CStr::from_bytes_until_nul(&self.me.nspace).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let size = self.number(abi::RANK_WILDCARD, c"pmix.job.size")?.ok_or_else(|| Error::protocol("pmix.job.size, a number", b"nothing"))?;
        let rank = self.me.rank;
        if rank >= size {
            return Err(Error::protocol("a rank below the size of the job", format!("rank {rank} of {size}").as_bytes()));
        }
        let local = match (self.number(rank, c"pmix.lrank")?, self.number(abi::RANK_WILDCARD, c"pmix.local.size")?) {
            (Some(mine), Some(all)) if mine < all && all <= size => Some((mine, all)),
            _ => None,
        };
        Ok(Place { rank, size, local, id })
    }

    /// The functions, for ending the job from any thread.
    pub(crate) fn api(&self) -> Arc<Api> {
        Arc::clone(&self.api)
    }

    /// Puts a block; it leaves with the next fence.
    pub(crate) fn put(&mut self, key: &str, block: &[u8]) -> Result<(), Error> {
        let key = c_key(key);
        // The library copies the bytes and does not write them.
        let object = ByteObject { bytes: block.as_ptr().cast::<c_char>().cast_mut(), size: block.len() };
        let mut value = Value { kind: abi::TYPE_BYTE_OBJECT, data: Data { whole: [0; 3] } };
        value.data.object = object;
        // SAFETY: X1: key and value are whole and live until the call returns.
        let status = unsafe { (self.api.put)(abi::GLOBAL, key.as_ptr(), &mut value) };
        if status == abi::SUCCESS { Ok(()) } else { Err(self.api.failure("a block (PMIx_Put)", status)) }
    }

    /// The block of a process; `None` if it has put none.
    pub(crate) fn get(&mut self, rank: u32, key: &str) -> Result<Option<Vec<u8>>, Error> {
        self.fetch(rank, &c_key(key), |kind, data| {
            if kind != abi::TYPE_BYTE_OBJECT {
                return Err(Error::protocol("a byte object", format!("a value of type {kind}").as_bytes()));
            }
            // SAFETY: X3: by its type this is the member that is set.
            let object = unsafe { data.object };
            if object.size > BLOCK_MAX_BYTES || (object.bytes.is_null() && object.size > 0) {
                return Err(Error::protocol("a block of at most 64 KiB", format!("one of {} bytes", object.size).as_bytes()));
            }
            if object.size == 0 {
                return Ok(Vec::new());
            }
            // SAFETY: X3: `size` bytes from `bytes` on, checked above.
            Ok(unsafe { std::slice::from_raw_parts(object.bytes.cast::<u8>(), object.size) }.to_vec())
        })
    }

    fn number(&self, rank: u32, key: &CStr) -> Result<Option<u32>, Error> {
        self.fetch(rank, key, |kind, data| match kind {
            // SAFETY: X3: by its type this is the member that is set.
            abi::TYPE_UINT16 => Ok(u32::from(unsafe { data.uint16 })),
            // SAFETY: X3: by its type this is the member that is set.
            abi::TYPE_UINT32 => Ok(unsafe { data.uint32 }),
            other => Err(Error::protocol("a number", format!("a value of type {other}").as_bytes())),
        })
    }

    /// Gets a value and reads it.
    fn fetch<T>(&self, rank: u32, key: &CStr, read: impl FnOnce(u16, Data) -> Result<T, Error>) -> Result<Option<T>, Error> {
        let whose = Proc { rank, ..self.me.clone() };
        // Values present after a fence are in this process already; without the directive the call
        // would wait for a key that nobody has put.
        let here = Info::on(c"pmix.optional");
        let mut value: *mut Value = ptr::null_mut();
        // SAFETY: X1: all four live until the call returns.
        let status = unsafe { (self.api.get)(&whose, key.as_ptr(), &here, 1, &mut value) };
        if status == abi::ERR_NOT_FOUND {
            return Ok(None);
        }
        if status != abi::SUCCESS || value.is_null() {
            return Err(self.api.failure("a value (PMIx_Get)", status));
        }
        // SAFETY: X3.
        let (kind, data) = unsafe { ((*value).kind, (*value).data) };
        let result = read(kind, data);
        match self.api.destruct {
            // SAFETY: X3: it is freed once, after it was read.
            Some(destruct) => unsafe { destruct(value) },
            // SAFETY: X3: a value that the library made; numbers hold nothing.
            None if kind == abi::TYPE_BYTE_OBJECT => unsafe { libc::free(data.object.bytes.cast()) },
            None => {}
        }
        // SAFETY: X3: what it held is freed; now itself.
        unsafe { libc::free(value.cast()) };
        result.map(Some)
    }

    /// Goes into the fence, without waiting for the others.
    pub(crate) fn barrier_start(&mut self) -> Result<(), Error> {
        // SAFETY: X1.
        let status = unsafe { (self.api.commit)() };
        if status != abi::SUCCESS && status != abi::OPERATION_SUCCEEDED {
            return Err(self.api.failure("blocks (PMIx_Commit)", status));
        }
        let fence = Arc::new(Fence { collect: Info::on(c"pmix.collect"), status: Mutex::new(None), changed: Condvar::new() });
        let theirs = Arc::into_raw(Arc::clone(&fence));
        // SAFETY: X1, X2: the directive lives in what the callback gives back.
        let status = unsafe { (self.api.fence)(ptr::null(), 0, &(*theirs).collect, 1, fence_done, theirs.cast_mut().cast()) };
        if status != abi::SUCCESS {
            // SAFETY: X2: it was refused or is done already; the callback will not come.
            drop(unsafe { Arc::from_raw(theirs) });
            if status != abi::OPERATION_SUCCEEDED {
                return Err(self.api.failure("a fence (PMIx_Fence)", status));
            }
            *fence.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(abi::SUCCESS);
        }
        self.fence = Some(fence);
        Ok(())
    }

    /// Whether all have come to the fence; waits for them until `deadline`, or for ever.
    pub(crate) fn barrier_done(&mut self, deadline: Option<Instant>) -> Result<bool, Error> {
        let Some(fence) = &self.fence else { return Ok(true) };
        let mut status = fence.status.lock().unwrap_or_else(PoisonError::into_inner);
        while status.is_none() {
            let Some(deadline) = deadline else {
                status = fence.changed.wait(status).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            status = fence.changed.wait_timeout(status, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let result = status.unwrap_or(abi::SUCCESS);
        drop(status);
        self.fence = None;
        if result == abi::SUCCESS { Ok(true) } else { Err(self.api.failure("a fence (PMIx_Fence)", result)) }
    }

    /// Leaves the job.
    pub(crate) fn finalize(&mut self) -> Result<(), Error> {
        // SAFETY: X1: no directives.
        let status = unsafe { (self.api.finalize)(ptr::null(), 0) };
        if status == abi::SUCCESS { Ok(()) } else { Err(self.api.failure("PMIx_Finalize", status)) }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("rank", &self.me.rank).finish_non_exhaustive()
    }
}

/// Called once by a thread of the library.
unsafe extern "C" fn fence_done(status: c_int, data: *mut c_void) {
    // SAFETY: X2: `data` is what `barrier_start` gave away.
    let fence = unsafe { Arc::from_raw(data.cast::<Fence>().cast_const()) };
    *fence.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    fence.changed.notify_all();
}

/// A key of ours among those of others.
fn c_key(key: &str) -> CString {
    // Keys are checked by the caller: no zero bytes.
    CString::new(format!("bellwire.{key}")).unwrap_or_default()
}
