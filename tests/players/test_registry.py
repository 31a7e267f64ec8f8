"""Names that can play: what ships, what is typed, what arena.toml and installed packages add, and how they clash."""

import pickle
import sys
from contextlib import closing
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from math import inf
from pathlib import Path
from typing import Any

import pytest

from arena import CheckpointError, ConfigError
from arena.contract.bot import Limits
from arena.contract.settings import read_value
from arena.go.game import Game, Rules
from arena.match.event import event_from_json, event_to_json
from arena.match.schedule import Match, Terms
from arena.players.player import Player
from arena.players.registry import Registry
from bots.nets import checkpoint
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


def setting(entry: Player, name: str) -> Any:
    return entry.settings[name]


def save_net(folder: Path, weights: bytes = b"weights") -> checkpoint.Checkpoint:
    """A checkpoint whose files are no nets: enough for all that doesn't play."""

    def write(place: Path) -> dict[str, float]:
        (place / checkpoint.WEIGHTS).write_bytes(weights)
        (place / checkpoint.MODEL).write_bytes(b"model")
        return {}

    manifest = checkpoint.Manifest(
        name=folder.name, network={}, encoder="x", planes=1, smallest=7, largest=13, size=9, rules="cgos", komi=7.0
    )
    return checkpoint.save(folder, manifest, write)


# --- What is typed ---


def test_every_kind_plays_under_its_own_name_and_what_ships_under_others(registry: Registry) -> None:
    kinds = {"alphago", "fast-random", "gtp", "human", "policy", "random", "uct"}
    assert kinds <= set(registry.kinds)
    assert kinds | {"mcts", "sl"} <= {entry.name for entry in registry.entries}
    mcts = registry.resolve("mcts")
    assert (mcts.name, mcts.kind) == ("mcts", "uct")
    assert registry.resolve("mcts").build().__class__ is registry.resolve("uct").build().__class__


def test_settings_are_typed_behind_the_name(registry: Registry) -> None:
    entry, usual = registry.resolve("uct:playouts=500,stop_early=false,c_uct=1"), registry.resolve("uct")
    assert entry.name == "uct:playouts=500,c_uct=1,stop_early=false"
    assert (setting(entry, "playouts"), setting(entry, "c_uct"), setting(entry, "stop_early")) == (500, 1.0, False)
    assert entry.config.playouts == 500
    assert setting(entry, "max_tree_mb") == setting(usual, "max_tree_mb")
    # A setting that changes nothing does not show.
    assert registry.resolve(f"uct:playouts={setting(usual, 'playouts')}") == registry.resolve("uct:") == usual
    for spec in ("uct:c_uct=0.7000001", "uct:c_uct=1e-07,stop_early=false"):
        entry = registry.resolve(spec)
        assert registry.resolve(entry.name) == entry
        assert entry.identity != usual.identity
    command = "gnugo --mode gtp --rules a,b --level=10"
    entry = registry.resolve(f"gtp:command={command},startup=3")
    assert (setting(entry, "command"), setting(entry, "startup")) == (command, 3.0)


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        ('"katago gtp -o maxVisits=100,threads=2"', "katago gtp -o maxVisits=100,threads=2"),
        ("'sh -c \"a=1,b=2\"'", 'sh -c "a=1,b=2"'),
        ("katago -o 'a=1,b=2' -x", "katago -o 'a=1,b=2' -x"),
        ("don't", "don't"),
    ],
)
def test_a_command_in_quotes_may_hold_commas(registry: Registry, typed: str, command: str) -> None:
    for spec in (f"gtp:command={typed},startup=3", f"gtp:startup=3,command={typed}"):
        entry = registry.resolve(spec)
        assert (setting(entry, "command"), setting(entry, "startup")) == (command, 3.0)
        assert registry.resolve(entry.name) == entry


