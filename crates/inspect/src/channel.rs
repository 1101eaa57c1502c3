// SPDX-License-Identifier: MIT OR Apache-2.0
//! The line between the controller and a measuring process: a socket pair carrying one descriptor and then JSON lines.

use std::io::{BufRead, BufReader, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg, sendmsg};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;

/// One end.
#[derive(Debug)]
pub struct Channel {
    reader: BufReader<UnixStream>,
}

impl Channel {
    /// Takes over a connected socket.
    pub fn new(stream: UnixStream) -> Self {
        Channel { reader: BufReader::new(stream) }
    }

    /// The socket that a process under a hidden command finds as its standard input.
    ///
    /// # Errors
    /// If there is no standard input. (Whether it is such a socket shows at the first message.)
    pub fn of_standard_input() -> Result<Self, Error> {
        Ok(Channel::new(UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?)))
    }

    /// Limits how long [`Channel::receive`] waits; `None` means for ever.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn set_patience(&self, time: Option<Duration>) -> Result<(), Error> {
        Ok(self.reader.get_ref().set_read_timeout(time)?)
    }

    /// Sends one message.
    ///
    /// # Errors
    /// If the other end is gone.
    pub fn send(&mut self, message: &impl Serialize) -> Result<(), Error> {
        let mut line = serde_json::to_string(message).map_err(|error| Error::failed(error.to_string()))?;
        line.push('\n');
        Ok(self.reader.get_mut().write_all(line.as_bytes())?)
    }

    /// Receives one message; nothing when the other end has closed.
    ///
    /// # Errors
    /// If it takes too long or is not what is expected.
    pub fn receive<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Error> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => Ok(None),
            Ok(_) => serde_json::from_str(&line).map(Some).map_err(|error| Error::failed(error.to_string())),
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => Err(Error::failed("no answer in time")),
            Err(error) => Err(error.into()),
        }
    }

    /// Which of some has a message, or has closed, first; `None`: none has within `time`.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn first_of(channels: &[&Self], time: Duration) -> Result<Option<usize>, Error> {
        // A message that came together with the one before it is here already.
        if let Some(place) = channels.iter().position(|channel| !channel.reader.buffer().is_empty()) {
            return Ok(Some(place));
        }
        let mut fds: Vec<PollFd<'_>> = channels.iter().map(|channel| PollFd::new(channel.reader.get_ref(), PollFlags::IN)).collect();
        let time = Timespec::try_from(time).map_err(|_| Error::failed("a time that is too long"))?;
        match poll(&mut fds, Some(&time)) {
            Ok(_) | Err(Errno::INTR) => Ok(fds.iter().position(|fd| !fd.revents().is_empty())),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a descriptor; the other end must be in [`Channel::receive_fd`].
    ///
    /// # Errors
    /// What the operating system says.
    pub fn send_fd(&self, fd: impl AsFd) -> Result<(), Error> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fds = [fd.as_fd()];
        if !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(Error::failed("no room for a descriptor"));
        }
        sendmsg(self.reader.get_ref(), &[IoSlice::new(b"F")], &mut ancillary, SendFlags::empty())?;
        Ok(())
    }

    /// Receives the descriptor that comes before all messages.
    ///
    /// # Errors
    /// If something else comes.
    pub fn receive_fd(&self) -> Result<OwnedFd, Error> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        recvmsg(self.reader.get_ref(), &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(mut fds) = message
                && let Some(fd) = fds.next()
            {
                return Ok(fd);
            }
        }
        Err(Error::failed("expected a descriptor"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptor_then_lines() {
        let (a, b) = UnixStream::pair().unwrap();
        let (mut a, mut b) = (Channel::new(a), Channel::new(b));
        a.send_fd(crate::shared::create(4096).unwrap()).unwrap();
        a.send(&vec![1, 2]).unwrap();
        b.receive_fd().unwrap();
        assert_eq!(b.receive::<Vec<i32>>().unwrap(), Some(vec![1, 2]));
        b.set_patience(Some(Duration::from_millis(5))).unwrap();
        assert!(b.receive::<Vec<i32>>().is_err());
        drop(a);
        assert_eq!(b.receive::<Vec<i32>>().unwrap(), None);
    }
    #[test]
    fn a_message_behind_another_one_is_seen() {
        let (a, b) = UnixStream::pair().unwrap();
        let (mut a, mut b) = (Channel::new(a), Channel::new(b));
        assert_eq!(Channel::first_of(&[&b], Duration::ZERO).unwrap(), None);
        a.send(&1).unwrap();
        a.send(&2).unwrap();
        for number in [1, 2] {
            assert_eq!(Channel::first_of(&[&b], Duration::ZERO).unwrap(), Some(0), "message {number}");
            assert_eq!(b.receive::<i32>().unwrap(), Some(number));
        }
        assert_eq!(Channel::first_of(&[&b], Duration::ZERO).unwrap(), None);
    }
}
