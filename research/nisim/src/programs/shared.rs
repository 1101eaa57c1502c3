// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fine-grain shared memory by invalidation, in software over active messages, as Tempest's default
//! protocol: hardware checks each access against the block's state on this node; an access that is
//! not allowed becomes a request to the block's home, which keeps a directory.
//!
//! Messages may overtake each other (a refused one is sent again later), so:
//! - a home does one thing at a time for a block; requests for it wait meanwhile;
//! - a copy that is invalidated before it arrives serves the one access that asked for it;
//! - a node asked to return a block that it has not got yet, or not used yet, returns it after its
//!   access.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use super::collective::LIBRARY_HANDLERS;
use crate::am::Am;
use crate::ni::Work;

const GET: [u16; 2] = [LIBRARY_HANDLERS + 16, LIBRARY_HANDLERS + 17];
const DATA: [u16; 2] = [LIBRARY_HANDLERS + 18, LIBRARY_HANDLERS + 19];
const GRANT: u16 = LIBRARY_HANDLERS + 20;
const INVALIDATE: u16 = LIBRARY_HANDLERS + 21;
const INVALIDATED: u16 = LIBRARY_HANDLERS + 22;
const RECALL: [u16; 2] = [LIBRARY_HANDLERS + 23, LIBRARY_HANDLERS + 24];
const RETURNED: u16 = LIBRARY_HANDLERS + 25;

/// Instructions of an access that is not allowed: the trap, and finding the home.
const FAULT: u64 = 60;
/// Instructions of a handler: the block's state, what to do.
const HANDLE: u64 = 30;
/// Where the copies and the directory begin in a node's memory.
const COPIES: u64 = 0x100c_0000;
const DIRECTORY: u64 = 0x2000_a000;

/// What a node may do with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Access {
    None,
    Read,
    Write,
}

/// What a home knows of a block.
#[derive(Default)]
struct Entry {
    owner: Option<usize>,
    readers: BTreeSet<usize>,
    /// The request being served: the node, whether it writes, how many answers are missing.
    serving: Option<(usize, bool, usize)>,
    waiting: VecDeque<(usize, bool)>,
}

/// The access that the program waits for.
#[derive(Clone, Copy)]
struct Pending {
    block: usize,
    answered: bool,
    /// Invalidated before it arrived.
    stale: bool,
    /// To be returned after the access; whether for a writer.
    recalled: Option<bool>,
}

/// What a handler does: the sender, the block, the payload.
type Run = fn(Rc<Inner>, usize, usize, Rc<[u8]>) -> Work<'static, ()>;

/// A node's view of an array in shared memory.
#[derive(Clone)]
pub struct Shared(Rc<Inner>);

struct Inner {
    am: Am,
    block_bytes: usize,
    homes: Vec<u16>,
    copies: RefCell<Vec<u8>>,
    access: RefCell<Vec<Access>>,
    directory: RefCell<Vec<Entry>>,
    pending: Cell<Option<Pending>>,
}

impl Shared {
    /// The view of an array of `bytes`, all zero, in blocks of `block_bytes`; `home` says which
    /// node a block is at home on. One for each node, all alike.
    pub fn new(am: &Am, bytes: usize, block_bytes: usize, home: impl Fn(usize) -> usize) -> Self {
        let blocks = bytes.div_ceil(block_bytes);
        let homes: Vec<u16> = (0..blocks).map(|block| home(block) as u16).collect();
        let me = am.cpu().node();
        let access = homes.iter().map(|&home| if usize::from(home) == me { Access::Write } else { Access::None }).collect();
        let inner = Inner {
            am: am.clone(),
            block_bytes,
            copies: RefCell::new(vec![0; blocks * block_bytes]),
            access: RefCell::new(access),
            directory: RefCell::new((0..blocks).map(|_| Entry::default()).collect()),
            homes,
            pending: Cell::new(None),
        };
        let shared = Self(Rc::new(inner));
        shared.listen(am);
        shared
    }

