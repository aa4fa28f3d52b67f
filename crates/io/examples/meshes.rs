//! Writes a file with one mesh and arrays on it, with four ranks as threads:
//! `meshes PATH KIND AXES LANGUAGE STEPS [varying] [physics] [openPMD] [METHOD]`.
//!
//! The mesh has 7, 6, 5 points along its axes, slowest first; KIND is uniform, rectilinear, structured, or none. Arrays are split along the
//! slowest axis and the next one, unevenly. With n the number of an element in its array and s the step: `u` at points is 1000 s + n,
//! `fields/c` at cells is 1000 s + n as an integer; coordinate k along axis a (0: slowest) is k * k + a; component x, y, z (0, 1, 2) of point
//! n is 500 times its number + n. With `varying`, s is added to both.
//!
//! With `physics` there are also: `E/x`, `E/y`, `E/z` at points (as many as there are axes) in kV/m, component k (0, 1, 2) being 1000 s + n + k / 4;
//! the scalar `clock` with the time, 0.5 s milliseconds, which the mesh names; `dt`, 0.125; units of the mesh (mm) and of `u` (K); names
//! of the axes of `fields/c`; and a text. With `openPMD` the group has this schema.

use std::fmt::Write as _;
use thalweg_comm::{Communicator, threads};
use thalweg_io::{Mode, Session};

const POINTS: [usize; 3] = [7, 6, 5];
const NAMES: [&str; 3] = ["x", "y", "z"];

/// A rank's part of an extent: begin and length, uneven. Ranks 0 and 1 have the first part of axis 0, 0 and 2 that of axis 1.
fn part(axis: usize, extent: usize, rank: usize, axes: usize) -> (usize, usize) {
    let first = extent / 3 + 1;
    let is_second = match axis {
        0 if axes == 1 => return (extent * rank / 4, extent * (rank + 1) / 4 - extent * rank / 4),
        0 => rank / 2 == 1,
        1 => rank % 2 == 1,
        _ => return (0, extent),
    };
    if is_second { (first, extent - first) } else { (0, first) }
}

/// A list with an entry for each axis, in the order of the language.
fn list(axes: usize, is_fortran: bool, entry: impl Fn(usize) -> String) -> String {
    let mut all: Vec<String> = (0..axes).map(entry).collect();
    if is_fortran {
        all.reverse();
    }
    all.join(",")
}

/// The file's additions: quantities with units, and the schema.
#[derive(Clone, Copy)]
struct More {
    physics: bool,
    is_openpmd: bool,
}

fn xml(kind: &str, axes: usize, language: &str, method: &str, more: More) -> String {
    let mut out = format!("<adios-config schema-version=\"1.1\" host-language=\"{language}\"><adios-group name=\"g\"");
    out += if more.is_openpmd { " schema=\"openPMD\">" } else { ">" };
    let is_fortran = language == "Fortran";
    let list = |entry: &dyn Fn(usize) -> String| list(axes, is_fortran, entry);
    for axis in 0..axes {
        for name in ["points", "cells", "p_offset", "p_count", "c_offset", "c_count"] {
            write!(out, "<var name=\"{name}{axis}\" type=\"integer\"/>").unwrap();
        }
    }
    let bounds = |letter: &str, whole: &str, var: &str| {
        let (global, offset) = (list(&|a| format!("{whole}{a}")), list(&|a| format!("{letter}_offset{a}")));
        let count = list(&|a| format!("{letter}_count{a}"));
        format!(
            "<global-bounds dimensions=\"{global}\" offsets=\"{offset}\"><var {var} dimensions=\"{count}\"/></global-bounds>"
        )
    };
    let on = |center: &str| if kind == "none" { String::new() } else { format!("mesh=\"m\" center=\"{center}\"") };
    out += &bounds("p", "points", &format!("name=\"u\" type=\"double\" {}", on("point")));
    out += &bounds("c", "cells", &format!("name=\"c\" path=\"/fields\" type=\"integer\" {}", on("cell")));
    let mut of_mesh = String::new();
    if more.physics {
        for name in &NAMES[..axes] {
            out += &bounds("p", "points", &format!("name=\"{name}\" path=\"/E\" type=\"double\" {}", on("point")));
            write!(out, "<attribute name=\"units\" path=\"/E/{name}\" value=\"kV/m\" type=\"string\"/>").unwrap();
        }
        out += "<var name=\"clock\" type=\"double\"/><var name=\"dt\" type=\"double\"/>";
        for (path, name, value) in [
            ("/clock", "units", "ms"),
            ("/u", "units", "K"),
            ("/adios_schema/m", "units", "mm"),
            ("/fields/c", "_ARRAY_DIMENSIONS", ["radius", "layer radius", "level layer radius"][axes - 1]),
            ("", "author", "A. Author"),
        ] {
            write!(out, "<attribute name=\"{name}\" path=\"{path}\" value=\"{value}\" type=\"string\"/>").unwrap();
        }
        of_mesh += " time-scale=\"clock\"";
    }
    let dimensions = format!("<dimensions value=\"{}\"/>", list(&|a| format!("points{a}")));
    let form = if axes == 1 { "single" } else { "multi" };
    match kind {
        "uniform" => {
            let (origin, spacing) = (list(&|a| format!("{a}.5")), list(&|a| format!("{}", a + 2)));
            write!(out, "<mesh name=\"m\" type=\"uniform\"{of_mesh}>{dimensions}<origin value=\"{origin}\"/><spacing value=\"{spacing}\"/></mesh>").unwrap();
        }
        "rectilinear" => {
            for axis in 0..axes {
                write!(out, "<var name=\"along{axis}\" type=\"double\" dimensions=\"points{axis}\"/>").unwrap();
            }
            let along = list(&|a| format!("along{a}"));
            write!(
                out,
                "<mesh name=\"m\" type=\"rectilinear\"{of_mesh}>{dimensions}<coordinates-{form}-var value=\"{along}\"/></mesh>"
            )
            .unwrap();
        }
        "structured" => {
            for name in &NAMES[..axes] {
                out += &bounds("p", "points", &format!("name=\"{name}\" type=\"double\""));
            }
            let names = NAMES[..axes].join(",");
            write!(
                out,
                "<mesh name=\"m\" type=\"structured\"{of_mesh}>{dimensions}<points-{form}-var value=\"{names}\"/></mesh>"
            )
            .unwrap();
        }
        _ => {}
    }
    out + &format!("</adios-group><method group=\"g\" method=\"{method}\"/></adios-config>")
}

