//! Mounts: a path prefix bound to a layout. A path under no mount is a plain file of the system.
//!
//! | question | answer |
//! |----------|--------|
//! | which mount | the longest prefix that the path lies under, whole parts compared: `/a/run` holds `/a/run/x`, not `/a/runs` |
//! | `.`, `..`, `//` | resolved as text before prefixes are compared: `/a/run/../x` is `/a/x`, whatever `/a/run` is |
//! | relative paths | resolved against the process's current directory first |
//! | symbolic links | the system's links are not resolved: a link from outside that leads into a mount leads to the system's files there; prefixes are compared as text. Links inside a mount are resolved by the layout |
//! | plain paths | are passed on unchanged |
//! | rename, hard links | within one mount; across mounts `EXDEV`, and `mv` copies |
//! | the prefix itself | the root directory of the mount: cannot be removed or renamed (`EBUSY`) |
//! | `thalweg:NAME/path` | a file of the partition NAME, whatever mounts there are, if this process knows a partition of that name: see [`Mounts::with_named`] |
//!
//! [`resolve`] is a pure function; [`Mounts`] applies it and is itself a layout: io, the reader, the command line and the doors
//! open paths through it.

use crate::{
    Attributes, Change, Layout, OpenWrite, OtherNodes, ReadObject, SetXattr, Space, Stat, WriteObject, WriterId, errno,
};
use rustix::io::Errno;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use thalweg_types::{Error, ErrorKind, Result};

/// A path without `.`, `..`, empty parts and trailing `/`, absolute.
///
/// - `current`: the directory that relative paths start from, absolute.
pub fn normal(path: &str, current: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let before = if path.starts_with('/') { "" } else { current };
    for part in before.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Which of `prefixes` (each [`normal`]) a path lies under, the longest of them, and its name below that; `None` for none.
pub fn resolve<'p>(prefixes: impl IntoIterator<Item = &'p str>, path: &str, current: &str) -> Option<(usize, String)> {
    // The empty path names nothing.
    if path.is_empty() {
        return None;
    }
    let path = normal(path, current);
    let below = |prefix: &str| {
        let rest = path.strip_prefix(prefix.trim_end_matches('/'))?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/').to_string())
    };
    let found = prefixes.into_iter().enumerate().filter_map(|(number, prefix)| Some((number, prefix, below(prefix)?)));
    found.max_by_key(|(_, prefix, _)| prefix.len()).map(|(number, _, rest)| (number, rest))
}

/// Creates a layout, or gives the reason why that is not possible now.
type Make = Box<dyn Fn() -> std::result::Result<Arc<dyn Layout>, String> + Send + Sync>;

/// A path prefix and the layout it is bound to.
pub struct Mount {
    prefix: String,
    layout: OnceLock<Arc<dyn Layout>>,
    make: Make,
}

impl Mount {
    /// - `prefix`: absolute.
    /// - `make`: creates the layout at the first use of a path below, and at each further use as long as that fails; every such
    ///   use gets the reason as its error.
    pub fn new(
        prefix: &str,
        make: impl Fn() -> std::result::Result<Arc<dyn Layout>, String> + Send + Sync + 'static,
    ) -> Mount {
        Mount { prefix: normal(prefix, "/"), layout: OnceLock::new(), make: Box::new(make) }
    }

    /// A mount whose paths begin with [`NAMED`] and `name`.
    pub fn named(
        name: &str,
        make: impl Fn() -> std::result::Result<Arc<dyn Layout>, String> + Send + Sync + 'static,
    ) -> Mount {
        Mount { prefix: format!("{NAMED}{name}"), layout: OnceLock::new(), make: Box::new(make) }
    }

    /// The prefix, [`normal`].
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The layout.
    ///
    /// # Errors
    /// The reason why there is no layout now.
    pub fn layout(&self) -> std::result::Result<&Arc<dyn Layout>, String> {
        if let Some(layout) = self.layout.get() {
            return Ok(layout);
        }
        let made = (self.make)()?;
        // Of two threads at the same time, both use the layout of the first.
        Ok(self.layout.get_or_init(|| made))
    }

    /// As [`Mount::layout`], for a caller that wants to know now whether a service far away answers: a layout is made without a request.
    ///
    /// # Errors
    /// As [`Mount::layout`]; also the service's failure.
    /// # Cost
    /// Far away, a list of the mount's folder.
    pub fn answering(&self) -> std::result::Result<&Arc<dyn Layout>, String> {
        let layout = self.layout()?;
        if layout.request_cost("") > 0 {
            layout.list("").map_err(|e| e.to_string())?;
        }
        Ok(layout)
    }

