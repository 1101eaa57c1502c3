// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace as a tree: each process, its threads, their calls, and beneath each call what came of
//! it.

use std::fmt::Write;

use bellwire_trace::Event;
use bellwire_trace::file::Thread;
use bellwire_trace::kinds::Shape;

use super::collect::{Trace, nest};
use super::{clocks, show};

/// The tree.
pub fn text(trace: &Trace) -> String {
    let mut out = clocks::lines(&trace.clocks).iter().fold(String::new(), |out, line| out + line + "\n");
    let mut process = None;
    for thread in &trace.threads {
        let head = &thread.head;
        if process != Some((&head.host, head.pid)) {
            process = Some((&head.host, head.pid));
            // Writing to a string does not fail.
            let _ = writeln!(out, "{} (process {} on {})", head.program, head.pid, head.host);
        }
        let _ = writeln!(out, "  thread {} {}", head.tid, head.thread);
        if thread.slots_lost != 0 {
            let _ = writeln!(out, "    {:>14}  earlier events are lost", "..");
        }
        write_thread(&mut out, thread, trace.began);
    }
    out
}

fn write_thread(out: &mut String, thread: &Thread, began: u64) {
    let nested = nest(&thread.events);
    for (event, (depth, end)) in thread.events.iter().zip(nested) {
        let end = end.and_then(|at| thread.events.get(at));
        write_event(out, event, depth, end, began);
    }
}

fn write_event(out: &mut String, event: &Event, depth: usize, end: Option<&Event>, began: u64) {
    let about = event.kind.about();
    if about.shape == Shape::End {
        return;
    }
    let words = [show::name(event), show::object(event), show::line(event)];
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|w| !w.is_empty()).collect();
    let _ = write!(out, "    {:>14}  {}{}", microseconds(event.stamp.saturating_sub(began)), "  ".repeat(depth), words.join("  "));
    match (about.shape, end) {
        (Shape::Begin, Some(end)) => {
            let result = end.kind.about().fields.first().map(|field| format!(" = {}", show::value(field.form, end.word(0))));
            let _ = write!(out, "{}  <{}>", result.unwrap_or_default(), microseconds(end.stamp.saturating_sub(event.stamp)));
        }
        (Shape::Begin, None) => out.push_str(" .. did not return"),
        _ => {}
    }
    out.push('\n');
}

/// Nanoseconds as `1234.567 us`.
fn microseconds(ns: u64) -> String {
    format!("{}.{:03} us", ns / 1000, ns % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!([0, 7, 1000, 1_234_567].map(microseconds), ["0.000 us", "0.007 us", "1.000 us", "1234.567 us"]);
    }
}
