//! Control files and run files: what is written is read back, and no bytes from outside do harm.

use proptest::prelude::*;
use thalweg_control::{Answer, Change, Method, Record, Region, Request, Stop, Verdict};

fn change() -> impl Strategy<Value = Change> {
    let names = prop::collection::btree_set(any::<String>(), 1..4);
    let region = prop::collection::vec((0u64..100, 1u64..100), 1..4).prop_map(|ranges| {
        let text: Vec<String> = ranges.iter().map(|(from, n)| format!("{from}:{}", from + n)).collect();
        text.join(",").parse::<Region>().unwrap()
    });
    let (every, only) = (prop::option::of(1u64..), prop::option::of(prop::option::of(names)));
    let stop = prop_oneof![Just(Stop::No), Just(Stop::Now), ".{1,9}".prop_map(Stop::After)];
    let method = ("[A-Z_]{1,9}", prop::collection::vec(("[a-z_]{1,9}", "[a-z/=0-9]{0,9}"), 0..3))
        .prop_map(|(name, parameters)| Method { name, parameters });
    let region = prop::option::of(prop::option::of(region));
    (every, only, region, prop::option::of(stop), prop::option::of(prop::option::of(method)))
        .prop_map(|(every, only, region, stop, method)| Change { every, only, region, stop, method })
}

proptest! {
    #[test]
    fn a_request_is_read_back(id in "[a-z0-9]{1,9}", change in change()) {
        let request = Request { id, change };
        prop_assert_eq!(Request::parse(request.encode().as_bytes()).unwrap(), request);
    }

    #[test]
    fn a_run_is_read_back_whole_or_not_at_all(
        host in "[a-z]{1,9}", pid: u32, since: u64, settings in change(), why in any::<String>(), output: u64, cut in 0usize..400,
    ) {
        let verdicts = [Verdict::Refused(why.clone()), Verdict::Accepted { output, step: since }];
        for answers in [0, 1, 2] {
            let answer = |verdict: &Verdict| Answer { id: "a b".into(), verdict: verdict.clone() };
            let answers = verdicts[..answers].iter().map(answer).collect();
            let record = Record { host: host.clone(), pid, settings: settings.clone(), since, answers };
            let (old, new) = (record.encode(7), record.encode(8));
            prop_assert_eq!(Record::parse(new.as_bytes()).unwrap(), Some(record));
            // The beginning of the new one is over the old one.
            let cut = new.len().min(cut);
            let mixed = [&new.as_bytes()[..cut], &old.as_bytes()[cut..]].concat();
            if mixed != new.as_bytes() && mixed != old.as_bytes() {
                prop_assert!(!matches!(Record::parse(&mixed), Ok(Some(_))));
            }
        }
    }

    #[test]
    fn bytes_from_outside_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), lines in ".{0,200}") {
        let _ = (Request::parse(&bytes), Record::parse(&bytes), Request::id_of(&bytes));
        let text = format!("thalweg control 1\nid x\n{lines}");
        let _ = (Request::parse(text.as_bytes()), Record::parse(format!("thalweg run 1\n{lines}").as_bytes()));
    }
}

#[test]
fn unknown_lines_and_other_files_are_refused() {
    for text in [
        "",
        "every 1\n",
        "thalweg control 2\nevery 1\n",
        "thalweg control 1\nevery 0\n",
        "thalweg control 1\nfrobnicate\n",
        "thalweg control 1\nstop-after \n",
        "thalweg control 1\nmethod ;owners=2\n",
    ] {
        assert!(Request::parse(text.as_bytes()).is_err(), "{text:?}");
    }
    assert_eq!(Request::id_of(b"thalweg control 1\nid 7\nevery 0\n").as_deref(), Some("7"));
}
