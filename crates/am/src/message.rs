// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a handler gets: the message, and the right to reply once.

use crate::arrive::Delivery;
use crate::bundle::Bundle;
use crate::core::{EndpointId, place};
use crate::header::{ARGS_MAX, Head, Kind, MEDIUM_BYTES_MAX};
use crate::name::Name;
use crate::payload::Payload;
use crate::status::{Error, Returned};

/// A message handler.
pub(crate) type OnMessage = Box<dyn FnMut(&mut Message<'_>) + Send>;
/// An error handler.
pub(crate) type OnReturn = Box<dyn FnMut(&Returned) + Send>;

/// What is in a slot of the handler table: in the first one the error handler, in the others handlers of messages.
pub(crate) enum Handler {
    Message(OnMessage),
    Return(OnReturn),
}

/// A message, while its handler runs.
pub struct Message<'a> {
    pub(crate) bundle: &'a Bundle,
    pub(crate) delivery: &'a Delivery<()>,
    pub(crate) has_replied: bool,
}

impl Message<'_> {
    /// The arguments.
    #[inline]
    pub fn args(&self) -> &[i32] {
        &self.delivery.head.args[..usize::from(self.delivery.head.arg_count)]
    }

    /// The payload; of a short message none.
    pub fn payload(&self) -> Payload<'_> {
        Payload { place: &self.delivery.place, start: self.delivery.start }
    }

    /// Who sent it.
    pub fn source(&self) -> Name {
        self.delivery.source
    }

    /// The endpoint that it came to.
    pub fn endpoint(&self) -> EndpointId {
        self.delivery.endpoint
    }

    /// The tag that it carried.
    pub fn tag(&self) -> u64 {
        self.delivery.tag
    }

    /// Whether it is a request, which may be answered; else a reply.
    pub fn is_request(&self) -> bool {
        self.delivery.is_request()
    }

    /// Answers a request.
    ///
    /// # Errors
    /// [`Error::BadArgument`]: not a request, answered already, or a parameter means nothing; [`Error::NotSent`]: the requester is gone.
    #[inline]
    pub fn reply(&mut self, handler: u8, args: &[i32]) -> Result<(), Error> {
        self.send(Kind::ReplyShort, handler, &[], args)
    }

    /// Answers a request with a payload of at most [`MEDIUM_BYTES_MAX`] bytes, which is copied.
    ///
    /// # Errors
    /// As [`reply`](Self::reply).
    pub fn reply_medium(&mut self, handler: u8, payload: &[u8], args: &[i32]) -> Result<(), Error> {
        self.send(Kind::ReplyMedium, handler, payload, args)
    }

    fn send(&mut self, kind: Kind, handler: u8, payload: &[u8], args: &[i32]) -> Result<(), Error> {
        if self.has_replied || !self.is_request() || handler == 0 || args.len() > ARGS_MAX || payload.len() > MEDIUM_BYTES_MAX {
            return Err(Error::BadArgument);
        }
        self.has_replied = true;
        let (id, endpoint) = (self.delivery.connection, self.delivery.endpoint);
        let mut core = self.bundle.core();
        let Some(connection) = core.connections.get_mut(id) else { return Err(Error::NotSent) };
        connection.handled = connection.handled.wrapping_add(1);
        self.bundle.device.nic.with(|engine| core.answer(engine, id, &mut Head::new(kind, handler, args), payload))?;
        if let Some(endpoint) = core.endpoints.get_mut(place(endpoint)) {
            endpoint.counters.replies_sent[usize::from(kind == Kind::ReplyMedium)] += 1;
            endpoint.counters.bytes_sent += payload.len() as u64;
        }
        Ok(())
    }
}
