"""The rules of Go in ten lessons on 5x5: words, a position, something to do. Nothing is drawn and nothing is read here.

What is legal, taken and counted the real ``Game`` decides, for a lesson as for a bot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from arena import IllegalMove
from arena.go.board import Board
from arena.go.game import Game, Rules
from arena.go.moves import BLACK, Colour, gtp_from_move, move_from_gtp, pass_move

SIZE = 5

RULES = Rules.preset("cgos", SIZE, komi=0.5)
"""Those of the lessons and of the game after them. Half a point for White, so that no game is a draw."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """One screen. Black is to play: one of ``moves``, or anything where there are none; or a ``number`` is asked for.

    ``praise`` follows the right answer, then what White gets to hear who tries ``refused``; ``hint`` follows others.
    """

    title: str
    words: tuple[str, ...]
    diagram: str
    task: str
    praise: str
    hint: str
    moves: tuple[str, ...] = ()
    number: int | None = None
    refused: tuple[str, ...] = ()

    def game(self) -> Game:
        board = Board.from_diagram(self.diagram).stones.reshape(-1)
        black, white = ([int(move) for move in (board == colour).nonzero()[0]] for colour in Colour)
        return Game(RULES, 0, black, white, to_play=BLACK)


EMPTY = """
    . . . . .
    . . . . .
    . . . . .
    . . . . .
    . . . . .
"""

FINISHED = """
    . X X O .
    X . X O .
    . X X O O
    X X O O .
    . X O . O
"""

LESSONS = (
    Lesson(
        "Stones",
        (
            "Go is for two players. Black and White put stones in turn on the points where the lines cross; Black "
            "begins. Stones never move, but they can be taken. Whoever has more of the board at the end wins.",
            "A point is called by its letter and its number: C3 is the middle of this board. A real board has 9, 13 or "
            "19 lines; 5 are enough to learn.",
        ),
        EMPTY,
        "Put a stone on the board: type C3, or any other point.",
        "That's a move.",
        "Type a letter from A to E and a number from 1 to 5, such as C3.",
    ),
    Lesson(
        "Liberties",
        (
            "The empty points right beside a stone are its liberties: up, down, left and right, not diagonally.",
            "Stones of one colour side by side are one group. They share their liberties, and each counts once.",
        ),
        """
            . . . . .
            . . O . .
            . O X X .
            . . . . .
            . . . . .
        """,
        "How many liberties has the black group at C3 and D3? Type a number.",
        "Four: D4, E3, D2 and C2.",
        "Look at each black stone: which points right beside it are empty?",
        number=4,
    ),
    Lesson(
        "Capture",
        (
            "A group whose last liberty is filled by the other side is taken off the board. With one liberty left it "
            "is said to be in atari.",
        ),
        """
            . . . . .
            . . X . .
            . X O X .
            . . . . .
            . . . . .
        """,
        "The white stone is in atari. Take it.",
        "It is gone, and its point is empty again.",
        "Where is its last liberty? Not to the left, right or above.",
        ("C2",),
    ),
    Lesson(
        "Escape",
        ("Your own stone in atari can often escape: a stone beside it makes one group of both, with more liberties.",),
        """
            . . . . .
            . . O . .
            . O X O .
            . . . . .
            . . . . .
        """,
        "White would take your stone at C3 with the next move. Save it.",
        "The two stones have three liberties now: B2, D2 and C1.",
        "Play where White would play to take it.",
        ("C2",),
    ),
    Lesson(
        "Suicide",
        (
            "You may not play a stone where it, or its group, would have no liberty. That is suicide.",
            "You may if the stone captures others: they leave the board, and then there are liberties.",
        ),
        """
            . O . . .
            O O . . .
            . . . . X
            . . . X O
            . . X O .
        """,
        "One of the points A5 and E1 is forbidden for you. Try them.",
        "It took both white stones, so it has liberties.",
        "A5 or E1?",
        ("E1",),
    ),
    Lesson(
        "Ko",
        (
            "Two stones could capture each other forever. So no move may repeat an earlier position of the board: "
            "to recapture, you must first play somewhere else. This is called ko.",
        ),
        """
            . . . . .
            . X O . .
            X O . O .
            . X O . .
            . . . . .
        """,
        "Take the white stone at B3.",
        "Now your stone at C3 is in atari, but not for this move. White tries to take it back:",
        "Its only liberty is in the middle.",
        ("C3",),
        refused=("B3",),
    ),
    Lesson(
        "Life",
        (
            "A group that surrounds two separate empty points can't be taken: White would have to fill both, and each "
            "alone is suicide. Such points are called eyes, and such a group lives.",
        ),
        """
            . . . X O
            X X X X O
            O O O O .
            . . . . .
            . . . . .
        """,
        "Your group has three empty points in a row. Make two eyes of them with one stone.",
        "A5 and C5 are eyes now. White tries both:",
        "Which of the three points divides them?",
        ("B5",),
        refused=("A5", "C5"),
    ),
    Lesson(
        "Death",
        ("A group that can't make two eyes is dead: it can be taken at any time. It depends on who plays first.",),
        """
            . . . O X
            O O O O X
            X X X X .
            . . . . .
            . . . . .
        """,
        "Now the group is White's, and it's your turn. Keep it from making two eyes.",
        "The points left and right of your stone never become two eyes: White's group is dead.",
        "Play where White would play to live.",
        ("B5",),
    ),
    Lesson(
        "Passing",
        (
            "Instead of playing a stone you may pass. Two passes in a row end the game.",
            "Pass when there is nothing left to gain: here, each side could only fill its own points. Capture dead "
            "stones first: in this game, all stones on the board at the end count as alive.",
        ),
        FINISHED,
        "It's your turn. Type pass.",
        "White passes, too, and the game is over.",
        "Type the word pass.",
        ("pass",),
    ),
    Lesson(
        "Counting",
        (
            "Your points are your stones and the empty points that only your stones surround. Black has "
            "the advantage of the first move, so White gets points, called komi: 7 on 9x9, half a point in this game.",
        ),
        FINISHED,
        "How many points has Black? Type a number.",
        "Nine stones and the points A5, B4, A3 and A1: 13. White has 12, and with komi 12.5.",
        "Count the black stones, then the empty points on the left that touch no white stone.",
        number=13,
    ),
)


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of an answer: whether it was right, the reply, the board after it, and the last move."""

    is_right: bool
    words: tuple[str, ...]
    game: Game


