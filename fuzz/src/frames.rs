// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames into an engine with connected VIs.

use crate::input::Input;
use crate::program::{self, Program, VIS};
use crate::scripted::{Scripted, link, wire};
use crate::talk;
use bellwire_via::wire::{LinkFailure, WireEvent};
use bellwire_via::{Engine, Instant, NetAddress};

const STEPS_MAX: usize = 400;

/// The engine, its program, and the connection ids that the peer was told.
struct Stage {
    engine: Engine<Scripted>,
    program: Program,
    ids: [u32; VIS],
}

fn address(which: usize) -> NetAddress {
    NetAddress::new(&[127, 0, 0, 1], &[which as u8]).unwrap()
}

impl Stage {
    fn new() -> Self {
        let mut engine = Engine::new(Scripted::new(), 1);
        let program = Program::new(&mut engine);
        engine.progress();
        let mut stage = Self { engine, program, ids: [0; VIS] };
        (0..VIS).for_each(|i| stage.connect(i));
        assert!(stage.ids.iter().all(|id| *id != 0));
        stage
    }

    fn deliver(&mut self, words: [u64; 8], payload: Vec<u8>) {
        talk::deliver(&mut self.engine, words, payload);
    }

    /// Asks for a connection and accepts it, if the link allows.
    fn connect(&mut self, which: usize) {
        let Ok(wait) = self.engine.connect_wait(&address(which), Instant::NEVER) else { return };
        let payload = program::connection_request(program::LEVELS[which], 100 + which as u32, (1 << 20, 0), &address(9), &address(which));
        let n = payload.len() as u64;
        self.deliver([program::head(12, 0, true), n << 32, n << 32, 0, 0, 0, 0, 0], payload);
        self.engine.progress();
        if let Ok(Some(request)) = self.engine.poll_wait(wait) {
            if self.engine.accept(request.incoming, self.program.vis[which].vi).is_ok() {
                let sent = &self.engine.wire().sent;
                self.ids[which] = sent.get(8..12).map_or(0, |b| u32::from_le_bytes(b.try_into().unwrap()));
            } else {
                let _ = self.engine.reject(request.incoming);
            }
        } else {
            self.engine.cancel_wait(wait);
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let (what, which) = (input.u8(), usize::from(input.u8()) % VIS);
        match what % 16 {
            0..=6 => {
                let (words, length) = program::frame(input, &self.program, self.ids[which]);
                let length = if what & 128 == 0 { length } else { usize::from(input.u16()) % 16_384 };
                let payload = (0..length).map(|i| if i < 64 { input.u8() } else { i as u8 }).collect();
                self.deliver(words, payload);
            }
            7 | 8 => self.program.post_receive(&mut self.engine, which, input),
            9 | 10 => self.program.post_send(&mut self.engine, which, input),
            11 => self.program.collect(&mut self.engine),
            12 => {
                self.program.disconnect(&mut self.engine, which);
                self.connect(which);
            }
            13 => program::pass_time(&mut self.engine, input),
            14 => wire(&mut self.engine).room = if what & 128 == 0 { u32::from(input.u8()) } else { u32::MAX },
            _ => self.odd(input, which),
        }
    }

    /// What happens seldom.
    fn odd(&mut self, input: &mut Input<'_>, which: usize) {
        let deadline = Instant(self.engine.now().0 + 1_000_000);
        match input.u8() % 7 {
            0 => wire(&mut self.engine).taken ^= true,
            1 => wire(&mut self.engine).resolves ^= true,
            2 => wire(&mut self.engine).events.push_back(WireEvent::MapRequest { link: link(), segment: input.u8().into(), write: true }),
            3 => wire(&mut self.engine).events.push_back(WireEvent::LinkDown { link: link(), reason: LinkFailure::PeerDied }),
            4 => wire(&mut self.engine).broken = true,
            kind => {
                self.program.disconnect(&mut self.engine, which);
                let vi = self.program.vis[which].vi;
                let _ = if kind == 5 {
                    self.engine.connect_request(vi, &address(which), &address(9), deadline)
                } else {
                    self.engine.peer_request(vi, &address(which), &address(9), deadline)
                };
            }
        }
    }
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let mut stage = Stage::new();
    input.drive(STEPS_MAX, |input| {
        stage.step(input);
        stage.program.turns(&mut stage.engine);
    });
    stage.engine.progress();
    stage.program.collect(&mut stage.engine);
    stage.program.finish(&mut stage.engine);
}
