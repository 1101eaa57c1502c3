// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one seam between this interface and what carries its messages: Bellwire's own layer on the
//! engine, or a mapping on the calls of libvipl (`bellwire-amvia`). Which one, the environment says
//! when the library is initialised. Each call branches once, and those that a trace tells of ask
//! whether they are to be noted (`traced.rs`).

use crate::traced::{self, Asked};
use crate::types::{Came, EndpointName};
use bellwire_am::{Counters, EndpointId, Error, Operation};
use bellwire_amvia as amvia;
use bellwire_spmd::layer::{Back, Heard, Layer, NameBytes, OnDeparture, OnMessage, OnReturn};
use bellwire_trace::here;
use std::sync::Arc;
use std::time::Duration;

/// A bundle; a copy is a share of it.
#[derive(Clone)]
pub(crate) struct Carrier {
    pub(crate) on: On,
    /// Its calls are noted: the process was traced when it was made.
    pub(crate) is_traced: bool,
}

/// What a bundle is on.
#[derive(Clone)]
pub(crate) enum On {
    Native(Arc<bellwire_am::Bundle>),
    Vi(Arc<amvia::Bundle>),
}

/// A message, while its handler runs.
pub(crate) enum Message<'a, 'm> {
    Native(&'a mut bellwire_am::Message<'m>),
    Vi(&'a mut amvia::Message<'m>),
}

/// Makes the same call of whichever it is.
macro_rules! each {
    ($type:ident, $self:expr, $one:ident => $call:expr) => {
        match $self {
            $type::Native($one) => $call,
            $type::Vi($one) => $call,
        }
    };
}
pub(crate) use each;

/// The message that came back, out of either layer's; `$why` is its reason for people.
macro_rules! came {
    ($returned:ident, $why:expr) => {
        Came {
            status: $returned.status,
            operation: $returned.operation,
            index: $returned.index,
            handler: $returned.handler,
            arg_count: $returned.arg_count,
            args: $returned.args,
            source: $returned.source,
            length: $returned.length,
            offset: $returned.offset,
            destination: $returned.destination.to_bytes().into(),
            why: $why,
        }
    };
}

/// A payload.
type Data = (*const u8, usize);

impl Message<'_, '_> {
    #[inline]
    pub(crate) fn args(&self) -> &[i32] {
        each!(Self, self, m => m.args())
    }

    #[inline]
    pub(crate) fn payload(&self) -> Data {
        match self {
            Self::Native(m) => (m.payload().as_ptr(), m.payload().len()),
            Self::Vi(m) => m.payload(),
        }
    }

    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        each!(Self, self, m => m.is_short())
    }

    pub(crate) fn source(&self) -> NameBytes {
        each!(Self, self, m => m.source().to_bytes())
    }

    pub(crate) fn tag(&self) -> u64 {
        each!(Self, self, m => m.tag())
    }

    #[inline]
    pub(crate) fn reply(&mut self, handler: u8, args: &[i32]) -> Result<(), Error> {
        each!(Self, self, m => m.reply(handler, args))
    }

    /// # Safety
    /// C1: the bytes are readable throughout the call.
    #[inline]
    pub(crate) unsafe fn reply_medium(&mut self, handler: u8, data: Data, args: &[i32]) -> Result<(), Error> {
        // SAFETY: the caller's.
        each!(Self, self, m => unsafe { m.reply_medium_of_program(handler, data, args) })
    }

    /// # Safety
    /// C1: the bytes are readable throughout the call.
    pub(crate) unsafe fn reply_bulk(&mut self, handler: u8, offset: u64, data: Data, args: &[i32]) -> Result<(), Error> {
        // SAFETY: the caller's.
        each!(Self, self, m => unsafe { m.reply_bulk_of_program(handler, offset, data, args) })
    }
}

fn native(name: &EndpointName) -> Result<bellwire_am::Name, Error> {
    bellwire_am::Name::from_bytes(&name.to_bytes()).ok_or(Error::BadArgument)
}

fn of_mapping(bundle: &amvia::Bundle, name: &NameBytes) -> Option<amvia::Name> {
    amvia::Name::from_bytes(bundle.device().mapping(), name)
}

