// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual interfaces with many peers, by the C interface.

use super::{Crowd, MESSAGE_BYTES, RECEIVES, Talk};
use crate::am::Seen;
use crate::endpoint::cq::Cq;
use crate::endpoint::{Block, Nic, SEND, Vi, arm, rearm};
use crate::error::Error;
use crate::job::Waiting;
use crate::vipl_abi::Descriptor;

/// Sends that may be under way.
const SENDS: usize = 16;
/// Bytes of a descriptor, and of a buffer.
const STRIDE: usize = 64;

/// The main VI.
struct Main<'n> {
    vi: Vi,
    /// Of sends and of receives.
    cqs: Option<&'n [Cq; 2]>,
    block: &'n Block,
    posted: usize,
    collected: usize,
}

/// Connects and measures.
pub fn run(crowd: &mut Crowd<'_>, with_cqs: bool, count: u64) -> Result<Vec<f64>, Error> {
    let setup = crowd.setup;
    let open = || Nic::open(setup.library.as_deref(), &setup.device, setup.ends.map(|ends| ends.other));
    let main = open()?;
    let idle = (1..crowd.peers).map(|_| open()).collect::<Result<Vec<_>, _>>()?;
    let places = SENDS + RECEIVES + crowd.peers;
    let block = main.allocate(2 * STRIDE * places, true)?;
    let blocks = idle.iter().map(|nic| nic.allocate(2 * STRIDE, true)).collect::<Result<Vec<_>, _>>()?;
    let reliability = setup.reliability.bits();
    let cqs = if with_cqs { Some([main.create_cq(SENDS)?, main.create_cq(RECEIVES + crowd.peers)?]) } else { None };
    let create = || match &cqs {
        Some([sends, receives]) => main.create_vi_completing(reliability, &block, sends, receives),
        None => main.create_vi(reliability, &block, Waiting::Poll),
    };
    // All are connected in one order: the main VIs, ours with the other's idle NICs, and the other
    // way round.
    let name = |index: usize| (crowd.request.run, crowd.request.epoch << 20 | index as u64);
    let vi = create()?;
    for receive in 0..RECEIVES {
        post_receive(&vi, &block, SENDS + receive)?;
    }
    main.connect(&vi, setup.first, name(0))?;
    let mut kept = Vec::new();
    for ours in [setup.first, !setup.first] {
        for (i, (nic, own)) in idle.iter().zip(&blocks).enumerate() {
            let index = 1 + i + if ours == setup.first { 0 } else { crowd.peers };
            let (nic, block, place, vi) =
                if ours { (&main, &block, SENDS + RECEIVES + i, create()?) } else { (nic, own, 0, nic.create_vi(reliability, own, Waiting::Poll)?) };
            post_receive(&vi, block, place)?;
            nic.connect(&vi, setup.first, name(index))?;
            kept.push(vi);
        }
    }
    crowd.measure(&mut Main { vi, cqs: cqs.as_ref(), block: &block, posted: 0, collected: 0 }, count)
}

fn descriptor(block: &Block, place: usize) -> *mut Descriptor {
    block.at(2 * STRIDE * place, STRIDE).cast()
}

fn post_receive(vi: &Vi, block: &Block, place: usize) -> Result<(), Error> {
    let at = descriptor(block, place);
    // SAFETY: E2: not posted yet.
    unsafe { arm(at, SEND, MESSAGE_BYTES as u32, &[block.segment(2 * STRIDE * place + STRIDE, MESSAGE_BYTES)]) };
    Ok(vi.post_recv(at)?)
}

impl Main<'_> {
    /// Collects the completion of a send.
    fn collect(&mut self) -> Result<(), Error> {
        if self.cqs.is_none_or(|[sends, _]| sends.done().is_ok_and(|vi| vi.is_some())) && self.vi.send_done()?.is_some() {
            self.collected += 1;
        }
        Ok(())
    }
}

impl Talk for Main<'_> {
    #[inline]
    fn send(&mut self, number: u64) -> Result<bool, Error> {
        if self.posted - self.collected == SENDS {
            self.collect()?;
            return Ok(false);
        }
        let place = self.posted % SENDS;
        let data = 2 * STRIDE * place + STRIDE;
        // SAFETY: E2: the send of `SENDS` before, which used this place, has been collected.
        unsafe {
            self.block.at(data, MESSAGE_BYTES).cast::<u64>().write(number);
            arm(descriptor(self.block, place), SEND, MESSAGE_BYTES as u32, &[self.block.segment(data, MESSAGE_BYTES)]);
        }
        self.vi.post_send(descriptor(self.block, place))?;
        self.posted += 1;
        self.collect()?;
        Ok(true)
    }

    #[inline]
    fn look(&mut self, seen: &Seen) -> Result<(), Error> {
        if let Some([_, receives]) = self.cqs {
            match receives.done()? {
                None => return Ok(()),
                Some(vi) if self.vi.is(vi) => {}
                Some(_) => return Err(Error::failed("an idle virtual interface has completed something")),
            }
        }
        let Some(done) = self.vi.recv_done()? else { return Ok(()) };
        // SAFETY: E2: a completed descriptor and its buffer are ours until posted again.
        unsafe {
            seen.take(((*done).segments[0].address as *const u64).read() as i32);
            rearm(done, SEND, MESSAGE_BYTES as u32);
        }
        Ok(self.vi.post_recv(done)?)
    }
}
