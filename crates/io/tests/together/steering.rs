//! What is written, and how often, is changed from outside while ranks write: at the same output on all, without a message when nothing changes.

use crate::common::*;
use std::path::{Path, PathBuf};
use thalweg_comm::counting::{Counting, Snapshot};
use thalweg_comm::threads;
use thalweg_comm::{Communicator, Reduce};
use thalweg_control::{Change, Method as Chosen, Request, Stop, Verdict};
use thalweg_io::steering::files::{self, Watch};
use thalweg_io::{Mode, Session, Values, WriteRequest};
use thalweg_layout::WriteObject;
use thalweg_movement::method::{CloseRequest, Closed, Method, MethodKind, OpenRequest, Opened};
use thalweg_movement::pack::Reach;
use thalweg_reader::Reader;
use thalweg_types::{Error, ErrorKind, MemorySelection, Selection};

fn ask(control: &Path, id: &str, change: Change) {
    files::place(control, &Request { id: id.into(), change }.encode()).unwrap();
}

fn verdict(control: &Path, id: &str) -> Option<Verdict> {
    let seen = Watch::open(&files::run_file(control)).unwrap().unwrap().look().unwrap();
    assert!(seen.locked);
    seen.record.answers.into_iter().find(|answer| answer.id == id).map(|answer| answer.verdict)
}

/// A place, the control file of its outputs, and a document whose method has it and these parameters.
fn steered(folder: &tempfile::TempDir, parameters: &str) -> (Place, PathBuf, String) {
    let control = folder.path().join("control");
    let document = heat("MPI", &format!("control={}; {parameters}", control.display()));
    (Place::memory(), control, document)
}

/// What a rank sent for an output that nothing changes, and for one that is not wanted.
fn costs(method: &str, parameters: &str, control: Option<&Path>) -> Vec<[Snapshot; 2]> {
    let place = Place::memory();
    let steered = control.map(|path| format!("control={};{parameters}", path.display()));
    let document = heat(method, steered.as_deref().unwrap_or(parameters));
    threads::run(4, |own| {
        let comm = Counting::new(Box::new(own));
        let session = place.session(&document, &comm);
        for step in 0..2 {
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            write_heat(&session, "heat.bp", mode, &comm, step);
        }
        let before = comm.counts().snapshot();
        write_heat(&session, "heat.bp", Mode::Append, &comm, 2);
        let written = comm.counts().snapshot().since(&before);
        let mut passed_over = Snapshot::default();
        if let (0, Some(control)) = (comm.rank(), control) {
            ask(control, "thin", Change { every: Some(1000), ..Change::default() });
        }
        comm.barrier().unwrap();
        write_heat(&session, "heat.bp", Mode::Append, &comm, 3);
        if control.is_some() {
            let duplicate = comm.duplicate().unwrap();
            let before = comm.counts().snapshot();
            let mut output = session.open("heat", "heat.bp", Mode::Append, duplicate).unwrap();
            assert!(!output.is_wanted());
            output.write_values("NX", &[4i32]).unwrap();
            output.write_values("mine", &[1f32; 4]).unwrap();
            assert!(output.write_values("mine", &[1f32; 3]).is_err(), "mistakes are told all the same");
            output.close().unwrap();
            passed_over = comm.counts().snapshot().since(&before);
        }
        session.finalize().unwrap();
        // The methods' parameters, which differ, are in the file.
        [Snapshot { bytes_sent: 0, bytes_received: 0, bytes_put: 0, ..written }, passed_over]
    })
}

#[test]
fn outputs_that_nothing_changes_send_what_others_send_and_unwanted_ones_nothing() {
    for (method, parameters) in [("POSIX", ""), ("MPI", ""), ("MPI_AGGREGATE", "num_aggregators=2"), ("NULL", "")] {
        let folder = tempfile::tempdir().unwrap();
        let steered = costs(method, parameters, Some(&folder.path().join("control")));
        for (with, without) in steered.iter().zip(costs(method, parameters, None)) {
            assert_eq!(with[0], without[0], "{method}");
            assert_eq!(with[1], Snapshot::default(), "{method}");
        }
    }
}

