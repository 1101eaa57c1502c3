// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurements of a rung: messages there and back, and the operations of a group of two.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::channel::{Channel, Link};
use super::direct::{Direct, MESSAGE_MAX};
use super::group::{Group, SUMMED_MAX};
use super::packets::Packets;
use super::udp::Datagrams;
use super::vi::OnVi;
use super::{MEETINGS_OF_SOCKETS, Rung, Wait};
use crate::crowd::Crowd;
use crate::error::Error;
use crate::job::{Request, Setup};
use crate::limits::net::Side;
use crate::shared::SharedMap;

/// A measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LadderJob {
    /// `[half round trip ns]`.
    Latency {
        /// Of a message.
        bytes: usize,
        /// Round trips.
        count: u64,
    },
    /// `[ns of a barrier, of a broadcast, of an allreduce]`; the latter two of so many bytes, which
    /// are checked.
    Group {
        /// Of a broadcast, and of the numbers that are summed.
        bytes: usize,
        /// Of each.
        count: u64,
    },
}

/// Runs a job over a rung. `side` is for bare sockets.
///
/// # Errors
/// The rung cannot be had, or fails.
pub fn run(setup: &Setup, request: &Request, map: &SharedMap, side: Side<'_>, (rung, wait): (Rung, Wait), job: LadderJob) -> Result<Vec<f64>, Error> {
    let mut crowd = Crowd::new(setup, request, map, 1).after(MEETINGS_OF_SOCKETS);
    match rung {
        Rung::Udp => {
            let link = Packets::new(Datagrams::new(side.udp()?)?, true);
            measure(setup, &mut crowd, link, wait, job)
        }
        Rung::Vi | Rung::Unacknowledged => {
            let link = Packets::new(OnVi::open(setup, request, &mut crowd, wait)?, rung == Rung::Vi);
            measure(setup, &mut crowd, link, wait, job)
        }
        Rung::Placed | Rung::Pooled | Rung::Cached => {
            let link = Direct::open(setup, request, &mut crowd, rung, wait)?;
            measure(setup, &mut crowd, link, wait, job)
        }
    }
}

fn measure<L: Link>(setup: &Setup, crowd: &mut Crowd<'_>, link: L, wait: Wait, job: LadderJob) -> Result<Vec<f64>, Error> {
    let channel = Channel::new(link, wait);
    match job {
        LadderJob::Latency { bytes, count } => latency(setup.first, crowd, channel, bytes, count),
        LadderJob::Group { bytes, count } => group(setup.first, crowd, channel, bytes, count),
    }
}

fn latency<L: Link>(first: bool, crowd: &mut Crowd<'_>, mut channel: Channel<L>, bytes: usize, count: u64) -> Result<Vec<f64>, Error> {
    if bytes == 0 || bytes > MESSAGE_MAX {
        return Err(Error::unsupported(format!("{bytes} bytes; 1 to {MESSAGE_MAX}")));
    }
    let (out, incoming) = (channel.memory(bytes)?, channel.memory(bytes)?);
    let warm_up = count / 8 + 1;
    let mut awaited = channel.begin_receive(&incoming)?;
    crowd.meet()?;
    let mut start = Instant::now();
    for number in 0..warm_up + count {
        if number == warm_up {
            start = Instant::now();
        }
        if first {
            stamp(&out, number);
            channel.send(&out)?;
        }
        channel.wait(awaited)?;
        check(&incoming, number)?;
        // Posted before the answer, which tells of it.
        awaited = channel.begin_receive(&incoming)?;
        if !first {
            stamp(&out, number);
            channel.send(&out)?;
        }
    }
    let half = start.elapsed().as_nanos() as f64 / (2 * count) as f64;
    crowd.look_until_both(|| channel.progress().map(|_| true))?;
    // Nobody ends the connection while the other still looks.
    crowd.meet()?;
    Ok(if first { vec![half] } else { Vec::new() })
}

/// The number in the first bytes and the last one.
#[inline]
fn stamp(span: &super::memory::Span, number: u64) {
    let bytes = number.to_le_bytes();
    span.write(0, &bytes[..span.len().min(8)]);
    span.write(span.len() - 1, &bytes[..1]);
}

#[inline]
fn check(span: &super::memory::Span, number: u64) -> Result<(), Error> {
    let (bytes, mut found, mut last) = (number.to_le_bytes(), [0; 8], [0]);
    let head = span.len().min(8);
    span.read(0, &mut found[..head]);
    span.read(span.len() - 1, &mut last);
    // Of a short message the last byte is one of the first.
    let is_whole = found[1..head.max(2) - 1] == bytes[1..head.max(2) - 1] && last[0] == bytes[0] && (span.len() <= 8 || found[7] == bytes[7]);
    if is_whole { Ok(()) } else { Err(Error::failed(format!("message {number} arrived damaged"))) }
}

fn group<L: Link>(first: bool, crowd: &mut Crowd<'_>, channel: Channel<L>, bytes: usize, count: u64) -> Result<Vec<f64>, Error> {
    let numbers = bytes / 8;
    if numbers > SUMMED_MAX || count == 0 {
        return Err(Error::unsupported(format!("{bytes} bytes; at most {}", 8 * SUMMED_MAX)));
    }
    let (rank, channels) = if first { (0, vec![None, Some(channel)]) } else { (1, vec![Some(channel), None]) };
    let mut group = Group::new(rank, channels, bytes)?;
    crowd.meet()?;
    let (mut data, mut summed) = (vec![0; bytes], vec![0.0; numbers]);
    let mut figures = Vec::new();
    for what in 0..3 {
        group.barrier()?;
        let start = Instant::now();
        for number in 0..count {
            match what {
                0 => group.barrier()?,
                1 => {
                    // By turns, so that neither runs ahead.
                    let root = number as usize % 2;
                    let byte = number as u8 | 1;
                    data.fill(if rank == root { byte } else { 0 });
                    group.broadcast(root, &mut data)?;
                    if data.iter().any(|b| *b != byte) {
                        return Err(Error::failed(format!("broadcast {number} arrived damaged")));
                    }
                }
                _ => {
                    summed.fill((rank + 1) as f64 * number as f64);
                    group.sum(&mut summed)?;
                    if summed.iter().any(|sum| *sum != 3.0 * number as f64) {
                        return Err(Error::failed(format!("sum {number} is wrong")));
                    }
                }
            }
        }
        figures.push(start.elapsed().as_nanos() as f64 / count as f64);
    }
    crowd.look_until_both(|| group.progress().map(|()| true))?;
    // Nobody ends the connection while the other still looks.
    crowd.meet()?;
    Ok(if first { figures } else { Vec::new() })
}
