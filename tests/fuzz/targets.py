"""What is fuzzed: for each kind of input from elsewhere how it is made up, and what must hold whatever is in it.

An input is a name and bytes, as a file of ``corpus/KIND`` has them: what is found to fail becomes a file there.
"""

import json
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from reference import neighbours
from safetensors.torch import save
from small_nets import HEADS, PLANES, SIZE, Head, small_model, small_net
from stored_events import earlier_wins, games_of, player, store_event

from arena import UserError
from arena.contract.bot import Bot, Candidate, Decision, Limits
from arena.go.collection import read_path
from arena.go.game import Game, Rules
from arena.go.sgf import read_sgf, write_sgf
from arena.gtp.server import Server
from arena.match.schedule import Gate, Match, Terms, Tournament
from arena.players.registry import Registry
from arena.ratings import Sprt
from arena.results.league import overviews, player_ratings, read_report
from arena.results.store import Store
from bots.nets.catalogue import load_network
from bots.nets.checkpoint import MANIFEST, SHIPPED, WEIGHTS, Checkpoint
from bots.nets.inference import Evaluator
from bots.nets.network import Network, NetworkConfig
from bots.nets.rollout import RolloutPolicy

Input = tuple[str, bytes]
FIVE = Rules.preset("cgos", SIZE)


@dataclass(frozen=True, slots=True)
class Target:
    """``check`` takes an input of ``inputs`` and fails where something else than the promised is raised or answered."""

    inputs: st.SearchStrategy[Input]
    check: Callable[[str, bytes], None]
    cost: int = 1
    """How many times as long an example takes as others do, about."""


