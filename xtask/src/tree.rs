//! The tree that the rules look at: the text files of the repository, its crates, and the ratchet.

use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

use crate::finding::Finding;
use crate::ratchet::{self, Ratchet};
use crate::repository;
use crate::source::Source;

/// The repository as the rules see it.
#[derive(Default)]
pub(crate) struct Tree {
    /// All text files, in the order of their paths.
    pub(crate) files: Vec<File>,
    pub(crate) packages: Vec<Package>,
    /// The ratchet, or why it cannot be read.
    pub(crate) ratchet: Option<Result<Ratchet, String>>,
}

/// A text file.
pub(crate) struct File {
    /// Relative to the repository, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
    /// Set for a Rust file that parses.
    pub(crate) source: Option<Source>,
    /// Set for a Rust file that does not: the line and the reason.
    pub(crate) broken: Option<(usize, String)>,
}

/// A crate of the workspace.
#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// The path of its `Cargo.toml`, relative to the repository.
    #[serde(rename = "manifest_path")]
    pub(crate) manifest: String,
    /// Dependencies on other crates of the workspace.
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

/// A dependency of a crate, as `cargo metadata` tells it.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `None`, `"dev"` or `"build"`.
    pub(crate) kind: Option<String>,
    /// Set for a dependency inside the workspace.
    pub(crate) path: Option<String>,
}

/// Something that is compiled to a library or a program of its own.
#[derive(Deserialize)]
pub(crate) struct Target {
    pub(crate) kind: Vec<String>,
    #[serde(rename = "src_path")]
    pub(crate) root: String,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

impl Tree {
    /// Reads the repository at `root`: its files, and what `cargo metadata` says of its crates.
    pub(crate) fn load(root: &Path) -> anyhow::Result<Self> {
        let mut tree = Self { packages: packages(root)?, ..Self::default() };
        for path in repository::files(root)? {
            let bytes = std::fs::read(root.join(&path)).with_context(|| format!("cannot read {path}"))?;
            let Ok(text) = String::from_utf8(bytes) else { continue };
            if !text.contains('\0') {
                tree.add_file(&path, text);
            }
        }
        Ok(tree)
    }

    /// Adds a file, and takes it apart where it is Rust or the ratchet.
    pub(crate) fn add_file(&mut self, path: &str, text: String) {
        let mut file = File { path: path.to_owned(), text, source: None, broken: None };
        if path.ends_with(".rs") {
            match Source::parse(&file.text) {
                Ok(source) => file.source = Some(source),
                Err(broken) => file.broken = Some(broken),
            }
        } else if path == ratchet::PATH {
            self.set_ratchet(&file.text);
        }
        self.files.push(file);
    }

    /// Replaces the ratchet by the one that `text` holds.
    pub(crate) fn set_ratchet(&mut self, text: &str) {
        self.ratchet = Some(Ratchet::parse(text));
    }

    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The crate whose folder holds `path`: of several, the innermost.
    pub(crate) fn owner(&self, path: &str) -> Option<&Package> {
        let holds = |package: &&Package| {
            path.strip_prefix(package.folder()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.packages.iter().filter(holds).max_by_key(|package| package.folder().len())
    }

    /// The Rust files that parse.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&File, &Source)> {
        self.files.iter().filter_map(|file| Some((file, file.source.as_ref()?)))
    }
}

impl File {
    pub(crate) fn finding(&self, line: usize, rule: &'static str, message: String) -> Finding {
        Finding { path: self.path.clone(), line, rule, message }
    }

    /// The file's name without its folders.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Returns whether the whole file is test or benchmark code.
    pub(crate) fn is_test(&self) -> bool {
        let name = self.name();
        name == "tests.rs"
            || name.ends_with("_tests.rs")
            || self.path.split('/').any(|folder| matches!(folder, "tests" | "benches" | "fuzz_targets"))
    }
}

impl Package {
    /// The folder of the crate, relative to the repository.
    pub(crate) fn folder(&self) -> &str {
        self.manifest.strip_suffix("/Cargo.toml").unwrap_or("")
    }

    /// The name without the project's prefix.
    pub(crate) fn short_name(&self) -> &str {
        self.name.strip_prefix("millpond-").unwrap_or(&self.name)
    }

    /// The root files of its libraries and programs; not of its tests, examples, benchmarks and
    /// build script.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &str> {
        let is_product =
            |kind: &String| matches!(kind.as_str(), "bin" | "proc-macro") || kind.ends_with("lib");
        let product = self.targets.iter().filter(move |target| target.kind.iter().any(is_product));
        product.map(|target| target.root.as_str())
    }
}

impl Dependency {
    /// For tests, examples and benchmarks only.
    pub(crate) fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

/// The crates of the workspace, with paths relative to `root` and dependencies inside the workspace
/// only.
fn packages(root: &Path) -> anyhow::Result<Vec<Package>> {
    let output = repository::cargo()
        .current_dir(root)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("cannot run cargo metadata")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "cargo metadata failed: {errors}");
    let metadata: Metadata =
        serde_json::from_slice(&output.stdout).context("cannot read what cargo metadata says")?;
    let relative = |path: &str| {
        let path = Path::new(path);
        path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
    };
    let mut packages = metadata.packages;
    for package in &mut packages {
        package.manifest = relative(&package.manifest);
        package.dependencies.retain(|dependency| dependency.path.is_some());
        for target in &mut package.targets {
            target.root = relative(&target.root);
        }
    }
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(packages)
}

#[cfg(test)]
pub(crate) mod testing;
