//! Execution of the requests that are not look-ups.

use super::active_turn::ActiveTurn;
use super::wire::{NO_WATCH, VERSION, respond};
use frontend::turn::Next;
use protocol::memcached::{Reply, Request, ShutdownMode, WireError, reply};
use tenancy::metrics::Counter;

impl ActiveTurn<'_, '_, '_> {
    /// Acts on a request that is not gathered.
    pub(super) fn execute(&mut self, request: Request<'_>) -> Option<Next> {
        let commands = &mut self.commands;
        let output = &mut *self.output;
        match request {
            Request::Store(request) => commands.store(&request.header, request.data, output),
            Request::Delete(request) => commands.delete(request, output),
            Request::Arithmetic(request) => commands.arithmetic(request, output),
            Request::Touch(request) => commands.touch(request, output),
            Request::Meta(request) => commands.meta(request, output),
            Request::MetaNoop => output.write(Reply::MetaNoop.as_bytes()),
            Request::FlushAll { delay, noreply } => {
                commands.flush_all(delay);
                respond(output, noreply, Reply::Ok.as_bytes());
            }
            Request::Stats(arguments) => {
                commands.stats(arguments, output);
                // A client that sends many and reads no answer is not to hold up others.
                return Some(Next::Yield);
            }
            Request::Version => output.compose(|out| reply::version(out, VERSION)),
            Request::Verbosity { noreply, .. } => respond(output, noreply, Reply::Ok.as_bytes()),
            Request::CacheMemlimit { mebibytes, noreply } => {
                let answer = commands.set_memory(mebibytes);
                respond(output, noreply, answer);
                // As above: a change of settings looks at all pools.
                return Some(Next::Yield);
            }
            Request::Shutdown(ShutdownMode::Unknown) => {
                output.write(WireError::InvalidShutdownMode.as_bytes())
            }
            Request::Shutdown(_) => output.write(WireError::ShutdownNotEnabled.as_bytes()),
            Request::Quit => return Some(Next::Close(Counter::ClosedByQuit)),
            Request::Unsupported { name: b"lru_crawler", arguments } => {
                *self.dump = commands.crawler(arguments, output);
            }
            Request::Unsupported { name: b"watch", .. } => output.write(NO_WATCH),
            Request::Unsupported { .. } => output.write(WireError::UnknownCommand.as_bytes()),
            // Retrievals are gathered by the caller.
            Request::Get(_) => {}
        }
        None
    }
}
