// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections, and addresses as C passes them: two lengths, then bytes in room that only the
//! caller knows.

use crate::handles::{self, Cell, Kind};
use crate::status::{Outcome, VipReturn, call, traced};
use crate::types::{VipHandle, VipNetAddress, VipUlong, VipViAttributes};
use crate::vi::attributes_for_c;
use crate::work::{enter_vi, timeout_of};
use bellwire_via::attributes::{DISCRIMINATOR_BYTES_MAX, HOST_ADDRESS_BYTES_MAX, without_port};
use bellwire_via::{NetAddress, ViAttributes, ViHandle, ViState};
use core::net::Ipv6Addr;

/// Bytes of a host address as C declares it: of an IPv4 address without a port.
const HOST_BYTES_DECLARED: usize = 4;

/// Whether a host address can have so many bytes: IPv4 or IPv6, with 2 more for a port or without.
const fn is_host_length(bytes: usize) -> bool {
    matches!(bytes, 4 | 6 | 16 | 18)
}

/// The bytes of an address of C: host address and discriminator.
pub(crate) struct Given {
    host: [u8; HOST_ADDRESS_BYTES_MAX],
    host_len: usize,
    discriminator: [u8; DISCRIMINATOR_BYTES_MAX],
    discriminator_len: usize,
}

impl Given {
    /// Copies an address; refuses lengths that none can have, before anything is read by them.
    pub fn read(address: *const VipNetAddress) -> Result<Self, VipReturn> {
        if address.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        // SAFETY: C1: the lengths are always there.
        let (host_len, discriminator_len) = unsafe { (usize::from((*address).host_address_len), usize::from((*address).discriminator_len)) };
        if (host_len != 0 && !is_host_length(host_len)) || discriminator_len > DISCRIMINATOR_BYTES_MAX {
            return Err(VipReturn::InvalidParameter);
        }
        let mut given = Self { host: [0; HOST_ADDRESS_BYTES_MAX], host_len, discriminator: [0; DISCRIMINATOR_BYTES_MAX], discriminator_len };
        // SAFETY: C1: the caller's room is as long as its lengths say.
        unsafe {
            let bytes = (&raw const (*address).host_address).cast::<u8>();
            bytes.copy_to_nonoverlapping(given.host.as_mut_ptr(), host_len);
            bytes.add(host_len).copy_to_nonoverlapping(given.discriminator.as_mut_ptr(), discriminator_len);
        }
        Ok(given)
    }

    /// The host address alone, whatever stands in the discriminator's length.
    pub fn read_host(address: *const VipNetAddress) -> Result<Vec<u8>, VipReturn> {
        if address.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        // SAFETY: C1: the lengths are always there.
        let host_len = usize::from(unsafe { (*address).host_address_len });
        if !is_host_length(host_len) {
            return Err(VipReturn::InvalidParameter);
        }
        let mut host = vec![0; host_len];
        // SAFETY: C1: the caller's room is as long as its length says.
        unsafe { (&raw const (*address).host_address).cast::<u8>().copy_to_nonoverlapping(host.as_mut_ptr(), host_len) };
        Ok(host)
    }

    /// The host part, empty if it was left out.
    fn host(&self) -> &[u8] {
        &self.host[..self.host_len]
    }

    fn with_host(&self, host: &[u8]) -> Result<NetAddress, VipReturn> {
        NetAddress::new(host, &self.discriminator[..self.discriminator_len]).ok_or(VipReturn::InvalidParameter)
    }

    /// An address of this NIC: its own host, with the port or without, or none said.
    fn local(&self, nic: &Cell) -> Result<NetAddress, VipReturn> {
        let is_own = self.host_len == 0 || *self.host() == *nic.host || *self.host() == *without_port(&nic.host);
        if is_own { self.with_host(&nic.host) } else { Err(VipReturn::InvalidParameter) }
    }

