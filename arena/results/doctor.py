"""Checks of the installation: packages, processor, kernels, nets, GPU, results, arena.toml, engines on the PATH."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from arena import UserError, __version__
from arena.contract.bot import fault_words
from arena.contract.code import find_program
from arena.contract.finding import Begun, Finding, Verdict
from arena.players.config import EXAMPLE

NEEDED = ("numpy", "numba", "onnxruntime", "pandas", "scipy", "rich", "safetensors", "sgfmill", "tomlkit", "msgspec")
FOR_TRAINING = ("torch", "onnx")
FLAGS = ("avx2", "fma", "avx512f", "avx512_vnni", "avx_vnni", "asimddp")
"""Flags of a processor that make nets and kernels faster."""

ENGINES = {"gnugo": "gnugo", "pachi": "pachi", "katago": "katago", "leela-zero": "leelaz", "fuego": "fuego"}
"""Engines by their names in the example of arena.toml, and their programs."""

NEED_NETS = ("katago", "leela-zero")
"""Engines that can't start until their nets are named."""

MIN_FREE = 1 << 30
"""Bytes that should be free on the disk of the results."""

MAX_INT8_DIFFERENCE = 0.05
"""Mean difference of the win rates of int8 and fp32, over positions of random games, above which fp32 plays."""

TIMEOUT = 60.0
"""Seconds that another program may take to answer."""


def engine_table(name: str) -> str:
    """The lines of the example of arena.toml that make this engine a bot, without the signs that comment them out."""
    blocks = EXAMPLE.read_text().split("\n\n")
    return next(re.sub("(?m)^# ", "", block.strip()) for block in blocks if block.startswith(f"# [bots.{name}]"))


def engine_command(name: str) -> str:
    """The command in that table."""
    return str(tomllib.loads(engine_table(name))["bots"][name]["command"])


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look. The commands that arena.toml names are started only to ``run`` them: it may come from anywhere."""

    results: Path
    config: Path | None
    cpuinfo: Path = Path("/proc/cpuinfo")
    run: bool = False


def examine(place: Place, only: Sequence[str] = ()) -> Iterator[Begun | Finding]:
    """Yield what each step finds, or each of the steps in ``only``. A step that fails doesn't stop the next."""
    steps = {
        "versions": _versions,
        "processor": _processor,
        "kernels": _kernels,
        "nets": _nets,
        "GPU": _gpu,
        "results": _results,
        "config": _config,
        "engines": _engines,
    }
    for step, look in steps.items():
        if not only or step in only:
            yield Begun(step, TIMEOUT)
            try:
                yield from look(place)
            except (UserError, ImportError, OSError) as error:
                yield Finding(step, Verdict.FAILED, fault_words(error))


def _versions(place: Place) -> Iterator[Finding]:
    found = {name: _version(name) for name in (*NEEDED, *FOR_TRAINING)}
    listed = ", ".join(f"{name} {found[name]}" for name in found if found[name])
    text = f"arena {__version__} in {Path(__file__).parents[1]}, Python {platform.python_version()}, {listed}, "
    text += f"SQLite {sqlite3.sqlite_version}"
    if missing := [name for name in NEEDED if not found[name]]:
        fix = f"{sys.executable} -m pip install {' '.join(missing)}"
        yield Finding("versions", Verdict.FAILED, f"missing: {', '.join(missing)}; {text}", fix)
        return
    if absent := [name for name in FOR_TRAINING if not found[name]]:
        text += f"; without {', '.join(absent)}, which only training needs: pip install 'arena[train]'"
    elif shutil.which(os.environ.get("CXX", "g++")) is None:
        text += "; no C++ compiler, so training doesn't compile its nets"
    yield Finding("versions", Verdict.OK, text)


