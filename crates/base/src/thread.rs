//! The only place that starts threads, pins them and puts them to sleep.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Starts a named thread. The name (at most 15 bytes are shown by the kernel) appears in `top -H`
/// and in panics.
///
/// # Errors
/// If the operating system refuses another thread.
#[expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]
pub fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.into()).spawn(body)
}

/// Sleeps for at least `duration`. In fuzz targets, which have one thread and so nothing to wait
/// for, it does not sleep.
#[expect(clippy::disallowed_methods, reason = "this is the one place that sleeps")]
pub fn sleep(duration: Duration) {
    std::thread::sleep(if cfg!(fuzzing) { Duration::ZERO } else { duration });
}

/// A thread that calls a function periodically until this value is dropped or stopped.
#[derive(Debug)]
pub struct Repeating<T> {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> Repeating<T> {
    /// Starts a thread that calls `body` with `state` at once, then at every `interval`, and once
    /// more when it is stopped. The second argument of `body` is true in that last call.
    ///
    /// # Errors
    /// If the operating system refuses another thread.
    pub fn start(
        name: &str,
        interval: Duration,
        mut state: T,
        mut body: impl FnMut(&mut T, bool) + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let theirs = Arc::clone(&stop);
        let thread = spawn(name, move || {
            let (stopped, changed) = &*theirs;
            loop {
                body(&mut state, false);
                let order = stopped.lock().unwrap_or_else(PoisonError::into_inner);
                let waited = changed.wait_timeout_while(order, interval, |stopped| !*stopped);
                let (stopped, _) = waited.unwrap_or_else(PoisonError::into_inner);
                if *stopped {
                    break;
                }
            }
            body(&mut state, true);
            state
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Stops the thread, waits for it and returns its state; `None` if it panicked.
    pub fn stop(mut self) -> Option<T> {
        self.end()
    }
}

impl<T> Repeating<T> {
    fn end(&mut self) -> Option<T> {
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_all();
        let thread = self.thread.take()?;
        // A thread that drops the value it runs for cannot wait for itself.
        if thread.thread().id() == std::thread::current().id() { None } else { thread.join().ok() }
    }
}

impl<T> Drop for Repeating<T> {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// The number of processors this process may run on; 1 if that is unknown.
pub fn available_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Pins the calling thread to one processor.
///
/// # Errors
/// If `cpu` does not exist or the process may not run there.
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

/// The time for which the calling thread has had a processor: what others do on the machine does
/// not count.
pub fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Lets the calling thread, and the threads that it starts, run only when nothing else wants the
/// processor.
///
/// # Errors
/// If the operating system refuses, which Linux does not.
pub fn run_when_idle() -> io::Result<()> {
    // SAFETY: an all-zero sched_param is priority 0, the only one that this class has.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: `parameters` outlives the call, which reads it only.
    let rc = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the calling thread, and the threads that it starts, yield to others that want its
/// processor (a nice value of 10). A thread that wakes up preempts it; while others leave no idle
/// time, it gets about a tenth of the time of one of them, in whole kernel ticks. That share is
/// large enough that a thread which waits for a lock it holds does not wait long.
///
/// # Errors
/// If the operating system refuses, which Linux does not.
pub fn lower_priority() -> io::Result<()> {
    // SAFETY: the call takes numbers alone; on Linux, process 0 is the calling thread.
    let rc = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Calls `body` with a scope whose threads end before it returns, and may borrow from outside it:
/// see [`spawn_in`].
pub fn scope<'env, T>(body: impl for<'s> FnOnce(&'s std::thread::Scope<'s, 'env>) -> T) -> T {
    std::thread::scope(body)
}

/// As [`spawn`], in a scope.
///
/// # Errors
/// If the operating system refuses another thread.
pub fn spawn_in<'s, T: Send + 's>(
    scope: &'s std::thread::Scope<'s, '_>,
    name: impl Into<String>,
    body: impl FnOnce() -> T + Send + 's,
) -> io::Result<std::thread::ScopedJoinHandle<'s, T>> {
    std::thread::Builder::new().name(name.into()).spawn_scoped(scope, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_sleeps_has_no_processor() {
        let before = processor_time();
        let slept = Duration::from_millis(200);
        sleep(slept);
        let after_sleep = processor_time();
        assert!(after_sleep >= before && after_sleep - before < slept);
        let sum = (0..100_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n));
        assert!(processor_time() > after_sleep, "{sum}");
    }

    #[test]
    fn a_repeating_thread_ends_with_one_last_time() {
        let counting = Repeating::start("count", Duration::ZERO, (0_u32, 0_u32), |(times, last), is_last| {
            *times += 1;
            *last += u32::from(is_last);
        })
        .expect("a thread");
        sleep(Duration::from_millis(5));
        let (times, last) = counting.stop().expect("no panic");
        assert!(times >= 2 && last == 1, "{times} times, the last {last} times");
    }
}
