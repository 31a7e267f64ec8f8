"""The gate: who is let in and who isn't, what is written and what never changes, and what history says of it later."""

from pathlib import Path

import pytest
from helpers.commandline import arena, refused
from helpers.events import games_of, player, store_event
from helpers.learners import STRONG, WEAK, install, learn

from arena import ConfigError
from arena.go.game import Rules
from arena.match.schedule import Gate, Match, Terms
from arena.players.config import set_bot
from arena.players.registry import Registry
from arena.ratings import Sprt
from arena.results.gate import Candidates, count_candidates, entry_for
from arena.results.store import Store
from bots.nets.checkpoint import Checkpoint, find

RULES = Rules.preset("cgos", 5)

SMALL = ("--size", "5", "--workers", "1", "--sprt", "0", "200", "-n", "60")

CONFIG = """# Bots of mine.

[bots.pupil]   # in lessons
kind = "learner"
patience = 3
checkpoint = "start"  # what it began with

[tournaments.school]
bots = ["pupil", "random"] # two
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place with the entry ``learner``, which passes, and a checkpoint ``mine`` that plays better."""
    install(tmp_path / "site", monkeypatch)
    learn(tmp_path / "results" / "checkpoints" / "start", WEAK, rows=1000)
    learn(tmp_path / "results" / "checkpoints" / "mine", STRONG, rows=20_000)
    return tmp_path


def checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "results" / "checkpoints").iterdir())


def gates_of(folder: Path) -> list[dict[str, object]]:
    return [dict(gate) for gate in Checkpoint.open(folder).manifest.gates]


# --- Played ---


def test_a_stronger_checkpoint_takes_its_entrys_place_and_only_that_changes(folder: Path) -> None:
    (folder / "arena.toml").write_text(CONFIG)
    mine = folder / "results" / "checkpoints" / "mine"
    net = Checkpoint.open(mine).identity
    kept = f"mine-{net[:8]}"
    gate = ("gate", "checkpoint:mine", "--against", "pupil", *SMALL)

    done = arena(*gate, folder=folder)
    assert done.returncode == 0, done.stderr
    assert f"Accepted: pupil now plays {kept} instead of start." in done.stdout
    assert f'arena.toml now has checkpoint = "{kept}" in [bots.pupil]' in done.stdout
    assert 'To undo it, write checkpoint = "start" there again.' in done.stdout
    assert (folder / "arena.toml").read_text() == CONFIG.replace('"start"', f'"{kept}"')
    assert Registry(folder / "arena.toml", folder / "results").resolve("pupil").net == net
    (said,) = gates_of(mine)
    assert said["verdict"] == "accepted" and said["entry"] == "pupil" and said["opponent_checkpoint"] == "start"
    assert said["games"] == said["won"] + said["drawn"] + said["lost"] and said["llr"] > 2.9  # type: ignore[operator]
    assert [said] == gates_of(mine.with_name(kept))
    assert said["low"] is None or said["low"] < said["elo"]  # type: ignore[operator]
    assert said["candidates"] == {"accepted": 1, "rejected": 0, "undecided": 0} and said["error_rate"] == 0.05
    with Store.open(folder / "results" / "arena.db") as store:
        assert store.event(str(said["event"])).id.startswith("gate-pupil-mine-")

    learn(mine, WEAK, b"")  # it is trained on, for the worse
    assert Registry(folder / "arena.toml", folder / "results").resolve("pupil").net == net
    again = arena("gate", f"results/checkpoints/{kept}", "--against", "pupil", folder=folder)
    refused(again, f"pupil already plays {kept}", net[:8])


def test_an_entry_that_was_changed_meanwhile_is_left_alone(folder: Path) -> None:
    changed = '[bots.learner]\ncheckpoint = "mine"\n'
    line = f"{folder / 'arena.toml'} {changed.replace(chr(10), '|')}".encode()
    learn(folder / "results" / "checkpoints" / "sly", STRONG, line)
    done = arena("gate", "sly", "--against", "learner", *SMALL, folder=folder)
    assert done.returncode == 2
    assert "learner was changed in arena.toml while the gate was played" in done.stderr
    assert (folder / "arena.toml").read_text() == changed
    assert checkpoints(folder) == ["mine", "sly", "start"]


