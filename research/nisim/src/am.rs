// SPDX-License-Identifier: MIT OR Apache-2.0
//! Active messages: the messaging layer that programs use.
//!
//! A message names a handler of the receiving node and carries bytes. Messages beyond what the
//! network carries go in pieces, and the handler runs when all have arrived. Handlers run only
//! inside [`Am::poll`], [`Am::wait`], [`Am::breathe`] and a program's send where the look for room
//! shows for nothing that a message waits, one after the other. A send that finds no room takes in
//! what has arrived until there is, so that two nodes that send to each other do not wait for each
//! other; the handlers of what it took run at the next poll.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use crate::network::Message;
use crate::ni::{NetworkInterface, Work};
use crate::node::cache::Block;
use crate::node::cpu::Cpu;
use crate::time::Time;

/// A handler: the layer, the sender, the payload.
pub type Handler = Rc<dyn Fn(Am, usize, Rc<[u8]>) -> Work<'static, ()>>;

/// The messaging layer of a node. Clones are the same layer.
#[derive(Clone)]
pub struct Am(Rc<Layer>);

struct Layer {
    cpu: Cpu,
    ni: Rc<dyn NetworkInterface>,
    handlers: RefCell<BTreeMap<u16, Handler>>,
    aside: RefCell<VecDeque<Message>>,
    partial: RefCell<BTreeMap<(usize, u32), Partial>>,
    /// Where the message whose handler runs lies in main memory, if it does: first blocks, and how
    /// many.
    lies: RefCell<Vec<(Block, u64)>>,
    numbers: Cell<u32>,
    in_handler: Cell<bool>,
    /// When the last look for a message was.
    looked: Cell<Time>,
    /// Messages sent, by their size.
    sizes: RefCell<Vec<u64>>,
}

#[derive(Default)]
struct Partial {
    bytes: Vec<u8>,
    here: usize,
    lies: Vec<(Block, u64)>,
}

impl Layer {
    fn count(&self, size: usize) {
        let mut sizes = self.sizes.borrow_mut();
        if sizes.len() <= size {
            sizes.resize(size + 1, 0);
        }
        sizes[size] += 1;
    }
}

impl Am {
    /// A layer without handlers.
    pub fn new(cpu: Cpu, ni: Rc<dyn NetworkInterface>) -> Self {
        Self(Rc::new(Layer {
            cpu,
            ni,
            handlers: RefCell::default(),
            aside: RefCell::default(),
            partial: RefCell::default(),
            lies: RefCell::default(),
            numbers: Cell::default(),
            in_handler: Cell::default(),
            looked: Cell::default(),
            sizes: RefCell::default(),
        }))
    }

    /// The processor.
    pub fn cpu(&self) -> &Cpu {
        &self.0.cpu
    }

    /// Sets the handler of a number.
    pub fn on<F, R>(&self, handler: u16, run: F)
    where
        F: Fn(Am, usize, Rc<[u8]>) -> R + 'static,
        R: Future<Output = ()> + 'static,
    {
        self.0.handlers.borrow_mut().insert(handler, Rc::new(move |am, from, payload| Box::pin(run(am, from, payload))));
    }

    /// Sends `payload` to handler `handler` of node `to` (another node); returns when the processor
    /// may go on.
    pub async fn send(&self, to: usize, handler: u16, payload: &[u8]) {
        let Layer { cpu, numbers, .. } = &*self.0;
        assert!(to != cpu.node() && to < cpu.nodes(), "node {} sends to node {to}", cpu.node());
        let (parameters, number) = (&cpu.0.parameters, numbers.get());
        numbers.set(number.wrapping_add(1));
        self.0.count(payload.len() + parameters.header_bytes as usize);
        let mut offset = 0;
        loop {
            let piece = &payload[offset..payload.len().min(offset + parameters.payload_max())];
            let (at, total) = (offset as u32, payload.len() as u32);
            self.send_piece(Message { from: cpu.node(), to, handler, number, offset: at, total, payload: piece.into(), lies: None }).await;
            offset += piece.len();
            if offset == payload.len() {
                return;
            }
        }
    }

    async fn send_piece(&self, mut message: Message) {
        let Layer { cpu, ni, aside, in_handler, .. } = &*self.0;
        cpu.compute(cpu.0.parameters.costs.send_cycles);
        // One look at the status shows room and messages. A handler's send does not let another
        // handler run.
        if let Some(fifo) = ni.fifo().filter(|_| !in_handler.get()) {
            cpu.sync().await;
            if fifo.has_arrived() {
                Box::pin(self.look()).await;
            }
        }
        loop {
            match ni.send(cpu, message).await {
                Ok(()) => return,
                Err(back) => message = back,
            }
            cpu.compute(cpu.0.parameters.costs.poll_cycles);
            if let Some(arrived) = ni.receive(cpu).await {
                // Into a queue in memory: the handler's message is copied once more, out of it,
                // later.
                aside.borrow_mut().push_back(arrived);
            }
        }
    }

