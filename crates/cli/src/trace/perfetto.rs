// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace in Perfetto's format: its messages of protocol buffers, those fields that are used here,
//! as the public definitions number them (perfetto/trace/trace.proto, trace_packet.proto,
//! track_event/*.proto).

use prost::Message;

use bellwire_trace::Event;
use bellwire_trace::file::Head;
use bellwire_trace::kinds::Shape;

use super::collect::{Trace, nest};
use super::{clocks, show};

#[derive(Clone, PartialEq, Message)]
struct Packets {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(message, optional, tag = "6")]
    clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
    #[prost(uint32, optional, tag = "58")]
    timestamp_clock_id: Option<u32>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    clocks: Vec<Clock>,
    #[prost(int32, optional, tag = "2")]
    primary_trace_clock: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct Clock {
    #[prost(uint32, optional, tag = "1")]
    clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    timestamp: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(message, optional, tag = "3")]
    process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    thread: Option<ThreadDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    process_name: Option<String>,
    #[prost(string, repeated, tag = "8")]
    process_labels: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    tid: Option<i32>,
    #[prost(string, optional, tag = "5")]
    thread_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<Annotation>,
    /// 1: begin; 2: end; 3: instant.
    #[prost(int32, optional, tag = "9")]
    kind: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, repeated, tag = "22")]
    categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Annotation {
    #[prost(uint64, optional, tag = "3")]
    uint_value: Option<u64>,
    #[prost(int64, optional, tag = "4")]
    int_value: Option<i64>,
    #[prost(string, optional, tag = "6")]
    string_value: Option<String>,
    #[prost(string, optional, tag = "10")]
    name: Option<String>,
}

/// The clock of all packets: CLOCK_REALTIME, by its number in the format.
const REALTIME: u32 = 1;
/// The clock of traces that say nothing: CLOCK_BOOTTIME.
const BOOTTIME: u32 = 6;
/// No state of earlier packets is needed to read this one.
const CLEARED: u32 = 1;
const SEQUENCE: u32 = 1;

/// The file.
pub fn bytes(trace: &Trace) -> Vec<u8> {
    let mut packets = Packets { packet: vec![of_clocks(trace)] };
    let mut process = None;
    for (n, thread) in trace.threads.iter().enumerate() {
        let (head, uuid) = (&thread.head, 2 + 2 * n as u64);
        if process.as_ref().is_none_or(|(host, pid, _)| (*host, *pid) != (&head.host, head.pid)) {
            process = Some((&head.host, head.pid, uuid - 1));
            packets.packet.push(of_process(head, uuid - 1, clock_of(trace, head)));
        }
        packets.packet.push(of_thread(head, uuid, process.as_ref().map(|p| p.2)));
        let nested = nest(&thread.events);
        let ends: std::collections::BTreeSet<usize> = nested.iter().filter_map(|(_, end)| *end).collect();
        for (at, (event, (_, end))) in thread.events.iter().zip(&nested).enumerate() {
            let kind = match event.kind.about().shape {
                Shape::Begin if end.is_some() => 1,
                Shape::End if ends.contains(&at) => 2,
                // One half of a call: the other was overwritten, or never came.
                _ => 3,
            };
            packets.packet.push(of_event(event, kind, uuid));
        }
    }
    packets.encode_to_vec()
}

fn packet() -> Packet {
    Packet { trusted_packet_sequence_id: Some(SEQUENCE), ..Packet::default() }
}

/// A reader believes a time only if the trace says how its clock stands to the clock of the trace,
/// which is the same here.
fn of_clocks(trace: &Trace) -> Packet {
    let clocks = [REALTIME, BOOTTIME].map(|id| Clock { clock_id: Some(id), timestamp: Some(trace.began) });
    let snapshot = ClockSnapshot { clocks: clocks.to_vec(), primary_trace_clock: Some(REALTIME.cast_signed()) };
    Packet { clock_snapshot: Some(snapshot), ..packet() }
}

/// Labels of a process: its host, and how that one's clock is known if there are several.
fn clock_of(trace: &Trace, head: &Head) -> Vec<String> {
    let lines = clocks::lines(&trace.clocks);
    let known = trace.clocks.iter().zip(lines).filter(|(clock, _)| clock.boot == head.boot).map(|(_, line)| line);
    core::iter::once(format!("on {}", head.host)).chain(known).collect()
}

fn of_process(head: &Head, uuid: u64, process_labels: Vec<String>) -> Packet {
    let process = ProcessDescriptor { pid: Some(head.pid.cast_signed()), process_name: Some(head.program.clone()), process_labels };
    let descriptor = TrackDescriptor { uuid: Some(uuid), process: Some(process), ..TrackDescriptor::default() };
    Packet { track_descriptor: Some(descriptor), sequence_flags: Some(CLEARED), ..packet() }
}

fn of_thread(head: &Head, uuid: u64, parent: Option<u64>) -> Packet {
    let thread = ThreadDescriptor { pid: Some(head.pid.cast_signed()), tid: Some(head.tid.cast_signed()), thread_name: Some(head.thread.clone()) };
    let descriptor = TrackDescriptor { uuid: Some(uuid), thread: Some(thread), parent_uuid: parent, process: None };
    Packet { track_descriptor: Some(descriptor), ..packet() }
}

fn of_event(event: &Event, kind: i32, track: u64) -> Packet {
    let about = event.kind.about();
    let mut annotations = Vec::new();
    if !about.object.is_empty() {
        annotations.push(Annotation { name: Some(about.object.to_owned()), uint_value: Some(event.object.into()), ..Annotation::default() });
    }
    for (at, field) in about.fields.iter().enumerate() {
        use bellwire_trace::kinds::Form;
        let (word, name) = (event.word(at), Some(field.name.to_owned()));
        annotations.push(match field.form {
            Form::Number | Form::Bytes | Form::Nanoseconds => Annotation { name, uint_value: Some(word), ..Annotation::default() },
            Form::Signed => Annotation { name, int_value: Some(word.cast_signed()), ..Annotation::default() },
            form => Annotation { name, string_value: Some(show::value(form, word)), ..Annotation::default() },
        });
    }
    if let Some(text) = show::text(event) {
        annotations.push(Annotation { name: Some("text".to_owned()), string_value: Some(text), ..Annotation::default() });
    }
    let event_of_track = TrackEvent {
        debug_annotations: annotations,
        kind: Some(kind),
        track_uuid: Some(track),
        categories: vec![about.layer.name().to_owned()],
        name: Some(show::name(event)),
    };
    Packet { timestamp: Some(event.stamp), timestamp_clock_id: Some(REALTIME), track_event: Some(event_of_track), ..packet() }
}
