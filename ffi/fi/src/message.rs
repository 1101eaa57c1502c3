// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of endpoints, with and without tags: what their calls (`calls.rs`) come to.

use crate::abi::{Fid, NOTHING, Outcome, Table, TableRef, class, code, error};
use crate::calls::{self, Nothing, Receives, Sends};
use crate::flags;
use crate::limits::INJECT_BYTES;
use crate::object::of;
use crate::posting::{LOOK_FLAGS, Receiving, Sending, behind_prefix, is_silent, want};
use crate::traced::Traced;
use crate::{atomic, deferring, rma};
use bellwire_tag::{Completion, Gather, Notes, Peek, Piece, SendFlags, SendOne, SendOut, WantOne};
use bellwire_trace::here;
use core::ffi::c_void;

/// An endpoint, as its calls see it.
struct Plain;

/// One whose buffers begin with room for the provider (`FI_MSG_PREFIX`), which this one does not
/// use.
struct Prefixed;

/// The calls for messages of endpoints, of contexts that only receive, and of those that only send.
const fn messages<T: Receives + Sends>() -> [Table<9>; 3] {
    [calls::messages::<T, T>(), calls::messages::<T, Nothing>(), calls::messages::<Nothing, T>()]
}

/// The same for tagged messages.
const fn tagged<T: Receives + Sends>() -> [Table<9>; 3] {
    [calls::tagged::<T, T>(), calls::tagged::<T, Nothing>(), calls::tagged::<Nothing, T>()]
}

/// Without and with a prefix; then the same of a traced program.
static MESSAGES: [[Table<9>; 3]; 4] = [messages::<Plain>(), messages::<Prefixed>(), messages::<Traced<Plain>>(), messages::<Traced<Prefixed>>()];
static TAGGED: [[Table<9>; 3]; 4] = [tagged::<Plain>(), tagged::<Prefixed>(), tagged::<Traced<Plain>>(), tagged::<Traced<Prefixed>>()];

/// The calls of an object.
pub(crate) struct Calls {
    pub messages: TableRef,
    pub tagged: TableRef,
    pub rma: TableRef,
    pub atomic: TableRef,
}

/// The calls of an endpoint, or of a context that only receives or only sends.
pub(crate) fn calls_of(class: usize, is_prefixed: bool) -> Calls {
    let is_traced = here::is_on();
    let (kind, side) =
        (usize::from(is_prefixed) + 2 * usize::from(is_traced), [class::EP, class::RX_CTX, class::TX_CTX].iter().position(|c| *c == class).unwrap_or(0));
    let (rma, atomic) = if class == class::RX_CTX {
        (TableRef::to(&NOTHING), TableRef::to(&NOTHING))
    } else {
        (TableRef::to(&rma::OPS[usize::from(is_traced)]), TableRef::to(&atomic::OPS[usize::from(is_traced)]))
    };
    Calls { messages: TableRef::to(&MESSAGES[kind][side]), tagged: TableRef::to(&TAGGED[kind][side]), rma, atomic }
}

impl Receives for Prefixed {
    unsafe fn flags(fid: *mut Fid) -> u64 {
        // SAFETY: the caller's.
        unsafe { of(fid) }.rx_flags
    }

    unsafe fn receive(fid: *mut Fid, r: &Receiving) -> Outcome {
        // SAFETY: the caller's.
        unsafe { receive(fid, &r.behind_prefix()?) }
    }
}

impl Sends for Prefixed {
    unsafe fn flags(fid: *mut Fid) -> u64 {
        // SAFETY: the caller's.
        unsafe { of(fid) }.tx_flags
    }

    unsafe fn send(fid: *mut Fid, s: &Sending) -> Outcome {
        // SAFETY: the caller's.
        unsafe { send_out(fid, &Sending { from: behind_prefix(&s.from)?, ..*s }) }
    }
}

impl Receives for Plain {
    #[inline(always)]
    unsafe fn flags(fid: *mut Fid) -> u64 {
        // SAFETY: the caller's.
        unsafe { of(fid) }.rx_flags
    }

    #[inline(always)]
    unsafe fn receive(fid: *mut Fid, r: &Receiving) -> Outcome {
        // SAFETY: the caller's.
        unsafe { receive(fid, r) }
    }

    #[inline(always)]
    unsafe fn receive_one(fid: *mut Fid, to: (*mut u8, usize), from: u64, tag: Option<(u64, u64)>, context: *mut c_void) -> Outcome {
        // SAFETY: the caller's.
        unsafe { receive_one(fid, to, from, tag, context) }
    }
}

