//! What `plot` draws: values, through slices and statistics, in characters, SVG and PNG.

use crate::support::{Maker, Ran, Written, river, run, run_in};
use thalweg_bp::shape::Shape;
use thalweg_bp::statistics::Level;
use thalweg_conformance::scratch::Scratch;
use thalweg_types::Value;

fn folder() -> Scratch {
    let folder = Scratch::new();
    river().save(&folder.join("river.bp"));
    folder
}

fn plot(arguments: &[&str]) -> Ran {
    run_in(folder().path(), &[&["plot", "river.bp"], arguments].concat())
}

fn plotted(arguments: &[&str]) -> String {
    let ran = plot(&[arguments, &["--size", "60x16"]].concat());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{arguments:?}");
    ran.out
}

#[test]
fn pictures_are_as_reviewed() {
    insta::assert_snapshot!("plot_scalar", plotted(&["time"]));
    insta::assert_snapshot!("plot_array_over_steps", plotted(&["T"]));
    insta::assert_snapshot!("plot_element_and_statistic", plotted(&["T[:, 1, 0]", "max(T)", "time"]));
    insta::assert_snapshot!("plot_over_time", plotted(&["max(T)", "--over", "time", "--title", "hottest"]));
    insta::assert_snapshot!("plot_indices", plotted(&["T[-1, :, 0]"]));
    insta::assert_snapshot!("plot_steps_and_indices", plotted(&["T[:, :, 0]"]));
    insta::assert_snapshot!("plot_complex", plotted(&["c[:, 0]", "--log", "--min", "1", "--max", "100"]));
}

