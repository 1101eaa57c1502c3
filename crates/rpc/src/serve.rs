// SPDX-License-Identifier: MIT OR Apache-2.0
//! The side that is called: calls arrive, their functions run, their answers leave. Handlers of
//! messages, with no lock held.

use crate::assembly::{Assembly, Part};
use crate::calls::Data;
use crate::codec::Codec;
use crate::deferred::Reply;
use crate::error::Failure;
use crate::names::Address;
use crate::procedure::Signature;
use crate::state::{Arriving, Caller, Context, Entry, Function, Incoming, Inner, Running, State};
use crate::wire::{Args, CallId, INLINE_MAX, PART_BYTES, RESULT, VERSION, inline_data, join, status};
use bellwire_am::Message;
use core::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A moment that is so many milliseconds away; 0: never.
fn deadline(left_ms: i32) -> Option<Instant> {
    let left = u64::try_from(left_ms).ok().filter(|ms| *ms > 0)?;
    Instant::now().checked_add(Duration::from_millis(left))
}

fn id(index: i32, generation: i32) -> CallId {
    CallId { index: index as u32, generation: generation as u32 }
}

/// Answers a message with a status alone.
fn refuse(message: &mut Message<'_>, id: CallId, code: u32) {
    // The caller may be gone: then there is nobody to tell.
    let _ = message.reply(RESULT, &[id.index as i32, id.generation as i32, code as i32, 0]);
}

/// A caller says who it is.
pub(crate) fn hello(inner: &Arc<Inner>, message: &mut Message<'_>) {
    let &[version, t0, t1, s0, s1] = message.args() else { return };
    // To others each call is answered so that they know.
    if version != VERSION {
        return;
    }
    let address = Address { name: message.source(), tag: join(t0, t1) };
    let caller = Caller { address, secret: join(s0, s1), route: None, running: Default::default(), arriving: Default::default() };
    inner.state().callers.entry(message.connection()).or_insert(caller);
}

/// A call by number.
#[inline]
pub(crate) fn call(inner: &Arc<Inner>, message: &mut Message<'_>) {
    let &[number, index, generation, left_ms, ..] = message.args() else { return };
    let id = id(index, generation);
    let data = if message.is_short() {
        let mut small = [0; INLINE_MAX];
        let Some(length) = inline_data(message.args(), &mut small) else { return refuse(message, id, status::BAD_ARGUMENTS) };
        Data::small(small, length)
    } else {
        read(message, 0)
    };
    run(inner, message, (number as u32, false), id, deadline(left_ms), data);
}

/// The payload from `at` on.
fn read(message: &Message<'_>, at: usize) -> Data {
    let mut data = vec![0; message.payload().len().saturating_sub(at)];
    message.payload().read(at, &mut data);
    Data::Large(data)
}

/// A call by name.
#[cold]
pub(crate) fn call_named(inner: &Arc<Inner>, message: &mut Message<'_>) {
    let &[_, index, generation, left_ms, s0, s1, name_bytes] = message.args() else { return };
    let id = id(index, generation);
    match find(inner, message, Signature(join(s0, s1)), name_bytes) {
        Ok(number) => {
            let data = read(message, name_bytes as usize);
            run(inner, message, (number, true), id, deadline(left_ms), data);
        }
        Err(code) => refuse(message, id, code),
    }
}

/// The number of the procedure whose name the payload begins with.
fn find(inner: &Inner, message: &Message<'_>, signature: Signature, name_bytes: i32) -> Result<u32, u32> {
    let mut name = [0; crate::NAME_BYTES_MAX];
    let name = usize::try_from(name_bytes).ok().and_then(|n| name.get_mut(..n)).ok_or(status::UNKNOWN_PROCEDURE)?;
    if message.payload().read(0, name) != name.len() {
        return Err(status::UNKNOWN_PROCEDURE);
    }
    let state = inner.state();
    if !state.callers.contains_key(&message.connection()) {
        return Err(status::INCOMPATIBLE);
    }
    let mut of_name = state.procedures.iter().zip(0..).filter(|(served, _)| served.name.as_bytes() == name && !matches!(served.entry, Entry::Free));
    let (served, number) = of_name.next().ok_or(status::UNKNOWN_PROCEDURE)?;
    if served.signature == signature { Ok(number) } else { Err(status::WRONG_TYPE) }
}

