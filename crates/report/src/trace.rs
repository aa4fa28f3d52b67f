//! Trace events, as Perfetto and the tracing page of browsers read them: each output a process, each rank a thread.

use serde_json::{Value, json};
use std::path::Path;
use thalweg_profile::Document;
use thalweg_profile::recorder::Whom;

/// The events of all outputs, by one clock.
pub fn events(documents: &[Document]) -> Value {
    let first = documents.iter().map(|d| d.began_unix_us).min().unwrap_or(0);
    // One process for each file, in the order in which they come.
    let mut files: Vec<&str> = Vec::new();
    let mut events = Vec::new();
    for document in documents {
        let process = files.iter().position(|name| *name == document.output).unwrap_or_else(|| {
            files.push(&document.output);
            files.len() - 1
        });
        let later = (document.began_unix_us - first) as f64;
        for part in &document.by_rank {
            for span in part.spans() {
                let mut about = json!({ "step": document.step });
                if span.bytes > 0 {
                    about["bytes"] = span.bytes.into();
                }
                match span.whom {
                    Whom::Nobody => {}
                    Whom::Rank(rank) => about["rank"] = rank.into(),
                    Whom::Meeting(number) => about["meeting"] = number.into(),
                }
                let mut event = json!({
                    "name": span.phase.name(), "cat": document.group, "ph": if span.length > 0 { "X" } else { "i" },
                    "ts": later + span.begin as f64 / 1e3, "pid": process, "tid": part.rank, "args": about,
                });
                match span.length {
                    0 => event["s"] = "t".into(),
                    length => event["dur"] = (length as f64 / 1e3).into(),
                }
                events.push(event);
            }
        }
    }
    for (process, file) in files.iter().enumerate() {
        let name = Path::new(file).file_name().map_or_else(|| (*file).to_string(), |n| n.display().to_string());
        let ranks = documents.iter().filter(|d| d.output == *file).map(|d| d.ranks).max().unwrap_or(0);
        let named = |what: &str, rank: u32, about: Value| json!({ "name": what, "ph": "M", "pid": process, "tid": rank, "args": about });
        events.push(named("process_name", 0, json!({ "name": name })));
        let present = documents.iter().filter(|d| d.output == *file).flat_map(|d| &d.by_rank).map(|p| p.rank);
        let present: std::collections::BTreeSet<u32> = present.filter(|rank| *rank < ranks).collect();
        for rank in present {
            events.push(named("thread_name", rank, json!({ "name": format!("rank {rank}") })));
            events.push(named("thread_sort_index", rank, json!({ "sort_index": rank })));
        }
    }
    json!({ "displayTimeUnit": "ms", "traceEvents": events })
}
