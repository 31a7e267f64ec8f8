"""Who a player is: its kind, settings, net and code. A player that has changed isn't taken for the one it was."""

import json
import shutil
import sys
from contextlib import closing
from pathlib import Path

import pytest

from arena import UserError
from arena.contract.bot import Limits
from arena.contract.code import code_of, load_kind
from arena.go.game import Game, Rules
from arena.match.runner import play_event
from arena.match.schedule import Match, Terms
from arena.players.player import Player
from arena.players.registry import Registry
from arena.results.store import Store
from bots.nets.checkpoint import SHIPPED_NETS

BOT = """
from dataclasses import replace
from bots.random import BOT as RANDOM
BOT = replace(RANDOM, revision=0)
"""


@pytest.mark.parametrize("imported", ["import brain", "from brain import *", "def late():\n    from brain import x"])
def test_a_module_that_a_bot_imports_from_its_own_folder_is_part_of_who_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imported: str
) -> None:
    """With another brain.py its games were merged with those of the old one."""
    monkeypatch.setattr(sys, "path", [*sys.path])  # the bot puts its folder there
    path, own = "import sys, os\nsys.path.insert(0, os.path.dirname(__file__))\n", "import random\n"
    (tmp_path / "clever.py").write_text(path + own + imported + BOT)
    (tmp_path / "brain.py").write_text("from deep.thought import x\n")
    (tmp_path / "deep").mkdir()
    for name in ("random.py", "other.py", "deep/thought.py"):  # the first two aren't what it imports
        (tmp_path / name).write_text("x = 1\n")
    factory = f"{tmp_path / 'clever.py'}:BOT"
    seen = [code_of(factory, None)]
    for name in ("random.py", "other.py", "brain.py", "deep/thought.py"):
        with (tmp_path / name).open("a") as file:
            file.write("x = 2\n")
        seen.append(code_of(factory, None))
    assert seen[0] == seen[1] == seen[2] and len({*seen}) == 3
    for name in ("brain", "deep", "deep.thought"):
        sys.modules.pop(name, None)


def test_an_engine_that_was_replaced_under_its_path_is_a_new_player(tmp_path: Path) -> None:
    program, config = tmp_path / "engine.py", tmp_path / "arena.toml"
    config.write_text(f"[bots.engine]\nkind = 'gtp'\ncommand = '{sys.executable} {program} good'\n")
    identities = []
    for text in ("print(1)", "print(1)", "print(2)"):
        program.write_text(text)
        identities.append(Registry(config).resolve("engine").identity)
    assert identities[0] == identities[1] != identities[2]


def test_a_net_that_is_replaced_before_it_is_loaded_ends_the_event(tmp_path: Path) -> None:
    """All games were stored under the net that lay there when the command began."""
    folder = tmp_path / "net"
    shutil.copytree(SHIPPED_NETS / "sl-9x9", folder)
    player = Registry().resolve(f"checkpoint:{folder}")
    shutil.rmtree(folder)
    shutil.copytree(SHIPPED_NETS / "rl-9x9", folder)
    match = Match(player, Registry().resolve("fast-random"), Terms(Rules.preset("cgos", 9)), 4)
    with Store.open(tmp_path / "arena.db", write=True) as store:
        with pytest.raises(UserError, match=f"the net of .* in {folder} was replaced .* run the same command again"):
            list(play_event(match, store, 1))
        assert store.count() == 0


def test_the_numbers_that_a_net_is_run_with_are_part_of_who_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    """precision=auto was one player, in int8 on one processor and in fp32 on another."""
    players = {}
    for fast in (True, False):
        monkeypatch.setattr("bots.nets.checkpoint.has_fast_int8", lambda fast=fast: fast)
        players[fast] = Registry().resolve("sl")
    assert [player.settings["precision"] for player in players.values()] == ["int8", "fp32"]
    assert players[True].identity != players[False].identity
    assert Registry().resolve("sl:precision=fp32").identity == players[False].identity


# --- Revisions of the bots that ship ---

GOLDEN = Path(__file__).parents[1] / "golden" / "games.json"

PLAYERS = {
    "random": ("random", 7, 60),
    "fast-random": ("fast-random", 7, 60),
    "uct": ("mcts:playouts=60", 7, 60),
    "policy": ("sl:precision=fp32", 9, 20),
    "alphago": ("alphago:visits=24,precision=fp32", 9, 20),
    "human-like": ("human-like:precision=fp32", 9, 20),
}
"""A player of each kind that ships and decides by itself, a size of board, and how many moves of a game are compared:
few of a net, whose last digits differ between processors."""


def moves_of(player: Player, rules: Rules, most: int) -> list[int]:
    """The first moves of a game of the player with itself."""
    game = Game(rules, seed=7)
    with closing(player.build()) as bot:
        while len(game.moves) < most and not game.is_over:
            move = bot.choose(game, Limits()).move
            if move is None:
                break
            game.play(move)
    return [int(move) for move in game.moves]


@pytest.mark.parametrize("kind", sorted(PLAYERS))
def test_a_bot_that_ships_plays_as_its_revision_did_or_has_a_new_revision(kind: str) -> None:
    golden = json.loads(GOLDEN.read_text("utf-8"))
    name, size, most = PLAYERS[kind]
    player = Registry().resolve(name)
    played = {
        "revision": load_kind(player.factory).revision,
        **{rules: moves_of(player, Rules.preset(rules, size), most) for rules in ("cgos", "japanese")},
    }
    assert played == golden[kind], (
        f"the games of {kind} have changed: raise its revision, so that it is another player, and put this into "
        f"{GOLDEN.name}: {json.dumps(played)}"
    )


def test_every_kind_that_ships_has_a_revision_or_finds_out_its_code() -> None:
    kinds = {entry.kind: entry.bot_kind for entry in Registry().entries if entry.factory.startswith("bots.")}
    assert {kind for kind, made in kinds.items() if not made.revision} == {"gtp"}
    assert set(kinds) - {"gtp", "human"} == set(PLAYERS)
