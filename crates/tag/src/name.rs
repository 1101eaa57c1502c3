// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of endpoints: what programs exchange to reach each other, and what requests for
//! connections carry.
//!
//! A name is the NIC's host address and an id. Usually that is random and never used again: a name
//! whose process is gone names nothing else. It may also be a service's number, which programs can
//! agree on beforehand, like a port.

use bellwire_peer::{Host, Kind};
use bellwire_via::NetAddress;

/// Highest number of a context.
const CONTEXT_MAX: u8 = u8::MAX - 1;

/// How the ids of services begin.
const SERVICE: [u8; 14] = *b"TG service\0\0\0\0";

/// Bytes of a [`Name`] as bytes.
pub const NAME_BYTES: usize = 40;

/// The name of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Name {
    host: Host,
    /// Of several endpoints that have one name together: which one.
    context: u8,
    id: [u8; 16],
}

impl Name {
    /// A name; `None` if the host address is too long.
    pub fn new(host: &[u8], id: [u8; 16]) -> Option<Self> {
        Some(Self { host: Host::new(host)?, context: 0, id })
    }

    /// The name of whoever is `service` of a host; `None` if the host address is too long.
    pub fn of_service(host: &[u8], service: u16) -> Option<Self> {
        let mut id = [0; 16];
        id[..14].copy_from_slice(&SERVICE);
        id[14..].copy_from_slice(&service.to_be_bytes());
        Self::new(host, id)
    }

    /// The name of another of the endpoints that have this name together; the first is number 0.
    pub fn with_context(self, context: u8) -> Self {
        Self { context: context.min(CONTEXT_MAX), ..self }
    }

    /// Which of the endpoints that have a name together.
    pub fn context(&self) -> u8 {
        self.context
    }

    /// A host alone: an endpoint that is to be there has no id yet.
    pub fn of_host(host: &[u8]) -> Option<Self> {
        Self::new(host, [0; 16])
    }

    /// The host address.
    pub fn host(&self) -> &[u8] {
        self.host.as_bytes()
    }

    /// The id; `None` of a host alone.
    pub fn id(&self) -> Option<[u8; 16]> {
        (self.id != [0; 16]).then_some(self.id)
    }

    /// The service that it names.
    pub fn service(&self) -> Option<u16> {
        (self.id[..14] == SERVICE).then(|| u16::from_be_bytes([self.id[14], self.id[15]]))
    }

    /// As bytes, to be sent to others.
    pub fn to_bytes(&self) -> [u8; NAME_BYTES] {
        let mut b = [0; NAME_BYTES];
        b[0] = 1;
        b[1..20].copy_from_slice(&self.host.to_bytes());
        b[20] = self.context;
        b[24..].copy_from_slice(&self.id);
        b
    }

    /// From bytes; `None` if they are no name.
    pub fn from_bytes(b: &[u8; NAME_BYTES]) -> Option<Self> {
        let name = Self { host: Host::from_bytes(&b[1..20])?, context: b[20], id: b[24..].try_into().ok()? };
        (b[0] == 1 && b[20] <= CONTEXT_MAX && b[21..24] == [0; 3]).then_some(name)
    }

    /// The kinds of addresses of a context: where it waits, and with what it asks. The third byte
    /// is the context's number and one more.
    fn kind(context: u8, last: u8) -> Kind {
        Kind([b'T', b'G', 1 + context, last])
    }

    /// Where the endpoint waits for connections.
    pub(crate) fn waits_at(&self) -> Option<NetAddress> {
        Self::kind(self.context, b'W').address(self.host(), &[&self.id])
    }

    /// The address that it asks for connections with.
    pub(crate) fn asks_as(&self) -> Option<NetAddress> {
        Self::kind(self.context, b'A').address(self.host(), &[&self.id])
    }

    /// Who asks, out of an address that a peer made up.
    pub(crate) fn who_asks(address: &NetAddress) -> Option<Self> {
        let context = address.discriminator().get(2)?.checked_sub(1).filter(|context| *context <= CONTEXT_MAX)?;
        let id = Self::kind(context, b'A').id_of(address)?;
        Some(Self::new(address.host(), *id)?.with_context(context))
    }
}

impl core::fmt::Display for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("bellwire://")?;
        for (i, b) in self.host().iter().enumerate() {
            write!(f, "{}{b}", if i == 0 { "" } else { "." })?;
        }
        if let Some(service) = self.service() {
            write!(f, ":{service}")?;
        } else {
            f.write_str("/")?;
            self.id.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
        }
        if self.context == 0 { Ok(()) } else { write!(f, "#{}", self.context) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_as_bytes_and_as_addresses() {
        let name = Name::new(&[127, 0, 0, 1], [7; 16]).unwrap();
        assert_eq!(Name::from_bytes(&name.to_bytes()), Some(name));
        assert_eq!(Name::who_asks(&name.asks_as().unwrap()), Some(name));
        assert_eq!(Name::who_asks(&name.waits_at().unwrap()), None);
        let third = name.with_context(3);
        assert_eq!((Name::from_bytes(&third.to_bytes()), Name::who_asks(&third.asks_as().unwrap())), (Some(third), Some(third)));
        assert!(third.with_context(0) == name && third.waits_at() != name.waits_at() && third.to_string().ends_with("07#3"));
        for (at, value) in [(0, 2), (1, 19), (1, 2), (20, 255), (21, 1)] {
            let mut bad = name.to_bytes();
            bad[at] = value;
            assert_eq!(Name::from_bytes(&bad), None, "byte {at}");
        }
        assert_eq!(name.to_string(), "bellwire://127.0.0.1/07070707070707070707070707070707");
        assert_eq!(name.service(), None);
    }

    #[test]
    fn names_of_services_and_hosts() {
        let name = Name::of_service(&[127, 0, 0, 1], 4711).unwrap();
        assert_eq!(Name::from_bytes(&name.to_bytes()), Some(name));
        assert_eq!((name.service(), name.host(), name.to_string().as_str()), (Some(4711), &[127, 0, 0, 1][..], "bellwire://127.0.0.1:4711"));
        assert_eq!((name.id().is_some(), Name::of_host(&[127, 0, 0, 1]).unwrap().id()), (true, None));
    }
}
