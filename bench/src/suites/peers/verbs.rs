// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue pairs of verbs with many peers, all on one completion queue.

use bellwire_verbs::{Completion, Extra, Opcode, Port, SendFlags, SendRequest, WcOpcode, WcStatus};

use super::{Crowd, MESSAGE_BYTES, RECEIVES, Talk};
use crate::am::Seen;
use crate::clock::Patience;
use crate::endpoint::PATIENCE;
use crate::error::Error;
use crate::verbs::{Memory, NAME_BYTES, Queues, failed, open};

/// Sends that may be under way.
const SENDS: usize = 16;
/// Completions that one look takes.
const LOOK_MAX: usize = 16;

/// Connects and measures.
pub fn run(crowd: &mut Crowd<'_>, count: u64) -> Result<Vec<f64>, Error> {
    let ports = (0..crowd.peers).map(|_| open()).collect::<Result<Vec<Port>, Error>>()?;
    let all = ports.iter().map(|port| Queues::new(port, 2 * (RECEIVES + SENDS) + crowd.peers)).collect::<Result<Vec<_>, _>>()?;
    // The main device has a queue pair for each peer; of these and of the idle ones each takes one
    // message.
    let (main, idle) = (&all[0], &all[1..]);
    let memory = main.allocate((RECEIVES + SENDS) * MESSAGE_BYTES)?;
    let to_peers = (0..crowd.peers).map(|_| main.create_qp(SENDS, RECEIVES)).collect::<Result<Vec<_>, _>>()?;
    let of_idle = idle.iter().map(|queues| queues.create_qp(1, 1)).collect::<Result<Vec<_>, _>>()?;
    let names = to_peers.iter().map(|qp| main.name(*qp)).chain(idle.iter().zip(&of_idle).map(|(queues, qp)| queues.name(*qp)));
    let others = crowd.exchange(&names.flatten().collect::<Vec<u8>>())?;
    let (others, _) = others.as_chunks::<NAME_BYTES>();
    // The main ones with each other; then our main one with the idle ones, which follow all of the
    // main one, and our idle ones with the other's main one.
    main.connect(to_peers[0], &others[0])?;
    let mut talk = Main { port: main.port, cq: main.cq, qp: to_peers[0], memory: &memory, sent: 0, collected: 0, has_failed: false };
    for place in 0..RECEIVES {
        talk.post_receive(place)?;
    }
    let buffers = idle.iter().map(|queues| queues.allocate(MESSAGE_BYTES)).collect::<Result<Vec<_>, _>>()?;
    for (i, (queues, qp)) in idle.iter().zip(&of_idle).enumerate() {
        main.connect(to_peers[1 + i], &others[crowd.peers + i])?;
        queues.connect(*qp, &others[1 + i])?;
        queues.port.post_receive(*qp, 0, &[buffers[i].piece(0, MESSAGE_BYTES)]).map_err(failed)?;
    }
    crowd.meet()?;
    // The first message to a device connects with it.
    let mut patience = Patience::lasting(PATIENCE);
    for qp in &to_peers[1..] {
        talk.qp = *qp;
        while !talk.send(0)? {
            talk.look(&Seen::default())?;
            patience.tick()?;
        }
    }
    talk.qp = to_peers[0];
    let mut taken = 0;
    crowd.look_until_both(|| {
        for queues in idle {
            taken += queues.port.poll_cq(queues.cq, 1, |_| ()).map_err(failed)?;
        }
        talk.look(&Seen::default())?;
        Ok(taken == idle.len() && talk.collected == talk.sent)
    })?;
    crowd.measure(&mut talk, count)
}

struct Main<'a> {
    port: &'a Port,
    cq: u32,
    qp: u32,
    memory: &'a Memory<'a>,
    sent: usize,
    collected: usize,
    has_failed: bool,
}

impl Main<'_> {
    fn post_receive(&self, place: usize) -> Result<(), Error> {
        let piece = self.memory.piece(place * MESSAGE_BYTES, MESSAGE_BYTES);
        if self.port.post_receive_short(self.qp, place as u64, &piece) {
            return Ok(());
        }
        self.port.post_receive(self.qp, place as u64, &[piece]).map_err(failed)
    }
}

impl Talk for Main<'_> {
    #[inline]
    fn send(&mut self, number: u64) -> Result<bool, Error> {
        if self.sent - self.collected == SENDS {
            return Ok(false);
        }
        let at = (RECEIVES + self.sent % SENDS) * MESSAGE_BYTES;
        // SAFETY: the send of `SENDS` before, which used this place, is complete.
        unsafe { self.memory.at(at, MESSAGE_BYTES).cast::<u64>().write(number) };
        let pieces = [self.memory.piece(at, MESSAGE_BYTES)];
        let (flags, operands) = (SendFlags::SIGNALED, [0; 2]);
        let request =
            SendRequest { wr_id: 0, opcode: Opcode::Send, flags, pieces: &pieces, immediate: 0, address: 0, key: 0, operands, extra: Extra::None, to: None };
        self.port.post_registered(self.qp, &request).map_err(failed)?;
        self.sent += 1;
        Ok(true)
    }

    #[inline]
    fn look(&mut self, seen: &Seen) -> Result<(), Error> {
        let mut places = [0; LOOK_MAX];
        let mut received = 0;
        self.port
            .poll_cq(self.cq, LOOK_MAX, |c: &Completion| {
                self.has_failed |= c.status != WcStatus::Success;
                if c.opcode == WcOpcode::Receive {
                    places[received] = c.wr_id as usize;
                    received += 1;
                } else {
                    self.collected += 1;
                }
            })
            .map_err(failed)?;
        if self.has_failed {
            return Err(Error::failed("verbs: a request has failed"));
        }
        for place in &places[..received] {
            // SAFETY: a completed receive's buffer is ours until it is posted again.
            seen.take(unsafe { self.memory.at(place * MESSAGE_BYTES, MESSAGE_BYTES).cast::<u64>().read() } as i32);
            self.post_receive(*place)?;
        }
        Ok(())
    }
}
