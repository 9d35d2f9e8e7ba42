//! Patterns of `KEYS` and `SCAN`: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a byte that is meant
//! literally.

/// Returns whether `pattern` matches all of `text`. Takes at most time in proportion to the product
/// of their lengths: when the part behind a `*` fails, only the last `*` is retried further on.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // The point to continue from after a mismatch: behind the last star, one byte further on.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            pattern = rest;
            retry = Some((rest, text));
            continue;
        }
        let step = match (pattern, text) {
            ([], []) => return true,
            ([], _) => None,
            (_, []) => return false,
            (_, [byte, rest @ ..]) => one(pattern, *byte).map(|pattern| (pattern, rest)),
        };
        (pattern, text) = match (step, retry) {
            (Some(step), _) => step,
            (None, Some((behind, [_, further @ ..]))) => {
                retry = Some((behind, further));
                (behind, further)
            }
            (None, _) => return false,
        };
    }
}

/// Returns the remaining pattern if its first part matches `byte`.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [b'?', rest @ ..] => Some(rest),
        [b'[', rest @ ..] => {
            let (hit, rest) = class(rest, byte);
            hit.then_some(rest)
        }
        [b'\\', literal, rest @ ..] => (*literal == byte).then_some(rest),
        [literal, rest @ ..] => (*literal == byte).then_some(rest),
        [] => None,
    }
}

/// Returns whether `byte` is in the class that `rest` begins with, and the pattern behind the
/// class. As in Redis, a class that is not closed ends with the pattern.
fn class(rest: &[u8], byte: u8) -> (bool, &[u8]) {
    let (negated, mut rest) = match rest {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut hit = false;
    loop {
        rest = match rest {
            [] => return (hit != negated, rest),
            [b']', rest @ ..] => return (hit != negated, rest),
            [b'\\', literal, rest @ ..] => {
                hit |= *literal == byte;
                rest
            }
            [from, b'-', to, rest @ ..] => {
                hit |= (*from.min(to)..=*from.max(to)).contains(&byte);
                rest
            }
            [literal, rest @ ..] => {
                hit |= *literal == byte;
                rest
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Matches and mismatches as observed in redis-server 7.0.15.
    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "abc", true),
            ("a*c", "abbbc", true),
            ("a*c", "abbbd", false),
            ("a*b*c", "aXbYbZc", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("h[a-c]llo", "hdllo", false),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("[\\]]", "]", true),
            ("[a", "a", true),
            ("a**b", "ab", true),
            ("*a*a*a*a*b", &"a".repeat(200), false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
