// SPDX-License-Identifier: MIT OR Apache-2.0
//! LogP in virtual time, of a mapping of `crates/amvia` as it is, and of a raw VI.
//!
//! By the methodology of the paper's Table 2: `o_s` is the time of a request when nothing is under
//! way; `o_s + o_r` that of a request which also takes the reply to the one before, long after it
//! has come; the gap that of requests in a long stream. The paper's requests poll once; those of
//! the mapping poll only while they cannot leave, so the program polls once before each.

use std::sync::Arc;

use bellwire_am::EndpointId;
use bellwire_amvia::probe::{Probe, Stage};
use bellwire_amvia::{Bundle, CREDITS_DEFAULT, Device, Mapping, Message};
use bellwire_vipl_calls::{Address, Descriptor, Handle, Nic, Segment};

use crate::Error;
use crate::costs::Costs;
use crate::library::open;
use crate::nic::{Counts, LEAST_BYTES, Time};
use crate::seen::Seen;
use crate::world::{Charged, Found, now, pass, spent};

const PING: u8 = 1;
const PONG: u8 = 2;
const TAG: u64 = 0x6c61_6e61;
/// Overheads, round trips and requests of a stream that are measured, and those before that warm
/// up.
const OVERHEADS: u64 = 16;
const TRIPS: u64 = 48;
const STREAM: u64 = 160;
const WARM_UP: u64 = 40;
/// Long after everything has come.
const PAUSE: Time = 400_000;
/// Nothing takes so long.
const END: Time = 300_000_000;

/// The figures of a line of Table 2, in nanoseconds, with what they come from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogP {
    /// Half a round trip.
    pub half: f64,
    /// Overhead of a send.
    pub o_s: f64,
    /// Overhead of a receive.
    pub o_r: f64,
    /// The gap.
    pub gap: f64,
    /// Where the time of a request and of the reply before it goes, by step.
    pub spent: [f64; Stage::COUNT],
    /// What the NICs have carried.
    pub counts: [Counts; 2],
}

/// One after the other, pauses whose fractions of the firmware's rounds are spread evenly.
fn pause(number: u64) {
    // The golden ratio of 64 us.
    pass(PAUSE + (number * 39_554) % 64_000);
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::failed(error.to_string())
}

/// One end.
struct Side {
    bundle: Bundle,
    endpoint: EndpointId,
    seen: Arc<Seen>,
    lost: Arc<Seen>,
}

impl Side {
    fn open(cluster: &Found, host: usize, mapping: Mapping) -> Result<Self, Error> {
        let device = Device::on(open(cluster, host).map_err(failed)?, mapping, CREDITS_DEFAULT).map_err(failed)?;
        let bundle = Bundle::new(&device).map_err(failed)?;
        let endpoint = bundle.create_endpoint().map_err(failed)?;
        bundle.set_tag(endpoint, TAG).map_err(failed)?;
        let [seen, lost] = [(); 2].map(|()| Arc::new(Seen::default()));
        let (s, p, l) = (Arc::clone(&seen), Arc::clone(&seen), Arc::clone(&lost));
        let ping = move |message: &mut Message<'_>| {
            let args = [message.args()[0], message.args()[1]];
            s.take(args[0]);
            mark(Stage::Acted);
            if message.reply_probed::<Charged>(PONG, &args).is_err() {
                s.spoil();
            }
        };
        let pong = move |message: &mut Message<'_>| {
            p.take(message.args()[0]);
            mark(Stage::Acted);
        };
        bundle
            .set_handler(endpoint, PING, ping)
            .and_then(|()| bundle.set_handler(endpoint, PONG, pong))
            .and_then(|()| bundle.set_error_handler(endpoint, move |_| l.take(0)))
            .map_err(failed)?;
        Ok(Self { bundle, endpoint, seen, lost })
    }

    fn poll(&self) -> Result<usize, Error> {
        if self.lost.count() > 0 || now() > END {
            return Err(Error::failed("a simulated message is lost"));
        }
        self.bundle.poll_probed::<Charged>().map_err(failed)
    }

    fn until(&self, count: u64) -> Result<(), Error> {
        while self.seen.count() < count {
            self.poll()?;
        }
        Ok(())
    }

    /// A request, with the look that is a part of it in the paper.
    fn request(&self, number: u64) -> Result<(), Error> {
        self.poll()?;
        self.bundle.request_probed::<Charged>(self.endpoint, 0, PING, &[number as i32, 0]).map_err(failed)
    }
}

/// A step of the program's own handlers is over.
fn mark(stage: Stage) {
    Charged::mark(stage);
}

/// Short requests that may be out: so many the mapping has, whose credits its crate keeps to
/// itself. With more the program would wait within a request.
fn window(mapping: Mapping) -> u64 {
    u64::from(CREDITS_DEFAULT) * if mapping == Mapping::V1 { 4 } else { 1 }
}

/// Two connected endpoints, on simulated NICs.
pub struct Pair {
    sides: [Side; 2],
    mapping: Mapping,
    /// Outlives what is on it.
    cluster: Found,
    /// Requests so far.
    number: u64,
}