    /// An address of another. On a NIC that other hosts know by a name of its own, "this host" is
    /// that name.
    fn remote(&self, nic: &Cell) -> Result<NetAddress, VipReturn> {
        match self.host_len {
            0 => Err(VipReturn::InvalidParameter),
            _ if nic.reaches_others && is_loopback(self.host()) && !is_loopback(&nic.host) => self.with_host(&nic.host),
            _ => self.with_host(self.host()),
        }
    }

    /// Whether a wire can lead there: to this NIC's host or any loopback address by shared memory,
    /// elsewhere by UDP.
    fn is_reachable(&self, nic: &Cell) -> bool {
        nic.reaches_others || is_loopback(self.host()) || *self.host() == *nic.host
    }
}

/// Whether it means the host that it is said on.
pub(crate) fn is_loopback(host: &[u8]) -> bool {
    match without_port(host) {
        [127, _, _, _] => true,
        other => *other == Ipv6Addr::LOCALHOST.octets(),
    }
}

/// Writes an address into the room for a host address of `host_room` bytes, and `room` bytes of
/// discriminator. A longer discriminator is cut; of a longer host address the port is left out, and
/// if that does not help, all of it.
pub(crate) fn write_address(out: *mut VipNetAddress, host: &[u8], host_room: usize, discriminator: &[u8], room: usize) {
    let host = [host, without_port(host), &[]].into_iter().find(|h| h.len() <= host_room).unwrap_or_default();
    let discriminator = &discriminator[..discriminator.len().min(room)];
    // SAFETY: C1: there is room for the lengths, `host_room` bytes of host address, and `room`
    // more.
    unsafe {
        (*out).host_address_len = host.len() as u16;
        (*out).discriminator_len = discriminator.len() as u16;
        let bytes = (&raw mut (*out).host_address).cast::<u8>();
        bytes.copy_from_nonoverlapping(host.as_ptr(), host.len());
        bytes.add(host.len()).copy_from_nonoverlapping(discriminator.as_ptr(), discriminator.len());
    }
}

/// Room for a host address that every caller gives: of the NIC's own, which `VipQueryNic` tells.
pub(crate) fn host_room(nic: &Cell) -> usize {
    nic.host.len().max(HOST_BYTES_DECLARED)
}

/// How much host address and discriminator fit an out argument, by the lengths that it has on
/// entry; those of an uninitialised structure mean what C declares.
fn room_of(nic: &Cell, out: *const VipNetAddress) -> (usize, usize) {
    // SAFETY: C1: the lengths are always there. A caller that leaves them uninitialised gives some
    // number, which is judged here.
    let (host_len, discriminator_len) =
        unsafe { ((&raw const (*out).host_address_len).read_volatile(), (&raw const (*out).discriminator_len).read_volatile()) };
    let (host, room) = (usize::from(host_len), usize::from(discriminator_len));
    if host == nic.host.len() && room <= DISCRIMINATOR_BYTES_MAX { (host, room) } else { (HOST_BYTES_DECLARED, 0) }
}

