// SPDX-License-Identifier: MIT OR Apache-2.0
//! Active Messages on the public calls of libvipl (`crates/amvia`): between the two measuring
//! processes, or between two NICs of the first one, whose steps are marked.
//!
//! The figures are those of [`super::AmJob`], by the same methods. A stream's data is read by the
//! handler of each message.

mod both;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bellwire_am::{EndpointId, MEDIUM_BYTES_MAX, NAME_BYTES};
use bellwire_amvia::{Bundle, Device, Mapping, Message, Name};
use serde::{Deserialize, Serialize};

use super::{DONE, NAMES_OFFSET, Seen, TAG, failed};
use crate::bench::meeting;
use crate::bench::overhead::{BURST, DELAY_NS, Delay, SETTLE, timed};
use crate::endpoint::PATIENCE;
use crate::error::Error;
use crate::job::{Request, Setup};
use crate::patient::Patient;
use crate::shared::{LINE_BYTES, SharedMap};
use crate::spans::{POLLED, PROGRAM, Unwatched, Watch};
use crate::stats;

const PING: u8 = 1;
const PONG: u8 = 2;
const DATA: u8 = 3;
/// Bytes of each segment: the longest message of a stream.
const SEGMENT_BYTES: usize = 1 << 20;
/// Polls for a reply that is there.
const POLLS_EACH: usize = 8;
/// Up to so many bytes a stream's messages are mediums, as in the AMVIA paper.
pub const MEDIUM_MAX: usize = 4096;

/// A mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// Three VIs, by send and receive.
    V1,
    /// One VI, by RDMA write with immediate data.
    V2,
    /// One VI, send and receive, and RDMA write for bulk data.
    V3,
}

impl Carrier {
    fn mapping(self) -> Mapping {
        match self {
            Self::V1 => Mapping::V1,
            Self::V2 => Mapping::V2,
            Self::V3 => Mapping::V3,
        }
    }
}

/// A measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MappedJob {
    /// `[half round trip ns]` of a short request and its reply, two arguments each.
    Latency {
        /// Round trips.
        count: u64,
    },
    /// `[o_send, o_recv]` in ns.
    Overhead {
        /// Bursts.
        bursts: u64,
    },
    /// `[ns between two requests]` of a long stream, each with a reply.
    Gap {
        /// Requests.
        count: u64,
    },
    /// `[GB/s]` of messages with data, each with a reply; their handlers read the data.
    Stream {
        /// Bytes of a message.
        size: usize,
        /// Messages.
        count: u64,
    },
    /// In the first process alone, between two NICs of it, on one thread: where the time of a round
    /// trip goes, as [`crate::spans::taken_apart`] gives it.
    Steps {
        /// Samples, at least.
        samples: u64,
    },
}

/// A bundle with an endpoint.
struct Side {
    bundle: Bundle,
    endpoint: EndpointId,
    /// Memory of the segment, which the NIC frees.
    _segment: bellwire_amvia::Region,
    pings: Arc<Seen>,
    pongs: Arc<Seen>,
    lost: Arc<Seen>,
}

