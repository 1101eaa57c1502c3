// SPDX-License-Identifier: MIT OR Apache-2.0
//! The objects of programs: a bundle has handlers, which take messages, each of which knows its
//! bundle.

use crate::core::Core;
use crate::delivery::Delivery;
use crate::device::Device;
use crate::record::{Departed, Returned};
use crate::shared::Shared;
use bellwire_memory::token::Token;
use std::sync::Arc;

/// Endpoints that are polled as one.
pub struct Bundle {
    /// Outlives what is in `inner`: its NIC is open as long as a bundle is.
    pub(crate) device: Arc<Device>,
    pub(crate) inner: Arc<Inner>,
}

/// A bundle, as the threads that make connections see it.
pub(crate) struct Inner {
    pub shared: Arc<Shared>,
    pub core: Token<Core<Handler>>,
}

/// A handler: in the first slot of the table the error handler, in the others handlers of messages;
/// beside the table the handler of departures.
pub(crate) enum Handler {
    Message(Box<dyn FnMut(&mut Message<'_>) + Send>),
    Return(Box<dyn FnMut(&Returned) + Send>),
    Departure(Box<dyn FnMut(&Departed) + Send>),
}

/// A message, while its handler runs.
pub struct Message<'a> {
    pub(crate) bundle: &'a Bundle,
    pub(crate) delivery: &'a mut Delivery,
}