/// A handler of a mapping's messages: the mappings do not tell of theirs.
fn of_mapping_noted(is_traced: bool, mut handler: impl FnMut(Message<'_, '_>)) -> impl FnMut(&mut amvia::Message<'_>) {
    move |m| {
        if is_traced {
            traced::handler(m.endpoint(), m.handler(), || handler(Message::Vi(m)));
        } else {
            handler(Message::Vi(m));
        }
    }
}

impl From<On> for Carrier {
    fn from(on: On) -> Self {
        Self { on, is_traced: here::is_on() }
    }
}

impl Carrier {
    /// Makes a request, or a get, and notes it if that is wanted.
    #[inline(always)]
    fn noted(&self, asked: impl FnOnce() -> Asked, call: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        if self.is_traced { asked().noted(call) } else { call() }
    }

    pub(crate) fn create_endpoint(&self) -> Result<EndpointId, Error> {
        each!(On, &self.on, b => b.create_endpoint())
    }

    pub(crate) fn destroy_endpoint(&self, endpoint: EndpointId) -> Result<(), Error> {
        each!(On, &self.on, b => b.destroy_endpoint(endpoint))
    }

    pub(crate) fn set_tag(&self, endpoint: EndpointId, tag: u64) -> Result<(), Error> {
        each!(On, &self.on, b => b.set_tag(endpoint, tag))
    }

    pub(crate) fn tag(&self, endpoint: EndpointId) -> Result<u64, Error> {
        each!(On, &self.on, b => b.tag(endpoint))
    }

    pub(crate) fn segment(&self, endpoint: EndpointId) -> Result<Option<(*mut u8, usize)>, Error> {
        each!(On, &self.on, b => b.segment(endpoint))
    }

    pub(crate) fn unmap(&self, endpoint: EndpointId, index: u32) -> Result<(), Error> {
        each!(On, &self.on, b => b.unmap(endpoint, index))
    }

    pub(crate) fn translations(&self, endpoint: EndpointId) -> Result<u32, Error> {
        each!(On, &self.on, b => b.translations(endpoint))
    }

    pub(crate) fn set_translations(&self, endpoint: EndpointId, entries: u32) -> Result<(), Error> {
        each!(On, &self.on, b => b.set_translations(endpoint, entries))
    }

    pub(crate) fn set_credits(&self, endpoint: EndpointId, credits: u32) -> Result<(), Error> {
        each!(On, &self.on, b => b.set_credits(endpoint, credits))
    }

    pub(crate) fn counters(&self, endpoint: EndpointId) -> Result<Counters, Error> {
        each!(On, &self.on, b => b.counters(endpoint))
    }

    pub(crate) fn reset_counters(&self, endpoint: EndpointId) -> Result<(), Error> {
        each!(On, &self.on, b => b.reset_counters(endpoint))
    }

    #[inline]
    pub(crate) fn poll(&self) -> Result<usize, Error> {
        let done = each!(On, &self.on, b => b.poll())?;
        if self.is_traced && done == 0 {
            here::note_empty_look();
        }
        Ok(done)
    }

    pub(crate) fn wait_for_event(&self) -> Result<(), Error> {
        each!(On, &self.on, b => b.wait_for_event())
    }

    #[inline]
    pub(crate) fn request(&self, endpoint: EndpointId, index: u32, handler: u8, args: &[i32]) -> Result<(), Error> {
        self.noted(
            || Asked { endpoint, index, handler, bytes: 0, operation: Operation::Request },
            || each!(On, &self.on, b => b.request(endpoint, index, handler, args)),
        )
    }

    #[allow(clippy::too_many_arguments, reason = "the operands of a get")]
    pub(crate) fn get(&self, endpoint: EndpointId, index: u32, handler: u8, offset: u64, to: u64, length: usize, args: &[i32]) -> Result<(), Error> {
        self.noted(
            || Asked { endpoint, index, handler, bytes: length, operation: Operation::Get },
            || each!(On, &self.on, b => b.get(endpoint, index, handler, offset, to, length, args)),
        )
    }

    pub(crate) fn set_event_mask(&self, not_empty: bool) {
        each!(On, &self.on, b => b.set_event_mask(not_empty));
    }

    pub(crate) fn event_mask(&self) -> bool {
        each!(On, &self.on, b => b.event_mask())
    }

