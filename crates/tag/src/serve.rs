// SPDX-License-Identifier: MIT OR Apache-2.0
//! What peers ask of our memory: writes, reads and atomics on regions, checked and carried out
//! under the lock of the regions.

use crate::arithmetic::carry_out;
use crate::arrive::Arrived;
use crate::atomics::{DataType, Form, Op};
use crate::completion::{Completion, Failure, NOBODY, Notes};
use crate::connection::{Body, ConnectionId, Flow, Order, Out, Stream, Then};
use crate::core::Core;
use crate::ends::Counted;
use crate::header::{DATA, EAGER_BYTES_MAX, Head, Kind, LAST};
use crate::regions::Access;
use bellwire_memory::bytes;
use bellwire_via::Engine;
use bellwire_via::wire::Wire;

impl Core {
    /// A write, or a part of one.
    pub(crate) fn write_arrived<W: Wire>(&mut self, engine: &mut Engine<W>, a: &Arrived<'_>) -> bool {
        let [address, key, operation, _] = a.head.fixed;
        let Ok(operation) = u32::try_from(operation) else { return false };
        let is_last = a.head.flags & LAST != 0;
        let is_permitted = {
            let regions = self.regions.lock();
            let found = regions.find(key, address, a.payload.1, Access::WRITE);
            if let Some(found) = &found {
                // SAFETY: R1, and the regions' lock is held; the payload is readable.
                unsafe { bytes::copy(found.at, a.payload.0, a.payload.1) };
                if is_last {
                    found.touched(Access::WRITE);
                }
            }
            found.is_some()
        };
        if !is_permitted {
            self.answer(engine, a.from, operation, Some(Failure::RemoteAccess));
            return true;
        }
        if is_last {
            self.ends.touched(Counted::RemoteWrite);
            if a.head.flags & DATA != 0 {
                self.tell_of_write(a);
            }
            self.answer(engine, a.from, operation, None);
        }
        true
    }

    /// The program hears of data that came with a write.
    fn tell_of_write(&mut self, a: &Arrived<'_>) {
        let source = self.connections.get(a.from).map_or(NOBODY, |c| self.address_of(c.source));
        let notes = Notes::REMOTE_MEMORY | Notes::REMOTE_WRITE | Notes::DATA;
        self.ends.end(&Completion { data: a.head.data, source, length: a.payload.1, ..Completion::new(0, notes, false) });
    }

    /// A read.
    pub(crate) fn read_arrived<W: Wire>(&mut self, engine: &mut Engine<W>, a: &Arrived<'_>) -> bool {
        let [address, key, operation, length] = a.head.fixed;
        let (Ok(operation), Ok(length)) = (u32::try_from(operation), usize::try_from(length)) else { return false };
        // Short ones are read now: so what comes behind does not change what they give.
        let mut short = if length <= EAGER_BYTES_MAX { vec![0; length].into_boxed_slice() } else { Box::default() };
        let is_permitted = {
            let regions = self.regions.lock();
            let found = regions.find(key, address, length, Access::READ);
            if let Some(found) = &found {
                // SAFETY: R1, and the regions' lock is held; there is room.
                unsafe { bytes::copy(short.as_mut_ptr(), found.at, short.len()) };
                found.touched(Access::READ);
            }
            found.is_some()
        };
        if !is_permitted {
            self.answer(engine, a.from, operation, Some(Failure::RemoteAccess));
            return true;
        }
        self.ends.touched(Counted::RemoteRead);
        if length == 0 {
            self.answer(engine, a.from, operation, None);
            return true;
        }
        if !short.is_empty() {
            self.give_bytes(engine, a.from, operation, short);
            return true;
        }
        let stream = Box::new(Stream { flow: Flow::Region { to: operation, key, address }, own: None, at: 0, end: length });
        let head = Head::new(Kind::Credit, 0, [0; 4]).store(0);
        self.queue(engine, a.from, Out { head, body: Body::Stream(stream), then: Then::Nothing, order: Order::Answer });
        true
    }

    /// An atomic.
    pub(crate) fn atomic_arrived<W: Wire>(&mut self, engine: &mut Engine<W>, a: &Arrived<'_>) -> bool {
        let [address, key, what, count] = a.head.fixed;
        let operation = what as u32;
        let parsed = DataType::from_bits((what >> 32) as u8).zip(Op::from_bits((what >> 40) as u8)).zip(Form::from_bits((what >> 48) as u8));
        let Some(((of, op), form)) = parsed else {
            self.answer(engine, a.from, operation, Some(Failure::Unsupported));
            return true;
        };
        let bytes = usize::try_from(count).ok().and_then(|n| n.checked_mul(of.bytes())).filter(|n| *n != 0 && *n <= EAGER_BYTES_MAX);
        let Some(n) = bytes else { return false };
        let (has_operands, has_compare) = (op != Op::Read, form == Form::Compare);
        if !op.allows(of, form) || a.payload.1 != n * (usize::from(has_operands) + usize::from(has_compare)) {
            return false;
        }
        let mut operands = vec![0u8; a.payload.1];
        // SAFETY: the payload is readable; there is room.
        unsafe { bytes::copy(operands.as_mut_ptr(), a.payload.0, operands.len()) };
        let (operands, compare) = operands.split_at(if has_operands { n } else { 0 });
        let Some(before) = self.change_cells(key, address, (of, op, form), n, (operands, compare)) else {
            self.answer(engine, a.from, operation, Some(Failure::RemoteAccess));
            return true;
        };
        self.ends.touched(if form == Form::Plain { Counted::RemoteWrite } else { Counted::RemoteRead });
        if form == Form::Plain {
            self.answer(engine, a.from, operation, None);
        } else {
            self.give_bytes(engine, a.from, operation, before);
        }
        true
    }

    /// Answers a request with all the bytes that it asked for.
    fn give_bytes<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, operation: u32, bytes: Box<[u8]>) {
        let head = Head::new(Kind::Data, 0, [u64::from(operation), 0, 0, 0]).store(bytes.len());
        self.queue(engine, id, Out { head, body: Body::Owned(bytes), then: Then::Nothing, order: Order::Answer });
    }

    /// Carries an atomic out on `n` bytes of a region; what they were.
    fn change_cells(&mut self, key: u64, address: u64, what: (DataType, Op, Form), n: usize, with: (&[u8], &[u8])) -> Option<Box<[u8]>> {
        let (of, op, form) = what;
        let mut needed = if op == Op::Read { Access::READ } else { Access::WRITE };
        if form != Form::Plain {
            needed |= Access::READ;
        }
        let regions = self.regions.lock();
        let found = regions.find(key, address, n, needed)?;
        let at = found.at;
        let mut cells = vec![0u8; n];
        // SAFETY: R1, and the regions' lock is held.
        unsafe { bytes::copy(cells.as_mut_ptr(), at, n) };
        let before = cells.clone();
        carry_out(of, op, &mut cells, with.0, with.1);
        if op != Op::Read {
            // SAFETY: R1, and the regions' lock is held.
            unsafe { bytes::copy(at, cells.as_ptr(), n) };
        }
        found.touched(if form == Form::Plain { Access::WRITE } else { Access::READ });
        Some(before.into())
    }
}
