// SPDX-License-Identifier: MIT OR Apache-2.0
//! Barrier and all-gather by dissemination (`bellwire_job::dissemination`).
//!
//! Nobody can be more than one collective call ahead of another, so there are places for two, told
//! apart by their number. What else comes is not ours and is dropped.
//!
//! **Dead processes are noticed.** A process fails with the rank of another if it waits for one
//! whose connection has ended, or if a message to it comes back, unless the other one has closed
//! its endpoint: that one waits for nothing any more. It asks those it waits for now and then, so
//! that there is a connection. Then it tells those who would wait for it, and they tell on. So
//! every process that waits fails: the one that it waits for is gone, or waits itself, or has
//! failed and has said so.

use crate::Error;
use crate::layer::{Heard, Layer, NameBytes};
use bellwire_am::{EndpointId, MEDIUM_BYTES_MAX};
use bellwire_job::dissemination::{blocks_in, neighbours, pack, rounds, unpack};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// Longest block of an all-gather, bytes.
pub const BLOCK_MAX_BYTES: usize = 1 << 20;
/// How long to wait for a message before its sender is asked whether it is there.
const ASK_AFTER: Duration = Duration::from_millis(200);
/// Longest sleep while messages are out.
const SLICE: Duration = Duration::from_millis(100);
/// Rounds that a call can have.
const ROUNDS_MAX: usize = 32;

/// A part of what a round carries: arguments are the call's number, the round, and whether it is
/// the last part.
const PART: u8 = 1;
/// A process is gone: its rank.
const LOST: u8 = 2;
/// Are you there?
const ASK: u8 = 3;

#[derive(Debug, Default)]
struct Round {
    data: Vec<u8>,
    is_done: bool,
}

/// The state that handlers write.
#[derive(Debug)]
struct Arrived {
    /// Number of the call that is under way, or will be next.
    call: u32,
    /// Of that call and the next, by the last bit of their numbers.
    rounds: [Vec<Round>; 2],
    /// A process is gone, and calls cannot be well any more.
    lost: Option<u32>,
    /// Processes whose connections have ended.
    gone: BTreeSet<u32>,
}

/// The endpoint for collective calls.
#[derive(Debug)]
pub struct Collective {
    endpoint: EndpointId,
    rank: u32,
    size: u32,
    arrived: Arc<Mutex<Arrived>>,
    /// Held during a call; whether the others have been told that a process is gone.
    turn: Mutex<bool>,
}

