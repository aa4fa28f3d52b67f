//! The command line as data: the parser, the help texts and the shell completions are made from these types.

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueHint};
use std::path::PathBuf;
use thalweg_choice::Written;
use thalweg_io::mounts::named;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  nothing matches, a check found something, or the configuration has errors
  2  the command line is wrong
  3  a file can't be read or written

On a terminal, output is coloured and fitted to its width; NO_COLOR turns colours off.";

/// Lists, prints, searches, checks and repairs files of simulation output.
///
/// Files are BP version 3, as Thalweg, ADIOS 1.x and adios2 (engine BP3) write them. Steps count from 0. A file that is read may be an URL of a store: s3://bucket/run.bp.
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
    Plot(Plot),
    Watch(Watch),
    Find(Find),
    Verify(Verify),
    Recover(Recover),
    Stat(Stat),
    Index(Index),
    Convert(Convert),
    Copy(Copy),
    Diff(Diff),
    #[command(subcommand)]
    View(View),
    #[command(subcommand)]
    Config(Config),
    #[command(subcommand)]
    Layout(Layout),
    Control(Control),
    Drain(Drain),
    Mount(Mount),
    Unmount(Unmount),
    #[command(subcommand)]
    Partition(Partition),
    Run(Run),
    Gen(Gen),
    Profile(Profile),
    Sim(Sim),
    Tune(Tune),
    Help(Help),
    Completions(Completions),
    Env(Env),
    #[command(hide = true)]
    Man(Man),
    #[command(hide = true)]
    FunctionHost(FunctionHost),
    #[command(hide = true)]
    Viewers(Viewers),
}

/// Serve the viewers of a running program, which starts this.
#[derive(Debug, Args)]
pub struct Viewers {
    /// Where they connect
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: std::net::SocketAddr,
}

/// List variables, with types, steps and shapes.
///
/// Reads the index only: the time does not depend on the size of the data.
#[derive(Debug, Args)]
#[command(after_help = "\
A word behind FILE is a further file if it ends in .bp, is an URL, or if there is a file of this
name; otherwise it is a pattern. With --pattern every word is a file.

Shapes:
  scalar         one value each step
  {64, 64}       a global array; {2..4, 64} where its shape changes from step to step
  2 x [16]       local arrays, here two blocks of 16 elements each step
Steps: '3' is written in all 3 steps, '2 of 3' in two of them.

Examples:
  thalweg ls run.bp                  everything
  thalweg ls run.bp 'v*' /grid/x     names by pattern; * matches any characters, / too
  thalweg ls run.bp other.bp         several files; so does thalweg ls *.bp
  thalweg ls run.bp -l               with minimum, maximum, mean and standard deviation
  thalweg ls run.bp -lv v            the same for each step and block of v
  thalweg ls run.bp -a --json        variables and attributes for programs

Exit codes: 0 listed, 1 no name matches, 2 usage, 3 the file can't be read.")]
pub struct Ls {
    /// File to list, or an index file made by `thalweg index`
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Further files; or list only names that match one of these patterns (*, ?, [a-z])
    #[arg(value_name = "FILE|PATTERN", value_hint = ValueHint::FilePath)]
    pub more: Vec<String>,
    /// List only names that match this pattern; may be repeated
    #[arg(short, long)]
    pub pattern: Vec<String>,
    /// Also print minimum, maximum, mean and standard deviation of the finite values
    #[arg(short, long)]
    pub long: bool,
    /// Also list attributes, with their values
    #[arg(short, long)]
    pub attributes: bool,
    /// Also describe the file, and list every block with its step, writer and box
    #[arg(short, long)]
    pub verbose: bool,
    /// Take the patterns as regular expressions, which match anywhere in the name
    #[arg(short = 'e', long)]
    pub regex: bool,
    /// Print one JSON document; of several files an array of them
    #[arg(long)]
    pub json: bool,
}

/// Print values, or part of them, and attributes.
///
/// A slice has the syntax of Python, with the step first: v[step, a:b, :].
#[derive(Debug, Args)]
#[command(after_help = "\
Slices:
  v                everything
  v[3]             step 3; missing dimensions are taken whole
  v[-1, 0, :]      the last step, index 0 of the first dimension, all of the second
  v[2:5, 10:20]    steps 2, 3 and 4, indices 10 to 19
  v[::10, ::4]     every tenth step, every fourth index
  w[3, 1, :]       local arrays: the block follows the step, here step 3, block 1
A single index removes its dimension, a range keeps it. A range is clipped to the extent; a single
index out of range is an error. Several scalars are printed as one table, one row per step.

Examples:
  thalweg dump run.bp time nx                  scalars over all steps
  thalweg dump run.bp 'v[-1, 0:4, 0:4]'        a corner of the last step
  thalweg dump run.bp 'v[:, 5]' --csv          one row per value, with its step and indices
  thalweg dump run.bp 'v[-1]' --npy v.npy      an array for NumPy
  thalweg dump run.bp 'v[-1]' -y -n 1 --format %.3e -o v.txt
  thalweg dump run.bp -a                       all attributes
  thalweg dump run.bp v/units                  one of them
Values are printed in the shortest form that reads back equal.

FORMAT is one conversion of printf, with text around it: %d %x %o for whole numbers, %f %e %g for
all numbers, %s for everything; with flags, width and precision, as '%8.3f'.

Exit codes: 0 printed, 1 no such variable, step or index, 2 usage, 3 the file can't be read.")]
pub struct Dump {
    /// File to read
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Variables, with or without a slice, and attributes
    #[arg(required_unless_present = "attributes", value_name = "SLICE")]
    pub slice: Vec<String>,
    /// Also print the attributes of these variables; without SLICE, all attributes
    #[arg(short, long)]
    pub attributes: bool,
    /// Print so many values of an array in a line
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = per_line, conflicts_with = "form")]
    pub per_line: Option<usize>,
    /// Print each value in this format of printf
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["json", "npy"])]
    pub format: Option<String>,
    /// Print values alone, without names, steps and indices
    #[arg(short = 'y', long, conflicts_with = "form")]
    pub no_index: bool,
    /// Write to this file; an older one stays until the new one is complete
    #[arg(short, long, value_name = "OUT", conflicts_with = "npy", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Print comma-separated values
    #[arg(long, group = "form")]
    pub csv: bool,
    /// Print one JSON document
    #[arg(long, group = "form")]
    pub json: bool,
    /// Write one array as a NumPy file; the step is its first dimension
    #[arg(long, value_name = "OUT", group = "form", value_hint = ValueHint::FilePath)]
    pub npy: Option<PathBuf>,
    /// Print large parts of arrays that no block covers, as 0, too
    #[arg(long)]
    pub fill: bool,
    /// Verify the checksums of all blocks that are read
    #[arg(long, group = "reads")]
    pub checked: bool,
    /// Do not compare process groups with the index: prints the values of a damaged file
    #[arg(long, group = "reads")]
    pub unchecked: bool,
}

/// A number from 1.
fn per_line(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "expected a whole number from 1".into())
}

