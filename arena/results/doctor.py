"""A look at what the arena stands on: packages, processor, compiled kernels, nets, GPU, files, engines from outside.

Whatever is broken is a finding, with what to do below it, and the look goes on. No bot plays a game here; ``probe`` has
one do that. Heavy packages are imported by the step that looks at them, since any of them may be what is broken.
"""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from arena import UserError, __version__, plural
from arena.contract.bot import fault_words
from arena.contract.code import find_program
from arena.contract.finding import Begun, Finding, Verdict
from arena.players.bot_file import engine_command, engine_table

if TYPE_CHECKING:
    from bots.nets.checkpoint import Checkpoint
    from bots.nets.inference import Precision

NEEDED = ("numpy", "numba", "onnxruntime", "pandas", "scipy", "matplotlib", "rich", "safetensors", "sgfmill", "tomlkit")
"""Packages without which some command fails; those whose version matters most come first."""

FOR_TRAINING = ("torch", "onnx")

FEATURES: Mapping[str, Sequence[str]] = {
    "AVX2": ("avx2",),
    "FMA": ("fma",),
    "AVX-512": ("avx512f",),
    "VNNI": ("avx512_vnni", "avx_vnni"),
    "Arm dot products": ("asimddp",),
}
"""What of a processor makes nets and kernels faster, and the flags that stand for it."""

ENGINES: Mapping[str, str] = {
    "gnugo": "gnugo",
    "pachi": "pachi",
    "katago": "katago",
    "leela-zero": "leelaz",
    "fuego": "fuego",
}
"""Engines by the name they have in the example, and their programs."""

OWN_PATHS = ("katago", "leela-zero")
"""Engines that can't be started before their nets are named."""

LEAST_FREE = 1 << 30
"""Bytes that should be free on the disk of the results."""

FEW_MEGABYTES = 2048

APART = 0.05
"""How far the win rates of int8 and fp32 may be apart in the mean, over positions of random games."""

PATIENCE = 60.0
"""Seconds that another program may take to answer."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the arena is looked at: folders and files as the commands take them, and the terminal it writes to. The
    commands that arena.toml names are started only to ``run`` them: it may come from anywhere."""

    results: Path
    config: Path | None
    encoding: str
    columns: int
    cpuinfo: Path = Path("/proc/cpuinfo")
    run: bool = False


def examine(place: Place, only: Sequence[str] = ()) -> Iterator[Begun | Finding]:
    """Look at everything, step by step, or at some steps ``only``. One that fails doesn't keep the others from being
    taken."""
    steps: Sequence[tuple[str, Callable[[Place], Iterator[Begun | Finding]]]] = (
        ("versions", _versions),
        ("processor", _processor),
        ("terminal", _terminal),
        ("kernels", _kernels),
        ("nets", _nets),
        ("GPU", _gpu),
        ("results", _results),
        ("config", _config),
        ("engines", _engines),
    )
    for step, look in steps:
        if only and step not in only:
            continue
        yield Begun(step, PATIENCE)
        try:
            yield from look(place)
        except (UserError, ImportError, OSError) as error:
            yield Finding(step, Verdict.FAILED, fault_words(error))


def _versions(place: Place) -> Iterator[Finding]:
    found = {name: _version(name) for name in NEEDED}
    missing = [name for name, number in found.items() if not number]
    listed = ", ".join(f"{name} {number}" for name, number in found.items() if number)
    where = Path(__file__).parents[1]
    words = (
        f"arena {__version__} in {where}, Python {platform.python_version()}, {listed}, SQLite {sqlite3.sqlite_version}"
    )
    if missing:
        words = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing; {words}"
        yield Finding("versions", Verdict.FAILED, words, f"{sys.executable} -m pip install {' '.join(missing)}")
    else:
        yield Finding("versions", Verdict.OK, words)
    training = {name: _version(name) for name in FOR_TRAINING}
    if all(training.values()):
        yield Finding("training", Verdict.OK, ", ".join(f"{name} {number}" for name, number in training.items()))
    else:
        absent = ", ".join(name for name, number in training.items() if not number)
        yield Finding("training", Verdict.OK, f"without {absent}; only training needs them: pip install 'arena[train]'")


