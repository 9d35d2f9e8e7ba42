//! Commands on the bits of values. Bit 0 is the highest of the first byte.

use protocol::resp::commands::Bitmap;
use protocol::resp::number;

use super::arguments::{arg, integer, is};
use super::commands::{Change, Commands, stamp_of};
use super::writer::{Failure, Outcome, Writer};

/// Bits that Redis's longest value has.
const MAX_BITS: u64 = 1 << 32;
const BAD_OFFSET: Failure = Failure::new("ERR bit offset is not an integer or out of range");

/// The handling of a number that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

/// A number with this many bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    is_signed: bool,
    bits: u32,
    offset: u64,
}

/// An operation of `BITFIELD` on a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Get(Field),
    Set(Field, i64, Overflow),
    Add(Field, i64, Overflow),
}

impl Field {
    fn parse(kind: &[u8], offset: &[u8]) -> Result<Self, Failure> {
        const BAD_TYPE: Failure = Failure::new(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        );
        let (is_signed, digits, most) = match kind {
            [b'i', digits @ ..] => (true, digits, 64),
            [b'u', digits @ ..] => (false, digits, 63),
            _ => return Err(BAD_TYPE),
        };
        let bits = number(digits).filter(|bits| (1..=most).contains(bits)).ok_or(BAD_TYPE)? as u32;
        let (digits, step) = match offset {
            [b'#', digits @ ..] => (digits, u64::from(bits)),
            digits => (digits, 1),
        };
        let offset = number(digits).and_then(|offset| u64::try_from(offset).ok());
        let offset = offset.and_then(|offset| offset.checked_mul(step)).ok_or(BAD_OFFSET)?;
        if offset.checked_add(u64::from(bits)).is_none_or(|end| end > MAX_BITS) {
            return Err(BAD_OFFSET);
        }
        Ok(Self { is_signed, bits, offset })
    }

    /// Bytes that a value must have for it.
    fn end_bytes(self) -> usize {
        (self.offset + u64::from(self.bits)).div_ceil(8) as usize
    }

    /// The number; bits beyond the value's end are 0.
    fn get(self, value: &[u8]) -> i64 {
        let bits = (self.offset..self.offset + u64::from(self.bits))
            .fold(0_u64, |number, at| number << 1 | u64::from(bit_of(value, at)));
        let unused = 64 - self.bits;
        if self.is_signed { (bits << unused) as i64 >> unused } else { bits as i64 }
    }

    fn put(self, value: &mut [u8], number: i64) {
        for i in 0..u64::from(self.bits) {
            let bit = number >> (u64::from(self.bits) - 1 - i) & 1;
            set_bit(value, self.offset + i, bit == 1);
        }
    }

    /// The number that `wanted` becomes. `None`: it does not fit, and nothing is to be done then.
    fn fitted(self, wanted: i128, overflow: Overflow) -> Option<i64> {
        let (least, most) = if self.is_signed {
            (-(1_i128 << (self.bits - 1)), (1_i128 << (self.bits - 1)) - 1)
        } else {
            (0, (1_i128 << self.bits) - 1)
        };
        if (least..=most).contains(&wanted) {
            return Some(wanted as i64);
        }
        match overflow {
            Overflow::Fail => None,
            Overflow::Saturate => Some(wanted.clamp(least, most) as i64),
            Overflow::Wrap => Some((least + (wanted - least).rem_euclid(1_i128 << self.bits)) as i64),
        }
    }
}