def _version(package: str) -> str:
    """The installed version; empty if there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _processor(place: Place) -> Iterator[Finding]:
    lines = place.cpuinfo.read_text(errors="replace").splitlines() if place.cpuinfo.is_file() else []
    facts: dict[str, str] = {}
    for line in lines:  # one paragraph a core; the first is enough
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    flags = set((facts.get("flags") or facts.get("Features") or "").split())
    text = f"{facts.get('model name') or platform.machine()}, {os.cpu_count()} cores"
    text += (
        f"; has {', '.join(flag for flag in FLAGS if flag in flags) or 'none of ' + ', '.join(FLAGS)}" if flags else ""
    )
    if platform.machine() in ("x86_64", "AMD64") and flags and "avx2" not in flags:
        yield Finding("processor", Verdict.NOTE, text, "Without AVX2 nets run in fp32, and several times slower.")
    else:
        yield Finding("processor", Verdict.OK, text)


def _kernels(place: Place) -> Iterator[Finding]:
    from arena.go.game import Game, Rules
    from arena.go.jit import CACHE, WANTED

    game = Game(Rules.preset("cgos", 5))
    game.play(12)
    count = sum(1 for _ in CACHE.rglob("*.nbi"))
    if game.margin() != 25 - game.rules.komi or game.legal_moves().sum() != 25:
        fix = f"Delete the folder and try again: rm -r {CACHE}"
        yield Finding("kernels", Verdict.FAILED, f"the compiled board in {CACHE} is wrong", fix)
    elif CACHE != WANTED:
        fix = "Every process compiles for half a minute. Make it writable, or: export NUMBA_CACHE_DIR=FOLDER"
        yield Finding("kernels", Verdict.NOTE, f"{WANTED} can't be written", fix)
    else:
        yield Finding("kernels", Verdict.OK, f"{count} in {CACHE}")


def _nets(place: Place) -> Iterator[Finding]:
    import numpy as np

    from bots.nets.checkpoint import MODEL_INT8, SHIPPED, Checkpoint
    from bots.nets.inference import Evaluator, Precision, has_fast_int8, sample_planes

    for folder in sorted(path.parent for path in SHIPPED.glob("*/model.onnx")):
        try:
            checkpoint = Checkpoint.open(folder)
            rates = {}
            for precision in [Precision.FP32, *[Precision.INT8] * (MODEL_INT8 in checkpoint.manifest.files)]:
                net = Evaluator(checkpoint, precision)
                rates[precision] = net.evaluate(sample_planes(net.encoder, checkpoint.manifest.size))[1]
        except UserError as error:
            yield Finding("nets", Verdict.FAILED, f"{folder.name}: {error}", "Install arena again.")
            continue
        if not all(np.isfinite(each).all() for each in rates.values()):
            fix = "Install ONNX Runtime again: pip install --force-reinstall onnxruntime"
            yield Finding("nets", Verdict.FAILED, f"{folder.name}: win rates are not numbers", fix)
        elif len(rates) == 1:
            yield Finding("nets", Verdict.OK, folder.name)
        else:
            difference = float(np.abs(rates[Precision.INT8] - rates[Precision.FP32]).mean())
            text = f"{folder.name}: int8 win rates differ by {difference:.4f}"
            exported = checkpoint.manifest.metrics.get("int8_win_rate_difference")
            text += "" if exported is None else f" ({exported:.4f} when exported)"
            if difference > MAX_INT8_DIFFERENCE:
                yield Finding("nets", Verdict.NOTE, text, "Bots play in fp32 on this processor.")
            else:
                played = "int8" if has_fast_int8(place.cpuinfo) else "fp32"
                yield Finding("nets", Verdict.OK, f"{text}; plays in {played}")


def _gpu(place: Place) -> Iterator[Finding]:
    cards = "; ".join(_output("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"))
    torch = _version("torch")
    if not cards:
        yield Finding("GPU", Verdict.OK, "none found; matches don't need one, training is faster with one")
    elif not torch:
        yield Finding("GPU", Verdict.OK, f"{cards}; training uses it: pip install 'arena[train]'")
    elif _output(sys.executable, "-c", "import torch; print(torch.cuda.is_available())") == ["True"]:
        yield Finding("GPU", Verdict.OK, f"{cards}; torch {torch} uses it")
    else:
        fix = "Install a torch that is built for it (see pytorch.org), or a newer driver."
        yield Finding(
            "GPU", Verdict.NOTE, f"{cards}; torch {torch} can't use it, so training runs on the processor", fix
        )


def _output(*command: str) -> list[str]:
    """The lines that a program prints; none if it fails or takes too long."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.strip().splitlines()


