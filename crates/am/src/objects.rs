// SPDX-License-Identifier: MIT OR Apache-2.0
//! The objects of programs: a bundle has handlers, which take messages, each of which knows its
//! bundle. Their calls are in `bundle.rs`, `send.rs`, `poll.rs`, `moving.rs` and `message.rs`.

use crate::core::Core;
use crate::delivery::Delivery;
use crate::device::Device;
use crate::status::{Departed, Returned};
use bellwire_memory::token::Token;
use std::sync::Arc;

/// Endpoints that are polled as one.
pub struct Bundle {
    pub(crate) device: Arc<Device>,
    pub(crate) core: Token<Core<Handler>>,
}

/// A message handler.
pub(crate) type OnMessage = Box<dyn FnMut(&mut Message<'_>) + Send>;
/// An error handler.
pub(crate) type OnReturn = Box<dyn FnMut(&Returned) + Send>;

/// A handler of departures.
pub(crate) type OnDeparture = Box<dyn FnMut(&Departed) + Send>;

/// A handler: in the first slot of the table the error handler, in the others handlers of messages;
/// beside the table the handler of departures.
pub(crate) enum Handler {
    Message(OnMessage),
    Return(OnReturn),
    Departure(OnDeparture),
}

/// A message, while its handler runs.
pub struct Message<'a> {
    pub(crate) bundle: &'a Bundle,
    pub(crate) delivery: &'a mut Delivery,
}
