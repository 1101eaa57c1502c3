// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event's parts as text.

use bellwire_trace::kinds::Form;
use bellwire_trace::{Event, Kind};

/// A field's value as text.
pub fn value(form: Form, word: u64) -> String {
    let named = |name: Option<&str>| name.map_or_else(|| word.to_string(), str::to_owned);
    match form {
        Form::Number => word.to_string(),
        Form::Signed => word.cast_signed().to_string(),
        Form::Bytes => format!("{word} B"),
        Form::Nanoseconds => format!("{word} ns"),
        Form::Hexadecimal => format!("{word:#x}"),
        Form::Words(words) => named(usize::try_from(word).ok().and_then(|at| words.get(at)).copied()),
        Form::Named(names) => named(names.iter().find(|(number, _)| *number == word).map(|(_, name)| *name)),
    }
}

/// A word of a kind's field as text.
pub fn field(kind: Kind, at: usize, word: u64) -> String {
    kind.about().fields.get(at).map_or_else(|| word.to_string(), |field| value(field.form, word))
}

/// The name of an event: of a call by name, that name.
pub fn name(event: &Event) -> String {
    if event.kind.is_named_call() { event.text() } else { event.kind.about().name.to_owned() }
}

/// The text that an event has besides its name.
pub fn text(event: &Event) -> Option<String> {
    (event.kind.about().has_text && !event.kind.is_named_call()).then(|| event.text())
}

/// What an event happened to, such as `qp 0x11`; empty if its kind has none.
pub fn object(event: &Event) -> String {
    let about = event.kind.about();
    if about.object.is_empty() { String::new() } else { format!("{} {:#x}", about.object, event.object) }
}

/// The fields in one line, with the text.
pub fn line(event: &Event) -> String {
    let about = event.kind.about();
    let is_call = event.kind.is_named_call();
    let mut parts: Vec<String> = Vec::new();
    for (at, field) in about.fields.iter().enumerate() {
        let word = event.word(at);
        // Arguments of calls that have less, and bytes that are not counted.
        if word == 0 && (is_call || (field.form == Form::Bytes && matches!(event.kind, Kind::Sent | Kind::Received))) {
            continue;
        }
        let text = value(field.form, word);
        parts.push(if matches!(field.form, Form::Bytes | Form::Words(_) | Form::Named(_)) { text } else { format!("{} {text}", field.name.replace('_', " ")) });
    }
    parts.extend(text(event));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}