/// A large call begins.
#[cold]
pub(crate) fn open(inner: &Arc<Inner>, message: &mut Message<'_>) {
    let &[number, index, generation, left_ms, s0, s1, name_bytes, t0, t1] = message.args() else { return };
    let id = id(index, generation);
    let number = match (number as u32).checked_sub(1) {
        Some(number) => Ok(number),
        None => find(inner, message, Signature(join(s0, s1)), name_bytes),
    };
    let begun = number.and_then(|number| {
        let arriving = Arriving { generation: id.generation, number, deadline: deadline(left_ms), assembly: Assembly::new(join(t0, t1)) };
        inner.state().begin_arriving(message.connection(), id, arriving)
    });
    if let Err(code) = begun {
        refuse(message, id, code);
    }
}

impl State {
    /// Notes a large call that begins to arrive. An error is the status for its caller.
    fn begin_arriving(&mut self, connection: u64, id: CallId, arriving: Arriving) -> Result<(), u32> {
        let (total, limits, memory) = (arriving.assembly.total(), self.limits, self.memory);
        let caller = self.callers.get_mut(&connection).ok_or(status::INCOMPATIBLE)?;
        if !caller.has_room(limits.served, id) || total > limits.memory.saturating_sub(memory) {
            return Err(status::OVERLOADED);
        }
        caller.arriving.insert(id.index, arriving);
        self.memory += total;
        Ok(())
    }

    /// A call is no longer arriving.
    fn end_arriving(&mut self, connection: u64, id: CallId) -> Option<Arriving> {
        let caller = self.callers.get_mut(&connection)?;
        if caller.arriving.get(&id.index)?.generation != id.generation {
            return None;
        }
        let arriving = caller.arriving.remove(&id.index)?;
        self.memory -= arriving.assembly.total();
        Some(arriving)
    }
}

impl Caller {
    /// Whether another call of this name may be kept.
    pub(crate) fn has_room(&self, most: u32, id: CallId) -> bool {
        self.running.len() + self.arriving.len() < most as usize && !self.running.contains_key(&id.index) && !self.arriving.contains_key(&id.index)
    }
}

/// A part of a large call.
#[cold]
pub(crate) fn part(inner: &Arc<Inner>, message: &mut Message<'_>) {
    let &[index, generation, o0, o1] = message.args() else { return };
    let (id, connection) = (id(index, generation), message.connection());
    let mut state = inner.state();
    let arriving = state.callers.get_mut(&connection).and_then(|caller| caller.arriving.get_mut(&id.index));
    // Parts of a refused or cancelled call go on arriving for a while.
    let Some(arriving) = arriving.filter(|arriving| arriving.generation == id.generation) else { return };
    let taken = arriving.assembly.take(join(o0, o1), &message.payload());
    if taken == Part::More {
        return;
    }
    let arriving = state.end_arriving(connection, id);
    drop(state);
    match (taken, arriving) {
        (Part::Whole, Some(arriving)) => run(inner, message, (arriving.number, true), id, arriving.deadline, Data::Large(arriving.assembly.into_data())),
        (Part::NoMemory, _) => refuse(message, id, status::OVERLOADED),
        _ => refuse(message, id, status::BAD_ARGUMENTS),
    }
}

/// A caller does not want its answer any more.
#[cold]
pub(crate) fn cancel(inner: &Arc<Inner>, message: &mut Message<'_>) {
    let &[index, generation] = message.args() else { return };
    let (id, connection) = (id(index, generation), message.connection());
    let mut state = inner.state();
    state.end_arriving(connection, id);
    let running = state.callers.get_mut(&connection).and_then(|caller| match caller.running.get(&id.index) {
        Some(running) if running.generation == id.generation => caller.running.remove(&id.index),
        _ => None,
    });
    if let Some(running) = running {
        state.deferred -= 1;
        running.cancel();
    }
}

/// Runs a procedure's function.
#[inline]
fn run(inner: &Arc<Inner>, message: &mut Message<'_>, (number, tells): (u32, bool), id: CallId, deadline: Option<Instant>, data: Data) {
    let taken = take(&mut inner.state(), number);
    let function = match taken {
        ControlFlow::Continue(function) => function,
        ControlFlow::Break(code) => return refuse(message, id, code),
    };
    let context = Context { caller: message.source(), deadline };
    let mut turn = Turn { function: Some(function), call: Incoming { inner, message, id, number, tells, data, context, is_answered: false } };
    if let Some(function) = &mut turn.function {
        function(&mut turn.call);
    }
}

