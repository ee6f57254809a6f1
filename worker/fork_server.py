"""The warm fork server: imports torch and triton once, then forks a confined process for each job.

One zygote imports torch and forks three servers: `oracle` (torch only), `interpret` (Triton's interpreter) and
`compile` (Triton's compiler). Interpreting changes triton for good, so the last two cannot share a process. Each server
takes jobs from its own socket; a job is a channel, a status socket and a pipe for its output. A server never compiles
or imports anything of a job: it forks, and the child does.

A job's life:  the server forks it into namespaces of its own, hands the front its pidfd, and reports its end.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import dataclasses
import gc
import importlib.metadata
import os
import selectors
import signal
import socket
import sys
import tempfile
from typing import Any, NoReturn

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", NUMEXPR_NUM_THREADS="1")

import light_dynamo
import torch
from protocol import Channel, PeerClosed, ProtocolError, Record


class Limits(ctypes.Structure):
    """Twin of AutotritonLimits (src/execution/confine.h)."""

    _fields_ = [
        ("address_space_bytes", ctypes.c_uint64),
        ("file_bytes", ctypes.c_uint64),
        ("tmp_bytes", ctypes.c_uint64),
        ("cpu_seconds", ctypes.c_uint64),
        ("processes", ctypes.c_uint32),
        ("open_files", ctypes.c_uint32),
        ("user_id", ctypes.c_uint32),
        ("group_id", ctypes.c_uint32),
        ("allow_exec", ctypes.c_uint32),
        ("without", ctypes.c_uint32),
        ("keep_read_search", ctypes.c_uint32),
        ("readable", ctypes.c_char_p),
        ("folder", ctypes.c_char_p),
    ]


class Report(ctypes.Structure):
    """Twin of AutotritonConfineReport."""

    _fields_ = [("obtained", ctypes.c_uint32), ("missing", ctypes.c_uint32), ("message", ctypes.c_char * 256)]


WORKER_FAULT = 86  # Exit code of a job in which our own code failed; src/verify/candidate_client.cpp knows it,
TAMPERED = 87      # and the one for a channel that stopped working once an answer was loaded.
CONFINE_MOUNT_NAMESPACE = 1 << 3  # As in src/execution/confine.h.
PR_SET_CHILD_SUBREAPER = 36
FOLDER_CHECK_SECONDS = 0.25
MAX_FOLDER_ENTRIES = 4096


def thread_count() -> int:
    return len(os.listdir("/proc/self/task"))


@dataclasses.dataclass(frozen=True)
class Room:
    """Where the servers are, as the front told it."""

    confine: Any
    folders: str  # Where a job without mounts of its own has its folder.
    readable: str  # One path a line.
    without: int  # Bits of AutotritonWithout.
    keep_read_search: bool

    def folder_of(self, pid: int) -> str:
        return os.path.join(self.folders, f"job-{pid}")


class Server:
    def __init__(self, mode: str, jobs: socket.socket, room: Room) -> None:
        self.mode = mode
        self.jobs = Channel(jobs)
        self.room = room
        self.running: set[Running] = set()

    def warm(self) -> None:
        """Imports and first uses that every job would pay for; a fork then has them. Only our own code runs here."""
        if self.mode == "interpret":
            os.environ["TRITON_INTERPRET"] = "1"
            import interpreter_mends

            interpreter_mends.install()
            import run_candidate
            import warm_up

            warm_up.interpret()
        else:
            os.environ.pop("TRITON_INTERPRET", None)
            import warm_up

            warm_up.shapes()
            if self.mode == "oracle":
                import oracle  # noqa: F401

                warm_up.reference()
            else:
                import run_candidate  # noqa: F401

                warm_up.compile_once()

    def serve(self) -> None:
        self.warm()
        gc.collect()
        gc.freeze()
        self.jobs.send({"type": "ready", "mode": self.mode, "torch": torch.__version__, "pid": os.getpid()})
        waiting = selectors.DefaultSelector()
        waiting.register(self.jobs.fileno(), selectors.EVENT_READ)
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        while True:
            for key, _ in waiting.select(FOLDER_CHECK_SECONDS if any(job.folder for job in self.running) else None):
                running = key.data
                if running is not None:
                    waiting.unregister(running.pidfd)
                    self.running.remove(running)
                    running.report_end(self.room.confine)
                    continue
                try:
                    job, descriptors = self.jobs.receive()
                except PeerClosed:
                    return
                started = self.start(job, descriptors)
                self.running.add(started)
                waiting.register(started.pidfd, selectors.EVENT_READ, started)
            for running in self.running:
                running.end_if_its_folder_is_full(self.room.confine)

    def start(self, job: Record, descriptors: list[int]) -> Running:
        """Forks the job into namespaces of its own and tells the front how to reach it."""
        threads = thread_count()
        if threads != 1:
            raise RuntimeError(f"the {self.mode} server has {threads} threads; a fork would hang")
        channel, status, output = descriptors
        room = self.room
        limits = Limits(
            **job["limits"], user_id=os.geteuid(), group_id=os.getegid(), without=room.without,
            keep_read_search=room.keep_read_search, readable=room.readable.encode(),
        )
        report, pidfd = Report(), ctypes.c_int(-1)
        python = ctypes.pythonapi
        python.PyOS_BeforeFork()
        pid = room.confine.autotriton_confined_fork(room.without, ctypes.byref(report), ctypes.byref(pidfd))
        if pid == 0:
            python.PyOS_AfterFork_Child()
            start_job(self.mode, job, channel, output, limits, report, room)
        python.PyOS_AfterFork_Parent()
        if pid < 0:
            raise RuntimeError("the system refuses another process")
        os.close(channel)
        os.close(output)
        apart = report.obtained & CONFINE_MOUNT_NAMESPACE != 0
        running = Running(pid, pidfd.value, Channel(socket.socket(fileno=status)), "" if apart else room.folder_of(pid), limits.tmp_bytes)
        running.tell({"type": "started"}, [pidfd.value])
        return running


@dataclasses.dataclass(frozen=True)
class Running:
    """A job that was started: reaped here when it ends, and reported to the front."""

    pid: int
    pidfd: int
    status: Channel
    folder: str  # On a real disk, to be watched and removed; empty where the job has mounts of its own.
    folder_bytes: int

    def tell(self, record: Record, descriptors: list[int] | None = None) -> None:
        with contextlib.suppress(OSError):  # The front may have lost interest.
            self.status.send(record, descriptors)

    def end_if_its_folder_is_full(self, confine: Any) -> None:
        """What the size of a mount does elsewhere; here a job may overshoot by what it writes between two looks."""
        if not self.folder:
            return
        used, entries = ctypes.c_uint64(), ctypes.c_uint64()
        confine.autotriton_folder_use(self.folder.encode(), ctypes.byref(used), ctypes.byref(entries))
        if used.value > self.folder_bytes or entries.value > MAX_FOLDER_ENTRIES:
            os.kill(self.pid, signal.SIGKILL)

    def end_group(self) -> None:
        """Ends and reaps what the job started. It leads a process group that nothing of it can leave, and is not reaped
        yet, so the group's number is still its own."""
        os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def report_end(self, confine: Any) -> None:
        if self.folder:
            self.end_group()
        _, wait_status, usage = os.wait4(self.pid, 0)
        if self.folder:
            with contextlib.suppress(ChildProcessError):
                while True:  # Orphans of the group became children of this server.
                    os.waitpid(-self.pid, 0)
            confine.autotriton_remove_folder(self.folder.encode())
        signalled = os.WIFSIGNALED(wait_status)
        self.tell(
            {
                "type": "ended",
                "signal": os.WTERMSIG(wait_status) if signalled else 0,
                "code": 0 if signalled else os.waitstatus_to_exitcode(wait_status),
                "max_rss_bytes": usage.ru_maxrss * 1024,
                "cpu_seconds": usage.ru_utime + usage.ru_stime,
            }
        )
        os.close(self.pidfd)
        self.status.close()


