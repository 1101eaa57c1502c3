// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handles, and the threads inside a NIC.
//!
//! A handle is a value, never an address:
//!
//! ```text
//!  63..60   59..56   55..46     45..32           31..0
//!  1011     kind     NIC slot   NIC generation   the engine's handle (1 for the NIC itself)
//! ```
//!
//! The top bits make it differ from every user address. A handle is good if the slot holds an open
//! NIC of that generation and the engine knows the rest.
//!
//! A NIC may be closed while other threads are inside its calls: each slot has a [`Door`], each
//! thread a [`Mark`] (`memory::door` says how the two keep a NIC alive while somebody is inside).
//! `Slot::cell` is not NULL while a caller that has seen a matching key is inside.

use crate::status::VipReturn;
use crate::types::VipHandle;
use bellwire_memory::atomic::{AtomicPtr, Ordering};
use bellwire_memory::door::{self, Door, Mark};
use bellwire_memory::token::thread_id;
use bellwire_via::Nic;
use bellwire_via::handle::Handle;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const SLOT_BITS: u32 = 10;
const GENERATION_BITS: u32 = 14;
/// NICs that may be open at a time.
const SLOTS: usize = 1 << SLOT_BITS;
const KEY_TAG: u32 = 0xB000_0000;
const KIND_SHIFT: u32 = SLOT_BITS + GENERATION_BITS;
/// The low half of a NIC's own handle.
const NIC_OBJECT: u32 = 1;
/// Marks for threads.
const MARKS: usize = 1024;
/// Marks that a thread tries.
const PROBES: usize = 4;
/// Longest wait for callers to leave a NIC that is closed: a thread that was killed in a call never
/// does. The NIC is then kept for ever.
const LEAVE_MAX: Duration = Duration::from_secs(10);

/// What a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Nic = 1,
    Ptag = 2,
    Cq = 3,
    Vi = 4,
    Connection = 5,
    Srq = 6,
}

/// An open NIC.
pub(crate) struct Cell {
    pub nic: Nic,
    /// Host address, for pointers into it that live until the NIC is closed.
    pub host: Box<[u8]>,
    /// Whether peers map memory.
    pub is_mapped_mode: bool,
    /// Whether there is a wire to other hosts.
    pub reaches_others: bool,
    pid: u32,
    key: u32,
}

impl Cell {
    /// The handle of an object of this NIC.
    #[inline]
    pub fn handle<T>(&self, kind: Kind, object: Handle<T>) -> VipHandle {
        compose(self.key, kind, object.raw())
    }

    /// This NIC's own handle.
    pub fn own_handle(&self) -> VipHandle {
        compose(self.key, Kind::Nic, NIC_OBJECT)
    }

    /// The part of handles that names the NIC.
    pub fn key(&self) -> NicKey {
        NicKey(self.key)
    }

    /// An object of this very NIC.
    pub fn object<T>(&self, kind: Kind, handle: VipHandle) -> Option<Handle<T>> {
        let (upper, _, object) = parts(handle);
        (upper == self.key | (kind as u32) << KIND_SHIFT).then(|| Handle::from_raw(object))
    }

    /// As [`object`](Self::object), NULL meaning none.
    pub fn optional<T>(&self, kind: Kind, handle: VipHandle) -> Result<Option<Handle<T>>, VipReturn> {
        if handle.is_null() {
            return Ok(None);
        }
        self.object(kind, handle).map(Some).ok_or(VipReturn::InvalidParameter)
    }
}

/// Names a NIC without keeping it: for handlers, which make handles after the call that brought
/// them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NicKey(u32);

impl NicKey {
    pub fn nic(self) -> VipHandle {
        compose(self.0, Kind::Nic, NIC_OBJECT)
    }

    pub fn handle<T>(self, kind: Kind, object: Handle<T>) -> VipHandle {
        compose(self.0, kind, object.raw())
    }
}

#[inline]
fn compose(key: u32, kind: Kind, object: u32) -> VipHandle {
    let bits = u64::from(key | (kind as u32) << KIND_SHIFT) << 32 | u64::from(object);
    core::ptr::without_provenance_mut(bits as usize)
}

/// The key of a closed slot: no handle that leads to the slot matches it, for it names another one.
const fn closed(index: usize) -> u32 {
    ((index as u32) ^ 1) << GENERATION_BITS
}

struct Slot {
    /// Its key is the open NIC's, else [`closed`].
    door: Door,
    cell: AtomicPtr<Cell>,
}

