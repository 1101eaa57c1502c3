// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many connected peers, one of them active: what the idle ones cost the others.
//!
//! Each process opens the layer so many times: a main endpoint, and idle ones, each on a NIC of its
//! own. Both main endpoints are connected with each other and with all idle endpoints of the other
//! process, so each has that many peers, and only the other main endpoint sends. Everything is
//! opened for one figure and closed after it.

mod am;
mod tag;
mod verbs;
mod vi;

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::am::Seen;
use crate::bench::meeting;
use crate::clock::Patience;
use crate::endpoint::PATIENCE;
use crate::error::Error;
use crate::job::{Request, Setup};
use crate::limits::{DATA_BYTES, DATA_OFFSET};
use crate::plan::series as s;
use crate::samples::Series;
use crate::shared::SharedMap;

/// Most peers.
pub const PEERS_MAX: usize = 256;
/// Bytes of a message: its number.
const MESSAGE_BYTES: usize = 8;
/// Messages of a stream that the receiver has not acknowledged.
const WINDOW: u64 = 64;
/// Messages after which the receiver sends one back.
const ACKNOWLEDGE_AFTER: u64 = WINDOW / 2;
/// Time before a measurement. The helper threads of endpoints that have just been polled serve them
/// for some milliseconds more, on the processors of the two that are measured: only then are the
/// other endpoints idle.
const REST: Duration = Duration::from_millis(50);
/// Receives that are posted, where a layer has receives.
const RECEIVES: usize = 2 * WINDOW as usize;

/// The layer that is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// Virtual interfaces, polled one by one.
    Vi,
    /// Virtual interfaces whose queues complete in one completion queue.
    ViCq,
    /// Active Messages.
    Am,
    /// Tag matching, on which the libfabric provider is.
    Tag,
    /// Verbs: queue pairs on one completion queue.
    Verbs,
}

impl Layer {
    /// All of them.
    pub const ALL: [Layer; 5] = [Layer::Vi, Layer::ViCq, Layer::Am, Layer::Tag, Layer::Verbs];

    /// Its column.
    pub fn series(self) -> Series {
        match self {
            Layer::Vi => s::VI,
            Layer::ViCq => s::VI_CQ,
            Layer::Am => s::AM,
            Layer::Tag => s::TAG,
            Layer::Verbs => s::VERBS,
        }
    }
}

/// A main endpoint, connected with its peers.
trait Talk {
    /// Sends a number, if it can leave now.
    fn send(&mut self, number: u64) -> Result<bool, Error>;

    /// One look; numbers that have come go to `seen`.
    fn look(&mut self, seen: &Seen) -> Result<(), Error>;
}

/// The two processes, while they open a layer.
pub(crate) struct Crowd<'a> {
    setup: &'a Setup,
    request: &'a Request,
    map: &'a SharedMap,
    /// Peers of a main endpoint.
    peers: usize,
    steps: u64,
}

/// `[half round trip ns, messages/s]` of `count` messages of 8 bytes each; the second process `[]`.
///
/// # Errors
/// If a layer cannot be opened, nothing comes, or what comes is not what is due.
pub fn run(setup: &Setup, request: &Request, map: &SharedMap, layer: Layer, peers: usize, count: u64) -> Result<Vec<f64>, Error> {
    if peers == 0 || peers > PEERS_MAX {
        return Err(Error::failed(format!("{peers} peers; the most is {PEERS_MAX}")));
    }
    let mut crowd = Crowd::new(setup, request, map, peers);
    match layer {
        Layer::Vi | Layer::ViCq => vi::run(&mut crowd, layer == Layer::ViCq, count),
        Layer::Am => am::run(&mut crowd, count),
        Layer::Tag => tag::run(&mut crowd, count),
        Layer::Verbs => verbs::run(&mut crowd, count),
    }
}

impl<'a> Crowd<'a> {
    /// Nothing is open yet.
    pub(crate) fn new(setup: &'a Setup, request: &'a Request, map: &'a SharedMap, peers: usize) -> Self {
        Self { setup, request, map, peers, steps: 0 }
    }

    /// The first meetings of the request have been used by others.
    pub(crate) fn after(self, steps: u64) -> Self {
        Self { steps, ..self }
    }

    /// Both arrive here.
    pub(crate) fn meet(&mut self) -> Result<(), Error> {
        self.steps += 1;
        self.map.meet(self.setup.first, meeting(self.request.epoch, self.steps), PATIENCE)
    }

    /// Gives `own` to the other process, which gives as many bytes.
    pub(crate) fn exchange(&mut self, own: &[u8]) -> Result<Vec<u8>, Error> {
        let at = |first: bool| DATA_OFFSET + if first { 0 } else { DATA_BYTES / 2 };
        assert!(own.len().is_multiple_of(8) && own.len() <= DATA_BYTES / 2);
        for (i, word) in own.as_chunks::<8>().0.iter().enumerate() {
            self.map.word(at(self.setup.first) + 8 * i).put(u64::from_ne_bytes(*word));
        }
        self.meet()?;
        Ok((0..own.len()).step_by(8).flat_map(|i| self.map.word(at(!self.setup.first) + i).get().to_ne_bytes()).collect())
    }