def _version(package: str) -> str:
    """The installed version; empty where there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _processor(place: Place) -> Iterator[Finding]:
    try:
        lines = place.cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    told: dict[str, str] = {}
    for line in lines:  # one paragraph a core; the first will do
        key, colon, value = line.partition(":")
        if colon:
            told.setdefault(key.strip(), value.strip())
    name = told.get("model name") or platform.processor() or platform.machine()
    flags = set((told.get("flags") or told.get("Features") or "").split())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = _memory()
    words = f"{name}, {cores} core{'s' if cores != 1 else ''}" + (
        f", {memory / 1024:.1f} GB free memory" if memory else ""
    )
    if flags:
        has = [feature for feature, signs in FEATURES.items() if not flags.isdisjoint(signs)]
        words += f"; has {', '.join(has) or 'none of ' + ', '.join(FEATURES)}"
    if platform.machine() in ("x86_64", "AMD64") and flags and "avx2" not in flags:
        yield Finding("processor", Verdict.NOTE, words, "Without AVX2 nets run in fp32, and several times slower.")
    elif memory is not None and memory < FEW_MEGABYTES:
        yield Finding("processor", Verdict.NOTE, words, "Little memory: use --workers 1 or a smaller max_tree_mb.")
    else:
        yield Finding("processor", Verdict.OK, words)


def _memory() -> int | None:
    """Megabytes that are free, where the system tells."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) // 1024
    except OSError:
        pass
    return None


def _terminal(place: Place) -> Iterator[Finding]:
    words = f"{place.columns} columns, {place.encoding}"
    if "utf" not in place.encoding.lower():
        fix = "Boards are drawn in ASCII; for stones and lines: export LANG=C.UTF-8"
        yield Finding("terminal", Verdict.NOTE, words, fix)
    elif place.columns < 40:
        yield Finding("terminal", Verdict.NOTE, words, "Screens are made for 40 columns or more; widen the terminal.")
    else:
        yield Finding("terminal", Verdict.OK, words)


def _kernels(place: Place) -> Iterator[Finding]:
    from arena.go.jit import CACHE

    before = _compiled(CACHE)
    start = perf_counter()
    from arena.go.game import Game, Rules

    game = Game(Rules.preset("cgos", 5))
    game.play(12)
    right = game.margin() == 25 - game.rules.komi and game.legal_moves().sum() == 25
    words = f"in {CACHE}, {plural(_compiled(CACHE), 'kernel')}, {_size(CACHE) >> 20} MB"
    if not right:
        fix = f"Delete the folder and try again: rm -r {CACHE}"
        yield Finding("kernels", Verdict.FAILED, f"the compiled board is wrong, {words}", fix)
        return
    if not _compiled(CACHE):
        fix = "Every process compiles for half a minute. Make it writable, or: export NUMBA_CACHE_DIR=FOLDER"
        yield Finding("kernels", Verdict.NOTE, f"{CACHE} can't be written", fix)
        return
    if not before:
        words += f"; compiled just now, in {perf_counter() - start:.0f} s: the first game of each bot compiles more"
    old = [other for other in CACHE.parent.glob("kernels-*") if other != CACHE]
    size = sum(map(_size, old)) >> 20
    if size >= 100:
        pattern = CACHE.parent / "kernels-*"
        fix = f"{plural(len(old), 'folder')} of other versions take {size} MB. To delete them all: rm -r {pattern}"
        yield Finding("kernels", Verdict.NOTE, words, fix)
    else:
        yield Finding("kernels", Verdict.OK, words)


def _compiled(folder: Path) -> int:
    """How many kernels are kept in a cache."""
    return sum(1 for _ in folder.rglob("*.nbi"))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _nets(place: Place) -> Iterator[Finding]:
    from bots.nets.checkpoint import MODEL_INT8, SHIPPED, Checkpoint
    from bots.nets.inference import Precision, has_fast_int8

    for folder in sorted(SHIPPED.glob("*/model.onnx")):
        name = folder.parent.name
        try:
            checkpoint = Checkpoint.open(folder.parent)
            has_int8 = MODEL_INT8 in checkpoint.manifest.files
            yield _answers(checkpoint, [Precision.FP32, *[Precision.INT8] * has_int8], has_fast_int8(place.cpuinfo))
        except UserError as error:
            yield Finding("nets", Verdict.FAILED, f"{name}: {error}", "Install the arena again.")