    /// [`Layout::finish`] of the layout, if it was used.
    ///
    /// # Errors
    /// Errors of [`Layout::finish`].
    pub fn finish(&self) -> Result<()> {
        self.layout.get().map_or(Ok(()), |layout| layout.finish())
    }
}

/// The mount and layout of a path.
pub struct ResolvedPath<'m> {
    /// The mount; `None` for a plain path.
    pub mount: Option<&'m Mount>,
    /// The mount's layout, or that of plain paths.
    pub layout: &'m Arc<dyn Layout>,
    /// The name in the layout.
    pub name: String,
}

/// How a path begins that names a partition instead of a mount.
pub const NAMED: &str = "thalweg:";

/// Finds the mounts of [`Mount::named`].
type FindNamed = Box<dyn Fn() -> Result<Vec<Mount>> + Send + Sync>;

/// All mounts of a process, and the layout of plain paths.
pub struct Mounts {
    mounts: Vec<Mount>,
    plain: Arc<dyn Layout>,
    find_named: Option<FindNamed>,
    named: OnceLock<Vec<Mount>>,
}

impl Mounts {
    /// - `mounts`: no two with the same prefix.
    /// - `plain`: the layout of every other path, which it gets unchanged.
    pub fn new(mounts: Vec<Mount>, plain: Arc<dyn Layout>) -> Mounts {
        Mounts { mounts, plain, find_named: None, named: OnceLock::new() }
    }

    /// Also with mounts that paths like `thalweg:NAME/path` name.
    ///
    /// - `find`: called at the first such path, and again after a failure.
    pub fn with_named(self, find: impl Fn() -> Result<Vec<Mount>> + Send + Sync + 'static) -> Mounts {
        Mounts { find_named: Some(Box::new(find)), ..self }
    }

    /// The mount and layout of a path that names one, like `thalweg:NAME/path`; `None` for other paths, and for a name that no mount has.
    ///
    /// # Errors
    /// Errors of the search for mounts with names; `Config` for a mount whose layout cannot be created.
    pub fn place_named(&self, path: &str) -> Result<Option<ResolvedPath<'_>>> {
        let (Some(rest), Some(find)) = (path.strip_prefix(NAMED), &self.find_named) else { return Ok(None) };
        let name = rest.split_once('/').map_or(rest, |(name, _)| name);
        if name.is_empty() {
            return Ok(None);
        }
        let named = match self.named.get() {
            Some(named) => named,
            None => {
                let found = find()?;
                self.named.get_or_init(|| found)
            }
        };
        let Some(mount) = named.iter().find(|mount| mount.prefix[NAMED.len()..] == *name) else { return Ok(None) };
        let inside = normal(&rest[name.len()..], "/");
        layout_of(mount, path, inside.trim_start_matches('/').to_string()).map(Some)
    }

    /// The mounts.
    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    /// The mount and layout of a path.
    ///
    /// # Errors
    /// `Config` for a path under a mount whose layout cannot be created.
    pub fn place(&self, path: &str) -> Result<ResolvedPath<'_>> {
        if let Some(named) = self.place_named(path)? {
            return Ok(named);
        }
        let found = if self.mounts.is_empty() {
            None
        } else {
            let current = match path.starts_with('/') {
                true => None,
                // A current directory whose name is not UTF-8 lies under no mount.
                false => std::env::current_dir().ok().and_then(|c| c.into_os_string().into_string().ok()),
            };
            match (path.starts_with('/'), current) {
                (true, _) => resolve(self.prefixes(), path, "/"),
                (false, Some(current)) => resolve(self.prefixes(), path, &current),
                (false, None) => None,
            }
        };
        let Some((number, name)) = found else {
            return Ok(ResolvedPath { mount: None, layout: &self.plain, name: path.to_string() });
        };
        layout_of(&self.mounts[number], path, name)
    }

    fn prefixes(&self) -> impl Iterator<Item = &str> {
        self.mounts.iter().map(|m| m.prefix.as_str())
    }

    /// One layout for two paths.
    fn both(&self, from: &str, to: &str, what: &str) -> Result<(&Arc<dyn Layout>, String, String)> {
        let (a, b) = (self.place(from)?, self.place(to)?);
        let same = match (a.mount, b.mount) {
            (None, None) => true,
            (Some(a), Some(b)) => a.prefix == b.prefix,
            _ => false,
        };
        if !same {
            return Err(errno::failure(Errno::XDEV, &format!("{what} {to}, which is under another mount"), from));
        }
        for (place, path) in [(&a, from), (&b, to)] {
            not_the_root(place, what, path)?;
        }
        Ok((a.layout, a.name, b.name))
    }

    fn inside(&self, path: &str, what: &str) -> Result<ResolvedPath<'_>> {
        let place = self.place(path)?;
        not_the_root(&place, what, path)?;
        Ok(place)
    }
}

