//! `thalweg help` prints the parameters of everything that has some, as they are declared.

use crate::support::{printed, run};

#[test]
fn the_parameters_of_a_method_are_printed_with_values_and_defaults() {
    let text = printed(&["help", "method", "mpi_amr"]);
    for line in [
        "MPI_AGGREGATE (MPI_AMR, MPI_BGQ): one writer for a set of ranks, a file per writer",
        "chunk  bytes, at least 2; default: 8 MiB",
        "aggregators, num_aggregators  whole number, at least 1; default: one per node, and at least one for 64 ranks",
        "pattern  simple or brigade; default: simple",
        "strict  yes or no; default: no",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
    assert!(text.contains("without effect: color, num_ost"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
}

#[test]
fn layouts_stores_transforms_wrappers_and_elements_have_help_too() {
    for (words, line) in [
        (&["help", "layout", "container"][..], "buffer  bytes; default: 2 MiB"),
        (&["help", "store", "s3"], "part  bytes from 5 MiB to 1 GiB; default: 16 MiB"),
        (&["help", "transform", "zfp"], "precision  whole number from 1 to 64; default: 64 without another bound"),
        (&["help", "transform", "zlib"], "LEVEL  whole number from 1 to 9; default: 6"),
        (&["help", "wrapper"], "rate  bytes per second; default: no limit"),
        (&["help", "element", "buffer"], "allocate-time  now, later or oncall; default: now"),
        (&["help", "layout", "direct"], "no parameters"),
    ] {
        let text = printed(words);
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
}

#[test]
fn a_subject_alone_lists_what_there_is_and_a_command_has_its_own_help() {
    let text = printed(&["help", "method"]);
    for method in ["MPI", "POSIX", "ADAPTIVE", "TRIGGER"] {
        assert!(text.lines().any(|l| l.split(' ').next() == Some(method)), "{text}");
    }
    assert_eq!(printed(&["help", "ls"]), printed(&["ls", "--help"]));
    assert_eq!(printed(&["help", "config", "lint"]), printed(&["config", "lint", "--help"]));
    assert_eq!(printed(&["help"]), printed(&["--help"]));
}

#[test]
fn an_unknown_name_is_told_the_nearest() {
    for (words, near) in [
        (&["help", "method", "MPI_AGREGATE"][..], "MPI_AGGREGATE"),
        (&["help", "layout", "containr"], "container"),
        (&["help", "metod"], "method"),
        (&["help", "dmup"], "dump"),
        (&["help", "method", "MPI", "POSIX"], "one name is expected"),
    ] {
        let ran = run(words);
        assert_eq!(ran.code, 2, "{words:?}: {}", ran.err);
        assert!(ran.out.is_empty() && ran.err.contains(near), "{words:?}: {}", ran.err);
    }
}
