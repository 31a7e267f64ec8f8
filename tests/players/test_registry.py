"""Names that can play: what ships, what is typed, what arena.toml and installed packages add, and how they clash."""

import pickle
import re
import sys
from contextlib import closing
from dataclasses import fields, replace
from decimal import Decimal
from math import inf
from pathlib import Path
from typing import Any

import pytest
from helpers import learners
from helpers.learners import learn
from hypothesis import given
from hypothesis import strategies as st

from arena import CheckpointError, ConfigError
from arena.contract.bot import Limits
from arena.contract.settings import describe, quote_value, read_value, split_pairs
from arena.go.game import Game, Rules
from arena.match.event import event_from_json, event_to_json
from arena.match.schedule import Match, Terms
from arena.players.config import TermsTable, read_config, set_bot
from arena.players.registry import Registry
from bots.nets.checkpoint import Checkpoint, find


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(results=tmp_path / "results")


def configured(folder: Path, text: str, name: str = "arena.toml") -> Registry:
    """The registry with this arena.toml."""
    (folder / name).write_text(text, "utf-8")
    return Registry(folder / name, results=folder / "results")


def refusal(call: Any, *arguments: Any, error: type[Exception] = ConfigError) -> str:
    with pytest.raises(error) as caught:
        call(*arguments)
    text = str(caught.value)
    assert "\n" not in text
    return text


# --- What is typed ---


@pytest.mark.smoke
def test_every_kind_plays_under_its_own_name_and_settings_are_typed_behind_it(registry: Registry) -> None:
    kinds = {"alphago", "fast-random", "gtp", "human", "policy", "random", "uct"}
    assert kinds <= set(registry.kinds) and kinds | {"mcts", "sl"} <= {entry.name for entry in registry.entries}
    entry, usual = registry.resolve("uct:playouts=500,stop_early=false,c_uct=1"), registry.resolve("uct")
    assert (registry.resolve("mcts").kind, registry.resolve("mcts").settings) == ("uct", usual.settings)
    assert entry.name == "uct:playouts=500,c_uct=1,stop_early=false" and entry.config.playouts == 500
    assert entry.settings == {**usual.settings, "playouts": 500, "c_uct": 1.0, "stop_early": False}
    # A setting that changes nothing does not show.
    assert registry.resolve(f"uct:playouts={usual.settings['playouts']}") == registry.resolve("uct:") == usual
    for spec in ("uct:c_uct=0.7000001", "uct:c_uct=1e-07,stop_early=false"):
        entry = registry.resolve(spec)
        assert registry.resolve(entry.name) == entry and entry.identity != usual.identity


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        ("gnugo --mode gtp --rules a,b --level=10", "gnugo --mode gtp --rules a,b --level=10"),
        ('"katago gtp -o maxVisits=100,threads=2"', "katago gtp -o maxVisits=100,threads=2"),
        ("don't", "don't"),
    ],
)
def test_a_command_may_hold_commas_in_quotes_which_a_refusal_shows(
    registry: Registry, typed: str, command: str
) -> None:
    for spec in (f"gtp:command={typed},startup=3", f"gtp:startup=3,command={typed}"):
        entry = registry.resolve(spec)
        assert (entry.settings["command"], entry.settings["startup"]) == (command, 3.0)
    message = refusal(registry.resolve, "gtp:command=katago gtp -override-config maxVisits=100,numSearchThreads=2")
    assert "unknown setting 'numSearchThreads'" in message
    fixed = registry.resolve(f"gtp:{message.rpartition(': ')[2]}")
    assert fixed.settings["command"].endswith("maxVisits=100,numSearchThreads=2")


@given(st.text())
def test_any_value_of_a_setting_comes_back_from_its_name(value: str) -> None:
    """One with an apostrophe did not."""
    assert split_pairs(f"before={quote_value(value)},after=1", "here") == {"before": value, "after": "1"}


def test_an_engine_that_is_typed_is_called_by_its_program_and_a_digest(registry: Registry) -> None:
    """A token in its command was stored and shown with its name."""
    entry = registry.resolve("gtp:command=env TOKEN=s3cr3t gnugo --mode gtp")
    other = registry.resolve("gtp:command=env TOKEN=0th3r gnugo --mode gtp")
    assert re.fullmatch(r"gtp:command=env sha256:[0-9a-f]{8}", entry.name) and other.name != entry.name
    assert "s3cr3t" not in repr(entry.stored) and entry.stored.identity == entry.identity != other.identity
    assert entry.config.command == "env TOKEN=s3cr3t gnugo --mode gtp"


