"""The gate: who is let in and who isn't, what is written and what never changes, and what history says of it later."""

import json
import random
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from commandline import arena, refused
from learners import STRONG, WEAK, install, learn
from stored_events import finished, player

from arena import ConfigError
from arena.go.game import Rules
from arena.go.record import GameRecord
from arena.match.event import event_from_json, event_to_json
from arena.match.schedule import Gate, Match, Terms
from arena.players.config import set_bot
from arena.players.registry import Registry
from arena.ratings import Sprt
from arena.results.gate import Evidence, Ruling, entry_for
from arena.results.store import Store
from bots.nets import checkpoint
from bots.nets.checkpoint import MANIFEST, Checkpoint, add_gate, find

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
    with Store.open(folder / "results" / "arena.db") as store:
        assert store.event(str(said["event"])).id.startswith("gate-pupil-mine-")

    learn(mine, WEAK, b"")  # it is trained on, for the worse
    assert Registry(folder / "arena.toml", folder / "results").resolve("pupil").net == net
    again = arena("gate", f"results/checkpoints/{kept}", "--against", "pupil", folder=folder)
    refused(again, f"pupil already plays {kept}", net[:8])


def test_a_weaker_checkpoint_changes_nothing_but_its_own_manifest(folder: Path) -> None:
    weak = learn(folder / "results" / "checkpoints" / "weak", WEAK, b"").folder
    weights = Checkpoint.open(weak).weights.read_bytes()
    (folder / "bots.toml").write_text('[bots.learner]\ncheckpoint = "mine"\n')
    as_bot = ("--as", "learner:patience=7", "--config", "bots.toml")
    done = arena("gate", str(weak), "--against", "learner", *as_bot, *SMALL, folder=folder)
    assert done.returncode == 1, done.stderr
    assert "Rejected: learner keeps mine. No file was changed." in done.stdout
    assert "learner:patience=7,checkpoint=weak-" in done.stdout and "learner:patience=7,checkpoint=mine" in done.stdout
    assert not (folder / "arena.toml").exists()
    assert (folder / "bots.toml").read_text() == '[bots.learner]\ncheckpoint = "mine"\n'
    assert checkpoints(folder) == ["mine", "start", "weak"]
    assert [said["verdict"] for said in gates_of(weak)] == ["rejected"]
    assert Checkpoint.open(weak).weights.read_bytes() == weights


