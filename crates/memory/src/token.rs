// SPDX-License-Identifier: MIT OR Apache-2.0
//! The progress token: mutual exclusion that costs its usual owner one store and two loads.
//!
//! A locked instruction drains the store buffer, that is, it waits for the cache miss of the
//! message just written to the peer: at tens of millions of messages per second it would be the
//! whole cost. So the token is *biased* to one thread. That thread enters by Dekker's protocol with
//! the fence left out; a thread that wants the bias away pays for both sides with `membarrier` (see
//! `membarrier.rs`).
//!
//! ```text
//!  owner thread (slot k)                another thread (holding `queue`)
//!  inside of k = 1                        k = owner, owner = 0
//!  (compiler fence)                     membarrier: a full barrier in every running thread of the process
//!  owner == k ? in : inside of k = 0      wait until inside of k == 0
//! ```
//!
//! Each thread that has ever been owner has a word `inside` of its own. With one for all, a thread
//! delayed between its two looks at `owner` would, after the bias went to somebody else, clear the
//! new owner's word, and a third could enter.
//!
//! Invariants
//! - T1: `owner` is changed only by the holder of `queue`.
//! - T2: exclusive access = (inside of k == 1 and then owner == k, my slot) or (holding `queue`,
//!   owner == 0, the last owner's inside == 0 seen after the barrier).
//! - T3: a thread's id is its thread pointer: unique among living threads. A new thread that
//!   inherits a dead one's id has been synchronised with it by the thread library.
//! - T4: a slot belongs to the first thread that gets it, for the life of the token; only that
//!   thread writes its `inside`, and `owner` becomes k only by that thread's own exit, so never
//!   while it is between its two looks. Threads beyond the last slot never get the bias.
//!
//! Without `membarrier` (old kernels, strict seccomp filters) the token is never biased and is a
//! plain mutex.
//!
//! So is a token that is *watched* ([`Token::watch`]): functions see the value each time after the
//! token was entered and before it is let go. A token that nobody watches pays nothing for it: only
//! the way of the mutex asks.

use crate::atomic::{AtomicU32, AtomicUsize, Ordering};
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

const ENTER: Ordering = Ordering::Relaxed;
#[inline(always)]
fn leave_order() -> Ordering {
    crate::weakened::ordering("token_leave", Ordering::Release)
}
#[inline(always)]
fn see_left_order() -> Ordering {
    crate::weakened::ordering("token_see_left", Ordering::Acquire)
}

/// Acquisitions in a row through the mutex after which a thread gets the bias.
const STREAK_MIN: u32 = if cfg!(loom) { 1 } else { 8 };

/// What a thread asks for when it enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// A usual user of the value: may get the bias.
    Bias,
    /// A visitor (the helper thread): never gets the bias.
    Visit,
}

/// Slots for owners; slot 0 is nobody's. A power of two.
const SLOTS: usize = if cfg!(loom) { 4 } else { 32 };

/// A thread that has been owner (T4).
struct Slot {
    thread: AtomicUsize,
    inside: AtomicU32,
}

/// Functions that see the value of a watched token. They may not enter it.
#[derive(Debug)]
pub struct Watcher<T> {
    /// A thread has entered.
    pub entered: fn(&mut T),
    /// The thread is about to let the token go.
    pub leaves: fn(&mut T),
}

// Not derived, for that would want the value to be so.
impl<T> Clone for Watcher<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Watcher<T> {}

struct Queue {
    last: usize,
    streak: u32,
    /// The slot to make owner when who is in leaves, 0 for none.
    next_owner: usize,
}

/// A value and the right to use it.
///
/// ```
/// use bellwire_memory::token::{Claim, Token};
///
/// let token = &Token::new(0);
/// std::thread::scope(|scope| {
///     for claim in [Claim::Bias, Claim::Visit] {
///         scope.spawn(move || (0..1000).for_each(|_| *token.enter(claim) += 1));
///     }
/// });
/// assert_eq!(*token.enter(Claim::Visit), 2000);
/// ```
pub struct Token<T> {
    // Read at each entry; written when the bias moves. The owner's slot is written by it at each
    // entry; read by others only when they want the bias away.
    owner: AtomicUsize,
    slots: [Slot; SLOTS],
    can_bias: bool,
    queue: Mutex<Queue>,
    /// The guard of `queue` while its holder is inside; touched only by the thread inside (T2).
    guard: UnsafeCell<Option<QueueGuard>>,
    /// It sees the value at each end of an entry. Only a thread inside, by `queue`, touches it.
    watcher: UnsafeCell<Option<Watcher<T>>>,
    value: UnsafeCell<T>,
}

