"""Files that survive a crash, locks, scratch folders; and what a container lets a process use."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
from helpers.commandline import environment

from arena import ConfigError, StoreError, files
from arena.contract.settings import read_object
from arena.system import cores

ROOT = Path(__file__).parents[1]


def test_only_one_module_renames_over_files_or_locks_them() -> None:
    sources = [path for folder in ("arena", "bots", "trainers") for path in (ROOT / folder).rglob("*.py")]
    assert [
        str(path.relative_to(ROOT))
        for path in sources
        if any(call in path.read_text("utf-8") for call in ("os.replace(", "os.rename(", "flock("))
    ] == ["arena/files.py"]


def test_a_file_is_replaced_whole_and_keeps_its_mode_and_the_link_to_it(tmp_path: Path) -> None:
    place, link = tmp_path / "place" / "file", tmp_path / "link"
    files.write(place, "old")
    place.chmod(0o640)
    link.symlink_to(place)
    files.write(link, b"new")
    assert (place.read_text(), link.is_symlink(), place.stat().st_mode & 0o777) == ("new", True, 0o640)
    assert sorted(os.listdir(place.parent)) == ["file"]


@pytest.mark.parametrize("exchange", [True, False])
def test_a_folder_takes_the_place_of_another_or_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool
) -> None:
    if not exchange:
        monkeypatch.setattr(files.ctypes, "CDLL", lambda _name: object())  # a system without such a step
    place = tmp_path / "net"
    for content in ("old", "new"):
        with files.replacing(place) as aside:
            aside.mkdir()
            (aside / content).write_text(content)
    assert (os.listdir(place), os.listdir(tmp_path)) == (["new"], ["net"])
    with pytest.raises(KeyError), files.replacing(place) as aside:
        aside.mkdir()
        raise KeyError
    with pytest.raises(StoreError, match=r"net can't be written \(No such file or directory\); use a folder"):
        with files.replacing(place):
            pass
    assert (os.listdir(place), os.listdir(tmp_path)) == (["new"], ["net"])


def test_a_pipe_or_device_is_not_replaced(tmp_path: Path) -> None:
    """As root, --csv /dev/null made a file of the device."""
    os.mkfifo(pipe := tmp_path / "pipe")
    with pytest.raises(StoreError, match=r"pipe can't be written \(it is a device or a pipe\); use"):
        files.write(pipe, "rows")
    assert pipe.is_fifo() and os.listdir(tmp_path) == ["pipe"]


def test_a_folder_that_cannot_be_replaced_keeps_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where folders aren't swapped in one step, the old one was moved aside and then removed."""
    monkeypatch.setattr(files.ctypes, "CDLL", lambda _name: object())  # a system without such a step
    (place := tmp_path / "net").mkdir()
    (place / "weights").write_text("old")
    rename = os.replace

    def fail_for_new(source: Path, target: Path) -> None:
        if (source / "new").exists():
            raise OSError(5, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(os, "replace", fail_for_new)
    with pytest.raises(StoreError, match="Input/output error"), files.replacing(place) as aside:
        (aside / "new").mkdir(parents=True)
    assert (place / "weights").read_text() == "old" and os.listdir(tmp_path) == ["net"]


def begun(code: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """A process that runs this code, which begins by printing a path."""
    command = [sys.executable, "-c", code, *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(command, **pipes, text=True, env=environment(**variables))


def printed_by(process: subprocess.Popen[str]) -> Path:
    return Path(process.stdout.readline().strip())


WRITES = """
import sys
from pathlib import Path
from arena.files import replacing
with replacing(Path(sys.argv[1])) as aside:
    aside.write_text("half")
    print(aside, flush=True)
    sys.stdin.readline()
"""


def test_what_a_killed_process_wrote_aside_goes_when_the_next_one_writes(tmp_path: Path) -> None:
    """It stayed for good: a training run that is killed often left a state each time."""
    place = tmp_path / "state"
    with begun(WRITES, str(place)) as killed:
        assert printed_by(killed).exists()
        killed.kill()
        killed.wait()
    with begun(WRITES, str(place)) as last:
        printed_by(last)
        last.communicate("")
    assert os.listdir(tmp_path) == ["state"] and place.read_text() == "half"


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path)])
def test_a_pipe_or_a_device_that_is_named_like_our_own_files_is_not_opened(make: Any, tmp_path: Path) -> None:
    """Anybody who writes to a folder could have commands hang that write there."""
    for path in (tmp_path / "lock", tmp_path / "arena.db.lock"):
        make(path)
        with pytest.raises(OSError, match="it is not a regular file"):
            files.lock(path)


def test_a_user_without_a_home_has_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command ended in a traceback."""

    def fail(name: str) -> NoReturn:
        raise RuntimeError("could not determine the home directory")

    monkeypatch.setattr(files, "user_cache_dir", fail)
    assert files.cache_folder().parent == files.scratch()


def test_a_lock_ends_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "made" / "lock"
    code = "import sys; from pathlib import Path; from arena import files; "
    code += "held = files.lock(Path(sys.argv[1])); print('held', flush=True); input()"
    with begun(code, str(path)) as other:
        assert str(printed_by(other)) == "held"
        with pytest.raises(BlockingIOError):
            files.lock(path)
        other.communicate("\n")
    files.lock(path).close()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[" * 100_000, r"isn't valid JSON \(.*\); give another$"),
        ('{"rows": ' + "1" * 5000 + "}", r"isn't valid JSON \(.*\); give another$"),
        ("[]", "holds no JSON object; give another$"),
        ("\udcff", r"isn't valid JSON \(.*\); give another$"),
        (None, r"can't be read \(No such file or directory\); give another$"),
    ],
    ids=["deep", "long number", "list", "bytes", "missing"],
)
def test_json_that_cannot_be_read_is_one_line(tmp_path: Path, text: str | None, error: str) -> None:
    path = tmp_path / "sheet.json"
    if text is not None:
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match=rf"sheet\.json: {error}") as caught:
        read_object(path, error=ConfigError, hint="give another")
    assert "\n" not in str(caught.value)


SCRATCH = "import sys; from arena.files import scratch; print(scratch(), flush=True); sys.stdin.readline()"


def test_a_temporary_folder_is_private_and_goes_with_its_process(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100)  # no socket could be made there
    deep.mkdir()
    with begun(SCRATCH, TMPDIR=str(deep)) as process:
        made = printed_by(process)
        assert made.parent == Path("/tmp") and made.stat().st_mode & 0o777 == 0o700
        process.communicate("")
    assert not made.exists()


@pytest.mark.parametrize(
    ("own", "group", "content", "expected"),
    [
        ("0::/app.slice/job", "app.slice/cpu.max", "150000 100000", 1),  # one that it is in has the quota
        ("0::/", "cpu.max", "max 100000", None),
    ],
)
def test_no_more_cores_are_used_than_a_container_may(
    tmp_path: Path, own: str, group: str, content: str, expected: int | None
) -> None:
    (tmp_path / group).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / group).write_text(content)
    (tmp_path / "own").write_text(f"{own}\n")
    assert cores(tmp_path, tmp_path / "own") == (expected or cores(tmp_path, tmp_path / "none"))
