// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scalable endpoints: one name, and behind it several contexts that send and several that receive.
//! Each is an endpoint with a NIC of its own, so they have nothing in common that threads could
//! wait for; their names are the scalable one's with a number, which peers add by themselves
//! (`fi_rx_addr`). Who is sent something by any of them sees the scalable endpoint as its source.

use crate::abi::{Fid, Outcome, Table, TableRef, class, close_unused, command, control, error, give, none};
use crate::attributes::{Info, RxAttr, TxAttr};
use crate::av::{AvObject, AvShared};
use crate::endpoint::{self, Making};
use crate::flags;
use crate::format::{Format, copy_address};
use crate::limits::CONTEXTS_MAX;
use crate::named::{complain, open_context, open_named};
use crate::object::{EpObject, Whole};
use crate::resources::{self, DomainShared};
use crate::traced::setup;
use crate::{hints, message, names};
use bellwire_tag::{Endpoint, Name};
use bellwire_via::nic::NicConfig;
use core::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of the first context that sends; those that receive are numbered from 0 on.
const SENDERS_FROM: u8 = 128;

/// What a scalable endpoint is to its contexts.
pub(crate) struct Scalable {
    domain: Arc<DomainShared>,
    name: Name,
    /// The first receiving context's endpoint, which has the name, until that is opened.
    first: Mutex<Option<Endpoint>>,
    av: Mutex<Option<Arc<AvShared>>>,
    format: Format,
    caps: u64,
    tx_flags: u64,
    rx_flags: u64,
    is_prefixed: bool,
    senders: usize,
    receivers: usize,
}

/// `struct fid_ep` of a scalable endpoint, and ours behind it.
#[repr(C)]
pub(crate) struct ScalableObject {
    fid: Fid,
    ops: TableRef,
    cm: TableRef,
    msg: TableRef,
    rma: TableRef,
    tagged: TableRef,
    atomic: TableRef,
    collective: TableRef,
    shared: Arc<Scalable>,
}

static FID: Table<6> = Table::new([close as *const (), bind as *const (), control_call as *const (), none as *const (), none as *const (), none as *const ()]);
static OPS: Table<7> = Table::new([
    none as *const (),
    none as *const (),
    none as *const (),
    open_sender as *const (),
    open_receiver as *const (),
    none as *const (),
    none as *const (),
]);
static CM: Table<9> = Table::new([
    none as *const (),
    getname as *const (),
    none as *const (),
    none as *const (),
    none as *const (),
    none as *const (),
    none as *const (),
    none as *const (),
    none as *const (),
]);

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Whole for Scalable {
    fn av(&self) -> Option<Arc<AvShared>> {
        lock(&self.av).clone()
    }
}

impl Scalable {
    /// The endpoint of a context.
    fn endpoint(&self, number: u8) -> Outcome<Endpoint> {
        if number == 0 {
            return lock(&self.first).take().ok_or(error::EBUSY);
        }
        let config = NicConfig::from_env().map_err(|e| complain(&e, error::EINVAL))?;
        open_context(config, &self.domain.regions, self.name.id(), number)
    }
}

/// `fi_scalable_ep`.
pub(crate) unsafe extern "C" fn open(domain: *mut Fid, info: *const Info, to: *mut *mut ScalableObject, context: *mut c_void) -> c_int {
    setup("fi_scalable_ep", [0; 2], || {
        // SAFETY: F2.
        let info = unsafe { info.as_ref() }.ok_or(error::EINVAL)?;
        // SAFETY: F2.
        let (ep, tx, rx) = unsafe { (info.ep_attr.as_ref(), info.tx_attr.as_ref(), info.rx_attr.as_ref()) };
        let counts = ep.map_or((1, 1), |a| (a.tx_ctx_cnt.max(1), a.rx_ctx_cnt.max(1)));
        if ep.is_some_and(|a| !matches!(a.kind, 0 | hints::RDM)) || counts.0 > CONTEXTS_MAX || counts.1 > CONTEXTS_MAX || !info.handle.is_null() {
            return Err(error::EINVAL);
        }
        // SAFETY: F1.
        let domain = unsafe { resources::domain_of(domain) };
        let format = Format::of_answer(info.addr_format);
        // SAFETY: F2.
        let first = open_named(&domain.regions, unsafe { names::wanted_id(info) }?, format)?;
        let shared = Scalable {
            domain: Arc::clone(domain),
            name: first.name(),
            first: Mutex::new(Some(first)),
            av: Mutex::default(),
            format,
            caps: info.caps,
            tx_flags: tx.map_or(0, |a| a.op_flags),
            rx_flags: rx.map_or(0, |a| a.op_flags),
            is_prefixed: info.mode & flags::MSG_PREFIX != 0,
            senders: counts.0,
            receivers: counts.1,
        };
        let nothing = TableRef::to(&crate::abi::NOTHING);
        let object = ScalableObject {
            fid: Fid { class: class::SEP, context, ops: TableRef::to(&FID) },
            ops: TableRef::to(&OPS),
            cm: TableRef::to(&CM),
            msg: nothing,
            rma: nothing,
            tagged: nothing,
            atomic: nothing,
            collective: TableRef::NONE,
            shared: Arc::new(shared),
        };
        give(object, to)
    })
}

