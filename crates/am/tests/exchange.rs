// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests and replies between endpoints of one process and of two, and what comes back.

mod common;

use bellwire_am::{Bundle, Death, Error, MEDIUM_BYTES_MAX, NAME_BYTES, Name, Operation, Returned, Status, TAG_ALL};
use bellwire_memory::atomic::{AtomicBool, AtomicU64, Ordering};
use bellwire_via::Cause;
use bellwire_via::wire::LinkFailure;
use common::{PATIENCE, TAG, device, pattern, poll_until};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const ECHO: u8 = 1;
const ECHOED: u8 = 2;
const SILENT: u8 = 3;
const MEDIUM: u8 = 4;
const MEDIUM_ECHOED: u8 = 5;
const STOP: u8 = 6;

/// Answers what comes; the flag says that it was told to stop.
fn server(bundle: &Bundle) -> (bellwire_am::EndpointId, Arc<AtomicBool>, Arc<AtomicU64>) {
    let endpoint = bundle.create_endpoint().unwrap();
    bundle.set_tag(endpoint, TAG).unwrap();
    let (stopped, silent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    bundle
        .set_handler(endpoint, ECHO, |m| {
            let args = m.args().to_vec();
            m.reply(ECHOED, &args).expect("it waits");
            assert_eq!(m.reply(ECHOED, &args), Err(Error::BadArgument), "one reply");
        })
        .unwrap();
    bundle
        .set_handler(endpoint, MEDIUM, |m| {
            let (data, args) = (m.payload().to_vec(), m.args().to_vec());
            m.reply_medium(MEDIUM_ECHOED, &data, &args).expect("it waits");
        })
        .unwrap();
    let (stop, count) = (Arc::clone(&stopped), Arc::clone(&silent));
    bundle
        .set_handler(endpoint, SILENT, move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    bundle.set_handler(endpoint, STOP, move |_| stop.store(true, Ordering::SeqCst)).unwrap();
    (endpoint, stopped, silent)
}

/// Short requests with every number of arguments, mediums of many lengths: each is answered once,
/// with what was sent, in order.
fn talk(bundle: &Bundle, name: Name, beside: &[&Bundle]) {
    let endpoint = bundle.create_endpoint().unwrap();
    bundle.set_tag(endpoint, TAG).unwrap();
    bundle.map(endpoint, 7, name, TAG).unwrap();
    assert_eq!(bundle.map(endpoint, 7, name, TAG), Err(Error::InUse));
    let (shorts, mediums) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (s, m) = (Arc::clone(&shorts), Arc::clone(&mediums));
    bundle.set_handler(endpoint, ECHOED, move |message| s.lock().unwrap().push(message.args().to_vec())).unwrap();
    bundle.set_handler(endpoint, MEDIUM_ECHOED, move |message| m.lock().unwrap().push((message.args().to_vec(), message.payload().to_vec()))).unwrap();
    let all = [&[bundle], beside].concat();
    let mut sent = Vec::new();
    for i in 0..2_000 {
        let args: Vec<i32> = (0..i % 17).map(|a| i * 100 - a).collect();
        bundle.request(endpoint, 7, ECHO, &args).unwrap();
        sent.push(args);
    }
    poll_until(&all, "the shorts", || shorts.lock().unwrap().len() == sent.len());
    assert_eq!(*shorts.lock().unwrap(), sent);
    let mut sent = Vec::new();
    for (i, length) in [0, 1, 7, 8, 40, 41, 48, 49, 56, 100, 4_096, 10_000, MEDIUM_BYTES_MAX].into_iter().cycle().take(65).enumerate() {
        let args = vec![i as i32; i % 17];
        let data = pattern(i, length);
        bundle.request_medium(endpoint, 7, MEDIUM, &data, &args).unwrap();
        sent.push((args, data));
    }
    poll_until(&all, "the mediums", || mediums.lock().unwrap().len() == sent.len());
    assert!(*mediums.lock().unwrap() == sent, "mediums as they were sent");
    for i in 0..1_000 {
        bundle.request(endpoint, 7, SILENT, &[i]).unwrap();
    }
    bundle.request(endpoint, 7, STOP, &[]).unwrap();
    let counters = bundle.counters(endpoint).unwrap();
    assert_eq!((counters.requests_sent[0], counters.requests_sent[1], counters.returned), (3_001, 65, 0));
    assert_eq!((counters.replies_received[0], counters.replies_received[1]), (2_000, 65));
}

#[test]
fn endpoints_of_one_process_talk() {
    let device = device();
    let (served, asking) = (Bundle::new(&device).unwrap(), Bundle::new(&device).unwrap());
    let (endpoint, stopped, silent) = server(&served);
    let name = served.name(endpoint).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| poll_until(&[&served], "the end", || stopped.load(Ordering::SeqCst)));
        talk(&asking, name, &[]);
        poll_until(&[&asking], "the end", || stopped.load(Ordering::SeqCst));
    });
    assert_eq!(silent.load(Ordering::SeqCst), 1_000);
}

