// SPDX-License-Identifier: MIT OR Apache-2.0
//! The job library of this process, `libbellwire_job.so.1`, loaded when a program asks for its job. It is asked, not linked in: a process is in its job once, and the program or another
//! library may be in it already, through the same library.
//!
//! Invariant J1: the symbols are those of `bellwire_job.h`, ABI level 1, which the library's name promises; the library is never unloaded.

use bellwire_spmd::{Error, Exchange};
use core::ffi::{CStr, c_char, c_int, c_void};
use libloading::{Library, Symbol};

const NAME: &str = "libbellwire_job.so.1";

/// A membership of the job; ends when it is dropped.
pub(crate) struct Job {
    library: Library,
}

type Number = unsafe extern "C" fn() -> c_int;
type AllGather = unsafe extern "C" fn(*const c_void, usize, *mut c_void) -> c_int;
type Reason = unsafe extern "C" fn() -> *const c_char;
type Exit = unsafe extern "C" fn(c_int);

impl Job {
    /// Loads the library and joins.
    pub(crate) fn join() -> Result<Self, Error> {
        // SAFETY: J1: its initialisers are those of a Rust library: none of our own.
        let library = unsafe { Library::new(NAME) }.map_err(|e| Error::Launcher(format!("{NAME}: {e}")))?;
        let job = Self { library };
        let joined = job.number(c"bw_job_join");
        if joined == Some(0) {
            return Ok(job);
        }
        let why = job.reason();
        // Not a member: nothing is to be left.
        core::mem::forget(job);
        Err(Error::Launcher(why))
    }

    fn symbol<T>(&self, name: &CStr) -> Option<Symbol<'_, T>> {
        // SAFETY: J1: each caller asks for the type that the header gives to the name.
        unsafe { self.library.get(name.to_bytes_with_nul()) }.ok()
    }

    fn number(&self, name: &CStr) -> Option<c_int> {
        let function = self.symbol::<Number>(name)?;
        // SAFETY: J1: no arguments.
        Some(unsafe { function() })
    }

    fn count(&self, name: &CStr) -> u32 {
        self.number(name).and_then(|n| u32::try_from(n).ok()).unwrap_or(1)
    }

    fn reason(&self) -> String {
        let Some(function) = self.symbol::<Reason>(c"bw_job_error") else { return format!("{NAME} is not what it should be") };
        // SAFETY: J1: a string of the library, valid until this thread's next call.
        unsafe { CStr::from_ptr(function()) }.to_string_lossy().into_owned()
    }
}

impl Exchange for Job {
    fn rank(&self) -> u32 {
        self.number(c"bw_job_rank").and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
    }

    fn size(&self) -> u32 {
        self.count(c"bw_job_size")
    }

    fn local_size(&self) -> u32 {
        self.count(c"bw_job_local_size")
    }

    fn all_gather(&self, block: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let function = self.symbol::<AllGather>(c"bw_job_allgather").ok_or_else(|| Error::Launcher(self.reason()))?;
        let mut all = vec![0u8; block.len() * self.size() as usize];
        // SAFETY: J1: a block, its length, and room for as many as there are processes.
        let code = unsafe { function(block.as_ptr().cast(), block.len(), all.as_mut_ptr().cast()) };
        if code != 0 {
            return Err(Error::Launcher(self.reason()));
        }
        Ok(all.chunks(block.len().max(1)).map(<[u8]>::to_vec).collect())
    }

    fn exit(&self, status: i32) -> ! {
        if let Some(function) = self.symbol::<Exit>(c"bw_job_exit") {
            // SAFETY: J1.
            unsafe { function(status) };
        }
        std::process::exit(status)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.number(c"bw_job_leave");
    }
}