    pub(crate) fn set_patience(&self, patience: Option<Duration>) {
        each!(On, &self.on, b => b.set_patience(patience));
    }

    pub(crate) fn name(&self, endpoint: EndpointId) -> Result<EndpointName, Error> {
        each!(On, &self.on, b => b.name(endpoint).map(|name| EndpointName::from(name.to_bytes())))
    }

    pub(crate) fn map(&self, endpoint: EndpointId, index: u32, name: &EndpointName, tag: u64) -> Result<(), Error> {
        match &self.on {
            On::Native(b) => b.map(endpoint, index, native(name)?, tag),
            On::Vi(b) => b.map(endpoint, index, of_mapping(b, &name.to_bytes()).ok_or(Error::BadArgument)?, tag),
        }
    }

    pub(crate) fn map_any(&self, endpoint: EndpointId, name: &EndpointName, tag: u64) -> Result<u32, Error> {
        match &self.on {
            On::Native(b) => b.map_any(endpoint, native(name)?, tag),
            On::Vi(b) => b.map_any(endpoint, of_mapping(b, &name.to_bytes()).ok_or(Error::BadArgument)?, tag),
        }
    }

    pub(crate) fn translation(&self, endpoint: EndpointId, index: u32) -> Result<Option<(EndpointName, u64)>, Error> {
        each!(On, &self.on, b => Ok(b.translation(endpoint, index)?.map(|(name, tag)| (EndpointName::from(name.to_bytes()), tag))))
    }

    /// Both are of the same kind and device, else it is refused.
    pub(crate) fn move_endpoint(&self, endpoint: EndpointId, to: &Self) -> Result<EndpointId, Error> {
        match (&self.on, &to.on) {
            (On::Native(from), On::Native(to)) => from.move_endpoint(endpoint, to),
            (On::Vi(from), On::Vi(to)) => from.move_endpoint(endpoint, to),
            _ => Err(Error::BadArgument),
        }
    }

    /// # Safety
    /// C1: the memory stays until there is another segment; no bytes mean none.
    pub(crate) unsafe fn set_segment(&self, endpoint: EndpointId, base: *mut u8, length: usize) -> Result<(), Error> {
        match &self.on {
            On::Native(b) if length == 0 => b.set_segment(endpoint, None),
            // SAFETY: the caller's.
            On::Native(b) => unsafe { b.set_segment_of_program(endpoint, base, length) },
            // SAFETY: the caller's.
            On::Vi(b) => unsafe { b.set_segment_of_program(endpoint, base, length) },
        }
    }

    /// # Safety
    /// C1: the bytes are readable throughout the call.
    #[inline]
    pub(crate) unsafe fn request_medium(&self, endpoint: EndpointId, index: u32, handler: u8, data: Data, args: &[i32]) -> Result<(), Error> {
        let asked = || Asked { endpoint, index, handler, bytes: data.1, operation: Operation::RequestMedium };
        // SAFETY: the caller's.
        self.noted(asked, || each!(On, &self.on, b => unsafe { b.request_medium_of_program(endpoint, index, handler, data, args) }))
    }

    /// # Safety
    /// C1: the bytes are readable throughout the call.
    pub(crate) unsafe fn request_bulk(&self, endpoint: EndpointId, index: u32, handler: u8, offset: u64, data: Data, args: &[i32]) -> Result<(), Error> {
        let asked = || Asked { endpoint, index, handler, bytes: data.1, operation: Operation::RequestXfer };
        // SAFETY: the caller's.
        self.noted(asked, || each!(On, &self.on, b => unsafe { b.request_bulk_of_program(endpoint, index, handler, offset, data, args) }))
    }

    /// # Safety
    /// C1: the bytes are readable until the request is handled.
    pub(crate) unsafe fn try_request_bulk(&self, endpoint: EndpointId, index: u32, handler: u8, offset: u64, data: Data, args: &[i32]) -> Result<(), Error> {
        let asked = || Asked { endpoint, index, handler, bytes: data.1, operation: Operation::RequestXfer };
        // SAFETY: the caller's.
        self.noted(asked, || each!(On, &self.on, b => unsafe { b.try_request_bulk_of_program(endpoint, index, handler, offset, data, args) }))
    }

