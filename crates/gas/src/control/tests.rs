// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads stand for processes: the control area is plain memory to them.

use std::sync::Arc;
use std::thread;

use super::*;

/// Memory that all threads share, kept until the last is done.
struct Area(Vec<u64>);

fn run(processes: u32, body: impl Fn(Control) + Send + Sync + 'static) {
    let file = File::new(processes);
    let area = Arc::new(Area(vec![0; (file.control_bytes() / 8) as usize]));
    let body = Arc::new(body);
    let threads: Vec<_> = (0..processes)
        .map(|process| {
            let (area, body) = (area.clone(), body.clone());
            thread::spawn(move || {
                // SAFETY: the area lives as long as this thread; it is only used through `Control`.
                body(unsafe { Control::new(area.0.as_ptr().cast_mut().cast(), file, process, processes) });
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn nobody_passes_a_barrier_alone() {
    for processes in [1, 2, 5] {
        run(processes, move |mut control| {
            let mut all = vec![0u8; 8 * processes as usize];
            for round in 0..2000u64 {
                let mine = round * 10 + u64::from(control.process);
                control.exchange(&mine.to_ne_bytes(), &mut all).unwrap();
                for (process, bytes) in all.chunks(8).enumerate() {
                    assert_eq!(u64::from_ne_bytes(bytes.try_into().unwrap()), round * 10 + process as u64);
                }
            }
        });
    }
}

#[test]
fn a_long_broadcast_arrives_whole() {
    run(3, |mut control| {
        for root in 0..3u32 {
            let length = 3 * PART_BYTES as usize + 17;
            let mut data = if control.process == root { (0..length).map(|i| (i as u32 * 7 + root) as u8).collect() } else { vec![0u8; length] };
            control.broadcast(&mut data, root).unwrap();
            assert!(data.iter().enumerate().all(|(i, &byte)| byte == (i as u32 * 7 + root) as u8));
        }
    });
}

#[test]
fn stores_are_counted_where_they_arrive() {
    run(2, |control| {
        if control.process == 0 {
            for _ in 0..1000 {
                // SAFETY: this thread alone writes the word.
                let count = unsafe { AtomicU64::from_ptr(control.arrived_at(1)) };
                count.store(count.load(Ordering::Relaxed) + 8, Ordering::Release);
            }
        } else {
            control.wait_stored(8000).unwrap();
            assert_eq!(control.stored(), 8000);
        }
        control.barrier().unwrap();
    });
}

#[test]
fn who_waits_for_one_that_has_left_is_told() {
    run(2, |control| {
        if control.process == 0 {
            control.leave(7);
        } else {
            assert_eq!(control.barrier(), Err(Left { process: 0, status: 7 }));
        }
    });
}
