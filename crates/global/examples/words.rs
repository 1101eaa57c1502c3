// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an access to a word costs in instructions beside a plain load or store, for callgrind: see `scripts/global-words.sh`. One process, whose own memory it reaches through global pointers.

use std::hint::black_box;

use bellwire_global::{Error, Global, GlobalPtr, SpreadArray};

const COUNT: u64 = 10_000;

#[inline(never)]
fn counted_plain_load(from: &u64) -> u64 {
    (0..COUNT).fold(0, |sum, _| sum ^ *black_box(from))
}

#[inline(never)]
fn counted_global_load(global: &Global, from: GlobalPtr<u64>) -> Result<u64, Error> {
    (0..COUNT).try_fold(0, |sum, _| Ok(sum ^ global.read(black_box(from))?))
}

#[inline(never)]
fn counted_plain_store(to: &mut u64) {
    (0..COUNT).for_each(|i| *black_box(&mut *to) = i);
}

#[inline(never)]
fn counted_global_store(global: &Global, to: GlobalPtr<u64>) -> Result<(), Error> {
    (0..COUNT).try_for_each(|i| global.write(black_box(to), i))
}

#[inline(never)]
fn counted_global_get(global: &Global, from: GlobalPtr<u64>, to: &mut [u64]) -> Result<(), Error> {
    global.split(|phase| to.iter_mut().try_for_each(|to| phase.get(to, black_box(from))))
}

#[inline(never)]
fn counted_global_signal(global: &Global, to: GlobalPtr<u64>) -> Result<(), Error> {
    (0..COUNT).try_for_each(|i| global.store(black_box(to), i))
}

fn main() -> Result<(), Error> {
    let global = Global::start()?;
    let array = SpreadArray::new(&global, 1, 1, 1u64)?;
    let place = array.at(0, 0);
    let mut word = 1;
    black_box((counted_plain_load(&word), counted_global_load(&global, place)?));
    counted_plain_store(&mut word);
    counted_global_store(&global, place)?;
    let mut words = vec![0; COUNT as usize];
    counted_global_get(&global, place, &mut words)?;
    counted_global_signal(&global, place)?;
    black_box(words);
    drop(array);
    global.finish()
}