def test_a_setting_called_command_or_analysis_may_be_blank_or_no_text() -> None:
    """The table of a bot's settings ended in a traceback."""
    assert (describe("command", " "), describe("analysis", True)) == (" ", "true")


@pytest.mark.parametrize("value", ["9007199254740993", 9007199254740993, "1e3", 7.0])
def test_a_whole_number_keeps_all_its_digits(value: object) -> None:
    (seed,) = (field for field in fields(TermsTable) if field.name == "seed")
    assert read_value(value, seed, "here") == int(Decimal(value))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("fast-randm", "unknown bot 'fast-randm'; did you mean 'fast-random'?"),
        ("uct:playout=5", "uct: unknown setting 'playout'; did you mean 'playouts'?"),
        ("uct:fast", "'uct:fast': 'fast' is not a setting=value"),
        ("checkpoint:", "'checkpoint:' needs the name or folder of a net, as in checkpoint:sl-9x9"),
        ("uct:playouts=5,playouts=6", "'uct:playouts=5,playouts=6': playouts is given twice"),
        ("uct:playouts=many", "uct: playouts = 'many' is not a whole number"),
        ("policy:precision=half", "policy: precision = 'half' is not one of auto, fp32, int8"),
        ("gtp", "gtp needs the setting 'command', as in gtp:command=..."),
        ("mcts:seconds=1", "'seconds' is a limit, not a setting; write mcts@seconds=1"),
        ("gone.py", "there is no file gone.py"),
        ("mcts@main=0", "mcts: main = 0 leaves no time; give more, or byoyomi, as in byoyomi=5"),
        ("mcts@main=9,stones=5", "mcts: stones needs byoyomi, as in byoyomi=30,stones=5"),
        ("mcts@seconds=1,main=9", "mcts: give seconds for each move, or main and byoyomi for the game, not both"),
        ("mcts@seconds=1,mian=5", "mcts: unknown limit 'mian'; did you mean 'main'?"),
    ],
)
def test_what_can_not_be_read_is_refused_with_what_to_write(registry: Registry, spec: str, message: str) -> None:
    assert message in refusal(registry.resolve, spec)


# --- Limits ---


@pytest.mark.parametrize(
    ("spec", "name", "limits"),
    [
        ("mcts:playouts=5@seconds=.5", "mcts:playouts=5@seconds=0.5", Limits(seconds=0.5)),
        ("mcts@byoyomi=5,main=60", "mcts@main=60,byoyomi=5", Limits(main=60, byoyomi=5)),
        ("mcts@main=0,byoyomi=5,stones=1", "mcts@byoyomi=5", Limits(byoyomi=5)),
        ("checkpoint:sl-9x9,temperature=1@main=9", "checkpoint:sl-9x9,temperature=1@main=9", Limits(main=9)),
        ("gtp:command=gnu@go", "gtp:command=gnu@go", Limits()),
    ],
)
def test_limits_are_typed_behind_the_player(registry: Registry, spec: str, name: str, limits: Limits) -> None:
    entry = registry.resolve(spec)
    assert (entry.name, entry.limits) == (name, limits)
    assert registry.resolve(name) == entry == pickle.loads(pickle.dumps(entry))


def test_limits_of_a_file_or_for_all_give_way_to_a_players_own(tmp_path: Path) -> None:
    registry = configured(tmp_path, '[bots.deep]\nkind = "uct"\nlimits = "main=60,byoyomi=5"\n')
    deep, other = registry.resolve("deep"), registry.resolve("deep@seconds=2")
    assert (deep.name, deep.limits) == ("deep", Limits(main=60, byoyomi=5))
    assert registry.resolve("deep:playouts=5").limits == deep.limits
    assert (other.name, other.limits) == ("deep@seconds=2", Limits(seconds=2))
    common, mcts, person = Limits(seconds=1), registry.resolve("mcts"), registry.resolve("human")
    assert mcts.with_limits(common) == registry.resolve("mcts@seconds=1")
    assert other.with_limits(common) == other and mcts.with_limits(Limits()) == mcts
    assert person.with_limits(common) == person  # who minds a clock only
    assert person.with_limits(Limits(main=60)).limits == Limits(main=60)


