//! Must fail: a bug is planted behind the parser, where only an input reaches it that is a
//! well-formed request of several words. A run that does not find it shows that the fuzzer is
//! blind, and that a clean run of the others means nothing.

#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_protocol::memcached::{Limits, Parse, Parser, Request};

fuzz_target!(|input: &[u8]| {
    let Parse::Request { request: Request::Meta(request), .. } = Parser::new(Limits::default()).parse(input)
    else {
        return;
    };
    let planted = request.flags.value() && request.flags.opaque().is_some() && request.flags.ttl().is_some();
    assert!(!planted, "the planted bug was found");
});