impl Side {
    fn open(setup: &Setup, carrier: Carrier, credits: u16) -> Result<Self, Error> {
        check_library(setup)?;
        let own = std::env::current_exe().ok();
        let device = Device::open(carrier.mapping(), credits, own.as_deref()).map_err(failed)?;
        let bundle = Bundle::new(&device).map_err(failed)?;
        let endpoint = bundle.create_endpoint().map_err(failed)?;
        bundle.set_tag(endpoint, TAG).map_err(failed)?;
        let segment = device.allocate(SEGMENT_BYTES).map_err(failed)?;
        // SAFETY: the region is dropped with the bundle, behind it, and nothing else uses it.
        unsafe { bundle.set_segment_of_program(endpoint, segment.as_ptr(), SEGMENT_BYTES) }.map_err(failed)?;
        let [pings, pongs, lost] = [(); 3].map(|()| Arc::new(Seen::default()));
        let (p, q, d, l) = (Arc::clone(&pings), Arc::clone(&pongs), Arc::clone(&pings), Arc::clone(&lost));
        let mut copy = vec![0; SEGMENT_BYTES.max(MEDIUM_BYTES_MAX)];
        let ping = move |message: &mut Message<'_>| {
            let args = [message.args()[0], message.args()[1]];
            p.take(args[0]);
            answer(message, &p, &args);
        };
        let data = move |message: &mut Message<'_>| {
            let args = [message.args()[0], message.args()[1]];
            std::hint::black_box(message.payload_to(&mut copy));
            d.take(args[0]);
            answer(message, &d, &args);
        };
        bundle
            .set_handler(endpoint, PING, ping)
            .and_then(|()| bundle.set_handler(endpoint, DATA, data))
            .and_then(|()| bundle.set_handler(endpoint, PONG, move |message| q.take(message.args()[0])))
            .and_then(|()| bundle.set_error_handler(endpoint, move |_| l.take(0)))
            .map_err(failed)?;
        Ok(Self { bundle, endpoint, _segment: segment, pings, pongs, lost })
    }

    /// Entry 0 is this endpoint.
    fn map(&self, name: Name) -> Result<(), Error> {
        self.bundle.map(self.endpoint, 0, name, TAG).map_err(failed)
    }

    fn name(&self) -> Result<Name, Error> {
        self.bundle.name(self.endpoint).map_err(failed)
    }

    #[inline]
    fn request(&self, number: u64) -> Result<(), Error> {
        self.bundle.request(self.endpoint, 0, PING, &[number as i32, 0]).map_err(failed)
    }

    #[inline]
    fn poll(&self) -> Result<usize, Error> {
        self.bundle.poll().map_err(failed)
    }

    #[inline]
    fn alive(&self, patience: &mut Patient) -> Result<(), Error> {
        if self.lost.count() != 0 {
            return Err(Error::failed("an active message came back"));
        }
        patience.tick()
    }

    /// Polls until `seen` has counted to `count`.
    #[inline]
    fn until(&self, seen: &Seen, count: u64) -> Result<(), Error> {
        self.watched_until::<Unwatched>(seen, count)
    }

    /// The same, watched.
    #[inline]
    fn watched_until<W: Watch>(&self, seen: &Seen, count: u64) -> Result<(), Error> {
        let mut patience = Patient::default();
        while seen.count() < count {
            W::step(PROGRAM);
            let found = self.bundle.poll_probed::<W>().map_err(failed)?;
            W::step(POLLED);
            if found == 0 {
                self.alive(&mut patience)?;
            }
        }
        Ok(())
    }
}

/// Whether the library that the layers on VIPL load is the one to measure.
pub(crate) fn check_library(setup: &Setup) -> Result<(), Error> {
    match &setup.library {
        Some(library) if std::env::var_os("BELLWIRE_VIPL").as_deref() != Some(library.as_os_str()) => {
            Err(Error::failed("the library to measure is not the one that BELLWIRE_VIPL names"))
        }
        _ => Ok(()),
    }
}

/// A reply with the same arguments. The requester may be gone: then it is missed there.
#[inline]
fn answer(message: &mut Message<'_>, seen: &Seen, args: &[i32; 2]) {
    if message.reply(PONG, args).is_err() {
        seen.spoil();
    }
}

/// Runs a job: its figures.
///
/// # Errors
/// The library fails, or the other process does not come.
pub fn run(setup: &Setup, request: &Request, map: &SharedMap, carrier: Carrier, credits: u16, job: MappedJob) -> Result<Vec<f64>, Error> {
    if let MappedJob::Steps { samples } = job {
        return if setup.first { both::steps(setup, carrier, credits, samples) } else { Ok(Vec::new()) };
    }
    let side = Side::open(setup, carrier, credits)?;
    let at = |first: bool| NAMES_OFFSET + if first { 0 } else { 2 * LINE_BYTES };
    for (i, word) in side.name()?.to_bytes().chunks(8).enumerate() {
        map.word(at(setup.first) + 8 * i).put(u64::from_ne_bytes(word.try_into().unwrap_or_default()));
    }
    map.word(DONE).publish(0);
    map.meet(setup.first, meeting(request.epoch, 1), PATIENCE)?;
    let mut name = [0; NAME_BYTES];
    for (i, word) in name.chunks_mut(8).enumerate() {
        word.copy_from_slice(&map.word(at(!setup.first) + 8 * i).get().to_ne_bytes());
    }
    side.map(Name::from_bytes(carrier.mapping(), &name).ok_or_else(|| Error::failed("the other process has no name"))?)?;
    let pair = Pair { side: &side, map, first: setup.first };
    let values = match job {
        MappedJob::Latency { count } => pair.latency(count),
        MappedJob::Overhead { bursts } => pair.overhead(bursts),
        MappedJob::Gap { count } => pair.gap(count),
        MappedJob::Stream { size, count } => pair.stream(size, count),
        MappedJob::Steps { .. } => unreachable!("above"),
    }?;
    side.pings.check()?;
    side.pongs.check()?;
    // Neither side ends before the other has all that it waits for.
    map.meet(setup.first, meeting(request.epoch, 2), PATIENCE)?;
    Ok(values)
}

