// SPDX-License-Identifier: MIT OR Apache-2.0
//! How endpoints are opened, with which names, and enabled.

use crate::abi::{Fid, Outcome, class, control, error};
use crate::attributes::Info;
use crate::bound::{Addressing, Counted};
use crate::cm::{self, Connector};
use crate::endpoint::{EpObject, Making, make};
use crate::format::Format;
use crate::{domain, flags, hints, message, names, passive, progress};
use bellwire_tag::{Endpoint, Name, OpenError, SharedRegions};
use bellwire_via::nic::NicConfig;
use core::ffi::{c_int, c_void};

/// `fi_endpoint`.
pub(crate) unsafe extern "C" fn open(domain: *mut Fid, info: *const Info, to: *mut *mut EpObject, context: *mut c_void) -> c_int {
    control(|| {
        // SAFETY: F2.
        let info = unsafe { info.as_ref() }.ok_or(error::EINVAL)?;
        // SAFETY: F2.
        let (ep, tx, rx) = unsafe { (info.ep_attr.as_ref(), info.tx_attr.as_ref(), info.rx_attr.as_ref()) };
        let kind = ep.map_or(0, |a| a.kind);
        if !matches!(kind, 0 | hints::RDM | hints::MSG_KIND | hints::DGRAM) {
            return Err(error::EINVAL);
        }
        let is_pair = kind == hints::MSG_KIND;
        // What a handle says: nothing, the request that this is to accept, or an endpoint that waits for requests, whose name this one takes over.
        let is_request = is_pair && cm::is_request(info.handle);
        // SAFETY: F1.
        let given = if is_request || !is_pair { None } else { unsafe { passive::give_up(info.handle) } };
        if !info.handle.is_null() && !is_request && given.is_none() {
            return Err(error::EINVAL);
        }
        // SAFETY: F1.
        let domain = unsafe { domain::domain_of(domain) };
        let format = Format::of_answer(info.addr_format);
        let id = match given {
            Some(name) => name.id(),
            None if is_request => None,
            // SAFETY: F2.
            None => unsafe { names::wanted_id(info) }?,
        };
        let endpoint = open_named(&domain.regions, id, format)?;
        if is_pair {
            endpoint.take_known_only();
        }
        let is_prefixed = info.mode & flags::MSG_PREFIX != 0;
        let making = Making {
            class: class::EP,
            calls: message::calls_of(class::EP, is_prefixed),
            caps: info.caps,
            flags: [tx.map_or(0, |a| a.op_flags), rx.map_or(0, |a| a.op_flags)],
            format,
            // As with sockets, who accepts has the address that was asked.
            // SAFETY: F2.
            told: if is_request && format != Format::Name { unsafe { names::source_of(info) } } else { None },
            is_prefixed,
            scalable: None,
            connector: is_pair.then(|| Connector::new(None)),
            request: if is_request { info.handle } else { core::ptr::null_mut() },
        };
        make(endpoint, domain, making, to, context)
    })
}

/// An endpoint of the name that was asked for; if another has it, of a name of its own, as `fi_getname` then says.
pub(crate) fn open_named(regions: &SharedRegions, id: Option<[u8; 16]>, format: Format) -> Outcome<Endpoint> {
    let config = NicConfig::from_env().map_err(|e| complain(&e, error::EINVAL))?;
    let own = |config| if format == Format::Name { Endpoint::open(config, None, regions.clone()) } else { open_service(config, regions) };
    let opened = match id {
        Some(_) => match Endpoint::open(config.clone(), id, regions.clone()) {
            Err(OpenError::InUse) => own(config),
            opened => opened,
        },
        None => own(config),
    };
    opened.map_err(|e| complain(&e, error::ENOMEM))
}

/// Services that nobody asks for by number.
const FREE_SERVICES: core::ops::Range<u16> = 32768..61000;
/// How many of them are tried.
const TRIES: u32 = 1000;

