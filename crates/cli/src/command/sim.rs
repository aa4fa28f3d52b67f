//! `thalweg sim`: simulates an output on a described machine; draws figures with published numbers.

use crate::arguments::Sim;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{HEADING, Terminal, plain};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use thalweg_params::Parameters;
use thalweg_report::text::count;
use thalweg_sim::figure::{self, Drawn};
use thalweg_sim::machine::{Above, Share};
use thalweg_sim::outcome::Outcome as Simulated;
use thalweg_sim::partition::{self, Direction, Timed};
use thalweg_sim::{Job, Machine, load, methods};
use thalweg_types::{Error, ErrorKind};

pub fn run(arguments: &Sim, out: &mut Terminal) -> Result<Outcome, Failure> {
    if let Some(name) = &arguments.figure {
        return draw(name, arguments, out);
    }
    let Some(machine) = &arguments.machine else {
        return Err(Failure::Usage("a machine is missing: a description, or one of those shipped".into()));
    };
    let mut machine = Machine::open(machine)?;
    if let Some(name) = &arguments.load {
        return compare(&machine, name, arguments, out);
    }
    if let Some(share) = arguments.background {
        machine.background.share = share;
    }
    let quiet =
        Machine { slow: thalweg_sim::machine::Slow { share: Share(0.0), ..machine.slow.clone() }, ..machine.clone() };
    if let Some((share, times)) = arguments.slow {
        (machine.slow.share, machine.slow.times) = (share, times);
    }
    let compared = machine.slow.share.0 > 0.0;
    let every: Vec<String> = methods::METHODS.iter().skip(1).map(|m| (*m).to_string()).collect();
    let names = if arguments.method.is_empty() { &every } else { &arguments.method };
    let mut runs = Vec::new();
    for method in names {
        let job = Job {
            method: method.clone(),
            ranks: arguments.ranks,
            size: arguments.size,
            parameters: arguments.parameters.clone().unwrap_or_default(),
            seed: arguments.seed,
        };
        let simulated = thalweg_sim::run(&machine, &job).map_err(usage)?;
        let without = if compared { Some(thalweg_sim::run(&quiet, &job).map_err(usage)?.bandwidth()) } else { None };
        runs.push((simulated, without));
    }
    let slowest = arguments.slowest.unwrap_or(if runs.len() == 1 { 5 } else { 0 });
    if arguments.json {
        let all: Vec<Value> = runs.iter().map(|(simulated, without)| of_run(simulated, *without, slowest)).collect();
        let document = json!({ "machine": machine.name, "seed": arguments.seed, "runs": all });
        serde_json::to_writer_pretty(&mut *out, &document)?;
        writeln!(out)?;
        return Ok(Outcome::Done);
    }
    print(&machine, arguments, &runs, slowest, out)?;
    Ok(Outcome::Done)
}

/// An impossible request is an error of the command line, not of a file.
fn usage(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::InvalidArgument | ErrorKind::OutOfBounds | ErrorKind::Config => {
            Failure::Usage(error.to_string())
        }
        _ => Failure::File(error),
    }
}

