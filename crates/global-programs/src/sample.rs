// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sample sort of 64-bit keys.

use bellwire_global::{Error, Global, SpreadArray};

use crate::scrambled;

/// Keys that each process shows to the first.
const OVERSAMPLING: usize = 128;

/// What a run came to.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// Time of sorting.
    pub seconds: f64,
    /// Places where the result is not what sorting by one process gives.
    pub wrong: usize,
    /// Keys of this process afterwards.
    pub keys: usize,
}

fn key(process: u32, index: usize) -> u64 {
    scrambled([7, u64::from(process), index as u64, 0])
}

/// Sorts `each` keys of every process over all of them, and compares with the reference if `is_checked`. Collective.
///
/// # Errors
/// Those of global memory.
pub fn run(global: &Global, each: usize, is_checked: bool) -> Result<Outcome, Error> {
    let (me, processes) = (global.process(), global.processes() as usize);
    let keys: Vec<u64> = (0..each).map(|i| key(me, i)).collect();
    let samples = SpreadArray::new(global, processes, OVERSAMPLING * processes, 0u64)?;
    let counts = SpreadArray::new(global, processes, processes, 0u64)?;
    // Room for more than an even share; nobody gets as much more by chance.
    let room = each + each / 4 + 64 * OVERSAMPLING;
    let received = SpreadArray::new(global, processes, room, 0u64)?;
    let mut parts = Vec::with_capacity(each);
    global.barrier()?;
    let begin = Global::now();
    // Everybody shows some keys to everybody, and finds the same bounds.
    let shown: Vec<u64> = (0..OVERSAMPLING).map(|i| keys[i * each / OVERSAMPLING]).collect();
    global.split(|phase| (0..processes).try_for_each(|other| phase.put_slice(samples.block(other).part(me as usize * OVERSAMPLING, OVERSAMPLING), &shown)))?;
    global.barrier()?;
    let mut all = vec![0; OVERSAMPLING * processes];
    samples.local(0).copy_to(&mut all);
    all.sort_unstable();
    let bounds: Vec<u64> = (1..processes).map(|i| all[i * OVERSAMPLING]).collect();
    // Whose a key is; then the keys of each process side by side.
    let owner = |key: u64| bounds.iter().map(|bound| usize::from(key >= *bound)).sum::<usize>();
    let mut ends = vec![0usize; processes];
    keys.iter().for_each(|&key| ends[owner(key)] += 1);
    let of_each = ends.clone();
    let mut at = 0;
    for end in &mut ends {
        at += std::mem::replace(end, at);
    }
    let begins = ends.clone();
    parts.resize(each, 0);
    for &key in &keys {
        let place = &mut ends[owner(key)];
        parts[*place] = key;
        *place += 1;
    }
    // How much everybody gets from everybody, and so where it goes.
    global.split(|phase| (0..processes).try_for_each(|other| phase.put(counts.at(other, me as usize), of_each[other] as u64)))?;
    global.barrier()?;
    let mut table = vec![vec![0u64; processes]; processes];
    global.split(|phase| table.iter_mut().enumerate().try_for_each(|(other, row)| phase.get_slice(row, counts.block(other))))?;
    for (other, row) in table.iter().enumerate() {
        let place: u64 = row[..me as usize].iter().sum();
        let part = &parts[begins[other]..begins[other] + of_each[other]];
        global.store_slice(received.block(other).part(place as usize, part.len()), part)?;
    }
    let total = table[me as usize].iter().sum::<u64>() as usize;
    global.store_sync::<u64>(total)?;
    // SAFETY: all that is stored here has arrived, and nobody reads it before the barrier.
    let sorted = unsafe { received.local(0).part(0, total).as_mut_slice() };
    sorted.sort_unstable();
    global.barrier()?;
    let seconds = (Global::now() - begin).as_secs_f64();
    let wrong = if is_checked { check(global, each, sorted)? } else { 0 };
    global.barrier()?;
    Ok(Outcome { seconds, wrong, keys: total })
}

/// Time of sorting all keys of so many processes by the standard library alone.
pub fn sequential_seconds(processes: u32, each: usize) -> f64 {
    let mut all = all_keys(processes, each);
    let begin = Global::now();
    all.sort_unstable();
    let seconds = (Global::now() - begin).as_secs_f64();
    std::hint::black_box(all);
    seconds
}

fn all_keys(processes: u32, each: usize) -> Vec<u64> {
    (0..processes).flat_map(|process| (0..each).map(move |i| key(process, i))).collect()
}

/// Against all keys sorted by one process.
fn check(global: &Global, each: usize, sorted: &[u64]) -> Result<usize, Error> {
    let mut all = all_keys(global.processes(), each);
    all.sort_unstable();
    let end = global.scan_sum(sorted.len())?;
    let lost = usize::from(global.sum(sorted.len())? != all.len());
    let expected = all.get(end - sorted.len()..end).unwrap_or_default();
    Ok(lost + expected.iter().zip(sorted).filter(|(a, b)| a != b).count())
}
