// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extended reliable connections (XRC): a receiving queue pair has no receives; each message names
//! the shared receive queue that takes it, whose protection domain and completion queue count. The
//! queue pair and the receive queue are of one XRC domain (`domains.rs`).
//!
//! A sending queue pair gets no requests, so the place where a request says what its sender has
//! taken of the other side's (`answered`) names the receive queue.

use crate::arrive::Packet;
use crate::core::Core;
use crate::queue::{Receive, ReceiveQueue, Srq, Xrc};
use crate::types::{AsyncKind, Error, QpKind};

impl Core {
    /// Makes a receive queue for XRC: `cq` gets its completions.
    pub(crate) fn create_xrc_srq(&mut self, queue: ReceiveQueue, xrc: Xrc, cookie: u64) -> Result<u32, Error> {
        self.cq(xrc.cq)?;
        self.xrc_domains.hold(xrc.domain)?;
        let made = self.add_srq(Srq { queue, limit: 0, users: 0, cookie, number: 0, xrc: Some(xrc) });
        match made {
            Ok(_) => self.cq(xrc.cq)?.users += 1,
            Err(_) => self.xrc_domains.release(xrc.domain),
        }
        made
    }

    /// The receive queue that a message to an XRC receiver names; `None`: there is none of its XRC
    /// domain.
    pub(crate) fn named_srq(&mut self, p: &Packet<'_>) -> Option<&mut Srq> {
        let domain = self.qp(p.head.to)?.init.domain;
        let id = *self.srq_numbers.get(&p.head.answered)?;
        self.srq(id).ok().filter(|s| s.xrc.is_some_and(|x| x.domain == domain))
    }

    /// Its next receive.
    pub(crate) fn take_named_receive(&mut self, p: &Packet<'_>) -> Option<Receive> {
        let srq = self.named_srq(p)?;
        let receive = srq.queue.posted.pop_front()?;
        if let Some(cookie) = srq.runs_low() {
            self.events.push(crate::core::AsyncEvent { kind: AsyncKind::SrqLimit, cookie });
        }
        let srq = self.srq_numbers.get(&p.head.answered).copied()?;
        Some(Receive { srq, ..receive })
    }

    /// Where a receive completes: at its own queue, if that is one for XRC; else at its queue
    /// pair's.
    #[inline]
    pub(crate) fn receive_cq(&mut self, number: u32, receive: &Receive) -> u32 {
        if receive.srq != 0 {
            return self.srq(receive.srq).ok().and_then(|s| s.xrc).map_or(0, |x| x.cq);
        }
        self.qp(number).map_or(0, |q| q.init.receive_cq)
    }

    /// Opens a receiving queue pair once more: it ends with the last of its handles.
    pub(crate) fn open_qp(&mut self, number: u32, xrc_domain: u32) -> Result<(), Error> {
        let qp = self.qp(number).filter(|q| q.init.kind == QpKind::XrcReceive && q.init.domain == xrc_domain).ok_or(Error::Invalid)?;
        qp.handles += 1;
        Ok(())
    }
}
