//! A mount, mounted by FUSE.

use std::path::Path;
use std::process::Command;
use thalweg_benches::Failure;

/// Where it is mounted.
pub struct Mounted {
    thalweg: String,
    folder: String,
}

impl Mounted {
    /// Mounts a prefix of the mount table at a folder. `None` where this machine has no FUSE.
    pub fn at(thalweg: &str, prefix: &str, folder: &str) -> Result<Option<Mounted>, Failure> {
        if !Path::new("/dev/fuse").exists() {
            return Ok(None);
        }
        std::fs::create_dir_all(folder)?;
        let output = Command::new(thalweg).args(["mount", folder, "--path", prefix]).output()?;
        match output.status.success() {
            true => Ok(Some(Mounted { thalweg: thalweg.into(), folder: folder.into() })),
            false => {
                eprint!("{}", String::from_utf8_lossy(&output.stderr));
                Ok(None)
            }
        }
    }

    /// Ends it.
    pub fn unmount(self) -> Result<(), Failure> {
        let status = Command::new(&self.thalweg).args(["unmount", &self.folder]).status()?;
        if status.success() { Ok(()) } else { Err(format!("{} cannot be unmounted", self.folder).into()) }
    }
}
