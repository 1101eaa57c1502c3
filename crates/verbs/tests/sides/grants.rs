// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two devices on one host, and memory of the one that the other maps: its peer reads it by itself,
//! until the owner ends the queue pair, narrows its rights, or fails (invariant G1).

use crate::{BYTES, READS, Side, ports};
use bellwire_verbs::{Access, Given, QpAttributes, QpState, WcStatus};

/// The owner does `ends` to a queue pair: the reader's reads by it end with `expected`, and those
/// by another queue pair go on.
fn after(ends: impl Fn(&Side<'_>, u32), expected: WcStatus, others_go_on: bool) {
    let ports = ports();
    let [owner, reader] = [Side::new(&ports[0]), Side::new(&ports[1])];
    let memory = owner.port.allocate(owner.domain, 8192, Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
    let own = reader.port.allocate(reader.domain, 4096, Access::LOCAL_WRITE).unwrap();
    memory.write(0, &[1; BYTES as usize]).unwrap();
    let pairs = [(); 2].map(|()| {
        let (mine, theirs) = owner.connected(&reader);
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
