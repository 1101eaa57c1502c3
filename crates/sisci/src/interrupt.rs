// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remote interrupts, with nothing but the fact; those with data are in `data_interrupt.rs`.
//!
//! An interrupt is a counter in memory that the owner shares with those that trigger it; the owner
//! sleeps on it in the kernel. A process of another host sends a message, and the machine adds.
//!
//! An interrupt of a flag is triggered by stores to a word of a segment (`flags.rs`).

use crate::error::Error;
use crate::events::{Action, Runner};
use crate::far::{Export, ExportId, Handled, Import, Name, News, Said, SessionId, What};
use crate::flags::{self, Triggered};
use crate::handles::Object;
use crate::library::{Descriptor, Library};
use crate::local::LocalSegment;
use crate::message::{Answer, Hello, MESSAGE_MAX, Wish, interrupt_name};
use crate::rendezvous::{Deadline, Listener, Owner, call};
use crate::service::{Peer, Source};
use crate::thread;
use bellwire_memory::MemoryError;
use bellwire_memory::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use bellwire_memory::counter::{Counter, CounterAdder, Taken};
use bellwire_memory::fd_passing;
use bellwire_memory::flag_word::FlagWord;
use rustix::fd::AsFd;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// Owners of one shared number.
const SHARED_MAX: u32 = 8;
/// Numbers that are given out begin here; lower ones are for programs that choose.
const FIRST_NUMBER: u32 = 0x1_0000;
/// Numbers that are tried.
const NUMBERS_TRIED: u32 = 1 << 12;
/// Connections to an interrupt at a time.
pub(crate) const CALLERS_MAX: usize = 1 << 12;

/// What an interrupt is to be.
#[derive(Clone, Copy, Debug, Default)]
pub struct InterruptKind {
    /// The number, if the program chooses it.
    pub number: Option<u32>,
    /// Several interrupts may have the number; all are triggered.
    pub shared: bool,
    /// Interrupts are counted; else several before a wait are one.
    pub counts: bool,
}

/// What the program runs for an interrupt.
pub type InterruptCallback = Box<dyn FnMut() -> Action + Send>;

