// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process of a job that is measured: the first prints a figure a line, "operation row value".
//! The same way of taking a figure as in `bench/peers/rma.h`: the median of runs of some tens of
//! microseconds.

use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

use bellwire_global::{Error, Global, Plain, SpreadArray};
use bellwire_global_programs::{em3d, sample};

use super::TYPES;
use crate::pin;

/// Operations of a phase, next to each other in memory.
const RUN: usize = 64;
/// Nanoseconds of a run, at least.
const RUN_NS: u128 = 30_000;
const RUNS_MAX: usize = 400;
const PAGE: usize = 4096;
/// Bytes of the destinations of a phase, at most, unless one is longer.
const MANY_BYTES: usize = 1 << 20;
const COUNT_MAX: usize = 1 << 10;

/// What a process is to do: `PROCESSORS MILLISECONDS words`, `.. bulk SIZE,..`,
/// `.. em3d VERSION NODES DEGREE PERCENT STEPS`, `.. sample KEYS`, `.. steps BATCHES`,
/// `.. sort PROCESSES KEYS`.
///
/// # Errors
/// As text, if it cannot.
pub fn main(words: &[String]) -> Result<(), String> {
    let mut words = words.iter().map(String::as_str);
    let mut word = || words.next().ok_or("too few words");
    let (cpus, budget) = (pin::parse_cpu_list(word()?), number(word()?)?);
    let what = word()?;
    if what == "steps" {
        return super::steps::main(&cpus, number(word()?)?);
    }
    let global = Global::start().map_err(|error| error.to_string())?;
    if let Some(cpu) = cpus.get(global.process() as usize) {
        pin::pin_current(*cpu).map_err(|error| error.to_string())?;
    }
    let mut told = String::new();
    let outcome = match what {
        "words" => all_words(&global, budget, &mut told),
        "bulk" => {
            let sizes = word()?.split(',').map(number).collect::<Result<Vec<_>, _>>()?;
            bulk(&global, &sizes, budget, &mut told)
        }
        "em3d" => {
            let name = word()?;
            let version = em3d::Version::ALL.into_iter().find(|version| version.name() == name).ok_or("no such version")?;
            let graph = em3d::Graph { nodes: number(word()?)?, degree: number(word()?)?, percent: number(word()?)? as u64, steps: number(word()?)? };
            run_em3d(&global, version, &graph, &mut told)
        }
        "sample" => run_sample(&global, number(word()?)?, &mut told),
        "sort" => {
            let (processes, each) = (number(word()?)?, number(word()?)?);
            let _ = writeln!(told, "sort 1 {}", sample::sequential_seconds(processes as u32, each) * 1e3);
            Ok(())
        }
        other => return Err(format!("no such figures: {other}")),
    };
    outcome.map_err(|error| error.to_string())?;
    if global.process() == 0 {
        print!("{told}");
    }
    global.finish().map_err(|error| error.to_string())
}

fn number(word: &str) -> Result<usize, String> {
    word.parse().map_err(|_| format!("no number: {word}"))
}

