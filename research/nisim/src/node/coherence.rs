// SPDX-License-Identifier: MIT OR Apache-2.0
//! Coherent transactions: MOESI by snooping. States change when a transaction is requested, in the
//! order of requests, which is the order of the bus.

use super::cache::{Block, State};
use super::{Node, QUEUES};
use crate::time::Time;

/// The caches on a node's bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// The processor.
    Processor = 0,
    /// The NI, for what it sends.
    NiSend = 1,
    /// The NI, for what it receives.
    NiReceive = 2,
}

/// Coherent transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A copy, to read.
    Read,
    /// The content and the right to write.
    ReadExclusive,
    /// The right to write what is there already.
    Upgrade,
    /// The content, of which no copy is kept; to the others a read like any other.
    ReadOnce,
    /// A whole block into its home; all copies are void.
    WriteInvalidate,
    /// A whole block from an agent of the NI into the processor's cache; all other copies are void.
    Inject,
}

impl Node {
    /// Does a transaction that an agent of the NI asks for now: when it has ended. A caller that
    /// needs the result sleeps until then.
    pub fn coherent(&self, agent: Agent, operation: Operation, block: Block) -> Time {
        assert!(self.shares_bus.get() || self.ahead.get() == Time::ZERO, "a processor runs ahead on a bus that the NI uses");
        self.coherent_at(self.engine.now(), agent, operation, block)
    }

    /// The same of any agent; a processor alone on its bus may be ahead of virtual time.
    pub(super) fn coherent_at(&self, now: Time, agent: Agent, operation: Operation, block: Block) -> Time {
        let address_end = self.bus.request(now);
        let snooped = self.bus.snooped(address_end);
        let bytes = self.parameters.block_bytes;
        let supplier = self.snoop(agent, operation, block);
        self.watch(operation, agent, block, snooped);
        let done = match operation {
            Operation::Upgrade => snooped,
            Operation::Inject => self.bus.transfer(now, snooped, bytes),
            Operation::WriteInvalidate => {
                let there = self.bus.transfer(now, snooped, bytes);
                self.home_write(block, there);
                there
            }
            Operation::Read | Operation::ReadExclusive | Operation::ReadOnce => {
                let ready = match supplier {
                    Some((supplier, ready)) => self.cache_ready(supplier, snooped.max(ready)),
                    None => self.home_access(block, address_end),
                };
                self.bus.count(|traffic| match supplier {
                    Some(_) => traffic.cache_to_cache += 1,
                    None => {
                        let of_processor = agent == Agent::Processor && !self.is_ni_home(block);
                        traffic.memory_to_cache += u64::from(of_processor);
                        traffic.queue_to_cache += u64::from(of_processor && block.0 >= QUEUES);
                    }
                });
                self.bus.transfer(now, ready, bytes)
            }
        };
        self.settle(now, agent, operation, block, done);
        done
    }

    /// What the other caches make of a transaction; who supplies the content, and from when on it
    /// has it.
    fn snoop(&self, agent: Agent, operation: Operation, block: Block) -> Option<(Agent, Time)> {
        let mut supplier = None;
        for other in [Agent::Processor, Agent::NiSend, Agent::NiReceive].into_iter().filter(|&other| other != agent) {
            let Some(cache) = self.cache(other) else { continue };
            let Some(state) = cache.state(block) else { continue };
            if state.supplies() {
                assert!(supplier.is_none(), "one cache answers for a block");
                supplier = Some((other, cache.ready(block)));
            }
            match operation {
                Operation::Read | Operation::ReadOnce => cache.change(block, if state.dirty() { State::Owned } else { State::Shared }),
                Operation::ReadExclusive | Operation::Upgrade | Operation::WriteInvalidate | Operation::Inject => cache.take(block),
            }
        }
        supplier
    }

    /// What the asking cache makes of its transaction.
    fn settle(&self, now: Time, agent: Agent, operation: Operation, block: Block, done: Time) {
        let holder = if operation == Operation::Inject { Agent::Processor } else { agent };
        let state = match operation {
            Operation::ReadExclusive | Operation::Upgrade | Operation::Inject => State::Modified,
            Operation::Read if self.has_other(agent, block) => State::Shared,
            Operation::Read => State::Exclusive,
            Operation::ReadOnce => return,
            Operation::WriteInvalidate => return self.forget(agent, block),
        };
        debug_assert!(state != State::Modified || !self.has_other(holder, block), "who may write a block has the only copy");
        let victim = self.cache(holder).and_then(|cache| cache.put(block, state, done));
        if let Some((victim, _)) = victim.filter(|(_, state)| state.dirty()) {
            self.write_back(now, victim);
        }
    }

    fn has_other(&self, agent: Agent, block: Block) -> bool {
        let others = self.caches.iter().enumerate().filter(|(index, _)| *index != agent as usize);
        others.filter_map(|(_, cache)| cache.get()).any(|cache| cache.state(block).is_some())
    }

    /// A dirty block goes home; nobody waits for it.
    fn write_back(&self, now: Time, block: Block) {
        let snooped = self.bus.snooped(self.bus.request(now));
        let there = self.bus.transfer(now, snooped, self.parameters.block_bytes);
        self.home_write(block, there);
    }

    fn home_write(&self, block: Block, at: Time) {
        if self.is_ni_home(block) {
            self.ni_port.write(at, self.ni_memory.get());
        } else {
            self.bank(block).write(at, self.parameters.memory);
        }
    }

    fn home_access(&self, block: Block, at: Time) -> Time {
        if self.is_ni_home(block) { self.ni_port.access(at, self.ni_memory.get()) } else { self.bank(block).access(at, self.parameters.memory) }
    }

    fn cache_ready(&self, supplier: Agent, at: Time) -> Time {
        match supplier {
            Agent::Processor => at + self.parameters.costs.cache_supply,
            Agent::NiSend | Agent::NiReceive => self.ni_port.access(at, self.ni_memory.get()),
        }
    }
}
