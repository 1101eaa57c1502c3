// SPDX-License-Identifier: MIT OR Apache-2.0
//! The name service: this host, by its names, and IP addresses as text, with a port
//! (`10.0.0.5:9000`, `[fd00::5]:9000`) or without. It has no state and asks nobody.

use crate::connect::{Given, host_room, is_loopback, write_address};
use crate::handles;
use crate::status::{VipReturn, call};
use crate::types::{VipHandle, VipNetAddress, VipUlong};
use bellwire_via::attributes::{HOST_ADDRESS_BYTES_MAX, without_port};
use bellwire_via::wire::udp::host_address;
use core::ffi::{CStr, c_char, c_void};
use std::net::{IpAddr, SocketAddr};

const LOCALHOST: &[u8] = b"localhost";

/// This host's name as the kernel has it; empty if it has none.
fn host_name() -> Vec<u8> {
    let mut name = vec![0u8; 256];
    // SAFETY: writes at most the given number of bytes.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) } != 0;
    let length = if failed { 0 } else { name.iter().position(|b| *b == 0).unwrap_or(0) };
    name.truncate(length);
    name
}

/// Whether `name` is this host's, whole or cut at the first dot.
fn is_this_host(name: &[u8]) -> bool {
    let own = host_name();
    let short = own.split(|b| *b == b'.').next().unwrap_or_default();
    name.eq_ignore_ascii_case(LOCALHOST) || (!own.is_empty() && (name.eq_ignore_ascii_case(&own) || name.eq_ignore_ascii_case(short)))
}

/// The address of a name.
fn look_up(name: &[u8], own: &[u8]) -> Option<Vec<u8>> {
    if is_this_host(name) {
        return Some(own.to_vec());
    }
    let text = core::str::from_utf8(name).ok()?;
    let address = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 0));
    address.or_else(|_| text.parse::<SocketAddr>()).ok().map(host_address)
}

/// The name of an address.
fn name_of(host: &[u8], own: &[u8]) -> Option<Vec<u8>> {
    if is_loopback(host) {
        return Some(LOCALHOST.to_vec());
    }
    (host == own || host == without_port(own)).then(host_name).filter(|n| !n.is_empty())
}

#[unsafe(no_mangle)]
pub extern "C" fn VipNSInit(nic: VipHandle, _info: *mut c_void) -> VipReturn {
    call(|| handles::enter_nic(nic).map(drop))
}

#[unsafe(no_mangle)]
pub extern "C" fn VipNSShutdown(nic: VipHandle) -> VipReturn {
    call(|| handles::enter_nic(nic).map(drop))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipNSGetHostByName(nic: VipHandle, name: *const c_char, out: *mut VipNetAddress, index: VipUlong) -> VipReturn {
    call(|| {
        let nic = handles::enter_nic(nic)?;
        if name.is_null() || out.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        // SAFETY: C1: a string ends with 0.
        let name = unsafe { CStr::from_ptr(name) };
        let found = if index == 0 { look_up(name.to_bytes(), &nic.host) } else { None };
        let found = found.ok_or(VipReturn::ErrorNameService)?;
        // SAFETY: C1: the lengths are always there; what a caller leaves there uninitialised
        // matters only where nothing else fits.
        let said = usize::from(unsafe { (&raw const (*out).host_address_len).read_volatile() });
        let room = if said <= HOST_ADDRESS_BYTES_MAX { said.max(host_room(&nic)) } else { host_room(&nic) };
        if found.len() > room {
            return Err(VipReturn::ErrorResource);
        }
        write_address(out, &found, room, &[], 0);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipNSGetHostByAddr(nic: VipHandle, address: *const VipNetAddress, name_out: *mut c_char, length: *mut VipUlong) -> VipReturn {
    call(|| {
        let nic = handles::enter_nic(nic)?;
        if name_out.is_null() || length.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        let given = Given::read_host(address)?;
        let name = name_of(&given, &nic.host).ok_or(VipReturn::ErrorNameService)?;
        let needed = name.len() as VipUlong + 1;
        // SAFETY: C1, not NULL.
        let room = unsafe { length.replace(needed) };
        if room < needed {
            return Err(VipReturn::ErrorResource);
        }
        // SAFETY: C1: there is room for `room` bytes.
        unsafe {
            name_out.cast::<u8>().copy_from_nonoverlapping(name.as_ptr(), name.len());
            name_out.add(name.len()).write(0);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [u8; 4] = [10, 0, 0, 7];

    #[test]
    fn names_and_addresses() {
        assert_eq!(look_up(b"LocalHost", &OWN), Some(OWN.to_vec()));
        assert_eq!(look_up(&host_name(), &OWN), Some(OWN.to_vec()));
        assert_eq!(look_up(b"192.0.2.1", &OWN), Some(vec![192, 0, 2, 1]));
        assert_eq!(look_up(b"192.0.2.1:258", &OWN), Some(vec![192, 0, 2, 1, 1, 2]));
        let v6 = std::net::Ipv6Addr::from([0xfd00, 0, 0, 0, 0, 0, 0, 5]).octets();
        assert_eq!((look_up(b"fd00::5", &OWN), look_up(b"[fd00::5]:258", &OWN)), (Some(v6.to_vec()), Some([&v6[..], &[1, 2]].concat())));
        for bad in ["", "1.2.3", "1.2.3.4:", "[fd00::5]", "fd00::5:70000:", "1.2.3.400", "1.2.3.4.5", "no-such-host-here", " localhost"] {
            assert_eq!(look_up(bad.as_bytes(), &OWN), None, "{bad:?}");
        }
        assert_eq!(name_of(&[127, 0, 0, 1], &OWN).as_deref(), Some(LOCALHOST));
        assert_eq!(name_of(&OWN, &OWN), Some(host_name()));
        assert_eq!(name_of(&OWN, &[10, 0, 0, 7, 1, 2]), Some(host_name()), "with its port, or without");
        assert_eq!(name_of(&std::net::Ipv6Addr::LOCALHOST.octets(), &OWN).as_deref(), Some(LOCALHOST));
        assert_eq!(name_of(&[192, 0, 2, 1], &OWN), None);
    }
}
