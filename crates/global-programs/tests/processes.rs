// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs of real processes under the launcher's own code: the examples, and every operation of the typed interface, over shared memory and by packets.

use std::path::PathBuf;
use std::process::Command;

use bellwire_global::{Error, Global, GlobalPtr, SpreadArray};

/// Says to a process of this program that it is one of a job.
const VARIABLE: &str = "BELLWIRE_GLOBAL_TEST";

/// The `bellwire` command beside this test, if it is built.
fn bellwire() -> Option<PathBuf> {
    let folder = std::env::current_exe().ok()?.parent()?.parent()?.to_owned();
    Some(folder.join("bellwire")).filter(|file| file.exists())
}

fn run_job(processes: u32, environment: &[(&str, &str)], trial: &str) {
    let Some(bellwire) = bellwire() else {
        println!("SKIPPED {trial}: the bellwire command is not built");
        return;
    };
    let this = std::env::current_exe().expect("this program");
    let mut command = Command::new(bellwire);
    command.args(["run", "-n", &processes.to_string()]).arg(this).args(["--exact", "child", "--nocapture"]);
    let output = command.env(VARIABLE, trial).env("BELLWIRE_GAS_SYMMETRIC_MIB", "256").envs(environment.iter().copied()).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{trial} on {processes}, {environment:?}: {}\n{text}\n{}", output.status, String::from_utf8_lossy(&output.stdout));
}

/// Not a test of its own: what a process of a job does.
#[test]
fn child() {
    let Ok(trial) = std::env::var(VARIABLE) else { return };
    // Another layer of the same program in the same job.
    let team = (trial == "both").then(|| bellwire_spmd::Team::start(bellwire_job::Job::join().expect("joined")).expect("it starts"));
    let global = Global::start().expect("it starts");
    let outcome = match trial.as_str() {
        "words" => words(&global),
        "together" => together(&global),
        "errors" => errors(&global),
        "programs" => programs(&global),
        "diverging" => diverging(&global),
        "both" => both(&global, team.as_ref().expect("started")),
        other => panic!("{other}"),
    };
    outcome.expect("it goes well");
    if let Some(team) = team {
        team.finish().expect("it ends well");
    }
    global.finish().expect("it ends well");
}

fn neighbours(global: &Global) -> (usize, usize) {
    let (me, size) = (global.process() as usize, global.processes() as usize);
    ((me + 1) % size, (me + size - 1) % size)
}

macro_rules! each_operation {
    ($global:expr, $($type:ty),*) => {$({
        let global: &Global = $global;
        let (next, before) = neighbours(global);
        let (me, size) = (global.process() as usize, global.processes() as usize);
        let value = |process: usize, i: usize| (process * 10 + i) as $type;
        let array = SpreadArray::new(global, size, 8, 0 as $type)?;
        global.write(array.at(next, 0), value(me, 1))?;
        global.put(array.at(next, 1), value(me, 2))?;
        global.store(array.at(next, 2), value(me, 3))?;
        global.store_slice(array.block(next).part(3, 2), &[value(me, 4), value(me, 5)])?;
        global.sync()?;
        global.store_sync::<$type>(3)?;
        global.barrier()?;
        let own = array.local(0);
        for i in 0..5 {
            assert_eq!(own.get(i), value(before, i + 1), "{} {i}", stringify!($type));
        }
        assert_eq!(own.get(5), 0 as $type);
        assert_eq!(global.read(array.at(before, 4))?, value((before + size - 1) % size, 5));
        let (mut one, mut some) = (0 as $type, [0 as $type; 4]);
        global.split(|phase| {
            phase.get(&mut one, array.at(next, 3))?;
            phase.get_slice(&mut some, array.block(next).part(1, 4))?;
            phase.put(array.at(next, 7), value(me, 6))
        })?;
        assert_eq!((one, some), (value(me, 4), [2, 3, 4, 5].map(|i| value(me, i))));
        global.barrier()?;
        assert_eq!(own.get(7), value(before, 6));
        assert_eq!(global.stored_bytes(), 0);
        // Reductions, scans, gathers, broadcast.
        let triangle = (size * (size + 1) / 2) as $type;
        assert_eq!(global.sum((me + 1) as $type)?, triangle);
        assert_eq!(global.max(me as $type)?, (size - 1) as $type);
        assert_eq!(global.min((me + 3) as $type)?, 3 as $type);
        assert_eq!(global.product(if me == 0 { 3 as $type } else { 1 as $type })?, 3 as $type);
        assert_eq!(global.scan_sum(2 as $type)?, (2 * (me + 1)) as $type);
        assert_eq!(global.scan(me as $type, |_, b| b)?, me as $type);
        assert_eq!(global.all_gather(me as $type)?, (0..size).map(|i| i as $type).collect::<Vec<_>>());
        assert_eq!(global.gather(me as $type, 0)?.is_some(), me == 0);
        assert_eq!(global.broadcast((me + 9) as $type, size as u32 - 1)?, (size + 8) as $type);
    })*};
}