/// Draw values: lines over steps or indices, planes as heat maps.
///
/// In the terminal, in its width, or to a file that ends in .svg or .png. Statistics and arrays without a slice are drawn from
/// characteristics, without reading values.
#[derive(Debug, Args)]
#[command(after_help = "\
What is drawn depends on what a slice (see thalweg help dump) leaves:
  time             a scalar over the steps
  v                of an array: minimum, mean and maximum over the steps, from characteristics
  max(v)           one of them; also min, mean, std and sum
  v[:, 3, 4]       one element over the steps
  v[-1, 3, :]      a line over the indices
  v[-1, :, :]      a plane: a heat map
  v[:, 3, :]       steps and indices: a heat map
Of complex values the magnitude is drawn. What is not finite, or with --log not above 0, is left
out, and told.

Examples:
  thalweg plot run.bp time dt                      two lines
  thalweg plot run.bp v -o v.svg --log
  thalweg plot run.bp 'max(v)' 'mean(v)' --over time
  thalweg plot run.bp 'v[-1, 32]' -o plane.png --min 0 --max 1

Exit codes: 0 drawn, 1 no such variable, step or index, or nothing to draw, 2 usage, 3 a file
can't be read or written.")]
pub struct Plot {
    /// File to read
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Variables, with or without a slice, or statistics of them: one plane, or lines over the same axis
    #[arg(required = true, value_name = "SLICE")]
    pub slice: Vec<String>,
    /// Draw to this file: a picture of SVG or PNG, by its ending
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Logarithmic axis of values
    #[arg(long)]
    pub log: bool,
    /// Least value of the axis, or of the colours
    #[arg(long, value_name = "VALUE", value_parser = finite, allow_negative_numbers = true)]
    pub min: Option<f64>,
    /// Greatest value of the axis, or of the colours
    #[arg(long, value_name = "VALUE", value_parser = finite, allow_negative_numbers = true)]
    pub max: Option<f64>,
    /// Draw over the values of this scalar, instead of the numbers of steps
    #[arg(long, value_name = "NAME")]
    pub over: Option<String>,
    /// Title; by default the names of file and variables
    #[arg(long)]
    pub title: Option<String>,
    /// Size: columns and lines in the terminal, pixels in a picture
    #[arg(long, value_name = "WIDTHxHEIGHT", value_parser = picture_size)]
    pub size: Option<(usize, usize)>,
}

/// A number that is neither NaN nor infinite.
fn finite(text: &str) -> Result<f64, String> {
    text.parse::<f64>().ok().filter(|v| v.is_finite()).ok_or_else(|| "expected a number, as 0.5 or 1e-3".into())
}

/// `800x600`
fn picture_size(text: &str) -> Result<(usize, usize), String> {
    let number = |text: &str| text.parse::<usize>().ok().filter(|n| (1..=4096).contains(n));
    let sizes = text.split_once('x').and_then(|(w, h)| Some((number(w)?, number(h)?)));
    sizes.ok_or_else(|| "expected a width and a height up to 4096, as 800x600".into())
}

/// Follow a file while it is written: each step with minimum, maximum and mean of its variables.
///
/// Reads characteristics only. Ends when the program has closed the file for good.
#[derive(Debug, Args)]
#[command(after_help = "\
A line for each step and variable: the time (UTC) at which the step was seen, its number, the
variable with the value of a scalar, or minimum, maximum and mean of an array's finite values ('-':
not recorded). The file may begin later. Ctrl-C ends the command.

Examples:
  thalweg watch run.bp                    all variables
  thalweg watch run.bp time 'T*' --new    only steps that are closed from now on
  thalweg watch run.bp T --plot           a chart, drawn again at each step
  thalweg watch run.bp --timeout 10min && echo ended

Exit codes: 0 the file was closed for good, or as many steps as --steps were seen, or Ctrl-C; 1 no
such variable, the writer died, or no step came in time; 2 usage, 3 the file can't be read.")]
pub struct Watch {
    /// File to follow
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Variables, by name or pattern (*, ?, [a-z]); by default all with numbers
    pub name: Vec<String>,
    /// Leave out the steps that are closed already, but for the last one
    #[arg(long)]
    pub new: bool,
    /// End after so many steps
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub steps: Option<u64>,
    /// End when no step has come for so long: 60s, 5min
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub timeout: Option<std::time::Duration>,
    /// Draw lines over the steps: scalars, and minimum, mean and maximum of arrays
    #[arg(long, conflicts_with = "json")]
    pub plot: bool,
    /// With --plot: logarithmic axis of values
    #[arg(long, requires = "plot")]
    pub log: bool,
    /// Read through the staging server of this partition, which has steps before they are stored
    #[arg(long, value_name = "PARTITION", value_hint = ValueHint::FilePath)]
    pub through: Option<PathBuf>,
    /// Print one JSON document for each step, in a line
    #[arg(long)]
    pub json: bool,
}

