//! Data services: what a staging server, or `thalweg copy`, does with the outputs of a group on their way.

use crate::model::{SourcePosition, Statistics};
use std::time::Duration;
use thalweg_types::ElementType;

/// The longest time of a call of a user's function, unless another is chosen.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// The services of a group, in the order in which they work.
#[derive(Debug, Clone, PartialEq)]
pub struct Services {
    /// The group.
    pub group: String,
    /// The file that gets the outputs as they leave the services: its path, relative to the folder of the program's file. `%` stands for that
    /// file's name without `.bp`.
    pub output: String,
    /// The services.
    pub services: Vec<Service>,
    /// The element, as it was written.
    pub text: String,
    /// Position in the document.
    pub source: SourcePosition,
}

impl Services {
    /// A document with these services alone.
    pub fn document(&self) -> String {
        let group = Quoted(&self.group);
        format!(
            "<adios-config host-language=\"C\"><adios-group name=\"{group}\"/><method group=\"{group}\" method=\"NULL\"/>{}</adios-config>",
            self.text
        )
    }

    /// The default of [`Services::output`].
    pub const OUTPUT: &'static str = "%.served.bp";

    /// The path of the file that gets the outputs.
    ///
    /// - `file`: the program's file.
    pub fn output_of(&self, file: &str) -> String {
        let (folder, name) = file.rsplit_once('/').map_or(("", file), |(folder, name)| (folder, name));
        let output = self.output.replace('%', name.strip_suffix(".bp").unwrap_or(name));
        match output.starts_with('/') || !file.contains('/') {
            true => output,
            false => format!("{folder}/{output}"),
        }
    }
}

/// A service.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    /// What it does.
    pub work: Work,
    /// Position in the document.
    pub source: SourcePosition,
}

/// What a service does. Variables are patterns of full names.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Statistics of each block, in the index.
    Statistics {
        /// The variables.
        variables: Vec<String>,
        /// Which.
        level: Statistics,
    },
    /// How many values of a step lie in each of so many equal parts of a range.
    Histogram {
        /// The variables.
        variables: Vec<String>,
        /// Number of parts.
        bins: u32,
        /// The smallest value that counts; the smallest of the step if there is none.
        min: Option<f64>,
        /// The largest value that counts; the largest of the step if there is none.
        max: Option<f64>,
    },
    /// Global arrays in other blocks: `merged`, or so many along each dimension, as `4x2`.
    Reorganize {
        /// As it was written.
        blocks: String,
    },
    /// The transform of blocks.
    Transform {
        /// The variables.
        variables: Vec<String>,
        /// As `zlib:5`.
        transform: String,
    },
    /// A function of the user.
    Function(Function),
}

/// A function of the user.
#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    /// Its file.
    pub file: FunctionFile,
    /// Its name.
    pub name: String,
    /// Full names of the variables whose blocks it gets.
    pub variables: Vec<String>,
    /// The variable that gets its result; the first of `variables` if there is none.
    pub into: Option<String>,
    /// The type of the result; that of the first variable if there is none.
    pub element: Option<ElementType>,
    /// So many values for each block, in place of as many as the block has.
    pub values: Option<u64>,
    /// Longest time of a call.
    pub timeout: Duration,
}

/// The file of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FunctionFile {
    /// A shared library.
    Library(String),
    /// A file of Python.
    Python(String),
}

/// A name as the value of an attribute.
struct Quoted<'n>(&'n str);

impl std::fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&crate::escape::escaped(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_of_services_alone_says_the_same() {
        let xml = r#"<adios-config host-language="C"><adios-group name="a &lt;&quot; b"><var name="u" type="integer"/></adios-group>
            <services group="a &lt;&quot; b" output="x.bp"><histogram var="u" bins="7" max="3"/>
              <function library="l.so" name="f" var="u, v" into="w" type="real" values="2" timeout="3 s"/></services></adios-config>"#;
        let services = |text: &str| crate::xml::parse(text, "a.xml").unwrap().services.remove(0);
        let (whole, alone) = (services(xml), services(&services(xml).document()));
        assert_eq!(whole, alone);
        assert_eq!((alone.group.as_str(), alone.services.len()), ("a <\" b", 2));
    }

    #[test]
    fn the_output_lies_beside_the_file_and_has_its_name() {
        let services = |output: &str| Services {
            group: "g".into(),
            output: output.into(),
            services: vec![],
            text: String::new(),
            source: SourcePosition::default(),
        };
        assert_eq!(services(Services::OUTPUT).output_of("/run/a/gs.bp"), "/run/a/gs.served.bp");
        assert_eq!(services("done/%.bp").output_of("/run/gs.bp"), "/run/done/gs.bp");
        assert_eq!(services("/x/%-%.bp").output_of("/run/gs"), "/x/gs-gs.bp");
        assert_eq!(services("%.2").output_of("gs.bp"), "gs.2");
        assert_eq!(services("%.2").output_of("/gs.bp"), "/gs.2");
    }
}
