"""The commands about nets: the gate that lets one take an entry's place, and how well one predicts games."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer

from arena import CheckpointError, ConfigError, UserError, plural
from arena.cli import complete, events
from arena.cli.compete import SPRT_GAMES
from arena.cli.options import NO_TERMS, RESULTS, ConfigFile, Results, read_limits, registry_of, takes
from arena.players.config import TermsTable

if TYPE_CHECKING:
    from arena.match.schedule import Match
    from arena.players.config import Change
    from arena.players.player import Player
    from arena.players.registry import Registry
    from arena.results.gate import Evidence, Ruling


CONFIG = Path("arena.toml")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A gate as it was asked for; None is what wasn't given."""

    checkpoint: str
    against: str | None = None
    played_as: str | None = None
    sprt: tuple[float, float] = (0.0, 35.0)
    alpha: float = 0.05
    beta: float = 0.05
    games: int = SPRT_GAMES
    given: TermsTable = field(default_factory=TermsTable)
    workers: int = 0
    cluster: str | None = None
    results: Path = Path(RESULTS)
    config: Path | None = None


@takes(TermsTable, "openings", "plies", "book")
def gate(
    checkpoint: Annotated[
        str,
        typer.Argument(
            help="New checkpoint: a name, a folder, or checkpoint:NAME.", autocompletion=complete.checkpoints
        ),
    ],
    against: Annotated[
        str | None,
        typer.Option(
            metavar="ENTRY",
            help="Player whose net to replace (default: the entry named like the trainer, such as rl; "
            "otherwise mcts for a rollout policy, sl for a net).",
            autocompletion=complete.trained,
        ),
    ] = None,
    played_as: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="BOT",
            help="Play both nets inside this bot, such as alphago:visits=50, instead of with ENTRY's settings.",
        ),
    ] = None,
    sprt: Annotated[
        tuple[float, float],
        typer.Option(metavar="ELO0 ELO1", help="Accept a net that is stronger by ELO1 rather than ELO0."),
    ] = (0.0, 35.0),
    alpha: Annotated[float, typer.Option(help="Probability of accepting a net that is stronger by ELO0 only.")] = 0.05,
    beta: Annotated[float, typer.Option(help="Probability of rejecting a net that is stronger by ELO1.")] = 0.05,
    games: Annotated[int, typer.Option("-n", "--games", help="Maximum number of games.")] = SPRT_GAMES,
    terms: TermsTable = NO_TERMS,
    workers: events.Workers = 0,
    cluster: events.Cluster = None,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """Promote a checkpoint if a match shows that it is stronger.

    The match is a sequential test against the net of an entry in arena.toml.

    Both nets play with the entry's own settings, each opening with both colours and no opening twice, until a
    sequential test is decided. The same command resumes.

    If accepted, the net is copied to results/checkpoints/NAME-HASH, which further training does not change, and ENTRY's
    checkpoint in arena.toml names the copy. Nothing else in the file changes. In any case the games are stored, and
    the checkpoint's manifest records the result.

    The exit code is 0 for accepted, 1 for rejected or undecided, 2 for an error.

    Examples: [bold]arena gate mine[/bold] · [bold]arena gate results/checkpoints/mine --against alphago[/bold] ·
    [bold]arena gate mine --as alphago:visits=50 --sprt 0 20 -n 1000[/bold]
    """
    from arena.results.gate import Ruling

    wanted = Wanted(checkpoint, against, played_as, sprt, alpha, beta, games, terms, workers, cluster, results, config)
    if run_gate(wanted) is not Ruling.ACCEPTED:
        raise typer.Exit(1)


def run_gate(wanted: Wanted) -> Ruling:
    """Play a gate, live, and carry out its ruling: what ``arena gate`` does, and a trainer may at its end.

    Raises UserError for what can't be played or written; all games played till then are stored.
    """
    from arena.report.style import Console
    from arena.report.text import gate_lines
    from arena.results.gate import Evidence, Ruling
    from arena.results.store import Store

    events.say_preparing()
    console, registry = Console(), registry_of(wanted.config, wanted.results)
    live = events.Live.of(console, wanted.results, wanted.workers, wanted.cluster, registry)
    say = events.printer(console)
    found = _find(wanted, say)
    try:
        found = replace(found, match=events.with_openings(_continued(found.match, wanted.results, say), wanted.results))
        with live.lending(found.match) as lent, Store.of(wanted.results, write=True, say=say) as store:
            view = lent.begin(found.match, store)
            evidence = Evidence(found.match, view.standings)
            changed = _adopt(found, wanted) if evidence.ruling is Ruling.ACCEPTED else None
    except UserError:
        found.clear()
        raise
    noted, notes = _note(found, evidence)
    for line in [*gate_lines(evidence, found.folder, changed, noted), *notes]:
        say(line)
    if evidence.ruling is not Ruling.ACCEPTED:
        found.clear()
    return evidence.ruling


