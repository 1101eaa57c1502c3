// SPDX-License-Identifier: MIT OR Apache-2.0
//! Endpoints: their objects, binding, closing; and what the calls for data begin with. How they are
//! opened and enabled: `opening.rs`.

use crate::abi::{Fid, Outcome, Table, TableRef, class, command, control, data, error, give, none};
use crate::av::AvObject;
use crate::cm::{Connector, Ear};
use crate::counter::CounterObject;
use crate::cq::CqObject;
use crate::enabling::enable;
use crate::eq::EqObject;
use crate::format::{Format, copy_address};
use crate::limits::{PREFIX_BYTES, QUEUE_SIZE};
use crate::message::Calls;
use crate::object::{EpObject, Whole, of};
use crate::polled::EpShared;
use crate::resources::DomainShared;
use crate::shared::ReceiveObject;
use crate::traced::setup;
use crate::{flags, options, pair};
use bellwire_memory::atomic::Ordering;
use bellwire_tag::{Counted, Endpoint, Name};
use core::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, OnceLock};

static FID: Table<6> = Table::new([close as *const (), bind as *const (), control_call as *const (), none as *const (), none as *const (), none as *const ()]);
static OPS: Table<7> = Table::new([
    cancel as *const (),
    options::getopt as *const (),
    options::setopt as *const (),
    none as *const (),
    none as *const (),
    size_left as *const (),
    size_left as *const (),
]);
static CM: Table<9> = Table::new([
    none as *const (),
    getname as *const (),
    pair::getpeer as *const (),
    pair::connect as *const (),
    none as *const (),
    pair::accept as *const (),
    none as *const (),
    pair::shutdown as *const (),
    none as *const (),
]);

/// What an object that sends or receives is to be.
pub(crate) struct Making {
    pub class: usize,
    pub calls: Calls,
    pub caps: u64,
    /// What calls without flags take: sends and the like, receives.
    pub flags: [u64; 2],
    pub format: Format,
    /// What it says that its name is, if not its own.
    pub told: Option<Name>,
    /// Buffers of messages begin with a prefix.
    pub is_prefixed: bool,
    /// Of which it is a context.
    pub scalable: Option<Arc<dyn Whole>>,
    pub connector: Option<Arc<Connector>>,
    /// The request that it is to accept.
    pub request: *mut Fid,
}

/// Makes the object of an endpoint.
pub(crate) fn make(endpoint: Endpoint, domain: &Arc<DomainShared>, m: Making, to: *mut *mut EpObject, context: *mut c_void) -> Outcome {
    let prefix = if m.is_prefixed { PREFIX_BYTES } else { 0 };
    if let Some(connector) = &m.connector {
        endpoint.listen(Box::new(Ear(Arc::clone(connector))));
    }
    let shared = Arc::new(EpShared::new(endpoint, &domain.triggers, prefix));
    let object = EpObject {
        fid: Fid { class: m.class, context, ops: TableRef::to(&FID) },
        ops: TableRef::to(&OPS),
        cm: TableRef::to(&CM),
        msg: m.calls.messages,
        rma: m.calls.rma,
        tagged: m.calls.tagged,
        atomic: m.calls.atomic,
        collective: TableRef::NONE,
        shared,
        bound: Arc::new(OnceLock::new()),
        connector: m.connector,
        tx_flags: m.flags[0],
        rx_flags: m.flags[1],
        caps: m.caps,
        format: m.format,
        told: m.told,
        domain: Arc::clone(domain),
        scalable: m.scalable,
        binding: Arc::<Mutex<_>>::default(),
        request: m.request,
        is_alias: false,
    };
    give(object, to)?;
    // SAFETY: `give` has just written it.
    let (object, fid) = unsafe { (&**to, (*to).cast::<Fid>()) };
    object.connector.iter().for_each(|c| c.is_of(fid));
    Ok(())
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    setup("fi_close", [fid.addr(), 0], || {
        // SAFETY: F1.
        let ep = unsafe { of(fid) };
        if ep.is_alias {
            // Relaxed: as in `give_alias`.
            ep.shared.aliases.fetch_sub(1, Ordering::Relaxed);
            ep.domain.triggers.forget(fid.addr());
            // SAFETY: F1.
            unsafe { crate::abi::drop_object::<EpObject>(fid) };
            return Ok(());
        }
        // Relaxed: as above.
        if ep.shared.aliases.load(Ordering::Relaxed) != 0 {
            return Err(error::EBUSY);
        }
        ep.shared.close();
        ep.domain.triggers.forget(fid.addr());
        ep.domain.remove(&ep.shared);
        let b = core::mem::take(&mut *ep.binding());
        b.tx.iter().chain(&b.rx).for_each(|cq| cq.unbind(&ep.shared));
        b.counters.iter().flatten().for_each(|counter| _ = counter.polled.remove(&ep.shared));
        b.av.iter().for_each(|av| av.unbind(&ep.shared));
        b.receives.iter().for_each(|receives| receives.remove(&ep.shared));
        drop(b);
        if let Some(eq) = ep.connector.as_ref().and_then(|c| c.unbind()) {
            eq.polled.remove(&ep.shared);
            eq.forget(fid);
        }
        ep.shared.end();
        // SAFETY: F1.
        unsafe { crate::abi::drop_object::<EpObject>(fid) };
        Ok(())
    })
}