/// A function that runs inside has called one that enters.
#[cold]
#[inline(never)]
fn entered_twice() -> ! {
    panic!("a function that was called with a NIC held has used the same NIC: the token is not re-entrant");
}

/// A guard that does not know that it is of a mutex in the same token.
struct QueueGuard(MutexGuard<'static, Queue>);

// SAFETY: T2 gives one thread at a time access to the value.
unsafe impl<T: Send> Sync for Token<T> {}
// SAFETY: nothing in it is tied to a thread but `owner`, which is only compared.
unsafe impl<T: Send> Send for Token<T> {}

/// Access to the value; the token is let go when it is dropped.
pub struct Held<'a, T> {
    token: &'a Token<T>,
    /// Our slot, if we are in as owner; 0 if we hold `queue`.
    slot: usize,
    /// The guard of `queue` belongs to the thread that locked it.
    not_send: PhantomData<*const ()>,
}

impl<T> Token<T> {
    /// A token around `value`, biased to nobody yet.
    pub fn new(value: T) -> Self {
        Self::with_bias(value, asymmetric_barrier_available())
    }

    /// A token that may (or may not) ever be biased; it never is where `membarrier` is missing.
    pub fn with_bias(value: T, can_bias: bool) -> Self {
        Self {
            owner: AtomicUsize::new(0),
            slots: core::array::from_fn(|_| Slot { thread: AtomicUsize::new(0), inside: AtomicU32::new(0) }),
            // Asks in any case: a process must be registered before its first barrier.
            can_bias: can_bias && asymmetric_barrier_available(),
            queue: Mutex::new(Queue { last: 0, streak: 0, next_owner: 0 }),
            guard: UnsafeCell::new(None),
            watcher: UnsafeCell::new(None),
            value: UnsafeCell::new(value),
        }
    }

    /// Enters as the calling thread. Not re-entrant: a thread that enters twice panics, or, where
    /// it is not the token's usual one, waits for ever. It never has the value twice.
    #[inline]
    pub fn enter(&self, claim: Claim) -> Held<'_, T> {
        self.enter_as(thread_id(), claim)
    }

    /// Enters two, which are not the same, in the order of their addresses: threads that enter them
    /// in either order do not wait for each other.
    pub fn enter_both<'a>(&'a self, other: &'a Self, claim: Claim) -> (Held<'a, T>, Held<'a, T>) {
        if core::ptr::from_ref(self) < core::ptr::from_ref(other) {
            let here = self.enter(claim);
            (here, other.enter(claim))
        } else {
            let there = other.enter(claim);
            (self.enter(claim), there)
        }
    }

    /// Enters under a given thread id; for models.
    #[inline]
    pub fn enter_as(&self, me: usize, claim: Claim) -> Held<'_, T> {
        // Relaxed (T1, T2): only says whether to try; the second look decides.
        let slot = self.owner.load(Ordering::Relaxed) & (SLOTS - 1);
        // Relaxed (T4): if it is ours, we wrote it ourselves.
        if self.slots[slot].thread.load(Ordering::Relaxed) == me {
            let inside = self.inside_of(slot);
            // Relaxed: only this thread stores anything else than 0 there.
            if inside.load(Ordering::Relaxed) != 0 {
                entered_twice();
            }
            // Relaxed: ordered before the load below by the revoker's membarrier (T2); others only
            // read it.
            inside.store(1, ENTER);
            light_barrier();
            // Relaxed (T2): if the revoker's store came first we see it; otherwise it sees
            // `inside`.
            if self.owner.load(Ordering::Relaxed) == slot {
                return Held { token: self, slot, not_send: PhantomData };
            }
            // Release: nothing was done inside, but the revoker waits for it.
            inside.store(0, leave_order());
        }
        self.enter_slow(me, claim)
    }

    #[cold]
    #[inline(never)]
    fn enter_slow(&self, me: usize, claim: Claim) -> Held<'_, T> {
        #[cfg(not(loom))]
        let mut queue = self.queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        #[cfg(loom)]
        let mut queue = self.queue.lock().unwrap();
        // Relaxed (T1): we hold `queue`.
        let owner = self.owner.load(Ordering::Relaxed) & (SLOTS - 1);
        if owner != 0 {
            // Relaxed: made visible before the load of `inside` by the barrier (T2).
            self.owner.store(0, Ordering::Relaxed);
            heavy_barrier();
            let mut spins = 0u32;
            // Acquire: pairs with the release of `inside` at exit: we see what the owner did.
            while self.inside_of(owner).load(see_left_order()) != 0 {
                wait_a_little(&mut spins);
            }
        }
        let mut slot = 0;
        // SAFETY: T2: we are in, by `queue`.
        let watcher = unsafe { *self.watcher.get() };
        if claim == Claim::Bias {
            queue.streak = if queue.last == me { queue.streak.saturating_add(1) } else { 1 };
            queue.last = me;
            if self.can_bias && watcher.is_none() && queue.streak >= STREAK_MIN {
                slot = self.slot_for(me);
            }
        } else {
            queue.streak = 0;
        }
        queue.next_owner = slot;
        // SAFETY: T2: we are in. The mutex lives in `self`, which the Held borrows; leave_slow()
        // drops the guard before that borrow ends.
        unsafe { *self.guard.get() = Some(QueueGuard(core::mem::transmute::<MutexGuard<'_, Queue>, MutexGuard<'static, Queue>>(queue))) };
        if let Some(watcher) = watcher {
            // SAFETY: T2; `Held` has given out no reference yet.
            (watcher.entered)(unsafe { &mut *self.value.get() });
        }
        Held { token: self, slot: 0, not_send: PhantomData }
    }

    /// Has `watcher` see the value from now on, each time after the token was entered and before it
    /// is let go; `None` ends that. Meanwhile each entry takes a locked instruction.
    pub fn watch(&self, watcher: Option<Watcher<T>>) {
        let held = self.enter_slow(thread_id(), Claim::Visit);
        // SAFETY: T2: we are in, by `queue`, which enter_slow() holds always.
        unsafe { *self.watcher.get() = watcher };
        drop(held);
    }

    #[inline]
    fn inside_of(&self, slot: usize) -> &AtomicU32 {
        // The variant is what the models must find: one word for all (T4).
        &self.slots[if crate::weakened::is("token_one_word") { 0 } else { slot }].inside
    }

    /// The slot of thread `me`, a free one made its own, or 0. The caller holds `queue`.
    fn slot_for(&self, me: usize) -> usize {
        for (k, slot) in self.slots.iter().enumerate().skip(1) {
            // Relaxed (T4): written under `queue` only, which we hold.
            let thread = slot.thread.load(Ordering::Relaxed);
            if thread == 0 {
                // Relaxed (T4): compared without `queue` by us alone; to others it is a number that
                // is not theirs.
                slot.thread.store(me, Ordering::Relaxed);
                return k;
            }
            if thread == me {
                return k;
            }
        }
        0
    }

    /// The value, if nobody else has the token object.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.slot != 0 {
            // Release: publishes what we did inside; pairs with the revoker's acquire.
            self.token.inside_of(self.slot).store(0, leave_order());
        } else {
            leave_slow(self.token);
        }
    }
}

