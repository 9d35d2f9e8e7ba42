"""Runs suites on the reference and on Millpond, and compares the outcomes test by test.

A suite is a script in `suites/` that answers to three words (see `lib/suite.sh`): `describe`, `prepare` (with the network, once for
both servers) and `run` (in a network namespace, with one server). What it found is a file of lines `outcome<TAB>test`.

What must hold, or the exit status is 1:
1. on each server exactly as many tests ran as the suite declares, so that a suite that skips cannot pass;
2. Millpond passes what the reference passes, but for `exceptions.toml`; what is skipped or missing has not passed;
3. every exception is needed: an excepted test that passes must leave the list, but for those that pass sometimes.
"""

import argparse
import dataclasses
import fnmatch
import os
import pathlib
import subprocess
import sys
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
HOME = pathlib.Path(os.environ["SUITES_HOME"])
SERVERS = ("reference", "millpond")
TIMEOUT_SECS = 600
NAMESPACE = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]


@dataclasses.dataclass
class Suite:
    """A script of `suites/`, and what it says of itself."""

    name: str
    version: str
    tests: int

    @property
    def script(self):
        return HERE / "suites" / f"{self.name}.sh"


@dataclasses.dataclass
class Allowance:
    """Tests that Millpond may fail, by a pattern of their names, and why."""

    suite: str
    tests: str
    reason: str
    # Whether they pass in some runs, so that this may also not be needed.
    sometimes: bool = False
    # Whether it holds only for a server whose items are beneath memory (`run.sh --late`).
    late: bool = False
    used: int = 0


def load_suites():
    suites = []
    for script in sorted((HERE / "suites").glob("*.sh")):
        text = subprocess.run([script, "describe"], check=True, capture_output=True, text=True).stdout
        version, tests = text.strip().split("\t")
        suites.append(Suite(script.stem, version, int(tests)))
    return suites


def load_exceptions():
    with open(HERE / "exceptions.toml", "rb") as file:
        entries = tomllib.load(file).get("exception", [])
    entries = [entry for entry in entries if not entry.get("late") or "MILLPOND_REAL" in os.environ]
    return [Allowance(**entry | {"tests": tests}) for entry in entries for tests in entry["tests"]]


def log_tail(path, lines=15):
    return "\n".join("    " + line for line in path.read_text(errors="replace").splitlines()[-lines:])


