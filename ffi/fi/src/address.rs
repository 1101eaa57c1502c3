// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of endpoints before there are endpoints: by host and service, or one of nobody else's.
//!
//! `fi_getinfo` says where an endpoint will be found that is opened with its answer. Who gives a service gets a name that follows from it, so that others can work it out; else the name is random.

use crate::abi::{Outcome, error};
use bellwire_tag::{NAME_BYTES, Name};
use bellwire_via::nic::NicConfig;
use core::ffi::{CStr, c_char};
use std::collections::BTreeMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, PoisonError};

/// Begins the ids of names that follow from a service.
const SERVICE: [u8; 8] = *b"service\0";

/// Ids that endpoints of this process have been opened with. Those that follow from a service are kept from other processes by a socket of that name, which ends with us.
static TAKEN: Mutex<BTreeMap<[u8; 16], Option<UnixDatagram>>> = Mutex::new(BTreeMap::new());

/// A string, if there is one.
///
/// # Safety
/// F2.
unsafe fn text<'a>(at: *const c_char) -> Outcome<Option<&'a str>> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: F2.
    unsafe { CStr::from_ptr(at) }.to_str().map(Some).map_err(|_| error::ENODATA)
}

/// A random id.
fn random() -> Outcome<[u8; 16]> {
    let mut id = [0; 16];
    // SAFETY: the array has as many bytes.
    let n = unsafe { libc::getrandom(id.as_mut_ptr().cast(), id.len(), 0) };
    if n == id.len() as isize { Ok(id) } else { Err(error::ENOMEM) }
}

/// The id that follows from a service: its number, or its text.
fn of_service(service: &str) -> [u8; 16] {
    let number =
        service.parse::<u64>().unwrap_or_else(|_| service.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)));
    let mut id = [0; 16];
    id[..8].copy_from_slice(&SERVICE);
    id[8..].copy_from_slice(&number.to_be_bytes());
    id
}

/// The host address of an endpoint of this process.
fn own_host() -> Vec<u8> {
    NicConfig::from_env().map_or_else(|_| NicConfig::default().host, |config| config.host)
}

/// The host address of a node.
fn host_of(node: &str) -> Outcome<Vec<u8>> {
    let found = (node, 0).to_socket_addrs().map_err(|_| error::ENODATA)?.collect::<Vec<_>>();
    let of = found.iter().find(|a| a.is_ipv4()).or(found.first()).ok_or(error::ENODATA)?;
    Ok(match of.ip() {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    })
}

/// The name that an endpoint opened with an answer will have.
///
/// # Safety
/// F2.
pub(crate) unsafe fn source(service: *const c_char) -> Outcome<Name> {
    // SAFETY: the caller's.
    let id = match unsafe { text(service) }? {
        Some(service) => of_service(service),
        None => random()?,
    };
    Name::new(&own_host(), id).ok_or(error::ENODATA)
}

/// The name of whoever is at a service of a node.
///
/// # Safety
/// F2.
pub(crate) unsafe fn destination(node: *const c_char, service: *const c_char) -> Outcome<Name> {
    // SAFETY: the caller's.
    let (node, service) = unsafe { (text(node)?, text(service)?) };
    let host = node.map_or_else(|| Ok(own_host()), host_of)?;
    Name::new(&host, service.map_or([0; 16], of_service)).ok_or(error::ENODATA)
}

/// Keeps a service's id from others. `None`: somebody has it.
fn keep(id: &[u8; 16]) -> Option<UnixDatagram> {
    let name = format!("bellwire/fi/{}", id.iter().map(|b| format!("{b:02x}")).collect::<String>());
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name).ok()?).ok()
}

/// The id for an endpoint that is opened with a source address: its own, unless another endpoint has that: then a random one.
pub(crate) fn claim(source: &[u8; NAME_BYTES]) -> Outcome<[u8; 16]> {
    let mut id = Name::from_bytes(source).ok_or(error::EINVAL)?.id();
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_service = id[..8] == SERVICE;
    let kept = if is_service { keep(&id) } else { None };
    if taken.contains_key(&id) || (is_service && kept.is_none()) {
        id = random()?;
    }
    taken.insert(id, kept);
    Ok(id)
}

/// An endpoint of this id is no more. A random one is not given again: to its peers it is gone.
pub(crate) fn give_back(id: &[u8; 16]) {
    if id[..8] != SERVICE {
        return;
    }
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_by_service() {
        // SAFETY: strings.
        let (a, b, c) =
            unsafe { (source(c"7000".as_ptr()).unwrap(), destination(c"127.0.0.1".as_ptr(), c"7000".as_ptr()).unwrap(), source(core::ptr::null()).unwrap()) };
        assert_eq!(a, b);
        assert!(a != c && of_service("a") != of_service("b"));
        let first = claim(&a.to_bytes()).unwrap();
        assert_eq!(first, a.id());
        let second = claim(&a.to_bytes()).unwrap();
        assert_ne!(second, first, "one endpoint of that name in a process");
        give_back(&first);
        assert_eq!(claim(&a.to_bytes()).unwrap(), first);
        [first, second].iter().for_each(give_back);
    }
}
