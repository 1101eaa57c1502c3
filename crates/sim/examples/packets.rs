// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many packets a second of one processor carries through whole engines: program, `via`, `proto`, fabric and back.
//!
//!     cargo run --release -p bellwire-sim --example packets [-- SECONDS [FAULTS]]
//!
//! Each node sends to the next two (or all) others, 32 messages of 48 bytes outstanding on each connection, each in a packet of its own; acknowledgements are packets too. Counted is what
//! transports have sent.

use bellwire_sim::memory::Memory;
use bellwire_sim::{Happened, Instant, LinkSpec, Topology, World, WorldConfig};
use bellwire_via::{CqHandle, MemAttributes, ReceiveRequest, Segment, SendRequest, ViAttributes, ViHandle, WorkQueueKind};
use std::time::Instant as Clock;

const BYTES: u32 = 48;
const WINDOW: usize = 32;

struct Run {
    world: World,
    memory: Vec<(Memory, u32)>,
    /// Of each node: where all its VIs complete.
    queues: Vec<CqHandle>,
    /// Of each node: VIs that send.
    senders: Vec<Vec<ViHandle>>,
    messages: u64,
}

impl Run {
    fn new(topology: Topology, faults: &str, partners: usize) -> Result<Self, Box<dyn std::error::Error>> {
        let nodes = topology.nodes();
        let mut world = World::new(topology, &faults.parse()?, WorldConfig::default(), 1)?;
        let (mut memory, mut queues) = (Vec::new(), Vec::new());
        for node in 0..nodes {
            let bytes = Memory::new(4096);
            let handle = world.with(node, |e| e.register(bytes.address(), 4096, &MemAttributes::default()))?;
            memory.push((bytes, handle.raw()));
            queues.push(world.with(node, |e| e.create_cq(4 * WINDOW * nodes))?);
        }
        let mut run = Self { world, memory, queues, senders: vec![Vec::new(); nodes], messages: 0 };
        let pairs = (0..nodes).flat_map(|a| (1..=partners.min(nodes - 1)).map(move |i| (a, (a + i) % nodes)));
        for (a, b) in pairs {
            run.connect(a, b)?;
        }
        for node in 0..nodes {
            for vi in run.senders[node].clone() {
                (0..WINDOW).for_each(|_| run.send(node, vi));
            }
        }
        Ok(run)
    }

    fn connect(&mut self, a: usize, b: usize) -> Result<(), Box<dyn std::error::Error>> {
        let attributes = ViAttributes { rnr_wait: true, ..ViAttributes::default() };
        let [from, to] = [a, b].map(|nic| self.world.with(nic, |e| e.create_vi(&attributes, Some(self.queues[nic]), Some(self.queues[nic]), None)));
        let (from, to) = (from?, to?);
        let name = [a as u8, b as u8];
        let [here, there] = [a, b].map(|nic| self.world.address(nic, &name));
        self.world.with(a, |e| e.peer_request(from, &here, &there, Instant::NEVER))?;
        self.world.with(b, |e| e.peer_request(to, &there, &here, Instant::NEVER))?;
        let until = self.world.now() + bellwire_sim::Duration::from_secs(10);
        let joined = self.world.run_until(until, |w| {
            [(a, from), (b, to)]
                .iter()
                .all(|&(nic, vi)| w.engine(nic).and_then(|e| e.query_vi(vi).ok()).is_some_and(|v| v.0 == bellwire_via::ViState::Connected))
        });
        assert!(joined, "two nodes do not come together");
        (0..2 * WINDOW).for_each(|_| self.receive(b, to));
        self.senders[a].push(from);
        Ok(())
    }

    fn segment(&self, node: usize, at: u64) -> Segment {
        let (memory, handle) = &self.memory[node];
        Segment { address: memory.address() + at, length: BYTES, handle: *handle }
    }

    fn send(&mut self, node: usize, vi: ViHandle) {
        let segments = [self.segment(node, 0)];
        self.world.with(node, |e| e.post_send(vi, &SendRequest { segments: &segments, ..SendRequest::default() })).expect("connected");
    }

    fn receive(&mut self, node: usize, vi: ViHandle) {
        let segments = [self.segment(node, 1024)];
        self.world.with(node, |e| e.post_receive(vi, &ReceiveRequest { segments: &segments, ..ReceiveRequest::default() })).expect("room");
    }

    fn turn(&mut self) {
        let Happened::Turn(node) = self.world.step(Instant::NEVER) else { panic!("the traffic stopped") };
        while let Some((vi, kind)) = self.world.with(node, |e| e.cq_done(self.queues[node])).expect("a queue") {
            match kind {
                WorkQueueKind::Receive => {
                    let done = self.world.with(node, |e| e.receive_done(vi)).expect("a VI").expect("a completion");
                    assert!(!done.status.is_error());
                    self.messages += 1;
                    self.receive(node, vi);
                }
                WorkQueueKind::Send => {
                    let _ = self.world.with(node, |e| e.send_done(vi)).expect("a VI");
                    self.send(node, vi);
                }
            }
        }
    }

    fn packets(&self) -> u64 {
        self.world.fabric().statistics().sent
    }
}

fn measure(name: &str, topology: Topology, faults: &str, partners: usize, seconds: f64) -> Result<(), Box<dyn std::error::Error>> {
    let mut run = Run::new(topology, faults, partners)?;
    (0..20_000).for_each(|_| run.turn());
    let before = (run.packets(), run.messages, run.world.turns(), run.world.now());
    let start = Clock::now();
    while start.elapsed().as_secs_f64() < seconds {
        (0..1_000).for_each(|_| run.turn());
    }
    let elapsed = start.elapsed().as_secs_f64();
    let packets = (run.packets() - before.0) as f64;
    println!(
        "{name:<28} {:>5.2} M packets/s  {:>5.2} M messages/s  {:>5.1} packets a turn  {:.3} s of virtual time a second",
        packets / elapsed / 1e6,
        (run.messages - before.1) as f64 / elapsed / 1e6,
        packets / (run.world.turns() - before.2) as f64,
        (run.world.now().0 - before.3.0) as f64 / elapsed / 1e9,
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(1.0), |s| s.parse())?;
    let faults = arguments.next().unwrap_or("loss=0.01,dup=0.01,reorder=0.01,seed=7".into());
    let link = LinkSpec::default();
    measure("2 nodes", Topology::mesh(2, link)?, "", 1, seconds)?;
    measure("4 nodes, a link for each two", Topology::mesh(4, link)?, "", 3, seconds)?;
    measure("16 nodes around a switch", Topology::star(16, link)?, "", 2, seconds)?;
    measure("the same, each to all", Topology::star(16, link)?, "", 15, seconds)?;
    measure("4 nodes, faults", Topology::mesh(4, link)?, &faults, 3, seconds)
}
