// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames that cannot be taken: the peer is told, and a connection that promised more breaks.
//! Called by `arrive.rs`, `rdma_in.rs`, `pull.rs` and `transmit.rs`.

use crate::arrive::Arrival;
use crate::cause::Cause;
use crate::complete::{finish_receive, sink};
use crate::engine::Engine;
use crate::event::AsyncErrorCode;
use crate::frame::{self, DisconnectReason, Head, Op};
use crate::status::Status;
use crate::wire::Wire;

impl<W: Wire> Engine<W> {
    /// Memory of the receive at the front is not there (strict mode): it completes, and a reliable
    /// connection breaks, since the message is lost.
    #[cold]
    pub(crate) fn receive_faulted(&mut self, index: usize, a: &Arrival, operation: Status) {
        let Some(handle) = self.vis.handle_at(index) else { return };
        let mut sink = sink!(self);
        let Some(vi) = self.vis.at(index) else { return };
        vi.set_arriving(false);
        vi.arrived = 0;
        vi.message = vi.message.wrapping_add(1);
        finish_receive(vi, handle, Status::PROTECTION_ERROR | operation, 0, a.immediate, &mut sink);
        if vi.attributes.reliability.is_reliable() {
            self.break_connection(index, None, Cause::Here(DisconnectReason::ReceiveFault));
        } else {
            vi.discarding = !a.last;
            self.settle_faulty_receives(index);
        }
    }

    /// The peer wrote where it may not: it is told, and a reliable connection breaks.
    #[cold]
    pub(crate) fn refuse_write(&mut self, index: usize, work: u32, last: bool) {
        let Some(vi) = self.vis.at(index) else { return };
        if !vi.attributes.reliability.is_reliable() {
            if !last {
                return; // Told once for a message, with its last frame.
            }
            let handle = self.vis.handle_at(index);
            return self.raise(handle, AsyncErrorCode::RdmaWriteProtection, None);
        }
        self.send_refused(index, work);
        self.break_connection(index, Some(AsyncErrorCode::RdmaWriteProtection), Cause::Here(DisconnectReason::WriteProtection));
    }

    /// The peer read where it may not.
    #[cold]
    pub(crate) fn refuse_read(&mut self, index: usize, work: u32) {
        self.send_refused(index, work);
        self.break_connection(index, Some(AsyncErrorCode::RdmaReadProtection), Cause::Here(DisconnectReason::ReadProtection));
    }

    fn send_refused(&mut self, index: usize, work: u32) {
        self.send_last_acknowledgement(index);
        let Some(vi) = self.vis.at(index) else { return };
        let mut line = frame::short(Head::new(Op::Refused, vi.remote_connection), u64::from(Status::RDMA_PROTECTION_ERROR.bits()), u64::from(work));
        let link = vi.link;
        self.send_control_line(link, &mut line);
    }

    #[cold]
    pub(crate) fn protocol_error(&mut self, index: usize) {
        self.break_connection(index, Some(AsyncErrorCode::ConnectionLost), Cause::Here(DisconnectReason::Protocol));
    }
}
