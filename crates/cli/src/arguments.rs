//! The command line as data: parser, help and completions come from here.

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueHint};
use std::path::PathBuf;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the answer is no: nothing matches, the check found something, the configuration has errors
  2  the command line makes no sense, whatever the file holds
  3  a file can't be read or written

Colours and the width of the terminal are used on a terminal only; NO_COLOR turns colours off.";

/// Looks into files of simulation output: lists, prints, searches, checks and repairs them.
///
/// Files are BP version 3, as Thalweg, ADIOS 1.x and adios2 (engine BP3) write them. Steps count from 0.
#[derive(Debug, Parser)]
#[command(name = "thalweg", version, styles = STYLES, max_term_width = 100, after_help = EXIT_CODES)]
#[command(subcommand_required = true, arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Ls(Ls),
    Dump(Dump),
    Find(Find),
    Verify(Verify),
    Recover(Recover),
    Stat(Stat),
    Index(Index),
    #[command(subcommand)]
    Config(Config),
    #[command(subcommand)]
    Layout(Layout),
    Drain(Drain),
    Mount(Mount),
    Unmount(Unmount),
    Run(Run),
    Gen(Gen),
    Profile(Profile),
    Sim(Sim),
    Tune(Tune),
    Help(Help),
    Completions(Completions),
}

/// List variables, with types, steps and shapes.
///
/// Reads the index only, so it takes as long for terabytes as for kilobytes.
#[derive(Debug, Args)]
#[command(after_help = "\
Shapes:
  scalar         one value each step
  {64, 64}       a global array; {2..4, 64} where its shape changes from step to step
  2 x [16]       local arrays, here two blocks of 16 elements each step
Steps: '3' means in all of the 3 steps, '2 of 3' in two of them.

Examples:
  thalweg ls run.bp                  everything
  thalweg ls run.bp 'v*' /grid/x     names by pattern; * matches any letters, / too
  thalweg ls run.bp -l               with minimum, maximum, mean and standard deviation
  thalweg ls run.bp -lv v            the same for each step and block of v
  thalweg ls run.bp -a --json        variables and attributes for programs