def prepare(suite):
    """Installs what the suite needs; says whether that went well."""
    folder = HOME / suite.name
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "prepare.log"
    with open(log, "w") as out:
        done = subprocess.run([suite.script, "prepare"], stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        print(f"{suite.name}: cannot be prepared (see {log})\n{log_tail(log)}", file=sys.stderr)
    return done.returncode == 0


def run(suite, server):
    """Runs the suite on a server; returns outcomes by test, and the seconds it took."""
    folder = HOME / suite.name
    results, log = folder / f"{server}.results", folder / f"{server}.log"
    results.write_text("")
    environment = dict(os.environ, RESULTS=str(results), SERVER=server, LOG=str(log))
    environment["PATH"] = f"{HERE / 'servers' / server}:{os.environ['PATH']}"
    unshare = NAMESPACE if os.geteuid() == 0 else NAMESPACE[:1] + ["--user", "--map-root-user"] + NAMESPACE[1:]
    started = time.monotonic()
    log.write_text("")
    # Appended to, as is what suites copy to /dev/stderr: each opens the file anew.
    with open(log, "a") as out:
        try:
            subprocess.run(
                [*unshare, suite.script, "run"],
                env=environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL, timeout=TIMEOUT_SECS,
            )
        except subprocess.TimeoutExpired:
            print(f"{suite.name} on {server}: ended after {TIMEOUT_SECS} s", file=sys.stderr)
    outcomes = {}
    for line in results.read_text(errors="replace").splitlines():
        outcome, _, test = line.partition("\t")
        # A test that appears twice has passed where it passed each time.
        if outcomes.get(test) != "fail":
            outcomes[test] = outcome
    return outcomes, time.monotonic() - started


def count(outcomes, *words):
    return sum(outcome in words for outcome in outcomes.values())


def summary(outcomes):
    if outcomes is None:
        return "-"
    ran = count(outcomes, "pass", "fail")
    return f"{count(outcomes, 'pass')}/{ran}"


def judge(suite, outcomes, exceptions, complaints):
    """Adds to `complaints` what must not be; returns how many exceptions the suite needed."""
    reference, millpond = outcomes.get("reference"), outcomes.get("millpond")
    for server, found in outcomes.items():
        ran = count(found, "pass", "fail")
        if ran != suite.tests and server == "reference":
            complaints.append(f"{suite.name} on {server}: {ran} tests ran, not {suite.tests}")
    if millpond is None:
        return 0
    # Without the reference in this run, only the tests that Millpond ran can be compared.
    must_pass = [test for test, outcome in (reference or millpond).items() if outcome in ("pass" if reference else "pass fail")]
    needed = 0
    for test in sorted(must_pass):
        outcome = millpond.get(test, "missing")
        if outcome == "pass":
            continue
        allowed = [e for e in exceptions if e.suite == suite.name and fnmatch.fnmatchcase(test, e.tests)]
        needed += bool(allowed)
        for exception in allowed:
            exception.used += 1
        if not allowed:
            complaints.append(f"{suite.name}: {test}: {outcome} on millpond")
    for exception in exceptions:
        if exception.suite == suite.name and exception.used == 0 and not exception.sometimes and reference is not None:
            complaints.append(f"{suite.name}: the exception {exception.tests} is not needed; remove it")
    return needed


def notes(suite, outcomes):
    """What is worth knowing of a suite though it decides nothing."""
    reference, millpond = outcomes.get("reference") or {}, outcomes.get("millpond") or {}
    failed = sorted(test for test, outcome in reference.items() if outcome == "fail")
    for test in failed:
        if test in millpond:
            yield f"{suite.name}: {test}: fails on the reference; millpond: {millpond[test]}"
        else:
            yield f"{suite.name}: {test}: fails on the reference"


def main():
    parser = argparse.ArgumentParser(prog="tests/suites/run.sh", description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE")
    parser.add_argument("--only", choices=SERVERS)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()

    suites = load_suites()
    unknown = set(options.suites) - {suite.name for suite in suites}
    if unknown:
        parser.error(f"no suite {', '.join(sorted(unknown))}; --list shows them")
    if options.list:
        for suite in suites:
            print(f"{suite.name:<16} {suite.version:<36} {suite.tests:>4} tests")
        return 0
    if options.suites:
        suites = [suite for suite in suites if suite.name in options.suites]

    servers = (options.only,) if options.only else SERVERS
    exceptions = load_exceptions()
    complaints, remarks, rows = [], [], []
    for suite in suites:
        if not prepare(suite):
            complaints.append(f"{suite.name}: cannot be prepared")
            continue
        outcomes, seconds = {}, {}
        for server in servers:
            outcomes[server], seconds[server] = run(suite, server)
        needed = judge(suite, outcomes, exceptions, complaints)
        remarks += notes(suite, outcomes)
        rows.append((
            suite.name, suite.version, *(summary(outcomes.get(server)) for server in SERVERS), str(suite.tests), str(needed),
            " ".join(f"{seconds[server]:.0f}s" for server in servers),
        ))
        print("  ".join(rows[-1]), flush=True)

    head = ("suite", "version", "reference", "millpond", "tests", "exceptions", "time")
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    print()
    for row in [head, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    for title, lines in (("Fails on the reference as well:", remarks), ("Must not be:", complaints)):
        if lines:
            print(f"\n{title}")
            print("\n".join(f"  {line}" for line in lines))
    if complaints:
        print(f"\nLogs: {HOME}/SUITE/SERVER.log")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
