"""What a running event keeps of the games that are over: hashes of ids and openings, results, and sums."""

import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from helpers.games import match_of, record_of

from arena.go.record import GameSummary
from arena.match.runner import play_event
from arena.match.schedule import Match
from arena.results.event_state import EventState

MOST = 160
"""Bytes per game: of ids and openings."""


@dataclass
class Stored:
    """Keeps games that it makes up as they are asked for, all of them different."""

    match: Match

    def game_summaries(self, *, event: str) -> Iterator[list[GameSummary]]:
        first = record_of(self.match, 0, "sl")
        known = {name: getattr(first, name) for name in GameSummary._fields if name not in ("seq", "id", "opening_key")}
        games: list[GameSummary] = []
        for number in range(1, self.match.games + 1):
            black, white = ("black", "white") if number % 2 else ("white", "black")
            players = {"black": known[black], "white": known[white]}
            key = int.from_bytes(blake2b(b"%d" % ((number + 1) // 2), digest_size=8).digest())
            games.append(GameSummary(seq=number, id=f"{event}/{number:05d}", opening_key=key, **(known | players)))
            if number % 1000 == 0:
                yield games
                games = []

    def journals(self, event: str) -> Path:
        return Path("nowhere", event)

    def append(self, records: Any, patience: float) -> None:
        raise AssertionError("nothing is left to be played")

    def check_place(self) -> None:
        pass


def test_the_process_of_an_event_keeps_nothing_of_a_game_but_its_hashes() -> None:
    match = replace(match_of("alphago", "sl", games=2), games=50_000)
    match = replace(match, terms=replace(match.terms, openings=4))
    view, taken = EventState(match), {}
    for number, update in enumerate(play_event(match, Stored(match), 1)):
        assert update.resumed
        view.add(update)
        if number == 0:
            tracemalloc.start()
        taken[view.standings.games] = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    tally = view.standings.tally
    assert (view.stored, view.resumed, tally.games, len(tally.scores)) == (50_000, 50_000, 50_000, 25_000)
    assert (taken[50_000] - taken[20_000]) / 30_000 < MOST