Exit codes: 0 listed, 1 no name matches, 2 usage, 3 the file can't be read.")]
pub struct Ls {
    /// File to look into, or an index made by `thalweg index`
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// List only names that match one of these patterns (*, ?, [a-z])
    pub pattern: Vec<String>,
    /// Also minimum, maximum, mean and standard deviation of the finite values
    #[arg(short, long)]
    pub long: bool,
    /// Also attributes, with their values
    #[arg(short, long)]
    pub attributes: bool,
    /// Also what the file is, and every block with its step, writer and box
    #[arg(short, long)]
    pub verbose: bool,
    /// Patterns are regular expressions, found anywhere in the name
    #[arg(short = 'e', long)]
    pub regex: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Print values, or part of them.
///
/// A slice is written as in Python, the step first: v[step, a:b, :].
#[derive(Debug, Args)]
#[command(after_help = "\
Slices:
  v                everything
  v[3]             step 3; dimensions left out are taken whole
  v[-1, 0, :]      the last step, index 0 of the first dimension, all of the second
  v[2:5, 10:20]    steps 2, 3 and 4, indices 10 to 19
  w[3, 1, :]       local arrays have the block behind the step: step 3, block 1
A number takes its dimension away, a range keeps it. Ranges are cut to what is there; single
indices must be there. Several scalars make one table, a row for each step.

Examples:
  thalweg dump run.bp time nx                  scalars over all steps
  thalweg dump run.bp 'v[-1, 0:4, 0:4]'        a corner of the last step
  thalweg dump run.bp 'v[:, 5]' --csv          a row for each value, with its step and indices
  thalweg dump run.bp 'v[-1]' --npy v.npy      an array for NumPy
Values are printed in the shortest form that reads back equal.

Exit codes: 0 printed, 1 no such variable, step or index, 2 usage, 3 the file can't be read.")]
pub struct Dump {
    /// File to read
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Variables, with or without a slice
    #[arg(required = true, value_name = "SLICE")]
    pub slice: Vec<String>,
    /// Print comma-separated values
    #[arg(long, group = "form")]
    pub csv: bool,
    /// Print one JSON document
    #[arg(long, group = "form")]
    pub json: bool,
    /// Write one array as a NumPy file; steps become its first dimension
    #[arg(long, value_name = "OUT", group = "form", value_hint = ValueHint::FilePath)]
    pub npy: Option<PathBuf>,
    /// Also print large parts of arrays that no block covers, as 0
    #[arg(long)]
    pub fill: bool,
    /// Compare the checksums of all blocks that are read
    #[arg(long, group = "reads")]
    pub checked: bool,
    /// Compare nothing with the index: prints what a damaged file holds
    #[arg(long, group = "reads")]
    pub unchecked: bool,
}

/// Find steps and blocks by their characteristics.
///
/// Reads the index only, never the values: what is printed can't be ruled out, and says where it is certain.
#[derive(Debug, Args)]
#[command(after_help = "\
Expressions:
  min(v) max(v) mean(v) std(v) sum(v) count(v)    recorded facts about the finite values of v
  v > 0.3                                         a place where v is above 0.3
  step >= 3, attribute(units) == \"K\"              the step; an attribute
  < <= > >= == !=, and or not, ( )                0 < max(v) < 1 works too
  max(\"my var\"), any(\"3d\") > 0                    names with blanks, or that look like numbers
Of complex variables the facts are those of the magnitude. NaN and infinities in arrays are no
part of them. Numbers of type real are compared as they are printed: v == 0.1 works. A comparison
with a variable that a step does not have does not hold.

A step is answered from all its blocks together; a block (--blocks) from its own characteristics,
with those of the whole step for the other variables of the expression.

Examples:
  thalweg find run.bp 'max(v) > 0.3' --first       the first such step
  thalweg find run.bp 'v > 0.3 and u < 0.1' --blocks

Exit codes: 0 found, 1 ruled out everywhere, 2 usage, 3 the file can't be read.")]
pub struct Find {
    /// File to search, or an index made by `thalweg index`
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// What to look for
    pub expression: String,
    /// Stop at the first step
    #[arg(long)]
    pub first: bool,
    /// Also the blocks of these steps, with their boxes
    #[arg(long)]
    pub blocks: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Check a file: checksums, shapes, offsets, index.
///
/// Reads every byte. Checks that checksums are right, that dimensions and types agree across ranks, that the blocks
/// of a global array lie inside it, don't overlap and cover it, and that the index equals what a scan finds.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  thalweg verify run.bp && echo sound

Exit codes: 0 sound, 1 findings, 2 usage, 3 the file can't be read.")]
pub struct Verify {
    /// File to check
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Give a file that was cut off a good index again.
///
/// Writes an index behind what was closed, or makes one from the process groups alone, and cuts torn bytes off. Every
/// step that was closed stays, and every whole process group. Until this has run, other BP readers can't open such a
/// file; ours can.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg recover run.bp --dry-run    say what would be done
  thalweg recover run.bp

Exit codes: 0 recovered, or nothing to do, 1 nothing can be recovered, 2 usage, 3 the file can't be
read or written.")]
pub struct Recover {
    /// File to repair, in place
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Change nothing, say what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// Also index the whole process groups of steps that were not closed, also after a run without it
    #[arg(long)]
    pub partial: bool,
}

/// Tell what the bytes of a file are.
///
/// Values, the framing around them, holes between process groups that begin at stripe boundaries, the index, and what
/// nobody needs any more. Reads the heads of process groups, not the values.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg stat run.bp            a line for each kind of bytes
  thalweg stat run.bp --files    the same for each subfile

Exit codes: 0 told, 2 usage, 3 the file can't be read.")]
pub struct Stat {
    /// File to look into
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Also each of its files
    #[arg(long)]
    pub files: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Write the index alone to a small file.
///
/// `ls` and `find` accept it in place of the data, so a run's characteristics fit in a mail.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  thalweg index run.bp -o run.index && thalweg ls -l run.index

Exit codes: 0 written, 2 usage, 3 a file can't be read or written.")]
pub struct Index {
    /// File to take the index of
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// File to write
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
}

/// Check configurations
#[derive(Debug, Subcommand)]
pub enum Config {
    /// Check an XML configuration and show every mistake with its line
    #[command(after_help = "\
Example:
  thalweg config lint gray-scott.xml

Exit codes: 0 no errors (warnings are shown), 1 errors, 2 usage, 3 the file can't be read.")]
    Lint {
        /// Configuration to check
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Show what is mounted where, and every mistake in the mount table with its line
    ///
    /// All stores are opened, those of other machines too.
    #[command(after_help = "\
The mount table is the file that THALWEG_MOUNTS names; else ~/.config/thalweg/mounts.toml and
/etc/thalweg/mounts.toml, as far as they are there.

Examples:
  thalweg config check                 the mounts of this user on this machine
  thalweg config check mounts.toml     those of a file, before it is put in place

Exit codes: 0 all mounts work, 1 one doesn't, 2 usage, 3 a file can't be read.")]
    Check {
        /// Mount table to check, instead of those in use
        #[arg(value_hint = ValueHint::FilePath)]
        file: Option<PathBuf>,
    },
}

/// Where the bytes of files under mounts lie, and looking after them.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  thalweg layout map /scratch/run7/ckpt | head
  thalweg layout flatten /scratch/run7/ckpt /archive/ckpt
  thalweg layout check /scratch/run7/ckpt && thalweg layout compact /scratch/run7/ckpt

Exit codes: 0 done, 1 a check found something, 2 usage, 3 a file can't be read or written.")]
pub enum Layout {
    /// Print which bytes of a file lie in which object
    Map {
        /// File under a mount
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// First byte
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Byte behind the last; else the file's end
        #[arg(long)]
        to: Option<u64>,
    },
    /// Make a plain file of a file under a mount
    Flatten {
        /// File under a mount
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// File to make; it must not be there
        #[arg(value_hint = ValueHint::FilePath)]
        to: PathBuf,
    },
    /// Give back the space of what was overwritten or removed
    Compact {
        /// File of a container mount, or folder of small files
        #[arg(value_hint = ValueHint::AnyPath)]
        path: PathBuf,
    },
    /// Read everything against its checksums
    Check {
        /// File or folder of a container mount, or folder of small files
        #[arg(value_hint = ValueHint::AnyPath)]
        path: PathBuf,
    },
    /// Mend what dead writers left, and make lost index logs again
    Repair {
        /// File or folder of a container mount, or folder of small files
        #[arg(value_hint = ValueHint::AnyPath)]
        path: PathBuf,
        /// Also what writers left of whom it cannot be told whether they live
        #[arg(long)]
        all: bool,
        /// Also logs whose end is missing, after a power cut or as a store lost it: what is whole of them is kept
        #[arg(long)]
        lost: bool,
    },
    /// Print how a file lies, how many writers it had, what its index takes
    Stat {
        /// File or folder
        #[arg(value_hint = ValueHint::AnyPath)]
        path: PathBuf,
    },
}

/// Write the calls that write and read a group, for a program to include.
///
/// For each group there are two files: gwrite_GROUP.ch and gread_GROUP.ch (in Fortran .fh), as gpp.py of ADIOS 1.x makes
/// them. They change when the configuration does, and the program stays as it is.
#[derive(Debug, Args)]
#[command(after_help = "\
What stands for a variable in the program is its gwrite (gread) attribute, else its name; lines of
<gwrite src=\"...\"/> come where they stand. The program has variables of these names:
  adios_handle, adios_groupsize, adios_totalsize; to read also adios_buf_size; in Fortran adios_err

Examples:
  thalweg gen heat.xml                      all groups, in the language it names
  thalweg gen heat.xml -l fortran -g restart -o src

Exit codes: 0 written, or as it was, 1 errors in the configuration, or no such group, 2 usage, 3 a
file can't be read or written.")]
pub struct Gen {
    /// Configuration that describes the groups
    #[arg(value_hint = ValueHint::FilePath)]
    pub config: PathBuf,
    /// Language of the calls; else that of the configuration
    #[arg(short, long, value_enum)]
    pub language: Option<GenLanguage>,
    /// Only this group; may be given several times
    #[arg(short, long)]
    pub group: Vec<String>,
    /// Folder to write to
    #[arg(short, long, value_name = "FOLDER", default_value = ".", hide_default_value = true, value_hint = ValueHint::DirPath)]
    pub output: PathBuf,
}

/// A language of generated calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum GenLanguage {
    /// C and C++
    C,
    /// Free-form Fortran
    Fortran,
}

/// Show what the ranks of an output did, and who waited for whom.
///
/// Profiles are written beside outputs, as NAME.profile/step-N.json, where a method in the XML has the parameter profile=yes
/// or the environment says THALWEG_PROFILE=1. Several are summed up.
#[derive(Debug, Args)]
#[command(after_help = "\
Times of a phase are its own, without those of other phases inside it. Who waits for a rank that
waits itself waits for what that one waits for: the rank at the end of such a chain is named, with
what it did. \"its program\": it had not come yet, or was between its writes. \"messages\": all had
come, and the call took its time.

Examples:
  thalweg profile run.bp                                  all steps, summed up
  thalweg profile run.bp.profile/step-4.json --svg 4.svg  one step, with a picture
  thalweg profile run.bp --chrome run.json                a trace for ui.perfetto.dev

Exit codes: 0 shown, 2 usage, 3 a file can't be read or written, or is no profile.")]
pub struct Profile {
    /// Profiles, folders of them, or outputs that have such a folder beside them
    #[arg(required = true, value_hint = ValueHint::AnyPath)]
    pub profile: Vec<PathBuf>,
    /// Draw a timeline: ranks as rows, phases as colours
    #[arg(long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    /// Write trace events, as Perfetto reads them
    #[arg(long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub chrome: Option<PathBuf>,
    /// Show so many that kept others waiting
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub held: usize,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Try a method on a machine that is simulated.
///
/// Ranks, nodes, a metadata server and storage targets in virtual time, as a description says; the turns are those of the planner. The
/// same seed gives the same result.
#[derive(Debug, Args)]
#[command(after_help = "\
Machines that are shipped: jaguar-xt4, jaguarpf-xt5, present-day. Others are described in TOML.
Figures: cug2009-4, -5, -6, -7, -8, sand-5, with a picture NAME.svg; published numbers stand beside ours.

Examples:
  thalweg sim jaguarpf-xt5 --ranks 32768 --size 768MiB                     all methods
  thalweg sim jaguarpf-xt5 --ranks 32768 --size 768MiB --method ADAPTIVE   with the slowest ranks
  thalweg sim jaguarpf-xt5 --ranks 32768 --size 768MiB --slow 1%x20        some targets 20 times slower
  thalweg sim --figure cug2009-4

Exit codes: 0 simulated, 2 usage, 3 a file can't be read or written.")]
pub struct Sim {
    /// Description of the machine, or the name of one that is shipped
    #[arg(value_hint = ValueHint::FilePath, required_unless_present = "figure")]
    pub machine: Option<PathBuf>,
    /// Ranks that write
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=i64::from(thalweg_sim::methods::MOST_RANKS)))]
    pub ranks: u32,
    /// Bytes of each rank: 768MiB, 8M, 4096; k, M, G are powers of two, as in the XML
    #[arg(long, default_value = "64MiB", value_parser = size)]
    pub size: u64,
    /// Only this method; may be given several times
    #[arg(short, long)]
    pub method: Vec<String>,
    /// Parameters of the method, as in the XML: num_files=84;writers_per_target=1
    #[arg(short, long, value_parser = crate::command::sim::parameters)]
    pub parameters: Option<thalweg_params::Parameters>,
    /// Share of the targets that are slow, and how many times; what is kept of the bandwidth is shown
    #[arg(long, value_name = "SHARExTIMES", value_parser = crate::command::sim::slow)]
    pub slow: Option<(thalweg_sim::machine::Share, thalweg_sim::machine::Above)>,
    /// Share of the targets' bandwidth that others use
    #[arg(long, value_name = "SHARE", value_parser = crate::command::sim::share)]
    pub background: Option<thalweg_sim::machine::Share>,
    /// Of the noise
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Show so many of the slowest ranks; by default 5 where there is one method
    #[arg(long)]
    pub slowest: Option<usize>,
    /// Draw a figure instead
    #[arg(long, value_name = "NAME", conflicts_with_all = ["machine", "ranks", "size", "method", "parameters", "slow", "background", "slowest"])]
    pub figure: Option<String>,
    /// Where the picture of a figure goes
    #[arg(long, value_name = "OUT", requires = "figure", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// `768MiB`.
fn size(text: &str) -> Result<u64, String> {
    thalweg_params::size(text).ok_or_else(|| "expected bytes, as 65536, 64k or 8MiB".into())
}

/// `200MB`.
fn rate(text: &str) -> Result<u64, String> {
    thalweg_params::rate(text).filter(|rate| *rate > 0).ok_or_else(|| "expected bytes per second, as 200MB".into())
}

/// `60s`, `5min`, or seconds; more than nothing.
fn time(text: &str) -> Result<std::time::Duration, String> {
    let time = thalweg_params::time(text, Some(thalweg_params::Unit::Seconds));
    time.filter(|time| !time.is_zero()).ok_or_else(|| "expected a time, as 60s or 5min".into())
}

/// The number of a fast store, 32 hexadecimal figures.
fn number(text: &str) -> Result<u128, String> {
    u128::from_str_radix(text, 16).map_err(|_| "expected the hexadecimal number that --status tells".into())
}

/// Move what a burst buffer's fast store holds to the store behind it.
///
/// What is closed is copied, read back and compared, and only then forgotten by the fast store; programs see one store all
/// the time. Goes on until it is ended, which may happen at any moment, in any way: the next one goes on where it was.
#[derive(Debug, Args)]
#[command(after_help = "\
The store is named as in the mount table: tiered:FAST=>CANONICAL.

Examples:
  thalweg drain 'tiered:posix:/nvme/runs=>posix:/project/runs'            as long as it is left running
  thalweg drain 'tiered:posix:/nvme/runs=>posix:/project/runs' --once     until nothing closed is left
  thalweg drain 'tiered:posix:/nvme/runs=>posix:/project/runs' --rate 200MiB
  thalweg drain 'tiered:posix:/nvme/runs=>posix:/project/runs' --status   what is where

A mount over a burst buffer starts a drain by itself after each close, unless it says
drain = \"manual\"; that drain ends when nothing has waited for 10 s. --once waits for a drain that is
at work.

Exit codes: 0 done, 1 with --once: something could not be moved, 2 usage, 3 a store can't be read or
written, or another drain is at work.")]
pub struct Drain {
    /// The burst buffer
    #[arg(value_name = "STORE")]
    pub store: String,
    /// Say what is where, and move nothing
    #[arg(long, conflicts_with_all = ["once", "rate", "streams"])]
    pub status: bool,
    /// End when everything that is closed has been moved
    #[arg(long)]
    pub once: bool,
    /// End when nothing closed has been waiting for so many seconds
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["once", "status"])]
    pub idle: Option<u64>,
    /// Give up what another node's fast store held that is lost for good; --status lists them by number
    #[arg(long, value_name = "NUMBER", value_parser = number, conflicts_with_all = ["once", "status", "idle"])]
    pub forget: Option<u128>,
    /// As the mounts start it: in a session of its own, its words in the fast store's log
    #[arg(long, hide = true, conflicts_with_all = ["once", "status"])]
    pub behind: bool,
    /// Bytes per second, sent and read back: 200MB, 200MiB; MB are 10^6
    #[arg(long, value_name = "BYTES", value_parser = rate)]
    pub rate: Option<u64>,
    /// Objects on their way at once
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub streams: u32,
    /// Print one JSON document, with --status
    #[arg(long, requires = "status")]
    pub json: bool,
}

/// Run a program, unchanged, with the files of the mounts (LD_PRELOAD).
///
/// Paths under a mount go to Thalweg, all others untouched; the programs that it starts have the mounts too. The mount table is
/// checked first. What works and what can't is in docs/guide/doors.md.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg run -- ./simulation input.txt
  thalweg run -- bash -c 'tar -cf /scratch/run7/all.tar results'
  mpiexec -n 4 thalweg run -- ./simulation

Exit codes: those of the program; 2 usage, 3 the mount table or the program can't be used.")]
pub struct Run {
    /// Run also a program that will not hear of the mounts itself: one linked statically, or written in Go
    #[arg(long)]
    pub anyway: bool,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<std::ffi::OsString>,
}

/// Show the files of a mount as a folder of this machine (FUSE).
///
/// Every program may then use them. A mount there whose process was killed is taken away first.
#[derive(Debug, Args)]
#[command(after_help = "\
What the kernel keeps of files, --cache:
  passthrough   nothing: it reads and writes the files below itself. Of layouts direct and flat on files
                of this machine, as root, Linux 6.9 and newer; else as through
  through       what was read, until the file is opened again; writes go through at once
  writeback     what was read and written. Only where nobody else writes: no other machine, no program that
                goes past the mount
By default passthrough where it can be, writeback for memory, else through.

Examples:
  thalweg mount /mnt/run7                              the one mount of the table, or the one of this path
  thalweg mount /mnt/run7 --path /scratch/run7         this one
  thalweg mount /mnt/thalweg --path all                all of them, below their paths
  thalweg mount /mnt/run7 --foreground                 until SIGTERM or SIGINT
  thalweg mount --socket-only                          no folder: for programs under `thalweg run`
  thalweg mount --status --json                        what is mounted, and the errors since

Errors that a program sees as a number alone are written to mount-PID.log in XDG_RUNTIME_DIR/thalweg, else in
/tmp/thalweg-UID. A log without errors is removed at the end.

Exit codes: 0 mounted, 2 usage, 3 it cannot be mounted.")]
pub struct Mount {
    /// Folder where the files are shown
    #[arg(value_hint = ValueHint::DirPath)]
    pub mount_point: Option<PathBuf>,
    /// Path of the mount in the mount table, or all
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
    /// Don't go into the background
    #[arg(long)]
    pub foreground: bool,
    /// Also serve the mounts of the table at this socket, for `thalweg run` of the same user
    #[arg(long, value_name = "SOCKET", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Serve the socket alone; by default where programs look for it: THALWEG_DAEMON, or
    /// thalweg/daemon.sock in XDG_RUNTIME_DIR
    #[arg(long)]
    pub socket_only: bool,
    /// What the kernel keeps of files
    #[arg(long, value_enum)]
    pub cache: Option<Caching>,
    /// Seconds that names and attributes hold in the kernel
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<f64>,
    /// Threads that answer the kernel
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: Option<u32>,
    /// Say what is mounted on this machine, by which process, and its errors, and which sockets are served; mounts nothing
    #[arg(long, conflicts_with_all = ["mount_point", "path", "foreground", "socket", "socket_only"])]
    pub status: bool,
    /// With --status: as JSON
    #[arg(long, requires = "status")]
    pub json: bool,
    /// Started by this command itself
    #[arg(long, hide = true)]
    pub behind: bool,
}

/// What the kernel keeps of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Caching {
    Passthrough,
    Through,
    Writeback,
}

/// Take a mount away, its files closed and what was written published.
///
/// Returns when the process that served it has ended. Also takes away a mount whose process was killed.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 unmounted, 2 usage, 3 busy, nothing of Thalweg is mounted there, or what programs wrote could not
be published.")]
pub struct Unmount {
    /// Folder where the files are shown
    #[arg(value_hint = ValueHint::DirPath)]
    pub mount_point: PathBuf,
    /// Also where programs have files open there: these are closed
    #[arg(long)]
    pub lazy: bool,
}

/// Explain a command, or the parameters of a method, transform, layout, store or XML element.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg help ls                      the command ls
  thalweg help method                  every method
  thalweg help method MPI_AGGREGATE    its parameters, with values and defaults
  thalweg help transform zfp
  thalweg help layout container
  thalweg help store s3
  thalweg help wrapper                 keys of a mount, whatever its layout
  thalweg help element buffer          attributes in the XML

Sizes (k, M, G, T, also with B or iB) are powers of two; rates (MB, MB/s) are powers of ten, MiB of two.

Exit codes: 0 explained, 2 no such command or name.")]
pub struct Help {
    /// A command; or method, transform, layout, store, wrapper or element, and a name
    #[arg(value_name = "WORD")]
    pub words: Vec<String>,
}

/// Print completions for a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg completions bash > ~/.local/share/bash-completion/completions/thalweg
  thalweg completions fish > ~/.config/fish/completions/thalweg.fish")]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// Try methods and their parameters on the storage at hand.
///
/// Writes a group with its real sizes, ranks as threads, and prints the line to put into the XML, with the measured reason.
/// What was written is removed again, also where the command is interrupted.
#[derive(Debug, Args)]
#[command(after_help = "\
The time is that of the slowest rank from before the open to after the close, the median of the runs;
half of the runs lie within the spread. The method in use is kept where nothing is faster beyond the
noise, which the spread and the number of runs tell. Without sync=yes among the
method's parameters the system's write cache is part of what is measured, as it is in a run.

Examples:
  thalweg tune heat.xml --define nx=256 --define ny=256
  thalweg tune gs.xml -g restart -D n=128 --ranks 16 --folder /scratch/me --budget 5min

Exit codes: 0 measured, 1 errors in the configuration, or no such group, 2 usage, 3 a file can't be
read or written.")]
pub struct Tune {
    /// Configuration that describes the group
    #[arg(value_hint = ValueHint::FilePath)]
    pub config: PathBuf,
    /// Which group, where there are several
    #[arg(short, long)]
    pub group: Option<String>,
    /// How long to go on: no run is begun that would end later
    #[arg(short, long, value_name = "TIME", default_value = "60s", value_parser = time)]
    pub budget: std::time::Duration,
    /// Ranks that write; by default one per processor, at least 4
    #[arg(short, long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub ranks: Option<u32>,
    /// Where to write; by default the method's base-path, else the current folder
    #[arg(short, long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub folder: Option<PathBuf>,
    /// Value of a variable that stands in dimensions; may be given several times
    #[arg(short = 'D', long, value_name = "NAME=VALUE", value_parser = crate::command::tune::define)]
    pub define: Vec<(String, i64)>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}
