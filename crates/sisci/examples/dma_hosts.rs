// SPDX-License-Identifier: MIT OR Apache-2.0
//! DMA to a segment of another host beside the engine's RDMA write, by turns:
//! `dma_hosts owner`, and on another host `dma_hosts user NODE TURNS`. `scripts/sisci-dma.sh` runs
//! both in network namespaces. `user NODE TURNS write BYTES` or `dma` does one of the two, to count
//! its system calls.
//!
//! Both end when the bytes are in the owner's memory: a transfer that is waited for, and a write
//! of the reliability level that says so.

use bellwire_sisci::{DmaQueue, Library, Local, LocalSegment, Map, Part, RemoteSegment, SegmentKind};
use bellwire_via::nic::{Memory, NicConfig, Udp};
use bellwire_via::wire::Wire;
use bellwire_via::{MemAttributes, NetAddress, Nic, Operation, Reliability, SendRequest, ViAttributes, ViHandle};
use std::error::Error;
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

const SEGMENT: u32 = 40;
const BYTES: usize = 4 << 20;
const SIZES: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];
/// Bytes of one turn.
const TURN_BYTES: usize = 4 << 20;
const LONG: Option<Duration> = Some(Duration::from_secs(60));

/// A NIC of the program's own, beside that of the library.
fn nic() -> Outcome<(Nic, Vec<u8>)> {
    let mut config = NicConfig::from_env()?;
    config.udp.get_or_insert(Udp::default());
    let nic = Nic::open(config)?;
    let host = nic.with(|engine| engine.wire().host_address().to_vec());
    Ok((nic, host))
}

fn address(host: &[u8], of: &[u8]) -> Outcome<NetAddress> {
    NetAddress::new(host, of).ok_or_else(|| "an address".into())
}

fn attributes(nic: &Nic) -> Outcome<(ViAttributes, MemAttributes)> {
    let ptag = Some(nic.with(|engine| engine.create_ptag())?);
    let vi = ViAttributes { ptag, reliability: Reliability::ReliableReception, rdma_write: true, ..ViAttributes::default() };
    Ok((vi, MemAttributes { ptag, rdma_write: true, rdma_read: false }))
}

fn owner(library: &'static Library, device: u64) -> Outcome<()> {
    let (nic, host) = nic()?;
    let (attributes, rights) = attributes(&nic)?;
    let memory = nic.allocate(BYTES, &rights)?;
    // The user finds where to write, and whom to ask, in the segment.
    let handle = LocalSegment::create(library, device, SEGMENT, BYTES, SegmentKind::default(), |_| None)?;
    let segment = library.get::<LocalSegment>(handle)?;
    let map = Map::of_local(library, handle, 0, BYTES, bellwire_memory::region::Access::ReadWrite, bellwire_memory::view::At::Anywhere)?.0;
    let mut words = [memory.address().to_le_bytes(), u64::from(memory.handle().raw()).to_le_bytes()].concat();
    words.push(host.len() as u8);
    words.extend(&host);
    library.get::<Map>(map)?.part(0, words.len())?.copy_in(0, &words)?;
    let name = address(&host, b"dma-hosts")?;
    segment.prepare()?;
    segment.set_available()?;
    loop {
        let Ok(request) = nic.connect_wait(&name, LONG) else { continue };
        let vi = nic.with(|engine| engine.create_vi(&attributes, None, None, None))?;
        nic.with(|engine| engine.accept(request.incoming, vi))?;
    }
}

/// The engine's RDMA writes.
struct Writer<'a> {
    nic: &'a Nic,
    vi: ViHandle,
    memory: &'a Memory<'a>,
    to: (u64, u32),
}

impl Writer<'_> {
    fn write(&self, size: usize) -> Outcome<()> {
        let segments = [self.memory.segment(0, size as u32)?];
        let (remote_address, remote_handle) = self.to;
        let request = SendRequest { operation: Operation::RdmaWrite, segments: &segments, remote_address, remote_handle, ..SendRequest::default() };
        self.nic.post_send(self.vi, &request)?;
        loop {
            if let Some(done) = self.nic.send_done(self.vi)? {
                return if done.status.is_error() { Err(format!("{:?}", done.status).into()) } else { Ok(()) };
            }
            self.nic.give_way();
        }
    }
}

