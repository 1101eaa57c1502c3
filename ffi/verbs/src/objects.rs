// SPDX-License-Identifier: MIT OR Apache-2.0
//! Protection domains, memory regions, shared receive queues, address handles.

use crate::abi::{IbvAh, IbvAhAttr, IbvContext, IbvMr, IbvPd, IbvSrq, IbvSrqAttr, IbvSrqInitAttr, IbvSrqInitAttrEx, IbvWc};
use crate::beside::{self, or_real};
use crate::devices::{self, Kind};
use crate::pieces::pieces;
use crate::query::LID;
use crate::types::{Ah, Backing, Cq, Mr, Pd, Srq, Xrcd, context, inside};
use crate::{code, errno_of, object, set_errno};
use bellwire_devices::{Atomics, Device};
use bellwire_trace::call as trace;
use bellwire_verbs::{Access, Error, Gid, Prefetch, Region, Sge, has_on_demand};
use core::ffi::{c_int, c_void};
use std::sync::Arc;

/// Access that is asked for may be optional from this bit on.
const OPTIONAL: u32 = !0 << 20;
pub(crate) const ZERO_BASED: u32 = 1 << 5;
const HUGETLB: u32 = 1 << 7;

/// Makes a protection domain.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_pd(public: *mut IbvContext) -> *mut IbvPd {
    or_real!(public, ibv_alloc_pd(public));
    trace::call("ibv_alloc_pd", [public.addr() as u64, 0], || {
        // SAFETY: V1.
        let (port, own) = unsafe { (Arc::clone(&context(public).port), context(public).own) };
        object(own.count(Kind::Pd).and_then(|counted| {
            let id = port.create_domain()?;
            Ok(Box::new(Pd { public: IbvPd { context: public, handle: id }, port, own, id, is_parent: false, td: None, _counted: counted }))
        }))
        .cast()
    })
}

/// Ends one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dealloc_pd(pd: *mut IbvPd) -> c_int {
    or_real!(pd, ibv_dealloc_pd(pd));
    trace::call("ibv_dealloc_pd", [pd.addr() as u64, 0], || {
        // SAFETY: V1.
        let inner = unsafe { inside::<_, Pd>(pd) };
        let outcome = if inner.is_parent { inner.port.release_domain(inner.id) } else { inner.port.destroy_domain(inner.id) };
        if outcome.is_ok() {
            // SAFETY: V1; it is used no more.
            drop(unsafe { Box::from_raw(pd.cast::<Pd>()) });
        }
        code(outcome)
    })
}

fn register(pd: *mut IbvPd, addr: *mut c_void, length: usize, iova: u64, access: u32) -> *mut IbvMr {
    register_backed(pd, addr, length, iova, access, None)
}

/// Registers memory; its owner, if the program is not, stays until the region ends.
pub(crate) fn register_backed(pd: *mut IbvPd, addr: *mut c_void, length: usize, iova: u64, access: u32, backing: Option<Backing>) -> *mut IbvMr {
    // SAFETY: V1.
    let inner = unsafe { inside::<_, Pd>(pd) };
    let known = Access::all().bits() | ZERO_BASED | HUGETLB | OPTIONAL;
    let on_demand = access & Access::ON_DEMAND.bits() != 0;
    if access & !known != 0 || (on_demand && !has_on_demand()) {
        set_errno(if on_demand { libc::EOPNOTSUPP } else { libc::EINVAL });
        return core::ptr::null_mut();
    }
    if !on_demand && length == usize::MAX {
        set_errno(libc::EINVAL);
        return core::ptr::null_mut();
    }
    let wants_atomics = access & Access::REMOTE_ATOMIC.bits() != 0 && inner.own.device.atomics == Atomics::None;
    // A region on demand of that length is the whole address space.
    let is_too_large = length != usize::MAX && length as u64 > inner.own.device.limits.max_mr_size;
    if wants_atomics || is_too_large {
        set_errno(libc::EINVAL);
        return core::ptr::null_mut();
    }
    let iova = if access & ZERO_BASED != 0 { 0 } else { iova };
    let address = addr.expose_provenance() as u64;
    let region = Region { domain: inner.id, address, length: length as u64, iova, access: Access::from_bits_truncate(access), adopted: None };
    let port = Arc::clone(&inner.port);
    object(inner.own.count(Kind::Mr).and_then(|counted| {
        // SAFETY: R1, which V2 asks of the program.
        let key = unsafe { port.register(&region) }?;
        // SAFETY: V1.
        let context = unsafe { (*pd).context };
        Ok(Box::new(Mr::new(IbvMr { context, pd, addr, length, handle: key, lkey: key, rkey: key }, port, backing, counted)))
    }))
    .cast()
}

