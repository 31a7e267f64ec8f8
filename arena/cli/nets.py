"""The commands about nets: gate, eval, import and data build."""

from __future__ import annotations

import shutil
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena import CheckpointError, ConfigError, RecordError, UserError, plural
from arena.cli import options
from arena.cli.match import SPRT_GAMES, sequential_test
from arena.cli.options import RESULTS, Argument, ConfigFile, Number, Option, ResultsFolder, with_options
from arena.players.config import TermsTable, default
from arena.system import cores

if TYPE_CHECKING:
    from arena.players.config import Change
    from arena.players.player import Player
    from arena.players.registry import Registry


@with_options(TermsTable, "size", "komi", "rules", "seed", "limits")
def gate(
    checkpoint: Annotated[str, Argument(metavar="CHECKPOINT")],
    against: Annotated[str | None, Option(metavar="ENTRY", help="Player whose net to replace.")] = None,
    played_as: Annotated[str | None, Option("--as", metavar="BOT", help="Play both nets in this bot.")] = None,
    sprt: Annotated[tuple[float, float] | None, Option(metavar="ELO0 ELO1", help="Hypotheses (default 0 35).")] = None,
    games: Annotated[int | None, Number("-n", "--games", help="Maximum number of games (default 5000).")] = None,
    terms: TermsTable = options.NO_TERMS,
    workers: options.Workers = 0,
    cluster: options.ClusterAddress = None,
    results: ResultsFolder = RESULTS,
    config: ConfigFile = None,
) -> None:
    """Promote a checkpoint if a match shows that it is stronger.

    CHECKPOINT (a folder with a trained net, or its name) plays a sequential test (5 % errors) against the net of ENTRY
    in arena.toml, by default the entry named like the trainer, otherwise mcts for a rollout policy and sl for a net.
    The same command resumes.

    If accepted, the net is copied to results/checkpoints/NAME-HASH, which further training does not change, and ENTRY's
    checkpoint in arena.toml names the copy. In any case the checkpoint's manifest records the result. The exit code is
    0 for accepted, 1 for rejected or undecided, 2 for an error.

    Examples:
      arena gate mine
      arena gate mine --as alphago:visits=50 --sprt 0 20 -n 1000
    """
    # The candidate is a copy, which is removed unless it is accepted.
    registry = options.registry_for_event(config, results)
    from arena.cli import events
    from arena.match.schedule import Gate, Match
    from arena.players.config import require_writable
    from arena.report.text import gate_lines
    from arena.results import gate as gates
    from arena.results.store import Store, database
    from bots.nets.checkpoint import SHIPPED_NETS, add_gate, copy_checkpoint, find

    setup = events.EventSetup(registry, results, workers, cluster)
    folder = find(checkpoint.removeprefix("checkpoint:"), results)
    name = against or gates.entry_for(registry, folder)
    if ":" in name or "@" in name:
        raise ConfigError(f"--against {name} is not an entry's name; put a bot with settings behind --as")
    agreed, limits = events.read_terms(terms, registry, setup.console.print_line), events.read_limits(terms)
    test = sequential_test(sprt or (0, 35))
    entry = _player_with_net(registry, name).for_size(agreed.rules.size)
    player = entry if played_as is None else _player_with_net(registry, played_as)
    net = player.identify(folder)
    if net == entry.net:
        raise ConfigError(f"{name} already plays {folder.name}: the two nets are identical ({net[:8]})")
    path = config or options.CONFIG
    require_writable(path)
    present = player if played_as is None else gates.with_checkpoint(player, gates.checkpoint_of(entry))
    for one in (gates.with_checkpoint(player, folder), present):
        one.checked(agreed.rules.size)
    ships = folder.resolve().parent == SHIPPED_NETS.resolve()
    never_changes = ships or folder.resolve().name.endswith(f"-{net[:8]}")
    kept = folder if never_changes else results / "checkpoints" / f"{folder.resolve().name}-{net[:8]}"
    is_new, ruling = _identity(player, kept) != net, gates.Ruling.UNDECIDED
    try:
        if is_new:
            copy_checkpoint(folder, kept)
            if _identity(player, kept) != net:
                raise UserError(f"{folder} was changed while it was copied; run the same command again")
        candidate, most = gates.with_checkpoint(player, kept).with_limits(limits), default(games, SPRT_GAMES)
        about = Gate(name, kept.name)
        match = Match(candidate, present.with_limits(limits), agreed, most, test=test, gate=about)
        with Store.of(results) if database(results).exists() else nullcontext() as store:
            match, before = (match, 0) if store is None else gates.resume_gate(store, match, is_tested=sprt is not None)
        if before:
            found = f"These two played {plural(before, 'game')} before ({match.event})"
            setup.console.print_line(f"{found}. The test counts them and continues, from --seed {match.terms.seed}.")
        with setup.opened(match) as store:
            standings, changed = setup.play(match, store, games is not None).standings, None
            evidence = gates.GateMatch(match, standings, gates.count_candidates(store, match))
            if evidence.ruling is gates.Ruling.ACCEPTED:
                changed = _promote(entry, candidate, kept, path, options.registry_of(config, results), results)
        ruling = evidence.ruling
        places = dict.fromkeys((folder, kept) if ruling is gates.Ruling.ACCEPTED or not is_new else (folder,))
        noted = [place for place in places if not ships and _identity(candidate, place) == net]
        for line in gate_lines(evidence, folder, changed, noted):
            setup.console.print_line(line)
        for place in noted:
            try:
                add_gate(place, evidence.as_json())
            except CheckpointError as error:  # the ruling stands
                setup.console.print_line(f"The manifest has no record of this gate: {error}.")
    finally:
        if is_new and ruling is not gates.Ruling.ACCEPTED and _identity(player, folder) == net:
            shutil.rmtree(kept, ignore_errors=True)
    if ruling is not gates.Ruling.ACCEPTED:
        raise typer.Exit(1)


