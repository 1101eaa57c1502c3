// SPDX-License-Identifier: MIT OR Apache-2.0
//! A way to another node: an entry of the translation table, and what waits to leave there.

use crate::error::Gone;
use crate::names::Address;
use crate::procedure::Signature;
use crate::wire::{Args, CallId, LATER, PART, PART_BYTES, split};
use bellwire_am::{Bundle, EndpointId, Error};
use std::collections::VecDeque;

/// A message that waits.
#[derive(Debug)]
pub(crate) struct Out {
    pub handler: u8,
    pub args: Args,
    pub body: Body,
    /// The call of this node that it belongs to.
    pub call: Option<CallId>,
}

/// What a message carries beside its arguments.
#[derive(Debug)]
pub(crate) enum Body {
    None,
    Whole(Vec<u8>),
    /// A large value, of which so much has left; before each part the offset is added to the
    /// arguments, and with `LATER` the total too.
    Parts(Vec<u8>, usize),
}

/// A name that was used at a peer, and the number that the peer gave it.
#[derive(Debug)]
pub(crate) struct Known {
    pub name: Box<str>,
    pub signature: Signature,
    pub number: Option<u32>,
}

/// Whom a route leads to.
#[derive(Debug)]
pub(crate) enum To {
    /// A node that this one calls.
    Peer {
        /// Made up for this connection; answers that do not come as replies carry it.
        secret: u64,
        known: Vec<Known>,
        /// Calls under way.
        calls: u32,
    },
    /// A node that has called this one, over this connection.
    Caller(u64),
}

/// A way to another node.
#[derive(Debug)]
pub(crate) struct Route {
    pub address: Address,
    /// Tells this use of the entry from earlier ones.
    pub generation: u32,
    pub to: To,
    pub queue: VecDeque<Out>,
    /// The state's list knows that something waits.
    pub is_listed: bool,
    /// The connection has ended: the entry is to be mapped anew before it is used.
    pub is_broken: bool,
    /// Why the last connection ended, whatever came since.
    pub ended: Option<Gone>,
    /// The peer has been told who calls.
    pub has_greeted: bool,
    /// The connection over which the peer gives its later answers, once there was one.
    pub back: Option<u64>,
}

impl Route {
    pub(crate) fn new(address: Address, generation: u32, to: To) -> Self {
        Self { address, generation, to, queue: VecDeque::new(), is_listed: false, is_broken: false, ended: None, has_greeted: false, back: None }
    }

    /// Sends what waits. `Ok(false)`: not all of it could leave. An error is of the message that is
    /// first now.
    pub(crate) fn send_waiting(&mut self, bundle: &Bundle, endpoint: EndpointId, index: u32) -> Result<bool, Error> {
        while let Some(out) = self.queue.front_mut() {
            match out.send(bundle, endpoint, index) {
                Ok(true) => drop(self.queue.pop_front()),
                Ok(false) => {}
                Err(Error::NotSent) => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }
}

impl Out {
    /// Sends it, or a part. `Ok(true)`: that was all.
    fn send(&mut self, bundle: &Bundle, endpoint: EndpointId, index: u32) -> Result<bool, Error> {
        match &mut self.body {
            Body::None => bundle.try_request(endpoint, index, self.handler, self.args.as_slice()).map(|()| true),
            Body::Whole(data) => bundle.try_request_medium(endpoint, index, self.handler, data, self.args.as_slice()).map(|()| true),
            Body::Parts(data, sent) => {
                let part = &data[*sent..data.len().min(*sent + PART_BYTES)];
                let [low, high] = split(*sent as u64);
                let args = match self.handler {
                    LATER => self.args.with_offset([low, high], Some(split(data.len() as u64))),
                    _ => self.args.with_offset([low, high], None),
                };
                debug_assert!(matches!(self.handler, LATER | PART));
                bundle.try_request_medium(endpoint, index, self.handler, part, args.as_slice())?;
                *sent += part.len();
                Ok(*sent == data.len())
            }
        }
    }
}