    fn listen(&self, am: &Am) {
        let on = |handler: u16, run: Run| {
            let inner = self.0.clone();
            am.on(handler, move |_, from, payload| {
                let inner = inner.clone();
                async move {
                    inner.am.cpu().instructions(HANDLE);
                    let block = u32::from_le_bytes(payload[..4].try_into().expect("a block's number")) as usize;
                    run(inner, from, block, payload).await;
                }
            });
        };
        on(GET[0], |inner, from, block, _| Box::pin(async move { inner.request(block, from, false).await }));
        on(GET[1], |inner, from, block, _| Box::pin(async move { inner.request(block, from, true).await }));
        on(DATA[0], |inner, _, block, payload| Box::pin(async move { inner.arrived(block, Access::Read, &payload[4..]).await }));
        on(DATA[1], |inner, _, block, payload| Box::pin(async move { inner.arrived(block, Access::Write, &payload[4..]).await }));
        on(GRANT, |inner, _, block, _| Box::pin(async move { inner.answer(block, Access::Write) }));
        on(INVALIDATE, |inner, _, block, _| Box::pin(async move { inner.invalidate(block).await }));
        on(INVALIDATED, |inner, from, block, _| Box::pin(async move { inner.invalidated(block, from).await }));
        on(RECALL[0], |inner, _, block, _| Box::pin(async move { inner.recall(block, false).await }));
        on(RECALL[1], |inner, _, block, _| Box::pin(async move { inner.recall(block, true).await }));
        on(RETURNED, |inner, from, block, payload| Box::pin(async move { inner.returned(block, from, &payload[4..]).await }));
    }

    /// Puts what an array holds at the beginning into the blocks that are at home here; nothing is
    /// charged.
    pub fn preset(&self, bytes: &[u8]) {
        let inner = &*self.0;
        for (block, content) in bytes.chunks(inner.block_bytes).enumerate().filter(|(block, _)| inner.is_home(*block)) {
            inner.copies.borrow_mut()[block * inner.block_bytes..][..content.len()].copy_from_slice(content);
        }
    }

    /// Reads bytes; waits for blocks that are not here.
    pub async fn read(&self, offset: usize, bytes: &mut [u8]) {
        let done = self.0.at_once(offset, bytes.len(), Access::Read);
        bytes[..done].copy_from_slice(&self.0.copies.borrow()[offset..offset + done]);
        if done < bytes.len() {
            Box::pin(self.read_on(offset, done, bytes)).await;
        }
    }

    async fn read_on(&self, offset: usize, mut done: usize, bytes: &mut [u8]) {
        let inner = &*self.0;
        while done < bytes.len() {
            let (block, length) = inner.piece(offset + done, bytes.len() - done);
            inner.allow(block, Access::Read).await;
            inner.am.cpu().load_range(COPIES + (offset + done) as u64, length as u64).await;
            bytes[done..done + length].copy_from_slice(&inner.copies.borrow()[offset + done..][..length]);
            inner.used().await;
            done += length;
        }
    }

    /// Writes bytes; waits for the right to write each block.
    pub async fn write(&self, offset: usize, bytes: &[u8]) {
        let done = self.0.at_once(offset, bytes.len(), Access::Write);
        self.0.copies.borrow_mut()[offset..offset + done].copy_from_slice(&bytes[..done]);
        if done < bytes.len() {
            Box::pin(self.write_on(offset, done, bytes)).await;
        }
    }

    async fn write_on(&self, offset: usize, mut done: usize, bytes: &[u8]) {
        let inner = &*self.0;
        while done < bytes.len() {
            let (block, length) = inner.piece(offset + done, bytes.len() - done);
            inner.allow(block, Access::Write).await;
            inner.am.cpu().store_range(COPIES + (offset + done) as u64, length as u64).await;
            inner.copies.borrow_mut()[offset + done..][..length].copy_from_slice(&bytes[done..done + length]);
            inner.used().await;
            done += length;
        }
    }

    /// Reads doubles.
    pub async fn read_f64<const N: usize>(&self, offset: usize) -> [f64; N] {
        let mut bytes = [[0; 8]; N];
        self.read(offset, bytes.as_flattened_mut()).await;
        bytes.map(f64::from_le_bytes)
    }

    /// Writes doubles.
    pub async fn write_f64<const N: usize>(&self, offset: usize, values: [f64; N]) {
        self.write(offset, values.map(f64::to_le_bytes).as_flattened()).await;
    }

    /// Reads singles.
    pub async fn read_f32<const N: usize>(&self, offset: usize) -> [f32; N] {
        let mut bytes = [[0; 4]; N];
        self.read(offset, bytes.as_flattened_mut()).await;
        bytes.map(f32::from_le_bytes)
    }

    /// Writes singles.
    pub async fn write_f32<const N: usize>(&self, offset: usize, values: [f32; N]) {
        self.write(offset, values.map(f32::to_le_bytes).as_flattened()).await;
    }

