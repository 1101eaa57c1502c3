// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shapes of commands and answers (`rdma/rdma_user_cm.h`, version 4), by their offsets behind the
//! command's head.

use crate::{Device, address};
use bellwire_cm::{Attributes, Error, Event, EventBody, Gid, Parameters, Route};
use std::net::SocketAddr;

/// The head: command u32, bytes of the command u16, room for the answer u16.
pub(super) const HEAD: usize = 8;
/// Longest command.
pub(super) const COMMAND_MAX: usize = 512;

/// The bytes of a command.
#[derive(Clone, Copy)]
pub(super) struct In<'a>(pub &'a [u8]);

impl<'a> In<'a> {
    pub(super) fn bytes<const N: usize>(self, at: usize) -> Result<[u8; N], Error> {
        self.0.get(at..at + N).and_then(|b| b.try_into().ok()).ok_or(Error::Invalid)
    }

    pub(super) fn byte(self, at: usize) -> Result<u8, Error> {
        Ok(self.bytes::<1>(at)?[0])
    }

    pub(super) fn half(self, at: usize) -> Result<u16, Error> {
        Ok(u16::from_ne_bytes(self.bytes(at)?))
    }

    pub(super) fn word(self, at: usize) -> Result<u32, Error> {
        Ok(u32::from_ne_bytes(self.bytes(at)?))
    }

    pub(super) fn double(self, at: usize) -> Result<u64, Error> {
        Ok(u64::from_ne_bytes(self.bytes(at)?))
    }

    pub(super) fn slice(self, at: usize, length: usize) -> Result<&'a [u8], Error> {
        self.0.get(at..at + length).ok_or(Error::Invalid)
    }
}

/// A device, and its number.
pub(super) type Numbered<'a> = (&'a dyn Device, u32);

/// The bytes of an answer.
pub(super) struct Out(pub Vec<u8>);

impl Out {
    pub(super) fn new(length: usize) -> Self {
        Self(vec![0; length])
    }

    pub(super) fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn word(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_ne_bytes());
    }
}

/// `rdma_ucm_conn_param`.
const PARAM_DATA: usize = 8;
const PARAM_LENGTH: usize = 264;
/// Bytes of it.
pub(super) const PARAM: usize = 272;

/// Parameters out of a command; `None`: the program says that there are none.
pub(super) fn parameters(command: In<'_>, at: usize, ece: usize) -> Result<Option<Parameters>, Error> {
    let length = usize::from(command.byte(at + PARAM_LENGTH)?);
    if command.byte(at + 271)? == 0 {
        return Ok(None);
    }
    Ok(Some(Parameters {
        qp: command.word(at)? & 0xff_ffff,
        qkey: command.word(at + 4)?,
        data: command.slice(at + PARAM_DATA, length)?.to_vec(),
        srq: command.byte(at + 265)?,
        responder_resources: command.byte(at + 266)?,
        initiator_depth: command.byte(at + 267)?,
        flow_control: command.byte(at + 268)?,
        retry_count: command.byte(at + 269)?.min(7),
        rnr_retry_count: command.byte(at + 270)?.min(7),
        // Older programs' commands end before.
        ece: (command.word(ece).unwrap_or(0), command.word(ece + 4).unwrap_or(0)),
    }))
}

/// `ib_uverbs_ah_attr`, of a GID.
fn address_handle(out: &mut Out, at: usize, gid: &Gid) {
    out.put(at, gid);
    // Hop limit; there is a GID; port.
    out.put(at + 21, &[64]);
    out.put(at + 29, &[1, 1]);
}

/// Bytes of `rdma_ucm_event_resp`, and those that older programs have room for.
pub(super) const EVENT: usize = 336;
pub(super) const EVENT_MIN: usize = 324;

/// `rdma_ucm_event_resp`.
pub(super) fn event(event: &Event) -> Out {
    let mut out = Out::new(EVENT);
    out.put(0, &event.uid.to_ne_bytes());
    out.word(8, event.id);
    out.word(12, event.kind as u32);
    out.word(16, event.status as u32);
    match &event.body {
        EventBody::Nothing => {}
        EventBody::Connection(p) => {
            let length = p.data.len().min(255);
            out.word(20, p.qp);
            out.word(24, p.qkey);
            out.put(28, &p.data[..length]);
            out.put(284, &[length as u8, p.srq, p.responder_resources, p.initiator_depth, p.flow_control, p.retry_count, p.rnr_retry_count, 1]);
            out.word(328, p.ece.0);
            out.word(332, p.ece.1);
        }
        EventBody::Datagram(gid, p) => {
            let length = p.data.len().min(255);
            out.word(20, p.qp);
            out.word(24, p.qkey);
            address_handle(&mut out, 28, gid);
            out.put(60, &p.data[..length]);
            out.put(316, &[length as u8]);
        }
    }
    out
}

/// Bytes of `ib_uverbs_qp_attr`.
pub const QP_ATTRIBUTES: usize = 144;

