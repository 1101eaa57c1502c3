// SPDX-License-Identifier: MIT OR Apache-2.0
//! The job library of this process, `libbellwire_job.so.1`, loaded when a library of this project
//! joins the job. It is asked, not linked in: a process is in its job once, and the program or
//! another library may be in it already, through the same library. Its functions count their
//! callers.
//!
//! Invariant J1: the symbols are those of `bellwire_job.h`, ABI level 1, which the library's name
//! promises; the library is never unloaded.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

use libloading::Library;

use crate::environment::Launcher;
use crate::error::Error;
use crate::text::BLOCK_MAX_BYTES;

const NAME: &str = "libbellwire_job.so.1";

type Number = unsafe extern "C" fn() -> c_int;
type Text = unsafe extern "C" fn() -> *const c_char;
type Put = unsafe extern "C" fn(*const c_char, *const c_void, usize) -> c_int;
type Get = unsafe extern "C" fn(c_int, *const c_char, *mut c_void, usize, *mut usize) -> c_int;
type AllGather = unsafe extern "C" fn(*const c_void, usize, *mut c_void, usize, *mut usize) -> c_int;
type Done = unsafe extern "C" fn(*mut c_int) -> c_int;
type Exit = unsafe extern "C" fn(c_int);

/// Its functions.
#[derive(Debug)]
pub(crate) struct Api {
    leave: Number,
    barrier: Number,
    barrier_start: Number,
    barrier_done: Done,
    put: Put,
    get: Get,
    all_gather: AllGather,
    error: Text,
    exit: Exit,
    _library: Library,
}

/// What it says of this process.
pub(crate) struct Place {
    pub rank: u32,
    pub size: u32,
    pub local_rank: u32,
    pub local_size: u32,
    pub id: String,
    pub launcher: Launcher,
}

/// A membership through the library; ends when it is told.
#[derive(Debug)]
pub(crate) struct Client(Arc<Api>);

impl Client {
    /// Loads the library and joins; `None`: it is not installed.
    pub(crate) fn join() -> Option<Result<(Self, Place), Error>> {
        // SAFETY: J1: its initialisers are those of a Rust library: none of our own.
        let library = unsafe { Library::new(NAME) }.ok()?;
        Some(Self::joined(library))
    }

    fn joined(library: Library) -> Result<(Self, Place), Error> {
        let missing = |_| Error::Environment(format!("{NAME} is not what it should be"));
        // SAFETY: J1: each symbol has the type that the header gives to its name; kept with the
        // library.
        let (join, api) = unsafe {
            let number = |name: &CStr| library.get::<Number>(name.to_bytes_with_nul()).map(|symbol| *symbol).map_err(missing);
            let join = number(c"bw_job_join")?;
            let (leave, barrier, barrier_start) = (number(c"bw_job_leave")?, number(c"bw_job_barrier")?, number(c"bw_job_barrier_start")?);
            let barrier_done = *library.get::<Done>(b"bw_job_barrier_done\0").map_err(missing)?;
            let put = *library.get::<Put>(b"bw_job_put\0").map_err(missing)?;
            let get = *library.get::<Get>(b"bw_job_get\0").map_err(missing)?;
            let all_gather = *library.get::<AllGather>(b"bw_job_allgatherv\0").map_err(missing)?;
            let error = *library.get::<Text>(b"bw_job_error\0").map_err(missing)?;
            let exit = *library.get::<Exit>(b"bw_job_exit\0").map_err(missing)?;
            (join, Api { leave, barrier, barrier_start, barrier_done, put, get, all_gather, error, exit, _library: library })
        };
        // SAFETY: J1: no arguments.
        api.check("to join the job", unsafe { join() })?;
        let place = api.place()?;
        Ok((Self(Arc::new(api)), place))
    }

    pub(crate) fn api(&self) -> Arc<Api> {
        Arc::clone(&self.0)
    }

    pub(crate) fn put(&self, key: &str, block: &[u8]) -> Result<(), Error> {
        let key = c_key(key)?;
        // SAFETY: J1: a string, a block and its length.
        self.0.check("to keep a block", unsafe { (self.0.put)(key.as_ptr(), block.as_ptr().cast(), block.len()) })
    }

