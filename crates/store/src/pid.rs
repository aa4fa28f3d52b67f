//! The PID of this process, for comparisons at each write.
//!
//! | question | answer |
//! |----------|--------|
//! | why      | the system call takes 0.1 to 0.2 us, and a record of a container is written in less |
//! | after a `fork` | the child gets its own PID, however it was forked (`fork`, `_Fork`, `clone`): the PID is cached in a page that the system clears in a child |
//! | a child of `vfork` | shares its parent's memory and gets the parent's PID. Where that matters, ask [`std::process::id`] |
//! | systems without such pages | each call asks the system: before Linux 4.14, and others |
//! | cost     | one read of memory |

#[cfg(target_os = "linux")]
mod cached {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

    /// The page; null before the first call.
    static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
    /// Stands for a page on systems without: always 0.
    static NONE: AtomicU32 = AtomicU32::new(0);
    const LENGTH: usize = 4096;

    /// A page that is cleared in a child; `None` if the system has none.
    fn map() -> Option<*mut AtomicU32> {
        // SAFETY: a new anonymous mapping, which nothing else refers to.
        #[allow(unsafe_code)]
        unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let page = mmap_anonymous(null_mut(), LENGTH, access, MapFlags::PRIVATE).ok()?;
            if madvise(page, LENGTH, Advice::LinuxWipeOnFork).is_err() {
                let _ = munmap(page, LENGTH);
                return None;
            }
            Some(page.cast())
        }
    }

    /// The page, mapped by the first call. Without a lock, which a forked child might find locked.
    fn page() -> &'static AtomicU32 {
        let mut page = PAGE.load(Ordering::Acquire);
        if page.is_null() {
            let made = map().unwrap_or_else(|| std::ptr::from_ref(&NONE).cast_mut());
            // The page of a thread that comes second is never used.
            page = match PAGE.compare_exchange(null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => made,
                Err(first) => first,
            };
        }
        // SAFETY: a page that is never unmapped, aligned and at least as long, or a static; changed through atomics only.
        #[allow(unsafe_code)]
        unsafe {
            &*page
        }
    }

    pub fn pid() -> u32 {
        let page = page();
        match page.load(Ordering::Relaxed) {
            0 => {
                let pid = std::process::id();
                if !std::ptr::eq(page, &NONE) {
                    page.store(pid, Ordering::Relaxed);
                }
                pid
            }
            pid => pid,
        }
    }
}

/// The PID of this process, as of [`std::process::id`] but in a child of `vfork`.
pub fn pid() -> u32 {
    #[cfg(target_os = "linux")]
    return cached::pid();
    #[cfg(not(target_os = "linux"))]
    return std::process::id();
}