/// # Safety
/// F1.
unsafe fn of<'a>(fid: *mut Fid) -> &'a Arc<Scalable> {
    // SAFETY: the caller's.
    unsafe { &(*fid.cast::<ScalableObject>()).shared }
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    // SAFETY: F1.
    control(|| unsafe { close_unused(fid, |object: &ScalableObject| &object.shared) })
}

/// Its addresses are bound to it; all else to its contexts.
unsafe extern "C" fn bind(fid: *mut Fid, to: *mut Fid, _flags: u64) -> c_int {
    control(|| {
        // SAFETY: F1.
        let (sep, class) = unsafe { (of(fid), to.as_ref().ok_or(error::EINVAL)?.class) };
        match class {
            // SAFETY: F1: its class says what it is.
            class::AV => *lock(&sep.av) = Some(Arc::clone(unsafe { &(*to.cast::<AvObject>()).shared })),
            class::EQ => {}
            _ => return Err(error::EINVAL),
        }
        Ok(())
    })
}

/// `FI_ENABLE`: its contexts are.
unsafe extern "C" fn control_call(_: *mut Fid, asked: c_int, _: *mut c_void) -> c_int {
    if asked == command::ENABLE { 0 } else { -error::ENOSYS }
}

unsafe extern "C" fn getname(fid: *mut Fid, to: *mut u8, length: *mut usize) -> c_int {
    control(|| {
        // SAFETY: F1.
        let sep = unsafe { of(fid) };
        // SAFETY: F2.
        unsafe { copy_address(&sep.format.write(&sep.name), to, length) }
    })
}

/// Opens a context.
fn open_one(sep: &Arc<Scalable>, class: usize, number: u8, op_flags: Option<u64>, to: *mut *mut EpObject, context: *mut c_void) -> Outcome {
    let is_sender = class == class::TX_CTX;
    let own = if is_sender { sep.tx_flags } else { sep.rx_flags };
    let making = Making {
        class,
        calls: message::calls_of(class, sep.is_prefixed),
        caps: sep.caps & !if is_sender { flags::RECV | flags::REMOTE_READ | flags::REMOTE_WRITE } else { flags::SEND | flags::READ | flags::WRITE },
        flags: [is_sender, !is_sender].map(|is_its| if is_its { op_flags.filter(|flags| *flags != 0).unwrap_or(own) } else { 0 }),
        format: sep.format,
        told: Some(sep.name),
        is_prefixed: sep.is_prefixed,
        scalable: Some(Arc::clone(sep) as Arc<dyn Whole>),
        connector: None,
        request: core::ptr::null_mut(),
    };
    endpoint::make(sep.endpoint(number)?, &sep.domain, making, to, context)
}

fn within(index: c_int, count: usize) -> Outcome<u8> {
    u8::try_from(index).ok().filter(|index| usize::from(*index) < count).ok_or(error::EINVAL)
}

/// `fi_tx_context`.
unsafe extern "C" fn open_sender(fid: *mut Fid, index: c_int, attr: *const TxAttr, to: *mut *mut EpObject, context: *mut c_void) -> c_int {
    control(|| {
        // SAFETY: F1, F2.
        let (sep, op_flags) = unsafe { (of(fid), attr.as_ref().map(|a| a.op_flags)) };
        open_one(sep, class::TX_CTX, SENDERS_FROM + within(index, sep.senders)?, op_flags, to, context)
    })
}

/// `fi_rx_context`.
unsafe extern "C" fn open_receiver(fid: *mut Fid, index: c_int, attr: *const RxAttr, to: *mut *mut EpObject, context: *mut c_void) -> c_int {
    control(|| {
        // SAFETY: F1, F2.
        let (sep, op_flags) = unsafe { (of(fid), attr.as_ref().map(|a| a.op_flags)) };
        open_one(sep, class::RX_CTX, within(index, sep.receivers)?, op_flags, to, context)
    })
}