def _answers(checkpoint: Checkpoint, precisions: Sequence[Precision], plays_int8: bool) -> Finding:
    """Whether a net's answers don't depend on how many positions are asked about, and int8 says what fp32 does."""
    import numpy as np

    from bots.nets.inference import Evaluator, sample_planes

    manifest = checkpoint.manifest
    told, words = {}, []
    for precision in precisions:
        net = Evaluator(checkpoint, precision)
        planes = sample_planes(net.encoder, manifest.size)
        together = net.evaluate(planes)
        start = perf_counter()
        alone = [
            np.concatenate(parts)
            for parts in zip(*(net.evaluate(planes[[n]]) for n in range(len(planes))), strict=True)
        ]
        words.append(f"{precision} {1000 * (perf_counter() - start) / len(planes):.1f} ms per position")
        if not all(np.isfinite(part).all() for part in together):
            return Finding(
                "nets", Verdict.FAILED, f"{manifest.name}: {precision} returns values that are not numbers", REINSTALL
            )
        if not all(np.array_equal(one, other) for one, other in zip(together, alone, strict=True)):
            fix = "Games may then depend on how many boards are played at once; another version of onnxruntime may not."
            return Finding(
                "nets",
                Verdict.NOTE,
                f"{manifest.name}: {precision} gives other results in a batch than for one position",
                fix,
            )
        told[precision] = together[1]
    text = f"{manifest.name}: {', '.join(words)}"
    if len(told) == 1:
        return Finding("nets", Verdict.OK, text)
    apart = float(np.abs(np.subtract(*told.values())).mean())
    usual = manifest.metrics.get("int8_win_rate_difference")
    text += f"; int8 win rates differ by {apart:.4f}" + ("" if usual is None else f" ({usual:.4f} when exported)")
    if apart > APART:
        fix = "int8 differs from fp32 on this processor, so bots play in fp32."
        return Finding("nets", Verdict.NOTE, text, fix)
    return Finding("nets", Verdict.OK, f"{text}; plays in {'int8' if plays_int8 else 'fp32'}")


REINSTALL = "Install ONNX Runtime again: pip install --force-reinstall onnxruntime"


