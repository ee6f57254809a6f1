"""What a job tries in order to break out: the proof behind `autotriton doctor`.

It runs where an answer would run, confined in the same way, and reports each attempt as a value. The front compares
with what it can see itself (a file that came to be, a connection that arrived, a process that is left) and judges.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from protocol import Channel, PeerClosed, Record

LIBC = ctypes.CDLL(None, use_errno=True)
# x86-64 and, where they differ, the common table of the newer architectures.
NUMBERS = {
    "x86_64": {
        "ptrace": 101, "process_vm_readv": 310, "pidfd_open": 434, "mount": 165, "unshare": 272, "setns": 308, "keyctl": 250,
        "bpf": 321, "memfd_create": 319, "io_uring_setup": 425, "perf_event_open": 298, "userfaultfd": 323, "shmget": 29,
        "personality": 135, "setuid": 105, "prlimit64": 302, "tgkill": 234, "setpriority": 141,
    },
    "aarch64": {
        "ptrace": 117, "process_vm_readv": 270, "pidfd_open": 434, "mount": 40, "unshare": 97, "setns": 268, "keyctl": 219,
        "bpf": 280, "memfd_create": 279, "io_uring_setup": 425, "perf_event_open": 241, "userfaultfd": 282, "shmget": 194,
        "personality": 92, "setuid": 146, "prlimit64": 261, "tgkill": 131, "setpriority": 140,
    },
}.get(os.uname().machine, {})
PTRACE_ATTACH = 16
CLONE_NEWUSER = 0x10000000


def system(name: str, *arguments: Any) -> int:
    """The result of a system call; OSError as Python's own wrappers raise it."""
    if name not in NUMBERS:
        raise NotImplementedError(f"no number of {name} for {os.uname().machine}")
    result = int(LIBC.syscall(NUMBERS[name], *arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def read(path: str) -> int:
    """Bytes read: content is what counts, not that a file opens."""
    with open(path, "rb") as file:
        count = len(file.read(64))
    if not count:
        raise OSError(0, "empty")
    return count


def write(path: str) -> None:
    with open(path, "w") as file:
        file.write("written by a probe")


def connect(family: int, address: Any) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(2)
        connection.connect(address)


def foreign_processes() -> list[str]:
    found = [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    if not found:
        raise OSError(0, "none in sight")
    return found


def inherited_descriptors() -> list[int]:
    """Beyond its input, output, errors and channel."""
    found = []
    for number in range(4, 4096):
        try:
            os.fstat(number)
        except OSError:
            continue
        found.append(number)
    if not found:
        raise OSError(0, "none")
    return found


def secret_in_environment(secret: str) -> str:
    text = repr(dict(os.environ))
    try:
        with open("/proc/self/environ", "rb") as file:
            text += file.read().decode(errors="replace")
    except OSError:
        pass
    if secret not in text:
        raise OSError(0, "not there")
    return "the environment of the front"


def capabilities() -> str:
    with open("/proc/self/status") as file:
        # Not the bounding set: without new privileges nothing in it can be had.
        held = {line.split(":")[0]: line.split()[1] for line in file if line.startswith("Cap") and not line.startswith("CapBnd")}
    some = {name: value for name, value in held.items() if int(value, 16) & ~int("4", 16)}  # 4: reading, which Landlock bounds.
    if not some:
        raise OSError(0, "none")
    return str(some)


def be_root() -> None:
    if 0 in (*os.getresuid(), *os.getresgid(), *os.getgroups()):
        return
    os.setuid(0)


def fork_until(most: int) -> int:
    """How many processes could be started; those are ended at once."""
    children = []
    try:
        for _ in range(most):
            pid = os.fork()
            if pid == 0:
                time.sleep(30)
                os._exit(0)
            children.append(pid)
    except OSError:
        if not children:
            raise
    finally:
        for child in children:
            with contextlib.suppress(OSError):  # Without a namespace of its own it may signal nobody; they end with it.
                os.kill(child, signal.SIGKILL)
    return len(children)


def allocate(bytes_wanted: int) -> int:
    block = bytearray(bytes_wanted)
    return len(block)


def fill(name: str, bytes_wanted: int, files: int = 1) -> int:
    """Writes files that are `bytes_wanted` long together."""
    part = bytes(1 << 20)
    written = 0
    for index in range(files):
        with open(f"{name}-{index}", "wb", buffering=0) as file:
            for _ in range(bytes_wanted // files // len(part)):
                written += file.write(part)
    return written


def attempts(ask: Record) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """(confinement, what is tried, the attempt); an attempt that returns got through."""
    outside, home, port, abstract = ask["outside"], ask["home"], ask["port"], ask["abstract"]
    others = [("the front", ask["front"]), ("a neighbour", ask["neighbour"])]
    yield "reading files", "read /etc/shadow", lambda: read("/etc/shadow")
    yield "reading files", "read a file that all may read", lambda: read(f"{outside}/secret")
    if ask["home_file"]:
        yield "reading files", "read a file of the home folder", lambda: read(ask["home_file"])
    yield "reading files", "read a neighbour's folder", lambda: read(f"{ask['neighbour_folder']}/secret")
    for folder in (outside, "/tmp", "/var/tmp", "/dev/shm", "/usr/lib", home, sys.prefix, os.path.dirname(os.path.abspath(__file__))):
        yield "writing files", f"write in {folder}", functools.partial(write, f"{folder}/{ask['mark']}")
    yield "writing files", "change the mode of a file of ours", lambda: os.chmod(f"{outside}/secret", 0o777)
    yield "writing files", "change the mode of our own code", lambda: os.chmod(os.path.abspath(__file__), 0o644)
    yield "writing files", "cut a file of ours short", lambda: os.truncate(f"{outside}/secret", 0)
    yield "network", "connect to loopback by TCP", lambda: connect(socket.AF_INET, ("127.0.0.1", port))
    yield "network", "connect to an abstract socket", lambda: connect(socket.AF_UNIX, "\0" + abstract)
    yield "network", "connect to a socket file", lambda: connect(socket.AF_UNIX, f"{outside}/socket")
    yield "network", "make a datagram socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    yield "network", "make a netlink socket", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
    for who, pid in others:
        yield "signals", f"signal {who}", functools.partial(os.kill, pid, signal.SIGURG)
        yield "signals", f"signal a thread of {who}", functools.partial(system, "tgkill", pid, pid, int(signal.SIGURG))
        yield "signals", f"get a handle of {who}", functools.partial(system, "pidfd_open", pid, 0)
        yield "signals", f"limit {who}", functools.partial(system, "prlimit64", pid, 0, None, (ctypes.c_uint64 * 2)())
        yield "signals", f"slow {who} down", functools.partial(system, "setpriority", 0, pid, 19)
        yield "other processes", f"trace {who}", functools.partial(system, "ptrace", PTRACE_ATTACH, pid, 0, 0)
        yield "other processes", f"read the memory of {who}", functools.partial(system, "process_vm_readv", pid, 0, 0, 0, 0, 0)
        for name in ("environ", "maps", "cmdline"):
            yield "other processes", f"read /proc/{who}/{name}", functools.partial(read, f"/proc/{pid}/{name}")
    yield "other processes", "list processes", foreign_processes
    if os.getpid() != 1:
        yield "other processes", "read /proc/1/environ", lambda: read("/proc/1/environ")
    yield "starting programs", "start /bin/true", lambda: os.execv("/bin/true", ["true"])
    yield "starting programs", "start another process", lambda: fork_until(1)
    yield "system calls", "mount", lambda: system("mount", b"none", b"/tmp", b"tmpfs", 0, None)
    yield "system calls", "make a user namespace", lambda: system("unshare", CLONE_NEWUSER)
    yield "system calls", "make memory that no limit counts", lambda: system("memfd_create", b"probe", 0)
    yield "system calls", "make shared memory", lambda: system("shmget", 0, 4096, 0o1600)
    yield "system calls", "use the kernel's keys", lambda: system("keyctl", 0, -3, 1)
    for name in ("bpf", "io_uring_setup", "perf_event_open", "userfaultfd", "personality"):
        yield "system calls", name, functools.partial(system, name, 0, 0, 0, 0, 0)
    yield "privileges", "be root", be_root
    yield "privileges", "hold a capability", capabilities
    yield "secrets", "find a secret of the front's environment", lambda: secret_in_environment(ask["secret"])
    yield "secrets", "find a descriptor that is not its own", inherited_descriptors
    yield "memory", "take more memory than it may", lambda: allocate(ask["memory"])
    yield "file size", "write a longer file than it may", lambda: fill("long", ask["file"])


def tried(action: Callable[[], Any]) -> Record:
    try:
        return {"through": True, "detail": repr(action())[:200]}
    except BaseException as error:  # noqa: BLE001 - whatever stopped it
        return {"through": False, "detail": f"{type(error).__name__}: {error}"[:200]}


def serve(peer: Channel) -> None:
    while True:
        try:
            ask, _ = peer.receive()
        except PeerClosed:
            return
        kind = ask["type"]
        if kind == "attempts":
            results = [{"confinement": group, "attempt": name, **tried(action)} for group, name, action in attempts(ask)]
            peer.send({"type": "attempted", "results": results})
        elif kind == "settle":  # A neighbour for the others to look for.
            write("secret")
            peer.send({"type": "settled", "folder": os.getcwd()})
        elif kind == "fill":
            peer.send({"type": "filled", **tried(functools.partial(fill, "much", ask["bytes"], 16))})
            time.sleep(3)  # Where a folder is only looked at from time to time, for that to happen.
            peer.send({"type": "still there"})
        elif kind == "bomb":
            peer.send({"type": "bombed", **tried(lambda: fork_until(2000))})
        elif kind == "outlive":
            if os.fork() == 0:
                with contextlib.suppress(OSError):
                    os.setsid()
                if os.fork() == 0:
                    time.sleep(600)
                os._exit(0)
            os._exit(0)
