// SPDX-License-Identifier: MIT OR Apache-2.0
//! Active Messages between the two measuring processes: an endpoint each, on a device of its own
//! beside libvipl's NIC, so that the raw VI and this layer are measured in one run.
//!
//! As with the raw VI, what arrives is checked inside the timed loop: each handler compares the
//! number that its message carries with the one that is due.

pub mod breakdown;
mod bulk;
pub mod layer;
pub mod mapped;
mod rpc;
mod short;
mod steps;

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bellwire_am::{Bundle, Device, EndpointId, NAME_BYTES, Name, Region};
use bellwire_memory::atomic::{AtomicU64, Ordering};
use serde::{Deserialize, Serialize};

use crate::bench::meeting;
use crate::clock::Patience;
use crate::endpoint::PATIENCE;
use crate::error::Error;
use crate::job::{Request, Setup};
use crate::shared::{LINE_BYTES, SharedMap};

/// Where the processes tell each other their names: two lines each, behind the mailboxes of the raw
/// VI.
const NAMES_OFFSET: usize = 52 << 10;
/// A line in which the second process says how far it is.
const DONE: usize = NAMES_OFFSET + 8 * LINE_BYTES;
/// Where they tell each other the addresses of their nodes.
const ADDRESSES_OFFSET: usize = DONE + LINE_BYTES;
/// Bytes of each segment: the largest bulk message that is measured.
pub const SEGMENT_BYTES: usize = 8 << 20;
const TAG: u64 = 0x6c6f_6770;

const PING: u8 = 1;
const PONG: u8 = 2;
const COUNT: u8 = 3;
const LAST: u8 = 4;
const ANSWER: u8 = 5;
/// As [`PING`], its steps marked.
const PING_WATCHED: u8 = 6;
/// As [`COUNT`], and copies the payload.
const COPY: u8 = 7;

/// What is measured. The first process answers with the figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum AmJob {
    /// `[half round trip ns]` of a short request and its short reply, two arguments each: 16 bytes.
    Latency {
        /// Round trips.
        count: u64,
    },
    /// `[o_send, o_recv]` in ns: of a request, and of a poll that handles a reply which is there.
    Overhead {
        /// Bursts.
        bursts: u64,
    },
    /// `[ns between two short requests]` of a long stream, each with a reply or without.
    Gap {
        /// Requests.
        count: u64,
        /// Whether the handler replies.
        replied: bool,
    },
    /// `[GB/s]` of bulk messages into the other's segment.
    Bulk {
        /// Bytes of a message.
        size: usize,
        /// Messages.
        count: u64,
    },
    /// `[ticks of each leg ..]` of the sender's calls in such a stream: see
    /// [`crate::breakdown::path::BULK_STREAM`].
    BulkSteps {
        /// Bytes of a message.
        size: usize,
        /// Messages.
        count: u64,
    },
    /// `[GB/s]` of the same data in medium messages, copied by their handlers.
    InMessages {
        /// Bytes of a message.
        size: usize,
        /// Messages.
        count: u64,
    },
    /// `[ticks of a round trip, ticks of each leg of its way ..]`, the legs if it is watched: see
    /// [`crate::breakdown::path`].
    Steps {
        /// Which kind of request.
        way: Way,
        /// Bytes of its payload.
        size: usize,
        /// Batches of round trips.
        batches: usize,
        /// Whether its steps are marked.
        watched: bool,
    },
    /// `[ticks of a poll that finds nothing]`.
    EmptyPolls {
        /// Polls.
        count: u64,
    },
    /// `[ns for each call]` of remote procedure calls with a number as argument and result, so many
    /// of them under way.
    Rpc {
        /// Calls.
        count: u64,
        /// Calls under way.
        window: usize,
    },
}

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Arguments only.
    Short,
    /// A payload that is copied.
    Medium,
    /// Data into the segment.
    Bulk,
}

/// What handlers count: the number due next, and numbers that were not due.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    next: AtomicU64,
    wrong: AtomicU64,
}

