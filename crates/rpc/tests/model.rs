// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random programs of calls, cancellations, answers, deadlines and ends of servers, beside a small
//! model: each call ends exactly once, as the model allows.

mod common;

use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_rpc::{CallError, Failure, Limits, Node, Peer, Pending, Procedure, Responder};
use common::{PATIENCE, device, pattern};
use proptest::prelude::*;
use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const ECHO: Procedure<Vec<u8>, Vec<u8>> = Procedure::new("echo", 1);
const HOLD: Procedure<Vec<u8>, Vec<u8>> = Procedure::new("hold", 1);
const FAIL: Procedure<Vec<u8>, Vec<u8>> = Procedure::new("fail", 1);
const NOBODY: Procedure<Vec<u8>, Vec<u8>> = Procedure::new("nobody", 1);
const SERVERS: usize = 2;
/// Calls to one server that may be under way.
const WINDOW: usize = 40;

#[derive(Clone, Debug)]
enum Op {
    /// A call of a server: which, which procedure, how many bytes, and whether its time is short.
    Start(usize, u8, usize, bool),
    Cancel(usize),
    /// The oldest call held is answered, or dropped.
    Answer(usize, bool),
    Poll(usize),
    /// A server ends, and another takes its place.
    Replace(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let size = prop_oneof![3 => 0usize..100, 1 => 0usize..70_000, 1 => 60_000usize..300_000];
    prop_oneof![
        8 => (0..SERVERS, 0u8..4, size, prop::bool::weighted(0.1)).prop_map(|(server, kind, size, short)| Op::Start(server, kind, size, short)),
        2 => any::<prop::sample::Index>().prop_map(|i| Op::Cancel(i.index(1 << 16))),
        3 => (0..SERVERS, prop::bool::weighted(0.8)).prop_map(|(server, well)| Op::Answer(server, well)),
        6 => (1usize..40).prop_map(Op::Poll),
        1 => (0..SERVERS).prop_map(Op::Replace),
    ]
}

type Held = Arc<Mutex<Vec<(Vec<u8>, Responder<Vec<u8>>)>>>;

struct Server {
    node: Node,
    peer: Peer,
    held: Held,
    /// Calls that were run, and calls that were held.
    ran: Arc<AtomicU32>,
}

impl Server {
    fn new(client: &Node) -> Self {
        let node = Node::on(&device()).unwrap();
        let (held, ran) = (Held::default(), Arc::new(AtomicU32::new(0)));
        let keeps = Arc::clone(&held);
        let [a, b, c] = [(); 3].map(|()| Arc::clone(&ran));
        let count = |ran: &AtomicU32| _ = ran.fetch_add(1, Ordering::SeqCst);
        node.serve(&ECHO, move |data, _| {
            count(&a);
            Ok(data)
        })
        .unwrap();
        node.serve(&FAIL, move |data, _| {
            count(&b);
            Err(Failure::new(data.len() as i32, "as asked"))
        })
        .unwrap();
        node.serve_later(&HOLD, move |data, responder| {
            count(&c);
            keeps.lock().unwrap().push((data, responder));
        })
        .unwrap();
        let peer = client.connect(&node.address()).unwrap();
        Self { node, peer, held, ran }
    }
}

/// A call, and what the model knows of it.
struct Call<'n> {
    pending: RefCell<Option<Pending<'n, Vec<u8>>>>,
    kind: u8,
    data: Vec<u8>,
    is_short: bool,
    /// It was cancelled before it was over.
    was_cancelled: bool,
    /// Its server ended before it was over.
    was_left: bool,
}

impl Call<'_> {
    fn is_done(&self) -> bool {
        self.pending.borrow().as_ref().is_none_or(Pending::is_done)
    }

    /// Takes the outcome of a call that is over, once.
    fn check(&self) -> Result<(), TestCaseError> {
        let Some(pending) = self.pending.borrow_mut().take() else { return Ok(()) };
        let outcome = pending.wait();
        let said = outcome.as_ref().map(Vec::len);
        let Self { kind, was_cancelled, was_left, .. } = self;
        prop_assert!(self.allows(&outcome), "kind {}, {} bytes, cancelled {}, left {}: {:?}", kind, self.data.len(), was_cancelled, was_left, said);
        Ok(())
    }

    fn allows(&self, outcome: &Result<Vec<u8>, CallError>) -> bool {
        if self.was_cancelled {
            return *outcome == Err(CallError::Cancelled);
        }
        let usual = match self.kind {
            0 => outcome.as_ref() == Ok(&self.data),
            1 => outcome.as_ref() == Ok(&self.data) || *outcome == Err(CallError::Dropped),
            2 => *outcome == Err(CallError::Failed(Failure::new(self.data.len() as i32, "as asked"))),
            _ => *outcome == Err(CallError::UnknownProcedure),
        };
        usual || (self.was_left && matches!(outcome, Err(CallError::Gone(_)))) || (self.is_short && *outcome == Err(CallError::Deadline))
    }
}

