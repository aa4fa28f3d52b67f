//! Stamps of the stores of a mount: an unused store gets one; a store that does not belong at its position is refused.

use super::*;

impl Flat {
    pub(super) fn check_stamps(&self) -> Result<()> {
        let stamps = self.stores.iter().map(|s| stamp_of(&**s)).collect::<Result<Vec<_>>>()?;
        let count = self.stores.len() as u32;
        if stamps.iter().all(Option::is_none) {
            // Existing files would not lie where their names hash to.
            if let Some(used) = self.stores.iter().skip(1).find(|s| s.list("").is_ok_and(|names| !names.is_empty())) {
                let what =
                    format!("store {} is not empty and was no store of a \"flat\" mount before", used.describe());
                return Err(Error::new(ErrorKind::Config, what));
            }
            let mount = fresh();
            for (number, store) in self.stores.iter().enumerate() {
                store.make_folder(FOLDER)?;
                let stamp = Stamp { number: number as u32, count, mount };
                let object = match store.open_write(STAMP, OpenWrite::New) {
                    Ok(object) => object,
                    // Another process stamps the stores at the same time: its stamps are used.
                    Err(e) if e.kind() == ErrorKind::AlreadyExists => return self.await_stamps(),
                    Err(e) => return Err(e),
                };
                object.write_at(0, &[IoSlice::new(&stamp.encode())])?;
                object.sync()?;
                object.close()?;
                store.sync_folder(FOLDER)?;
            }
            return Ok(());
        }
        let first = stamps.iter().flatten().next().copied();
        for (number, (stamp, store)) in stamps.iter().zip(&self.stores).enumerate() {
            let told = store.describe();
            let wrong = match stamp {
                None => format!(
                    "store {told} has no stamp, but other stores of the mount have one: check that it is the right store"
                ),
                Some(s) if s.count != count => {
                    format!("store {told} belongs to a \"flat\" mount of {} stores, not of {count}", s.count)
                }
                Some(s) if s.number as usize != number => {
                    format!("store {told} is number {} of its mount, but number {number} in the mount table", s.number)
                }
                Some(s) if Some(s.mount) != first.map(|f| f.mount) => format!("store {told} belongs to another mount"),
                Some(_) => continue,
            };
            return Err(Error::new(ErrorKind::Config, wrong));
        }
        Ok(())
    }

    /// Waits for another process that is stamping the stores.
    fn await_stamps(&self) -> Result<()> {
        for _ in 0..500 {
            let done = self.stores.iter().map(|s| stamp_of(&**s)).collect::<Result<Vec<_>>>();
            if done.is_ok_and(|stamps| stamps.iter().all(Option::is_some)) {
                return self.check_stamps();
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Err(Error::new(
            ErrorKind::Config,
            "the stores of a \"flat\" mount were stamped in part: remove .thalweg-flat of those that hold no files",
        ))
    }
}

pub(super) fn stamp_of(store: &dyn Store) -> Result<Option<Stamp>> {
    match store.read_all(STAMP) {
        Ok(bytes) => Stamp::decode(&bytes).map(Some).map_err(|e| e.in_object(format!("{}/{STAMP}", store.describe()))),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}