    /// Waits until the word at `offset` is at least `least`. Looks again when the writer takes the
    /// copy away.
    pub async fn wait_word(&self, offset: usize, least: u32) {
        let block = offset / self.0.block_bytes;
        loop {
            let mut word = [0; 4];
            self.read(offset, &mut word).await;
            if u32::from_le_bytes(word) >= least {
                return;
            }
            self.0.am.wait(|| self.0.access.borrow()[block] == Access::None).await;
        }
    }
}

impl Inner {
    fn is_home(&self, block: usize) -> bool {
        usize::from(self.homes[block]) == self.am.cpu().node()
    }

    /// The block at `offset`, and how many of `length` bytes lie in it.
    fn piece(&self, offset: usize, length: usize) -> (usize, usize) {
        let block = offset / self.block_bytes;
        (block, length.min((block + 1) * self.block_bytes - offset))
    }

    /// How many of `length` bytes at `offset` the program may access and has in its cache, from the
    /// first on; these accesses are done. Nearly all accesses of a simulation are, so they wait for
    /// nothing and go through no queue.
    #[inline]
    fn at_once(&self, offset: usize, length: usize, wanted: Access) -> usize {
        let (access, mut done) = (self.access.borrow(), 0);
        while done < length {
            let (block, here) = self.piece(offset + done, length - done);
            let allowed = access[block] >= wanted && !self.am.is_due();
            if !allowed || !self.am.cpu().access_at_once(COPIES + (offset + done) as u64, here as u64, wanted == Access::Write) {
                break;
            }
            done += here;
        }
        done
    }

    /// Waits until the program may access a block. It must do so before it waits for anything else,
    /// and then say [`Self::used`].
    async fn allow(&self, block: usize, wanted: Access) {
        if self.access.borrow()[block] >= wanted && !self.am.is_due() {
            return;
        }
        self.am.breathe().await;
        if self.access.borrow()[block] >= wanted {
            return;
        }
        self.am.cpu().instructions(FAULT);
        self.pending.set(Some(Pending { block, answered: false, stale: false, recalled: None }));
        let write = wanted == Access::Write;
        if self.is_home(block) {
            self.request(block, self.am.cpu().node(), write).await;
        } else {
            self.send(self.homes[block].into(), GET[usize::from(write)], block).await;
        }
        self.am.wait(|| self.pending.get().is_some_and(|pending| pending.answered)).await;
    }

    /// The access is done: a block that was asked for meanwhile goes back.
    async fn used(&self) {
        if let Some(pending) = self.pending.take() {
            Box::pin(self.done_with(pending)).await;
        }
    }

    async fn done_with(&self, pending: Pending) {
        if let Some(write) = pending.recalled {
            self.give_back(pending.block, write).await;
        }
        if self.is_home(pending.block) {
            self.serve_next(pending.block).await;
        }
    }

    async fn send(&self, to: usize, handler: u16, block: usize) {
        self.am.send(to, handler, &(block as u32).to_le_bytes()).await;
    }

    async fn send_data(&self, to: usize, handler: u16, block: usize) {
        let start = block * self.block_bytes;
        self.am.cpu().load_range(COPIES + start as u64, self.block_bytes as u64).await;
        let payload = [&(block as u32).to_le_bytes()[..], &self.copies.borrow()[start..start + self.block_bytes]].concat();
        self.am.send(to, handler, &payload).await;
    }

    async fn place(&self, block: usize, data: &[u8]) {
        self.am.fetch_payload().await;
        let start = block * self.block_bytes;
        self.am.cpu().store_range(COPIES + start as u64, data.len() as u64).await;
        self.copies.borrow_mut()[start..start + data.len()].copy_from_slice(data);
    }

    fn pending_on(&self, block: usize) -> Option<Pending> {
        self.pending.get().filter(|pending| pending.block == block)
    }

    // Where the block is used.

    async fn arrived(&self, block: usize, access: Access, data: &[u8]) {
        self.place(block, data).await;
        self.answer(block, access);
    }

    fn answer(&self, block: usize, access: Access) {
        let pending = self.pending_on(block).unwrap_or_else(|| panic!("node {}: block {block} was not asked for", self.am.cpu().node()));
        self.access.borrow_mut()[block] = if pending.stale && access == Access::Read { Access::None } else { access };
        self.pending.set(Some(Pending { answered: true, ..pending }));
    }

