//! What a partition's servers say about themselves, asked all at once.

use crate::arguments::PartitionStatus;
use crate::outcome::{Failure, Outcome};
use crate::terminal::Terminal;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use thalweg_partition::client::status;
use thalweg_partition::configuration::Configuration;
use thalweg_partition::registry::{Entry, Registry};
use thalweg_partition::server::Status;
use thalweg_partition::server::locks::LockStatus;
use thalweg_types::printable::printable;
use thalweg_types::{Error, ErrorKind};

/// The state of each server, within the patience of all of them, whatever one of them does.
fn ask_all(entry: &Entry, token: &Path, patience: Duration) -> Result<Vec<Result<Status, Error>>, Error> {
    let processes = entry.processes()?;
    let (send, receive) = channel();
    for number in 0..processes {
        let (entry, token, of_thread) = (entry.clone(), token.to_path_buf(), send.clone());
        let ask = move || {
            let _ = of_thread.send((number, status(&entry, &token, number, patience)));
        };
        if let Err(e) = std::thread::Builder::new().name("status".into()).spawn(ask) {
            let _ = send.send((number, Err(Error::io("cannot ask", e))));
        }
    }
    drop(send);
    let mut states: Vec<Option<Result<Status, Error>>> = (0..processes).map(|_| None).collect();
    // A server that is found silent is told a little after its patience has ended.
    let until = Instant::now() + patience + Duration::from_secs(1);
    while let Ok((number, state)) = receive.recv_timeout(until.saturating_duration_since(Instant::now())) {
        states[number as usize] = Some(state);
    }
    let silent = |number: usize| {
        let what = format!("server {number} of partition {} has not answered for {} s", entry.name, patience.as_secs());
        Err(Error::new(ErrorKind::PeerLost, what))
    };
    Ok(states.into_iter().enumerate().map(|(number, state)| state.unwrap_or_else(|| silent(number))).collect())
}

/// A lock, as a sentence.
fn told(lock: &LockStatus) -> String {
    let kind = if lock.exclusive { "exclusive" } else { "shared" };
    let bytes = match (lock.whole, lock.length) {
        (true, _) => "the whole file".to_string(),
        (false, 0) => format!("bytes from {}", lock.start),
        (false, length) => format!("bytes {} to {}", lock.start, lock.start.saturating_add(length - 1)),
    };
    let what = format!("{kind} lock on {bytes} of data {}", lock.file);
    match &lock.waits_for {
        None => format!("{} has the {what}, for {} ms", lock.client, lock.ms),
        Some(other) if other.is_empty() => format!("{} is about to get the {what}", lock.client),
        Some(other) => format!("{} waits for {other}, for {} ms: {what}", lock.client, lock.ms),
    }
}

