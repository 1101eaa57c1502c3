// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients that ask a server over endpoints, in virtual time: the programs, their threads and their
//! processors. `clients.rs` and `virtual_networks.rs` are made of it.
//!
//! Node 0 is the server, each other node a client with one endpoint and one thread. A program takes
//! a message, makes its answer (a reply, or the next request), and writes that into the endpoint
//! that the message came to. If the endpoint is not resident, the thread that writes is suspended
//! until it is; the server has one thread for all its endpoints, or one for each.
//!
//! Invariants
//! - E1: a node's processor does one thing at a time, and each takes its time: taking a message,
//!   writing one, going from one thread to another.
//! - E2: a thread that has nothing to do sleeps until a message comes; one that runs goes on until
//!   it has done what was there when it began, or is suspended.
//! - E3: a client has so many requests outstanding at all times; one that came back is written
//!   again.

use super::ScenarioError;
use crate::resident::{EndpointWorld, Message, Notice};
use bellwire_residency::EndpointId;
use bellwire_time::{Duration, Instant};
use core::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// The node of the server.
const SERVER: usize = 0;

/// Processor time of what a program does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    /// Taking a message.
    pub(super) take: Duration,
    /// Writing one.
    pub(super) write: Duration,
    /// Going to another thread.
    pub(super) switch: Duration,
}

/// The pairs that talk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) clients: usize,
    /// Whether each client has an endpoint of the server for itself.
    pub(super) own_endpoint: bool,
    /// Whether each endpoint of the server has a thread for itself.
    pub(super) threads: bool,
    /// Requests that a client has outstanding.
    pub(super) outstanding: usize,
    /// Bytes of a request; replies have one word.
    pub(super) bytes: usize,
    pub(super) costs: Costs,
}

impl Shape {
    /// The server's endpoints.
    pub(super) fn endpoints(&self) -> usize {
        if self.own_endpoint { self.clients } else { 1 }
    }
}

/// What one client got.
#[derive(Clone, Debug, Default)]
pub(super) struct Got {
    /// Replies.
    pub(super) replies: u64,
    /// Time from writing a request to taking its reply: sum and longest, in nanoseconds.
    pub(super) time: u64,
    pub(super) longest: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asleep,
    /// In the queue of those that can run.
    Ready,
    Running,
    /// It writes into an endpoint that is not resident.
    Suspended,
}

#[derive(Debug)]
struct Thread {
    state: State,
    /// Its endpoints, and at which it looks next.
    endpoints: Vec<EndpointId>,
    cursor: usize,
    /// To be written.
    todo: VecDeque<Message>,
    /// Messages that it may still take before others have their turn.
    batch: usize,
}

/// What a processor does until a time.
#[derive(Debug)]
enum Work {
    Switch,
    Take(Message),
    Write(Message),
}

#[derive(Debug, Default)]
struct Node {
    threads: Vec<Thread>,
    ready: VecDeque<usize>,
    /// The thread that ran last.
    current: usize,
    work: Option<Work>,
    /// Requests of a client, and when they were written.
    asked: BTreeMap<u64, Instant>,
    asked_total: u64,
    got: Got,
}

