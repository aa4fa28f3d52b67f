//! The kill test: a writer that appends steps is killed at random moments, and every step it had closed is read back.
//!
//!   kill write CONFIG.xml FILE FIRST RANKS [finalize]                appends until it is killed; ranks are threads
//!   kill judge FOLDER KILLS SEED THALWEG [BPLS]                      kills such writers; THALWEG is the command, BPLS ADIOS 1.13's
//!   kill judge FOLDER KILLS SEED THALWEG BPLS -- WRITER... kills WRITER CONFIG.xml FILE FIRST instead (kill.c under MPI)
//!
//! In every third round outputs end in the background: a step counts as closed once the writer was told that its output has ended.
//!
//! A file is appended to over several lives, each from where the last one was killed. After each kill, by our reader:
//! every step that was closed is there bit for bit, at once; what else it shows was written so too; and it says that the
//! file was interrupted. Then, of a copy, after `thalweg recover`: `thalweg verify` finds nothing, our reader and `bpls`
//! read the same. What is written is a function of step and rank.

use std::collections::VecDeque;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use thalweg_comm::Communicator;
use thalweg_comm::threads;
use thalweg_io::registry;
use thalweg_io::{Mode, PendingOutput, Session};
use thalweg_layout::{Direct, Layout};
use thalweg_reader::Reader;
use thalweg_store::Posix;
use thalweg_types::{Selection, Value};

/// Each method that leaves a file.
fn methods() -> Vec<&'static str> {
    registry::that_write_by_themselves().map(|kind| kind.names[0]).collect()
}

type Outcome<T> = Result<T, Box<dyn Error>>;

fn size_of(step: u64) -> usize {
    16 + (step * 7919 % 613) as usize * if step.is_multiple_of(13) { 64 } else { 1 }
}

fn values(step: u64, rank: u32, n: usize) -> Vec<f64> {
    (0..n).map(|i| step as f64 * 1_048_576.0 + f64::from(rank) * 65_536.0 + i as f64).collect()
}

fn say(line: &str) {
    // A judge that is gone needs no answer.
    let _ = writeln!(std::io::stdout(), "{line}").and_then(|()| std::io::stdout().flush());
}

/// Says which outputs have ended, in their order.
fn ended(rank: u32, pending: &mut VecDeque<(u64, PendingOutput)>) {
    while let Some((step, output)) = pending.front() {
        if output.test().unwrap().is_none() {
            return;
        }
        if rank == 0 {
            say(&format!("closed {step}"));
        }
        pending.pop_front();
    }
}

fn write(config: &str, file: &str, first: u64, ranks: u32, finalize: bool) {
    threads::run(ranks, |comm| {
        let open = || Session::from_xml_file(config, comm.duplicate().unwrap()).unwrap();
        let mut session = open();
        let mut pending = VecDeque::new();
        let rank = comm.rank();
        if rank == 0 {
            say("ready");
        }
        for step in first.. {
            let n = size_of(step);
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            let t = values(step, rank, n);
            let mut out = session.open("kill", file, mode, comm.duplicate().unwrap()).unwrap();
            assert_eq!(out.step(), step, "the step that an append begins");
            out.write_values("step", &[step as i64]).unwrap();
            out.write_values("rank", &[rank as i32]).unwrap();
            out.write_values("ranks", &[ranks as i32]).unwrap();
            out.write_values("nx", &[n as i32]).unwrap();
            out.write("note", format!("step {step}").as_bytes()).unwrap();
            out.write_values("t", &t).unwrap();
            out.write_values("c", &t[..4]).unwrap();
            if step % 2 == 0 {
                let extra: Vec<f32> = (0..n).map(|i| (rank as usize + i) as f32).collect();
                out.write_values("extra", &extra).unwrap();
            }
            // One that is written by its close has ended here.
            pending.push_back((step, out.start_close()));
            ended(rank, &mut pending);
            // Now and then the file is closed for good, and opened again.
            if finalize && step % 7 == 6 {
                session.finalize().unwrap();
                ended(rank, &mut pending);
                if rank == 0 {
                    say("finalized");
                }
                session = open();
            }
        }
    });
}

/// Numbers that a seed settles.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

struct Judge {
    folder: PathBuf,
    dice: Dice,
    thalweg: String,
    bpls: Option<String>,
    /// A writer under MPI, and its command.
    foreign: Vec<String>,
    seen: KillCounts,
}

/// What the kills met, so that the report shows whether they meant anything.
#[derive(Debug, Default)]
struct KillCounts {
    kills: u64,
    steps_checked: u64,
    before_the_first_close: u64,
    torn: u64,
    step_records: u64,
    finished: u64,
    /// Files whose outputs ended in the background.
    in_background: u64,
    lives_continued: u64,
    bpls_checked: u64,
}