#[test]
fn a_bundle_talks_to_itself() {
    let device = device();
    let bundle = Bundle::new(&device).unwrap();
    let (endpoint, stopped, _) = server(&bundle);
    talk(&bundle, bundle.name(endpoint).unwrap(), &[]);
    poll_until(&[&bundle], "the end", || stopped.load(Ordering::SeqCst));
}

/// Runs this file's `serve` in a process of its own; its endpoint's name.
fn other_process() -> (std::process::Child, impl Sized, Name) {
    let program = std::env::current_exe().unwrap();
    let mut child = Command::new(program)
        .args(["--ignored", "--exact", "serve", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program");
    // Kept open: its harness prints until it ends.
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = output.by_ref().map(|l| l.unwrap()).find_map(|l| l.split_once("name ").map(|(_, hex)| hex.to_owned())).expect("its name");
    let mut bytes = [0; NAME_BYTES];
    for (i, b) in bytes.iter_mut().enumerate() {
        *b = u8::from_str_radix(&line[2 * i..2 * i + 2], 16).unwrap();
    }
    (child, output, Name::from_bytes(&bytes).unwrap())
}

#[test]
#[ignore = "the other process of tests below"]
fn serve() {
    let device = device();
    let bundle = Bundle::new(&device).unwrap();
    let (endpoint, stopped, silent) = server(&bundle);
    let hex: String = bundle.name(endpoint).unwrap().to_bytes().iter().map(|b| format!("{b:02x}")).collect();
    println!("name {hex}");
    std::io::stdout().flush().unwrap();
    let end = Instant::now() + PATIENCE;
    while !stopped.load(Ordering::SeqCst) && Instant::now() < end {
        if bundle.poll().unwrap() == 0 {
            bundle.wait(Some(Duration::from_millis(100))).unwrap();
        }
    }
    assert_eq!(silent.load(Ordering::SeqCst), 1_000);
}

#[test]
fn two_processes_talk() {
    let (mut child, _output, name) = other_process();
    let device = device();
    let bundle = Bundle::new(&device).unwrap();
    talk(&bundle, name, &[]);
    let end = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        bundle.poll().unwrap();
        assert!(Instant::now() < end, "the other process ends");
    }
    assert!(child.wait().unwrap().success());
}

/// Requests to a process that is killed come back, all that were not handled, once each, and say
/// why: those under way when it dies, and those made afterwards.
#[test]
fn requests_to_a_killed_process_come_back() {
    let (mut child, _output, name) = other_process();
    let device = device();
    let bundle = Bundle::new(&device).unwrap();
    let endpoint = bundle.create_endpoint().unwrap();
    bundle.map(endpoint, 0, name, TAG).unwrap();
    let (answers, back, deaths) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (a, b, d) = (Arc::clone(&answers), Arc::clone(&back), Arc::clone(&deaths));
    let died = Death::Broken(Cause::Link(LinkFailure::PeerDied));
    bundle.set_handler(endpoint, ECHOED, move |m| a.lock().unwrap().push(m.args()[0])).unwrap();
    bundle
        .set_error_handler(endpoint, move |r| {
            assert_eq!((r.status, r.operation, r.handler, r.destination), (Status::Unreachable, Operation::Request, ECHO, name));
            assert_eq!((r.death, r.why().as_str()), (Some(died), "the receiver cannot be reached: the peer process exited"));
            b.lock().unwrap().push(r.args()[0]);
        })
        .unwrap();
    bundle.set_departure_handler(endpoint, move |departed| d.lock().unwrap().push((departed.index, departed.name, departed.death))).unwrap();
    for i in 0..500 {
        if i == 250 {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        bundle.request(endpoint, 0, ECHO, &[i]).unwrap();
    }
    poll_until(&[&bundle], "answers and returns", || answers.lock().unwrap().len() + back.lock().unwrap().len() >= 500);
    let all = [&answers.lock().unwrap()[..], &back.lock().unwrap()[..]].concat();
    assert_eq!(all, (0..500).collect::<Vec<_>>());
    assert!(back.lock().unwrap().len() >= 250);
    poll_until(&[&bundle], "the departure", || !deaths.lock().unwrap().is_empty());
    // The other order: the death is known when the request is made.
    back.lock().unwrap().clear();
    bundle.request(endpoint, 0, ECHO, &[500]).unwrap();
    poll_until(&[&bundle], "the return", || !back.lock().unwrap().is_empty());
    assert_eq!((&*back.lock().unwrap(), &*deaths.lock().unwrap()), (&vec![500], &vec![(Some(0), name, Some(died))]));
}

/// A request to a process that died before anything was asked of it says that nobody is there.
#[test]
fn requests_to_a_process_that_died_before_come_back() {
    let (mut child, _output, name) = other_process();
    child.kill().unwrap();
    child.wait().unwrap();
    let device = device();
    let bundle = Bundle::new(&device).unwrap();
    let endpoint = bundle.create_endpoint().unwrap();
    bundle.map(endpoint, 0, name, TAG).unwrap();
    let back = Arc::new(Mutex::new(Vec::new()));
    let b = Arc::clone(&back);
    bundle.set_error_handler(endpoint, move |r| b.lock().unwrap().push((r.status, r.death))).unwrap();
    bundle.request(endpoint, 0, ECHO, &[1]).unwrap();
    poll_until(&[&bundle], "the return", || !back.lock().unwrap().is_empty());
    let back = back.lock().unwrap();
    assert!(matches!(back[..], [(Status::Unreachable, Some(Death::Unreachable(_)))]), "{back:?}");
}

/// A message that cannot be handled comes back with its reason.
#[test]
fn what_nobody_takes_comes_back() {
    let device = device();
    let (served, asking) = (Bundle::new(&device).unwrap(), Bundle::new(&device).unwrap());
    let (there, ..) = server(&served);
    let gone = served.create_endpoint().unwrap();
    let (name, gone_name) = (served.name(there).unwrap(), served.name(gone).unwrap());
    served.destroy_endpoint(gone).unwrap();
    let endpoint = asking.create_endpoint().unwrap();
    asking.map(endpoint, 0, name, TAG).unwrap();
    asking.map(endpoint, 1, name, TAG + 1).unwrap();
    asking.map(endpoint, 2, gone_name, TAG).unwrap();
    let back = Arc::new(Mutex::new(Vec::new()));
    let b = Arc::clone(&back);
    let handler = move |r: &Returned| {
        let is_refused = r.death == Some(Death::Unreachable(bellwire_via::Error::Rejected));
        assert!(is_refused == (r.index == 2) && (is_refused || r.death.is_none()), "{}", r.why());
        b.lock().unwrap().push((r.status, r.index, r.handler, r.args().to_vec()));
    };
    asking.set_error_handler(endpoint, handler).unwrap();
    let end = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| poll_until(&[&served], "the end", || end.load(Ordering::SeqCst)));
        let cases = [
            (0, 99, Status::BadHandler),
            (1, ECHO, Status::BadTag),
            (2, ECHO, Status::BadEndpoint),
            (3, ECHO, Status::BadEntry),
            (0, ECHO, Status::ReplyRejected),
        ];
        for (index, handler, status) in cases {
            asking.request(endpoint, index, handler, &[5, 6]).unwrap();
            poll_until(&[&asking], "the return", || !back.lock().unwrap().is_empty());
            let expected = if status == Status::ReplyRejected { ECHOED } else { handler };
            assert_eq!(core::mem::take(&mut *back.lock().unwrap()), [(status, index, expected, vec![5, 6])]);
        }
        end.store(true, Ordering::SeqCst);
    });
    // A tag for all, set later, accepts what came with any.
    served.set_tag(there, TAG_ALL).unwrap();
    assert_eq!(asking.request(endpoint, 0, 0, &[]), Err(Error::BadArgument), "handler 0 is for errors");
    assert_eq!(asking.request(endpoint, 0, 1, &[0; 17]), Err(Error::BadArgument));
}

