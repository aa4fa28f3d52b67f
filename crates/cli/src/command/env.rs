//! `thalweg env`: the variables of the environment that change what Thalweg does, and how they are set here.
//!
//! Of our own variables the table is complete: a test compares it with the sources. A variable with our prefix that nothing reads is a mistake of who set it,
//! and is told.

use crate::arguments::Env;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{ASIDE, HEADING, Terminal, complain, plain};
use serde_json::json;
use std::io::Write;

/// A variable of the environment.
struct Variable {
    name: &'static str,
    /// What happens where it is not set.
    default: &'static str,
    about: &'static str,
    /// Its value is never printed.
    secret: bool,
}

const fn variable(name: &'static str, default: &'static str, about: &'static str) -> Variable {
    Variable { name, default, about, secret: false }
}

const fn secret(name: &'static str, about: &'static str) -> Variable {
    Variable { name, default: "", about, secret: true }
}

/// What begins with this is ours.
const PREFIX: &str = "THALWEG_";

const SECTIONS: [(&str, &[Variable]); 5] = [
    (
        "Programs that write and read",
        &[
            variable("THALWEG_CONSISTENCY", "delayed", "full: ranks compare their declarations at open and close"),
            variable("THALWEG_ERRORS", "printed", "quiet: errors that calls return are not printed"),
            variable("THALWEG_LOG", "warn", "off, warn, info or debug: which messages are printed"),
            variable("THALWEG_LOG_FILE", "", "a path: each rank appends its messages to PATH.RANK"),
            variable(
                "THALWEG_PROFILE",
                "no",
                "yes: outputs, and files of MPI-IO, are profiled; thalweg profile shows them",
            ),
            variable("THALWEG_STRICT", "no", "yes: words of a configuration that are not known are errors"),
            variable("THALWEG_PYTHON", "python3", "the interpreter of data services that are written in Python"),
        ],
    ),
    (
        "Mounts and partitions",
        &[
            variable("THALWEG_MOUNTS", "/etc/thalweg/mounts.toml and ~/.config/thalweg/mounts.toml", "the mount table"),
            variable("THALWEG_PARTITION", "./filesystem.cfg", "the configuration of partitions without a mount table"),
            variable("THALWEG_TRANSPORT", "the fastest that is open", "how clients reach the servers of partitions"),
            variable("THALWEG_DRAIN", "automatic", "manual: no drain of a burst buffer starts by itself"),
            variable(
                "THALWEG_COMMAND",
                "thalweg in PATH",
                "the command that programs start for drains, servers and viewers",
            ),
        ],
    ),
    (
        "thalweg run, thalweg mount",
        &[
            variable("THALWEG_PRELOAD", "that of the installation", "the library that is loaded into programs"),
            variable("THALWEG_MPIIO", "that of the installation", "the folder of the libraries for MPI-IO"),
            variable(
                "THALWEG_DAEMON",
                "thalweg/daemon.sock in XDG_RUNTIME_DIR",
                "the socket of the daemon for network stores",
            ),
        ],
    ),
    (
        "Python",
        &[
            variable("THALWEG_MPI_LIBRARY", "found, or compiled", "the library that reaches the MPI of mpi4py"),
            variable("THALWEG_CACHE", "thalweg in XDG_CACHE_HOME", "the folder where compiled ones are kept"),
            variable("THALWEG_PREFIX", "", "an installation whose library is used where nothing can be compiled"),
        ],
    ),
    (
        "Of others",
        &[
            variable("XDG_CONFIG_HOME", "~/.config", "where the user's mount table is"),
            variable("XDG_RUNTIME_DIR", "/tmp/thalweg-UID", "where sockets of daemons and mounts are"),
            variable("XDG_CACHE_HOME", "~/.cache", "where Python keeps compiled libraries"),
            variable("TMPDIR", "/tmp", "where temporary files are"),
            variable("NO_COLOR", "colours on a terminal", "no colours"),
            variable("HADOOP_CONF_DIR", "etc/hadoop in HADOOP_HOME", "the configuration of HDFS"),
            variable("HADOOP_HOME", "", "where Hadoop is"),
            variable("SLURMD_NODENAME", "", "the node of a server that Slurm started"),
            variable("PBS_NODEFILE", "", "the nodes of a job of PBS"),
            variable("SLURM_JOB_END_TIME", "", "when servers of a partition must have stored everything"),
            secret("AWS_ACCESS_KEY_ID", "a key of S3"),
            secret("AWS_SECRET_ACCESS_KEY", "its secret part"),
            secret("AWS_SESSION_TOKEN", "a token of S3"),
            variable("AWS_REGION", "", "the region of S3; AWS_DEFAULT_REGION, too"),
            variable("AWS_ENDPOINT_URL", "Amazon's", "where S3 is"),
            secret("AZBLOB_ACCOUNT_NAME", "an account of Azure"),
            secret("AZBLOB_ACCOUNT_KEY", "its key"),
            secret("OS_TOKEN", "a token of OpenStack Swift"),
            secret("WEBDAV_USER", "a user of WebDAV"),
            secret("WEBDAV_PASSWORD", "and the password"),
        ],
    ),
];

