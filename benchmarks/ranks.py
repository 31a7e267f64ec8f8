"""How well ranks are read from moves, and when people resign: of games whose players the net has not seen.

python -m benchmarks ranks ogs.sgfs.xz --players 'u[0-9a-f]{6}'

Prints the error of the rank that ``arena analyze --ranks`` estimates, from one game of a player and from several, and
the weights of ``bots.human_like.RESIGNING`` that fit the games best.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np

from arena import RecordError, UserError
from arena.go.coords import Colour
from arena.go.game import Ending
from arena.go.planes import encode_games
from arena.go.ranks import STRONGEST, WEAKEST, WEAKEST_SEEN, rank_of
from arena.go.record import GameRecord
from arena.go.sgf import read_sgf
from arena.results.ranks import RankEstimate, move_likelihoods
from bots.nets.checkpoint import Checkpoint, find
from bots.nets.inference import Evaluator
from trainers.metrics import RANK_GROUPS
from trainers.records import TEST, SplitRule, player_digest, read_texts


def main(words: list[str]) -> int:
    usage = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m benchmarks ranks", description=__doc__, formatter_class=usage)
    parser.add_argument("files", nargs="+", type=Path, help="SGF files, folders or archives with ranks (BR, WR)")
    parser.add_argument("--players", default=".*", help="regular expression that both players' names match")
    parser.add_argument("--checkpoint", default="human-9x9", help="net with the encoder human-34")
    parser.add_argument("--games", type=int, default=500, help="games of a part (default 500)")
    arguments = parser.parse_args(words)
    checkpoint = Checkpoint.open(find(arguments.checkpoint))
    rule = next((SplitRule(**each) for each in checkpoint.manifest.splits if each.get("by_player")), None)
    if rule is None:
        raise UserError(f"{checkpoint.manifest.name} was not trained on a dataset that is split by player")
    net = Evaluator(checkpoint)
    texts = [text for path in arguments.files for _, _, text in read_texts(path)]
    Random(1).shuffle(texts)
    errors_by_games(_records(texts, arguments.players, checkpoint.manifest.size), rule, net, arguments.games)
    few = islice(_records(texts, arguments.players, checkpoint.manifest.size), 8 * arguments.games)
    fit_resignations(list(few), net)
    return 0


def _records(texts: Sequence[bytes], players: str, size: int) -> Iterator[GameRecord]:
    """Even games of people with known ranks."""
    for text in texts:
        try:
            record = read_sgf(text)
        except RecordError:
            continue
        known = rank_of(record.black_rank) is not None and rank_of(record.white_rank) is not None
        named = all(re.fullmatch(players, name) for name in (record.black, record.white))
        if known and named and record.rules.size == size and not any(record.setup) and len(record.moves) >= 10:
            yield record


def errors_by_games(records: Iterator[GameRecord], rule: SplitRule, net: Evaluator, games: int) -> None:
    """The error of the likeliest rank: of held-out players, from one game, two and five."""
    held_out, chosen = defaultdict[str, list[tuple[GameRecord, Colour]]](list), list[str]()
    for record in records:
        if len(chosen) >= games // 5:
            break
        for colour, name in zip(Colour, (record.black, record.white), strict=True):
            if rule.part_of_player(player_digest(name)) == TEST and len(held_out[name]) < 5:
                held_out[name].append((record, colour))
                if len(held_out[name]) == 5:
                    chosen.append(name)
    print(f"{5 * len(chosen)} games, five each of {len(chosen)} players whom the net has not seen\n")
    print("| rank | games | median error in ranks | mean error | in the 95 % interval |\n|---|---|---|---|---|")
    found = []
    for name in chosen:
        likelihoods, ranks = [], []
        for record, colour in held_out[name]:
            rows = move_likelihoods(record, net)
            likelihoods.append(rows[int(colour is not record.first) :: 2].sum(0))
            told = rank_of(record.black_rank if colour is Colour.BLACK else record.white_rank)
            ranks.append(min(max(told or 0, WEAKEST_SEEN), STRONGEST))
        for count in (1, 2, 5):
            for first in range(0, 6 - count, count):
                one = RankEstimate.of(sum(likelihoods[first : first + count]), count)  # type: ignore[arg-type]
                rank = float(np.mean(ranks[first : first + count]))
                found.append((count, rank, abs(one.rank - rank), one.low <= round(rank) <= one.high))
    rows = np.array(found)
    for group, low, high in (*RANK_GROUPS, ("all", WEAKEST, STRONGEST)):
        for count in (1, 2, 5):
            part = rows[(rows[:, 0] == count) & (rows[:, 1] > low - 1) & (rows[:, 1] <= high)]
            if len(part):
                median, mean, inside = np.median(part[:, 2]), part[:, 2].mean(), part[:, 3].mean()
                print(f"| {group} | {count} | {median:.1f} | {mean:.1f} | {100 * inside:.0f} % of {len(part)} |")


def fit_resignations(records: Sequence[GameRecord], net: Evaluator) -> None:
    """Logistic regression of whether the side to move, or the one that has just moved, resigns: on the logit of its win
    rate, its rank and the share of the board that was played."""
    rows, resigned = [], []
    for record in records:
        game, positions = replace(record, moves=(), outcome=None).replay(), []
        for move in record.moves:
            positions.append(game.copy())
            game.play(move)
        positions.append(game)
        ranks = {Colour.BLACK: rank_of(record.black_rank) or 0, Colour.WHITE: rank_of(record.white_rank) or 0}
        outcome = record.outcome
        loser = outcome.winner.opponent if outcome and outcome.winner and outcome.ending is Ending.RESIGN else None
        for mover in Colour:
            own, told = [each for each in positions if each.to_play is mover], (ranks[mover], ranks[mover.opponent])
            _, rates = net.evaluate(encode_games(net.encoder, own, ranks=told))
            for each, rate in zip(own, rates.clip(1e-4, 1 - 1e-4).tolist(), strict=True):
                is_last = each is game
                if is_last and loser is None:
                    continue
                if is_last and loser is not mover:
                    rate = 1 - rate
                who = loser if is_last and loser is not None else mover
                rows.append((1.0, np.log(rate / (1 - rate)), ranks[who], len(each.moves) / record.rules.size**2))
                resigned.append(is_last)
    factors, wanted = np.array(rows), np.array(resigned, float)
    weights = np.zeros(4)
    for _ in range(50):  # Newton's steps
        chances = 1 / (1 + np.exp(-factors @ weights))
        hessian = (factors * (chances * (1 - chances))[:, None]).T @ factors + 1e-6 * np.eye(4)
        weights += np.linalg.solve(hessian, factors.T @ (wanted - chances))
    print(f"\nRESIGNING = {tuple(round(float(weight), 3) for weight in weights)}", end="")
    print(f"  # {len(records)} games, {int(wanted.sum())} resigned")