/// Find steps and blocks by their characteristics.
///
/// Reads the index only, never the values: prints each step that may match, and whether it certainly does.
#[derive(Debug, Args)]
#[command(after_help = "\
Expressions:
  min(v) max(v) mean(v) std(v) sum(v) count(v)    statistics of the finite values of v
  v > 0.3                                         some element of v is above 0.3
  step >= 3, attribute(units) == \"K\"              the step; an attribute
  < <= > >= == !=, and or not, ( )                0 < max(v) < 1 works too
  max(\"my var\"), any(\"3d\") > 0                    names with blanks, or that look like numbers
Statistics of complex variables are those of the magnitude. They leave out NaN and infinities.
Values of type real are compared as they are printed: v == 0.1 works. A comparison with a variable
that a step does not have is false.

A step is evaluated from all its blocks together; with --blocks, each block from its own
characteristics and, for the other variables of the expression, from those of the whole step.

Examples:
  thalweg find run.bp 'max(v) > 0.3' --first       the first such step
  thalweg find run.bp 'v > 0.3 and u < 0.1' --blocks

Exit codes: 0 found, 1 ruled out everywhere, 2 usage, 3 the file can't be read.")]
pub struct Find {
    /// File to search, or an index file made by `thalweg index`
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Expression to search for
    pub expression: String,
    /// Stop at the first step that matches
    #[arg(long)]
    pub first: bool,
    /// Also print the matching blocks of these steps, with their boxes
    #[arg(long)]
    pub blocks: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Check a file: checksums, shapes, offsets, index.
///
/// Reads every byte. Verifies the checksums, that dimensions and types agree across ranks, that the blocks of a global
/// array lie inside it, cover it and don't overlap, and that the index equals the result of a scan.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  thalweg verify run.bp && echo sound
  thalweg verify run.bp other.bp

Exit codes: 0 sound, 1 findings, 2 usage, 3 the file can't be read.")]
pub struct Verify {
    /// Files to check
    #[arg(required = true, value_hint = ValueHint::FilePath)]
    pub file: Vec<PathBuf>,
    /// Print one JSON document; of several files an array of them
    #[arg(long)]
    pub json: bool,
}

/// Repair the index of a file that was cut off.
///
/// Writes a full index after the closed steps, rebuilt from the process groups if the old one is lost, and truncates
/// torn bytes. Keeps every closed step and every whole process group. Other BP readers can't open such a file before;
/// Thalweg can. Refuses a file that a process still writes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg recover run.bp --dry-run    print the repairs without making them
  thalweg recover run.bp

Exit codes: 0 recovered, or nothing to do, 1 nothing can be recovered, 2 usage, 3 the file can't be
read or written.")]
pub struct Recover {
    /// Files to repair, in place
    #[arg(required = true, value_hint = ValueHint::FilePath)]
    pub file: Vec<PathBuf>,
    /// Print the repairs, change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Also index whole process groups of steps that were not closed, after an earlier run too
    #[arg(long)]
    pub partial: bool,
    /// Do not check whether a process writes the file
    ///
    /// For stores without leases (NFS, HDFS, S3), once the program has ended. If a writer lives, its output in flight is
    /// lost.
    #[arg(long)]
    pub even_if_written: bool,
}

/// Print how many bytes of a file are values, framing, holes, index and dead bytes.
///
/// Framing surrounds the values; holes lie between process groups that begin at stripe boundaries; no reader needs dead
/// bytes. Reads the heads of process groups, not the values.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg stat run.bp            one line per kind of bytes
  thalweg stat run.bp --files    the same for each subfile

Exit codes: 0 printed, 2 usage, 3 the file can't be read.")]
pub struct Stat {
    /// Files to inspect
    #[arg(required = true, value_hint = ValueHint::FilePath)]
    pub file: Vec<PathBuf>,
    /// Also print each subfile
    #[arg(long)]
    pub files: bool,
    /// Print one JSON document; of several files an array of them
    #[arg(long)]
    pub json: bool,
}

/// Copy a file, or parts of it, in other blocks, types and transforms.
///
/// What is not changed by an option comes out as it was. Subfiles become one file, and bytes that nothing refers to are gone. What has
/// no place in the copy is listed on standard error. The file is not changed.
#[derive(Debug, Args)]
#[command(after_help = "\
PATTERN: a name, or a pattern with * (any characters, / too), ?, [a-z]. Of several that fit, the last counts.
Regions: 'u[0:100, ::4]', slowest dimension first; missing dimensions are taken whole.

Examples:
  thalweg copy run.bp one.bp                            one file, without dead bytes
  thalweg copy run.bp small.bp --only u,v --steps ::10  two variables of every tenth step
  thalweg copy run.bp slice.bp --region 'u[:, :, 32]' --region 'v[::4, ::4, ::4]'
  thalweg copy run.bp packed.bp --blocks merged --transform '*=zlib:5' --type 'u=real'
  thalweg copy run.bp out.bp --continue                 adds the steps that an earlier copy lacks
  thalweg copy run.bp out.bp --follow                   goes on while the run writes
  thalweg copy run.bp out.bp --services config.xml      with histograms, functions of your own, ...

Exit codes: 0 copied, 1 no variable fits, a step passed without one of its services, or the writer of
a followed file died or was too slow, 2 usage, 3 a file can't be read or written.")]
pub struct Copy {
    /// File to copy
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The copy
    #[arg(value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    #[command(flatten)]
    pub chosen: Chosen,
    /// Blocks of global arrays: written (as they are), merged (as few as the memory allows), or so many along each dimension: 4x2
    #[arg(long, default_value = "written")]
    pub blocks: String,
    /// Write by this method, with its parameters: 'MPI_AGGREGATE;num_aggregators=4'
    #[arg(long, default_value = "MPI")]
    pub method: String,
    /// Memory for values: 256MiB, 1GB; a block that is copied whole may be larger
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = size)]
    pub memory: u64,
    /// Replace a file of this name
    #[arg(short, long, conflicts_with = "go_on")]
    pub force: bool,
    /// Add the missing steps to an earlier copy, made with the same options
    #[arg(long = "continue")]
    pub go_on: bool,
    /// Go on with the steps that a running program still writes, until it has closed the file
    #[arg(long)]
    pub follow: bool,
    /// With --follow: end when no step has come for so long: 60s, 5min
    #[arg(long, value_name = "TIME", value_parser = time, requires = "follow")]
    pub wait: Option<std::time::Duration>,
    /// Give the outputs of a group to its data services, which element services of this XML document lists
    #[arg(long, value_name = "CONFIG", value_hint = ValueHint::FilePath)]
    pub services: Option<PathBuf>,
    /// With --services: the group, where several have services
    #[arg(long, requires = "services")]
    pub group: Option<String>,
    /// Read through the staging server of this partition, which has steps before they are stored
    #[arg(long, value_name = "PARTITION", value_hint = ValueHint::FilePath)]
    pub through: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// What of a file is taken, and in what form.
#[derive(Debug, Args)]
pub struct Chosen {
    /// Only variables that fit one of these patterns
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Leave out variables that fit one of these patterns
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    pub without: Vec<String>,
    /// Only these steps: FIRST:END, FIRST:END:STRIDE, or one, from 0
    #[arg(long, value_name = "STEPS")]
    pub steps: Option<String>,
    /// Only this part of global arrays
    #[arg(long = "region", value_name = "PATTERN[RANGES]")]
    pub regions: Vec<String>,
    /// Give variables another number type: real, double, integer, ...
    #[arg(long = "type", value_name = "PATTERN=TYPE")]
    pub types: Vec<String>,
    /// Give arrays another transform, as zlib:5; none: no transform. HDF5 has zlib, Zarr zlib and zstd
    #[arg(long = "transform", value_name = "PATTERN=TRANSFORM")]
    pub transforms: Vec<String>,
}

impl Chosen {
    /// The words of the choice.
    pub fn written(&self, blocks: Option<String>) -> Written {
        let Chosen { only, without, steps, regions, types, transforms } = self;
        Written {
            only: only.clone(),
            without: without.clone(),
            steps: steps.clone(),
            regions: regions.clone(),
            types: types.clone(),
            transforms: transforms.clone(),
            blocks,
        }
    }
}

/// Convert a file to another format, by the endings of the names.
///
/// BP to HDF5, netCDF-4 and Zarr, and these to BP; BP to tables. What has no place in the target is listed on standard error. The file is not changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Endings: .bp; .h5 .hdf5 .he5 (HDF5); .nc .nc4 .cdf (netCDF-4); .zarr (Zarr, a folder); .csv .parquet
(tables: a row for each step, or for each element of arrays of one axis).
PATTERN: a name, or a pattern with * (any characters, / too), ?, [a-z]. Of several that fit, the last counts.

Examples:
  thalweg convert run.bp run.h5                          all variables and steps; steps are the first axis
  thalweg convert run.bp u.nc --only u --steps ::10 --region 'u[:, :, 32]'
  thalweg convert run.bp small.h5 --type '*=real' --transform '*=zlib:5' --chunks 'u=64x64'
  thalweg convert run.bp run.zarr --transform '*=zstd'
  thalweg convert run.bp series.csv                      a row for each step
  thalweg convert climate.nc climate.bp                  a dataset, in one step
  thalweg convert climate.nc climate.bp --steps-along time

Exit codes: 0 converted, 1 no variable fits, 2 usage, 3 a file can't be read or written.")]
pub struct Convert {
    /// File to convert
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The file that is made
    #[arg(value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    #[command(flatten)]
    pub chosen: Chosen,
    /// Extents of chunks in HDF5 and Zarr, without the axis of steps
    #[arg(long, value_name = "PATTERN=64x64")]
    pub chunks: Vec<String>,
    /// In BP files: blocks of arrays, so many along each dimension: 4x2
    #[arg(long)]
    pub blocks: Option<String>,
    /// In BP files: the axis whose positions become steps
    #[arg(long, value_name = "AXIS")]
    pub steps_along: Option<String>,
    /// In BP files: the method that writes, with its parameters (default: MPI)
    #[arg(long)]
    pub method: Option<String>,
    /// Memory for values: 256MiB, 1GB; a block that is read whole may be larger
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = size)]
    pub memory: u64,
    /// Replace a file of this name
    #[arg(short, long)]
    pub force: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Call a function of a shared library for another process.
