// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network, without topology, and its end-to-end flow control: return to sender.
//!
//! A sender keeps an outgoing buffer for each message until the receiver has taken it. A receiver
//! without a free buffer sends the message back, on a path that is always open, into the buffer
//! that the sender kept; the sender tries again later. So nothing is lost and nothing blocks the
//! network.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::engine::{Engine, Signal};
use crate::machine::Parameters;
use crate::node::Node;
use crate::node::cache::Block;
use crate::time::Time;

/// A message of the network: at most 256 bytes with its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The sending node.
    pub from: usize,
    /// The receiving node.
    pub to: usize,
    /// The handler that it is for.
    pub handler: u16,
    /// Which of the sender's messages it is a piece of.
    pub number: u32,
    /// Where the piece begins.
    pub offset: u32,
    /// Bytes of the whole.
    pub total: u32,
    /// The piece.
    pub payload: Rc<[u8]>,
    /// The first of its blocks in main memory, if the NI left it there and not in the processor's
    /// hands.
    pub lies: Option<Block>,
}

/// A message that goes to and fro between its sender and a receiver without a free buffer. Its
/// failing tries are not simulated one by one: when a buffer becomes free, the next try is
/// computed.
struct Refused {
    /// When it was at the receiver last.
    at: Time,
    message: Message,
}

/// One node's flow-control buffers.
pub struct Flow {
    node: usize,
    buffers: u64,
    out_free: Cell<u64>,
    in_free: Cell<u64>,
    /// Messages that have arrived, and when.
    arrived: RefCell<VecDeque<(Time, Message)>>,
    sent: Cell<u64>,
    taken: Cell<u64>,
    returned: Cell<u64>,
    refused: RefCell<Vec<Refused>>,
    freed: RefCell<Option<Box<dyn Fn()>>>,
    /// Given when a message arrives or an outgoing buffer becomes free.
    pub activity: Signal,
}

impl Flow {
    /// All buffers free.
    pub fn new(node: usize, buffers: Option<u32>) -> Self {
        let buffers = buffers.map_or(u64::MAX / 2, u64::from);
        Self {
            node,
            buffers,
            out_free: Cell::new(buffers),
            in_free: Cell::new(buffers),
            arrived: RefCell::default(),
            sent: Cell::default(),
            taken: Cell::default(),
            returned: Cell::default(),
            refused: RefCell::default(),
            freed: RefCell::default(),
            activity: Signal::default(),
        }
    }

    /// Whether there is room for a message to leave.
    pub fn has_room(&self) -> bool {
        self.out_free.get() > 0
    }

    /// Takes an outgoing buffer.
    pub fn reserve(&self) {
        assert!(self.has_room(), "node {}: a message leaves only into a free buffer", self.node);
        self.out_free.set(self.out_free.get() - 1);
    }

    /// Whether a message has arrived.
    pub fn has_arrived(&self) -> bool {
        !self.arrived.borrow().is_empty()
    }

    /// How many messages have arrived and not been taken.
    pub fn arrived(&self) -> usize {
        self.arrived.borrow().len()
    }

    /// The oldest arrived message, and what it carries, without taking it out of its buffer.
    pub fn peek<T>(&self, look: impl FnOnce(&Message) -> T) -> Option<T> {
        self.arrived.borrow().front().map(|(_, message)| look(message))
    }

    /// When the oldest arrived message did.
    pub fn arrived_at(&self) -> Time {
        self.arrived.borrow().front().map_or(Time::ZERO, |(at, _)| *at)
    }

    /// Takes the oldest arrived message; its buffer is free again.
    pub fn take(&self) -> Option<Message> {
        let (_, message) = self.arrived.borrow_mut().pop_front()?;
        self.in_free.set(self.in_free.get() + 1);
        assert!(self.in_free.get() <= self.buffers, "node {}: more buffers than there are", self.node);
        self.taken.set(self.taken.get() + 1);
        self.freed.borrow().iter().for_each(|tell| tell());
        Some(message)
    }

    /// Messages sent, taken in, and returned to this node.
    pub fn counts(&self) -> (u64, u64, u64) {
        (self.sent.get(), self.taken.get(), self.returned.get())
    }
}

/// The network.
pub struct Network {
    engine: Rc<Engine>,
    parameters: Rc<Parameters>,
    nodes: RefCell<Vec<Rc<Node>>>,
}

impl Network {
    /// A network without nodes.
    pub fn new(engine: Rc<Engine>, parameters: Rc<Parameters>) -> Rc<Self> {
        Rc::new(Self { engine, parameters, nodes: RefCell::default() })
    }

    /// Attaches the nodes, in order of their numbers.
    pub fn attach(self: &Rc<Self>, nodes: Vec<Rc<Node>>) {
        for node in &nodes {
            let (network, id) = (self.clone(), node.id);
            *node.flow.freed.borrow_mut() = Some(Box::new(move || network.retry(id)));
        }
        *self.nodes.borrow_mut() = nodes;
    }

