"""Describes the machine, and measures the CPU seconds and memory of processes (0 where /proc does not have them)."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
MEANING = (
    "Pace: millions of steps a second of a small loop in Python, on a CPU that has nothing else to do. Memory: how much"
    " longer a random read takes among 16 MB than among 4 KB; 100 ns and more mean that the processor's shared cache is"
    " full of something else. Shared machines change both."
)
STEPS = 500_000
READS = 200_000
NEAR, FAR = 4 << 10, 16 << 20  # bytes: what any cache holds, and what only the cache holds that all CPUs share


def description(postgres_version: str) -> str:
    """Processor, system, versions, commit, day."""
    parts = (
        f"{os.cpu_count()} CPUs {_processor()}",
        f"{platform.system()} {platform.release()}",
        f"Python {platform.python_version()}",
        f"PostgreSQL {postgres_version} (fsync on, shared_buffers 1 GB, on this very machine)",
        f"psycopg {version('psycopg')}",
        _commit(),
    )
    return f"{', '.join(filter(None, parts))}. {datetime.now(UTC):%Y-%m-%d}."


def conditions() -> str:
    """What else there was: a load average, and how fast the machine is now, which on shared ones changes."""
    return f"load average {os.getloadavg()[0]:.1f}, pace {pace():.1f}, memory {memory_ns():.0f} ns"


def pace() -> float:
    """Millions of steps a second of a small loop."""
    return statistics.median(STEPS / _loop_s() / 1e6 for _ in range(9))


def _loop_s() -> float:
    began, total = time.perf_counter(), 0
    for step in range(STEPS):
        total += step * step % 7
    return time.perf_counter() - began


def memory_ns() -> float:
    """Nanoseconds that a random read among 16 MB takes longer than one among 4 KB."""
    data = bytearray(b"\1") * FAR
    return statistics.median(_read_ns(data, FAR) - _read_ns(data, NEAR) for _ in range(9))


def _read_ns(data: bytearray, among: int) -> float:
    began, index, total = time.perf_counter(), 0, 0
    for _ in range(READS):
        index = (index * 1_664_525 + 1_013_904_223) % among  # a full period of any power of two: Knuth 3.2.1.2
        total += data[index]
    return (time.perf_counter() - began) / READS * 1e9


def cpu_s_of_tree(root: int) -> float:
    """CPU seconds so far of a process, its living children, and those it has waited for."""
    while True:
        own, reaped = _cpu_s(root)
        children = sum(_cpu_s(pid)[0] for pid in _pids() if _parent(pid) == root)
        if _cpu_s(root)[1] == reaped:  # otherwise a child has left meanwhile, and counts in neither figure
            return own + reaped + children


def peak_mb(pid: int) -> float:
    """The most memory (RSS) that a process has used so far; 0 if it is gone."""
    try:
        lines = (PROC / str(pid) / "status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)


def busy_cpu_s() -> float:
    """Seconds that all CPUs together have been busy since the machine started."""
    try:
        line = (PROC / "stat").read_text(encoding="utf-8").splitlines()[0]
    except OSError:
        return 0.0
    user, nice, system, _idle, _waiting, irq, softirq, steal = map(int, line.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_S


def _commit() -> str:
    """The commit that is measured, with `-dirty` if code differs from it; nothing outside of a clone."""
    git = ["git", "-C", str(Path(__file__).parent.parent)]
    head = subprocess.run([*git, "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=False)
    if head.returncode != 0:
        return ""
    is_clean = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", ".", ":!docs"], check=False).returncode == 0
    return f"commit {head.stdout.strip()}{'' if is_clean else '-dirty'}"


def _processor() -> str:
    try:
        lines = (PROC / "cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _pids() -> list[int]:
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()] if PROC.is_dir() else []


def _fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name, or none if the process is gone."""
    try:
        return (PROC / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return []


def _parent(pid: int) -> int:
    fields = _fields(pid)
    return int(fields[1]) if fields else 0


def _cpu_s(pid: int) -> tuple[float, float]:
    """Own seconds, and those of children that ended."""
    fields = _fields(pid)
    if not fields:
        return 0.0, 0.0
    user, system, children_user, children_system = map(int, fields[11:15])
    return (user + system) / TICKS_PER_S, (children_user + children_system) / TICKS_PER_S
