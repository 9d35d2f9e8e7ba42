//! A sink for events that writes a trace: CSV that `millpond bench replay` reads.
//!
//! The columns are `ts,key,key_size,size,op,op_count,ttl,event,result,pool,class`, the times
//! microseconds since the Unix epoch (`--trace-time us`). A find is a read, an insertion or
//! replacement a write, a touch a touch, a removal by its caller a removal. What the cache did on
//! its own – allocations, evictions, expiries – and what was refused has `op_count` 0: a replay
//! passes it over, and people can read it. `docs/formats/traces.md` says how keys are written.

use std::io::{self, Write};

use super::events::{Event, EventKind, EventResult, EventSink};

/// Writes events to `W` as a trace.
#[derive(Debug)]
pub struct TraceWriter<W: Write> {
    out: W,
    line: Vec<u8>,
    events: u64,
    error: Option<io::Error>,
}

impl<W: Write> TraceWriter<W> {
    /// Begins a trace with the line that names its columns. `out` should be buffered.
    ///
    /// # Errors
    /// Where the line cannot be written.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(b"ts,key,key_size,size,op,op_count,ttl,event,result,pool,class\n")?;
        Ok(Self { out, line: Vec::new(), events: 0, error: None })
    }

    /// Returns the number of events that were written.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the first error, if any: after that nothing more is written.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Writes out what is buffered, and gives the output back.
    ///
    /// # Errors
    /// The first that there was.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush();
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.out),
        }
    }
}

impl<W: Write> EventSink for TraceWriter<W> {
    fn event(&mut self, event: &Event<'_>) {
        if self.error.is_some() {
            return;
        }
        write_line(event, &mut self.line);
        match self.out.write_all(&self.line) {
            Ok(()) => self.events += 1,
            Err(error) => self.error = Some(error),
        }
    }

    fn flush(&mut self) {
        if self.error.is_none()
            && let Err(error) = self.out.flush()
        {
            self.error = Some(error);
        }
    }
}

/// The word for what a caller asked for, and whether it is to be asked for again in a replay.
fn operation(event: &Event<'_>) -> (&'static str, bool) {
    let asked = event.result != EventResult::Refused;
    match event.kind {
        EventKind::Find => ("get", asked),
        EventKind::Insert | EventKind::Replace => ("set", asked),
        EventKind::Allocate => ("set", false),
        EventKind::Touch => ("touch", asked),
        EventKind::Remove => ("delete", asked),
        EventKind::Evict | EventKind::Expire => ("delete", false),
    }
}

fn write_line(event: &Event<'_>, line: &mut Vec<u8>) {
    let (op, asked) = operation(event);
    line.clear();
    // Writing to memory does not fail.
    let _ = write!(line, "{},", event.time_nanos / 1_000);
    write_key(event.key, line);
    let _ = write!(line, ",{},", event.key.len());
    write_optional(event.value_bytes, line);
    let _ = write!(line, "{op},{},", u8::from(asked));
    // In a trace 0 is for ever.
    write_optional(event.ttl_secs.map(|secs| secs.max(1).into()), line);
    let _ = write!(line, "{},{},", event.kind.name(), event.result.name());
    write_optional(event.pool.map(|pool| pool.number().into()), line);
    if let Some(class) = event.class {
        let _ = write!(line, "{class}");
    }
    line.push(b'\n');
}

fn write_optional(number: Option<u64>, line: &mut Vec<u8>) {
    if let Some(number) = number {
        let _ = write!(line, "{number}");
    }
    line.push(b',');
}

/// Different keys as different texts without commas, blanks and control characters: bytes other
/// than letters, digits and most marks as `%` and two hexadecimal digits.
fn write_key(key: &[u8], line: &mut Vec<u8>) {
    for byte in key {
        if byte.is_ascii_graphic() && !matches!(byte, b',' | b'%' | b'"') {
            line.push(*byte);
        } else {
            let _ = write!(line, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pools::PoolId;

    fn event(kind: EventKind, result: EventResult, key: &[u8]) -> Event<'_> {
        Event {
            kind,
            result,
            key,
            pool: Some(PoolId(3, 0)),
            class: Some(7),
            value_bytes: Some(100),
            ttl_secs: None,
            time_nanos: 1_700_000_000_123_456_789,
        }
    }

    #[test]
    fn a_line_says_what_was_asked_and_what_came_of_it() {
        let mut writer = TraceWriter::new(Vec::new()).expect("memory");
        writer.event(&event(EventKind::Find, EventResult::Done, b"user:1"));
        let expiring =
            Event { ttl_secs: Some(60), ..event(EventKind::Insert, EventResult::Done, b"a,b\n%\xff") };
        writer.event(&expiring);
        let miss = Event {
            pool: None,
            class: None,
            value_bytes: None,
            ..event(EventKind::Find, EventResult::Miss, b"x")
        };
        writer.event(&miss);
        writer.event(&event(EventKind::Evict, EventResult::Done, b"y"));
        writer.event(&event(EventKind::Insert, EventResult::Refused, b"z"));
        assert_eq!(writer.events(), 5);
        let text = String::from_utf8(writer.finish().expect("memory")).expect("text");
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "1700000000123456,user:1,6,100,get,1,,find,done,3,7",
                "1700000000123456,a%2Cb%0A%25%FF,6,100,set,1,60,insert,done,3,7",
                "1700000000123456,x,1,,get,1,,find,miss,,",
                "1700000000123456,y,1,100,delete,0,,evict,done,3,7",
                "1700000000123456,z,1,100,set,0,,insert,refused,3,7",
            ]
        );
    }

    #[test]
    fn the_first_failure_is_kept() {
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut writer = TraceWriter::new(Full(130)).expect("room for the first line");
        (0..10).for_each(|_| writer.event(&event(EventKind::Find, EventResult::Done, b"k")));
        assert_eq!(writer.events(), 1);
        assert_eq!(writer.error().map(io::Error::kind), Some(io::ErrorKind::StorageFull));
        assert!(writer.finish().is_err());
    }
}
