// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hosts' clocks, in words and as JSON.

use serde_json::{Value, json};

use bellwire_trace::hosts::{Clock, Tie};

/// A line for each clock, if there are several.
pub fn lines(clocks: &[Clock]) -> Vec<String> {
    if clocks.len() < 2 {
        return Vec::new();
    }
    let reference = clocks.iter().find(|clock| clock.tie == Tie::Reference).map(|clock| clock.host.as_str()).unwrap_or_default();
    clocks.iter().map(|clock| format!("clock of {}: {}", clock.host, about(&clock.tie, reference))).collect()
}

/// How a clock is known, in words.
pub fn about(tie: &Tie, reference: &str) -> String {
    match *tie {
        Tie::Reference => "all times are by this one".to_owned(),
        Tie::Messages { of_day, error, drift, messages, .. } => {
            let drift = if drift == 0 { String::new() } else { format!(", faster by {:.1} millionths", drift as f64 / 1000.0) };
            format!(
                "{:+.3} us to that of {reference}, +-{:.3} us, by {messages} messages{drift}; told by that one",
                of_day as f64 / 1000.0,
                error as f64 / 1000.0
            )
        }
        Tie::TimeOfDay => format!("no messages both ways tie it to that of {reference}, so its time of day is believed"),
    }
}

/// All that is known of the clocks.
pub fn json(clocks: &[Clock]) -> Value {
    clocks
        .iter()
        .map(|clock| match clock.tie {
            Tie::Reference => json!({ "host": clock.host, "boot": clock.boot, "tie": "reference", "offset_ns": 0, "monotonic_offset_ns": 0, "error_ns": 0 }),
            Tie::Messages { of_day, monotonic, error, drift, messages } => json!({
                "host": clock.host, "boot": clock.boot, "tie": "messages",
                "offset_ns": of_day, "monotonic_offset_ns": monotonic, "error_ns": error, "drift_ppb": drift, "messages": messages,
            }),
            Tie::TimeOfDay => {
                json!({ "host": clock.host, "boot": clock.boot, "tie": "time of day", "offset_ns": 0, "monotonic_offset_ns": null, "error_ns": null })
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_words() {
        let clock = |host: &str, tie| Clock { host: host.to_owned(), boot: String::new(), tie };
        let tie = Tie::Messages { of_day: -1_234_567, monotonic: 5, error: 12_300, drift: -1500, messages: 7 };
        let clocks = [clock("a", Tie::Reference), clock("b", tie), clock("c", Tie::TimeOfDay)];
        assert_eq!(
            lines(&clocks),
            [
                "clock of a: all times are by this one",
                "clock of b: -1234.567 us to that of a, +-12.300 us, by 7 messages, faster by -1.5 millionths; told by that one",
                "clock of c: no messages both ways tie it to that of a, so its time of day is believed",
            ]
        );
        assert!(lines(&clocks[..1]).is_empty());
        assert_eq!(json(&clocks)[1]["error_ns"], 12_300);
    }
}
