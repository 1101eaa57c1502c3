// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two devices on one host, and memory of the one that the other maps: its peer reads it by itself,
//! until the owner ends the queue pair, narrows its rights, or fails (invariant G1).
#![forbid(unsafe_code)]

use bellwire_verbs::{Access, Caps, Completion, Extra, Given, Memory, Opcode, Port, QpAttributes, QpInit, QpKind, QpState, SendFlags, SendRequest, WcStatus};
use bellwire_via::nic::NicConfig;

/// Reads after which the reader has been told where the memory lies.
const READS: usize = 64;
const BYTES: u32 = 64;

struct Side<'p> {
    port: &'p Port,
    domain: u32,
    cq: u32,
}

impl<'p> Side<'p> {
    fn new(port: &'p Port) -> Self {
        Self { port, domain: port.create_domain().unwrap(), cq: port.create_cq(16, None, 0).unwrap() }
    }

    fn pair(&self) -> u32 {
        let caps = Caps { sends: 4, receives: 4, send_pieces: 1, receive_pieces: 1, inline: 0 };
        let (domain, cq) = (self.domain, self.cq);
        self.port.create_qp(&QpInit { kind: QpKind::Rc, domain, send_cq: cq, receive_cq: cq, srq: None, caps, signal_all: true, cookie: 0 }).unwrap()
    }

    fn connect(&self, qp: u32, other: &Side<'_>, peer: u32) {
        let attributes = QpAttributes {
            access: Access::REMOTE_WRITE | Access::REMOTE_READ,
            gid: Some(other.port.gid()),
            peer,
            timeout: 14,
            retries: 1,
            rnr_retries: 1,
            mtu: 5,
            port: 1,
            ..QpAttributes::default()
        };
        let connected = Given::ADDRESS | Given::MTU | Given::PEER | Given::RECEIVE_NUMBER | Given::READS_IN | Given::RNR_TIMER;
        let sends = Given::SEND_NUMBER | Given::TIMEOUT | Given::RETRIES | Given::RNR_RETRIES | Given::READS_OUT;
        let moves = [(QpState::Init, Given::PKEY_INDEX | Given::PORT | Given::ACCESS), (QpState::Rtr, connected), (QpState::Rts, sends)];
        moves.into_iter().for_each(|(to, given)| self.port.modify_qp(qp, Some(to), None, &attributes, given).unwrap());
    }

    /// The outcome of a read of the owner's memory.
    fn read(&self, qp: u32, to: &Memory<'_>, from: &Memory<'_>) -> WcStatus {
        let pieces = [to.piece(0, BYTES).unwrap()];
        let request = SendRequest {
            wr_id: 1,
            opcode: Opcode::Read,
            flags: SendFlags::empty(),
            pieces: &pieces,
            immediate: 0,
            address: from.address(),
            key: from.key(),
            operands: [0; 2],
            extra: Extra::None,
            to: None,
        };
        self.port.post_registered(qp, &request).unwrap();
        let mut status = None;
        while status.is_none() {
            self.port.poll_cq(self.cq, 1, |c: &Completion| status = Some(c.status)).unwrap();
        }
        status.unwrap()
    }
}

/// The owner does `ends` to a queue pair: the reader's reads by it end with `expected`, and those
/// by another queue pair go on.
fn after(ends: impl Fn(&Side<'_>, u32), expected: WcStatus, others_go_on: bool) {
    let ports = [(); 2].map(|()| Port::open(NicConfig::default(), None).unwrap());
    let [owner, reader] = [Side::new(&ports[0]), Side::new(&ports[1])];
    let memory = owner.port.allocate(owner.domain, 8192, Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
    let own = reader.port.allocate(reader.domain, 4096, Access::LOCAL_WRITE).unwrap();
    memory.write(0, &[1; BYTES as usize]).unwrap();
    let pairs = [(); 2].map(|()| {
        let (mine, theirs) = (owner.pair(), reader.pair());
        owner.connect(mine, &reader, theirs);
        reader.connect(theirs, &owner, mine);
        for _ in 0..READS {
            assert_eq!(reader.read(theirs, &own, &memory), WcStatus::Success);
        }
        (mine, theirs)
    });
    let mut bytes = [0; BYTES as usize];
    own.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [1; BYTES as usize]);

    ends(&owner, pairs[0].0);
    // As a program does that has ended its use of the memory, which stays registered.
    memory.write(0, &[2; BYTES as usize]).unwrap();
    assert_eq!(reader.read(pairs[0].1, &own, &memory), expected);
    own.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [1; BYTES as usize], "freed bytes were read");
    if others_go_on {
        for _ in 0..READS {
            assert_eq!(reader.read(pairs[1].1, &own, &memory), WcStatus::Success);
        }
        own.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [2; BYTES as usize]);
    }
}

fn moved(to: QpState, access: Access, given: Given) -> impl Fn(&Side<'_>, u32) {
    move |owner, qp| owner.port.modify_qp(qp, Some(to), None, &QpAttributes { access, ..QpAttributes::default() }, given).unwrap()
}

#[test]
fn a_queue_pair_in_error_is_read_no_more() {
    after(moved(QpState::Err, Access::empty(), Given::empty()), WcStatus::RetryExceeded, true);
}

#[test]
fn a_queue_pair_that_is_reset_is_read_no_more() {
    after(moved(QpState::Reset, Access::empty(), Given::empty()), WcStatus::RetryExceeded, true);
}

#[test]
fn a_queue_pair_that_is_destroyed_is_read_no_more() {
    after(|owner, qp| owner.port.destroy_qp(qp).unwrap(), WcStatus::RetryExceeded, true);
}

#[test]
fn a_device_that_fails_is_read_no_more() {
    after(|owner, _| owner.port.fail_device(), WcStatus::RetryExceeded, false);
}

#[test]
fn a_right_that_is_taken_away_is_not_used() {
    after(moved(QpState::Rts, Access::REMOTE_WRITE, Given::ACCESS), WcStatus::RemoteAccess, true);
}