def test_how_long_a_move_may_take_at_most() -> None:
    most = {"simulations=5": 60, "seconds=5": 70, "seconds=5,lag=0": 5, "seconds=5,lag=2": 7, "deadline=6": 6}
    most |= {"seconds=5,lag=2,deadline=6": 6, "seconds=5,deadline=6": 6, "main=5": inf, "main=5,deadline=3": 3}
    assert {text: Limits.read(text, "here").allowed for text in most} == most


# --- Identity and nets ---


def test_a_player_is_its_settings_and_what_it_thinks_within_whatever_its_name(registry: Registry) -> None:
    different = ["uct", "uct:playouts=1", "uct:playouts=2", "uct:stop_early=false", "random", "fast-random"]
    limits = ["seconds=1", "seconds=2", "simulations=1", "main=60", "byoyomi=5", "byoyomi=5,stones=2"]
    different += [f"mcts@{each}" for each in limits]
    assert len({registry.resolve(spec).identity for spec in different}) == len(different)
    for same in (
        ["uct:playouts=5000", "mcts:playouts=5000.0"],
        ["mcts", "uct", "mcts@deadline=5"],
        ["mcts@main=60,byoyomi=5", "mcts@byoyomi=5,main=60.0,lag=3", "mcts@main=60,byoyomi=5,stones=1,deadline=4"],
    ):
        assert len({registry.resolve(spec).identity for spec in same}) == 1


def test_a_checkpoint_plays_by_folder_and_by_name_and_its_weights_are_who_it_is(
    tmp_path: Path, registry: Registry
) -> None:
    net = learn(tmp_path / "results" / "checkpoints" / "mine")
    for spec in (f"checkpoint:{net.folder}", "checkpoint:mine", "policy:checkpoint=mine"):
        entry = registry.resolve(spec)
        assert (entry.kind, entry.net, Path(entry.settings["checkpoint"])) == ("policy", net.identity, net.folder)
    copy, other = learn(tmp_path / "copy"), learn(tmp_path / "other", b"other weights")
    same, different = (registry.resolve(f"checkpoint:{each.folder}").identity for each in (copy, other))
    assert entry.identity == same != different and entry.identity != replace(entry, net="").identity
    entry.checked(9)
    assert "can't play 19x19" in refusal(entry.checked, 19, error=CheckpointError)
    net.weights.write_bytes(b"other weights")
    assert "isn't the file that manifest.json describes" in refusal(
        registry.resolve, "checkpoint:mine", error=CheckpointError
    )


def test_alphago_has_a_net_for_each_size_which_is_part_of_who_it_is(registry: Registry) -> None:
    entry, usual = registry.resolve("alphago"), Checkpoint.open(find("distilled-9x9"))
    assert entry.identity == entry.checked(11).identity == registry.resolve("alphago:checkpoint=distilled-9x9").identity
    large = entry.checked(13)
    assert Path(large.settings["checkpoint"]).name == "distilled-13x13" and entry.net == usual.identity != large.net
    for size, net in ((12, "distilled-13x13"), (15, "distilled-13x13"), (16, "distilled-19x19")):
        assert entry.checked(size).identity == registry.resolve(f"alphago:checkpoint={net}").identity
    games = [Game(Rules.preset("cgos", size), seed=1) for size in (9, 13)]
    with closing(entry.build()) as asked, closing(large.build()) as pinned:  # as a GTP controller changes the size
        small, big = (asked.raw_nn([game])[0].policy for game in games)
        assert len(small) == 82 and (big == pinned.raw_nn([games[1]])[0].policy).all()


# --- arena.toml ---


def test_a_file_adds_players_changes_known_ones_and_declares_tournaments(tmp_path: Path, registry: Registry) -> None:
    """Also one with a mark of byte order."""
    text = """\ufeff
        [bots.deep]
        kind = "uct"
        playouts = 5000
        c_uct = 1
        [bots.mcts]
        playouts = 77
        [tournaments.league]
        bots = ["sl", "mcts:playouts=500"]
        games = 40
        komi = 7
        """
    changed = configured(tmp_path, text)
    deep, deeper, mcts = (changed.resolve(name) for name in ("deep", "deep:playouts=9000", "mcts"))
    assert (deep.name, deep.kind, deep.settings["playouts"], deep.settings["c_uct"]) == ("deep", "uct", 5000, 1.0)
    assert (deeper.name, deeper.settings["c_uct"]) == ("deep:playouts=9000", 1.0)
    assert deep.source == mcts.source == str(tmp_path / "arena.toml")
    assert mcts.settings["playouts"] == 77 and changed.resolve("uct") == registry.resolve("uct")
    table = changed.tournament("league")
    assert (table.bots, table.games, table.komi, table.size) == (("sl", "mcts:playouts=500"), 40, 7.0, None)
    assert "is declared in arena.toml; did you mean 'league'?" in refusal(changed.tournament, "leage")
    assert "name its bots, as in: arena tournament mine A B C" in refusal(changed.tournament, "mine")
    set_bot(tmp_path / "arena.toml", "sl", "checkpoint", "new")
    assert {"deep", "mcts", "sl"} == read_config(tmp_path / "arena.toml").bots.keys()