/// Registers memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr(pd: *mut IbvPd, addr: *mut c_void, length: usize, access: c_int) -> *mut IbvMr {
    or_real!(pd, ibv_reg_mr(pd, addr, length, access));
    trace::call("ibv_reg_mr", [addr.addr() as u64, length as u64], || register(pd, addr, length, addr as u64, access as u32))
}

/// Registers memory that requests call by other addresses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova(pd: *mut IbvPd, addr: *mut c_void, length: usize, iova: u64, access: c_int) -> *mut IbvMr {
    or_real!(pd, ibv_reg_mr_iova(pd, addr, length, iova, access));
    trace::call("ibv_reg_mr_iova", [addr.addr() as u64, length as u64], || register(pd, addr, length, iova, access as u32))
}

/// The same; unknown optional access is left out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova2(pd: *mut IbvPd, addr: *mut c_void, length: usize, iova: u64, access: u32) -> *mut IbvMr {
    or_real!(pd, ibv_reg_mr_iova2(pd, addr, length, iova, access));
    trace::call("ibv_reg_mr_iova2", [addr.addr() as u64, length as u64], || register(pd, addr, length, iova, access))
}

/// Brings memory of regions on demand in, or not, as the program advises.
pub(crate) unsafe extern "C" fn advise_mr(pd: *mut IbvPd, advice: u32, flags: u32, list: *const Sge, count: u32) -> c_int {
    /// Done when the call returns: it always is.
    const FLUSH: u32 = 1;
    let advice = match advice {
        0 => Prefetch::Read,
        1 => Prefetch::Write,
        2 => Prefetch::IfThere,
        _ => return libc::EOPNOTSUPP,
    };
    if flags & !FLUSH != 0 || (count != 0 && list.is_null()) {
        return libc::EINVAL;
    }
    // SAFETY: V1, V2.
    let (inner, pieces) = unsafe { (inside::<_, Pd>(pd), pieces(list, c_int::try_from(count).unwrap_or(c_int::MAX))) };
    let Ok(pieces) = pieces else { return libc::EINVAL };
    match inner.port.prefetch(inner.id, advice, pieces) {
        // Without the flag it is a wish, whose end nobody hears of.
        Err(Error::Fault) if flags & FLUSH == 0 => 0,
        outcome => code(outcome),
    }
}

/// There is no memory of devices here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_dmabuf_mr(pd: *mut IbvPd, offset: u64, length: usize, iova: u64, fd: c_int, access: c_int) -> *mut IbvMr {
    or_real!(pd, ibv_reg_dmabuf_mr(pd, offset, length, iova, fd, access));
    set_errno(libc::EOPNOTSUPP);
    core::ptr::null_mut()
}

/// Changes a registration: its memory, its protection domain, its access. With other memory it gets
/// new keys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_rereg_mr(mr: *mut IbvMr, flags: c_int, pd: *mut IbvPd, addr: *mut c_void, length: usize, access: c_int) -> c_int {
    or_real!(mr, ibv_rereg_mr(mr, flags, pd, addr, length, access));
    const TRANSLATION: c_int = 1;
    const PD: c_int = 2;
    const ACCESS: c_int = 4;
    /// The old region is valid, the input was not.
    const ERR_INPUT: c_int = -1;
    let known = Access::all().bits() | OPTIONAL;
    let is_wrong = flags & !(TRANSLATION | PD | ACCESS) != 0
        || flags == 0
        || (flags & PD != 0 && pd.is_null())
        || (flags & TRANSLATION != 0 && (addr.is_null() || length == 0))
        || (flags & ACCESS != 0 && access as u32 & !known != 0);
    if is_wrong {
        set_errno(libc::EINVAL);
        return ERR_INPUT;
    }
    // SAFETY: V1.
    let (inner, domain) = unsafe { (inside::<_, Mr>(mr), (flags & PD != 0).then(|| inside::<_, Pd>(pd).id)) };
    let change = |region: &mut Region| {
        if flags & TRANSLATION != 0 {
            region.address = addr.expose_provenance() as u64;
            (region.iova, region.length) = (region.address, length as u64);
        }
        if let Some(domain) = domain {
            region.domain = domain;
        }
        if flags & ACCESS != 0 {
            region.access = Access::from_bits_truncate(access as u32);
        }
    };
    // SAFETY: R1, which V2 asks of the program.
    let again = unsafe { inner.port.register_again(inner.public.lkey, change) };
    match again {
        Ok(key) => {
            // SAFETY: V1.
            unsafe {
                ((*mr).lkey, (*mr).rkey, (*mr).handle) = (key, key, key);
                if flags & TRANSLATION != 0 {
                    ((*mr).addr, (*mr).length) = (addr, length);
                }
                if flags & PD != 0 {
                    (*mr).pd = pd;
                }
            }
            0
        }
        Err(e) => {
            set_errno(errno_of(e));
            ERR_INPUT
        }
    }
}

