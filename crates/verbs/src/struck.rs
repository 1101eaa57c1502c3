// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults on purpose (`BELLWIRE_FAULTS`), at this layer: the plan is asked for the fault of a
//! request when it is about to leave, once, in the order of its queue pair; of one that is never to
//! leave, since its queue pair has failed, when it ends. So a program that posts the same requests
//! under the same seed meets the same faults, on any wire, whatever the time.
//! Faults take the way of real ones: a message that is to find no receive asks the peer to refuse
//! it so, an access that is to be denied has an invalid key, silence lasts as long as the queue
//! pair is patient.
//!
//! While the port is down nothing leaves and nothing is taken.

use crate::core::{AsyncEvent, Core};
use crate::fates::{Struck, Verdict};
use crate::qp::{Qp, Usual};
use crate::reason::Reason;
use crate::types::{Access, AsyncKind, Gid, Opcode, QpState, WcStatus};
use bellwire_faults::Fate;
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, Instant, MemAttributes, MemHandle};

/// In the timers, for the port's: no queue pair has that number.
pub(crate) const PORT_TIMER: u32 = 0;
/// The only port.
const PORT: u64 = 1;

/// The way on for the next request of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It may leave.
    Free,
    /// Not now.
    Closed,
    /// It has ended; there may be another.
    Ended,
}

impl Core {
    /// From now on faults strike.
    pub(crate) fn be_struck(&mut self, struck: Struck) {
        if let Some(at) = struck.next_change() {
            self.timers.insert((at, PORT_TIMER));
        }
        self.struck = Some(Box::new(struck));
    }

    #[inline]
    pub(crate) fn is_down(&self) -> bool {
        self.is_closed || self.struck.as_ref().is_some_and(|s| s.down != 0)
    }

