"""How many games, and how long, a match takes to see a difference: a table."""

from __future__ import annotations

from arena.events.tally import Tally
from arena.ratings import Sprt
from arena.results.planning import Outlook, games_for_interval, games_to_show, sprt_games
from arena.screen.style import some
from arena.screen.tables import Sheet

ROUGH = 50
"""With fewer games, their spread is hardly known."""


def plan_sheet(tally: Tally, to_see: float, workers: int) -> Sheet:
    """What ``to_see`` Elo take, foretold from the games that ``tally`` has, with so many workers."""
    counts = tally.counts
    outlook = Outlook.of(counts)
    now = outlook.difference(counts)
    thought = sum(tally.spent(player)[0] for player in (tally.first, tally.second)) / tally.games
    test = Sprt(0, to_see)
    asked = [
        (f"the 95 % interval is ±{to_see:g} Elo", games_for_interval(outlook, to_see)),
        (f"a true {to_see:+g} Elo is shown, with 95 % chance", games_to_show(outlook, to_see)),
        (f"--sprt 0 {to_see:g} ends, if 0 Elo are true", sprt_games(outlook, test, 0)),
        (f"--sprt 0 {to_see:g} ends, if {to_see:+g} Elo are true", sprt_games(outlook, test, to_see)),
        (f"--sprt 0 {to_see:g} ends, if {now:+.0f} Elo are true, as it looks now", sprt_games(outlook, test, now)),
    ]
    rows = [(words, f"{games:,}", _lasting(games * thought / workers)) for words, games in asked]
    pairs = f", {some(counts.games // 2, 'different pair')}"
    note = (
        f"{tally.first} against {tally.second}, foretold from {some(tally.games, 'game')}{pairs}: "
        f"{thought:.3g} s of thinking a game, on {some(workers, 'worker')}. Shown means that the 95 % interval "
        "excludes 0. A test's games are an average, the risk of either error 5 %. Stored games count in all of these."
    )
    if tally.games < ROUGH:
        note += " From so few games, a figure may be wrong by a factor of 2.5."
    return Sheet((f"{tally.first} against {tally.second}: until", "games", "time"), rows, note, (0,), (1, 2))


def _lasting(seconds: float) -> str:
    """Rounded as a forecast deserves."""
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}" if seconds < 10 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
