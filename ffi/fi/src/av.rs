// SPDX-License-Identifier: MIT OR Apache-2.0
//! Address vectors: names of peers by number. Both types give small numbers, in the order of
//! insertion. Those that processes share: `shared_av.rs`.

use crate::abi::{Fid, Outcome, Table, TableRef, class, close_unused, control, error, give, none};
use crate::eq::{AV_COMPLETE, EqObject, EqShared};
use crate::flags;
use crate::format::{Format, copy_address};
use crate::limits::CONTEXT_SHIFT;
use crate::names;
use crate::polled::EpShared;
use crate::resources::domain_of;
use crate::shared_av::{Seen, Written};
use crate::traced::{setup, setup_of};
use bellwire_tag::Name;
use core::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// `struct fi_av_attr`.
#[repr(C)]
pub(crate) struct AvAttr {
    pub kind: c_int,
    pub rx_ctx_bits: c_int,
    pub count: usize,
    pub ep_per_node: usize,
    pub name: *const c_char,
    pub map_addr: *mut c_void,
    pub flags: u64,
}

/// `FI_EVENT`: insertions are told of by the event queue. `FI_SYNC_ERR`: each has a number for how
/// it went.
const EVENT: u64 = flags::COMPLETION;
const SYNC_ERR: u64 = 1 << 58;
/// So many contexts of scalable endpoints can be told apart.
const CONTEXT_BITS_MAX: c_int = 7;
/// `FI_AV_TABLE`.
const TABLE: c_int = 2;
/// A vector with more numbers than this gives out those again that were removed: before, who uses
/// one by mistake is told so.
const REUSED_FROM: usize = 1 << 12;

/// Where names are beside in this process.
#[derive(Default)]
enum Kept {
    #[default]
    Here,
    /// In a vector that others read.
    Written(Written),
    /// In another process's.
    Seen(Seen),
}

#[derive(Default)]
struct Names {
    names: Vec<Option<Name>>,
    /// Numbers that were removed.
    free: Vec<usize>,
    endpoints: Vec<Arc<EpShared>>,
    kept: Kept,
}

#[derive(Default)]
pub(crate) struct AvShared {
    names: Mutex<Names>,
    format: Format,
    /// So many of a number's highest bits say which context of a scalable endpoint is meant.
    context_bits: u32,
}

/// The numbers by which an endpoint knows a name's contexts.
fn contexts(at: u64, bits: u32) -> impl Iterator<Item = (u64, u8)> {
    (0..1u8 << bits).map(move |context| (at | u64::from(context) << CONTEXT_SHIFT, context))
}

