// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets by send and receive on a VI, each in registered memory of the library's.

use std::slice;

use bellwire_vipl_calls::{CONTROL_SEND, Descriptor};

use super::Wait;
use super::packets::{Carrier, PACKET_BYTES, WINDOW};
use super::port::{Arena, Port};
use crate::crowd::Crowd;
use crate::error::Error;
use crate::job::{Request, Setup};

/// Slots for what is sent.
const SENDS: usize = 2 * WINDOW as usize;
/// Receives: data packets of a window, and what acknowledges ours.
const RECEIVES: usize = 4 * WINDOW as usize;
const SLOTS: usize = SENDS + RECEIVES;
/// Bytes of a slot: a descriptor and a packet.
const SLOT_BYTES: usize = (size_of::<Descriptor>() + PACKET_BYTES).next_multiple_of(64);

/// See the module. Slots from `SENDS` on are receives.
pub struct OnVi {
    port: Port,
    arena: Arena,
    free: Vec<usize>,
    /// Whether a slot is on its way, and whether it is given back when it has left.
    posted: [bool; SENDS],
    given_up: [bool; SENDS],
}

impl OnVi {
    /// Connected with the other process.
    ///
    /// # Errors
    /// The library fails, or the other process does not come.
    pub fn open(setup: &Setup, request: &Request, crowd: &mut Crowd<'_>, wait: Wait) -> Result<Self, Error> {
        let port = Port::open(setup, wait)?;
        let arena = port.arena(SLOTS * SLOT_BYTES, false)?;
        let mut own = Self { port, arena, free: (0..SENDS).collect(), posted: [false; SENDS], given_up: [false; SENDS] };
        for slot in SENDS..SLOTS {
            own.give_back(slot)?;
        }
        own.port.connect(setup, request, crowd, [0; 16])?;
        Ok(own)
    }

    fn descriptor(&self, slot: usize) -> *mut Descriptor {
        self.arena.at.as_ptr().wrapping_add(slot * SLOT_BYTES).cast()
    }

    fn packet(&self, slot: usize) -> *mut u8 {
        self.arena.at.as_ptr().wrapping_add(slot * SLOT_BYTES + size_of::<Descriptor>())
    }

    /// The slot of a descriptor that has come back.
    fn slot(&self, descriptor: *mut Descriptor) -> usize {
        (descriptor.addr() - self.arena.at.as_ptr().addr()) / SLOT_BYTES
    }

    /// Describes the first bytes of a slot.
    fn arm(&self, slot: usize, bytes: usize) -> *mut Descriptor {
        let segment = self.arena.segment(slot * SLOT_BYTES + size_of::<Descriptor>(), bytes);
        let filled =
            Descriptor { segment_count: 1, control: CONTROL_SEND, length: bytes as u32, segments: [segment, Default::default()], ..Default::default() };
        let descriptor = self.descriptor(slot);
        // SAFETY: within the arena, at a multiple of 64, and not posted.
        unsafe { descriptor.write(filled) };
        descriptor
    }
}

impl Carrier for OnVi {
    const MAY_LOSE: bool = false;

    fn take(&mut self) -> Result<Option<usize>, Error> {
        while let Some(descriptor) = self.port.sent()? {
            let slot = self.slot(descriptor);
            self.posted[slot] = false;
            if std::mem::take(&mut self.given_up[slot]) {
                self.free.push(slot);
            }
        }
        Ok(self.free.pop())
    }

    fn fill(&mut self, slot: usize) -> &mut [u8] {
        debug_assert!(!self.posted[slot], "it is on its way");
        // SAFETY: within the arena; a slot that is not posted is this one's alone.
        unsafe { slice::from_raw_parts_mut(self.packet(slot), PACKET_BYTES) }
    }

    fn send(&mut self, slot: usize, bytes: usize) -> Result<(), Error> {
        self.posted[slot] = true;
        let descriptor = self.arm(slot, bytes);
        // SAFETY: O1.
        if unsafe { self.port.nic.post_send(self.port.vi, descriptor, self.arena.handle) } { Ok(()) } else { Err(Error::failed("VipPostSend fails")) }
    }

    fn free(&mut self, slot: usize) {
        if self.posted[slot] {
            self.given_up[slot] = true;
        } else {
            self.free.push(slot);
        }
    }

    fn receive(&mut self) -> Result<Option<(usize, usize)>, Error> {
        let Some(descriptor) = self.port.receive()? else { return Ok(None) };
        // SAFETY: it has come back, so it is ours.
        let bytes = unsafe { (*descriptor).length } as usize;
        Ok(Some((self.slot(descriptor), bytes.min(PACKET_BYTES))))
    }

    fn came(&self, slot: usize) -> &[u8] {
        // SAFETY: within the arena; a receive that has come back is not written until it is posted
        // again, which needs this object mutably.
        unsafe { slice::from_raw_parts(self.packet(slot), PACKET_BYTES) }
    }

    fn give_back(&mut self, slot: usize) -> Result<(), Error> {
        let descriptor = self.arm(slot, PACKET_BYTES);
        // SAFETY: O1.
        if unsafe { self.port.nic.post_receive(self.port.vi, descriptor, self.arena.handle) } { Ok(()) } else { Err(Error::failed("VipPostRecv fails")) }
    }

    fn sleep(&mut self) -> Result<(), Error> {
        self.port.sleep()
    }
}
