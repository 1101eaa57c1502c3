// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program of many processes, for the tests of `bellwire run`: joins its job and does what its arguments say.

use std::time::{Duration, Instant};

use bellwire_job::Job;

/// The hidden command.
pub const COMMAND: &str = "job-trial";

/// Does it.
///
/// # Errors
/// What is not as it should be.
pub fn main(arguments: &[String]) -> Result<(), String> {
    let job = Job::join().map_err(|error| error.to_string())?;
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let is_last = job.rank() == job.size() - 1;
    match words.as_slice() {
        ["gather", rounds] => gather(&job, rounds.parse().map_err(|_| "rounds")?),
        // The others wait in a barrier, which ends with the job.
        ["exit", status] if is_last => job.exit(status.parse().map_err(|_| "a status")?),
        ["status", status] if is_last => std::process::exit(status.parse().map_err(|_| "a status")?),
        ["leave"] if is_last => Ok(()),
        ["vanish"] if is_last => rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).map_err(|error| error.to_string()),
        ["exit" | "status", _] | ["leave" | "vanish"] => job.barrier().map_err(|error| error.to_string()),
        other => Err(format!("no such trial: {other:?}")),
    }
}

/// All-gathers of blocks of different lengths, after different times, checked.
fn gather(job: &Job, rounds: u32) -> Result<(), String> {
    let block = |rank: u32, round: u32| -> Vec<u8> { (0..(rank * 37 + round * 1009) % 5000).map(|i| (i + rank * 3 + round) as u8).collect() };
    let start = Instant::now();
    for round in 0..rounds {
        std::thread::sleep(Duration::from_micros(u64::from((job.rank() * 7919 + round * 104_729) % 1500)));
        let blocks = job.all_gather(&block(job.rank(), round)).map_err(|error| error.to_string())?;
        if let Some(rank) = (0..job.size()).find(|rank| blocks[*rank as usize] != block(*rank, round)) {
            return Err(format!("rank {} has another block of rank {rank} in round {round}", job.rank()));
        }
        job.barrier().map_err(|error| error.to_string())?;
    }
    if job.rank() == 0 {
        println!("gathered {rounds} times by {} in {:.3} s", job.size(), start.elapsed().as_secs_f64());
    }
    Ok(())
}
