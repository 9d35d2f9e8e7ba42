//! Reading of the files that a configuration consists of: its own, and certificates, keys and
//! tokens.
//!
//! A path may lead to a pipe that nobody writes to, or to a device without end. A server reads
//! files while serving, so it reads regular files alone, up to a length.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use base::ByteSize;

/// The longest file that is read.
pub const MAX_FILE: ByteSize = ByteSize::mib(16);

/// The bytes of a regular file. Never waits for a writer.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if `path` leads to something other than a file, or to more than
/// [`MAX_FILE`]; that of the system if it cannot be opened or read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    // A pipe without a writer is opened at once, and refused.
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    let what = match () {
        () if kind.is_file() => return read_all(file),
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a pipe",
        () => "a device or socket",
    };
    Err(invalid(format!("it is {what}, and has to be a file")))
}

/// [`read()`] for text in UTF-8.
///
/// # Errors
/// Those of [`read()`], and [`io::ErrorKind::InvalidData`] for bytes that are not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    text(read(path)?)
}

/// The text of a file or pipe. Waits until a pipe's writers have closed it.
///
/// # Errors
/// Those of [`read_text`].
pub(crate) fn read_text_or_pipe(path: &Path) -> io::Result<String> {
    let is_pipe = std::fs::metadata(path)?.file_type().is_fifo();
    if is_pipe { text(read_all(File::open(path)?)?) } else { read_text(path) }
}

fn read_all(file: File) -> io::Result<Vec<u8>> {
    let most = MAX_FILE.as_u64();
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(invalid(format!("it is longer than {MAX_FILE}")));
    }
    Ok(bytes)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    let invalid_at = |error: std::string::FromUtf8Error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.split(|byte| *byte == b'\n').count();
        io::Error::new(io::ErrorKind::InvalidData, format!("line {line} is not valid UTF-8"))
    };
    String::from_utf8(bytes).map_err(invalid_at)
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_file_is_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let pipe = path("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("a pipe");
        let refused = |path: &Path| read_text(path).expect_err("not a text file").to_string();
        assert_eq!(refused(&pipe), "it is a pipe, and has to be a file");
        assert_eq!(refused(folder.path()), "it is a folder, and has to be a file");
        assert_eq!(refused(Path::new("/dev/zero")), "it is a device or socket, and has to be a file");
        std::fs::write(path("bytes"), b"a\nb\xff").expect("written");
        assert_eq!(refused(&path("bytes")), "line 2 is not valid UTF-8");
        File::create(path("long")).and_then(|file| file.set_len(MAX_FILE.as_u64() + 1)).expect("made");
        assert_eq!(refused(&path("long")), "it is longer than 16MiB");
        std::fs::write(path("text"), "memory").expect("written");
        assert_eq!(read_text(&path("text")).expect("a text"), "memory");
    }

    #[test]
    fn a_pipe_is_read_to_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("a pipe");
        let target = pipe.clone();
        let writer = base::thread::spawn("writer".to_owned(), move || std::fs::write(target, "memory"));
        assert_eq!(read_text_or_pipe(&pipe).expect("a text"), "memory");
        writer.expect("a thread").join().expect("no panic").expect("written");
    }
}
