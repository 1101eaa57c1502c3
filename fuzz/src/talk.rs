// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a peer over the scripted wire connects and talks to a layer with messages of its own.

use crate::program;
use crate::scripted::{Incoming, Scripted, wire};
use bellwire_via::{Engine, NetAddress};

/// Turns of a layer after each step, at most.
const TURNS_MAX: usize = 64;
/// Payload of a frame of the scripted wire.
const FRAME_BYTES: usize = 1024;

/// Gives a layer turns until three in a row have moved nothing: what one part has begun, another
/// may go on with.
pub fn turns(mut turn: impl FnMut() -> bool) {
    let mut idle = 0;
    for _ in 0..TURNS_MAX {
        idle = if turn() { 0 } else { idle + 1 };
        if idle == 3 {
            break;
        }
    }
}

/// A frame of the peer.
pub fn deliver(engine: &mut Engine<Scripted>, words: [u64; 8], payload: Vec<u8>) {
    wire(engine).incoming.push_back(Incoming { words: Box::new(words), payload });
}

/// Asks for connection number `try_` with a layer that says `version`.
pub fn connect(engine: &mut Engine<Scripted>, try_: u32, version: u64, from: &NetAddress, to: &NetAddress) {
    let payload = program::connection_request(2, 100 + try_, (1 << 30, version), from, to);
    let n = payload.len() as u64;
    deliver(engine, [program::head(12, 0, true), n << 32, n << 32, 0, 0, 0, 0, 0], payload);
}

/// Our end of the connection just accepted, as the peer calls it.
pub fn accepted(engine: &Engine<Scripted>) -> u32 {
    engine.wire().sent.get(8..12).map_or(0, |b| u32::from_le_bytes(b.try_into().expect("four")))
}

/// A message to connection `id` as frames: in a line if it is short, else in pieces.
pub fn say(engine: &mut Engine<Scripted>, id: u32, words: &[u64], payload: &[u8]) {
    let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    bytes.extend_from_slice(payload);
    if bytes.len() <= 56 {
        let mut line = [program::head(1, id, false) | (bytes.len() as u64) << 8, 0, 0, 0, 0, 0, 0, 0];
        for (word, chunk) in line[1..].iter_mut().zip(bytes.chunks(8)) {
            let mut b = [0; 8];
            b[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_le_bytes(b);
        }
        return deliver(engine, line, Vec::new());
    }
    let total = bytes.len() as u64;
    for (at, piece) in (0u64..).step_by(FRAME_BYTES).zip(bytes.chunks(FRAME_BYTES)) {
        let n = piece.len() as u64;
        let is_last = u64::from(at + n == total);
        let head = program::head(1, id, true) & !(1 << 7) | is_last << 7;
        deliver(engine, [head, at | total << 32, n << 32, 0, 0, 0, 0, 0], piece.to_vec());
    }
}