    /// Takes messages as long as there are any; whether there was one. The last look, which finds
    /// nothing, is what an uncached status costs a round trip more than a stream, in which it finds
    /// the next message.
    pub async fn poll(&self) -> bool {
        let mut any = false;
        while self.look().await {
            any = true;
        }
        any
    }

    /// What a loop of a program does whose node may be asked for something at any time: polls if
    /// the last look was long ago.
    pub async fn breathe(&self) {
        if self.is_due() {
            self.poll().await;
        }
    }

    /// Whether the last look was long ago.
    pub fn is_due(&self) -> bool {
        let Layer { cpu, looked, .. } = &*self.0;
        cpu.now() - looked.get() >= cpu.0.parameters.cycle * cpu.0.parameters.costs.poll_interval
    }

    /// Looks for a message once; whether there was one. If it was the last of its pieces, its
    /// handler has run.
    async fn look(&self) -> bool {
        let Layer { cpu, ni, aside, in_handler, looked, .. } = &*self.0;
        let costs = &cpu.0.parameters.costs;
        cpu.compute(costs.poll_cycles);
        looked.set(cpu.now());
        let waiting = aside.borrow_mut().pop_front();
        let message = match waiting {
            Some(message) => {
                cpu.compute(costs.copy_cycles * message.payload.len().div_ceil(8) as u64);
                message
            }
            None => match ni.receive(cpu).await {
                Some(message) => message,
                None => return false,
            },
        };
        cpu.compute(costs.receive_cycles);
        let (from, handler) = (message.from, message.handler);
        if let Some(payload) = self.whole(message) {
            let run = self.0.handlers.borrow().get(&handler).cloned();
            let run = run.unwrap_or_else(|| panic!("node {} has no handler {handler}", cpu.node()));
            in_handler.set(true);
            run(self.clone(), from, payload).await;
            in_handler.set(false);
        }
        true
    }

    /// Polls until `done` says so.
    pub async fn wait(&self, done: impl Fn() -> bool) {
        let Layer { cpu, ni, .. } = &*self.0;
        while !done() {
            cpu.sync().await;
            let (seen, start) = (ni.activity().count(), cpu.now());
            if self.poll().await {
                continue;
            }
            // Looks that find nothing, one after the other: until something happens, they change
            // nothing, and only their rhythm matters.
            let period = cpu.now() - start;
            cpu.sync().await;
            ni.activity().past(&cpu.0.engine, seen).await;
            let idle = (cpu.now() - start).align(period);
            cpu.0.engine.sleep_until(start + idle).await;
        }
    }

    /// What a handler does that uses what its message carries: an NI may have left it in main
    /// memory, from where the processor has to fetch it.
    pub async fn fetch_payload(&self) {
        let cpu = &self.0.cpu;
        for (first, blocks) in self.0.lies.take() {
            for index in 0..blocks {
                cpu.load((first.0 + index) * cpu.0.parameters.block_bytes).await;
            }
        }
    }

    /// Messages sent, by size with header in bytes, as in the paper's Table 4.
    pub fn sizes(&self) -> BTreeMap<u64, u64> {
        let sizes = self.0.sizes.borrow();
        (0..).zip(sizes.iter().copied()).filter(|(_, count)| *count > 0).collect()
    }

    /// Forgets the handlers, which refer to the layer.
    pub(crate) fn clear(&self) {
        self.0.handlers.borrow_mut().clear();
    }

    fn whole(&self, message: Message) -> Option<Rc<[u8]>> {
        let lies = message.lies.map(|first| (first, self.0.cpu.0.parameters.blocks(message.payload.len())));
        if message.payload.len() == message.total as usize {
            *self.0.lies.borrow_mut() = lies.into_iter().collect();
            return Some(message.payload);
        }
        let mut partial = self.0.partial.borrow_mut();
        let key = (message.from, message.number);
        let entry = partial.entry(key).or_default();
        entry.bytes.resize(message.total as usize, 0);
        entry.bytes[message.offset as usize..][..message.payload.len()].copy_from_slice(&message.payload);
        entry.here += message.payload.len();
        entry.lies.extend(lies);
        if entry.here < message.total as usize {
            return None;
        }
        let whole = partial.remove(&key)?;
        *self.0.lies.borrow_mut() = whole.lies;
        Some(whole.bytes.into())
    }
}
