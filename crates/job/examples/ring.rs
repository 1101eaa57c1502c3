// SPDX-License-Identifier: MIT OR Apache-2.0
//! A job of many processes pass a token from NIC to NIC, all the way round; `examples/c/ring.c` is
//! the same in C.
//!
//! ```text
//! cargo build --release -p bellwire-job --example ring
//! bellwire run -n 4 target/release/examples/ring [ROUNDS]        or mpiexec, mpirun, srun
//! ```
//!
//! Each process says at which address its NIC can be reached; an all-gather gives everybody's to
//! everybody; then each connects to its right neighbour.

use std::error::Error;
use std::time::{Duration, Instant};

use bellwire_job::Job;
use bellwire_via::nic::{Memory, NicConfig};
use bellwire_via::{Completion, MemAttributes, NetAddress, Nic, ReceiveRequest, Reliability, Segment, SendRequest, ViAttributes, ViHandle};

type Outcome<T> = Result<T, Box<dyn Error>>;

const CONNECT_MAX: Option<Duration> = Some(Duration::from_secs(20));
/// A neighbour that is lost is an error of the VI at once; this is for one that hangs.
const TOKEN_MAX: Option<Duration> = Some(Duration::from_secs(60));

/// Registered memory of one page, whose first word is the token that comes, and whose second the
/// one that goes.
struct Tokens<'n>(Memory<'n>);

impl Tokens<'_> {
    fn segment(&self, word: usize) -> Outcome<Segment> {
        Ok(self.0.segment(8 * word, 8)?)
    }

    fn come(&self) -> Outcome<u64> {
        let mut token = [0; 8];
        self.0.read(0, &mut token)?;
        Ok(u64::from_ne_bytes(token))
    }

    fn put(&self, token: u64) -> Outcome<()> {
        Ok(self.0.write(8, &token.to_ne_bytes())?)
    }
}

fn main() -> Outcome<()> {
    let rounds = std::env::args().nth(1).map_or(Ok(1000), |text| text.parse())?;
    let job = Job::join()?;
    if job.size() == 1 {
        println!("a ring of one: start it with bellwire run -n 4");
        return Ok(());
    }
    pass(&job, rounds).map_err(|error| format!("rank {}: {error}", job.rank()).into())
}

fn pass(job: &Job, rounds: u64) -> Outcome<()> {
    let config = NicConfig::from_env()?;
    let host = config.host.clone();
    let nic = Nic::open(config)?;
    let (tokens, left, right) = prepare(&nic)?;
    connect(job, &nic, &host, left, right)?;

    let start = Instant::now();
    let mut hops = 0;
    for _ in 0..rounds {
        if job.rank() == 0 {
            send(&nic, right, &tokens, hops)?;
        }
        well(&nic.receive_wait(left, TOKEN_MAX)?)?;
        hops = tokens.come()? + 1;
        receive(&nic, left, &tokens)?;
        if job.rank() != 0 {
            send(&nic, right, &tokens, hops)?;
        }
    }
    let time = start.elapsed();
    if job.rank() == 0 {
        let expected = rounds * u64::from(job.size());
        if hops != expected {
            return Err(format!("the token made {hops} hops, not {expected}").into());
        }
        println!("{rounds} rounds by {} processes: {:.2} us a hop", job.size(), time.as_secs_f64() * 1e6 / expected as f64);
    }
    // Nobody hangs up while others still wait for the token; that neighbours hang up after that is
    // no error.
    nic.ignore_errors();
    Ok(job.barrier()?)
}

/// Memory, a VI to either side, and a receive that is there before the sender can be.
fn prepare(nic: &Nic) -> Outcome<(Tokens<'_>, ViHandle, ViHandle)> {
    let ptag = Some(nic.with(|engine| engine.create_ptag())?);
    let tokens = Tokens(nic.allocate(4096, &MemAttributes { ptag, ..MemAttributes::default() })?);
    let (left, right) = nic.with(|engine| -> Result<_, bellwire_via::Error> {
        let attributes = ViAttributes { reliability: Reliability::ReliableDelivery, ptag, ..ViAttributes::default() };
        let left = engine.create_vi(&attributes, None, None, None)?;
        Ok((left, engine.create_vi(&attributes, None, None, None)?))
    })?;
    receive(nic, left, &tokens)?;
    Ok((tokens, left, right))
}

/// Tells everybody where this process waits, and connects both sides: rank 0 begins, and is
/// connected to last.
fn connect(job: &Job, nic: &Nic, host: &[u8], left: ViHandle, right: ViHandle) -> Outcome<()> {
    let hosts = job.all_gather(host)?;
    // The job's name makes it another than that of any other job of this host; the end of it is
    // what differs.
    let id = &job.id()[job.id().len().saturating_sub(16)..];
    let name = |rank: u32, side: &str| NetAddress::new(&hosts[rank as usize], format!("{id}/{rank}{side}").as_bytes()).ok_or("the address is too long");
    let dial = || -> Outcome<()> {
        let neighbour = name((job.rank() + 1) % job.size(), "")?;
        nic.connect_request(right, &name(job.rank(), "r")?, &neighbour, CONNECT_MAX)?;
        Ok(())
    };
    if job.rank() == 0 {
        dial()?;
    }
    let request = nic.connect_wait(&name(job.rank(), "")?, CONNECT_MAX)?;
    nic.with(|engine| engine.accept(request.incoming, left))?;
    if job.rank() != 0 {
        dial()?;
    }
    Ok(job.barrier()?)
}

fn receive(nic: &Nic, left: ViHandle, tokens: &Tokens<'_>) -> Outcome<()> {
    Ok(nic.post_receive(left, &ReceiveRequest { segments: &[tokens.segment(0)?], context: 0, descriptor: None })?)
}

fn send(nic: &Nic, right: ViHandle, tokens: &Tokens<'_>, token: u64) -> Outcome<()> {
    tokens.put(token)?;
    nic.post_send(right, &SendRequest { segments: &[tokens.segment(1)?], ..SendRequest::default() })?;
    well(&nic.send_wait(right, TOKEN_MAX)?)
}

fn well(completion: &Completion) -> Outcome<()> {
    if completion.status.is_error() { Err(format!("{:?}", completion.status).into()) } else { Ok(()) }
}