#[test]
fn all_ranks_change_at_the_output_that_is_announced() {
    let folder = tempfile::tempdir().unwrap();
    let (place, control, document) = steered(&folder, "");
    let written = place.run(3, |comm| {
        let session = place.session(&document, &comm);
        let mut written = Vec::new();
        for step in 0..40u64 {
            if comm.rank() == 0 {
                match step {
                    3 => ask(&control, "a", Change { every: Some(10), ..Change::default() }),
                    15 => {
                        ask(&control, "b", Change { only: Some(Some(["nobody".into()].into())), ..Change::default() })
                    }
                    25 => ask(&control, "c", Change { every: Some(1), stop: Some(Stop::Now), ..Change::default() }),
                    _ => {}
                }
            }
            comm.barrier().unwrap();
            if session.wanted("heat", "heat.bp", step).unwrap() {
                let mode = if step == 0 { Mode::Write } else { Mode::Append };
                write_heat(&session, "heat.bp", mode, &comm, written.len() as u64);
                written.push(step);
            }
            let stops = u64::from(session.stop_requested());
            let all = comm.all_reduce(&[stops, 1 - stops], Reduce::Sum).unwrap();
            assert!(all.contains(&3), "step {step}");
            assert_eq!(stops == 1, step >= 30, "step {step}");
            if (comm.rank(), step) == (0, 39) {
                assert_eq!(verdict(&control, "a"), Some(Verdict::Accepted { output: 4, step: 4 }));
                assert!(matches!(verdict(&control, "b"), Some(Verdict::Refused(why)) if why.contains("\"nobody\"")));
                assert_eq!(verdict(&control, "c"), Some(Verdict::Accepted { output: 31, step: 7 }));
            }
        }
        session.finalize().unwrap();
        written
    });
    let expected: Vec<u64> = [0, 1, 2, 3, 10, 20, 30].into_iter().chain(31..40).collect();
    assert!(written.iter().all(|steps| *steps == expected), "{written:?}");
    let reader = Reader::open(place.layout.clone(), "heat.bp").unwrap();
    assert_eq!(reader.status().steps, expected.len() as u64);
    let record = reader.attribute("/thalweg/control/31").unwrap();
    assert!(
        format!("{:?}", record.value).contains(&format!("{:?}", b"step 7: every=1, stop=yes".to_vec())),
        "{record:?}"
    );
    assert!(!files::run_file(&control).exists() && !control.exists());
}

#[test]
fn the_output_after_an_open_that_failed_is_written_and_ranks_go_on_counting_alike() {
    let folder = tempfile::tempdir().unwrap();
    let (place, control, document) = steered(&folder, "");
    let written = place.run(3, |comm| {
        let session = place.session(&document, &comm);
        let mut written = Vec::new();
        for output in 0..45u64 {
            if (output, comm.rank()) == (1, 0) {
                ask(&control, "thin", Change { every: Some(10), ..Change::default() });
            }
            comm.barrier().unwrap();
            // The mistake of one rank, and of all.
            let group = if (output, comm.rank()) == (10, 1) || output == 30 { "nobody" } else { "heat" };
            let mode = if output == 0 { Mode::Write } else { Mode::Append };
            match session.open(group, "heat.bp", mode, comm.duplicate().unwrap()) {
                Err(_) => assert!([10, 30].contains(&output), "{output}"),
                Ok(opened) => {
                    if opened.is_wanted() {
                        written.push(output);
                    }
                    opened.close().unwrap();
                }
            }
        }
        session.finalize().unwrap();
        written
    });
    // The library does not count an output of a group that it doesn't know: the numbers are one behind from there on.
    assert!(written.iter().all(|outputs| *outputs == [0, 1, 11, 20, 31, 41]), "{written:?}");
}

