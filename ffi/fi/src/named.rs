// SPDX-License-Identifier: MIT OR Apache-2.0
//! Endpoints of the layer below, by the names that were asked for.

use crate::abi::{Outcome, error};
use crate::format::Format;
use bellwire_tag::{Endpoint, Name, OpenError, SharedRegions};
use bellwire_via::nic::NicConfig;
use core::ffi::c_int;

/// An endpoint of the name that was asked for; if another has it, of a name of its own, as
/// `fi_getname` then says.
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
