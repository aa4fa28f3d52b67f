//! `thalweg mount --status` shows what serves a socket alone, too.

use crate::support::{Ran, command};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use thalweg_conformance::scratch::Scratch;

#[test]
fn a_daemon_that_serves_a_socket_and_mounts_nowhere_is_shown_until_it_ends() {
    let folder = Scratch::new();
    let (runtime, store) = (folder.join("runtime"), folder.join("store"));
    std::fs::create_dir(&store).unwrap();
    std::fs::create_dir(&runtime).unwrap();
    let text =
        format!("[[mount]]\npath = \"/nowhere/run\"\nlayout = \"container\"\nstore = \"posix:{}\"\n", store.display());
    std::fs::write(folder.join("mounts.toml"), text).unwrap();
    let thalweg = |arguments: &[&str]| {
        let mut command = command();
        command.env("THALWEG_MOUNTS", folder.join("mounts.toml")).env("XDG_RUNTIME_DIR", &runtime);
        command.current_dir(folder.path()).args(arguments);
        command
    };
    let status = |json: bool| -> String {
        let arguments: &[&str] = if json { &["mount", "--status", "--json"] } else { &["mount", "--status"] };
        let ran: Ran = thalweg(arguments).output().unwrap().into();
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        ran.out
    };
    let name = "s\u{1b}[1m.sock";
    let socket = runtime.join("thalweg").join(name);
    let mut serving = Vec::new();
    for socket in [socket.to_str().unwrap(), "runtime/thalweg/second.sock"] {
        let mut child = thalweg(&["mount", "--foreground", "--socket-only", "--socket", socket])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("the mounts are served at") && !line.contains('\u{1b}'), "{line:?}");
        serving.push(child);
    }
    let shown = status(false);
    for (child, name) in serving.iter().zip(["s\\u{1b}[1m.sock", "second.sock"]) {
        let line = format!("{}/thalweg/{name}  socket, process {}", runtime.display(), child.id());
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
    let json: serde_json::Value = serde_json::from_str(&status(true)).unwrap();
    let sockets = json["sockets"].as_array().unwrap();
    assert_eq!(sockets.len(), 2, "{json}");
    assert!(sockets.iter().any(|told| told["socket"] == socket.to_str().unwrap() && told["pid"] == serving[0].id()));

    // One is asked to end, the other is killed.
    let pid = rustix::process::Pid::from_child(&serving[0]);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    serving[1].kill().unwrap();
    for child in &mut serving {
        child.wait().unwrap();
    }
    assert!(!status(false).contains("sock"));
    let left = std::fs::read_dir(runtime.join("thalweg")).unwrap().flatten();
    assert!(left.into_iter().all(|entry| !entry.file_name().to_str().unwrap().starts_with("socket-")));
}