/// Ends a registration.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dereg_mr(mr: *mut IbvMr) -> c_int {
    or_real!(mr, ibv_dereg_mr(mr));
    trace::call("ibv_dereg_mr", [mr.addr() as u64, 0], || {
        // SAFETY: V1.
        let inner = unsafe { inside::<_, Mr>(mr) };
        let outcome = inner.port.deregister(inner.public.lkey);
        // In the child of a fork only the object is there to be freed.
        if matches!(outcome, Ok(()) | Err(Error::InChild)) {
            // SAFETY: V1; it is used no more.
            drop(unsafe { Box::from_raw(mr.cast::<Mr>()) });
            return 0;
        }
        code(outcome)
    })
}

/// Makes a shared receive queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_srq(pd: *mut IbvPd, init: *mut IbvSrqInitAttr) -> *mut IbvSrq {
    or_real!(pd, ibv_create_srq(pd, init));
    trace::call("ibv_create_srq", [pd.addr() as u64, 0], || {
        // SAFETY: V1, V2.
        unsafe { make_srq(pd, (*init).srq_context, (*init).attr, None) }
    })
}

/// Makes a shared receive queue; `xrc`: for extended reliable connections, of that domain and with
/// that completion queue.
///
/// # Safety
/// V1.
unsafe fn make_srq(pd: *mut IbvPd, srq_context: *mut c_void, attr: IbvSrqAttr, xrc: Option<(u32, u32)>) -> *mut IbvSrq {
    // SAFETY: V1.
    let (inner, context) = unsafe { (inside::<_, Pd>(pd), (*pd).context) };
    let limits = &inner.own.device.limits;
    let is_within = u64::from(attr.max_wr) <= limits.max_srq_wr && u64::from(attr.max_sge) <= limits.max_srq_sge;
    let counted = match inner.own.count(Kind::Srq) {
        Ok(counted) if is_within => counted,
        Ok(_) => {
            set_errno(libc::EINVAL);
            return core::ptr::null_mut();
        }
        Err(e) => {
            set_errno(errno_of(e));
            return core::ptr::null_mut();
        }
    };
    let srq = Box::new(Srq {
        public: IbvSrq { context, srq_context, pd, handle: 0, mutex: [0; 5], cond: [0; 6], events_completed: 0 },
        port: Arc::clone(&inner.port),
        own: inner.own,
        id: 0,
        _counted: counted,
    });
    let made = Box::into_raw(srq);
    let (capacity, pieces, cookie) = (attr.max_wr as usize, attr.max_sge.max(1) as usize, made.expose_provenance() as u64);
    let id = match xrc {
        Some(xrc) => inner.port.create_xrc_srq(inner.id, capacity, pieces, xrc, cookie),
        None => inner.port.create_srq(inner.id, capacity, pieces, 0, cookie),
    };
    match id {
        Ok(id) => {
            // SAFETY: just made.
            unsafe { ((*made).id, (*made).public.handle) = (id, id) };
            made.cast()
        }
        Err(e) => {
            // SAFETY: just made; nobody has it.
            drop(unsafe { Box::from_raw(made) });
            set_errno(errno_of(e));
            core::ptr::null_mut()
        }
    }
}