/// An endpoint that is some service of its host: addresses of sockets have room for no other names.
fn open_service(config: NicConfig, regions: &SharedRegions) -> Result<Endpoint, OpenError> {
    for _ in 0..TRIES {
        let mut number = [0; 2];
        // SAFETY: `number` has as many bytes as the call is told.
        if unsafe { libc::getrandom(number.as_mut_ptr().cast(), number.len(), 0) } != number.len() as isize {
            return Err(OpenError::Random);
        }
        let service = FREE_SERVICES.start + u16::from_ne_bytes(number) % (FREE_SERVICES.end - FREE_SERVICES.start);
        let id = Name::of_service(&config.host, service).and_then(|name| name.id());
        match Endpoint::open(config.clone(), id, regions.clone()) {
            Err(OpenError::InUse) => {}
            opened => return opened,
        }
    }
    Err(OpenError::InUse)
}

/// One of several endpoints that have an id together.
pub(crate) fn open_context(config: NicConfig, regions: &SharedRegions, id: Option<[u8; 16]>, number: u8) -> Outcome<Endpoint> {
    match Endpoint::open_context(config, id, number, regions.clone()) {
        Err(OpenError::InUse) => Err(error::EBUSY),
        opened => opened.map_err(|e| complain(&e, error::ENOMEM)),
    }
}

/// Says why an endpoint cannot be: a number alone would not.
pub(crate) fn complain(why: &dyn core::fmt::Display, number: c_int) -> c_int {
    // One write: the ranks of a job fail together, and would mix their pieces.
    let line = format!("bellwire: no endpoint: {why}\n");
    eprint!("{line}");
    number
}

/// `fi_endpoint2`.
pub(crate) unsafe extern "C" fn open2(domain: *mut Fid, info: *const Info, to: *mut *mut EpObject, flags: u64, context: *mut c_void) -> c_int {
    if flags != 0 {
        return -error::BAD_FLAGS;
    }
    // SAFETY: F1, F2.
    unsafe { open(domain, info, to, context) }
}

/// `FI_ENABLE`.
pub(crate) fn enable(ep: &EpObject) -> Outcome {
    let mut bindings = ep.binding().clone();
    bindings.av = bindings.av.or_else(|| ep.scalable.as_ref()?.av());
    bindings.addressing = match &bindings.av {
        _ if ep.shared.connector.is_some() => Addressing::Pair,
        Some(av) if av.context_bits() != 0 => Addressing::Contexts(av.context_bits()),
        _ => Addressing::Plain,
    };
    if bindings.av.is_none() && ep.shared.connector.is_none() {
        return Err(error::NO_AV);
    }
    let sends = ep.caps & hints::PRIMARY != 0 && ep.caps & (flags::SEND | flags::READ | flags::WRITE) != 0;
    let receives = ep.caps & (flags::MSG | flags::TAGGED) != 0 && ep.caps & flags::RECV != 0;
    let counted = |which: &[Counted]| which.iter().any(|w| bindings.counters[*w as usize].is_some());
    let has_tx = bindings.tx.is_some() || counted(&[Counted::Send, Counted::Read, Counted::Write]);
    let has_rx = bindings.rx.is_some() || counted(&[Counted::Receive]);
    // Who only serves remote memory needs no queue for messages.
    let serves = ep.caps & (flags::RMA | flags::ATOMIC) != 0;
    if (sends && !has_tx) || (receives && !serves && !has_rx) {
        return Err(error::NO_CQ);
    }
    // Whom a connected endpoint reaches, its connection says.
    if let Some(av) = bindings.av.as_ref().filter(|_| ep.shared.connector.is_none()) {
        av.bind(&ep.shared);
    }
    let queues = || bindings.tx.iter().chain(&bindings.rx);
    queues().for_each(|cq| cq.bind(&ep.shared));
    // Who reads the queue of one context waits for what another sends.
    let is_automatic = ep.shared.domain.is_automatic || ep.scalable.is_some() || queues().any(|cq| cq.has_descriptor());
    let is_automatic = is_automatic || ep.shared.connector.as_ref().and_then(Connector::eq).is_some_and(|eq| eq.has_descriptor());
    if ep.shared.bindings.set(bindings.clone()).is_err() {
        return Err(error::BAD_STATE);
    }
    let serves = ep.shared.domain.add(&ep.shared);
    bindings.receives.iter().for_each(|receives| receives.add(&ep.shared));
    if (is_automatic || serves) && !progress::start(&ep.shared) {
        return Err(error::ENOMEM);
    }
    Ok(())
}