impl Seen {
    /// A message with this number has come.
    #[inline]
    pub(crate) fn take(&self, number: i32) {
        // Relaxed, all of them: handlers run on the thread that looks.
        let due = self.next.load(Ordering::Relaxed);
        if number != due as i32 {
            // Relaxed: as above.
            self.wrong.store(1, Ordering::Relaxed);
        }
        // Relaxed: as above.
        self.next.store(due + 1, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn count(&self) -> u64 {
        // Relaxed: as in take().
        self.next.load(Ordering::Relaxed)
    }

    /// Something is wrong.
    pub(crate) fn spoil(&self) {
        // Relaxed: as in take().
        self.wrong.store(1, Ordering::Relaxed);
    }

    fn reset(&self) {
        // Relaxed: as in take().
        self.next.store(0, Ordering::Relaxed);
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        // Relaxed: as in take().
        if self.wrong.load(Ordering::Relaxed) == 0 { Ok(()) } else { Err(Error::failed("active messages came out of order")) }
    }
}

/// This process's endpoint, connected with the other's.
pub struct Am {
    bundle: Bundle,
    endpoint: EndpointId,
    source: Arc<Region>,
    pings: Arc<Seen>,
    pongs: Arc<Seen>,
    /// Replies to the last requests of streams.
    answers: Arc<Seen>,
    returned: Arc<AtomicU64>,
    /// For remote procedure calls, when they are measured first.
    rpc: OnceCell<rpc::Rpc>,
    first: bool,
}

impl core::fmt::Debug for Am {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Am").finish_non_exhaustive()
    }
}

fn failed(error: impl core::fmt::Display) -> Error {
    Error::failed(format!("active messages: {error}"))
}

impl Am {
    /// Opens a device and maps the other process's endpoint as entry 0.
    ///
    /// # Errors
    /// If the NIC cannot be opened, or the other process does not come.
    pub fn open(setup: &Setup, request: &Request, map: &SharedMap) -> Result<Self, Error> {
        let config = bellwire_via::nic::NicConfig::from_env().map_err(failed)?;
        let device = Device::open(config).map_err(failed)?;
        let bundle = Bundle::new(&device).map_err(failed)?;
        let endpoint = bundle.create_endpoint().map_err(failed)?;
        bundle.set_tag(endpoint, TAG).map_err(failed)?;
        bundle.set_segment(endpoint, Some(&device.allocate(SEGMENT_BYTES).map_err(failed)?)).map_err(failed)?;
        let source = device.allocate(SEGMENT_BYTES).map_err(failed)?;
        let [pings, pongs, answers] = [(); 3].map(|()| Arc::new(Seen::default()));
        let returned = Arc::new(AtomicU64::new(0));
        let [p, w, c, k, l] = [(); 5].map(|()| Arc::clone(&pings));
        let mut copy = vec![0; bellwire_am::MEDIUM_BYTES_MAX];
        let (q, a, r) = (Arc::clone(&pongs), Arc::clone(&answers), Arc::clone(&returned));
        let handlers = bundle
            .set_handler(endpoint, PING, move |message| {
                let args = [message.args()[0], message.args()[1]];
                p.take(args[0]);
                if message.reply(PONG, &args).is_err() {
                    // Relaxed: as in Seen::take().
                    p.wrong.store(1, Ordering::Relaxed);
                }
            })
            .and_then(|()| bundle.set_handler(endpoint, PING_WATCHED, move |message| steps::answer(message, &w)))
            .and_then(|()| {
                bundle.set_handler(endpoint, COPY, move |message| {
                    message.payload().read(0, &mut copy);
                    k.take(message.args()[0]);
                })
            })
            .and_then(|()| bundle.set_handler(endpoint, COUNT, move |message| c.take(message.args()[0])))
            .and_then(|()| {
                bundle.set_handler(endpoint, LAST, move |message| {
                    l.take(message.args()[0]);
                    if message.reply(ANSWER, &[0]).is_err() {
                        // Relaxed: as in Seen::take().
                        l.wrong.store(1, Ordering::Relaxed);
                    }
                })
            })
            .and_then(|()| bundle.set_handler(endpoint, ANSWER, move |message| a.take(message.args()[0])))
            .and_then(|()| bundle.set_handler(endpoint, PONG, move |message| q.take(message.args()[0])))
            // Relaxed: as in Seen::take().
            .and_then(|()| bundle.set_error_handler(endpoint, move |_| r.store(1, Ordering::Relaxed)));
        handlers.map_err(failed)?;
        let at = |first: bool| NAMES_OFFSET + if first { 0 } else { 2 * LINE_BYTES };
        for (i, word) in bundle.name(endpoint).map_err(failed)?.to_bytes().chunks(8).enumerate() {
            map.word(at(setup.first) + 8 * i).put(u64::from_ne_bytes(word.try_into().unwrap_or_default()));
        }
        map.meet(setup.first, meeting(request.epoch, 1), PATIENCE)?;
        let mut name = [0; NAME_BYTES];
        for (i, word) in name.chunks_mut(8).enumerate() {
            word.copy_from_slice(&map.word(at(!setup.first) + 8 * i).get().to_ne_bytes());
        }
        let name = Name::from_bytes(&name).ok_or_else(|| Error::failed("the other process has no name"))?;
        bundle.map(endpoint, 0, name, TAG).map_err(failed)?;
        Ok(Self { bundle, endpoint, source, pings, pongs, answers, returned, rpc: OnceCell::new(), first: setup.first })
    }

