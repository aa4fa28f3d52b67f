//! Records of a flat layout on its stores: the stamp of a store, and the note of a folder's rename in progress.

use super::*;

const STAMP_MAGIC: &[u8; 8] = b"THWFSTMP";

const NOTE_MAGIC: &[u8; 8] = b"THWFNOTE";

const VERSION: u32 = 1;

/// Identifies a store of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Position of this store, from 0.
    pub number: u32,
    /// Number of stores.
    pub count: u32,
    /// The mount's id.
    pub mount: u64,
}

impl Stamp {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = STAMP_MAGIC.to_vec();
        out.extend(VERSION.to_le_bytes());
        out.extend(self.number.to_le_bytes());
        out.extend(self.count.to_le_bytes());
        out.extend(self.mount.to_le_bytes());
        wire::seal(&mut out);
        out
    }

    /// Decodes it.
    ///
    /// # Errors
    /// `Torn` if the bytes end early; `Corrupt` for a wrong checksum or invalid contents; `Unsupported` for a later version.
    pub fn decode(bytes: &[u8]) -> Result<Stamp> {
        let mut cursor = opened(bytes, STAMP_MAGIC, "stamp")?;
        let stamp = Stamp { number: cursor.u32("stamp")?, count: cursor.u32("stamp")?, mount: cursor.u64("stamp")? };
        match cursor.is_empty() && stamp.number < stamp.count {
            true => Ok(stamp),
            false => Err(Error::new(ErrorKind::Corrupt, "a stamp that makes no sense")),
        }
    }
}

/// A rename of a folder in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The old name.
    pub from: String,
    /// The new one.
    pub to: String,
}

impl Note {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = NOTE_MAGIC.to_vec();
        out.extend(VERSION.to_le_bytes());
        wire::put_counted(&mut out, self.from.as_bytes());
        wire::put_counted(&mut out, self.to.as_bytes());
        wire::seal(&mut out);
        out
    }

    /// Decodes it.
    ///
    /// # Errors
    /// Errors of [`Stamp::decode`].
    pub fn decode(bytes: &[u8]) -> Result<Note> {
        let mut cursor = opened(bytes, NOTE_MAGIC, "note")?;
        let note = Note { from: cursor.text("old name")?, to: cursor.text("new name")? };
        for side in [&note.from, &note.to] {
            name::relative(side)?;
        }
        match cursor.is_empty() && !note.from.is_empty() && !note.to.is_empty() {
            true => Ok(note),
            false => Err(Error::new(ErrorKind::Corrupt, "a note that makes no sense")),
        }
    }
}

fn opened<'a>(bytes: &'a [u8], magic: &[u8; 8], what: &str) -> Result<Cursor<'a>> {
    let mut cursor = Cursor::new(wire::sealed(bytes, what)?);
    if cursor.take(8, what)? != magic {
        return Err(Error::new(ErrorKind::Corrupt, format!("this is no {what} of the flat layout")).at_byte(0));
    }
    match cursor.u32(what)? {
        VERSION => Ok(cursor),
        later => {
            Err(Error::new(ErrorKind::Unsupported, format!("a {what} of version {later}, supported is {VERSION}")))
        }
    }
}