def _gpu(place: Place) -> Iterator[Finding]:
    program = shutil.which("nvidia-smi")
    cards = ""
    if program is not None:
        cards = _said([program, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"])
    torch = _version("torch")
    if not cards:
        yield Finding("GPU", Verdict.OK, "none found; matches don't need one, training is faster with one")
        return
    listed = "; ".join(line.strip() for line in cards.splitlines())
    if not torch:
        yield Finding("GPU", Verdict.OK, f"{listed}; training uses it: pip install 'arena[train]'")
    elif (
        find_spec("torch") and _said([sys.executable, "-c", "import torch; print(torch.cuda.is_available())"]) == "True"
    ):
        yield Finding("GPU", Verdict.OK, f"{listed}; torch {torch} uses it")
    else:
        fix = "Install a torch that is built for it (see pytorch.org), or a newer driver."
        yield Finding(
            "GPU", Verdict.NOTE, f"{listed}; torch {torch} can't use it, so training runs on the processor", fix
        )


def _said(command: Sequence[str]) -> str:
    """What a program prints; nothing where it fails or takes too long."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _results(place: Place) -> Iterator[Finding]:
    from arena.results.store import Store, database

    path = database(place.results)
    folder = next(parent for parent in (path, *path.absolute().parents) if parent.is_dir())
    free = shutil.disk_usage(folder).free
    room = f"{free / 2**30:.1f} GB free"
    if not os.access(folder, os.W_OK):
        yield Finding(
            "results", Verdict.FAILED, f"{folder} can't be written", "Go to another folder, or give --results."
        )
        return
    if not path.exists():
        words = f"none in {place.results} yet: the first match makes them; {room}"
    else:
        with Store.open(path) as store:
            damage = store.damage()
            if damage:
                fix = f"Restore it from a copy, or save what can be read: sqlite3 {path} .recover"
                yield Finding("results", Verdict.FAILED, f"{path} is damaged: {damage}", fix)
                return
            events = len(store.events())
            words = f"{path}: {plural(store.count(), 'game')} of {plural(events, 'event')}, sound, "
            words += f"{path.stat().st_size / 2**20:.1f} MB; {room}"
    if free < LEAST_FREE:
        yield Finding("results", Verdict.NOTE, words, "The disk is nearly full; games that don't fit are not played.")
    else:
        yield Finding("results", Verdict.OK, words)


def _config(place: Place) -> Iterator[Begun | Finding]:
    from arena.players.registry import Registry

    if place.config is None:
        Registry(None, place.results)  # raises what is wrong with installed packages of bots
        yield Finding("config", Verdict.OK, "no arena.toml here; 'arena doctor --init' writes a commented one")
        return
    registry = Registry(place.config, place.results)
    own = [entry for entry in registry.entries if entry.source == str(place.config)]
    tournaments = registry.tournaments
    own_files = registry.files
    words = f"{place.config}: {plural(len(own) + len(own_files), 'bot')}, {plural(len(tournaments), 'tournament')}"
    yield Finding("config", Verdict.OK, words)
    for entry in own_files:
        words = f"{entry.name} is a Python file, which runs when the bot is named: {entry.kind}"
        yield Finding("config", Verdict.OK, words)
        if place.run:
            own.append(entry)  # whose file runs where it is resolved
    for entry in own:
        words = ""
        try:
            registry.resolve(entry.name)
        except UserError as error:
            words = f"{entry.name}: {error}"
        if not words and entry.bot_kind.code is not None and not place.run:
            command = dict(entry.settings).get("command", "")
            yield Finding("config", Verdict.OK, f"{entry.name} isn't started without --run: {command}")
        elif not words and entry.bot_kind.code is not None:
            yield Begun(f"{entry.name}", PATIENCE)
            try:
                entry.checked(9)
                yield Finding("config", Verdict.OK, f"{entry.name} starts and takes a 9x9 board")
            except UserError as error:
                words = str(error)
        if words:
            fix = f"Correct [bots.{entry.name}], or put # before its lines."
            yield Finding("config", Verdict.FAILED, words, fix)
    for name, table in tournaments.items():
        for bot in table.bots:
            try:
                registry.resolve(bot)
            except UserError as error:
                yield Finding(
                    "config",
                    Verdict.FAILED,
                    f"[tournaments.{name}]: {error}",
                    f"Correct bots = [...] in {place.config}.",
                )


def _engines(place: Place) -> Iterator[Begun | Finding]:
    from arena.players.registry import Registry

    try:
        registry = Registry(place.config, place.results)
        commands = [str(dict(entry.settings).get("command", "")) for entry in registry.entries if entry.kind == "gtp"]
    except UserError:  # it has been told
        registry, commands = Registry(None, place.results), []
    used = {Path(command.split()[0]).name for command in commands if command.split()}
    absent = []
    for name, program in ENGINES.items():
        found = find_program(program)
        if found is None:
            absent.append(name)
        elif program in used:
            yield Finding("engines", Verdict.OK, f"{name}: {found}, in {place.config}")
        elif name in OWN_PATHS:
            lines = f"For arena.toml, with the paths of your files:\n{engine_table(name)}"
            yield Finding("engines", Verdict.OK, f"{name}: {found}, not in arena.toml yet", lines)
        else:
            yield Begun(name, PATIENCE)
            try:
                replace(registry.resolve(f"gtp:command={engine_command(name)}"), name=name).checked(9)
            except UserError as error:
                yield Finding("engines", Verdict.NOTE, f"{error}; the program is {found}")
            else:
                yield Finding(
                    "engines",
                    Verdict.OK,
                    f"{name}: {found}, not in arena.toml yet",
                    f"For arena.toml:\n{engine_table(name)}",
                )
    if absent:
        yield Finding("engines", Verdict.OK, f"not found: {', '.join(absent)}; any that speaks GTP can play")