def test_a_checkpoint_that_ships_keeps_its_manifest_and_needs_no_copy(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = learn(folder / "shipped" / "master", STRONG, b"").folder
    monkeypatch.setattr(checkpoint, "SHIPPED", folder / "shipped")
    before = (shipped / MANIFEST).read_text()
    done = arena("gate", "master", "--against", "learner", *SMALL, folder=folder)
    assert done.returncode == 0, done.stderr
    assert (shipped / MANIFEST).read_text() == before
    assert (folder / "arena.toml").read_text() == '[bots.learner]\ncheckpoint = "master"\n'
    assert "arena.toml now has" in done.stdout and "To undo it, remove that line." in done.stdout
    assert checkpoints(folder) == ["mine", "start"]


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
    "mine --against learnr": "unknown bot 'learnr'; did you mean 'learner'?",
    "mine --against random": "random plays without a checkpoint",
    "mine --against learner:patience=2": "is not an entry's name",
    "mine --against learner --as random": "random plays without a checkpoint",
    "mine --against learner --size 19": "can't play 19x19",
    "mine --against learner -n 0": "0 games can't be played",
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
        ("", '[bots.sl]\ncheckpoint = "new"\n'),
        ('[bots.sl] # a\ncheckpoint = "old" # b\n', '[bots.sl] # a\ncheckpoint = "new" # b\n'),
        ("[bots.sl]\r\ncheckpoint='old'\r\n# c\r\n", '[bots.sl]\r\ncheckpoint="new"\r\n# c\r\n'),
        ("[bots.sl]\na = 1\n\n# next\n[bots.b]\n", '[bots.sl]\na = 1\n\n# next\ncheckpoint = "new"\n[bots.b]\n'),
        ("[bots.b]\na = 1\n", '[bots.b]\na = 1\n\n[bots.sl]\ncheckpoint = "new"\n'),
        ('bots.sl.checkpoint = "old"  # d\n', 'bots.sl.checkpoint = "new"  # d\n'),
        ('[bots]\nsl = {checkpoint = "old"} # e\n', '[bots]\nsl = {checkpoint = "new"} # e\n'),
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
    set_bot(link, "sl", "checkpoint", value := 'a "net"\\here')
    assert tomllib.loads(path.read_text())["bots"]["sl"]["checkpoint"] == value


def test_a_file_that_can_not_be_changed_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "arena.toml"
    for text in ("[bots.sl\n", "bots.sl = 5\n", 'bots = {b = {kind = "uct"}}\n', '[[bots.sl]]\nkind = "uct"\n'):
        path.write_text(text)
        with pytest.raises(ConfigError):
            set_bot(path, "sl", "checkpoint", "new")
        assert path.read_text() == text
    with pytest.raises(ConfigError, match="is not a file"):
        set_bot(tmp_path, "sl", "checkpoint", "new")


# --- What the games say ---


def gate_match(elo1: float = 35) -> Match:
    """The same player with the net ``new``, which asks for the place, against it with ``old``."""
    old, new = (
        replace(base, name=shown, settings={**base.settings, "checkpoint": f"/nowhere/{name}"})
        for name, shown in (("old", "pupil"), ("new", "pupil:checkpoint=new"))
        for base in [player("pupil", net=name * 8)]
    )
    return Match(new, old, Terms(RULES), 200, test=Sprt(0, elo1), gate=Gate("pupil", "new"))


def results(match: Match, share: float) -> list[GameRecord]:
    """All games; the first player wins each with this chance."""
    first, dice, games = match.first.name, random.Random(3), []
    for pairing in match.pairings():
        other = pairing.white if pairing.black == first else pairing.black
        games.append(finished(match, pairing, first if dice.random() < share else other))
    return games


@pytest.mark.parametrize(
    ("share", "ruling"), [(0.9, Ruling.ACCEPTED), (0.2, Ruling.REJECTED), (0.55, Ruling.UNDECIDED)]
)
def test_games_after_the_decision_say_nothing_more(share: float, ruling: Ruling) -> None:
    match = gate_match()
    found = Evidence(match, match.standings())
    found.standings.add(results(match, share))
    assert found.ruling is ruling and found.standings.is_decided is (ruling is not Ruling.UNDECIDED)
    assert (found.tally.games < 200) is found.standings.is_decided
    assert found.against == "old" and found.as_json()["opponent"] == match.second.identity
    noted = json.dumps(found.as_json())
    if found.standings.is_decided:
        for record in results(match, 1 - share):
            found.standings.add([replace(record, id=f"{match.event}/{int(record.id[-5:]) + 200:05}")])
    assert json.dumps(found.as_json()) == noted


def test_a_gate_is_an_event_of_its_own_that_survives_as_text() -> None:
    match, stricter = gate_match(), gate_match(elo1=50)
    plain = replace(match, gate=None)
    for each in (match, stricter, plain):
        again = event_from_json(event_to_json(each))  # without the factories of its bots, which aren't stored
        assert isinstance(again, Match) and (again.key, again.settings) == (each.key, each.settings)
        assert (again.gate, again.test, again.terms) == (each.gate, each.test, each.terms)
    assert match.key == stricter.key != plain.key
    assert replace(match, terms=replace(match.terms, seed=2, openings=4)).settings == match.settings


def test_the_entry_that_stands_for_a_trainers_checkpoints(folder: Path) -> None:
    (folder / "arena.toml").write_text("")
    registry = Registry(folder / "arena.toml", folder / "results")
    entries = {"rl": "rl", "sl": "sl", "zero": "zero", "value": "sl", "random": "sl", "learner": "learner"}
    for trainer, entry in entries.items():
        assert entry_for(registry, learn(folder / "net", STRONG, trainer=trainer).folder) == entry
    assert entry_for(registry, find("rollout-9x9")) == "mcts"


# --- Manifests ---


def test_a_manifest_takes_what_gates_said_and_opens_without(tmp_path: Path) -> None:
    net = learn(tmp_path / "net", STRONG)
    for event, verdict in (("one", "undecided"), ("two", "rejected"), ("one", "accepted")):
        add_gate(net.folder, {"event": event, "verdict": verdict})
    opened = Checkpoint.open(net.folder)
    assert [gate["event"] for gate in opened.manifest.gates] == ["two", "one"]
    assert opened.manifest.gates[1]["verdict"] == "accepted"
    assert opened.identity == net.identity and replace(opened.manifest, gates=()) == net.manifest
    assert learn(net.folder, WEAK).manifest.gates == ()
