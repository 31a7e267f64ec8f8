"""A stored game played again by a real worker: what comes out the same, what doesn't and why, what can't be played."""

from dataclasses import replace
from pathlib import Path

import pytest
from commandline import arena, refused
from scripted_bots import scripted

from arena import UserError
from arena.contract.adjudication import OFF
from arena.go.coords import BLACK
from arena.go.game import Ending, Outcome, Rules
from arena.go.record import GameRecord
from arena.match.runner import play_event
from arena.match.schedule import Match, Terms, Tournament, event_to_json
from arena.players.player import Player
from arena.players.registry import Registry
from arena.results.replay import Comparison, ReplayError, doubts, play_again, players_of
from arena.results.store import Event, Store

SEVEN = Rules.preset("cgos", 7)


@pytest.fixture(autouse=True)
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripted bots as an installed package: a database names nothing that is run."""
    about = tmp_path / "site" / "scripts-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: scripts\nVersion: 1.0\n")
    points = "".join(f"{kind.lower()} = scripted_bots:{kind}\n" for kind in ("SEGFAULT", "GOOD", "PERSON"))
    (about / "entry_points.txt").write_text(f"[arena.bots]\n{points}")
    monkeypatch.syspath_prepend(str(about.parent))


def note(store: Store, event: Match | Tournament) -> None:
    """Store an event as the command line does."""
    store.add_players({entry.identity: entry for entry in event.players.values()})
    store.add_event(Event(event.event, "2026-01-01", event.settings, event_to_json(event)))


def played(store: Store, *players: Player, games: int = 2, workers: int = 1) -> list[GameRecord]:
    """The games of a tournament that was played into the store."""
    event = Tournament("league", players, Terms(SEVEN), games)
    note(store, event)
    for _ in play_event(event, store, workers):
        pass
    return list(store.games())


def replayed(store: Store, record: GameRecord, registry: Registry | None = None) -> Comparison:
    return play_again(record, *players_of(record, store, registry or Registry()))


def test_a_game_of_two_workers_comes_out_the_same_again(store: Store) -> None:
    bots = ("mcts:playouts=20,max_tree_mb=1", "sl", "alphago:visits=8,max_tree_mb=1")
    for record in played(store, *map(Registry().resolve, bots), workers=2)[:3]:
        found = replayed(store, record)
        assert found.is_identical and str(found).startswith("identical: "), str(found)


def test_a_fault_happens_again(store: Store) -> None:
    record = played(store, scripted("SEGFAULT"), scripted("GOOD"))[0]
    found = replayed(store, record)
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


def test_who_played_then_plays_with_the_settings_of_then(store: Store, tmp_path: Path) -> None:
    (toml := tmp_path / "arena.toml").write_text('[bots.quick]\nkind = "uct"\nplayouts = 9\nmax_tree_mb = 1\n')
    record = played(store, *map(Registry(toml).resolve, ("random", "quick@simulations=5")), games=1)[0]
    toml.write_text(toml.read_text().replace("playouts = 9", "playouts = 50"))
    assert replayed(store, record, Registry(toml)).is_identical


def test_another_net_in_the_folder_is_refused(store: Store) -> None:
    lost, other = replace(Registry().resolve("sl"), net="0" * 64), Registry().resolve("random")
    note(store, Tournament("league", (lost, other), Terms(SEVEN), 1))
    record = GameRecord(SEVEN, (), None, "sl", "random", event="league", id="league/00001")
    record = replace(record, black_player=lost.identity, white_player=other.identity)
    with pytest.raises(UserError, match=r"the net of sl in .* was replaced \(00000000"):
        replayed(store, record)


def test_who_can_not_repeat_himself_is_said_or_refused(store: Store, tmp_path: Path) -> None:
    timed = Registry().resolve("mcts@seconds=1")
    (toml := tmp_path / "arena.toml").write_text("[bots.engine]\nkind = 'gtp'\ncommand = 'some-engine'\n")
    registry = Registry(toml)
    engine, person = registry.resolve("engine"), scripted("PERSON")
    note(store, match := Match(timed, engine, Terms(SEVEN, adjudication=OFF), 2))
    store.add_players({person.identity: person})
    record = GameRecord(SEVEN, (), Outcome(BLACK, Ending.TIME), timed.name, engine.name, event=match.event)
    record = replace(record, black_player=timed.identity, white_player=engine.identity)
    players, adjudication = players_of(record, store, registry)
    assert adjudication == OFF
    reasons = ["mcts@seconds=1 thinks by the clock", "engine is an engine from outside", "the game was lost on time"]
    assert list(doubts(record, players)) == reasons
    with pytest.raises(ReplayError, match="somebody can't play again: its settings are not stored"):
        players_of(replace(record, black="somebody", black_player="unknown"), store, registry)
    with pytest.raises(ReplayError, match="person is a person"):
        players_of(replace(record, black="person", black_player=person.identity), store, registry)


def test_a_database_from_elsewhere_names_nothing_that_is_run(store: Store) -> None:
    """It named a command, or a module to import, for a player that was shown as 'random'."""
    shell = replace(Registry().resolve("gtp:command=touch here"), name="random")
    other = replace(Registry().resolve("fast-random"), factory="this:BOT")
    note(store, match := Match(shell, other, Terms(SEVEN), 2))
    record = GameRecord(SEVEN, (), None, "random", "fast-random", event=match.event)
    record = replace(record, black_player=shell.identity, white_player=other.identity)
    with pytest.raises(ReplayError, match="random can't play again: no bot of yours runs 'touch here'; put it into"):
        players_of(record, store, Registry())
    players, _ = players_of(replace(record, black="other", black_player=other.identity), store, Registry())
    assert {player.factory for player in players.values()} == {"bots.fast_random:BOT"}


def test_a_game_is_replayed_on_the_command_line(tmp_path: Path) -> None:
    arena("match", "fast-random", "mcts:playouts=9", "-n", "4", "--size", "7", folder=tmp_path)
    done = arena("show", "3", "--replay", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "  identical: " in done.stdout and "A B C D E F G" in done.stdout and "\x1b" not in done.stdout
    with Store.open(tmp_path / "results" / "arena.db", write=True) as store:
        record = store.find_game("2")
        store.append([replace(record, id=f"{record.event}/00009", moves=(*record.moves[:-3], *record.moves[-2:]))])
    differs = arena("show", "5", "--replay", folder=tmp_path)
    assert differs.returncode == 1 and "/00009  differs at move" in differs.stdout
    (tmp_path / "game.sgf").write_text("(;SZ[9];B[ee])")
    refused(arena("show", "game.sgf", "--replay", folder=tmp_path), "game.sgf", "a stored game", "its number")
