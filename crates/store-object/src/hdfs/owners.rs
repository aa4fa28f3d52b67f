//! Translation of owners, which are names on HDFS and numeric IDs here; the process' umask.

use nix::unistd::{Gid, Group, Uid, User};
use thalweg_types::{Error, ErrorKind, Result};

/// The ID of users and groups that this machine lacks.
const NOBODY: u32 = 65534;

/// The UID of a user name.
pub fn user(name: &str) -> u32 {
    User::from_name(name).ok().flatten().map_or(NOBODY, |user| user.uid.as_raw())
}

/// The GID of a group name.
pub fn group(name: &str) -> u32 {
    Group::from_name(name).ok().flatten().map_or(NOBODY, |group| group.gid.as_raw())
}

/// The user name of a UID.
///
/// # Errors
/// `InvalidArgument` if this machine has no such user.
pub fn name_of_user(number: u32) -> Result<String> {
    let user = User::from_uid(Uid::from_raw(number)).ok().flatten().map(|user| user.name);
    user.ok_or_else(|| unknown("user", number))
}

/// The group name of a GID.
///
/// # Errors
/// `InvalidArgument` if this machine has no such group.
pub fn name_of_group(number: u32) -> Result<String> {
    let group = Group::from_gid(Gid::from_raw(number)).ok().flatten().map(|group| group.name);
    group.ok_or_else(|| unknown("group", number))
}

fn unknown(what: &str, number: u32) -> Error {
    let what = format!("cannot change the owner: HDFS knows names, and {what} {number} has none on this machine");
    Error::new(ErrorKind::InvalidArgument, what)
}

/// The process' umask; 022 if the system does not provide it.
pub fn withheld() -> u32 {
    // `umask(2)` would change it for a moment.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let told = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    told.and_then(|bits| u32::from_str_radix(bits.trim(), 8).ok()).unwrap_or(0o022)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_of_owners_go_there_and_back_and_strangers_are_nobody() {
        assert_eq!((user("root"), group("root")), (0, 0));
        assert_eq!((name_of_user(0).unwrap(), name_of_group(0).unwrap()), ("root".into(), "root".into()));
        assert_eq!((user("no such user"), group("no such group")), (NOBODY, NOBODY));
        let refused = name_of_user(4_000_000_000).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(refused.to_string().contains("4000000000"), "{refused}");
    }
}