#[test]
fn what_is_not_finite_is_told_and_what_cannot_be_drawn_is_refused() {
    let ran = plot(&["T[0]"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "thalweg: 2 of 12 values not drawn: not finite\n"));
    // adios2 records no sums.
    let ran = run(&["plot", "adios2-blocks.bp", "T"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "thalweg: mean(T) is not recorded in the file\n"));
    assert!(ran.out.contains("min(T)") && !ran.out.contains("mean(T)"), "{}", ran.out);
    let ran = plot(&["T[0, 1]", "--log"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "thalweg: 1 of 3 values not drawn: not finite, or not above 0\n"));
    for (arguments, code, what) in [
        (&["label"][..], 1, "'label' is text, no number"),
        (&["max(label)"], 1, "'label' is text, no number"),
        (&["tme"], 1, "no variable 'tme'; the nearest is 'time'"),
        (&["max(tme)"], 1, "no variable 'tme'; the nearest is 'time'"),
        (&["T[:, :, :]"], 1, "'T[:, :, :]' has steps and 2 dimensions; two can be drawn: choose a step"),
        (&["T[0, 4:]"], 1, "nothing to draw: 'T[0, 4:]' has no elements"),
        (&["T[0, 0, 2]"], 1, "nothing to draw: no value is finite"),
        (&["bare"], 1, "nothing to draw: no value is finite"),
        (&["T[0, 2:4, 1:3]", "time"], 2, "'T[0, 2:4, 1:3]' is a plane, which is drawn alone"),
        (&["T[0, :, 1]", "time"], 2, "no axis in common"),
        (&["T[0, :, 1]", "--over", "time"], 2, "--over is for lines over steps"),
        (&["time", "--over", "label"], 1, "'label' is no scalar number"),
        (&["piece[1]"], 1, "'piece' has 2 blocks in step 1: choose one, 'piece[step, block]'"),
        (&["piece[1:, 1]"], 1, "'piece' differs in shape between steps 1 and 2"),
    ] {
        let ran = plot(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(what), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn an_array_without_a_slice_is_drawn_from_characteristics_alone() {
    let folder = Scratch::new();
    let mut file = Maker::default();
    for step in 0..3u32 {
        let values: Vec<f64> = (0..8).map(|i| f64::from(i + step)).collect();
        file.group(step, 0, 1, &[Written::reals("v", Shape::global([8], [8], [0]), &values)], &[]);
    }
    file.close(true);
    file.save(&folder.join("v.bp"));
    assert_eq!(run_in(folder.path(), &["index", "v.bp", "-o", "v.index"]).code, 0);
    // There is an index alone.
    std::fs::remove_file(folder.join("v.bp")).unwrap();
    assert_eq!(run_in(folder.path(), &["plot", "v.index", "v[0]"]).code, 3);
    let ran = run_in(folder.path(), &["plot", "v.index", "max(v)", "--size", "40x10", "--title", "t"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.contains("9.0 ┤") || ran.out.contains("9 ┤"), "the maximum in step 2 is 9: {}", ran.out);
    let ran = run_in(folder.path(), &["plot", "v.index", "v", "--size", "40x10"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(["min(v)", "mean(v)", "max(v)"].iter().all(|name| ran.out.contains(name)), "{}", ran.out);
}

#[test]
fn pictures_are_files_that_replace_older_ones_when_they_are_whole() {
    let folder = folder();
    let ran = |arguments: &[&str]| run_in(folder.path(), &[&["plot", "river.bp"], arguments].concat());
    let path = folder.join("river.bp");
    let by_path = run_in(folder.path(), &["plot", path.to_str().unwrap(), "time", "-o", "y.svg"]);
    assert_eq!(by_path.out, "y.svg: river.bp: time, 900 x 540\n");
    let svg = ran(&["time", "-o", "x.svg"]);
    assert_eq!((svg.code, svg.out.as_str()), (0, "x.svg: river.bp: time, 900 x 540\n"), "{}", svg.err);
    let text = std::fs::read_to_string(folder.join("x.svg")).unwrap();
    assert!(text.starts_with("<svg ") && text.contains(">river.bp: time<") && text.contains(">step<"), "{text}");
    let png = ran(&["T[0]", "-o", "x.png", "--size", "300x200"]);
    assert_eq!(png.code, 0, "{}", png.err);
    let bytes = std::fs::read(folder.join("x.png")).unwrap();
    assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
    assert_eq!((&bytes[16..20], &bytes[20..24]), (&300u32.to_be_bytes()[..], &200u32.to_be_bytes()[..]));
    let failed = ran(&["label", "-o", "x.png"]);
    assert_eq!(failed.code, 1);
    assert_eq!(std::fs::read(folder.join("x.png")).unwrap(), bytes);
    std::os::unix::fs::symlink("river.bp", folder.join("link.png")).unwrap();
    assert_eq!(ran(&["time", "-o", "link.png"]).code, 2, "the file itself");
    assert_eq!(ran(&["time", "-o", "no/x.svg"]).code, 3);
    assert_eq!(ran(&["T[0]", "-o", "x.gif"]).code, 2);
}

#[test]
fn units_and_types_of_all_kinds_are_drawn() {
    let folder = Scratch::new();
    let mut file = Maker::default();
    for step in 0..4u32 {
        let n = i64::from(step);
        let blocks = [
            Written::scalar("i8", &Value::I8(-(n as i8))),
            Written::scalar("u64", &Value::U64(u64::MAX - u64::from(step))),
            Written::scalar("f32", &Value::F32(0.5 * n as f32)),
            Written::scalar("c", &Value::DoubleComplex([3.0 * n as f64, 4.0 * n as f64])),
            Written::reals("off", Shape::global([2], [2], [0]), &[1.0, 2.0]).level(Level::Off),
        ];
        let units = thalweg_types::AttributeValue::One(Value::String(b"m/s".to_vec()));
        file.group(step, 0, 1, &blocks, &[("f32/units", units)]);
    }
    file.close(true);
    file.save(&folder.join("x.bp"));
    for name in ["i8", "u64", "f32", "c", "off[:, 1]"] {
        let ran = run_in(folder.path(), &["plot", "x.bp", name, "--size", "40x10"]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{name}");
        assert_eq!(ran.out.contains("m/s"), name == "f32", "{}", ran.out);
    }
    let complex = run_in(folder.path(), &["plot", "x.bp", "c", "--size", "40x20"]);
    // The magnitude of 9 + 12i.
    assert!(complex.out.lines().nth(1).unwrap().starts_with("15 ┤"), "{}", complex.out);
}