#[test]
fn rules_change_what_is_written_at_the_same_output_on_all_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "when max(mine) > 20 for 2 steps: every=4, only=mine | when not finite(mine): stop";
    let (place, _, document) = steered(&folder, &format!("rules={rules}"));
    let told = place.run(3, |comm| {
        let session = place.session(&document, &comm);
        let (mut written, mut exchanges, mut stops) = (Vec::new(), Vec::new(), None);
        let comm = Counting::new(Box::new(comm));
        for output in 0..24u64 {
            let mode = if output == 0 { Mode::Write } else { Mode::Append };
            let before = comm.counts().snapshot();
            let mut opened = session.open("heat", "heat.bp", mode, comm.duplicate().unwrap()).unwrap();
            let calls = comm.counts().snapshot().since(&before).reductions;
            if opened.is_wanted() {
                written.push(output);
                exchanges.push(calls);
            }
            // One rank alone has the large value, another one each time.
            let hot = (3..8).contains(&output) && u64::from(comm.rank()) == output % 3;
            let value = if hot { 21.0 } else { 1.0 };
            let value = if output == 12 && comm.rank() == 2 { f32::NAN } else { value };
            opened.write_values("NX", &[4i32]).unwrap();
            opened.write_values("mine", &[1.0, 2.0, value, 3.0f32]).unwrap();
            opened.close().unwrap();
            if stops.is_none() && session.stop_requested() {
                stops = Some(output);
            }
        }
        session.finalize().unwrap();
        (written, exchanges, stops)
    });
    // Large from output 3 on, known at the open of output 5, in force from output 6 on.
    let expected: Vec<u64> = (0..6).chain([8, 12, 16, 20]).collect();
    for (written, exchanges, stops) in &told {
        assert_eq!(*written, expected);
        assert_eq!(*stops, Some(16), "the output after that with the value");
        let least = exchanges.iter().min().unwrap();
        // At the opens behind outputs in which a rank saw something else than before: the first values, in 0; another rank each time, in
        // 3, 4 and 5; small again, in 8; no number, in 12; numbers again, in 16.
        let more: Vec<u64> =
            written.iter().zip(exchanges).filter(|(_, calls)| *calls > least).map(|(output, _)| *output).collect();
        assert_eq!(more, [1, 4, 5, 8, 12, 16, 20], "{exchanges:?}");
    }
    let reader = Reader::open(place.layout.clone(), "heat.bp").unwrap();
    let record = reader.attribute("/thalweg/control/6").unwrap();
    let words = "step 6: every=4, only=/local/mine (rule: when max(mine) > 20 for 2 steps: every=4, only=mine)";
    assert!(format!("{:?}", record.value).contains(&format!("{:?}", words.as_bytes())), "{record:?}");
}

#[test]
fn mistakes_in_rules_fail_the_open_on_all_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::memory();
    let own = |rules: &str, control: bool, rank: u32, other: &str| {
        let rules = if rank == 1 { other } else { rules };
        match control {
            true => heat("MPI", &format!("control={};rules={rules}", folder.path().join("c").display())),
            false => heat("MPI", &format!("rules={rules}")),
        }
    };
    let right = "when max(mine) > 1: stop";
    for (rules, control, other, why) in [
        ("when max(his) > 1: stop", true, "when max(his) > 1: stop", "no variable \"his\""),
        (right, false, right, "rules need control=yes"),
        (right, true, "when max(mine) > 2: stop", "different rules"),
        (right, true, "when max(his) > 2: stop", "his"),
    ] {
        let told = place.run(3, |comm| {
            let session = place.session(&own(rules, control, comm.rank(), other), &comm);
            session.open("heat", "heat.bp", Mode::Write, comm.duplicate().unwrap()).err().unwrap()
        });
        assert!(told.iter().all(|e| e.kind() == ErrorKind::Config), "{rules}: {told:?}");
        assert!(told[1].to_string().contains(why), "{rules}: {told:?}");
    }
}

fn method(text: &str) -> Change {
    let method = (text != "declared").then(|| text.parse::<Chosen>().unwrap());
    Change { method: Some(method), ..Change::default() }
}

/// Writes outputs on 3 ranks and asks for these changes before some of them. Returns what readers find, and rank 0's answers.
fn changed_while_it_writes(
    document: &str,
    place: &Place,
    control: &Path,
    outputs: u64,
    asks: &[(u64, Change)],
) -> Vec<Verdict> {
    let answers = place.run(3, |comm| {
        let session = place.session(document, &comm);
        for step in 0..outputs {
            if let (0, Some((_, change))) = (comm.rank(), asks.iter().find(|(at, _)| *at == step)) {
                ask(control, &step.to_string(), change.clone());
            }
            comm.barrier().unwrap();
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            write_heat(&session, "heat.bp", mode, &comm, step);
        }
        let answer = |(at, _): &(u64, Change)| verdict(control, &at.to_string()).unwrap();
        let answers = if comm.rank() == 0 { asks.iter().map(answer).collect() } else { Vec::new() };
        session.finalize().unwrap();
        answers
    });
    answers.into_iter().next().unwrap()
}