/// Nanoseconds of one of the `each` operations that `body` does.
fn figure(budget_ms: usize, each: usize, mut body: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let mut repeated = |count: usize| {
        let begin = Instant::now();
        (0..count).try_for_each(|_| body())?;
        Ok::<_, Error>(begin.elapsed().as_nanos())
    };
    let mut count = 1;
    while repeated(count)? < RUN_NS && count < COUNT_MAX {
        count *= 2;
    }
    let (begin, mut times) = (Instant::now(), Vec::new());
    while times.len() < RUNS_MAX && (times.len() < 5 || begin.elapsed().as_millis() < budget_ms as u128) {
        times.push(repeated(count)? as f64 / (count * each) as f64);
    }
    times.sort_unstable_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// All operations on all scalar types. Only the first process does them, on the memory of the last.
fn all_words(global: &Global, budget: usize, told: &mut String) -> Result<(), Error> {
    words::<i8>(global, 1, budget, told)?;
    words::<i16>(global, 2, budget, told)?;
    words::<i32>(global, 3, budget, told)?;
    words::<i64>(global, 4, budget, told)?;
    words::<f32>(global, 5, budget, told)?;
    words::<f64>(global, 6, budget, told)?;
    // As a struct of three doubles: no word, but copied in line.
    words::<[f64; 3]>(global, 7, budget, told)
}

fn words<T: Plain + Default>(global: &Global, row: usize, budget: usize, told: &mut String) -> Result<(), Error> {
    debug_assert_eq!(TYPES[row - 1].1, size_of::<T>() as u64);
    let array = SpreadArray::new(global, global.processes() as usize, RUN, T::default())?;
    let there = array.block(global.processes() as usize - 1).begin();
    let mut here = [T::default(); RUN];
    if global.process() == 0 {
        let mut tell = |operation: &str, ns: f64| told.push_str(&format!("{operation} {row} {ns:.4}\n"));
        tell(
            "read",
            figure(budget, RUN, || {
                for (i, to) in here.iter_mut().enumerate() {
                    *to = global.read(there.offset(i as isize))?;
                }
                black_box(&here);
                Ok(())
            })?,
        );
        tell("write", figure(budget, RUN, || black_box(&here).iter().enumerate().try_for_each(|(i, from)| global.write(there.offset(i as isize), *from)))?);
        tell(
            "get",
            figure(budget, RUN, || {
                let here = &mut here;
                global.split(move |phase| here.iter_mut().enumerate().try_for_each(|(i, to)| phase.get(to, there.offset(i as isize))))
            })?,
        );
        tell(
            "put",
            figure(budget, RUN, || {
                let here = black_box(&here);
                global.split(|phase| here.iter().enumerate().try_for_each(|(i, from)| phase.put(there.offset(i as isize), *from)))
            })?,
        );
        tell("store", figure(budget, RUN, || black_box(&here).iter().enumerate().try_for_each(|(i, from)| global.store(there.offset(i as isize), *from)))?);
        tell("sync", figure(budget, 1, || global.split(|_| Ok(())))?);
        // Only where memory is shared.
        if let Some(view) = global.shared(array.block(global.processes() as usize - 1)) {
            tell(
                "view-read",
                figure(budget, RUN, || {
                    let view = black_box(view);
                    here.iter_mut().zip(view.iter()).for_each(|(to, from)| *to = from);
                    black_box(&here);
                    Ok(())
                })?,
            );
            tell(
                "view-write",
                figure(budget, RUN, || {
                    let view = black_box(view);
                    let here = black_box(&here);
                    view.set_each(|i| here[i]);
                    Ok(())
                })?,
            );
        }
        let from = [T::default(); RUN];
        tell(
            "plain",
            figure(budget, RUN, || {
                for (to, from) in here.iter_mut().zip(black_box(&from)) {
                    // SAFETY: a reference. Really loaded, as the others are.
                    *to = unsafe { std::ptr::from_ref(from).read_volatile() };
                }
                black_box(&here);
                Ok(())
            })?,
        );
    }
    global.all_store_sync()
}

fn bulk(global: &Global, sizes: &[usize], budget: usize, told: &mut String) -> Result<(), Error> {
    let most = sizes.iter().copied().max().unwrap_or(0);
    let array = SpreadArray::new(global, global.processes() as usize, most, 1u8)?;
    // At the beginning of a page, as a block of global memory is: so it is of the others' programs
    // too.
    let room = most.max(MANY_BYTES);
    let (mut here, mut other) = (vec![1u8; room + PAGE], vec![1u8; room + PAGE]);
    let [here, other] = [&mut here, &mut other].map(|memory| {
        let begin = memory.as_ptr().align_offset(PAGE);
        &mut memory[begin..begin + room]
    });
    if global.process() == 0 {
        for &bytes in sizes {
            let there = array.block(global.processes() as usize - 1).part(0, bytes);
            // As many at a time as words; of large ones, as many as fill a megabyte.
            let run = (MANY_BYTES / bytes).clamp(1, RUN);
            let mut tell = |operation: &str, ns: f64| told.push_str(&format!("{operation} {bytes} {ns:.4}\n"));
            tell(
                "get-many",
                figure(budget, run, || global.split(|phase| here.chunks_exact_mut(bytes).take(run).try_for_each(|to| phase.get_slice(to, there))))?,
            );
            tell(
                "memcpy-many",
                figure(budget, run, || {
                    here.chunks_exact_mut(bytes).take(run).for_each(|to| {
                        to.copy_from_slice(black_box(&other[..bytes]));
                        black_box(&*to);
                    });
                    Ok(())
                })?,
            );
            let here = &mut here[..bytes];
            tell("read", figure(budget, 1, || global.read_slice(here, there))?);
            tell("write", figure(budget, 1, || global.write_slice(there, here))?);
            tell("get", figure(budget, 1, || global.split(|phase| phase.get_slice(here, there)))?);
            tell("put", figure(budget, run, || global.split(|phase| (0..run).try_for_each(|_| phase.put_slice(there, here))))?);
            tell("store", figure(budget, run, || (0..run).try_for_each(|_| global.store_slice(there, here)))?);
            tell(
                "memcpy",
                figure(budget, 1, || {
                    other[..bytes].copy_from_slice(black_box(here));
                    black_box(&*other);
                    Ok(())
                })?,
            );
        }
    }
    global.all_store_sync()
}

fn run_em3d(global: &Global, version: em3d::Version, graph: &em3d::Graph, told: &mut String) -> Result<(), Error> {
    let outcome = em3d::run(global, graph, version, false)?;
    let slowest = global.max(outcome.seconds)?;
    let _ = writeln!(told, "edge {} {:.4}", graph.percent, em3d::Outcome { seconds: slowest, ..outcome }.ns_per_edge(graph));
    let _ = writeln!(told, "all {} {:.4}", global.processes(), slowest * 1e3);
    Ok(())
}

fn run_sample(global: &Global, each: usize, told: &mut String) -> Result<(), Error> {
    let slowest = global.max(sample::run(global, each, false)?.seconds)?;
    let _ = writeln!(told, "all {} {:.4}", global.processes(), slowest * 1e3);
    Ok(())
}