#[derive(Debug, Args)]
pub struct FunctionHost {
    /// The library
    pub library: PathBuf,
    /// The function
    pub function: String,
}

/// Compare two files: variables, steps, shapes, values, attributes.
///
/// One of them may be an HDF5, netCDF-4 or Zarr file: it is compared with what `thalweg convert` would make of the other. How values are stored makes no difference: blocks of global arrays, subfiles, transforms, byte order. Numbers of different types are
/// compared by value. NaN equals NaN.
#[derive(Debug, Args)]
#[command(after_help = "\
Values are equal if they differ by at most --absolute, or by at most --relative times the larger
magnitude. For each variable and step: how many differ, and place and size of the largest difference.

Examples:
  thalweg diff run.bp other.bp
  thalweg diff run.bp other.bp --only u,v --relative 1e-6
  thalweg diff run.bp other.bp --values --json
  thalweg diff run.bp run.h5

Exit codes: 0 equal, 1 different, 2 usage, 3 a file can't be read.")]
pub struct Diff {
    /// One file
    #[arg(value_hint = ValueHint::FilePath)]
    pub a: PathBuf,
    /// The other file
    #[arg(value_hint = ValueHint::FilePath)]
    pub b: PathBuf,
    /// Compare only variables and attributes that fit one of these patterns
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Leave out those that fit one of these patterns
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    pub without: Vec<String>,
    /// Largest difference of equal values
    #[arg(long, value_name = "DIFFERENCE", default_value_t = 0.0, value_parser = difference)]
    pub absolute: f64,
    /// Largest difference of equal values, as a share of the larger magnitude
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = difference)]
    pub relative: f64,
    /// Compare no attributes
    #[arg(long)]
    pub values: bool,
    /// Memory for values: 256MiB, 1GB
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = size)]
    pub memory: u64,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// A number from 0.
fn difference(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "expected a number from 0, as 1e-6".into())
}

/// Write the index alone to a small file.
///
/// `ls` and `find` accept the index file in place of the data.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  thalweg index run.bp -o run.index && thalweg ls -l run.index

Exit codes: 0 written, 2 usage, 3 a file can't be read or written.")]
pub struct Index {
    /// File whose index is written
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// File to write
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
}

/// Let tools of other formats read the values of a file in place
///
/// A view is a small file beside the data. It is made from the index alone, and lists where the values are.
#[derive(Debug, Subcommand)]
pub enum View {
    Zarr(ViewZarr),
    Hdf5(ViewHdf5),
    Vtk(ViewVtk),
    Openpmd(ViewOpenpmd),
}

/// References for Zarr: xarray, dask and zarr-python read the values in place.
///
/// The view shows the steps that are closed now; --follow adds later ones. It contains the absolute names of the files: make it again after
/// they were moved. One JSON document, or a folder of tables in the form of kerchunk, which is smaller and is opened faster, and where a step
/// costs the same however many are before it: see --as.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg view zarr run.bp                writes run.zarr.json
  thalweg view zarr run.bp --as parquet   writes the folder run.zarr.parquet
  thalweg view zarr run.bp -o refs.json
  thalweg view zarr run.bp --follow       while the run writes
  thalweg view zarr run.bp --at s3://bucket/run.bp

In Python, with the packages xarray, zarr and kerchunk, for a folder with fastparquet too:
  xarray.open_dataset(\"run.zarr.json\", engine=\"kerchunk\")

Folders need the program thalweg-convert, beside thalweg or in PATH.
Variables that Zarr cannot show are listed with the reason.

Exit codes: 0 written, 1 written but no variable is shown, 2 usage, 3 a file can't be read or written.")]
pub struct ViewZarr {
    /// File to show
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// File or folder to write; by default the name of the file with .zarr.json or .zarr.parquet instead of .bp
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Form of the references; by default parquet if OUT ends with .parquet or .parq, else json
    #[arg(long = "as", value_name = "FORM", value_enum)]
    pub form: Option<References>,
    /// Where readers find the file, if a copy of it lies elsewhere: an URL
    #[arg(long, value_name = "URL")]
    pub at: Option<String>,
    #[command(flatten)]
    pub following: Following,
}

/// Forms of references.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum References {
    /// One document
    Json,
    /// A folder of tables
    Parquet,
}

/// An HDF5 file: h5py, netCDF4, xarray and programs of HDF5 and netCDF read the values in place.
///
/// The view shows the steps that are closed now; --follow makes it again for later ones. It contains the absolute names of the files: make it
/// again after they were moved.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg view hdf5 run.bp                writes run.h5
  thalweg view hdf5 run.bp -o view.h5