/// The peer's attributes for C: its tag means nothing here.
fn write_remote_attributes(out: *mut VipViAttributes, attributes: &ViAttributes) {
    // SAFETY: C1; the caller has checked for NULL.
    unsafe { out.write(attributes_for_c(attributes, core::ptr::null_mut())) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectWait(
    nic: VipHandle,
    local: *const VipNetAddress,
    timeout: VipUlong,
    remote_out: *mut VipNetAddress,
    attributes_out: *mut VipViAttributes,
    connection_out: *mut VipHandle,
) -> VipReturn {
    traced("VipConnectWait", [nic.addr(), timeout as usize], || {
        let nic = handles::enter_nic(nic)?;
        if remote_out.is_null() || attributes_out.is_null() || connection_out.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        let local = Given::read(local)?.local(&nic)?;
        let (host_room, room) = room_of(&nic, remote_out);
        let request = nic.nic.connect_wait(&local, timeout_of(timeout))?;
        write_address(remote_out, request.remote.host(), host_room, request.remote.discriminator(), room);
        write_remote_attributes(attributes_out, &request.attributes);
        // SAFETY: C1, not NULL.
        unsafe { connection_out.write(nic.handle(Kind::Connection, request.incoming)) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipConnectAccept(connection: VipHandle, vi: VipHandle) -> VipReturn {
    traced("VipConnectAccept", [connection.addr(), vi.addr()], || {
        let (nic, incoming) = handles::enter_object(Kind::Connection, connection)?;
        let vi: ViHandle = nic.object(Kind::Vi, vi).ok_or(VipReturn::InvalidParameter)?;
        Ok(nic.nic.with(|e| {
            // A requester that gave up has said so; hear it before answering.
            e.progress();
            e.accept(incoming, vi)
        })?)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipConnectReject(connection: VipHandle) -> VipReturn {
    traced("VipConnectReject", [connection.addr(), 0], || {
        let (nic, incoming) = handles::enter_object(Kind::Connection, connection)?;
        Ok(nic.nic.with(|e| e.reject(incoming))?)
    })
}

/// The common part of requests: an idle VI and two addresses.
fn addresses(nic: &Cell, vi: ViHandle, local: *const VipNetAddress, remote: *const VipNetAddress) -> Result<(NetAddress, NetAddress), VipReturn> {
    let (local, given) = (Given::read(local)?.local(nic)?, Given::read(remote)?);
    let remote = given.remote(nic)?;
    if nic.nic.with(|e| e.query_vi(vi))?.0 != ViState::Idle {
        return Err(VipReturn::InvalidState);
    }
    if given.is_reachable(nic) { Ok((local, remote)) } else { Err(VipReturn::NotReachable) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectRequest(
    vi: VipHandle,
    local: *const VipNetAddress,
    remote: *const VipNetAddress,
    timeout: VipUlong,
    attributes_out: *mut VipViAttributes,
) -> VipReturn {
    traced("VipConnectRequest", [vi.addr(), timeout as usize], || {
        let (nic, vi) = enter_vi(vi)?;
        if attributes_out.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        let (local, remote) = addresses(&nic, vi, local, remote)?;
        let attributes = nic.nic.connect_request(vi, &local, &remote, timeout_of(timeout))?;
        write_remote_attributes(attributes_out, &attributes);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipDisconnect(vi: VipHandle) -> VipReturn {
    traced("VipDisconnect", [vi.addr(), 0], || {
        let (nic, vi) = enter_vi(vi)?;
        Ok(nic.nic.with(|e| e.disconnect(vi))?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectPeerRequest(vi: VipHandle, local: *const VipNetAddress, remote: *const VipNetAddress, timeout: VipUlong) -> VipReturn {
    traced("VipConnectPeerRequest", [vi.addr(), timeout as usize], || {
        let (nic, vi) = enter_vi(vi)?;
        let (local, remote) = addresses(&nic, vi, local, remote)?;
        Ok(nic.nic.peer_request(vi, &local, &remote, timeout_of(timeout))?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectPeerDone(vi: VipHandle, attributes_out: *mut VipViAttributes) -> VipReturn {
    call(|| -> Outcome {
        let (nic, vi) = enter_vi(vi)?;
        if attributes_out.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        let attributes = nic.nic.peer_done(vi)?.ok_or(VipReturn::NotDone)?;
        write_remote_attributes(attributes_out, &attributes);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectPeerWait(vi: VipHandle, attributes_out: *mut VipViAttributes) -> VipReturn {
    traced("VipConnectPeerWait", [vi.addr(), 0], || {
        let (nic, vi) = enter_vi(vi)?;
        if attributes_out.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        let attributes = nic.nic.peer_wait(vi)?;
        write_remote_attributes(attributes_out, &attributes);
        Ok(())
    })
}
