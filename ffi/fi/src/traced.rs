// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of a program that is traced. Those of the data path stand in the tables of objects in
//! place of the usual ones, so the usual ones know nothing of it: [`Traced`] for messages, the
//! tables for `true` of `rma.rs`, `atomic.rs` and `domain.rs`, and `TRACED` of `cq.rs`. Calls that
//! set something up ask ([`setup`]).

use crate::abi::{Fid, Outcome, control, error};
use crate::calls::{Receives, Sends};
use crate::posting::{Receiving, Sending};
use crate::queue::Entry;
use bellwire_trace::call::{Outcome as _, SETS_UP, noted};
use bellwire_trace::{Kind, here};
use core::ffi::{c_int, c_void};
use core::marker::PhantomData;

/// An object by its address, as events name it.
pub(crate) fn object(fid: *mut Fid) -> u32 {
    (fid.addr() >> 4) as u32
}

/// Runs the body of a call that sets something up, and notes it if this process is traced.
pub(crate) fn setup(name: &str, arguments: [usize; 2], body: impl FnOnce() -> Outcome) -> c_int {
    setup_of(name, arguments, || control(body))
}

/// The same, of a call that returns more than whether it worked.
pub(crate) fn setup_of(name: &str, arguments: [usize; 2], body: impl FnOnce() -> c_int) -> c_int {
    noted(SETS_UP, name, || arguments.map(|argument| argument as u64), body, |code| [code.word(), 0])
}

/// The same of a call whose table says whether it is noted.
pub(crate) fn setup_if(is_traced: bool, name: &str, arguments: [usize; 2], body: impl FnOnce() -> Outcome) -> c_int {
    if is_traced { setup(name, arguments, body) } else { control(body) }
}

/// The calls for messages of `T`, noted.
pub(crate) struct Traced<T>(PhantomData<T>);

/// What a call came to.
fn word(outcome: &Outcome) -> u64 {
    i64::from(outcome.err().map_or(0, |code| -code)).cast_unsigned()
}

/// Notes the end of a call.
pub(crate) fn end(kind: Kind, fid: *mut Fid, outcome: Outcome) -> Outcome {
    here::note(kind, object(fid), [word(&outcome), 0]);
    outcome
}

impl<T: Receives> Receives for Traced<T> {
    unsafe fn flags(fid: *mut Fid) -> u64 {
        // SAFETY: the caller's.
        unsafe { T::flags(fid) }
    }

    unsafe fn receive(fid: *mut Fid, r: &Receiving) -> Outcome {
        let begins = [r.context.expose_provenance() as u64, r.to.len() as u64];
        let kind = match r.tag {
            None => {
                here::note_more(Kind::FiReceive, object(fid), begins, &[r.from, r.flags]);
                Kind::FiReceiveEnd
            }
            Some((tag, ignore)) => {
                here::note_more(Kind::FiTaggedReceive, object(fid), begins, &[r.from, r.flags, tag, ignore]);
                Kind::FiTaggedReceiveEnd
            }
        };
        // SAFETY: the caller's.
        end(kind, fid, unsafe { T::receive(fid, r) })
    }
}

impl<T: Sends> Sends for Traced<T> {
    unsafe fn flags(fid: *mut Fid) -> u64 {
        // SAFETY: the caller's.
        unsafe { T::flags(fid) }
    }

    unsafe fn send(fid: *mut Fid, s: &Sending) -> Outcome {
        let (begins, flags) = ([s.context.expose_provenance() as u64, s.from.len() as u64], s.flags.unwrap_or(crate::flags::INJECT));
        let kind = match s.tag {
            None => {
                here::note_more(Kind::FiSend, object(fid), begins, &[s.to, flags]);
                Kind::FiSendEnd
            }
            Some(tag) => {
                here::note_more(Kind::FiTaggedSend, object(fid), begins, &[s.to, flags, tag]);
                Kind::FiTaggedSendEnd
            }
        };
        // SAFETY: the caller's.
        end(kind, fid, unsafe { T::send(fid, s) })
    }
}

/// Notes what a completion queue has given: `read` entries of `size` bytes at `to`, or an error.
///
/// # Safety
/// F2: they were written there.
pub(crate) unsafe fn completions(fid: *mut Fid, read: isize, to: *const c_void, size: usize) {
    let queue = object(fid);
    if read == -(error::EAGAIN as isize) {
        return here::note_empty_look();
    }
    here::note(Kind::FiPoll, queue, [0; 2]);
    for at in 0..usize::try_from(read).unwrap_or(0) {
        // The formats are the beginnings of one entry.
        let mut words = [0u64; size_of::<Entry>() / 8];
        let from = to.cast::<u8>().wrapping_add(at * size);
        // SAFETY: the caller's; `size` is no more than an entry's.
        unsafe { core::ptr::copy_nonoverlapping(from, words.as_mut_ptr().cast::<u8>(), size.min(size_of::<Entry>())) };
        let [context, flags, length, _buffer, data, tag] = words;
        here::note_more(Kind::FiCompletion, queue, [context, flags], &[length, data, tag]);
    }
    here::note(Kind::FiPollEnd, queue, [read as u64, 0]);
}
