"""Stored games played again by real workers: what comes out the same, what doesn't and why, what can't be played."""

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from commandline import arena, refused
from played import console_of, entry, match_of, output_of, record_of, snapshot_of
from scripted_bots import scripted

from arena.go.coords import BLACK
from arena.go.game import Ending, Outcome, Rules
from arena.go.record import GameRecord
from arena.match.crew import Progress
from arena.match.runner import play_event
from arena.match.schedule import Match, Terms, Tournament, event_to_json
from arena.players.player import Player
from arena.players.registry import Registry
from arena.report.game import show_replay
from arena.results.replay import Casting, Comparison, ReplayError, play_again
from arena.results.store import Event, Store

SEVEN = Rules.preset("cgos", 7)


@pytest.fixture(autouse=True)
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripted bots as an installed package: a database names nothing that is run."""
    about = tmp_path / "site" / "scripts-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: scripts\nVersion: 1.0\n")
    kinds = ("CRASH", "OCCUPIED", "SEGFAULT", "GOOD", "PERSON")
    points = "".join(f"{kind.lower()} = scripted_bots:{kind}\n" for kind in kinds)
    (about / "entry_points.txt").write_text(f"[arena.bots]\n{points}")
    monkeypatch.syspath_prepend(str(about.parent))


def note(store: Store, event: Match | Tournament, plan: bool = True) -> None:
    """Store an event as the command line does."""
    store.add_players({entry.identity: entry for entry in event.players.values()})
    settings = json.dumps(event.settings, sort_keys=True)
    store.add_event(Event(event.event, "2026-01-01", settings, event_to_json(event) if plan else ""))


def played(store: Store, *players: Player, games: int = 2, workers: int = 1) -> list[GameRecord]:
    """The games of a tournament that was played into the store."""
    event = Tournament("league", players, Terms(SEVEN), games)
    note(store, event)
    for _ in play_event(event, store, workers):
        pass
    return list(store.games())


def replayed(
    store: Store, records: list[GameRecord], results: Path, registry: Registry | None = None
) -> list[Comparison]:
    casting = Casting(store, registry or Registry(), results)
    by_id = {record.id: record for record in records}
    with closing(play_again([(record, casting.cast(record)) for record in records], 1)) as updates:
        return [Comparison.of(by_id[again.id], again) for update in updates for again in update.records]


def test_games_played_side_by_side_by_two_workers_come_out_the_same_again(store: Store, tmp_path: Path) -> None:
    bots = ("mcts:playouts=20,max_tree_mb=1", "sl", "alphago:visits=8,max_tree_mb=1")
    records = played(store, *map(Registry().resolve, bots), workers=2)
    assert len(records) == 6
    found = replayed(store, records, tmp_path)
    assert [str(comparison) for comparison in found if not comparison.is_identical] == []
    assert {comparison.stored.id for comparison in found} == {record.id for record in records}


@pytest.mark.parametrize("kind", ["CRASH", "SEGFAULT"])
def test_a_fault_happens_again(store: Store, tmp_path: Path, kind: str) -> None:
    record = played(store, scripted(kind), scripted("GOOD"))[0]
    (found,) = replayed(store, [record], tmp_path)
    assert found.is_identical, str(found)
    assert found.again.reason == record.reason


def test_a_difference_is_named_by_its_move_or_by_the_end() -> None:
    stored = GameRecord(SEVEN, (8, 9, 10, 49, 49), Outcome.scored(3.5))
    assert str(Comparison.of(stored, replace(stored))) == "identical: 5 moves, B+3.5"
    other = replace(stored, moves=(8, 9, 11, 49, 49))
    assert str(Comparison.of(stored, other)) == "differs at move 3: stored D6, now E6"
    longer = replace(stored, moves=(*stored.moves, 12))
    assert str(Comparison.of(stored, longer)) == "differs at move 6: stored the end, B+3.5, now F6"
    lost = replace(stored, outcome=Outcome(BLACK, Ending.CRASH), reason="sl: no idea")
    found = Comparison.of(stored, lost)
    assert str(found) == "differs at move 6: stored the end, B+3.5, now the end, B+F (sl: no idea)"
    assert not found.is_identical
    assert not Comparison.of(stored, replace(stored, adjudged=BLACK)).is_identical


TOML = """
[bots.quick]
kind = "uct"
playouts = 9
max_tree_mb = 1
"""


def test_who_has_changed_since_is_named_and_plays_as_he_was(store: Store, tmp_path: Path) -> None:
    toml = tmp_path / "arena.toml"
    toml.write_text(TOML)
    record = played(store, *map(Registry(toml).resolve, ("random", "quick")), games=1)[0]
    toml.write_text(TOML.replace("playouts = 9", "playouts = 50"))
    changed = Registry(toml)
    cast = Casting(store, changed, tmp_path).cast(record)
    assert cast.notes == ("quick is another player now (playouts 9, now 50); who played then plays",)
    (found,) = replayed(store, [record], tmp_path, changed)
    assert found.is_identical


def test_a_player_that_left_the_plan_is_found_among_those_that_were_stored(store: Store, tmp_path: Path) -> None:
    quick, slow = (Registry().resolve(f"mcts:playouts={playouts},max_tree_mb=1@simulations=3") for playouts in (9, 30))
    record = played(store, Registry().resolve("random"), quick, games=1)[0]
    note(store, Tournament("league", (Registry().resolve("random"), slow), Terms(SEVEN), 1))
    cast = Casting(store, Registry(), tmp_path).cast(record)
    assert {entry.identity for _, entry in cast.players} == {record.black_player, record.white_player}
    (found,) = replayed(store, [record], tmp_path)
    assert found.is_identical
    old = Tournament("league", (Registry().resolve("random"), slow), Terms(SEVEN), 1)
    note(store, old, plan=False)  # as an older arena
    again = Casting(store, Registry(), tmp_path).cast(record)
    assert [entry.identity for _, entry in again.players] == [entry.identity for _, entry in cast.players]


def test_a_net_that_is_another_now_is_refused_and_one_that_moved_is_found(store: Store, tmp_path: Path) -> None:
    net = Registry().resolve("sl")
    lost = replace(net, net="0" * 64)
    moved = replace(net, settings={**net.settings, "checkpoint": "/nowhere/sl"})
    stored = GameRecord(SEVEN, (), None, "sl", "random", event="league", black_player=lost.identity)
    stored = replace(stored, white_player=entry("random").identity)
    note(store, Tournament("league", (lost, entry("random")), Terms(SEVEN), 1))
    words = f"sl played with the net 00000000 .* there now is {net.net[:8]}; put it back"
    with pytest.raises(ReplayError, match=words):
        Casting(store, Registry(), tmp_path).cast(stored)
    note(store, Tournament("league", (moved, entry("random")), Terms(SEVEN), 1))
    cast = Casting(store, Registry(), tmp_path).cast(replace(stored, black_player=moved.identity))
    assert Path(dict(dict(cast.players)["sl"].settings)["checkpoint"]).is_dir()


def test_who_can_not_repeat_himself_is_said_or_refused(store: Store, tmp_path: Path) -> None:
    timed = Registry().resolve("mcts@seconds=1")
    toml = tmp_path / "arena.toml"
    toml.write_text("[bots.engine]\nkind = 'gtp'\ncommand = 'some-engine'\n")
    engine = Registry(toml).resolve("engine")
    note(store, Match(timed, engine, Terms(SEVEN), 2))
    event = Match(timed, engine, Terms(SEVEN), 2).event
    record = GameRecord(SEVEN, (), None, timed.name, engine.name, event=event)
    record = replace(record, black_player=timed.identity, white_player=engine.identity)
    casting = Casting(store, Registry(toml), tmp_path)
    assert casting.cast(record).doubts == ("mcts@seconds=1 thinks by the clock", "engine is an engine from outside")
    late = replace(record, outcome=Outcome(BLACK, Ending.TIME))
    assert "a game was lost on time" in casting.cast(late).doubts
    with pytest.raises(ReplayError, match="somebody can't play again: its settings are not stored"):
        casting.cast(replace(record, black="somebody", black_player="unknown"))
    person = scripted("PERSON")
    match = Match(person, engine, Terms(SEVEN), 2)
    note(store, match)
    record = replace(record, event=match.event, black="person", black_player=person.identity)
    with pytest.raises(ReplayError, match="person is a person"):
        Casting(store, Registry(toml), tmp_path).cast(record)


def test_a_database_from_elsewhere_names_nothing_that_is_run(store: Store, tmp_path: Path) -> None:
    """Its plan named a command, or a module to import, for a player that was shown as 'random'."""
    shell = replace(Registry().resolve("gtp:command=touch here"), name="random")
    other = replace(Registry().resolve("fast-random"), factory="this:BOT")
    match = Match(shell, other, Terms(SEVEN), 2)
    note(store, match)
    record = GameRecord(SEVEN, (), None, "random", "fast-random", event=match.event)
    record = replace(record, black_player=shell.identity, white_player=other.identity)
    words = "random can't play again: no bot of yours runs 'touch here'; put it into arena"
    with pytest.raises(ReplayError, match=words):
        Casting(store, Registry(), tmp_path).cast(record)
    cast = Casting(store, Registry(), tmp_path).cast(replace(record, black="fast-random", black_player=other.identity))
    assert {player.factory for _, player in cast.players} == {"bots.fast_random:BOT"}


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("width", [40, 120])
def test_progress_and_differences_are_shown_on_any_terminal(width: int, encoding: str) -> None:
    match = match_of("alphago", "sl", games=4)
    stored = {record.id: record for record in (record_of(match, number, "sl") for number in range(2))}
    same, other = stored.values()
    differs = replace(other, moves=(*other.moves[:9], *other.moves[8:]))
    console = console_of(width, 24, encoding=encoding, no_color=True)
    updates = (update for update in (Progress(snapshots=(snapshot_of(match, 1, "E5"),)), Progress((same, differs))))
    compared = show_replay(stored, updates, console, show=True)
    assert [found.is_identical for found in compared] == [True, False]
    shown = output_of(console)
    assert "differs at move 10" in " ".join(shown.split()) and "after 24 moves" in " ".join(shown.split())
    assert "identical:" not in shown  # of several, only what differs has a line


def test_games_are_replayed_on_the_command_line(tmp_path: Path) -> None:
    arena("match", "fast-random", "mcts:playouts=9", "-n", "4", "--size", "7", folder=tmp_path)
    done = arena("show", "3", "--replay", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "  identical: " in done.stdout and "A B C D E F G" in done.stdout and "\x1b" not in done.stdout
    with Store.open(tmp_path / "results" / "arena.db", write=True) as store:
        event = store.events()[0]
        record = store.find_game("2")
        store.append([replace(record, id=f"{event.id}/00009", moves=(*record.moves[:-3], *record.moves[-2:]))])
    every = arena("games", "--replay", "--event", event.id, folder=tmp_path)
    assert every.returncode == 1
    assert "/00009  differs at move" in every.stdout and "4 of 5 games are identical; 1 differs" in every.stdout
    sample = arena("games", "--replay", "-n", "2", folder=tmp_path)
    assert sample.returncode == 0 and "2 of 2 games are identical" in sample.stdout
    refused(arena("games", "--replay", "--event", "none", folder=tmp_path), "there is no event 'none'")
    (tmp_path / "game.sgf").write_text("(;SZ[9];B[ee])")
    refused(arena("show", "game.sgf", "--replay", folder=tmp_path), "game.sgf", "a stored game", "its number")
