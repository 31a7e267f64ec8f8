"""A sequential test from the command to its verdict: the same games give the same figures, whatever plays them.

The players toss a coin that the game's seed decides, and the games that the first of them wins are short.
"""

import csv
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from commandline import ROOT, Done, arena, arena_alone
from learners import STRONG, WEAK, install, learn
from scipy.stats import binom
from scripted_bots import first_wins

from arena.go.game import Rules
from arena.match.runner import play_event
from arena.match.schedule import Match, Terms
from arena.match.standings import Standings
from arena.players.player import Player
from arena.ratings import Sprt
from arena.report.text import first_sections
from arena.results.store import Store

FIGURES = ("SPRT", "Elo", "Score", "By colour")
"""The lines that a match's summary and its report have in common."""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where a process finds the kinds of coins by the number of boards that they play on at once."""
    info = tmp_path / "site" / "coins-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: coins\nVersion: 1.0\n")
    kinds = "\n".join(f"coin-{boards} = scripted_bots:COIN_{boards}" for boards in (1, 8, 64, 512))
    (info / "entry_points.txt").write_text(f"[arena.bots]\n{kinds}\n")
    monkeypatch.syspath_prepend(info.parent)
    return info.parent


def place(folder: Path, boards: int, elo: float) -> Path:
    """A folder with a coin of two sides, of which ``heads`` is so much stronger."""
    folder.mkdir()
    sides = [
        f'[bots.{name}]\nkind = "coin-{boards}"\nfirst = {first}\nelo = {float(elo)}\n'
        for name, first in (("heads", "true"), ("tails", "false"))
    ]
    (folder / "arena.toml").write_text("\n".join(sides))
    return folder


def coins(games: int, elo: float, test: Sprt | None = None, seed: int = 1) -> Match:
    heads, tails = (
        Player(name, "coin-8", "scripted_bots:COIN_8", {"first": name == "heads", "elo": elo}, "the tests")
        for name in ("heads", "tails")
    )
    return Match(heads, tails, Terms(Rules.preset(size=9), seed=seed), games, test=test)


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


def verdict_in_a_list(wins: Iterable[bool], elo0: float, elo1: float) -> tuple[list[int], float]:
    """How many games of each pair were won and what the log-likelihood ratio is when it first passes a bound."""
    pairs: list[int] = []
    games = iter(wins)
    while True:
        pairs.append(next(games) + next(games))
        ratio = log_likelihood_ratio(pairs, elo0, elo1)
        if abs(ratio) >= math.log(19):
            return pairs, ratio


def log_likelihood_ratio(pairs: list[int], elo0: float, elo1: float) -> float:
    """That of the generalised test, with a thousandth of a pair where a result of five never came."""
    counts = Counter(pairs)
    seen = {won / 2: counts[won] or 1e-3 for won in (0, 1, 2)} | {0.25: 1e-3, 0.75: 1e-3}
    ratio = 0.0
    for elo, sign in ((elo0, -1), (elo1, 1)):
        mean = 1 / (1 + 10 ** (-elo / 400))
        low, high = -1 / (1 - mean), 1 / mean
        for _ in range(200):
            tilt = (low + high) / 2
            slack = sum(count * (score - mean) / (1 + tilt * (score - mean)) for score, count in seen.items())
            low, high = (tilt, high) if slack > 0 else (low, tilt)
        ratio -= sign * sum(count * math.log(1 + tilt * (score - mean)) for score, count in seen.items())
    return ratio


def test_a_test_comes_to_the_same_figures_on_any_number_of_workers_and_boards(site: Path, tmp_path: Path) -> None:
    pairs, ratio = verdict_in_a_list((first_wins(game.seed, 60) for game in coins(5000, 60).pairings()), 0, 35)
    won, lost = sum(pairs), 2 * len(pairs) - sum(pairs)
    found = []
    for boards, workers in ((8, 1), (8, 8), (512, 2)):
        folder = place(tmp_path / f"{boards}-{workers}", boards, elo=60)
        match = ("match", "heads", "tails", "-n", "2000", "--sprt", "0", "35", "--workers", f"{workers}")
        found.append(figures(arena(*match, folder=folder)))
        assert found[-1] == found[0] == figures(arena("report", folder=folder))
    assert found[0][""] == f"heads beat tails {won}-{lost} in {won + lost} games"
    assert found[0]["SPRT"].startswith(f"accepted: heads is stronger by 35 Elo rather than 0 (LLR {ratio:+.2f}, ")
    assert f"from {len(pairs)} pairs;" in found[0]["Elo"]


def test_a_match_with_a_decided_test_has_one_elo_in_its_summary_its_report_arena_elo_and_elo_csv(
    site: Path, tmp_path: Path
) -> None:
    folder = place(tmp_path / "coins", 512, elo=150)
    done = arena("match", "heads", "tails", "-n", "2000", "--sprt", "0", "120", "--workers", "4", folder=folder)
    elo = figures(done)["Elo"].partition(" (95 %)")[0]
    counted = int(figures(done)[""].split()[-2])
    assert counted < stored(folder)  # of many boards at once, others were over when the test was decided
    assert figures(arena("report", folder=folder))["Elo"].startswith(
        f"{elo} (95 %) for heads, from {counted // 2} pair"
    )
    assert re.search(rf"^1 +heads +{re.escape(elo)} +{counted} ", arena("elo", folder=folder).stdout, re.MULTILINE)
    for name, command in (("elo.csv", ()), ("other.csv", ("elo", "--quiet", "--csv", "results/other.csv"))):
        if command:
            arena(*command, folder=folder)
        with (folder / "results" / name).open() as file:
            heads, tails = csv.DictReader(file)
        assert (heads["player"], heads["estimate"], heads["games"]) == ("heads", elo, f"{counted}")
        assert tails["games"] == f"{counted}"
    report = json.loads(arena("report", "--json", folder=folder).stdout)
    rating = json.loads(arena("elo", "--json", folder=folder).stdout.splitlines()[0])
    assert report["standings"][0]["estimate"] == rating["estimate"] == elo
    assert (report["counted"], report["games"]) == (counted, stored(folder))


def test_a_test_that_was_interrupted_decides_as_if_it_had_not_been(tmp_path: Path) -> None:
    match = coins(400, 100, Sprt(0, 80))
    verdicts = []
    for stops in (0, 3):
        with Store.open(tmp_path / f"{stops}.db", write=True) as store:
            for stop in range(stops):
                updates = play_event(match, store, workers=1 + stop % 2)
                next((update for update in updates if update.records and not update.resumed), None)  # or it is decided
                updates.close()  # type: ignore[attr-defined]
            found = standings_of(play_event(match, store, workers=2), match)
            assert found.is_decided and found.games <= store.count()
            tally = found.between(*match.players)
            verdicts.append((found.tests[match.event].state, tally.results(), tally.counts, tally.lengths))
    assert verdicts[0] == verdicts[1]


def standings_of(updates: Iterable[object], match: Match) -> Standings:
    found = match.standings()
    for update in updates:
        for record in update.records:  # type: ignore[attr-defined]
            found.add([record])
    return found


# --- One counter for all ---


@pytest.mark.parametrize("elo", [pytest.param(0, marks=pytest.mark.slow), 150])
def test_a_decided_match_played_again_plays_nothing_and_prints_what_its_report_says(
    site: Path, tmp_path: Path, elo: int
) -> None:
    folder = place(tmp_path / "coins", 8, elo)
    match = ("match", "heads", "tails", "--sprt", "0", "120", "--workers", "1")
    first = figures(arena_alone(*match, folder=folder, PYTHONPATH=path_of(site)))
    games = stored(folder)
    again = arena(*match, folder=folder)
    assert figures(again) == first == figures(arena("report", folder=folder))
    counted = int(first[""].split()[-2])
    assert f"{counted} of 5000 games were played earlier" in again.stdout
    assert counted <= games == stored(folder)

    played = coins(5000, elo, Sprt(0, 120))
    with Store.open(tmp_path / "arena.db", write=True) as store:
        found = standings_of(play_event(played, store, 2), played)
        strength = first_sections(found)[0].body
        assert isinstance(strength, tuple)
        assert {label: text for label, text in strength if label in FIGURES} == {
            label: first[label] for label in FIGURES
        }
        total = store.count()
        (only,) = play_event(played, store, 2)
        assert only.resumed and len(only.records) == counted and store.count() == total


def test_a_match_goes_on_when_its_test_is_made_stricter(site: Path, tmp_path: Path) -> None:
    folder = place(tmp_path / "coins", 8, elo=150)
    match = ("match", "heads", "tails", "--sprt", "0", "120", "--workers", "1", "-n", "1000")
    loose = figures(arena(*match, folder=folder))
    strict = figures(arena(*match, "--alpha", "0.001", folder=folder))
    assert "alpha 0.001" in strict["SPRT"] and "undecided" not in strict["SPRT"]
    assert int(strict[""].split()[-2]) > int(loose[""].split()[-2])
    assert strict == figures(arena("report", folder=folder))




def test_a_gate_with_another_seed_continues_the_test_of_the_same_players(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "site", monkeypatch)
    learn(tmp_path / "results" / "checkpoints" / "start", STRONG, rows=1000)
    learn(tmp_path / "results" / "checkpoints" / "mine", WEAK, rows=2000)
    gate = ("gate", "mine", "--against", "learner", "--size", "5", "--workers", "1", "--sprt", "0", "100")
    arena(*gate, "-n", "2", folder=tmp_path)
    more = arena(*gate, "--seed", "2", folder=tmp_path)
    assert "These two played 2 games before (gate-learner-mine-" in more.stdout
    assert "Its openings follow from --seed 1, as before." in more.stdout and "Rejected" in more.stdout
    first, games = figures(more), stored(tmp_path)
    for seed in ("3", "4"):
        again = arena(*gate, "--seed", seed, folder=tmp_path)
        assert figures(again) == first and stored(tmp_path) == games
        assert f"These two played {games} games before" in again.stdout
    with Store.open(tmp_path / "results" / "arena.db") as store:
        assert len(store.events()) == 1


# --- How often real tests err ---

RUNS = 400
CREWS = [(boards, workers) for boards in (8, 64, 512) for workers in (1, 2, 8)]


def path_of(site: Path) -> str:
    return os.pathsep.join([str(ROOT), str(ROOT / "tests"), str(site)])


def verdicts(site: Path, tmp_path: Path, elo: float, runs: Iterable[int]) -> Iterator[str]:
    """The first words of what tests of coins said that are so unequal; every run has games of its own."""
    for run in runs:
        boards, workers = CREWS[run % len(CREWS)]
        folder = place(tmp_path / f"{elo:g}-{run}", boards, elo)
        match = ("match", "heads", "tails", "--sprt", "0", "35", "--seed", f"{run}", "--workers", f"{workers}")
        done = arena_alone(*match, folder=folder, PYTHONPATH=path_of(site))
        yield figures(done)["SPRT"].partition(":")[0]


@pytest.mark.slow
@pytest.mark.parametrize(("elo", "wrong"), [(0, "accepted"), (35, "rejected")])
def test_real_tests_err_as_seldom_as_they_promise(site: Path, tmp_path: Path, elo: int, wrong: str) -> None:
    found = Counter(verdicts(site, tmp_path, elo, range(1, RUNS // 2 + 1)))
    assert found[wrong] <= binom.ppf(0.999, RUNS // 2, 0.05), found
