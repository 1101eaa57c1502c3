// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program without `unsafe`: queue pairs of one device, and memory that the device owns.
#![forbid(unsafe_code)]

use bellwire_verbs::{Access, Caps, Error, Extra, Given, Opcode, Port, QpAttributes, QpInit, QpKind, QpState, SendFlags, SendRequest, WcStatus};
use bellwire_via::nic::NicConfig;

const SENT: u64 = 1;
const WRITTEN: u64 = 2;
const RECEIVED: u64 = 3;

#[test]
fn messages_and_writes_between_memory_of_the_device() {
    let port = Port::open(NicConfig::default(), None).unwrap();
    let domain = port.create_domain().unwrap();
    let cq = port.create_cq(16, None, 0).unwrap();
    let caps = Caps { sends: 4, receives: 4, send_pieces: 1, receive_pieces: 1, inline: 64 };
    let init = QpInit { kind: QpKind::Rc, domain, send_cq: cq, receive_cq: cq, srq: None, caps, signal_all: true, cookie: 0 };
    let qps = [(); 2].map(|()| port.create_qp(&init).unwrap());
    for (qp, peer) in [(qps[0], qps[1]), (qps[1], qps[0])] {
        let access = Access::REMOTE_WRITE | Access::REMOTE_READ;
        let attributes =
            QpAttributes { access, gid: Some(port.gid()), peer, timeout: 14, retries: 7, rnr_retries: 7, mtu: 5, port: 1, ..QpAttributes::default() };
        let connected = Given::ADDRESS | Given::MTU | Given::PEER | Given::RECEIVE_NUMBER | Given::READS_IN | Given::RNR_TIMER;
        let sends = Given::SEND_NUMBER | Given::TIMEOUT | Given::RETRIES | Given::RNR_RETRIES | Given::READS_OUT;
        let moves = [(QpState::Init, Given::PKEY_INDEX | Given::PORT | Given::ACCESS), (QpState::Rtr, connected), (QpState::Rts, sends)];
        moves.into_iter().for_each(|(to, given)| port.modify_qp(qp, Some(to), None, &attributes, given).unwrap());
    }
    assert!(matches!(port.allocate(domain, 0, Access::all()), Err(Error::Invalid)));
    assert!(matches!(port.allocate(domain, 8, Access::REMOTE_WRITE), Err(Error::Invalid)));
    let from = port.allocate(domain, 10_000, Access::empty()).unwrap();
    let to = port.allocate(domain, 20_000, Access::all()).unwrap();
    let data: Vec<u8> = (0..10_000u32).map(|i| (i * 7) as u8).collect();
    from.write(0, &data).unwrap();
    assert_eq!(from.write(1, &data), Err(Error::Invalid));
    assert!(from.piece(9_999, 2).is_err());

    port.post_receive(qps[1], RECEIVED, &[to.piece(0, 10_000).unwrap()]).unwrap();
    let pieces = [from.piece(0, 10_000).unwrap()];
    let request = |wr_id, opcode, flags| SendRequest {
        wr_id,
        opcode,
        flags,
        pieces: &pieces,
        immediate: 0,
        address: to.address() + 10_000,
        key: to.key(),
        operands: [0; 2],
        extra: Extra::None,
        to: None,
    };
    assert_eq!(port.post_registered(qps[0], &request(0, Opcode::Send, SendFlags::INLINE)), Err(Error::Invalid));
    port.post_registered(qps[0], &request(SENT, Opcode::Send, SendFlags::empty())).unwrap();
    port.post_registered(qps[0], &request(WRITTEN, Opcode::Write, SendFlags::empty())).unwrap();
    let mut ended = Vec::new();
    while ended.len() < 3 {
        port.poll_cq(cq, 4, |c| ended.push((c.wr_id, c.status))).unwrap();
    }
    ended.sort_by_key(|(id, _)| *id);
    assert_eq!(ended, [SENT, WRITTEN, RECEIVED].map(|id| (id, WcStatus::Success)));
    let mut back = vec![0; 20_000];
    to.read(0, &mut back).unwrap();
    assert_eq!([&back[..10_000], &back[10_000..]], [&data[..]; 2]);

    // What its owner has let go nobody reaches any more.
    let (address, key) = (to.address(), to.key());
    drop(to);
    let gone = SendRequest { address, key, ..request_of(&pieces) };
    port.post_registered(qps[0], &gone).unwrap();
    let mut status = None;
    while status.is_none() {
        port.poll_cq(cq, 4, |c| status = Some(c.status)).unwrap();
    }
    assert_eq!(status, Some(WcStatus::RemoteAccess));
}

fn request_of(pieces: &[bellwire_verbs::Sge]) -> SendRequest<'_> {
    SendRequest {
        wr_id: 9,
        opcode: Opcode::Write,
        flags: SendFlags::empty(),
        pieces,
        immediate: 0,
        address: 0,
        key: 0,
        operands: [0; 2],
        extra: Extra::None,
        to: None,
    }
}
