//! The only place that starts threads, pins them and puts them to sleep.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

/// Starts a named thread. The name (at most 15 bytes are shown by the kernel) appears in `top -H` and in panics.
///
/// # Errors
/// Where the operating system refuses another thread.
#[expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]
pub fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.into()).spawn(body)
}

/// Sleeps for at least `duration`.
#[expect(clippy::disallowed_methods, reason = "this is the one place that sleeps")]
pub fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}

/// The number of processors this process may run on; 1 where that is unknown.
pub fn available_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Pins the calling thread to one processor.
///
/// # Errors
/// Where `cpu` does not exist or the process may not run there.
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    // SAFETY: an all-zero cpu_set_t is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: `cpu` is below CPU_SETSIZE, and `set` outlives both calls.
    let rc = unsafe {
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, std::mem::size_of::<libc::cpu_set_t>(), &set)
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