#[cold]
#[inline(never)]
fn leave_slow<T>(token: &Token<T>) {
    // SAFETY: T2: we are in, by `queue`.
    if let Some(watcher) = unsafe { *token.watcher.get() } {
        // SAFETY: T2; the reference that `Held` gave out ended when it was dropped.
        (watcher.leaves)(unsafe { &mut *token.value.get() });
    }
    // SAFETY: T2: we are in, by `queue`.
    let Some(QueueGuard(queue)) = (unsafe { (*token.guard.get()).take() }) else { return };
    if queue.next_owner != 0 {
        // Relaxed (T1): we hold `queue`; the next holder of the lock sees this, and only we
        // ourselves compare it without the lock.
        token.owner.store(queue.next_owner, Ordering::Relaxed);
    }
    drop(queue);
}

impl<T> Deref for Held<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: T2.
        unsafe { &*self.token.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: T2.
        unsafe { &mut *self.token.value.get() }
    }
}

impl<T> core::fmt::Debug for Token<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Token").field("can_bias", &self.can_bias).finish_non_exhaustive()
    }
}

#[cfg(not(loom))]
fn asymmetric_barrier_available() -> bool {
    crate::membarrier::register().private_expedited
}
#[cfg(loom)]
fn asymmetric_barrier_available() -> bool {
    true
}

/// The owner's half of the asymmetric barrier: keeps the compiler from moving the load before the
/// store.
#[inline]
fn light_barrier() {
    #[cfg(not(loom))]
    crate::atomic::compiler_fence(Ordering::SeqCst);
    // The model has no membarrier: both halves are full fences there. SeqCst: a store-load order on
    // both sides is what Dekker needs.
    #[cfg(loom)]
    if !crate::weakened::is("token_barrier") {
        crate::atomic::fence(Ordering::SeqCst);
    }
}

fn heavy_barrier() {
    #[cfg(not(loom))]
    crate::membarrier::private_expedited();
    // SeqCst: see light_barrier().
    #[cfg(loom)]
    crate::atomic::fence(Ordering::SeqCst);
}

#[cfg(not(loom))]
fn wait_a_little(spins: &mut u32) {
    *spins += 1;
    if *spins < 256 {
        crate::pause::pause();
    } else {
        std::thread::yield_now();
    }
}
#[cfg(loom)]
fn wait_a_little(_spins: &mut u32) {
    loom::thread::yield_now();
}

