// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of SISCI in any order, with handles that are right, stale, of another kind or made up, and
//! offsets and sizes of any value, to objects of this host and of another one; and messages of
//! another process to the sockets of segments and interrupts.
//!
//! Asserted besides: a copy that is let through lies inside its map; once all objects are removed,
//! their descriptor can be closed.

use bellwire_memory::bytes::SharedBytes;
use bellwire_memory::fd_passing;
use bellwire_memory::region::Access;
use bellwire_memory::view::At;
use bellwire_sisci::machine::{Neighbour, initialize_beside};
use bellwire_sisci::{
    Action, Block, BlockTransfer, DataInterrupt, DmaQueue, InterruptKind, Library, Local, LocalInterrupt, LocalSegment, Map, Part, RemoteDataInterrupt,
    RemoteInterrupt, RemoteSegment, SegmentKind, Sequence,
};
use rustix::fd::AsFd;
use std::sync::LazyLock;
use std::time::Duration;

use crate::input::Input;

const STEPS_MAX: usize = 60;
const BYTES: usize = 8192;

/// Handles of each kind, as far as the program knows them.
#[derive(Default)]
struct Program {
    all: [Vec<u64>; 10],
}

const LOCAL: usize = 0;
const REMOTE: usize = 1;
const MAP: usize = 2;
const SEQUENCE: usize = 3;
const QUEUE: usize = 4;
const BLOCK: usize = 5;
const INTERRUPT: usize = 6;
const REMOTE_INTERRUPT: usize = 7;
const DATA: usize = 8;
const REMOTE_DATA: usize = 9;

impl Program {
    /// A handle: mostly one of the kind, else any other, or none.
    fn pick(&self, kind: usize, input: &mut Input) -> u64 {
        let what = input.u8();
        let of = match what >> 6 {
            0..=2 => kind,
            _ => usize::from(what & 15) % self.all.len(),
        };
        let list = &self.all[of];
        if list.is_empty() || what == 255 {
            return u64::from(input.u8()) << 48 | u64::from(input.u8());
        }
        list[usize::from(what & 63) % list.len()]
    }

    fn keep(&mut self, kind: usize, made: Result<u64, bellwire_sisci::Error>) {
        self.all[kind].extend(made);
    }
}

/// A number: small, at an edge, or any.
fn number(input: &mut Input) -> usize {
    match input.u8() {
        small @ 0..=99 => usize::from(small) * 8,
        100..=139 => BYTES - usize::from(input.u8()),
        140..=149 => usize::MAX - usize::from(input.u8()),
        150..=159 => isize::MAX as usize,
        odd => usize::from(odd) << 8 | usize::from(input.u8()),
    }
}

/// Any end of a call is a good one.
fn ignore<T>(_: T) {}

/// Ids of segments and interrupts.
const IDS: std::ops::Range<u32> = 900..904;

/// The other host of a node.
fn neighbour(node: u32) -> u32 {
    node | 0x8000
}

/// The library, started; there is another host.
pub fn library() -> &'static Library {
    static NEIGHBOUR: LazyLock<Neighbour> = LazyLock::new(|| {
        // A node of this process's own: others may run at the same time.
        let node = 1 + std::process::id() % 0x7FFF;
        initialize_beside(node, neighbour(node)).expect("a start");
        let there = Neighbour::start(neighbour(node)).expect("a NIC");
        IDS.for_each(|id| there.offer(neighbour(node), id, BYTES).expect("free names"));
        there
    });
    LazyLock::force(&NEIGHBOUR);
    bellwire_sisci::current().expect("started")
}

