"""Checks of the installation: packages, processor, kernels, nets, GPU, results, arena.toml, engines on the PATH."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from arena import CheckpointError, UserError, __version__, plural
from arena.contract.bot import describe_error
from arena.contract.code import find_program
from arena.contract.finding import Finding, StepStatus

NEEDED = "numpy numba onnxruntime pandas jinja2 rich textual safetensors sgfmill tomlkit msgspec".split()
FOR_TRAINING = ("torch", "onnx")
ENGINES = ("gnugo", "pachi", "katago", "leelaz", "fuego")  # the example of arena.toml has a table for each
MIN_FREE = 1 << 30  # bytes on the disk of the results
OK, NOTE, FAILED = StepStatus.OK, StepStatus.NOTE, StepStatus.FAILED

Found = Iterator[tuple[StepStatus, str] | tuple[StepStatus, str, str]]  # what is found, and what to do about it


def examine(results: Path, config: Path | None, only: Sequence[str] = ()) -> Iterator[Finding]:
    """Yield what each step finds, or each of the steps in ``only``. A step that fails doesn't stop the next.
    Nothing that arena.toml names is started: it may come from anywhere."""
    steps = {
        "versions": _versions,
        "kernels": _kernels,
        "nets": _nets,
        "GPU": _gpu,
        "results": lambda: _results(results),
        "config": lambda: _config(results, config),
        "engines": _engines,
    }
    for step in only or steps:
        try:
            for status, *words in steps[step]():
                yield Finding(step, status, *words)
        except (UserError, ImportError, OSError) as error:
            yield Finding(step, FAILED, describe_error(error))


def _versions() -> Found:
    found = {}
    for package in (*NEEDED, *FOR_TRAINING):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    text = f"arena {__version__} in {Path(__file__).parents[1]}, Python {platform.python_version()}, "
    text += f"{platform.machine()} with {os.cpu_count()} cores, {', '.join(map(' '.join, found.items()))}"
    if missing := [name for name in NEEDED if name not in found]:
        yield FAILED, f"missing: {', '.join(missing)}; {text}", f"{sys.executable} -m pip install {' '.join(missing)}"
    else:
        more = "" if found.keys() >= {*FOR_TRAINING} else "; training needs more: pip install 'arena[train]'"
        yield OK, text + more


def _kernels() -> Found:
    from arena.go.game import Game, Rules
    from arena.go.jit import CACHE, WANTED

    game = Game(Rules.preset("cgos", 5))
    game.play(12)
    if game.margin() != 25 - game.rules.komi:
        yield FAILED, f"the compiled board in {CACHE} is wrong", f"Delete the folder and try again: rm -r {CACHE}"
    elif CACHE != WANTED:
        fix = "Every process compiles for half a minute. Make it writable, or: export NUMBA_CACHE_DIR=FOLDER"
        yield NOTE, f"{WANTED} can't be written", fix
    else:
        yield OK, f"compiled in {CACHE}"


def _nets() -> Found:
    import numpy as np

    from bots.nets.checkpoint import SHIPPED_NETS, Checkpoint, has_fast_int8
    from bots.nets.inference import Evaluator, sample_planes

    sound = []
    for folder in sorted(path.parent for path in SHIPPED_NETS.glob("*/model.onnx")):
        net = Evaluator(Checkpoint.open(folder))
        if not np.isfinite(net.evaluate(sample_planes(net.encoder, net.checkpoint.manifest.size))[1]).all():
            raise CheckpointError(f"{folder.name}: win rates are not numbers; install onnxruntime again")
        sound.append(folder.name)
    form = "int8" if has_fast_int8() else "fp32, as this processor has no instructions that make int8 fast"
    yield OK, f"{', '.join(sound)}; they play in {form}"


def _gpu() -> Found:
    ask = "import torch; print(torch.cuda.get_device_name() if torch.cuda.is_available() else '')"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, errors="replace")
    if name := done.stdout.strip():
        yield OK, f"{name}; training uses it"
    elif shutil.which("nvidia-smi") is None:
        yield OK, "none found; matches don't need one, training is faster with one"
    else:
        fix = "Install a torch that is built for it (see pytorch.org), or a newer driver."
        yield NOTE, "torch can't use the GPU of this machine, so training runs on the processor", fix


def _results(results: Path) -> Found:
    from arena.results.store import Store, database

    path = database(results)
    folder = next(parent for parent in (path, *path.absolute().parents) if parent.is_dir())
    if not os.access(folder, os.W_OK):
        yield FAILED, f"{folder} can't be written", "Go to another folder, or give --results."
        return
    text, free = f"none in {results} yet", shutil.disk_usage(folder).free
    if path.exists():
        with Store.open(path) as store:
            if damage := store.damage():
                fix = f"Restore it from a copy, or save what can be read: sqlite3 {path} .recover"
                yield FAILED, f"{path} is damaged: {damage}", fix
                return
            text = f"{path}: {plural(store.count(), 'game')} of {plural(len(store.events()), 'event')}, sound"
    fix = "" if free >= MIN_FREE else "The disk is nearly full; games that don't fit are not played."
    yield NOTE if fix else OK, f"{text}; {free / 2**30:.1f} GB free", fix


def _config(results: Path, config: Path | None) -> Found:
    from arena.players.registry import Registry

    registry = Registry(config, results)  # raises what is wrong with installed packages of bots, too
    if config is None:
        yield OK, "no arena.toml here, which could have bots of your own (docs/add-a-bot.md)"
        return
    files = {player.name for player in registry.unloaded}  # which would run, so they are only counted
    bots, tournaments = [one.name for one in registry.entries if one.source == str(config)], registry.tournaments
    counts = f"{plural(len(bots) + len(files), 'bot')}, {plural(len(tournaments), 'tournament')}"
    yield OK, f"{config}: {counts}; 'arena check NAME' plays a bot"
    named = [(bot, f"[bots.{bot}]") for bot in bots]
    named += [(bot, f"[tournaments.{name}]") for name, table in tournaments.items() for bot in table.bots]
    for bot, table in named:
        try:
            if bot not in files:
                registry.resolve(bot)
        except UserError as error:
            yield FAILED, f"{table}: {error}", f"Correct {table} in {config}, or put # before its lines."


def _engines() -> Found:
    found = [f"{name} ({path})" for name in ENGINES if (path := find_program(name)) is not None]
    known = f"{', '.join(found)}; docs/add-a-bot.md makes an engine a bot"
    yield OK, known if found else f"none of {', '.join(ENGINES)}; any engine that speaks GTP can play"
