//! A file gets shorter under its reader: steps are dropped, and others may be written in their place. Who follows it is
//! told at once, whatever has grown again meanwhile.

use crate::writer::{Ending, File, check_steps, groups, holding, open};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;
use thalweg_layout::{Layout, OpenWrite, WriterId};
use thalweg_reader::{Follower, Next, Wait};
use thalweg_store::StoreExt;
use thalweg_types::ErrorKind;

const AT_ONCE: Wait = Wait { timeout: Some(Duration::ZERO), poll: Duration::from_millis(1) };

/// `steps` steps; those from `other` on hold other values.
fn file(steps: u32, other: u32, last: Ending) -> File {
    let mut file = File::default();
    for step in 0..steps {
        let mut groups = groups(step, 2);
        if step >= other {
            groups = crate::writer::groups(step + 100, 2);
            groups.iter_mut().for_each(|g| g.header = crate::writer::header("physics", step));
        }
        let ending = if step == 0 { Ending::Full } else { Ending::Record };
        file.step(&groups, if step + 1 == steps { last } else { ending });
    }
    file
}

/// Cuts the object off at a length and goes on with these bytes, in place, as a writer does.
fn rewrite(layout: &Arc<dyn Layout>, from: u64, bytes: &[u8]) {
    let object = layout.open_write("a.bp", OpenWrite::Existing, WriterId(0)).unwrap();
    object.truncate(from).unwrap();
    object.write_at(from, &[IoSlice::new(&bytes[from as usize..])]).unwrap();
}

#[test]
fn a_follower_is_told_at_once_that_steps_were_dropped_also_those_it_was_not_given_yet() {
    let before = file(6, 6, Ending::Record);
    for given in [2, 5] {
        let (_, layout) = holding(&[("a.bp", &before.bytes)]);
        let mut follower = Follower::open(layout.clone(), "a.bp", &AT_ONCE).unwrap();
        for step in 1..=given {
            assert_eq!(follower.advance(false, &AT_ONCE).unwrap(), Next::Step(step));
        }
        rewrite(&layout, before.closed[3], &before.bytes[..before.closed[3] as usize]);
        for to_last in [false, true] {
            let error = follower.advance(to_last, &Wait::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
            let text = error.to_string();
            assert!(
                text.contains("steps were dropped") && text.contains("a.bp") && text.contains("open it again"),
                "{text}"
            );
        }
        // What is there is found by whoever opens it.
        let again = Follower::open(layout, "a.bp", &AT_ONCE).unwrap();
        assert_eq!(again.last(), 3);
        check_steps(again.reader(), 4, 2);
    }
}

#[test]
fn steps_written_in_the_place_of_dropped_ones_are_not_taken_for_them() {
    let before = file(6, 6, Ending::Record);
    // As long as before, longer, closed by a full index, and with a step in flight.
    for (steps, last) in
        [(6, Ending::Record), (9, Ending::Record), (6, Ending::Full), (9, Ending::Finished), (7, Ending::Open)]
    {
        let after = file(steps, 4, last);
        let (_, layout) = holding(&[("a.bp", &before.bytes)]);
        let mut reader = open(&layout, "a.bp").unwrap();
        let mut follower = Follower::open(layout.clone(), "a.bp", &AT_ONCE).unwrap();
        rewrite(&layout, before.closed[3], &after.bytes);
        assert!(after.bytes.len() >= before.bytes.len() && after.bytes != before.bytes[..]);
        assert_eq!(reader.catch_up().unwrap_err().kind(), ErrorKind::NotFound, "{steps} steps, {last:?}");
        assert_eq!(
            follower.advance(false, &AT_ONCE).unwrap_err().kind(),
            ErrorKind::NotFound,
            "{steps} steps, {last:?}"
        );
    }
}

#[test]
fn an_index_that_drops_the_last_step_is_told_before_the_file_is_cut() {
    let before = file(3, 3, Ending::Full);
    let (memory, layout) = holding(&[("a.bp", &before.bytes)]);
    let mut reader = open(&layout, "a.bp").unwrap();
    let two = file(2, 2, Ending::Full);
    let mut bytes = before.bytes.clone();
    bytes.extend(two.index.encode(bytes.len() as u64, false, false).unwrap().to_bytes());
    memory.write_all("a.bp", &bytes).unwrap();
    assert_eq!(reader.catch_up().unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn an_end_whose_space_was_given_back_up_to_a_page_in_it_is_still_the_end() {
    let mut file = file(4, 4, Ending::Record);
    let (memory, layout) = holding(&[("a.bp", &file.bytes)]);
    let reader = open(&layout, "a.bp").unwrap();
    let end = file.bytes.len();
    file.step(&groups(4, 2), Ending::Finished);
    for left in [0, 1, 8, 30, 63] {
        let mut bytes = file.bytes.clone();
        bytes[end - 500..end - left].fill(0);
        memory.write_all("a.bp", &bytes).unwrap();
        let mut follows = reader.clone();
        assert!(follows.catch_up().unwrap(), "{left} bytes of it are left");
        assert!(follows.status().finished);
    }
}
