// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several threads that start processes. A thread that starts one waits until that has become its
//! program; one after the other, a job of hundreds would wait for the scheduler hundreds of times.
//!
//! Invariant: the threads stay until [`Spawners`] is dropped, for a process is killed when the
//! thread that has started it ends (`PR_SET_PDEATHSIG`).

use std::collections::BTreeMap;
use std::io;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Builder, Scope};

use rustix::process::Rlimit;

use crate::plan::Plan;
use crate::spawn::{self, NotStarted, Process};

/// Most threads, and processes for which one more is worth its while.
const THREADS_MAX: usize = 16;
const PROCESSES_PER_THREAD: usize = 8;

type Order = (u32, Stdio);
type Started = (u32, Result<Process, NotStarted>);

/// The threads. To be dropped when the job is over.
pub(crate) struct Spawners {
    orders: Sender<Order>,
    started: Receiver<Started>,
}

impl Spawners {
    /// Starts as many threads as the job is worth; `limit` is what its processes may have of open
    /// files.
    pub(crate) fn start<'scope>(scope: &'scope Scope<'scope, '_>, plan: &'scope Plan, limit: Rlimit) -> io::Result<Self> {
        let most = thread::available_parallelism().map_or(1, usize::from) * 2;
        let count = (plan.options.size as usize / PROCESSES_PER_THREAD).clamp(1, most.min(THREADS_MAX));
        let (orders, ordered) = channel::<Order>();
        let (tell, started) = channel();
        let ordered = Arc::new(Mutex::new(ordered));
        for _ in 0..count {
            let (ordered, tell) = (Arc::clone(&ordered), tell.clone());
            Builder::new().name("start".into()).spawn_scoped(scope, move || {
                loop {
                    // The lock is let go before the order is carried out.
                    let order = ordered.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((rank, stdin)) = order else { return };
                    // Nobody listens any more: the process is dropped, and killed when this thread
                    // ends.
                    let _ = tell.send((rank, spawn::spawn(plan, rank, stdin, limit)));
                }
            })?;
        }
        Ok(Self { orders, started })
    }

    /// Starts processes: those before the first one that could not be started, in their order, and
    /// why that was so. Processes started behind it are ended again.
    pub(crate) fn start_all(&self, orders: Vec<Order>) -> io::Result<(Vec<Process>, Option<NotStarted>)> {
        let ranks: Vec<u32> = orders.iter().map(|order| order.0).collect();
        for order in orders {
            // Somebody listens: the threads end after this.
            let _ = self.orders.send(order);
        }
        let mut started: BTreeMap<_, _> = ranks.iter().map_while(|_| self.started.recv().ok()).collect();
        let (mut processes, mut failure) = (Vec::with_capacity(ranks.len()), None);
        for rank in ranks {
            match started.remove(&rank) {
                Some(Ok(mut process)) if failure.is_some() => {
                    process.child.kill()?;
                    process.child.wait()?;
                }
                Some(Ok(process)) => processes.push(process),
                Some(Err(why)) => failure = failure.or(Some(why)),
                None => return Err(io::Error::other("a thread that starts processes has ended")),
            }
        }
        Ok((processes, failure))
    }
}