In Python:
  h5py.File(\"run.h5\")[\"temperature\"][0]
  xarray.open_dataset(\"run.h5\")

Needs the program thalweg-convert, beside thalweg or in PATH.
Variables that the view cannot show are listed with the reason.

Exit codes: 0 written, 1 written but no variable is shown, 2 usage, 3 a file can't be read or written.")]
pub struct ViewHdf5 {
    /// File to show
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// File to write; by default the name of the file with .h5 instead of .bp
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Names of data files relative to the view's folder: both can be moved together
    #[arg(long)]
    pub relative: bool,
    #[command(flatten)]
    pub following: Following,
}

/// A VTKHDF file: VTK and programs with its reader show one mesh of a file, its values read in place.
///
/// Uniform, rectilinear and structured meshes as the file's XML describes them; without a mesh, arrays of one shape are shown as an image.
/// The view shows the steps that are closed now; --follow makes it again for later ones. It contains the absolute names of the files: make it
/// again after they were moved.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg view vtk run.bp                 writes run.vtkhdf
  thalweg view vtk run.bp --mesh fine -o fine.vtkhdf

In Python, with the package vtk:
  reader = vtk.vtkHDFReader()
  reader.SetFileName(\"run.vtkhdf\")
  reader.Update()

Needs the program thalweg-convert, beside thalweg or in PATH.
Variables that the view cannot show are listed with the reason.

Exit codes: 0 written, 1 written but no variable is shown, 2 usage, 3 a file can't be read or written.")]
pub struct ViewVtk {
    /// File to show
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// File to write; by default the name of the file with .vtkhdf instead of .bp
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Mesh to show; by default that of the first variable with one
    #[arg(long, value_name = "NAME")]
    pub mesh: Option<String>,
    /// Names of data files relative to the view's folder: both can be moved together
    #[arg(long)]
    pub relative: bool,
    #[command(flatten)]
    pub following: Following,
}

/// A small BP file with the names and attributes of openPMD: openPMD-api and openPMD-viewer read the values in place.
///
/// Each step is an iteration, each array a mesh record; arrays E/x, E/y, E/z or E_x, E_y, E_z are the components of one. Meshes of the
/// file's XML give axes, distances and positions, and attributes `units` the units. The view shows the steps that are closed now; --follow
/// makes it again for later ones. It finds the data through links in a folder beside it: move the view, this folder and the data together.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg view openpmd run.bp             writes run.openpmd.bp and links in run.openpmd.bp.dir
  thalweg view openpmd run.bp -o series.bp

In Python, with the package openpmd-api or openpmd-viewer:
  openpmd_api.Series(\"run.openpmd.bp\", openpmd_api.Access.read_only)
  openpmd_viewer.OpenPMDTimeSeries(\"run.openpmd.bp\")

What openPMD cannot hold is listed with the reason.

Exit codes: 0 written, 1 written but no variable is shown, 2 usage, 3 a file can't be read or written.")]
pub struct ViewOpenpmd {
    /// File to show
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// File to write, with a name that ends with .bp; by default the name of the file with .openpmd.bp instead of .bp
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub following: Following,
}

/// A view of a file that is being written.
#[derive(Debug, Args)]
pub struct Following {
    /// Make the view again for each step that a running program closes, until it has closed the file
    #[arg(long)]
    pub follow: bool,
    /// With --follow: end when no step has come for so long: 60s, 5min
    #[arg(long, value_name = "TIME", value_parser = time, requires = "follow")]
    pub wait: Option<std::time::Duration>,
}

/// Check configurations
#[derive(Debug, Subcommand)]
pub enum Config {
    /// Check an XML configuration and print every error with its line
    #[command(after_help = "\
Example:
  thalweg config lint gray-scott.xml

Exit codes: 0 no errors (warnings are shown), 1 errors, 2 usage, 3 the file can't be read.")]
    Lint {
        /// Configuration to check
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Print the mounts, and every error in the mount table with its line
    ///
    /// Opens all stores, remote ones included.
    #[command(after_help = "\
The mount table is the file named by THALWEG_MOUNTS; without it, ~/.config/thalweg/mounts.toml and
/etc/thalweg/mounts.toml, if they exist.

Examples:
  thalweg config check                 the mounts of this user on this machine
  thalweg config check mounts.toml     the mounts of a file, before it is installed

Exit codes: 0 all mounts work, 1 a mount doesn't, 2 usage, 3 a file can't be read.")]
    Check {
        /// Mount table to check, instead of the ones in use
        #[arg(value_hint = ValueHint::FilePath)]
        file: Option<PathBuf>,
    },
}

/// Locate the bytes of files under mounts; check, repair and compact them.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  thalweg layout map /scratch/run7/ckpt | head
  thalweg layout flatten /scratch/run7/ckpt /archive/ckpt
  thalweg layout check /scratch/run7/ckpt && thalweg layout compact /scratch/run7/ckpt

Exit codes: 0 done, 1 a check found something, 2 usage, 3 a file can't be read or written.")]
pub enum Layout {
    /// Print the object that holds each range of a file's bytes
    Map {
        /// File under a mount
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// First byte of the range
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// End of the range, exclusive; by default the end of the file
        #[arg(long)]
        to: Option<u64>,
    },
    /// Copy a file under a mount to a plain file
    Flatten {
        /// File under a mount
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// File to create; it must not exist
        #[arg(value_hint = ValueHint::FilePath)]
        to: PathBuf,
        /// Do not check whether a process writes the file, except on container layouts
        #[arg(long)]
        even_if_written: bool,
    },
    /// Reclaim the space of overwritten and removed bytes
    Compact {
        /// File of a container mount, or folder of small files
        #[arg(value_hint = ValueHint::AnyPath)]
        path: PathBuf,
    },
    /// Read all bytes and verify their checksums
    Check {
        /// File or folder of a container mount, or folder of small files
        #[arg(value_hint = ValueHint::AnyPath)]
        path: PathBuf,
    },
    /// Repair files of writers that died, and rebuild lost index logs
    Repair {
        /// File or folder of a container mount, or folder of small files
        #[arg(value_hint = ValueHint::AnyPath)]
        path: PathBuf,
        /// Also repair sessions whose writer may still live
        #[arg(long)]
        all: bool,
        /// Also truncate files at logs that end early, after a power cut or a loss on a store; the whole part is kept
        #[arg(long)]
        lost: bool,
    },
    /// Print the layout of a file, its number of writers and the size of its index
    Stat {
        /// File or folder
        #[arg(value_hint = ValueHint::AnyPath)]
        path: PathBuf,
    },
}

/// Generate the calls that write and read a group, for a program to include.
///
/// Creates two files per group, gwrite_GROUP.ch and gread_GROUP.ch (Fortran: .fh), like gpp.py of ADIOS 1.x. When the
/// configuration changes, only these files change, not the program.
#[derive(Debug, Args)]
#[command(after_help = "\
The expression for a variable is its gwrite (gread) attribute, by default its name; lines of
<gwrite src=\"...\"/> are copied in place. The program must declare variables of these names:
  adios_handle, adios_groupsize, adios_totalsize; to read also adios_buf_size; in Fortran adios_err

Examples:
  thalweg gen heat.xml                      all groups, in the configuration's language
  thalweg gen heat.xml -l fortran -g restart -o src

Exit codes: 0 written or unchanged, 1 errors in the configuration, or no such group, 2 usage, 3 a
file can't be read or written.")]
pub struct Gen {
    /// Configuration that describes the groups
    #[arg(value_hint = ValueHint::FilePath)]
    pub config: PathBuf,
    /// Language of the calls; by default that of the configuration
    #[arg(short, long, value_enum)]
    pub language: Option<GenLanguage>,
    /// Generate this group only; may be repeated
    #[arg(short, long)]
    pub group: Vec<String>,
    /// Folder to write to; created if missing
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

/// Show where ranks spent their time in an output, and which ranks delayed others.
///
/// Outputs write profiles to NAME.profile/step-N.json if their method has profile=yes in the XML, or if THALWEG_PROFILE=1 is set.
/// With the latter, files that MPI-IO programs use through the door have profiles too, one per open. Several profiles are added up.
#[derive(Debug, Args)]
#[command(after_help = "\
The time of a phase excludes phases nested in it. If a rank waits for a rank that waits itself, the
rank at the end of that chain is named, with its phase. \"its program\": the rank had not entered the
call yet, or was between its writes. \"messages\": all ranks had entered, and the call itself took
the time.

Examples:
  thalweg profile run.bp                                  all steps, added up
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
    /// Number of ranks to list among those that delayed others
    #[arg(long, alias = "held", value_name = "COUNT", default_value_t = 10)]
    pub delaying: usize,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Simulate methods on a described machine.
///
/// Simulates ranks, nodes, a metadata server and storage targets in virtual time; the order of writes is the planner's. The same seed
/// gives the same result.
#[derive(Debug, Args)]
#[command(after_help = "\
Built-in machines: jaguar-xt4, jaguarpf-xt5, lonestar, present-day. Others are described in TOML.
Loads: btio-b, btio-c (a square number of ranks), tile; on machines with data servers: lonestar.
Figures: cug2009-4, -5, -6, -7, -8, sand-5, ahpios-btio-b, -btio-c, -tile, drawn to NAME.svg with
the published numbers.

Examples:
  thalweg sim jaguarpf-xt5 --ranks 32768 --size 768MiB                     all methods
  thalweg sim jaguarpf-xt5 --ranks 32768 --size 768MiB --method ADAPTIVE   with the slowest ranks
  thalweg sim jaguarpf-xt5 --ranks 32768 --size 768MiB --slow 1%x20        some targets 20 times slower
  thalweg sim lonestar --load btio-b --ranks 16                            a partition, two-phase
  thalweg sim --figure cug2009-4

Exit codes: 0 simulated, 2 usage, 3 a file can't be read or written.")]
pub struct Sim {
    /// Description of the machine, or the name of a built-in one
    #[arg(value_hint = ValueHint::FilePath, required_unless_present = "figure")]
    pub machine: Option<PathBuf>,
    /// Ranks that write
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=i64::from(thalweg_sim::methods::MOST_RANKS)))]
    pub ranks: u32,
    /// Bytes that each rank writes: 768MiB, 8M, 4096; k, M, G are powers of two, as in the XML
    #[arg(long, default_value = "64MiB", value_parser = size)]
    pub size: u64,
    /// Simulate this method only; may be repeated
    #[arg(short, long)]
    pub method: Vec<String>,
    /// Simulate a benchmark's collective MPI-IO calls instead: a partition beside two-phase
    #[arg(long, value_name = "NAME", conflicts_with_all = ["size", "method", "parameters", "slow", "background", "seed", "slowest"])]
    pub load: Option<String>,
    /// Parameters of the method, as in the XML: num_files=84;writers_per_target=1
    #[arg(short, long, value_parser = crate::command::sim::parameters)]
    pub parameters: Option<thalweg_params::Parameters>,
    /// Share of the targets that are slow, and the factor; the remaining bandwidth is printed
    #[arg(long, value_name = "SHARExTIMES", value_parser = crate::command::sim::slow)]
    pub slow: Option<(thalweg_sim::machine::Share, thalweg_sim::machine::Above)>,
    /// Share of the targets' bandwidth used by other programs
    #[arg(long, value_name = "SHARE", value_parser = crate::command::sim::share)]
    pub background: Option<thalweg_sim::machine::Share>,
    /// Seed of the noise
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of slowest ranks to list; 5 by default if one method is simulated
    #[arg(long)]
    pub slowest: Option<usize>,
    /// Draw a figure instead
    #[arg(long, value_name = "NAME", conflicts_with_all = ["machine", "ranks", "size", "method", "load", "parameters", "slow", "background", "slowest"])]
    pub figure: Option<String>,
    /// File for the picture of a figure
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
    u128::from_str_radix(text, 16).map_err(|_| "expected the hexadecimal number that --status prints".into())
}

/// Move the closed objects of a burst buffer from its fast store to the canonical store.
///
/// Copies each closed object, reads the copy back, compares it, and only then removes the object from the fast store.
/// Programs see one store throughout. Runs until it is stopped or killed; the next drain continues.
#[derive(Debug, Args)]
#[command(after_help = "\
STORE has the form of the mount table: tiered:FAST=>CANONICAL.

Examples:
  thalweg drain 'tiered:posix:/nvme/runs=>posix:/project/runs'            until it is stopped
  thalweg drain 'tiered:posix:/nvme/runs=>posix:/project/runs' --once     until all closed objects are moved
  thalweg drain 'tiered:posix:/nvme/runs=>posix:/project/runs' --rate 200MiB
  thalweg drain 'tiered:posix:/nvme/runs=>posix:/project/runs' --status   print where objects are

A mount over a burst buffer starts a drain after each close, unless it sets drain = \"manual\"; that
drain ends after 10 s without work. --once waits for a drain that is running.

Exit codes: 0 done, 1 with --once: an object could not be moved, 2 usage, 3 a store can't be read or
written, or another drain is running.")]
pub struct Drain {
    /// The burst buffer
    #[arg(value_name = "STORE")]
    pub store: String,
    /// Print where objects are, move nothing
    #[arg(long, conflicts_with_all = ["once", "rate", "streams"])]
    pub status: bool,
    /// End when all closed objects have been moved
    #[arg(long)]
    pub once: bool,
    /// End after so many seconds without an object to move
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["once", "status"])]
    pub idle: Option<u64>,
    /// Give up the objects of another node's fast store that is lost for good; --status lists such stores by number
    #[arg(long, value_name = "NUMBER", value_parser = number, conflicts_with_all = ["once", "status", "idle"])]
    pub forget: Option<u128>,
    /// As mounts start a drain: in a session of its own, logging to the fast store
    #[arg(long, hide = true, conflicts_with_all = ["once", "status"])]
    pub behind: bool,
    /// Limit of bytes per second, copied and read back: 200MB, 200MiB; MB are 10^6
    #[arg(long, value_name = "BYTES", value_parser = rate)]
    pub rate: Option<u64>,
    /// Number of objects moved concurrently
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub streams: u32,
    /// Print one JSON document, with --status
    #[arg(long, requires = "status")]
    pub json: bool,
}

/// Change what a run writes, and how often, while it runs.
///
/// The run takes the change at its next written output, on all ranks; it holds from the output after that, which is printed.
#[derive(Debug, Args)]
#[command(after_help = "\
The method of the output has the parameter control=yes. Outputs are counted by the program.
--only, --box: scalars and texts are always written; a box counts for global arrays of as many
dimensions, slowest first, as 'thalweg ls' shows them. What is not named stays as it is.

Examples:
  thalweg control run.bp --every 10             one output of ten
  thalweg control run.bp --every 1 --only v,u --box 0:64,16:32
  thalweg control run.bp --only all --box all   everything again
  thalweg control run.bp --stop                 ask the program to stop
  thalweg control run.bp --status               who writes, and the settings in force

Exit codes: 0 the change holds, 1 the run is dead, refuses the change, or does not take it in time,
2 usage, 3 a file can't be read or written, or another change waits.")]
pub struct Control {
    /// The output, by the name with which the program opens it
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Write one output of N: the first one at or after each multiple of N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub every: Option<u64>,
    /// Write these arrays only; all: every array
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Write this part of global arrays only: FROM:TO for each dimension; all: the whole arrays
    #[arg(long = "box", value_name = "BOX")]
    pub region: Option<String>,
    /// Write by this method from now on, with its parameters: 'STAGING;partition=stage.cfg'; declared: by the one of the configuration
    #[arg(long, value_name = "METHOD")]
    pub method: Option<String>,
    /// Ask the program to stop
    #[arg(long, conflicts_with = "go_on")]
    pub stop: bool,
    /// Ask the program to stop once it has closed an output of this group: a restart output
    #[arg(long, value_name = "GROUP", conflicts_with_all = ["stop", "go_on"])]
    pub stop_after: Option<String>,
    /// No longer ask the program to stop
    #[arg(long)]
    pub go_on: bool,
    /// Print the settings in force, change nothing
    #[arg(long, conflicts_with_all = ["every", "only", "region", "method", "stop", "stop_after", "go_on", "wait"])]
    pub status: bool,
    /// Withdraw the change if the run has not taken it after this time: 60s, 5min
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub wait: Option<std::time::Duration>,
    /// The control file, of a method with control=FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub control: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// The MPI library of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Mpi {
    /// That of the program, or of the launcher
    Auto,
    /// Open MPI
    Openmpi,
    /// MPICH and those with its interface
    Mpich,
    /// MPI-IO is left to the MPI library, which then sees mounts as POSIX files
    None,
}

/// Run an unchanged program with access to the mounts (LD_PRELOAD).
///
/// Calls with paths under a mount go to Thalweg, all others to the system; programs that it starts inherit the mounts. The mount
/// table is checked first. Supported calls and limits: docs/guide/doors.md; of MPI-IO: docs/guide/mpi-io.md.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg run -- ./simulation input.txt
  thalweg run -- bash -c 'tar -cf /scratch/run7/all.tar results'
  mpiexec -n 4 thalweg run -- ./simulation
  mpiexec -n 4 thalweg run --mpi mpich -- python3 simulation.py

Exit codes: that of the program; 2 usage, 3 the mount table or the program can't be used.")]
pub struct Run {
    /// Also run a program that cannot see the mounts itself: statically linked, or written in Go
    #[arg(long)]
    pub anyway: bool,
    /// The MPI library of the program, for files that it opens with MPI-IO: auto looks at the program, then at the launcher's
    /// environment
    #[arg(long, value_name = "MPI", default_value = "auto")]
    pub mpi: Mpi,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<std::ffi::OsString>,
}

/// Show the files of a mount as a folder of this machine (FUSE).
///
/// Every program may then use them. A stale mount of a killed process at that folder is unmounted first.
#[derive(Debug, Args)]
#[command(after_help = "\
Page cache of files, --cache:
  passthrough   the kernel reads and writes the files of the store directly. For layouts direct and flat on
                local files, as root, Linux 6.9 and newer; otherwise like through
  through       caches reads until the file is opened again; writes through
  writeback     caches reads and writes. Only if no other machine, and no program outside the mount, writes
By default passthrough if available, writeback for memory, otherwise through.

Examples:
  thalweg mount /mnt/run7                              the only mount of the table, or the one of this path
  thalweg mount /mnt/run7 --path /scratch/run7         the mount of this path
  thalweg mount /mnt/thalweg --path all                all mounts, below their paths
  thalweg mount /mnt/run7 --foreground                 until SIGTERM or SIGINT
  thalweg mount --socket-only                          no folder; serves programs under `thalweg run`
  thalweg mount --status --json                        mounts and their errors

Programs see errors as numbers; the texts are logged to mount-PID.log in XDG_RUNTIME_DIR/thalweg, otherwise in
/tmp/thalweg-UID. A log without errors is removed at the end.

Exit codes: 0 mounted, 2 usage, 3 it cannot be mounted.")]
pub struct Mount {
    /// Folder where the files are shown
    #[arg(value_hint = ValueHint::DirPath)]
    pub mount_point: Option<PathBuf>,
    /// Path of the mount in the mount table, or all
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
    /// Stay in the foreground
    #[arg(long)]
    pub foreground: bool,
    /// Also serve the mounts at this socket, to `thalweg run` of the same user
    #[arg(long, value_name = "SOCKET", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Serve the socket alone; by default at THALWEG_DAEMON, or at thalweg/daemon.sock in
    /// XDG_RUNTIME_DIR, where programs look for it
    #[arg(long)]
    pub socket_only: bool,
    /// Page cache of files
    #[arg(long, value_enum)]
    pub cache: Option<Caching>,
    /// How long the kernel caches names and attributes, in seconds
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<f64>,
    /// Threads that serve the kernel's requests
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: Option<u32>,
    /// Print the mounts and sockets served on this machine, with PIDs and errors; mount nothing
    #[arg(long, conflicts_with_all = ["mount_point", "path", "foreground", "socket", "socket_only"])]
    pub status: bool,
    /// Print one JSON document, with --status
    #[arg(long, requires = "status")]
    pub json: bool,
    /// Started by this command itself
    #[arg(long, hide = true)]
    pub behind: bool,
}

/// Page cache of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Caching {
    Passthrough,
    Through,
    Writeback,
}

/// Make, start and stop partitions: file systems that a job makes out of its nodes' storage.
#[derive(Debug, Subcommand)]
pub enum Partition {
    Create(PartitionFile),
    Start(PartitionStart),
    Status(PartitionStatus),
    Stop(PartitionStop),
    List(PartitionList),
    Check(PartitionCheck),
    Move(PartitionMove),
    Remove(PartitionRemove),
    Serve(PartitionServe),
}

/// Make a partition, as its configuration file describes it. Nothing is started.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  thalweg partition create filesystem.cfg

Exit codes: 0 done, 2 usage, 3 it cannot be done.")]
pub struct PartitionFile {
    /// Configuration file; by default the one that THALWEG_PARTITION names, or filesystem.cfg here
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, default_value_os_t = named::usual(), hide_default_value = true)]
    pub file: PathBuf,
}

