// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processor time of messages one way at a fixed rate: the sender sleeps until each is due, the
//! receiver sleeps until it is there. What a process uses is all of its threads', in the program
//! and in the kernel; what the kernel does for it elsewhere, in interrupts, is not counted.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::{Deserialize, Serialize};

use super::channel::{Channel, Token};
use super::direct::Direct;
use super::{MEETINGS_OF_SOCKETS, Rung, Wait};
use crate::crowd::Crowd;
use crate::error::Error;
use crate::job::{Request, Setup};
use crate::limits::net::{Side, stream};
use crate::shared::SharedMap;

/// The carrier of the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carries {
    /// Nothing: the sleeping alone.
    Nothing,
    /// The ladder's highest rung but one: a VI, both ends without copies, from pools.
    Vi,
    /// A bare UDP socket.
    Udp,
    /// A bare TCP connection.
    Tcp,
}

/// `[processor time of a message at the sender, ns, at the receiver]`; the latter unless nothing is
/// carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadJob {
    /// By what.
    pub carries: Carries,
    /// Of a message.
    pub bytes: usize,
    /// Messages in a second.
    pub rate: u64,
    /// Messages.
    pub count: u64,
}

/// When a datagram is given up.
const LOST_AFTER: Duration = Duration::from_millis(200);
/// Receives that are posted.
const RECEIVES: usize = 8;

/// Runs a job.
///
/// # Errors
/// The carrier cannot be had, or fails; or a message gets lost.
pub fn run(setup: &Setup, request: &Request, map: &SharedMap, side: Side<'_>, job: LoadJob) -> Result<Vec<f64>, Error> {
    let mut crowd = Crowd::new(setup, request, map, 1).after(MEETINGS_OF_SOCKETS);
    let used = one_way(setup, request, &mut crowd, side, job)?;
    if job.carries == Carries::Nothing {
        return Ok(used);
    }
    let other = crowd.exchange(&used[0].to_ne_bytes())?;
    Ok(vec![used[0], other.as_chunks().0.first().map_or(f64::NAN, |bytes| f64::from_ne_bytes(*bytes))])
}

fn one_way(setup: &Setup, request: &Request, crowd: &mut Crowd<'_>, side: Side<'_>, job: LoadJob) -> Result<Vec<f64>, Error> {
    let first = setup.first;
    match job.carries {
        Carries::Nothing => {
            crowd.meet()?;
            let used = if first { paced(job, |_| Ok(()))? } else { Vec::new() };
            crowd.meet()?;
            Ok(used)
        }
        Carries::Vi => vi(setup, request, crowd, job),
        Carries::Udp => {
            let socket = side.udp()?;
            socket.set_read_timeout(Some(LOST_AFTER))?;
            let mut lost = 0;
            let (out, mut incoming) = (vec![0x5a; job.bytes], vec![0; job.bytes]);
            crowd.meet()?;
            let send = |_| Ok(socket.send(&out).map(drop)?);
            let receive = |_| match socket.recv(&mut incoming) {
                Ok(_) => Ok(()),
                // A datagram may get lost, when the receiver has not run for a while.
                Err(error) if error.kind() == ErrorKind::WouldBlock && lost < job.count / 4 => {
                    lost += 1;
                    Ok(())
                }
                Err(error) => Err(error.into()),
            };
            let used = if first { paced(job, send)? } else { each(job, receive)? };
            crowd.meet()?;
            Ok(used)
        }
        Carries::Tcp => {
            let mut stream = stream::connect(side)?;
            let mut buffer = vec![0x5a; job.bytes];
            crowd.meet()?;
            let used = if first { paced(job, |_| Ok(stream.write_all(&buffer)?))? } else { each(job, |_| Ok(stream.read_exact(&mut buffer)?))? };
            crowd.meet()?;
            Ok(used)
        }
    }
}

fn vi(setup: &Setup, request: &Request, crowd: &mut Crowd<'_>, job: LoadJob) -> Result<Vec<f64>, Error> {
    let mut channel = Channel::new(Direct::open(setup, request, crowd, Rung::Pooled, Wait::Sleep)?, Wait::Sleep);
    let spans = (0..RECEIVES).map(|_| channel.memory(job.bytes)).collect::<Result<Vec<_>, _>>()?;
    let mut posted = Vec::new();
    if !setup.first {
        posted = spans.iter().map(|span| channel.begin_receive(span)).collect::<Result<_, _>>()?;
        // Tells of them.
        channel.progress()?;
    }
    crowd.meet()?;
    let used = if setup.first {
        let send = |_| channel.send(&spans[0]);
        paced(job, send)?
    } else {
        let receive = |number: u64| {
            let at = number as usize % RECEIVES;
            channel.wait(posted[at])?;
            posted[at] = channel.begin_receive(&spans[at])?;
            Ok(())
        };
        each(job, receive)?
    };
    debug_assert!(setup.first || posted.iter().all(|token| matches!(token, Token::Receive(_))));
    crowd.look_until_both(|| channel.progress().map(|_| true))?;
    // Nobody ends the connection while the other still looks.
    crowd.meet()?;
    Ok(used)
}

/// Processor time of this process.
fn used() -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(tv_sec as u64, tv_nsec as u32)
}

/// Does it for each message when that is due, a few before the measurement.
fn paced(job: LoadJob, mut send: impl FnMut(u64) -> Result<(), Error>) -> Result<Vec<f64>, Error> {
    let apart = Duration::from_nanos(1_000_000_000 / job.rate.max(1));
    let mut due = Instant::now();
    each(job, |number| {
        due += apart;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        send(number)
    })
}

fn each(job: LoadJob, mut one: impl FnMut(u64) -> Result<(), Error>) -> Result<Vec<f64>, Error> {
    let warm_up = job.count / 8 + 1;
    let mut before = used();
    for number in 0..warm_up + job.count {
        if number == warm_up {
            before = used();
        }
        one(number)?;
    }
    Ok(vec![(used() - before).as_nanos() as f64 / job.count as f64])
}
