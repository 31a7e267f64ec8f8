"""Our bots served over GTP: kept sessions, a scripted transport for every command, then a real process."""

import re
import signal
import subprocess
from contextlib import closing
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from helpers import scripted_bots
from helpers.commandline import ARENA, arena_alone, environment
from helpers.nets import HEADS, small_model, small_net

from arena import BotFault, CheckpointError
from arena.contract.bot import Bot, Candidate, Decision, Limits
from arena.go.coords import BLACK, Colour
from arena.go.game import PRESETS, Game, Rules
from arena.gtp.server import Server, serve
from arena.players.registry import Registry
from bots.gtp import katago_rules

REQUIRED = "protocol_version name version known_command list_commands quit boardsize clear_board komi play genmove"


class Scripted(scripted_bots.Scripted):
    """Keeps what it was asked. Instead of its choice it returns a decision, or nothing, if its script has that."""

    def __init__(self, *script: str | Exception | object):
        super().__init__(*script)  # type: ignore[arg-type]
        self.games: list[Game] = []
        self.turns: list[tuple[Colour, int]] = []

    def choose(self, game: Game, limits: Limits) -> Decision:
        self.games.append(game)
        self.turns.append((game.to_play, len(game.moves)))
        if self._moves and not isinstance(self._moves[0], str | Exception):
            return self._moves.pop(0)
        return super().choose(game, limits)


def server_of(bot: Bot | None = None, rules: str = "cgos", size: int = 9, **more: object) -> Server:
    return Server(bot or Scripted(), Rules.preset(rules, size), **more)  # type: ignore[arg-type]


def talk(server: Server, *commands: str) -> list[str]:
    """The answers to these lines, each without the empty line that ends it."""
    output = StringIO()
    serve(server, StringIO("".join(f"{command}\n" for command in commands)), output)
    *answers, end = output.getvalue().split("\n\n")
    assert end == ""
    return answers


def ask(server: Server, *commands: str) -> str:
    """The last answer, which is no error, to lines that all are no errors."""
    for answer in (answers := talk(server, *commands)):
        assert answer.startswith("="), answer
    return answers[-1][1:].strip(" ")


def refused(server: Server, command: str) -> str:
    [answer] = talk(server, command)
    assert answer.startswith("? ") and "\n" not in answer
    return answer[2:]


# --- The protocol ---


def golden(name: str) -> tuple[str, str]:
    """What is sent, in lines that begin with ``>``, and the answers. The bot draws lots alike on every processor."""
    text = (Path(__file__).parents[1] / "golden" / name).read_text(encoding="utf-8")
    sent = "".join(f"{line}\n" for line in re.findall(r"^>(.*)\n", text, re.MULTILINE))
    return sent, re.sub(r"^>.*\n", "", text, flags=re.MULTILINE)


def test_a_session_is_the_golden_one_byte_by_byte(tmp_path: Path) -> None:
    sent, answers = golden("gtp.txt")
    done = arena_alone("gtp", "random", "--seed", "1", folder=tmp_path, typed=sent)
    assert (done.stdout, done.returncode) == (answers, 0), done.stderr


@pytest.mark.smoke
def test_refusals_scores_undo_handicap_and_rules_are_the_golden_ones() -> None:
    (sent, answers), output = golden("gtp-board.txt"), StringIO()
    with closing(Registry().resolve("random").build()) as bot:
        serve(server_of(bot), StringIO(sent), output)
    assert output.getvalue() == answers


def test_the_required_commands_are_there_and_lines_are_read_as_the_protocol_says() -> None:
    assert {*REQUIRED.split()} <= {*ask(server_of(), "list_commands").splitlines()}
    assert ask(server_of(), "known_command genmove") == "true"
    assert ask(server_of(), "known_command kata-analyze") == ask(server_of(), "known_command") == "false"
    output = StringIO()
    lines = "\n# nothing\n 7 name # who\n\x0712\tprotocol_\x01version\r\n   \nname#\n9\n007 foo\n15 quit\nname\n"
    serve(server_of(name="me"), StringIO(lines), output)
    assert output.getvalue() == "=7 me\n\n=12 2\n\n= me\n\n?9 unknown command\n\n?007 unknown command\n\n=15 \n\n"


