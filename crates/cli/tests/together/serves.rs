//! Services of `thalweg copy`: what they make is right, and where one fails the data pass as they came, and are marked.

use crate::support::{Ran, run_bounded, run_in};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use thalweg_comm::alone::Alone;
use thalweg_conformance::scratch::Scratch;
use thalweg_io::{BlockBox, Mode, Session, WriteRequest};
use thalweg_layout::{Direct, Layout};
use thalweg_reader::Reader;
use thalweg_store::Posix;
use thalweg_types::{AttributeValue, ElementType, Selection, Value};

const STEPS: u64 = 5;
const SHAPE: [u64; 2] = [6, 8];

fn u(step: u64, at: u64) -> f64 {
    (step * 1000 + at) as f64 / 8.0
}

/// Arrays `u` and `v` in four blocks, local arrays `p`, and a scalar, by group `g`; another output by group `other`.
fn write(folder: &Path) {
    let xml = r#"<adios-config host-language="C"><adios-group name="g"><var name="t" type="integer"/><var name="p" type="real" dimensions="3"/>
           <global-bounds dimensions="6,8" offsets="0,0"><var name="u" type="double" dimensions="3,4"/>
             <var name="v" path="/deep" type="integer" dimensions="3,4"/></global-bounds>
         </adios-group><adios-group name="other"><var name="o" type="integer"/></adios-group>
         <method group="g" method="MPI"/><method group="other" method="MPI"/></adios-config>"#;
    let session = Session::from_xml(xml, "g.xml", Box::new(Alone::new())).unwrap();
    let path = folder.join("a.bp").display().to_string();
    for step in 0..STEPS {
        let mode = if step == 0 { Mode::Write } else { Mode::Append };
        let mut output = session.open("g", &path, mode, Box::new(Alone::new())).unwrap();
        output.write_values("t", &[step as i32]).unwrap();
        output.write_values("p", &[1.0f32, 2.0, step as f32]).unwrap();
        for (y, x) in [(0, 0), (0, 4), (3, 0), (3, 4)] {
            let at = |k: u64| (y + k / 4) * 8 + x + k % 4;
            let place = || BlockBox { count: vec![3, 4], shape: Some(SHAPE.to_vec()), offset: Some(vec![y, x]) };
            let values: Vec<f64> = (0..12).map(|k| u(step, at(k))).collect();
            output.put(WriteRequest::new("u", bytemuck::cast_slice(&values)).in_box(place())).unwrap();
            let values: Vec<i32> = (0..12).map(|k| -(at(k) as i32)).collect();
            output.put(WriteRequest::new("/deep/v", bytemuck::cast_slice(&values)).in_box(place())).unwrap();
        }
        output.close().unwrap();
    }
    let mut output = session.open("other", &path, Mode::Append, Box::new(Alone::new())).unwrap();
    output.write_values("o", &[1]).unwrap();
    output.close().unwrap();
    session.finalize().unwrap();
}

/// Writes a configuration with these services.
fn configure(folder: &Path, services: &str) {
    let xml = format!(
        r#"<adios-config host-language="C"><adios-group name="g"><var name="t" type="integer"/></adios-group>
             <method group="g" method="MPI"/><services group="g">{services}</services></adios-config>"#
    );
    std::fs::write(folder.join("s.xml"), xml).unwrap();
}

fn serve(folder: &Path, services: &str) -> Ran {
    configure(folder, services);
    run_bounded(folder, &["copy", "a.bp", "b.bp", "--services", "s.xml", "--force"])
}

fn open(folder: &Path, file: &str) -> Reader {
    let layout: Arc<dyn Layout> = Arc::new(Direct::new(Arc::new(Posix::at(folder).unwrap())).unwrap());
    Reader::open(layout, file).unwrap()
}