def reply(lesson: Lesson, answer: str) -> Reply:
    """Judge what was typed. Raises nothing: any text gets a reply."""
    game = lesson.game()
    text = answer.strip()
    if lesson.number is not None:
        if text == str(lesson.number):
            return Reply(True, (lesson.praise,), game)
        said = f"Not {text}." if text.isdecimal() else f"'{text}' is not a number."
        return Reply(False, (said, lesson.hint), game)
    try:
        move = move_from_gtp(text, SIZE)
    except ValueError:
        return Reply(False, (f"'{text}' is not a point of this board.", lesson.hint), game)
    try:
        game.play(move)
    except IllegalMove as error:
        return Reply(False, (f"That is forbidden: {error}.", lesson.hint), game)
    if lesson.moves and gtp_from_move(move, SIZE) not in lesson.moves:
        return Reply(False, ("That move is legal, but it is not the one asked for.", lesson.hint), lesson.game())
    if move == pass_move(SIZE) and not lesson.moves:
        return Reply(False, ("Passing comes later.", lesson.hint), lesson.game())
    if move == pass_move(SIZE):
        game.play(move)
    return Reply(True, (lesson.praise, *_refusals(lesson, game)), game)


def _refusals(lesson: Lesson, game: Game) -> Iterator[str]:
    """What the rules say to White who tries."""
    for point in lesson.refused:
        try:
            game.copy().play(move_from_gtp(point, SIZE))
        except IllegalMove as error:
            yield f"White {point}: forbidden, {error}."


def described(game: Game) -> str:
    """A position in words, for who can't look at it."""
    parts = []
    for colour in Colour:
        stones = (game.board.stones.reshape(-1) == colour).nonzero()[0]
        parts.append(f"{colour.name.title()}: {' '.join(gtp_from_move(int(move), SIZE) for move in stones) or 'none'}.")
    return " ".join(parts)