def test_a_file_is_loaded_up_to_a_move_and_free_handicap_stones_are_placed(tmp_path: Path) -> None:
    path = tmp_path / "a game.sgf"
    path.write_text("(;SZ[7]KM[5.5]RU[Chinese];B[aa];W[bb];B[cc])")
    server = server_of()
    assert "White to play, move 4, chinese rules, komi 5.5" in ask(server, f"loadsgf {path}", "showboard")
    assert "White to play, move 2" in ask(server, f"loadsgf {path} 2", "showboard")
    assert refused(server, "loadsgf") == refused(server, f"loadsgf {tmp_path}/none.sgf") == "cannot load file"
    assert "White to play, move 2" in ask(server, "showboard")
    assert ask(server, "boardsize 9", "clear_board", "place_free_handicap 3") == "C3 G7 C7"


def test_a_size_that_the_bot_can_not_play_and_rules_without_end_are_refused() -> None:
    def check(size: int) -> None:
        if size == 13:
            raise CheckpointError("the net plays 9x9 only")

    server = server_of(check=check)
    assert refused(server, "boardsize 13") == refused(server, "boardsize 9 7") == "unacceptable size"
    assert ask(server, "boardsize 9 9") == ""
    assert refused(server, f"kata-set-rules {'[' * 100_000}") == "unknown rules"


# --- The game ---


def test_a_colour_may_play_twice_and_play_goes_on_after_two_passes_and_beyond_any_length() -> None:
    server = server_of(bot := Scripted(), size=5)
    ask(server, "play b D4", "play b E5", "play w pass", "play b pass", "genmove b")
    ask(server, "play w D5", "genmove b", "genmove b")
    assert bot.turns == [(BLACK, 0), (BLACK, 2), (BLACK, 0)]
    ask(server, *(f"play {'bw'[index % 2]} pass" for index in range(100)))
    assert ask(server, "play b A1", "final_score") == "W+5"


def test_a_bots_game_is_its_own_copy_and_stays_the_same_until_the_game_is_another() -> None:
    """It once was the server's own game, which a bot could change."""

    class Changing(Scripted):
        def choose(self, game: Game, limits: Limits) -> Decision:
            decision = super().choose(game, limits)
            for move in range(game.rules.size):
                game.play(move)
            return decision

    server = server_of(bot := Changing("C3", "C4", "C5", "D3"), size=5)
    ask(server, "genmove b", "genmove w", "genmove b", "undo", "genmove b")
    first, second, third, fourth = bot.games
    assert first is second is third and fourth is not first
    board = [line.split()[1:-1] for line in ask(server, "showboard").splitlines()[2:7]]
    assert "|".join("".join(row) for row in board) == ".....|..O..|..XX.|.....|....."


# --- Rules, time and chance ---


@pytest.mark.parametrize("preset", PRESETS)
def test_rules_are_set_by_name_or_as_katago_has_them(preset: str) -> None:
    for name in (preset, katago_rules(Rules.preset(preset))):
        server = server_of(rules="japanese")
        assert f", {preset} rules, komi 6.5" in ask(server, f"kata-set-rules {name}", "showboard")


CLOCKS = {
    "time_settings 320 0 0": (9.5, 10.0),  # 320 s for half of 64 moves
    "time_settings 2147483647 0 0": (6.6e7, 6.7e7),  # as controllers say that there is no limit
    "time_settings 0 10 5": (1.7, 1.9),
    "time_settings 320 10 5": (11.5, 12.0),
    "time_settings 600 0 0|time_left b 9 0": (0.1, 0.2),
    "time_settings 600 0 0|time_left w 9 0": (18.0, 18.6),
    "time_settings 600 30 10|time_left b 4 2": (1.7, 1.9),
    "time_settings 600 0 0|time_left b -1 0": (0.001, 0.001),
    "time_settings 9 9 9|time_settings 0 1 0": None,
    "name": None,
}


