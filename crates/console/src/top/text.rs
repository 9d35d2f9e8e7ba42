//! Numbers as people read them, in few characters.

/// The placeholder for an unknown figure.
pub(super) const UNKNOWN: &str = "–";

/// As in `1.5 GiB`.
pub(super) fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB"])
}

/// As in `1.5 MiB/s`.
pub(super) fn bytes_per_sec(rate: Option<f64>) -> String {
    rate.map_or_else(|| UNKNOWN.to_owned(), |rate| format!("{}/s", bytes(rate as u64)))
}

/// As in `12.3k`.
pub(super) fn count(count: u64) -> String {
    scaled(count as f64, 1000.0, &["", "k", "M", "G", "T", "P", "E"])
}

/// As in `12.3k`; small ones with a place after the point.
pub(super) fn rate(rate: Option<f64>) -> String {
    match rate {
        None => UNKNOWN.to_owned(),
        Some(rate) if rate > 0.0 && rate < 10.0 => format!("{rate:.1}"),
        Some(rate) => count(rate.round() as u64),
    }
}

/// As in `97.31%`.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| UNKNOWN.to_owned(), |share| format!("{:.2}%", share * 100.0))
}

/// A latency, as in `13.1 µs`.
pub(super) fn latency(secs: Option<f64>) -> String {
    secs.map_or_else(|| UNKNOWN.to_owned(), |secs| scaled(secs * 1e6, 1000.0, &[" µs", " ms", " s"]))
}

/// A time, as in `3d 4h` and `59s`.
pub(super) fn time(secs: u64) -> String {
    let (days, hours, minutes) = (secs / 86_400, secs / 3_600 % 24, secs / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{secs}s"),
        (0, 0, minutes) => format!("{minutes}m {}s", secs % 60),
        (0, hours, minutes) => format!("{hours}h {minutes}m"),
        (days, hours, _) => format!("{days}d {hours}h"),
    }
}

/// The number with three digits or more, and the unit that makes it so.
fn scaled(number: f64, step: f64, units: &[&str]) -> String {
    let (mut number, mut unit) = (number, 0);
    // A number that would be rounded up to a step is written as one of the next unit.
    while number >= step - 0.5 && unit + 1 < units.len() {
        number /= step;
        unit += 1;
    }
    let is_whole = unit == 0 && number.fract() == 0.0;
    let places = if is_whole || number >= 99.95 { 0 } else { 1 };
    format!("{number:.places$}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0, 1023, 1024, 1536, (1 << 30) - 1, u64::MAX].map(bytes),
            ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 GiB", "16384 PiB"]
        );
        assert_eq!(
            [0, 999, 1_000, 12_345, 123_456, 999_999].map(count),
            ["0", "999", "1.0k", "12.3k", "123k", "1.0M"]
        );
        assert_eq!([None, Some(0.0), Some(0.3), Some(1e6)].map(rate), ["–", "0", "0.3", "1.0M"]);
        assert_eq!([Some(1.2e-6), Some(0.0131), None].map(latency), ["1.2 µs", "13.1 ms", "–"]);
        assert_eq!([59, 61, 3_700, 90_000].map(time), ["59s", "1m 1s", "1h 1m", "1d 1h"]);
        assert_eq!([Some(0.97314), None].map(percent), ["97.31%", "–"]);
        assert_eq!(bytes_per_sec(Some(2048.0)), "2.0 KiB/s");
    }
}