/// Remove a partition that does not run, with its files.
#[derive(Debug, Args)]
#[command(after_help = "\
Its folders must be of this host.

Example:
  thalweg partition remove filesystem.cfg

Exit codes: 0 removed, 2 usage, 3 it cannot be removed.")]
pub struct PartitionRemove {
    /// Configuration file
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

/// Copy all files of a partition into another one, which has other static settings. Both run; nobody changes files meanwhile.
#[derive(Debug, Args)]
#[command(after_help = "\
Each copy is read back and compared. The old partition stays: thalweg partition remove removes it.

Example:
  thalweg partition move old.cfg new.cfg

Exit codes: 0 all files are in the new partition, 2 usage, 3 a file cannot be copied.")]
pub struct PartitionMove {
    /// Configuration file of the partition that has the files
    #[arg(value_name = "FROM", value_hint = ValueHint::FilePath)]
    pub from: PathBuf,
    /// Configuration file of the one that gets them
    #[arg(value_name = "TO", value_hint = ValueHint::FilePath)]
    pub to: PathBuf,
}

/// Start the servers of a partition, and wait until they serve. Servers that run already are left alone.
#[derive(Debug, Args)]
#[command(after_help = "\
In a Slurm job each server is a step of its own beside the application's (srun --overlap), so that it gets SIGTERM when the
job ends; in jobs of PBS and Flux pbsdsh and flux run start them; elsewhere servers of this host are started here. --print shows the commands and starts nothing.

Examples:
  thalweg partition start filesystem.cfg
  thalweg partition start filesystem.cfg --print

Exit codes: 0 all servers run, 2 usage, 3 one of them does not.")]
pub struct PartitionStart {
    /// Configuration file; by default the one that THALWEG_PARTITION names, or filesystem.cfg here
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, default_value_os_t = named::usual(), hide_default_value = true)]
    pub file: PathBuf,
    /// Print the command of each server; start nothing
    #[arg(long)]
    pub print: bool,
    /// How servers are started; by default flux, slurm or pbs in a job of one of these, else local
    #[arg(long, value_enum)]
    pub by: Option<StartedBy>,
    /// How long to wait for the servers, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub patience: u64,
}

