//! What `dump` prints.

use crate::support::{Ran, printed, river, run, run_in};
use thalweg_conformance::scratch::Scratch;

fn dump(arguments: &[&str]) -> Ran {
    let folder = Scratch::new();
    river().save(&folder.join("river.bp"));
    run_in(folder.path(), &[&["dump", "river.bp"], arguments].concat())
}

fn dumped(arguments: &[&str]) -> String {
    let ran = dump(arguments);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{arguments:?}");
    ran.out
}

#[test]
fn tables_are_as_reviewed() {
    insta::assert_snapshot!("dump_arrays", dumped(&["T[1:]", "T[-1, 1:3, -1]", "c", "piece"]));
    insta::assert_snapshot!("dump_scalars", dumped(&["time", "label", "exact", "sometimes"]));
    insta::assert_snapshot!("dump_planes", printed(&["dump", "adios1-types.bp", "i16_3d[0]", "i8_0d", "f32_1d"]));
    insta::assert_snapshot!("dump_seven_dimensions", printed(&["dump", "adios1-types.bp", "f64_4d[1, :, 0, :, 1:3]"]));
}

#[test]
fn csv_is_as_reviewed() {
    insta::assert_snapshot!("csv_array", dumped(&["--csv", "T[0:2, 1]"]));
    insta::assert_snapshot!("csv_scalars", dumped(&["--csv", "time", "label", "sometimes"]));
    insta::assert_snapshot!("csv_complex_beside_bare", dumped(&["--csv", "c", "bare"]));
    insta::assert_snapshot!("csv_local", dumped(&["--csv", "piece[1:]"]));
}

#[test]
fn json_is_one_document() {
    let json: serde_json::Value =
        serde_json::from_str(&dumped(&["--json", "T[2, :2]", "label[0]", "c[0]", "piece[2,1,-2:]"])).unwrap();
    let parts = |i: usize| &json["variables"][i]["parts"][0];
    assert_eq!(parts(0)["values"], serde_json::json!([2.0, 2.25, "NaN", 2.5, -0.125, 1e-9]));
    assert_eq!((&parts(0)["offset"], &parts(0)["count"]), (&serde_json::json!([0, 0]), &serde_json::json!([2, 3])));
    assert_eq!(parts(1)["value"], "step, \"0\"");
    assert_eq!(parts(2)["values"], serde_json::json!([[0.0, -4.0], [0.3, -4.0]]));
    assert_eq!(parts(3)["values"], serde_json::json!([0, 1]));
}

