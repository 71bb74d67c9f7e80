//! Refuses import cycles between the files of a crate.
//!
//! A file depends on another when it names something that the other defines. Re-exports are followed to the definition,
//! so a `mod.rs` that only declares and re-exports is part of no cycle. Test code does not count.

mod imports;
mod tree;

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;

use anyhow::{Context, Result, bail};

use tree::ModuleTree;

pub use tree::is_test;

/// Fails with every cycle, one a line.
pub fn check() -> Result<()> {
    let found = breaches(&crate::repository::root()?)?;
    if found.is_empty() {
        return Ok(());
    }
    bail!("{} import cycles between files of a crate:\n  {}", found.len(), found.join("\n  "));
}

/// Every cycle of every crate, as one line that names its shortest way round.
pub fn breaches(root: &Path) -> Result<Vec<String>> {
    let mut breaches = Vec::new();
    for crate_root in crate_roots(root)? {
        let tree = ModuleTree::read(&crate_root)
            .with_context(|| format!("cannot read the modules of {}", crate_root.display()))?;
        let cycles = Graph::new(tree.files.len(), &imports::edges(&tree)).cycles();
        breaches.extend(cycles.iter().map(|cycle| describe(&tree, root, cycle)));
    }
    Ok(breaches)
}

fn crate_roots(root: &Path) -> Result<Vec<std::path::PathBuf>> {
    let mut folders = vec![root.join("xtask")];
    let crates = root.join("crates");
    for entry in std::fs::read_dir(&crates).with_context(|| format!("cannot list {}", crates.display()))? {
        folders.push(entry?.path());
    }
    folders.sort();
    let candidates =
        folders.iter().flat_map(|folder| ["src/lib.rs", "src/main.rs"].map(|file| folder.join(file)));
    Ok(candidates.filter(|file| file.exists()).collect())
}

fn describe(tree: &ModuleTree, root: &Path, cycle: &[usize]) -> String {
    let name = |file: &usize| {
        let path = &tree.files[*file].path;
        path.strip_prefix(root).unwrap_or(path).display().to_string()
    };
    let mut steps: Vec<String> = cycle.iter().map(name).collect();
    steps.extend(cycle.first().map(name));
    format!("import cycle: {}", steps.join(" -> "))
}

/// A small directed graph.
struct Graph {
    targets: Vec<Vec<usize>>,
}

impl Graph {
    fn new(nodes: usize, edges: &BTreeSet<(usize, usize)>) -> Self {
        let mut targets = vec![Vec::new(); nodes];
        for &(from, to) in edges {
            targets[from].push(to);
        }
        Self { targets }
    }

    /// For each group of nodes that reach one another: the shortest way from its first node back to itself.
    fn cycles(&self) -> Vec<Vec<usize>> {
        let reach: Vec<BTreeSet<usize>> = (0..self.targets.len()).map(|node| self.reachable(node)).collect();
        let mut seen = BTreeSet::new();
        let mut cycles = Vec::new();
        for node in 0..self.targets.len() {
            if !reach[node].contains(&node) || !seen.insert(node) {
                continue;
            }
            seen.extend(reach[node].iter().filter(|&&other| reach[other].contains(&node)));
            cycles.extend(self.way_back(node));
        }
        cycles
    }

    fn reachable(&self, from: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut open = self.targets[from].clone();
        while let Some(node) = open.pop() {
            if found.insert(node) {
                open.extend(&self.targets[node]);
            }
        }
        found
    }

    fn way_back(&self, start: usize) -> Option<Vec<usize>> {
        let mut came_from = vec![None; self.targets.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            if self.targets[node].contains(&start) {
                let mut way = vec![node];
                let mut at = node;
                while at != start {
                    at = came_from[at]?;
                    way.push(at);
                }
                way.reverse();
                return Some(way);
            }
            for &next in &self.targets[node] {
                if next != start && came_from[next].is_none() {
                    came_from[next] = Some(node);
                    queue.push_back(next);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a crate from (file, text) pairs and returns its cycles as sorted lists of file names.
    fn cycles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let tree = ModuleTree::read(&folder.path().join("lib.rs")).unwrap();
        let cycles = Graph::new(tree.files.len(), &imports::edges(&tree)).cycles();
        let name = |file: &usize| {
            tree.files[*file].path.strip_prefix(folder.path()).unwrap().to_string_lossy().into_owned()
        };
        cycles
            .iter()
            .map(|cycle| {
                let mut names: Vec<String> = cycle.iter().map(name).collect();
                names.sort();
                names
            })
            .collect()
    }

    #[test]
    fn two_files_that_use_each_other_are_a_cycle() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; pub struct A(B);"),
            ("b.rs", "pub struct B; fn f(_: super::a::A) {}"),
        ];
        assert_eq!(cycles_of(&files), [["a.rs", "b.rs"]]);
    }

    #[test]
    fn a_facade_that_only_re_exports_is_none() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::A; pub use b::B;"),
            ("a.rs", "use crate::B; pub struct A(B);"),
            ("b.rs", "pub struct B;"),
        ];
        assert_eq!(cycles_of(&files), Vec::<Vec<String>>::new());
    }

    #[test]
    fn a_child_that_takes_types_of_its_parent_is_a_cycle_when_the_parent_calls_it() {
        let files = [
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod child; pub struct Options; fn go() { child::run(Options) }"),
            ("a/child.rs", "use super::Options; pub fn run(_: Options) {}"),
        ];
        assert_eq!(cycles_of(&files), [["a/child.rs", "a/mod.rs"]]);
    }

    #[test]
    fn methods_of_one_type_that_are_spread_over_files_are_a_cycle() {
        let files = [
            ("lib.rs", "mod writer; mod retain;"),
            ("writer.rs", "pub struct Writer; impl Writer { fn maintain(&self) { self.retain() } }"),
            ("retain.rs", "use crate::writer::Writer; impl Writer { pub fn retain(&self) {} }"),
        ];
        assert_eq!(cycles_of(&files), [["retain.rs", "writer.rs"]]);
    }

    #[test]
    fn a_path_inside_a_macro_counts_and_test_code_does_not() {
        let inside = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub fn one() -> bool { matches!(1, crate::b::TWO) }"),
            ("b.rs", "pub const TWO: u8 = 2; pub fn f() -> bool { crate::a::one() }"),
        ];
        assert_eq!(cycles_of(&inside).len(), 1);
        let tests = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub fn one() {} #[cfg(test)] mod tests { use crate::b::two; }"),
            ("b.rs", "pub fn two() { crate::a::one() }"),
        ];
        assert!(cycles_of(&tests).is_empty());
    }
}