def _results(place: Place) -> Iterator[Finding]:
    from arena.results.store import Store, database

    path = database(place.results)
    folder = next(parent for parent in (path, *path.absolute().parents) if parent.is_dir())
    free = shutil.disk_usage(folder).free
    text = f"none in {place.results} yet"
    if not os.access(folder, os.W_OK):
        fix = "Go to another folder, or give --results."
        yield Finding("results", Verdict.FAILED, f"{folder} can't be written", fix)
        return
    if path.exists():
        with Store.open(path) as store:
            if damage := store.damage():
                fix = f"Restore it from a copy, or save what can be read: sqlite3 {path} .recover"
                yield Finding("results", Verdict.FAILED, f"{path} is damaged: {damage}", fix)
                return
            text = f"{path}: {store.count():,} games of {len(store.events())} events, sound"
    text += f"; {free / 2**30:.1f} GB free"
    if free < MIN_FREE:
        yield Finding("results", Verdict.NOTE, text, "The disk is nearly full; games that don't fit are not played.")
    else:
        yield Finding("results", Verdict.OK, text)


def _config(place: Place) -> Iterator[Begun | Finding]:
    from arena.players.registry import Registry

    registry = Registry(place.config, place.results)  # raises what is wrong with installed packages of bots, too
    if place.config is None:
        yield Finding("config", Verdict.OK, "no arena.toml here; 'arena doctor --init' writes a commented one")
        return
    entries = [entry for entry in registry.entries if entry.source == str(place.config)]
    bots, tournaments = len(entries) + len(registry.files), len(registry.tournaments)
    yield Finding("config", Verdict.OK, f"{place.config}: {bots} bots, {tournaments} tournaments")
    for entry in registry.files:
        text = f"{entry.name} is a Python file, which runs when the bot is named: {entry.kind}"
        yield Finding("config", Verdict.OK, text)
        entries += [entry] * place.run  # whose file runs when it is resolved
    for entry in entries:
        is_engine = entry.bot_kind.code is not None
        try:
            registry.resolve(entry.name)
            if is_engine and place.run:
                yield Begun(entry.name, TIMEOUT)
                entry.checked(9)
                yield Finding("config", Verdict.OK, f"{entry.name} starts and takes a 9x9 board")
            elif is_engine:
                command = entry.settings.get("command", "")
                yield Finding("config", Verdict.OK, f"{entry.name} isn't started without --run: {command}")
        except UserError as error:
            text = str(error) if str(error).startswith(str(place.config)) else f"{entry.name}: {error}"
            yield Finding("config", Verdict.FAILED, text, f"Correct [bots.{entry.name}], or put # before its lines.")
    for name, table in registry.tournaments.items():
        for bot in table.bots:
            try:
                registry.resolve(bot)
            except UserError as error:
                fix = f"Correct bots = [...] in {place.config}."
                yield Finding("config", Verdict.FAILED, f"[tournaments.{name}]: {error}", fix)


def _engines(place: Place) -> Iterator[Begun | Finding]:
    from arena.players.registry import Registry

    try:
        registry = Registry(place.config, place.results)
    except UserError:  # the step before has shown it
        registry = Registry(None, place.results)
    commands = [str(entry.settings.get("command", "")) for entry in registry.entries if entry.kind == "gtp"]
    used = {Path(command.split()[0]).name for command in commands if command.split()}
    found = {name: path for name, program in ENGINES.items() if (path := find_program(program)) is not None}
    for name, path in found.items():
        if ENGINES[name] in used:
            yield Finding("engines", Verdict.OK, f"{name}: {path}, in {place.config}")
            continue
        try:
            if name not in NEED_NETS:
                yield Begun(name, TIMEOUT)
                replace(registry.resolve(f"gtp:command={engine_command(name)}"), name=name).checked(9)
            lines = f"For arena.toml, with your own paths:\n{engine_table(name)}"
            yield Finding("engines", Verdict.OK, f"{name}: {path}, not in arena.toml yet", lines)
        except UserError as error:
            yield Finding("engines", Verdict.NOTE, f"{error}; the program is {path}")
    if absent := [name for name in ENGINES if name not in found]:
        yield Finding("engines", Verdict.OK, f"not found: {', '.join(absent)}; any engine that speaks GTP can play")