/// The marks of steps that passed without a service: `STEP.SERVICE` and the reason.
fn marks(reader: &Reader) -> Vec<(String, String)> {
    let is_mark = |name: &str| name.starts_with("/thalweg/services/") && !name.ends_with("/document");
    let heads = reader.attributes().iter().filter(|head| is_mark(&head.name));
    let mut marks: Vec<_> = heads
        .map(|head| match reader.attribute(&head.name).unwrap().value {
            AttributeValue::One(Value::String(text)) => {
                (head.name.rsplit('/').next().unwrap().to_string(), String::from_utf8(text).unwrap())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    marks.sort();
    marks
}

/// A shared library of functions in C.
fn library(folder: &Path, code: &str) {
    std::fs::write(
        folder.join("f.c"),
        format!("#include <thalweg.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n{code}"),
    )
    .unwrap();
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bindings/c/include");
    let built = Command::new("cc")
        .args(["-Wall", "-Werror", "-shared", "-fPIC", "-O1", "-I", include, "-o", "libf.so", "f.c"])
        .current_dir(folder)
        .status();
    assert!(built.unwrap().success());
}

/// Whether there is a Python with NumPy. Where everything is tested there is.
fn has_numpy() -> bool {
    let python = std::env::var_os("THALWEG_PYTHON").or(std::env::var_os("PYTHON")).unwrap_or("python3".into());
    let there = Command::new(python).args(["-c", "import numpy"]).stderr(Stdio::null()).status();
    let there = there.is_ok_and(|status| status.success());
    if !there {
        println!("skipped: functions of Python: no Python with NumPy");
    }
    there
}

#[test]
fn the_services_of_a_group_work_in_their_order_on_its_outputs_alone() {
    let folder = Scratch::new();
    write(folder.path());
    library(
        folder.path(),
        r#"
        int twice(const thalweg_block_values *b, size_t n, thalweg_function_result *r) {
            if (n != 1 || b->type != THALWEG_FLOAT64 || r->type != b->type || r->bytes != b->bytes || b->dimensions != 2) return 1;
            if (b->shape[0] != 6 || b->shape[1] != 8 || b->count[0] != 6 || b->count[1] != 8 || b->offset[0] || b->offset[1]) return 2;
            puts("what a function prints is not taken for its values");
            for (uint64_t i = 0; i < b->bytes / 8; i++) ((double *)r->values)[i] = 2 * ((const double *)b->values)[i];
            return 0;
        }
        int sum(const thalweg_block_values *b, size_t n, thalweg_function_result *r) {
            if (n != 2 || b[1].type != THALWEG_INT32 || r->type != THALWEG_FLOAT32 || r->dimensions != 2) return 3;
            for (uint64_t i = 0; i < r->bytes / 4; i++)
                ((float *)r->values)[i] = ((const double *)b[0].values)[i] + ((const int32_t *)b[1].values)[i];
            return 0;
        }
        int ends(const thalweg_block_values *b, size_t n, thalweg_function_result *r) {
            const float *p = b->values;
            uint64_t last = b->bytes / 4 - 1;
            if (r->dimensions != 1 || r->count[0] != 2 || b->shape || b->offset || b->count[0] != 3) return 4;
            ((double *)r->values)[0] = p[0];
            ((double *)r->values)[1] = p[last];
            return 0;
        }
        int next(const thalweg_block_values *b, size_t n, thalweg_function_result *r) {
            if (b->dimensions || b->count || r->bytes != 4) return 5;
            *(int32_t *)r->values = *(const int32_t *)b->values + 1;
            return 0;
        }"#,
    );
    let ran = serve(
        folder.path(),
        r#"<reorganize blocks="merged"/><histogram var="u" bins="7"/><function library="libf.so" name="twice" var="u"/>
           <function library="libf.so" name="sum" var="u,/deep/v" into="/made/s" type="real"/>
           <histogram var="made/s" bins="3" min="0" max="100"/>
           <function library="libf.so" name="ends" var="p" into="ends" type="double" values="2"/>
           <function library="libf.so" name="next" var="t" into="t1"/>
           <transform var="u,made*" type="zlib:5"/><statistics var="p" stats="off"/>"#,
    );
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("what a function prints"), "{}", ran.err);
    let copy = open(folder.path(), "b.bp");
    assert_eq!((copy.status().steps, marks(&copy)), (STEPS, vec![]));
    let names: Vec<&str> = copy.variables().iter().map(|head| head.name.as_str()).collect();
    assert!(!names.contains(&"o"), "{names:?}");
    for step in 0..STEPS {
        let all = |name: &str| copy.read_as::<f64>(name, step, &Selection::All).unwrap();
        let own: Vec<f64> = (0..48).map(|at| u(step, at)).collect();
        assert_eq!(all("u"), own.iter().map(|u| 2.0 * u).collect::<Vec<f64>>());
        assert_eq!(copy.block_count("u", step).unwrap(), 1);
        let sums: Vec<f32> = (0..48).map(|at| (2.0 * own[at] - at as f64) as f32).collect();
        assert_eq!(copy.read_as::<f32>("/made/s", step, &Selection::All).unwrap(), sums);
        assert_eq!(copy.variable("/made/s").unwrap().element, ElementType::F32);
        // 48 values at equal distances in 7 parts; the largest is in the last.
        let bins = copy.read_as::<u64>("histogram/u", step, &Selection::All).unwrap();
        assert_eq!(bins, [7, 7, 7, 6, 7, 7, 7]);
        let edges = all("histogram/u_edges");
        assert_eq!((edges.len(), edges[0], edges[7]), (8, own[0], own[47]));
        let inside = |from: f32, to: f32| sums.iter().filter(|s| **s >= from && **s < to).count() as u64;
        let third = 100.0f32 / 3.0;
        let bins = copy.read_as::<u64>("histogram/made/s", step, &Selection::All).unwrap();
        assert_eq!(bins, [inside(0.0, third), inside(third, 2.0 * third), inside(2.0 * third, 100.01)]);
        assert_eq!(copy.read_as::<f64>("ends", step, &Selection::Block(0)).unwrap(), [1.0, step as f64]);
        assert_eq!(copy.read_as::<i32>("t1", step, &Selection::All).unwrap(), [step as i32 + 1]);
        assert_eq!(copy.read_as::<i32>("t", step, &Selection::All).unwrap(), [step as i32]);
        let block = |name: &str| copy.block_of_step(name, step, 0).unwrap().unwrap();
        assert!(block("u").transform.is_some() && block("p").statistics.is_none());
    }
    assert_eq!(run_in(folder.path(), &["verify", "b.bp"]).code, 0);
    // A copy that was ended is continued.
    let again = run_in(folder.path(), &["copy", "a.bp", "b.bp", "--services", "s.xml", "--continue"]);
    assert_eq!(again.code, 0, "{}", again.err);
    assert!(again.out.starts_with("b.bp: 0 steps behind 5 steps"), "{}", again.out);
    configure(folder.path(), r#"<histogram var="u" bins="8"/>"#);
    let other = run_in(folder.path(), &["copy", "a.bp", "b.bp", "--services", "s.xml", "--continue"]);
    assert!(other.code == 3 && other.err.contains("other services have made it"), "{} {}", other.code, other.err);
}

#[test]
fn functions_of_python_get_arrays_and_return_them_or_fill_the_result() {
    if !has_numpy() {
        return;
    }
    let folder = Scratch::new();
    write(folder.path());
    let code = "import numpy as np\n\
                print('loaded')\n\
                def half(u):\n    return u / 2\n\
                def mixed(u, v, result, step, blocks):\n    assert blocks[1]['variable'] == '/deep/v' and blocks[0]['shape'] == [6, 8]\n    result[:] = u * step + v\n\
                def narrow(u):\n    return u[0]\n\
                def broken(u, step):\n    if step == 2:\n        raise ValueError('step two')\n    return u\n";
    std::fs::write(folder.join("f.py"), code).unwrap();
    let ran = serve(
        folder.path(),
        r#"<function python="f.py" name="mixed" var="u,/deep/v" into="m"/><function python="f.py" name="half" var="u"/>
           <function python="f.py" name="broken" var="u" into="b"/>"#,
    );
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    let copy = open(folder.path(), "b.bp");
    for step in 0..STEPS {
        let all = |name: &str| copy.read_as::<f64>(name, step, &Selection::All).unwrap();
        let own: Vec<f64> = (0..48).map(|at| u(step, at)).collect();
        assert_eq!(all("u"), own.iter().map(|u| u / 2.0).collect::<Vec<f64>>());
        assert_eq!(all("m"), (0..48).map(|at| own[at] * step as f64 - at as f64).collect::<Vec<f64>>());
        assert_eq!(copy.block_count("b", step).unwrap(), if step == 2 { 0 } else { 4 });
    }
    let marks = marks(&copy);
    assert_eq!(marks.len(), 1, "{marks:?}");
    assert!(marks[0].0 == "2.3" && marks[0].1.contains("ValueError: step two (f.py, line 12)"), "{marks:?}");
    let narrow = serve(folder.path(), r#"<function python="f.py" name="narrow" var="u" into="b"/>"#);
    assert!(narrow.code == 1 && narrow.err.contains("it returned the shape (4,)"), "{}", narrow.err);
    for (file, name, why) in [("f.py", "none", "has no attribute 'none'"), ("no.py", "half", "FileNotFoundError")] {
        let refused = serve(folder.path(), &format!(r#"<function python="{file}" name="{name}" var="u"/>"#));
        assert!(refused.code == 1 && refused.err.contains(why), "{}", refused.err);
    }
}

#[test]
fn where_a_function_fails_the_step_passes_as_it_came_and_is_marked() {
    let folder = Scratch::new();
    write(folder.path());
    library(
        folder.path(),
        r#"
        #define FAILS(NAME, WHAT) int NAME(const thalweg_block_values *b, size_t n, thalweg_function_result *r) { \
            static int calls; \
            for (uint64_t i = 0; i < b->bytes / 8; i++) ((double *)r->values)[i] = -1; \
            calls++; \
            if (b->step == 1 && b->number == 2) { WHAT; } \
            return 0; }
        FAILS(crashes, abort())
        FAILS(leaves, exit(7))
        FAILS(hangs, for (;;) sleep(1))
        FAILS(refuses, snprintf(r->message, r->message_size, "u is %d times negative\033[31m", 3); return 9)
        FAILS(says_nothing, return 9)
        FAILS(closes, close(3); close(4); close(5); close(6); sleep(100))
        int never(const thalweg_block_values *b, size_t n, thalweg_function_result *r) { return 1; }"#,
    );
    let failures = [
        ("crashes", "its process was ended by signal 6"),
        ("leaves", "its process ended with exit code 7"),
        ("hangs", "it took longer than 2s"),
        ("refuses", "it says: u is 3 times negative"),
        ("says_nothing", "it returned 9"),
        ("closes", ""),
    ];
    for (name, why) in failures {
        let ran = serve(
            folder.path(),
            &format!(
                r#"<histogram var="u" bins="4"/><function library="./libf.so" name="{name}" var="u" timeout="2 s"/>
                   <function library="./libf.so" name="{name}" var="/deep/v" into="w" type="double" timeout="2 s"/>"#
            ),
        );
        assert_eq!(ran.code, 1, "{name}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains("step 1 passed without service 2, function") && ran.err.contains(why), "{}", ran.err);
        assert!(!ran.err.contains('\u{1b}'), "{name}: {}", ran.err);
        let copy = open(folder.path(), "b.bp");
        assert_eq!(copy.status().steps, STEPS, "{name}");
        for step in 0..STEPS {
            let values = copy.read_as::<f64>("u", step, &Selection::All).unwrap();
            let wanted = |at| if step == 1 { u(step, at) } else { -1.0 };
            assert_eq!(values, (0..48).map(wanted).collect::<Vec<f64>>(), "{name}, step {step}");
            // Counted once, though the step was written twice.
            assert_eq!(copy.read_as::<u64>("histogram/u", step, &Selection::All).unwrap(), [12, 12, 12, 12]);
        }
        let marks = marks(&copy);
        assert!(marks[0].0 == "1.2" && marks[0].1.contains(why), "{marks:?}");
        assert!(marks[0].1.contains("(block 2 of u)"), "{marks:?}");
        assert_eq!((marks.len(), marks[1].0.as_str()), (2, "1.3"), "{marks:?}");
        let blocks: Vec<u64> = (0..STEPS).map(|step| copy.block_count("w", step).unwrap()).collect();
        assert_eq!(blocks, [4, 0, 4, 4, 4], "{name}");
        assert_eq!(run_in(folder.path(), &["verify", "b.bp"]).code, 0);
    }
    // One that always fails is given up.
    let ran = serve(folder.path(), r#"<function library="libf.so" name="never" var="u"/>"#);
    let copy = open(folder.path(), "b.bp");
    let marks = marks(&copy);
    // The fourth mark is for all steps behind it.
    assert_eq!((ran.code, marks.len()), (1, 4), "{}", ran.err);
    assert!(marks[2].1.contains("it returned 1") && marks[3].1.contains("is not called from here on"), "{marks:?}");
    assert_eq!(copy.read_as::<f64>("u", 4, &Selection::All).unwrap(), (0..48).map(|at| u(4, at)).collect::<Vec<f64>>());
    // A copy that is continued goes on counting, and calls it once more.
    for (first, last) in [("0:2", ""), ("0:4", "it returned 1")] {
        std::fs::remove_file(folder.join("b.bp")).unwrap();
        for more in [&["--steps", first][..], &["--continue"]] {
            let ran = run_bounded(folder.path(), &[&["copy", "a.bp", "b.bp", "--services", "s.xml"], more].concat());
            assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
        }
        let told = self::marks(&open(folder.path(), "b.bp"));
        for (step, reason) in (2..).zip(["it returned 1", "is not called from here on", last]) {
            let mark = told.iter().find(|(name, _)| *name == format!("{step}.1")).map_or("", |(_, why)| why);
            assert!(mark.contains(reason) && mark.is_empty() == reason.is_empty(), "{first}, step {step}: {told:?}");
        }
    }
    for (library, name, why) in [("libf.so", "none", "undefined symbol: none"), ("libnone.so", "f", "libnone.so")] {
        let ran = serve(folder.path(), &format!(r#"<function library="{library}" name="{name}" var="u"/>"#));
        assert!(ran.code == 1 && ran.err.contains(why), "{}", ran.err);
    }
}

#[test]
fn what_no_service_can_do_is_said() {
    let folder = Scratch::new();
    write(folder.path());
    let cases = [
        (r#"<histogram var="u" bins="0"/>"#, "bins=\"0\""),
        (r#"<histogram var="u" min="2" max="1"/>"#, "min=2 is not below max=1"),
        (r#"<histogram bins="3"/>"#, "<histogram> without \"var\""),
        (r#"<function name="f" var="u"/>"#, "a function is in one file"),
        (r#"<function library="l" name="f" var="u" type="real"/>"#, "replaces no variable"),
        (r#"<function library="l" name="f" var="u"/><reorganize blocks="merged"/>"#, "<reorganize> behind a function"),
        (r#"<reorganize blocks="4y"/>"#, "service 1: blocks 4y"),
        (r#"<transform var="u" type="zip"/>"#, "service 1: "),
        (r#"<histogramm var="u"/>"#, "histogram"),
        (r#"<reorganize blocks="merged"/><reorganize blocks="2x2"/>"#, "a second <reorganize>"),
    ];
    for (services, wanted) in cases {
        let ran = serve(folder.path(), services);
        assert!(ran.code > 1 && ran.err.contains(wanted), "{services}: {} {}", ran.code, ran.err);
        assert!(!folder.join("b.bp").exists(), "{services}");
    }
    // What only the data show, marks them.
    for (services, wanted) in [
        (r#"<function library="l" name="f" var="u" into="h"/><histogram var="h"/>"#, "needs both min and max"),
        (r#"<function library="l" name="f" var="u" into="/t"/>"#, "there is a variable t already"),
        (r#"<histogram var="nothing"/><function library="l" name="f" var="u"/>"#, "no variable fits 'nothing'"),
        (r#"<function library="l" name="f" var="*" into="x"/>"#, "several variables fit"),
    ] {
        let ran = serve(folder.path(), services);
        assert!(ran.code == 1 && ran.err.contains(wanted), "{services}: {} {}", ran.code, ran.err);
        assert_eq!(open(folder.path(), "b.bp").status().steps, STEPS);
    }
    configure(folder.path(), "");
    let ran = run_in(folder.path(), &["copy", "a.bp", "c.bp", "--services", "s.xml", "--group", "h"]);
    assert!(ran.code == 2 && ran.err.contains("group 'h' has no services"), "{}", ran.err);
}