    /// Runs one job: its figures.
    ///
    /// # Errors
    /// What goes wrong.
    pub fn run(&self, job: &AmJob, request: &Request, map: &SharedMap) -> Result<Vec<f64>, Error> {
        self.pings.reset();
        self.pongs.reset();
        self.answers.reset();
        map.word(DONE).publish(0);
        let pair = Pair { am: self, map, epoch: request.epoch };
        pair.meet(2)?;
        let values = match *job {
            AmJob::Latency { count } => short::latency(&pair, count),
            AmJob::Overhead { bursts } => short::overhead(&pair, bursts),
            AmJob::Gap { count, replied } => short::gap(&pair, count, replied),
            AmJob::Bulk { size, count } => bulk::bandwidth(&pair, size, count),
            AmJob::BulkSteps { size, count } => bulk::steps(&pair, size, count),
            AmJob::InMessages { size, count } => bulk::in_messages(&pair, size, count),
            AmJob::Steps { way, size, batches, watched } => steps::run(&pair, way, size, batches, watched),
            AmJob::EmptyPolls { count } => steps::empty_polls(&pair, count),
            AmJob::Rpc { count, window } => rpc::calls(&pair, count, window),
        }?;
        self.pings.check()?;
        self.pongs.check()?;
        pair.meet(14)?;
        Ok(values)
    }
}

/// Both processes, seen from one of them, in one job.
struct Pair<'a> {
    am: &'a Am,
    map: &'a SharedMap,
    epoch: u64,
}

impl Pair<'_> {
    /// Both arrive at `step`; meanwhile what comes is handled.
    fn meet(&self, step: u64) -> Result<(), Error> {
        while self.am.bundle.poll().map_err(failed)? != 0 {}
        self.map.meet(self.am.first, meeting(self.epoch, step), PATIENCE)
    }

    #[inline]
    fn request(&self, handler: u8, number: u64) -> Result<(), Error> {
        self.am.bundle.request(self.am.endpoint, 0, handler, &[number as i32, 0]).map_err(failed)
    }

    /// Polls until `seen` has counted to `count`.
    #[inline]
    fn until(&self, seen: &Seen, count: u64) -> Result<(), Error> {
        let mut patience = Patience::lasting(PATIENCE);
        while seen.count() < count {
            if self.am.bundle.poll().map_err(failed)? == 0 {
                self.alive(&mut patience)?;
            }
        }
        Ok(())
    }

    /// Calls `send` with `count` numbers after an eighth more to warm up, and with whether it is
    /// the last; then `end` with how many there were. How long that took, without the warming up.
    /// The second process handles as many: `None`.
    #[inline]
    fn stream(
        &self,
        count: u64,
        mut send: impl FnMut(u64, bool) -> Result<(), Error>,
        end: impl FnOnce(u64) -> Result<(), Error>,
    ) -> Result<Option<Duration>, Error> {
        let warm_up = count / 8 + 1;
        let all = warm_up + count;
        if !self.am.first {
            self.until(&self.am.pings, all)?;
            return Ok(None);
        }
        let mut start = Instant::now();
        for number in 0..all {
            if number == warm_up {
                start = Instant::now();
            }
            send(number, number + 1 == all)?;
        }
        end(all)?;
        Ok(Some(start.elapsed()))
    }

    /// Polls until the one reply of a stream has come, whatever number it carries.
    fn until_answered(&self) -> Result<(), Error> {
        self.until(&self.am.answers, 1)
    }

    #[inline]
    fn alive(&self, patience: &mut Patience) -> Result<(), Error> {
        // Relaxed: as in Seen::take().
        if self.am.returned.load(Ordering::Relaxed) != 0 {
            return Err(Error::failed("an active message came back"));
        }
        patience.tick()
    }
}