impl Sends for Plain {
    #[inline(always)]
    unsafe fn flags(fid: *mut Fid) -> u64 {
        // SAFETY: the caller's.
        unsafe { of(fid) }.tx_flags
    }

    #[inline(always)]
    unsafe fn send(fid: *mut Fid, s: &Sending) -> Outcome {
        // SAFETY: the caller's.
        unsafe { send_out(fid, s) }
    }

    #[inline(always)]
    unsafe fn send_one(fid: *mut Fid, from: (*mut u8, usize), to: (u64, Option<u64>), data: Option<u64>, context: *mut c_void) -> Outcome {
        // SAFETY: the caller's.
        unsafe { send_one(fid, from, to, data, context) }
    }

    #[inline(always)]
    unsafe fn inject_one(fid: *mut Fid, from: (*mut u8, usize), to: (u64, Option<u64>), data: Option<u64>) -> Outcome {
        // SAFETY: the caller's.
        unsafe { inject_one(fid, from, to, data) }
    }
}

const SEND_FLAGS: u64 = flags::REMOTE_CQ_DATA
    | flags::COMPLETION
    | flags::MORE
    | flags::INJECT
    | flags::INJECT_COMPLETE
    | flags::TRANSMIT_COMPLETE
    | flags::DELIVERY_COMPLETE
    | flags::MATCH_COMPLETE
    | flags::FENCE;

/// Levels of completion for which the receiver has to answer. A delivered message has been
/// matched, so one answer serves both.
const ANSWERED: u64 = flags::DELIVERY_COMPLETE | flags::MATCH_COMPLETE;

/// Sends.
///
/// # Safety
/// F1, F2.
#[inline]
pub(crate) unsafe fn send_out(fid: *mut Fid, s: &Sending) -> Outcome {
    // SAFETY: the caller's.
    let ep = unsafe { of(fid) };
    let bound = ep.enabled()?;
    let mut how = SendFlags::empty();
    match s.flags {
        None => {
            how = SendFlags::INJECT;
            if s.from.len() > INJECT_BYTES {
                return Err(error::EMSGSIZE);
            }
        }
        Some(flags) => {
            if flags & !SEND_FLAGS != 0 {
                // SAFETY: the caller's.
                return if flags & flags::TRIGGER != 0 { unsafe { defer(fid, s, flags) } } else { Err(error::BAD_FLAGS) };
            }
            how.set(SendFlags::SILENT, is_silent(bound.tx_selective, flags));
            if flags & (flags::INJECT | ANSWERED | flags::FENCE) != 0 {
                how.set(SendFlags::DELIVERY, flags & ANSWERED != 0);
                how.set(SendFlags::FENCE, flags & flags::FENCE != 0);
                if flags & flags::INJECT != 0 {
                    if s.from.len() > INJECT_BYTES {
                        return Err(error::EMSGSIZE);
                    }
                    how |= SendFlags::INJECT | SendFlags::COUNTED;
                }
            }
        }
    }
    let send = SendOut { peer: ep.peer(bound, s.to), tag: s.tag, data: s.data, from: s.from, context: s.context.expose_provenance(), flags: how };
    ep.run(bound, || ep.shared.endpoint.send(&send))
}

/// Has a send wait for what its context says.
///
/// # Safety
/// F1, F2, with a context of a triggered operation.
#[cold]
unsafe fn defer(fid: *mut Fid, s: &Sending, flags: u64) -> Outcome {
    let failed = Completion::new(s.context.expose_provenance(), Notes::MESSAGE | Notes::SEND, false);
    let s = Sending { flags: Some(flags & !flags::TRIGGER), ..*s };
    // SAFETY: the caller's; F1, F2: the endpoint is open when it begins, and its memory is the
    // program's until it completes.
    unsafe { deferring::defer(fid, s.context, failed, move |fid| send_out(fid, &s)) }
}

