// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which address a NIC has: given as it is, or by the name of an interface, or left to the routing
//! table.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};

/// Any address of the part of the network that is reserved for examples: never reached, but routed
/// as the rest of the world is.
const ELSEWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);
const ELSEWHERE_V6: (Ipv6Addr, u16) = (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 9);

/// An address from text: `10.0.0.5`, `10.0.0.5:9000`, `fd00::5`, `[fd00::5]:9000`, `fe80::5%eth0`,
/// `[fe80::5%eth0]:9000`, an interface (`eth0`, `eth0:9000`), or `auto`: the address from which
/// packets to other networks leave. Port 0: any. `None`: no such address or interface.
pub fn address_from(text: &str) -> Option<SocketAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(SocketAddr::new(ip, 0));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(address);
    }
    if let Some((ip, rest)) = text.split_once('%') {
        return on_interface(ip, rest);
    }
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) => (name, port.parse().ok()?),
        None => (text, 0),
    };
    let mut address = if name == "auto" { SocketAddr::new(outgoing()?, 0) } else { of_interface(name)? };
    address.set_port(port);
    Some(address)
}

/// `fe80::5` and `eth0`, or `[fe80::5` and `eth0]:9000`; the interface by name or number.
fn on_interface(ip: &str, rest: &str) -> Option<SocketAddr> {
    let (ip, interface, port) = match ip.strip_prefix('[') {
        Some(ip) => {
            let (interface, port) = rest.split_once("]:")?;
            (ip, interface, port.parse().ok()?)
        }
        None => (ip, rest, 0),
    };
    let index = interface.parse().ok().or_else(|| rustix::net::netdevice::name_to_index(first_socket()?, interface).ok())?;
    Some(SocketAddrV6::new(ip.parse().ok()?, port, 0, index).into())
}

fn first_socket() -> Option<UdpSocket> {
    UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).ok()
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

/// The first address of an interface: IPv4 before IPv6, before one of its link only.
fn of_interface(name: &str) -> Option<SocketAddr> {
    let addresses: Vec<_> = if_addrs::get_if_addrs().ok()?.into_iter().filter(|i| i.name == name).collect();
    let first = |wanted: fn(&if_addrs::Interface) -> bool| addresses.iter().find(|i| wanted(i));
    let chosen = first(|i| i.ip().is_ipv4() && !i.is_link_local()).or_else(|| first(|i| !i.is_link_local())).or_else(|| first(|i| i.ip().is_ipv6()))?;
    Some(match chosen.ip() {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => SocketAddrV6::new(ip, 0, 0, chosen.index?).into(),
        ip => SocketAddr::new(ip, 0),
    })
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
        let link = |port, scope| Some(SocketAddrV6::new("fe80::5".parse().unwrap(), port, 0, scope).into());
        assert_eq!((address_from("fe80::5%3"), address_from("[fe80::5%3]:9000")), (link(0, 3), link(9000, 3)));
        assert_eq!(address_from("fe80::5%lo"), link(0, 1), "the loopback interface is the first of every host");
        for bad in [
            "fe80::5%",
            "fe80::5%no-such-interface",
            "[fe80::5%3",
            "[fe80::5%3]:",
            "10.0.0.5%lo",
            "",
            "no-such-interface",
            "10.0.0.5:",
            "10.0.0.5:70000",
            "lo:x",
        ] {
            assert_eq!(address_from(bad), None, "{bad}");
        }
    }
}
