"""The slow, obvious twin of the standings: game after game, and all that was seen in sets. No tests."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from arena.go.coords import BLACK, WHITE
from arena.go.game import Ending
from arena.go.record import Played
from arena.match.standings import MatchTally, Standings
from arena.ratings import PairCounts, Result, Sprt, SprtState, WinDrawLoss


def number_of(game: Played) -> int:
    return int(game.id.rpartition("/")[2])


def points_of(game: Played, player: str) -> float:
    assert game.outcome is not None
    black = game.outcome.black_score
    return black if game.black == player else 1 - black


def counted(games: Iterable[Played], test: Sprt, first: str) -> list[list[Played]]:
    """The games of a match with a test that count, in pairs: sorted, cut at the first gap and where it is decided."""
    in_order = sorted(games, key=number_of)
    left = [game for place, game in enumerate(in_order, 1) if number_of(game) == place]
    pairs: list[list[Played]] = []
    while len(left) > 1:
        pair, left = left[:2], left[2:]
        pairs.append(pair)
        if state_of(pairs, test, first).is_decided:
            break
    return pairs


def paired(games: Iterable[Played]) -> list[list[Played]]:
    """All complete pairs of a match, in their order."""
    by_number = {number_of(game): game for game in games}
    return [
        [game, by_number[number + 1]]
        for number, game in sorted(by_number.items())
        if number % 2 and number + 1 in by_number
    ]


def counts_of(pairs: Sequence[Sequence[Played]], first: str) -> PairCounts:
    """Of pairs that aren't identical to an earlier one, and of which no outcome is missing."""
    seen: set[Any] = set()
    points = []
    for pair in pairs:
        if len(pair) == 2 and all(game.outcome is not None for game in pair):
            form = tuple((game.black, points_of(game, first), game.canonical) for game in pair)
            if form not in seen:
                points.append(sum(points_of(game, first) for game in pair))
            seen.add(form)
    return PairCounts.of(points)


def state_of(pairs: Sequence[Sequence[Played]], test: Sprt, first: str) -> SprtState:
    return test.state(counts_of(pairs, first))


def figures(games: Sequence[Played], first: str, second: str) -> dict[str, Any]:
    """What the games of two players add up to, as ``first`` sees them."""
    results = Counter((BLACK if game.black == first else WHITE, points_of(game, first)) for game in games)
    distinct = {(game.black, points_of(game, first), game.canonical) for game in games}
    rated = []
    for black, white in ((first, second), (second, first)):
        won = [points if black == first else 1 - points for player, points, _ in distinct if player == black]
        rated += [Result(black, white, sum(won), len(won))] * bool(won)
    counts = {
        colour: WinDrawLoss(*(results[colour, points] for points in (1.0, 0.5, 0.0))) for colour in (BLACK, WHITE)
    }
    return {"results": counts, "repeats": len(games) - len(distinct), "rated": rated}


def figures_of(tally: MatchTally) -> dict[str, Any]:
    """The same of a tally."""
    results = {colour: tally.results(colour) for colour in (BLACK, WHITE)}
    return {"results": results, "repeats": tally.repeats, "rated": tally.rated}


def totals(games: Sequence[Played], players: Sequence[str]) -> dict[str, Any]:
    """What the games of all players add up to."""
    found: dict[str, Any] = {"lengths": Counter(), "played on": [0, 0], "forfeits": [], "endings": {}}
    seconds, turns = dict.fromkeys(players, 0.0), Counter[str]()
    for game in games:
        outcome = game.outcome
        assert outcome is not None
        found["lengths"][game.length] += 1
        if game.adjudged is not None and outcome.ending is not Ending.ADJUDICATED and not outcome.ending.is_forfeit:
            found["played on"][0] += 1
            found["played on"][1] += game.adjudged is not outcome.winner
        to_play = game.first
        for move in range(game.length):
            if move >= game.opening:
                turns[game.black if to_play is BLACK else game.white] += 1
            to_play = to_play.opponent
        names = {BLACK: (game.black, game.white), WHITE: (game.white, game.black), None: ("", "")}
        winner, loser = names[outcome.winner]
        if outcome.winner is not None and outcome.ending not in (Ending.SCORE, Ending.MOVE_LIMIT):
            turns[loser] += 1
        seconds[game.black] += game.black_seconds
        seconds[game.white] += game.white_seconds
        found["endings"].setdefault(outcome.ending, Counter())[winner] += 1
        if outcome.ending.is_forfeit:
            found["forfeits"].append(game)
    return found | {"times": {one: seconds[one] / turns[one] if turns[one] else None for one in players}}


def totals_of(table: Standings) -> dict[str, Any]:
    """The same of the standings."""
    return {
        "lengths": table.lengths,
        "played on": [table.played_on, table.overturned],
        "forfeits": table.forfeits,
        "endings": table.endings,
        "times": {name: table.seconds_a_move(name) for name in table.players.values()},
    }