/// Handlers may not request or poll; another thread may meanwhile.
#[test]
fn handlers_only_reply() {
    let device = device();
    let bundle = Arc::new(Bundle::new(&device).unwrap());
    let endpoint = bundle.create_endpoint().unwrap();
    bundle.set_tag(endpoint, TAG).unwrap();
    bundle.map(endpoint, 0, bundle.name(endpoint).unwrap(), TAG).unwrap();
    let seen = Arc::new(AtomicU64::new(0));
    let (weak, s) = (Arc::downgrade(&bundle), Arc::clone(&seen));
    bundle
        .set_handler(endpoint, ECHO, move |m| {
            let bundle = weak.upgrade().unwrap();
            assert_eq!(bundle.request(m.endpoint(), 0, ECHO, &[]), Err(Error::BadArgument));
            assert_eq!(bundle.poll(), Err(Error::BadArgument));
            std::thread::scope(|scope| scope.spawn(|| assert_eq!(bundle.poll(), Ok(0))).join().unwrap());
            s.store(m.args()[0] as u64, Ordering::SeqCst);
        })
        .unwrap();
    bundle.request(endpoint, 0, ECHO, &[42]).unwrap();
    poll_until(&[&bundle], "the message", || seen.load(Ordering::SeqCst) == 42);
}
