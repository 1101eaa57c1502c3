// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace as JSON: one object. Times are nanoseconds since 1970.

use serde_json::{Map, Value, json};

use bellwire_trace::Event;
use bellwire_trace::kinds::{Form, Shape};

use super::collect::Trace;
use super::{clocks, show};

/// Version of the layout.
const FORMAT: u32 = 1;

/// The text.
///
/// # Errors
/// None that is known.
pub fn text(trace: &Trace) -> Result<String, String> {
    let threads: Vec<Value> = trace
        .threads
        .iter()
        .map(|thread| {
            let head = &thread.head;
            let events: Vec<Value> = thread.events.iter().map(event).collect();
            json!({
                "host": head.host, "pid": head.pid, "program": head.program, "tid": head.tid, "thread": head.thread,
                "slots_lost": thread.slots_lost, "senseless": thread.senseless, "events": events,
            })
        })
        .collect();
    let whole = json!({ "format": FORMAT, "began_ns": trace.began, "clocks": clocks::json(&trace.clocks), "complaints": trace.complaints, "threads": threads });
    serde_json::to_string(&whole).map(|text| text + "\n").map_err(|e| e.to_string())
}

fn event(event: &Event) -> Value {
    let about = event.kind.about();
    let mut object = Map::new();
    object.insert("t_ns".to_owned(), event.stamp.into());
    object.insert("layer".to_owned(), about.layer.name().into());
    object.insert("event".to_owned(), show::name(event).into());
    let shape = match about.shape {
        Shape::Moment => "moment",
        Shape::Begin => "begin",
        Shape::End => "end",
    };
    object.insert("shape".to_owned(), shape.into());
    if !about.object.is_empty() {
        object.insert(about.object.to_owned(), event.object.into());
    }
    for (at, field) in about.fields.iter().enumerate() {
        let word = event.word(at);
        let value = match field.form {
            Form::Words(_) | Form::Named(_) => show::value(field.form, word).into(),
            Form::Signed => word.cast_signed().into(),
            _ => word.into(),
        };
        object.insert(field.name.to_owned(), value);
    }
    if let Some(text) = show::text(event) {
        object.insert("text".to_owned(), text.into());
    }
    Value::Object(object)
}
