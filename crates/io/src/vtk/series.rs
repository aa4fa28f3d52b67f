//! The list of steps, a `.pvd` file of ParaView: which files a time has. Pure.

use std::fmt::Write as _;
use thalweg_schema::escape::escaped;
use thalweg_types::{Error, ErrorKind, Result};

/// A file of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The step, from 0.
    pub step: u64,
    /// Its time.
    pub time: f64,
    /// Its position among those of the step.
    pub part: u32,
    /// Mesh or shape.
    pub name: String,
    /// Name of the file, from the folder of the list.
    pub file: String,
}

/// The list.
pub fn encode(entries: &[Entry]) -> Vec<u8> {
    let mut xml =
        String::from("<?xml version=\"1.0\"?>\n<VTKFile type=\"Collection\" version=\"1.0\">\n  <Collection>\n");
    for Entry { time, part, name, file, .. } in entries {
        let (name, file) = (escaped(name), escaped(file));
        let _ = writeln!(xml, "    <DataSet timestep=\"{time}\" part=\"{part}\" name=\"{name}\" file=\"{file}\"/>");
    }
    xml.push_str("  </Collection>\n</VTKFile>\n");
    xml.into_bytes()
}

/// The entries of a list of this library.
///
/// # Errors
/// `Unsupported` for anything else.
pub fn parse(bytes: &[u8]) -> Result<Vec<Entry>> {
    let other =
        |what: String| Error::new(ErrorKind::Unsupported, format!("it is no list of steps of method VTK: {what}"));
    let text = std::str::from_utf8(bytes).map_err(|e| other(e.to_string()))?;
    let document = roxmltree::Document::parse(text).map_err(|e| other(e.to_string()))?;
    let all = document.descendants().filter(|node| node.has_tag_name("DataSet"));
    let entry = |node: roxmltree::Node<'_, '_>| {
        let file = node.attribute("file")?.to_string();
        let own = file.rsplit('/').next()?;
        let step = own.split('.').next()?.parse().ok()?;
        let time = node.attribute("timestep")?.parse().ok()?;
        let part = node.attribute("part")?.parse().ok()?;
        Some(Entry { step, time, part, name: node.attribute("name")?.to_string(), file })
    };
    all.map(|node| entry(node).ok_or_else(|| other(format!("{:?}", &text[node.range()])))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_they_were_written() {
        let entry = |step: u64, time, name: &str| Entry {
            step,
            time,
            part: 1,
            name: name.into(),
            file: format!("a & \"b\".pvd.dir/{step:06}.{name}.vti"),
        };
        let all = [entry(0, 0.1, "m"), entry(0, 0.1, "3x4"), entry(1234567, -1e-300, "<m>")];
        assert_eq!(parse(&encode(&all)).unwrap(), all);
        assert_eq!(parse(&encode(&[])).unwrap(), []);
    }

    #[test]
    fn other_files_are_refused() {
        let of_others = "<VTKFile type=\"Collection\"><Collection><DataSet timestep=\"0\" part=\"0\" file=\"a.vtu\"/></Collection></VTKFile>";
        for bytes in [&b""[..], b"<VTKFile", b"\xff", of_others.as_bytes()] {
            assert_eq!(parse(bytes).unwrap_err().kind(), ErrorKind::Unsupported);
        }
    }
}
