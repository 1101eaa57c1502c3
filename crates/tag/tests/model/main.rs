// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random programs of three endpoints, on a network in memory and in virtual time, against a small
//! model of what they promise: each message is taken once, by a receive that asks for it, and
//! neither a message nor a receive passes one that was before it; each byte is what was sent, and
//! no byte beyond it is touched; writes, reads and additions find what is before them; whoever asks
//! hears the end once. In a part of the programs one endpoint dies in the middle, and nothing of
//! the others waits for ever.
//!
//! `BELLWIRE_TAG_SEEDS=N` sets how many programs there are (40), `BELLWIRE_TAG_FIRST=N` the first
//! seed, `BELLWIRE_TAG_STEPS=N` how long each is (120 steps; Miri runs fewer).

mod checking;
mod side;

use bellwire_tag::OwnedBytes;
use bellwire_tag::{
    AtomicOp, AtomicRequest, Completion, DataType, EAGER_BYTES_MAX, Error, Form, Gather, ReceiveFlags, RemoteFlags, RemoteRequest, SendFlags, SendOut, Target,
    Want,
};
use bellwire_via::time::Duration;
use bellwire_via::wire::sim::SimConfig;
use bellwire_via::world::World;
use side::{COUNTER, KEY, Message, Posted, Random, Remote, SIDES, SLOT, SLOTS, Side, UNTOUCHED, What, contents, filled, number, piece, place};

/// Contexts of the three kinds of operations.
const MESSAGES: usize = 0;
const RECEIVES: usize = 1 << 20;
const REMOTES: usize = 2 << 20;
/// Nothing takes as long.
const PATIENCE: Duration = Duration::from_secs(100);

/// The world is dropped first: nothing reaches the memory of the operations then.
struct Trial {
    world: World,
    sides: [Side; SIDES],
    random: Random,
    messages: Vec<Message>,
    receives: Vec<Posted>,
    remotes: Vec<Remote>,
    dead: Option<usize>,
    seed: u64,
}

