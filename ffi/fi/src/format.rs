// SPDX-License-Identifier: MIT OR Apache-2.0
//! How addresses of endpoints look to a program: names of ours, or addresses of sockets. An
//! endpoint with a socket's address is a service of its host, and its port the service's number; no
//! socket is behind it.

use crate::abi::{Outcome, error};
use crate::limits::ADDR_FORMAT;
use crate::names;
use bellwire_tag::{NAME_BYTES, Name};
use std::net::{IpAddr, SocketAddr};

/// `FI_SOCKADDR`: of whatever family the host's address is; `FI_SOCKADDR_IN`, `FI_SOCKADDR_IN6`.
const SOCKADDR: u32 = 1;
const SOCKADDR_IN: u32 = 2;
const SOCKADDR_IN6: u32 = 3;

/// How addresses look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Format {
    #[default]
    Name,
    V4,
    V6,
}

/// An address in some format.
pub(crate) struct Address {
    bytes: [u8; NAME_BYTES],
    length: usize,
}

impl Address {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Format {
    /// The format of a number of the public interface; `None`: there is no such one on this host.
    pub(crate) fn of(number: u32) -> Option<Self> {
        if number == 0 || number == ADDR_FORMAT {
            return Some(Self::Name);
        }
        let own = match names::own_ip()? {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        };
        (number == SOCKADDR || number == own.number()).then_some(own)
    }

    /// The format of an answer or of hints, whose number has been looked at before.
    pub(crate) fn of_answer(number: u32) -> Self {
        Self::of(number).unwrap_or_default()
    }

    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Name => ADDR_FORMAT,
            Self::V4 => SOCKADDR_IN,
            Self::V6 => SOCKADDR_IN6,
        }
    }

    /// Bytes of an address.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Name => NAME_BYTES,
            Self::V4 => size_of::<libc::sockaddr_in>(),
            Self::V6 => size_of::<libc::sockaddr_in6>(),
        }
    }

    /// A name in this format. Who is no service has no port.
    pub(crate) fn write(self, name: &Name) -> Address {
        let mut bytes = [0; NAME_BYTES];
        let (family, at) = match self {
            Self::Name => {
                bytes = name.to_bytes();
                return Address { bytes, length: NAME_BYTES };
            }
            Self::V4 => (libc::AF_INET, 4),
            Self::V6 => (libc::AF_INET6, 8),
        };
        bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        bytes[2..4].copy_from_slice(&name.service().unwrap_or(0).to_be_bytes());
        if let Some(room) = bytes.get_mut(at..at + name.host().len()).filter(|room| room.len() == if self == Self::V4 { 4 } else { 16 }) {
            room.copy_from_slice(name.host());
        }
        Address { bytes, length: self.bytes() }
    }

    /// A name out of an address of an endpoint; `None`: it is none.
    ///
    /// # Safety
    /// F2: as many bytes as the format has.
    pub(crate) unsafe fn read(self, at: *const u8) -> Option<Name> {
        // SAFETY: the caller's.
        let bytes = unsafe { core::slice::from_raw_parts(at, self.bytes()) };
        let name = match self {
            Self::Name => Name::from_bytes(bytes.try_into().ok()?)?,
            Self::V4 | Self::V6 => {
                let address = names::socket_address(bytes)?;
                names::name_at(address.ip(), Some(address.port())).ok()?
            }
        };
        name.id().map(|_| name)
    }

    /// An address as text.
    ///
    /// # Safety
    /// As [`read`](Self::read).
    pub(crate) unsafe fn text(self, at: *const u8) -> String {
        // SAFETY: the caller's.
        let Some(name) = (unsafe { self.read(at) }) else { return "not an address".to_owned() };
        let ip = names::ip_of(name.host()).map(|ip| SocketAddr::new(ip, name.service().unwrap_or(0)));
        match (self, ip) {
            (Self::V4, Some(at)) => format!("fi_sockaddr_in://{at}"),
            (Self::V6, Some(at)) => format!("fi_sockaddr_in6://{at}"),
            _ => name.to_string(),
        }
    }
}

/// Copies as much of an address as there is room for, and says how long it is.
///
/// # Safety
/// F2.
pub(crate) unsafe fn copy_address(address: &Address, to: *mut u8, length: *mut usize) -> Outcome {
    let bytes = address.as_bytes();
    // SAFETY: the caller's.
    let length = unsafe { length.as_mut() }.ok_or(error::EINVAL)?;
    let room = core::mem::replace(length, bytes.len());
    if !to.is_null() {
        // SAFETY: the caller's: `room` bytes.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, room.min(bytes.len())) };
    }
    if room < bytes.len() { Err(error::TOO_SMALL) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_addresses_are_names_of_services() {
        let v4 = Name::of_service(&[127, 0, 0, 1], 4711).unwrap();
        let v6 = Name::of_service(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16], 80).unwrap();
        for (format, name, text) in [
            (Format::V4, v4, "fi_sockaddr_in://127.0.0.1:4711"),
            (Format::V6, v6, "fi_sockaddr_in6://[102:304:506:708:90a:b0c:d0e:f10]:80"),
            (Format::Name, v4, "bellwire://127.0.0.1:4711"),
        ] {
            let address = format.write(&name);
            assert_eq!(address.as_bytes().len(), format.bytes());
            // SAFETY: the address has as many bytes as its format says.
            unsafe {
                assert_eq!(format.read(address.as_bytes().as_ptr()), Some(name), "{format:?}");
                assert_eq!(format.text(address.as_bytes().as_ptr()), text);
            }
        }
        // SAFETY: the address has as many bytes as its format says.
        unsafe {
            // Zeros are of no family; a host alone is no endpoint.
            assert_eq!(Format::V4.read([0; NAME_BYTES].as_ptr()), None);
            assert_eq!(Format::V4.read(Format::V4.write(&Name::of_host(&[127, 0, 0, 1]).unwrap()).as_bytes().as_ptr()), None);
        }
    }

    #[test]
    fn room_that_is_too_small() {
        let (mut room, mut length) = ([7u8; 20], 3);
        let address = Format::V4.write(&Name::of_service(&[127, 0, 0, 1], 80).unwrap());
        // SAFETY: `length` says at most how many bytes `room` has.
        unsafe {
            assert_eq!(copy_address(&address, room.as_mut_ptr(), &raw mut length), Err(error::TOO_SMALL));
            assert_eq!((length, room[3]), (16, 7));
            assert_eq!(copy_address(&address, room.as_mut_ptr(), &raw mut length), Ok(()));
        }
        assert_eq!(room[..8], address.as_bytes()[..8]);
    }
}
