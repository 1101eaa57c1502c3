// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls that may take time, made beside the NIC: connecting, and leaving. Those to this node are
//! made by one thread, in order; those to other nodes, which may wait for seconds, each by a thread
//! of its own.

use super::message::{DOOR_BYTES, Door, Offer};
use super::notes::{Note, Notes};
use super::outcome::{Found, Joined, Outcome, Place};
use crate::LinkFailure;
use bellwire_memory::own_thread;
use bellwire_sisci_calls::{Error, Hear, Remote, RemoteDataInterrupt, RemoteInterrupt, Sisci, Told, code, reason};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a connection to another node waits for an object that is not there yet.
const FAR_MS: u32 = 500;
/// Tries to say something to a NIC that does not read, and the pause between.
const SAYS_MAX: u32 = 1000;
const SAY_PAUSE: Duration = Duration::from_millis(1);
/// Doors of one hash, most.
pub(super) const DOORS_MAX: u32 = 4;

/// How long a connection to an object there waits for it.
fn patience(place: Place) -> u32 {
    if place.near { 0 } else { FAR_MS }
}

/// A call to make.
pub(super) enum Job {
    /// Look for the NIC at a door.
    Find { request: u64, key: u128, place: Place },
    /// Connect to a NIC's end of a link.
    Join { token: u64, offer: Offer, place: Place, control: Option<Arc<RemoteDataInterrupt>> },
    /// Map an allocation.
    Map { token: u64, segment: u32, id: u32, write: bool, place: Place },
    /// Say something that there was no room for.
    Say { control: Arc<RemoteDataInterrupt>, bytes: Vec<u8> },
    /// Give up what is no longer used.
    Bury { what: Box<dyn Send>, near: bool },
}

fn failure(error: Error) -> LinkFailure {
    match error.0 {
        code::NO_SUCH_SEGMENT | code::NODE_NOT_RESPONDING | code::TIMEOUT => LinkFailure::NobodyThere,
        code::NO_SUCH_NODEID => LinkFailure::NotReachable,
        code::CONNECTION_REFUSED => LinkFailure::Busy,
        // An interrupt that is gone again.
        _ => LinkFailure::NobodyThere,
    }
}

/// The segment of the `n`th door with a key.
pub(super) fn door_id(key: u128, n: u32) -> u32 {
    (key as u32).wrapping_add(n) | 1 << 31
}

fn find(sisci: &Arc<Sisci>, notes: &Arc<Notes>, request: u64, key: u128, place: Place) -> Result<Found, LinkFailure> {
    for n in 0..DOORS_MAX {
        let mut there = Remote::connect(sisci, place.node, door_id(key, n), patience(place), None).map_err(failure)?;
        there.map(false).map_err(failure)?;
        let mut bytes = [0; DOOR_BYTES];
        there.read(0, &mut bytes).map_err(failure)?;
        let Some(door) = Door::load(&bytes).filter(|door| door.key == key) else { continue };
        let notes = Arc::clone(notes);
        let hear: Hear = Arc::new(move |told| {
            if ended(told).is_some() {
                notes.add(Note::HubEnded { request });
            }
        });
        let hub = Remote::connect(sisci, place.node, door.hub, patience(place), Some(hear)).map_err(failure)?;
        let control = RemoteDataInterrupt::connect(sisci, place.node, door.control, patience(place)).map_err(failure)?;
        return Ok(Found { door, place, control: Arc::new(control), hub });
    }
    Err(LinkFailure::NobodyThere)
}

/// Whether an event of a remote segment is its end; and whether its process is lost.
fn ended(told: Told<'_>) -> Option<bool> {
    match told {
        Told::Segment(reason::DISCONNECT) => Some(false),
        Told::Segment(reason::LOST) => Some(true),
        _ => None,
    }
}