/// One file that is appended to over several lives.
struct Life {
    file: PathBuf,
    config: PathBuf,
    ranks: u32,
    /// Steps known to be closed.
    closed: u64,
}

fn plain() -> Outcome<Arc<dyn Layout>> {
    Ok(Arc::new(Direct::new(Arc::new(Posix::plain()))?))
}

impl Judge {
    fn run(&mut self, kills: u64) -> Outcome<()> {
        let methods = methods();
        // Few kills meet other methods in each run.
        let mut number = self.dice.below(methods.len() as u64) as usize;
        while self.seen.kills < kills {
            let method = methods[number % methods.len()];
            let folder = self.folder.join(format!("{number}-{method}"));
            std::fs::create_dir_all(&folder)?;
            let config = folder.join("kill.xml");
            // In every other round the index is staged while data drain, by the methods that can, as large outputs have it.
            let stages = (number / methods.len()).is_multiple_of(2)
                && registry::find(method).is_some_and(|kind| kind.parameters.iter().any(|p| p.key == "index_ahead"));
            // Of a writer under MPI it is heard only that close has returned.
            let background = self.foreign.is_empty() && number / methods.len() % 3 == 1;
            let ends = match background {
                true => "async=yes",
                false => registry::find(method).map_or("", registry::written_by_close),
            };
            self.seen.in_background += u64::from(background);
            let parameters = format!("{}{ends}", if stages { "index_ahead=0;" } else { "" });
            let choice = format!("{method}\">{parameters}</method>");
            std::fs::write(&config, include_str!("kill.xml").replace("METHOD\"/>", &choice))?;
            let ranks = 1 + self.dice.below(3) as u32;
            let mut life = Life { file: folder.join("run.bp"), config, ranks, closed: 0 };
            for _ in 0..1 + self.dice.below(5) {
                if self.seen.kills < kills {
                    self.seen.lives_continued += u64::from(life.closed > 0);
                    self.one_kill(&mut life).map_err(|e| format!("{}: {e}", life.file.display()))?;
                }
            }
            std::fs::remove_dir_all(&folder)?;
            number += 1;
        }
        Ok(())
    }

    fn one_kill(&mut self, life: &mut Life) -> Outcome<()> {
        let words = self.write_and_kill(life)?;
        self.seen.kills += 1;
        let mut finalized = false;
        for word in &words {
            finalized = word == "finalized";
            if let Some(step) = word.strip_prefix("closed ") {
                life.closed = life.closed.max(step.parse::<u64>()? + 1);
            }
        }
        self.seen.before_the_first_close += u64::from(life.closed == 0);
        let layout = plain()?;
        let path = life.file.to_str().ok_or("a path of UTF-8")?;
        let reader = match Reader::open(layout, path) {
            Ok(reader) => reader,
            Err(e) if life.closed == 0 => {
                // Nothing was closed: a file that is not there, or that says it was cut off.
                println!("  killed before anything was closed: {}", e.what());
                for left in [path.to_string(), format!("{path}.dir")] {
                    let _ = std::fs::remove_file(&left).or_else(|_| std::fs::remove_dir_all(&left));
                }
                return Ok(());
            }
            Err(e) => return Err(format!("{} steps were closed, and it does not open: {e}", life.closed).into()),
        };
        let status = reader.status().clone();
        self.check(&reader, life.closed, 1).map_err(|e| format!("at once: {e}"))?;
        if !finalized && status.finished {
            // A kill right behind the mark leaves a file that was closed for good, at a step that had been closed.
            (status.steps % 7 == 0 || !self.foreign.is_empty())
                .then_some(())
                .ok_or("the file says that it was closed for good")?;
        }
        self.seen.torn += u64::from(status.torn_bytes > 0);
        self.seen.finished += u64::from(status.finished);
        self.seen.step_records += u64::from(status.step_records > 0);
        // A close that the judge did not hear of.
        life.closed = status.steps;
        self.recovered(life)
    }

