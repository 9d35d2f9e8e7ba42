use super::super::{KeyBuf, Parse, Parser};
use super::*;

fn parsed(line: &str) -> Result<Request<'_>, WireError> {
    match Parser::new(Limits::default()).parse(line.as_bytes()) {
        Parse::Request { request, .. } => Ok(request),
        Parse::Refused { refusal, .. } => Err(refusal.error),
        other => panic!("{line}: {other:?}"),
    }
}

fn meta(line: &str) -> MetaRequest<'_> {
    match parsed(line) {
        Ok(Request::Meta(request)) => request,
        other => panic!("{line}: {other:?}"),
    }
}

fn header(line: &str) -> StoreHeader<'_> {
    match parsed(line) {
        Ok(Request::Store(store)) => store.header,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn every_flag_of_the_document_is_taken_and_read() {
    let get = meta("mg key c f h k l O12ab q s t v E7 N30 R-40 T60 u x\r\n");
    assert_eq!((get.command, get.key.wire()), (MetaCommand::Get, &b"key"[..]));
    let flags = get.flags;
    assert!("cfhklOqstvENRTux".bytes().all(|letter| flags.has(letter)));
    assert!(!"bCDFIJMPLSWXZ".bytes().any(|letter| flags.has(letter)));
    assert!(flags.quiet() && flags.value() && flags.no_bump() && flags.remove_value() && !flags.invalidate());
    assert_eq!(flags.opaque(), Some(&b"12ab"[..]));
    assert_eq!(flags.new_cas(), Some(7));
    assert_eq!((flags.vivify(), flags.recache()), (Some(Exptime(30)), Some(Exptime(-40))));
    assert_eq!((flags.ttl(), flags.client_flags(), flags.compare_cas()), (Some(Exptime(60)), None, None));

    let flags = meta("ma n C18446744073709551615 D5 J9 F4294967295 MD I Pa Lb\r\n").flags;
    assert_eq!((flags.compare_cas(), flags.delta(), flags.initial()), (Some(u64::MAX), 5, 9));
    assert_eq!((flags.client_flags(), flags.mode()), (Some(u32::MAX), Some(b'D')));
    assert!(flags.invalidate());
    assert_eq!((flags.argument(b'P'), flags.argument(b'L')), (Some(&b"a"[..]), Some(&b"b"[..])));

    let flags = meta("ma n\r\n").flags;
    assert_eq!((flags.delta(), flags.initial(), flags.mode(), flags.opaque()), (1, 0, None, None));
}

#[test]
fn flags_keep_the_order_of_the_line() {
    let get = meta("mg key v  k O1 f \r\n");
    let letters: Vec<_> = get.flags.iter().map(|token| (token.letter, token.argument)).collect();
    assert_eq!(letters, [(b'v', &b""[..]), (b'k', b""), (b'O', b"1"), (b'f', b"")]);
    assert_eq!(format!("{:?}", get.flags), r#"[v"", k"", O"1", f""]"#);
}

#[test]
fn directions_of_arithmetic() {
    for (line, direction) in [
        ("ma n\r\n", Direction::Increment),
        ("ma n MI\r\n", Direction::Increment),
        ("ma n M+\r\n", Direction::Increment),
        ("ma n MD\r\n", Direction::Decrement),
        ("ma n M-\r\n", Direction::Decrement),
    ] {
        assert_eq!(meta(line).command, MetaCommand::Arithmetic(direction), "{line}");
    }
}

#[test]
fn modes_of_set() {
    for (line, command, compare_cas) in [
        ("ms k 1\r\na\r\n", StoreCommand::Set, None),
        ("ms k 1 MS\r\na\r\n", StoreCommand::Set, None),
        ("ms k 1 ME\r\na\r\n", StoreCommand::Add, None),
        ("ms k 1 MA\r\na\r\n", StoreCommand::Append, None),
        ("ms k 1 MP\r\na\r\n", StoreCommand::Prepend, None),
        ("ms k 1 MR\r\na\r\n", StoreCommand::Replace, None),
        ("ms k 1 C5\r\na\r\n", StoreCommand::Cas, Some(5)),
        ("ms k 1 C5 MR\r\na\r\n", StoreCommand::Cas, Some(5)),
        ("ms k 1 C5 MA\r\na\r\n", StoreCommand::Append, Some(5)),
        ("ms k 1 C5 ME\r\na\r\n", StoreCommand::Add, Some(5)),
    ] {
        let header = header(line);
        assert_eq!(
            (header.command, header.compare_cas, header.data_len),
            (command, compare_cas, 1),
            "{line}"
        );
    }
    let header = header("ms k 1 T90 F4294967298 q I\r\na\r\n");
    assert_eq!((header.exptime, header.client_flags, header.noreply), (Exptime(90), 2, false));
    assert!(header.meta.is_some_and(|flags| flags.quiet() && flags.invalidate()));
}

#[test]
fn the_length_may_be_a_flag() {
    for line in ["ms k S2\r\nab\r\n", "ms k T0 S2 q\r\nab\r\n", "ms k S2 T0\r\nab\r\n"] {
        assert_eq!(header(line).data_len, 2, "{line}");
    }
    for (line, error) in [
        ("ms k S\r\n", WireError::BadFormat),
        ("ms k Sx\r\n", WireError::BadFormat),
        ("ms k S-1\r\n", WireError::BadFormat),
        ("ms k T0\r\n", WireError::BadFormat),
        ("ms k S1 S1\r\na\r\n", WireError::DuplicateFlag),
        ("ms k 1 S1\r\na\r\n", WireError::InvalidFlag),
        ("mg k S1\r\n", WireError::InvalidFlag),
    ] {
        assert_eq!(parsed(line), Err(error), "{line}");
    }
}

#[test]
fn base64_keys_are_decoded_when_asked_for() {
    let mut scratch = KeyBuf::default();
    for line in [
        "mg bWlsbCBwb25k b\r\n",
        "md bWlsbCBwb25k k b\r\n",
        "ma bWlsbCBwb25k b v\r\n",
        "me bWlsbCBwb25k b\r\n",
    ] {
        let request = meta(line);
        assert_eq!(request.key.bytes(&mut scratch), b"mill pond", "{line}");
        assert!(request.key.is_base64() && request.flags.has(b'b'));
    }
    assert_eq!(header("ms bWlsbCBwb25k 1 b\r\na\r\n").key.bytes(&mut scratch), b"mill pond");
    assert_eq!(meta("mg bWlsbCBwb25k v\r\n").key.bytes(&mut scratch), b"bWlsbCBwb25k");
}

#[test]
fn the_last_wrong_token_is_reported_unless_a_flag_is_wrong() {
    for (line, error) in [
        ("mg k Tx Jx\r\n", WireError::InvalidMetaInitial),
        ("mg k Jx Tx\r\n", WireError::BadToken),
        ("mg k Jx Fx\r\n", WireError::InvalidMetaInitial),
        ("mg k Tx z\r\n", WireError::InvalidFlag),
        ("mg k Tx T1\r\n", WireError::DuplicateFlag),
        ("ms k 1 M O11111111111111111111111111111111\r\n1\r\n", WireError::ModeTokenLength),
    ] {
        assert_eq!(parsed(line), Err(error), "{line}");
    }
}

#[test]
fn seventeen_flags_and_no_more() {
    let line = |flags: &str| format!("mg YQ== s t c f k l h O1 b v q u P1 L1 T0 R30{flags}\r\n");
    assert!(parsed(&line(" N0")).is_ok());
    assert_eq!(parsed(&line(" N0 C1")), Err(WireError::GetFlagsTooLong));
}
