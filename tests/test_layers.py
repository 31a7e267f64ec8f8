"""Who may import whom, read from the sources; and what is loaded for what, asked of real processes."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers.commandline import environment
from helpers.scripted_bots import scripted

from arena.go.game import Rules
from arena.match.runner import play_event
from arena.match.schedule import Match, Terms
from arena.results.store import Store

ROOT = Path(__file__).parents[1]
OURS = ("arena", "bots", "trainers")

LAYERS = (
    ("arena",),  # the errors
    ("arena.files", "arena.ratings", "arena.system"),
    ("arena.go",),
    ("arena.contract",),
    ("bots.search", "arena.gtp"),
    ("bots.nets",),
    ("bots",),
    ("arena.players",),
    ("arena.match",),
    ("arena.results",),
    ("arena.people", "trainers"),
    ("arena.report",),
    ("arena.tui",),
    ("arena.cli",),
    ("arena.__main__",),
)
"""The rooms of the house, from the bottom to the top. A room may import itself and the rooms below it."""

HOMES = {
    "llvmlite": ("bots/nets/lanes.py",),
    "aiohttp": ("arena/tui/serve.py",),
    "jinja2": ("arena/report/page.py",),
    "numba": ("arena/go/jit.py", "bots/nets/lanes.py", "bots/search/"),
    "numpy": ("arena/", "bots/", "trainers/"),
    "onnx": ("trainers/",),
    "onnxruntime": ("bots/nets/inference.py", "trainers/"),
    "pandas": ("arena/results/export.py",),
    "platformdirs": ("arena/files.py",),
    "ray": ("arena/match/cluster.py",),
    "rich": ("arena/report/", "arena/tui/", "arena/cli/"),
    "markupsafe": ("arena/report/",),
    "msgspec": ("arena/", "bots/", "trainers/"),
    "safetensors": ("bots/nets/", "trainers/"),
    "sgfmill": ("arena/go/sgf.py",),
    "textual": ("arena/tui/",),
    "textual_serve": ("arena/tui/serve.py",),
    "tomlkit": ("arena/players/config.py",),
    "torch": (*(f"bots/nets/{name}.py" for name in ("network", "catalogue", "katago", "gpu")), "trainers/"),
    "typer": ("arena/cli/",),
}
"""Where each third party may be imported; annotations may name any."""


class Import(NamedTuple):
    """One module imported by a file, for an ``annotation`` only or when the file is imported (``at_once``)."""

    importer: str
    line: int
    module: str
    annotation: bool
    at_once: bool


MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for folder in OURS
    for path in sorted((ROOT / folder).rglob("*.py"))
}


def imports(name: str, node: ast.AST, annotation: bool = False, at_once: bool = True) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        yield from (Import(name, node.lineno, alias.name, annotation, at_once) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"{name}, line {node.lineno} has a relative import, which this test doesn't follow"
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            yield Import(name, node.lineno, full if full in MODULES else str(node.module), annotation, at_once)
    else:
        annotation = annotation or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        at_once = at_once and not annotation and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.iter_child_nodes(node):
            yield from imports(name, child, annotation, at_once)


IMPORTS = [found for name, path in MODULES.items() for found in imports(name, ast.parse(path.read_text("utf-8")))]
INSIDE = [found for found in IMPORTS if found.module.partition(".")[0] in OURS]


def layer(module: str) -> tuple[int, str]:
    """How high the module is, and the name that stands for it: the longest that fits."""
    fits = [
        (len(name), height, name)
        for height, names in enumerate(LAYERS)
        for name in names
        if module == name or (module.startswith(f"{name}.") and name != "arena")
    ]
    assert fits, f"{module} has no layer; say in LAYERS what it may import"
    return max(fits)[1:]


@pytest.mark.smoke
def test_arrows_point_down_only() -> None:
    exported = {found for found in INSIDE if found.importer == "arena"}  # to the authors of bots
    both = [(found, layer(found.importer), layer(found.module)) for found in INSIDE if found not in exported]
    assert [found for found, mine, theirs in both if mine[1] != theirs[1] and theirs[0] >= mine[0]] == []


def test_no_module_waits_for_itself_to_be_imported() -> None:
    graph: dict[str, set[str]] = {name: set() for name in MODULES}
    for found in INSIDE:
        if found.at_once and found.module != found.importer:
            graph[found.importer].add(found.module)
    list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the cycle


def test_every_third_party_stays_at_home() -> None:
    wrong = []
    for found in set(IMPORTS) - set(INSIDE):
        party, path = found.module.partition(".")[0], str(MODULES[found.importer].relative_to(ROOT))
        homes = HOMES.get(party, ())
        if not (party in sys.stdlib_module_names or found.annotation or path.startswith(tuple(homes))):
            wrong.append(found)
    assert wrong == []


# --- What is loaded ---

HEAVY = {"jinja2", "textual", "numba", "onnxruntime", "pandas", "scipy", "torch"}
LINES = (
    "from helpers.games import *; from arena.cli.events import *; from arena.match.runner import Control\n"
    "match = match_of()\n"
    "from arena.results.event_state import EventState\n"
    "show(EventState(match), whole_match(match), Control(), Console())"
)
BOTS = "from arena.players.registry import Registry\nfor entry in Registry().entries: entry.bot_kind.settings"


def test_what_is_asked_for_often_loads_nothing_heavy() -> None:
    results = "import arena.results.store, arena.results.export, arena.report.tables"
    commands = ("import arena.cli", HEAVY | {"numpy", "rich.console"})
    for code, heavy in (commands, (f"{BOTS}\n{results}", HEAVY), (LINES, {"textual"})):
        command = [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment())
        assert done.returncode == 0, done.stderr
        assert set(done.stdout.split()) & heavy == set()


def test_a_worker_never_loads_torch(tmp_path: Path) -> None:
    spy = scripted("SPY", marker=str(tmp_path / "loaded"))
    with Store.open(tmp_path / "spied.db", write=True) as store:
        for _ in play_event(Match(spy, scripted("GOOD"), Terms(Rules.preset("cgos", 7)), 2), store, 1):
            pass
    worker = set((tmp_path / "loaded").read_text().split())
    assert {"numba", "arena.match.ready"} <= worker  # made ready once for all workers
    assert worker & {"torch", "pandas", "onnxruntime", "rich", "typer"} == set()