ENGINE = '[bots.engine]\nkind = "gtp"\ncommand = "no-such-engine"\n'


def test_the_environment_of_an_engine_is_part_of_who_it_is_and_is_read_back_from_a_plan(tmp_path: Path) -> None:
    entry = configured(tmp_path, ENGINE + 'env = {THREADS = "2", DATA_DIR = "/srv/a b"}\n').resolve("engine")
    assert entry.config.env == entry.settings["env"] == {"DATA_DIR": "/srv/a b", "THREADS": "2"}
    turned = configured(tmp_path, ENGINE + 'env = {DATA_DIR = "/srv/a b", THREADS = "2"}\n').resolve("engine")
    other = configured(tmp_path, ENGINE + 'env = {DATA_DIR = "/srv"}\n').resolve("engine")
    bare = configured(tmp_path, ENGINE).resolve("engine")
    assert turned == entry and len({each.identity for each in (entry, other, bare)}) == 3
    assert "env" not in bare.settings  # an engine that an earlier arena stored is the same player
    plan = event_to_json(Match(entry, bare, Terms(Rules.preset()), 2))
    back = list(event_from_json(plan).players.values())
    assert [one.identity for one in back] == [entry.identity, bare.identity]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[bots.mcts]\nkind = "uct"\n', "two bots are called 'mcts': one from arena, one from {file}"),
        ('[bots.x]\nkind = "utc"\n', "{file}: [bots.x]: unknown kind 'utc'; did you mean 'uct'?"),
        ('[bots.x]\nkind = "uct"\nvisit = 5\n', "{file}: [bots.x]: unknown setting 'visit'"),
        ('[bots.x]\nkind = "gtp"\nenv = "A=1"\n', "{file}: [bots.x]: env is not a table of strings, as in {{NAME = "),
        ("[bots.mcts]\ndeadline = 5\n", """[bots.mcts]: 'deadline' is a limit, not a setting; write limits = "dead"""),
        ('[bots.mcts]\nlimits = "second=1"\n', "mcts]: limits: unknown limit 'second'; did you mean 'seconds'?"),
        ("[bots.x]\nplayouts = 5\n", "{file}: [bots.x] needs a kind, one of alphago, "),
        ("[bot.x]\n", "{file}: unknown table [bot]; did you mean 'bots'?"),
        ("[tournaments.x]\ngame = 5\n", "{file}: [tournaments.x]: unknown setting 'game'; did you mean 'games'?"),
        ("[bots.'a:b']\nkind = 'uct'\n", "{file}: 'a:b' is not a name for a bot; use letters"),
        ("[bots.x\n", "{file}: isn't valid TOML ("),
    ],
)
def test_an_error_in_the_file_names_the_file_and_the_key(tmp_path: Path, text: str, message: str) -> None:
    assert message.format(file=tmp_path / "my.conf") in refusal(configured, tmp_path, text, "my.conf")


# --- Installed packages, and bots in a Python file ---

BOT = """
from dataclasses import dataclass
from pathlib import Path
from arena.contract.bot import Bot, BotKind, Decision, setting
Path(__file__).with_suffix(".ran").touch()
@dataclass(frozen=True)
class Config:
    depth: int = setting(3, "how deep", high=9)
class Corner(Bot):
    def __init__(self, config): ...
    def choose(self, game, limits): return Decision(game.rules.size ** 2)
BOT = BotKind(summary="passes", config=Config, build=Corner)
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a package with one module and its entry point where Python finds it."""
    site = tmp_path / "site-packages"

    def installed(package: str, point: str) -> None:
        module = package.replace("-", "_")
        learners.install(site, monkeypatch, package, point)
        (site / f"{module}.py").write_text(BOT)
        monkeypatch.delitem(sys.modules, module, raising=False)

    return installed


