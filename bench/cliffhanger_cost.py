#!/usr/bin/env python3
"""The cost of Cliffhanger to a server whose requests all miss, in processor time per request.

    cargo build --release --bin millpond
    python3 bench/cliffhanger_cost.py --pairs 8

The paper's worst case (NSDI 2016, section 5.5, table 7): all keys are new, the cache is full, so that
each read looks for its key in the shadow queues, and each write evicts. One server of one worker; its
pool is switched between "lru" without a strategy and the others in turns, so that all are measured in
one process.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time

PLAIN = ("lru", "base")
OTHERS = [("lru", "hill-climbing"), ("lru+split", "base"), ("lru+split", "hill-climbing")]
# Parts of reads and writes, and what the paper lost with them.
MIXES = [("get=967,set=33", "1.5"), ("get=50,set=50", "3"), ("get=10,set=90", "3.7")]


def config(policy, rebalance, port):
    listener = f'[[listener]]\naddress = "tcp://127.0.0.1:{port}"\n'
    admin = f'[admin]\naddress = "tcp://127.0.0.1:{port + 1}"\n'
    pool = f'[[pool]]\nname = "default"\npolicy = "{policy}"\nrebalance = "{rebalance}"\n'
    return f'memory = "128MiB"\nthreads = 1\n{admin}{listener}{pool}'


def load(program, port, mix, secs):
    """Requests in this time."""
    arguments = "--keys 1000000000000 --popularity uniform --key-size 32 --value-size 64-600 --no-load"
    arguments += f" --threads 1 --connections 4 --pipeline 32 --warm-up 0 --mix {mix} --duration {secs}s"
    arguments += f" --seed {time.monotonic_ns() % 1000000007} --json"
    target = ["--target", f"memcached://127.0.0.1:{port}"]
    client = subprocess.run([program, "bench", "run", *target, *arguments.split()], stdout=subprocess.PIPE, check=True)
    return json.loads(client.stdout)["operations"]


def processor_ticks(process):
    with open(f"/proc/{process.pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="target/release/millpond")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--secs", type=int, default=5)
    parser.add_argument("--port", type=int, default=23100, help="the first of two")
    args = parser.parse_args()
    path = os.path.join(tempfile.mkdtemp(), "millpond.toml")

    def write(setting):
        with open(path, "w") as file:
            file.write(config(*setting, args.port))

    write(PLAIN)
    server = subprocess.Popen([args.program, "serve", "--config", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def cost(setting, mix):
        write(setting)
        server.send_signal(signal.SIGHUP)
        # All items are queued anew, and the generations of the new queues begin.
        time.sleep(1)
        load(args.program, args.port, mix, 1)
        before = processor_ticks(server)
        requests = load(args.program, args.port, mix, args.secs)
        return (processor_ticks(server) - before) / requests

    try:
        time.sleep(2)
        load(args.program, args.port, "get=10,set=90", 10)
        for mix, paper in MIXES:
            for setting in OTHERS:
                ratios = []
                for pair in range(args.pairs):
                    turns = [PLAIN, setting] if pair % 2 == 0 else [setting, PLAIN]
                    costs = {turn: cost(turn, mix) for turn in turns}
                    ratios.append(100 * (costs[setting] / costs[PLAIN] - 1))
                spread = f"{min(ratios):+.1f} to {max(ratios):+.1f}"
                name = " ".join(setting)
                print(f"{mix:15} {name:24} {statistics.median(ratios):+.1f} % ({spread}); paper {paper} %", flush=True)
    finally:
        server.kill()


if __name__ == "__main__":
    main()