    /// Lets go of the nodes: breaks the circles of references at the end of a simulation.
    pub fn detach(&self) {
        self.nodes.borrow().iter().for_each(|node| *node.flow.freed.borrow_mut() = None);
        self.nodes.borrow_mut().clear();
    }

    /// Conservation of messages and of flow-control buffers, once nothing is under way: each
    /// message that was sent was taken, waits in a buffer of its receiver, or was refused and is
    /// with its sender; each buffer is free or has such a message.
    ///
    /// # Panics
    /// If something was lost or doubled.
    pub fn check(&self) {
        let nodes = self.nodes.borrow();
        let (mut sent, mut found, mut with_sender) = (0, 0, vec![0; nodes.len()]);
        for node in nodes.iter() {
            let flow = &node.flow;
            let arrived = flow.arrived() as u64;
            assert_eq!(flow.in_free.get() + arrived, flow.buffers, "node {}: each incoming buffer is free or has a message", node.id);
            flow.refused.borrow().iter().for_each(|refused| with_sender[refused.message.from] += 1);
            sent += flow.sent.get();
            found += flow.taken.get() + arrived + flow.refused.borrow().len() as u64;
        }
        assert_eq!(sent, found, "messages sent, and messages taken or in a buffer");
        for (node, waiting) in nodes.iter().zip(with_sender) {
            assert_eq!(node.flow.out_free.get() + waiting, node.flow.buffers, "node {}: each outgoing buffer is free or has a refused message", node.id);
        }
    }

    fn node(&self, id: usize) -> Rc<Node> {
        self.nodes.borrow()[id].clone()
    }

    /// A message that has an outgoing buffer leaves it.
    pub fn launch(self: &Rc<Self>, message: Message) {
        let crossing = self.crossing(&message);
        self.pass(message, crossing);
    }

    /// From an outgoing buffer to the receiver: the NI's memory is read once, then the message
    /// streams out.
    fn crossing(&self, message: &Message) -> Time {
        self.node(message.from).ni_memory.get() + self.streaming(message) + self.parameters.network
    }

    /// A message that has an outgoing buffer is at the receiver in `crossing`.
    pub fn pass(self: &Rc<Self>, message: Message, crossing: Time) {
        let (network, flow) = (self.clone(), &self.node(message.from).flow);
        flow.sent.set(flow.sent.get() + 1);
        self.engine.at(self.engine.now() + crossing, move || network.arrive(message));
    }

    fn streaming(&self, message: &Message) -> Time {
        let bytes = message.payload.len() as u64 + self.parameters.header_bytes;
        Time(1_000 * bytes / self.parameters.costs.injection_bytes_per_ns)
    }

    /// From a try to the next: back to the sender and into the buffer that it kept, a pause, out
    /// again.
    fn period(&self, message: &Message) -> Time {
        let back = self.parameters.network + self.node(message.from).ni_memory.get();
        back + self.parameters.costs.retry + self.crossing(message)
    }

    /// A buffer of a receiver is free: of the messages that were refused, that whose next try comes
    /// first will have it, unless another comes before.
    fn retry(self: &Rc<Self>, receiver: usize) {
        let (receiver, now) = (self.node(receiver), self.engine.now());
        let mut refused = receiver.flow.refused.borrow_mut();
        let tries = |refused: &Refused| (now - refused.at).0.div_ceil(self.period(&refused.message).0).max(1);
        let next = |refused: &Refused| refused.at + self.period(&refused.message) * tries(refused);
        let Some(first) = (0..refused.len()).min_by_key(|&index| next(&refused[index])) else { return };
        let (at, vain) = (next(&refused[first]), tries(&refused[first]) - 1);
        let message = refused.remove(first).message;
        let sender = self.node(message.from);
        sender.flow.returned.set(sender.flow.returned.get() + vain);
        let network = self.clone();
        self.engine.at(at, move || network.arrive(message));
    }

    /// The first byte is at the receiver.
    fn arrive(self: &Rc<Self>, message: Message) {
        let (receiver, sender) = (self.node(message.to), self.node(message.from));
        let (network, now) = (self.clone(), self.engine.now());
        let latency = self.parameters.network;
        if receiver.flow.in_free.get() == 0 {
            sender.flow.returned.set(sender.flow.returned.get() + 1);
            receiver.flow.refused.borrow_mut().push(Refused { at: now, message });
            return;
        }
        receiver.flow.in_free.set(receiver.flow.in_free.get() - 1);
        self.engine.at(now + latency, move || {
            sender.flow.out_free.set(sender.flow.out_free.get() + 1);
            assert!(sender.flow.out_free.get() <= sender.flow.buffers, "node {}: more acknowledgements than messages", sender.id);
            sender.flow.activity.give(&network.engine);
        });
        let written = now + receiver.ni_memory.get();
        let engine = self.engine.clone();
        self.engine.at(written, move || {
            receiver.flow.arrived.borrow_mut().push_back((engine.now(), message));
            receiver.flow.activity.give(&engine);
        });
    }
}