@pytest.mark.parametrize("commands", CLOCKS)
def test_time_settings_become_seconds_a_move(commands: str) -> None:
    ask(server_of(bot := Scripted()), *commands.split("|"), "genmove b", "time_left b 1 1")
    seconds, bounds = bot.asked[0].seconds, CLOCKS[commands]
    assert seconds is None if bounds is None else bounds[0] <= (seconds or 0) <= bounds[1]


def test_a_bots_own_limits_hold_until_the_controller_sets_a_clock() -> None:
    server = server_of(bot := Scripted(), limits=Limits(seconds=3, simulations=70))
    ask(server, "genmove b", "time_settings 0 10 5", "genmove b")
    assert [(limits.seconds, limits.simulations) for limits in bot.asked] == [(3, 70), (pytest.approx(1.8), 70)]
    server = server_of(bot := Scripted(), limits=Limits(main=320))
    ask(server, "genmove b", "time_settings 0 1 0", "genmove b")
    assert [limits.seconds for limits in bot.asked] == [pytest.approx(9.8, abs=0.2), None]
    server = server_of(bot := Scripted())
    ask(server, "time_settings 0 10 2", "genmove b", "genmove b", "genmove b", "clear_board", "genmove b")
    first, last_stone, *others = [limits.seconds or 0 for limits in bot.asked]
    assert last_stone > 9  # it may have all that is left
    assert [round(share, 1) for share in (first, *others)] == [4.8, 4.8, 4.8]


def test_chance_starts_at_the_seed_and_goes_on_with_each_game() -> None:
    server = server_of(bot := Scripted(), seed=5)
    ask(server, "genmove b", "clear_board", "genmove b", "set_random_seed 70", "genmove w", "clear_board", "genmove b")
    ask(server, "clear_board", f"set_random_seed {2**63 - 1}", "genmove b")
    assert [game.seed for game in bot.games] == [5, 6, 70, 71, 2**63 - 1]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (RuntimeError("two\n\nlines"), "the bot failed: RuntimeError: two lines"),
        (BotFault("the engine has ended"), "the bot failed: the engine has ended"),
        ("E5", "the bot chose an illegal move: E5 is taken"),
        (Decision(500), "the bot chose an illegal move: 500 is not a move on a 9x9 board"),
        (None, "the bot failed: AttributeError: 'NoneType' object has no attribute 'move'"),
    ],
)
def test_a_bots_fault_is_one_line_and_the_conversation_goes_on(step: object, message: str, caplog: Any) -> None:
    server = server_of(Scripted(step, "D4"))
    ask(server, "play b E5")
    assert refused(server, "genmove w") == message and caplog.records[0].exc_info is not None
    assert ask(server, "genmove w") == "D4"


# --- Analysis ---

INFO = r"info move \w+ visits \d+ winrate (\S+)( scoreMean \S+ scoreLead \S+)?( prior \S+)? lcb \S+ order \d+ pv( \w+)+"


def test_analysis_reports_at_least_once_and_ends_at_the_next_line() -> None:
    with closing(Registry().resolve("mcts:playouts=200").build()) as bot:
        server = server_of(bot, analyses=True)
        answers = talk(server, "3 kata-analyze", "name", "kata-analyze w 99 maxmoves 2", "")
        assert (
            refused(server, "kata-analyze b interval x") == refused(server, "kata-analyze maxmoves") == "syntax error"
        )
        assert refused(server, "kata-analyze b 1 avoid b C3 1") == "avoid and allow are not supported"
        for colour in "bw":  # a move is explained by what it was decided by
            [answer] = talk(server, f"4 kata-genmove_analyze {colour} 9999 rootInfo true")
            head, report, play = answer.splitlines()
            assert head.strip() == "=4" and play == f"play {report.split()[2]}"
            assert int(report.split("rootInfo visits ")[1].split()[0]) >= 100
    head, *reports = answers[0].splitlines()
    report = reports[-1]  # the only one, unless the next line came late
    assert head == "=3" and re.fullmatch(f"({INFO} ?)+", report) and "prior" not in report
    moves, visits, orders = (re.findall(rf"{key} (\w+)", report) for key in ("move", "visits", "order"))
    assert len(moves) == len({*moves}) > 1 and orders == [str(order) for order in range(len(moves))]
    assert visits == sorted(visits, key=int, reverse=True)
    assert answers[1] == "= arena"
    rates = [float(rate) for rate in re.findall(r"winrate (\S+)", answers[2])]
    assert len(rates) == 2 and all(0 <= rate <= 1 for rate in rates)


