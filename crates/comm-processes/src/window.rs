//! Memory shared by the ranks: a file of the rendezvous folder without a name, which ends with the last process that has it open.

use crate::ProcessCommunicator;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use thalweg_comm::agreement::agree;
use thalweg_comm::{Communicator, SharedWindow, check};
use thalweg_types::{Error, ErrorKind, Result};

pub struct Window {
    /// Where each part begins, and the end of the last.
    starts: Vec<u64>,
    file: File,
    /// For the fences.
    comm: ProcessCommunicator,
}

impl Window {
    /// Collective.
    pub fn new(comm: ProcessCommunicator, bytes: u64) -> Result<Window> {
        let fits = check::count(bytes).map(drop);
        agree(&comm, fits, "share memory", &[])?;
        let parts = comm.all_gather(&bytes.to_le_bytes())?;
        let lengths = parts.iter().filter_map(|part| part[..].try_into().ok()).map(u64::from_le_bytes);
        let mut starts = vec![0u64];
        for length in lengths {
            starts.push(starts.last().copied().unwrap_or(0).saturating_add(length));
        }
        let total = starts.last().copied().unwrap_or(0);
        let path = comm.courier().folder.join(format!("window.{}", comm.context()));
        let about = |e: std::io::Error| {
            let kind = if e.kind() == std::io::ErrorKind::InvalidInput {
                ErrorKind::NoMemory
            } else {
                Error::io("", e).kind()
            };
            Error::new(kind, format!("cannot share {total} bytes of memory")).in_object(path.display().to_string())
        };
        let mut file = None;
        let mut own = Ok(());
        if comm.rank() == 0 {
            // Of an earlier run that was killed here.
            _ = fs::remove_file(&path);
            own = make(&path, total).map(|made| file = Some(made)).map_err(about);
        }
        agree(&comm, own, "share memory", &[])?;
        let mut own = Ok(());
        if comm.rank() > 0 {
            own =
                OpenOptions::new().read(true).write(true).open(&path).map(|opened| file = Some(opened)).map_err(about);
        }
        let agreed = agree(&comm, own, "share memory", &[]);
        if comm.rank() == 0 {
            _ = fs::remove_file(&path);
        }
        agreed?;
        let file = file.ok_or_else(|| Error::new(ErrorKind::Io, "no file for shared memory"))?;
        Ok(Window { starts, file, comm })
    }

    fn place(&self, rank: u32, offset: u64, count: usize) -> Result<u64> {
        check::rank(rank, self.comm.size())?;
        check::window(rank, self.length(rank), offset, count)?;
        Ok(self.starts[rank as usize] + offset)
    }
}

fn make(path: &std::path::Path, bytes: u64) -> std::io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    file.set_len(bytes)?;
    Ok(file)
}

impl SharedWindow for Window {
    fn length(&self, rank: u32) -> u64 {
        let at = rank as usize;
        self.starts.get(at + 1).map_or(0, |end| end - self.starts[at])
    }

    fn put(&self, rank: u32, offset: u64, bytes: &[u8]) -> Result<()> {
        let place = self.place(rank, offset, bytes.len())?;
        self.file.write_all_at(bytes, place).map_err(|e| Error::io("cannot write to shared memory", e))
    }

    fn get(&self, rank: u32, offset: u64, out: &mut [u8]) -> Result<()> {
        let place = self.place(rank, offset, out.len())?;
        self.file.read_exact_at(out, place).map_err(|e| Error::io("cannot read shared memory", e))
    }

    fn show(&self, offset: u64, length: u64, with: &mut dyn FnMut(&[u8])) -> Result<()> {
        let own = self.comm.rank();
        // Checked before memory is allocated.
        let place = self.place(own, offset, check::count(length)?)?;
        let mut bytes = vec![0; check::count(length)?];
        self.file.read_exact_at(&mut bytes, place).map_err(|e| Error::io("cannot read shared memory", e))?;
        with(&bytes);
        Ok(())
    }

    fn fence(&self) -> Result<()> {
        self.comm.barrier()
    }
}
