// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multicast: datagrams to groups, and queue pairs that are attached to them.
//!
//! A group (an MGID) is a group of IP multicast on the network of the device's address. The kernel
//! and the network know the members, so a datagram leaves once, and no member makes a process send
//! anything. A process joins a group with the first queue pair that is attached. The NIC's helper
//! thread reads its socket, and gives each attached queue pair a copy.
//!
//! ```text
//!  magic u64 | head of a datagram, 3 words | MGID 16 bytes | bytes of the program, up to 4096
//! ```
//!
//! A device with keys has no groups: their datagrams are not authenticated.
//!
//! Anybody on the network can send to a group. A datagram changes a queue pair only if the magic
//! and the MGID fit and it has the queue pair's key; its sender is the one that IP names.

use crate::arrive::Packet;
use crate::connection::ConnectionId;
use crate::core::Core;
use crate::header::{Head, Kind, WORDS_MAX};
use crate::joined::Joined;
use crate::name::{gid_of, host_of};
use crate::port::Port;
use crate::qp::{DATAGRAM_MAX, Destination};
use crate::types::{Error, Gid, QpKind, WcStatus};
use bellwire_via::Engine;
use bellwire_via::wire::Wire;
use bellwire_via::wire::udp::{DIRECTORY_PORT, GroupSender, GroupSocket};
use rustix::fd::AsFd;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The queue pair number that stands for all members of a group.
pub const GROUP_QP: u32 = 0xff_ffff;
/// Groups that a device can be in.
pub const GROUPS_MAX: usize = 256;
/// Queue pairs of a device in one group.
pub const GROUP_QPS_MAX: usize = 256;

/// The UDP port of all groups: the one behind the directory's.
const PORT: u16 = DIRECTORY_PORT + 1;
const MAGIC: [u8; 8] = *b"BwGroup\x01";
const HEAD_BYTES: usize = MAGIC.len() + 24 + 16;
const BYTES_MAX: usize = HEAD_BYTES + DATAGRAM_MAX as usize;
/// Datagrams of a group that are taken in a row: a flood leaves the thread time for the rest.
const TURN: u32 = 32;

/// The IPv4 address in a GID.
fn v4_of(gid: &Gid) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(host_of(gid)).ok().map(Ipv4Addr::from)
}

/// Whether a GID is one of a group: an IPv6 group, or an IPv4 group mapped to IPv6 as RoCE has it.
pub fn is_group(gid: &Gid) -> bool {
    gid[0] == 0xff || v4_of(gid).is_some_and(|ip| ip.is_multicast())
}

