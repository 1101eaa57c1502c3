// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a poll does, with two devices on one host. Each test tries more than once, since the thread
//! that stands in for a program that rests may do at any moment what the program is about to do.

use crate::{BYTES, READS, Side, ports};
use bellwire_verbs::{Access, WcStatus};

const TRIES: usize = 50;

/// Two queues that are polled by turns share a look. The next look finds a message that came
/// meanwhile.
#[test]
fn one_look_serves_two_queues() {
    let ports = ports();
    let [to, from] = [Side::new(&ports[0]), Side::new(&ports[1])];
    let (theirs, mine) = to.connected(&from);
    let memories = [&to, &from].map(|side| side.port.allocate(side.domain, 4096, Access::LOCAL_WRITE).unwrap());
    let piece = memories[0].piece(0, BYTES).unwrap();
    let poll = |cq| to.port.poll_cq(cq, 1, |c| assert_eq!(c.status, WcStatus::Success)).unwrap();
    let mut shared = 0;
    for _ in 0..TRIES {
        to.port.post_receive(theirs, 0, &[piece]).unwrap();
        assert_eq!(poll(to.sends), 0);
        from.post_send(mine, &memories[1]);
        // The look was made before the message came.
        let found = poll(to.receives);
        shared += usize::from(found == 0);
        if found == 0 {
            assert_eq!(to.next(to.receives), WcStatus::Success);
        }
        assert_eq!(from.next(from.sends), WcStatus::Success);
    }
    // The first message makes the connection.
    assert!(shared > 1, "each poll looked");
}

/// A queue that is not there is an error, also after a look for another queue.
#[test]
fn a_queue_that_is_gone_is_an_error() {
    let ports = ports();
    let side = Side::new(&ports[0]);
    let gone = side.port.create_cq(1, None, 0).unwrap();
    side.port.destroy_cq(gone).unwrap();
    assert_eq!(side.port.poll_cq(side.sends, 1, |_| ()), Ok(0));
    assert!(side.port.poll_cq(gone, 1, |_| ()).is_err());
}

/// A read behind a message waits for its answer, and is done by the reader then: it finds what the
/// owner wrote after that.
#[test]
fn a_read_behind_a_message_is_done_in_place() {
    let ports = ports();
    let [owner, reader] = [Side::new(&ports[0]), Side::new(&ports[1])];
    let (theirs, mine) = owner.connected(&reader);
    let memory = owner.port.allocate(owner.domain, 8192, Access::LOCAL_WRITE | Access::REMOTE_READ).unwrap();
    let own = reader.port.allocate(reader.domain, 4096, Access::LOCAL_WRITE).unwrap();
    for _ in 0..READS {
        assert_eq!(reader.read(mine, &own, &memory), WcStatus::Success);
    }
    let mut in_place = 0;
    for _ in 0..TRIES {
        memory.write(0, &[1; BYTES as usize]).unwrap();
        owner.port.post_receive(theirs, 0, &[memory.piece(4096, BYTES).unwrap()]).unwrap();
        reader.post_send(mine, &own);
        reader.post_read(mine, &own, &memory);
        assert_eq!(owner.next(owner.receives), WcStatus::Success);
        // It has nothing more to do, and answers.
        assert_eq!(owner.port.poll_cq(owner.receives, 1, |_| ()), Ok(0));
        memory.write(0, &[2; BYTES as usize]).unwrap();
        assert_eq!([reader.next(reader.sends), reader.next(reader.sends)], [WcStatus::Success; 2]);
        let mut bytes = [0; BYTES as usize];
        own.read(0, &mut bytes).unwrap();
        assert!(bytes == [1; BYTES as usize] || bytes == [2; BYTES as usize], "{bytes:?}");
        in_place += usize::from(bytes[0] == 2);
    }
    assert!(in_place > 1, "the owner was asked for its bytes each time");
}

/// A long write behind a message waits as well, and is done by the writer then: it takes what the
/// memory holds at that time. A short one leaves at once, as a packet.
#[test]
fn a_long_write_behind_a_message_is_done_in_place() {
    const LONG: u32 = 64 << 10;
    let ports = ports();
    let [owner, writer] = [Side::new(&ports[0]), Side::new(&ports[1])];
    let (theirs, mine) = owner.connected(&writer);
    let memory = owner.port.allocate(owner.domain, 2 * LONG, Access::LOCAL_WRITE | Access::REMOTE_WRITE).unwrap();
    let own = writer.port.allocate(writer.domain, LONG, Access::LOCAL_WRITE).unwrap();
    for _ in 0..READS {
        writer.post_write(mine, &own, &memory, BYTES);
        assert_eq!(writer.next(writer.sends), WcStatus::Success);
    }
    let late = |length: u32| {
        own.write(0, &[1; BYTES as usize]).unwrap();
        owner.port.post_receive(theirs, 0, &[memory.piece(LONG as usize, BYTES).unwrap()]).unwrap();
        writer.post_send(mine, &own);
        writer.post_write(mine, &own, &memory, length);
        own.write(0, &[2; BYTES as usize]).unwrap();
        assert_eq!(owner.next(owner.receives), WcStatus::Success);
        assert_eq!([writer.next(writer.sends), writer.next(writer.sends)], [WcStatus::Success; 2]);
        let mut bytes = [0; BYTES as usize];
        memory.read(0, &mut bytes).unwrap();
        assert!(bytes == [1; BYTES as usize] || bytes == [2; BYTES as usize], "{bytes:?}");
        usize::from(bytes[0] == 2)
    };
    assert!((0..TRIES).map(|_| late(LONG)).sum::<usize>() > 1, "each long write was copied when it was posted");
    assert!((0..TRIES).map(|_| late(BYTES)).sum::<usize>() < TRIES, "each short write waited");
}
