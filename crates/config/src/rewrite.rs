//! Writes single settings into a configuration file and leaves everything else in it, comments
//! included, as it is.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, Value};

use super::{Config, change, files, keys};
use crate::error::{Error, ErrorKind};

/// Writes the settings of `paths` as they are in `config` into `file`, or into the file that it
/// leads to as a symbolic link.
///
/// # Errors
/// [`ErrorKind::Config`] if the file cannot be read, [`ErrorKind::System`] if it cannot be written.
pub fn rewrite(file: &Path, config: &Config, paths: &BTreeSet<String>) -> Result<(), Error> {
    let name = file.display();
    let refuse = |what: String| Error::new(ErrorKind::Config, format!("{name}: {what}"));
    let text = files::read_text(file).map_err(|error| refuse(format!("cannot be read: {error}")))?;
    let text = edited(&text, config, paths).map_err(refuse)?;
    let written = std::fs::canonicalize(file).and_then(|target| replace(&target, &text));
    written.map_err(|error: std::io::Error| {
        Error::with_source(ErrorKind::System, format!("{name} cannot be written"), error)
    })
}

/// The file that `file` leads to, if it is a symbolic link.
pub fn link_target(file: &Path) -> Option<PathBuf> {
    let is_link = std::fs::symlink_metadata(file).is_ok_and(|there| there.is_symlink());
    is_link.then(|| std::fs::canonicalize(file).ok()).flatten()
}

/// Replaces `file` with `text` through a file beside it, so that it is whole at any time. Nothing
/// stays beside it on an error.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    let write = || {
        let permissions = std::fs::metadata(file)?.permissions();
        let mut new = std::fs::File::create(&beside)?;
        new.set_permissions(permissions)?;
        new.write_all(text.as_bytes())?;
        new.sync_all()?;
        std::fs::rename(&beside, file)
    };
    let written = write();
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}

/// `text` with the settings of `paths` as they are in `config`.
fn edited(text: &str, config: &Config, paths: &BTreeSet<String>) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error| format!("is not TOML: {error}"))?;
    let settings = change::settings(config).map_err(|error| error.to_string())?;
    remove_tenants(&mut document, config, paths)?;
    let defaults = change::settings(&Config::with_examples()).map_err(|error| error.to_string())?;
    for (path, value) in settings.iter().filter(|(path, _)| paths.contains(path)) {
        if is_left_out(&document, path, value, &defaults) {
            continue;
        }
        let value: Value =
            with_unit(path, value).parse().map_err(|error| format!("{path} cannot be written: {error}"))?;
        place(&mut document, path, value).ok_or_else(|| format!("{path} has no place in it"))?;
    }
    Ok(document.to_string())
}

/// Takes the entries out of tenants that are among `paths` and that `config` does not have, each
/// with the comment right above it.
fn remove_tenants<'p>(
    document: &mut DocumentMut,
    config: &Config,
    paths: &'p BTreeSet<String>,
) -> Result<(), String> {
    let name = |path: &'p String| path.strip_prefix("tenant.")?.strip_suffix(".name");
    let mut gone: Vec<&str> = paths.iter().filter_map(name).collect();
    gone.retain(|name| !config.tenants.iter().any(|tenant| tenant.name == *name));
    let Some(list) = document.get_mut("tenant").filter(|_| !gone.is_empty()) else { return Ok(()) };
    let list = list.as_array_of_tables_mut().ok_or("its tenants are not written as [[tenant]]")?;
    list.retain(|entry| !entry.get("name").and_then(Item::as_str).is_some_and(|name| gone.contains(&name)));
    Ok(())
}

/// A value as TOML, a large size as a text with its unit.
fn with_unit(path: &str, value: &str) -> String {
    let bytes = value.parse().ok().filter(|_| keys::is_size(path));
    bytes.and_then(keys::written_size).map_or_else(|| value.to_owned(), |size| format!("\"{size}\""))
}

/// Returns whether a setting of a tenant need not be written: it has its default, and the file says
/// nothing else.
fn is_left_out(document: &DocumentMut, path: &str, value: &str, defaults: &[(String, String)]) -> bool {
    let named = path.strip_prefix("tenant.").and_then(|path| path.rsplit_once('.'));
    let Some((name, key)) = named else { return false };
    let is_it = |entry: &&Table| entry.get("name").and_then(Item::as_str) == Some(name);
    let list = document.get("tenant").and_then(Item::as_array_of_tables);
    let is_written =
        list.and_then(|list| list.iter().find(is_it)).is_some_and(|entry| entry.contains_key(key));
    let example = |setting: &&(String, String)| keys::plain(&setting.0) == format!("tenant.{key}");
    key != "name" && !is_written && defaults.iter().find(example).is_some_and(|(_, default)| default == value)
}

/// Puts `value` at `path`, in whatever way the section is written; sections and entries that are
/// missing are added.
fn place(document: &mut DocumentMut, path: &str, value: Value) -> Option<()> {
    let parts: Vec<&str> = path.split('.').collect();
    match parts.as_slice() {
        [key] => put(document.as_table_mut(), key, value),
        [section, key] => {
            let section = document.entry(section).or_insert_with(|| Item::Table(Table::new()));
            put(section.as_table_like_mut()?, key, value);
        }
        [list, name @ .., key] => {
            let name = name.join(".");
            let list = document.entry(list).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
            let list = list.as_array_of_tables_mut()?;
            let only = list.len() == 1;
            // An entry without a name has the one that it has by default, and there is but one
            // such.
            let is_it =
                |entry: &Table| entry.get("name").map_or(only, |it| it.as_str().is_some_and(|it| it == name));
            if !list.iter().any(is_it) {
                let mut entry = Table::new();
                entry.insert("name", Item::Value(Value::from(name.as_str())));
                list.push(entry);
            }
            put(list.iter_mut().find(|entry| is_it(entry))?, key, value);
        }
        [] => return None,
    }
    Some(())
}

