//! A memcached that never holds anything: enough of a server to turn requests into bytes, so that a
//! table of inputs and outputs can be held against the real one.

use millpond_protocol::memcached::{
    GetRequest, KeyBuf, Limits, MetaCommand, MetaFacts, MetaFlags, MetaStatus, Parse, Parser, Refusal, Reply,
    Request, ShutdownMode, StoreCommand, StoreHeader, WireError, reply,
};

/// The answer of an empty memcached to `input`, and true if it closes the connection.
pub(crate) fn answer(input: &[u8], limits: &Limits) -> (Vec<u8>, bool) {
    let mut parser = Parser::new(limits.clone());
    let (mut out, mut rest) = (Vec::new(), input);
    loop {
        let consumed = match parser.parse(rest) {
            Parse::Incomplete { .. } | Parse::NeedData { .. } => return (out, false),
            Parse::Request { request: Request::Quit, .. } => return (out, true),
            Parse::Request { request, consumed } => {
                execute(&mut out, &request);
                consumed
            }
            Parse::TooLarge { refusal, consumed, .. } | Parse::Refused { refusal, consumed } => {
                refuse(&mut out, refusal);
                if refusal.close {
                    return (out, true);
                }
                consumed
            }
            Parse::Skipped { consumed } => consumed,
        };
        rest = &rest[consumed..];
    }
}

fn refuse(out: &mut Vec<u8>, refusal: Refusal) {
    if !refusal.quiet {
        out.extend_from_slice(refusal.error.as_bytes());
    }
}

fn execute(out: &mut Vec<u8>, request: &Request<'_>) {
    match request {
        Request::Get(GetRequest { .. }) => out.extend_from_slice(Reply::End.as_bytes()),
        Request::Store(request) => store(out, &request.header),
        Request::Delete(request) => say(out, Reply::NotFound, request.noreply),
        Request::Arithmetic(request) => say(out, Reply::NotFound, request.noreply),
        Request::Touch(request) => say(out, Reply::NotFound, request.noreply),
        Request::Meta(request) => {
            let status = match request.command {
                MetaCommand::Get | MetaCommand::Debug => MetaStatus::Miss,
                MetaCommand::Delete | MetaCommand::Arithmetic(_) => MetaStatus::NotFound,
            };
            if request.command == MetaCommand::Debug {
                return reply::meta(out, status, &MetaFlags::default(), &MetaFacts::default());
            }
            let mut scratch = KeyBuf::default();
            let key = request.key.bytes(&mut scratch);
            let facts = MetaFacts { key, key_is_base64: request.key.is_base64(), ..MetaFacts::default() };
            if !(request.flags.quiet() && status.is_nominal(request.command == MetaCommand::Get)) {
                reply::meta(out, status, &request.flags, &facts);
            }
        }
        Request::MetaNoop => out.extend_from_slice(Reply::MetaNoop.as_bytes()),
        Request::FlushAll { noreply, .. } => say(out, Reply::Ok, *noreply),
        Request::Verbosity { noreply, .. } => say(out, Reply::Ok, *noreply),
        Request::CacheMemlimit { mebibytes, noreply } => match mebibytes {
            0..8 => {
                refuse(out, Refusal { error: WireError::MemlimitTooSmall, quiet: *noreply, close: false })
            }
            _ => say(out, Reply::Ok, *noreply),
        },
        Request::Version => reply::version(out, "1.6.18"),
        Request::Stats(words) => match words.first() {
            Some(b"reset") => out.extend_from_slice(Reply::Reset.as_bytes()),
            Some(b"detail") => out.extend_from_slice(WireError::StatsDetailUsage.as_bytes()),
            _ => out.extend_from_slice(WireError::UnknownCommand.as_bytes()),
        },
        Request::Shutdown(ShutdownMode::Immediate | ShutdownMode::Graceful | ShutdownMode::Unknown) => {
            out.extend_from_slice(WireError::ShutdownNotEnabled.as_bytes());
        }
        Request::Unsupported { .. } => out.extend_from_slice(WireError::UnknownCommand.as_bytes()),
        Request::Quit => {}
    }
}

fn store(out: &mut Vec<u8>, header: &StoreHeader<'_>) {
    let Some(flags) = header.meta else {
        let answer = match header.command {
            StoreCommand::Set | StoreCommand::Add => Reply::Stored,
            StoreCommand::Replace | StoreCommand::Append | StoreCommand::Prepend => Reply::NotStored,
            StoreCommand::Cas => Reply::NotFound,
        };
        return say(out, answer, header.noreply);
    };
    let status = match header.command {
        StoreCommand::Set | StoreCommand::Add => MetaStatus::Done,
        StoreCommand::Replace | StoreCommand::Append | StoreCommand::Prepend => MetaStatus::NotStored,
        StoreCommand::Cas => MetaStatus::NotFound,
    };
    let mut scratch = KeyBuf::default();
    let facts = MetaFacts {
        key: header.key.bytes(&mut scratch),
        key_is_base64: header.key.is_base64(),
        // A store that failed has no token; one that went well is not asked for it in the table.
        cas: Some(0),
        ..MetaFacts::default()
    };
    if !(flags.quiet() && status.is_nominal(false)) {
        reply::meta(out, status, &flags, &facts);
    }
}

fn say(out: &mut Vec<u8>, reply: Reply, noreply: bool) {
    if !noreply {
        out.extend_from_slice(reply.as_bytes());
    }
}
