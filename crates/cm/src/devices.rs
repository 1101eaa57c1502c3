// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several devices of one process, each with a machine of its own: identifiers that move between
//! machines before they are bound, and devices that change or are removed.

use crate::cm::{Cm, IDS_MAX};
use crate::host::Host;
use crate::id::{Id, State};
use crate::types::{Channel, Error, EventBody, EventKind};

/// An identifier without an address, on its way to another machine.
#[derive(Clone, Debug)]
pub struct Unbound(pub(crate) Id);

impl Cm {
    /// Numbers that this machine chooses have `range` in their upper 8 bits: so no two machines of
    /// a process choose the same, and programs choose by [`create_id_as`](Self::create_id_as) out
    /// of range 0.
    pub fn choose_numbers(&mut self, range: u8) {
        self.range = range;
    }

    /// The range that a number is of.
    pub fn range_of(number: u32) -> u8 {
        (number >> 24) as u8
    }

    /// A copy of an identifier that has no address yet.
    ///
    /// # Errors
    /// [`Error::Missing`]; [`Error::Invalid`]: it has one, or is another channel's.
    pub fn copy_unbound(&mut self, channel: Channel, number: u32) -> Result<Unbound, Error> {
        match self.of(channel, number)? {
            id if id.state == State::Idle && id.reported == 0 => Ok(Unbound(id.clone())),
            _ => Err(Error::Invalid),
        }
    }

    /// Puts an identifier of another machine into a channel of this one, under its number.
    ///
    /// # Errors
    /// [`Error::Missing`]: no such channel; [`Error::InUse`]: the number is; [`Error::Full`].
    pub fn put_unbound(&mut self, channel: Channel, number: u32, Unbound(id): Unbound) -> Result<(), Error> {
        if !self.channels.contains_key(&channel) {
            return Err(Error::Missing);
        }
        if self.is_used(number) {
            return Err(Error::InUse);
        }
        if self.ids.len() >= IDS_MAX {
            return Err(Error::Full);
        }
        self.ids.insert(number, Id { channel, ..id });
        Ok(())
    }

    /// The device's address changed: its identifiers are told, and go on.
    pub fn address_changed<H: Host>(&mut self, host: &mut H) {
        for number in self.ids_of_device() {
            self.tell(host, number, EventKind::AddressChange, 0, EventBody::Nothing);
        }
    }

    /// The device is removed. Its identifiers are told, and are of no use any more but to be
    /// destroyed; those that listen on all devices go on elsewhere, and are told nothing. The peers
    /// of connections see their links end.
    pub fn device_removed<H: Host>(&mut self, host: &mut H) {
        for number in self.ids_of_device() {
            self.finish(number, State::Removed);
            self.tell(host, number, EventKind::DeviceRemoval, 0, EventBody::Nothing);
        }
        let all: Vec<u32> = self.ids.keys().copied().collect();
        for number in all {
            self.give_up_port(host, number);
        }
        (self.by_service, self.by_remote, self.idle) = Default::default();
        for link in core::mem::take(&mut self.links).into_keys() {
            host.close(link);
        }
    }

    fn ids_of_device(&self) -> Vec<u32> {
        self.ids.iter().filter(|(_, id)| id.has_device && id.state != State::Removed).map(|(number, _)| *number).collect()
    }
}
