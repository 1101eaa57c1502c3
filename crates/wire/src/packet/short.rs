// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way of a short message: out, when nothing is before it, in one go (`transport/alone.rs` of
//! `proto`); in, from the packet to the VI that is polled (`fast.rs`), without a turn of the
//! engine. Each does all or nothing; for nothing the general way does the same with every case
//! there is.

use super::{PacketPort, PacketWire};
use crate::frame::{Head, INLINE_BYTES_MAX};
use crate::{Frame, LinkId, Received, Sent, Wire as _};
use bellwire_memory::bytes;
use bellwire_memory::line_queue::Line;

impl<P: PacketPort> PacketWire<P> {
    /// Sends a line of word 0 and `length` bytes after it, which leaves now or waits to share a
    /// packet.
    ///
    /// # Safety
    /// `from` is readable for `length` bytes.
    #[inline]
    pub(super) unsafe fn send_short(&mut self, link: LinkId, word0: u64, from: *const u8, length: usize) -> Sent {
        let mut line = Line::default();
        line.0[0] = word0;
        assert!(length <= INLINE_BYTES_MAX);
        // SAFETY: the caller's; the line has room for INLINE_BYTES_MAX bytes after word 0.
        unsafe { bytes::copy_small(line.0.as_mut_ptr().add(1).cast(), from, length) };
        let words = 1 + length.div_ceil(8);
        if self.port.is_clear()
            && let Some(session) = self.find(link).filter(|l| !l.down && !l.more).map(|l| l.session)
            && self.transport.is_idle(session)
        {
            self.now = self.port.now();
            if let Some(packet) = self.transport.send_alone(self.now, session, Head(word0).to(), &line.0[..words]) {
                self.port.send(&packet);
                return Sent::Yes;
            }
        }
        let sent = self.send(link, &mut line, words);
        self.flush();
        sent
    }

    /// Gives the next frame of a link to `take`, after one look if there is none; it is consumed if
    /// it is taken. That look is also the one of the turn that follows when nothing came.
    pub(super) fn take_next<R>(&mut self, link: LinkId, take: impl FnOnce(&Frame) -> Option<R>) -> Option<R> {
        let mut found = self.next_frame(link);
        if found.is_none() && !self.took {
            self.took = true;
            self.look();
            found = self.next_frame(link);
        }
        let (head, place) = found?;
        // SAFETY: F2: `take` sees the frame, and nothing else is done meanwhile.
        let Received::Frame(frame) = (unsafe { self.show(link, head, place) }) else { return None };
        let taken = take(&frame)?;
        self.took = false;
        self.consume(link);
        Some(taken)
    }
}