def test_a_command_cut_at_a_comma_is_refused_with_the_quotes_that_it_needs(registry: Registry) -> None:
    message = refusal(registry.resolve, "gtp:command=katago gtp -override-config maxVisits=100,numSearchThreads=2")
    assert "unknown setting 'numSearchThreads'" in message
    fixed = message.rpartition(": ")[2]
    assert setting(registry.resolve(f"gtp:{fixed}"), "command").endswith("maxVisits=100,numSearchThreads=2")


@dataclass
class Numbers:
    seed: int = 0


@pytest.mark.parametrize("value", ["9007199254740993", 9007199254740993, "9223372036854775807", "1e3", 7.0])
def test_a_whole_number_keeps_all_its_digits(value: object) -> None:
    assert read_value(value, fields(Numbers)[0], "here") == int(Decimal(value))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("fast-randm", "unknown bot 'fast-randm'; did you mean 'fast-random'?"),
        ("uct:playout=5", "uct: unknown setting 'playout'; did you mean 'playouts'?"),
        ("uct:fast", "'uct:fast': 'fast' is not a setting=value"),
        ("checkpoint:", "'checkpoint:' needs the name or folder of a net, as in checkpoint:sl-9x9"),
        ("uct:playouts=5,playouts=6", "'uct:playouts=5,playouts=6': playouts is given twice"),
        ("uct:playouts=many", "uct: playouts = 'many' is not a whole number"),
        ("uct:max_tree_mb=10000", "uct: max_tree_mb = 10000 is out of range; allowed: from 1 to 8192"),
        ("policy:precision=half", "policy: precision = 'half' is not one of auto, fp32, int8"),
        ("gtp", "gtp needs the setting 'command', as in gtp:command=..."),
        ("mcts:seconds=1", "'seconds' is a limit, not a setting; write mcts@seconds=1"),
    ],
)
def test_what_can_not_be_read_is_refused_with_what_to_write(registry: Registry, spec: str, message: str) -> None:
    assert message in refusal(registry.resolve, spec)


# --- Limits ---


@pytest.mark.parametrize(
    ("spec", "name", "limits"),
    [
        ("mcts@seconds=1", "mcts@seconds=1", Limits(seconds=1)),
        ("mcts:playouts=5@seconds=.5", "mcts:playouts=5@seconds=0.5", Limits(seconds=0.5)),
        ("mcts:playouts=2000@seconds=1", "mcts@seconds=1", Limits(seconds=1)),
        ("mcts@byoyomi=5,main=60", "mcts@main=60,byoyomi=5", Limits(main=60, byoyomi=5)),
        ("mcts@main=0,byoyomi=5,stones=1", "mcts@byoyomi=5", Limits(byoyomi=5)),
        ("mcts@deadline=9,simulations=70", "mcts@simulations=70,deadline=9", Limits(simulations=70, deadline=9)),
        ("checkpoint:sl-9x9,temperature=1@main=9", "checkpoint:sl-9x9,temperature=1@main=9", Limits(main=9)),
        ("gtp:command=ssh me@host gnugo", "gtp:command=ssh me@host gnugo", Limits()),
    ],
)
def test_limits_are_typed_behind_the_player(registry: Registry, spec: str, name: str, limits: Limits) -> None:
    entry = registry.resolve(spec)
    assert (entry.name, entry.limits) == (name, limits)
    assert registry.resolve(name) == entry
    assert pickle.loads(pickle.dumps(entry)) == entry


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ("seconds=0", "mcts: seconds = 0 is out of range; allowed: from 0.001 to 1000000"),
        ("main=0", "mcts: main = 0 leaves no time; give more, or byoyomi, as in byoyomi=5"),
        ("main=9,byoyomi=5,stones=0", "mcts: stones = 0 is out of range; allowed: from 1 to 1000"),
        ("main=9,stones=5", "mcts: stones needs byoyomi, as in byoyomi=30,stones=5"),
        ("seconds=1,main=9", "mcts: give seconds for each move, or main and byoyomi for the game, not both"),
        ("lag=1", "mcts: lag needs seconds, main or byoyomi"),
        ("seconds=1,mian=5", "mcts: unknown limit 'mian'; did you mean 'main'?"),
    ],
)
def test_limits_that_can_not_be_are_refused_in_one_line(registry: Registry, limits: str, message: str) -> None:
    assert message in refusal(registry.resolve, f"mcts@{limits}")
    assert message.replace("mcts", "--limits", 1) in refusal(Limits.read, limits, "--limits")