fn user(library: &'static Library, device: u64, node: u32, turns: usize, only: Option<(&str, usize)>) -> Outcome<()> {
    let remote = RemoteSegment::connect(library, device, node, SEGMENT, LONG, |_| None)?;
    let queue = library.get::<DmaQueue>(DmaQueue::create(library, device, 16)?)?;
    let kind = SegmentKind { private: true, ..SegmentKind::default() };
    let mine = LocalSegment::create(library, device, 0, BYTES, kind, |_| None)?;
    let map = library.get::<Map>(Map::of_local(library, mine, 0, BYTES, bellwire_memory::region::Access::ReadWrite, bellwire_memory::view::At::Anywhere)?.0)?;
    let part = |size| [Part { size, local_offset: 0, remote_offset: 0 }];
    queue.start(&Local::Segment(mine), remote, &part(64), true, None, true)?;
    let mut words = [0; 64];
    map.part(0, 64)?.copy_out(0, &mut words)?;
    let word = |at: usize| u64::from_le_bytes(words[at..at + 8].try_into().unwrap_or_default());
    let there = words.get(17..17 + usize::from(words[16])).ok_or("an address")?;

    let (nic, host) = nic()?;
    let (attributes, rights) = attributes(&nic)?;
    let memory = nic.allocate(BYTES, &rights)?;
    let vi = nic.with(|engine| engine.create_vi(&attributes, None, None, None))?;
    let from = address(&host, format!("dma-hosts {}", std::process::id()).as_bytes())?;
    nic.connect_request(vi, &from, &address(there, b"dma-hosts")?, LONG)?;
    let writer = Writer { nic: &nic, vi, memory: &memory, to: (word(0), word(8) as u32) };

    if let Some((only, bytes)) = only {
        let begin = Instant::now();
        for _ in 0..turns {
            match only {
                "dma" => queue.start(&Local::Segment(mine), remote, &part(bytes), false, None, true)?,
                _ => writer.write(bytes)?,
            }
        }
        println!("{only} {bytes} bytes: {:.1} us", begin.elapsed().as_secs_f64() / turns as f64 * 1e6);
        return Ok(());
    }
    for size in SIZES {
        let times = (TURN_BYTES / size).min(200) as u32;
        let mut all = Vec::new();
        for turn in 0..=turns {
            let begin = Instant::now();
            for _ in 0..times {
                writer.write(size)?;
            }
            let between = Instant::now();
            for _ in 0..times {
                queue.start(&Local::Segment(mine), remote, &part(size), false, None, true)?;
            }
            // The first turn warms up.
            if turn > 0 {
                all.push(((between - begin).as_nanos() as f64 / f64::from(times), between.elapsed().as_nanos() as f64 / f64::from(times)));
            }
        }
        let median = |of: &dyn Fn(&(f64, f64)) -> f64| {
            let mut values: Vec<f64> = all.iter().map(of).collect();
            values.sort_unstable_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let (write, dma, ratio) = (median(&|t| t.0), median(&|t| t.1), median(&|t| t.0 / t.1));
        println!("{:5} KiB  RDMA write {:9.1} us  DMA and wait {:9.1} us  {ratio:.2} of its bandwidth", size >> 10, write / 1e3, dma / 1e3);
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    bellwire_sisci::initialize()?;
    let library = bellwire_sisci::current()?;
    let device = library.open()?;
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["owner"] => owner(library, device),
        ["user", node, turns] => user(library, device, node.parse()?, turns.parse::<usize>()?.max(1), None),
        ["user", node, turns, only, bytes] => user(library, device, node.parse()?, turns.parse()?, Some((*only, bytes.parse::<usize>()?.min(BYTES)))),
        _ => Err("dma_hosts owner | dma_hosts user NODE TURNS [write|dma BYTES]".into()),
    }
}
