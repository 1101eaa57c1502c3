// SPDX-License-Identifier: MIT OR Apache-2.0
//! Active Messages as the AMVIA paper laid them over virtual interfaces, for comparison with
//! `bellwire-am`: written to the C interface as its authors would, with descriptors, two completion
//! queues and credits. Short requests and replies, which is what the paper compares.
//!
//! | layout | for each pair of endpoints |
//! |---|---|
//! | v3 | one VI; k = 8 request credits, 2k send buffers, 2k + 1 receives |
//! | v1 | three VIs, for small, medium and large messages, each with credits of its own: 64, 8, 8; all complete in the same two queues |
//!
//! A poll takes one receive: a reply's handler runs at once, a request is queued; then a queued
//! request's handler runs, if that is allowed; then one send completion is taken. A receive is
//! posted again when its handler has returned.
//!
//! The credits of the VI that carries the messages can be asked for, so that the layouts can be
//! compared at equal credits: by themselves they differ in VIs and in credits at once.

use std::collections::VecDeque;
use std::time::Instant;

use super::Context;
use crate::clock::Patience;
use crate::endpoint::cq::Cq;
use crate::endpoint::{PATIENCE, SEND, Vi, arm, rearm};
use crate::error::Error;
use crate::job::Layout;
use crate::shared::LINE_BYTES;
use crate::vipl_abi::{Descriptor, Segment};

/// Credits of a VI.
const CREDITS: usize = 8;
/// Credits of v1's VI for small messages.
const CREDITS_SMALL: usize = 64;
/// Bytes of a message with two arguments.
const MESSAGE_BYTES: u32 = 16;
/// Set in the first word of a reply.
const REPLY: u64 = 1;

/// A VI of a pair, with what is posted on it.
struct Channel {
    vi: Vi,
    credits: usize,
    free: Vec<*mut Descriptor>,
}

struct Pair {
    channels: Vec<Channel>,
    /// Requests that wait for their handler: the VI's place, and the receive that holds them.
    requests: VecDeque<(usize, *mut Descriptor)>,
    /// The numbers that the next request and the next reply must carry.
    due: (u64, u64),
    sends: Cq,
    receives: Cq,
}

impl Pair {
    fn connect(context: &Context<'_>, layout: Layout, credits: Option<usize>) -> Result<Self, Error> {
        let credits: &[usize] = match layout {
            Layout::V1 => &[credits.unwrap_or(CREDITS_SMALL), CREDITS, CREDITS],
            Layout::V3 => &[credits.unwrap_or(CREDITS)],
        };
        let entries = credits.iter().map(|k| 4 * k + 2).sum();
        let (sends, receives) = (context.nic.create_cq(entries)?, context.nic.create_cq(entries)?);
        let (mut channels, mut used) = (Vec::new(), 0);
        for (index, &k) in credits.iter().enumerate() {
            let vi = context.nic.create_vi_completing(context.setup.reliability.bits(), context.block, &sends, &receives)?;
            let mut free = Vec::new();
            for i in 0..4 * k + 1 {
                let (descriptor, at) = (context.descriptor(used + i), (used + i) * LINE_BYTES);
                let is_send = i < 2 * k;
                let buffer = if is_send { context.outgoing(at, LINE_BYTES) } else { context.incoming(at, LINE_BYTES) };
                // SAFETY: E2: this VI's alone, not posted yet.
                unsafe { arm(descriptor, SEND, MESSAGE_BYTES, &[Segment { length: MESSAGE_BYTES, ..buffer }]) };
                if is_send {
                    free.push(descriptor);
                } else {
                    vi.post_recv(descriptor)?;
                }
            }
            used += 4 * k + 1;
            context.connect(&vi, index)?;
            channels.push(Channel { vi, credits: k, free });
        }
        Ok(Self { channels, requests: VecDeque::new(), due: (0, 0), sends, receives })
    }

