// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client: keeps requests out and counts replies. It sleeps when it can do nothing, as a program
//! on a crowded machine does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bellwire_am::{Bundle, Device, EndpointId, NAME_BYTES, Name};
use bellwire_via::nic::NicConfig;
use hdrhistogram::Histogram;

use super::protocol::{Answer, Ask, Counted, PING, PONG, TAG, now};
use super::server;
use crate::channel::Channel;
use crate::error::Error;

/// Polls that find nothing before it sleeps: some tens of microseconds, several times what a server
/// that is awake takes to answer.
const POLLS_IN_VAIN: u32 = 2000;
/// How long the first reply, or the last ones, may take: other processes may all be before this
/// one.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest sleep.
const SLICE: Duration = Duration::from_millis(20);

fn failed(error: impl core::fmt::Display) -> Error {
    Error::failed(format!("client: {error}"))
}

/// What the handlers keep.
struct State {
    /// When the request in each place left, ns; places of requests that are not out.
    stamps: Vec<u64>,
    free: Vec<usize>,
    /// From when to when replies count.
    counts: (u64, u64),
    replies: u64,
    times: Histogram<u64>,
    returned: Option<String>,
}

impl State {
    fn reply(&mut self, place: usize) {
        let (time, Some(sent)) = (now(), self.stamps.get(place).copied()) else { return };
        self.free.push(place);
        if (self.counts.0..self.counts.1).contains(&time) {
            self.replies += 1;
            self.times.saturating_record(time - sent);
        }
    }
}

struct Client {
    bundle: Bundle,
    endpoint: EndpointId,
    state: Arc<Mutex<State>>,
    window: usize,
    /// What a request carries beside its arguments.
    payload: Vec<u8>,
    /// The name of its endpoint, if that answers requests of others.
    name: Option<Vec<u8>>,
}

/// Does what it is told until the line closes.
pub(super) fn run(mut channel: Channel, window: usize, bytes: usize, answers: bool) -> Result<(), Error> {
    let client = Client::new(window, bytes, answers)?;
    loop {
        // Others wait for its answers until all of them are told to end.
        while answers && Channel::first_of(&[&channel], Duration::ZERO)?.is_none() {
            client.take()?;
        }
        let Some(ask) = channel.receive::<Ask>()? else { return Ok(()) };
        let answer = match ask {
            Ask::Name => Ok(Answer::Names(client.name.iter().cloned().collect())),
            Ask::Meet(name) => client.meet(&name).map(|()| Answer::Ready),
            Ask::Run { start, end } => client.measure(start, end).map(Answer::Counted),
            Ask::Be(_) => Err(Error::failed("told twice what to be")),
        };
        channel.send(&answer.unwrap_or_else(|error| Answer::Failed(error.to_string())))?;
    }
}

impl Client {
    fn new(window: usize, bytes: usize, answers: bool) -> Result<Self, Error> {
        let device = Device::open(NicConfig::from_env().map_err(failed)?).map_err(failed)?;
        let bundle = Bundle::new(&device).map_err(failed)?;
        let (endpoint, name) = if answers {
            let (endpoint, name) = server::add_endpoint(&bundle)?;
            (endpoint, Some(name))
        } else {
            (bundle.create_endpoint().map_err(failed)?, None)
        };
        // 1 ns to 100 s, two digits.
        let times = Histogram::new_with_bounds(1, 100_000_000_000, 2).map_err(failed)?;
        let free = (0..window).collect();
        let state = Arc::new(Mutex::new(State { stamps: vec![0; window], free, counts: (0, 0), replies: 0, times, returned: None }));
        let s = Arc::clone(&state);
        bundle.set_handler(endpoint, PONG, move |message| lock(&s).reply(message.args()[0] as usize)).map_err(failed)?;
        let s = Arc::clone(&state);
        bundle.set_error_handler(endpoint, move |back| lock(&s).returned = Some(format!("a request came back: {:?}", back.status))).map_err(failed)?;
        Ok(Self { bundle, endpoint, state, window, payload: vec![0; bytes], name })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Maps the other endpoint and has one request answered.
    fn meet(&self, name: &[u8]) -> Result<(), Error> {
        let bytes: &[u8; NAME_BYTES] = name.try_into().map_err(|_| Error::failed("no name of an endpoint"))?;
        let name = Name::from_bytes(bytes).ok_or_else(|| Error::failed("no name of an endpoint"))?;
        self.bundle.map(self.endpoint, 0, name, TAG).map_err(failed)?;
        self.ask()?;
        self.drain()
    }

    /// Sends a request, if one may be out more. `false`: none may.
    fn ask(&self) -> Result<bool, Error> {
        let Some(place) = self.state().free.pop() else { return Ok(false) };
        self.state().stamps[place] = now();
        let args = [place as i32, 0];
        match &self.payload[..] {
            [] => self.bundle.request(self.endpoint, 0, PING, &args),
            payload => self.bundle.request_medium(self.endpoint, 0, PING, payload, &args),
        }
        .map_err(failed)?;
        Ok(true)
    }

    /// Polls, and sleeps if that is in vain.
    fn take(&self) -> Result<(), Error> {
        for _ in 0..POLLS_IN_VAIN {
            if self.bundle.poll().map_err(failed)? != 0 {
                return Ok(());
            }
        }
        self.bundle.wait(Some(SLICE)).map_err(failed)?;
        Ok(())
    }

    /// Until everything is answered.
    fn drain(&self) -> Result<(), Error> {
        let end = Instant::now() + PATIENCE;
        while self.state().free.len() < self.window {
            self.take()?;
            if let Some(why) = self.state().returned.take() {
                return Err(Error::failed(why));
            }
            if Instant::now() > end {
                return Err(Error::failed("requests are not answered"));
            }
        }
        Ok(())
    }

    fn measure(&self, start: u64, end: u64) -> Result<Counted, Error> {
        self.state().counts = (start, end);
        while now() < end {
            while self.ask()? {}
            self.take()?;
        }
        self.drain()?;
        let state = self.state();
        let times = state.times.iter_recorded().map(|value| (value.value_iterated_to(), value.count_at_value())).collect();
        Ok(Counted { replies: state.replies, times })
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