fn words(global: &Global) -> Result<(), Error> {
    each_operation!(global, u8, i8, u16, i16, u32, i32, u64, i64, usize, isize, u128, i128, f32, f64);
    Ok(())
}

fn together(global: &Global) -> Result<(), Error> {
    let (me, size) = (global.process() as usize, global.processes() as usize);
    let (next, before) = neighbours(global);
    assert_eq!((global.and(!(1u32 << me))?, global.or(1u16 << me)?, global.xor(1u64)?), (!((1 << size) - 1), (1 << size) - 1, size as u64 % 2));
    let counters = SpreadArray::new(global, 1, 2, 0i64)?;
    let small = SpreadArray::new(global, 1, 1, 5u32)?;
    for _ in 0..200 {
        global.fetch_add(counters.at(0, 0), 3)?;
    }
    while global.compare_swap(counters.at(0, 1), me as i64, me as i64 + 1)? != me as i64 {}
    global.swap(small.at(0, 0), 6)?;
    global.barrier()?;
    assert_eq!((global.read(counters.at(0, 0))?, global.read(counters.at(0, 1))?, global.read(small.at(0, 0))?), (600 * size as i64, size as i64, 6));
    // More blocks than processes, a shape that no process has the same number of, and pointers in global memory.
    let rows = SpreadArray::new(global, 2 * size + 1, 3, [0u16; 3])?;
    assert_eq!(rows.rows(), if me == 0 { 3 } else { 2 });
    for row in 0..rows.rows() {
        rows.local(row).set(1, [me as u16, row as u16, 7]);
    }
    let pointers = SpreadArray::new(global, size, 1, GlobalPtr::<[u16; 3]>::NULL)?;
    global.write(pointers.at(next, 0), rows.at(size + me, 1))?;
    global.barrier()?;
    let there = pointers.local(0).get(0);
    assert_eq!((there.process() as usize, global.read(there)?), (before, [before as u16, 1, 7]));
    assert_eq!(rows.spread().step(2 * size as isize, size as u32).global(), rows.block(0).begin().offset(2));
    let mut long: Vec<u32> = (0..100_000).map(|i| i * (me as u32 + 1)).collect();
    global.broadcast_slice(&mut long, size as u32 - 1)?;
    assert!(long.iter().zip(0..).all(|(value, i)| *value == i * size as u32));
    // Bulk of odd lengths.
    let bytes = SpreadArray::new(global, size, 100_003, 0u8)?;
    let data: Vec<u8> = (0..100_003).map(|i| (i + me) as u8).collect();
    global.write_slice(bytes.block(next), &data)?;
    global.barrier()?;
    let mut found = vec![0; 100_003];
    bytes.local(0).copy_to(&mut found);
    assert!(found.iter().enumerate().all(|(i, byte)| *byte == (i + before) as u8));
    assert!(bytes.local(0).iter().eq(found.iter().copied()));
    let squares = SpreadArray::new(global, size, 9, 0u16)?;
    squares.local(0).set_each(|i| (i * i) as u16);
    assert_eq!((squares.local(0).iter().len(), squares.local(0).get(8), global.read(squares.at(me, 3))?), (9, 64, 9));
    if let Some(view) = global.shared(bytes.block(next)) {
        assert_eq!((view.len(), view.get(5), view.get(100_002)), (100_003, (5 + me) as u8, (100_002 + me) as u8));
    }
    let is_apart = std::env::var_os("BELLWIRE_SHM").is_some();
    assert_eq!(global.shared(bytes.block(next)).is_none(), is_apart && next != me);
    global.read_slice(&mut found, bytes.block(next))?;
    assert_eq!(found, data);
    global.all_store_sync()
}

