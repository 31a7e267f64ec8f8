"""Any bytes from elsewhere are read or refused in one line: kept inputs, a few that are made of them, and very many.

An input is a name and bytes, as a file of ``corpus/KIND`` has them; what is found to fail becomes a file there.
``FUZZ=20000 pytest -m slow tests/fuzz -k rows`` tries that many inputs of a kind.
"""

import gzip
import json
import lzma
import os
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.events import earlier_wins, games_of, player, store_event
from helpers.nets import HEADS, PLANES, SIZE, Head, small_model, small_net
from helpers.reference import ReferenceBoard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from arena import UserError
from arena.contract.bot import Bot, Candidate, Decision, Limits
from arena.go.collection import read_path
from arena.go.game import Game, Rules
from arena.go.sgf import read_sgf, write_sgf
from arena.gtp.server import Server
from arena.match.schedule import Gate, Match, Terms, Tournament
from arena.players.registry import Registry
from arena.ratings import Sprt
from arena.results.league import event_summaries, player_ratings, read_report
from arena.results.store import Store
from bots.nets.catalogue import load_network
from bots.nets.checkpoint import MANIFEST, SHIPPED_NETS, WEIGHTS, Checkpoint
from bots.nets.inference import Evaluator
from bots.nets.network import Network, NetworkConfig
from bots.nets.rollout import RolloutPolicy

Input = tuple[str, bytes]
CORPUS = sorted((Path(__file__).parent / "corpus").glob("*/*"))
FEW, MANY = 40, int(os.environ.get("FUZZ", "200000"))
FIVE = Rules.preset("cgos", SIZE)
FIGURES = ("places", "endings", "tallies", "comparison", "course", "rules")  # of a report


def one_line(work: Callable[[], Any]) -> None:
    """Whatever a user can do something about is said in one line, and nothing else is raised."""
    try:
        work()
    except UserError as error:
        assert str(error) and "\n" not in str(error), repr(str(error))


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def json_of(data: bytes) -> dict[str, Any]:
    """The object in an input; an empty one for an input that has none."""
    with suppress(ValueError, RecursionError):
        return dict(found) if isinstance(found := json.loads(data), dict) else {}
    return {}


# --- What must hold ---


def check_archive(name: str, data: bytes) -> None:
    with folder() as place:
        (place / name).write_bytes(data)
        one_line(lambda: list(read_path(place / name)))


def check_sgf(name: str, data: bytes) -> None:
    """A game that is read is written and read as the same game."""

    def read() -> None:
        record = read_sgf(data)
        again = read_sgf(write_sgf(record))
        assert (again.moves, again.setup, again.rules.size) == (record.moves, record.setup, record.rules.size)
        record.replay()

    one_line(read)


def check_toml(name: str, data: bytes) -> None:
    with folder() as place:
        (place / "arena.toml").write_bytes(data)
        one_line(lambda: Registry(place / "arena.toml").tournaments)


class Lots(Bot):
    """Any point, legal or not, a pass or a resignation."""

    def choose(self, game: Game, limits: Limits) -> Decision:
        drawn = game.move_seed() % (game.rules.size**2 + 2)
        return Decision(drawn if drawn <= game.rules.size**2 else None)

    def analyse(self, game: Game, limits: Limits) -> list[Candidate]:
        return [Candidate(point, 5 - point, 0.4, (point, 7)) for point in range(3)]


def check_gtp(name: str, data: bytes) -> None:
    """Every answer is GTP, and no group on the board is without a liberty."""
    server = Server(Lots(), FIVE, analyses=True)
    for line in data.decode("utf-8", "replace").split("\n"):
        text, reports = server.answer(f"{line}\n")
        if not text:
            continue
        if reports is not None:
            text += "".join(f"{report}\n" for report in islice(reports, 1) if report) + "\n"
        assert re.fullmatch(r"[=?][0-9]* ?(?:[^\n]|\n(?!\n))*\n\n", text), text
        shown, _ = server.answer("showboard\n")
        rows = [row.split()[1:-1] for row in shown.splitlines() if re.match(r" ?\d+ [.+XO] ", row)]
        board = ReferenceBoard(len(rows))
        signs = {(row, column): sign for row, line in enumerate(rows) for column, sign in enumerate(line)}
        board.stones = {point: "XO".index(sign) + 1 for point, sign in signs.items() if sign in "XO"}
        assert len(signs) == len(rows) ** 2 > 0 and all(map(board.liberties, board.stones)), shown