def test_an_installed_package_brings_a_kind_that_plays(install: Any, tmp_path: Path) -> None:
    install("corner-bots", "corner = corner_bots:BOT")
    registry = configured(tmp_path, "[bots.corner]\ndepth = 4\n[bots.nook]\nkind = 'corner'\n")
    entry, nook = registry.resolve("corner"), registry.resolve("nook:depth=5")
    assert (entry.kind, entry.factory, entry.settings["depth"]) == ("corner", "corner_bots:BOT", 4)
    assert (nook.kind, nook.settings["depth"], nook.build().__class__.__name__) == ("corner", 5, "Corner")
    assert "corner: depth = 10 is out of range; allowed: to 9" in refusal(Registry().resolve, "corner:depth=10")
    assert Registry().resolve("corner").source == "the package corner-bots"


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (["uct = bots_0:BOT"], "two bots are called 'uct': one from arena, one from the package bots-0"),
        (["a = bots_0:BOT", "a = bots_1:BOT"], "'a': one from the package bots-0, one from the package bots-1"),
        (["lost = bots_elsewhere:BOT"], "bots_elsewhere:BOT can't be loaded: ModuleNotFoundError"),
    ],
)
def test_packages_that_clash_or_can_not_be_loaded_are_named(install: Any, points: list[str], message: str) -> None:
    for number, point in enumerate(points):
        install(f"bots-{number}", point)
    assert message in refusal(Registry)


CORNER = '[bots.corner]\nkind = "corner.py:BOT"\n'


def folder_with_a_bot(folder: Path, toml: str = f'{CORNER}limits = "seconds=1"\n') -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "corner.py").write_text(BOT)
    (folder / "arena.toml").write_text(toml)
    return folder / "arena.toml"


def test_a_python_file_of_arena_toml_runs_only_when_its_bot_is_named(tmp_path: Path) -> None:
    registry = Registry(folder_with_a_bot(tmp_path))
    (listed,) = registry.unloaded
    assert (listed.name, listed.kind, listed in registry.entries) == ("corner", "corner.py:BOT", False)
    assert registry.is_bot("corner") and not (tmp_path / "corner.ran").exists()
    entry = registry.resolve("corner")
    assert (tmp_path / "corner.ran").exists() and str(entry.limits) == "seconds=1" and len(entry.code) == 12
    assert registry.unloaded == [] and entry in registry.entries
    other = folder_with_a_bot(tmp_path / "other")  # a file of the same name
    (other.parent / "corner.py").write_text(BOT.replace("passes", "passes, too"))
    twin = Registry(other).resolve("corner")
    assert [each.bot_kind.summary for each in (entry, twin)] == ["passes", "passes, too"]
    assert entry.identity != twin.identity


def test_the_path_of_a_python_file_may_have_an_at_or_a_colon(tmp_path: Path) -> None:
    file = folder_with_a_bot(tmp_path / "me@work").with_name("corner.py")
    assert Registry().resolve(f"{file}@seconds=1").limits == Limits(seconds=1)
    assert Registry(folder_with_a_bot(tmp_path / "go:bots")).resolve("corner").limits == Limits(seconds=1)


def test_a_python_file_is_a_bot_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = Registry(folder_with_a_bot(tmp_path)).resolve("corner")
    monkeypatch.chdir(tmp_path)
    entry = Registry().resolve("corner.py@seconds=1")
    assert (entry.name, entry.identity) == ("corner.py@seconds=1", declared.identity)
    assert "typed here" in refusal(Registry().entry, "corner.py")  # as where a saved game has this name
    (tmp_path / "script.py").write_text("raise SystemExit(3)")  # without a word, this ended the arena
    assert "can't be loaded: SystemExit: 3" in refusal(Registry().resolve, "script.py")
    for toml, message in (
        (CORNER.replace("BOT", "BOTS"), "defines no BOTS; add BOTS = BotKind"),
        (f"{CORNER}visits = 5\n", "[bots.corner]: unknown setting 'visits'"),
    ):
        assert message in refusal(Registry(folder_with_a_bot(tmp_path, toml)).resolve, "corner")


@pytest.mark.parametrize("table", ["", '[bots.gnugo]\nkind = "gtp"\ncommand = "gnugo --mode gtp --level 1"\n'])
def test_an_installed_gnu_go_is_a_player_unless_the_config_has_another(table: str, tmp_path: Path, monkeypatch) -> None:
    program = tmp_path / "gnugo"
    program.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    config = tmp_path / "arena.toml"
    config.write_text(table)
    command = Registry(config).entry("gnugo").settings["command"]
    assert command.startswith("gnugo --mode gtp --level 1" if table else f"{program} --mode gtp --level 10")
