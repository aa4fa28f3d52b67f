//! Files of other formats: every command says what they are, and what opens them.

use crate::support::run_bounded;
use thalweg_conformance::scratch::Scratch;

#[test]
fn the_error_says_what_a_file_is_and_what_to_do() {
    let folder = Scratch::new();
    for (name, content, wanted) in [
        ("x.h5", &b"\x89HDF\r\n\x1a\n\x02\x08\x08\0"[..], "it is an HDF5 or netCDF-4 file: `thalweg convert"),
        ("x.nc", b"CDF\x01\0\0\0\0", "nccopy -k nc4"),
        ("x.txt", b"temperature 3.5\n", "it is a text"),
        ("x.empty", b"", "it is empty: no step was written"),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, content).unwrap();
        for command in ["ls", "dump", "stat", "verify"] {
            let arguments = if command == "dump" { vec![command, name, "v"] } else { vec![command, name] };
            let ran = run_bounded(folder.path(), &arguments);
            // What is wrong with a file is the result of a check.
            let said = format!("{}{}", ran.err, if command == "verify" { &ran.out } else { "" });
            assert!(ran.code != 0 && said.contains(wanted), "{command} {name}: {said}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), content);
    }
    for (name, wanted) in [("md.idx", "a BP4 or BP5 folder, which ADIOS2 reads"), ("zarr.json", "a folder of Zarr")] {
        let of_other = format!("{name}.d");
        std::fs::create_dir(folder.join(&of_other)).unwrap();
        std::fs::write(folder.join(&of_other).join(name), "{}").unwrap();
        let ran = run_bounded(folder.path(), &["ls", &of_other]);
        assert!(ran.code != 0 && ran.err.contains(wanted), "{}", ran.err);
    }
}
