// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process of the job that sends what none sends. The others end with a word of who it was;
//! nothing outside their windows changes. (More of it: the fuzz target `gas`.)

use super::*;
use crate::net::header::TELL;
use crate::net::peer::WINDOW;
use crate::net::rounds::BLOCK_BYTES_MAX;

/// What the honest process 0 says of a process 1 that does `wrong`; its memory around the window
/// must be whole.
pub(super) fn told_of(wrong: impl Fn(&mut Alone, u64) + Sync) -> Error {
    let launcher = Launcher::new(2);
    let told = Mutex::new(None);
    let (is_over, over) = channel::<()>();
    let over = Mutex::new(over);
    let base = Mutex::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let is_over = is_over;
            let mut memory = Memory::new();
            *base.lock().unwrap() = memory.at(0);
            let net = Net::open((0, 2), config(false), memory.window(), |block| launcher.gather(0, block)).unwrap();
            *told.lock().unwrap() = net.gather(None).err();
            assert!(memory.is_whole_around());
            net.leave(1);
            drop(is_over);
        });
        scope.spawn(|| {
            let mut memory = Memory::new();
            let mut peer = Alone::new((1, 2), memory.window(), |block| launcher.gather(1, block).unwrap());
            peer.meet();
            let base = *base.lock().unwrap();
            wrong(&mut peer, base);
            // Stays until it is found out, taking what comes.
            while over.lock().unwrap().recv_timeout(Duration::from_millis(1)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                peer.step();
            }
        });
    });
    told.into_inner().unwrap().expect("an error")
}

/// Sends a message as if it were right.
fn say(peer: &mut Alone, head: Head, payload: &[u8]) {
    // SAFETY: a slice of ours.
    peer.nic.with(|engine| unsafe { peer.core.peers[0].send(engine, &head, (payload.as_ptr(), payload.len())) });
}

#[test]
fn what_no_process_sends_ends_the_job() {
    let plain = |kind, words| Head::new(kind, words);
    let head = |kind, flags, what, words| Head { kind, flags, what, words };
    let wrong: Vec<(&str, Head, Vec<u8>)> = vec![
        ("an answer that nobody waits for", plain(Kind::Data, [0; 3]), vec![0; 8]),
        ("a get of too much", plain(Kind::Get, [0, u64::MAX, 0]), vec![]),
        ("an atomic that there is not", head(Kind::Atomic, 0, 0x0803, [0; 3]), vec![]),
        ("a call of a function that there is not", plain(Kind::Call, [0, 1 << 40, 0]), vec![]),
        ("an atomic of an odd size", head(Kind::Atomic, 0, 0x0300, [0; 3]), vec![]),
        ("a round that there is not", plain(Kind::Round, [0, 9, 0]), vec![]),
        ("a round of a later call", plain(Kind::Round, [5, 0, 0]), vec![]),
        ("a round with too much", plain(Kind::Round, [0, 0, 0]), vec![0; 4 * BLOCK_BYTES_MAX]),
        ("a get with a payload", plain(Kind::Get, [0; 3]), vec![1; 8]),
        ("a pack of nothing", plain(Kind::Pack, [0; 3]), vec![]),
        ("a pack that ends in a word", plain(Kind::Pack, [0; 3]), vec![0x81, 0, 0, 0]),
        ("a pack with a request that there is not", plain(Kind::Pack, [0; 3]), vec![0x85, 0, 0, 0, 0, 0, 0, 0]),
        ("a pack with a get of more than there may be", plain(Kind::Pack, [0; 3]), vec![0xf4, 0xff, 0, 0, 0, 0, 0, 0]),
        ("a pack of a put that carries less than it says", plain(Kind::Pack, [0; 3]), vec![0x92, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ("an answer to two requests of which there is one", plain(Kind::Data, [0; 3]), vec![0; 16]),
        ("flags that there are not", head(Kind::Flush, 2 * TELL, 0, [0; 3]), vec![]),
        ("a refusal of nothing", head(Kind::Refused, 0, 0x0009, [0; 3]), vec![]),
    ];
    for (what, head, payload) in wrong {
        let told = told_of(|peer, _| say(peer, head, &payload));
        assert!(matches!(told, Error::Trouble(Trouble::Misbehaved(1))), "{what}: {told:?}");
    }
}

#[test]
fn who_sends_words_at_random_or_takes_no_answer_is_found_out() {
    let told = told_of(|peer, _| {
        let vi = peer.core.peers[0].channel.vi();
        // More messages taken than were sent.
        let line = (Kind::Taken as u64 | 77 << 32).to_le_bytes();
        // SAFETY: an array of ours.
        peer.nic.with(|engine| unsafe { engine.send_line(vi, line.as_ptr(), 8) }).unwrap();
    });
    assert!(matches!(told, Error::Trouble(Trouble::Misbehaved(1))), "{told:?}");
    let told = told_of(|peer, base| {
        // Asks and asks, without an answer's room: either it is found out or its connection breaks.
        // A word of a pack: a get of 2 KiB.
        let gets: Vec<u8> = (0..120).flat_map(|i| (1 | 2048 << 4 | (base + i) << 16).to_le_bytes()).collect();
        for _ in 0..WINDOW {
            say(peer, Head::new(Kind::Pack, [0; 3]), &gets);
        }
    });
    assert!(matches!(told, Error::Trouble(Trouble::Misbehaved(1) | Trouble::Gone(1, _))), "{told:?}");
}

/// Heads of all kinds with words that fit and that do not, payloads of all lengths: the process
/// ends the job, or lives until the peer is gone.
#[test]
fn a_peer_that_says_anything() {
    let mut found = [0; 3];
    for seed in 0..40u8 {
        let told = told_of(|peer, base| {
            let mut draw = draws(u64::from(seed));
            for _ in 0..100 {
                // Puts to other places than the window are good ones, if there is memory; here they
                // name none.
                let address = if draw(4) == 0 { draw(4096) } else { base + draw(8 * WORDS as u64 - 64) };
                let kind = 1 + draw(13);
                let first = kind | draw(2) << 8 | if draw(4) == 0 { draw(1 << 16) << 16 } else { 0 } | if draw(20) == 0 { draw(1 << 32) << 32 } else { 0 };
                let words = [first, address, if draw(2) == 0 { draw(100) } else { draw(u64::MAX) }, draw(3)];
                let record = draw(4) | draw(64) << 4 | address << 16;
                let body: Vec<u8> = if kind == Kind::Pack as u64 { record.to_le_bytes().to_vec() } else { vec![seed; draw(64) as usize] };
                let n = 8 * (1 + draw(4)) as usize;
                let message: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take(n).chain(body).collect();
                let (pieces, vi) =
                    (bellwire_via::Pieces { head: (message.as_ptr(), message.len()), body: (std::ptr::null(), 0) }, peer.core.peers[0].channel.vi());
                // SAFETY: a vector of ours. Short: all of it leaves or nothing.
                let _ = peer.nic.with(|engine| unsafe { engine.send_copied(vi, &pieces, 0) });
                peer.step();
            }
            let vi = peer.core.peers[0].channel.vi();
            let _ = peer.nic.with(|engine| engine.disconnect(vi));
        });
        match told {
            Error::Trouble(Trouble::Misbehaved(1)) => found[0] += 1,
            Error::Trouble(Trouble::Refused { process: 1, .. } | Trouble::Gone(1, _)) => found[1] += 1,
            Error::Left(left) if left.process == 1 => found[2] += 1,
            other => panic!("seed {seed}: {other:?}"),
        }
    }
    assert!(found[0] > 20, "{found:?}");
}