def test_a_file_gives_a_bot_limits_that_typed_ones_replace(tmp_path: Path) -> None:
    registry = configured(
        tmp_path, '[bots.deep]\nkind = "uct"\nlimits = "main=60,byoyomi=5"\n[bots.mcts]\nlimits = "seconds=1"\n'
    )
    deep = registry.resolve("deep")
    assert (deep.name, deep.limits) == ("deep", Limits(main=60, byoyomi=5))
    assert registry.resolve("deep@byoyomi=5,main=60") == deep
    assert registry.resolve("deep:playouts=5").limits == deep.limits
    other = registry.resolve("deep@seconds=2")
    assert (other.name, other.limits) == ("deep@seconds=2", Limits(seconds=2))
    assert registry.resolve("mcts").limits == Limits(seconds=1)


def test_limits_for_all_leave_those_alone_that_have_their_own(registry: Registry) -> None:
    common, mcts, person = Limits(seconds=1), registry.resolve("mcts"), registry.resolve("human")
    assert mcts.with_limits(common) == registry.resolve("mcts@seconds=1")
    own = registry.resolve("mcts@simulations=5")
    assert own.with_limits(common) == own
    assert mcts.with_limits(Limits()) == mcts
    assert person.with_limits(common) == person  # who minds a clock only
    assert person.with_limits(Limits(main=60)).limits == Limits(main=60)


def test_what_a_player_thinks_within_is_part_of_who_it_is_and_what_only_forfeits_is_not(registry: Registry) -> None:
    specs = ["", "@seconds=1", "@seconds=2", "@simulations=1", "@main=60", "@byoyomi=5", "@byoyomi=5,stones=2"]
    assert len({registry.resolve(f"mcts{limits}").identity for limits in specs}) == len(specs)
    assert registry.resolve("mcts@deadline=5").identity == registry.resolve("mcts").identity
    same = ["main=60,byoyomi=5", "byoyomi=5,main=60.0,lag=3", "main=60,byoyomi=5,stones=1,deadline=4"]
    assert len({registry.resolve(f"mcts@{limits}").identity for limits in same}) == 1


def test_how_long_a_move_may_take_at_most() -> None:
    most = {"simulations=5": 60, "seconds=5": 70, "seconds=5,lag=0": 5, "seconds=5,lag=2": 7, "deadline=6": 6}
    most |= {"seconds=5,lag=2,deadline=6": 6, "seconds=5,deadline=6": 6, "main=5": inf, "main=5,deadline=3": 3}
    assert {text: Limits.read(text, "here").allowed for text in most} == most


# --- Nets ---


def test_a_checkpoint_plays_by_folder_and_by_name(tmp_path: Path, registry: Registry) -> None:
    net = save_net(tmp_path / "results" / "checkpoints" / "mine")
    for spec in (f"checkpoint:{net.folder}", "checkpoint:mine", "policy:checkpoint=mine"):
        entry = registry.resolve(spec)
        assert entry.kind == "policy"
        assert entry.net == net.identity
        assert Path(setting(entry, "checkpoint")) == net.folder
    assert registry.resolve("checkpoint:mine").name == "checkpoint:mine"
    warm = registry.resolve("checkpoint:mine,temperature=0.5")
    assert warm.name == "checkpoint:mine,temperature=0.5"
    assert setting(warm, "temperature") == 0.5


