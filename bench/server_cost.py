"""What the scripts share that measure the processor time of a server whose configuration changes."""

import argparse
import contextlib
import signal
import subprocess
import time


def parser(description, pairs, secs, port):
    """The flags that all of them have; `port` is the first of those that the server listens on."""
    made = argparse.ArgumentParser(description=description.splitlines()[0])
    made.add_argument("--program", default="target/release/millpond")
    made.add_argument("--pairs", type=int, default=pairs)
    made.add_argument("--secs", type=int, default=secs)
    made.add_argument("--port", type=int, default=port, help="the first one that the server listens on")
    return made


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


@contextlib.contextmanager
def serving(program, path):
    """A server of the configuration at `path`, two seconds after its start."""
    server = subprocess.Popen([program, "serve", "--config", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(2)
        yield server
    finally:
        server.kill()


def reload(server, path, text):
    """Has the server take this configuration."""
    write(path, text)
    server.send_signal(signal.SIGHUP)
    time.sleep(1)


def processor_ticks(process):
    with open(f"/proc/{process.pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])
