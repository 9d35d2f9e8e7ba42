#!/usr/bin/env python3
"""The cost of the local loop to a server under load, in processor time per read.

    cargo build --release --bin millpond
    python3 bench/loop_cost.py --mode dry-run --pairs 8

Starts one server of four unlike tenants, puts load on all of them, and switches `control.mode` between
"off" and the given one in turns, so that both are measured in one process with the same items. "dry-run"
decides and moves nothing; "on" also moves memory, so that fewer reads are missed.
"""

import json
import os
import statistics
import subprocess
import tempfile

from server_cost import parser, processor_ticks, reload, serving, write

SHAPES = ["zipf:1.1", "zipf:0.9", "zipf:0.6", "uniform"]


def config(mode, port):
    tenants = "".join(
        f'[[tenant]]\nname = "t{i}"\n[[listener]]\nname = "t{i}"\ntenant = "t{i}"\n'
        f'address = "tcp://127.0.0.1:{port + i}"\n'
        for i in range(len(SHAPES))
    )
    admin = f'[admin]\naddress = "tcp://127.0.0.1:{port + 9}"\n'
    return f'memory = "128MiB"\nthreads = 1\n{admin}[control]\nmode = "{mode}"\n{tenants}'


def load(program, port, secs):
    """Reads of all tenants in this time."""
    arguments = "--keys 200000 --value-size 500 --mix get=100 --look-aside true --no-load --threads 1"
    arguments += f" --connections 1 --pipeline 32 --warm-up 0 --duration {secs}s --json"
    clients = [
        subprocess.Popen(
            [program, "bench", "run", "--target", f"memcached://127.0.0.1:{port + i}", "--popularity", shape]
            + arguments.split(),
            stdout=subprocess.PIPE,
            text=True,
        )
        for i, shape in enumerate(SHAPES)
    ]
    return sum(json.loads(client.communicate()[0])["pools"][0]["gets"] for client in clients)


def main():
    flags = parser(__doc__, pairs=8, secs=6, port=23000)
    flags.add_argument("--mode", default="dry-run", choices=["dry-run", "on"])
    args = flags.parse_args()
    path = os.path.join(tempfile.mkdtemp(), "millpond.toml")
    write(path, config("off", args.port))
    with serving(args.program, path) as server:
        load(args.program, args.port, 30)
        ratios = []
        for pair in range(args.pairs):
            cost = {}
            for mode in sorted(["off", args.mode], reverse=pair % 2 == 1):
                reload(server, path, config(mode, args.port))
                before = processor_ticks(server)
                reads = load(args.program, args.port, args.secs)
                cost[mode] = (processor_ticks(server) - before) / reads
            ratios.append(cost[args.mode] / cost["off"])
            print(f"{ratios[-1]:.3f}", flush=True)
        print(f"median {statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}")


if __name__ == "__main__":
    main()