    pub(crate) fn get(&self, rank: u32, key: &str) -> Result<Option<Vec<u8>>, Error> {
        const NOT_FOUND: c_int = 7;
        let key = c_key(key)?;
        let (mut block, mut length) = (vec![0u8; BLOCK_MAX_BYTES], 0);
        // SAFETY: J1: a string, room and its length, and a place for the block's length.
        let code = unsafe { (self.0.get)(rank.cast_signed(), key.as_ptr(), block.as_mut_ptr().cast(), block.len(), &raw mut length) };
        if code == NOT_FOUND {
            return Ok(None);
        }
        self.0.check("for a block", code)?;
        block.truncate(length);
        Ok(Some(block))
    }

    pub(crate) fn all_gather(&self, size: u32, block: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        // Blocks of start-up are short; room for the longest that there can be would be much memory
        // for many processes. Too little of it is an error that says so.
        const ROOM: usize = 2048;
        let mut all = vec![0u8; block.len().max(ROOM) * size as usize];
        let mut lengths = vec![0usize; size as usize];
        // SAFETY: J1: a block and its length, room and its length, and as many lengths as there are
        // processes.
        let code = unsafe { (self.0.all_gather)(block.as_ptr().cast(), block.len(), all.as_mut_ptr().cast(), all.len(), lengths.as_mut_ptr()) };
        self.0.check("for all blocks", code)?;
        let mut rest = all.as_slice();
        let blocks = lengths.into_iter().map(|length| {
            let (block, after) = rest.split_at_checked(length)?;
            rest = after;
            Some(block.to_vec())
        });
        blocks.collect::<Option<_>>().ok_or_else(|| Error::Environment(format!("{NAME} has told lengths that cannot be")))
    }

    /// Waits.
    pub(crate) fn barrier(&self) -> Result<(), Error> {
        // SAFETY: J1: no arguments.
        self.0.check("for a barrier", unsafe { (self.0.barrier)() })
    }

    pub(crate) fn barrier_start(&self) -> Result<(), Error> {
        // SAFETY: J1: no arguments.
        self.0.check("for a barrier", unsafe { (self.0.barrier_start)() })
    }

    pub(crate) fn barrier_done(&self) -> Result<bool, Error> {
        let mut done = 0;
        // SAFETY: J1: a place for the answer.
        self.0.check("for a barrier", unsafe { (self.0.barrier_done)(&raw mut done) })?;
        Ok(done != 0)
    }

    pub(crate) fn finalize(&self) -> Result<(), Error> {
        // SAFETY: J1: no arguments.
        self.0.check("to leave", unsafe { (self.0.leave)() })
    }
}

impl Api {
    fn check(&self, what: &str, code: c_int) -> Result<(), Error> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: J1: a string of the library, valid until this thread's next call.
        let why = unsafe { CStr::from_ptr((self.error)()) }.to_string_lossy().into_owned();
        Err(Error::Refused { what: format!("{NAME}: {what}"), why })
    }

    fn place(&self) -> Result<Place, Error> {
        let missing = |_| Error::Environment(format!("{NAME} is not what it should be"));
        let number = |name: &[u8]| {
            // SAFETY: J1.
            let function = *unsafe { self._library.get::<Number>(name) }.map_err(missing)?;
            // SAFETY: J1: no arguments.
            Ok::<_, Error>(u32::try_from(unsafe { function() }).unwrap_or_default())
        };
        let text = |name: &[u8]| {
            // SAFETY: J1.
            let function = *unsafe { self._library.get::<Text>(name) }.map_err(missing)?;
            // SAFETY: J1: a string that stays, or none.
            let text = unsafe { function() };
            // SAFETY: J1: not NULL, so a string that stays.
            Ok::<_, Error>(if text.is_null() { String::new() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned() })
        };
        let launcher = match text(b"bw_job_launcher\0")?.as_str() {
            "pmi" => Launcher::Pmi,
            "pmix" => Launcher::Pmix,
            _ => Launcher::Alone,
        };
        Ok(Place {
            rank: number(b"bw_job_rank\0")?,
            size: number(b"bw_job_size\0")?,
            local_rank: number(b"bw_job_local_rank\0")?,
            local_size: number(b"bw_job_local_size\0")?,
            id: text(b"bw_job_id\0")?,
            launcher,
        })
    }

    /// Ends the job, and this process.
    pub(crate) fn exit(&self, code: i32) {
        // SAFETY: J1.
        unsafe { (self.exit)(code) };
    }
}

fn c_key(key: &str) -> Result<std::ffi::CString, Error> {
    std::ffi::CString::new(key.trim_start_matches("u.")).map_err(|_| Error::BadKey(key.to_owned()))
}
