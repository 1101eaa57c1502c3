// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses in events: two words, the higher one first, of an address of IPv6. One of IPv4 is
//! mapped to such a one, and a GID is one.

use std::net::{IpAddr, Ipv6Addr};

/// The words of a GID.
pub fn gid_words(gid: [u8; 16]) -> [u64; 2] {
    let whole = u128::from_be_bytes(gid);
    [(whole >> 64) as u64, whole as u64]
}

/// The words of an address.
pub fn ip_words(address: IpAddr) -> [u64; 2] {
    let address = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    gid_words(address.octets())
}

/// The address of such words.
pub fn ip(high: u64, low: u64) -> IpAddr {
    Ipv6Addr::from(u128::from(high) << 64 | u128::from(low)).to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        assert_eq!(ip(0, 0xffff_0a00_0001), "10.0.0.1".parse::<IpAddr>().unwrap());
        assert_eq!(ip(0xfd00_0000_0000_0000, 1), "fd00::1".parse::<IpAddr>().unwrap());
        for text in ["10.0.0.1", "fd00::1", "::", "255.255.255.255"] {
            let address = text.parse::<IpAddr>().unwrap();
            let [high, low] = ip_words(address);
            assert_eq!(ip(high, low), address);
        }
    }
}
