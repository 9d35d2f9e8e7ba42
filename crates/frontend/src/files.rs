//! The files that a configuration names and that SIGHUP reads again: certificates, tokens and logs.

use std::io;
use std::path::{Path, PathBuf};

use config::load::Findings;
use config::{Config, Error, ErrorKind, Watch};

use crate::access::Access;
use crate::requests::refuse_pipe;
use crate::{machine, tls};

/// Looks at the files that SIGHUP reads again: certificates, tokens and logs.
pub fn files(config: &Config) -> Findings {
    let mut problems = tls::load(config).err().unwrap_or_default();
    problems.extend(Access::load(config).err().unwrap_or_default());
    problems.extend(logs(&config.watch));
    Findings { problems, warnings: Vec::new() }
}

/// Returns why logs cannot be written, for each that cannot.
pub fn logs(watch: &Watch) -> Vec<String> {
    let named = [("request_log", &watch.request_log), ("trace_file", &watch.trace_file)];
    let problem = |(setting, file): (&str, &PathBuf)| {
        let error = check_log(file).err()?;
        Some(format!("watch.{setting}: {} cannot be written: {error}", file.display()))
    };
    named.into_iter().filter_map(problem).collect()
}

/// Reads certificates, keys and tokens.
///
/// # Errors
/// [`ErrorKind::Config`], with all that is wrong with any of the files.
pub fn read(config: &Config) -> Result<(tls::Loaded, Access), Error> {
    match (tls::load(config), Access::load(config)) {
        (Ok(certificates), Ok(access)) => Ok((certificates, access)),
        (certificates, access) => {
            let problems = [certificates.err(), access.err()].into_iter().flatten().flatten();
            Err(Error::new(ErrorKind::Config, problems.collect::<Vec<_>>().join("\n")))
        }
    }
}

/// Returns an error if a log that `new` names, and `old` does not, cannot be written.
///
/// # Errors
/// [`ErrorKind::Config`], with all that cannot.
pub(crate) fn check_logs(old: &Watch, new: &Watch) -> Result<(), Error> {
    let problems = logs(new);
    let known = logs(old);
    let problems: Vec<String> = problems.into_iter().filter(|problem| !known.contains(problem)).collect();
    if problems.is_empty() { Ok(()) } else { Err(Error::new(ErrorKind::Config, problems.join("\n"))) }
}

/// Checks that a file can be written to, or made; an empty name stands for none.
fn check_log(file: &Path) -> io::Result<()> {
    if file.as_os_str().is_empty() {
        return Ok(());
    }
    refuse_pipe(file)?;
    match std::fs::metadata(file) {
        Ok(there) if there.is_dir() => Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder")),
        Ok(_) => machine::check_writable(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
            machine::check_folder(folder.unwrap_or(Path::new(".")))
        }
        Err(error) => Err(error),
    }
}