/// The IP group that carries a group on the network of a device. MGIDs that are no address of that
/// family share addresses; the packet says which of them is meant.
fn carrier(group: &Gid, own: &Gid) -> IpAddr {
    /// 239.192.0.0/14: groups of an organization.
    const ORGANIZATION: u32 = 0xefc0_0000;
    match (v4_of(group), v4_of(own)) {
        (Some(ip), Some(_)) => ip.into(),
        (None, Some(_)) => {
            let hash = group.iter().fold(0x811c_9dc5u32, |h, byte| (h ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
            Ipv4Addr::from(ORGANIZATION | (hash ^ hash >> 18) & 0x3_ffff).into()
        }
        (ip, None) => {
            let mut carrier = *group;
            if ip.is_some() || carrier[1] & 0xf < 2 {
                // Of the site, transient: the others stay within a host, or are no groups of IPv6.
                (carrier[0], carrier[1]) = (0xff, 0x15);
            }
            Ipv6Addr::from(carrier).into()
        }
    }
}

fn address_of(gid: &Gid) -> IpAddr {
    v4_of(gid).map_or_else(|| Ipv6Addr::from(*gid).into(), IpAddr::from)
}

fn gid_from(ip: IpAddr) -> Option<Gid> {
    match ip {
        IpAddr::V4(ip) => gid_of(&ip.octets()),
        IpAddr::V6(ip) => gid_of(&ip.octets()),
    }
}

fn store(head: &Head, group: &Gid, to: &mut [u8; HEAD_BYTES]) {
    let mut words = [0; WORDS_MAX];
    let n = head.store(0, &mut words);
    to[..8].copy_from_slice(&MAGIC);
    for (bytes, word) in to[8..32].chunks_exact_mut(8).zip(&words[..n]) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    to[32..].copy_from_slice(group);
}

/// The head, group and payload of a datagram; `None`: it is none of ours.
fn parse(datagram: &[u8]) -> Option<(Head, Gid, &[u8])> {
    let (head, payload) = datagram.split_first_chunk::<HEAD_BYTES>()?;
    let (magic, rest) = head.split_first_chunk::<8>()?;
    let mut words = [0; 3];
    for (word, bytes) in words.iter_mut().zip(rest.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().ok()?);
    }
    let (head, _, length) = Head::parse(&words, 24)?;
    let fits = magic == &MAGIC && head.kind == Kind::Datagram && length == 24 && payload.len() <= DATAGRAM_MAX as usize;
    fits.then(|| Some((head, rest[24..].try_into().ok()?, payload)))?
}

impl Core {
    /// Attaches a queue pair to a group; the socket to read, if the device joins it by this.
    fn attach(&mut self, number: u32, group: &Gid) -> Result<Option<Arc<GroupSocket>>, Error> {
        let own = self.name.gid;
        if !is_group(group) || self.qp(number).ok_or(Error::Invalid)?.init.kind != QpKind::Ud {
            return Err(Error::Invalid);
        }
        let groups = self.groups.get_or_insert_default();
        if let Some(joined) = groups.joined.get_mut(group) {
            if !joined.qps.contains(&number) {
                if joined.qps.len() >= GROUP_QPS_MAX {
                    return Err(Error::NoMemory);
                }
                joined.qps.push(number);
            }
            return Ok(None);
        }
        if groups.joined.len() >= GROUPS_MAX {
            return Err(Error::NoMemory);
        }
        let socket = GroupSocket::join(carrier(group, &own), PORT, address_of(&own), self.keys.as_deref());
        let socket = socket.map_err(|e| if e.kind() == io::ErrorKind::Unsupported { Error::Unsupported } else { Error::NoMemory })?;
        let socket = Arc::new(socket);
        groups.joined.insert(*group, Joined { socket: Arc::clone(&socket), qps: vec![number] });
        Ok(Some(socket))
    }

    /// Detaches one; the socket, if the device leaves the group by this.
    fn detach(&mut self, number: u32, group: &Gid) -> Result<Option<Arc<GroupSocket>>, Error> {
        let joined = &mut self.groups.as_mut().ok_or(Error::Invalid)?.joined;
        let of = joined.get_mut(group).ok_or(Error::Invalid)?;
        let at = of.qps.iter().position(|q| *q == number).ok_or(Error::Invalid)?;
        of.qps.swap_remove(at);
        Ok(if of.qps.is_empty() { joined.remove(group).map(|j| j.socket) } else { None })
    }

    /// Whether a queue pair is attached to a group.
    pub(crate) fn is_attached(&self, number: u32) -> bool {
        self.groups.as_ref().is_some_and(|g| g.joined.values().any(|j| j.qps.contains(&number)))
    }

    /// Sends the next datagram of a queue pair, if it goes to a group. `false`: it does not.
    #[cold]
    pub(crate) fn send_to_group<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32) -> bool {
        let own = self.name.gid;
        let Some(qp) = self.qps.get(number as usize & (crate::name::QPS_MAX - 1)).and_then(Option::as_deref) else { return false };
        let Some((send, group)) = qp.sends.get(qp.left).and_then(|s| Some((s, group_of(s.to.as_ref()?)?))) else { return false };
        let n = send.length as usize;
        let mut datagram = vec![0; HEAD_BYTES + n];
        let Some((head, payload)) = datagram.split_first_chunk_mut::<HEAD_BYTES>() else { return false };
        store(&qp.head(Kind::Datagram, send, 0, send.length), &group, head);
        let gathered = match send.data.owned() {
            Some(bytes) => {
                payload.copy_from_slice(bytes);
                Ok(())
            }
            None => self.regions.gather(send.data.pieces(), qp.init.domain, 0, payload),
        };
        if gathered.is_err() {
            self.fail_send(engine, number, 0, WcStatus::LocalProtection);
            return true;
        }
        if self.keys.is_some() {
            self.fail_send(engine, number, 0, WcStatus::LocalQpOperation);
            return true;
        }
        let groups = self.groups.get_or_insert_default();
        if groups.sender.is_none() {
            groups.sender = GroupSender::new(address_of(&own), None).ok();
        }
        if let Some(sender) = &groups.sender {
            // A full socket or a network that is down loses it, as any datagram.
            let _ = sender.send(carrier(&group, &own), PORT, &datagram);
        }
        self.end_first(number, WcStatus::Success);
        true
    }

    /// Takes what has come for groups.
    #[cold]
    pub(crate) fn take_group_datagrams(&mut self) -> bool {
        let Some(groups) = self.groups.take() else { return false };
        let mut room = [0; BYTES_MAX + 1];
        let mut moved = false;
        for (group, joined) in &groups.joined {
            for _ in 0..TURN {
                let Ok((n, from)) = joined.socket.receive(&mut room) else { break };
                moved = true;
                let Some((head, _, payload)) = parse(&room[..n]).filter(|(_, to, _)| to == group && !self.is_down()) else { continue };
                let Some(sender) = gid_from(from) else { continue };
                for number in &joined.qps {
                    let head = Head { to: *number, ..head };
                    let p = Packet { from: ConnectionId::from_raw(0), head: &head, payload: (payload.as_ptr(), payload.len()) };
                    self.take_datagram(&p, &sender, group);
                }
            }
        }
        self.groups = Some(groups);
        moved
    }

    /// Leaves all groups.
    pub(crate) fn leave_groups(&mut self) {
        self.groups = None;
    }
}