    pub(crate) fn set_handler(&self, endpoint: EndpointId, index: u8, mut handler: impl FnMut(Message<'_, '_>) + Send + 'static) -> Result<(), Error> {
        match &self.on {
            On::Native(b) => b.set_handler(endpoint, index, move |m| handler(Message::Native(m))),
            On::Vi(b) => b.set_handler(endpoint, index, of_mapping_noted(self.is_traced, handler)),
        }
    }

    pub(crate) fn set_handler_any(&self, endpoint: EndpointId, mut handler: impl FnMut(Message<'_, '_>) + Send + 'static) -> Result<u8, Error> {
        match &self.on {
            On::Native(b) => b.set_handler_any(endpoint, move |m| handler(Message::Native(m))),
            On::Vi(b) => b.set_handler_any(endpoint, of_mapping_noted(self.is_traced, handler)),
        }
    }

    pub(crate) fn set_error_handler(&self, endpoint: EndpointId, mut handler: impl FnMut(&Came) + Send + 'static) -> Result<(), Error> {
        match &self.on {
            On::Native(b) => b.set_error_handler(endpoint, move |r| handler(&came!(r, r.why()))),
            On::Vi(b) => b.set_error_handler(endpoint, move |r| handler(&came!(r, r.why.clone()))),
        }
    }

    pub(crate) fn is_in_handler(&self) -> bool {
        each!(On, &self.on, b => b.is_in_handler())
    }
}

/// A bundle of a mapping, for a team.
pub(crate) struct OnVi(pub(crate) Arc<amvia::Bundle>);

impl Layer for OnVi {
    fn create_endpoint(&self) -> Result<EndpointId, Error> {
        self.0.create_endpoint()
    }

    fn set_tag(&self, endpoint: EndpointId, tag: u64) -> Result<(), Error> {
        self.0.set_tag(endpoint, tag)
    }

    fn name(&self, endpoint: EndpointId) -> Result<NameBytes, Error> {
        self.0.name(endpoint).map(|name| name.to_bytes())
    }

    fn map(&self, endpoint: EndpointId, index: u32, name: &NameBytes, tag: u64) -> Result<bool, Error> {
        let Some(name) = of_mapping(&self.0, name) else { return Ok(false) };
        self.0.map(endpoint, index, name, tag).map(|()| true)
    }

    fn translations(&self, endpoint: EndpointId) -> Result<u32, Error> {
        self.0.translations(endpoint)
    }

    fn set_translations(&self, endpoint: EndpointId, entries: u32) -> Result<(), Error> {
        self.0.set_translations(endpoint, entries)
    }

    fn outstanding(&self, endpoint: EndpointId) -> Result<u64, Error> {
        self.0.outstanding(endpoint)
    }

    fn is_in_handler(&self) -> bool {
        self.0.is_in_handler()
    }

    fn poll(&self) -> Result<usize, Error> {
        self.0.poll()
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<bool, Error> {
        self.0.wait(timeout)
    }

    fn request(&self, endpoint: EndpointId, index: u32, handler: u8, args: &[i32]) -> Result<(), Error> {
        self.0.request(endpoint, index, handler, args)
    }

    fn request_medium(&self, endpoint: EndpointId, index: u32, handler: u8, payload: &[u8], args: &[i32]) -> Result<(), Error> {
        self.0.request_medium(endpoint, index, handler, payload, args)
    }

    fn on_message(&self, endpoint: EndpointId, index: u8, mut handler: OnMessage) -> Result<(), Error> {
        self.0.set_handler(endpoint, index, move |message| {
            let read = |to: &mut [u8]| _ = message.payload_to(to);
            handler(&Heard { args: message.args(), source: message.source().to_bytes(), length: message.payload().1, read: &read });
        })
    }

    fn on_return(&self, endpoint: EndpointId, mut handler: OnReturn) -> Result<(), Error> {
        self.0.set_error_handler(endpoint, move |returned| handler(&Back { index: returned.index, handler: returned.handler, has_left: returned.has_left }))
    }

    fn on_departure(&self, endpoint: EndpointId, mut handler: OnDeparture) -> Result<(), Error> {
        self.0.set_departure_handler(endpoint, move |departed| handler(None, &departed.name.to_bytes()))
    }
}
