"""Reads what a test runner printed, and prints lines `outcome<TAB>test` (pass, fail, skip).

    outcomes.py junit FILE      pytest's --junit-xml
    outcomes.py go              go's -test.v, from standard input
    outcomes.py rust PREFIX     libtest, from standard input; the prefix is put before each name
    outcomes.py lines           lines `pass NAME`, `fail NAME ...`, from standard input; others are passed over
"""

import re
import sys
import xml.etree.ElementTree as ElementTree


def junit(path):
    for case in ElementTree.parse(path).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = "fail" if kinds & {"failure", "error"} else "skip" if "skipped" in kinds else "pass"
        yield outcome, f"{case.get('classname')}.{case.get('name')}"


def go(lines):
    for line in lines:
        found = re.match(r"\s*--- (PASS|FAIL|SKIP): (\S+) \(", line)
        if found:
            yield found[1].lower(), found[2]


def rust(lines, prefix):
    words = {"ok": "pass", "FAILED": "fail", "ignored": "skip"}
    for line in lines:
        found = re.match(r"test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)", line)
        if found:
            yield words[found[2]], f"{prefix}::{found[1]}"


def plain(lines):
    for line in lines:
        found = re.match(r"(pass|fail|skip) (\S+)", line)
        if found:
            yield found[1], found[2]


def main():
    kind, rest = sys.argv[1], sys.argv[2:]
    if kind == "junit":
        found = junit(rest[0])
    else:
        lines = (line.decode(errors="replace") for line in sys.stdin.buffer)
        found = {"go": go, "rust": rust, "lines": plain}[kind](lines, *rest)
    for outcome, test in found:
        # Names may hold any bytes of a parameter; a line of the table may not.
        test = test.encode("unicode_escape").decode("ascii")
        print(f"{outcome}\t{test}")


main()
