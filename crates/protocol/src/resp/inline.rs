//! Requests as lines of words, as a person types them into a terminal.

/// Splits a line into words, as Redis does: by white space; `"…"` with `\n` `\r` `\t` `\b` `\a`
/// `\xHH` and `\` before any other byte; `'…'` with `\'`. `None` if a quotation is not closed, or
/// is followed by another character than white space.
pub fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        let start = rest.iter().position(|byte| !is_space(*byte));
        let Some(start) = start else { return Some(words) };
        let (word, after) = word(rest.get(start..)?)?;
        words.push(word);
        rest = after;
    }
}

const fn is_space(byte: u8) -> bool {
    // As C's isspace, and NUL, which ends a string there.
    matches!(byte, b' ' | b'\t'..=b'\r' | 0)
}

/// Splits off the word at the front of `rest`.
fn word(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    while let Some((&byte, after)) = rest.split_first() {
        match byte {
            b'"' => {
                rest = double_quoted(after, &mut word)?;
                return is_end(rest).then_some((word, rest));
            }
            b'\'' => {
                rest = single_quoted(after, &mut word)?;
                return is_end(rest).then_some((word, rest));
            }
            byte if is_space(byte) => break,
            byte => word.push(byte),
        }
        rest = after;
    }
    Some((word, rest))
}

fn is_end(rest: &[u8]) -> bool {
    rest.first().is_none_or(|byte| is_space(*byte))
}

fn double_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let after = match rest {
            [b'"', after @ ..] => return Some(after),
            [b'\\', b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                word.push(hex(*high) << 4 | hex(*low));
                after
            }
            [b'\\', escaped, after @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                after
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
            [] => return None,
        };
        rest = after;
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let after = match rest {
            [b'\'', after @ ..] => return Some(after),
            [b'\\', b'\'', after @ ..] => {
                word.push(b'\'');
                after
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
            [] => return None,
        };
        rest = after;
    }
}

const fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit.wrapping_sub(b'0'),
        _ => (digit | 0x20).wrapping_sub(b'a').wrapping_add(10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_redis_does() {
        let words = |line: &str| {
            split_words(line.as_bytes())
                .map(|words| words.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>())
        };
        for (line, expected) in [
            ("", Some(vec![])),
            ("  \t ", Some(vec![])),
            ("PING", Some(vec!["PING"])),
            ("  set  a b ", Some(vec!["set", "a", "b"])),
            (r#"set a "b c""#, Some(vec!["set", "a", "b c"])),
            (r#"set a """#, Some(vec!["set", "a", ""])),
            (r#""\x41\n\q\xg1""#, Some(vec!["A\\nqxg1"])),
            (r"'a\'b' 'c\n'", Some(vec![r"a\'b", r"c\\n"])),
            (r#"a"b" c"#, Some(vec!["ab", "c"])),
            (r#""a"b"#, None),
            (r#""a"#, None),
            ("'a", None),
            ("'a'b", None),
            ("\"a\\", None),
        ] {
            let expected =
                expected.map(|words| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
            assert_eq!(words(line), expected, "{line}");
        }
    }
}