/// The programs of all nodes.
pub(super) struct Programs {
    world: EndpointWorld,
    shape: Shape,
    nodes: Vec<Node>,
    agenda: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Programs {
    /// `starts`: when each client begins.
    pub(super) fn new(world: EndpointWorld, shape: Shape, starts: &[Instant]) -> Self {
        let thread = |endpoints: Vec<EndpointId>| Thread { state: State::Asleep, endpoints, cursor: 0, todo: VecDeque::new(), batch: 0 };
        let all = (0..shape.endpoints() as u32).map(EndpointId);
        let server = if shape.threads { all.map(|e| thread(vec![e])).collect() } else { vec![thread(all.collect())] };
        let mut nodes = vec![Node { threads: server, ..Node::default() }];
        nodes.extend(starts.iter().map(|_| Node { threads: vec![thread(vec![EndpointId(0)])], ..Node::default() }));
        let agenda = (1..).zip(starts).map(|(node, at)| Reverse((at.0, node))).collect();
        Self { world, shape, nodes, agenda }
    }

    /// The NICs and the fabric.
    pub(super) fn world(&self) -> &EndpointWorld {
        &self.world
    }

    /// What each client has got since the last time that this was asked for. Requests without a
    /// reply count for the longest time.
    pub(super) fn take_figures(&mut self) -> Vec<Got> {
        let now = self.world.now();
        let figures = |node: &mut Node| {
            let mut got = core::mem::take(&mut node.got);
            got.longest = node.asked.values().map(|at| now.since(*at).0).fold(got.longest, u64::max);
            got
        };
        self.nodes[1..].iter_mut().map(figures).collect()
    }

    /// Goes on until then.
    pub(super) fn run(&mut self, until: Instant) -> Result<(), ScenarioError> {
        loop {
            let due = self.agenda.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
            if due <= self.world.now().0 {
                if let Some(Reverse((_, node))) = self.agenda.pop() {
                    self.finish(node);
                    self.schedule(node);
                }
                continue;
            }
            match self.world.step(Instant(due.min(until.0))) {
                Some(node) => self.look(node),
                None if due > until.0 => return Ok(()),
                None => {}
            }
        }
    }

    /// A NIC had a turn.
    fn look(&mut self, node: usize) {
        while let Some(notice) = self.world.nic_mut(node).poll_notice() {
            match notice {
                Notice::Arrived(endpoint) => self.wake(node, endpoint, State::Asleep),
                Notice::Resident(endpoint) => self.wake(node, endpoint, State::Suspended),
            }
        }
        while let Some((message, _)) = self.world.nic_mut(node).poll_failed() {
            self.world.with(node, |nic, now| nic.post(now, message));
        }
        self.schedule(node);
    }

    /// The thread of an endpoint can run, if that is what it waits for.
    fn wake(&mut self, node: usize, endpoint: EndpointId, from: State) {
        let place = if node == SERVER && self.shape.threads { endpoint.0 as usize } else { 0 };
        let thread = &mut self.nodes[node].threads[place];
        let waits = thread.state == from && (from == State::Asleep || thread.todo.front().is_some_and(|m| m.from.1 == endpoint));
        if waits {
            thread.state = State::Ready;
            self.nodes[node].ready.push_back(place);
        }
    }

    /// What the processor did is done.
    fn finish(&mut self, node: usize) {
        let current = self.nodes[node].current;
        match self.nodes[node].work.take() {
            Some(Work::Switch) => {}
            Some(Work::Take(message)) => {
                let answer = self.answer(node, &message);
                self.nodes[node].threads[current].todo.extend(answer);
            }
            Some(Work::Write(message)) => {
                let id = message.id;
                match self.world.with(node, |nic, now| nic.write(now, message)) {
                    Ok(()) if node != SERVER => drop(self.nodes[node].asked.insert(id, self.world.now())),
                    Ok(()) => {}
                    // It has gone meanwhile.
                    Err(message) => self.nodes[node].threads[current].todo.push_front(message),
                }
            }
            None => self.begin_client(node),
        }
    }

    fn begin_client(&mut self, node: usize) {
        for _ in 0..self.shape.outstanding {
            let request = self.request(node);
            self.nodes[node].threads[0].todo.push_back(request);
        }
        self.nodes[node].threads[0].state = State::Ready;
        self.nodes[node].ready.push_back(0);
    }

    fn request(&mut self, node: usize) -> Message {
        let client = &mut self.nodes[node];
        client.asked_total += 1;
        let endpoint = if self.shape.own_endpoint { node - 1 } else { 0 };
        let id = (node as u64) << 32 | client.asked_total;
        Message { id, from: (node as u32, EndpointId(0)), to: (SERVER as u32, EndpointId(endpoint as u32)), reply: false, payload: vec![0; self.shape.bytes] }
    }

    /// What a program writes after it has taken a message.
    fn answer(&mut self, node: usize, message: &Message) -> Option<Message> {
        if node == SERVER {
            return Some(Message { id: message.id, from: message.to, to: message.from, reply: true, payload: vec![0; 8] });
        }
        // A request that came back may have arrived all the same: its second reply is nobody's.
        let asked = self.nodes[node].asked.remove(&message.id)?;
        let time = self.world.now().since(asked).0;
        let got = &mut self.nodes[node].got;
        *got = Got { replies: got.replies + 1, time: got.time + time, longest: got.longest.max(time) };
        Some(self.request(node))
    }

    /// Gives an idle processor something to do, if there is anything.
    fn schedule(&mut self, node: usize) {
        while self.nodes[node].work.is_none() {
            let current = self.nodes[node].current;
            if self.nodes[node].threads[current].state != State::Running {
                let Some(next) = self.nodes[node].ready.pop_front() else { return };
                let waiting = self.inbox(node, next);
                let this = &mut self.nodes[node];
                (this.threads[next].state, this.threads[next].batch, this.current) = (State::Running, waiting, next);
                if next != current {
                    self.begin(node, Work::Switch, self.shape.costs.switch);
                    return;
                }
            }
            self.go_on(node);
        }
    }

    /// The running thread does its next thing, or stops running.
    fn go_on(&mut self, node: usize) {
        let current = self.nodes[node].current;
        if let Some(endpoint) = self.nodes[node].threads[current].todo.front().map(|m| m.from.1) {
            let now = self.world.now();
            if !self.world.nic_mut(node).is_writable(now, endpoint) {
                self.nodes[node].threads[current].state = State::Suspended;
                // It has been demanded.
                self.world.with(node, |_, _| ());
            } else if let Some(message) = self.nodes[node].threads[current].todo.pop_front() {
                self.begin(node, Work::Write(message), self.shape.costs.write);
            }
            return;
        }
        if self.nodes[node].threads[current].batch > 0
            && let Some(message) = self.take(node)
        {
            self.nodes[node].threads[current].batch -= 1;
            self.begin(node, Work::Take(message), self.shape.costs.take);
        } else if self.inbox(node, current) > 0 {
            self.nodes[node].threads[current].state = State::Ready;
            self.nodes[node].ready.push_back(current);
        } else {
            self.nodes[node].threads[current].state = State::Asleep;
        }
    }

    /// Messages for a thread.
    fn inbox(&self, node: usize, thread: usize) -> usize {
        self.nodes[node].threads[thread].endpoints.iter().map(|e| self.world.nic(node).inbox(*e)).sum()
    }

    /// The next message of the running thread, from one of its endpoints after the other.
    fn take(&mut self, node: usize) -> Option<Message> {
        let current = self.nodes[node].current;
        let thread = &mut self.nodes[node].threads[current];
        for _ in 0..thread.endpoints.len() {
            let endpoint = thread.endpoints[thread.cursor];
            thread.cursor = (thread.cursor + 1) % thread.endpoints.len();
            if let Some(message) = self.world.nic_mut(node).take(endpoint) {
                return Some(message);
            }
        }
        None
    }

    fn begin(&mut self, node: usize, work: Work, time: Duration) {
        self.nodes[node].work = Some(work);
        self.agenda.push(Reverse((self.world.now().0 + time.0, node)));
    }
}