/// Makes a shared receive queue of the newer interface.
pub(crate) unsafe extern "C" fn create_srq_ex(_context: *mut IbvContext, init: *const IbvSrqInitAttrEx) -> *mut IbvSrq {
    const TYPE: u32 = 1;
    const WITH_PD: u32 = 2;
    const XRCD: u32 = 4;
    const CQ: u32 = 8;
    // SAFETY: V2.
    let a = unsafe { &*init };
    let kind = if a.comp_mask & TYPE == 0 { 0 } else { a.srq_type };
    let has = |mask| a.comp_mask & mask == mask;
    if kind > 1 || a.comp_mask & !(TYPE | WITH_PD | XRCD | CQ) != 0 {
        set_errno(libc::EOPNOTSUPP);
        return core::ptr::null_mut();
    }
    if !has(WITH_PD) || a.pd.is_null() || (kind == 1 && (!has(XRCD | CQ) || a.xrcd.is_null() || a.cq.is_null())) {
        set_errno(libc::EINVAL);
        return core::ptr::null_mut();
    }
    // SAFETY: V1.
    unsafe {
        let xrc = (kind == 1).then(|| (inside::<_, Xrcd>(a.xrcd).id, inside::<_, Cq>(a.cq).id));
        make_srq(a.pd, a.srq_context, a.attr, xrc)
    }
}

/// The number by which senders of extended reliable connections name a shared receive queue.
pub(crate) unsafe extern "C" fn get_srq_num(srq: *mut IbvSrq, to: *mut u32) -> c_int {
    // SAFETY: V1.
    let inner = unsafe { inside::<_, Srq>(srq) };
    match inner.port.srq_number(inner.id) {
        Ok(number) => {
            // SAFETY: V2.
            unsafe { to.write(number) };
            0
        }
        Err(e) => errno_of(e),
    }
}

/// Changes the length, the limit, or both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_srq(srq: *mut IbvSrq, attr: *const IbvSrqAttr, mask: c_int) -> c_int {
    or_real!(srq, ibv_modify_srq(srq, attr, mask));
    const MAX_WR: c_int = 1;
    const LIMIT: c_int = 2;
    if mask & !(MAX_WR | LIMIT) != 0 {
        return libc::EINVAL;
    }
    // SAFETY: V1, V2.
    let (inner, length, limit) = unsafe { (inside::<_, Srq>(srq), (*attr).max_wr, (*attr).srq_limit) };
    if mask & MAX_WR != 0 {
        if u64::from(length) > inner.own.device.limits.max_srq_wr {
            return libc::EINVAL;
        }
        if let Err(e) = inner.port.resize_srq(inner.id, length as usize) {
            return errno_of(e);
        }
    }
    if mask & LIMIT == 0 { 0 } else { code(inner.port.set_srq_limit(inner.id, limit as usize)) }
}

/// What a shared receive queue is like.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_srq(srq: *mut IbvSrq, to: *mut IbvSrqAttr) -> c_int {
    or_real!(srq, ibv_query_srq(srq, to));
    // SAFETY: V1.
    let inner = unsafe { inside::<_, Srq>(srq) };
    match inner.port.query_srq(inner.id) {
        Ok((wr, sge, limit)) => {
            // SAFETY: V2.
            unsafe { to.write(IbvSrqAttr { max_wr: wr as u32, max_sge: sge as u32, srq_limit: limit as u32 }) };
            0
        }
        Err(e) => errno_of(e),
    }
}

/// Ends one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_srq(srq: *mut IbvSrq) -> c_int {
    or_real!(srq, ibv_destroy_srq(srq));
    trace::call("ibv_destroy_srq", [srq.addr() as u64, 0], || {
        // SAFETY: V1.
        let inner = unsafe { inside::<_, Srq>(srq) };
        let outcome = inner.port.destroy_srq(inner.id);
        if outcome.is_ok() {
            inner.port.events().discard(|e| e.cookie == srq.addr() as u64);
            // SAFETY: V1; it is used no more.
            drop(unsafe { Box::from_raw(srq.cast::<Srq>()) });
        }
        code(outcome)
    })
}

/// The address that attributes name; `None`: the device's own. An error: they name none, or an
/// entry of the table of addresses that the device does not have.
pub(crate) fn address(attr: &IbvAhAttr, device: &Device) -> Result<Option<Gid>, Error> {
    if attr.is_global == 0 {
        // Without a GID there is only this host: by its LID, or by none at all.
        return if matches!(attr.dlid, 0 | LID) { Ok(None) } else { Err(Error::Invalid) };
    }
    if attr.sgid_index >= device.gids {
        return Err(Error::Invalid);
    }
    let mut gid = [0; 16];
    gid[..8].copy_from_slice(&attr.dgid[0].to_ne_bytes());
    gid[8..].copy_from_slice(&attr.dgid[1].to_ne_bytes());
    Ok(Some(gid))
}