fn join(
    sisci: &Arc<Sisci>,
    notes: &Arc<Notes>,
    token: u64,
    offer: &Offer,
    place: Place,
    control: Option<Arc<RemoteDataInterrupt>>,
) -> Result<Joined, LinkFailure> {
    let ms = patience(place);
    let hear: Hear = Arc::new({
        let notes = Arc::clone(notes);
        move |told| {
            if let Some(lost) = ended(told) {
                notes.add(Note::LinkEnded { token, lost });
            }
        }
    });
    let mut remote = Remote::connect(sisci, place.node, offer.segment, ms, Some(hear)).map_err(failure)?;
    if remote.bytes() != super::layout::SEGMENT_BYTES {
        return Err(LinkFailure::PeerMisbehaved);
    }
    remote.map(true).map_err(failure)?;
    let control = match control {
        Some(control) => control,
        None => Arc::new(RemoteDataInterrupt::connect(sisci, place.node, offer.control, ms).map_err(failure)?),
    };
    let bell = match offer.bell {
        0 => None,
        number => Some(Arc::new(RemoteInterrupt::connect(sisci, place.node, number, ms).map_err(failure)?)),
    };
    Ok(Joined { remote, control, bell })
}

fn map(sisci: &Arc<Sisci>, id: u32, write: bool, place: Place) -> Option<Remote> {
    let mut remote = Remote::connect(sisci, place.node, id, patience(place), None).ok()?;
    remote.map(write).ok()?;
    Some(remote)
}

fn make(sisci: &Arc<Sisci>, notes: &Arc<Notes>, job: Job) {
    match job {
        Job::Find { request, key, place } => {
            let found = find(sisci, notes, request, key, place);
            notes.add(Note::Done(Outcome::Found { request, found }));
        }
        Job::Join { token, offer, place, control } => {
            let joined = join(sisci, notes, token, &offer, place, control);
            notes.add(Note::Done(Outcome::Joined { token, joined }));
        }
        Job::Map { token, segment, id, write, place } => {
            notes.add(Note::Done(Outcome::Mapped { token, segment, write, remote: map(sisci, id, write, place) }));
        }
        Job::Say { control, bytes } => {
            // A NIC that reads nothing for a second learns of the rest by its end.
            for _ in 0..SAYS_MAX {
                if control.trigger(&bytes).is_ok() {
                    break;
                }
                std::thread::sleep(SAY_PAUSE);
            }
        }
        Job::Bury { what, .. } => drop(what),
    }
}

impl Job {
    fn is_near(&self) -> bool {
        match self {
            Self::Find { place, .. } | Self::Join { place, .. } | Self::Map { place, .. } => place.near,
            Self::Bury { near, .. } => *near,
            Self::Say { .. } => false,
        }
    }
}

/// The thread.
#[derive(Debug)]
pub(super) struct Worker {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    sisci: Arc<Sisci>,
    notes: Arc<Notes>,
}

fn work(sisci: &Arc<Sisci>, notes: &Arc<Notes>, jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        make(sisci, notes, job);
    }
}

impl Worker {
    pub fn start(sisci: &Arc<Sisci>, notes: &Arc<Notes>) -> Option<Self> {
        let (jobs, waiting) = channel();
        let (sisci, notes) = (Arc::clone(sisci), Arc::clone(notes));
        let (theirs, told) = (Arc::clone(&sisci), Arc::clone(&notes));
        let thread = own_thread::spawn(c"bellwire-sisci", move || work(&theirs, &told, &waiting)).ok()?;
        Some(Self { jobs: Some(jobs), thread: Some(thread), sisci, notes })
    }

    /// Has a job done.
    pub fn give(&self, job: Job) {
        if job.is_near() {
            if let Some(jobs) = &self.jobs {
                let _ = jobs.send(job);
            }
            return;
        }
        let (sisci, notes) = (Arc::clone(&self.sisci), Arc::clone(&self.notes));
        // Without a thread the job is lost: a request is tried again, what is buried is dropped.
        let _ = own_thread::spawn(c"bellwire-sisci", move || make(&sisci, &notes, job));
    }
}

impl Drop for Worker {
    /// All that was to be given up is given up.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