/// Sends one piece.
///
/// # Safety
/// F1, F2.
#[inline(always)]
pub(crate) unsafe fn send_one(fid: *mut Fid, from: (*mut u8, usize), (to, tag): (u64, Option<u64>), data: Option<u64>, context: *mut c_void) -> Outcome {
    // SAFETY: the caller's.
    let ep = unsafe { of(fid) };
    let bound = ep.enabled()?;
    let how = if is_silent(bound.tx_selective, ep.tx_flags) { SendFlags::SILENT } else { SendFlags::empty() };
    if ep.tx_flags & !PLAIN_FLAGS != 0 {
        // SAFETY: F1, F2, the caller's promise, and so G1.
        return unsafe { send_out(fid, &Sending { to, from: Gather::one(from.0, from.1), tag, data, context, flags: Some(ep.tx_flags) }) };
    }
    // SAFETY: G1, which F2 asks of the program.
    let from = unsafe { Piece::new(from.0, from.1) };
    let send = SendOne { peer: ep.peer(bound, to), tag, data, from, context: context.expose_provenance(), flags: how };
    ep.run(bound, || ep.shared.endpoint.send_one(&send))
}

/// Injects.
///
/// # Safety
/// F1, F2.
#[inline(always)]
pub(crate) unsafe fn inject_one(fid: *mut Fid, from: (*mut u8, usize), (to, tag): (u64, Option<u64>), data: Option<u64>) -> Outcome {
    // SAFETY: the caller's.
    let ep = unsafe { of(fid) };
    let bound = ep.enabled()?;
    if from.1 > INJECT_BYTES {
        return Err(error::EMSGSIZE);
    }
    // SAFETY: G1, which F2 asks of the program.
    let from = unsafe { Piece::new(from.0, from.1) };
    let send = SendOne { peer: ep.peer(bound, to), tag, data, from, context: 0, flags: SendFlags::INJECT };
    ep.run(bound, || ep.shared.endpoint.send_one(&send))
}

/// Flags of sends that ask for nothing that is not so anyway.
const PLAIN_FLAGS: u64 = flags::COMPLETION | flags::MORE | flags::INJECT_COMPLETE | flags::TRANSMIT_COMPLETE;

/// Receives one piece.
///
/// # Safety
/// F1, F2.
#[inline(always)]
pub(crate) unsafe fn receive_one(fid: *mut Fid, to: (*mut u8, usize), from: u64, tag: Option<(u64, u64)>, context: *mut c_void) -> Outcome {
    // SAFETY: the caller's.
    let ep = unsafe { of(fid) };
    let bound = ep.enabled()?;
    if ep.rx_flags & !(flags::COMPLETION | flags::MORE | flags::RECV) != 0 || ep.connector.is_some() || bound.shares_receives {
        // SAFETY: F1, F2, the caller's promise, and so G1.
        return unsafe { receive(fid, &Receiving { from, to: Gather::one(to.0, to.1), tag, context, flags: ep.rx_flags }) };
    }
    let source = (from != flags::ADDR_NONE && ep.caps & flags::DIRECTED_RECV != 0).then(|| ep.peer(bound, from));
    let (ignored, silent) = (tag.unwrap_or((0, 0)), is_silent(bound.rx_selective, ep.rx_flags));
    // SAFETY: G1, which F2 asks of the program.
    let to = unsafe { Piece::new(to.0, to.1) };
    let want = WantOne { tagged: tag.is_some(), source, tag: ignored.0, ignore: ignored.1, to, context: context.expose_provenance(), silent };
    ep.run(bound, || ep.shared.endpoint.receive_one(&want))
}

/// Receives, or looks.
///
/// # Safety
/// F1, F2.
#[inline]
pub(crate) unsafe fn receive(fid: *mut Fid, r: &Receiving) -> Outcome {
    // SAFETY: the caller's.
    let ep = unsafe { of(fid) };
    let bound = ep.enabled()?;
    if ep.connector.as_ref().is_some_and(|c| c.is_over()) {
        return Err(error::ENOTCONN);
    }
    if bound.shares_receives {
        // They are posted to the context that it shares.
        return Err(error::BAD_STATE);
    }
    let mut want = want(r, bound.rx_selective, ep.connector.is_none() && ep.caps & flags::DIRECTED_RECV != 0)?;
    want.source = want.source.map(|source| ep.peer(bound, source));
    let endpoint = &ep.shared.endpoint;
    if r.flags & LOOK_FLAGS == 0 {
        return ep.run(bound, || endpoint.receive(&want));
    }
    let looked = match (r.flags & flags::PEEK != 0, r.flags & flags::CLAIM != 0, r.flags & flags::DISCARD != 0) {
        (true, false, false) => endpoint.peek(&want, Peek::Look),
        (true, true, false) => endpoint.peek(&want, Peek::Claim),
        (true, false, true) => endpoint.peek(&want, Peek::Discard),
        (false, true, discard) => endpoint.take_claimed(&want, discard),
        _ => return Err(error::BAD_FLAGS),
    };
    looked.map_err(code)
}