def test_a_missing_or_damaged_net_or_one_of_another_size_is_refused(tmp_path: Path, registry: Registry) -> None:
    assert "no checkpoint 'none'" in refusal(registry.resolve, "checkpoint:none", error=CheckpointError)
    net = save_net(tmp_path / "net")
    entry = registry.resolve(f"checkpoint:{net.folder}")
    entry.checked(9)
    assert "can't play 19x19" in refusal(entry.checked, 19, error=CheckpointError)
    net.weights.write_bytes(b"other weights")
    assert "damaged" in refusal(registry.resolve, f"checkpoint:{net.folder}", error=CheckpointError)


def test_alphago_has_a_net_for_each_size_which_is_part_of_who_it_is(registry: Registry) -> None:
    entry, usual = registry.resolve("alphago"), Checkpoint.open(find("distilled-9x9"))
    assert entry.identity == entry.checked(9).identity == registry.resolve("alphago:checkpoint=distilled-9x9").identity
    large = entry.checked(19)
    assert Path(setting(large, "checkpoint")).name == "distilled-19x19" and entry.net == usual.identity != large.net
    assert large.identity == registry.resolve("alphago:checkpoint=distilled-19x19").identity
    own = registry.resolve("alphago:checkpoint=distilled-9x9").checked(19)
    assert own.net == usual.identity  # whoever names a net gets it
    games = [Game(Rules.preset("cgos", size), seed=1) for size in (9, 19)]
    with closing(entry.build()) as asked, closing(large.build()) as pinned:  # as a GTP controller changes the size
        small, big = (asked.raw_nn([game])[0].policy for game in games)
        assert len(small) == 82 and (big == pinned.raw_nn([games[1]])[0].policy).all()


# --- Identity ---


def test_the_same_settings_are_the_same_player_whatever_the_name(tmp_path: Path, registry: Registry) -> None:
    deep = configured(tmp_path, '[bots.deep]\nkind = "uct"\nplayouts = 5000\n').resolve("deep")
    assert deep.identity == registry.resolve("uct:playouts=5000").identity
    assert deep.identity == registry.resolve("mcts:playouts=5000.0").identity
    assert registry.resolve("mcts").identity == registry.resolve("uct").identity
    assert len(deep.identity) == 12
    specs = [
        "uct",
        "uct:playouts=1",
        "uct:playouts=2",
        "uct:stop_early=false",
        "uct:resign=0.1",
        "random",
        "fast-random",
    ]
    assert len({registry.resolve(spec).identity for spec in specs}) == len(specs)


def test_another_net_is_another_player_and_the_same_net_elsewhere_is_not(tmp_path: Path, registry: Registry) -> None:
    one, copy = save_net(tmp_path / "one"), save_net(tmp_path / "copy")
    two = save_net(tmp_path / "two", b"other weights")
    players = [registry.resolve(f"checkpoint:{net.folder}") for net in (one, copy, two)]
    assert players[0].identity == players[1].identity
    assert players[0].identity != players[2].identity
    assert players[0].identity != replace(players[0], net="").identity


# --- arena.toml ---


def test_a_file_adds_entries(tmp_path: Path) -> None:
    registry = configured(
        tmp_path,
        """
        [bots.deep]
        kind = "uct"
        playouts = 5000
        c_uct = 1
        [bots."gnu.go-3_8"]
        kind = "gtp"
        command = "gnugo --mode gtp, please"
        """,
    )
    deep = registry.resolve("deep")
    assert (deep.name, deep.kind, setting(deep, "playouts"), setting(deep, "c_uct")) == ("deep", "uct", 5000, 1.0)
    assert deep.source == str(tmp_path / "arena.toml")
    assert setting(registry.resolve("gnu.go-3_8"), "command") == "gnugo --mode gtp, please"
    assert [entry.name for entry in registry.entries][-2:] == ["deep", "gnu.go-3_8"]
    deeper = registry.resolve("deep:playouts=9000")
    assert (deeper.name, setting(deeper, "c_uct")) == ("deep:playouts=9000", 1.0)


ENGINE = """
[bots.engine]
kind = "gtp"
command = "no-such-engine"
"""