unsafe extern "C" fn bind(fid: *mut Fid, to: *mut Fid, flags: u64) -> c_int {
    setup("fi_ep_bind", [fid.addr(), to.addr()], || {
        // SAFETY: F1.
        let (ep, class) = unsafe { (of(fid), to.as_ref().ok_or(error::EINVAL)?.class) };
        if ep.bound.get().is_some() {
            return Err(error::BAD_STATE);
        }
        let mut b = ep.binding();
        match class {
            class::CQ => {
                if flags & !(flags::SEND | flags::RECV | flags::SELECTIVE_COMPLETION) != 0 || flags & (flags::SEND | flags::RECV) == 0 {
                    return Err(error::BAD_FLAGS);
                }
                // SAFETY: F1: its class says what it is.
                let cq = unsafe { &(*to.cast::<CqObject>()).shared };
                let selective = flags & flags::SELECTIVE_COMPLETION != 0;
                if flags & flags::SEND != 0 {
                    (b.tx, b.tx_selective) = (Some(Arc::clone(cq)), selective);
                }
                if flags & flags::RECV != 0 {
                    (b.rx, b.rx_selective) = (Some(Arc::clone(cq)), selective);
                }
            }
            class::CNTR => {
                // SAFETY: F1: its class says what it is.
                let counter = unsafe { &*to.cast::<CounterObject>() };
                for (flag, which) in COUNTED {
                    if flags & flag != 0 {
                        b.counters[which as usize] = Some(Arc::clone(&counter.shared));
                    }
                }
                counter.shared.polled.add(&ep.shared);
            }
            // SAFETY: F1: its class says what it is.
            class::AV => b.av = Some(Arc::clone(unsafe { &(*to.cast::<AvObject>()).shared })),
            // SAFETY: F1: its class says what it is.
            class::SRX_CTX => b.receives = Some(Arc::clone(unsafe { &(*to.cast::<ReceiveObject>()).shared })),
            class::STX_CTX => {}
            class::EQ => {
                if let Some(connector) = &ep.connector {
                    // SAFETY: F1: its class says what it is.
                    let eq = unsafe { &(*to.cast::<EqObject>()).shared };
                    connector.bind(eq);
                    eq.polled.add(&ep.shared);
                }
            }
            _ => return Err(error::EINVAL),
        }
        Ok(())
    })
}