/// How servers are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum StartedBy {
    /// As processes of this host
    Local,
    /// With srun, as steps of the job
    Slurm,
    /// With pbsdsh, in a job of PBS
    Pbs,
    /// With flux run, in an instance of Flux
    Flux,
    /// With ssh
    Ssh,
}

/// Print what a partition's servers do.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  thalweg partition status filesystem.cfg --json

Servers are asked at the same time: one that does not answer delays nothing but this command's end.

Exit codes: 0 all servers answer, 1 some do not, 2 usage, 3 there is no such partition.")]
pub struct PartitionStatus {
    /// Configuration file; by default the one that THALWEG_PARTITION names, or filesystem.cfg here
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, default_value_os_t = named::usual(), hide_default_value = true)]
    pub file: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
    /// How long to wait for the servers, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub patience: u64,
}

/// Compare the names of a partition that runs with the data that its servers store. Nothing is changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Prints files whose record is damaged or does not fit the partition, data of no file (orphans, which only take space), and objects in the
storages that are no data. Bytes of files are not compared: they have no checksums.

Example:
  thalweg partition check filesystem.cfg

Exit codes: 0 nothing is wrong, 1 something is, 2 usage, 3 it cannot be checked.")]
pub struct PartitionCheck {
    /// Configuration file; by default the one that THALWEG_PARTITION names, or filesystem.cfg here
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, default_value_os_t = named::usual(), hide_default_value = true)]
    pub file: PathBuf,
}