/// Waits until each message of an endpoint has been handled, or has come back.
pub(crate) fn settled(layer: &dyn Layer, endpoint: EndpointId) -> Result<(), Error> {
    while layer.outstanding(endpoint)? != 0 {
        if layer.poll()? == 0 {
            layer.wait(Some(SLICE))?;
        }
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Collective {
    /// Sets the handlers of `endpoint`, whose entry `i` is process `i`, with that name.
    pub(crate) fn new(layer: &dyn Layer, endpoint: EndpointId, (rank, size): (u32, u32), names: Vec<NameBytes>) -> Result<Self, Error> {
        let count = rounds(size) as usize;
        let places = || (0..count).map(|_| Round::default()).collect();
        let arrived = Arc::new(Mutex::new(Arrived { call: 0, rounds: [places(), places()], lost: None, gone: BTreeSet::new() }));
        let [on_part, on_lost, on_return, on_departure] = [(); 4].map(|()| Arc::clone(&arrived));
        let senders: Vec<NameBytes> = (0..count).map(|k| names[neighbours(rank, size, k as u32).1 as usize]).collect();
        layer.on_message(endpoint, PART, Box::new(move |message| lock(&on_part).take(message, &senders, size)))?;
        layer.on_message(
            endpoint,
            LOST,
            Box::new(move |message| {
                if let [rank] = *message.args
                    && (0..size as i32).contains(&rank)
                {
                    lock(&on_lost).lost.get_or_insert(rank as u32);
                }
            }),
        )?;
        layer.on_message(endpoint, ASK, Box::new(|_| ()))?;
        layer.on_return(
            endpoint,
            Box::new(move |back| {
                let mut arrived = lock(&on_return);
                arrived.gone.insert(back.index);
                // It may have handled the part, and ended well; if not, those who wait for it
                // notice.
                if back.handler == PART && !back.has_left {
                    arrived.lost.get_or_insert(back.index);
                }
            }),
        )?;
        layer.on_departure(
            endpoint,
            Box::new(move |index, departed| {
                let rank = index.or_else(|| names.iter().position(|name| name == departed).map(|rank| rank as u32));
                lock(&on_departure).gone.extend(rank);
            }),
        )?;
        Ok(Self { endpoint, rank, size, arrived, turn: Mutex::new(false) })
    }

    /// An all-gather, or with `None` a barrier, which gives nothing.
    pub(crate) fn gather(&self, layer: &dyn Layer, block: Option<&[u8]>) -> Result<Vec<Vec<u8>>, Error> {
        if layer.is_in_handler() {
            return Err(Error::WrongMoment);
        }
        let mut has_told = match self.turn.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(Error::WrongMoment),
        };
        if let Some(bytes) = block.map(<[u8]>::len).filter(|bytes| *bytes > BLOCK_MAX_BYTES) {
            return Err(Error::TooLong { bytes });
        }
        let outcome = self.rounds(layer, block);
        if let Err(Error::Lost(rank)) = outcome
            && !std::mem::replace(&mut *has_told, true)
        {
            self.tell(layer, rank)?;
        }
        outcome
    }

    fn peer(&self, round: usize) -> (u32, u32) {
        neighbours(self.rank, self.size, round as u32)
    }

    fn rounds(&self, layer: &dyn Layer, block: Option<&[u8]>) -> Result<Vec<Vec<u8>>, Error> {
        let (call, count) = {
            let arrived = lock(&self.arrived);
            (arrived.call, arrived.rounds[0].len())
        };
        // Of this process, and of those before it, backwards.
        let mut held: Vec<Vec<u8>> = block.map(<[u8]>::to_vec).into_iter().collect();
        for round in 0..count {
            let (to, from) = self.peer(round);
            self.send(layer, to, (call, round), block.is_some().then(|| pack(&held, blocks_in(round as u32, self.size))).as_deref())?;
            let data = self.wait(layer, from, (call, round))?;
            let blocks = if block.is_some() { blocks_in(round as u32, self.size) } else { 0 };
            // Another call than ours, elsewhere.
            held.extend(unpack(&data, blocks).ok_or(Error::Messages(bellwire_am::Error::BadArgument))?);
        }
        lock(&self.arrived).next();
        let size = self.size as usize;
        let mut all: Vec<Vec<u8>> = vec![Vec::new(); held.len()];
        for (back, block) in held.into_iter().enumerate() {
            all[(self.rank as usize + size - back) % size] = block;
        }
        Ok(all)
    }

    fn send(&self, layer: &dyn Layer, to: u32, (call, round): (u32, usize), data: Option<&[u8]>) -> Result<(), Error> {
        let args = |is_last| [call as i32, round as i32, i32::from(is_last)];
        let Some(data) = data else { return Ok(layer.request(self.endpoint, to, PART, &args(true))?) };
        let parts = data.chunks(MEDIUM_BYTES_MAX);
        let last = parts.len() - 1;
        for (i, part) in parts.enumerate() {
            layer.request_medium(self.endpoint, to, PART, part, &args(i == last))?;
        }
        Ok(())
    }

    /// Polls until a round's data is there.
    fn wait(&self, layer: &dyn Layer, from: u32, (call, round): (u32, usize)) -> Result<Vec<u8>, Error> {
        let mut was_vain = false;
        loop {
            {
                let mut arrived = lock(&self.arrived);
                if let Some(rank) = arrived.lost {
                    return Err(Error::Lost(rank));
                }
                let place = &mut arrived.rounds[call as usize & 1][round];
                if place.is_done {
                    return Ok(std::mem::take(&mut place.data));
                }
                // Only when nothing more is there: it may have sent this and ended well.
                if was_vain && arrived.gone.contains(&from) {
                    arrived.lost = Some(from);
                    return Err(Error::Lost(from));
                }
            }
            was_vain = layer.poll()? == 0;
            if was_vain && !layer.wait(Some(ASK_AFTER))? {
                layer.request(self.endpoint, from, ASK, &[])?;
            }
        }
    }

    /// Tells those who wait for this process that one is gone.
    fn tell(&self, layer: &dyn Layer, lost: u32) -> Result<(), Error> {
        let count = lock(&self.arrived).rounds[0].len();
        for round in 0..count {
            let (to, _) = self.peer(round);
            if to != lost {
                layer.request(self.endpoint, to, LOST, &[lost as i32])?;
            }
        }
        // They are to leave before this process does, which may be next.
        self.settle(layer)
    }

    /// Waits until all messages of this endpoint are [`settled`]. A process that ends well does so
    /// after its last call: a message of it may still be on its way by one connection when the end
    /// of another one tells the peer that it is gone.
    pub(crate) fn settle(&self, layer: &dyn Layer) -> Result<(), Error> {
        settled(layer, self.endpoint)
    }
}

impl Arrived {
    /// A part has come; a part from outside the job is dropped.
    fn take(&mut self, message: &Heard<'_>, senders: &[NameBytes], size: u32) {
        let [call, round, is_last] = *message.args else { return };
        let ahead = (call as u32).wrapping_sub(self.call);
        let Ok(round) = usize::try_from(round) else { return };
        if ahead > 1 || round >= ROUNDS_MAX || senders.get(round) != Some(&message.source) {
            return;
        }
        let most = blocks_in(round as u32, size) as usize * (BLOCK_MAX_BYTES + 4);
        let place = &mut self.rounds[call as usize & 1][round];
        let (at, more) = (place.data.len(), message.length);
        if place.is_done || more > most - at {
            return;
        }
        place.data.resize(at + more, 0);
        (message.read)(&mut place.data[at..]);
        place.is_done = is_last != 0;
    }

    /// A call is over.
    fn next(&mut self) {
        for round in &mut self.rounds[self.call as usize & 1] {
            *round = Round::default();
        }
        self.call = self.call.wrapping_add(1);
    }
}
