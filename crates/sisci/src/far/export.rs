// SPDX-License-Identifier: MIT OR Apache-2.0
//! Objects of this process that users of other hosts may connect to. Each waits under its name, and
//! has a protection tag of its own, so that a user of one segment reaches no other one.

use super::message::{LIMIT, VERSION};
use super::name::Name;
use crate::error::Error;
use crate::memory::Memory;
use crate::reason::Reason;
use bellwire_peer::{Mailbox, listen_alone};
use bellwire_via::handle::Handle;
use bellwire_via::wire::Wire;
use bellwire_via::{Acceptor, Engine, InboxHandle, MemAttributes, MemHandle, ViAttributes};
use std::sync::{Arc, Weak};

/// Names an export.
pub(crate) type ExportId = Handle<Exported>;

/// What a user says.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Said<'a> {
    /// It has the segment mapped, or no longer.
    Mapped(bool),
    /// An interrupt.
    Trigger,
    /// A data interrupt.
    Data(&'a [u8]),
    /// The flag at this offset of the segment is triggered.
    Flag(u64),
    /// Bytes to store from this offset of the segment on, which interrupt.
    Store(u64, &'a [u8]),
    /// It has left ([`Reason::Disconnect`]), or is lost; it is silent, or answers again.
    Is(Reason),
}

/// The outcome of something that a user has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handled {
    /// It is done; the user learns so.
    Done,
    /// The user learns of it by [`Far::take`](super::Far::take).
    Later,
    /// No user says that here.
    Nonsense,
}

/// An owner's object. Called with the NIC's token held: it may not call [`Far`](super::Far).
pub(crate) trait Export: Send + Sync {
    /// A user of a node asks to be let in; `user` names it from now on.
    ///
    /// # Errors
    /// What the user is told.
    fn admit(&self, user: u32, node: u32) -> Result<(), Error>;

    /// A user says something.
    fn hear(&self, user: u32, node: u32, said: Said<'_>) -> Handled;
}

/// An object, waiting for users.
pub(crate) struct Exported {
    pub(crate) acceptor: Acceptor,
    pub(crate) mailbox: Mailbox,
    pub(crate) object: Weak<dyn Export>,
    pub(crate) memory: Option<Registered>,
}

/// Memory of a segment, which peers reach.
pub(crate) struct Registered {
    pub memory: Arc<Memory>,
    pub address: u64,
    pub handle: MemHandle,
}

impl Exported {
    /// Begins to wait.
    pub fn new<W: Wire>(engine: &mut Engine<W>, inbox: InboxHandle, name: Name, object: Weak<dyn Export>, memory: Option<Arc<Memory>>) -> Result<Self, Error> {
        let attributes = ViAttributes { rdma_write: memory.is_some(), rdma_read: memory.is_some(), ..ViAttributes::default() };
        let own = Mailbox::create(engine, VERSION, attributes, LIMIT)?;
        let mailbox = own.moved_to(inbox);
        let _ = engine.destroy_inbox(own.inbox());
        let mut exported = Self { acceptor: Acceptor::default(), mailbox, object, memory: None };
        match exported.open(engine, name, memory) {
            Ok(()) => Ok(exported),
            Err(error) => {
                exported.close(engine);
                Err(error)
            }
        }
    }

    fn open<W: Wire>(&mut self, engine: &mut Engine<W>, name: Name, memory: Option<Arc<Memory>>) -> Result<(), Error> {
        if let Some(memory) = memory {
            let all = memory.part(0, memory.size())?;
            let address = all.as_ptr().expose_provenance() as u64;
            let attributes = MemAttributes { ptag: self.mailbox.ptag(), rdma_write: true, rdma_read: true };
            // SAFETY: U0: the memory is kept beside its registration, and dropped after that has
            // ended; it is shared memory, which is only reached by copies and by the program.
            let handle = unsafe { engine.register(address, memory.size() as u64, &attributes) }?;
            self.memory = Some(Registered { memory, address, handle });
        }
        let host = engine.wire().host_address().to_vec();
        let at = name.at(&host).ok_or(Error::System)?;
        self.acceptor = listen_alone(engine, at)?.ok_or(Error::SegmentIdUsed)?;
        Ok(())
    }

    /// Ends it. Its connections have ended before. Memory whose registration does not end is never
    /// given back.
    pub fn close<W: Wire>(&mut self, engine: &mut Engine<W>) {
        self.acceptor.close(engine);
        if let Some(registered) = self.memory.take()
            && engine.deregister(registered.address, registered.handle).is_err()
        {
            core::mem::forget(registered.memory);
        }
        if let Some(ptag) = self.mailbox.ptag() {
            let _ = engine.destroy_ptag(ptag);
        }
    }
}
