"""Who may import whom, read from the sources; and what is loaded for what, asked of real processes."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from commandline import environment
from scripted_bots import scripted

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
    "llvmlite": ("bots/nets/int8.py",),
    "aiohttp": ("arena/tui/serve.py",),
    "jinja2": ("arena/report/page.py",),
    "numba": (
        "arena/go/jit.py",
        "arena/go/kernels.py",
        "arena/go/planes.py",
        "bots/nets/int8.py",
        "bots/search/",
    ),
    "numpy": ("arena/", "bots/", "trainers/"),
    "onnx": ("trainers/",),
    "onnxruntime": ("bots/nets/inference.py", "trainers/"),
    "onnxscript": ("trainers/",),
    "pandas": ("arena/results/export.py",),
    "platformdirs": ("arena/contract/code.py", "arena/go/jit.py"),
    "ray": ("arena/match/cluster.py",),
    "rich": ("arena/report/", "arena/tui/", "arena/cli/"),
    "markupsafe": ("arena/report/",),
    "msgspec": ("arena/", "bots/", "trainers/"),
    "safetensors": ("bots/nets/", "trainers/"),
    "scipy": ("arena/ratings/",),
    "sgfmill": ("arena/go/sgf.py",),
    "tensorboard": ("trainers/",),
    "textual": ("arena/tui/",),
    "textual_serve": ("arena/tui/serve.py",),
    "tomlkit": ("arena/players/config.py",),
    "torch": (
        "bots/nets/network.py",
        "bots/nets/classics.py",
        "bots/nets/catalogue.py",
        "bots/nets/gpu.py",
        "trainers/",
    ),
    "typer": ("arena/cli/",),
    "wandb": ("trainers/",),
}
"""Where each third party may be imported; annotations may name any."""


@dataclass(frozen=True)
class Import:
    """One module imported by a file. ``at_once`` tells those that importing the file carries out."""

    path: str
    line: int
    module: str
    annotation: bool
    at_once: bool

    def __str__(self) -> str:
        return f"{self.path}:{self.line} imports {self.module}"


def sources() -> dict[str, Path]:
    """Every module of ours by name."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for folder in OURS
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


MODULES = sources()


def imports(path: Path) -> Iterator[Import]:
    tree = ast.parse(path.read_text("utf-8"))
    name = str(path.relative_to(ROOT))

    def visit(node: ast.AST, annotation: bool, at_once: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(name, node.lineno, alias.name, annotation, at_once)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}:{node.lineno} has a relative import, which this test doesn't follow"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield Import(name, node.lineno, full if full in MODULES else str(node.module), annotation, at_once)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for child in node.body:
                yield from visit(child, True, False)
            for child in node.orelse:
                yield from visit(child, annotation, at_once)
        else:
            inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            for child in ast.iter_child_nodes(node):
                yield from visit(child, annotation, at_once and not inside)

    yield from visit(tree, False, True)


IMPORTS = [found for path in MODULES.values() for found in imports(path)]


def layer(module: str) -> tuple[int, str]:
    """How high the module is, and the name that stands for it: the longest that fits."""
    fits = [
        (name, height)
        for height, names in enumerate(LAYERS)
        for name in names
        if module == name or (module.startswith(f"{name}.") and name != "arena")
    ]
    assert fits, f"{module} has no layer; say in LAYERS what it may import"
    name, height = max(fits, key=lambda fit: len(fit[0]))
    return height, name


def module_of(path: str) -> str:
    return next(name for name, found in MODULES.items() if found == ROOT / path)


def test_every_module_has_a_layer() -> None:
    for module in MODULES:
        layer(module)


def test_arrows_point_down_only() -> None:
    wrong = []
    for found in IMPORTS:
        if found.module.partition(".")[0] in OURS:
            mine, theirs = layer(module_of(found.path)), layer(found.module)
            if mine[1] != theirs[1] and theirs[0] >= mine[0]:
                wrong.append(str(found))
    assert wrong == []


def test_no_module_waits_for_itself_to_be_imported() -> None:
    graph: dict[str, set[str]] = {name: set() for name in MODULES}
    for found in IMPORTS:
        module = module_of(found.path)
        if found.at_once and found.module in MODULES and found.module != module:
            graph[module].add(found.module)
    list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the cycle


def test_every_third_party_stays_at_home() -> None:
    wrong = []
    for found in IMPORTS:
        party = found.module.partition(".")[0]
        if party in OURS or party in sys.stdlib_module_names or found.annotation:
            continue
        homes = HOMES.get(party, ())
        if not any(found.path == home or (home[-1] == "/" and found.path.startswith(home)) for home in homes):
            wrong.append(str(found))
    assert wrong == []


def test_the_errors_import_nothing() -> None:
    assert [str(found) for found in IMPORTS if found.path == "arena/__init__.py"] == []


# --- What is loaded ---

HEAVY = {"jinja2", "textual", "numba", "onnxruntime", "pandas", "scipy", "torch"}


def loaded(code: str, *arguments: str) -> set[str]:
    """The modules that a Python has loaded at the end of this code."""
    result = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint('\\n'.join(sys.modules))", *arguments],
        capture_output=True,
        text=True,
        env=environment(),
    )
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(
            "from arena.players.registry import Registry\nfor entry in Registry().entries: entry.bot_kind.settings",
            id="the list of bots",
        ),
        pytest.param("import arena.results.store, arena.results.export, arena.report.tables", id="results"),
        pytest.param("from arena.ratings import rate", id="ratings"),
    ],
)
def test_what_is_asked_for_often_loads_nothing_heavy(code: str) -> None:
    assert loaded(code) & HEAVY == set()


def test_the_list_of_commands_loads_not_even_numpy_nor_a_screen() -> None:
    assert loaded("import arena.cli") & (HEAVY | {"numpy", "rich.console"}) == set()


MATCH = """
import sys
from pathlib import Path
from arena.go.game import Rules
from arena.players.registry import Registry
from arena.match.runner import play_event
from arena.match.schedule import Match
from arena.match.schedule import Terms
from arena.results.store import Store
first, second = map(Registry().resolve, ["fast-random", "random"])
with Store.open(Path(sys.argv[1]), write=True) as store:
    list(play_event(Match(first, second, Terms(Rules.preset("cgos", 7)), 2), store, 1))
    assert store.count() == 2
"""


def test_playing_a_match_never_loads_torch_here_nor_in_a_worker(tmp_path: Path) -> None:
    here = loaded(MATCH, str(tmp_path / "arena.db"))
    assert "numba" in here
    assert here & {"torch", "pandas", "onnxruntime"} == set()
    spy = scripted("SPY", marker=str(tmp_path / "loaded"))
    with Store.open(tmp_path / "spied.db", write=True) as store:
        for _ in play_event(Match(spy, scripted("GOOD"), Terms(Rules.preset("cgos", 7)), 2), store, 1):
            pass
    worker = set((tmp_path / "loaded").read_text().split())
    assert {"numba", "arena.match.ready"} <= worker  # made ready once for all workers
    assert worker & {"torch", "pandas", "onnxruntime", "rich", "typer"} == set()
