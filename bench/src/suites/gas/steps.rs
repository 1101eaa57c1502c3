// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the time of a get by packets goes: marks inside of its way (`bellwire_gas::probe`), as
//! [`crate::breakdown`] has them of Active Messages. The paper's Table 4 asks
//! the same of other pieces.
//!
//! One process gets a word and waits for it, again and again; the other answers. What a mark costs
//! is taken off each piece but the transfers, in which a mark is made while a message is on its
//! way. The same runs without marks, by turns in the same job: the pieces should add up to that,
//! and the table says how well they do.

use bellwire_gas::Process;
use bellwire_gas::probe::{Probe, Stage};
use bellwire_job::Job;

use crate::breakdown::path::{Kind, Leg, Primitive};
use crate::breakdown::tally::{BATCH, Tally};
use crate::clock;
use crate::marks::{self, STEPS, Unwatched, Watch, Watched};

/// What the measuring program marks: before the get, after it, after the sync.
const CALLED: usize = Stage::COUNT;
const ISSUED: usize = Stage::COUNT + 1;
const SYNCED: usize = Stage::COUNT + 2;
const _: () = assert!(SYNCED < STEPS);

const FIRST: bool = true;
const SECOND: bool = false;

const fn at(process: bool, stage: Stage) -> (bool, usize) {
    (process, stage as usize)
}

const fn leg(from: (bool, usize), to: (bool, usize), what: &'static str, kind: Kind) -> Leg {
    Leg { from, to, what, kind, of: Primitive::Between, waited_for: true }
}

/// The way of a get and its `sync`. The last but one piece ends where the program goes on; the last
/// is done while the request is on its way.
pub(super) static WAY: [Leg; 13] = [
    leg((FIRST, CALLED), at(FIRST, Stage::Entered), "issue: the locks of the machine and the NIC", Kind::Semantics),
    leg(at(FIRST, Stage::Entered), at(FIRST, Stage::Allowed), "issue: the peer, room for an answer, a credit", Kind::FlowControl),
    leg(at(FIRST, Stage::Allowed), at(FIRST, Stage::Built), "issue: the request is put together", Kind::Semantics),
    leg(at(FIRST, Stage::Built), at(FIRST, Stage::Sent), "send: virtual interface, system call", Kind::BaseVi),
    leg(at(FIRST, Stage::Sent), at(SECOND, Stage::Found), "on its way, until it is taken", Kind::Transfer),
    leg(at(SECOND, Stage::Found), at(SECOND, Stage::Parsed), "remote: head, credits", Kind::FlowControl),
    leg(at(SECOND, Stage::Parsed), at(SECOND, Stage::Handled), "remote: the place is read, the answer put together", Kind::Semantics),
    leg(at(SECOND, Stage::Handled), at(SECOND, Stage::Left), "reply: virtual interface, system call", Kind::BaseVi),
    leg(at(SECOND, Stage::Left), at(FIRST, Stage::Found), "on its way, until it is taken", Kind::Transfer),
    leg(at(FIRST, Stage::Found), at(FIRST, Stage::Parsed), "sync: head, credits", Kind::FlowControl),
    leg(at(FIRST, Stage::Parsed), at(FIRST, Stage::Handled), "sync: the word is put in its place", Kind::Semantics),
    leg(at(FIRST, Stage::Handled), (FIRST, SYNCED), "sync: all that was asked for is there", Kind::Semantics),
    Leg { waited_for: false, ..leg(at(FIRST, Stage::Sent), (FIRST, ISSUED), "(meanwhile: the get returns)", Kind::Semantics) },
];

impl Probe<Stage> for Watched {
    #[inline(always)]
    fn mark(stage: Stage) {
        Self::step(stage as usize);
    }
}

impl Probe<Stage> for Unwatched {
    #[inline(always)]
    fn mark(_: Stage) {}
}