#[test]
fn what_is_not_there_is_named_and_ends_with_1() {
    for (slice, what) in [
        ("T[3]", "'T': no step 3; the file has 3 steps"),
        ("T[0, 4]", "'T': no index 4 in dimension 0; the shape in step 0 is {4, 3}"),
        ("T[0, -5]", "'T': no index -5 in dimension 0; the shape in step 0 is {4, 3}"),
        ("T[0, 0, 0, 0]", "'T' has steps and 2 dimensions; the slice has 4 indices"),
        ("time[0, 0]", "'time' is a scalar: it has steps alone; the slice has 2 indices"),
        ("piece[0, 2]", "'piece' has 2 blocks in step 0, no block 2"),
        ("sometimes[1]", "'sometimes' is not in step 1; it is in 0, 2"),
        ("tme", "no variable 'tme'; the nearest is 'time'"),
    ] {
        let ran = dump(&[slice]);
        assert_eq!((ran.code, ran.err.as_str()), (1, format!("thalweg: {what}\n").as_str()));
    }
    let ran = dump(&["--csv", "T", "c"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("'T', 'c' have different shapes"), "{}", ran.err);
}

#[test]
fn a_file_that_is_not_there_ends_with_3() {
    let ran = run(&["dump", "missing.bp", "T"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (3, "thalweg: cannot open 'missing.bp': No such file or directory (os error 2)\n")
    );
    let ran = run(&["ls", "make.sh"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    let ran = run(&["ls", "."]);
    assert_eq!((ran.code, ran.err.contains("is a folder")), (3, true), "{}", ran.err);
}

/// Shape and values of a NumPy file of doubles.
fn npy(bytes: &[u8]) -> (String, Vec<f64>) {
    let front = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = String::from_utf8_lossy(&bytes[10..front]).trim().to_string();
    (header, bytes[front..].chunks_exact(8).map(|b| f64::from_ne_bytes(b.try_into().unwrap())).collect())
}

#[test]
fn numpy_files_hold_steps_then_dimensions() {
    let folder = Scratch::new();
    river().save(&folder.join("river.bp"));
    let write = |slice: &str| {
        let ran = run_in(folder.path(), &["dump", "river.bp", slice, "--npy", "a.npy"]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        npy(&std::fs::read(folder.join("a.npy")).unwrap())
    };
    let (header, values) = write("T[1:, 2, :2]");
    assert!(header.contains("'shape': (2, 2), "), "{header}");
    assert_eq!(values, [1.1, 1.35, 2.1, 2.35]);
    let (header, values) = write("time");
    assert!(header.contains("'shape': (3,), "), "{header}");
    assert_eq!(values, [0.0, 0.5, 1.0]);
    let (header, values) = write("T[0, 3, 0]");
    assert!(header.contains("'shape': (), "), "{header}");
    assert_eq!(values, [0.6]);

    // A failure leaves the file of before.
    for (slice, what) in [("label", "is text"), ("piece[1:, 1]", "differs in shape between steps 1 and 2")] {
        let ran = run_in(folder.path(), &["dump", "river.bp", slice, "--npy", "a.npy"]);
        assert_eq!(ran.code, 1);
        assert!(ran.err.contains(what), "{}", ran.err);
    }
    assert_eq!(npy(&std::fs::read(folder.join("a.npy")).unwrap()).1, [0.6]);
    let ran = run_in(folder.path(), &["dump", "river.bp", "time", "--npy", "no/folder/a.npy"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("cannot write 'no/folder/a.npy'"), "{}", ran.err);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "something was left behind");
}

#[test]
fn strides_choose_every_nth_of_everything() {
    let values = |slice: &str| -> Vec<serde_json::Value> {
        let json: serde_json::Value = serde_json::from_str(&dumped(&["--json", slice])).unwrap();
        json["variables"][0]["parts"].as_array().unwrap().clone()
    };
    let of = |part: &serde_json::Value| (part["step"].clone(), part["values"].clone());
    let json = |step: u64, values: serde_json::Value| (step.into(), values);
    let all = values("T[::2, ::3, 1::2]");
    assert_eq!(of(&all[0]), json(0, serde_json::json!([0.25, -0.125])));
    assert_eq!(of(&all[1]), json(2, serde_json::json!([2.25, -0.125])));
    assert_eq!((&all[0]["offset"], &all[0]["count"]), (&serde_json::json!([0, 1]), &serde_json::json!([2, 1])));
    assert_eq!(all[0]["stride"], serde_json::json!([3, 2]));
    // Blocks and elements of local arrays.
    assert_eq!(of(&values("piece[2, 1::2, ::2]")[0]), json(2, serde_json::json!([-1, 1])));
    assert_eq!(dumped(&["--csv", "T[1, 1::2, 0]"]), "step,i0,i1,T\n1,1,0,1.5\n1,3,0,1.6\n");
    let table = dumped(&["T[0, ::3, ::2]"]);
    assert_eq!(table, "T  double  step 0  [0:4:3, 0:3:2] of {4, 3}\n  [0, 0]    0  NaN\n  [3, 0]  0.6 1e-9\n");
    assert_eq!(dump(&["time[::2]"]).out, "step  time\n   0     0\n   2     1\n");
}

#[test]
fn values_have_the_format_the_lines_and_the_file_that_are_asked_for() {
    assert_eq!(dumped(&["-y", "--format", "%.2f", "T[0, :2]"]), "0.00 0.25 nan\n0.50 -0.12 0.00\n");
    assert_eq!(dumped(&["-y", "-n", "1", "--format", "<%g>", "T[0, 1]"]), "<0.5>\n<-0.125>\n<1e-09>\n");
    assert_eq!(
        dumped(&["-n", "2", "T[0, 1]"]),
        "T  double  step 0  [1:2, 0:3] of {4, 3}\n  [1, 0]    0.5 -0.125\n  [1, 2]   1e-9\n"
    );
    assert_eq!(dumped(&["-y", "time", "sometimes"]), "0 18446744073709551615\n0.5\n1 18446744073709551613\n");
    assert_eq!(dumped(&["--csv", "--format", "%05.1f", "time"]), "step,time\n0,000.0\n1,000.5\n2,001.0\n");
    assert_eq!(dumped(&["-y", "--format", "%x", "sometimes[0]"]), "ffffffffffffffff\n");
    assert_eq!(dumped(&["-y", "--format", "%.1f", "c[1]"]), "(3.0,-4.0) (3.3,-4.0)\n");
    let refused = dump(&["--format", "%d", "time"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("'time': '%d' formats whole numbers, not type double"), "{}", refused.err);

    let folder = Scratch::new();
    river().save(&folder.join("river.bp"));
    std::fs::write(folder.join("out.txt"), "before").unwrap();
    let ran = run_in(folder.path(), &["dump", "river.bp", "tme", "-o", "out.txt"]);
    assert_eq!((ran.code, std::fs::read_to_string(folder.join("out.txt")).unwrap().as_str()), (1, "before"));
    let ran = run_in(folder.path(), &["dump", "river.bp", "T", "-o", "out.txt"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
    assert_eq!(std::fs::read_to_string(folder.join("out.txt")).unwrap(), dumped(&["T"]));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "something was left behind");
    assert_eq!(run_in(folder.path(), &["dump", "river.bp", "T", "-o", "river.bp"]).code, 2);
}

#[test]
fn attributes_are_printed_by_name_with_their_variable_or_all() {
    assert_eq!(dumped(&["T/units"]), "type    attribute  value\nstring  T/units    \"K\"\n");
    let all = dumped(&["-a"]);
    assert!(all.contains("spacing    {0.1, 0.25}") && all.contains("T/units") && all.contains("names"), "{all}");
    let of_one = dumped(&["-a", "T[0, 0, 0]"]);
    assert!(of_one.contains("T/units") && !of_one.contains("spacing") && of_one.starts_with("T  double"), "{of_one}");
    assert_eq!(dumped(&["-y", "spacing"]), "{0.1, 0.25}\n");
    let json: serde_json::Value = serde_json::from_str(&dumped(&["--json", "spacing", "time[0]"])).unwrap();
    assert_eq!(json["attributes"][0]["value"], serde_json::json!([0.1, 0.25]));
    assert_eq!(json["variables"][0]["name"], "time");
    let plain: serde_json::Value = serde_json::from_str(&dumped(&["--json", "time"])).unwrap();
    assert!(plain.get("attributes").is_none());
    for refused in [&["--csv", "T/units"][..], &["-a", "T", "--npy", "x.npy"]] {
        let ran = dump(refused);
        assert_eq!(ran.code, 2, "{}", ran.out);
        assert!(ran.err.contains("attributes are printed"), "{}", ran.err);
    }
}

#[test]
fn checksums_are_compared_where_that_is_asked_for() {
    let folder = Scratch::new();
    river().save(&folder.join("river.bp"));
    let at = |value: f64, bytes: &[u8]| bytes.windows(8).position(|w| w == value.to_ne_bytes()).unwrap();
    let mut bytes = std::fs::read(folder.join("river.bp")).unwrap();
    let place = at(2.25, &bytes);
    bytes[place] ^= 1;
    std::fs::write(folder.join("river.bp"), bytes).unwrap();
    assert_eq!(run_in(folder.path(), &["dump", "river.bp", "T[2]"]).code, 0);
    let ran = run_in(folder.path(), &["dump", "--checked", "river.bp", "T[2]"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(
        ran.err.contains("checksum") && ran.err.contains("river.bp") && ran.err.contains("still safe"),
        "{}",
        ran.err
    );
    assert_eq!(run_in(folder.path(), &["dump", "--checked", "river.bp", "T[1]"]).code, 0);
    let foreign = run(&["dump", "--checked", "adios1-types.bp", "i16_3d[0]"]);
    assert_eq!((foreign.code, foreign.out), (0, printed(&["dump", "adios1-types.bp", "i16_3d[0]"])));
    assert!(foreign.err.contains("read unchecked"), "{}", foreign.err);
}