def _player_with_net(registry: Registry, spec: str) -> Player:
    """A bot that has a net. Raises ConfigError for any other."""
    from arena.results.gate import takes_checkpoint

    player = registry.resolve(spec)
    if not takes_checkpoint(player):
        able = [entry.name for entry in registry.entries if takes_checkpoint(entry)]
        raise ConfigError(f"{player.name} plays without a checkpoint; those that have one are {', '.join(able)}")
    return player


def _identity(player: Player, folder: Path) -> str:
    """What lies there for this kind of bot; empty if nothing does."""
    try:
        return player.identify(folder)
    except CheckpointError:
        return ""


def _promote(entry: Player, candidate: Player, kept: Path, config: Path, registry: Registry, results: Path) -> Change:
    """Have the entry play the candidate. Raises UserError where the entry or the candidate was changed meanwhile."""
    from arena.players.config import set_bot
    from bots.nets.checkpoint import find

    if registry.resolve(entry.name).identity != entry.identity:
        raise ConfigError(f"{entry.name} was changed in {config} while the gate was played; run the same command again")
    if _identity(candidate, kept) != candidate.net:
        raise CheckpointError(f"{kept} was changed while the gate was played; run the same command again")
    name = str(kept.absolute())
    with suppress(CheckpointError):
        name = kept.name if find(kept.name, results).resolve() == kept.resolve() else name
    return set_bot(config, entry.name, "checkpoint", name)


def eval_(
    checkpoint: Annotated[str, Argument(metavar="CHECKPOINT")],
    data: Annotated[list[Path], Option(metavar="FILE", help="SGF files, folders, archives; a dataset's test set.")],
    since: Annotated[str, Option("--from", metavar="DAY", help="Only games from this day on.")] = "",
    positions: Annotated[int, Number(help="Positions, of randomly drawn games (default 0: all).", min=0)] = 0,
    size: Annotated[int, Number(help="Only games on this board size (default 9).")] = 9,
    dead_stones: Annotated[bool, Option("--dead-stones", help="Mark dead stones.")] = False,
    results: ResultsFolder = RESULTS,
) -> None:
    """Measure a net on games that it was not trained on.

    CHECKPOINT is a name or a folder. The command prints the accuracy of policy, value, margin and ownership, on how
    many positions and games each row rests, and what a trivial baseline scores.

    Example:
      arena eval sl-9x9 --data games/ --from 2018-03-01 --positions 50000
    """
    from arena.go.planes import find_encoder
    from arena.report.progress import show_counting
    from arena.report.tables import evaluation_table
    from bots.nets.catalogue import load_network
    from bots.nets.checkpoint import Checkpoint, find
    from trainers.games import some_games
    from trainers.metrics import evaluate as measure
    from trainers.records import MANIFEST, TEST, Dataset, day_of, load_games

    found = Checkpoint.open(find(checkpoint, results))
    found.require_size(size)
    with options.open_console(stderr=True).status("reading the records"):
        datasets = [path for path in data if (path / MANIFEST).is_file()]
        if datasets and len(data) > 1:
            raise ConfigError(f"--data: {datasets[0]} is a dataset; evaluate it alone")
        games = Dataset.open(data[0]).part(TEST) if datasets else load_games(data, size, results / "cache", dead_stones)
        if games.size != size:
            raise ConfigError(f"--size {size}: the games of {data[0]} are on {games.size}x{games.size}")
        games = games.select(games.dates >= day_of(since))
        if not len(games):
            raise RecordError(f"no game is of {since} or later; choose an earlier day")
        games = some_games(games, positions, seed=1)
    with show_counting(f"{found.manifest.name} on {len(games):,} games", len(games.moves)) as on_progress:
        net, encoder = load_network(found), find_encoder(found.manifest.encoder)
        evaluation = measure(net, encoder, games, on_progress)
    options.open_console().print(evaluation_table(evaluation, found.manifest.name))