/// Both processes, seen from one of them.
struct Pair<'a> {
    side: &'a Side,
    map: &'a SharedMap,
    first: bool,
}

impl Pair<'_> {
    /// Sends `count` numbers by `send` after an eighth more to warm up, and waits for all replies:
    /// how long that took without the warming up. The second process handles as many: `None`.
    #[inline]
    fn timed(&self, count: u64, mut send: impl FnMut(u64) -> Result<(), Error>) -> Result<Option<Duration>, Error> {
        let warm_up = count / 8 + 1;
        let all = warm_up + count;
        let side = self.side;
        if !self.first {
            side.until(&side.pings, all)?;
            // The first one may wait for what this side has to say of itself.
            let mut patience = Patient::default();
            while self.map.word(DONE).observe() == 0 {
                if side.poll()? == 0 {
                    patience.tick()?;
                }
            }
            return Ok(None);
        }
        let mut start = Instant::now();
        for number in 0..all {
            if number == warm_up {
                start = Instant::now();
            }
            send(number)?;
        }
        side.until(&side.pongs, all)?;
        let time = start.elapsed();
        self.map.word(DONE).publish(1);
        Ok(Some(time))
    }

    fn latency(&self, count: u64) -> Result<Vec<f64>, Error> {
        let trip = |number| {
            self.side.request(number)?;
            self.side.until(&self.side.pongs, number + 1)
        };
        Ok(self.timed(count, trip)?.map(|time| time.as_nanos() as f64 / (2 * count) as f64).into_iter().collect())
    }

    fn gap(&self, count: u64) -> Result<Vec<f64>, Error> {
        Ok(self.timed(count, |number| self.side.request(number))?.map(|time| time.as_nanos() as f64 / count as f64).into_iter().collect())
    }

    fn stream(&self, size: usize, count: u64) -> Result<Vec<f64>, Error> {
        let (bundle, endpoint) = (&self.side.bundle, self.side.endpoint);
        let data = vec![0x5a; size];
        let send = |number: u64| {
            let args = [number as i32, 0];
            if size <= MEDIUM_MAX {
                return bundle.request_medium(endpoint, 0, DATA, &data, &args).map_err(failed);
            }
            // SAFETY: the vector outlives the call, which returns when its bytes are no longer
            // read.
            unsafe { bundle.request_bulk_of_program(endpoint, 0, DATA, 0, (data.as_ptr(), size), &args) }.map_err(failed)
        };
        Ok(self.timed(count, send)?.map(|time| (size as u64 * count) as f64 / time.as_nanos() as f64).into_iter().collect())
    }

    /// As of the native layer: see `short.rs`. A mapping may have one of its queues looked at in
    /// each poll, so a reply that is there takes up to [`POLLS_EACH`] of them.
    fn overhead(&self, bursts: u64) -> Result<Vec<f64>, Error> {
        let (side, done, burst_size) = (self.side, self.map.word(DONE), BURST as u64);
        if !self.first {
            for burst in 1..=bursts {
                side.until(&side.pings, burst * burst_size)?;
                done.publish(burst);
            }
            return Ok(Vec::new());
        }
        let delay = Delay::lasting(DELAY_NS);
        let mut samples: [Vec<f64>; 2] = Default::default();
        let mut patience = Patient::default();
        for burst in 0..bursts {
            let first = burst * burst_size;
            let send = timed(delay, |slot| side.request(first + slot as u64).map(|()| true))?;
            while done.observe() <= burst {
                std::hint::spin_loop();
                patience.tick()?;
            }
            let settled = Instant::now() + SETTLE;
            while Instant::now() < settled {
                std::hint::spin_loop();
            }
            let receive = timed(delay, |slot| {
                for _ in 0..POLLS_EACH {
                    side.poll()?;
                    if side.pongs.count() > first + slot as u64 {
                        return Ok(true);
                    }
                }
                Ok(false)
            })?;
            side.until(&side.pongs, first + burst_size)?;
            // The first bursts warm up.
            if burst >= bursts / 8 {
                for (samples, value) in samples.iter_mut().zip([send, receive]) {
                    samples.extend(value);
                }
            }
        }
        let median = |samples: &Vec<f64>| stats::median(samples).ok_or_else(|| Error::unsupported("replies come too late to be told apart from waiting"));
        samples.iter().map(median).collect()
    }
}