/// A method that fails on all ranks when it opens.
struct Broken;

const BROKEN: MethodKind = MethodKind {
    names: &["BROKEN"],
    id: 252,
    about: "opens nothing",
    parameters: &[],
    least: 0,
    tried: &[],
    make: |_| Ok(Box::new(Broken)),
};

impl Method for Broken {
    fn name(&self) -> &'static str {
        "BROKEN"
    }

    fn open(&mut self, request: &OpenRequest<'_>) -> thalweg_types::Result<Opened> {
        let own = match request.comm.rank() {
            1 => Err(Error::new(ErrorKind::NoSpace, "nowhere to write")),
            _ => Ok(()),
        };
        thalweg_comm::agreement::agree(request.comm, own, "open nothing", &[])?;
        unreachable!()
    }

    fn through(&mut self, _: &Reach) -> thalweg_types::Result<(&dyn WriteObject, u64)> {
        unreachable!()
    }

    fn close(&mut self, _: CloseRequest<'_, '_>) -> thalweg_types::Result<Closed> {
        unreachable!()
    }
}

/// Whether the methods that a text names write subfiles.
fn subfiles(text: &str) -> Option<bool> {
    let Chosen { name, parameters } = text.parse().unwrap();
    let choice = thalweg_schema::MethodChoice { parameters, ..thalweg_schema::MethodChoice::new("heat", name) };
    thalweg_io::registry::make(&choice).unwrap().1.subfiles()
}

/// What a file of 8 outputs holds, on 3 ranks, if these methods are asked for before these outputs.
fn written_by(declared: &str, asks: &[(u64, Change)]) -> Contents {
    let folder = tempfile::tempdir().unwrap();
    let control = folder.path().join("control");
    let (place, document) = (Place::memory(), heat(declared, &format!("control={}", control.display())));
    let answers = changed_while_it_writes(&document, &place, &control, 8, asks);
    for ((at, change), answer) in asks.iter().zip(answers) {
        assert_eq!(answer, Verdict::Accepted { output: at + 1, step: at + 1 }, "{declared}: {change}");
    }
    let reader = Reader::open(place.layout.clone(), "heat.bp").unwrap();
    assert_eq!(Some(reader.status().subfiles), subfiles(declared), "{declared}");
    for (at, change) in asks {
        let record = reader.attribute(&format!("/thalweg/control/{}", at + 1)).unwrap();
        let words = format!("step {}: {change}", at + 1);
        assert!(format!("{:?}", record.value).contains(&format!("{:?}", words.as_bytes())), "{record:?}");
    }
    contents(&place.layout, "heat.bp").unwrap()
}

#[test]
fn the_method_changes_while_the_run_writes_and_no_reader_notices() {
    let every = thalweg_io::registry::that_write_by_themselves().map(|kind| kind.names[0].to_string());
    let more = ["MPI_AGGREGATE;num_aggregators=2", "MPI;async=yes", "POSIX;async=yes"].map(String::from);
    let texts: Vec<String> = every.chain(more).collect();
    let expected = written_by("MPI", &[]);
    for (declared, other) in [("MPI", "MPI_COLLECTIVE"), ("POSIX", "MPI_SCHEDULED"), ("ADAPTIVE", "POSIX")] {
        for text in texts.iter().filter(|text| subfiles(text) == subfiles(declared)) {
            let found = written_by(declared, &[(1, method(text)), (4, method("declared"))]);
            assert!(found == expected, "{declared}, then {text}, then {declared}");
            let found = written_by(declared, &[(1, method(text)), (3, method(other)), (5, method(text))]);
            assert!(found == expected, "{text}, then {other}, then {text}");
        }
    }
}