pub fn show(arguments: &PartitionStatus, out: &mut Terminal) -> Result<Outcome, Failure> {
    let configuration = Configuration::read(&arguments.file)?;
    let registry = Registry::at(&configuration.registry);
    let (entry, token) = (registry.entry(&configuration.fixed.name)?, registry.token(&configuration.fixed.name)?);
    let mut all_answer = true;
    let mut servers = Vec::new();
    let (processes, locations) = (entry.processes()?, entry.locations()?);
    let mut states = match entry.instance.is_some() {
        true => ask_all(&entry, &token, Duration::from_secs(arguments.patience))?,
        false => Vec::new(),
    }
    .into_iter();
    for number in 0..processes {
        let known = entry.instance.iter().flat_map(|i| &i.servers).find(|server| server.number == number);
        let state = states.next();
        all_answer &= matches!(state, None | Some(Ok(_)));
        servers.push((number, &locations[number as usize], known, state));
    }
    if arguments.json {
        let list: Vec<serde_json::Value> = servers
            .iter()
            .map(|(number, location, known, state)| {
                serde_json::json!({
                    "server": number,
                    "host": location.host,
                    "storage": location.storage,
                    "pid": known.map(|server| server.pid),
                    "address": known.and_then(|server| server.address.clone()),
                    "state": state.as_ref().and_then(|state| state.as_ref().ok()),
                    "error": state.as_ref().and_then(|state| state.as_ref().err()).map(|e| e.to_string()),
                })
            })
            .collect();
        let document = serde_json::json!({
            "partition": entry.name,
            "stripe": entry.stripe_size,
            "starts": entry.starts,
            "running": entry.instance.is_some(),
            "servers": list,
        });
        writeln!(out, "{document:#}")?;
    } else {
        let runs = if entry.instance.is_some() { "started" } else { "not started" };
        out.line(format_args!("partition {}, stripes of {} bytes, {runs}", printable(&entry.name), entry.stripe_size))?;
        for (number, location, _, state) in &servers {
            let said = match state {
                None => "not started".to_string(),
                Some(Err(e)) => e.to_string(),
                Some(Ok(s)) => format!(
                    "{} s, {} open files, {} blocks of {} KiB in the cache, {} hits, {} misses",
                    s.seconds,
                    s.files,
                    s.blocks,
                    s.block >> 10,
                    s.hits,
                    s.misses
                ),
            };
            out.line(format_args!("server {number} {}: {}", printable(&location.to_string()), printable(&said)))?;
            if let Some(Ok(s)) = state {
                if s.outlook.bytes > 0 {
                    let late = s.outlook.exceeds(Duration::from_secs(s.kill_wait));
                    let warning = match late {
                        true => format!("; WARNING: a server that has to end is killed after about {} s", s.kill_wait),
                        false => String::new(),
                    };
                    out.line(format_args!("  {}{warning}", s.outlook))?;
                }
                let t = s.traffic;
                out.line(format_args!(
                    "  {} requests so far, {} bytes received, {} sent, {} of views",
                    t.requests, t.received, t.sent, t.views
                ))?;
                if s.requests > 0 {
                    out.line(format_args!("  {} requests under way, the oldest for {} ms", s.requests, s.oldest_ms))?;
                }
                if s.locks > 0 {
                    out.line(format_args!("  {} locks that clients have or wait for", s.locks))?;
                }
                for lock in &s.first_locks {
                    out.line(format_args!("  {}", printable(&told(lock))))?;
                }
            }
            for client in state.iter().flatten().flat_map(|state| &state.clients) {
                let waits = match &client.waits_for {
                    Some(what) => format!("; waits for a reply to: {what}, for {} ms", client.waits_ms),
                    None => String::new(),
                };
                let (of, bytes) = (&client.mount, &client.bytes);
                let has = format!("{} open files, {} views", client.files, client.views);
                let said = format!("{}, {of}, for {} s; {has}; {bytes}{waits}", client.client, client.seconds);
                out.line(format_args!("  {}", printable(&said)))?;
            }
            if let Some(Ok(Status { staging: Some(staged), .. })) = state {
                out.line(format_args!(
                    "  staging: {} of at most {} bytes held, {} writes to be stored, {} bytes stored",
                    staged.held, staged.limit, staged.queued, staged.stored
                ))?;
                if let Some(last) = &staged.last_failure {
                    let failures = staged.failures;
                    out.line(format_args!("  {failures} writes could not be stored, the last: {}", printable(last)))?;
                }
            }
            for services in state.iter().flatten().flat_map(|state| &state.staging).flat_map(|staged| &staged.services)
            {
                let ended = services.ended.as_deref().unwrap_or("at work");
                let said = format!("services of group {}: {} to {}", services.group, services.file, services.output);
                out.line(format_args!("  {}; {}", printable(&said), printable(ended)))?;
            }
            if let Some(Ok(Status { last_failure: Some(last), failures, .. })) = state {
                out.line(format_args!(
                    "  {failures} failures to write bytes of clients that had ended, the last: {}",
                    printable(last)
                ))?;
            }
        }
    }
    Ok(if all_answer { Outcome::Done } else { Outcome::No })
}
