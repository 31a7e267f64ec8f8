"""Games of a net that learns against a bot of the registry, to see how strong it is. Nothing is learned from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from arena import BotFault, IllegalMove
from arena.contract.bot import Bot, Limits
from arena.events.openings import Opening
from arena.go.game import Game, Rules
from arena.go.moves import BLACK, WHITE, Move
from arena.go.planes import encode_games
from bots.policy import pick
from trainers.selfplay import NetPlayer


def spar(
    player: NetPlayer,
    bot: Bot,
    limits: Limits,
    rules: Rules,
    seeds: Sequence[int],
    openings: Sequence[Opening],
    slots: int = 1,
) -> np.ndarray:
    """The player's points in a game for each of ``seeds``; (games,) float64: 1 for a win, 1/2 for a draw, 0 for a loss.

    It has Black in the first, the third, ... of the games, whose moves begin with ``openings``, and is asked about all
    the boards at once where it is to move; ``slots`` games are under way. A fault of the bot's is a game lost by it.
    """
    points = np.empty(len(seeds))
    for first in range(0, len(seeds), slots):
        some = range(first, min(first + slots, len(seeds)))
        live = {number: _begin(rules, seeds[number], openings[number]) for number in some}
        while live:
            mine = {number: game for number, game in live.items() if (game.to_play is BLACK) is (number % 2 == 0)}
            if mine:
                assert player.encoder is not None  # a net has one
                logits = player.logits(encode_games(player.encoder, list(mine.values())))
                for game, row in zip(mine.values(), logits, strict=True):
                    game.play(pick(game, row, player.temperature))
            for number in live.keys() - mine.keys():
                if not _answer(bot, limits, live[number]):
                    live[number].resign(live[number].to_play)
            for number in [number for number, game in live.items() if game.is_over]:
                outcome = live.pop(number).outcome
                assert outcome is not None
                own = BLACK if number % 2 == 0 else WHITE
                points[number] = 0.5 if outcome.winner is None else float(outcome.winner is own)
    return points


def _begin(rules: Rules, seed: int, opening: Sequence[Move]) -> Game:
    game = Game(rules, seed)
    for move in opening:
        game.play(move)
    return game


def _answer(bot: Bot, limits: Limits, game: Game) -> bool:
    """Whether the bot played a move; False where it resigns or can't."""
    try:
        move = bot.choose(game, limits).move
        if move is not None:
            game.play(move)
    except (BotFault, IllegalMove):
        return False
    return move is not None