def test_the_environment_of_an_engine_is_part_of_who_it_is_and_is_read_back_from_a_plan(tmp_path: Path) -> None:
    entry = configured(tmp_path, ENGINE + 'env = {THREADS = "2", DATA_DIR = "/srv/a b"}\n').resolve("engine")
    assert setting(entry, "env") == {"DATA_DIR": "/srv/a b", "THREADS": "2"}
    assert entry.config.env == setting(entry, "env") and pickle.loads(pickle.dumps(entry)) == entry
    turned = configured(tmp_path, ENGINE + 'env = {DATA_DIR = "/srv/a b", THREADS = "2"}\n').resolve("engine")
    other = configured(tmp_path, ENGINE + 'env = {DATA_DIR = "/srv"}\n').resolve("engine")
    bare = configured(tmp_path, ENGINE).resolve("engine")
    assert turned == entry and len({each.identity for each in (entry, other, bare)}) == 3
    assert "env" not in bare.settings  # an engine that an earlier arena stored is the same player
    plan = event_to_json(Match(entry, bare, Terms(Rules.preset()), 2))
    back = list(event_from_json(plan).players.values())
    assert [one.identity for one in back] == [entry.identity, bare.identity]


def test_a_check_that_fails_names_the_bot_and_its_file(tmp_path: Path) -> None:
    registry = configured(tmp_path, ENGINE)
    for spec in ("engine", "engine@seconds=1", "engine:startup=5"):
        text = refusal(registry.resolve(spec).checked, 9)
        assert text.startswith(f"{tmp_path / 'arena.toml'}: [bots.engine]: there is no program 'no-such-engine'")
    text = refusal(registry.resolve("gtp:command=nothing").checked, 9)
    assert text.startswith("gtp:command=nothing: there is no program 'nothing'")


def test_a_table_without_a_kind_changes_a_known_entry_and_an_empty_file_nothing(
    tmp_path: Path, registry: Registry
) -> None:
    changed = configured(tmp_path, "[bots.mcts]\nplayouts = 77\n[bots.uct]\nmax_tree_mb = 2\n")
    mcts = changed.resolve("mcts")
    assert (setting(mcts, "playouts"), setting(mcts, "max_tree_mb")) == (77, 256)
    assert setting(changed.resolve("uct"), "max_tree_mb") == 2
    assert mcts.identity != registry.resolve("mcts").identity
    assert mcts.source == str(tmp_path / "arena.toml")
    assert configured(tmp_path, "# nothing\n").entries == registry.entries


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[bots.mcts]\nkind = "uct"\n', "two bots are called 'mcts': one from arena, one from {file}"),
        ('[bots.x]\nkind = "utc"\n', "{file}: [bots.x]: unknown kind 'utc'; did you mean 'uct'?"),
        ('[bots.x]\nkind = "uct"\nvisit = 5\n', "{file}: [bots.x]: unknown setting 'visit'"),
        ('[bots.mcts]\nplayouts = "a"\n', "{file}: [bots.mcts]: playouts = 'a' is not a whole number"),
        ('[bots.x]\nkind = "gtp"\nenv = "A=1"\n', "{file}: [bots.x]: env is not a table of strings, as in {{NAME = "),
        ("[bots.mcts]\ndeadline = 5\n", """[bots.mcts]: 'deadline' is a limit, not a setting; write limits = "dead"""),
        ('[bots.x]\nkind = "uct"\nlimits = 5\n', "x]: limits = 5 is not text"),
        (
            '[bots.x]\nkind = "uct"\nlimits = "second=1"\n',
            "x]: limits: unknown limit 'second'; did you mean 'seconds'?",
        ),
        ("[bots.x]\nplayouts = 5\n", "{file}: [bots.x] needs a kind, one of alphago, "),
        ("[bots]\nx = 5\n", "{file}: [bots.x] is not a table of settings"),
        ("[bot.x]\n", "{file}: unknown table [bot]; did you mean 'bots'?"),
        ("[tournaments.x]\ngame = 5\n", "{file}: [tournaments.x]: unknown setting 'game'; did you mean 'games'?"),
        ('[tournaments.x]\nbots = "sl"\n', "{file}: [tournaments.x]: bots = 'sl' is not a list of names"),
        ("[bots.'a:b']\nkind = 'uct'\n", "{file}: 'a:b' is not a name for a bot; use letters"),
        ("[bots.x\n", "{file}: isn't valid TOML ("),
    ],
)
def test_an_error_in_the_file_names_the_file_and_the_key(tmp_path: Path, text: str, message: str) -> None:
    assert message.format(file=tmp_path / "my.conf") in refusal(configured, tmp_path, text, "my.conf")