/// The group that a datagram goes to.
pub(crate) fn group_of(to: &Destination) -> Option<Gid> {
    to.gid.filter(|gid| to.qp == GROUP_QP && is_group(gid))
}

impl Port {
    /// Attaches a queue pair of datagrams to a group. Twice is once.
    ///
    /// # Errors
    /// [`Error::Invalid`]: that is no group, or no such queue pair; [`Error::NoMemory`]: the device
    /// is in too many groups, or the system does not let it join; [`Error::Unsupported`]: the
    /// device has keys, and datagrams to groups are not authenticated.
    pub fn attach_to_group(&self, qp: u32, group: &Gid) -> Result<(), Error> {
        let joined = self.station.with(|core, _| core.attach(qp, group))?;
        match joined {
            Some(socket) if !self.station.attend(socket.as_fd()) => {
                let _ = self.detach_from_group(qp, group);
                Err(Error::NoMemory)
            }
            _ => Ok(()),
        }
    }

    /// Detaches one.
    ///
    /// # Errors
    /// [`Error::Invalid`]: it is not attached.
    pub fn detach_from_group(&self, qp: u32, group: &Gid) -> Result<(), Error> {
        if let Some(socket) = self.station.with(|core, _| core.detach(qp, group))? {
            self.station.forget(socket.as_fd());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_carriers() {
        let (v4, v6) = (gid_of(&[10, 0, 0, 1]).unwrap(), [0xfd; 16]);
        let mapped = gid_of(&[239, 1, 2, 3]).unwrap();
        let mut global = [7; 16];
        (global[0], global[1]) = (0xff, 0x0e);
        let within_host = {
            let mut g = global;
            g[1] = 0x01;
            g
        };
        assert!(is_group(&mapped) && is_group(&global) && !is_group(&v4) && !is_group(&v6));
        assert_eq!(carrier(&mapped, &v4), IpAddr::from([239, 1, 2, 3]));
        assert_eq!(carrier(&global, &v6), IpAddr::from(global));
        for (group, own) in [(mapped, v6), (within_host, v6), (global, v4), (within_host, v4)] {
            let ip = carrier(&group, &own);
            assert!(ip.is_multicast() && ip.is_ipv4() == (own == v4), "{ip}");
            // Nothing that stays within an interface.
            assert!(!ip.to_string().starts_with("ff01"), "{ip}");
        }
    }

    #[test]
    fn datagrams_survive_and_others_are_none() {
        let group = gid_of(&[239, 1, 2, 3]).unwrap();
        let head = Head { number: 0x1234_5678, immediate: 7, flags: crate::header::IMMEDIATE, ..Head::new(Kind::Datagram, GROUP_QP, 0x2005) };
        let mut datagram = [9; HEAD_BYTES + 5];
        store(&head, &group, datagram.first_chunk_mut().unwrap());
        assert_eq!(parse(&datagram), Some((head, group, &[9; 5][..])));
        assert_eq!(parse(&datagram[..HEAD_BYTES - 1]), None);
        let long = [&datagram[..], &[0; DATAGRAM_MAX as usize]].concat();
        assert_eq!(parse(&long), None);
        for at in 0..9 {
            let mut other = datagram;
            other[at] ^= 0x40;
            assert_eq!(parse(&other), None, "{at}");
        }
    }
}
