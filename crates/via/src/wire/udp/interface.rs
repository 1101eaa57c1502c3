// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which address a NIC has: given as it is, or by the name of an interface, or left to the routing table.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Any address of the part of the network that is reserved for examples: never reached, but routed as the rest of the world is.
const ELSEWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);
const ELSEWHERE_V6: (Ipv6Addr, u16) = (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 9);

/// An address from text: `10.0.0.5`, `10.0.0.5:9000`, `fd00::5`, `[fd00::5]:9000`, an interface (`eth0`, `eth0:9000`), or `auto`: the address from which packets to other
/// networks leave. Port 0: any. `None`: no such address or interface.
pub fn address_from(text: &str) -> Option<SocketAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(SocketAddr::new(ip, 0));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(address);
    }
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) => (name, port.parse().ok()?),
        None => (text, 0),
    };
    let ip = if name == "auto" { outgoing()? } else { of_interface(name)? };
    Some(SocketAddr::new(ip, port))
}

/// The address that packets to elsewhere have; nothing is sent.
fn outgoing() -> Option<IpAddr> {
    let source = |bind: IpAddr, to: SocketAddr| {
        let socket = UdpSocket::bind((bind, 0)).ok()?;
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_unspecified())
    };
    source(Ipv4Addr::UNSPECIFIED.into(), ELSEWHERE.into()).or_else(|| source(Ipv6Addr::UNSPECIFIED.into(), ELSEWHERE_V6.into()))
}

/// The first address of an interface, IPv4 before IPv6, without those of the link only.
fn of_interface(name: &str) -> Option<IpAddr> {
    let addresses: Vec<IpAddr> = if_addrs::get_if_addrs().ok()?.into_iter().filter(|i| i.name == name && !i.is_link_local()).map(|i| i.ip()).collect();
    addresses.iter().find(|ip| ip.is_ipv4()).or_else(|| addresses.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let v4 = |port| Some(SocketAddr::new(Ipv4Addr::new(10, 0, 0, 5).into(), port));
        assert_eq!((address_from("10.0.0.5"), address_from("10.0.0.5:9000")), (v4(0), v4(9000)));
        let v6 = |port| Some(SocketAddr::new("fd00::5".parse().unwrap(), port));
        assert_eq!((address_from("fd00::5"), address_from("[fd00::5]:9000")), (v6(0), v6(9000)));
        let lo = |port| Some(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
        assert_eq!((address_from("lo"), address_from("lo:7")), (lo(0), lo(7)));
        for bad in ["", "no-such-interface", "10.0.0.5:", "10.0.0.5:70000", "lo:x"] {
            assert_eq!(address_from(bad), None, "{bad}");
        }
    }
}
