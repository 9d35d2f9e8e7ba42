//! The thread that changes settings.
//!
//! A change may take seconds: that of a tenant waits for the connections of a former one of that
//! name, and files are written. The thread that answers requests waits for none of that, so that
//! `/healthz` and `/metrics` answer meanwhile.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// Takes changes, which the thread carries out one after the other. It exits when all of these are
/// dropped.
#[derive(Clone)]
pub(super) struct Changes(Sender<Job>);

impl Changes {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the operating system refuses it.
    pub(super) fn start() -> io::Result<(Self, JoinHandle<()>)> {
        let (jobs, to_do) = channel::<Job>();
        let body = move || {
            for job in to_do {
                // The caller is told, as its channel closes; the next change is made all the same.
                let _ = catch_unwind(AssertUnwindSafe(job));
            }
        };
        Ok((Self(jobs), base::thread::spawn("changes", body)?))
    }

    /// Carries out a change, and returns its answer.
    pub(super) async fn carry_out(&self, change: impl FnOnce() -> Response + Send + 'static) -> Response {
        let (tell, told) = oneshot::channel();
        let job = Box::new(move || {
            let _ = tell.send(change());
        });
        let answer = match self.0.send(job) {
            Ok(()) => told.await.ok(),
            Err(_) => None,
        };
        answer.unwrap_or_else(|| {
            (StatusCode::INTERNAL_SERVER_ERROR, "the change failed; the server's log says why\n")
                .into_response()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_panics_is_answered_and_the_next_one_is_made() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (changes, thread) = Changes::start().expect("a thread");
        let failed = runtime.block_on(changes.carry_out(|| std::panic::resume_unwind(Box::new("planned"))));
        assert_eq!(failed.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let made = runtime.block_on(changes.carry_out(|| StatusCode::OK.into_response()));
        assert_eq!(made.status(), StatusCode::OK);
        drop(changes);
        thread.join().expect("it exits");
    }
}