def _continued(match: Match, results: Path, say: Callable[[str], None]) -> Match:
    """The gate of the same players by the same rules, if one was begun: more games continue its test."""
    from arena.results.gate import continued
    from arena.results.store import Store, database

    if not database(results).exists():
        return match
    with Store.of(results) as store:
        found, games = continued(store, match)
    if games:
        say(f"These two played {plural(games, 'game')} before ({found.event}). The test counts them and continues.")
    if found.terms.seed != match.terms.seed:
        say(f"Its openings follow from --seed {found.terms.seed}, as before.")
    return found


@dataclass(frozen=True, slots=True)
class _Found:
    """What a gate is about. ``folder`` is the checkpoint as it was named; ``kept`` the one that plays, a copy unless
    that one never changes. ``is_made`` says whether this gate made the copy."""

    entry: Player
    folder: Path
    kept: Path
    match: Match
    config: Path
    is_made: bool

    def clear(self) -> None:
        """Take the gate's copy away, where the same net still lies where it came from."""
        if self.is_made and _identity(self.match.first, self.folder) == self.match.first.net:
            shutil.rmtree(self.kept, ignore_errors=True)


def _find(wanted: Wanted, say: Callable[[str], None]) -> _Found:
    """Who meets whom, by what terms; the checkpoint is copied. Raises UserError, and then has left nothing."""
    from arena.match.schedule import Gate, Match
    from arena.players.config import require_writable
    from arena.results.gate import checkpoint_of, entry_for, training, with_checkpoint
    from bots.nets.checkpoint import find

    registry = registry_of(wanted.config, wanted.results)
    folder = find(wanted.checkpoint.removeprefix("checkpoint:"), wanted.results)
    name = wanted.against or entry_for(registry, folder)
    terms = events.read_terms(wanted.given, say)
    entry = _entry(registry, name).on(terms.rules.size)
    player = entry if wanted.played_as is None else _player(registry, wanted.played_as)
    net = player.identify(folder)
    if net == entry.net:
        raise ConfigError(f"{name} already plays {folder.name}: the two nets are identical ({net[:8]})")
    config = wanted.config or CONFIG
    require_writable(config)
    limits = read_limits(wanted.given.limits or "")
    _, rows, minutes = training(folder)
    kept = _kept(folder, net, wanted.results)
    gate = Gate(name, kept.name, rows, minutes)
    test = events.sequential_test(wanted.sprt, wanted.alpha, wanted.beta)
    present = player if wanted.played_as is None else with_checkpoint(player, checkpoint_of(entry))
    for played in (with_checkpoint(player, folder), present):
        played.checked(terms.rules.size)
    made = _keep(player, folder, kept, net)
    try:
        candidate = with_checkpoint(player, kept).with_limits(limits)
        match = Match(candidate, present.with_limits(limits), terms, wanted.games, test=test, gate=gate)
    except UserError:
        if made:
            shutil.rmtree(kept, ignore_errors=True)
        raise
    return _Found(entry, folder, kept, match, config, made)


def _entry(registry: Registry, name: str) -> Player:
    """The entry of this name, which has to have a net."""
    if ":" in name or "@" in name:
        raise ConfigError(
            f"--against {name} is not an entry's name; leave out its settings, or put the bot behind --as"
        )
    registry.entry(name)
    return _player(registry, name)


def _player(registry: Registry, spec: str) -> Player:
    """A bot that has a net. Raises ConfigError for any other."""
    from arena.results.gate import takes_checkpoint

    player = registry.resolve(spec)
    if not takes_checkpoint(player):
        able = [entry.name for entry in registry.entries if takes_checkpoint(entry)]
        raise ConfigError(f"{player.name} plays without a checkpoint; those that have one are {', '.join(able)}")
    return player


def _kept(folder: Path, net: str, results: Path) -> Path:
    """Where a checkpoint lies that no training changes: a folder that is named for its net, or came with arena."""
    from bots.nets.checkpoint import SHIPPED

    name = folder.resolve().name
    if folder.resolve().parent == SHIPPED.resolve():
        return folder
    if name.endswith(f"-{net[:8]}"):
        return folder
    return results / "checkpoints" / f"{name}-{net[:8]}"