/// What Thalweg sets for programs that it starts; set by hand, they change nothing.
const GIVEN: [&str; 3] = ["THALWEG_OUTPUT", "THALWEG_GROUP", "THALWEG_STEP"];

pub fn run(arguments: &Env, out: &mut Terminal) -> Result<Outcome, Failure> {
    let known = || SECTIONS.iter().flat_map(|(_, variables)| variables.iter());
    let mut strangers: Vec<String> = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| name.starts_with(PREFIX) && !GIVEN.contains(&name.as_str()) && known().all(|v| v.name != *name))
        .collect();
    strangers.sort();
    if arguments.json {
        let variables: Vec<_> = SECTIONS
            .iter()
            .flat_map(|(section, variables)| variables.iter().map(move |v| (section, v)))
            .map(|(section, v)| json!({"name": v.name, "section": section, "value": value(v), "default": v.default, "about": v.about}))
            .collect();
        writeln!(out, "{:#}", json!({"variables": variables, "unknown": strangers}))?;
    } else {
        print(arguments.set, out)?;
    }
    out.flush()?;
    for name in &strangers {
        let near = thalweg_params::nearest(name, known().map(|v| v.name));
        let near = near.map_or(String::new(), |near| format!("; nearest known name: {near}"));
        complain("thalweg", &format!("{name} is set, and nothing reads it{near}"));
    }
    Ok(if strangers.is_empty() { Outcome::Done } else { Outcome::No })
}

/// How it is set. What is secret is named, not told.
fn value(variable: &Variable) -> Option<String> {
    let value = std::env::var_os(variable.name)?;
    Some(if variable.secret { "(set)".into() } else { value.to_string_lossy().into_owned() })
}

fn print(set_alone: bool, out: &mut Terminal) -> Result<(), Failure> {
    let mut is_first = true;
    for (section, variables) in SECTIONS {
        let shown: Vec<_> =
            variables.iter().map(|v| (v, value(v))).filter(|(_, value)| !set_alone || value.is_some()).collect();
        let Some(longest) = shown.iter().map(|(v, _)| v.name.len()).max() else { continue };
        if !is_first {
            writeln!(out)?;
        }
        is_first = false;
        out.styled(HEADING, section)?;
        writeln!(out)?;
        for (v, value) in shown {
            out.styled(ASIDE, &format!("  {:<longest$}", v.name))?;
            writeln!(out, "  {}", v.about)?;
            let is = match (&value, v.default) {
                (Some(value), _) => format!("= {}", plain(value)),
                (None, "") => continue,
                (None, default) => format!("not set: {default}"),
            };
            writeln!(out, "  {:longest$}  {is}", "")?;
        }
    }
    Ok(())
}
