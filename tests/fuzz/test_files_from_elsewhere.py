"""Any bytes in a file that users hand over: it is read or refused in one line, and nothing else is raised."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arena import UserError
from arena.go.collection import read_path
from arena.players.registry import Registry
from bots.nets.checkpoint import MANIFEST, SHIPPED, Checkpoint

WHOLE = json.loads((SHIPPED / "sl-9x9" / MANIFEST).read_text("utf-8"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
ARCHIVES = st.sampled_from(["a.sgf", "a.sgfs", "a.sgfs.gz", "a.sgfs.xz", "a.zip", "a.tar", "a.tgz", "a.tar.bz2"])
WORDS = st.sampled_from(
    [
        "[bots.a]\n",
        'kind = "uct"\n',
        "playouts = ",
        "[tournaments.b]\n",
        "bots = [",
        '"a", ',
        "]\n",
        "9",
        "-1",
        '"',
        "nan",
    ]
)


def check_archive(name: str, data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_bytes(data)
        one_line(lambda: list(read_path(Path(folder) / name)))


def check_table(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "arena.toml").write_text(text, "utf-8", "replace")
        one_line(lambda: Registry(Path(folder) / "arena.toml").tournaments)


def check_manifest(changed: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / MANIFEST).write_text(json.dumps({**WHOLE, **changed}))
        one_line(lambda: Checkpoint.open(folder))


def one_line(work) -> None:  # type: ignore[no-untyped-def]
    try:
        work()
    except UserError as error:
        assert str(error)


archives = given(ARCHIVES, st.binary(max_size=600))
tables = given(st.text(max_size=80) | st.lists(WORDS, max_size=12).map("".join))
manifests = given(st.dictionaries(st.sampled_from([*WHOLE, "more"]), VALUES, max_size=3))

few, many = settings(max_examples=60, deadline=None), settings(max_examples=200_000, deadline=None)

test_archives = few(archives(example("a.zip", b"PK\x05\x06" + bytes(18))(check_archive)))
test_tables = few(tables(example("[bots.a]\nkind = 'uct'\nplayouts = nan")(check_table)))
test_manifests = few(manifests(example({"files": {"weights.safetensors": 3}})(check_manifest)))

test_archives_for_long = pytest.mark.slow(many(archives(check_archive)))
test_tables_for_long = pytest.mark.slow(many(tables(check_table)))
test_manifests_for_long = pytest.mark.slow(many(manifests(check_manifest)))