/// A process of the job: the first prints "trip 0 ns" without marks, "trip 1 ns" with, "mark 0 ns",
/// and "leg PLACE ns" for each piece.
///
/// # Errors
/// As text.
pub(super) fn main(cpus: &[usize], batches: usize) -> Result<(), String> {
    let text = |error: bellwire_gas::Error| error.to_string();
    let mut process = Process::join(Job::join_installed().map_err(|error| error.to_string())?).map_err(text)?;
    if let Some(cpu) = cpus.get(process.process() as usize) {
        crate::pin::pin_current(*cpu).map_err(|error| error.to_string())?;
    }
    if process.processes() != 2 || process.entry(1 - process.process()).limit != 0 {
        return Err("two processes that share no memory are needed".to_owned());
    }
    let is_first = process.process() == 0;
    let bytes = batches * STEPS * 8;
    // A block of each process: of the second the word that is got, of the first the second's sums.
    let own = process.spread_make(2, bytes as u64).map_err(text)?;
    let other = own + (1 << 48);
    process.barrier().map_err(text)?;
    let mut asked = 0;
    let plain = drive::<Unwatched>(&process, (is_first, &mut asked), other, batches).map_err(text)?;
    process.barrier().map_err(text)?;
    let marked = drive::<Watched>(&process, (is_first, &mut asked), other, batches).map_err(text)?;
    if !is_first {
        let sums: Vec<u64> = marked.sums().flatten().copied().collect();
        // SAFETY: a vector of this length.
        unsafe { process.write(own, sums.as_ptr().cast(), bytes) }.map_err(text)?;
    }
    process.barrier().map_err(text)?;
    if is_first {
        let mut sums = vec![0u64; batches * STEPS];
        // SAFETY: a vector of this length.
        unsafe { process.read(sums.as_mut_ptr().cast(), own, bytes) }.map_err(text)?;
        let theirs: Vec<[u64; STEPS]> = sums.chunks_exact(STEPS).map(|batch| std::array::from_fn(|step| batch[step])).collect();
        let ns = clock::ns_per_tick(std::time::Duration::from_millis(50));
        let (plain, marked) = (plain.times(&theirs, &[]), marked.times(&theirs, &WAY));
        println!("trip 0 {}\ntrip 1 {}\nmark 0 {}", plain[0] * ns, marked[0] * ns, marks::alone() * ns);
        marked[1..].iter().enumerate().for_each(|(leg, ticks)| println!("leg {leg} {}", ticks * ns));
    }
    process.barrier().map_err(text)?;
    process.leave(0);
    Ok(())
}

fn drive<W: Watch + Probe<Stage>>(process: &Process, (is_first, asked): (bool, &mut u32), other: u64, batches: usize) -> Result<Tally, bellwire_gas::Error> {
    let (mut tally, mut word) = (Tally::default(), 0u64);
    for batch in 0..=batches {
        if is_first {
            for _ in 0..BATCH {
                W::step(CALLED);
                // SAFETY: a word, which stays until the sync is over.
                unsafe { process.get_probed::<W>((&raw mut word).cast(), other, 8)? };
                W::step(ISSUED);
                process.sync_probed::<W>()?;
                W::step(SYNCED);
            }
        } else {
            // One call for each: of a program that is long in one call the service thread may
            // answer some.
            for _ in 0..BATCH {
                *asked += 1;
                process.answer_probed::<W>(0, *asked)?;
            }
        }
        // The first one warms up.
        if batch == 0 { tally.begin() } else { tally.batch() }
    }
    std::hint::black_box(word);
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_has_no_gap() {
        let waited: Vec<&Leg> = WAY.iter().filter(|leg| leg.waited_for).collect();
        assert!(waited.windows(2).all(|pair| pair[0].to == pair[1].from), "what a leg ends with the next begins with");
        assert_eq!((waited[0].from, waited.last().unwrap().to), ((FIRST, CALLED), (FIRST, SYNCED)));
        assert!(WAY.iter().all(|leg| (leg.kind == Kind::Transfer) == (leg.from.0 != leg.to.0)), "only a transfer crosses");
    }
}
