//! Compares the imports between crates, as `cargo metadata` lists them, with the table in docs/architecture.md, and refuses
//! import cycles between files of a crate, and `#[cfg(target_os)]`, `#[cfg(unix)]` and `#[cfg(windows)]` outside the files that pick
//! the platform.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cycles;

const TABLE: &str = "docs/architecture.md";
/// One for each crate that calls an operating system (docs/adr/0023-platform-files.md).
const PLATFORM_FILES: [&str; 4] = [
    "crates/cpumon-agent/src/platform.rs",
    "crates/cpumon-collect/src/source.rs",
    "crates/cpumon-files/src/platform.rs",
    "crates/cpumon-link/src/platform.rs",
];

type Crates = BTreeMap<String, BTreeSet<String>>;

/// Fails with every breach, one a line.
pub fn check() -> Result<()> {
    let root = crate::repository::root()?;
    let text = std::fs::read_to_string(root.join(TABLE)).with_context(|| format!("cannot read {TABLE}"))?;
    let mut breaches = import_breaches(&allowed_imports(&text)?, &actual_imports(&root)?);
    breaches.extend(platform_breaches(&root)?);
    breaches.extend(cycles::breaches(&root)?);
    if breaches.is_empty() {
        return Ok(());
    }
    bail!("these imports break the architecture:\n  {}", breaches.join("\n  "));
}

/// Rows of three cells: crate, purpose, imports; `–` means none, `all` means every crate.
fn allowed_imports(text: &str) -> Result<Crates> {
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, _, imports] = cells[..] else {
            bail!("{TABLE}: a row of the table of crates does not have three cells: {line}")
        };
        rows.push((name.trim_matches('`').to_owned(), imports.to_owned()));
    }
    if rows.is_empty() {
        bail!("{TABLE}: no table of crates found");
    }
    let everyone: BTreeSet<String> = rows.iter().map(|(name, _)| name.clone()).collect();
    let set = |imports: &str| match imports {
        "–" => BTreeSet::new(),
        "all" => everyone.clone(),
        list => list.split(',').map(|name| format!("cpumon-{}", name.trim())).collect(),
    };
    Ok(rows.iter().map(|(name, imports)| (name.clone(), set(imports))).collect())
}

fn actual_imports(root: &Path) -> Result<Crates> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("cannot run cargo metadata")?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("cargo metadata is no JSON")?;
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let packages = list(&metadata["packages"]);
    let names: BTreeSet<String> = packages.iter().map(|package| text(&package["name"])).collect();
    let imports = |package: &serde_json::Value| {
        let normal =
            list(&package["dependencies"]).into_iter().filter(|dependency| dependency["kind"] != "dev");
        normal.map(|dependency| text(&dependency["name"])).filter(|name| names.contains(name)).collect()
    };
    Ok(packages.iter().map(|package| (text(&package["name"]), imports(package))).collect())
}

fn import_breaches(allowed: &Crates, actual: &Crates) -> Vec<String> {
    let mut breaches = Vec::new();
    for (name, imports) in actual {
        let Some(may) = allowed.get(name) else {
            breaches.push(format!("{name} is not in the table of {TABLE}"));
            continue;
        };
        let wrong = imports
            .difference(may)
            .map(|other| format!("{name} imports {other}, which {TABLE} does not allow"));
        breaches.extend(wrong);
    }
    breaches
}

fn platform_breaches(root: &Path) -> Result<Vec<String>> {
    let mut breaches = Vec::new();
    let mut folders = vec![root.join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in
            std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?
        {
            let path = entry?.path();
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs")
                && name.contains("/src/")
                && !PLATFORM_FILES.contains(&name.as_str())
            {
                let text = std::fs::read_to_string(root.join(&name))
                    .with_context(|| format!("cannot read {name}"))?;
                let lines = text.lines().enumerate().filter(|(_, line)| picks_platform(line));
                let where_then = PLATFORM_FILES.join(", ");
                breaches.extend(
                    lines.map(|(at, _)| format!("{name}:{}: platforms are picked in {where_then}", at + 1)),
                );
            }
        }
    }
    Ok(breaches)
}

/// Whether a line compiles something on some systems only.
fn picks_platform(line: &str) -> bool {
    let predicate = line.trim_start().strip_prefix("#[cfg(").unwrap_or_default();
    let mut words = predicate.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.any(|word| matches!(word, "target_os" | "target_family" | "unix" | "windows"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE_TEXT: &str = "| crate | purpose | may import |\n|---|---|---|\n\
        | `cpumon-model` | types | – |\n| `cpumon-wire` | bytes | model |\n| `cpumon` | command line | all |\n";

    fn crates(rows: &[(&str, &[&str])]) -> Crates {
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        rows.iter().map(|(name, imports)| ((*name).to_owned(), set(imports))).collect()
    }

    #[test]
    fn what_the_table_allows_passes() {
        let allowed = allowed_imports(TABLE_TEXT).unwrap();
        let actual = crates(&[
            ("cpumon-model", &[]),
            ("cpumon-wire", &["cpumon-model"]),
            ("cpumon", &["cpumon-wire"]),
        ]);
        assert_eq!(import_breaches(&allowed, &actual), Vec::<String>::new());
    }

    #[test]
    fn a_call_upwards_and_an_unknown_crate_are_named() {
        let allowed = allowed_imports(TABLE_TEXT).unwrap();
        let breaches =
            import_breaches(&allowed, &crates(&[("cpumon-model", &["cpumon-wire"]), ("cpumon-new", &[])]));
        assert_eq!(breaches.len(), 2);
        assert!(breaches[0].contains("cpumon-model imports cpumon-wire"), "{breaches:?}");
        assert!(breaches[1].contains("cpumon-new is not in the table"), "{breaches:?}");
    }

    #[test]
    fn a_table_without_rows_is_an_error() {
        assert!(allowed_imports("no table here").is_err());
    }

    #[test]
    fn every_way_to_pick_a_platform_is_seen() {
        for line in ["#[cfg(unix)]", "    #[cfg(not(windows))]", "#[cfg(all(test, target_os = \"linux\"))]"] {
            assert!(picks_platform(line), "{line}");
        }
        for line in ["#[cfg(test)]", "#[cfg(feature = \"windows_terms\")]", "// #[cfg(unix)]", "mod windows;"]
        {
            assert!(!picks_platform(line), "{line}");
        }
    }
}
