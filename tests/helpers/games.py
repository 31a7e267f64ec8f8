"""Events that were never played, their records, looks at their games, and consoles: what tests of the screen and of
tournaments share. No tests.
"""

import io
import random
import re
from collections.abc import Iterable, Iterator
from functools import cache
from time import sleep
from typing import Any

import numpy as np
from rich.cells import cell_len
from rich.console import RenderableType

from arena.go.coords import BLACK, WHITE, move_from_gtp, pass_move
from arena.go.game import Ending, Game, Outcome, Rules
from arena.go.record import GameRecord
from arena.match.event import Event as AnyEvent
from arena.match.runner import Update
from arena.match.schedule import Match, Pairing, Terms, Tournament
from arena.match.worker import BoardSnapshot
from arena.players.player import Player
from arena.report.style import Console

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


class Clock:
    """Time that passes when the test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


def entry(name: str) -> Player:
    return Player(name, "fast-random", "bots.fast_random:BOT", {"name": name}, "the tests")


def match_of(first: str = "alphago", second: str = "sl", games: int = 100, size: int = 9, openings: int = 0) -> Match:
    return Match(entry(first), entry(second), Terms(Rules.preset(size=size), openings), games)


def tournament_of(*names: str, games_each: int = 4, size: int = 7) -> Tournament:
    return Tournament("league", tuple(map(entry, names)), Terms(Rules.preset(size=size)), games_each)


def fresh(updates: Iterator[Update]) -> list[Any]:
    """The records of the games that were played now."""
    return [record for update in updates if not update.resumed for record in update.records]


def essence(records: Iterable[GameRecord]) -> dict[str, tuple[Any, ...]]:
    """All of a game but when it was played and how long it took, by its id; an id may be there only once."""
    games = list(records)
    found = {
        record.id: (record.black_player, record.white_player, record.seed, record.moves, record.outcome, record.reason)
        for record in games
    }
    assert len(found) == len(games)
    return found


@cache
def pairings_of(event: AnyEvent) -> list[Pairing]:
    return event.pairings()


def between(pairings: list[Pairing], one: str, other: str) -> list[Pairing]:
    return [pairing for pairing in pairings if {pairing.black, pairing.white} == {one, other}]


def record_of(
    event: AnyEvent,
    game: int | Pairing,
    winner: str | None,
    ending: Ending = Ending.SCORE,
    reason: str = "",
    seed: object = None,
) -> GameRecord:
    """A game of at most 20 random moves after its opening, of a pairing or its place in the event, that ended so."""
    pairing = game if isinstance(game, Pairing) else pairings_of(event)[game]
    played = Game(event.terms.rules, black=pairing.stones)
    for move in pairing.opening:
        played.play(move)
    dice = random.Random(pairing.id if seed is None else str(seed))
    for _ in range(20):
        if not (free := np.flatnonzero(played.legal_moves()[:-1])).size:
            break
        played.play(int(dice.choice(free)))
    colour = None if winner is None else BLACK if winner == pairing.black else WHITE
    scored = ending in (Ending.SCORE, Ending.MOVE_LIMIT)
    margin = None if not scored else 0.0 if colour is None else 2.5 if colour is BLACK else -2.5
    played.end(Outcome(colour, ending, margin))
    return GameRecord.from_game(
        played,
        id=pairing.id,
        event=event.event,
        black=pairing.black,
        white=pairing.white,
        opening=len(pairing.opening),
        reason=reason,
        black_seconds=2.0,
        white_seconds=1.0,
        black_player=event.players[pairing.black].identity,
        white_player=event.players[pairing.white].identity,
    )


def snapshot_of(
    event: AnyEvent,
    game: int | Pairing,
    moves: str,
    win_rates: tuple[float | None, ...] = (),
    ownership: bytes | None = None,
) -> BoardSnapshot:
    """A look at a game after moves such as ``"E5 C3"``."""
    pairing = game if isinstance(game, Pairing) else pairings_of(event)[game]
    played = tuple(move_from_gtp(word, event.terms.rules.size) for word in moves.split())
    return BoardSnapshot(pairing, played, win_rates or (None,) * len(played), ownership)


def records_of(match: Match, numbers: range, winner: str | None = "sl") -> tuple[GameRecord, ...]:
    return tuple(record_of(match, number, winner) for number in numbers)


def whole_match(match: Match) -> Iterator[Update]:
    """The first player wins but for two games, one of which the second loses by a crash."""
    first, second = match.players
    yield Update(resumed=True)
    yield Update(snapshots=(snapshot_of(match, 0, "E5 C3"),), workers=2)
    for number in range(match.games):
        ending = Ending.CRASH if number == 3 else Ending.SCORE
        reason = f"{second}: ValueError: no such point\n" if number == 3 else ""
        winner = second if number == 6 else first
        yield Update((record_of(match, number, winner, ending, reason),), workers=2)


def console_of(width: int, height: int, terminal: bool = True, encoding: str = "utf-8", **more: Any) -> Console:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="")
    more.setdefault("_environ", {"TERM": "xterm-256color"})
    return Console(file=file, width=width, height=height, force_terminal=terminal, **more)


def output_of(console: Console) -> str:
    console.file.flush()
    return console.file.buffer.getvalue().decode(console.encoding)  # type: ignore[attr-defined]


def lines_of(drawn: RenderableType, width: int, height: int, **more: Any) -> list[str]:
    """What is printed, without colours; it is as wide as the console at most."""
    console = console_of(width, height, no_color=True, color_system=None, **more)
    console.print(drawn)
    text = output_of(console)
    assert not CONTROL.search(text)
    assert max(map(cell_len, text.splitlines())) <= width
    return [line.rstrip() for line in text.splitlines()]


def words_of(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def random_game(seed: int, date: str = "", size: int = 7) -> GameRecord:
    game = Game(Rules.preset("cgos", size), seed)
    while not game.is_over and len(game.moves) < 60:
        game.play(game.random_move())
    game.outcome = Outcome.scored(game.margin())
    return GameRecord.from_game(game, date=date)


def endless(event: Match, boards: int = 4, closed: list[str] | None = None) -> Iterator[Update]:
    """Games that never end, until the generator is closed."""
    try:
        while True:
            sleep(0.02)
            snapshots = [snapshot_of(event, n, "E5 C3 D4 F6"[: 3 * n + 2]) for n in range(boards)]
            yield Update(snapshots=tuple(snapshots), workers=1)
    finally:
        if closed is not None:
            closed.append("closed")


FINAL_BOARD = [".X.XO.O", "XXXXOOO", ".O.XO.O", "XXXXOOO", ".X.XO.O", "XXXXOOO", "XXXXOOO"]
"""White's stone at B5 is dead: Black owns 28 points, White 21."""


def scored_game(rules: str, margin: float | None, order: int = 0) -> GameRecord:
    """A game that ends as ``FINAL_BOARD``, by two passes, or with a resignation; ``order`` shuffles its moves."""
    stones = {sign: [i for i, there in enumerate("".join(FINAL_BOARD)) if there == sign] for sign in "XO"}
    for moves in stones.values():
        random.Random(order).shuffle(moves)
    game = Game(Rules.preset(rules, 7, 6.5))
    while not game.is_over:
        own = stones["X" if game.to_play is BLACK else "O"]
        game.play(own.pop() if own else pass_move(7))
    game.outcome = Outcome.scored(margin) if margin is not None else Outcome(WHITE, Ending.RESIGN)
    return GameRecord.from_game(game)