fn print(
    machine: &Machine,
    arguments: &Sim,
    runs: &[(Simulated, Option<f64>)],
    slowest: usize,
    out: &mut Terminal,
) -> Result<(), Failure> {
    let bytes = u64::from(arguments.ranks) * arguments.size;
    writeln!(
        out,
        "{}: {} of {:.2} MiB, {:.1} GB; seed {}",
        plain(&machine.name),
        count(u64::from(arguments.ranks), "rank"),
        arguments.size as f64 / f64::from(1 << 20),
        bytes as f64 / 1e9,
        arguments.seed
    )?;
    if machine.slow.share.0 > 0.0 {
        let slow = machine.slow.share.0 * f64::from(machine.targets.count.0);
        writeln!(
            out,
            "{:.0} of {} targets {} times slower",
            slow.round(),
            machine.targets.count.0,
            machine.slow.times.0
        )?;
    }
    let compared = runs.iter().any(|(_, without)| without.is_some());
    let heading = format!("{:<14}  {:>9}  {:>9}  {:>7}", "method", "seconds", "GB/s", "of peak");
    let more = if compared { "  keeps   moved  dead GB" } else { "   moved  dead GB" };
    out.styled(HEADING, &format!("{heading}{more}"))?;
    writeln!(out)?;
    for (simulated, without) in runs {
        write!(
            out,
            "{:<14}  {:>9.1}  {:>9.2}  {:>5.1} %",
            simulated.method,
            simulated.seconds,
            simulated.bandwidth() / 1e9,
            simulated.share() * 100.0
        )?;
        if let Some(without) = without {
            write!(out, "  {:>4.0} %", simulated.bandwidth() / without * 100.0)?;
        }
        writeln!(out, "  {:>6}  {:>7.1}", simulated.moved, simulated.dead_bytes as f64 / 1e9)?;
    }
    for (simulated, _) in runs {
        for remark in &simulated.remarks {
            writeln!(out, "{}: {remark}", simulated.method)?;
        }
    }
    if slowest > 0 {
        for (simulated, _) in runs {
            writeln!(
                out,
                "\n{}: half of the ranks write within {:.1} s, 99 % within {:.1} s; the slowest",
                simulated.method,
                simulated.quantile(0.5),
                simulated.quantile(0.99)
            )?;
            out.styled(HEADING, "      rank  target     open    begin      end  writing, in seconds")?;
            writeln!(out)?;
            for (rank, times) in simulated.slowest(slowest) {
                writeln!(
                    out,
                    "{rank:>10}  {:>6}  {:>7.1}  {:>7.1}  {:>7.1}  {:>7.1}",
                    times.target,
                    times.opened,
                    times.began,
                    times.ended,
                    times.writing()
                )?;
            }
        }
    }
    Ok(())
}

/// A load, by every contender.
fn compare(machine: &Machine, name: &str, arguments: &Sim, out: &mut Terminal) -> Result<Outcome, Failure> {
    let (title, load) = load::named(name).map_err(usage)?;
    let timed = partition::compare(machine, load, arguments.ranks).map_err(usage)?;
    let advantages = [Direction::Write, Direction::Read].map(|direction| partition::advantage(&timed, direction));
    let bytes = load.bytes_of_call() * u64::from(load.calls());
    if arguments.json {
        let contenders: Vec<Value> = timed.iter().map(of_contender).collect();
        let document = json!({
            "machine": machine.name, "load": title, "ranks": arguments.ranks, "calls": load.calls(), "bytes": bytes,
            "contenders": contenders, "advantage": { "writes": advantages[0], "reads": advantages[1] },
        });
        serde_json::to_writer_pretty(&mut *out, &document)?;
        writeln!(out)?;
        return Ok(Outcome::Done);
    }
    let ranks = count(u64::from(arguments.ranks), "rank");
    let calls = count(u64::from(load.calls()), "write");
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    writeln!(out, "{}: {title}, {ranks}, {calls}, {:.1} MB", plain(&machine.name), megabytes(bytes))?;
    let heading =
        ["contender", "write s", "read s", "MB to servers", "MB exchanged", "views KB", "places KB", "messages"];
    let mut rows = vec![heading.map(String::from)];
    rows.extend(timed.iter().map(|Timed { contender, write_seconds, read_seconds, wire }| {
        let kilobytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e3);
        [
            contender.name().to_string(),
            format!("{write_seconds:.2}"),
            format!("{read_seconds:.2}"),
            format!("{:.1}", megabytes(wire.server_bytes)),
            format!("{:.1}", megabytes(wire.exchanged_bytes)),
            kilobytes(wire.view_bytes),
            kilobytes(wire.place_bytes),
            wire.server_messages.to_string(),
        ]
    }));
    for (number, row) in rows.iter().enumerate() {
        let [first, others @ ..] = row;
        let cells = others.iter().zip(&heading[1..]).map(|(cell, title)| format!("  {cell:>0$}", title.len().max(7)));
        let line = format!("{first:<10}{}", cells.collect::<String>());
        if number == 0 {
            out.styled(HEADING, &line)?
        } else {
            write!(out, "{line}")?
        }
        writeln!(out)?;
    }
    let [writes, reads] = advantages;
    writeln!(out, "partition beside the better two-phase: writes {writes:.2} times as fast, reads {reads:.2} times")?;
    Ok(Outcome::Done)
}

