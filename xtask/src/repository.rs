//! The place of the repository, and the list of its files.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

/// The repository's top folder: the one that holds `xtask/`.
pub(crate) fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let manifest = manifest.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    manifest.parent().map(Path::to_path_buf).unwrap_or(manifest)
}

/// The `cargo` that started this program, so that the same toolchain runs everything.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Paths, relative to `root` and sorted, of the files that are committed or would be by `git add
/// --all`. In a tree without Git (an unpacked archive) it is every file outside of `target` and
/// hidden folders.
pub(crate) fn files(root: &Path) -> anyhow::Result<Vec<String>> {
    let listed = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output();
    let mut files = match listed {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout)
            .split('\0')
            .filter(|path| !path.is_empty() && root.join(path).is_file())
            .map(str::to_owned)
            .collect(),
        _ => {
            let mut found = Vec::new();
            walk(root, root, &mut found)?;
            found
        }
    };
    files.sort_unstable();
    files.dedup();
    Ok(files)
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) -> anyhow::Result<()> {
    let context = || format!("cannot list {}", folder.display());
    for entry in std::fs::read_dir(folder).with_context(context)? {
        let entry = entry.with_context(context)?;
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let kind = entry.file_type().with_context(context)?;
        if kind.is_dir() {
            if name != "target" && (!name.starts_with('.') || name == ".ci" || name == ".cargo") {
                walk(root, &path, found)?;
            }
        } else if kind.is_file()
            && let Ok(relative) = path.strip_prefix(root)
        {
            found.push(relative.to_string_lossy().replace('\\', "/"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_listing_find_the_manifest() {
        let root = root();
        assert!(files(&root).expect("a listing").contains(&"Cargo.toml".to_owned()));
        let mut found = Vec::new();
        walk(&root, &root, &mut found).expect("a listing");
        assert!(found.contains(&"xtask/src/repository.rs".to_owned()));
        assert!(!found.iter().any(|path| path.starts_with("target/") || path.starts_with(".git/")));
    }
}
