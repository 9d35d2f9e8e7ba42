#!/usr/bin/env python3
"""The cost of the local loop to a server under load, in processor time per read.

    cargo build --release --bin millpond
    python3 bench/loop_cost.py --mode dry-run --pairs 8

Starts one server of four unlike tenants, puts load on all of them, and switches `control.mode` between
"off" and the given one in turns, so that both are measured in one process with the same items. "dry-run"
decides and moves nothing; "on" also moves memory, so that fewer reads are missed.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time

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


def processor_ticks(process):
    with open(f"/proc/{process.pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="target/release/millpond")
    parser.add_argument("--mode", default="dry-run", choices=["dry-run", "on"])
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--secs", type=int, default=6)
    parser.add_argument("--port", type=int, default=23000, help="the first of ten")
    args = parser.parse_args()
    path = os.path.join(tempfile.mkdtemp(), "millpond.toml")

    def write(mode):
        with open(path, "w") as file:
            file.write(config(mode, args.port))

    write("off")
    server = subprocess.Popen([args.program, "serve", "--config", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(2)
        load(args.program, args.port, 30)
        ratios = []
        for pair in range(args.pairs):
            cost = {}
            for mode in sorted(["off", args.mode], reverse=pair % 2 == 1):
                write(mode)
                server.send_signal(signal.SIGHUP)
                time.sleep(1)
                before = processor_ticks(server)
                reads = load(args.program, args.port, args.secs)
                cost[mode] = (processor_ticks(server) - before) / reads
            ratios.append(cost[args.mode] / cost["off"])
            print(f"{ratios[-1]:.3f}", flush=True)
        print(f"median {statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}")
    finally:
        server.kill()


if __name__ == "__main__":
    main()