/// `ib_uverbs_qp_attr`.
pub(super) fn qp_attributes(a: &Attributes) -> Out {
    let mut out = Out::new(QP_ATTRIBUTES);
    for (at, value) in
        [(0, a.mask), (4, a.state), (12, u32::from(a.mtu)), (20, a.qkey), (24, a.receive_number), (28, a.send_number), (32, a.peer), (36, a.access)]
    {
        out.word(at, value);
    }
    if a.gid != [0; 16] {
        address_handle(&mut out, 40, &a.gid);
    }
    out.put(130, &[a.reads_out, a.reads_in, 0, 1, a.timeout, a.retries, a.rnr_retries]);
    out
}

/// What a path is like: 100 Gb/s.
const RATE: u8 = 16;
const LIFE_TIME: u8 = 18;
const PKEY: [u8; 2] = [0xff; 2];

/// Bytes of `rdma_ucm_query_route_resp`, and those that older programs have room for.
pub(super) const ROUTE: usize = 208;
pub(super) const ROUTE_MIN: usize = 200;

/// `rdma_ucm_query_route_resp`.
pub(super) fn route(route: &Route, (device, index): Numbered<'_>) -> Out {
    let guid = device.guid().to_be();
    let mut out = Out::new(ROUTE);
    if let Some(own) = &route.own {
        out.put(0, &guid.to_ne_bytes());
        out.put(8 + 16, own);
        out.put(8 + 52, &PKEY);
        out.put(196, &[1]);
        out.word(200, index);
    } else {
        out.word(200, u32::MAX);
    }
    if let Some(peer) = &route.peer {
        out.put(8, peer);
    }
    if route.has_path && route.own.is_some() {
        out.word(8 + 44, 1);
        out.word(8 + 48, u32::from(device.mtu_code()));
        out.put(8 + 54, &[64, 0, 1, 0, 2, 2, RATE, 2, LIFE_TIME, 0]);
        out.word(192, 1);
    }
    put_address(&mut out, 136, 28, route.source);
    put_address(&mut out, 164, 28, route.destination);
    out
}

fn put_address(out: &mut Out, at: usize, room: usize, a: Option<SocketAddr>) -> u16 {
    let Some(a) = a else { return 0 };
    let bytes = address::store(&a);
    let n = bytes.len().min(room);
    out.put(at, &bytes[..n]);
    n as u16
}

/// Bytes of `rdma_ucm_query_addr_resp`, and those that older programs have room for.
pub(super) const ADDRESS: usize = 280;
pub(super) const ADDRESS_MIN: usize = 272;

fn put_device(out: &mut Out, route: &Route, (device, index): Numbered<'_>) {
    out.word(272, if route.own.is_some() { index } else { u32::MAX });
    if route.own.is_some() {
        out.put(0, &device.guid().to_be().to_ne_bytes());
        out.put(8, &[1]);
        out.put(10, &PKEY);
    }
}

/// `rdma_ucm_query_addr_resp`.
pub(super) fn addresses(route: &Route, device: Numbered<'_>) -> Out {
    let mut out = Out::new(ADDRESS);
    put_device(&mut out, route, device);
    let source = put_address(&mut out, 16, 128, route.source);
    let destination = put_address(&mut out, 144, 128, route.destination);
    out.put(12, &source.to_ne_bytes());
    out.put(14, &destination.to_ne_bytes());
    out
}

/// The same with GIDs, as addresses of the family AF_IB.
pub(super) fn gids(route: &Route, device: Numbered<'_>) -> Out {
    const FAMILY: u16 = 27;
    const LENGTH: u16 = 48;
    let mut out = Out::new(ADDRESS);
    put_device(&mut out, route, device);
    for (at, gid) in [(16, &route.own), (144, &route.peer)] {
        out.put(at, &FAMILY.to_ne_bytes());
        out.put(at + 2, &PKEY);
        out.put(at + 8, gid.as_ref().unwrap_or(&[0; 16]));
    }
    out.put(12, &LENGTH.to_ne_bytes());
    out.put(14, &LENGTH.to_ne_bytes());
    out
}

/// Bytes of `rdma_ucm_query_path_resp` without a path.
pub(super) const PATHS_MIN: usize = 8;

/// `rdma_ucm_query_path_resp`: the path in the order of the subnet administrator.
pub(super) fn paths(route: &Route, device: &dyn Device) -> Out {
    let (Some(own), Some(peer), true) = (&route.own, &route.peer, route.has_path) else { return Out::new(PATHS_MIN) };
    let mut out = Out::new(PATHS_MIN + 72);
    out.word(0, 1);
    // A primary path, for both directions.
    out.word(8, 1 | 2 | 8 | 32);
    out.put(16 + 8, peer);
    out.put(16 + 24, own);
    out.put(16 + 47, &[64, 0, 0x81]);
    out.put(16 + 50, &PKEY);
    out.put(16 + 54, &[2 << 6 | device.mtu_code(), 2 << 6 | RATE, 2 << 6 | LIFE_TIME]);
    out
}
