"""One process of a hidden cause of bench/why.py. It is called by a link, and the link's name is the program's. In: the kind of work, the
seconds after which the kernel ends it at the latest, and a folder. Linux only."""

import ctypes
import hashlib
import itertools
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

PR_SET_NAME = 15
LIBC = ctypes.CDLL(None)
BLOCK = bytes(1 << 16)
FILE_BLOCKS = 4096


def set_name(name):
    """The name of this thread, of the main one also that of the process."""
    LIBC.prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def burn(seconds):
    """Uses this much CPU time of this thread."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))


def hash_blocks(seconds):
    """The same without Python's own lock, which would be a second one beside that of the case."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        hashlib.sha256(BLOCK)


def spin(_):
    while True:
        burn(0.01)


def answer(folder):
    """20 ms of CPU time for each request."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "db.socket"))
        server.listen()
        client, _ = server.accept()
        with client:
            while client.recv(64):
                burn(0.02)
                client.sendall(b"answer")


def ask(folder):
    """One request after the other."""
    with socket.socket(socket.AF_UNIX) as client:
        while client.connect_ex(str(folder / "db.socket")) != 0:
            time.sleep(0.05)
        while True:
            client.sendall(b"request")
            client.recv(64)
            burn(0.0005)


def start(_):
    """Short processes, one after the other."""
    command = [shutil.which("true")]
    while True:
        subprocess.run(command, check=True)


def beat(_):
    """35 ms on, 15 ms off."""
    while True:
        burn(0.035)
        time.sleep(0.015)


def hold(_):
    """Eight workers that want one lock, and one thread that sleeps while it has it. Python's lock waits in futex."""
    lock = threading.Lock()

    def work():
        set_name("worker")
        while True:
            with lock:
                hash_blocks(0.0007)
            hash_blocks(0.0003)

    def flush():
        set_name("flusher")
        while True:
            with lock:
                time.sleep(0.02)
            time.sleep(0.01)

    for target in [work] * 8 + [flush]:
        threading.Thread(target=target, daemon=True).start()
    signal.pause()


def serve(_):
    """6 ms of work, then 4 ms of sleep."""
    while True:
        burn(0.006)
        time.sleep(0.004)


def flood(_):
    """Datagrams to a socket that is not read."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sink.bind(("127.0.0.1", 0))
        sender.connect(sink.getsockname())
        while True:
            sender.send(b"probe")


def write(folder):
    """4 KiB and fsync, again and again."""
    block = os.urandom(4096)
    with open(folder / "orders", "wb", buffering=0) as file:
        for number in itertools.count():
            os.pwrite(file.fileno(), block, number % FILE_BLOCKS * len(block))
            os.fsync(file.fileno())


def rest(_):
    """Sleeps by its timer, and does little."""
    while True:
        time.sleep(0.02)
        burn(0.002)


WORK = {each.__name__: each for each in (spin, answer, ask, start, beat, hold, serve, flood, write, rest)}


def main(path, work, seconds, folder):
    # Whatever happens to the benchmark, this process ends.
    signal.alarm(int(seconds))
    set_name(pathlib.Path(path).name)
    WORK[work](pathlib.Path(folder))


if __name__ == "__main__":
    main(*sys.argv)
