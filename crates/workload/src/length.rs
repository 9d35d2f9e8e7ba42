//! The length of a run or a phase of one, and times as they are written in flags and files.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The length of a phase: operations or time. Parses from `500000` and from `10s`, `500ms`, `2m`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// That many operations, all threads together.
    Operations(u64),
    /// That long.
    Time(Duration),
}

impl Length {
    /// The share that is done after `done` operations in `secs` seconds; above 1 where it is over.
    pub fn share_done(self, done: f64, secs: f64) -> f64 {
        match self {
            Self::Operations(all) => done / all.max(1) as f64,
            Self::Time(time) => secs / time.as_secs_f64().max(1e-9),
        }
    }
}

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error =
            || format!("`{text}` is neither a number of operations nor a time such as 10s, 500ms or 2m");
        let text = text.trim();
        let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let secs = match unit {
            "" => return number.parse().map(Self::Operations).map_err(|_| error()),
            "ms" => 1e-3,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3_600.0,
            _ => return Err(error()),
        };
        let number: f64 = number.parse().map_err(|_| error())?;
        Duration::try_from_secs_f64(number * secs).map(Self::Time).map_err(|_| error())
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operations(operations) => write!(f, "{operations} operations"),
            Self::Time(time) => write!(f, "{} s", time.as_secs_f64()),
        }
    }
}

/// A time, as in `500ms`; a bare number is seconds.
///
/// # Errors
/// What is wrong with `text`.
pub fn duration(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(Length::Time(time)) => Ok(time),
        Ok(Length::Operations(secs)) => Ok(Duration::from_secs(secs)),
        Err(_) => Err(format!("`{text}` is not a time such as 10s, 500ms or 2m")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_operations_or_time() {
        for (text, length) in [
            ("500000", Length::Operations(500_000)),
            ("10s", Length::Time(Duration::from_secs(10))),
            ("1.5s", Length::Time(Duration::from_millis(1_500))),
            ("250ms", Length::Time(Duration::from_millis(250))),
            ("2m", Length::Time(Duration::from_secs(120))),
        ] {
            assert_eq!(text.parse(), Ok(length), "{text}");
        }
        for text in ["", "s", "-1", "10 parsecs", "1.5", "1e9s"] {
            assert!(text.parse::<Length>().expect_err(text).contains("500ms"));
        }
    }
}