fn run(ops: Vec<Op>) -> Result<(), TestCaseError> {
    let client = Node::on(&device()).unwrap();
    client.set_limits(Limits { window: WINDOW as u32, ..Limits::default() });
    let mut servers: Vec<Server> = (0..SERVERS).map(|_| Server::new(&client)).collect();
    let mut of: Vec<usize> = Vec::new();
    let mut calls: Vec<Call<'_>> = Vec::new();
    for op in ops {
        match op {
            Op::Start(server, kind, size, is_short) => {
                let data = pattern(calls.len(), size);
                let time = is_short.then_some(Duration::from_millis(2));
                let which = [&ECHO, &HOLD, &FAIL, &NOBODY][usize::from(kind)];
                if let Ok(pending) = client.try_start(servers[server].peer, which, &data, time) {
                    calls.push(Call { pending: RefCell::new(Some(pending)), kind, data, is_short, was_cancelled: false, was_left: false });
                    of.push(server);
                }
            }
            Op::Cancel(which) if !calls.is_empty() => {
                let at = which % calls.len();
                let call = &mut calls[at];
                call.was_cancelled |= !call.is_done();
                if let Some(pending) = call.pending.borrow_mut().as_mut() {
                    pending.cancel();
                }
                prop_assert!(call.is_done(), "who cancels does not wait");
                // Looked at now, so that another call gets the place while this one's result may be
                // on its way.
                call.check()?;
            }
            Op::Cancel(_) => {}
            Op::Answer(server, well) => {
                let mut held = servers[server].held.lock().unwrap();
                if !held.is_empty() {
                    let (data, responder) = held.remove(0);
                    if well {
                        responder.reply(Ok(data));
                    }
                }
            }
            Op::Poll(count) => (0..count).for_each(|_| {
                client.poll().unwrap();
                servers.iter().for_each(|server| _ = server.node.poll().unwrap());
            }),
            Op::Replace(server) => {
                for (call, of) in calls.iter_mut().zip(&of) {
                    call.was_left |= *of == server && !call.is_done();
                }
                servers[server] = Server::new(&client);
            }
        }
    }
    // Held calls are answered, and everything ends.
    let end = Instant::now() + PATIENCE;
    while !calls.iter().all(Call::is_done) {
        client.poll().unwrap();
        for server in &servers {
            server.node.poll().unwrap();
            let held: Vec<_> = server.held.lock().unwrap().drain(..).collect();
            held.into_iter().for_each(|(data, responder)| responder.reply(Ok(data)));
        }
        let open = calls.iter().filter(|call| !call.is_done()).count();
        prop_assert!(Instant::now() < end, "{} calls do not end", open);
    }
    for call in &calls {
        call.check()?;
    }
    // Nothing is run twice. (Servers that were replaced have counted for themselves.)
    let ran: u32 = servers.iter().map(|server| server.ran.load(Ordering::SeqCst)).sum();
    let served = calls.iter().filter(|call| call.kind != 3).count();
    prop_assert!(ran as usize <= served, "{} calls ran {} times", served, ran);
    // No place is lost, at either end: as many calls as the window allows begin and end.
    for server in &servers {
        let all: Vec<_> = (0..WINDOW).map(|i| client.try_start(server.peer, &ECHO, &pattern(i, 100 * i), None)).collect();
        for (i, call) in all.into_iter().enumerate() {
            let Ok(call) = call else { return Err(TestCaseError::fail(format!("call {i} of an idle node does not begin"))) };
            while !call.is_done() {
                client.poll().unwrap();
                server.node.poll().unwrap();
                prop_assert!(Instant::now() < end, "the last calls do not end");
            }
            prop_assert_eq!(call.wait(), Ok(pattern(i, 100 * i)));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(8u32).min(100), failure_persistence: None, max_shrink_iters: 200, max_shrink_time: 20_000, ..ProptestConfig::default() })]
    #[test]
    fn each_call_ends_once(ops in prop::collection::vec(op(), 1..150)) {
        run(ops)?;
    }
}