    /// Decides about the next request of a queue pair.
    pub(crate) fn strike<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32) -> Way {
        let (now, own, is_down) = (self.time(), self.name.gid, self.is_down());
        let Some(qp) = self.qps.get_mut(number as usize & (crate::name::QPS_MAX - 1)).and_then(Option::as_deref_mut) else { return Way::Closed };
        qp.usual = Usual::NONE;
        let is_reliable = qp.init.kind.is_reliable();
        if is_down && !is_reliable {
            // As on a wire without a light: it is gone, and nobody says so.
            qp.part = 0;
            self.judge(number, 1);
            self.end_first(number, WcStatus::Success);
            return Way::Ended;
        }
        if is_down {
            self.cut_off(number, now);
            return Way::Closed;
        }
        let Some(struck) = &mut self.struck else { return Way::Free };
        if qp.part != 0 || qp.left >= qp.sends.len() {
            return Way::Free;
        }
        let fate = draw(struck, qp, qp.left, own, now);
        let send = &mut qp.sends[qp.left];
        match fate {
            Some(Fate::Unready(times)) if is_reliable && takes_receive(send.opcode) => send.judged.unready = times,
            Some(Fate::Denied) if is_reliable && send.length != 0 && !matches!(send.opcode, Opcode::Send | Opcode::SendImm) => send.key = 0,
            Some(Fate::Unanswered) if is_reliable => send.judged.verdict = Verdict::Lost,
            Some(Fate::Broken) => send.judged.verdict = Verdict::Breaks,
            Some(Fate::Death) => (struck.die)(),
            _ => {}
        }
        match send.judged.verdict {
            Verdict::None | Verdict::Leaves => return Way::Free,
            // Requests before it end first.
            _ if qp.left != 0 && is_reliable => {}
            Verdict::Lost => self.fall_silent(number, now, Reason::Fault),
            Verdict::Breaks => {
                qp.reason = Reason::Fault;
                self.event(number, AsyncKind::QpFatal);
                self.enter_error(engine, number);
            }
        }
        Way::Closed
    }

    /// Has the first `most` requests of a queue pair judged that are not yet, and are not to leave:
    /// how many had left before it failed is a matter of time.
    #[cold]
    pub(crate) fn judge(&mut self, number: u32, most: usize) {
        if self.struck.is_none() {
            return;
        }
        let (now, own) = (self.time(), self.name.gid);
        let Some(struck) = &mut self.struck else { return };
        let Some(qp) = self.qps.get_mut(number as usize & (crate::name::QPS_MAX - 1)).and_then(Option::as_deref_mut) else { return };
        for at in 0..qp.sends.len().min(most) {
            let _ = draw(struck, qp, at, own, now);
        }
    }

    /// Nobody answers a queue pair any more: it fails when its patience is over; without a timeout,
    /// never.
    pub(crate) fn fall_silent(&mut self, number: u32, now: u64, reason: Reason) {
        let Some(qp) = self.qp(number) else { return };
        (qp.is_deserted, qp.reason) = (true, reason);
        qp.pause = qp.patience().map_or(u64::MAX, |p| now.saturating_add(p));
        let at = qp.pause;
        self.timers.insert((at, number));
    }

    fn cut_off(&mut self, number: u32, now: u64) {
        let Some(qp) = self.qp(number).filter(|q| !q.is_deserted) else { return };
        qp.is_cut = true;
        self.fall_silent(number, now, Reason::PortDown);
    }

    /// The port goes down or up, if its time has come.
    pub(crate) fn change_port<W: Wire>(&mut self, engine: &mut Engine<W>) {
        let (now, was_down) = (self.now, self.is_down());
        let Some(struck) = &mut self.struck else { return };
        while let Some(change) = struck.ports.take(Instant(now.saturating_sub(struck.opened))) {
            struck.down = if change.begins { struck.down + 1 } else { struck.down.saturating_sub(1) };
        }
        if let Some(at) = struck.next_change() {
            self.timers.insert((at, PORT_TIMER));
        }
        self.tell_port(engine, was_down);
    }

    /// Takes the port down, or up again, because somebody outside says so.
    pub(crate) fn close_port<W: Wire>(&mut self, engine: &mut Engine<W>, is_closed: bool) {
        let was_down = self.is_down();
        self.is_closed = is_closed;
        self.tell_port(engine, was_down);
    }

    /// Does what follows when the port goes down or up.
    fn tell_port<W: Wire>(&mut self, engine: &mut Engine<W>, was_down: bool) {
        let (now, is_down) = (self.time(), self.is_down());
        if is_down == was_down {
            return;
        }
        // Peers that have mapped memory go by packets meanwhile, which nobody takes. This returns
        // when none of them is inside.
        self.regions.for_each(|region| {
            if let Some(adopted) = region.adopted {
                let may = |access| !is_down && region.access.contains(access);
                let attributes = MemAttributes { ptag: self.mailbox.ptag(), rdma_write: may(Access::REMOTE_WRITE), rdma_read: may(Access::REMOTE_READ) };
                let _ = engine.set_memory_attributes(adopted.base, MemHandle::from_raw(adopted.handle), &attributes);
            }
        });
        self.events.push(AsyncEvent { kind: if is_down { AsyncKind::PortError } else { AsyncKind::PortActive }, cookie: PORT });
        let numbers: Vec<u32> = self.qps.iter().flatten().map(|q| q.number).collect();
        for number in numbers {
            let Some(qp) = self.qp(number) else { continue };
            if is_down && waits_for_answers(qp) {
                self.cut_off(number, now);
            } else if !is_down && core::mem::take(&mut qp.is_cut) {
                (qp.is_deserted, qp.reason, qp.pause) = (false, Reason::None, 0);
                self.pump(engine, number, false);
            }
        }
    }
}

/// Draws the fate of a request, unless that was done.
fn draw(struck: &mut Struck, qp: &mut Qp, at: usize, own: Gid, now: u64) -> Option<Fate> {
    let send = &mut qp.sends[at];
    if send.judged.verdict != Verdict::None {
        return None;
    }
    send.judged.verdict = Verdict::Leaves;
    let to = send.to.map_or(qp.attributes.gid, |to| to.gid).unwrap_or(own);
    let link = struck.link(to);
    Some(qp.fates.as_mut()?.judge(&link, Instant(now.saturating_sub(struck.opened))))
}

fn takes_receive(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Send | Opcode::SendImm | Opcode::WriteImm)
}

fn waits_for_answers(qp: &Qp) -> bool {
    qp.init.kind.is_reliable() && qp.state == QpState::Rts && !qp.sends.is_empty()
}
