//! The secret that data servers and their clients share.
//!
//! | question | answer |
//! |----------|--------|
//! | file     | 64 hexadecimal digits and a newline, mode 0600; the file's owner is the process's user or root |
//! | proof    | BLAKE3 keyed with the token, of: role (6 bytes), own nonce (32 bytes), nonce of the other side (32 bytes) |
//! | what a listener on the network learns | nonces and proofs, from which the token cannot be computed |

use rustix::fs::{CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use thalweg_types::{Error, ErrorKind, Result};

/// Random bytes, used once.
pub(super) type Nonce = [u8; 32];

/// Digits of a token file.
const DIGITS: usize = 64;

/// A secret of 32 random bytes. Who knows it may use the servers that were started with it.
#[derive(Clone)]
pub struct Token([u8; 32]);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(secret)")
    }
}

/// The side that gives a proof: a proof of one side is invalid for the other.
#[derive(Clone, Copy)]
pub(super) enum Role {
    Client,
    Server,
}

/// Bytes from the operating system's random source.
pub(super) fn random() -> Result<[u8; 32]> {
    let (mut out, mut done) = ([0; 32], 0);
    while done < out.len() {
        match getrandom(&mut out[done..], GetRandomFlags::empty()) {
            Ok(got) => done += got,
            Err(Errno::INTR) => {}
            Err(e) => return Err(Error::io("cannot obtain random bytes", e.into())),
        }
    }
    Ok(out)
}

fn failed(what: &str, path: &Path) -> impl Fn(Errno) -> Error {
    move |cause| {
        Error::io(format!("cannot {what} the token file"), io::Error::from(cause)).in_object(path.display().to_string())
    }
}

