// SPDX-License-Identifier: MIT OR Apache-2.0
//! A VI of a MAP object with its memory, a record for each request that is out, and one of two ways
//! to carry messages: by send and receive in buffers (`buffers.rs`), or by RDMA write into a ring
//! that the sender manages (`written.rs`).
//!
//! L3 is that of `carrying.rs`.

use crate::buffers::Buffers;
use crate::carrying::{Data, Slot, Taken, Target, Write};
use crate::head::Head;
use crate::mapping::Shape;
use crate::probe::{Probe, Stage};
use crate::queues::Queues;
use crate::record::Record;
use crate::shared::Shared;
use crate::vi::{Memory, Vi};
use crate::vipl::Handle;
use crate::written::Written;
use bellwire_am::Error;
use std::sync::Arc;

enum Way {
    Buffers(Buffers),
    Written(Written),
}

/// A VI.
pub(crate) struct Lane {
    pub vi: Vi,
    way: Way,
    /// Bytes of the longest message.
    pub bytes: usize,
    /// Requests that are out, by slot.
    pub records: Vec<Option<Record>>,
    free_slots: Vec<u16>,
    /// Requests out, and how many may be.
    pub out: u32,
    pub window: u32,
}

impl Lane {
    /// A VI with all its receives posted, to be connected.
    pub(crate) fn new(shared: &Arc<Shared>, queues: &Arc<Queues>, ptag: Handle, shape: Shape) -> Result<Self, Error> {
        let (vi, way) = if shape.longest == 0 {
            Buffers::new(shared, queues, ptag, shape).map(|(vi, way)| (vi, Way::Buffers(way)))?
        } else {
            Written::new(shared, queues, ptag, shape).map(|(vi, way)| (vi, Way::Written(way)))?
        };
        Ok(Self {
            vi,
            way,
            bytes: shape.bytes,
            records: (0..shape.credits).map(|_| None).collect(),
            free_slots: (0..shape.credits as u16).rev().collect(),
            out: 0,
            window: 0,
        })
    }

    /// The VI is connected.
    pub(crate) fn opened(&mut self) {
        if let Way::Written(way) = &mut self.way {
            way.greet(&mut self.vi);
        }
    }

    /// The next thing that has come.
    #[inline]
    pub(crate) fn take<P: Probe<Stage>>(&mut self) -> Taken {
        match &mut self.way {
            Way::Buffers(way) => way.take::<P>(&self.vi),
            Way::Written(way) => way.take(&mut self.vi),
        }
    }

    /// The memory that keeps a message which has come.
    #[inline]
    pub(crate) fn keeper(&self) -> Arc<Memory> {
        Arc::clone(match &self.way {
            Way::Buffers(way) => way.keeper(&self.vi),
            Way::Written(way) => way.keeper(),
        })
    }

    /// A message is no longer read: another one may take its place.
    #[inline]
    pub(crate) fn recycle<P: Probe<Stage>>(&mut self, receive: usize) {
        match &mut self.way {
            Way::Buffers(way) => way.recycle::<P>(&self.vi, receive),
            Way::Written(way) => way.recycle(&mut self.vi, receive),
        }
    }

    /// A slot for a request of so many bytes, if there is a credit and room.
    #[inline]
    pub(crate) fn take_slot(&mut self, bytes: usize) -> Slot {
        if self.out >= self.window {
            return Slot::None;
        }
        let Some(slot) = self.free_slots.last().copied() else { return Slot::None };
        let room = match &self.way {
            Way::Buffers(way) => way.room_for_request(slot),
            Way::Written(way) => way.room(bytes),
        };
        if let Slot::Free(_) = room {
            self.free_slots.pop();
            self.out += 1;
            return Slot::Free(slot);
        }
        room
    }

    /// A request is over.
    pub(crate) fn give_slot(&mut self, slot: u16) {
        self.out -= 1;
        self.free_slots.push(slot);
    }

    /// What an answer of so many bytes leaves in, if that is known to be free.
    #[inline]
    pub(crate) fn take_answer(&mut self, bytes: usize) -> Option<u16> {
        match &mut self.way {
            Way::Buffers(way) => way.take_answer(),
            Way::Written(way) => matches!(way.room(bytes), Slot::Free(_)).then_some(0),
        }
    }

    /// Posts a message.
    ///
    /// # Safety
    /// `payload` is readable, and there is room for the message.
    #[inline]
    pub(crate) unsafe fn post<P: Probe<Stage>>(&mut self, buffer: u16, head: &Head, payload: Data) {
        match &mut self.way {
            // SAFETY: the caller's promise.
            Way::Buffers(way) => unsafe { way.post::<P>(&mut self.vi, buffer, head, payload) },
            // SAFETY: the caller's promise.
            Way::Written(way) => unsafe { way.post(&mut self.vi, head, payload) },
        }
    }

    /// Posts a write, to be followed by the message in the same buffer.
    ///
    /// # Safety
    /// L3: the bytes at `from`, of the region `handle`, stay until the write has completed.
    pub(crate) unsafe fn post_write(&mut self, buffer: u16, from: (u64, u32), to: Target, write: Write) {
        match &mut self.way {
            // SAFETY: the caller's promise.
            Way::Buffers(way) => unsafe { way.post_write(&mut self.vi, buffer, from, to, write) },
            // SAFETY: the caller's promise.
            Way::Written(way) => unsafe { way.post_write(&mut self.vi, from, to, write) },
        }
    }

    /// Takes one completed send off the VI's queue.
    #[inline]
    pub(crate) fn retire_one<P: Probe<Stage>>(&mut self) -> bool {
        let Some(at) = self.vi.take_send::<P>() else { return false };
        let write = match &mut self.way {
            Way::Buffers(way) => way.retired(at),
            Way::Written(way) => way.retired(&mut self.vi, at),
        };
        if let Some(write) = write {
            finish_write(&self.vi.shared, &write);
        }
        P::mark(Stage::SendRecycled);
        true
    }
}

fn finish_write(shared: &Shared, write: &Write) {
    if let Some((address, handle)) = write.cached {
        shared.nic.release_cached(address, handle);
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // L3: nothing of it is used any more after this.
        self.vi.end();
        let shared = Arc::clone(&self.vi.shared);
        match &mut self.way {
            Way::Buffers(way) => way.writes().for_each(|write| finish_write(&shared, &write)),
            Way::Written(way) => way.writes().for_each(|write| finish_write(&shared, &write)),
        }
    }
}