const COUNTED: [(u64, Counted); 6] = [
    (flags::SEND, Counted::Send),
    (flags::RECV, Counted::Receive),
    (flags::READ, Counted::Read),
    (flags::WRITE, Counted::Write),
    (flags::REMOTE_READ, Counted::RemoteRead),
    (flags::REMOTE_WRITE, Counted::RemoteWrite),
];

/// `struct fi_alias`.
#[repr(C)]
pub(crate) struct Alias {
    pub fid: *mut *mut Fid,
    pub flags: u64,
}

/// `FI_ALIAS`: another object of the same endpoint, whose calls without flags take others.
fn give_alias(ep: &EpObject, alias: &Alias) -> Outcome {
    let flags = alias.flags & !(flags::SEND | flags::RECV);
    let of = |direction: u64, own: u64| if alias.flags & direction != 0 { flags } else { own };
    let object = EpObject {
        fid: Fid { class: class::EP, context: ep.fid.context, ops: ep.fid.ops },
        shared: Arc::clone(&ep.shared),
        bound: Arc::clone(&ep.bound),
        connector: ep.connector.clone(),
        tx_flags: of(flags::SEND, ep.tx_flags),
        rx_flags: of(flags::RECV, ep.rx_flags),
        domain: Arc::clone(&ep.domain),
        scalable: ep.scalable.clone(),
        binding: Arc::clone(&ep.binding),
        request: core::ptr::null_mut(),
        is_alias: true,
        ..*ep
    };
    give(object, alias.fid.cast::<*mut EpObject>())?;
    // Relaxed: only counts; who closes comes after who opens.
    ep.shared.aliases.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// `FI_ENABLE`; the flags that calls without flags take.
unsafe extern "C" fn control_call(fid: *mut Fid, asked: c_int, argument: *mut c_void) -> c_int {
    setup("fi_control", [fid.addr(), asked.unsigned_abs() as usize], || {
        // SAFETY: F1.
        let ep = unsafe { &mut *fid.cast::<EpObject>() };
        match asked {
            command::ENABLE => enable(ep),
            // SAFETY: F2.
            command::ALIAS => give_alias(ep, unsafe { argument.cast::<Alias>().as_mut() }.ok_or(error::EINVAL)?),
            // FI_GETOPSFLAG, FI_SETOPSFLAG: the argument says of which direction.
            command::GETOPSFLAG | command::SETOPSFLAG => {
                // SAFETY: F2.
                let value = unsafe { argument.cast::<u64>().as_mut() }.ok_or(error::EINVAL)?;
                let of = match *value & (flags::SEND | flags::RECV) {
                    flags::SEND => &mut ep.tx_flags,
                    flags::RECV => &mut ep.rx_flags,
                    _ => return Err(error::EINVAL),
                };
                if asked == command::GETOPSFLAG {
                    *value = *of;
                } else {
                    *of = *value & !(flags::SEND | flags::RECV);
                }
                Ok(())
            }
            _ => Err(error::ENOSYS),
        }
    })
}

unsafe extern "C" fn cancel(fid: *mut Fid, context: *mut c_void) -> isize {
    data(|| {
        // SAFETY: F1.
        let ep = &unsafe { of(fid) }.shared;
        if ep.endpoint.cancel(context.expose_provenance()) { Ok(()) } else { Err(libc::ENOENT) }
    })
}

/// How many operations still fit: as many as the queues are said to hold.
unsafe extern "C" fn size_left(_: *mut Fid) -> isize {
    QUEUE_SIZE as isize
}

unsafe extern "C" fn getname(fid: *mut Fid, to: *mut u8, length: *mut usize) -> c_int {
    // SAFETY: F1, F2.
    control(|| unsafe { own_name(of(fid), to, length) })
}

/// # Safety
/// F2.
unsafe fn own_name(ep: &EpObject, to: *mut u8, length: *mut usize) -> Outcome {
    let name = ep.told.unwrap_or_else(|| ep.shared.endpoint.name());
    // SAFETY: the caller's.
    unsafe { copy_address(&ep.format.write(&name), to, length) }
}