fn layout_of<'m>(mount: &'m Mount, path: &str, name: String) -> Result<ResolvedPath<'m>> {
    let layout = mount.layout().map_err(|why| {
        Error::new(ErrorKind::Config, format!("the mount {} cannot be used: {why}", mount.prefix)).in_object(path)
    })?;
    Ok(ResolvedPath { mount: Some(mount), layout, name })
}

fn not_the_root(place: &ResolvedPath<'_>, what: &str, path: &str) -> Result<()> {
    match place.mount.is_some() && place.name.is_empty() {
        true => Err(errno::failure(Errno::BUSY, &format!("{what}: it is the root of a mount"), path)),
        false => Ok(()),
    }
}

impl Layout for Mounts {
    fn finish(&self) -> Result<()> {
        let named = self.named.get().map(Vec::as_slice).unwrap_or_default();
        let each = self.mounts.iter().chain(named).map(Mount::finish);
        each.chain([self.plain.finish()]).fold(Ok(()), Result::and)
    }

    fn describe(&self) -> String {
        let mounts: Vec<&str> = self.prefixes().collect();
        match mounts.is_empty() {
            true => self.plain.describe(),
            false => format!("mounts {}, else {}", mounts.join(", "), self.plain.describe()),
        }
    }

    fn url(&self, path: &str) -> Option<String> {
        self.place(path).ok().and_then(|place| place.layout.url(&place.name))
    }

    fn request_cost(&self, path: &str) -> u64 {
        self.place(path).map_or(0, |place| place.layout.request_cost(&place.name))
    }

    fn open_write(&self, path: &str, how: OpenWrite, writer: WriterId) -> Result<Box<dyn WriteObject>> {
        let place = self.place(path)?;
        place.layout.open_write(&place.name, how, writer)
    }

    fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>> {
        let place = self.place(path)?;
        place.layout.open_read(&place.name)
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        let place = self.place(path)?;
        place.layout.stat(&place.name)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let place = self.place(folder)?;
        place.layout.list(&place.name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (layout, from, to) = self.both(from, to, "rename to")?;
        layout.rename(&from, &to)
    }

    fn prepare_rename(&self, from: &str, to: &str) -> Result<()> {
        let (layout, from, to) = self.both(from, to, "rename to")?;
        layout.prepare_rename(&from, &to)
    }

    fn remove(&self, path: &str) -> Result<()> {
        let place = self.inside(path, "remove")?;
        place.layout.remove(&place.name)
    }

    fn make_folder(&self, path: &str) -> Result<()> {
        let place = self.place(path)?;
        place.layout.make_folder(&place.name)
    }

    fn make_new_folder(&self, path: &str) -> Result<bool> {
        let place = self.place(path)?;
        place.layout.make_new_folder(&place.name)
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        let place = self.place(folder)?;
        place.layout.sync_folder(&place.name)
    }

    fn make_one_folder(&self, path: &str, mode: u32) -> Result<()> {
        let place = self.place(path)?;
        place.layout.make_one_folder(&place.name, mode)
    }

    fn attributes(&self, path: &str) -> Result<Attributes> {
        let place = self.place(path)?;
        place.layout.attributes(&place.name)
    }

    fn set_attributes(&self, path: &str, change: &Change) -> Result<()> {
        let place = self.place(path)?;
        place.layout.set_attributes(&place.name, change)
    }

    fn truncate(&self, path: &str, length: u64) -> Result<()> {
        let place = self.place(path)?;
        place.layout.truncate(&place.name, length)
    }

    fn make_link(&self, target: &str, path: &str) -> Result<()> {
        let place = self.place(path)?;
        place.layout.make_link(target, &place.name)
    }

    fn read_link(&self, path: &str) -> Result<String> {
        let place = self.place(path)?;
        place.layout.read_link(&place.name)
    }

    fn make_hard_link(&self, from: &str, to: &str) -> Result<()> {
        let (layout, from, to) = self.both(from, to, "make a hard link")?;
        layout.make_hard_link(&from, &to)
    }

    fn xattr_get(&self, path: &str, key: &str) -> Result<Option<Vec<u8>>> {
        let place = self.place(path)?;
        place.layout.xattr_get(&place.name, key)
    }

    fn xattr_set(&self, path: &str, key: &str, value: &[u8], how: SetXattr) -> Result<()> {
        let place = self.place(path)?;
        place.layout.xattr_set(&place.name, key, value, how)
    }

    fn xattr_list(&self, path: &str) -> Result<Vec<String>> {
        let place = self.place(path)?;
        place.layout.xattr_list(&place.name)
    }

    fn xattr_remove(&self, path: &str, key: &str) -> Result<()> {
        let place = self.place(path)?;
        place.layout.xattr_remove(&place.name, key)
    }

    fn space(&self, path: &str) -> Result<Space> {
        let place = self.place(path)?;
        place.layout.space(&place.name)
    }

    fn plain_file(&self, path: &str) -> Option<PathBuf> {
        let place = self.place(path).ok()?;
        place.layout.plain_file(&place.name)
    }

    fn write_synopsis(&self, path: &str) -> Result<()> {
        let place = self.place(path)?;
        place.layout.write_synopsis(&place.name)
    }

    fn prefers_runs(&self, path: &str) -> bool {
        self.place(path).is_ok_and(|place| place.layout.prefers_runs(&place.name))
    }

    fn keeps_whole(&self, path: &str) -> bool {
        self.place(path).is_ok_and(|place| place.layout.keeps_whole(&place.name))
    }

    fn other_nodes(&self, path: &str) -> OtherNodes {
        self.place(path).map_or(OtherNodes::ReadAndWrite, |place| place.layout.other_nodes(&place.name))
    }

    fn lock_folder(&self, path: &str) -> Option<PathBuf> {
        let place = self.place(path).ok()?;
        place.layout.lock_folder(&place.name)
    }

    fn locks(&self, path: &str) -> Result<Option<Box<dyn crate::locks::FileLocks>>> {
        let place = self.place(path)?;
        place.layout.locks(&place.name)
    }

    fn targets(&self, folder: &str) -> Result<Option<u32>> {
        let place = self.place(folder)?;
        place.layout.targets(&place.name)
    }

    fn make_on_target(&self, path: &str, target: u32, stripe: u64) -> Result<bool> {
        let place = self.place(path)?;
        place.layout.make_on_target(&place.name, target, stripe)
    }

    fn make_striped(&self, path: &str, asked: crate::Stripes) -> Result<bool> {
        let place = self.place(path)?;
        place.layout.make_striped(&place.name, asked)
    }

    fn stripes(&self, path: &str) -> Result<Option<crate::Stripes>> {
        let place = self.place(path)?;
        place.layout.stripes(&place.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Direct;
    use thalweg_store::Memory;

    const PREFIXES: [&str; 4] = ["/a/run", "/a", "/a/run/deep", "/b"];

    #[track_caller]
    fn leads(path: &str, to: Option<(usize, &str)>) {
        assert_eq!(resolve(PREFIXES, path, "/a/run/x"), to.map(|(n, r)| (n, r.to_string())), "{path}");
    }

    #[test]
    fn the_longest_prefix_of_whole_parts_wins() {
        leads("/a/run/x/y", Some((0, "x/y")));
        leads("/a/runs/x", Some((1, "runs/x")));
        leads("/a/run/deep/z", Some((2, "z")));
        leads("/a/run/deeper", Some((0, "deeper")));
        leads("/a", Some((1, "")));
        leads("/a/run/", Some((0, "")));
        leads("/c/x", None);
        leads("/", None);
        leads("", None);
        assert_eq!(resolve(["/"], "/x/y", "/"), Some((0, "x/y".into())), "a mount of everything");
    }

    #[test]
    fn a_path_that_names_a_mount_leads_into_it_and_any_other_goes_its_way() {
        use std::sync::atomic::{AtomicU32, Ordering};
        let memory = || -> Arc<dyn Layout> { Arc::new(Direct::new(Arc::new(Memory::new())).unwrap()) };
        let (plain, inside, asked) = (memory(), memory(), Arc::new(AtomicU32::new(0)));
        let (of_mount, counted) = (inside.clone(), asked.clone());
        let mounts = Mounts::new(Vec::new(), plain).with_named(move || {
            let of_mount = of_mount.clone();
            match counted.fetch_add(1, Ordering::Relaxed) {
                0 => Err(Error::new(ErrorKind::Config, "not yet")),
                _ => Ok(vec![
                    Mount::named("p", move || Ok(of_mount.clone())),
                    Mount::named("q", || Err("it does not run".into())),
                ]),
            }
        });
        assert!(mounts.place("/usual").unwrap().mount.is_none() && mounts.place("thalweg").unwrap().mount.is_none());
        assert_eq!(asked.load(Ordering::Relaxed), 0, "nobody has named one");
        assert!(mounts.place("thalweg:p/x").is_err(), "a failed search is an error");
        for (path, name) in
            [("thalweg:p/x", "x"), ("thalweg:p/a/../../b//./c", "b/c"), ("thalweg:p", ""), ("thalweg:p/", "")]
        {
            let at = mounts.place(path).unwrap();
            assert_eq!((at.mount.map(Mount::prefix), at.name.as_str()), (Some("thalweg:p"), name), "{path}");
            assert!(Arc::ptr_eq(at.layout, &inside), "{path}");
        }
        let error = mounts.place("thalweg:q/x").err().unwrap();
        assert!(error.to_string().contains("it does not run"), "{error}");
        for path in ["thalweg:pp/x", "thalweg:/p/x", "thalweg:", "./thalweg:p/x", "thalweg:P/x"] {
            let at = mounts.place(path).unwrap();
            assert!(at.mount.is_none() && at.name == path, "{path}");
        }
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        assert_eq!(errno::of(&mounts.rename("thalweg:p/x", "/x").unwrap_err()), Errno::XDEV.raw_os_error());
        assert_eq!(errno::of(&mounts.remove("thalweg:p").unwrap_err()), Errno::BUSY.raw_os_error());
    }

    #[test]
    fn dots_are_settled_as_text_before_prefixes_are_compared() {
        leads("/a/run/../x", Some((1, "x")));
        leads("/c/../b//./x", Some((3, "x")));
        leads("/../../b/x", Some((3, "x")));
        leads("/a/run/../../c", None);
        leads("y", Some((0, "x/y")));
        leads("../../z", Some((1, "z")));
        leads("../../../c", None);
    }

    fn two() -> Mounts {
        let direct = || Arc::new(Direct::new(Arc::new(Memory::new())).unwrap()) as Arc<dyn Layout>;
        let mounts = vec![
            Mount::new("/one", move || Ok(direct())),
            Mount::new("/two/", move || Ok(direct())),
            Mount::new("/broken", || Err("mounts.toml:9: there is no folder /gone".into())),
        ];
        Mounts::new(mounts, direct())
    }

    #[test]
    fn files_of_two_mounts_are_kept_apart_and_renames_stay_inside_one() {
        let mounts = two();
        for (path, bytes) in [("/one/f", b"1"), ("/two/f", b"2")] {
            let file = mounts.open_write(path, OpenWrite::New, WriterId(0)).unwrap();
            crate::write_all_at(&*file, 0, bytes).unwrap();
        }
        let mut out = [0];
        mounts.open_read("/two/../two/f").unwrap().read_exact_at(0, &mut out).unwrap();
        assert_eq!(&out, b"2");
        let across = mounts.rename("/one/f", "/two/g").unwrap_err();
        assert_eq!(errno::of(&across), Errno::XDEV.raw_os_error(), "{across}");
        let plain = mounts.rename("/one/f", "g").unwrap_err();
        assert_eq!(errno::of(&plain), Errno::XDEV.raw_os_error(), "{plain}");
        mounts.rename("/one/f", "/one/g").unwrap();
        assert_eq!(mounts.list("/one").unwrap(), ["g"]);
        for refused in [mounts.remove("/one"), mounts.rename("/one", "/one/x")] {
            assert_eq!(errno::of(&refused.unwrap_err()), Errno::BUSY.raw_os_error());
        }
        assert!(mounts.stat("/one").unwrap().is_folder);
    }

    #[test]
    fn a_mount_that_cannot_work_says_why_to_whoever_uses_it_and_to_nobody_else() {
        let error = two().open_read("/broken/f").err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("mounts.toml:9: there is no folder /gone"), "{error}");
        assert_eq!(
            two().stat("/brokenf").unwrap_err().kind(),
            ErrorKind::InvalidArgument,
            "a plain path, refused by memory"
        );
    }
}
