"""A person at a plain prompt: the board as text, a move typed as a coordinate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from arena.contract.bot import Bot, BotKind, Decision, Limits, setting

if TYPE_CHECKING:
    from arena.go.game import Game

HELP = "a point such as d4, or: pass, resign, help"


@dataclass(frozen=True, slots=True)
class Config:
    name: str = setting("", "what to call the player at the prompt")


class Human(Bot):
    def __init__(self, config: Config):
        self._name = config.name

    def choose(self, game: Game, limits: Limits) -> Decision:
        """Ask until the answer is a legal move. Raises KeyboardInterrupt when the input ends, as on Ctrl-D: the
        person has left the match, and the game is no forfeit."""
        from arena import IllegalMove
        from arena.go.moves import gtp_from_move, move_from_gtp

        size = game.rules.size
        print(f"\n{game.board}")
        if game.moves:
            print(f"last move: {gtp_from_move(game.moves[-1], size)}")
        who = f"{self._name}, " if self._name else ""
        while True:
            try:
                answer = input(f"{who}{game.to_play.name.lower()} to play: ").strip().lower()
            except EOFError:
                raise KeyboardInterrupt from None
            if answer == "resign":
                return Decision(None)
            if answer in ("", "help", "?"):
                print(HELP)
                continue
            try:
                move = move_from_gtp(answer, size)
                game.copy().play(move)
            except ValueError as error:
                print(f"{error}; {HELP}")
            except IllegalMove as error:
                print(f"illegal: {error}")
            else:
                return Decision(move)


BOT = BotKind(summary="a person at the terminal", config=Config, build=Human, boards=1, interactive=True, revision=1)
