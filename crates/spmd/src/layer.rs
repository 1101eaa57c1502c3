// SPDX-License-Identifier: MIT OR Apache-2.0
//! Start-up and collectives need these calls of whatever carries Active Messages.

use bellwire_am::{Bundle, Death, EndpointId, Error, NAME_BYTES, Name, Status};
use bellwire_via::Cause;
use bellwire_via::frame::DisconnectReason;
use std::time::Duration;

/// An endpoint's name as bytes.
pub type NameBytes = [u8; NAME_BYTES];

/// A message, while its handler runs.
pub struct Heard<'a> {
    /// Its arguments.
    pub args: &'a [i32],
    /// Its sender.
    pub source: NameBytes,
    /// Bytes of payload.
    pub length: usize,
    /// Copies the first bytes of the payload.
    pub read: &'a dyn Fn(&mut [u8]),
}

/// A message that came back.
#[derive(Clone, Copy, Debug)]
pub struct Back {
    /// Entry of the table.
    pub index: u32,
    /// Its handler.
    pub handler: u8,
    /// The receiver has ended its endpoint, or the connection, on purpose.
    pub has_left: bool,
}

/// A handler of messages.
pub type OnMessage = Box<dyn FnMut(&Heard<'_>) + Send>;
/// A handler of messages that come back.
pub type OnReturn = Box<dyn FnMut(&Back) + Send>;
/// A handler of connections that end: entry of the table, if it is known, and name.
pub type OnDeparture = Box<dyn FnMut(Option<u32>, &NameBytes) + Send>;

/// A bundle of endpoints. The calls are those of [`Bundle`] of the same name; they are not on the
/// way of a program's messages.
#[allow(missing_docs, reason = "the calls of a bundle")]
#[allow(clippy::missing_errors_doc, reason = "the calls of a bundle")]
pub trait Layer: Send + Sync {
    fn create_endpoint(&self) -> Result<EndpointId, Error>;
    fn set_tag(&self, endpoint: EndpointId, tag: u64) -> Result<(), Error>;
    fn name(&self, endpoint: EndpointId) -> Result<NameBytes, Error>;
    /// `Ok(false)`: the bytes are no name.
    fn map(&self, endpoint: EndpointId, index: u32, name: &NameBytes, tag: u64) -> Result<bool, Error>;
    fn translations(&self, endpoint: EndpointId) -> Result<u32, Error>;
    fn set_translations(&self, endpoint: EndpointId, entries: u32) -> Result<(), Error>;
    fn outstanding(&self, endpoint: EndpointId) -> Result<u64, Error>;
    fn is_in_handler(&self) -> bool;
    fn poll(&self) -> Result<usize, Error>;
    fn wait(&self, timeout: Option<Duration>) -> Result<bool, Error>;
    fn request(&self, endpoint: EndpointId, index: u32, handler: u8, args: &[i32]) -> Result<(), Error>;
    fn request_medium(&self, endpoint: EndpointId, index: u32, handler: u8, payload: &[u8], args: &[i32]) -> Result<(), Error>;
    fn on_message(&self, endpoint: EndpointId, index: u8, handler: OnMessage) -> Result<(), Error>;
    fn on_return(&self, endpoint: EndpointId, handler: OnReturn) -> Result<(), Error>;
    fn on_departure(&self, endpoint: EndpointId, handler: OnDeparture) -> Result<(), Error>;
}

impl Layer for Bundle {
    fn create_endpoint(&self) -> Result<EndpointId, Error> {
        self.create_endpoint()
    }

    fn set_tag(&self, endpoint: EndpointId, tag: u64) -> Result<(), Error> {
        self.set_tag(endpoint, tag)
    }

    fn name(&self, endpoint: EndpointId) -> Result<NameBytes, Error> {
        self.name(endpoint).map(|name| name.to_bytes())
    }

    fn map(&self, endpoint: EndpointId, index: u32, name: &NameBytes, tag: u64) -> Result<bool, Error> {
        let Some(name) = Name::from_bytes(name) else { return Ok(false) };
        self.map(endpoint, index, name, tag).map(|()| true)
    }

    fn translations(&self, endpoint: EndpointId) -> Result<u32, Error> {
        self.translations(endpoint)
    }

    fn set_translations(&self, endpoint: EndpointId, entries: u32) -> Result<(), Error> {
        self.set_translations(endpoint, entries)
    }

    fn outstanding(&self, endpoint: EndpointId) -> Result<u64, Error> {
        self.outstanding(endpoint)
    }

    fn is_in_handler(&self) -> bool {
        self.is_in_handler()
    }

    fn poll(&self) -> Result<usize, Error> {
        self.poll()
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<bool, Error> {
        self.wait(timeout)
    }

    fn request(&self, endpoint: EndpointId, index: u32, handler: u8, args: &[i32]) -> Result<(), Error> {
        self.request(endpoint, index, handler, args)
    }

    fn request_medium(&self, endpoint: EndpointId, index: u32, handler: u8, payload: &[u8], args: &[i32]) -> Result<(), Error> {
        self.request_medium(endpoint, index, handler, payload, args)
    }

    fn on_message(&self, endpoint: EndpointId, index: u8, mut handler: OnMessage) -> Result<(), Error> {
        self.set_handler(endpoint, index, move |message| {
            let read = |to: &mut [u8]| _ = message.payload().read(0, to);
            handler(&Heard { args: message.args(), source: message.source().to_bytes(), length: message.payload().len(), read: &read });
        })
    }

    fn on_return(&self, endpoint: EndpointId, mut handler: OnReturn) -> Result<(), Error> {
        self.set_error_handler(endpoint, move |returned| {
            let has_left = match returned.death {
                None => returned.status == Status::BadEndpoint,
                Some(death) => death == Death::Broken(Cause::Peer(DisconnectReason::Requested)),
            };
            handler(&Back { index: returned.index, handler: returned.handler, has_left });
        })
    }

    fn on_departure(&self, endpoint: EndpointId, mut handler: OnDeparture) -> Result<(), Error> {
        self.set_departure_handler(endpoint, move |departed| handler(departed.index, &departed.name.to_bytes()))
    }
}
