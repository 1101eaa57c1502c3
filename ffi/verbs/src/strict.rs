// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where reports of broken rules go: `BELLWIRE_VERBS_STRICT` is `text` or `json`, to standard
//! error, or with a colon and a file behind it, to which each report is added as one line.

use bellwire_verbs::{Report, Reporter};
use std::fs::File;
use std::io::Write;

const VARIABLE: &str = "BELLWIRE_VERBS_STRICT";

/// A line for people.
fn text(r: &Report) -> String {
    let request = r.request.map_or(String::new(), |id| format!(", request {id}"));
    format!(
        "bellwire-verbs: strict: {}: queue pair {:#x}{request}: {}. Rule: {}. What to do: {}.\n",
        r.rule.name(),
        r.qp,
        r.what,
        r.rule.text(),
        r.rule.advice()
    )
}

/// A line for programs.
fn json(r: &Report) -> String {
    // The texts are ours: no quotes, nothing to escape.
    let request = r.request.map_or("null".to_owned(), |id| id.to_string());
    format!(
        "{{\"process\":{},\"rule\":\"{}\",\"queue_pair\":{},\"request\":{request},\"what\":\"{}\",\"text\":\"{}\",\"advice\":\"{}\"}}\n",
        std::process::id(),
        r.rule.name(),
        r.qp,
        r.what,
        r.rule.text(),
        r.rule.advice()
    )
}

/// Who is to hear of broken rules, as the environment says.
///
/// # Errors
/// A sentence.
pub(crate) fn reporter() -> Result<Option<Reporter>, String> {
    let Some(value) = std::env::var_os(VARIABLE) else { return Ok(None) };
    let wrong = || format!("the environment variable {VARIABLE} must be text or json, to standard error, or text:FILE or json:FILE");
    let value = value.into_string().map_err(|_| wrong())?;
    let (form, path) = value.split_once(':').map_or((&*value, None), |(form, path)| (form, Some(path)));
    let line: fn(&Report) -> String = match form {
        "text" => text,
        "json" => json,
        _ => return Err(wrong()),
    };
    let mut file = match path {
        Some(path) => Some(File::options().append(true).create(true).open(path).map_err(|e| format!("{VARIABLE}: {path}: {e}"))?),
        None => None,
    };
    Ok(Some(Box::new(move |report| {
        // In one piece, since other processes may write there too; nobody hears of what cannot be
        // written.
        let line = line(report);
        let _ = match &mut file {
            Some(file) => file.write_all(line.as_bytes()),
            None => std::io::stderr().write_all(line.as_bytes()),
        };
    })))
}
