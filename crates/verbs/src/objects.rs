// SPDX-License-Identifier: MIT OR Apache-2.0
//! The objects that queue pairs are made of, as programs call them: protection domains, completion
//! queues, queues of receives that queue pairs share.

use crate::port::Port;
use crate::progress::stamp;
use crate::queue::Listener;
use crate::types::{Completion, Error, Sge, Stamp};
use crate::windows::WindowKind;

impl Port {
    /// Makes a protection domain.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn create_domain(&self) -> Result<u32, Error> {
        self.station.machine().domains.create()
    }

    /// Ends one that nothing uses.
    ///
    /// # Errors
    /// [`Error::Busy`]; [`Error::Invalid`].
    pub fn destroy_domain(&self, domain: u32) -> Result<(), Error> {
        self.station.machine().domains.destroy(domain)
    }

    /// Keeps a protection domain from ending, until it is released: for what is made of it outside
    /// of the device.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn hold_domain(&self, domain: u32) -> Result<(), Error> {
        self.station.machine().domains.hold(domain)
    }

    /// Lets go of a protection domain that [`hold_domain`](Self::hold_domain) kept.
    ///
    /// # Errors
    /// None; as the kindred calls.
    pub fn release_domain(&self, domain: u32) -> Result<(), Error> {
        self.station.machine().domains.release(domain);
        Ok(())
    }

    /// Makes a completion queue; `listener` is told of completions if it is armed, by `cookie`.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::NoMemory`].
    pub fn create_cq(&self, entries: usize, listener: Listener, cookie: u64) -> Result<u32, Error> {
        self.station.machine().create_cq(entries, listener, cookie)
    }

    /// Changes its length.
    ///
    /// # Errors
    /// [`Error::Invalid`]: it holds more, or sends that are posted would have no room for their
    /// completions.
    pub fn resize_cq(&self, cq: u32, entries: usize) -> Result<(), Error> {
        let mut core = self.station.machine();
        let posted = core.posted_to(cq);
        let q = core.cq(cq)?;
        if entries == 0 || entries > crate::queue::CQ_ENTRIES_MAX || entries < q.entries.len() + posted {
            return Err(Error::Invalid);
        }
        q.resize(entries);
        Ok(())
    }

    /// Gives entries a stamp from now on, for [`poll_stamped`](Self::poll_stamped).
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn stamp_cq(&self, cq: u32) -> Result<(), Error> {
        self.station.machine().cq(cq)?.stamp(stamp);
        Ok(())
    }

    /// Takes the next entry, with its stamp if the queue gives stamps.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::InChild`].
    pub fn poll_stamped(&self, cq: u32) -> Result<Option<(Completion, Stamp)>, Error> {
        let entry = self.station.poll(|core, engine| -> Result<_, Error> {
            if core.cq(cq)?.entries.is_empty() {
                core.look(engine, |core| core.has_entries(cq));
            }
            if core.strict.is_some() {
                core.saw_polls(cq, 1);
            }
            Ok(core.cq(cq)?.take_stamped())
        })?;
        if entry.is_none() {
            self.station.give_way();
        }
        Ok(entry)
    }

    /// Ends one that no queue pair uses.
    ///
    /// # Errors
    /// [`Error::Busy`]; [`Error::Invalid`].
    pub fn destroy_cq(&self, cq: u32) -> Result<(), Error> {
        self.station.machine().destroy_cq(cq)
    }

    /// Takes up to `most` entries and returns how many. It looks for more only if there is none.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::InChild`].
    #[inline]
    pub fn poll_cq(&self, cq: u32, most: usize, take: impl FnMut(&Completion)) -> Result<usize, Error> {
        // One of both closures runs.
        let take = core::cell::RefCell::new(take);
        let n = self.station.take_or_poll(
            |core| {
                if core.has_some(cq) {
                    return Some(core.take_entries(cq, most, &mut *take.borrow_mut()));
                }
                core.need_not_look(cq).then_some(Ok(0))
            },
            |core, engine| {
                core.look_for(engine, cq);
                core.take_entries(cq, most, &mut *take.borrow_mut())
            },
        )?;
        if n == 0 {
            self.station.give_way();
        }
        Ok(n)
    }

    /// Has the next completion told of. Entries that are there already do not count.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn arm_cq(&self, cq: u32, solicited_only: bool) -> Result<(), Error> {
        let needs_helper = self.station.with(|core, _| -> Result<bool, Error> {
            core.arm_cq(cq, solicited_only)?;
            Ok(core.armed.need_helper())
        })?;
        if needs_helper {
            self.station.arm(|core, engine| core.look(engine, |_| false))?;
        }
        Ok(())
    }

    /// Makes a shared receive queue.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::NoMemory`].
    pub fn create_srq(&self, domain: u32, capacity: usize, pieces_max: usize, limit: usize, cookie: u64) -> Result<u32, Error> {
        if capacity == 0 || capacity > crate::qp::QUEUE_MAX as usize || pieces_max > crate::qp::PIECES_MAX as usize || limit > capacity {
            return Err(Error::Invalid);
        }
        self.station.machine().create_srq(domain, capacity, pieces_max, limit, cookie)
    }

    /// Makes a shared receive queue for extended reliable connections: messages name it, and `cq`
    /// gets its completions.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::NoMemory`].
    pub fn create_xrc_srq(&self, domain: u32, capacity: usize, pieces_max: usize, (xrc_domain, cq): (u32, u32), cookie: u64) -> Result<u32, Error> {
        if capacity == 0 || capacity > crate::qp::QUEUE_MAX as usize || pieces_max > crate::qp::PIECES_MAX as usize {
            return Err(Error::Invalid);
        }
        let queue = crate::queue::ReceiveQueue::new(capacity, pieces_max, domain);
        self.station.machine().create_xrc_srq(queue, crate::queue::Xrc { domain: xrc_domain, cq }, cookie)
    }

    /// Makes an XRC domain.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn create_xrc_domain(&self) -> Result<u32, Error> {
        self.station.machine().xrc_domains.create()
    }

    /// Ends an XRC domain that nothing uses.
    ///
    /// # Errors
    /// [`Error::Busy`]; [`Error::Invalid`].
    pub fn destroy_xrc_domain(&self, id: u32) -> Result<(), Error> {
        self.station.machine().xrc_domains.destroy(id)
    }

    /// Opens a receiving queue pair of an XRC domain once more; it ends when all of its handles
    /// have.
    ///
    /// # Errors
    /// [`Error::Invalid`]: there is no such queue pair in that domain.
    pub fn open_qp(&self, qp: u32, xrc_domain: u32) -> Result<(), Error> {
        self.station.machine().open_qp(qp, xrc_domain)
    }

    /// Makes a memory window, bound to nothing; its key.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::NoMemory`].
    pub fn create_window(&self, domain: u32, kind: WindowKind) -> Result<u32, Error> {
        self.station.machine().create_window(domain, kind)
    }

    /// Ends a memory window, by any key that it had. What it was bound to can no longer be reached
    /// through it.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn destroy_window(&self, key: u32) -> Result<(), Error> {
        self.station.machine().destroy_window(key)
    }

    /// Has an event given when fewer receives than that are posted.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn set_srq_limit(&self, srq: u32, limit: usize) -> Result<(), Error> {
        let mut core = self.station.machine();
        let srq = core.srq(srq)?;
        if limit > srq.queue.capacity {
            return Err(Error::Invalid);
        }
        srq.limit = limit;
        Ok(())
    }

    /// Changes the length of a shared receive queue.
    ///
    /// # Errors
    /// [`Error::Invalid`]: it holds more, or its limit is higher.
    pub fn resize_srq(&self, srq: u32, capacity: usize) -> Result<(), Error> {
        let mut core = self.station.machine();
        let srq = core.srq(srq)?;
        if capacity == 0 || capacity > crate::qp::QUEUE_MAX as usize || capacity < srq.queue.posted.len() || capacity < srq.limit {
            return Err(Error::Invalid);
        }
        srq.queue.capacity = capacity;
        Ok(())
    }

    /// Capacity, pieces of a receive, limit.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn query_srq(&self, srq: u32) -> Result<(usize, usize, usize), Error> {
        let mut core = self.station.machine();
        let srq = core.srq(srq)?;
        Ok((srq.queue.capacity, srq.queue.pieces_max, srq.limit))
    }

    /// The number by which peers name a shared receive queue: no other process of this address has
    /// the same.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn srq_number(&self, srq: u32) -> Result<u32, Error> {
        Ok(self.station.machine().srq(srq)?.number)
    }

    /// Ends one that no queue pair uses.
    ///
    /// # Errors
    /// [`Error::Busy`]; [`Error::Invalid`].
    pub fn destroy_srq(&self, srq: u32) -> Result<(), Error> {
        self.station.machine().destroy_srq(srq)
    }

    /// Posts a receive to a shared queue.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::NoMemory`].
    pub fn post_srq(&self, srq: u32, wr_id: u64, pieces: &[Sge]) -> Result<(), Error> {
        self.station.machine().srq(srq)?.queue.post(wr_id, pieces)
    }

    /// Posts to a shared queue the receives that `next` gives, until it gives none. Libraries post
    /// many at once: the queue is entered once for all. A `next` that uses the port panics.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::NoMemory`]: of the last one that `next` gave.
    #[inline]
    pub fn post_srq_all<'l>(&self, srq: u32, mut next: impl FnMut() -> Result<Option<(u64, &'l [Sge])>, Error>) -> Result<(), Error> {
        let mut machine = self.station.machine();
        let queue = &mut machine.srq(srq)?.queue;
        while let Some((wr_id, pieces)) = next()? {
            queue.post(wr_id, pieces)?;
        }
        Ok(())
    }
}
