"""Draws a stored match: Elo over the games, with the ordinary interval and the one that is valid whenever one stops.

python -m benchmarks intervals EVENT --svg FILE
"""

from __future__ import annotations

import argparse
import html
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from arena import UserError, files
from arena.ratings import ConfidenceSequence, PairCounts, compare
from arena.results.league import EventReport, read_report
from arena.results.store import Store

WIDTH, HEIGHT, MARGIN = 640, 260, 46


def draw(report: EventReport) -> str:
    """A match as SVG: its Elo over the games, with the interval for a planned end and the one that is valid whenever
    one stops. Raises UserError for an event that is not a match with ten openings."""
    scores = report.tally.scores if report.tally is not None else []
    if len(scores) < 10:
        raise UserError(f"{report.event} is not a match with at least 10 openings; name one that is")
    sequence, points = ConfidenceSequence(), []
    for done in np.linspace(5, len(scores), min(100, len(scores) - 4)).astype(int).tolist():
        sequence.add(scores[sequence.count : done])
        points.append((2 * done, compare(PairCounts.of(2 * score for score in scores[:done])).elo, sequence.ends))
    top = max(abs(end) for _, elo, _ in points[len(points) // 8 :] for end in elo if end is not None) * 1.3

    def place(games: float, elo: float | None, edge: float) -> str:
        height = max(-top, min(top, edge if elo is None else elo))
        x = MARGIN + games / points[-1][0] * (WIDTH - 2 * MARGIN)
        return f"{x:.0f},{HEIGHT / 2 - height / top * (HEIGHT / 2 - 24):.0f}"

    def band(ends: list[tuple[int, float | None, float | None]], ink: str) -> str:
        lower = [place(games, low, -top) for games, low, _ in ends]
        upper = [place(games, high, top) for games, _, high in reversed(ends)]
        return f'<polygon points="{" ".join(lower + upper)}" fill="{ink}"/>'

    line = " ".join(place(games, elo.value, 0) for games, elo, _ in points)
    zero, labels = place(0, 0, 0).split(",")[1], []
    for elo in (top / 2, 0, -top / 2):
        labels.append(
            f'<text x="4" y="{float(place(0, elo, 0).split(",")[1]) + 4:.0f}">{elo:+.0f}</text>'.replace("+0<", "0<")
        )
    tally, end = report.tally, points[-1][0]
    first, second = (html.escape(name) for name in (tally.first, tally.second))  # type: ignore[union-attr]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
            band([(games, *ends) for games, _, ends in points], "#cfe3f5"),
            band([(games, elo.low, elo.high) for games, elo, _ in points], "#7fb2e0"),
            f'<polyline points="{line}" fill="none" stroke="#123" stroke-width="1.5"/>',
            f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{zero}" y2="{zero}" stroke="#777" stroke-dasharray="4"/>',
            *labels,
            f'<text x="{MARGIN}" y="16">Elo of {first} above {second}</text>',
            f'<text x="{WIDTH / 2}" y="{HEIGHT - 6}" text-anchor="middle">light: valid whenever you stop; '
            "dark: valid at the planned end</text>",
            f'<text x="{MARGIN}" y="{HEIGHT - 6}">0</text>',
            f'<text x="{WIDTH - MARGIN}" y="{HEIGHT - 6}" text-anchor="end">{end} games</text>',
            "</svg>\n",
        ]
    )


def main(words: Sequence[str]) -> int:
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m benchmarks intervals", description=__doc__, formatter_class=shown)
    parser.add_argument("event", nargs="?", help="the match (default: the last one)")
    parser.add_argument("--svg", type=Path, metavar="FILE", required=True, help="file to write")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of the stored match")
    arguments = parser.parse_args(words)
    with Store.of(arguments.results) as store:
        files.write(arguments.svg, draw(read_report(store, arguments.event)))
    print(f"{arguments.svg} is drawn.")
    return 0