    /// Looks until `look` says that this process has everything, and the other says so too: each
    /// may wait for something that the other sends only when it looks.
    pub(crate) fn look_until_both(&mut self, mut look: impl FnMut() -> Result<bool, Error>) -> Result<(), Error> {
        let at = |first: bool| self.map.word(DATA_OFFSET + DATA_BYTES - if first { 256 } else { 512 });
        let mut patience = Patience::lasting(PATIENCE);
        let epoch = self.request.epoch;
        while at(self.setup.first).get() != epoch || at(!self.setup.first).observe() != epoch {
            if look()? {
                at(self.setup.first).publish(epoch);
            }
            patience.tick()?;
        }
        Ok(())
    }

    /// The figures of connected endpoints.
    fn measure(&mut self, talk: &mut impl Talk, count: u64) -> Result<Vec<f64>, Error> {
        self.meet()?;
        std::thread::sleep(REST);
        self.meet()?;
        let mut pair = Pair { talk, seen: Seen::default(), sent: 0, patience: Patience::lasting(PATIENCE) };
        let first = self.setup.first;
        pair.ping_pong(first, count / 8 + 1)?;
        let start = Instant::now();
        pair.ping_pong(first, count)?;
        let half = start.elapsed().as_nanos() as f64 / (2 * count) as f64;
        // Of a stream more messages fit into the same time.
        let count = (4 * count).next_multiple_of(ACKNOWLEDGE_AFTER);
        pair.stream(first, (count / 8).next_multiple_of(ACKNOWLEDGE_AFTER))?;
        let start = Instant::now();
        pair.stream(first, count)?;
        let rate = count as f64 / start.elapsed().as_secs_f64();
        pair.seen.check()?;
        self.meet()?;
        Ok(if first { vec![half, rate] } else { Vec::new() })
    }
}

/// The two main endpoints, seen from one of them.
struct Pair<'t, T> {
    talk: &'t mut T,
    seen: Seen,
    sent: u64,
    patience: Patience,
}

impl<T: Talk> Pair<'_, T> {
    #[inline]
    fn send(&mut self) -> Result<(), Error> {
        while !self.talk.send(self.sent)? {
            self.talk.look(&self.seen)?;
            self.patience.tick()?;
        }
        self.sent += 1;
        Ok(())
    }

    /// Looks until so many have come, in all.
    #[inline]
    fn until(&mut self, count: u64) -> Result<(), Error> {
        while self.seen.count() < count {
            self.talk.look(&self.seen)?;
            self.patience.tick()?;
        }
        Ok(())
    }

    #[inline(never)]
    fn ping_pong(&mut self, first: bool, count: u64) -> Result<(), Error> {
        for _ in 0..count {
            let due = self.seen.count() + 1;
            if first {
                self.send()?;
                self.until(due)?;
            } else {
                self.until(due)?;
                self.send()?;
            }
        }
        Ok(())
    }

    /// `count` messages from the first process to the second, and its acknowledgements.
    #[inline(never)]
    fn stream(&mut self, first: bool, count: u64) -> Result<(), Error> {
        let before = self.seen.count();
        for number in 1..=count {
            if first {
                self.send()?;
                if number.is_multiple_of(ACKNOWLEDGE_AFTER) {
                    self.until(before + (number / ACKNOWLEDGE_AFTER).saturating_sub(1))?;
                }
            } else if number.is_multiple_of(ACKNOWLEDGE_AFTER) {
                self.until(before + number)?;
                self.send()?;
            }
        }
        if first { self.until(before + count / ACKNOWLEDGE_AFTER) } else { Ok(()) }
    }
}

/// Two threads do what the two processes do; the figures of the first.
#[cfg(test)]
pub(crate) fn in_threads(run: impl Fn(&Setup, &Request, &SharedMap) -> Result<Vec<f64>, Error> + Sync) -> Result<Vec<f64>, Error> {
    use crate::job::{Job, Reliability, Waiting};
    use crate::limits::SHARED_BYTES;
    let fd = crate::shared::create(SHARED_BYTES)?;
    let one = |first| {
        let map = SharedMap::map(&fd, SHARED_BYTES)?;
        let (reliability, waiting) = (Reliability::ReliableDelivery, Waiting::Poll);
        let setup = Setup { first, cpu: None, library: None, device: String::new(), reliability, waiting, ends: None };
        run(&setup, &Request { epoch: 1, run: 0, job: Job::Mark }, &map)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| one(false));
        let figures = one(true)?;
        assert!(other.join().expect("no panic")?.is_empty());
        Ok(figures)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(layer: Layer, peers: usize) -> Result<Vec<f64>, Error> {
        in_threads(|setup, request, map| run(setup, request, map, layer, peers, 8))
    }

    #[test]
    fn each_layer_is_measured_with_idle_peers() {
        for layer in [Layer::Am, Layer::Tag, Layer::Verbs] {
            for peers in [1, 4] {
                let figures = figures(layer, peers).unwrap_or_else(|error| panic!("{layer:?}, {peers} peers: {error}"));
                assert!(figures.len() == 2 && figures.iter().all(|figure| *figure > 0.0), "{layer:?}: {figures:?}");
            }
        }
    }

    #[test]
    fn numbers_of_peers_have_bounds() {
        for peers in [0, PEERS_MAX + 1] {
            assert!(figures(Layer::Am, peers).is_err());
        }
    }
}
