// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads, writes and atomics on memory of peers: messages that its owner carries out. Each write
//! and atomic is answered, so that its completion says that it is done.

use crate::atomics::{DataType, Form, Op};
use crate::completion::{Completion, Error, Notes};
use crate::connection::{Body, ConnectionId, Doing, Flow, Operation, OperationId, Order, Out, Stream, Then};
use crate::core::Core;
use crate::gather::Gather;
use crate::header::{DATA, EAGER_BYTES_MAX, Head, HeadBytes, Kind, LAST, REPLY};
use crate::send::copy_of;
use bellwire_via::Engine;
use bellwire_via::wire::Wire;

bitflags::bitflags! {
    /// How to reach remote memory.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RemoteFlags: u8 {
        /// Its success is not to be told.
        const SILENT = 1;
        /// The memory that is read is the program's again when the call returns.
        const INJECT = 2;
        /// Not before what was asked of that peer before is done.
        const FENCE = 4;
    }
}

/// Memory of a peer.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Whose.
    pub peer: u64,
    /// Where, as the peer's region counts.
    pub address: u64,
    /// Which region.
    pub key: u64,
}

/// A read or a write.
#[derive(Clone, Copy, Debug)]
pub struct RemoteRequest {
    /// The peer's memory.
    pub target: Target,
    /// Ours. Invariant G1: until it is complete (injected: until the call returns).
    pub local: Gather,
    /// Write, with data for a completion of the peer's.
    pub data: Option<u64>,
    /// The program's name for it.
    pub context: usize,
    /// How.
    pub flags: RemoteFlags,
}

/// An atomic.
#[derive(Clone, Copy, Debug)]
pub struct AtomicRequest {
    /// The peer's memory.
    pub target: Target,
    /// Values of what type.
    pub data_type: DataType,
    /// What to do.
    pub op: Op,
    /// Whether the values before come back, and whether there is something to compare with.
    pub form: Form,
    /// How many values.
    pub count: usize,
    /// Operands; empty for a plain read. G1.
    pub operands: Gather,
    /// What to compare with; empty unless compared. G1.
    pub compare: Gather,
    /// Where the values before go; empty unless fetched. G1.
    pub result: Gather,
    /// The program's name for it.
    pub context: usize,
    /// How.
    pub flags: RemoteFlags,
}

impl Core {
    /// Where a request goes, on which another one fits.
    fn way_to<W: Wire>(&mut self, engine: &mut Engine<W>, peer: u64) -> Result<ConnectionId, Error> {
        let id = self.connection_to(engine, peer)?;
        self.make_room(engine, id)?;
        Ok(id)
    }

    /// Writes.
    pub(crate) fn write<W: Wire>(&mut self, engine: &mut Engine<W>, r: &RemoteRequest) -> Result<(), Error> {
        let id = self.way_to(engine, r.target.peer)?;
        let (length, fence) = (r.local.len(), r.flags.contains(RemoteFlags::FENCE));
        let is_injected = r.flags.contains(RemoteFlags::INJECT);
        let completion = Completion::new(r.context, Notes::REMOTE_MEMORY | Notes::WRITE, r.flags.contains(RemoteFlags::SILENT));
        if length > EAGER_BYTES_MAX {
            if is_injected {
                return Err(Error::TooLong);
            }
            let own = self.begin(Operation::new(Doing::Streaming, id, r.local, completion))?;
            let flow = Flow::Write { from: r.local, key: r.target.key, address: r.target.address, data: r.data };
            let stream = Box::new(Stream { flow, own: Some(own), at: 0, end: length });
            let head = Head::new(Kind::Credit, 0, [0; 4]).store(0);
            self.queue(engine, id, Out { head, body: Body::Stream(stream), then: Then::Await, order: Order::fenced_if(fence) });
            return Ok(());
        }
        let (held, body) = if is_injected { (Gather::NONE, Body::Owned(copy_of(&r.local))) } else { (r.local, Body::Memory(r.local, 0, length)) };
        let own = self.begin(Operation::new(Doing::Awaiting, id, held, completion))?;
        let flags = LAST | REPLY | if r.data.is_some() { DATA } else { 0 };
        let mut head = Head::new(Kind::Write, flags, [r.target.address, r.target.key, u64::from(own.raw()), 0]);
        head.data = r.data.unwrap_or(0);
        self.queue(engine, id, Out { head: head.store(length), body, then: Then::Await, order: Order::fenced_if(fence) });
        Ok(())
    }

    /// Reads.
    pub(crate) fn read<W: Wire>(&mut self, engine: &mut Engine<W>, r: &RemoteRequest) -> Result<(), Error> {
        let id = self.way_to(engine, r.target.peer)?;
        let completion = Completion::new(r.context, Notes::REMOTE_MEMORY | Notes::READ, r.flags.contains(RemoteFlags::SILENT));
        let own = self.begin(Operation::new(Doing::Fetching, id, r.local, completion))?;
        let head = Head::new(Kind::Read, 0, [r.target.address, r.target.key, u64::from(own.raw()), r.local.len() as u64]);
        self.request(engine, id, head.store(0), Body::Nothing, r.flags);
        Ok(())
    }

    fn request<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, head: HeadBytes, body: Body, flags: RemoteFlags) {
        self.queue(engine, id, Out { head, body, then: Then::Await, order: Order::fenced_if(flags.contains(RemoteFlags::FENCE)) });
    }

    /// Does an atomic.
    pub(crate) fn atomic<W: Wire>(&mut self, engine: &mut Engine<W>, a: &AtomicRequest) -> Result<(), Error> {
        let bytes = a.count.checked_mul(a.data_type.bytes()).ok_or(Error::BadArgument)?;
        let expected = |gather: &Gather, wanted: bool| gather.len() == if wanted { bytes } else { 0 };
        if !a.op.allows(a.data_type, a.form) || bytes == 0 {
            return Err(Error::BadArgument);
        }
        if a.operands.len() + a.compare.len() > EAGER_BYTES_MAX || bytes > EAGER_BYTES_MAX {
            return Err(Error::TooLong);
        }
        if !expected(&a.operands, a.op != Op::Read) || !expected(&a.compare, a.form == Form::Compare) || !expected(&a.result, a.form != Form::Plain) {
            return Err(Error::BadArgument);
        }
        let id = self.way_to(engine, a.target.peer)?;
        let notes = Notes::ATOMIC | if a.form == Form::Plain { Notes::WRITE } else { Notes::READ };
        let completion = Completion::new(a.context, notes, a.flags.contains(RemoteFlags::SILENT));
        let doing = if a.form == Form::Plain { Doing::Awaiting } else { Doing::Fetching };
        let own: OperationId = self.begin(Operation::new(doing, id, a.result, completion))?;
        let what = u64::from(own.raw()) | (a.data_type as u64) << 32 | (a.op as u64) << 40 | (a.form as u64) << 48;
        let mut operands = vec![0; a.operands.len() + a.compare.len()];
        // SAFETY: G1; the vector has room for both.
        unsafe {
            a.operands.read(0, operands.as_mut_ptr(), a.operands.len());
            a.compare.read(0, operands.as_mut_ptr().add(a.operands.len()), a.compare.len());
        }
        let head = Head::new(Kind::Atomic, 0, [a.target.address, a.target.key, what, a.count as u64]).store(operands.len());
        self.request(engine, id, head, Body::Owned(operands.into()), a.flags);
        Ok(())
    }
}