/// What cannot be is an error, and nothing else is touched.
fn errors(global: &Global) -> Result<(), Error> {
    let mut here = 5u64;
    let stack = GlobalPtr::<u64>::from_bits(u64::from(global.process()) << 48 | (&raw mut here).expose_provenance() as u64);
    let array = SpreadArray::new(global, global.processes() as usize, 4, 1u64)?;
    let behind = array.at(global.processes() as usize - 1, 3).offset(1 << 40);
    let of_nobody = GlobalPtr::<u64>::from_bits(u64::from(global.processes()) << 48 | array.at(0, 0).address());
    // All around the symmetric memory of every process, and of one that does not exist: below it, where a subtraction goes to the process before, and behind it.
    let (begin, end) = (8u64 << 30, (8u64 << 30) + (256 << 20));
    let around = (0..=global.processes()).chain([0x7fff, 0x8000, 0xffff]).flat_map(|process| {
        [0, 8, begin - 8, begin - 1, begin - 4096, end, end - 7, end - 1, end + 4096, 16 << 30, 24 << 30, 40 << 30, (1 << 48) - 8]
            .map(|address| GlobalPtr::<u64>::from_bits(u64::from(process) << 48 | address))
    });
    for place in [GlobalPtr::NULL, stack, behind, of_nobody, GlobalPtr::from_bits(u64::MAX)].into_iter().chain(around) {
        assert!(matches!(global.read(place), Err(Error::NoMemoryThere | Error::NoSuchProcess(_))), "{place:?}");
        assert!(global.write(place, 9).is_err() && global.put(place, 9).is_err() && global.store(place, 9).is_err());
        assert!(global.split(|phase| phase.get(&mut here, place)).is_err());
        assert!(global.fetch_add(place, 1).is_err());
    }
    assert_eq!(here, 5);
    // What is longer than a word is looked at to its end: the last that fits, and one byte further.
    let last = GlobalPtr::<[u64; 4]>::from_bits(u64::from(global.processes() - 1) << 48 | (end - 32));
    let further = GlobalPtr::<[u64; 4]>::from_bits(last.bits() + 1);
    assert!(global.write(last, [3; 4]).is_ok() && global.read(last)? == [3; 4]);
    assert!(
        global.write(further, [9; 4]).is_err()
            && global.read(further).is_err()
            && global.put(further, [9; 4]).is_err()
            && global.store(further, [9; 4]).is_err()
    );
    assert_eq!(global.read(last)?, [3; 4]);
    // Misaligned words are words all the same, but not for atomic operations.
    let odd = GlobalPtr::<u64>::from_bits(array.at(0, 1).bits() + 3);
    if global.process() == 0 {
        global.write(odd, 0x0102_0304_0506_0708)?;
        assert_eq!(global.read(odd)?, 0x0102_0304_0506_0708);
    }
    assert!(global.fetch_add(odd, 1).is_err());
    assert!(matches!(Global::start(), Err(Error::Twice)));
    assert!(matches!(SpreadArray::new(global, 1 << 40, 1 << 20, 0u64), Err(Error::NoMemoryThere)));
    Ok(())
}

fn programs(global: &Global) -> Result<(), Error> {
    use bellwire_global_programs::{em3d, sample};
    let graph = em3d::Graph { nodes: 60, degree: 5, percent: 40, steps: 3 };
    for version in em3d::Version::ALL {
        assert_eq!(em3d::run(global, &graph, version, true)?.wrong, 0, "{version:?}");
    }
    let outcome = sample::run(global, 5000, true)?;
    assert_eq!((outcome.wrong, global.sum(outcome.keys)?), (0, 5000 * global.processes() as usize));
    Ok(())
}

/// Active Messages and global memory side by side.
fn both(global: &Global, team: &bellwire_spmd::Team) -> Result<(), Error> {
    assert_eq!((team.rank(), team.size()), (global.process(), global.processes()));
    let array = SpreadArray::new(global, global.processes() as usize, 1, 0u32)?;
    let (next, before) = neighbours(global);
    global.write(array.at(next, 0), global.process() + 7)?;
    let all = team.all_gather(&global.process().to_le_bytes()).expect("everybody's");
    assert_eq!((all.len(), array.local(0).get(0)), (team.size() as usize, before as u32 + 7));
    Ok(())
}

/// Processes that do not make the same arrays are told, instead of reading each other's garbage.
fn diverging(global: &Global) -> Result<(), Error> {
    let extra = global.process() as usize;
    let made = SpreadArray::new(global, global.processes() as usize, 8 + extra, 0u64);
    assert!(global.processes() == 1 || matches!(made, Err(Error::Misfit(_))));
    Ok(())
}

#[test]
fn every_operation_on_every_scalar_type() {
    run_job(1, &[], "words");
    run_job(3, &[], "words");
    run_job(2, &[("BELLWIRE_SHM", "off")], "words");
}

#[test]
fn what_processes_do_together() {
    run_job(1, &[], "together");
    run_job(4, &[], "together");
    run_job(3, &[("BELLWIRE_SHM", "off")], "together");
}

#[test]
fn what_cannot_be_is_an_error() {
    run_job(2, &[], "errors");
    run_job(2, &[("BELLWIRE_SHM", "off")], "errors");
    run_job(2, &[], "diverging");
}

#[test]
fn two_layers_share_a_job() {
    run_job(3, &[], "both");
    run_job(2, &[("BELLWIRE_SHM", "off"), ("BELLWIRE_UDP", "on")], "both");
}

#[test]
fn programs_compute_what_one_process_computes() {
    run_job(1, &[], "programs");
    run_job(2, &[], "programs");
    run_job(3, &[("BELLWIRE_SHM", "off"), ("BELLWIRE_FAULTS", "loss=0.02,seed=3")], "programs");
}
