//! The list of all settings.

use super::{
    Admin, Config, ControlSettings, Fleet, Key, Limits, ListenerConfig, Log, MonitorSettings, PoolSettings,
    Telemetry, TenantSettings, UserSettings, Watch,
};

/// The settings of each section, in the order of the example file.
const SECTIONS: [&[Key]; 13] = [
    Config::KEYS,
    ListenerConfig::KEYS,
    PoolSettings::KEYS,
    TenantSettings::KEYS,
    UserSettings::KEYS,
    Limits::KEYS,
    Admin::KEYS,
    Watch::KEYS,
    ControlSettings::KEYS,
    Fleet::KEYS,
    MonitorSettings::KEYS,
    Telemetry::KEYS,
    Log::KEYS,
];

/// Every setting, in the order of the example file.
pub fn all() -> impl Iterator<Item = &'static Key> + Clone {
    SECTIONS.into_iter().flatten()
}

/// The names of the sections, in the order of the example file.
pub(super) fn sections() -> impl Iterator<Item = &'static str> {
    SECTIONS.into_iter().filter_map(|keys| Some(keys.first()?.path.split_once('.')?.0))
}

/// The sections that may be repeated.
pub(super) const LISTS: [&str; 4] = ["listener", "pool", "tenant", "user"];

/// Returns whether the setting called `path` is a size in bytes.
pub fn is_size(path: &str) -> bool {
    let name = path.rsplit('.').next().unwrap_or(path);
    let ends = ["_bytes", "_bytes_per_sec"];
    ["memory", "max_memory", "limit", "reserve"].contains(&name) || ends.iter().any(|end| name.ends_with(end))
}

/// A size as a person writes it, if a text with a unit says exactly the same.
pub fn written_size(bytes: u64) -> Option<String> {
    let size = base::ByteSize::new(bytes);
    Some(size.to_string()).filter(|text| bytes >= 1024 && text.parse() == Ok(size))
}

/// Returns the setting called `path`, in which entries of lists may carry their name:
/// `pool.default.limit`.
pub fn find(path: &str) -> Option<&'static Key> {
    let plain = plain(path);
    all().find(|key| key.path == plain)
}

/// `path` without the name of an entry: `pool.limit` for `pool.default.limit`.
pub(super) fn plain(path: &str) -> String {
    match path.split('.').collect::<Vec<_>>().as_slice() {
        [list @ ("pool" | "listener" | "tenant" | "user"), .., key] => format!("{list}.{key}"),
        _ => path.to_owned(),
    }
}

/// The environment variable for a setting that is not part of a list.
pub fn environment_name(key: &Key) -> Option<String> {
    let in_list = key.path.split_once('.').is_some_and(|(section, _)| LISTS.contains(&section));
    (!in_list).then(|| format!("MILLPOND_{}", key.path.replace('.', "_").to_ascii_uppercase()))
}