    /// Runs a writer, kills it, and returns what it said.
    fn write_and_kill(&mut self, life: &Life) -> Outcome<Vec<String>> {
        let first = life.closed.to_string();
        let mut command = match self.foreign.split_first() {
            None => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("write").args([&life.config, &life.file]).arg(first).arg(life.ranks.to_string());
                if self.dice.below(2) == 0 {
                    command.arg("finalize");
                }
                command
            }
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments).args([&life.config, &life.file]).arg(first);
                command
            }
        };
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (said, heard) = channel();
        let out = child.stdout.take().ok_or("no output")?;
        let reading = std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let _ = said.send(line);
            }
        });
        let mut words = Vec::new();
        // From the start of the process now and then, else from where it begins to write.
        if self.dice.below(10) > 0 {
            self.until_ready(&heard, &mut words)?;
        }
        let slowness = if self.foreign.is_empty() { 1000 } else { 8000 };
        std::thread::sleep(Duration::from_micros(self.dice.below(40 * slowness) + slowness));
        self.kill(&mut child, &heard, &mut words)?;
        gone(&life.file)?;
        reading.join().map_err(|_| "the thread that reads")?;
        words.extend(heard.try_iter());
        let mut complaints = String::new();
        if let Some(mut stderr) = child.stderr.take() {
            std::io::Read::read_to_string(&mut stderr, &mut complaints)?;
        }
        // An application that saw its neighbour die may say so; a failure of our own must not pass as a kill.
        if self.foreign.is_empty() && !complaints.is_empty() {
            return Err(format!("the writer says: {complaints}").into());
        }
        Ok(words)
    }

    fn until_ready(&self, heard: &Receiver<String>, words: &mut Vec<String>) -> Outcome<()> {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !words.iter().any(|w| w == "ready") {
            words.push(heard.recv_timeout(deadline.saturating_duration_since(Instant::now()))?);
        }
        Ok(())
    }

    /// Kills the writer; under MPI all its ranks one after the other, or one alone.
    fn kill(&mut self, child: &mut Child, heard: &Receiver<String>, words: &mut Vec<String>) -> Outcome<()> {
        if !self.foreign.is_empty() {
            words.extend(heard.try_iter());
            let mut ranks: Vec<String> =
                words.iter().filter_map(|w| Some(w.strip_prefix("pid ")?.to_string())).collect();
            for i in (1..ranks.len()).rev() {
                ranks.swap(i, self.dice.below(i as u64 + 1) as usize);
            }
            if self.dice.below(3) == 0 {
                ranks.truncate(1);
            }
            if !ranks.is_empty() {
                Command::new("kill").arg("-9").args(&ranks).stderr(Stdio::null()).status()?;
                // The launcher ends the others and itself; what it has read of their words comes with its end.
                let deadline = Instant::now() + Duration::from_secs(60);
                while child.try_wait()?.is_none() {
                    if Instant::now() > deadline {
                        child.kill()?;
                        return Err("the launcher did not end".into());
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
                return Ok(());
            }
        }
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Compares steps with what was written; at least `closed` of them must be there. `every`: which of those before the
    /// last ten are looked at.
    fn check(&mut self, reader: &Reader, closed: u64, every: u64) -> Outcome<()> {
        let steps = reader.status().steps;
        if steps < closed {
            return Err(format!("{closed} steps were closed, {steps} are there").into());
        }
        if steps == 0 {
            return Ok(());
        }
        for step in (0..steps).filter(|s| s + 10 >= steps || s % every == 0) {
            let n = size_of(step);
            let wrong = |what: &str| format!("step {step}: {what} is not what was written");
            let value = |name: &str| reader.value(name, step);
            if value("step")? != Value::I64(step as i64) || value("nx")? != Value::I32(n as i32) {
                return Err(wrong("a scalar").into());
            }
            if value("note")? != Value::String(format!("step {step}").into_bytes()) {
                return Err(wrong("the text").into());
            }
            let Value::I32(ranks) = value("ranks")? else { return Err(wrong("ranks").into()) };
            let expected = |n: usize| (0..ranks as u32).flat_map(|r| values(step, r, n)).collect::<Vec<f64>>();
            if reader.shape("t", step)? != [ranks as u64, n as u64]
                || reader.read_as::<f64>("t", step, &Selection::All)? != expected(n)
            {
                return Err(wrong("\"t\"").into());
            }
            if reader.read_as::<f64>("c", step, &Selection::All)? != expected(4) {
                return Err(wrong("\"c\"").into());
            }
            let blocks = reader.blocks("/local/extra", step)?.len();
            if blocks != if step % 2 == 0 { ranks as usize } else { 0 } {
                return Err(wrong("\"extra\"").into());
            }
            for rank in 0..blocks {
                let extra = reader.read_as::<f32>("/local/extra", step, &Selection::Block(rank as u64))?;
                if extra != (0..n).map(|i| (rank + i) as f32).collect::<Vec<f32>>() {
                    return Err(wrong("\"extra\"").into());
                }
            }
            self.seen.steps_checked += 1;
        }
        Ok(())
    }

    /// Recovers a copy and looks at it with all eyes.
    fn recovered(&mut self, life: &Life) -> Outcome<()> {
        let copy = life.file.with_file_name("copy.bp");
        let folder = life.file.with_file_name("copy.bp.dir");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::copy(&life.file, &copy)?;
        let from = life.file.with_file_name("run.bp.dir");
        if from.exists() {
            std::fs::create_dir(&folder)?;
            for entry in std::fs::read_dir(from)? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().replace("run.bp", "copy.bp");
                std::fs::copy(entry.path(), folder.join(name))?;
            }
        }
        let copy_name = copy.to_str().ok_or("a path of UTF-8")?;
        self.thalweg(&["recover", copy_name])?;
        let reader = Reader::open(plain()?, copy_name)?;
        let status = reader.status();
        if !status.finished || status.torn_bytes > 0 || status.step_records > 0 || status.steps != life.closed {
            return Err(format!("recovered: {status:?}").into());
        }
        self.check(&reader, life.closed, 5).map_err(|e| format!("recovered: {e}"))?;
        self.thalweg(&["verify", copy_name])?;
        if let Some(bpls) = &self.bpls {
            let said = output(Command::new(bpls).args(["-d", "-f", "%.17g", copy_name, "c"]))?;
            let shown = numbers(&said);
            let mut expected = Vec::new();
            for step in 0..life.closed {
                let Value::I32(ranks) = reader.value("ranks", step)? else { return Err("ranks".into()) };
                expected.extend((0..ranks as u32).flat_map(|r| values(step, r, 4)));
            }
            if shown != expected {
                return Err(format!("bpls shows {} values of {}: {said}", shown.len(), expected.len()).into());
            }
            self.seen.bpls_checked += 1;
        }
        Ok(())
    }

    fn thalweg(&self, arguments: &[&str]) -> Outcome<()> {
        output(Command::new(&self.thalweg).args(arguments)).map(|_| ())
    }
}

/// Waits until no process is left that has `file` among its arguments: ranks outlive a launcher that was killed, and write on
/// until they notice.
fn gone(file: &Path) -> Outcome<()> {
    let wanted = file.as_os_str().as_encoded_bytes();
    let deadline = Instant::now() + Duration::from_secs(60);
    let lives = || -> Outcome<bool> {
        for entry in std::fs::read_dir("/proc")? {
            // A process that ended meanwhile has no command line.
            let words = std::fs::read(entry?.path().join("cmdline")).unwrap_or_default();
            if words.split(|byte| *byte == 0).any(|word| word == wanted) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    while lives()? {
        if Instant::now() > deadline {
            return Err("a rank did not end".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn output(command: &mut Command) -> Outcome<String> {
    let done = command.output()?;
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    if !done.status.success() {
        let words = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{command:?} ends with {}: {text}{words}", done.status).into());
    }
    Ok(text)
}

/// The values in what `bpls -d` prints: behind the indices in parentheses, line by line.
fn numbers(text: &str) -> Vec<f64> {
    let lines = text.lines().filter_map(|l| l.trim_start().strip_prefix('(')?.split_once(')'));
    lines
        .flat_map(|(_, values)| values.split_whitespace().filter_map(|v| v.parse().ok()).collect::<Vec<f64>>())
        .collect()
}

fn judge(arguments: &[String]) -> Outcome<()> {
    let split = arguments.iter().position(|a| a == "--").unwrap_or(arguments.len());
    let (own, foreign) = arguments.split_at(split);
    let [folder, kills, seed, thalweg, bpls @ ..] = own else {
        return Err("judge FOLDER KILLS SEED THALWEG [BPLS]".into());
    };
    let seed: u64 = seed.parse()?;
    let mut judge = Judge {
        folder: Path::new(folder).to_path_buf(),
        dice: Dice(seed),
        thalweg: thalweg.clone(),
        bpls: bpls.first().cloned(),
        foreign: foreign.iter().skip(1).cloned().collect(),
        seen: KillCounts::default(),
    };
    let done = judge.run(kills.parse()?);
    let s = &judge.seen;
    println!("seed {seed}: {s:?}");
    if done.is_ok() && s.kills >= 100 && [s.torn, s.step_records, s.lives_continued].contains(&0) {
        return Err("so many kills, and none met a torn output, a step record and an interrupted file".into());
    }
    if done.is_ok() && s.kills >= 100 && judge.foreign.is_empty() && s.in_background == 0 {
        return Err("so many kills, and none of a writer whose outputs end in the background".into());
    }
    done
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", config, file, first, ranks, ref rest @ ..] => match (first.parse(), ranks.parse()) {
            (Ok(first), Ok(ranks)) => {
                write(config, file, first, ranks, !rest.is_empty());
                Ok(())
            }
            _ => Err("FIRST and RANKS are numbers".into()),
        },
        ["judge", ..] => judge(&arguments[1..]),
        _ => Err("kill write ... or kill judge ...".into()),
    };
    if let Err(e) = done {
        eprintln!("kill: {e}");
        std::process::exit(1);
    }
}