#[test]
fn a_file_is_not_continued_where_its_data_are_not() {
    let texts: Vec<&str> = thalweg_io::registry::that_write_by_themselves().map(|kind| kind.names[0]).collect();
    for first in ["MPI", "POSIX"] {
        for second in texts.iter().filter(|second| subfiles(second) != subfiles(first)) {
            let folder = tempfile::tempdir().unwrap();
            let control = folder.path().join("control");
            let (place, document) = (Place::memory(), heat(first, &format!("control={}", control.display())));
            let answers = changed_while_it_writes(&document, &place, &control, 3, &[(1, method(second))]);
            assert!(
                matches!(&answers[0], Verdict::Refused(said) if said.contains("a file cannot have both")),
                "{answers:?}"
            );
            // Two sessions of a process that dies between them, or one session with two groups: the index is not complete yet.
            for same_session in [false, true] {
                let place = Place::memory();
                let refused = place.run(3, |comm| {
                    let both = heat(first, "").replace(
                        "</adios-config>",
                        &format!(
                            r#"<adios-group name="other"><var name="n" type="integer"/></adios-group><method group="other" method="{second}"/></adios-config>"#
                        ),
                    );
                    let session = place.session(&both, &comm);
                    write_heat(&session, "heat.bp", Mode::Write, &comm, 0);
                    let kept = if same_session {
                        session
                    } else {
                        std::mem::forget(session);
                        place.session(&both, &comm)
                    };
                    let opened = kept.open("other", "heat.bp", Mode::Append, comm.duplicate().unwrap());
                    let refused = opened.err().unwrap_or_else(|| panic!("{second} continues a file of {first}"));
                    if same_session {
                        write_heat(&kept, "heat.bp", Mode::Append, &comm, 1);
                    }
                    refused
                });
                assert!(refused.iter().all(|e| e.kind() == ErrorKind::Unsupported), "{first}, {second}: {refused:?}");
                assert!(refused[0].to_string().contains("append with a method that does the same"), "{}", refused[0]);
                let steps = if same_session { 2 } else { 1 };
                let expected = before(&written_by(first, &[]), steps);
                assert!(contents(&place.layout, "heat.bp").unwrap() == expected, "{first}, {second}");
            }
        }
    }
}