    /// Copies a message into a free buffer and posts it; there is one.
    #[inline]
    fn post(&mut self, channel: usize, words: [u64; 2]) -> Result<(), Error> {
        let channel = &mut self.channels[channel];
        let descriptor = channel.free.pop().ok_or_else(|| Error::failed("a send buffer too few"))?;
        // SAFETY: E2 and P1: a free descriptor and its buffer are ours.
        unsafe {
            ((*descriptor).segments[0].address as *mut [u64; 2]).write(words);
            rearm(descriptor, SEND, MESSAGE_BYTES);
        }
        Ok(channel.vi.post_send(descriptor)?)
    }

    /// Sends a request; polls while there is no credit or no buffer.
    #[inline]
    fn request(&mut self, number: u64, patience: &mut Patience) -> Result<(), Error> {
        while self.channels[0].credits == 0 || self.channels[0].free.is_empty() {
            self.poll(false)?;
            patience.tick()?;
        }
        self.channels[0].credits -= 1;
        self.post(0, [0, number])
    }

    #[inline]
    fn poll(&mut self, runs_requests: bool) -> Result<(), Error> {
        if let Some(handle) = self.receives.done()? {
            let at = self.channels.iter().position(|channel| channel.vi.is(handle)).ok_or_else(|| Error::failed("an entry of another VI"))?;
            let received = self.channels[at].vi.recv_done()?.ok_or_else(|| Error::failed("an entry without a message"))?;
            // SAFETY: E2 and P1: a completed descriptor and its buffer are ours until posted again.
            let words = unsafe { ((*received).segments[0].address as *const [u64; 2]).read() };
            if words[0] & REPLY == 0 {
                self.requests.push_back((at, received));
            } else {
                self.channels[at].credits += 1;
                expect(&mut self.due.1, words[1])?;
                self.repost(at, received)?;
            }
        }
        if runs_requests && let Some((at, received)) = self.requests.pop_front() {
            // SAFETY: E2 and P1: a completed descriptor and its buffer are ours until posted again.
            let words = unsafe { ((*received).segments[0].address as *const [u64; 2]).read() };
            expect(&mut self.due.0, words[1])?;
            self.post(at, [REPLY, words[1]])?;
            self.repost(at, received)?;
        }
        if let Some(handle) = self.sends.done()? {
            let channel = self.channels.iter_mut().find(|channel| channel.vi.is(handle)).ok_or_else(|| Error::failed("an entry of another VI"))?;
            channel.free.extend(channel.vi.send_done()?);
        }
        Ok(())
    }

    #[inline]
    fn repost(&self, channel: usize, received: *mut Descriptor) -> Result<(), Error> {
        // SAFETY: E2: ours since it completed.
        unsafe { rearm(received, SEND, MESSAGE_BYTES) };
        Ok(self.channels[channel].vi.post_recv(received)?)
    }
}

/// What a handler does: the number is the one that is due.
#[inline]
fn expect(due: &mut u64, number: u64) -> Result<(), Error> {
    if number != *due {
        return Err(Error::failed("messages came out of order"));
    }
    *due += 1;
    Ok(())
}

/// `[half round trip ns]`, or with `streamed` `[ns between two requests]` of a long stream, each
/// with a reply.
///
/// # Errors
/// If the library fails, nothing comes, or something comes out of order.
pub fn run(context: &Context<'_>, layout: Layout, credits: Option<usize>, count: u64, streamed: bool) -> Result<Vec<f64>, Error> {
    let mut pair = Pair::connect(context, layout, credits)?;
    let mut patience = Patience::lasting(PATIENCE);
    let warm_up = count / 8 + 1;
    let all = warm_up + count;
    context.meet(1)?;
    let mut start = Instant::now();
    if context.first {
        for number in 0..all {
            if number == warm_up {
                start = Instant::now();
            }
            pair.request(number, &mut patience)?;
            while !streamed && pair.due.1 <= number {
                pair.poll(true)?;
                patience.tick()?;
            }
        }
    }
    let done = |pair: &Pair| if context.first { pair.due.1 } else { pair.due.0 };
    while done(&pair) < all {
        pair.poll(true)?;
        patience.tick()?;
    }
    let elapsed = start.elapsed().as_nanos() as f64 / count as f64;
    context.meet(2)?;
    Ok(vec![if streamed { elapsed } else { elapsed / 2.0 }])
}