/// Numbers to try.
pub(crate) fn numbers(chosen: Option<u32>) -> impl Iterator<Item = u32> {
    let first = std::process::id().wrapping_mul(0x9E37_79B1) % 0x7000_0000;
    let free = (0..NUMBERS_TRIED).map(move |n| FIRST_NUMBER + (first + n) % 0x7000_0000);
    chosen.into_iter().chain(free.take(if chosen.is_some() { 0 } else { usize::MAX }))
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn answer(caller: &Peer, result: Result<(), Error>, memory: &[rustix::fd::BorrowedFd<'_>]) -> bool {
    fd_passing::send(caller.socket.as_fd(), &Answer { result, size: 0 }.bytes(), memory).is_ok()
}

/// An interrupt of this process.
pub struct LocalInterrupt {
    descriptor: Arc<Descriptor>,
    library: &'static Library,
    number: u32,
    counter: Arc<Counter>,
    listener: OnceLock<Arc<Listener>>,
    /// The object that users of other hosts connect to, and its way to add.
    export: OnceLock<ExportId>,
    adder: OnceLock<CounterAdder>,
    runner: OnceLock<Runner>,
    callers: Mutex<BTreeMap<u64, Arc<Peer>>>,
    /// Of a flag of a segment, which has no number.
    flag: Option<Flag>,
    me: Weak<Self>,
}

/// Where the flag lies.
struct Flag {
    segment: Weak<LocalSegment>,
    offset: usize,
    is_conditional: bool,
    /// The value of its word when the program last looked.
    seen: AtomicU32,
}

impl Object for LocalInterrupt {
    const KIND: u8 = 8;
}

impl LocalInterrupt {
    /// Creates an interrupt, and gives its handle and number.
    ///
    /// # Errors
    /// [`Error::InterruptUsed`]; [`Error::NoSpace`].
    pub fn create(
        library: &'static Library,
        descriptor: u64,
        kind: InterruptKind,
        callback: impl FnOnce(u64) -> Option<InterruptCallback>,
    ) -> Result<(u64, u32), Error> {
        let descriptor = library.get::<Descriptor>(descriptor)?;
        let counter = Arc::new(Counter::create(kind.counts)?);
        let mut number = 0;
        let handle = library.insert(|handle| {
            for candidate in numbers(kind.number) {
                number = candidate;
                let interrupt = Self::new(library, &descriptor, &counter, number, None);
                match interrupt.listen(kind.shared) {
                    Ok((listener, slot)) => {
                        let _ = interrupt.listener.set(listener);
                        interrupt.export(slot).inspect_err(|_| interrupt.stop_listening())?;
                    }
                    Err(Error::InterruptUsed) => continue,
                    Err(error) => return Err(error),
                }
                interrupt.run(callback(handle)).inspect_err(|_| interrupt.stop_listening())?;
                descriptor.hold();
                return Ok(interrupt);
            }
            Err(Error::InterruptUsed)
        })?;
        Ok((handle, number))
    }

    fn new(library: &'static Library, descriptor: &Arc<Descriptor>, counter: &Arc<Counter>, number: u32, flag: Option<Flag>) -> Arc<Self> {
        Arc::new_cyclic(|me: &Weak<Self>| Self {
            descriptor: Arc::clone(descriptor),
            library,
            number,
            counter: Arc::clone(counter),
            listener: OnceLock::new(),
            export: OnceLock::new(),
            adder: OnceLock::new(),
            runner: OnceLock::new(),
            callers: Mutex::default(),
            flag,
            me: me.clone(),
        })
    }

    /// Runs the program's callback, if it has one.
    fn run(&self, callback: Option<InterruptCallback>) -> Result<(), Error> {
        let Some(mut callback) = callback else { return Ok(()) };
        let (counter, me) = (Arc::clone(&self.counter), self.me.clone());
        let mut next = move || {
            if counter.wait(None) != Taken::One {
                return false;
            }
            // A later trigger is one that the program has not seen.
            me.upgrade().into_iter().for_each(|interrupt| interrupt.look());
            callback() == Action::Continue
        };
        let thread = thread::spawn(c"bellwire-call", move || while next() {})?;
        let _ = self.runner.set(Runner::new(thread));
        Ok(())
    }

    /// An interrupt by stores of others to a word of a segment, and gives its handle. A
    /// conditional one is disabled.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; [`Error::OffsetAlignment`]; [`Error::IllegalOperation`] for a segment
    /// without memory, or of which this process is the second owner; [`Error::NoSpace`].
    pub fn of_flag(
        library: &'static Library,
        segment: u64,
        offset: usize,
        is_conditional: bool,
        callback: impl FnOnce(u64) -> Option<InterruptCallback>,
    ) -> Result<u64, Error> {
        let segment = library.get::<LocalSegment>(segment)?;
        let counter = Arc::new(Counter::create(false)?);
        library.insert(|handle| {
            let flag = Flag { segment: Arc::downgrade(&segment), offset, is_conditional, seen: AtomicU32::new(FlagWord::DISABLED) };
            let interrupt = Self::new(library, &segment.descriptor, &counter, 0, Some(flag));
            segment.add_flag(offset, is_conditional, interrupt.me.clone())?;
            interrupt.run(callback(handle))?;
            interrupt.descriptor.hold();
            Ok(interrupt)
        })
    }

    /// Runs `f` on the word of a conditional flag, and with what it was when the program last
    /// looked.
    fn on_flag<R>(&self, f: impl FnOnce(FlagWord<'_>, &AtomicU32) -> R) -> Result<R, Error> {
        let flag = self.flag.as_ref().filter(|flag| flag.is_conditional).ok_or(Error::IllegalOperation)?;
        let memory = flag.segment.upgrade().ok_or(Error::NotConnected)?.memory().map_err(|_| Error::NotConnected)?;
        Ok(f(flags::word(&memory, flag.offset)?, &flag.seen))
    }

    /// The program looks at what the flag tells of.
    fn look(&self) {
        // Relaxed, here and below: a note of the program's own threads; the word orders.
        let _ = self.on_flag(|word, seen| seen.store(word.value(), Ordering::Relaxed));
    }

    /// Has the next trigger of the conditional flag interrupt.
    ///
    /// # Errors
    /// [`Error::Race`]: it was triggered since the program last looked, so it stays as it is; the
    /// program has looked now. [`Error::IllegalOperation`] for other interrupts;
    /// [`Error::NotConnected`] if the segment was removed.
    pub fn enable(&self) -> Result<(), Error> {
        let enabled = self.on_flag(|word, seen| {
            let result = word.enable(seen.load(Ordering::Relaxed));
            seen.store(result.err().unwrap_or(0), Ordering::Relaxed);
            result
        })?;
        enabled.map_err(|_| Error::Race)
    }

    /// Has no trigger of the conditional flag interrupt.
    ///
    /// # Errors
    /// As [`enable`](Self::enable), but for [`Error::Race`].
    pub fn disable(&self) -> Result<(), Error> {
        self.on_flag(|word, seen| {
            word.disable();
            seen.store(FlagWord::DISABLED, Ordering::Relaxed);
        })
    }

    /// Triggers of the conditional flag since it was enabled or disabled; the program has looked
    /// now.
    ///
    /// # Errors
    /// [`Error::Overflow`]; as [`disable`](Self::disable).
    pub fn triggers(&self) -> Result<u32, Error> {
        self.look();
        self.on_flag(|word, _| word.count())?.ok_or(Error::Overflow)
    }

    /// Has users of other hosts connect, if there is a way to them.
    fn export(&self, slot: u32) -> Result<(), Error> {
        let Some(far) = self.library.far() else { return Ok(()) };
        let name = Name { what: What::Interrupt, node: self.library.nodes.own, id: self.number, slot };
        let _ = self.export.set(far.export(name, self.as_export()?, None)?);
        Ok(())
    }

    /// The object that users of other hosts connect to.
    pub(crate) fn as_export(&self) -> Result<Weak<dyn Export>, Error> {
        let memory = self.counter.fd().try_clone_to_owned().map_err(|_| Error::NoSpace)?;
        let _ = self.adder.set(CounterAdder::map(memory)?);
        Ok(self.me.clone())
    }

    fn listen(&self, shared: bool) -> Result<(Arc<Listener>, u32), Error> {
        let node = self.library.nodes.own;
        let open = |slot| {
            Listener::open(
                &interrupt_name(node, self.number, slot),
                self.me.clone() as Weak<dyn Owner>,
                &self.library.service,
                &self.library.nodes,
                Error::InterruptUsed,
            )
        };
        let is_taken = |slot| fd_passing::connect_abstract(interrupt_name(node, self.number, slot).as_bytes()).is_ok();
        let (listener, slot) = if shared {
            let free = (1..=SHARED_MAX).find_map(|slot| match open(slot) {
                Err(Error::InterruptUsed) => None,
                result => Some(result.map(|listener| (listener, slot))),
            });
            free.unwrap_or(Err(Error::InterruptUsed))?
        } else {
            (open(0)?, 0)
        };
        // One that is alone and one that shares exclude each other.
        let others = if shared { 0..=0 } else { 1..=SHARED_MAX };
        if others.into_iter().any(is_taken) {
            listener.close();
            return Err(Error::InterruptUsed);
        }
        Ok((listener, slot))
    }

    fn stop_listening(&self) {
        if let Some(listener) = self.listener.get() {
            listener.close();
        }
        self.library.withdraw(self.export.get().copied());
    }

    /// Waits for an interrupt.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::Cancelled`] if it is removed; [`Error::IllegalOperation`] if a
    /// callback takes them.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<(), Error> {
        if self.runner.get().is_some() {
            return Err(Error::IllegalOperation);
        }
        match self.counter.wait(timeout) {
            Taken::One => {
                self.look();
                Ok(())
            }
            Taken::Timeout => Err(Error::Timeout),
            Taken::Closed => Err(Error::Cancelled),
        }
    }

    /// Removes it; those that are connected are told when they trigger it.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`] if there is none.
    pub fn remove(library: &'static Library, handle: u64) -> Result<(), Error> {
        let interrupt = library.remove::<LocalInterrupt>(handle)?;
        interrupt.stop_listening();
        for (token, caller) in core::mem::take(&mut *locked(&interrupt.callers)) {
            library.service.remove_peer(token, &caller);
            let _ = rustix::net::shutdown(&caller.socket, rustix::net::Shutdown::Both);
        }
        interrupt.counter.close();
        if let Some(runner) = interrupt.runner.get() {
            runner.join();
        }
        interrupt.descriptor.release();
        Ok(())
    }
}

impl Owner for LocalInterrupt {
    fn admit(&self, hello: Hello, caller: Peer) {
        let mut callers = locked(&self.callers);
        if hello.wish != Wish::Interrupt || callers.len() >= CALLERS_MAX {
            answer(&caller, Err(Error::ConnectionRefused), &[]);
            return;
        }
        let caller = Arc::new(caller);
        let source = Arc::new(CallerSource { interrupt: self.me.clone(), caller: Arc::clone(&caller) });
        let Ok(token) = self.library.service.add_peer(&caller, source) else {
            answer(&caller, Err(Error::NoSpace), &[]);
            return;
        };
        if answer(&caller, Ok(()), &[self.counter.fd()]) {
            callers.insert(token, caller);
        } else {
            self.library.service.remove_peer(token, &caller);
        }
    }
}

impl Triggered for LocalInterrupt {
    fn triggered(&self) {
        self.counter.add();
    }
}

impl Export for LocalInterrupt {
    fn admit(&self, _: u32, _: u32) -> Result<(), Error> {
        Ok(())
    }

    fn hear(&self, _: u32, _: u32, said: Said<'_>) -> Handled {
        match said {
            Said::Trigger => {
                // A kernel that cannot wake the owner has nobody to be told.
                if let Some(adder) = self.adder.get() {
                    let _ = adder.add();
                }
                Handled::Done
            }
            Said::Is(_) => Handled::Done,
            Said::Mapped(_) | Said::Data(_) | Said::Flag(_) | Said::Store(..) => Handled::Nonsense,
        }
    }
}

struct CallerSource {
    interrupt: Weak<LocalInterrupt>,
    caller: Arc<Peer>,
}

impl Source for CallerSource {
    fn ready(&self, token: u64) {
        let Some(interrupt) = self.interrupt.upgrade() else { return };
        let mut bytes = [0; MESSAGE_MAX];
        if matches!(fd_passing::receive(self.caller.socket.as_fd(), &mut bytes), Err(MemoryError::WouldBlock)) && !self.caller.is_dead() {
            return;
        }
        // It has left, or speaks where nothing is to be said.
        locked(&interrupt.callers).remove(&token);
        interrupt.library.service.remove_peer(token, &self.caller);
    }
}

struct Target {
    adder: CounterAdder,
    peer: Peer,
    token: AtomicU64,
    lost: AtomicBool,
}

struct TargetSource(Weak<Target>, &'static Library);

impl Source for TargetSource {
    fn ready(&self, token: u64) {
        let Some(target) = self.0.upgrade() else { return };
        let mut bytes = [0; MESSAGE_MAX];
        if matches!(fd_passing::receive(target.peer.socket.as_fd(), &mut bytes), Err(MemoryError::WouldBlock)) && !target.peer.is_dead() {
            return;
        }
        // Release: pairs with the acquire of trigger().
        target.lost.store(true, Ordering::Release);
        self.1.service.remove_peer(token, &target.peer);
    }
}

/// An interrupt of another host.
struct FarTarget {
    id: SessionId,
    lost: AtomicBool,
}

impl Import for FarTarget {
    fn told(&self, news: News) {
        if matches!(news, News::Ended | News::Lost) {
            // Release: pairs with the acquire of trigger().
            self.lost.store(true, Ordering::Release);
        }
    }
}

/// A connection to an interrupt, or to all that share its number.
pub struct RemoteInterrupt {
    descriptor: Arc<Descriptor>,
    library: &'static Library,
    targets: Vec<Arc<Target>>,
    far: Vec<Arc<FarTarget>>,
}

impl Object for RemoteInterrupt {
    const KIND: u8 = 9;
}

impl RemoteInterrupt {
    /// Connects, and gives the handle.
    ///
    /// # Errors
    /// [`Error::NoSuchInterrupt`] after the time; [`Error::ConnectionRefused`];
    /// [`Error::NoSuchNodeId`], [`Error::NodeNotResponding`].
    pub fn connect(library: &'static Library, descriptor: u64, node: u32, number: u32, timeout: Option<Duration>) -> Result<u64, Error> {
        let descriptor = library.get::<Descriptor>(descriptor)?;
        if let Some((far, host)) = library.far_of(node) {
            let names: Vec<_> = (0..=SHARED_MAX).map(|slot| Name { what: What::Interrupt, node, id: number, slot }).collect();
            let links = far.connect(host, &names, Deadline::after(timeout), Error::NoSuchInterrupt)?;
            let follow = |id| {
                let target = Arc::new(FarTarget { id, lost: AtomicBool::new(false) });
                far.follow(id, Arc::downgrade(&target) as Weak<dyn Import>);
                target
            };
            let targets = links.iter().map(|link| follow(link.id)).collect();
            descriptor.hold();
            let made = library.insert(|_| Ok(Arc::new(Self { descriptor, library, targets: Vec::new(), far: targets })));
            return made.inspect_err(|_| links.iter().for_each(|link| far.disconnect(link.id)));
        }
        let missing = library.missing(node, Error::NoSuchInterrupt)?;
        let deadline = Deadline::after(timeout);
        let mut targets = Vec::new();
        let mut pause = Duration::from_micros(100);
        let at_once = Deadline::after(Some(Duration::ZERO));
        loop {
            for slot in 0..=SHARED_MAX {
                match call(&interrupt_name(node, number, slot), Wish::Interrupt, &library.nodes, at_once, missing) {
                    Ok(mut called) => {
                        let adder = CounterAdder::map(called.fds.pop().ok_or(Error::InconsistentVersions)?)?;
                        let target = Arc::new(Target { adder, peer: called.peer, token: AtomicU64::new(0), lost: AtomicBool::new(false) });
                        let token = library.service.add_peer(&target.peer, Arc::new(TargetSource(Arc::downgrade(&target), library)))?;
                        // Relaxed: published with the handle.
                        target.token.store(token, Ordering::Relaxed);
                        targets.push(target);
                    }
                    Err(error) if error == missing || error == Error::Timeout => {}
                    Err(error) => return Err(error),
                }
            }
            if !targets.is_empty() {
                break;
            }
            if deadline.is_over() {
                return Err(missing);
            }
            std::thread::sleep(deadline.left().map_or(pause, |l| l.min(pause)));
            pause = (pause * 2).min(Duration::from_millis(10));
        }
        descriptor.hold();
        library.insert(|_| Ok(Arc::new(Self { descriptor, library, targets, far: Vec::new() })))
    }

    /// Triggers it. The owner sees earlier stores when it wakes.
    ///
    /// # Errors
    /// [`Error::NotConnected`] if the owner is gone.
    pub fn trigger(&self) -> Result<(), Error> {
        let mut told = false;
        if let (Some(far), [_, ..]) = (self.library.far(), &self.far[..]) {
            // The owner sees earlier stores when it wakes.
            self.library.flush_stores();
            for target in &self.far {
                // Acquire: pairs with the release of FarTarget::told().
                told |= !target.lost.load(Ordering::Acquire) && far.trigger(target.id).is_ok();
            }
        }
        for target in &self.targets {
            // Acquire: pairs with the release of the source; the flag alone matters.
            if !target.lost.load(Ordering::Acquire) {
                target.adder.add()?;
                told = true;
            }
        }
        if told { Ok(()) } else { Err(Error::NotConnected) }
    }

    /// Ends the connection.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`] if there is none.
    pub fn disconnect(library: &'static Library, handle: u64) -> Result<(), Error> {
        let interrupt = library.remove::<RemoteInterrupt>(handle)?;
        for target in &interrupt.targets {
            // Relaxed: published with the handle.
            library.service.remove_peer(target.token.load(Ordering::Relaxed), &target.peer);
        }
        library.far().into_iter().for_each(|far| interrupt.far.iter().for_each(|target| far.disconnect(target.id)));
        interrupt.descriptor.release();
        Ok(())
    }
}
