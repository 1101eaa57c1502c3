// SPDX-License-Identifier: MIT OR Apache-2.0
//! A link whose other half is written by the fuzzer: lines, payload, head, armed word, epoch, advertisements, catalogue, and the socket.

use crate::input::Input;
use crate::outsider::{ADVERTS, ADVERTS_AT, CATALOGUE_ENTRIES, HEAD_AT, LINES, LINK_BYTES, Outsider, engine, fresh_address, message, soft};
use crate::program::{self, Program, VIS};
use bellwire_memory::fd_passing;
use bellwire_memory::region::{Region, RegionKind};
use bellwire_via::wire::shm::{ProtectionMode, ShmWire};
use bellwire_via::{Engine, Instant, NetAddress};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::ftruncate;

const STEPS_MAX: usize = 200;

struct Stage {
    engine: Engine<ShmWire>,
    program: Program,
    peer: Outsider,
    address: NetAddress,
    ids: [u32; VIS],
    /// Lines of the NIC that the peer has read.
    read: u32,
    /// Memory without seals that the NIC may have been given: it is cut off later.
    soft: Vec<OwnedFd>,
}

impl Stage {
    fn new(mode: ProtectionMode) -> Self {
        let mut engine = engine(mode);
        let address = fresh_address();
        let program = Program::new(&mut engine);
        // Keeps the address listened at.
        engine.connect_wait(&address, Instant::NEVER).unwrap();
        let peer = Outsider::link_up(&mut engine, &address);
        let mut stage = Self { engine, program, peer, address, ids: [0; VIS], read: 0, soft: Vec::new() };
        (0..VIS).for_each(|i| stage.connect(i));
        assert!(stage.ids.iter().all(|id| *id != 0), "the outsider speaks as the library does");
        stage
    }

    /// Asks for a connection; the program accepts what comes.
    fn connect(&mut self, which: usize) {
        let to = NetAddress::new(&[127, 0, 0, 1], &[which as u8]).unwrap();
        let Ok(wait) = self.engine.connect_wait(&to, Instant::NEVER) else { return };
        let payload = program::connection_request(program::LEVELS[which], 100 + which as u32, (1 << 20, 0), &self.address, &to);
        let n = payload.len() as u64;
        self.peer.push([program::head(12, 0, true), n << 32, n << 32, 0, 0, 0, 0, 4096], &payload);
        self.engine.progress();
        match self.engine.poll_wait(wait) {
            Ok(Some(request)) => {
                if self.engine.accept(request.incoming, self.program.vis[which].vi).is_err() {
                    let _ = self.engine.reject(request.incoming);
                }
                self.listen_for(which);
            }
            _ => self.engine.cancel_wait(wait),
        }
    }

    /// Reads the NIC's lines for the id of an accepted connection.
    fn listen_for(&mut self, which: usize) {
        for _ in 0..64 {
            let (words, payload) = self.peer.line(self.read);
            if words[0] & 1 != u64::from(self.read & LINES == 0) {
                return;
            }
            self.read = self.read.wrapping_add(1);
            if words[0] >> 1 & 31 == 13 && payload[1] == 0 {
                self.ids[which] = u32::from_le_bytes(payload[8..12].try_into().unwrap());
            }
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let (what, which) = (input.u8(), usize::from(input.u8()) % VIS);
        let out = self.peer.out.bytes();
        match what % 16 {
            0..=4 => {
                let (mut words, length) = program::frame(input, &self.program, self.ids[which]);
                if what & 128 == 0 {
                    words[7] %= 200_000;
                }
                let payload: Vec<u8> = (0..length).map(|i| if i < 64 { input.u8() } else { i as u8 }).collect();
                self.peer.push(words, &payload);
            }
            5 => {
                let at = input.u32() as usize % (LINK_BYTES - 64);
                let bytes: Vec<u8> = (0..input.u8() % 64).map(|_| input.u8()).collect();
                out.copy_in(at, &bytes).unwrap();
            }
            6 => {
                // Head, armed, epoch.
                let at = HEAD_AT * usize::from(1 + input.u8() % 3);
                let value = if what & 128 == 0 { self.read.wrapping_add(input.u8().into()) } else { input.number() as u32 };
                out.copy_in(at, &value.to_ne_bytes()).unwrap();
            }
            7 => {
                let index = input.u16() as usize % ADVERTS;
                let tag = u64::from(100 + which as u32) << 32 | u64::from(input.u8());
                write_words(&self.peer.out, ADVERTS_AT + index * 32, &[tag, input.number() | u64::from(input.u16()) << 32, input.number(), 0]);
            }
            8 => {
                let handle = input.number();
                let entry = [handle, input.number() | 3 << 32, input.number(), input.number(), input.number(), input.number(), 0, 0];
                write_words(&self.peer.catalogue, handle as usize % CATALOGUE_ENTRIES * 64, &entry);
            }
            9 | 10 => self.program.post_send(&mut self.engine, which, input),
            11 => self.program.post_receive(&mut self.engine, which, input),
            12 => self.program.collect(&mut self.engine),
            13 => self.talk(input),
            14 => {
                self.program.disconnect(&mut self.engine, which);
                self.connect(which);
            }
            _ => program::pass_time(&mut self.engine, input),
        }
    }

    fn talk(&mut self, input: &mut Input<'_>) {
        let m = message(input.u8() % 9, input.u8() % 4, input.number() as u32, [0; 16]);
        let length = if input.u8() == 255 { usize::from(input.u8()) } else { m.len() };
        let bytes = [&m[..], &[0; 224]].concat();
        let fd = match input.u8() % 4 {
            0 | 1 => None,
            2 => Region::create("given", 4096 << (input.u8() % 6), RegionKind::Shared).unwrap().fd().try_clone_to_owned().ok(),
            _ => {
                let fd = soft(65_536);
                self.soft.push(fd.try_clone().unwrap());
                Some(fd)
            }
        };
        let fds: Vec<_> = fd.iter().map(AsFd::as_fd).collect();
        let _ = fd_passing::send(self.peer.socket.as_fd(), &bytes[..length], &fds);
        self.engine.handle_control();
        self.soft.iter().for_each(|fd| {
            let _ = ftruncate(fd, 0);
        });
    }
}

fn write_words(region: &Region, at: usize, words: &[u64]) {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    region.bytes().copy_in(at, &bytes).unwrap();
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let mode = if input.u8() & 1 == 0 { ProtectionMode::Mapped } else { ProtectionMode::Guarded };
    let mut stage = Stage::new(mode);
    input.drive(STEPS_MAX, |input| {
        stage.step(input);
        stage.program.turns(&mut stage.engine);
    });
    stage.program.collect(&mut stage.engine);
    stage.program.finish(&mut stage.engine);
}
