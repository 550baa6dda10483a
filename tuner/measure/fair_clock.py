"""What a child lost through no fault of its own: seconds without a core, or stopped from outside. Linux's /proc."""

from __future__ import annotations

from pathlib import Path


def waited_for_core_s(pid: int) -> float:
    """For how long the process has been ready to run without getting a core: the worst of its threads that live now.

    0.0 where the kernel does not tell.
    """
    waits = [0.0]
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            waits.append(int((thread / "schedstat").read_text().split()[1]) * 1e-9)
    except (OSError, ValueError, IndexError):  # gone meanwhile, or a kernel without
        pass
    return max(waits)


def is_stopped(pid: int) -> bool:
    """Whether a signal such as SIGSTOP has frozen the process."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state in ("T", "t")