#[test]
fn a_method_that_is_unknown_is_refused_and_one_that_cannot_open_is_left_again() {
    static KIND: MethodKind = BROKEN;
    thalweg_io::registry::add(&KIND).unwrap();
    for (text, why) in [
        ("POSXI", "nearest known name: \"POSIX\""),
        ("MPI;aggregators=2", "unknown parameter of method MPI"),
        ("MPI;sync=perhaps", "sync"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (place, control, document) = steered(&folder, "");
        let answers = changed_while_it_writes(&document, &place, &control, 3, &[(1, method(text))]);
        assert!(matches!(&answers[0], Verdict::Refused(said) if said.contains(why)), "{text}: {answers:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let (place, control, document) = steered(&folder, "");
    let thin = Change { only: Some(None), ..Change::default() };
    let asks = [(1, method("BROKEN")), (2, thin), (4, method("MPI_COLLECTIVE"))];
    let answers = changed_while_it_writes(&document, &place, &control, 7, &asks);
    assert!(answers.iter().all(|answer| matches!(answer, Verdict::Accepted { .. })), "{answers:?}");
    let reader = Reader::open(place.layout.clone(), "heat.bp").unwrap();
    assert_eq!(reader.status().steps, 7);
    for (output, words) in [
        (2, "step 2: method=BROKEN; method=declared (BROKEN failed)"),
        (3, "step 3: only=all"),
        (5, "step 5: method=MPI_COLLECTIVE"),
    ] {
        on_record(&reader, output, words);
    }
    // Who asks again has perhaps started a server since: it is tried again.
    let folder = tempfile::tempdir().unwrap();
    let (place, control, document) = steered(&folder, "");
    changed_while_it_writes(&document, &place, &control, 6, &[(1, method("BROKEN")), (3, method("BROKEN"))]);
    let reader = Reader::open(place.layout.clone(), "heat.bp").unwrap();
    for output in [2, 4] {
        on_record(&reader, output, &format!("step {output}: method=BROKEN; method=declared (BROKEN failed)"));
    }
    // Another method and another box come with the output whose method fails: they hold from the next one on. Also in the background.
    for parameters in ["", "async=yes"] {
        let folder = tempfile::tempdir().unwrap();
        let (place, control, document) = steered(&folder, parameters);
        let only = |change: Change| Change { only: Some(Some(["t".to_string()].into())), ..change };
        let asks = [(1, method("BROKEN")), (2, only(method("MPI_COLLECTIVE")))];
        let answers = changed_while_it_writes(&document, &place, &control, 6, &asks);
        assert_eq!(answers[1], Verdict::Accepted { output: 3, step: 3 });
        let reader = Reader::open(place.layout.clone(), "heat.bp").unwrap();
        on_record(&reader, 3, "step 3: only=t, method=MPI_COLLECTIVE");
        assert_eq!(reader.variable("/local/mine").unwrap().steps, [0, 1, 2], "{parameters}");
        assert_eq!(reader.variable("t").unwrap().steps, [0, 1, 2, 3, 4, 5], "{parameters}");
    }
}

/// An output has this change on record.
fn on_record(reader: &Reader, output: u64, words: &str) {
    let record = reader.attribute(&format!("/thalweg/control/{output}")).unwrap();
    assert!(format!("{:?}", record.value).contains(&format!("{:?}", words.as_bytes())), "{output}: {record:?}");
}

#[test]
fn the_method_with_control_is_replaced_and_other_groups_keep_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let (place, control, document) = steered(&folder, "");
    let own = format!("control={}", control.display());
    ["a", "b"].iter().for_each(|folder| place.layout.make_folder(folder).unwrap());
    let document = document.replace("<method group=\"heat\" method=\"MPI\">", "<method group=\"heat\" method=\"POSIX\" base-path=\"a/\">control=no</method><method group=\"heat\" method=\"MPI\" base-path=\"b/\">");
    let restart = format!(
        "<adios-group name=\"restart\"><var name=\"n\" type=\"integer\"/></adios-group><method group=\"restart\" method=\"POSIX\">{own}</method></adios-config>"
    );
    let document = document.replace("</adios-config>", &restart);
    place.run(3, |comm| {
        let session = place.session(&document, &comm);
        for step in 0..6u64 {
            if (comm.rank(), step) == (0, 1) {
                ask(&control, "other", method("MPI_COLLECTIVE"));
            }
            comm.barrier().unwrap();
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            write_heat(&session, "heat.bp", mode, &comm, step);
            let mut output = session.open("restart", "restart.bp", mode, comm.duplicate().unwrap()).unwrap();
            output.write_values("n", &[step as i32]).unwrap();
            output.close().unwrap();
        }
        if comm.rank() == 0 {
            assert!(matches!(verdict(&control, "other"), Some(Verdict::Accepted { .. })));
        }
        session.finalize().unwrap();
    });
    let expected = written_by("MPI", &[]);
    for file in ["a/heat.bp", "b/heat.bp"] {
        assert!(contents(&place.layout, file).unwrap() == before(&expected, 6), "{file}");
    }
    assert_eq!(Reader::open(place.layout.clone(), "restart.bp").unwrap().status().steps, 6);
}

#[test]
fn an_attribute_has_its_last_value_whichever_methods_wrote_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let control = folder.path().join("control");
    let place = Place::memory();
    let document = format!(
        r#"<adios-config host-language="C"><adios-group name="g"><var name="n" type="integer"/><attribute name="phase" path="/" var="n"/></adios-group>
           <method group="g" method="MPI">control={}</method></adios-config>"#,
        control.display()
    );
    place.run(2, |comm| {
        let session = place.session(&document, &comm);
        for (step, n) in [1, 1, 2, 1i32].into_iter().enumerate() {
            match (comm.rank(), step) {
                (0, 1) => ask(&control, "a", method("MPI_COLLECTIVE")),
                (0, 2) => ask(&control, "b", method("declared")),
                _ => {}
            }
            comm.barrier().unwrap();
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
            output.write_values("n", &[n]).unwrap();
            output.close().unwrap();
        }
        session.finalize().unwrap();
    });
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    let phase = format!("{:?}", reader.attribute("/phase").unwrap().value);
    assert!(phase.contains("I32(1)"), "{phase}");
}

#[test]
fn a_program_is_asked_to_stop_once_it_has_written_a_restart_output() {
    let folder = tempfile::tempdir().unwrap();
    let (place, control, document) = steered(&folder, "");
    let document = document.replace(
        "<method",
        "<adios-group name=\"restart\"><var name=\"n\" type=\"integer\"/></adios-group><method group=\"restart\" method=\"MPI\"/><method",
    );
    let stops = place.run(3, |comm| {
        let session = place.session(&document, &comm);
        let mut stops = Vec::new();
        for step in 0..12u64 {
            let awaited = |group: &str| Change { stop: Some(Stop::After(group.into())), ..Change::default() };
            match (comm.rank(), step) {
                (0, 2) => ask(&control, "unknown", awaited("restat")),
                (0, 3) => ask(&control, "stop", awaited("restart")),
                _ => {}
            }
            comm.barrier().unwrap();
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            write_heat(&session, "heat.bp", mode, &comm, step);
            if step % 5 == 2 {
                let mut output = session.open("restart", "restart.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
                output.write_values("n", &[step as i32]).unwrap();
                output.close().unwrap();
            }
            stops.push(session.stop_requested());
            if (comm.rank(), step) == (0, 5) {
                let seen = Watch::open(&files::run_file(&control)).unwrap().unwrap().look().unwrap();
                assert_eq!(seen.record.settings.stop, Some(Stop::After("restart".into())));
                let refused = verdict(&control, "unknown");
                assert!(matches!(refused, Some(Verdict::Refused(why)) if why.contains("did you mean \"restart\"?")));
            }
        }
        session.finalize().unwrap();
        stops
    });
    let expected: Vec<bool> = (0..12).map(|step| step >= 7).collect();
    assert!(stops.iter().all(|of_rank| *of_rank == expected), "{stops:?}");
}

#[test]
fn rules_lie_in_a_file_change_the_method_and_tell_of_time() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("heat.rules");
    let text = "# health\nwhen max(NX) >= 4: method=MPI_COLLECTIVE;aggregators=2, warn\nwhen no output for 3s: every=2\nwhen drift(NX) > 0: stop\n";
    std::fs::write(&rules, text).unwrap();
    let (place, _, document) = steered(&folder, &format!("rules={}", rules.display()));
    let written = place.run(3, |comm| {
        let session = place.session(&document, &comm);
        let mut written = Vec::new();
        for step in 0..9u64 {
            if (comm.rank(), step) == (2, 4) {
                std::thread::sleep(std::time::Duration::from_millis(3300));
            }
            if session.wanted("heat", "heat.bp", step).unwrap() {
                let mode = if step == 0 { Mode::Write } else { Mode::Append };
                write_heat(&session, "heat.bp", mode, &comm, written.len() as u64);
                written.push(step);
            }
        }
        assert!(!session.stop_requested());
        session.finalize().unwrap();
        written
    });
    assert!(written.iter().all(|steps| *steps == [0, 1, 2, 3, 4, 6, 8]), "{written:?}");
    let reader = Reader::open(place.layout.clone(), "heat.bp").unwrap();
    assert_eq!(reader.status().steps, 7);
    let record = format!("{:?}", reader.attribute("/thalweg/control/2").unwrap().value);
    let words =
        "method=MPI_COLLECTIVE;aggregators=2 (rule: when max(NX) >= 4: method=MPI_COLLECTIVE;aggregators=2, warn)";
    let bytes = |words: &str| format!("{:?}", words.as_bytes()).trim_matches(['[', ']']).to_string();
    assert!(record.contains(&bytes(words)), "{record}");
    let refused = || {
        let open = |comm: threads::ThreadCommunicator| {
            let session = place.session(&document, &comm);
            session.open("heat", "heat.bp", Mode::Write, comm.duplicate().unwrap()).err().unwrap()
        };
        place.run(1, open).remove(0)
    };
    for (text, why) in
        [("when max(NX) > 1: method=NOBODY", "NOBODY"), ("when max(NX) > 1: method=MPI;owners=3", "owners")]
    {
        std::fs::write(&rules, text).unwrap();
        let e = refused();
        assert!(e.kind() == ErrorKind::Config && e.to_string().contains(why), "{e}");
    }
    std::fs::remove_file(&rules).unwrap();
    let e = refused();
    assert!(e.kind() == ErrorKind::NotFound && e.to_string().contains("heat.rules"), "{e}");
}

/// Blocks of 4 rows and 6 columns in an array of 4 x 18, on 3 ranks.
fn block(language: &str, rank: u64) -> (Vec<u64>, Vec<u64>, Vec<u64>) {
    let mut block = (vec![4, 6], vec![4, 18], vec![0, 6 * rank]);
    if language == "Fortran" {
        [&mut block.0, &mut block.1, &mut block.2].into_iter().for_each(|list| list.reverse());
    }
    block
}

fn put(session: &Session, language: &str, how: &str, step: u64, comm: &dyn Communicator) {
    let mode = if step == 0 { Mode::Write } else { Mode::Append };
    let (count, shape, offset) = block(language, u64::from(comm.rank()));
    // The value of an element is its row and column.
    let value = |row: u64, column: u64| (100 * row + column + 6 * u64::from(comm.rank())) as f64;
    let values: Vec<f64> = (0..4).flat_map(|row| (0..6).map(move |column| value(row, column))).collect();
    // With a margin of 2 on each side; as Fortran has its last dimension slowest, the memory is the same.
    let ghosts: Vec<f64> = (0..8 * 10)
        .map(|i| (i / 10, i % 10))
        .map(|(row, column)| match (2..6).contains(&row) && (2..8).contains(&column) {
            true => value(row - 2, column - 2),
            false => f64::NAN,
        })
        .collect();
    let memory = match language {
        "Fortran" => MemorySelection::new([10, 8], [2, 2]),
        _ => MemorySelection::new([8, 10], [2, 2]),
    };
    let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
    let place = thalweg_io::BlockBox { count, shape: Some(shape), offset: Some(offset) };
    let values = bytemuck::cast_slice(&values);
    let ghosts = bytemuck::cast_slice(&ghosts);
    let request = match how {
        "copied" => WriteRequest::new("v", values).in_box(place),
        "deferred" => WriteRequest::deferred("v", values).in_box(place),
        "ghosts" => WriteRequest::new("v", ghosts).in_box(place).out_of(&memory),
        _ => WriteRequest {
            values: Values::Deferred(ghosts),
            ..WriteRequest::new("v", &[]).in_box(place).out_of(&memory)
        },
    };
    output.put(request).unwrap();
    output.close().unwrap();
}

#[test]
fn a_box_cuts_blocks_wherever_their_values_are() {
    for language in ["C", "Fortran"] {
        for how in ["copied", "deferred", "ghosts", "deferred ghosts"] {
            let folder = tempfile::tempdir().unwrap();
            let control = folder.path().join("control");
            let place = Place::memory();
            let bounds = if language == "C" { "4,18" } else { "18,4" };
            let document = format!(
                r#"<adios-config host-language="{language}"><adios-group name="g"><global-bounds dimensions="{bounds}" offsets="0,0">
                   <var name="v" type="double" dimensions="{bounds}"/></global-bounds></adios-group>
                   <method group="g" method="MPI">control={}</method></adios-config>"#,
                control.display()
            );
            place.run(3, |comm| {
                let session = place.session(&document, &comm);
                put(&session, language, how, 0, &comm);
                if comm.rank() == 0 {
                    let region = Some(Some("1:3,4:8".parse().unwrap()));
                    ask(&control, "box", Change { region, ..Change::default() });
                }
                comm.barrier().unwrap();
                put(&session, language, how, 1, &comm);
                put(&session, language, how, 2, &comm);
                session.finalize().unwrap();
            });
            let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
            let whole: Vec<f64> =
                (0..4).flat_map(|row| (0..18).map(move |column| f64::from(100 * row + column))).collect();
            for step in 0..2 {
                assert_eq!(reader.read_as::<f64>("v", step, &Selection::All).unwrap(), whole, "{language} {how}");
            }
            let blocks = reader.blocks("v", 2).unwrap();
            let facts: Vec<u64> = blocks.iter().map(|b| b.count.iter().product()).collect();
            assert_eq!(facts, [2 * 2, 2 * 2], "{language} {how}: the third rank writes nothing");
            let mut cut = vec![-1.0; whole.len()];
            reader.read("v", 2, &Selection::All, bytemuck::cast_slice_mut(&mut cut)).unwrap();
            for (i, (cut, whole)) in cut.iter().zip(&whole).enumerate() {
                let inside = (1..3).contains(&(i / 18)) && (4..8).contains(&(i % 18));
                assert_eq!(*cut, if inside { *whole } else { -1.0 }, "{language} {how} {i}");
            }
        }
    }
}
