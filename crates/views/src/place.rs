//! Where other programs find the files with a file's payloads.

use std::path::{Component, Path, PathBuf};
use thalweg_reader::{Reader, object};
use thalweg_types::{Error, ErrorKind, Result};

/// The URL under which other programs find the bytes of a subfile, or of the file itself, at the same offsets.
///
/// - `at`: the URL of the file, if it is not the file that is read here.
///
/// # Errors
/// `NotFound` if the file is missing; `Unsupported` without `at` if its layout arranges the bytes in another way.
pub fn url_of(reader: &Reader, subfile: Option<u32>, at: Option<&str>) -> Result<String> {
    // A missing file is named as such.
    reader.data_length(subfile)?;
    let path = reader.data_path(subfile);
    let url = match (at, subfile) {
        (Some(at), Some(number)) => Some(object::subfile(at, number)),
        (Some(at), None) => Some(at.to_string()),
        (None, _) => reader.layout().url(&path),
    };
    url.ok_or_else(|| {
        let what = "other programs cannot find the bytes of this file in one place: a view needs a plain file, or a mount with \
                    layout \"direct\"";
        Error::new(ErrorKind::Unsupported, what).in_object(path)
    })
}

/// The name of a file as a program in `folder` gives it; both are absolute and without `..`.
pub fn seen_from(folder: &Path, file: &Path) -> PathBuf {
    let mut behind = file.components().peekable();
    let mut above = folder.components().peekable();
    while above.peek().is_some() && above.peek() == behind.peek() {
        above.next();
        behind.next();
    }
    above.map(|_| Component::ParentDir).chain(behind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_up_to_the_common_folder_and_down_to_the_file() {
        for (folder, file, seen) in [
            ("/data/run", "/data/run/run.bp", "run.bp"),
            ("/data/run", "/data/run/run.bp.dir/run.bp.0", "run.bp.dir/run.bp.0"),
            ("/data/views", "/data/run/run.bp", "../run/run.bp"),
            ("/", "/data/run.bp", "data/run.bp"),
            ("/data/run", "/run.bp", "../../run.bp"),
            ("/data/run", "/data/runs/x", "../runs/x"),
        ] {
            assert_eq!(seen_from(Path::new(folder), Path::new(file)), Path::new(seen), "{folder} {file}");
        }
    }
}
