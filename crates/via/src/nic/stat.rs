// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live view's socket: tells other processes of this user what the NIC is doing, while it runs.
//!
//! An abstract stream socket named `bellwire/stat/<pid>/<number of the NIC in its process>`. A
//! process that has connected writes a byte and gets one line of JSON (`snapshot.rs`); bytes that
//! come together are one request. Served by the helper thread. Nothing of it is on the data path; a
//! snapshot takes the token for some microseconds.
//!
//! Readers are not trusted with anything: only processes of the same user, and root, are listened
//! to; there are at most [`READERS_MAX`]; nothing here waits for them, and one that does not take
//! its answer is cut off. A socket that cannot be made (name taken, system call forbidden, no
//! descriptors left) is no reason not to open the NIC: the live view is then missing.

use super::port::Port;
use super::state::Shared;
use super::traced;
use bellwire_memory::fd_passing::Socket;
use bellwire_trace::session::{self, Attached, Capture};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, recv, send, socket_with, sockopt::socket_peercred,
};
use rustix::process::geteuid;
use std::path::Path;

/// Readers at a time; more are refused.
const READERS_MAX: usize = 8;
/// Requests read in one go; more of them are answered later.
const REQUEST_BYTES_MAX: usize = 4608;
/// How a request for a trace begins, and one for a capture.
const TRACE: &[u8] = b"trace ";
const CAPTURE: &[u8] = b"capture ";

/// The listening socket, in slot 0, and its readers, in the slots after.
pub(super) struct Stat {
    listener: Option<OwnedFd>,
    readers: [Option<Reader>; READERS_MAX],
}

/// A process that asks.
struct Reader {
    socket: Socket,
    /// It has the NIC traced.
    attached: Option<Attached>,
}

impl Stat {
    pub(super) fn open(port: &Port, number: u32) -> Self {
        let listener = listener(number).ok().filter(|fd| port.listen_to(fd.as_fd(), 0));
        Self { listener, readers: [const { None }; READERS_MAX] }
    }

    /// Serves the slots whose bits are set.
    pub(super) fn serve(&mut self, shared: &Shared, slots: u32) {
        if slots & 1 != 0 {
            self.accept(&shared.port);
        }
        for at in 0..READERS_MAX {
            if slots & 2 << at != 0
                && let Some(reader) = self.readers[at].as_mut()
                && !answer(shared, reader)
                && let Some(gone) = self.readers[at].take()
            {
                shared.port.forget(gone.socket.as_fd());
                if gone.attached.is_some() && !self.readers.iter().flatten().any(|reader| reader.attached.is_some()) {
                    traced::end(shared);
                }
            }
        }
    }

    fn accept(&mut self, port: &Port) {
        let Some(listener) = &self.listener else { return };
        // Until there is none, or none can be had: the set tells of new ones only.
        while let Ok(reader) = accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            let reader = Socket::new(reader);
            let Some(at) = self.readers.iter().position(Option::is_none) else { continue };
            if is_allowed(&reader) && port.listen_to(reader.as_fd(), 1 + at) {
                self.readers[at] = Some(Reader { socket: reader, attached: None });
            }
        }
    }
}

fn listener(number: u32) -> Result<OwnedFd, Errno> {
    let name = format!("bellwire/stat/{}/{number}", std::process::id());
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    bind(&fd, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    listen(&fd, READERS_MAX as i32)?;
    Ok(fd)
}

/// Whether the other end belongs to this user, or to root.
fn is_allowed(reader: &Socket) -> bool {
    socket_peercred(reader).is_ok_and(|peer| peer.uid == geteuid() || peer.uid.is_root())
}

/// Answers what a reader asks. `false`: it has gone, or does not read.
fn answer(shared: &Shared, reader: &mut Reader) -> bool {
    let mut request = [0u8; REQUEST_BYTES_MAX];
    let length = match recv(&reader.socket, &mut request[..], RecvFlags::DONTWAIT) {
        Ok((0, _)) => return false,
        Ok((length, _)) => length,
        Err(Errno::AGAIN | Errno::INTR) => return true,
        Err(_) => return false,
    };
    let asked = &request[..length];
    let attached = match (asked.strip_prefix(TRACE), asked.strip_prefix(CAPTURE)) {
        (Some(wanted), _) => Some(attach(shared, reader, wanted, false)),
        (_, Some(wanted)) => Some(attach(shared, reader, wanted, true)),
        _ => None,
    };
    let text = match attached {
        Some(Ok(())) => "{\"traced\":true}\n".to_owned(),
        Some(Err(why)) => format!("{{\"error\":{}}}\n", super::snapshot::quoted(&why)),
        None => super::snapshot::take(shared).to_json(),
    };
    send(&reader.socket, text.as_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL) == Ok(text.len())
}

/// Has the NIC traced, or captured, until the reader goes.
fn attach(shared: &Shared, reader: &mut Reader, wanted: &[u8], captures: bool) -> Result<(), String> {
    let parse = || {
        let (bytes, mut folder) = core::str::from_utf8(wanted).ok()?.strip_suffix('\n')?.split_once(' ')?;
        let mut capture = None;
        if captures {
            let (text, rest) = folder.split_once(' ')?;
            (capture, folder) = (Some(Capture::parse(text)?), rest);
        }
        Some((bytes.parse().ok()?, capture, folder)).filter(|_| !folder.contains(['\0', '\n']))
    };
    let form = if captures { "a request for a capture is: capture BYTES SNAP[,wait] FOLDER" } else { "a request for a trace is: trace BYTES FOLDER" };
    let (bytes, capture, folder) = parse().ok_or_else(|| format!("{form}, and the end of the line"))?;
    if reader.attached.is_none() {
        reader.attached = Some(session::attach(Path::new(folder), bytes, capture)?);
        traced::attach(shared);
    }
    Ok(())
}
