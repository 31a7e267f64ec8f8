"""Checkpoints and settings from elsewhere: nothing hangs, nothing leaves its folder."""

import os
import shutil
from pathlib import Path

import pytest
from helpers.commandline import arena
from helpers.nets import HEADS, small_model, small_net

from arena import CheckpointError
from arena.go.coords import BLACK, WHITE
from arena.go.game import Ending, Rules
from arena.match.runner import play_event
from arena.match.schedule import Match, Terms
from arena.players.registry import Registry
from arena.results.store import Store
from bots.nets.checkpoint import SHIPPED_NETS, Checkpoint


@pytest.mark.parametrize("name", ["manifest.json", "weights.safetensors", "model.onnx"])
def test_a_checkpoint_of_pipes_or_devices_or_gigabytes_is_refused_and_not_waited_for(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "net"
    shutil.copytree(SHIPPED_NETS / "sl-9x9", folder)
    for make in (os.mkfifo, lambda path: os.symlink("/dev/zero", path)):
        (folder / name).unlink()
        make(folder / name)
        with pytest.raises(CheckpointError, match=f"{name}: can't be read .it is not a regular file"):
            Checkpoint.open(folder)
    (folder / "manifest.json").unlink()
    with (folder / "manifest.json").open("wb") as file:
        file.truncate(4 << 30)
    with pytest.raises(CheckpointError, match="isn't valid JSON"):
        Checkpoint.open(folder)


def test_a_net_whose_answer_is_not_a_number_in_mid_game_forfeits_with_a_dossier(store: Store, tmp_path: Path) -> None:
    net = small_net(tmp_path / "net", small_model(HEADS, "nan"))
    player, opponent = map(Registry().resolve, (f"policy:checkpoint={net}", "fast-random"))
    for _ in play_event(Match(player, opponent, Terms(Rules.preset("cgos", 5), plies=0), 1), store, 1):
        pass
    (record,) = store.games()
    assert record.outcome is not None and record.outcome.ending is Ending.CRASH
    assert record.outcome.winner is (WHITE if record.black == player.name else BLACK)
    assert "its policy must be 26 finite numbers a position" in record.reason
    assert "Traceback" in record.fault_details and record.moves


def test_a_net_that_computes_for_ever_is_given_up_at_its_deadline(tmp_path: Path) -> None:
    small_net(tmp_path / "endless", small_model(HEADS, "endless"))
    done = arena("check", "policy:checkpoint=endless@deadline=1", "--size", "5", folder=tmp_path)
    assert done.returncode == 1 and "no answer within 1 s" in done.stdout
