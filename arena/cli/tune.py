"""The command tune."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Annotated, NamedTuple

from arena import ConfigError
from arena.cli import options
from arena.cli.match import sequential_test
from arena.cli.options import RESULTS, Argument, ConfigFile, Number, Option, ResultsFolder, with_options
from arena.players.config import TermsTable, default

if TYPE_CHECKING:
    import numpy as np

    from arena.players.player import Player
    from arena.report.style import Console

BESIDE = 60  # columns of a terminal that stand beside the courses


class Range(NamedTuple):
    """A setting to tune: its value in the bot, and between which values a better one is searched."""

    name: str
    start: float
    low: float
    high: float

    @classmethod
    def read(cls, text: str, player: Player) -> Range:
        """``c_puct=0.2:1.2``. Raises ConfigError."""
        name, _, ends = text.partition("=")
        start: float | None = getattr(player.config, name, None)
        if start is None or type(start) not in (int, float):
            raise ConfigError(f"{name}: {player.name} has no such setting with a number; see: arena bots {player.kind}")
        try:
            low, high = map(float, ends.split(":"))
            if not low < high:
                raise ValueError
        except ValueError:
            raise ConfigError(f"{text}: not a setting and its range, such as c_puct=0.2:1.2") from None
        return cls(name, start, low, high)

    def text(self, place: float) -> str:
        """The value at a place from 0 to 1, as it is typed."""
        value = self.low + place * (self.high - self.low)
        return f"{round(value)}" if type(self.start) is int else f"{value:.4g}"


@with_options(TermsTable)
def tune(
    bot: Annotated[str, Argument(metavar="BOT")],
    settings: Annotated[list[str], Argument(metavar="SETTING=LOW:HIGH")],
    games: Annotated[int, Number("-n", "--games", help="Games of the search (default 2000).", min=2)] = 2000,
    batch: Annotated[int, Number(help="Games of a step (default 20).", min=2)] = 20,
    terms: TermsTable = options.NO_TERMS,
    sprt: Annotated[
        tuple[float, float], Option(metavar="ELO0 ELO1", help="The test of the proposal (default 0 20).")
    ] = (0, 20),
    workers: options.Workers = 0,
    cluster: options.ClusterAddress = None,
    results: ResultsFolder = RESULTS,
    config: ConfigFile = None,
) -> None:
    """Tune settings of a bot by matches against itself.

    Each step (SPSA, Spall 1998) plays two opposite changes of all settings and moves them towards the winner. The
    proposal is the mean of the later half of the steps. A sequential test then plays it against BOT as it is. The games
    are kept in the folder tune of the results; the same command resumes an interrupted search.

    Examples:
      arena tune mcts c_uct=0:1 priors=0.5:2
      arena tune alphago:visits=50 c_puct=0.2:1.2 fpu_reduction=0:0.4 -n 6000
    """
    registry = options.registry_for_event(config, results, (bot,), False)
    import numpy as np

    from arena.cli import events
    from arena.match.schedule import Match
    from arena.ratings.spsa import proposal, spsa

    test, steps, seed = sequential_test(sprt), games // batch, default(terms.seed, 1)
    if not steps:
        raise ConfigError(f"--games {games} is less than a step's --batch {batch}")
    setup = events.EventSetup(registry, results / "tune", workers, cluster)
    agreed = events.read_terms(terms, registry, setup.console.print_line)
    before = events.read_player(registry, bot, terms)
    ranges = [Range.read(text, before) for text in settings]
    names = {one.name for one in ranges}

    def player(place: np.ndarray) -> Player:
        head, at, limits = bot.partition("@")
        kind, _, given = head.partition(":")
        kept = [word for word in given.split(",") if word and word.partition("=")[0] not in names]
        values = [f"{one.name}={one.text(share)}" for one, share in zip(ranges, place.tolist(), strict=True)]
        return events.read_player(registry, f"{kind}:{','.join(kept + values)}{at}{limits}", terms)

    def score(step: int, first: np.ndarray, second: np.ndarray) -> float:
        ours, theirs = player(first), player(second)
        if ours.identity == theirs.identity:  # whole numbers that are the same
            points.append("–")
            return 0.0
        own = events.read_terms(replace(terms, seed=1000 * seed + step), registry, lambda line: None)
        match = Match(ours, theirs, own, batch)
        standings = match.standings()
        with setup.opened(match) as store:
            events.store_event(store, match)
            for update in events.play_event(match, store, setup.crew):
                standings.add(update.records)
        met = standings.meetings(ours.name)
        points.append(f"{met.points:g}-{met.games - met.points:g}")
        return (2 * met.points - met.games) / max(1, met.games)

    for end in (0.0, 1.0):  # values that aren't allowed are refused before the first game
        player(np.full(len(ranges), end))
    start = np.array([(one.start - one.low) / (one.high - one.low) for one in ranges])
    course, points = [np.clip(start, 0, 1)], list[str]()
    try:
        with _shown(ranges, steps, setup.console) as show:
            for place in spsa(start, steps, score, seed):
                course.append(place)
                show(course, points[-1])
    except KeyboardInterrupt:
        setup.console.print_line(f"Stopped after {len(course) - 1} of {steps} steps; the same command goes on.")
        raise SystemExit(130) from None
    after = player(proposal(course))
    if after.identity == before.identity:
        setup.console.print_line(f"The search proposes {before.name} as it is.")
        return
    setup.console.print_line(f"Proposed: {after.name}. A match tests it against {before.name}.")
    tested = Match(after, before, agreed, max(games, 1000), test=test)
    with setup.opened(tested) as store:
        setup.play(tested, store)


@contextmanager
def _shown(
    ranges: Sequence[Range], steps: int, console: Console
) -> Iterator[Callable[[Sequence[np.ndarray], str], None]]:
    """Show the course of the settings while the block lasts, or a line for each step in a pipe."""
    from rich.live import Live

    from arena.ratings.spsa import proposal
    from arena.report import style
    from arena.report.tables import Table

    ends = [monotonic()]  # when steps ended; those that were stored take no time

    def show(course: Sequence[np.ndarray], points: str) -> None:
        done, mean = len(course) - 1, proposal(course).tolist()
        ends.append(monotonic())
        recent = ends[-6:]
        left = style.duration((recent[-1] - recent[0]) / (len(recent) - 1) * (steps - done))
        if not console.is_terminal:
            values = ", ".join(f"{one.name}={one.text(share)}" for one, share in zip(ranges, mean, strict=True))
            console.print_line(f"step {done} of {steps}, {points}: {values}; about {left} left")
            return
        width = min(len(course), max(16, console.width - BESIDE))
        shown = [course[len(course) * at // width] for at in range(width)]
        rows = []
        for number, one in enumerate(ranges):
            low, high, now, proposed = (one.text(share) for share in (0.0, 1.0, course[-1][number], mean[number]))
            bars = style.sparkline([float(place[number]) for place in shown], width)
            rows.append((one.name, f"{low} to {high}", f"{one.start:g}", now, proposed, bars))
        note = f"Step {done} of {steps}, the last {points}, about {left} left. Ctrl-C stops; the same command goes on."
        columns = ("setting", "range", "began", "now", "proposed", "course")
        live.update(Table(columns, rows, note, numbers=(2, 3, 4)), refresh=True)

    with Live(console=console, auto_refresh=False) as live:
        yield show
