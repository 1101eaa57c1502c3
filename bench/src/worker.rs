// SPDX-License-Identifier: MIT OR Apache-2.0
//! A measuring process: takes jobs from the controller over its standard input, runs them, answers.
//! Entered by the hidden command `perf-peer`.

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::am::Am;
use crate::bench::{Bench, meeting};
use crate::channel::Channel;
use crate::error::Error;
use crate::exchange;
use crate::job::{Ends, Job, Reply, Request, Setup, Socket};
use crate::limits::net::{Side, Trip, datagram, datagrams, stream};
use crate::limits::{SHARED_BYTES, attach, copy, ring, sleep};
use crate::pin;
use crate::shared::SharedMap;

/// Runs jobs until the controller closes the line.
///
/// # Errors
/// If standard input is not such a line, or breaks.
pub fn main() -> Result<(), Error> {
    allow_many_files();
    let mut channel = Channel::of_standard_input()?;
    let memory = channel.receive_fd().map_err(|error| error.within("perf-peer is started by `bellwire` only"))?;
    let bells = [channel.receive_fd()?, channel.receive_fd()?];
    let Some(setup) = channel.receive::<Setup>()? else { return Ok(()) };
    if let Some(cpu) = setup.cpu {
        // Already inherited; done again for a controller that was itself moved in between.
        let _ = pin::pin_current(cpu);
    }
    let mut worker = Worker { map: SharedMap::map(memory, SHARED_BYTES)?, bells, bench: None, am: None, setup };
    while let Some(request) = channel.receive::<Request>()? {
        let reply = Reply::from(worker.run(&request));
        channel.send(&reply)?;
    }
    Ok(())
}

/// As many open files as this process may have: a NIC needs some for each of its peers.
fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    // Where it cannot be raised, many peers are refused, and the figure says why.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

struct Worker {
    map: SharedMap,
    bells: [OwnedFd; 2],
    bench: Option<Bench>,
    am: Option<Am>,
    setup: Setup,
}

impl Worker {
    fn run(&mut self, request: &Request) -> Result<(Vec<f64>, String), Error> {
        let (map, first, epoch) = (&self.map, self.setup.first, meeting(request.epoch, 0));
        let value = match request.job {
            Job::Exchange { count, words } => {
                let halves = exchange::run(map, first, count, words, epoch)?;
                return Ok((halves.to_vec(), String::new()));
            }
            Job::Copy { size, count, touch } => copy::run(map, first, size, count, touch, epoch)?,
            Job::Bounce { size, count } => copy::bounce(map, first, size, count, epoch)?,
            Job::Attach { size, count } => attach::run(map, first, size, count, epoch)?,
            Job::Eventfd { count, pause_us } => sleep::by_eventfd(map, first, &self.bells, count, Duration::from_micros(pause_us), epoch)?,
            Job::Futex { count, pause_us } => sleep::by_futex(map, first, count, Duration::from_micros(pause_us), epoch)?,
            Job::Socket { kind, size, count, blocking, pause_us } => {
                let trip = Trip { size, count, blocking, pause: Duration::from_micros(pause_us) };
                match kind {
                    Socket::Udp => datagram::ping_pong(self.side(epoch)?, trip)?,
                    Socket::Tcp => stream::ping_pong(self.side(epoch)?, trip)?,
                }
            }
            Job::DatagramStream { size, count, datagram } => {
                let goodput = datagrams::one_way(self.side(epoch)?, size as u64 * count, datagram.min(size))?;
                return Ok((vec![goodput.rate, goodput.lost, goodput.datagrams], String::new()));
            }
            Job::ByteStream { size, count } => stream::one_way(self.side(epoch)?, size, count)?,
            Job::Ring { count, words } => ring::run(map, first, count, words, epoch)?,
            Job::Mark => crate::marks::alone(),
            Job::Peers { layer, peers, count } => return Ok((crate::crowd::run(&self.setup, request, map, layer, peers, count)?, String::new())),
            Job::Verbs { operation, size, count, stream } => {
                return Ok((crate::verbs::measure::run(&self.setup, request, map, operation, size, count, stream)?, String::new()));
            }
            Job::Mapped { carrier, credits, job } => {
                return Ok((crate::mapped::run(&self.setup, request, map, carrier, credits, job)?, String::new()));
            }
            Job::Ladder { rung, wait, job } => {
                return Ok((crate::ladder::run(&self.setup, request, map, self.side(epoch)?, (rung, wait), job)?, String::new()));
            }
            Job::Load(job) => return Ok((crate::ladder::load(&self.setup, request, map, self.side(epoch)?, job)?, String::new())),
            Job::Splitc { vis, job } => return Ok((crate::splitc::run(&self.setup, request, map, vis, job)?, String::new())),
            Job::Am(ref job) => {
                let am = match &self.am {
                    Some(am) => am,
                    None => self.am.insert(Am::open(&self.setup, request, map)?),
                };
                return Ok((am.run(job, request, map)?, String::new()));
            }
            _ => {
                if self.bench.is_none() {
                    self.bench = Some(Bench::open(&self.setup)?);
                }
                let bench = self.bench.as_mut().expect("opened above");
                return bench.run(request, &self.map);
            }
        };
        Ok((vec![value], String::new()))
    }
    /// This process in a limit over sockets.
    fn side(&self, epoch: u64) -> Result<Side<'_>, Error> {
        // Of processes that share memory: over loopback.
        let ends = self.setup.ends.unwrap_or(Ends { own: Ipv4Addr::LOCALHOST.into(), other: Ipv4Addr::LOCALHOST.into() });
        Ok(Side { map: &self.map, first: self.setup.first, ends, epoch })
    }
}
