//! Files on mounts, and files that an URL names, are read by every command as plain files are.

use crate::support::{Ran, command, river};
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::{Layout, OpenWrite, WriterId, write_all_at};

/// `plain/river.bp`, and the same file on the mount `/of-container`.
fn folder() -> Scratch {
    let folder = Scratch::new();
    std::fs::create_dir(folder.join("plain")).unwrap();
    std::fs::create_dir(folder.join("store")).unwrap();
    river().save(&folder.join("plain/river.bp"));
    let store = folder.join("store");
    let table = format!(
        "[[mount]]\npath = \"/of-container\"\nlayout = \"container\"\nstores = [\"posix:{}\"]\n",
        store.display()
    );
    std::fs::write(folder.join("mounts.toml"), table).unwrap();
    let mounts = thalweg_io::mounts::of_files(&[folder.join("mounts.toml")]).unwrap();
    let object = mounts.open_write("/of-container/river.bp", OpenWrite::New, WriterId(1)).unwrap();
    write_all_at(&*object, 0, &river().bytes).unwrap();
    object.close().unwrap();
    mounts.finish().unwrap();
    folder
}

fn run(folder: &Scratch, arguments: &[&str]) -> Ran {
    let table = folder.join("mounts.toml");
    command().env("THALWEG_MOUNTS", table).current_dir(folder.path()).args(arguments).output().unwrap().into()
}

#[test]
fn every_command_that_reads_says_of_a_mount_and_of_an_url_what_it_says_of_a_plain_file() {
    let folder = folder();
    let url = format!("posix:{}/river.bp", folder.join("plain").display());
    let plain = "plain/river.bp";
    for arguments in [
        &["ls", "FILE", "-la"][..],
        &["dump", "FILE", "T", "time"],
        &["dump", "FILE", "T[::2, ::3]", "-a", "--format", "%8.3f"],
        &["find", "FILE", "max(T) > 1", "--blocks"],
        &["plot", "FILE", "T", "--title", "t"],
        &["plot", "FILE", "T[:, :, 0]", "--title", "t"],
        &["watch", "FILE", "T", "time"],
        &["watch", "FILE", "time", "--steps", "2"],
    ] {
        let said = |file: &str| {
            let arguments: Vec<&str> = arguments.iter().map(|a| if *a == "FILE" { file } else { *a }).collect();
            let ran = run(&folder, &arguments);
            assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{arguments:?}");
            // Steps are seen at different times.
            let is_watch = arguments[0] == "watch";
            ran.out.lines().map(|line| if is_watch { &line[8..] } else { line }.to_string()).collect::<Vec<_>>()
        };
        let wanted = said(plain);
        assert!(!wanted.is_empty());
        assert_eq!(said("/of-container/river.bp"), wanted, "{arguments:?}");
        assert_eq!(said(&url), wanted, "{arguments:?}");
    }
    for arguments in [&["verify"][..], &["stat"], &["recover", "--dry-run"], &["ls"]] {
        let ran = run(&folder, &[arguments, &[plain, "/of-container/river.bp", &url]].concat());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{arguments:?}");
        assert!(ran.out.contains("/of-container/river.bp") && ran.out.contains(&url), "{arguments:?}: {}", ran.out);
    }
}

#[test]
fn what_an_url_does_not_lead_to_is_told_with_its_place() {
    let folder = folder();
    let at = folder.join("plain");
    let ran = run(&folder, &["ls", &format!("posix:{}/none.bp", at.display())]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("none.bp") && ran.err.contains("plain"), "{}", ran.err);
    let ran = run(&folder, &["ls", "posix:/no/such/folder/x.bp"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("/no/such/folder"), "{}", ran.err);
    // A file of this name comes first.
    std::fs::create_dir(folder.join("posix:")).unwrap();
    river().save(&folder.join("posix:/x.bp"));
    assert_eq!(run(&folder, &["ls", "posix:/x.bp"]).code, 0);
    // A relative path is no URL of a folder.
    let ran = run(&folder, &["ls", "posix:plain/river.bp"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("is relative"), "{}", ran.err);
}