/// A process that does not go through the library.
fn outsider(library: &Library, input: &mut Input) {
    let (node, what) = (library.nodes.own, u32::from(input.u8() % 4));
    let name = match input.u8() % 4 {
        0 => format!("bellwire/sisci/{node}/segment/{}", 900 + what),
        1 => format!("bellwire/sisci/{node}/interrupt/{}/0", 900 + what),
        2 => format!("bellwire/sisci/{node}/data-interrupt/{}", 900 + what),
        _ => format!("bellwire/sisci/{node}/process/{what}"),
    };
    let Ok(socket) = fd_passing::connect_abstract(name.as_bytes()) else { return };
    let mut hello: Vec<u8> = [u32::from_le_bytes(*b"SSCI"), 1, u32::from(input.u8() % 7), node].iter().flat_map(|w| w.to_le_bytes()).collect();
    for _ in 0..input.u8() % 4 {
        let at = usize::from(input.u8()) % hello.len();
        hello[at] = input.u8();
    }
    hello.truncate(usize::from(input.u8()).max(1));
    let _ = fd_passing::send(socket.as_fd(), &hello, &[]);
    for _ in 0..input.u8() % 3 {
        let said: Vec<u8> = (0..=input.u8() % 40).map(|_| input.u8()).collect();
        let _ = fd_passing::send(socket.as_fd(), &said, &[socket.as_fd()]);
    }
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let library = library();
    let device = library.open().expect("a descriptor");
    let mut input = Input(data);
    let mut program = Program::default();
    let mut memory = [0u8; 512];
    input.drive(STEPS_MAX, |input| step(library, device, &mut program, &mut memory, input));
    // Everything goes, in an order in which nothing is busy.
    let of = |kind: usize| program.all[kind].iter().copied();
    of(SEQUENCE).for_each(|h| ignore(Sequence::remove(library, h)));
    of(MAP).for_each(|h| ignore(Map::unmap(library, h)));
    of(BLOCK).for_each(|h| ignore(BlockTransfer::wait(library, h, None)));
    for queue in of(QUEUE) {
        let _ = library.get::<DmaQueue>(queue).map(|q| q.wait(None));
        let _ = DmaQueue::remove(library, queue);
    }
    of(REMOTE).for_each(|h| ignore(RemoteSegment::disconnect(library, h)));
    of(LOCAL).for_each(|h| ignore(LocalSegment::remove(library, h, true)));
    of(REMOTE_INTERRUPT).for_each(|h| ignore(RemoteInterrupt::disconnect(library, h)));
    of(INTERRUPT).for_each(|h| ignore(LocalInterrupt::remove(library, h)));
    of(REMOTE_DATA).for_each(|h| ignore(RemoteDataInterrupt::disconnect(library, h)));
    of(DATA).for_each(|h| ignore(DataInterrupt::remove(library, h)));
    assert_eq!(library.close(device), Ok(()), "all objects were removed");
}

