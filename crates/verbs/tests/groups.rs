// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of devices with keys and without, however the device got its keys.
#![forbid(unsafe_code)]

use bellwire_verbs::{
    Access, Caps, Destination, Error, Extra, GROUP_QP, Gid, Given, Opcode, Port, QpAttributes, QpInit, QpKind, QpState, SendFlags, SendRequest, WcStatus,
};
use bellwire_via::nic::NicConfig;
use bellwire_via::wire::Keys;
use std::sync::Arc;

/// 239.255.71.9.
const GROUP: Gid = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 255, 71, 9];

/// The result of attaching a queue pair, and the status of a datagram to the group.
fn use_group(keys: Option<Arc<Keys>>) -> (Result<(), Error>, WcStatus) {
    let port = Port::open(NicConfig { keys, ..NicConfig::default() }, None).unwrap();
    let domain = port.create_domain().unwrap();
    let cq = port.create_cq(16, None, 0).unwrap();
    let caps = Caps { sends: 4, receives: 4, send_pieces: 1, receive_pieces: 1, inline: 64 };
    let init = QpInit { kind: QpKind::Ud, domain, send_cq: cq, receive_cq: cq, srq: None, caps, signal_all: true, cookie: 0 };
    let qp = port.create_qp(&init).unwrap();
    let attributes = QpAttributes { port: 1, ..QpAttributes::default() };
    let moves = [(QpState::Init, Given::PKEY_INDEX | Given::PORT | Given::QKEY), (QpState::Rtr, Given::empty()), (QpState::Rts, Given::SEND_NUMBER)];
    moves.into_iter().for_each(|(to, given)| port.modify_qp(qp, Some(to), None, &attributes, given).unwrap());
    let attached = port.attach_to_group(qp, &GROUP);
    let from = port.allocate(domain, 64, Access::empty()).unwrap();
    let to = Destination { gid: Some(GROUP), qp: GROUP_QP, qkey: 0 };
    let pieces = [from.piece(0, 64).unwrap()];
    let request = SendRequest {
        wr_id: 1,
        opcode: Opcode::Send,
        flags: SendFlags::empty(),
        pieces: &pieces,
        immediate: 0,
        address: 0,
        key: 0,
        operands: [0; 2],
        extra: Extra::None,
        to: Some(to),
    };
    port.post_registered(qp, &request).unwrap();
    let mut status = None;
    while status.is_none() {
        port.poll_cq(cq, 4, |c| status = Some(c.status)).unwrap();
    }
    (attached, status.unwrap())
}

#[test]
fn a_device_with_keys_is_in_no_group_and_sends_to_none() {
    assert_eq!(use_group(None), (Ok(()), WcStatus::Success));
    // The environment names no keys: these are the program's own.
    assert_eq!(use_group(Some(Arc::new(Keys::shared([7; 32])))), (Err(Error::Unsupported), WcStatus::LocalQpOperation));
}
