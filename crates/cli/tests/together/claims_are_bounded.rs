//! Numbers that a file claims cost no more than its bytes: billions of steps, arrays of which nearly nothing is there.

use crate::support::{Maker, Written, run_bounded};
use thalweg_bp::shape::Shape;
use thalweg_conformance::scratch::Scratch;
use thalweg_types::Value;

#[test]
fn steps_between_two_that_are_there_are_not_looked_at() {
    let folder = Scratch::new();
    let mut file = Maker::default();
    for step in [0, 4_000_000_000] {
        file.group(step, 0, 1, &[Written::scalar("n", &Value::U64(u64::from(step)))], &[]);
    }
    file.close(true);
    file.save(&folder.join("far.bp"));
    for (expression, code, found) in [
        ("step >= 0", 0, "2 of 2 steps can't be ruled out"),
        ("n > 5", 0, "1 of 2 steps can't be ruled out"),
        ("not n > 5", 0, "step 0"),
        ("step == 7", 1, "ruled out in all of 2 steps"),
    ] {
        let ran = run_bounded(folder.path(), &["find", "far.bp", expression]);
        assert_eq!(ran.code, code, "{expression}: {}{}", ran.out, ran.err);
        assert!(ran.out.contains(found), "{expression}: {}", ran.out);
    }
    for command in [&["ls", "far.bp"][..], &["ls", "-v", "far.bp"], &["dump", "far.bp", "n"], &["verify", "far.bp"]] {
        assert_eq!(run_bounded(folder.path(), command).code, 0, "{command:?}");
    }
}

#[test]
fn an_array_of_which_nearly_nothing_is_there_is_not_printed_unless_asked_for() {
    let folder = Scratch::new();
    let mut file = Maker::default();
    let huge = Shape::global([2, 2], [1 << 40, 1 << 20], [5, 7]);
    let large = Shape::global([2], [1 << 21], [3]);
    let small = Shape::global([2], [1000], [3]);
    let values = [Value::U8(1), Value::U8(2)];
    let blocks = [
        Written::array("huge", huge, &[&values[..], &values[..]].concat()),
        Written::array("large", large, &values),
        Written::array("small", small, &values),
    ];
    file.group(0, 0, 1, &blocks, &[]);
    file.close(true);
    file.save(&folder.join("a.bp"));
    for form in [&["dump", "a.bp"][..], &["dump", "a.bp", "--csv"], &["dump", "a.bp", "--npy", "x.npy"]] {
        let ran = run_bounded(folder.path(), &[form, &["huge"]].concat());
        assert_eq!((ran.code, ran.out.len()), (1, 0), "{form:?}: {}", ran.err);
        assert!(ran.err.contains("blocks cover 4 of the 1152921504606846976 elements"), "{}", ran.err);
        assert!(!folder.join("x.npy").exists());
    }
    assert_eq!(run_bounded(folder.path(), &["dump", "a.bp", "--json", "large"]).code, 1);
    let ran = run_bounded(folder.path(), &["dump", "a.bp", "huge[0, 5:7, 7:9]", "--csv"]);
    assert_eq!((ran.code, ran.out.lines().count()), (0, 5), "{}{}", ran.out, ran.err);
    assert_eq!(run_bounded(folder.path(), &["dump", "a.bp", "small"]).code, 0);
    let ran = run_bounded(folder.path(), &["dump", "a.bp", "large", "--fill", "--npy", "x.npy"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let bytes = std::fs::read(folder.join("x.npy")).unwrap();
    let values = &bytes[bytes.len() - (1 << 21)..];
    assert_eq!((&values[..6], values[6..].iter().all(|b| *b == 0)), (&[0, 0, 0, 1, 2, 0][..], true));
}