@cache
def results() -> bytes:
    """A database of a gate, a tournament and their games."""
    pupil = player("pupil", net="old" * 8)
    nets = [replace(pupil, net=name * 8, settings={"checkpoint": f"/nowhere/{name}"}) for name in ("old", "new")]
    nets[1] = replace(nets[1], name="pupil:checkpoint=new")
    match = Match(nets[1], nets[0], Terms(FIVE), 4, test=Sprt(0, 30), gate=Gate("pupil", "new"))
    with folder() as place:
        with Store.open(place / "arena.db", write=True) as store:
            for event in (match, Tournament("league", (player("one"), player("two")), Terms(FIVE), 2)):
                store_event(store, event, games_of(event, earlier_wins(event)))
        with closing(sqlite3.connect(place / "arena.db")) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")  # so that a copy of the bytes is all of it
        return (place / "arena.db").read_bytes()


def check_rows(name: str, data: bytes) -> None:
    """Rows that no arena stored are read, or refused in one line, wherever they are read."""
    with folder() as place:
        path = place / "arena.db"
        path.write_bytes(results())
        with closing(sqlite3.connect(path)) as connection, suppress(sqlite3.Error, ValueError):
            connection.executescript(data.decode())
            connection.commit()
        with Store.open(path) as store:
            one_line(lambda: list(store.games()))
            one_line(lambda: [str(pool) for pool in store.pools()])
            one_line(lambda: player_ratings(store))
            one_line(lambda: event_summaries(store))
            for event in ("league", None):
                one_line(lambda event=event: [getattr(read_report(store, event), name) for name in FIGURES])


WHOLE = json.loads((SHIPPED_NETS / "sl-9x9" / MANIFEST).read_text("utf-8"))
TINY = NetworkConfig(planes=PLANES, blocks=1, channels=4, pooling_blocks=1, pooled_channels=2, head_channels=2)
DESCRIBED = {name: getattr(TINY, name) for name in TINY.__dataclass_fields__}


@cache
def weights() -> bytes:
    return save(Network(TINY).state_dict())


def check_manifest(name: str, data: bytes) -> None:
    """What is changed in a manifest, or all of one, by the input's name."""
    with folder() as place:
        (place / MANIFEST).write_bytes(
            data if name.startswith("whole") else json.dumps({**WHOLE, **json_of(data)}).encode()
        )
        one_line(lambda: Checkpoint.open(place))


def check_weights(name: str, data: bytes) -> None:
    """A description that doesn't fit the weights, or weights that don't fit it, by the input's name."""
    with folder() as place:
        if name.startswith("rollout"):
            net = small_net(place / "net", b"", data, network={"family": "rollout", "features": "rollout-1"})
            one_line(lambda: RolloutPolicy.open(net))
            return
        is_network = name.startswith("network")
        described = {**DESCRIBED, **json_of(data)} if is_network else DESCRIBED
        net = small_net(place / "net", b"", weights() if is_network else data, network=described)
        one_line(lambda: load_network(Checkpoint.open(net)))


def check_heads(name: str, data: bytes) -> None:
    """A net that is loaded answers with finite numbers, one of each kind a position, or is refused."""
    with folder() as place:
        if name.endswith(".onnx"):
            net = small_net(place / "net", data)
        else:
            told = json.loads(data)
            heads = {title: Head(**head) for title, head in told["heads"].items()}
            net = small_net(place / "net", small_model(heads), **told.get("manifest", {}))

        def play() -> None:
            evaluator = Evaluator(Checkpoint.open(net), "fp32")
            size, planes = evaluator.checkpoint.manifest.size, evaluator.checkpoint.manifest.planes
            for number in (1, 3):
                positions = np.ones((number, planes, size, size), np.float32)
                policy, win_rates = evaluator.evaluate(positions)
                assert policy.shape == (number, size * size + 1) and np.isfinite(policy).all()
                assert win_rates.shape == (number,) and (np.isfinite(win_rates).all() or not evaluator.has_value)
                if evaluator.has_ownership:
                    assert evaluator.ownership(positions).shape == (number, size * size)

        one_line(play)


# --- Inputs that are made up ---

WORDS = [
    *b"0 -1 5 19 3.5 nan 1e999 null true x ' [ ] { } ( ; \\ : , = \" [] {} [[99],[-1]] score".split(),
    b"\n",
    b"9" * 30,
]
"""What takes the place of a word of an input, beside other words of its kind."""


