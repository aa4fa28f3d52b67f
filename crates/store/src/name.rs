//! Names of objects and folders: parts separated by `/`, the empty name for the store's own folder.

use std::borrow::Cow;
use thalweg_types::{Error, ErrorKind, Result};

/// The name without empty and `.` parts.
///
/// # Errors
/// `InvalidArgument` for a name that could leave the store's folder (absolute, or with a `..` part) or has a zero byte.
pub fn relative(name: &str) -> Result<Cow<'_, str>> {
    let refuse = |why: &str| Err(Error::new(ErrorKind::InvalidArgument, format!("name \"{name}\" {why}")));
    if name.starts_with('/') {
        return refuse("is absolute; names in a store are relative");
    }
    if name.contains('\0') {
        return refuse("holds a zero byte");
    }
    let mut plain = true;
    for part in name.split('/') {
        match part {
            ".." => return refuse("has a part \"..\""),
            "" | "." => plain = false,
            _ => {}
        }
    }
    if plain {
        return Ok(Cow::Borrowed(name));
    }
    let parts: Vec<&str> = name.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    Ok(Cow::Owned(parts.join("/")))
}

/// The folder of an object or folder, for [`Store::sync_folder`](crate::Store::sync_folder) after making it. Empty
/// for names directly in the store's folder, `/` for those in the root of a filesystem.
pub fn folder_of(name: &str) -> &str {
    let name = name.trim_end_matches('/');
    match name.rfind('/') {
        None => "",
        Some(0) => "/",
        Some(at) => name[..at].trim_end_matches('/'),
    }
}

/// The last part of a name.
pub fn last_part(name: &str) -> &str {
    let name = name.trim_end_matches('/');
    name.rfind('/').map_or(name, |at| &name[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_the_store() {
        for name in ["/etc/passwd", "..", "a/../../b", "a\0b"] {
            assert_eq!(relative(name).unwrap_err().kind(), ErrorKind::InvalidArgument, "{name}");
        }
        assert_eq!(relative("./a//b/").unwrap(), "a/b");
        assert_eq!(relative("a..b/c").unwrap(), "a..b/c");
        assert_eq!(relative("").unwrap(), "");
    }

    #[test]
    fn a_name_splits_into_folder_and_last_part() {
        let cases = [("a", "", "a"), ("a/b", "a", "b"), ("/a", "/", "a"), ("/a/b/", "/a", "b"), ("", "", "")];
        for (name, folder, last) in cases {
            assert_eq!((folder_of(name), last_part(name)), (folder, last), "{name}");
        }
    }
}
