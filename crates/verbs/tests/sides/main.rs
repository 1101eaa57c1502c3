// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two devices of one process: a protection domain and two completion queues each, and queue pairs
//! that are connected to each other.
#![forbid(unsafe_code)]

mod grants;
mod polls;

use bellwire_verbs::{Access, Caps, Completion, Extra, Memory, Opcode, Port, QpAttributes, QpInit, QpKind, SendFlags, SendRequest, Sge, WcStatus, connecting};
use bellwire_via::nic::NicConfig;

/// Reads after which the reader has been told where the memory lies.
pub(crate) const READS: usize = 64;
/// Bytes of a read.
pub(crate) const BYTES: u32 = 64;

pub(crate) fn ports() -> [Port; 2] {
    [(); 2].map(|()| Port::open(NicConfig::default(), None).unwrap())
}

/// One of the two.
pub(crate) struct Side<'p> {
    pub port: &'p Port,
    pub domain: u32,
    /// Completions of sends.
    pub sends: u32,
    /// Completions of receives.
    pub receives: u32,
}

impl<'p> Side<'p> {
    pub fn new(port: &'p Port) -> Self {
        let cq = || port.create_cq(16, None, 0).unwrap();
        Self { port, domain: port.create_domain().unwrap(), sends: cq(), receives: cq() }
    }

    /// A queue pair.
    pub fn pair(&self) -> u32 {
        let caps = Caps { sends: 4, receives: 4, send_pieces: 1, receive_pieces: 1, inline: 0 };
        let (domain, send_cq, receive_cq) = (self.domain, self.sends, self.receives);
        self.port.create_qp(&QpInit { kind: QpKind::Rc, domain, send_cq, receive_cq, srq: None, caps, signal_all: true, cookie: 0 }).unwrap()
    }

    /// A queue pair of each side, connected.
    pub fn connected(&self, other: &Side<'_>) -> (u32, u32) {
        let (mine, theirs) = (self.pair(), other.pair());
        self.connect(mine, other, theirs);
        other.connect(theirs, self, mine);
        (mine, theirs)
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
        connecting(QpKind::Rc).into_iter().for_each(|(to, given)| self.port.modify_qp(qp, Some(to), None, &attributes, given).unwrap());
    }

    fn post(&self, qp: u32, opcode: Opcode, pieces: &[Sge], (address, key): (u64, u32)) {
        let flags = SendFlags::empty();
        let request = SendRequest { wr_id: 1, opcode, flags, pieces, immediate: 0, address, key, operands: [0; 2], extra: Extra::None, to: None };
        self.port.post_registered(qp, &request).unwrap();
    }

    /// Posts a send.
    pub fn post_send(&self, qp: u32, from: &Memory<'_>) {
        self.post(qp, Opcode::Send, &[from.piece(0, BYTES).unwrap()], (0, 0));
    }

    /// Posts a read of the other side's memory.
    pub fn post_read(&self, qp: u32, to: &Memory<'_>, from: &Memory<'_>) {
        self.post(qp, Opcode::Read, &[to.piece(0, BYTES).unwrap()], (from.address(), from.key()));
    }

    /// Posts a write of so many bytes to the other side's memory.
    pub(crate) fn post_write(&self, qp: u32, from: &Memory<'_>, to: &Memory<'_>, length: u32) {
        self.post(qp, Opcode::Write, &[from.piece(0, length).unwrap()], (to.address(), to.key()));
    }

    /// The next completion in a queue, which is polled until there is one.
    pub fn next(&self, cq: u32) -> WcStatus {
        let mut status = None;
        while status.is_none() {
            self.port.poll_cq(cq, 1, |c: &Completion| status = Some(c.status)).unwrap();
        }
        status.unwrap()
    }

    /// The outcome of a read of the other side's memory.
    pub fn read(&self, qp: u32, to: &Memory<'_>, from: &Memory<'_>) -> WcStatus {
        self.post_read(qp, to, from);
        self.next(self.sends)
    }
}