/// Makes an address handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah(pd: *mut IbvPd, attr: *mut IbvAhAttr) -> *mut IbvAh {
    or_real!(pd, ibv_create_ah(pd, attr));
    trace::call("ibv_create_ah", [pd.addr() as u64, 0], || {
        // SAFETY: V1, V2.
        let (context, attr) = unsafe { ((*pd).context, &*attr) };
        // Ethernet has no addresses but GIDs. Programs that make a handle from the port's LID reach
        // this host.
        let names_one = attr.is_global != 0 || attr.dlid == LID;
        // SAFETY: V1.
        let own = unsafe { inside::<_, Pd>(pd) }.own;
        let gid = address(attr, &own.device).and_then(|gid| if attr.port_num == 1 && names_one { Ok(gid) } else { Err(Error::Invalid) });
        let made = gid.and_then(|gid| Ok(Box::new(Ah { public: IbvAh { context, pd, handle: 0 }, gid, _counted: own.count(Kind::Ah)? })));
        object(made).cast()
    })
}

/// Says where the sender of a message is: its GID stands in front of the data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_init_ah_from_wc(context: *mut IbvContext, port: u8, wc: *mut IbvWc, grh: *const [u8; 40], to: *mut IbvAhAttr) -> c_int {
    or_real!(context, ibv_init_ah_from_wc(context, port, wc, grh, to));
    // SAFETY: V2.
    let has_route = unsafe { (*wc).wc_flags & 1 != 0 };
    if !has_route || grh.is_null() {
        set_errno(libc::EINVAL);
        return -1;
    }
    // SAFETY: V2.
    let route = unsafe { *grh };
    let half = |at: usize| u64::from_ne_bytes(route[at..at + 8].try_into().unwrap_or_default());
    let attr = IbvAhAttr { dgid: [half(8), half(16)], hop_limit: 64, is_global: 1, port_num: port, ..IbvAhAttr::default() };
    // SAFETY: V2.
    unsafe { to.write(attr) };
    0
}

/// An address handle to the sender of a message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah_from_wc(pd: *mut IbvPd, wc: *mut IbvWc, grh: *const [u8; 40], port: u8) -> *mut IbvAh {
    or_real!(pd, ibv_create_ah_from_wc(pd, wc, grh, port));
    let mut attr = IbvAhAttr::default();
    // SAFETY: the caller's.
    unsafe {
        if ibv_init_ah_from_wc((*pd).context, port, wc, grh, &raw mut attr) != 0 {
            return core::ptr::null_mut();
        }
        ibv_create_ah(pd, &raw mut attr)
    }
}

/// Ends one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_ah(ah: *mut IbvAh) -> c_int {
    or_real!(ah, ibv_destroy_ah(ah));
    // SAFETY: V1; it is used no more.
    drop(unsafe { Box::from_raw(ah.cast::<Ah>()) });
    0
}

/// The hardware address behind a GID: there is none, one is made of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_resolve_eth_l2_from_gid(context: *mut IbvContext, attr: *mut IbvAhAttr, mac: *mut [u8; 6], vid: *mut u16) -> c_int {
    or_real!(context, ibv_resolve_eth_l2_from_gid(context, attr, mac, vid));
    // SAFETY: V2.
    unsafe {
        let tail = (*attr).dgid[1].to_ne_bytes();
        mac.write([2, 0, tail[4], tail[5], tail[6], tail[7]]);
        if !vid.is_null() {
            vid.write(0xffff);
        }
    }
    0
}

/// Fork needs nothing: registered memory is reached by copies, which copy-on-write does not disturb.
/// A real device may need it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_fork_init() -> c_int {
    if devices::shows_real() { beside::real!(ibv_fork_init()) } else { 0 }
}

/// Whether forks are prepared for: they need nothing (`IBV_FORK_UNNEEDED`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_is_fork_initialized() -> c_int {
    const UNNEEDED: c_int = 2;
    if devices::shows_real() { beside::real!(ibv_is_fork_initialized()) } else { UNNEEDED }
}

/// Needs nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dontfork_range(base: *mut c_void, size: usize) -> c_int {
    if devices::shows_real() { beside::real!(ibv_dontfork_range(base, size)) } else { 0 }
}

/// Needs nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dofork_range(base: *mut c_void, size: usize) -> c_int {
    if devices::shows_real() { beside::real!(ibv_dofork_range(base, size)) } else { 0 }
}