/// The steps of `BITFIELD`.
fn steps(args: &[&[u8]], reads_only: bool) -> Result<Vec<Step>, Failure> {
    let mut overflow = Overflow::Wrap;
    let mut steps = Vec::new();
    let mut rest = args;
    while let [name, behind @ ..] = rest {
        rest = match behind {
            [kind, offset, behind @ ..] if is(name, "GET") => {
                steps.push(Step::Get(Field::parse(kind, offset)?));
                behind
            }
            [kind, offset, value, behind @ ..] if is(name, "SET") || is(name, "INCRBY") => {
                let field = Field::parse(kind, offset)?;
                let value = integer(value)?;
                steps.push(if is(name, "SET") {
                    Step::Set(field, value, overflow)
                } else {
                    Step::Add(field, value, overflow)
                });
                behind
            }
            [how, behind @ ..] if is(name, "OVERFLOW") => {
                overflow = match how.to_ascii_uppercase().as_slice() {
                    b"WRAP" => Overflow::Wrap,
                    b"SAT" => Overflow::Saturate,
                    b"FAIL" => Overflow::Fail,
                    _ => return Err(Failure::new("ERR Invalid OVERFLOW type specified")),
                };
                behind
            }
            _ => return Err(Failure::SYNTAX),
        };
    }
    if reads_only && steps.iter().any(|step| !matches!(step, Step::Get(_))) {
        return Err(Failure::new("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    Ok(steps)
}

impl<'c> Commands<'_, 'c> {
    pub(super) fn run_bits(&mut self, command: Bitmap, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        match command {
            Bitmap::GetBit => {
                let offset = offset(arg(args, 2))?;
                let item = self.read_string(arg(args, 1))?;
                w.truth(item.is_some_and(|item| bit_of(&item, offset)));
            }
            Bitmap::SetBit => return self.set_one_bit(args, w),
            Bitmap::BitCount => return self.count_bits(args, w),
            Bitmap::BitPos => return self.first_bit(args, w),
            Bitmap::BitOp => return self.combine(args, w),
            Bitmap::BitField | Bitmap::BitFieldRo => {
                let reads_only = command == Bitmap::BitFieldRo;
                let steps = steps(args.get(2..).unwrap_or_default(), reads_only)?;
                return self.bit_field(arg(args, 1), &steps, w);
            }
        }
        Ok(())
    }

    fn set_one_bit(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let (key, offset) = (arg(args, 1), offset(arg(args, 2))?);
        let bit = match number(arg(args, 3)) {
            Some(bit @ (0 | 1)) => bit == 1,
            _ => return Err(Failure::new("ERR bit is not an integer or out of range")),
        };
        let was = self.modify(key, |old| {
            let before: &[u8] = old.map_or(&[], |old| old);
            let was = bit_of(before, offset);
            let len = before.len().max((offset / 8) as usize + 1);
            if was == bit && len == before.len() {
                return Ok(Change::Leave(was));
            }
            let mut new = self.allocate(key, len, stamp_of(old))?;
            fill(new.value_mut(), before);
            set_bit(new.value_mut(), offset, bit);
            Ok(Change::Put(new, was))
        })?;
        w.truth(was);
        Ok(())
    }

    fn count_bits(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let Some(item) = self.read_string(arg(args, 1))? else {
            w.integer(0);
            return Ok(());
        };
        let bits = match args.get(2..).unwrap_or_default() {
            [] => Some((0, item.len() as u64 * 8)),
            [start, end, unit @ ..] if unit.len() < 2 => {
                let (start, end) = (integer(start)?, integer(end)?);
                if start < 0 && end < 0 && start > end {
                    None
                } else {
                    span(start, end, unit_of(unit.first().copied())?, item.len())
                }
            }
            _ => return Err(Failure::SYNTAX),
        };
        let count = bits.map_or(0, |(from, to)| ones(&item, from, to));
        w.integer(count as i64);
        Ok(())
    }

    fn first_bit(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let wanted = match integer(arg(args, 2))? {
            0 => false,
            1 => true,
            _ => return Err(Failure::new("ERR The bit argument must be 1 or 0.")),
        };
        let Some(item) = self.read_string(arg(args, 1))? else {
            w.integer(if wanted { -1 } else { 0 });
            return Ok(());
        };
        let (bits, has_end) = match args.get(3..).unwrap_or_default() {
            [] => (span(0, -1, 8, item.len()), false),
            [start] => (span(integer(start)?, -1, 8, item.len()), false),
            [start, end, unit @ ..] if unit.len() < 2 => {
                let start = integer(start)?;
                let unit = unit_of(unit.first().copied())?;
                (span(start, integer(end)?, unit, item.len()), true)
            }
            _ => return Err(Failure::SYNTAX),
        };
        let found = bits.and_then(|(from, to)| {
            let found = first(&item, wanted, from, to);
            // Behind the value there are zeros, where nobody has said that it ends.
            found.or_else(|| (!wanted && !has_end).then_some(to))
        });
        w.integer(found.map_or(-1, |at| at as i64));
        Ok(())
    }

    /// Combines values. The key space is closed.
    fn combine(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let (how, to) = (arg(args, 1).to_ascii_uppercase(), arg(args, 2));
        let keys = args.get(3..).unwrap_or_default();
        let join: fn(u8, u8) -> u8 = match how.as_slice() {
            b"AND" => |a, b| a & b,
            b"OR" => |a, b| a | b,
            b"XOR" | b"NOT" => |a, b| a ^ b,
            _ => return Err(Failure::SYNTAX),
        };
        let is_not = how == b"NOT";
        if is_not && keys.len() != 1 {
            return Err(Failure::new("ERR BITOP NOT must be called with a single source key."));
        }
        let mut combined: Option<Vec<u8>> = None;
        for key in keys {
            let item = self.read_string(key)?;
            let value: &[u8] = item.as_ref().map_or(&[], |item| item);
            let Some(combined) = &mut combined else {
                combined = Some(value.to_vec());
                continue;
            };
            combined.resize(combined.len().max(value.len()), 0);
            let value = value.iter().copied().chain(std::iter::repeat(0));
            combined.iter_mut().zip(value).for_each(|(byte, other)| *byte = join(*byte, other));
        }
        let mut combined = combined.unwrap_or_default();
        if is_not {
            combined.iter_mut().for_each(|byte| *byte = !*byte);
        }
        if combined.is_empty() {
            self.remove(to);
        } else {
            let item = self.item_of(to, &[&combined], stamp_of(None))?;
            self.shared.cache.put(item);
        }
        w.integer(combined.len() as i64);
        Ok(())
    }

    fn bit_field(&mut self, key: &[u8], steps: &[Step], w: &mut Writer<'_, 'c>) -> Outcome {
        let writes = |step: &Step| match step {
            Step::Get(_) => None,
            Step::Set(field, ..) | Step::Add(field, ..) => Some(field.end_bytes()),
        };
        let needed = steps.iter().filter_map(writes).max();
        let replies = if let Some(needed) = needed {
            self.modify(key, |old| {
                let before: &[u8] = old.map_or(&[], |old| old);
                let mut new = self.allocate(key, before.len().max(needed), stamp_of(old))?;
                fill(new.value_mut(), before);
                let replies: Vec<Option<i64>> =
                    steps.iter().map(|step| take(*step, new.value_mut())).collect();
                Ok(Change::Put(new, replies))
            })?
        } else {
            let item = self.read_string(key)?;
            let value: &[u8] = item.as_ref().map_or(&[], |item| item);
            let get = |step: &Step| match step {
                Step::Get(field) | Step::Set(field, ..) | Step::Add(field, ..) => Some(field.get(value)),
            };
            steps.iter().map(get).collect()
        };
        w.array(replies.len());
        for reply in replies {
            match reply {
                Some(number) => w.integer(number),
                None => w.null(),
            }
        }
        Ok(())
    }
}

/// Carries a step out, and says what it is answered.
fn take(step: Step, value: &mut [u8]) -> Option<i64> {
    match step {
        Step::Get(field) => Some(field.get(value)),
        Step::Set(field, number, overflow) => {
            let before = field.get(value);
            // A number below zero is one of 64 bits to a field without a sign.
            let wanted = if field.is_signed { i128::from(number) } else { i128::from(number as u64) };
            field.put(value, field.fitted(wanted, overflow)?);
            Some(before)
        }
        Step::Add(field, by, overflow) => {
            let after = field.fitted(i128::from(field.get(value)) + i128::from(by), overflow)?;
            field.put(value, after);
            Some(after)
        }
    }
}

fn offset(text: &[u8]) -> Result<u64, Failure> {
    number(text)
        .and_then(|offset| u64::try_from(offset).ok())
        .filter(|offset| *offset < MAX_BITS)
        .ok_or(BAD_OFFSET)
}

/// Bits of what places are counted in.
fn unit_of(name: Option<&[u8]>) -> Result<i64, Failure> {
    match name {
        None => Ok(8),
        Some(name) if is(name, "BYTE") => Ok(8),
        Some(name) if is(name, "BIT") => Ok(1),
        Some(_) => Err(Failure::SYNTAX),
    }
}

/// The bits from place `start` to place `end`, both included, below zero counted from the end: the
/// first, and the one behind the last.
fn span(start: i64, end: i64, unit: i64, len: usize) -> Option<(u64, u64)> {
    let places = len as i64 * 8 / unit;
    let at = |place: i64| if place < 0 { place.saturating_add(places).max(0) } else { place };
    let (start, end) = (at(start), at(end).min(places - 1));
    (start <= end).then(|| ((start * unit) as u64, ((end + 1) * unit) as u64))
}

fn bit_of(value: &[u8], at: u64) -> bool {
    let byte = usize::try_from(at / 8).ok().and_then(|byte| value.get(byte));
    byte.is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1)
}

fn set_bit(value: &mut [u8], at: u64, bit: bool) {
    if let Some(byte) = usize::try_from(at / 8).ok().and_then(|byte| value.get_mut(byte)) {
        let mask = 1 << (7 - at % 8);
        *byte = if bit { *byte | mask } else { *byte & !mask };
    }
}

/// Writes a value into a longer one, and zeros behind it.
fn fill(value: &mut [u8], before: &[u8]) {
    let (front, back) = value.split_at_mut(before.len());
    front.copy_from_slice(before);
    back.fill(0);
}

/// The bytes that lie between two bits whole, and the bits around them.
fn whole_bytes(value: &[u8], from: u64, to: u64) -> (std::ops::Range<u64>, &[u8], std::ops::Range<u64>) {
    let (first, last) = (from.div_ceil(8), to / 8);
    match value.get(first as usize..last as usize) {
        Some(bytes) if first <= last => (from..first * 8, bytes, last * 8..to),
        _ => (from..to, &[], to..to),
    }
}

fn ones(value: &[u8], from: u64, to: u64) -> u64 {
    let (front, bytes, back) = whole_bytes(value, from, to);
    let around = front.chain(back).filter(|at| bit_of(value, *at)).count();
    around as u64 + bytes.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

/// The first bit between two that is `wanted`.
fn first(value: &[u8], wanted: bool, from: u64, to: u64) -> Option<u64> {
    let (mut front, bytes, mut back) = whole_bytes(value, from, to);
    let start = front.end;
    if let Some(at) = front.find(|at| bit_of(value, *at) == wanted) {
        return Some(at);
    }
    let without = if wanted { 0 } else { 0xff };
    if let Some(at) = bytes.iter().position(|byte| *byte != without) {
        let at = start + at as u64 * 8;
        return (at..at + 8).find(|at| bit_of(value, *at) == wanted);
    }
    back.find(|at| bit_of(value, *at) == wanted)
}