/// Stop the servers of a partition: everything is written to their storage first.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  thalweg partition stop filesystem.cfg

Exit codes: 0 no server runs any more, 2 usage, 3 one of them did not end.")]
pub struct PartitionStop {
    /// Configuration file; by default the one that THALWEG_PARTITION names, or filesystem.cfg here
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, default_value_os_t = named::usual(), hide_default_value = true)]
    pub file: PathBuf,
    /// How long to wait for the servers, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub patience: u64,
}

/// List the partitions of a registry.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  thalweg partition list .thalweg-partitions

Exit codes: 0 done, 2 usage, 3 the registry cannot be read.")]
pub struct PartitionList {
    /// Folder of the registry
    #[arg(value_name = "FOLDER", default_value = ".thalweg-partitions", value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,
}

/// Serve as one server of a partition, until SIGTERM, SIGINT or thalweg partition stop. Started by thalweg partition start.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 ended, everything is written; 2 usage; 3 it cannot serve, or bytes could not be written.")]
pub struct PartitionServe {
    /// Configuration file
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Number of the server: data servers from 0 in the order of their lines
    #[arg(long, value_name = "N")]
    pub server: u32,
    /// Write to the server's log once it runs, so that what has started it can end
    #[arg(long)]
    pub detached: bool,
}

/// Unmount: close the files and publish written bytes.
///
/// Returns when the process that served the mount has ended. Also unmounts a stale mount of a killed process.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 unmounted, 2 usage, 3 busy, no mount of Thalweg, or writes of programs could not be published.")]
pub struct Unmount {
    /// Folder where the files are shown
    #[arg(value_hint = ValueHint::DirPath)]
    pub mount_point: PathBuf,
    /// Also unmount if programs have files open: these are closed
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
  thalweg help wrapper                 keys of a mount that every layout accepts
  thalweg help element buffer          attributes in the XML

Sizes (k, M, G, T, also with B or iB) are powers of two; rates (MB, MB/s) are powers of ten, MiB of two.

Exit codes: 0 explained, 2 no such command or name.")]
pub struct Help {
    /// A command; or method, transform, layout, store, wrapper or element, followed by a name
    #[arg(value_name = "WORD")]
    pub words: Vec<String>,
}

/// List the environment variables that change what Thalweg does, and how they are set.
#[derive(Debug, Args)]
#[command(after_help = "\
Keys and passwords of stores are named, and never printed. A variable THALWEG_... that nothing reads is
told, with the nearest known name.

Examples:
  thalweg env              all, with what happens where they are not set
  thalweg env --set        those that are set
  srun thalweg env --json  on the nodes of a job, for programs

Exit codes: 0 listed, 1 a variable is set that nothing reads, 2 usage.")]
pub struct Env {
    /// List only those that are set
    #[arg(long)]
    pub set: bool,
    /// Print one JSON document
    #[arg(long, conflicts_with = "set")]
    pub json: bool,
}

/// Print the completions of a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg completions bash > ~/.local/share/bash-completion/completions/thalweg
  thalweg completions fish > ~/.config/fish/completions/thalweg.fish")]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// Write manual pages, one for each command.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  thalweg man ~/.local/share/man/man1")]
pub struct Man {
    /// Folder to write them in
    #[arg(value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,
}

/// Measure methods and their parameters on the storage of this machine.
///
/// Writes a group with its real sizes, with threads as ranks, and prints the fastest method as a line of XML, with the measurements.
/// The files are removed at the end, also after an interrupt.
#[derive(Debug, Args)]
#[command(after_help = "\
The time is the median over runs of the slowest rank's, from open to close; half of the runs lie
within the spread. The present method is kept unless another is faster by more than the noise, which
is estimated from the spread and the number of runs. Without sync=yes in the method's parameters, the
measurement includes the system's write cache, as a production run does.

Examples:
  thalweg tune heat.xml --define nx=256 --define ny=256
  thalweg tune gs.xml -g restart -D n=128 --ranks 16 --folder /scratch/me --budget 5min

Exit codes: 0 measured, 1 errors in the configuration, or no such group, 2 usage, 3 a file can't be
read or written.")]
pub struct Tune {
    /// Configuration that describes the group
    #[arg(value_hint = ValueHint::FilePath)]
    pub config: PathBuf,
    /// The group, if the configuration has several
    #[arg(short, long)]
    pub group: Option<String>,
    /// Total time: no run is begun that would end later
    #[arg(short, long, value_name = "TIME", default_value = "60s", value_parser = time)]
    pub budget: std::time::Duration,
    /// Ranks that write; by default one per processor, at least 4
    #[arg(short, long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub ranks: Option<u32>,
    /// Folder to write in; by default the method's base-path, otherwise the current folder
    #[arg(short, long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub folder: Option<PathBuf>,
    /// Value of a variable that occurs in dimensions; may be repeated
    #[arg(short = 'D', long, value_name = "NAME=VALUE", value_parser = crate::command::tune::define)]
    pub define: Vec<(String, i64)>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}
