#!/usr/bin/env python3
"""The cost of Cliffhanger to a server whose requests all miss, in processor time per request.

    cargo build --release --bin millpond
    python3 bench/cliffhanger_cost.py --pairs 8

The paper's worst case (NSDI 2016, section 5.5, table 7): all keys are new, the cache is full, so that
each read looks for its key in the shadow queues, and each write evicts. One server of one worker; its
pool is switched between "lru" without a strategy and the others in turns, so that all are measured in
one process.
"""

import json
import os
import statistics
import subprocess
import tempfile
import time

from server_cost import parser, processor_ticks, reload, serving, write

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
    """Requests in this time. Values have one size: others would differ by seed, and the rare hit be refused."""
    arguments = "--keys 1000000000000 --popularity uniform --key-size 32 --value-size 330 --no-load"
    arguments += f" --threads 1 --connections 4 --pipeline 32 --warm-up 0 --mix {mix} --duration {secs}s"
    arguments += f" --seed {time.monotonic_ns() % 1000000007} --json"
    target = ["--target", f"memcached://127.0.0.1:{port}"]
    client = subprocess.run([program, "bench", "run", *target, *arguments.split()], stdout=subprocess.PIPE, check=True)
    return json.loads(client.stdout)["operations"]


def main():
    args = parser(__doc__, pairs=8, secs=5, port=23100).parse_args()
    path = os.path.join(tempfile.mkdtemp(), "millpond.toml")
    write(path, config(*PLAIN, args.port))

    def cost(server, setting, mix):
        reload(server, path, config(*setting, args.port))
        # All items are queued anew, and the generations of the new queues begin.
        load(args.program, args.port, mix, 1)
        before = processor_ticks(server)
        requests = load(args.program, args.port, mix, args.secs)
        return (processor_ticks(server) - before) / requests

    with serving(args.program, path) as server:
        load(args.program, args.port, "get=10,set=90", 10)
        for mix, paper in MIXES:
            for setting in OTHERS:
                ratios = []
                for pair in range(args.pairs):
                    turns = [PLAIN, setting] if pair % 2 == 0 else [setting, PLAIN]
                    costs = {turn: cost(server, turn, mix) for turn in turns}
                    ratios.append(100 * (costs[setting] / costs[PLAIN] - 1))
                spread = f"{min(ratios):+.1f} to {max(ratios):+.1f}"
                name = " ".join(setting)
                print(f"{mix:15} {name:24} {statistics.median(ratios):+.1f} % ({spread}); paper {paper} %", flush=True)


if __name__ == "__main__":
    main()
