// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nodes with programs on a fabric, connected in pairs: what most scenarios are made of.
//!
//! A scenario opens a cluster, connects ends, posts, and then takes what is done, one thing after
//! the other, with [`Cluster::next`]; from there it posts again. What a processor does for a
//! message takes time as [`HostCosts`] says: a node's program does one thing at a time.
//!
//! Invariants
//! - H1: what a program posts leaves, and what it takes is told, when the processor has done it; a
//!   node's actions do not overlap.
//! - H2: posts of a node go before completions that it has not begun to take.
//! - H3: content of messages means nothing: all are sent from one place, and received into another.

use super::ScenarioError;
use crate::memory::Memory;
use crate::{FaultPlan, Happened, Topology, World, WorldConfig};
use bellwire_time::{Duration, Instant};
use bellwire_via::{Completion, CqHandle, MemAttributes, ReceiveRequest, Segment, SendRequest, ViAttributes, ViHandle, ViState, WorkQueueKind};
use core::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Entries of a node's completion queue.
const QUEUE_ENTRIES: usize = 1 << 16;
/// Time for all ends to be connected.
const CONNECT_MAX: Duration = Duration::from_secs(60);

/// Processor time of what a program does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCosts {
    /// Posting a send.
    pub send: Duration,
    /// Taking a message that has come, and posting the receive for the next.
    pub receive: Duration,
    /// Taking the completion of a send.
    pub upkeep: Duration,
}

/// One end of a connection, by its place in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndId(pub usize);

/// Something that a program has been told.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// Where.
    pub end: EndId,
    /// Whether a message was received, or a send is done.
    pub kind: WorkQueueKind,
    /// Its outcome. The context is that of the post.
    pub completion: Completion,
}

/// What a processor is busy with.
#[derive(Clone, Copy, Debug)]
enum Action {
    Post { end: EndId, bytes: u32, context: u64 },
    Take(Done),
}

struct Node {
    memory: Memory,
    handle: u32,
    queue: CqHandle,
    /// Ends by the place of their VI.
    ends: Vec<Option<EndId>>,
    todo: VecDeque<Action>,
    /// What it does until a time.
    busy: Option<(u64, Action)>,
}

#[derive(Clone, Copy)]
struct End {
    node: usize,
    vi: ViHandle,
}

/// Many programs in virtual time.
pub struct Cluster {
    // Engines go before the memory that they know of.
    world: World,
    nodes: Vec<Node>,
    ends: Vec<End>,
    costs: HostCosts,
    /// Ends of actions.
    agenda: BinaryHeap<Reverse<(u64, usize)>>,
    /// The node that had a turn, whose completions have not all been looked at.
    turned: Option<usize>,
    bytes_max: u32,
}

impl core::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Cluster").field("world", &self.world).field("ends", &self.ends.len()).finish_non_exhaustive()
    }
}

impl Cluster {
    /// A program on each node of a topology, for messages of up to `bytes_max`.
    ///
    /// # Errors
    /// The topology or the plan is wrong, or the engine refuses.
    pub fn new(topology: Topology, plan: &FaultPlan, config: WorldConfig, costs: HostCosts, bytes_max: u32, seed: u64) -> Result<Self, ScenarioError> {
        let mut world = World::new(topology, plan, config, seed)?;
        let mut nodes = Vec::new();
        for node in 0..world.nics() {
            let memory = Memory::new(2 * bytes_max.max(1) as usize);
            let handle = world.with(node, |e| memory.register(e, &MemAttributes::default()))?.raw();
            let queue = world.with(node, |e| e.create_cq(QUEUE_ENTRIES))?;
            nodes.push(Node { memory, handle, queue, ends: Vec::new(), todo: VecDeque::new(), busy: None });
        }
        Ok(Self { world, nodes, ends: Vec::new(), costs, agenda: BinaryHeap::new(), turned: None, bytes_max })
    }

    /// The engines and the fabric.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The engines and the fabric. Requests posted past the cluster take no processor's time.
    pub fn world_mut(&mut self) -> &mut World {
        &mut self.world
    }

    /// The time, as no clock of a node shows it.
    pub fn now(&self) -> Instant {
        self.world.now()
    }

    /// Number of ends.
    pub fn ends(&self) -> usize {
        self.ends.len()
    }

    /// The node of an end.
    pub fn node(&self, end: EndId) -> usize {
        self.ends[end.0].node
    }

    /// The VI of an end.
    pub fn vi(&self, end: EndId) -> ViHandle {
        self.ends[end.0].vi
    }

    /// Connects pairs of nodes; gives both ends of each, in the order of the pairs.
    ///
    /// # Errors
    /// The engine refuses, or not all are connected after a minute of virtual time.
    pub fn connect(&mut self, pairs: &[(usize, usize)], attributes: &ViAttributes) -> Result<Vec<[EndId; 2]>, ScenarioError> {
        let mut made = Vec::new();
        for &(a, b) in pairs {
            let ends = [self.add_end(a, attributes)?, self.add_end(b, attributes)?];
            let name = (ends[0].0 as u32).to_le_bytes();
            let [here, there] = [a, b].map(|node| self.world.address(node, &name));
            for (end, local, remote) in [(ends[0], &here, &there), (ends[1], &there, &here)] {
                let End { node, vi } = self.ends[end.0];
                let until = self.world.after(node, CONNECT_MAX);
                self.world.with(node, |e| e.peer_request(vi, local, remote, until))?;
            }
            made.push(ends);
        }
        let new = self.ends.len() - 2 * pairs.len()..self.ends.len();
        let deadline = self.now() + CONNECT_MAX;
        let mut waiting: VecDeque<usize> = new.collect();
        let connected = self.world.run_until(deadline, |world| {
            while let Some(&end) = waiting.front()
                && world.engine(self.ends[end].node).and_then(|e| e.query_vi(self.ends[end].vi).ok()).is_some_and(|vi| vi.0 == ViState::Connected)
            {
                waiting.pop_front();
            }
            waiting.is_empty()
        });
        if connected { Ok(made) } else { Err(ScenarioError("the nodes do not come together".into())) }
    }

