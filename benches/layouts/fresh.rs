//! A filesystem made new for each turn.
//!
//! A turn in a folder beside others' is no turn of its own: ext4 gives numbers of files that were removed in the last minutes out
//! again late, and looks at each of them for every file that it makes. Who made files after another had removed 20,000 took up to nine times
//! as long for one, whatever served the folder.

use std::path::Path;
use std::process::Command;
use thalweg_benches::Failure;

/// Bytes of the filesystem, most of which are never written.
const BYTES: u64 = 8 << 30;
/// Files it may have.
const FILES: &str = "400000";

/// A folder that nothing was removed from; what lies there goes with it.
pub struct Fresh {
    folder: String,
    mounted: bool,
}

impl Fresh {
    /// Makes the folder: a filesystem of its own where this process may mount one, else a folder beside all others.
    pub fn at(folder: &str) -> Result<Fresh, Failure> {
        let image = format!("{folder}.image");
        if Path::new(folder).exists() {
            // Of a run that was ended.
            let _ = super::done(Command::new("umount").args(["--lazy", folder]));
            std::fs::remove_dir_all(folder)?;
        }
        std::fs::create_dir_all(folder)?;
        std::fs::File::create(&image)?.set_len(BYTES)?;
        let make = ["-q", "-N", FILES, "-E", "lazy_itable_init=0,lazy_journal_init=0", &image];
        let made = super::done(Command::new("mkfs.ext4").args(make))
            .and_then(|()| super::done(Command::new("mount").args(["-o", "loop", &image, folder])));
        // The mount keeps it.
        std::fs::remove_file(&image)?;
        Ok(Fresh { folder: folder.into(), mounted: made.is_ok() })
    }

    /// Whether it is a filesystem of its own.
    pub fn is_own(&self) -> bool {
        self.mounted
    }

    /// Memory that the machine has not given to anybody for a while costs whoever comes first: so many bytes of it are used once.
    pub fn warm(&self, mib: u64) -> Result<(), Failure> {
        use std::io::Write;
        let path = format!("{}/warm", self.folder);
        let mut file = std::fs::File::create(&path)?;
        let block = vec![1; 1 << 20];
        (0..mib).try_for_each(|_| file.write_all(&block))?;
        file.sync_all()?;
        Ok(std::fs::remove_file(path)?)
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if self.mounted {
            let _ = super::done(Command::new("umount").args(["--lazy", &self.folder]));
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
