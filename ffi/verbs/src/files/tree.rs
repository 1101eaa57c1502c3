// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files, folders and links by path, and how a path is followed among them.

use super::gate::is_below_root;
use bellwire_cm_device::{DeviceFile, Errno};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Links followed in one path.
const LINKS_MAX: u32 = 40;
const PATH_MAX: usize = 4096;

/// A text that may change.
pub(super) type Text = Box<dyn Fn() -> String + Send + Sync>;

/// A path's content.
pub(super) enum Node {
    Folder,
    File(Text),
    Link(String),
    Device((u32, u32), Arc<dyn DeviceFile>),
}

/// Everything by its full path, without links in it.
#[derive(Default)]
pub(super) struct Tree {
    nodes: BTreeMap<String, Node>,
    /// Folders of the real system that show through (`--verbs=beside`).
    pub shows_real: bool,
    /// When it was made, as files have it.
    pub made: i64,
}

/// Where a path leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// To what is ours, by its path in the tree.
    Ours(String),
    /// Out of the tree: the real path.
    Outside(String),
}

impl Tree {
    pub fn new(made: i64, shows_real: bool) -> Self {
        Self { nodes: BTreeMap::new(), shows_real, made }
    }

    /// Adds a node and the folders above it that are below a root.
    pub fn add(&mut self, path: &str, node: Node) {
        let mut above = path;
        while let Some((folder, _)) = above.rsplit_once('/')
            && is_below_root(folder)
            && !self.nodes.contains_key(folder)
        {
            self.nodes.insert(folder.to_owned(), Node::Folder);
            above = folder;
        }
        self.nodes.insert(path.to_owned(), node);
    }

    pub fn file(&mut self, path: &str, text: impl Into<String>) {
        let text = text.into();
        self.live(path, move || text.clone());
    }

    pub fn live(&mut self, path: &str, text: impl Fn() -> String + Send + Sync + 'static) {
        self.add(path, Node::File(Box::new(text)));
    }

    pub fn link(&mut self, path: &str, target: impl Into<String>) {
        self.add(path, Node::Link(target.into()));
    }

    pub fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// A number for a path, the same in every call.
    pub fn inode(&self, path: &str) -> u64 {
        self.nodes.keys().take_while(|p| p.as_str() <= path).count() as u64 + 1
    }

    /// The names in a folder.
    pub fn entries<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a str, &'a Node)> {
        let after = format!("{folder}/");
        let length = after.len();
        self.nodes.range(after.clone()..).take_while(move |(path, _)| path.starts_with(&after)).filter_map(move |(path, node)| {
            let name = &path[length..];
            (!name.contains('/')).then_some((name, node))
        })
    }

    /// Follows an absolute path; the link at its end too if `last`.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ELOOP`, `ENAMETOOLONG`, as the kernel gives them.
    pub fn follow(&self, path: &str, last: bool) -> Result<Place, Errno> {
        if path.len() >= PATH_MAX {
            return Err(Errno(libc::ENAMETOOLONG));
        }
        let wants_folder = path.ends_with('/') || path.ends_with("/.");
        let mut rest: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
        let (mut at, mut links) = (String::new(), 0);
        while let Some(part) = rest.pop() {
            match &*part {
                "" | "." => continue,
                ".." => {
                    at.truncate(at.rfind('/').unwrap_or(0));
                    continue;
                }
                _ => {}
            }
            at.push('/');
            at.push_str(&part);
            let is_last = rest.iter().all(|p| p.is_empty() || p == ".");
            match self.get(&at) {
                None if is_below_root(&at) && self.is_hidden(&at) => return Err(Errno(libc::ENOENT)),
                None if is_below_root(&at) => {
                    // A real one, which shows through.
                    rest.reverse();
                    return Ok(Place::Outside(join(at, &rest)));
                }
                Some(Node::Link(target)) if !is_last || last || wants_folder => {
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(Errno(libc::ELOOP));
                    }
                    if target.starts_with('/') && !is_below_root(target) {
                        // Out of the tree, where the kernel goes on.
                        rest.reverse();
                        return Ok(Place::Outside(join(target.clone(), &rest)));
                    }
                    at.truncate(if target.starts_with('/') { 0 } else { at.rfind('/').unwrap_or(0) });
                    rest.extend(target.split('/').rev().map(str::to_owned));
                }
                Some(Node::File(_) | Node::Device(..)) if !is_last || wants_folder => return Err(Errno(libc::ENOTDIR)),
                _ => {}
            }
        }
        if self.get(&at).is_some() { Ok(Place::Ours(at)) } else { Ok(Place::Outside(if at.is_empty() { "/".to_owned() } else { at })) }
    }

    /// Whether what the real system has at a path that is not in the tree must not be seen.
    fn is_hidden(&self, path: &str) -> bool {
        !self.shows_real || path.starts_with("/sys/devices/") || path.starts_with("/sys/bus/")
    }
}