fn step(library: &'static Library, device: u64, program: &mut Program, memory: &mut [u8; 512], input: &mut Input) {
    let short = Some(Duration::from_micros(100));
    let node = match input.u8() {
        0 => u32::from(input.u8()) << 9,
        1..192 => library.nodes.own,
        _ => neighbour(library.nodes.own),
    };
    let id = IDS.start + u32::from(input.u8() % 4);
    match input.u8() % 26 {
        0 | 1 => {
            let flags = input.u8();
            let kind = SegmentKind { empty: flags & 7 == 1, private: flags & 7 == 2, dma_only: flags & 7 == 3, auto_id: flags & 7 == 4 };
            let size = if flags & 128 == 0 { BYTES } else { number(input) };
            let made = LocalSegment::create(library, device, id, size, kind, |_| (flags & 64 != 0).then(|| Box::new(|_| Action::Continue) as _));
            program.keep(LOCAL, made);
        }
        2 => ignore(library.get::<LocalSegment>(program.pick(LOCAL, input)).map(|s| s.prepare())),
        3 => ignore(library.get::<LocalSegment>(program.pick(LOCAL, input)).map(|s| s.prepare().and_then(|()| s.set_available()))),
        4 => ignore(library.get::<LocalSegment>(program.pick(LOCAL, input)).map(|s| s.set_unavailable(id & 1 == 0, id & 2 == 0))),
        5 => {
            let _ = library.get::<LocalSegment>(program.pick(LOCAL, input)).map(|s| s.share());
            let made = LocalSegment::attach(library, device, id);
            program.keep(LOCAL, made);
        }
        6 => ignore(LocalSegment::remove(library, program.pick(LOCAL, input), id & 1 == 0)),
        7 => ignore(library.get::<LocalSegment>(program.pick(LOCAL, input)).map(|s| s.wait(short))),
        8 | 9 => {
            let callback = |_| (id & 1 == 0).then(|| Box::new(|_| Action::Cancel) as _);
            let made = match input.u8() {
                0..128 => RemoteSegment::connect(library, device, node, id, short, callback),
                forever @ 128.. => RemoteSegment::begin_to_connect(library, device, node, id, short.filter(|_| forever < 192), callback),
            };
            program.keep(REMOTE, made);
        }
        10 => ignore(RemoteSegment::disconnect(library, program.pick(REMOTE, input))),
        11 => ignore(library.get::<RemoteSegment>(program.pick(REMOTE, input)).map(|s| s.wait(short))),
        12 | 13 => {
            let (segment, offset, size) = (program.pick(usize::from(input.u8() & 1), input), number(input), number(input));
            let access = if id & 1 == 0 { Access::ReadWrite } else { Access::ReadOnly };
            let made = Map::of_local(library, segment, offset, size, access, At::Anywhere).or_else(|_| match id & 2 {
                0 => Map::of_remote(library, segment, offset, size, access, At::Anywhere),
                _ => Map::of_flags(library, segment, offset, size, id & 1 == 0, At::Anywhere),
            });
            program.keep(MAP, made.map(|(handle, _)| handle));
        }
        14 => ignore(Map::unmap(library, program.pick(MAP, input))),
        15 => {
            let made = Sequence::create(library, program.pick(MAP, input));
            program.keep(SEQUENCE, made);
            let _ = library.get::<Sequence>(program.pick(SEQUENCE, input)).map(|s| (s.start(), s.check()));
        }
        16 => ignore(Sequence::remove(library, program.pick(SEQUENCE, input))),
        17 => {
            let (map, offset, len) = (library.get::<Map>(program.pick(MAP, input)), number(input), number(input).min(memory.len()));
            // SAFETY: this function's own memory, of that length, for the copy alone.
            let bytes = unsafe { SharedBytes::new(memory.as_mut_ptr(), len) };
            if let Ok(map) = map
                && map.copy(bytes, offset, id & 1 == 0).is_ok()
            {
                assert!(offset + len <= map.size(), "a copy beyond its map");
            }
        }
        18 => {
            let (from, to) = (program.pick(MAP, input), program.pick(MAP, input));
            let block = Block { from, from_offset: number(input), to, to_offset: number(input), size: number(input) };
            if id & 1 == 0 {
                let _ = BlockTransfer::copy(library, block);
            } else {
                let made = BlockTransfer::start(library, block, |_| (id & 2 == 0).then(|| Box::new(|_| Action::Continue) as _));
                program.keep(BLOCK, made);
            }
            let _ = library.get::<BlockTransfer>(program.pick(BLOCK, input)).map(|b| b.abort());
        }
        19 => {
            let made = DmaQueue::create(library, device, number(input));
            program.keep(QUEUE, made);
        }
        20 | 21 => {
            let (local, remote) = (program.pick(LOCAL, input), program.pick(REMOTE, input));
            let part = Part { size: number(input), local_offset: number(input), remote_offset: number(input) };
            let Ok(queue) = library.get::<DmaQueue>(program.pick(QUEUE, input)) else { return };
            let what = input.u8();
            let callback = || (what & 64 != 0).then(|| Box::new(|_| Action::Continue) as _);
            match what % 6 {
                0 => ignore(queue.enqueue(local, remote, part, what & 128 != 0)),
                1 => ignore(queue.post(callback(), what & 32 != 0)),
                2 => ignore(queue.abort()),
                3 => ignore(queue.reset()),
                4 => ignore(queue.wait(short)),
                _ => ignore(queue.start(&Local::Segment(local), remote, &[part, part], what & 128 != 0, callback(), what & 32 != 0)),
            }
        }
        22 => {
            let what = input.u8();
            let kind = InterruptKind { number: (what & 1 != 0).then_some(id), shared: what & 2 != 0, counts: what & 4 != 0 };
            let made = LocalInterrupt::create(library, device, kind, |_| (what & 8 != 0).then(|| Box::new(|| Action::Continue) as _));
            program.keep(INTERRUPT, made.map(|(handle, _)| handle));
            if what & 16 != 0 {
                let (segment, offset) = (program.pick(LOCAL, input), number(input));
                let made = LocalInterrupt::of_flag(library, segment, offset, what & 32 != 0, |_| (what & 8 != 0).then(|| Box::new(|| Action::Continue) as _));
                program.keep(INTERRUPT, made);
            }
            let made = RemoteInterrupt::connect(library, device, node, id, short);
            program.keep(REMOTE_INTERRUPT, made);
        }
        23 => {
            let _ = library.get::<RemoteInterrupt>(program.pick(REMOTE_INTERRUPT, input)).map(|i| i.trigger());
            let _ = library.get::<LocalInterrupt>(program.pick(INTERRUPT, input)).map(|i| (i.wait(short), i.enable(), i.triggers()));
            if id == 901 {
                let _ = library.get::<LocalInterrupt>(program.pick(INTERRUPT, input)).map(|i| i.disable());
            }
            if id == 900 {
                let _ = LocalInterrupt::remove(library, program.pick(INTERRUPT, input));
                let _ = RemoteInterrupt::disconnect(library, program.pick(REMOTE_INTERRUPT, input));
            }
        }
        24 => {
            let made = DataInterrupt::create(library, device, Some(id), |_| (id == 903).then(|| Box::new(|_: &[u8]| Action::Continue) as _));
            program.keep(DATA, made.map(|(handle, _)| handle));
            let made = RemoteDataInterrupt::connect(library, device, node, id, short);
            program.keep(REMOTE_DATA, made);
            let len = number(input).min(memory.len());
            // SAFETY: this function's own memory, of that length, for the two calls alone.
            let bytes = unsafe { SharedBytes::new(memory.as_mut_ptr(), len) };
            let _ = library.get::<RemoteDataInterrupt>(program.pick(REMOTE_DATA, input)).map(|i| i.trigger(bytes));
            let _ = library.get::<DataInterrupt>(program.pick(DATA, input)).map(|i| i.wait(bytes, short));
            if id == 900 {
                let _ = DataInterrupt::remove(library, program.pick(DATA, input));
            }
        }
        _ => outsider(library, input),
    }
}