def start_job(mode: str, job: Record, channel: int, output: int, limits: Limits, report: Report, room: Room) -> NoReturn:
    """The job: closes what is not its own, gives up what it does not need, and serves the front."""
    code = WORKER_FAULT
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(channel, 3)
        os.closerange(4, 4096)
        connection = socket.socket(fileno=3)
        os.set_inheritable(3, False)
        apart = report.obtained & CONFINE_MOUNT_NAMESPACE != 0
        folder = f"/job/job-{os.getpid()}" if apart else room.folder_of(os.getpid())
        if not apart:
            os.makedirs(folder, mode=0o700)
            limits.folder = folder.encode()
        room.confine.autotriton_confine_process(ctypes.byref(limits), ctypes.byref(report))
        os.makedirs(folder, mode=0o700, exist_ok=True)
        os.environ.update(HOME=folder, TMPDIR=folder, TRITON_CACHE_DIR=os.path.join(folder, "triton"), TRITON_HOME=folder)
        tempfile.tempdir = folder  # The server has looked it up for itself.
        os.chdir(folder)
        gc.enable()
        peer = Channel(connection)
        peer.send({"type": "confined", "obtained": report.obtained, "missing": report.missing, "message": report.message.decode()})
        if job.get("probe"):
            import probe_confinement

            probe_confinement.serve(peer)
        elif mode == "oracle":
            import oracle

            oracle.serve(peer)
        else:
            import run_candidate
            import transparent_ops
            import virtual_cuda

            light_dynamo.remove()
            transparent_ops.install()
            virtual_cuda.install(virtual_cuda.Target(int(job["capability"])))
            session = run_candidate.Session(peer, mode, int(job["capability"]), folder)
            try:
                session.serve()
            except (OSError, ProtocolError):
                code = TAMPERED if session.candidate is not None else WORKER_FAULT
                raise
        code = 0
    except BaseException:  # noqa: BLE001 - the traceback goes to the job's output, where the front keeps its tail
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def unusable_package(found: dict[str, str]) -> str:
    """What is wrong with the versions of torch, triton and numpy; empty if nothing is."""
    for name, wanted in (("torch", (2, 11)), ("triton", (3, 6)), ("numpy", (2, 4))):
        version = found.get(name)
        if version is None:
            return f"{name} is not installed"
        release = tuple(int(part) for part in version.split("+")[0].split(".")[:2])
        if name == "numpy" and release >= wanted:
            return f"it has numpy {version}, and the interpreter of Triton 3.6 fails with numpy 2.4 and later"
        if name != "numpy" and release != wanted:
            return f"it has {name} {version}, and {wanted[0]}.{wanted[1]} is what the workers are written for"
    return ""


