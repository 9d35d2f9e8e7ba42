//! Limits on what a client can make grow.

use base::ByteSize;

use super::Auto;
use super::values::MAX_ITEM;

settings! {
    /// Limits on what a client can make grow.
    pub struct Limits in "limits." {
        /// Most connections at a time, over all listeners. A further one waits a tenth of a
        /// second for a place, gets "ERROR Too many open connections" and is closed.
        online max_connections: usize = 4096, in 1..;

        /// The longest command line, except for retrievals. A longer one gets "CLIENT_ERROR line
        /// too long" and the connection is closed.
        online max_line_bytes: ByteSize = ByteSize::kib(2), in ByteSize::kib(2)..=ByteSize::mib(64);

        /// The longest command line of get, gets, gat and gats. A longer one gets the same error.
        online max_get_line_bytes: ByteSize = ByteSize::mib(1),
            in ByteSize::kib(2)..=ByteSize::mib(64);

        /// The most keys in one retrieval. More get "CLIENT_ERROR too many keys".
        online max_get_keys: usize = 65_536, in 1..;

        /// The longest RESP request that is buffered, and the most that a transaction buffers. A
        /// longer one is dropped and gets an error. A value being set does not count: it is
        /// received into its item.
        online max_request_bytes: ByteSize = ByteSize::mib(16),
            in ByteSize::kib(64)..=ByteSize::gib(1);

        /// The most keys that are remembered for CLIENT TRACKING, over all clients. Beyond that,
        /// another remembered key is invalidated. Each takes its key and 96 bytes.
        online max_tracked_keys: usize = 1_000_000, in 1..;

        /// The largest item, counted as memcached does for its -I: the key, the value and 59 bytes,
        /// or 63 with client flags. A larger one gets "SERVER_ERROR object too large for cache".
        online max_item_bytes: ByteSize = ByteSize::mib(1), in ByteSize::kib(1)..=MAX_ITEM;

        /// Skips the data after a rejected storage command. Like memcached, the server otherwise
        /// reads it as commands, which an attacker can exploit if a client does not check its keys.
        online skip_refused_data: bool = false;

        /// Unsent responses of one connection above which its requests wait until the client reads.
        online max_output_buffer_bytes: ByteSize = ByteSize::mib(1),
            in ByteSize::kib(4)..=ByteSize::gib(1);

        /// Buffers of all connections together. Above that, the largest connections of the tenant
        /// whose connections hold most are closed. "auto": an eighth of `memory`, at least 16MiB.
        online max_connection_memory_bytes: Auto<ByteSize> = Auto::Auto, in ByteSize::mib(1)..;

        /// Pipelined requests of one connection that are answered before other connections get
        /// their turn.
        online max_requests_per_turn: usize = 256, in 1..;

        /// Seconds without a request after which a connection is closed. 0: never.
        online idle_timeout_secs: u32 = 0;

        /// Seconds without progress within a request, or with responses that the client does not
        /// read, after which a connection is closed. 0: never.
        online stall_timeout_secs: u32 = 60;

        /// Seconds that a client has for the TLS handshake. 0: no limit.
        online handshake_timeout_secs: u32 = 10;

        /// Seconds that clients have to read their last responses when the server stops or their
        /// tenant is removed.
        online drain_timeout_secs: u32 = 5;
    }
}
