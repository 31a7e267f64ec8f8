"""A sequential test from the command to its verdict: the same games give the same figures, whatever plays them.

The players toss a coin that the game's seed decides, and the games that the first of them wins are short.
"""

import re
from pathlib import Path

import pytest
from helpers.commandline import Done, arena
from helpers.learners import STRONG, WEAK, install, learn
from helpers.scripted_bots import first_wins

from arena.go.game import Rules
from arena.match.runner import play_event
from arena.match.schedule import Match, Terms
from arena.players.player import Player
from arena.ratings import PairCounts, Sprt
from arena.results.store import Store

FIGURES = ("SPRT", "Elo", "Score", "By colour")
"""The lines that a match's summary and its report have in common."""


def coins(games: int, elo: float, test: Sprt | None = None, boards: int = 8) -> Match:
    kind = f"helpers.scripted_bots:COIN_{boards}"
    heads, tails = (
        Player(name, f"coin-{boards}", kind, {"first": name == "heads", "elo": elo}, "tests")
        for name in ("heads", "tails")
    )
    return Match(heads, tails, Terms(Rules.preset(size=9)), games, test=test)


def figures(done: Done) -> dict[str, str]:
    """The lines of a summary or a report that tell of strength, and in front the headline."""
    assert done.returncode in (0, 1), done.stderr
    (headline,) = re.findall(r"^\S.* (?:beat|lost to|and \S+ drew) .* in \d+ games$", done.stdout, re.MULTILINE)
    found = {label: re.findall(rf"^  {label} +(\S.*)$", done.stdout, re.MULTILINE) for label in FIGURES}
    return {"": headline} | {label: lines[0] for label, lines in found.items()}


def stored(folder: Path) -> int:
    with Store.open(folder / "results" / "arena.db") as store:
        return store.count()


# --- The same verdict, whatever plays ---


def test_a_test_comes_to_the_same_figures_on_any_number_of_workers_and_boards_and_after_interruptions(
    tmp_path: Path,
) -> None:
    test, elo = Sprt(0, 120), 150
    won = [first_wins(game.seed, elo) for game in coins(2000, elo).pairings()]
    pairs = [one + other for one, other in zip(won[0::2], won[1::2], strict=True)]
    count = next(n for n in range(1, 1000) if test.state(PairCounts.of(pairs[:n])).is_decided)
    pairs = pairs[:count]
    verdicts = []
    for boards, workers, stops in ((8, 1, 0), (64, 2, 0), (8, 2, 2)):
        match = coins(2000, elo, test, boards)
        with Store.open(tmp_path / f"{boards}-{workers}.db", write=True) as store:
            for _ in range(stops):
                updates = play_event(match, store, workers)
                next((update for update in updates if update.records and not update.resumed), None)  # or it is decided
                updates.close()  # type: ignore[attr-defined]
            found = match.standings()
            for update in play_event(match, store, workers):
                found.add(update.records)
            assert found.is_decided and found.games <= store.count()
        tally = found.between("heads", "tails")
        verdicts.append((found.tests[match.event].state, tally.results(), tally.counts, found.lengths))
    assert verdicts[0] == verdicts[1] == verdicts[2]
    state, results, counts, _ = verdicts[0]
    assert state == test.state(PairCounts.of(pairs))
    assert (results.wins, results.games, counts.games) == (sum(pairs), 2 * len(pairs), 2 * len(pairs))


def test_a_gate_continues_the_test_of_the_same_players_with_another_seed_and_once_decided_plays_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "site", monkeypatch)
    learn(tmp_path / "results" / "checkpoints" / "start", STRONG, rows=1000)
    learn(tmp_path / "results" / "checkpoints" / "mine", WEAK, rows=2000)
    gate = ("gate", "mine", "--against", "learner", "--size", "5", "--workers", "1", "--sprt", "0", "200")
    begun = arena(*gate, "-n", "2", folder=tmp_path)
    assert begun.returncode == 1
    assert "Undecided after 2 games: learner keeps start. More games (-n) continue the test." in begun.stdout
    more = arena(*gate, "--seed", "2", "-n", "5000", folder=tmp_path)
    assert "These two played 2 games before (gate-learner-mine-" in more.stdout
    assert "continues, from --seed 1." in more.stdout
    assert "Rejected: learner keeps " in more.stdout and more.returncode == 1
    first, games = figures(more), stored(tmp_path)
    again = arena(*gate, "--seed", "3", folder=tmp_path)
    assert figures(again) == first == figures(arena("report", folder=tmp_path)) and stored(tmp_path) == games
    assert f"These two played {games} games before" in again.stdout
    assert not (tmp_path / "arena.toml").exists()
    with Store.open(tmp_path / "results" / "arena.db") as store:
        assert len(store.events()) == 1