def test_tournaments_are_declared_in_the_file(tmp_path: Path) -> None:
    text = '[tournaments.league]\nbots = ["sl", "mcts:playouts=500"]\ngames = 40\nstyle = "gauntlet"\nkomi = 7\n'
    registry = configured(tmp_path, text)
    table = registry.tournament("league")
    assert (table.bots, table.games, table.style) == (("sl", "mcts:playouts=500"), 40, "gauntlet")
    assert (table.komi, table.size, table.limits) == (7.0, None, None)
    assert list(registry.tournaments) == ["league"]
    assert "no tournament 'leage' is declared in arena.toml; did you mean 'league'?" in refusal(
        registry.tournament, "leage"
    )
    assert "name its bots, as in: arena tournament mine A B C" in refusal(registry.tournament, "mine")


# --- Installed packages ---

CORNER = """
from dataclasses import dataclass
from arena.contract.bot import Bot, BotKind, Decision, setting

@dataclass(frozen=True)
class Config:
    depth: int = setting(3, "how deep", high=9)

class Corner(Bot):
    def __init__(self, config): ...
    def choose(self, game, limits):
        return Decision(move=int(game.legal_moves().nonzero()[0][0]))

BOT = BotKind(summary="the first legal point", config=Config, build=Corner)
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a package with one module and its entry points where Python finds it."""
    site = tmp_path / "site-packages"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    modules = []

    def installed(package: str, points: str, source: str = CORNER) -> None:
        module = package.replace("-", "_")
        modules.append(module)
        (site / f"{module}.py").write_text(source)
        info = site / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[arena.bots]\n{points}\n")

    yield installed
    for module in modules:
        sys.modules.pop(module, None)


def test_an_installed_package_brings_a_kind_that_plays(install: Any, tmp_path: Path) -> None:
    install("corner-bots", "corner = corner_bots:BOT")
    registry = Registry()
    entry = registry.resolve("corner:depth=5")
    assert (entry.kind, entry.factory, entry.source) == ("corner", "corner_bots:BOT", "the package corner-bots")
    assert setting(entry, "depth") == 5
    assert "corner" in registry.kinds
    assert entry.build().__class__.__name__ == "Corner"
    assert "corner: depth = 10 is out of range; allowed: to 9" in refusal(registry.resolve, "corner:depth=10")
    registry = configured(tmp_path, "[bots.corner]\ndepth = 4\n[bots.nook]\nkind = 'corner'\n")
    assert setting(registry.resolve("corner"), "depth") == 4
    assert registry.resolve("nook").kind == "corner"


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["uct"], "two kinds of bot are called 'uct': one from arena, one from the package bots-0"),
        (["mcts"], "called 'mcts': one from arena, one from the package bots-0"),
        (
            ["corner"] * 2,
            "two kinds of bot are called 'corner': one from the package bots-0, one from the package bots-1",
        ),
    ],
)
def test_two_kinds_with_one_name_clash_and_both_are_named(install: Any, names: list[str], words: str) -> None:
    for number, name in enumerate(names):
        install(f"bots-{number}", f"{name} = bots_{number}:BOT")
    assert words in refusal(Registry)