def check_packages() -> None:
    found = {}
    for name in ("torch", "triton", "numpy"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    if wrong := unusable_package(found):
        lock = os.path.join(os.path.dirname(os.path.abspath(__file__)), "requirements.lock")
        raise SystemExit(f"{sys.executable} cannot judge on a CPU: {wrong}. Install {lock} into an environment of its own, and name its python in AUTOTRITON_PYTHON")


def main(arguments: list[str]) -> int:
    check_packages()
    parser = argparse.ArgumentParser(description="Fork server for confined jobs; started by the front, not by hand.")
    parser.add_argument("--confine", required=True, help="path of libautotriton_confine.so")
    for mode in ("oracle", "interpret", "compile"):
        parser.add_argument(f"--{mode}", type=int, required=True, metavar="FD", help=f"socket of the {mode} server")
    parser.add_argument("--without", type=int, default=0, metavar="BITS", help="confinements to do without")
    parser.add_argument("--folders", default="/job", help="where jobs without mounts of their own have their folders")
    parser.add_argument("--readable", default="", help="what such jobs may read, one path a line")
    parser.add_argument("--keep-read-search", action="store_true", help="root's files are read by a capability that jobs keep")
    options = parser.parse_args(arguments)
    light_dynamo.install()
    torch.set_num_threads(1)
    torch.empty(8).normal_().sum()  # First-use initialisation happens once, here.
    confine = ctypes.PyDLL(options.confine)  # Keeps Python's lock: a fork in another thread's favour would be none.
    if not hasattr(confine, "autotriton_remove_folder"):
        raise RuntimeError(f"{options.confine} is older than worker/: build again (`make build`), or keep a release's folder together")
    folders = "/job" if os.path.isdir("/job") else options.folders  # The servers' own root has it.
    os.environ.update(HOME=folders, TMPDIR=folders)
    room = Room(confine, folders, options.readable, options.without, options.keep_read_search)
    sockets = {mode: socket.socket(fileno=getattr(options, mode)) for mode in ("oracle", "interpret", "compile")}
    if thread_count() != 1:
        raise RuntimeError("more than one thread before the first fork")
    children = {}
    for mode, own in sockets.items():
        pid = os.fork()
        if pid == 0:
            for other in sockets.values():
                if other is not own:
                    other.close()
            code = 1
            try:
                Server(mode, own, room).serve()
                code = 0
            except BaseException:  # noqa: BLE001
                import traceback

                traceback.print_exc()
            finally:
                os._exit(code)
        children[pid] = mode
    for own in sockets.values():
        own.close()
    code = 0
    while children:  # When one server ends, all do: the front starts a new set.
        pid, status = os.wait()
        mode = children.pop(pid, "")
        if mode:
            code = max(code, abs(os.waitstatus_to_exitcode(status)))
            for sibling in children:
                os.kill(sibling, signal.SIGKILL)
    return min(code, 255)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
