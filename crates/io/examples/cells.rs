//! Writes a file with an unstructured mesh and arrays on it, with four ranks as threads: `cells PATH CELLS POINTS STEPS [varying]`.
//!
//! Point n of 12 is at x = n % 4, y = n / 4 and, in space, z = x y. CELLS: `quads`, the 6 cells between them; `mixed`, the first 4 of these,
//! and the other 2 as 4 triangles. POINTS is how coordinates are given: `plane` and `space` (one array of two or three components), `list`
//! (all numbers of space in one axis), `apart` (x and y in arrays of their own). With s the step, `u` at points is 1000 s + n, `v` there is a
//! vector of 10 n + its component, `c` in cells is 1000 s + the number of the cell, as an integer. With `varying`, s is added to all y, and the
//! points of cells are listed in each step; else the mesh is in the first step alone. Every array is split among all ranks.

use std::fmt::Write as _;
use thalweg_comm::{Communicator, threads};
use thalweg_io::{Mode, Session};

const POINTS: usize = 12;

fn coordinates(point: usize, moved: f64) -> [f64; 3] {
    let (x, y) = ((point % 4) as f64, (point / 4) as f64);
    [x, y + moved, x * y]
}

/// The points of each cell: quads, and triangles.
fn cells(is_mixed: bool) -> (Vec<[i32; 4]>, Vec<[i32; 3]>) {
    let first = |cell: usize| (cell % 3 + 4 * (cell / 3)) as i32;
    let quad = |cell| [0, 1, 5, 4].map(|more| first(cell) + more);
    let quads = (0..if is_mixed { 4 } else { 6 }).map(quad).collect();
    let halves = |cell| [[0, 1, 5], [0, 5, 4]].map(|three| three.map(|more| first(cell) + more));
    let triangles = if is_mixed { (4..6).flat_map(halves).collect() } else { Vec::new() };
    (quads, triangles)
}

fn array(out: &mut String, name: &str, kind: &str, more: &str, extents: &str, second: &str) {
    // Its rows are those of a rank.
    write!(
        out,
        "<var name=\"{name}_all\" type=\"integer\"/><var name=\"{name}_first\" type=\"integer\"/><var name=\"{name}_own\" type=\"integer\"/>\
         <global-bounds dimensions=\"{name}_all{extents}\" offsets=\"{name}_first{second}\">\
         <var name=\"{name}\" type=\"{kind}\" {more} dimensions=\"{name}_own{extents}\"/></global-bounds>"
    )
    .unwrap();
}

fn xml(is_mixed: bool, form: &str) -> String {
    let mut out = String::from("<adios-config schema-version=\"1.1\" host-language=\"C\"><adios-group name=\"g\">");
    array(&mut out, "u", "double", "mesh=\"m\" center=\"point\"", "", "");
    array(&mut out, "v", "real", "mesh=\"m\" center=\"point\"", ",3", ",0");
    array(&mut out, "c", "integer", "mesh=\"m\" center=\"cell\"", "", "");
    array(&mut out, "quads", "integer", "", ",4", ",0");
    let mut mesh = format!("<mesh name=\"m\" type=\"unstructured\"><number-of-points value=\"{POINTS}\"/>");
    match form {
        "plane" => array(&mut out, "at", "double", "", ",2", ",0"),
        "space" => array(&mut out, "at", "double", "", ",3", ",0"),
        "list" => array(&mut out, "at", "double", "", "", ""),
        _ => ["x", "y"].iter().for_each(|name| array(&mut out, name, "double", "", "", "")),
    }
    mesh += match form {
        "apart" => "<points-multi-var value=\"x,y\"/>",
        _ => "<points-single-var value=\"at\"/>",
    };
    if is_mixed {
        array(&mut out, "triangles", "integer", "", ",3", ",0");
        mesh += "<mixed-cells count=\"4,4\" data=\"quads,triangles\" type=\"quad,triangle\"/></mesh>";
    } else {
        mesh += "<uniform-cells count=\"6\" data=\"quads\" type=\"quad\"/></mesh>";
    }
    out + &mesh + "</adios-group><method group=\"g\" method=\"MPI\"/></adios-config>"
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [path, kind, form, steps, rest @ ..] = &words[..] else { panic!("cells PATH CELLS POINTS STEPS [varying]") };
    let (is_mixed, is_varying) = (kind == "mixed", !rest.is_empty());
    let steps: usize = steps.parse().unwrap();
    let schema = thalweg_schema::xml::parse(&xml(is_mixed, form), "cells.xml").unwrap();
    let (quads, triangles) = cells(is_mixed);
    threads::run(4, |comm| {
        let rank = comm.rank() as usize;
        // The last rank has most.
        let part = |all: usize| (all * rank / 4, all * (rank + 1) / 4);
        let session = Session::from_schema(schema.clone(), comm.duplicate().unwrap()).unwrap();
        for step in 0..steps {
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            let mut output = session.open("g", path, mode, comm.duplicate().unwrap()).unwrap();
            let mut rows = |name: &str, all: usize| {
                let (first, end) = part(all);
                for (what, value) in [("all", all), ("first", first), ("own", end - first)] {
                    output.write_values(&format!("{name}_{what}"), &[value as i32]).unwrap();
                }
                first..end
            };
            let count = quads.len() + triangles.len();
            let at_points: Vec<usize> = rows("u", POINTS).collect();
            rows("v", POINTS);
            rows("c", count);
            let in_cells: Vec<i32> = (part(count).0..part(count).1).map(|n| (1000 * step + n) as i32).collect();
            let has_mesh = is_varying || step == 0;
            if has_mesh {
                rows("quads", quads.len());
                match &**form {
                    "list" => _ = rows("at", 3 * POINTS),
                    "apart" => ["x", "y"].iter().for_each(|name| _ = rows(name, POINTS)),
                    _ => _ = rows("at", POINTS),
                }
                if is_mixed {
                    rows("triangles", triangles.len());
                }
            }
            let u: Vec<f64> = at_points.iter().map(|n| (1000 * step + n) as f64).collect();
            let v: Vec<f32> = at_points.iter().flat_map(|n| (0..3).map(move |k| (10 * n + k) as f32)).collect();
            output.write_values("u", &u).unwrap();
            output.write_values("v", &v).unwrap();
            output.write_values("c", &in_cells).unwrap();
            if has_mesh {
                let moved = if is_varying { step as f64 } else { 0.0 };
                let of = |components: usize| -> Vec<f64> {
                    at_points.iter().flat_map(|n| coordinates(*n, moved).into_iter().take(components)).collect()
                };
                match &**form {
                    "plane" => output.write_values("at", &of(2)).unwrap(),
                    "space" | "list" => output.write_values("at", &of(3)).unwrap(),
                    _ => {
                        for (axis, name) in ["x", "y"].iter().enumerate() {
                            let own: Vec<f64> = at_points.iter().map(|n| coordinates(*n, moved)[axis]).collect();
                            output.write_values(name, &own).unwrap();
                        }
                    }
                }
                let (begin, end) = part(quads.len());
                output.write_values("quads", quads[begin..end].as_flattened()).unwrap();
                if is_mixed {
                    let (begin, end) = part(triangles.len());
                    output.write_values("triangles", triangles[begin..end].as_flattened()).unwrap();
                }
            }
            output.close().unwrap();
        }
        session.finalize().unwrap();
    });
}
