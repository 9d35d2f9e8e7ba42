//! The nearest valid name for one that was mistyped.

/// The entry of `names` that takes the fewest edits from `typed`, if there are so few that it was
/// probably meant: at most one edit per three characters. For dotted names in the same section,
/// only the part behind the section counts.
pub fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    names
        .into_iter()
        .map(|name| (distance(typed, name), name))
        .filter(|(edits, name)| *edits * 3 <= (name.len() - shared_section(typed, name)).max(3))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, name)| name)
}

/// The length of the section, with its dot, that two dotted names have in common.
fn shared_section(a: &str, b: &str) -> usize {
    let common = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    a.as_bytes()[..common].iter().rposition(|byte| *byte == b'.').map_or(0, |dot| dot + 1)
}

/// The number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into
/// `b` (optimal string alignment, O(|a|·|b|) time).
pub fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let substituted = above[j] + usize::from(a[i] != b[j]);
            let mut best = substituted.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (a, b, edits) in
            [("", "", 0), ("abc", "", 3), ("memory", "memroy", 1), ("kitten", "sitting", 3), ("ab", "ba", 1)]
        {
            assert_eq!(distance(a, b), edits, "{a} {b}");
            assert_eq!(distance(b, a), edits, "{b} {a}");
        }
    }

    #[test]
    fn only_what_was_probably_meant_is_suggested() {
        let names = ["memory", "threads", "max_connections"];
        assert_eq!(nearest("memroy", names), Some("memory"));
        assert_eq!(nearest("max_conections", names), Some("max_connections"));
        assert_eq!(nearest("colour", names), None);
        let names = ["tenant.pool", "tenant.limit", "log.level"];
        assert_eq!(nearest("tenant.foo", names), None, "of `pool` half is another");
        assert_eq!(nearest("tenant.pol", names), Some("tenant.pool"));
        assert_eq!(nearest("tennant.limit", names), Some("tenant.limit"));
        assert_eq!(nearest("log.levle", names), Some("log.level"));
    }
}