def test_analysis_tells_score_ownership_and_the_root_and_a_search_by_time_ends_where_every_line_ends_the_game() -> None:
    """The search once spent 2^30 visits on two passes before it looked at the clock."""
    with closing(Registry().resolve("alphago").build()) as bot:
        server = server_of(bot, analyses=True, has_net=True, size=5)
        ask(server, "komi 0.5", *(f"play w {column}{row}" for column in "BD" for row in (2, 4)))
        line = talk(server, "kata-analyze b 99 rootInfo true ownership true movesOwnership true")[0].splitlines()[1]
        game = Game(Rules.preset(size=5), black=range(1, 24))
        assert bot.choose(game, Limits(seconds=0.05)).move == 25
        assert [each.move for each in bot.analyse(game, Limits(seconds=0.05))][:1] == [25]
    head, _, tail = line.partition(" rootInfo ")
    for info in head.split("info ")[1:]:
        rate, lead = re.search(r"winrate (\S+) scoreMean \S+ scoreLead (\S+)", info).groups()  # type: ignore[union-attr]
        owned = [float(value) for value in info.partition("movesOwnership ")[2].split()]
        assert float(lead) < 0 and float(rate) < 0.5 and len(owned) == 25 and sum(owned) < 0
    root, _, ownership = tail.partition(" ownership ")
    words = root.split()
    told = dict(zip(words[::2], map(float, words[1::2]), strict=True))
    assert told["visits"] > 1 and told["winrate"] < 0.5 and told["scoreLead"] < 0
    owners = [float(value) for value in ownership.split()]
    assert len(owners) == 25 and all(-1 <= value <= 1 for value in owners) and sum(owners) < 0


def test_analysis_that_fails_is_refused_and_ends_where_it_has_begun() -> None:
    class Failing(Scripted):
        def analyse(self, game: Game, limits: Limits) -> list[Candidate]:
            if not self._moves:
                raise RuntimeError("no idea")
            return [Candidate(0, 1, 0.5, (0,))] if self._moves.pop() else []

    for command in ("kata-analyze 10", "kata-genmove_analyze b 10"):
        assert refused(server_of(Failing(), analyses=True), command) == "the bot failed: RuntimeError: no idea"
    [answer] = talk(server_of(Failing("once"), analyses=True), "kata-analyze 0")
    assert re.fullmatch(rf"=\n{INFO}", answer)


def test_the_command_serves_until_ctrl_c_and_analyses_meanwhile() -> None:
    command = [*ARENA, "gtp", "mcts", "--size", "7", "--komi", "5.5", "--rules", "chinese", "--seed", "4"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, **pipes, text=True, env=environment()) as process:  # type: ignore[call-overload]
        process.stdin.write("1 name\n2 showboard\nkata-analyze 5\n")
        process.stdin.flush()
        lines = [process.stdout.readline() for _ in range(20)]
        assert lines[0] == "=1 arena mcts\n" and "chinese rules, komi 5.5\n" in lines[14]
        assert lines[16] == "=\n" and all(line.startswith("info move ") for line in lines[17:])
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (130, "")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads a process's time in /proc")
def test_ctrl_c_ends_a_bot_whose_net_computes_for_ever(tmp_path: Path) -> None:
    """Python handles no signal meanwhile."""
    net = small_net(tmp_path / "endless", small_model(HEADS, "endless"))
    command = [*ARENA, "gtp", f"policy:checkpoint={net}", "--size", "5"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment(), **pipes) as process:
        process.stdin.write("play b c3\ngenmove w\n")
        process.stdin.flush()
        assert process.stdout.readline() == "= \n"

        def ticks() -> int:
            """Of processor time."""
            return int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11])

        begun = ticks()
        while ticks() < begun + 50:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