    fn add_end(&mut self, node: usize, attributes: &ViAttributes) -> Result<EndId, ScenarioError> {
        let queue = Some(self.nodes[node].queue);
        let vi = self.world.with(node, |e| e.create_vi(attributes, queue, queue, None))?;
        let end = EndId(self.ends.len());
        self.ends.push(End { node, vi });
        let places = &mut self.nodes[node].ends;
        if places.len() <= vi.index() {
            places.resize(vi.index() + 1, None);
        }
        places[vi.index()] = Some(end);
        Ok(end)
    }

    /// Posts a receive. Takes no time: it is part of what taking the message before costs.
    ///
    /// # Errors
    /// The engine refuses.
    pub fn receive(&mut self, end: EndId, context: u64) -> Result<(), ScenarioError> {
        let End { node, vi } = self.ends[end.0];
        let Node { memory, handle, .. } = &self.nodes[node];
        let segments = [Segment { address: memory.address() + u64::from(self.bytes_max.max(1)), length: self.bytes_max, handle: *handle }];
        Ok(self.world.with(node, |e| e.post_receive(vi, &ReceiveRequest { segments: &segments, context, ..ReceiveRequest::default() }))?)
    }

    /// Posts a send of so many bytes, when the node's processor comes to it.
    ///
    /// # Errors
    /// The engine refuses (at once, if processors take no time).
    pub fn send(&mut self, end: EndId, bytes: u32, context: u64) -> Result<(), ScenarioError> {
        if self.costs == HostCosts::default() {
            return self.post(end, bytes, context);
        }
        let node = self.ends[end.0].node;
        self.nodes[node].todo.push_back(Action::Post { end, bytes, context });
        self.begin(node)
    }

    fn post(&mut self, end: EndId, bytes: u32, context: u64) -> Result<(), ScenarioError> {
        let End { node, vi } = self.ends[end.0];
        let Node { memory, handle, .. } = &self.nodes[node];
        let segments = [Segment { address: memory.address(), length: bytes, handle: *handle }];
        Ok(self.world.with(node, |e| e.post_send(vi, &SendRequest { segments: &segments, context, ..SendRequest::default() }))?)
    }

    /// Goes on until a program is told something, or until `limit`.
    ///
    /// # Errors
    /// The engine refuses what was posted earlier.
    pub fn next(&mut self, limit: Instant) -> Result<Option<Done>, ScenarioError> {
        loop {
            if let Some(node) = self.turned {
                if self.costs == HostCosts::default() {
                    if let Some(done) = self.pop(node)? {
                        return Ok(Some(done));
                    }
                } else {
                    self.begin(node)?;
                }
                self.turned = None;
            }
            let due = self.agenda.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
            if due <= self.now().0 {
                if let Some(done) = self.finish()? {
                    return Ok(Some(done));
                }
                continue;
            }
            match self.world.step(Instant(due.min(limit.0))) {
                Happened::Turn(node) => self.turned = Some(node),
                Happened::Limit | Happened::Quiet if due > limit.0 || due == u64::MAX => return Ok(None),
                Happened::Limit | Happened::Quiet | Happened::Crashed(_) | Happened::Restarted(_) => {}
            }
        }
    }

    /// The next thing in a node's completion queue.
    fn pop(&mut self, node: usize) -> Result<Option<Done>, ScenarioError> {
        let queue = self.nodes[node].queue;
        if !self.world.lives(node) {
            return Ok(None);
        }
        let ends = &self.nodes[node].ends;
        let found = self.world.with(node, |e| {
            let Some((vi, kind)) = e.cq_done(queue)? else { return Ok(None) };
            let completion = match kind {
                WorkQueueKind::Receive => e.receive_done(vi)?,
                WorkQueueKind::Send => e.send_done(vi)?,
            };
            Ok(completion.and_then(|completion| Some(Done { end: ends.get(vi.index()).copied()??, kind, completion })))
        });
        found.map_err(|error: bellwire_via::Error| error.into())
    }

    /// Gives an idle processor something to do, if there is anything.
    fn begin(&mut self, node: usize) -> Result<(), ScenarioError> {
        if self.nodes[node].busy.is_some() {
            return Ok(());
        }
        let action = match self.nodes[node].todo.pop_front() {
            Some(action) => Some(action),
            None => self.pop(node)?.map(Action::Take),
        };
        let Some(action) = action else { return Ok(()) };
        let time = match &action {
            Action::Post { .. } => self.costs.send,
            Action::Take(done) if done.kind == WorkQueueKind::Receive => self.costs.receive,
            Action::Take(_) => self.costs.upkeep,
        };
        let until = self.now() + time;
        self.nodes[node].busy = Some((until.0, action));
        self.agenda.push(Reverse((until.0, node)));
        Ok(())
    }

    /// The action that is over.
    fn finish(&mut self) -> Result<Option<Done>, ScenarioError> {
        let Some(Reverse((_, node))) = self.agenda.pop() else { return Ok(None) };
        let told = match self.nodes[node].busy.take() {
            Some((_, Action::Post { end, bytes, context })) => {
                self.post(end, bytes, context)?;
                None
            }
            Some((_, Action::Take(done))) => Some(done),
            None => None,
        };
        // What the program posts now goes before what it could take: so it is asked later.
        self.turned = Some(node);
        Ok(told)
    }
}
