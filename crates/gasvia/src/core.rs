// SPDX-License-Identifier: MIT OR Apache-2.0
//! One process and what it has with the others, as a machine without lock or thread: completions
//! are taken one at a time, and nothing waits.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_ulong;
use std::sync::Arc;

use bellwire_vipl_calls::probe::{Probe, Stage};
use bellwire_vipl_calls::{Handle, Nic};

use crate::failure::Failure;
use crate::head::Head;
use crate::lane::{Lane, Retired};
use crate::memory::Memory;
use crate::version::Version;

/// Another process.
#[derive(Default)]
pub(crate) struct Peer {
    /// Its VIs; none of this process itself.
    pub lanes: Vec<Lane>,
    /// Why its connection has ended.
    pub end: Option<String>,
}

/// A process.
pub struct Core<M> {
    pub(crate) nic: Arc<Nic>,
    pub(crate) ptag: Handle,
    sends: Handle,
    pub(crate) receives: Handle,
    pub(crate) version: Version,
    pub(crate) me: u32,
    /// This process's random id.
    pub(crate) id: [u8; 16],
    pub(crate) peers: Vec<Peer>,
    /// Process and number of each VI.
    vis: BTreeMap<Handle, (u32, u8)>,
    pub(crate) memory: M,
    /// VIs with a completed receive whose entry has been taken off the queue.
    late: VecDeque<(u32, u8)>,
    /// Bytes that others have stored here.
    pub(crate) stored: u64,
    /// Gets that others have made here.
    pub(crate) served: u64,
    /// Sends out that gather lent memory.
    pub(crate) lent: usize,
    /// The failure that ends the job.
    pub(crate) failure: Option<Failure>,
    /// No answer is written any more (L4).
    pub(crate) is_abandoned: bool,
}

impl<M: Memory> Core<M> {
    /// Process `me` of `size`, whose memory the others reach. Not connected yet. The NIC closes
    /// with it.
    ///
    /// # Errors
    /// [`Failure::Library`].
    pub fn new(nic: Arc<Nic>, version: Version, of: (u32, u32), memory: M) -> Result<Self, Failure> {
        Self::with_credits(nic, version, None, of, memory)
    }