static NICS: [Slot; SLOTS] = {
    let mut slots = [const { Slot { door: Door::new(0), cell: AtomicPtr::new(core::ptr::null_mut()) } }; SLOTS];
    let mut index = 0;
    while index < SLOTS {
        slots[index].door = Door::new(closed(index));
        index += 1;
    }
    slots
};
static THREADS: [Mark; MARKS] = [const { Mark::new() }; MARKS];

/// How a caller has said that it is inside.
#[derive(Clone, Copy)]
enum Said {
    Marked(&'static Mark),
    Counted(&'static Door),
}

impl Said {
    #[inline(always)]
    fn leave(self) {
        match self {
            Self::Marked(mark) => mark.leave(),
            Self::Counted(door) => door.count_out(),
        }
    }
}

/// Which slots are taken, and by which generation last; the cursor goes round, so that a stale
/// handle stays stale for long.
pub(crate) struct Allocation {
    cursor: usize,
    taken: [bool; SLOTS],
    generation: [u16; SLOTS],
}

static ALLOCATION: Mutex<Allocation> = Mutex::new(Allocation { cursor: 0, taken: [false; SLOTS], generation: [0; SLOTS] });

/// A caller inside a NIC. While it lives, the NIC is not dropped.
pub(crate) struct Inside {
    cell: *const Cell,
    said: Said,
}

impl core::ops::Deref for Inside {
    type Target = Cell;
    #[inline]
    fn deref(&self) -> &Cell {
        // SAFETY: enter() saw the key after it had said that we are inside, so the closer waits for
        // us before it drops the cell.
        unsafe { &*self.cell }
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        self.said.leave();
    }
}

/// A handle in parts: kind and key, index of the slot (always of one that there is), the engine's
/// part.
#[inline(always)]
fn parts(handle: VipHandle) -> (u32, usize, u32) {
    let bits = handle.addr() as u64;
    let upper = (bits >> 32) as u32;
    (upper, (upper >> GENERATION_BITS) as usize & (SLOTS - 1), bits as u32)
}

/// Enters the NIC of a handle of `kind`; the second value is the engine's part of the handle,
/// unchecked.
#[inline]
pub(crate) fn enter(kind: Kind, handle: VipHandle) -> Result<(Inside, u32), VipReturn> {
    let (upper, index, object) = parts(handle);
    let slot = &NICS[index];
    let mut inside = Inside { cell: core::ptr::null(), said: say_slowly(thread_id(), index) };
    if slot.door.key() | (kind as u32) << KIND_SHIFT != upper {
        return Err(VipReturn::InvalidParameter);
    }
    // Relaxed: written before the key that we saw.
    inside.cell = slot.cell.load(Ordering::Relaxed);
    Ok((inside, object))
}

/// Enters the NIC that `handle` names.
pub(crate) fn enter_nic(handle: VipHandle) -> Result<Inside, VipReturn> {
    let (inside, object) = enter(Kind::Nic, handle)?;
    if object == NIC_OBJECT { Ok(inside) } else { Err(VipReturn::InvalidParameter) }
}

/// Enters the NIC of an object's handle and gives the engine's name of the object.
#[inline]
pub(crate) fn enter_object<T>(kind: Kind, handle: VipHandle) -> Result<(Inside, Handle<T>), VipReturn> {
    let (inside, object) = enter(kind, handle)?;
    Ok((inside, Handle::from_raw(object)))
}

/// Runs `body` inside the NIC of an object's handle: [`enter_object`] for the data path, where each
/// instruction counts.
#[inline(always)]
pub(crate) fn with_object<T>(kind: Kind, handle: VipHandle, body: impl FnOnce(&Cell, Handle<T>) -> VipReturn) -> VipReturn {
    let (upper, index, object) = parts(handle);
    let slot = &NICS[index];
    let me = thread_id();
    let mark = &THREADS[home(me)];
    let said = if mark.is_free_for(me) {
        mark.enter(name_of(index));
        Said::Marked(mark)
    } else {
        say_slowly(me, index)
    };
    let answer = if slot.door.key() | (kind as u32) << KIND_SHIFT == upper {
        // SAFETY: the key was seen after we had said that we are inside, so the closer waits for
        // us. Relaxed: written before the key that we saw.
        body(unsafe { &*slot.cell.load(Ordering::Relaxed) }, Handle::from_raw(object))
    } else {
        VipReturn::InvalidParameter
    };
    said.leave();
    answer
}

/// The name of the door of a slot in marks: never 0.
#[inline(always)]
fn name_of(index: usize) -> u32 {
    index as u32 + 1
}

/// Where a thread looks for its mark first. Thread pointers are far apart, by whole pages.
#[inline(always)]
fn home(me: usize) -> usize {
    (me >> 12 ^ me >> 20) & (MARKS - 1)
}

/// Says that the calling thread goes in, when its mark is not in its first place, or it is inside
/// already.
#[cold]
#[inline(never)]
fn say_slowly(me: usize, index: usize) -> Said {
    if door::marks_work() {
        for i in 0..PROBES {
            let mark = &THREADS[(home(me) + i) & (MARKS - 1)];
            if mark.claim(me) {
                mark.enter(name_of(index));
                return Said::Marked(mark);
            }
        }
    }
    let door = &NICS[index].door;
    door.count_in();
    Said::Counted(door)
}

/// In the child of a `fork`: the parent's handles name nothing here. The NICs themselves stay as
/// they are: their memory is the parent's, or not there at all, and the parent's other threads, who
/// may have been inside, are not here. Stores only, as a child may do.
pub(crate) fn forget_all() {
    for (index, slot) in NICS.iter().enumerate() {
        slot.door.forget(closed(index));
    }
    THREADS.iter().for_each(Mark::forget);
}

/// Makes a handle for a NIC.
pub(crate) fn open(nic: Nic, host: Box<[u8]>, is_mapped_mode: bool, reaches_others: bool) -> Result<VipHandle, VipReturn> {
    let (index, key) = {
        let mut a = lock();
        let cursor = a.cursor;
        let index = (0..SLOTS).map(|i| (cursor + i) % SLOTS).find(|i| !a.taken[*i]).ok_or(VipReturn::ErrorResource)?;
        a.cursor = (index + 1) % SLOTS;
        a.taken[index] = true;
        a.generation[index] = (a.generation[index] + 1) & ((1 << GENERATION_BITS) - 1);
        (index, KEY_TAG | (index as u32) << GENERATION_BITS | u32::from(a.generation[index]))
    };
    let cell = Box::new(Cell { nic, host, is_mapped_mode, reaches_others, pid: std::process::id(), key });
    let handle = cell.own_handle();
    let slot = &NICS[index];
    // Relaxed: published by the key.
    slot.cell.store(Box::into_raw(cell), Ordering::Relaxed);
    slot.door.open(key);
    Ok(handle)
}

/// Closes a NIC: its handles are stale at once, its waiters are sent away, and when the last
/// caller has left it goes.
pub(crate) fn close(handle: VipHandle) -> Result<(), VipReturn> {
    let (upper, index, object) = parts(handle);
    let key = upper ^ (Kind::Nic as u32) << KIND_SHIFT;
    let slot = &NICS[index];
    if object != NIC_OBJECT || key & 0xFF00_0000 != KEY_TAG {
        return Err(VipReturn::InvalidParameter);
    }
    if !slot.door.shut(key, closed(index)) {
        return Err(VipReturn::InvalidParameter);
    }
    // Acquire: the closer may be another thread than the opener. Only the one closer of this
    // generation takes it.
    let cell = slot.cell.load(Ordering::Acquire);
    // SAFETY: the exchange above made us the only one to drop it, and nobody else does while a
    // caller is inside.
    let nic = unsafe { &*cell };
    // In the child of a fork the NIC is the parent's, and so are the callers that were inside.
    let all_left = nic.pid == std::process::id() && send_away(nic, index);
    // Relaxed: no key leads here any more.
    slot.cell.store(core::ptr::null_mut(), Ordering::Relaxed);
    if all_left {
        // SAFETY: made by Box::into_raw in open(); nobody is inside and nobody can enter.
        drop(unsafe { Box::from_raw(cell) });
        lock().taken[index] = false;
    }
    Ok(())
}

/// Ends the waits of callers inside, and waits until they have left. `false`: some never did.
fn send_away(cell: &Cell, index: usize) -> bool {
    cell.nic.with(|engine| {
        // Requests that have been posted and fit still leave.
        for _ in 0..64 {
            if !engine.has_work() || !engine.progress() {
                break;
            }
        }
    });
    let since = Instant::now();
    let mut pause = Duration::from_micros(20);
    loop {
        // Again each time: a caller that was about to make something may have made it by now, and
        // wait for it.
        cell.nic.with(|engine| engine.abandon());
        if is_empty(index) {
            return true;
        }
        if since.elapsed() > LEAVE_MAX {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

/// Whether no caller is inside.
fn is_empty(index: usize) -> bool {
    !NICS[index].door.is_counted() && THREADS.iter().all(|mark| !mark.is_behind(name_of(index)))
}

pub(crate) fn lock() -> std::sync::MutexGuard<'static, Allocation> {
    ALLOCATION.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