impl AvShared {
    fn lock(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn context_bits(&self) -> u32 {
        self.context_bits
    }

    /// An endpoint knows this name from now on. `false`: its number is too large.
    fn teach(&self, ep: &EpShared, at: u64, name: Name) -> bool {
        if self.context_bits == 0 {
            return ep.endpoint.learn(at, name);
        }
        at >> CONTEXT_SHIFT == 0 && contexts(at, self.context_bits).all(|(number, context)| ep.endpoint.learn(number, name.with_context(context)))
    }

    /// Looks for names that another process has put into the vector. `false`: there are no new
    /// ones.
    #[cold]
    pub(crate) fn learn_more(&self) -> bool {
        let mut names = self.lock();
        let Kept::Seen(seen) = &names.kept else { return false };
        let known = names.names.len();
        let more = seen.names_from(known);
        for (i, name) in more.iter().enumerate() {
            for ep in &names.endpoints {
                name.iter().for_each(|name| {
                    self.teach(ep, (known + i) as u64, *name);
                });
            }
        }
        let has_more = !more.is_empty();
        names.names.extend(more);
        has_more
    }

    /// An endpoint knows these names from now on.
    pub(crate) fn bind(&self, ep: &Arc<EpShared>) {
        let mut names = self.lock();
        for (at, name) in names.names.iter().enumerate() {
            if let Some(name) = name {
                self.teach(ep, at as u64, *name);
            }
        }
        names.endpoints.push(Arc::clone(ep));
    }

    pub(crate) fn unbind(&self, ep: &Arc<EpShared>) {
        self.lock().endpoints.retain(|e| !Arc::ptr_eq(e, ep));
    }
}

/// `struct fid_av`, and ours behind it.
#[repr(C)]
pub(crate) struct AvObject {
    fid: Fid,
    ops: TableRef,
    pub shared: Arc<AvShared>,
    eq: Option<Arc<EqShared>>,
    is_async: bool,
}

static FID: Table<6> = Table::new([close as *const (), bind as *const (), none as *const (), none as *const (), none as *const (), none as *const ()]);
static OPS: Table<7> = Table::new([
    insert as *const (),
    insert_service as *const (),
    insert_services as *const (),
    remove as *const (),
    lookup as *const (),
    straddr as *const (),
    none as *const (),
]);

/// `fi_av_open`.
pub(crate) unsafe extern "C" fn open(domain: *mut Fid, attr: *mut AvAttr, to: *mut *mut AvObject, context: *mut c_void) -> c_int {
    setup("fi_av_open", [0; 2], || {
        // SAFETY: F2.
        let attr = unsafe { attr.as_mut() }.ok_or(error::EINVAL)?;
        // FI_SYMMETRIC says something of the addresses that is not needed.
        if attr.flags & !(EVENT | flags::READ | 1 << 59) != 0 {
            return Err(error::BAD_FLAGS);
        }
        if !(0..=CONTEXT_BITS_MAX).contains(&attr.rx_ctx_bits) || !(0..=2).contains(&attr.kind) {
            return Err(error::ENOSYS);
        }
        if attr.kind == 0 {
            attr.kind = TABLE;
        }
        // SAFETY: F2: a string, or NULL.
        let name = if attr.name.is_null() { None } else { Some(unsafe { CStr::from_ptr(attr.name) }.to_bytes()) };
        let kept = match name {
            None if attr.flags & flags::READ != 0 => return Err(error::EINVAL),
            None => Kept::Here,
            Some(name) if attr.flags & flags::READ != 0 => Kept::Seen(Seen::open(name)?),
            Some(name) => Kept::Written(Written::create(name, attr.count)?),
        };
        match &kept {
            Kept::Here => {}
            Kept::Written(written) => attr.map_addr = written.numbers(),
            Kept::Seen(seen) => attr.map_addr = seen.numbers(),
        }
        // SAFETY: F1.
        let format = unsafe { domain_of(domain) }.format;
        let shared = AvShared { names: Mutex::new(Names { kept, ..Names::default() }), format, context_bits: attr.rx_ctx_bits as u32 };
        shared.learn_more();
        let fid = Fid { class: class::AV, context, ops: TableRef::to(&FID) };
        give(AvObject { fid, ops: TableRef::to(&OPS), shared: Arc::new(shared), eq: None, is_async: attr.flags & EVENT != 0 }, to)
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    // SAFETY: F1.
    control(|| unsafe { close_unused(fid, |av: &AvObject| &av.shared) })
}

unsafe extern "C" fn bind(fid: *mut Fid, to: *mut Fid, flags: u64) -> c_int {
    control(|| {
        // SAFETY: F1.
        let (av, to) = unsafe { (&mut *fid.cast::<AvObject>(), to.as_mut()) };
        let to = to.filter(|to| to.class == class::EQ).ok_or(error::EINVAL)?;
        if flags != 0 {
            return Err(error::BAD_FLAGS);
        }
        // SAFETY: F1: its class says that it is an event queue.
        av.eq = Some(Arc::clone(unsafe { &(*core::ptr::from_mut(to).cast::<EqObject>()).shared }));
        Ok(())
    })
}

/// # Safety
/// F1.
unsafe fn of<'a>(fid: *mut Fid) -> &'a AvObject {
    // SAFETY: the caller's.
    unsafe { &*fid.cast::<AvObject>() }
}

impl AvObject {
    fn insert_one(&self, names: &mut Names, name: Name) -> Outcome<u64> {
        let free = if names.names.len() > REUSED_FROM { names.free.last().copied() } else { None };
        let at = free.unwrap_or(names.names.len());
        if let Kept::Seen(_) = names.kept {
            return Err(error::EACCES);
        }
        if !names.endpoints.iter().all(|ep| self.shared.teach(ep, at as u64, name)) {
            return Err(error::ENOMEM);
        }
        if let Kept::Written(written) = &names.kept {
            written.set(at, Some(&name))?;
        }
        if free.is_some() {
            names.free.pop();
            names.names[at] = Some(name);
        } else {
            names.names.push(Some(name));
        }
        Ok(at as u64)
    }
}

unsafe extern "C" fn insert(fid: *mut Fid, from: *const u8, count: usize, to: *mut u64, flags: u64, context: *mut c_void) -> c_int {
    if from.is_null() && count != 0 {
        return -error::EINVAL;
    }
    // SAFETY: F1.
    let format = unsafe { of(fid) }.shared.format;
    // SAFETY: F2: `count` addresses of the format.
    let names = (0..count).map(|i| unsafe { format.read(from.add(i * format.bytes())) });
    // SAFETY: F1, F2.
    setup_of("fi_av_insert", [fid.addr(), count], || unsafe { insert_names(fid, names, to, flags, context) })
}

/// Inserts names, or says of each that it is none.
///
/// # Safety
/// F1, F2, with as many numbers as names.
unsafe fn insert_names(fid: *mut Fid, from: impl Iterator<Item = Option<Name>>, to: *mut u64, flags: u64, context: *mut c_void) -> c_int {
    let mut inserted = 0;
    let outcome = control(|| {
        // SAFETY: F1.
        let av = unsafe { of(fid) };
        if flags & !(flags::MORE | SYNC_ERR) != 0 {
            return Err(error::BAD_FLAGS);
        }
        if (flags & SYNC_ERR != 0 && context.is_null()) || (av.is_async && av.eq.is_none()) {
            return Err(error::EINVAL);
        }
        let mut names = av.shared.lock();
        for (i, name) in from.enumerate() {
            let added = name.ok_or(error::EINVAL).and_then(|name| av.insert_one(&mut names, name));
            inserted += c_int::from(added.is_ok());
            // SAFETY: F2: room for as many numbers of either kind.
            unsafe {
                if !to.is_null() {
                    *to.add(i) = added.unwrap_or(flags::ADDR_NONE);
                }
                if flags & SYNC_ERR != 0 {
                    *context.cast::<c_int>().add(i) = added.err().unwrap_or(0);
                }
            }
            if let (Err(code), Some(eq), true) = (added, &av.eq, av.is_async) {
                eq.tell_failure(fid, context, i as u64, code);
            }
        }
        drop(names);
        if let Some(eq) = av.eq.as_ref().filter(|_| av.is_async) {
            eq.tell(AV_COMPLETE, fid, context, inserted as u64);
            // How many is for the event to say.
            inserted = 0;
        }
        Ok(())
    });
    if outcome == 0 { inserted } else { outcome }
}

unsafe extern "C" fn insert_service(fid: *mut Fid, node: *const c_char, service: *const c_char, to: *mut u64, flags: u64, context: *mut c_void) -> c_int {
    // SAFETY: F1, F2.
    unsafe { insert_services(fid, node, 1, service, 1, to, flags, context) }
}

/// So many nodes from this one on, and of each so many services from this one on.
unsafe extern "C" fn insert_services(
    fid: *mut Fid,
    node: *const c_char,
    nodes: usize,
    service: *const c_char,
    services: usize,
    to: *mut u64,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    let mut inserted = 0;
    let outcome = control(|| {
        // SAFETY: F2.
        let all = unsafe { names::range(node, nodes, service, services) }?;
        // SAFETY: F1, F2.
        inserted = unsafe { insert_names(fid, all, to, flags, context) };
        Ok(())
    });
    if outcome == 0 { inserted } else { outcome }
}

unsafe extern "C" fn remove(fid: *mut Fid, which: *const u64, count: usize, flags: u64) -> c_int {
    control(|| {
        if flags != 0 {
            return Err(error::BAD_FLAGS);
        }
        if which.is_null() && count != 0 {
            return Err(error::EINVAL);
        }
        // SAFETY: F1.
        let av = &unsafe { of(fid) }.shared;
        let mut names = av.lock();
        let names = &mut *names;
        if let Kept::Seen(_) = names.kept {
            return Err(error::EACCES);
        }
        for i in 0..count {
            // SAFETY: F2.
            let address = unsafe { *which.add(i) };
            let slot = names.names.get_mut(address as usize).filter(|n| n.is_some()).ok_or(error::EINVAL)?;
            *slot = None;
            names.free.push(address as usize);
            if let Kept::Written(written) = &names.kept {
                written.set(address as usize, None)?;
            }
            for (number, _) in contexts(address, av.context_bits) {
                names.endpoints.iter().for_each(|ep| ep.endpoint.forget(number));
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn lookup(fid: *mut Fid, address: u64, to: *mut u8, length: *mut usize) -> c_int {
    control(|| {
        // SAFETY: F1.
        let av = &unsafe { of(fid) }.shared;
        if av.lock().names.len() as u64 <= address {
            av.learn_more();
        }
        let name = av.lock().names.get(address as usize).copied().flatten().ok_or(error::EINVAL)?;
        // SAFETY: F2.
        unsafe { copy_address(&av.format.write(&name), to, length) }
    })
}

unsafe extern "C" fn straddr(fid: *mut Fid, address: *const u8, to: *mut c_char, length: *mut usize) -> *const c_char {
    let _ = control(|| {
        if address.is_null() || to.is_null() || length.is_null() {
            return Err(error::EINVAL);
        }
        // SAFETY: F1, F2.
        let text = unsafe { of(fid).shared.format.text(address) };
        // SAFETY: F2.
        let room = unsafe { core::mem::replace(&mut *length, text.len() + 1) };
        if room != 0 {
            let n = text.len().min(room - 1);
            // SAFETY: F2: `room` bytes.
            unsafe {
                core::ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), n);
                *to.add(n) = 0;
            }
        }
        Ok(())
    });
    to
}