def _keep(player: Player, folder: Path, kept: Path, net: str) -> bool:
    """Make the copy, unless it is there; whether it was made. Raises UserError."""
    from bots.nets.checkpoint import keep

    if kept == folder or _identity(player, kept) == net:
        return False
    keep(folder, kept)
    if _identity(player, kept) != net:
        shutil.rmtree(kept, ignore_errors=True)
        raise UserError(f"{folder} was changed while it was copied; run the same command again")
    return True


def _identity(player: Player, folder: Path) -> str:
    """What lies there for this kind of bot; empty if nothing does."""
    try:
        return player.identify(folder)
    except CheckpointError:
        return ""


def _adopt(found: _Found, wanted: Wanted) -> Change:
    """Have the entry play the candidate. Raises UserError."""
    from arena.players.config import set_bot
    from bots.nets.checkpoint import find

    name = found.entry.name
    if registry_of(wanted.config, wanted.results).resolve(name).identity != found.entry.identity:
        raise ConfigError(f"{name} was changed in {found.config} while the gate was played; run the same command again")
    if _identity(found.match.first, found.kept) != found.match.first.net:
        raise CheckpointError(f"{found.kept} was changed while the gate was played; run the same command again")
    by_name = found.kept.name
    try:
        same = find(by_name, wanted.results).resolve() == found.kept.resolve()
    except CheckpointError:
        same = False
    return set_bot(found.config, name, "checkpoint", by_name if same else str(found.kept.absolute()))


def _note(found: _Found, evidence: Evidence) -> tuple[list[Path], list[str]]:
    """Write the evidence into the manifests of the checkpoint and its copy; returns the folders, and what there is to
    say of others."""
    from arena.results.gate import Ruling
    from bots.nets.checkpoint import SHIPPED, add_gate

    noted, notes = [], []
    stays = evidence.ruling is Ruling.ACCEPTED or not found.is_made
    for folder in dict.fromkeys((found.folder, found.kept) if stays else (found.folder,)):
        if folder.resolve().parent == SHIPPED.resolve():
            notes.append(f"{folder.name} ships with arena, so its manifest is not changed.")
        elif _identity(found.match.first, folder) == found.match.first.net:
            try:
                add_gate(folder, evidence.as_json())
                noted.append(folder)
            except CheckpointError as error:
                notes.append(f"The gate could not be added to its manifest: {error}.")
    return noted, notes


def evaluate(
    checkpoint: Annotated[
        str, typer.Argument(help="A checkpoint's name or folder.", autocompletion=complete.checkpoints)
    ],
    data: Annotated[list[Path], typer.Option(help="SGF files, folders or archives to measure on (repeatable).")],
    since: Annotated[str, typer.Option("--from", help="Only games from this day on, such as 2018-03-01.")] = "",
    positions: Annotated[
        int, typer.Option(help="Approximate number of positions, from randomly drawn games (default 0: all).")
    ] = 0,
    size: Annotated[int, typer.Option(help="Only games on this board size.")] = 9,
    dead_stones: Annotated[
        bool, typer.Option("--dead-stones", help="Mark dead stones where the board differs from the recorded result.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Random seed for drawing games.")] = 1,
    results: Results = Path(RESULTS),
) -> None:
    """Measure a net on games that it was not trained on.

    It prints the accuracy of policy, value, margin and ownership, on how many positions and games each row rests, and
    what a trivial baseline scores.

    Example: [bold]arena eval sl-9x9 --data games/ --from 2018-03-01 --positions 50000[/bold]
    """
    try:
        from bots.nets.catalogue import load_network
        from trainers.metrics import evaluate as measure
        from trainers.records import games_since, load_games, some_games
    except ImportError as error:
        raise UserError(f"measuring needs more packages ({error.name}): pip install 'arena[train]'") from None
    from arena.go.planes import find_encoder
    from arena.report.progress import show_counting
    from arena.report.style import Console
    from arena.report.tables import evaluation_sheets
    from bots.nets.checkpoint import Checkpoint, find

    found = Checkpoint.open(find(checkpoint, results))
    found.require_size(size)
    with Console(stderr=True).status("reading the records"):
        games = some_games(games_since(load_games(data, size, results / "cache", dead_stones), since), positions, seed)
    with show_counting(f"{found.manifest.name} on {len(games):,} games", len(games.moves)) as on_progress:
        evaluation = measure(load_network(found), find_encoder(found.manifest.encoder), games, on_progress)
    console = Console()
    for sheet in evaluation_sheets(evaluation, found.manifest.name):
        console.print(sheet)
        console.print()
    if (komi := median(games.komis.tolist())) != found.manifest.komi:
        words = f"half of the games have komi {komi:g} or more, and the net learned with {found.manifest.komi:g}"
        console.print(f"This sample differs from the net's own: {words}.", soft_wrap=True, highlight=False)