impl Trial {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let queue_frames_max = [8, 32, 128][random.below(3)];
        let jitter = Duration(random.below(5000) as u64);
        let mut world = World::with_nics(SimConfig { seed, queue_frames_max, jitter, ..SimConfig::default() }, SIDES);
        let sides = std::array::from_fn(|me| Side::new(&mut world, me));
        Self { world, sides, random, messages: Vec::new(), receives: Vec::new(), remotes: Vec::new(), dead: None, seed }
    }

    fn is_alive(&self, side: usize) -> bool {
        self.dead != Some(side)
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let first = self.random.next();
        (0..length).map(|i| (first as usize + i * 7 + (i >> 8)) as u8).collect()
    }

    fn length(&mut self) -> usize {
        [0, 8, 60, 100, 700, 3000, EAGER_BYTES_MAX, 17_000, SLOT][self.random.below(9)]
    }

    /// Two sides, of which the first is alive.
    fn two(&mut self) -> (usize, usize) {
        let me = (0..).map(|_| self.random.below(SIDES)).find(|side| self.dead != Some(*side)).unwrap_or(0);
        (me, (me + 1 + self.random.below(SIDES - 1)) % SIDES)
    }

    fn send(&mut self) {
        let (from, to) = self.two();
        let length = self.length();
        let kinds = [SendFlags::empty(), SendFlags::empty(), SendFlags::INJECT, SendFlags::INJECT | SendFlags::COUNTED, SendFlags::DELIVERY, SendFlags::FENCE];
        let mut flags = kinds[self.random.below(kinds.len())];
        if length > EAGER_BYTES_MAX {
            flags -= SendFlags::INJECT | SendFlags::COUNTED;
        }
        let tag = (!self.random.one_in(4)).then(|| self.random.below(4) as u64);
        self.send_as((from, to), length, tag, flags);
    }

    fn send_as(&mut self, (from, to): (usize, usize), length: usize, tag: Option<u64>, flags: SendFlags) {
        let bytes = self.bytes(length);
        let memory = filled(&bytes);
        let id = self.messages.len();
        let send = SendOut { peer: number(to), tag, data: Some(id as u64), from: piece(&memory), context: MESSAGES + id, flags };
        let sent = self.sides[from].machine.send(self.world.engine(from), &send);
        if self.accepts(sent, to) {
            if flags.contains(SendFlags::INJECT) {
                // It is the program's again.
                memory.write(0, &vec![UNTOUCHED; length]);
            }
            self.messages.push(Message { from, to, tag, flags, _memory: memory, bytes, ended: None, taken_by: None });
        }
    }

    /// A call may do nothing if too much is under way, or if the peer is gone.
    fn accepts(&self, outcome: Result<(), Error>, peer: usize) -> bool {
        match outcome {
            Ok(()) => true,
            Err(Error::Again) => false,
            Err(Error::Unreachable) if !self.is_alive(peer) => false,
            Err(error) => panic!("{error:?}, seed {}", self.seed),
        }
    }

    fn receive(&mut self) {
        let (at, other) = self.two();
        let tagged = !self.random.one_in(4);
        let source = self.random.one_in(2).then_some(other);
        let (tag, ignore) = (self.random.below(4) as u64, [0, 0, 1, 3, u64::MAX][self.random.below(5)]);
        let length = if self.random.one_in(4) { self.length() } else { SLOT };
        self.post(at, tagged, source, (tag, ignore), length);
    }

    fn post(&mut self, at: usize, tagged: bool, source: Option<usize>, (tag, ignore): (u64, u64), length: usize) {
        // Messages without a tag are all alike.
        let (tag, ignore) = if tagged { (tag, ignore) } else { (0, u64::MAX) };
        let memory = filled(&vec![UNTOUCHED; length]);
        let context = RECEIVES + self.receives.len();
        // Before the call, which may end it.
        let want = Want { tagged, source: source.map(number), tag, ignore, to: piece(&memory), context, flags: ReceiveFlags::empty() };
        self.receives.push(Posted { at, tagged, source, tag, ignore, memory, ended: None });
        let posted = self.sides[at].machine.receive(self.world.engine(at), &want);
        if !self.accepts(posted, source.unwrap_or(at)) {
            self.receives.pop();
        }
    }

    fn cancel(&mut self) {
        if self.receives.is_empty() {
            return;
        }
        let context = self.random.below(self.receives.len());
        self.take_back(context);
    }

    /// Whether it was not matched yet; then it ends at once.
    fn take_back(&mut self, receive: usize) -> bool {
        let (at, ended) = (self.receives[receive].at, self.receives[receive].ended);
        if !self.is_alive(at) {
            return false;
        }
        let is_taken_back = self.sides[at].machine.cancel(RECEIVES + receive);
        assert!(!is_taken_back || ended.is_none(), "taken back after its end, seed {}", self.seed);
        self.look();
        assert_eq!(is_taken_back && ended.is_none(), is_taken_back && self.receives[receive].ended == Some(side::Received::Canceled), "seed {}", self.seed);
        is_taken_back
    }

    fn reach(&mut self) {
        let (from, to) = self.two();
        let slot = self.random.below(SLOTS);
        let is_busy = |r: &Remote| (r.from, r.to, r.slot) == (from, to, slot) && r.ended.is_none() && matches!(r.what, What::Write(_) | What::Read(_));
        if self.remotes.iter().any(is_busy) {
            return;
        }
        let length = 1 + self.random.below(SLOT);
        let at = place(from, slot);
        let what = match self.random.below(8) {
            0..3 => What::Write(self.bytes(length)),
            3..6 => What::Read(self.sides[to].expected[at..at + length].to_vec()),
            6 => What::Add(1 + self.random.below(1000) as u64),
            _ => What::Refused,
        };
        let memory = match &what {
            What::Write(bytes) => filled(bytes),
            What::Read(_) | What::Refused => OwnedBytes::new(length),
            What::Add(operand) => filled(&[operand.to_ne_bytes(), [0; 8]].concat()),
        };
        let flags = if self.random.one_in(4) { RemoteFlags::FENCE } else { RemoteFlags::empty() };
        let (context, key) = (REMOTES + self.remotes.len(), KEY);
        let target = |address: usize| Target { peer: number(to), address: address as u64, key };
        let (machine, engine) = (&mut self.sides[from].machine, self.world.engine(from));
        let asked = match &what {
            What::Add(_) => {
                // SAFETY: G1, as of `piece`; the second half is in the memory.
                let (operands, result) = unsafe { (Gather::one(memory.as_ptr(), 8), Gather::one(memory.as_ptr().wrapping_add(8), 8)) };
                let (data_type, op, form, compare) = (DataType::U64, AtomicOp::Sum, Form::Fetch, Gather::NONE);
                machine.atomic(engine, &AtomicRequest { target: target(COUNTER), data_type, op, form, count: 1, operands, compare, result, context, flags })
            }
            _ => {
                let address = if matches!(what, What::Refused) { COUNTER + 8 } else { at };
                let request = RemoteRequest { target: target(address), local: piece(&memory), data: None, context, flags };
                machine.reach(engine, &request, matches!(what, What::Write(_)) || slot == 0 && matches!(what, What::Refused))
            }
        };
        if self.accepts(asked, to) {
            self.remotes.push(Remote { from, to, slot, what, memory, ended: None });
        }
    }

    /// Checks and notes the ends at the sides that are alive. Receives come first, since a send may
    /// say that its message has been received.
    fn look(&mut self) {
        let mut done: Vec<(usize, Completion)> = Vec::new();
        for me in (0..SIDES).filter(|side| self.dead != Some(*side)) {
            let ended = self.sides[me].look(&mut self.world, me);
            done.extend(ended.into_iter().map(|c| (me, c)));
        }
        done.sort_by_key(|(_, c)| !(RECEIVES..REMOTES).contains(&c.context));
        for (me, c) in done {
            match c.context {
                REMOTES.. => self.check_remote(me, c.context - REMOTES, &c),
                RECEIVES.. => self.check_receive(me, c.context - RECEIVES, &c),
                _ => self.check_send(me, c.context - MESSAGES, &c),
            }
        }
    }

    fn turn(&mut self) {
        self.look();
        self.world.step_at_most(self.world.now() + Duration::from_micros(1000));
    }

    fn die(&mut self) {
        let dead = self.random.below(SIDES);
        self.world.crash(dead);
        self.dead = Some(dead);
    }

    fn run(&mut self, steps: usize) {
        let dies_at = self.random.one_in(3).then(|| steps / 3 + self.random.below(steps / 2 + 1));
        // Programs differ in what they do most.
        let [sends, receives] = [1 + self.random.below(6), 1 + self.random.below(6)];
        for step in 0..steps {
            if dies_at == Some(step) {
                self.die();
            }
            match self.random.below(sends + receives + 4) {
                n if n < sends => self.send(),
                n if n < sends + receives => self.receive(),
                0..=1 => self.cancel(),
                n if n == sends + receives => self.cancel(),
                n if n == sends + receives + 1 => (0..20).for_each(|_| self.turn()),
                _ => self.reach(),
            }
            (0..self.random.below(4)).for_each(|_| self.turn());
        }
        self.end();
    }
}

