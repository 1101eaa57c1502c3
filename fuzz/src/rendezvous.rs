// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages with descriptors on the sockets by which links are made, from both ends: at the NIC's name, and at a name that the NIC looks for.

use crate::input::Input;
use crate::outsider::{self, fresh_address, half, message, soft, waiter_name};
use bellwire_memory::event::pipe_of_bell;
use bellwire_memory::region::Region;
use bellwire_memory::{fd_passing, pidfd};
use bellwire_via::wire::shm::{ProtectionMode, ShmWire};
use bellwire_via::{Engine, Instant, NetAddress, ViAttributes};
use rustix::fd::{AsFd, OwnedFd};

const STEPS_MAX: usize = 64;
const SOCKETS_MAX: usize = 8;

struct Stage {
    engine: Engine<ShmWire>,
    address: NetAddress,
    /// Where the outsider listens.
    theirs: OwnedFd,
    their_address: NetAddress,
    sockets: Vec<fd_passing::Socket>,
    /// The NIC's id, once it was told.
    id: [u8; 16],
}

impl Stage {
    fn new() -> Self {
        let mut engine = outsider::engine(ProtectionMode::Mapped);
        let (address, their_address) = (fresh_address(), fresh_address());
        engine.connect_wait(&address, Instant::NEVER).unwrap();
        let theirs = fd_passing::listen_abstract(&waiter_name(&their_address)).unwrap();
        Self { engine, address, theirs, their_address, sockets: Vec::new(), id: [0; 16] }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let (what, which) = (input.u8(), usize::from(input.u8()) % self.sockets.len().max(1));
        match what % 8 {
            0 if self.sockets.len() < SOCKETS_MAX => self.sockets.extend(fd_passing::connect_abstract(&waiter_name(&self.address))),
            1 => {
                if let Ok(vi) = self.engine.create_vi(&ViAttributes::default(), None, None, None) {
                    let _ = self.engine.connect_request(vi, &self.address, &self.their_address, Instant(self.engine.now().0 + 1_000_000));
                }
            }
            2 if self.sockets.len() < SOCKETS_MAX => self.sockets.extend(fd_passing::accept(self.theirs.as_fd()).ok().flatten()),
            3 if !self.sockets.is_empty() => drop(self.sockets.remove(which)),
            4 => self.engine.set_now(Instant(self.engine.now().0 + u64::from(input.u16()) * 1000)),
            _ => {
                if let Some(socket) = self.sockets.get(which) {
                    let bytes = self.words(input);
                    let fds: Vec<OwnedFd> = fds(input);
                    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
                    let _ = fd_passing::send(socket.as_fd(), &bytes, &fds);
                }
            }
        }
        self.engine.handle_control();
        self.engine.progress();
        self.hear();
    }

    fn words(&self, input: &mut Input<'_>) -> Vec<u8> {
        let kind = input.u8();
        let id = match kind >> 6 {
            0 => self.id,
            n => [n; 16],
        };
        let mut b = message(kind % 9, input.u8() % 5, input.number() as u32, id).to_vec();
        match input.u8() {
            0..=199 => {}
            200..=227 => b.truncate(1 + usize::from(input.u8() % 32)),
            228..=239 => b.resize(32 + usize::from(input.u8()), 0),
            n => b[usize::from(n % 32)] ^= input.u8(),
        }
        b
    }

    fn hear(&mut self) {
        for s in &self.sockets {
            let mut b = [0; 64];
            if let Ok(r) = fd_passing::receive(s.as_fd(), &mut b)
                && r.len == 32
                && matches!(b[0], 1 | 2)
            {
                self.id.copy_from_slice(&b[8..24]);
            }
        }
    }
}

/// Descriptors: those of an honest offer, with one left out or exchanged.
fn fds(input: &mut Input<'_>) -> Vec<OwnedFd> {
    let form = input.u8();
    if form & 1 == 0 {
        return Vec::new();
    }
    let (out, payload, catalogue) = half();
    let (_, ringer) = pipe_of_bell().unwrap();
    let copy = |region: &Region| region.fd().try_clone_to_owned().unwrap();
    let mut all = vec![copy(&out), copy(&payload), copy(&catalogue), ringer, pidfd::own().unwrap()];
    if form & 2 != 0 {
        let at = usize::from(input.u8()) % all.len();
        all[at] = odd(input);
    }
    if form & 4 != 0 {
        all.truncate(usize::from(input.u8()) % 6);
    }
    if form & 8 != 0 {
        all.extend((0..input.u8() % 5).map(|_| odd(input)));
    }
    all
}

fn odd(input: &mut Input<'_>) -> OwnedFd {
    let open = |path| std::fs::File::open(path).unwrap().into();
    match input.u8() % 5 {
        0 => open("/dev/null"),
        1 => open("/"),
        2 => pipe_of_bell().unwrap().0,
        3 => pidfd::open(1).or_else(|_| pidfd::own()).unwrap(),
        _ => soft(outsider::LINK_BYTES as u64 + u64::from(input.u8())),
    }
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let mut stage = Stage::new();
    input.drive(STEPS_MAX, |input| stage.step(input));
    // It still speaks with who behaves.
    stage.sockets.clear();
    for _ in 0..4 {
        outsider::control(&mut stage.engine);
        stage.engine.progress();
    }
    drop(outsider::Outsider::link_up(&mut stage.engine, &stage.address));
}