impl Pair {
    /// Connects two endpoints by a mapping.
    ///
    /// # Errors
    /// Why not.
    pub fn new(mapping: Mapping) -> Result<Self, Error> {
        let cluster = Found::new();
        let sides = [Side::open(&cluster, 0, mapping)?, Side::open(&cluster, 1, mapping)?];
        let name = sides[1].bundle.name(sides[1].endpoint).map_err(failed)?;
        sides[0].bundle.map(sides[0].endpoint, 0, name, TAG).map_err(failed)?;
        let mut pair = Self { cluster, mapping, sides, number: 0 };
        // The first request connects, by threads of the devices.
        std::thread::scope(|scope| {
            let second = scope.spawn(|| pair.sides[1].until(1));
            let first = pair.sides[0].request(0).and_then(|()| pair.sides[0].until(1));
            first.and(second.join().unwrap_or_else(|_| Err(Error::failed("a program has panicked"))))
        })?;
        pair.number = 1;
        pair.drain()?;
        Ok(pair)
    }

    /// Polls until neither side has anything to do.
    fn drain(&self) -> Result<(), Error> {
        while !self.cluster.lock().hosts.iter().all(|host| host.nic.is_quiet()) {
            self.sides.iter().try_for_each(|side| side.poll().map(drop))?;
        }
        Ok(())
    }

    /// Measures with these costs.
    ///
    /// # Errors
    /// A message is lost, or comes twice or out of order.
    pub fn measure(&mut self, costs: &Costs) -> Result<LogP, Error> {
        let start = self.number;
        let count = 2 * OVERHEADS + TRIPS + WARM_UP + STREAM;
        let (end, mut served) = (start + count, Ok(()));
        let found = {
            let (this, served) = (&*self, &mut served);
            self.cluster.run(costs, || this.client(start), || *served = this.sides[1].until(end))
        };
        let counts = self.cluster.lock().hosts.each_ref().map(|host| host.nic.counts);
        self.number = end;
        let mut found = found?;
        served?;
        self.drain()?;
        self.sides.iter().try_for_each(|side| side.seen.check())?;
        found.counts = counts;
        Ok(found)
    }

    fn client(&self, mut next: u64) -> Result<LogP, Error> {
        let side = &self.sides[0];
        let timed = |number: u64| {
            let start = now();
            side.request(number)?;
            Ok::<_, Error>((now() - start) as f64)
        };
        let mut send = 0.0;
        for at in 0..OVERHEADS {
            send += timed(next + at)?;
            side.until(next + at + 1)?;
            pause(at);
            // The send's completion, and that there is nothing more.
            while side.poll()? > 0 {}
            pause(at);
        }
        next += OVERHEADS;
        let (mut both, mut parts) = (0.0, [0.0; Stage::COUNT]);
        // The first one has no reply before it.
        side.request(next)?;
        for at in 1..OVERHEADS {
            pause(at);
            spent();
            both += timed(next + at)?;
            parts.iter_mut().zip(spent()).for_each(|(sum, part)| *sum += part as f64);
        }
        next += OVERHEADS;
        side.until(next)?;
        let mut trips = 0;
        for at in 0..TRIPS {
            pause(at);
            while side.poll()? > 0 {}
            let start = now();
            side.request(next + at)?;
            side.until(next + at + 1)?;
            trips += now() - start;
        }
        next += TRIPS;
        let (mut start, end) = (0, next + WARM_UP + STREAM);
        for number in next..end {
            if number == next + WARM_UP {
                start = now();
            }
            side.poll()?;
            while number - side.seen.count() >= window(self.mapping) {
                side.poll()?;
            }
            side.bundle.request_probed::<Charged>(side.endpoint, 0, PING, &[number as i32, 0]).map_err(failed)?;
        }
        let gap = (now() - start) as f64 / STREAM as f64;
        side.until(end)?;
        let (o_s, whole) = (send / OVERHEADS as f64, both / (OVERHEADS - 1) as f64);
        parts.iter_mut().for_each(|part| *part /= (OVERHEADS - 1) as f64);
        Ok(LogP { half: trips as f64 / (2 * TRIPS) as f64, o_s, o_r: whole - o_s, gap, spent: parts, counts: [Counts::default(); 2] })
    }
}

/// Two raw VIs.
pub struct Raw {
    ends: [End; 2],
    /// Outlives what is on it.
    cluster: Found,
}

const RECEIVES: usize = 4;
const BYTES: usize = LEAST_BYTES;

/// One VI with its memory: a send, and receives.
struct End {
    nic: Nic,
    vi: Handle,
    /// Where it is: descriptors, then buffers.
    memory: usize,
    region: u32,
}