    async fn invalidate(&self, block: usize) {
        let had = std::mem::replace(&mut self.access.borrow_mut()[block], Access::None);
        if let Some(pending) = self.pending_on(block).filter(|_| had == Access::None) {
            self.pending.set(Some(Pending { stale: true, ..pending }));
        }
        self.send(self.homes[block].into(), INVALIDATED, block).await;
    }

    async fn recall(&self, block: usize, write: bool) {
        match self.pending_on(block) {
            Some(pending) => self.pending.set(Some(Pending { recalled: Some(write), ..pending })),
            None => self.give_back(block, write).await,
        }
    }

    async fn give_back(&self, block: usize, write: bool) {
        let had = std::mem::replace(&mut self.access.borrow_mut()[block], if write { Access::None } else { Access::Read });
        assert_eq!(had, Access::Write, "only an owner returns a block");
        self.send_data(self.homes[block].into(), RETURNED, block).await;
    }

    // At home.

    async fn request(&self, block: usize, from: usize, write: bool) {
        self.am.cpu().load(DIRECTORY + block as u64 * 16).await;
        self.am.cpu().store(DIRECTORY + block as u64 * 16).await;
        let busy = {
            let mut directory = self.directory.borrow_mut();
            let busy = directory[block].serving.is_some();
            if busy {
                directory[block].waiting.push_back((from, write));
            }
            busy
        };
        if !busy {
            self.serve(block, from, write).await;
        }
    }

    async fn serve(&self, block: usize, from: usize, write: bool) {
        let (owner, readers) = {
            let mut directory = self.directory.borrow_mut();
            let entry = &mut directory[block];
            let readers: Vec<usize> = entry.readers.iter().copied().filter(|&reader| write && reader != from).collect();
            entry.serving = Some((from, write, readers.len() + usize::from(entry.owner.is_some())));
            (entry.owner, readers)
        };
        if let Some(owner) = owner {
            return self.send(owner, RECALL[usize::from(write)], block).await;
        }
        for &reader in &readers {
            self.send(reader, INVALIDATE, block).await;
        }
        if readers.is_empty() {
            self.serve_on(block).await;
        }
    }

    async fn invalidated(&self, block: usize, from: usize) {
        let done = {
            let mut directory = self.directory.borrow_mut();
            assert!(directory[block].readers.remove(&from), "only a reader's copy is invalidated");
            let serving = directory[block].serving.as_mut().expect("invalidations are for somebody");
            serving.2 -= 1;
            serving.2 == 0
        };
        if done {
            self.serve_on(block).await;
        }
    }

    async fn returned(&self, block: usize, from: usize, data: &[u8]) {
        self.place(block, data).await;
        {
            let mut directory = self.directory.borrow_mut();
            let entry = &mut directory[block];
            assert_eq!(entry.owner.take(), Some(from), "the owner returns a block");
            if entry.serving.is_some_and(|(_, write, _)| !write) {
                entry.readers.insert(from);
            }
        }
        self.serve_on(block).await;
    }

    /// Nothing is missing: the requester gets the block. The home's own program has its
    /// access first, before anybody else is served.
    async fn serve_on(&self, block: usize) {
        let me = self.am.cpu().node();
        let (from, write, had) = {
            let (mut directory, mut access) = (self.directory.borrow_mut(), self.access.borrow_mut());
            let entry = &mut directory[block];
            let (from, write, _) = entry.serving.expect("somebody is served");
            let had = entry.readers.contains(&from);
            access[block] = match (write, from == me) {
                (true, true) => Access::Write,
                (true, false) => Access::None,
                (false, true) if entry.readers.is_empty() => Access::Write,
                (false, _) => Access::Read,
            };
            match (write, from == me) {
                (true, false) => {
                    entry.readers.clear();
                    entry.owner = Some(from);
                }
                (false, false) => drop(entry.readers.insert(from)),
                (_, true) => {}
            }
            (from, write, had)
        };
        if from == me {
            let access = self.access.borrow()[block];
            return self.answer(block, access);
        }
        if write && had {
            self.send(from, GRANT, block).await;
        } else {
            self.send_data(from, DATA[usize::from(write)], block).await;
        }
        self.serve_next(block).await;
    }

    /// The next one that waits for a block.
    async fn serve_next(&self, block: usize) {
        let next = {
            let mut directory = self.directory.borrow_mut();
            directory[block].serving = None;
            directory[block].waiting.pop_front()
        };
        if let Some((from, write)) = next {
            Box::pin(self.serve(block, from, write)).await;
        }
    }
}
