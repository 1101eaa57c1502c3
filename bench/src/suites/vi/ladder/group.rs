// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that each have a channel to each other one: barrier, broadcast, sum of all.
//!
//! Every process makes the same calls in the same order. A call waits for some of the others, and
//! moves the messages of all channels meanwhile.

use super::channel::{Channel, Link, Token};
use super::memory::Span;
use crate::error::Error;
use crate::patient::Patient;

/// Numbers that are summed at a time, at most.
pub const SUMMED_MAX: usize = 1024;
/// Bytes of a number.
const NUMBER: usize = size_of::<f64>();

/// A member.
pub struct Group<L> {
    rank: usize,
    /// By rank; none to itself.
    channels: Vec<Option<Channel<L>>>,
    /// By rank: memory as the channel wants it, for what is sent and for what comes.
    room: Vec<Option<[Span; 2]>>,
    room_bytes: usize,
}

impl<L: Link> Group<L> {
    /// The member `rank` of as many as there are channels. A member has no channel to itself.
    /// Broadcasts have at most `bytes`.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(rank: usize, mut channels: Vec<Option<Channel<L>>>, bytes: usize) -> Result<Self, Error> {
        let room_bytes = bytes.max(SUMMED_MAX * NUMBER);
        let room = channels.iter_mut().map(|channel| channel.as_mut().map(|c| Ok([c.memory(room_bytes)?, c.memory(room_bytes)?])).transpose());
        let room = room.collect::<Result<_, Error>>()?;
        Ok(Self { rank, channels, room, room_bytes })
    }

    fn size(&self) -> usize {
        self.channels.len()
    }

    fn channel(&mut self, to: usize) -> Result<&mut Channel<L>, Error> {
        self.channels.get_mut(to).and_then(Option::as_mut).ok_or_else(|| Error::failed(format!("no channel to process {to}")))
    }

    fn span(&self, of: usize, incoming: bool, bytes: usize) -> Result<Span, Error> {
        let room = self.room.get(of).and_then(Option::as_ref).filter(|_| bytes <= self.room_bytes);
        room.map(|room| room[usize::from(incoming)].first(bytes)).ok_or_else(|| Error::failed(format!("no room for {bytes} bytes of process {of}")))
    }

    /// Waits for all of these, moving the messages of every channel.
    fn wait(&mut self, tokens: &[(usize, Token)]) -> Result<(), Error> {
        let mut patient = Patient::default();
        while !tokens.iter().all(|(of, token)| self.channels[*of].as_ref().is_none_or(|channel| channel.is_done(*token))) {
            self.progress()?;
            patient.tick()?;
        }
        Ok(())
    }

    /// Moves the messages of every channel.
    ///
    /// # Errors
    /// One is broken.
    pub fn progress(&mut self) -> Result<(), Error> {
        self.channels.iter_mut().flatten().try_for_each(|channel| channel.progress().map(drop))
    }

    fn give(&mut self, to: usize, data: &[u8]) -> Result<(usize, Token), Error> {
        let span = self.span(to, false, data.len())?;
        span.write(0, data);
        Ok((to, self.channel(to)?.begin_send(&span)?))
    }

    fn take(&mut self, from: usize, data: &mut [u8]) -> Result<(), Error> {
        let span = self.span(from, true, data.len())?;
        let token = self.channel(from)?.begin_receive(&span)?;
        self.wait(&[(from, token)])?;
        span.read(0, data);
        Ok(())
    }

    /// Returns when all members have called it: in round `k` each tells the one `2^k` further on.
    ///
    /// # Errors
    /// A channel is broken, or a member does not come.
    pub fn barrier(&mut self) -> Result<(), Error> {
        let (rank, size) = (self.rank, self.size());
        let mut step = 1;
        while step < size {
            let (to, from) = ((rank + step) % size, (rank + size - step) % size);
            let incoming = self.span(from, true, 1)?;
            let awaited = (from, self.channel(from)?.begin_receive(&incoming)?);
            let given = self.give(to, &[step as u8])?;
            self.wait(&[awaited, given])?;
            step *= 2;
        }
        Ok(())
    }

    /// Gives `data` of the member `root` to all, along a binomial tree.
    ///
    /// # Errors
    /// A channel is broken, or a member does not come.
    pub fn broadcast(&mut self, root: usize, data: &mut [u8]) -> Result<(), Error> {
        let (size, own) = (self.size(), (self.rank + self.size() - root) % self.size());
        let mut step = 1;
        while step < size && own & step == 0 {
            step *= 2;
        }
        if own != 0 {
            self.take((own - step + root) % size, data)?;
        }
        let mut given = Vec::new();
        while step > 1 {
            step /= 2;
            if own + step < size {
                given.push(self.give((own + step + root) % size, data)?);
            }
        }
        self.wait(&given)
    }

    /// Replaces each number by its sum over all members: along the same tree to the first member,
    /// and back by a broadcast. So all have the same sums to the last bit.
    ///
    /// # Errors
    /// A channel is broken, a member does not come, or there are more than [`SUMMED_MAX`].
    pub fn sum(&mut self, numbers: &mut [f64]) -> Result<(), Error> {
        if numbers.len() > SUMMED_MAX {
            return Err(Error::unsupported(format!("{} numbers; the most is {SUMMED_MAX}", numbers.len())));
        }
        let mut bytes = vec![0; numbers.len() * NUMBER];
        let mut step = 1;
        while step < self.size() {
            if self.rank & step != 0 {
                to_bytes(numbers, &mut bytes);
                let given = self.give(self.rank - step, &bytes)?;
                self.wait(&[given])?;
                break;
            }
            if self.rank + step < self.size() {
                self.take(self.rank + step, &mut bytes)?;
                numbers.iter_mut().zip(bytes.as_chunks().0).for_each(|(number, other)| *number += f64::from_ne_bytes(*other));
            }
            step *= 2;
        }
        to_bytes(numbers, &mut bytes);
        self.broadcast(0, &mut bytes)?;
        numbers.iter_mut().zip(bytes.as_chunks().0).for_each(|(number, sum)| *number = f64::from_ne_bytes(*sum));
        Ok(())
    }
}