#[test]
fn random_programs() {
    let from = |name: &str, usual: u64| std::env::var(name).map_or(usual, |n| n.parse().expect("a number"));
    let (seeds, first, steps) = (from("BELLWIRE_TAG_SEEDS", 40), from("BELLWIRE_TAG_FIRST", 1), from("BELLWIRE_TAG_STEPS", 120) as usize);
    let (mut deaths, mut taken, mut canceled, mut cut) = (0, 0, 0, 0);
    for seed in first..first + seeds {
        let mut trial = Trial::new(seed);
        trial.run(steps);
        deaths += u64::from(trial.dead.is_some());
        taken += trial.messages.iter().filter(|m| m.taken_by.is_some()).count();
        canceled += trial.receives.iter().filter(|r| r.ended == Some(side::Received::Canceled)).count();
        cut += trial.messages.iter().filter(|m| m.taken_by.is_some_and(|r| contents(&trial.receives[r].memory).len() < m.bytes.len())).count();
    }
    println!("{seeds} programs, {deaths} with a death: {taken} messages taken, {cut} of them cut off; {canceled} receives taken back");
    assert!(seeds < 40 || (deaths > 0 && taken > 1000 && canceled > 100 && cut > 50), "the programs do too little");
}

/// Each side's answer to the other's request is asked for while its own next request is fenced.
#[test]
fn fences_that_face_each_other() {
    let mut trial = Trial::new(1);
    // Both use the connection that one of them has asked for.
    trial.send_as((0, 1), 8, None, SendFlags::empty());
    (0..20).for_each(|_| trial.turn());
    for (from, to) in [(0, 1), (1, 0)] {
        trial.send_as((from, to), 700, Some(1), SendFlags::DELIVERY);
        trial.send_as((from, to), 700, Some(2), SendFlags::FENCE);
    }
    (0..20).for_each(|_| trial.turn());
    for at in [0, 1] {
        trial.post(at, true, None, (1, 0), SLOT);
    }
    trial.end();
    assert!(trial.messages.iter().all(|m| m.ended == Some(true) && m.taken_by.is_some()));
}