    /// The same with another number of credits on the VI for words, in all processes: for
    /// measurements.
    ///
    /// # Errors
    /// [`Failure::Library`].
    pub fn with_credits(nic: Arc<Nic>, version: Version, credits: Option<u16>, (me, size): (u32, u32), memory: M) -> Result<Self, Failure> {
        let mut shapes = version.shapes().to_vec();
        shapes[0].credits = credits.map_or(shapes[0].credits, |credits| usize::from(credits).max(1));
        let mut id = [0; 16];
        rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty()).map_err(|e| Failure::Library("getrandom", e.raw_os_error()))?;
        let ptag = nic.create_ptag().map_err(|e| Failure::Library("VipCreatePtag", e))?;
        // An entry for each descriptor.
        let entries = shapes.iter().map(|shape| 4 * shape.credits + 2).sum::<usize>() * size as usize;
        let create = || nic.create_cq(entries).map_err(|e| Failure::Library("VipCreateCQ", e));
        let (sends, receives) = (create()?, create()?);
        let mut core = Self {
            nic,
            ptag,
            sends,
            receives,
            version,
            me,
            id,
            peers: Vec::new(),
            vis: BTreeMap::new(),
            memory,
            late: VecDeque::new(),
            stored: 0,
            served: 0,
            lent: 0,
            failure: None,
            is_abandoned: false,
        };
        for rank in 0..size {
            core.peers.push(Peer::default());
            if rank == me {
                continue;
            }
            for (shape, number) in shapes.iter().zip(0..) {
                let lane = Lane::new(&core.nic, ptag, *shape, (sends, receives))?;
                core.vis.insert(lane.vi, (rank, number));
                core.peers[rank as usize].lanes.push(lane);
            }
        }
        Ok(core)
    }

    /// The NIC.
    pub fn nic(&self) -> &Arc<Nic> {
        &self.nic
    }

    /// Whether bulk data is sent from where it lies.
    pub fn gathers(&self) -> bool {
        self.version.gathers()
    }

    /// Bytes that others have stored here.
    pub fn stored(&self) -> u64 {
        self.stored
    }

    /// Gets that others have made here.
    pub fn served(&self) -> u64 {
        self.served
    }

    /// Sends out that gather memory which the program has lent.
    pub fn lent(&self) -> usize {
        self.lent
    }

    /// No answer is written any more, and those that come are dropped: the job ends.
    pub fn abandon(&mut self) {
        self.is_abandoned = true;
        self.peers.iter_mut().flat_map(|peer| &mut peer.lanes).for_each(|lane| lane.pending.iter_mut().for_each(|pending| pending.bytes = 0));
    }

    /// Ends the VIs with a process: nothing that they gather is read any more.
    pub fn end_with(&mut self, rank: u32) {
        let Some(peer) = self.peers.get_mut(rank as usize) else { return };
        peer.end.get_or_insert_default();
        self.lent -= peer.lanes.iter_mut().map(Lane::end).sum::<usize>();
    }

    /// The failure that ends the job, or that of a process's connection.
    ///
    /// # Errors
    /// That.
    pub fn check(&self, rank: u32) -> Result<(), Failure> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        match self.peers.get(rank as usize) {
            Some(Peer { end: None, lanes }) if !lanes.is_empty() => Ok(()),
            Some(peer) => Err(Failure::Gone { process: rank, why: peer.end.clone().unwrap_or_default() }),
            None => Err(Failure::Gone { process: rank, why: "there is no such process".to_owned() }),
        }
    }

    /// Something ends the job: the first thing counts.
    #[cold]
    pub(crate) fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
        self.abandon();
    }

    /// The connection to a process has ended.
    #[cold]
    pub(crate) fn ended(&mut self, rank: u32, lane: usize) {
        let Some(peer) = self.peers.get_mut(rank as usize) else { return };
        if peer.end.is_none() {
            peer.end = Some(peer.lanes.get(lane).map_or_else(String::new, |lane| self.nic.cause(lane.vi).text));
        }
    }

    /// An entry of the queue of receives, which somebody has taken off it.
    pub fn found(&mut self, vi: Handle) {
        if let Some(of) = self.vis.get(&vi) {
            self.late.push_back(*of);
        }
    }

    /// Takes a completed send, then a completed receive, and does what it asks for. `false`: there
    /// was none.
    ///
    /// # Errors
    /// [`Failure::Library`]. What else goes wrong is told to those who ask.
    #[inline]
    pub fn poll<P: Probe<Stage>>(&mut self) -> Result<bool, Failure> {
        P::mark(Stage::Entered);
        let is_retired = self.retire::<P>()?;
        P::mark(Stage::Turned);
        let Some((rank, number)) = self.next::<P>()? else { return Ok(is_retired) };
        let at = usize::from(number);
        let Some(lane) = self.peers[rank as usize].lanes.get(at) else { return Ok(true) };
        let Some(taken) = lane.take::<P>() else { return Ok(true) };
        let Some(taken) = taken else {
            self.ended(rank, at);
            return Ok(true);
        };
        match Head::parse(taken.words, taken.length) {
            // SAFETY: L2: the data lies in a completed receive.
            Some(head) => unsafe { self.handle::<P>((rank, at), head, taken.data) },
            None => self.fail(Failure::Misbehaved(rank)),
        }
        P::mark(Stage::Finished);
        if let Some(lane) = self.peers[rank as usize].lanes.get(at) {
            lane.post_receive::<P>(taken.receive);
        }
        Ok(true)
    }

    /// The VI whose next receive is taken: one with a buffer for a reply.
    #[inline]
    fn next<P: Probe<Stage>>(&mut self) -> Result<Option<(u32, u8)>, Failure> {
        let has_buffer = |peers: &[Peer], (rank, number): (u32, u8)| {
            // Of a VI that has ended the completions are only taken off.
            let peer = &peers[rank as usize];
            peer.end.is_some() || peer.lanes.get(usize::from(number)).is_some_and(Lane::has_buffer)
        };
        if let Some(at) = self.late.iter().position(|of| has_buffer(&self.peers, *of)) {
            return Ok(self.late.remove(at));
        }
        let entry = self.nic.cq_done(self.receives).map_err(|e| Failure::Library("VipCQDone", e))?;
        P::mark(Stage::ReceivesLooked);
        let Some(of) = entry.and_then(|vi| self.vis.get(&vi).copied()) else { return Ok(None) };
        P::mark(Stage::ReceiveFound);
        if has_buffer(&self.peers, of) {
            return Ok(Some(of));
        }
        self.late.push_back(of);
        Ok(None)
    }

    #[inline]
    fn retire<P: Probe<Stage>>(&mut self) -> Result<bool, Failure> {
        let entry = self.nic.cq_done(self.sends).map_err(|e| Failure::Library("VipCQDone", e))?;
        P::mark(Stage::SendsLooked);
        let Some((rank, number)) = entry.and_then(|vi| self.vis.get(&vi).copied()) else { return Ok(false) };
        P::mark(Stage::SendFound);
        if let Some(lane) = self.peers[rank as usize].lanes.get_mut(usize::from(number))
            && lane.retire::<P>() == Some(Retired::Lent)
        {
            self.lent -= 1;
        }
        Ok(true)
    }
}

/// Waits until a completed receive tells of itself, for so many milliseconds at most; its VI is for
/// [`Core::found`].
pub(crate) fn wait(nic: &Nic, receives: Handle, milliseconds: c_ulong) -> Result<Option<Handle>, Failure> {
    nic.cq_wait(receives, milliseconds).map_err(|e| Failure::Library("VipCQWait", e))
}

impl<M> Drop for Core<M> {
    fn drop(&mut self) {
        self.peers.clear();
        self.nic.destroy_cq(self.sends);
        self.nic.destroy_cq(self.receives);
        self.nic.destroy_ptag(self.ptag);
        self.nic.close();
    }
}
