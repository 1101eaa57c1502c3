// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process in its job: a [`Team`], of which there is one.

use crate::carrier::{Carrier, On, OnVi, each};
use crate::handlers::token;
use crate::objects::{AM_Terminate, BundleObject, EndpointObject, Guard, Library, endpoint, init, library, open};
use crate::types::{BAD_ARG, IN_USE, NOT_INIT, OK, code, put};
use bellwire_am::EndpointId;
use bellwire_job::Job;
use bellwire_spmd::layer::Layer;
use bellwire_spmd::{Error, Team, open_device};
use core::ffi::{c_char, c_int, c_void};
use std::cell::RefCell;
use std::ffi::CString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const JOB: c_int = 64;
const LOST: c_int = 65;

static TEAM: Mutex<Option<Started>> = Mutex::new(None);

/// The team, and what the program was given as its endpoint, which it may move or free.
struct Started {
    team: Arc<AnyTeam>,
    endpoint: usize,
}

/// The team, on whichever carries its messages.
enum AnyTeam {
    Native(Team),
    Vi(Team<OnVi>),
}

thread_local! {
    /// What the thread's last failure was about.
    static REASON: RefCell<CString> = RefCell::new(CString::default());
}

fn set_reason(text: String) {
    // Zero bytes, which no message has, would be the only obstacle.
    let text = CString::new(text).unwrap_or_default();
    let _ = REASON.try_with(|reason| *reason.borrow_mut() = text);
}

fn lock() -> MutexGuard<'static, Option<Started>> {
    TEAM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The team, without its lock: others may ask for their rank while this thread waits.
fn team() -> Option<Arc<AnyTeam>> {
    lock().as_ref().map(|started| Arc::clone(&started.team))
}

fn outcome(outcome: Result<(), Error>) -> c_int {
    let Err(e) = outcome else { return OK };
    set_reason(e.to_string());
    match e {
        Error::Messages(e) => code(Err(e)),
        Error::Lost(_) => LOST,
        Error::Launcher(_) | Error::Device(_) => JOB,
        _ => BAD_ARG,
    }
}

fn failure(code: c_int, text: &str) -> c_int {
    set_reason(text.to_owned());
    code
}