def import_(
    file: Annotated[Path, Argument(metavar="FILE")],
    name: Annotated[str, Option(metavar="NAME", help="Name of the checkpoint to make.")],
    results: ResultsFolder = RESULTS,
) -> None:
    """Import a net of KataGo's as a checkpoint.

    This needs pip install 'arena[train]'. FILE is KataGo's own: .bin.gz. The checkpoint plays, analyses,
    rates and teaches like any other, without KataGo and without torch. The command compares it with torch on positions
    of real games, and measures its speed on one thread.

    Example:
      arena import b10c384h6nbttflrs.bin.gz --name b10
    """
    from arena.go.planes import find_encoder
    from trainers.katago import import_katago
    from trainers.settings import require_name

    require_name(name)
    with options.open_console(stderr=True).status("Starting") as status:
        made = import_katago(file, results / "checkpoints" / name, status.update)
    about, console, origin = made.checkpoint.manifest, options.open_console(), made.checkpoint.manifest.settings
    console.print_line(f"{made.checkpoint.folder}: {origin['net']}, model version {origin['version']}")
    console.print_line(f"  trained by {origin['trained_by']}; license: {origin['licence']}")
    console.print_line(f"  exported to ONNX, with outputs within {about.metrics['fp32_difference']:g} of torch's")
    if made.precision != "fp32":
        share = f"the move of fp32 in {100 * made.same_move:.1f} % of positions"
        console.print_line(f"  plays in {made.precision} here: {share}, win rates within {made.off:.3f} on average")
    for batch, time in made.milliseconds.items():
        console.print_line(f"  {time:.2f} ms an evaluation at batch {batch} ({made.precision}, 9x9, one thread)")
    console.print_line("Try:")
    tried = [f"match policy:checkpoint={name} alphago -n 20", f"play alphago:checkpoint={name},visits=50"]
    tried += [f"analyze GAME.sgf --bot alphago:checkpoint={name},visits=50"]
    if find_encoder(about.encoder).has_players:
        tried = [f"play human-like:rank=5k,checkpoint={name} --size 19"]
    for words in tried:
        console.print_line(f"  arena {words}")


def build(
    paths: Annotated[list[Path], Argument(metavar="PATHS")],
    out: Annotated[Path, Option(metavar="FOLDER", help="Folder to create.")],
    size: Annotated[int, Number(help="Board size (default 9).", min=2, max=19)] = 9,
    rating: Annotated[float, Number(help="Minimum Elo of both players (default 0).", min=0)] = 0,
    rank: Annotated[str, Option(metavar="RANK", help="Minimum rank of both players, such as 5k or 1d.")] = "",
    min_moves: Annotated[int, Number(help="Minimum number of moves (default 1).", min=1)] = 1,
    test_from: Annotated[str, Option(metavar="DAY", help="Test set: games from this day on.")] = "",
    test: Annotated[float, Number(help="Share in the test set, without a day (default 0).", min=0, max=1)] = 0.0,
    validation: Annotated[float, Number(help="Share in the validation set (default 0.01).", min=0, max=1)] = 0.01,
    by_player: Annotated[bool, Option("--by-player", help="No player is in both training and test set.")] = False,
    dead_stones: Annotated[bool, Option("--dead-stones", help="Mark dead stones.")] = False,
    workers: options.Workers = 0,
) -> None:
    """Build a dataset from game records, split by game.

    PATHS are SGF files, folders, and archives (.sgfs, .sgfs.xz, .zip, .tar.*).

    Handicap games and duplicates (under symmetry) are left out. The split depends on each game alone, so it does not
    change when games are added. With --dead-stones, playouts mark the dead stones in games of people. If the score then
    matches the recorded result, the game also provides ownership targets.

    Examples:
      arena data build games/ --out sets/strong --rating 2400 --test 0.05
      arena data build ogs.zip --out sets/people --rank 1d --dead-stones
    """
    from trainers.records import PARTS, GameFilter, SplitRule, build, day_of

    chosen = GameFilter(size, rating, rank, min_moves, dead_stones)
    rule = SplitRule(day_of(test_from), validation, test, by_player=by_player)
    with options.open_console(stderr=True).status("Reading") as status:
        words = "{:,} games read, {:,} kept"
        made = build(paths, out, chosen, rule, workers or cores(), lambda *counts: status.update(words.format(*counts)))
    print(f"{out}: {made.manifest.read:,} games of {size}x{size} read")
    for part, title in enumerate(PARTS):
        games = made.part(part)
        print(f"  {title}: {plural(len(games), 'game')}, {plural(len(games.moves), 'position')}")
    if test_from and not len(made.part(PARTS.index("test"))):
        print(f"No game is of {test_from} or later, so the test set is empty; choose an earlier day.")
    for reason, count in made.manifest.rejects.items():
        print(f"  left out, {reason}: {count:,}")