/// Replaces a value and keeps the comments around it.
fn put(table: &mut dyn toml_edit::TableLike, key: &str, mut value: Value) {
    let Some(old) = table.get_mut(key) else {
        table.insert(key, Item::Value(value));
        return;
    };
    if let Some(old) = old.as_value() {
        *value.decor_mut() = old.decor().clone();
    }
    *old = Item::Value(value);
}

#[cfg(test)]
mod tests {
    use super::super::load::{Flags, load_text, unsurveyed};
    use super::*;

    #[test]
    fn what_was_changed_is_written_and_the_rest_is_left() {
        let text = "# ours\nmemory = \"64MiB\" # enough\n\n[limits]\n# for the bad ones\nidle_timeout_secs = 5\n\n[[pool]]\npolicy = \"lru\"\n";
        let load = |text: &str| {
            load_text("test.toml", text, &[], &Flags::default(), &unsurveyed).expect("good").config
        };
        let mut config = load(text);
        config.memory = super::super::Auto::Set(base::ByteSize::mib(32));
        config.limits.max_connections = 77;
        config.pools[0].limit = super::super::Auto::Set(base::ByteSize::mib(9));
        config.log.level = super::super::LogLevel::Debug;
        config.limits.idle_timeout_secs = 9;
        let paths = ["memory", "limits.max_connections", "pool.default.limit", "log.level"];
        let paths: BTreeSet<String> = paths.map(str::to_owned).into_iter().collect();
        let written = edited(text, &config, &paths).expect("written");
        for kept in [
            "# ours\nmemory = \"32MiB\" # enough\n",
            "# for the bad ones\nidle_timeout_secs = 5\n",
            "policy = \"lru\"\n",
        ] {
            assert!(written.contains(kept), "{kept:?} is missing in\n{written}");
        }
        config.limits.idle_timeout_secs = 5;
        assert_eq!(load(&written), config);
    }

    #[test]
    fn tenants_come_and_go_with_their_comments() {
        let text = "# ours\nmemory = \"64MiB\"\n\n# sells\n[[tenant]]\nname = \"shop\"\nweight = 3 # much\n\n# tells\n[[tenant]]\nname = \"blog\"\n\n[log]\nlevel = \"warn\"\n";
        let load = |text: &str| {
            load_text("test.toml", text, &[], &Flags::default(), &unsurveyed).expect("good").config
        };
        let old = load(text);
        let mut new = old.without_tenant("blog");
        new.tenants[0].weight = 1;
        new.tenants.push(super::super::TenantSettings {
            limit: super::super::Auto::Set(base::ByteSize::mib(8)),
            databases: vec![1, 2],
            ..super::super::TenantSettings::unlimited("wiki.en")
        });
        let changes = change::between(&old, &new).expect("changes");
        let paths = changes.into_iter().map(|change| change.path).collect();
        let written = edited(text, &new, &paths).expect("written");
        assert_eq!(
            written,
            "# ours\nmemory = \"64MiB\"\n\n# sells\n[[tenant]]\nname = \"shop\"\nweight = 1 # much\n\n[[tenant]]\nname = \"wiki.en\"\ndatabases = [1, 2]\nlimit = \"8MiB\"\n\n[log]\nlevel = \"warn\"\n"
        );
        assert_eq!(load(&written), new);
        let error = edited("tenant = [{ name = \"blog\" }]", &new, &["tenant.blog.name".to_owned()].into());
        assert!(error.expect_err("another shape").contains("[[tenant]]"));
    }

    #[test]
    fn entries_that_are_missing_are_added() {
        let config = Config::default();
        let paths: BTreeSet<String> =
            ["pool.default.limit".to_owned(), "limits.max_connections".to_owned()].into();
        let written = edited("", &config, &paths).expect("written");
        assert_eq!(
            load_text("test.toml", &written, &[], &Flags::default(), &unsurveyed).expect("good").config,
            config
        );
        assert!(written.contains("[[pool]]\nname = \"default\"\nlimit = \"auto\"\n"), "{written}");
    }

    #[test]
    fn a_symbolic_link_stays_one_and_its_target_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let (target, link) = (folder.path().join("real.toml"), folder.path().join("link.toml"));
        std::fs::write(&target, "memory = \"64MiB\"\n").expect("a file");
        std::os::unix::fs::symlink("real.toml", &link).expect("a link");
        let config = Config { memory: super::super::Auto::Set(base::ByteSize::mib(80)), ..Config::default() };
        rewrite(&link, &config, &["memory".to_owned()].into()).expect("written");
        assert_eq!(std::fs::read_to_string(&target).expect("the target"), "memory = \"80MiB\"\n");
        assert_eq!(link_target(&link), target.canonicalize().ok());
        assert_eq!(link_target(&target), None);
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 2);
    }

    #[test]
    fn nothing_stays_beside_a_file_that_cannot_be_written() {
        let folder = tempfile::tempdir().expect("a folder");
        // No file takes the place of a folder that is not empty.
        let file = folder.path().join("config.toml");
        std::fs::create_dir_all(file.join("full")).expect("a folder");
        replace(&file, "memory = 1\n").expect_err("it is a folder");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }
}