fn not_started() -> c_int {
    failure(NOT_INIT, "AMX_Start has not been called, or has failed")
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMX_Start(eb: *mut *mut BundleObject, ep: *mut *mut EndpointObject) -> c_int {
    if eb.is_null() || ep.is_null() {
        return failure(BAD_ARG, "a place for a result is NULL");
    }
    let mut current = lock();
    if current.is_some() {
        return failure(IN_USE, "AMX_Start has been called before");
    }
    let started = start();
    let (team, bundle, given) = match started {
        Ok(started) => started,
        Err(e) => return outcome(Err(e)),
    };
    *current = Some(Started { team: Arc::new(team), endpoint: given.addr() });
    // SAFETY: C1, not NULL.
    unsafe {
        eb.write(bundle);
        ep.write(given);
    }
    OK
}

/// Through the job library, so that the program and other libraries may be in the job as well.
fn join() -> Result<Job, Error> {
    Job::join_installed().map_err(|error| Error::Launcher(error.to_string()))
}

fn start() -> Result<(AnyTeam, *mut BundleObject, *mut EndpointObject), Error> {
    let job = join()?;
    let library = init(|library| {
        let native = |library: &mut Library| -> Result<(), Opening> {
            if library.native.is_none() {
                library.native = Some(open_device(&job).map_err(Opening)?);
            }
            Ok(())
        };
        open(library, native).map_err(|e| e.0)
    })?;
    if let Some(device) = library.vi.clone() {
        let started = if job.local_size() < job.size() && std::env::var_os("BELLWIRE_ADDRESS").is_none() {
            Err(Error::Device("this job is on several hosts: with BELLWIRE_AM it needs BELLWIRE_ADDRESS".to_owned()))
        } else {
            let bundle = bellwire_amvia::Bundle::new(&device).map_err(Error::Messages);
            bundle.and_then(|bundle| Team::start_in(OnVi(Arc::new(bundle)), job))
        };
        return finish_start(library, started, |team| (On::Vi(Arc::clone(&team.bundle().0)).into(), AnyTeam::Vi(team)));
    }
    let device = library.native.clone();
    let started = device.ok_or_else(|| Error::Device("the library has no NIC".to_owned())).and_then(|device| Team::start_on(&device, job));
    finish_start(library, started, |team| (On::Native(Arc::clone(team.bundle())).into(), AnyTeam::Native(team)))
}

/// A device that could not be opened.
struct Opening(Error);

impl From<String> for Opening {
    fn from(what: String) -> Self {
        Self(Error::Device(what))
    }
}

fn finish_start<B: Layer>(
    mut library: Guard,
    started: Result<Team<B>, Error>,
    wrap: impl FnOnce(Team<B>) -> (Carrier, AnyTeam),
) -> Result<(AnyTeam, *mut BundleObject, *mut EndpointObject), Error> {
    match started {
        Ok(team) => {
            let of_team = team.endpoint();
            let (carrier, team) = wrap(team);
            let bundle = library.add_bundle(carrier);
            let endpoint = library.add_endpoint(bundle, of_team);
            Ok((team, bundle, endpoint))
        }
        Err(e) => {
            drop(library);
            AM_Terminate();
            Err(e)
        }
    }
}

/// Where the program's endpoint is now, if it is there.
fn place_of(at: usize) -> Option<(Carrier, EndpointId)> {
    let library = library().ok()?;
    if !library.endpoints.contains(&at) {
        return None;
    }
    // SAFETY: it is in the list, so nobody frees it before the library's lock is given back.
    let (carrier, id) = unsafe { endpoint(core::ptr::with_exposed_provenance_mut(at)) }.ok()?;
    Some((carrier.clone(), id))
}

/// See am.h.
#[unsafe(no_mangle)]
pub extern "C" fn AMX_Finish() -> c_int {
    let Some(team) = team() else { return not_started() };
    if each!(AnyTeam, &*team, t => t.bundle().is_in_handler()) {
        return failure(BAD_ARG, "not within a handler");
    }
    // It keeps its place until it is over: a barrier of another thread is the program's error, and
    // gives one.
    let at = lock().as_ref().map(|started| started.endpoint);
    let place = at.and_then(place_of);
    let ended = outcome(match (&*team, place.as_ref().map(|(carrier, id)| (&carrier.on, id))) {
        (AnyTeam::Native(team), Some((On::Native(bundle), id))) => team.settle_at(Some((bundle, *id))),
        (AnyTeam::Vi(team), Some((On::Vi(bundle), id))) => team.settle_at(Some((&OnVi(Arc::clone(bundle)), *id))),
        _ => each!(AnyTeam, &*team, t => t.settle_at(None)),
    });
    *lock() = None;
    drop(team);
    AM_Terminate();
    ended
}

/// See am.h.
#[unsafe(no_mangle)]
pub extern "C" fn AMX_Rank() -> c_int {
    team().map_or(-1, |team| each!(AnyTeam, &*team, t => t.rank()) as c_int)
}

/// See am.h.
#[unsafe(no_mangle)]
pub extern "C" fn AMX_Size() -> c_int {
    team().map_or(-1, |team| each!(AnyTeam, &*team, t => t.size()) as c_int)
}

/// See am.h.
#[unsafe(no_mangle)]
pub extern "C" fn AMX_Barrier() -> c_int {
    team().map_or_else(not_started, |team| outcome(each!(AnyTeam, &*team, t => t.barrier())))
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMX_AllGather(block: *const c_void, nbytes: usize, all: *mut c_void) -> c_int {
    let Some(team) = team() else { return not_started() };
    if nbytes > bellwire_spmd::BLOCK_MAX_BYTES || (nbytes > 0 && (block.is_null() || all.is_null())) {
        return failure(BAD_ARG, "a pointer is NULL, or the block is too long");
    }
    // SAFETY: C1: so many readable bytes.
    let block = if nbytes == 0 { &[] } else { unsafe { core::slice::from_raw_parts(block.cast::<u8>(), nbytes) } };
    let blocks = match each!(AnyTeam, &*team, t => t.all_gather(block)) {
        Ok(blocks) => blocks,
        Err(e) => return outcome(Err(e)),
    };
    if blocks.iter().any(|block| block.len() != nbytes) {
        return failure(BAD_ARG, "blocks of different lengths");
    }
    let joint = blocks.concat();
    if !joint.is_empty() {
        // SAFETY: C1: room for all of them; nothing of ours overlaps memory of the program.
        unsafe { core::ptr::copy_nonoverlapping(joint.as_ptr(), all.cast(), joint.len()) };
    }
    OK
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMX_SourceRank(message: *mut c_void, rank: *mut c_int) -> c_int {
    let Some(team) = team() else { return not_started() };
    // SAFETY: C1.
    let found = unsafe { token(message) }.and_then(|t| each!(AnyTeam, &*team, of => of.rank_of_name(&t.message.source())).ok_or(bellwire_am::Error::Resource));
    // SAFETY: C1.
    unsafe { put(rank, found.map(|rank| rank as c_int)) }
}

/// See am.h.
#[unsafe(no_mangle)]
pub extern "C" fn AMX_Exit(status: c_int) -> ! {
    if let Some(team) = team() {
        each!(AnyTeam, &*team, t => t.exit(status));
    }
    match join() {
        Ok(job) => job.exit(status),
        Err(_) => bellwire_job::end_process(status),
    }
}

/// See am.h.
#[unsafe(no_mangle)]
pub extern "C" fn AMX_Reason() -> *const c_char {
    // A thread that is ending has none any more.
    REASON.try_with(|reason| reason.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