@cache
def seeds(kind: str) -> tuple[list[Input], list[bytes]]:
    """What inputs of this kind are made of: whole ones, and words."""
    inputs = [(path.name, path.read_bytes()) for path in CORPUS if path.parent.name == kind]
    if kind == "archive":
        game = (CORPUS[0].parents[1] / "sgf" / "game.sgf").read_bytes()
        inputs += [(f"a.{end}", game) for end in ("sgf", "sgfs", "sgfs.gz", "sgfs.xz", "zip", "tar", "tgz", "tar.bz2")]
        inputs += [("a.sgfs.gz", gzip.compress(game)), ("a.sgfs.xz", lzma.compress(game))]
    elif kind == "rows":
        with closing(sqlite3.connect(":memory:")) as database:
            database.deserialize(results())
            for table in ("games", "events", "players"):
                for column in [row[1] for row in database.execute(f"PRAGMA table_info({table})")]:
                    change = f"UPDATE {table} SET {column} = {{}} WHERE rowid = 1;\n"
                    inputs.append(("changes.sql", change.format("'x'").encode()))
                    with suppress(sqlite3.Error):  # it isn't JSON
                        for (key,) in database.execute(f"SELECT fullkey FROM {table}, json_tree({column}) LIMIT 60"):
                            inside = change.format(f"json_set({column}, '{key}', json('1'))")
                            inputs.append(("changes.sql", inside.encode()))
    elif kind == "weights":
        inputs += [("weights.safetensors", weights()), ("network.json", json.dumps(DESCRIBED).encode())]
        inputs.append(("rollout.safetensors", (SHIPPED_NETS / "rollout-9x9" / WEIGHTS).read_bytes()))
    elif kind == "manifest":
        inputs.append(("whole.json", json.dumps(WHOLE).encode()))
    elif kind == "heads":
        inputs = [("model.onnx", small_model(HEADS))]
    return inputs, WORDS + sorted({word for _, data in inputs for word in re.findall(rb"[\w.$-]{1,40}", data[:3000])})


@st.composite
def made_of(draw: Any, kind: str) -> Input:
    """A whole input of which some words are replaced or left out, or which ends early."""
    inputs, words = seeds(kind)
    name, content = draw(st.sampled_from(inputs))
    for _ in range(draw(st.integers(1, 4))):
        spans = [found.span() for found in re.finditer(rb"\w+|\W", content[:3000])] or [(0, 0)]
        start, end = draw(st.sampled_from(spans))
        new = draw(st.sampled_from(words) | st.binary(max_size=8))
        content = content[:start] + new + content[draw(st.sampled_from([start, end, end, end])) :]
    return name, content[: draw(st.just(None) | st.integers(0, len(content)))]


HEAD = st.fixed_dictionaries(
    {},
    optional={
        "columns": st.integers(0, 30) | st.sampled_from([3, 25, 26]),
        "fill": st.sampled_from([0.0, 1e38, -1e38, 3.0]),
        "rank": st.integers(2, 4),
        "type": st.sampled_from(["FLOAT", "DOUBLE", "FLOAT16", "INT64", "BOOL", "STRING"]),
        "alone": st.booleans(),
    },
)
MANIFESTS = st.fixed_dictionaries({}, optional={key: st.integers(-1, 30) for key in ("planes", "smallest", "size")})
NETS = st.fixed_dictionaries(
    {"heads": st.dictionaries(st.sampled_from(["policy", "value", "ownership", "more"]), HEAD, max_size=4)},
    optional={"manifest": MANIFESTS},
)

TARGETS: dict[str, tuple[Callable[[str, bytes], None], int]] = {
    "archive": (check_archive, 1),
    "gtp": (check_gtp, 1),
    "heads": (check_heads, 4),
    "manifest": (check_manifest, 1),
    "rows": (check_rows, 8),
    "sgf": (check_sgf, 1),
    "toml": (check_toml, 1),
    "weights": (check_weights, 1),
}
"""What is checked for each kind, and about how many times as long an input takes as others do."""


def fuzz(kind: str, examples: int) -> None:
    """Raises what the check raises, with the input that has the fewest bytes."""
    inputs = made_of(kind)
    if kind == "heads":
        inputs |= NETS.map(lambda made: ("heads.json", json.dumps(made).encode()))
    how = {"suppress_health_check": list(HealthCheck), "print_blob": True, "derandomize": examples <= FEW}
    limits = settings(max_examples=examples, **how)
    limits(given(inputs)(lambda made: TARGETS[kind][0](*made)))()


@pytest.mark.parametrize("path", CORPUS, ids=[f"{path.parent.name}/{path.name}" for path in CORPUS])
def test_an_input_that_is_kept(path: Path) -> None:
    TARGETS[path.parent.name][0](path.name, path.read_bytes())


@pytest.mark.parametrize("kind", TARGETS)
def test_inputs_that_are_made_up(kind: str) -> None:
    fuzz(kind, FEW // TARGETS[kind][1])


@pytest.mark.slow
@pytest.mark.parametrize("kind", TARGETS)
def test_very_many_inputs_that_are_made_up(kind: str) -> None:
    fuzz(kind, MANY)