fn of_contender(timed: &Timed) -> Value {
    let wire = &timed.wire;
    json!({
        "contender": timed.contender.name(),
        "write_seconds": timed.write_seconds,
        "read_seconds": timed.read_seconds,
        "view_bytes": wire.view_bytes,
        "place_bytes": wire.place_bytes,
        "exchanged_bytes": wire.exchanged_bytes,
        "between_nodes_bytes": wire.between_nodes_bytes,
        "server_bytes": wire.server_bytes,
        "server_messages": wire.server_messages,
    })
}

fn of_run(simulated: &Simulated, without: Option<f64>, slowest: usize) -> Value {
    let ranks: Vec<Value> = simulated
        .slowest(slowest)
        .into_iter()
        .map(|(rank, times)| {
            json!({
                "rank": rank, "target": times.target, "opened": times.opened, "began": times.began,
                "ended": times.ended, "writing": times.writing(),
            })
        })
        .collect();
    json!({
        "method": simulated.method,
        "ranks": simulated.ranks,
        "size_bytes": simulated.size,
        "seconds": simulated.seconds,
        "bytes_per_second": simulated.bandwidth(),
        "share_of_peak": simulated.share(),
        "bytes_per_second_without_slow_targets": without,
        "writers": simulated.writers,
        "files": simulated.files,
        "moved_groups": simulated.moved,
        "dead_bytes": simulated.dead_bytes,
        "memory_bytes_per_rank": simulated.memory,
        "writing_seconds": { "half": simulated.quantile(0.5), "99 %": simulated.quantile(0.99), "all": simulated.quantile(1.0) },
        "events": simulated.events,
        "remarks": simulated.remarks,
        "slowest": ranks,
    })
}

fn draw(name: &str, arguments: &Sim, out: &mut Terminal) -> Result<Outcome, Failure> {
    let drawn = figure::draw(name, arguments.seed).map_err(usage)?;
    let default = (!arguments.json).then(|| PathBuf::from(format!("{name}.svg")));
    let picture = arguments.svg.clone().or(default);
    if let Some(path) = &picture {
        let what = || format!("cannot write '{}'", path.display());
        std::fs::write(path, drawn.picture()).map_err(|e| Error::io(what(), e))?;
    }
    if arguments.json {
        serde_json::to_writer_pretty(&mut *out, &of_figure(&drawn))?;
        writeln!(out)?;
    } else {
        write!(out, "{}", drawn.table())?;
        if let Some(path) = picture {
            writeln!(out, "Picture: {}", plain(&path.display().to_string()))?;
        }
    }
    Ok(Outcome::Done)
}

fn of_figure(drawn: &Drawn) -> Value {
    let series: Vec<Value> = drawn.series.iter().map(|s| json!({ "name": s.name, "y": s.y })).collect();
    let published: Vec<Value> = drawn
        .published
        .iter()
        .map(|p| json!({ "what": p.what, "from": p.from, "value": p.value, "ours": p.ours, "used": p.used }))
        .collect();
    json!({
        "figure": drawn.name, "title": drawn.title, "machine": drawn.machine, "x_name": drawn.x_name,
        "y_name": drawn.y_name, "x": drawn.x, "series": series, "published": published, "remark": drawn.remark,
    })
}

/// `1%x20`: share of the targets, and their slowdown factor.
pub fn slow(text: &str) -> Result<(Share, Above), String> {
    let (part, times) = text.split_once('x').ok_or("is not as in 1%x20")?;
    let times = times.trim().parse::<f64>().map_err(|_| format!("'{times}' is no number"))?;
    Ok((share(part)?, Above::try_from(times)?))
}

/// `10%` or `0.1`.
pub fn share(text: &str) -> Result<Share, String> {
    let text = text.trim();
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let value = number.trim().parse::<f64>().map_err(|_| format!("'{text}' is no share"))?;
    Share::try_from(value / unit)
}

/// `num_files=12;chunk=4MiB`.
pub fn parameters(text: &str) -> Result<Parameters, String> {
    methods::parameters(text).map_err(|e| e.to_string())
}