@pytest.mark.parametrize(
    ("point", "source", "message"),
    [
        ("lost = lost_bots_elsewhere:BOT", "", "lost_bots_elsewhere:BOT can't be loaded: ModuleNotFoundError"),
        ("lost = lost_bots:BOT", "BOT = 5\n", "lost_bots:BOT must be a BotKind; it is of type int"),
    ],
)
def test_an_entry_point_that_can_not_be_loaded_is_named(install: Any, point: str, source: str, message: str) -> None:
    install("lost-bots", point, source)
    assert message in refusal(Registry)


# --- A bot in a Python file ---

FILE = """
from dataclasses import dataclass
from pathlib import Path
from arena.contract.bot import Bot, BotKind, Decision
Path(__file__).with_suffix(".ran").touch()
@dataclass(frozen=True)
class Config: pass
class Corner(Bot):
    def __init__(self, config): pass
    def choose(self, game, limits): return Decision(game.rules.size ** 2)
BOT = BotKind(summary="passes", config=Config, build=Corner)
"""


def folder_with_a_bot(
    tmp_path: Path, toml: str = '[bots.corner]\nkind = "corner.py:BOT"\nlimits = "seconds=1"\n'
) -> Path:
    (tmp_path / "corner.py").write_text(FILE)
    (tmp_path / "arena.toml").write_text(toml)
    return tmp_path / "arena.toml"


def test_a_python_file_of_arena_toml_runs_only_when_its_bot_is_named(tmp_path: Path) -> None:
    registry = Registry(folder_with_a_bot(tmp_path))
    (listed,) = registry.files
    assert (listed.name, listed.kind, listed in registry.entries) == ("corner", "corner.py:BOT", False)
    assert registry.knows("corner") and not (tmp_path / "corner.ran").exists()
    entry = registry.resolve("corner")
    assert (tmp_path / "corner.ran").exists() and str(entry.limits) == "seconds=1" and len(entry.code) == 12
    assert registry.files == [] and "corner" in {known.name for known in registry.entries}


def test_bots_in_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    entries = []
    for number, name in enumerate(("a", "b")):
        (tmp_path / name).mkdir()
        config = folder_with_a_bot(tmp_path / name)
        (tmp_path / name / "corner.py").write_text(FILE.replace("passes", f"passes {number}"))
        entries.append(Registry(config).resolve("corner"))
    assert [entry.bot_kind.summary for entry in entries] == ["passes 0", "passes 1"]
    assert entries[0].identity != entries[1].identity


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ('[bots.corner]\nkind = "gone.py:BOT"\n', "[bots.corner]: kind = 'gone.py:BOT': there is no file"),
        ('[bots.corner]\nkind = "corner.py:BOTS"\n', "can't be loaded: AttributeError"),
        ('[bots.corner]\nkind = "corner.py:BOT"\nvisits = 5\n', "[bots.corner]: unknown setting 'visits'"),
        ('[bots.corner]\nkind = "corner.py"\n', "unknown kind 'corner.py'; a Python file is written as mybot.py:BOT"),
        ('[bots.corner]\nkind = "corner.py:BOT"\n[bots.random]\nkind = "corner.py:BOT"\n', "two bots are called"),
    ],
)
def test_a_bot_in_a_file_that_can_not_play_is_refused_by_name(tmp_path: Path, toml: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Registry(folder_with_a_bot(tmp_path, toml)).resolve("corner")
    assert message in str(refused.value)


def test_a_python_file_is_a_bot_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = Registry(folder_with_a_bot(tmp_path)).resolve("corner")
    monkeypatch.chdir(tmp_path)
    entry = Registry().resolve("corner.py@seconds=1")
    assert (entry.name, entry.identity) == ("corner.py@seconds=1", declared.identity)
    with pytest.raises(ConfigError, match="typed here"):  # as where a saved game has this name
        Registry().entry("corner.py")
    with pytest.raises(ConfigError, match=r"^there is no file gone\.py$"):
        Registry().resolve("gone.py")
    with pytest.raises(ConfigError, match=r"corner\.py: unknown setting 'visits'"):
        Registry().resolve("corner.py:visits=5")
