//! Commands of bitmaps.

use super::super::Command;
use super::super::categories::Category;
use super::super::cost::Cost;
use super::super::group::group;
use super::super::keys::{KeySpec, MODIFIES, READS};
use super::super::spec::{Group, Spec};

group! {
    /// A command of bitmaps.
    Bitmap = Group { name: "bitmap", categories: &[Category::Bitmap] };
    BitCount("bitcount", "2.6.0", -2, "readonly", READS)
        .summary("Counts the bits that are set in the value of a key.")
        .cost(Cost::Strings),
    BitField("bitfield", "3.2.0", -2, "write denyoom", &[KeySpec::at(1, "RW access update variable_flags")
            .varies(&["SET", "INCRBY"], 2, "RW access update", "RO access")
            .note("This command allows both access and modification of the key")])
        .summary("Reads and changes integers within the bits of the value of a key.")
        .cost(Cost::Strings),
    BitFieldRo("bitfield_ro", "6.0.0", -2, "readonly fast", READS)
        .summary("Reads integers within the bits of the value of a key."),
    BitOp("bitop", "2.6.0", -4, "write denyoom", &[KeySpec::at(2, "OW update"), KeySpec::all_from(3, "RO access")])
        .summary("Combines the bits of values and stores the result.")
        .exclusive()
        .cost(Cost::Strings),
    BitPos("bitpos", "2.8.7", -3, "readonly", READS)
        .summary("Returns the position of the first bit that is set, or clear, in the value of a key.")
        .cost(Cost::Strings),
    GetBit("getbit", "2.2.0", 3, "readonly fast", READS)
        .summary("Returns one bit of the value of a key."),
    SetBit("setbit", "2.2.0", 4, "write denyoom", MODIFIES)
        .summary("Sets or clears one bit of the value of a key.")
        .cost(Cost::Strings),
}
