// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every process sends numbered messages of many sizes to every process, itself included; each is
//! checked and answered. `examples/am/all_to_all.c` is the same in C.
//!
//! ```text
//! cargo build --release -p bellwire-spmd --example all_to_all
//! bellwire run -n 4 target/release/examples/all_to_all [MESSAGES]        or mpiexec, mpirun, srun
//! ```

use bellwire_job::Job;
use bellwire_memory::atomic::{AtomicU64, Ordering};
use bellwire_spmd::Team;
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

const DATA: u8 = 1;
const ANSWER: u8 = 2;
const BYTES_MAX: usize = 10_000;

/// Byte `i` of message `number` of a process.
fn byte(rank: u32, number: u32, i: usize) -> u8 {
    (i as u32).wrapping_mul(31).wrapping_add(rank.wrapping_mul(131)).wrapping_add(number) as u8
}

fn length(rank: u32, number: u32) -> usize {
    number.wrapping_mul(2_654_435_761).wrapping_add(rank) as usize % BYTES_MAX
}

fn main() -> Result<(), Box<dyn Error>> {
    let count: u32 = std::env::args().nth(1).map_or(Ok(1000), |text| text.parse())?;
    let team = Team::start(Job::join()?)?;
    exchange(team, count).map_err(|e| format!("all_to_all: {e}").into())
}

fn exchange(team: Team, count: u32) -> Result<(), Box<dyn Error>> {
    let (bundle, endpoint) = (team.bundle(), team.endpoint());
    let (good, answers, bad) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let [g, a, b, c] = [&good, &answers, &bad, &bad].map(Arc::clone);
    bundle.set_handler(endpoint, DATA, move |message| {
        let data = message.payload().to_vec();
        let [rank, number] = *message.args() else { return };
        let (rank, number) = (rank as u32, number as u32);
        let well = data.len() == length(rank, number) && data.iter().enumerate().all(|(i, got)| *got == byte(rank, number, i));
        // Relaxed: counts, read by the thread that polls.
        if well { &g } else { &b }.fetch_add(1, Ordering::Relaxed);
        // The requester may be gone; then the launcher says so.
        let _ = message.reply(ANSWER, &[]);
    })?;
    // Relaxed: as above.
    bundle.set_handler(endpoint, ANSWER, move |_| _ = a.fetch_add(1, Ordering::Relaxed))?;
    bundle.set_error_handler(endpoint, move |returned| {
        eprintln!("a message to process {} came back: {:?}", returned.index, returned.status);
        // Relaxed: as above.
        c.fetch_add(1, Ordering::Relaxed);
    })?;
    team.barrier()?; // The handlers are there.

    let start = Instant::now();
    for number in 0..count {
        for to in 0..team.size() {
            let data: Vec<u8> = (0..length(team.rank(), number)).map(|i| byte(team.rank(), number, i)).collect();
            bundle.request_medium(endpoint, (team.rank() + to) % team.size(), DATA, &data, &[team.rank() as i32, number as i32])?;
        }
    }
    let all = u64::from(count) * u64::from(team.size());
    // Relaxed: as above.
    while answers.load(Ordering::Relaxed) + bad.load(Ordering::Relaxed) < all {
        if bundle.poll()? == 0 {
            bundle.wait(None)?;
        }
    }
    let time = start.elapsed();
    team.barrier()?;
    // Relaxed: as above.
    let counts = [&good, &bad].map(|count| count.load(Ordering::Relaxed).to_le_bytes()).concat();
    let sums = team.all_gather(&counts)?.iter().fold([0, 0], |sum, block| {
        let at = |from: usize| u64::from_le_bytes(block[from..from + 8].try_into().expect("eight bytes"));
        [sum[0] + at(0), sum[1] + at(8)]
    });
    let (rank, size) = (team.rank(), team.size());
    team.finish()?;
    if sums != [all * u64::from(size), 0] {
        return Err(format!("{} messages well, {} not", sums[0], sums[1]).into());
    }
    if rank == 0 {
        println!("{} messages among {size} processes, all well: {:.0} a second at each", sums[0], all as f64 / time.as_secs_f64());
    }
    Ok(())
}