def one_line(work: Callable[[], Any], *faults: type[Exception]) -> None:
    """Whatever a user can do something about is said in one line, and nothing else is raised."""
    try:
        work()
    except (UserError, *faults) as error:
        assert str(error) and "\n" not in str(error), repr(str(error))


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def in_utf8(content: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    return content.map(lambda text: text.encode("utf-8", "replace"))


def named(name: str, content: st.SearchStrategy[bytes]) -> st.SearchStrategy[Input]:
    return st.tuples(st.just(name), content)


def lines(words: list[str], most: int) -> st.SearchStrategy[bytes]:
    """Lines made of these words, and of others."""
    word = st.sampled_from(words) | st.text(max_size=6)
    line = st.lists(word, max_size=5).map(" ".join)
    return in_utf8(st.lists(line, max_size=most).map(lambda some: "".join(f"{one}\n" for one in some)))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def in_json(content: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    return content.map(lambda value: json.dumps(value).encode())


def damaged(whole: bytes) -> st.SearchStrategy[bytes]:
    """The beginning of a file, or all of it, with some bytes in another's place, most often near its beginning."""
    place = st.integers(0, min(2000, len(whole))) | st.integers(0, len(whole))
    change = st.tuples(place, st.binary(min_size=1, max_size=8))

    def made(cut: int, changes: list[tuple[int, bytes]]) -> bytes:
        content = bytearray(whole[:cut])
        for start, other in changes:
            content[start : start + len(other)] = other
        return bytes(content)

    return st.builds(made, place | st.just(len(whole)), st.lists(change, max_size=3))


# --- Files ---

ARCHIVES = ("a.sgf", "a.sgfs", "a.sgfs.gz", "a.sgfs.xz", "a.zip", "a.tar", "a.tgz", "a.tar.bz2")
SGF = """
    ( ) (; ; ; ; [ ] \\ : SZ[5] SZ[5:7] GM[1] FF[4] B[cc] W[tt] W[] B[ab] AB[aa:ee] HA[2] AW[bb]
    KM[7.5] KM[nan] RE[B+R] RE[W+3.5] RU[Japanese] CA[UTF-8] CA[utf-16] PL[W]
""".split()
TOML = [
    "[bots.a]\n",
    'kind = "uct"\n',
    "playouts = ",
    "[tournaments.b]\n",
    "bots = [",
    '"a", ',
    "]\n",
    *'9"',
    "-1",
    "nan",
]


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


def check_table(name: str, data: bytes) -> None:
    with folder() as place:
        (place / "arena.toml").write_bytes(data)
        one_line(lambda: Registry(place / "arena.toml").tournaments)


# --- Go Text Protocol ---

GTP = """
    boardsize 5 19 komi -3 1e999 play genmove b white A1 C3 pass undo clear_board fixed_handicap place_free_handicap
    set_free_handicap time_settings time_left 7 # kata-set-rules japanese {"ko":"SIMPLE"} set_random_seed final_score
    final_status_list dead kata-analyze lz-analyze interval maxmoves rootInfo ownership true avoid allow A1,C3
    kata-genmove_analyze
""".split()
ANSWER = re.compile(r"[=?][0-9]* ?(?:[^\n]|\n(?!\n))*\n\n")


class Lots(Bot):
    """Any point, legal or not, a pass or a resignation."""

    def choose(self, game: Game, limits: Limits) -> Decision:
        drawn = game.move_seed() % (game.rules.size**2 + 2)
        return Decision(drawn if drawn <= game.rules.size**2 else None)

    def analyse(self, game: Game, limits: Limits) -> list[Candidate]:
        return [Candidate(point, 5 - point, 0.4, (point, 7)) for point in range(3)]


def check_server(name: str, data: bytes) -> None:
    """Every answer is GTP, and what lies on the board afterwards can lie there."""
    server = Server(Lots(), FIVE, analyses=True)
    for line in data.decode("utf-8", "replace").split("\n"):
        answer = server.answer(f"{line}\n")
        if answer is None:
            continue
        text = answer.text
        if answer.reports is not None:
            text += "".join(f"{report}\n" for report in islice(answer.reports, 1) if report) + "\n"
        assert ANSWER.fullmatch(text), text
        check_board(server)


def check_board(server: Server) -> None:
    """No group is without a liberty, and what is legal is empty."""
    board, legal = (server.answer(f"{command}\n") for command in ("showboard", "all_legal b"))
    assert board is not None and legal is not None
    rows = [row.split()[1:-1] for row in board.text.splitlines()[2:] if re.match(" ?[0-9]+ ", row)]
    size = len(rows)
    at = {(row, column): sign for row, signs in enumerate(rows) for column, sign in enumerate(signs)}
    assert len(at) == size * size
    free = {point for point, sign in at.items() if sign not in "XO"}
    while more := {
        point
        for point in at.keys() - free
        if any(near in free and at[near] in (".", "+", at[point]) for near in neighbours(size, point))
    }:
        free |= more
    assert free == at.keys(), board.text
    for vertex in legal.text[1:].split():
        column = "ABCDEFGHJKLMNOPQRST".index(vertex[0])
        assert at[size - int(vertex[1:]), column] not in "XO", (vertex, board.text)


# --- Results ---


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


@cache
def columns() -> dict[str, list[str]]:
    """Those of each table."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(results())
        tables = ("games", "events", "players")
        return {table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")] for table in tables}


IN_JSON = (("games", "rules"), ("events", "settings"), ("events", "plan"), ("players", "player"))
"""Tables and columns whose values are JSON."""


def literal(value: object) -> str:
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return "NULL" if value is None else str(value) if isinstance(value, int | float) else quoted(str(value))


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''").replace("\0", "") + "'"


def rows() -> st.SearchStrategy[Input]:
    """Statements that change what is stored."""
    value = st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9)
    texts = ["[]", "{}", "null", "[" * 9999, "[[99],[-1]]", '{"x": 1}', "score"]
    value |= st.binary(max_size=60) | st.sampled_from(texts)
    whole = st.deferred(
        lambda: st.builds(
            "UPDATE {0[0]} SET {0[1]} = {2} WHERE rowid = {1};\n".format,
            st.sampled_from([(table, column) for table, some in columns().items() for column in some]),
            st.integers(1, 3),
            value.map(literal),
        )
    )
    inside = st.builds(
        (
            "UPDATE {0[0]} SET {0[1]} = json_set({0[1]}, (SELECT fullkey FROM json_tree({0[1]}) LIMIT 1 OFFSET {2}), "
            "json({3})) WHERE rowid = {1};\n"
        ).format,
        st.sampled_from(IN_JSON),
        st.integers(1, 3),
        st.integers(0, 9) | st.integers(0, 60),
        (VALUES.map(json.dumps) | st.just("1e999")).map(quoted),
    )
    statements = st.lists(whole | inside, min_size=1, max_size=3).map("".join)
    return named("changes.sql", in_utf8(statements))


def check_rows(name: str, data: bytes) -> None:
    """Rows that no arena stored are read, or refused in one line, wherever they are read."""
    with folder() as place:
        path = place / "arena.db"
        path.write_bytes(results())
        with closing(sqlite3.connect(path)) as connection, suppress(sqlite3.Error):
            connection.executescript(data.decode())
            connection.commit()
        with Store.open(path) as store:
            one_line(lambda: list(store.games()))
            one_line(lambda: [str(pool) for pool in store.pools()])
            one_line(lambda: player_ratings(store))
            one_line(lambda: overviews(store))
            one_line(lambda: check_report(store, "league"))
            one_line(lambda: check_report(store, None))


def check_report(store: Store, event: str | None) -> None:
    report = read_report(store, event)
    assert report.places is not None and report.endings is not None and report.check and report.course is not None
    assert report.rules


# --- Checkpoints ---

WHOLE = json.loads((SHIPPED / "sl-9x9" / MANIFEST).read_text("utf-8"))
TINY = NetworkConfig(planes=PLANES, blocks=1, channels=4, pooling_blocks=1, pooled_channels=2, head_channels=2)
DESCRIBED = {name: getattr(TINY, name) for name in TINY.__dataclass_fields__}


@cache
def weights() -> bytes:
    return save(Network(TINY).state_dict())


@cache
def model() -> bytes:
    return small_model(HEADS)


@cache
def learned() -> bytes:
    return (SHIPPED / "rollout-9x9" / WEIGHTS).read_bytes()


def check_manifest(name: str, data: bytes) -> None:
    """What is changed in a manifest, or all of one, by the input's name."""
    with folder() as place:
        whole = data if name.startswith("whole") else json.dumps({**WHOLE, **json.loads(data)}).encode()
        (place / MANIFEST).write_bytes(whole)
        one_line(lambda: Checkpoint.open(place))


def check_weights(name: str, data: bytes) -> None:
    """A description that doesn't fit the weights, or weights that don't fit it, by the input's name."""
    with folder() as place:
        if name.startswith("rollout"):
            network: dict[str, Any] = {"family": "rollout", "features": "rollout-1"}
            net = small_net(place / "net", b"", data, network=network)
            one_line(lambda: RolloutPolicy.open(net))
        elif name.startswith("network"):
            net = small_net(place / "net", b"", weights(), network={**DESCRIBED, **json.loads(data)})
            one_line(lambda: load_network(Checkpoint.open(net)))
        else:
            net = small_net(place / "net", b"", data, network=DESCRIBED)
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
SHAPES = st.fixed_dictionaries(
    {},
    optional={
        **{key: st.integers(-1, 30) for key in ("planes", "smallest", "largest", "size")},
        "encoder": st.sampled_from(["arena-17", "stones-1", "alphago-48", "", "../x"]),
        "network": st.sampled_from([{}, {"family": "alphago"}, {"family": []}, {"family": "rollout"}]),
    },
)
MADE = st.fixed_dictionaries(
    {"heads": st.dictionaries(st.sampled_from(["policy", "value", "ownership", "more"]), HEAD, max_size=4)},
    optional={"manifest": SHAPES},
)

TARGETS = {
    "archive": Target(st.tuples(st.sampled_from(ARCHIVES), st.binary(max_size=600)), check_archive),
    "gtp": Target(named("commands", lines(GTP, 12)), check_server),
    "heads": Target(
        named("heads.json", in_json(MADE)) | named("model.onnx", st.deferred(lambda: damaged(model()))),
        check_heads,
        cost=4,
    ),
    "manifest": Target(
        named("changed.json", in_json(st.dictionaries(st.sampled_from([*WHOLE, "more"]), VALUES, max_size=3))),
        check_manifest,
    ),
    "rows": Target(rows(), check_rows, cost=8),
    "sgf": Target(
        named("a.sgf", st.binary(max_size=80) | in_utf8(st.lists(st.sampled_from(SGF), max_size=20).map("".join))),
        check_sgf,
    ),
    "toml": Target(
        named("arena.toml", in_utf8(st.text(max_size=80) | st.lists(st.sampled_from(TOML), max_size=12).map("".join))),
        check_table,
    ),
    "weights": Target(
        named("weights.safetensors", st.deferred(lambda: damaged(weights())))
        | named("rollout.safetensors", st.deferred(lambda: damaged(learned())))
        | named("network.json", in_json(st.dictionaries(st.sampled_from([*DESCRIBED, "family"]), VALUES, max_size=3))),
        check_weights,
    ),
}