fn to_bytes(numbers: &[f64], bytes: &mut [u8]) {
    bytes.as_chunks_mut().0.iter_mut().zip(numbers).for_each(|(to, number)| *to = number.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::Wait;
    use crate::ladder::packets::Packets;
    use crate::ladder::udp::Datagrams;
    use std::net::UdpSocket;

    type Member = Group<Packets<Datagrams>>;

    /// So many members as threads, linked by UDP over loopback.
    fn members(count: usize, run: impl Fn(&mut Member, usize) -> Result<(), Error> + Sync) {
        let sockets: Vec<Vec<UdpSocket>> = (0..count).map(|_| (0..count).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect()).collect();
        for (a, of_a) in sockets.iter().enumerate() {
            of_a.iter().enumerate().for_each(|(b, socket)| socket.connect(sockets[b][a].local_addr().unwrap()).unwrap());
        }
        std::thread::scope(|scope| {
            for (rank, sockets) in sockets.into_iter().enumerate() {
                let run = &run;
                scope.spawn(move || {
                    let channel = |(to, socket)| (to != rank).then(|| Channel::new(Packets::new(Datagrams::new(socket).unwrap(), true), Wait::Poll));
                    let mut member = Group::new(rank, sockets.into_iter().enumerate().map(channel).collect(), 100_000).unwrap();
                    run(&mut member, rank).unwrap();
                    // The last acknowledgement may get lost: it is asked for again.
                    let end = std::time::Instant::now() + std::time::Duration::from_millis(100);
                    while std::time::Instant::now() < end {
                        member.progress().unwrap();
                    }
                });
            }
        });
    }

    #[test]
    fn all_hear_the_root_and_have_the_same_sums() {
        for count in [1, 2, 3, 5, 8] {
            members(count, |member, rank| {
                for root in 0..count {
                    for bytes in [0, 1, 8192, 8193, 100_000] {
                        let byte = |i: usize| (i + root + bytes) as u8;
                        let mut data: Vec<u8> = (0..bytes).map(|i| if rank == root { byte(i) } else { 0 }).collect();
                        member.broadcast(root, &mut data)?;
                        assert!(data.iter().enumerate().all(|(i, b)| *b == byte(i)), "{bytes} bytes from {root} to {rank} of {count}");
                    }
                }
                let mut numbers: Vec<f64> = (0..SUMMED_MAX).map(|i| (i * (rank + 1)) as f64).collect();
                member.sum(&mut numbers)?;
                let all = (count * (count + 1) / 2) as f64;
                assert!(numbers.iter().enumerate().all(|(i, n)| *n == i as f64 * all), "{count} members");
                assert!(member.sum(&mut [0.0; SUMMED_MAX + 1]).is_err());
                Ok(())
            });
        }
    }

    #[test]
    fn nobody_passes_a_barrier_before_all_have_come() {
        use bellwire_memory::atomic::{AtomicU32, Ordering::SeqCst};
        let (count, came) = (5, AtomicU32::new(0));
        members(count, |member, _| {
            for round in 1..=50 {
                came.fetch_add(1, SeqCst);
                member.barrier()?;
                assert!(came.load(SeqCst) >= (round * count) as u32);
                member.barrier()?;
            }
            Ok(())
        });
    }
}