#[inline]
fn take(state: &mut State, number: u32) -> ControlFlow<u32, Function> {
    let Some(served) = state.procedures.get_mut(number as usize) else { return ControlFlow::Break(status::UNKNOWN_PROCEDURE) };
    match core::mem::replace(&mut served.entry, Entry::Out) {
        Entry::Here(function) => ControlFlow::Continue(function),
        other => {
            served.entry = other;
            ControlFlow::Break(status::UNKNOWN_PROCEDURE)
        }
    }
}

/// While a function runs: whatever it does, it is put back, and the call is answered.
struct Turn<'a, 'm> {
    function: Option<Function>,
    call: Incoming<'a, 'm>,
}

impl Drop for Turn<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        if !self.call.is_answered {
            self.call.refuse(status::DROPPED);
        }
        let mut state = self.call.inner.state();
        if let Some(served) = state.procedures.get_mut(self.call.number as usize)
            && let Entry::Out = served.entry
            && let Some(function) = self.function.take()
        {
            served.entry = Entry::Here(function);
        }
        drop(state);
        // A procedure withdrawn meanwhile is dropped with no lock held: it may own anything.
        drop(self.function.take());
    }
}

impl Incoming<'_, '_> {
    /// The arguments as they came: what a peer made up.
    pub fn arguments(&self) -> &[u8] {
        self.data.as_slice()
    }

    /// The caller, and its time limit.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The arguments as values. They are gone then.
    pub(crate) fn decode<A: Codec>(&mut self) -> Option<A> {
        match core::mem::replace(&mut self.data, Data::small([0; INLINE_MAX], 0)) {
            Data::Large(data) => A::decode_owned(data),
            small => A::decode(small.as_slice()),
        }
    }

    fn told_number(&self) -> i32 {
        if self.tells { self.number as i32 + 1 } else { 0 }
    }

    /// Answers with a status alone.
    pub(crate) fn refuse(&mut self, code: u32) {
        self.is_answered = true;
        refuse(self.message, self.id, code);
    }

    /// Says that the arguments are invalid.
    pub fn refuse_arguments(&mut self) {
        if !self.is_answered {
            self.refuse(status::BAD_ARGUMENTS);
        }
    }

    /// Answers the call, unless that was done.
    #[inline]
    pub fn reply(&mut self, result: Result<&[u8], &Failure>) {
        if self.is_answered {
            return;
        }
        match result {
            Ok(bytes) => self.send(status::OK, bytes),
            Err(failure) => self.send(status::FAILED, &failure.to_bytes()),
        }
    }

    #[inline]
    fn send(&mut self, code: u32, bytes: &[u8]) {
        if bytes.len() > PART_BYTES {
            if let Some(reply) = self.defer() {
                reply.send_status(code, bytes.to_vec());
            }
            return;
        }
        self.is_answered = true;
        let args = Args::new([self.id.index as i32, self.id.generation as i32, code as i32, self.told_number()]);
        // The caller may be gone: then there is nobody to tell.
        let _ = if bytes.len() <= INLINE_MAX {
            self.message.reply(RESULT, args.with_data(bytes).as_slice())
        } else {
            self.message.reply_medium(RESULT, bytes, args.as_slice())
        };
    }

    /// Has the call be answered later: the right to do so. `None`: it may not, or has been
    /// answered; its caller knows.
    pub fn defer(&mut self) -> Option<Reply> {
        if self.is_answered {
            return None;
        }
        let connection = self.message.connection();
        let running = Arc::new(Running::new(self.id.generation));
        let mut state = self.inner.state();
        let most = state.limits.served;
        let room = match state.callers.get_mut(&connection) {
            None => Err(status::INCOMPATIBLE),
            Some(caller) if !caller.has_room(most, self.id) => Err(status::OVERLOADED),
            Some(caller) => {
                caller.running.insert(self.id.index, Arc::clone(&running));
                state.deferred += 1;
                Ok(())
            }
        };
        drop(state);
        if let Err(code) = room {
            self.refuse(code);
            return None;
        }
        self.is_answered = true;
        Some(Reply::new(self.inner, connection, self.id, self.number, running, self.context))
    }
}
