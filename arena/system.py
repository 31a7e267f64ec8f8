"""What the system lets this process use: processors and open files."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from math import inf
from pathlib import Path


def cores(groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """How many processors this process may keep busy: those that it may run on, or fewer where it, or a container that
    it is in, has a quota (Linux control groups, versions 1 and 2)."""
    least = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    with suppress(OSError):
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers or "cpu" in controllers.split(","):
                place = groups / controllers / path.strip("/")
                least = min(least, *map(_quota, [place, *place.parents][: len(place.parts) - len(groups.parts) + 1]))
    return max(1, int(least))


def _quota(group: Path) -> float:
    """The processors that a control group may keep busy; infinite without a quota."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        with suppress(OSError, ValueError):
            quota, period = " ".join((group / name).read_text() for name in names).split()
            if int(quota) > 0:
                return int(quota) / int(period)
    return inf


def allow_open_files(needed: int) -> int:
    """Raise this process's limit of open files to ``needed`` more than it has open, as far as it may; returns how many
    more it may open then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/dev/fd"))
    most = max(soft, hard) if hard != resource.RLIM_INFINITY else max(soft, used + needed)
    if used + needed > soft != resource.RLIM_INFINITY:
        soft = min(used + needed, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return needed if soft == resource.RLIM_INFINITY else soft - used