impl Token {
    /// Reads a token file. The file is read with direct system calls.
    ///
    /// # Errors
    /// `PermissionDenied` if users other than the process's user and root own the file or may access it; `Corrupt` if it is not 64
    /// hexadecimal digits with or without a newline, or not a regular file; `NotFound`; `Io`.
    pub fn read(path: &Path) -> Result<Token> {
        let failed = failed("read", path);
        // A FIFO must not block the open.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(&failed)?;
        let about = rustix::fs::fstat(&file).map_err(&failed)?;
        let corrupt = |what| Error::new(ErrorKind::Corrupt, what).in_object(path.display().to_string());
        if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
            return Err(corrupt("the token file is not a regular file"));
        }
        let (mode, user) = (about.st_mode & 0o7777, rustix::process::geteuid().as_raw());
        let denied = |what| Err(Error::new(ErrorKind::PermissionDenied, what).in_object(path.display().to_string()));
        if about.st_uid != user && about.st_uid != 0 {
            let owner = about.st_uid;
            return denied(format!(
                "the token file must belong to user {user} or root: user {owner} owns it, mode {mode:03o}"
            ));
        }
        if mode & 0o077 != 0 {
            let path = path.display();
            return denied(format!("other users may access the token file: mode {mode:03o}; run `chmod 600 {path}`"));
        }
        // One byte more than the longest valid file.
        let (mut bytes, mut length) = ([0; DIGITS + 2], 0);
        while length < bytes.len() {
            match rustix::io::read(&file, &mut bytes[length..]) {
                Ok(0) => break,
                Ok(got) => length += got,
                Err(Errno::INTR) => {}
                Err(e) => return Err(failed(e)),
            }
        }
        Token::decode(&bytes[..length]).ok_or_else(|| corrupt("the token file must be 64 hexadecimal digits"))
    }

    /// Creates a token of random bytes and its file, which only the process's user may access. Under its name the file is whole from the
    /// beginning: servers that start at the same time read it.
    ///
    /// # Errors
    /// `AlreadyExists` if the file exists; `Io` if it cannot be created and written, and then it does not exist.
    /// # Cost
    /// One sync of the file.
    pub fn make(path: &Path) -> Result<Token> {
        let failed = failed("create", path);
        let token = Token(random()?);
        // Processes of several hosts may do the same.
        let mut own = path.as_os_str().to_os_string();
        own.push(random()?[..8].iter().fold(String::from("."), |name, byte| name + &format!("{byte:02x}")));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::open(&own, flags, Mode::RUSR | Mode::WUSR).map_err(&failed)?;
        let linked = token.write(&file).and_then(|()| match rustix::fs::link(&own, path) {
            // Where there are no links, a name can be given in the same way.
            Err(Errno::PERM | Errno::NOTSUP | Errno::NOSYS | Errno::MLINK) => {
                rustix::fs::renameat_with(CWD, &own, CWD, path, RenameFlags::NOREPLACE)
            }
            linked => linked,
        });
        let _ = rustix::fs::unlink(&own);
        linked.map_err(failed)?;
        Ok(token)
    }

    fn write(&self, file: &OwnedFd) -> rustix::io::Result<()> {
        let text = self.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n";
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            match rustix::io::write(file, rest) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
        rustix::fs::fsync(file)
    }

    fn decode(text: &[u8]) -> Option<Token> {
        let digits = text.strip_suffix(b"\n").unwrap_or(text);
        if digits.len() != DIGITS {
            return None;
        }
        let mut token = [0; 32];
        for (byte, pair) in token.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            *byte = (digit(0)? << 4 | digit(1)?) as u8;
        }
        Some(Token(token))
    }

    /// Shows knowledge of the token to the side that chose the nonce `other`. Compare proofs as [`blake3::Hash`], which takes
    /// constant time.
    pub(super) fn proof(&self, by: Role, own: &Nonce, other: &Nonce) -> blake3::Hash {
        let role = match by {
            Role::Client => b"client",
            Role::Server => b"server",
        };
        let mut text = [0; 70];
        text[..6].copy_from_slice(role);
        text[6..38].copy_from_slice(own);
        text[38..].copy_from_slice(other);
        blake3::keyed_hash(&self.0, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    fn write(path: &Path, text: impl AsRef<[u8]>, mode: u32) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_made_token_is_read_back_and_each_differs() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        let made = Token::make(&a).unwrap();
        assert_eq!(fs::metadata(&a).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(fs::metadata(&a).unwrap().len(), 65);
        assert_eq!(Token::read(&a).unwrap().0, made.0);
        assert_ne!(Token::make(&b).unwrap().0, made.0);
        assert_eq!(Token::make(&a).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(Token::read(&a).unwrap().0, made.0);
        let digits = fs::read_to_string(&a).unwrap();
        write(&a, digits.trim_end().to_uppercase(), 0o400);
        assert_eq!(Token::read(&a).unwrap().0, made.0);
    }

    #[test]
    fn of_several_that_make_it_at_once_all_have_the_same() {
        for _ in 0..100 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("token");
            let make = || match Token::make(&path) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => Token::read(&path).unwrap(),
                made => made.unwrap(),
            };
            let all = std::thread::scope(|scope| {
                let makers: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
                makers.into_iter().map(|maker| maker.join().unwrap().0).collect::<Vec<[u8; 32]>>()
            });
            assert!(all.iter().all(|token| *token == all[0]));
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        }
    }

    #[test]
    fn a_file_that_others_may_access_is_refused_with_the_command_that_helps() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        for mode in [0o644, 0o640, 0o602, 0o610] {
            write(&path, "0".repeat(64), mode);
            let refused = Token::read(&path).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
            let text = refused.to_string();
            for wanted in [format!("chmod 600 {}", path.display()), format!("mode {mode:o}")] {
                assert!(text.contains(&wanted), "{text}");
            }
        }
    }

    #[test]
    fn a_file_of_another_user_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return eprintln!("skipped: only root can give a file away");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        write(&path, "0".repeat(64), 0o600);
        std::os::unix::fs::chown(&path, Some(4321), None).unwrap();
        let refused = Token::read(&path).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        assert!(refused.to_string().contains("user 4321 owns it, mode 600"), "{refused}");
    }

    #[test]
    fn a_file_that_is_no_token_is_corrupt_and_not_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let digits = "0".repeat(62);
        for text in [
            "",
            "\n",
            "ab",
            &format!("{digits}0"),
            &format!("{digits}zz"),
            &format!("{digits}00\n\n"),
            &format!("{digits}000"),
        ] {
            write(&path, text, 0o600);
            let refused = Token::read(&path).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Corrupt, "{text:?}");
            assert!(!refused.to_string().contains("000"), "{refused}");
        }
        assert_eq!(Token::read(&folder.path().join("none")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(Token::read(folder.path()).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn debug_does_not_show_the_token() {
        assert_eq!(format!("{:?}", Token([0xab; 32])), "Token(secret)");
    }

    #[test]
    fn a_proof_depends_on_the_token_the_role_and_both_nonces() {
        let (token, a, b) = (Token([1; 32]), [2; 32], [3; 32]);
        let proof = token.proof(Role::Client, &a, &b);
        assert_eq!(proof, token.clone().proof(Role::Client, &a, &b));
        let others = [
            token.proof(Role::Server, &a, &b),
            token.proof(Role::Client, &b, &a),
            token.proof(Role::Client, &a, &a),
            Token([4; 32]).proof(Role::Client, &a, &b),
        ];
        assert!(others.iter().all(|other| *other != proof));
    }
}