fn join(mut path: String, rest: &[String]) -> String {
    for part in rest.iter().filter(|p| !p.is_empty()) {
        path.push('/');
        path.push_str(part);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let mut tree = Tree::default();
        tree.file("/sys/devices/pcib311:00/b311:00:00.0/infiniband/bellwire0/ports/1/state", "4: ACTIVE\n");
        tree.link("/sys/devices/pcib311:00/b311:00:00.0/infiniband/bellwire0/device", "../..");
        tree.link("/sys/devices/pcib311:00/b311:00:00.0/net", "/sys/class/net");
        tree.link("/sys/class/infiniband/bellwire0", "../../devices/pcib311:00/b311:00:00.0/infiniband/bellwire0");
        tree.link("/sys/class/infiniband/again", "again");
        tree
    }

    fn ours(path: &str) -> Result<Place, Errno> {
        Ok(Place::Ours(path.to_owned()))
    }

    #[test]
    fn links_are_followed_as_the_kernel_does() {
        let tree = tree();
        let state = "/sys/devices/pcib311:00/b311:00:00.0/infiniband/bellwire0/ports/1/state";
        assert_eq!(tree.follow("/sys/class/infiniband/bellwire0/ports/1/state", true), ours(state));
        assert_eq!(tree.follow("//sys/class//infiniband/./bellwire0/ports/../ports/1/state", true), ours(state));
        assert_eq!(tree.follow("/sys/class/infiniband/bellwire0", false), ours("/sys/class/infiniband/bellwire0"));
        assert_eq!(tree.follow("/sys/class/infiniband/bellwire0/", false), ours("/sys/devices/pcib311:00/b311:00:00.0/infiniband/bellwire0"));
        // A link is followed before `..` is.
        assert_eq!(tree.follow("/sys/class/infiniband/bellwire0/../..", true), ours("/sys/devices/pcib311:00/b311:00:00.0"));
        assert_eq!(tree.follow("/sys/class/infiniband/bellwire0/device/infiniband", true), ours("/sys/devices/pcib311:00/b311:00:00.0/infiniband"));
        assert_eq!(tree.follow("/sys/class/infiniband/bellwire0/device/net/lo/mtu", true), Ok(Place::Outside("/sys/class/net/lo/mtu".to_owned())));
        assert_eq!(tree.follow("/sys/class/infiniband/../net", true), Ok(Place::Outside("/sys/class/net".to_owned())));
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        let tree = tree();
        for (path, error) in [
            ("/sys/class/infiniband/mlx5_0", libc::ENOENT),
            ("/sys/class/infiniband/bellwire0/ports/2", libc::ENOENT),
            ("/sys/class/infiniband/bellwire0/ports/1/state/x", libc::ENOTDIR),
            ("/sys/class/infiniband/bellwire0/ports/1/state/", libc::ENOTDIR),
            ("/sys/class/infiniband/again", libc::ELOOP),
            ("/dev/infiniband/uverbs7", libc::ENOENT),
        ] {
            assert_eq!(tree.follow(path, true), Err(Errno(error)), "{path}");
        }
        assert_eq!(tree.follow(&format!("/sys/class/infiniband/{}", "a".repeat(5000)), true), Err(Errno(libc::ENAMETOOLONG)));
    }

    #[test]
    fn entries_are_those_of_one_folder() {
        let tree = tree();
        let names: Vec<_> = tree.entries("/sys/class/infiniband").map(|(name, _)| name.to_owned()).collect();
        assert_eq!(names, ["again", "bellwire0"]);
        let names: Vec<_> = tree.entries("/sys/devices/pcib311:00/b311:00:00.0").map(|(name, _)| name.to_owned()).collect();
        assert_eq!(names, ["infiniband", "net"]);
    }
}
