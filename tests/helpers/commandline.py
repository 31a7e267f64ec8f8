"""``arena`` as tests run it: in this process, which is quick, or in one of its own. No tests."""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from arena.cli import main

ROOT = Path(__file__).parents[2]
PATH = os.pathsep.join(map(str, [ROOT, ROOT / "tests", *(ROOT / "tests").glob("*/")]))

ARENA = [sys.executable, "-c", "from arena.cli import main; main()"]

Done = subprocess.CompletedProcess[str]


def arena(*arguments: str, folder: Path, columns: int = 80, typed: str = "", **variables: str) -> Done:
    """The command in this process, from its words to its exit code; ``typed`` is what it reads. Its workers are
    processes, as always."""
    out, err = io.StringIO(), io.StringIO()
    with (
        chdir(folder),
        patch.dict(os.environ, {"COLUMNS": str(columns), **variables}),
        patch.object(sys, "argv", ["arena", *arguments]),
        patch.object(sys, "stdin", io.StringIO(typed)),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Done(arguments, code, out.getvalue(), err.getvalue())


def environment(**variables: str) -> Mapping[str, str]:
    """That of a process which finds the arena and the tests' players."""
    return {**os.environ, "PYTHONPATH": PATH, **variables}


def arena_alone(*arguments: str, folder: Path, columns: int = 80, typed: str = "", **variables: str) -> Done:
    """The command in a process of its own, to its end; ``typed`` is what it reads."""
    settings = {"cwd": folder, "env": environment(COLUMNS=str(columns), **variables), "input": typed, "timeout": 300}
    return subprocess.run([*ARENA, *arguments], capture_output=True, text=True, **settings)


def arena_begun(
    *arguments: str, folder: Path, hangup: signal.Handlers = signal.SIG_DFL, **variables: str
) -> subprocess.Popen[str]:
    """The command in a process of its own, which goes on: the leader of a group, like a terminal's job. ``hangup`` is
    what SIGHUP does to it at first."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    settings = {"cwd": folder, "env": environment(**variables), "process_group": 0}
    heard = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, hangup)}  # under nohup, the tests' own is ignored
    return subprocess.Popen([*ARENA, *arguments], **pipes, **settings, **heard)


def refused(done: Done, *words: str) -> None:
    """One line on stderr that says what is wrong, and exit code 2."""
    assert done.returncode == 2, done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0]


def torchrun(words: str, folder: Path) -> str:
    """``arena train`` in two processes of torchrun; what it printed."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "arena"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [*command, "train", *words.split()]
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=300)
    assert run.returncode == 0, run.stderr
    return run.stdout