# --- Wrong input ---


REFUSALS = {
    "nosuch": "no checkpoint 'nosuch'",
    "mine --against random": "random plays without a checkpoint",
    "mine --against learner:patience=2": "is not an entry's name",
    "mine --against learner --size 19": "can't play 19x19",
    "start --against learner": "learner already plays start",
    "mine --against mcts": "mine: is not a rollout policy",
    "mine --against learner --config broken.toml": "broken.toml: isn't valid TOML",
}


def test_what_can_not_be_gated_is_refused_in_a_line_and_nothing_is_left(folder: Path) -> None:
    (folder / "broken.toml").write_text("[bots.sl\n")
    for arguments, words in REFUSALS.items():
        refused(arena("gate", *arguments.split(), folder=folder), words)
    assert checkpoints(folder) == ["mine", "start"]
    assert not (folder / "results" / "arena.db").exists()
    assert gates_of(folder / "results" / "checkpoints" / "mine") == []


# --- arena.toml ---


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[bots.sl]\r\ncheckpoint='old'\r\n# c\r\n", '[bots.sl]\r\ncheckpoint="new"\r\n# c\r\n'),
        ("[bots.b]\na = 1\n", '[bots.b]\na = 1\n\n[bots.sl]\ncheckpoint = "new"\n'),
        ('bots.sl.checkpoint = "old"  # d\n', 'bots.sl.checkpoint = "new"  # d\n'),
    ],
)
def test_a_setting_is_changed_in_place_through_a_link_and_every_other_byte_is_kept(
    tmp_path: Path, before: str, after: str
) -> None:
    path, link = tmp_path / "real.toml", tmp_path / "arena.toml"
    path.write_bytes(before.encode())
    path.chmod(0o640)
    link.symlink_to("real.toml")
    change = set_bot(link, "sl", "checkpoint", "new")
    assert path.read_bytes().decode() == after and link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640 and len([*tmp_path.iterdir()]) == 2
    assert change.before == ("old" if "old" in before else None)


def test_a_file_that_can_not_be_changed_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "arena.toml"
    for text in ("[bots.sl\n", "bots.sl = 5\n", '[[bots.sl]]\nkind = "uct"\n'):
        path.write_text(text)
        with pytest.raises(ConfigError):
            set_bot(path, "sl", "checkpoint", "new")
        assert path.read_text() == text


# --- What the games say ---


def test_the_entry_that_stands_for_a_trainers_checkpoints(folder: Path) -> None:
    (folder / "arena.toml").write_text("")
    registry = Registry(folder / "arena.toml", folder / "results")
    entries = {"rl": "rl", "sl": "sl", "zero": "zero", "value": "sl", "random": "sl", "learner": "learner"}
    for trainer, entry in entries.items():
        assert entry_for(registry, learn(folder / "net", STRONG, trainer=trainer).folder) == entry
    assert entry_for(registry, find("rollout-9x9")) == "mcts"


def test_the_nets_that_one_net_was_tested_against_are_counted_once_each(tmp_path: Path) -> None:
    """Of twenty equal nets, each gated at 5 %, one passes with 64 %."""
    terms, winners = Terms(RULES), {"up": "up", "down": "base", "few": "few"}

    def gate(name: str, games: int, base: str = "net of base", entry: str = "sl") -> Match:
        first, second = player(name, net=f"net of {name}"), player("base", net=base)
        return Match(first, second, terms, games, test=Sprt(0, 200), gate=Gate(entry, name))

    gates = [gate("up", 60), gate("down", 60), gate("few", 2), gate("down", 2, base="older"), gate("up", 2, entry="rl")]
    with Store.open(tmp_path / "arena.db", write=True) as store:
        for match in gates:
            store_event(store, match, games_of(match, lambda pairing, match=match: winners[match.first.name]))
        found = count_candidates(store, gates[0])
    assert found == Candidates(accepted=1, rejected=1, undecided=1)
    assert Candidates(0, 20, 0).error_rate(0.05) == pytest.approx(0.64, abs=0.005)
