"""What a running event keeps of the games that are over: hashes of them, which tell repeated ones, and sums."""

import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice

from played import match_of, record_of

from arena.go.record import GameRecord, GameSummary
from arena.match.runner import Update, play_event
from arena.match.schedule import Match
from arena.report.log import EventState
from arena.results.store import AT_ONCE

MOST = 160
"""Bytes per game of three sets of hashes: of ids, of games, and of pairs."""


@dataclass
class Stored:
    """Keeps games that it makes up as they are asked for, all of them different."""

    match: Match
    games: int

    def game_summaries(self, *, event: str) -> Iterator[list[GameSummary]]:
        games = self._scores(event)
        while some := [*islice(games, AT_ONCE)]:
            yield some

    def _scores(self, event: str) -> Iterator[GameSummary]:
        first = record_of(self.match, 0, "sl")
        known = {name: getattr(first, name) for name in GameSummary._fields if name not in ("seq", "id", "canonical")}
        for number in range(1, self.games + 1):
            black, white = ("black", "white") if number % 2 else ("white", "black")
            players = {"black": known[black], "white": known[white]}
            digest = blake2b(b"%d" % number, digest_size=16).digest()
            yield GameSummary(seq=number, id=f"{event}/{number:05d}", canonical=digest, **(known | players))

    def count(self, *, event: str) -> int:
        return self.games

    def append(self, records: Sequence[GameRecord], patience: float) -> None:
        raise AssertionError("nothing is left to be played")

    def check_place(self) -> None:
        pass


def test_the_process_of_an_event_keeps_nothing_of_a_game_but_its_hashes() -> None:
    match = replace(match_of("alphago", "sl", games=2), games=50_000)
    match = replace(match, terms=replace(match.terms, openings=4))
    view = EventState(match)
    taken = {}
    for number, update in enumerate(play_event(match, Stored(match, match.games), 1)):
        assert update == Update(update.records, resumed=True) and len(update.records) <= AT_ONCE
        view.add(update)
        if number == 0:
            tracemalloc.start()
        taken[view.standings.games] = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert (view.stored, view.resumed, view.standings.tally.games, view.standings.tally.repeats) == (
        50_000,
        50_000,
        50_000,
        0,
    )
    assert (taken[50_000] - taken[20_000]) / 30_000 < MOST
