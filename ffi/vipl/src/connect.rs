// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections, and addresses as C passes them: two lengths, then bytes in room that only the caller knows.

use crate::handles::{self, Cell, Kind};
use crate::status::{Outcome, VipReturn, call};
use crate::types::{VipHandle, VipNetAddress, VipUlong, VipViAttributes};
use crate::vi::attributes_for_c;
use crate::work::{enter_vi, timeout_of};
use bellwire_via::attributes::DISCRIMINATOR_BYTES_MAX;
use bellwire_via::{NetAddress, ViAttributes, ViHandle, ViState};

/// Bytes of an IPv4 host address, the only kind there is.
pub(crate) const HOST_BYTES: usize = 4;

/// The bytes of an address of C: host address and discriminator.
pub(crate) struct Given {
    host: [u8; HOST_BYTES],
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
        if (host_len != 0 && host_len != HOST_BYTES) || discriminator_len > DISCRIMINATOR_BYTES_MAX {
            return Err(VipReturn::InvalidParameter);
        }
        let mut given = Self { host: [0; HOST_BYTES], host_len, discriminator: [0; DISCRIMINATOR_BYTES_MAX], discriminator_len };
        // SAFETY: C1: the caller's room is as long as its lengths say.
        unsafe {
            let bytes = (&raw const (*address).host_address).cast::<u8>();
            bytes.copy_to_nonoverlapping(given.host.as_mut_ptr(), host_len);
            bytes.add(host_len).copy_to_nonoverlapping(given.discriminator.as_mut_ptr(), discriminator_len);
        }
        Ok(given)
    }

    /// The host address alone, whatever stands in the discriminator's length.
    pub fn read_host(address: *const VipNetAddress) -> Result<[u8; HOST_BYTES], VipReturn> {
        // SAFETY: C1; four bytes of host address are part of the structure.
        let address = unsafe { address.as_ref() }.ok_or(VipReturn::InvalidParameter)?;
        if usize::from(address.host_address_len) == HOST_BYTES { Ok(address.host_address) } else { Err(VipReturn::InvalidParameter) }
    }

    /// The host part, empty if it was left out.
    fn host(&self) -> &[u8] {
        &self.host[..self.host_len]
    }

    fn with_host(&self, host: &[u8]) -> Result<NetAddress, VipReturn> {
        NetAddress::new(host, &self.discriminator[..self.discriminator_len]).ok_or(VipReturn::InvalidParameter)
    }

    /// An address of this NIC: its own host, or none said.
    fn local(&self, nic: &Cell) -> Result<NetAddress, VipReturn> {
        if self.host_len != 0 && *self.host() != *nic.host { Err(VipReturn::InvalidParameter) } else { self.with_host(&nic.host) }
    }

    /// An address of another. On a NIC that other hosts know by a name of its own, "this host" is that name.
    fn remote(&self, nic: &Cell) -> Result<NetAddress, VipReturn> {
        match self.host_len {
            0 => Err(VipReturn::InvalidParameter),
            _ if nic.reaches_others && self.is_loopback() && nic.host.first() != Some(&127) => self.with_host(&nic.host),
            _ => self.with_host(self.host()),
        }
    }

    fn is_loopback(&self) -> bool {
        self.host[0] == 127
    }

    /// Whether a wire can lead there: to this NIC's host or any loopback address by shared memory, elsewhere by UDP.
    fn is_reachable(&self, nic: &Cell) -> bool {
        nic.reaches_others || self.is_loopback() || *self.host() == *nic.host
    }
}

/// Writes an address; discriminators longer than `room` are cut.
pub(crate) fn write_address(out: *mut VipNetAddress, host: &[u8], discriminator: &[u8], room: usize) {
    let host = &host[..host.len().min(HOST_BYTES)];
    let discriminator = &discriminator[..discriminator.len().min(room)];
    // SAFETY: C1: there is room for the lengths, four bytes of host address, and `room` more.
    unsafe {
        (*out).host_address_len = host.len() as u16;
        (*out).discriminator_len = discriminator.len() as u16;
        let bytes = (&raw mut (*out).host_address).cast::<u8>();
        bytes.copy_from_nonoverlapping(host.as_ptr(), host.len());
        bytes.add(host.len()).copy_from_nonoverlapping(discriminator.as_ptr(), discriminator.len());
    }
}

/// How much discriminator fits an out argument, by the lengths that it has on entry; those of an uninitialised structure mean none.
fn room_of(out: *const VipNetAddress) -> usize {
    // SAFETY: C1: the lengths are always there. A caller that leaves them uninitialised gives some number, which is judged here.
    let (host_len, discriminator_len) =
        unsafe { ((&raw const (*out).host_address_len).read_volatile(), (&raw const (*out).discriminator_len).read_volatile()) };
    let room = usize::from(discriminator_len);
    if usize::from(host_len) == HOST_BYTES && room <= DISCRIMINATOR_BYTES_MAX { room } else { 0 }
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
    call(|| {
        let nic = handles::enter_nic(nic)?;
        if remote_out.is_null() || attributes_out.is_null() || connection_out.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        let local = Given::read(local)?.local(&nic)?;
        let room = room_of(remote_out);
        let request = nic.nic.connect_wait(&local, timeout_of(timeout))?;
        write_address(remote_out, request.remote.host(), request.remote.discriminator(), room);
        write_remote_attributes(attributes_out, &request.attributes);
        // SAFETY: C1, not NULL.
        unsafe { connection_out.write(nic.handle(Kind::Connection, request.incoming)) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipConnectAccept(connection: VipHandle, vi: VipHandle) -> VipReturn {
    call(|| {
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
    call(|| {
        let (nic, incoming) = handles::enter_object(Kind::Connection, connection)?;
        Ok(nic.nic.with(|e| e.reject(incoming))?)
    })
}

/// What requests have in common: an idle VI and two addresses.
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
    call(|| {
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
    call(|| {
        let (nic, vi) = enter_vi(vi)?;
        Ok(nic.nic.with(|e| e.disconnect(vi))?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectPeerRequest(vi: VipHandle, local: *const VipNetAddress, remote: *const VipNetAddress, timeout: VipUlong) -> VipReturn {
    call(|| {
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
    call(|| {
        let (nic, vi) = enter_vi(vi)?;
        if attributes_out.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        let attributes = nic.nic.peer_wait(vi)?;
        write_remote_attributes(attributes_out, &attributes);
        Ok(())
    })
}