/// The numbers of a rank's elements in the whole array.
fn numbers(extents: &[usize], parts: &[(usize, usize)]) -> Vec<usize> {
    let mut all = vec![0];
    for (extent, (begin, length)) in extents.iter().zip(parts) {
        all = all.iter().flat_map(|n| (*begin..begin + length).map(move |k| n * extent + k)).collect();
    }
    all
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [path, kind, axes, language, steps, rest @ ..] = &words[..] else {
        panic!("meshes PATH KIND AXES LANGUAGE STEPS [varying] [physics] [openPMD] [METHOD]")
    };
    let has = |word: &str| rest.iter().any(|own| own == word);
    let (varying, physics) = (if has("varying") { 1.0 } else { 0.0 }, has("physics"));
    let method = rest.iter().find(|word| !["varying", "physics", "openPMD"].contains(&word.as_str()));
    let (axes, steps): (usize, usize) = (axes.parse().unwrap(), steps.parse().unwrap());
    let method = method.map_or("MPI", String::as_str);
    let schema = thalweg_schema::xml::parse(
        &xml(kind, axes, language, method, More { physics, is_openpmd: has("openPMD") }),
        "meshes.xml",
    )
    .unwrap();
    threads::run(4, |comm| {
        let rank = comm.rank() as usize;
        let session = Session::from_schema(schema.clone(), comm.duplicate().unwrap()).unwrap();
        let points = &POINTS[..axes];
        let cells: Vec<usize> = points.iter().map(|extent| extent - 1).collect();
        let parts = |extents: &[usize]| -> Vec<(usize, usize)> {
            extents.iter().enumerate().map(|(axis, extent)| part(axis, *extent, rank, axes)).collect()
        };
        let (at_points, in_cells) = (parts(points), parts(&cells));
        for step in 0..steps {
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            let mut output = session.open("g", path, mode, comm.duplicate().unwrap()).unwrap();
            for axis in 0..axes {
                for (name, value) in [
                    ("points", points[axis]),
                    ("cells", cells[axis]),
                    ("p_offset", at_points[axis].0),
                    ("p_count", at_points[axis].1),
                    ("c_offset", in_cells[axis].0),
                    ("c_count", in_cells[axis].1),
                ] {
                    output.write_values(&format!("{name}{axis}"), &[value as i32]).unwrap();
                }
            }
            let of = |n: usize| (1000 * step + n) as f64;
            let mine = numbers(points, &at_points);
            output.write_values("u", &mine.iter().map(|n| of(*n)).collect::<Vec<f64>>()).unwrap();
            let inside: Vec<i32> = numbers(&cells, &in_cells).iter().map(|n| of(*n) as i32).collect();
            output.write_values("fields/c", &inside).unwrap();
            if physics {
                for (component, name) in NAMES[..axes].iter().enumerate() {
                    let values: Vec<f64> = mine.iter().map(|n| of(*n) + component as f64 / 4.0).collect();
                    output.write_values(&format!("/E/{name}"), &values).unwrap();
                }
                output.write_values("clock", &[0.5 * step as f64]).unwrap();
                output.write_values("dt", &[0.125]).unwrap();
            }
            let moved = varying * step as f64;
            if *kind == "rectilinear" && rank == 0 {
                for (axis, extent) in points.iter().enumerate() {
                    let along: Vec<f64> = (0..*extent).map(|k| (k * k + axis) as f64 + moved).collect();
                    output.write_values(&format!("along{axis}"), &along).unwrap();
                }
            }
            if *kind == "structured" {
                for (component, name) in NAMES[..axes].iter().enumerate() {
                    let values: Vec<f64> = mine.iter().map(|n| (500 * component + n) as f64 + moved).collect();
                    output.write_values(name, &values).unwrap();
                }
            }
            output.close().unwrap();
        }
        session.finalize().unwrap();
    });
}
