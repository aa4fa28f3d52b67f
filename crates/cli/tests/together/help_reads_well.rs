//! Help is prose: it is reviewed when it changes.

use crate::support::{printed, run};

#[test]
fn help_is_as_reviewed() {
    insta::assert_snapshot!("help", printed(&["--help"]));
    for command in [
        "ls",
        "dump",
        "plot",
        "watch",
        "find",
        "verify",
        "recover",
        "stat",
        "index",
        "copy",
        "diff",
        "control",
        "drain",
        "gen",
        "completions",
    ] {
        insta::assert_snapshot!(format!("help_{command}"), printed(&[command, "--help"]));
    }
    insta::assert_snapshot!("help_config_lint", printed(&["config", "lint", "--help"]));
}

#[test]
fn every_example_of_the_help_is_a_command_line_that_parses() {
    for command in ["ls", "dump", "plot", "find", "verify", "recover", "stat", "index", "copy", "diff"] {
        let help = printed(&[command, "--help"]);
        let examples: Vec<&str> = help.lines().filter(|l| l.starts_with(&format!("  thalweg {command} "))).collect();
        assert!(!examples.is_empty(), "{command} has no example");
        // A copy that follows waits for a program.
        for example in examples.into_iter().filter(|line| !line.contains(" --follow")) {
            // Behind two blanks comes the explanation; && starts another command.
            let line = example.trim().split("  ").next().unwrap().split("&&").next().unwrap();
            let folder = thalweg_conformance::scratch::Scratch::new();
            let services = r#"<adios-config host-language="C"><adios-group name="g"/><method group="g" method="MPI"/>
                <services group="g"/></adios-config>"#;
            std::fs::write(folder.join("config.xml"), services).unwrap();
            let shell = std::process::Command::new("sh")
                .arg("-c")
                .arg(line.replacen("thalweg", env!("CARGO_BIN_EXE_thalweg"), 1))
                .current_dir(folder.path())
                .output()
                .unwrap();
            // There is no run.bp here: the command got as far as looking for it.
            let said = String::from_utf8_lossy(&shell.stderr);
            assert_eq!(shell.status.code(), Some(3), "{line}: {said}");
            assert!(said.contains("cannot open 'run.bp'"), "{line}: {said}");
        }
    }
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = printed(&["completions", shell]);
        for command in [
            "ls", "dump", "plot", "watch", "find", "verify", "recover", "stat", "index", "copy", "diff", "lint",
            "control", "drain", "gen",
        ] {
            assert!(script.contains(command), "{shell} lacks {command}");
        }
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = thalweg_conformance::scratch::Scratch::new();
    let ran = run(&["man", folder.path().to_str().unwrap()]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
    let mut missing = Vec::new();
    for command in [
        "",
        "-ls",
        "-dump",
        "-plot",
        "-watch",
        "-find",
        "-view-hdf5",
        "-partition-start",
        "-config-lint",
        "-control",
        "-run",
    ] {
        let page = std::fs::read_to_string(folder.path().join(format!("thalweg{command}.1"))).unwrap_or_default();
        if !page.contains(".SH NAME") || !page.contains(".SH NOTES\n.nf\n") || !page.contains(".SH SYNOPSIS") {
            missing.push(command);
        }
    }
    assert_eq!(missing, [""; 0]);
    // A file where the folder is wanted.
    let file = folder.path().join("thalweg.1");
    assert_eq!(run(&["man", file.to_str().unwrap()]).code, 3);
}

#[test]
fn the_version_tells_what_was_built() {
    for asked in ["--version", "-V"] {
        let told = printed(&[asked]);
        let mut lines = told.lines();
        assert_eq!(lines.next(), Some(concat!("thalweg ", env!("CARGO_PKG_VERSION"))));
        let words: Vec<&str> = lines.map(|line| line.split_whitespace().next().unwrap()).collect();
        assert_eq!(words[..4], ["commit", "build", "stores", "views"], "{told}");
        assert!(told.contains("posix"), "{told}");
    }
}

#[test]
fn a_wrong_command_line_ends_with_2() {
    for wrong in [
        &["lst", "x.bp"][..],
        &["ls"],
        &["ls", "adios1-xml.bp", "[z-"],
        &["ls", "-e", "adios1-xml.bp", "(("],
        &["dump", "adios1-xml.bp"],
        &["dump", "adios1-xml.bp", "v[1:2:0]"],
        &["dump", "adios1-xml.bp", "v", "-n", "0"],
        &["dump", "adios1-xml.bp", "v", "--format", "%q"],
        &["dump", "adios1-xml.bp", "v", "--format", "%f", "--json"],
        &["plot", "adios1-xml.bp"],
        &["plot", "adios1-xml.bp", "v", "-o", "v.gif"],
        &["plot", "adios1-xml.bp", "v", "--min", "2", "--max", "1"],
        &["plot", "adios1-xml.bp", "v", "--log", "--min", "0"],
        &["watch", "adios1-xml.bp", "--steps", "0"],
        &["watch", "adios1-xml.bp", "--log"],
        &["dump", "adios1-xml.bp", "v[1"],
        &["dump", "adios1-xml.bp", "v", "--csv", "--json"],
        &["find", "adios1-xml.bp", "max(v >"],
        &["index", "adios1-xml.bp", "-o", "./adios1-xml.bp"],
        &["gen", "x.xml", "--language", "cobol"],
        &["completions", "csh"],
    ] {
        let ran = run(wrong);
        assert_eq!(ran.code, 2, "{wrong:?}: {}", ran.err);
        assert!(!ran.err.is_empty() && ran.out.is_empty());
    }
}
