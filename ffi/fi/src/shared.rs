// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contexts that several endpoints share. Of a receive context, the receives are common: a message
//! for any of its endpoints goes to the oldest that fits, and completes in that endpoint's queue.
//! Of a transmit context nothing is: sends are posted to endpoints, and have nothing that could be
//! shared.

use crate::abi::{Fid, NOTHING, Outcome, Table, TableRef, class, close_unused, command, control, data, drop_object, error, give, none};
use crate::attributes::{RxAttr, TxAttr};
use crate::calls::{self, Nothing, Receives};
use crate::flags;
use crate::polled::EpShared;
use crate::posting::{LOOK_FLAGS, Receiving, want};
use crate::traced::{Traced, setup};
use bellwire_tag::{Completion, Failure, Notes, SharedReceives};
use bellwire_trace::here;
use core::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a shared receive context is to its endpoints.
pub(crate) struct ReceiveContext {
    receives: SharedReceives,
    /// Endpoints that are enabled, and whether only what asks for it completes there.
    members: Mutex<Vec<(Arc<EpShared>, bool)>>,
    /// Sources may be chosen.
    is_directed: bool,
    /// What calls without flags take.
    flags: u64,
    /// Buffers begin with a prefix.
    is_prefixed: bool,
}

/// `struct fid_ep` of a receive context, and ours behind it.
#[repr(C)]
pub(crate) struct ReceiveObject {
    fid: Fid,
    ops: TableRef,
    cm: TableRef,
    msg: TableRef,
    rma: TableRef,
    tagged: TableRef,
    atomic: TableRef,
    collective: TableRef,
    pub shared: Arc<ReceiveContext>,
}

/// `struct fid_stx`.
#[repr(C)]
struct TransmitObject {
    fid: Fid,
    ops: TableRef,
}

static FID: Table<6> = Table::new([close as *const (), none as *const (), control_call as *const (), none as *const (), none as *const (), none as *const ()]);
static OPS: Table<7> =
    Table::new([cancel as *const (), none as *const (), none as *const (), none as *const (), none as *const (), none as *const (), none as *const ()]);
/// The usual calls, and those of a traced program.
static MSG: [Table<9>; 2] = [calls::messages::<Common, Nothing>(), calls::messages::<Traced<Common>, Nothing>()];
static TAGGED: [Table<9>; 2] = [calls::tagged::<Common, Nothing>(), calls::tagged::<Traced<Common>, Nothing>()];
static TRANSMIT_FID: Table<6> =
    Table::new([close_transmit as *const (), none as *const (), none as *const (), none as *const (), none as *const (), none as *const ()]);
static TRANSMIT_OPS: Table<7> = Table::new([none as *const (); 7]);

impl ReceiveContext {
    fn members(&self) -> MutexGuard<'_, Vec<(Arc<EpShared>, bool)>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An endpoint that is being enabled takes its messages from here.
    pub(crate) fn add(&self, ep: &Arc<EpShared>, is_selective: bool) {
        ep.endpoint.share(self.receives.clone());
        self.members().push((Arc::clone(ep), is_selective));
        let _ = ep.endpoint.serve_shared();
    }

    pub(crate) fn remove(&self, ep: &Arc<EpShared>) {
        self.members().retain(|(e, _)| !Arc::ptr_eq(e, ep));
    }

    fn receive(&self, r: &Receiving) -> Outcome {
        if r.flags & (flags::MULTI_RECV | LOOK_FLAGS) != 0 {
            return Err(error::EOPNOTSUPP);
        }
        let r = &if self.is_prefixed { r.behind_prefix()? } else { *r };
        let members = self.members();
        // Its endpoints are to be bound alike.
        let is_selective = members.first().is_some_and(|(_, is_selective)| *is_selective);
        self.receives.post(&want(r, is_selective, self.is_directed)?);
        for (ep, _) in members.iter() {
            let _ = ep.endpoint.serve_shared();
        }
        Ok(())
    }

    /// Takes a receive back; one of the endpoints tells of it.
    fn cancel(&self, context: usize) -> Outcome {
        let members = self.members();
        let (teller, _) = members.first().ok_or(libc::ENOENT)?;
        if !self.receives.cancel(context) {
            return Err(libc::ENOENT);
        }
        let mut completion = Completion::new(context, Notes::RECEIVE | Notes::MESSAGE, false);
        completion.failure = Some(Failure::Canceled);
        teller.endpoint.complete(&completion);
        Ok(())
    }
}

/// `fi_srx_context`.
pub(crate) unsafe extern "C" fn open(_domain: *mut Fid, attr: *const RxAttr, to: *mut *mut ReceiveObject, context: *mut c_void) -> c_int {
    setup("fi_srx_context", [0; 2], || {
        // SAFETY: F2.
        let (caps, flags, mode) = unsafe { attr.as_ref() }.map_or((0, 0, 0), |a| (a.caps, a.op_flags, a.mode));
        let (is_directed, is_prefixed) = (caps & flags::DIRECTED_RECV != 0, mode & flags::MSG_PREFIX != 0);
        let shared = ReceiveContext { receives: SharedReceives::default(), members: Mutex::default(), is_directed, flags, is_prefixed };
        let nothing = TableRef::to(&NOTHING);
        let object = ReceiveObject {
            fid: Fid { class: class::SRX_CTX, context, ops: TableRef::to(&FID) },
            ops: TableRef::to(&OPS),
            cm: nothing,
            msg: TableRef::to(&MSG[usize::from(here::is_on())]),
            rma: nothing,
            tagged: TableRef::to(&TAGGED[usize::from(here::is_on())]),
            atomic: nothing,
            collective: TableRef::NONE,
            shared: Arc::new(shared),
        };
        give(object, to)
    })
}

/// `fi_stx_context`.
pub(crate) unsafe extern "C" fn open_transmit(_domain: *mut Fid, _attr: *const TxAttr, to: *mut *mut Fid, context: *mut c_void) -> c_int {
    let fid = Fid { class: class::STX_CTX, context, ops: TableRef::to(&TRANSMIT_FID) };
    control(|| give(TransmitObject { fid, ops: TableRef::to(&TRANSMIT_OPS) }, to.cast::<*mut TransmitObject>()))
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    // SAFETY: F1.
    control(|| unsafe { close_unused(fid, |object: &ReceiveObject| &object.shared) })
}

unsafe extern "C" fn close_transmit(fid: *mut Fid) -> c_int {
    control(|| {
        // SAFETY: F1.
        unsafe { drop_object::<TransmitObject>(fid) };
        Ok(())
    })
}

/// `FI_ENABLE`: it is.
unsafe extern "C" fn control_call(_: *mut Fid, asked: c_int, _: *mut c_void) -> c_int {
    if asked == command::ENABLE { 0 } else { -error::ENOSYS }
}

/// # Safety
/// F1.
unsafe fn of<'a>(fid: *mut Fid) -> &'a ReceiveContext {
    // SAFETY: the caller's.
    unsafe { &(*fid.cast::<ReceiveObject>()).shared }
}

unsafe extern "C" fn cancel(fid: *mut Fid, context: *mut c_void) -> isize {
    // SAFETY: F1.
    data(|| unsafe { of(fid) }.cancel(context.expose_provenance()))
}

/// Receives of a context that endpoints share.
struct Common;

impl Receives for Common {
    unsafe fn flags(fid: *mut Fid) -> u64 {
        // SAFETY: the caller's.
        unsafe { of(fid) }.flags
    }

    unsafe fn receive(fid: *mut Fid, r: &Receiving) -> Outcome {
        // SAFETY: the caller's.
        unsafe { of(fid) }.receive(r)
    }
}