impl End {
    fn new(cluster: &Found, host: usize) -> Result<Self, Error> {
        let gives = |value: i32| Error::failed(format!("a call of the simulated library gives {value}"));
        let nic = open(cluster, host).map_err(failed)?;
        let bytes = (1 + RECEIVES) * (size_of::<Descriptor>() + BYTES);
        let (memory, ptag) = (nic.allocate(bytes).map_err(gives)?.expose_provenance(), nic.create_ptag().map_err(gives)?);
        // SAFETY: memory of the library's, which is freed after its registration has ended.
        let region = unsafe { nic.register(memory as u64, bytes, ptag, false) }.map_err(gives)?;
        let vi = nic.create_vi(ptag, 0, Handle::NONE, Handle::NONE).map_err(gives)?;
        let end = Self { nic, vi, memory, region };
        if (1..=RECEIVES).all(|at| end.post(at)) { Ok(end) } else { Err(Error::failed("a receive is not taken")) }
    }

    /// Posts descriptor `at`: the send, or a receive.
    fn post(&self, at: usize) -> bool {
        let descriptor = std::ptr::with_exposed_provenance_mut::<Descriptor>(self.memory + at * size_of::<Descriptor>());
        let buffer = self.memory + (1 + RECEIVES) * size_of::<Descriptor>() + at * BYTES;
        let segment = Segment { address: buffer as u64, handle: self.region, length: BYTES as u32 };
        let made = Descriptor { segment_count: 1, length: BYTES as u32, segments: [segment, Segment::default()], ..Descriptor::default() };
        // SAFETY: the memory holds all descriptors, and this one is not posted.
        unsafe { descriptor.write(made) };
        // SAFETY: nobody touches it, nor its buffer, until it completes.
        unsafe { if at == 0 { self.nic.post_send(self.vi, descriptor, self.region) } else { self.nic.post_receive(self.vi, descriptor, self.region) } }
    }

    /// Takes a message that has come, if there is one: its descriptor.
    fn take(&self) -> Option<usize> {
        let (descriptor, _) = self.nic.receive_done(self.vi)?;
        Some((descriptor.addr() - self.memory) / size_of::<Descriptor>())
    }

    /// Sends, having built the descriptor.
    fn send(&self, costs: &Costs) -> Result<(), Error> {
        pass(costs.host.code[Stage::Built as usize]);
        if self.post(0) { Ok(()) } else { Err(Error::failed("a send is not taken")) }
    }

    /// Takes the send's completion, and posts a receive again.
    fn recycle(&self, costs: &Costs, receive: usize) -> Result<(), Error> {
        while self.nic.send_done(self.vi).is_none() {
            alive()?;
        }
        pass(costs.host.code[Stage::SendRecycled as usize] + costs.host.code[Stage::ReceiveArmed as usize]);
        if self.post(receive) { Ok(()) } else { Err(Error::failed("a receive is not taken")) }
    }

    fn receive(&self) -> Result<usize, Error> {
        loop {
            if let Some(receive) = self.take() {
                return Ok(receive);
            }
            alive()?;
        }
    }
}

fn alive() -> Result<(), Error> {
    if now() > END { Err(Error::failed("a simulated message is lost")) } else { Ok(()) }
}

impl Drop for End {
    fn drop(&mut self) {
        self.nic.end_vi(self.vi);
        let _ = self.nic.deregister(self.memory as u64, self.region);
        let _ = self.nic.free(std::ptr::with_exposed_provenance_mut(self.memory));
        self.nic.close();
    }
}

impl Raw {
    /// Connects two raw VIs.
    ///
    /// # Errors
    /// Why not.
    pub fn new() -> Result<Self, Error> {
        let cluster = Found::new();
        let ends = [End::new(&cluster, 0)?, End::new(&cluster, 1)?];
        let [from, to] = [b"client", b"server"].map(|name| Address::new(&[10, 0, 0, 1], name));
        let gives = |value: i32| Error::failed(format!("the raw VIs do not connect: {value}"));
        std::thread::scope(|scope| {
            let server = &ends[1];
            let accepted = scope.spawn(move || server.nic.connect_wait(&to).and_then(|(_, request)| server.nic.accept(request, server.vi)));
            ends[0].nic.connect(ends[0].vi, &from, &to, 0).map_err(gives)?;
            accepted.join().map_or_else(|_| Err(Error::failed("a thread has panicked")), |accepted| accepted.map_err(gives))
        })?;
        Ok(Self { cluster, ends })
    }

    /// Half a round trip of the least message, ns: each end looks at its own VI alone.
    ///
    /// # Errors
    /// A message is lost.
    pub fn half(&self, costs: &Costs) -> Result<f64, Error> {
        let mut served = Ok(());
        let client = || {
            let mut trips = 0;
            for number in 0..TRIPS {
                pause(number);
                let start = now();
                self.ends[0].send(costs)?;
                let receive = self.ends[0].receive()?;
                trips += now() - start;
                self.ends[0].recycle(costs, receive)?;
            }
            Ok::<_, Error>(trips as f64 / (2 * TRIPS) as f64)
        };
        let server = |served: &mut Result<(), Error>| {
            for _ in 0..TRIPS {
                let end = &self.ends[1];
                *served = end.receive().and_then(|receive| end.send(costs).and_then(|()| end.recycle(costs, receive)));
                if served.is_err() {
                    return;
                }
            }
        };
        let half = self.cluster.run(costs, client, || server(&mut served));
        served.and(half)
    }
}