/// The calling thread's id (T3): never 0.
#[inline]
pub fn thread_id() -> usize {
    #[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
    {
        let id: usize;
        // SAFETY: the x86-64 ABI keeps the thread pointer itself at fs:0; reading it has no effect.
        unsafe { core::arch::asm!("mov {}, fs:0", out(reg) id, options(nostack, preserves_flags, readonly, pure)) };
        id
    }
    #[cfg(all(target_arch = "aarch64", target_os = "linux", not(miri)))]
    {
        let id: usize;
        // SAFETY: reads the thread pointer register.
        unsafe { core::arch::asm!("mrs {}, tpidr_el0", out(reg) id, options(nostack, preserves_flags, nomem, pure)) };
        id
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_os = "linux", not(miri))))]
    {
        std::thread_local!(static HERE: u8 = const { 0 });
        HERE.with(|h| core::ptr::from_ref(h).addr())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_thread_gets_the_bias_and_keeps_it() {
        let t = Token::with_bias(0u32, true);
        for _ in 0..100 {
            *t.enter(Claim::Bias) += 1;
        }
        let owner = t.owner.load(Ordering::Relaxed);
        assert_eq!(t.slots[owner].thread.load(Ordering::Relaxed), thread_id());
        assert_eq!(*t.enter(Claim::Visit), 100);
    }

    /// In any build: two references to the value would be a way to corrupt memory.
    #[test]
    #[should_panic(expected = "the token is not re-entrant")]
    fn nobody_enters_twice() {
        let t = Token::with_bias(0u32, true);
        for _ in 0..2 * STREAK_MIN {
            *t.enter(Claim::Bias) += 1;
        }
        assert!(t.can_bias, "the token is not re-entrant: no membarrier here, so the second would wait for ever");
        let _first = t.enter(Claim::Bias);
        let _second = t.enter(Claim::Bias);
    }

    #[test]
    fn a_watcher_sees_the_value_at_each_end() {
        fn note(value: &mut (u32, Vec<u32>)) {
            value.1.push(value.0);
        }
        fn entered(value: &mut (u32, Vec<u32>)) {
            assert_eq!(value.1.last(), Some(&value.0), "nobody was inside in between unseen");
        }
        let t = Token::with_bias((0u32, Vec::new()), true);
        for _ in 0..2 * STREAK_MIN {
            t.enter(Claim::Bias).0 += 1;
        }
        t.watch(Some(Watcher { entered, leaves: note }));
        // The owner has lost the bias, and nobody gets it.
        for _ in 0..2 * STREAK_MIN {
            t.enter(Claim::Bias).0 += 1;
        }
        t.enter(Claim::Visit).0 += 1;
        assert_eq!(t.owner.load(Ordering::Relaxed), 0);
        t.watch(None);
        for _ in 0..2 * STREAK_MIN {
            t.enter(Claim::Bias).0 += 1;
        }
        assert_ne!(t.owner.load(Ordering::Relaxed), 0);
        let (last, seen) = t.into_inner();
        // The end of watch() itself is seen too: the first was before, and the last has no watcher.
        let expected: Vec<u32> = core::iter::once(2 * STREAK_MIN).chain(2 * STREAK_MIN + 1..=4 * STREAK_MIN + 1).collect();
        assert_eq!((last, seen), (6 * STREAK_MIN + 1, expected));
    }

    #[test]
    fn threads_beyond_the_last_slot_still_enter() {
        let t = Token::with_bias(0usize, true);
        for id in 1..=2 * SLOTS {
            for _ in 0..2 * STREAK_MIN {
                *t.enter_as(id * 4096, Claim::Bias) += 1;
            }
        }
        assert_eq!(*t.enter(Claim::Visit), 2 * SLOTS * 2 * STREAK_MIN as usize);
    }

    #[test]
    fn many_threads_exclude_each_other() {
        for can_bias in [false, asymmetric_barrier_available()] {
            let t = Token::with_bias((0u64, 0u64), can_bias);
            let rounds = if cfg!(miri) { 50 } else { 20_000 };
            std::thread::scope(|s| {
                for k in 0..4 {
                    let t = &t;
                    s.spawn(move || {
                        for i in 0..rounds {
                            let mut v = t.enter(if k == 0 { Claim::Visit } else { Claim::Bias });
                            assert_eq!(v.0, v.1);
                            v.0 += 1;
                            if i % 64 == 0 {
                                std::thread::yield_now();
                            }
                            v.1 += 1;
                        }
                    });
                }
            });
            assert_eq!(t.into_inner(), (4 * rounds, 4 * rounds));
        }
    }
}
