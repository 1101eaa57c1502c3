// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of a put, a get and its answer, each in a function of its own: `tests/gas/cost.sh`
//! counts their instructions under callgrind. Two processes in one thread, over shared memory.

use super::*;

const ROUNDS: usize = 4000;

#[inline(never)]
fn counted_put(net: &Net, there: u64, from: &u64) {
    // SAFETY: C1: a word of ours.
    unsafe { net.put(1, there, std::ptr::from_ref(from).cast(), 8).unwrap() };
}

#[inline(never)]
fn counted_get(net: &Net, there: u64, to: &mut u64) {
    // SAFETY: C1: a word of ours, which outlives the loop below.
    unsafe { net.get(1, there, std::ptr::from_mut(to).cast(), 8).unwrap() };
}

#[inline(never)]
fn counted_look(net: &Net) -> bool {
    net.is_sync().unwrap()
}

#[inline(never)]
fn counted_serve(net: &Net) {
    net.is_sync().unwrap();
}

#[test]
#[ignore = "run by cost.sh"]
fn cost() {
    let launcher = Launcher::new(2);
    let (mut here, mut there) = (Memory::new(), Memory::new());
    let windows = [here.window(), there.window()];
    let nets: Vec<Net> = std::thread::scope(|scope| {
        let opening = [0, 1].map(|rank| {
            let (launcher, (window, lock)) = (&launcher, windows[rank as usize]);
            scope.spawn(move || Net::open((rank, 2), config(false), (window, lock), |block| launcher.gather(rank, block)).unwrap())
        });
        opening.into_iter().map(|net| net.join().unwrap()).collect()
    });
    let (at, mut word) = (there.at(0), 0);
    for round in 0..ROUNDS as u64 {
        counted_put(&nets[0], at, &round);
        counted_serve(&nets[1]);
        counted_get(&nets[0], at, &mut word);
        counted_serve(&nets[1]);
        while !counted_look(&nets[0]) {
            counted_serve(&nets[1]);
        }
        assert_eq!(std::hint::black_box(word), round);
    }
}
