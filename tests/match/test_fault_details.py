"""What is shown of games that a fault ended, and how a game is found."""

from dataclasses import replace
from pathlib import Path

import pytest
from helpers.commandline import arena, refused
from helpers.games import console_of, match_of, output_of, record_of

from arena import StoreError
from arena.go.game import Ending
from arena.go.sgf import write_sgf
from arena.report.game import show_details
from arena.results.store import Store, StoredEvent

MATCH = match_of("alphago", "sl", games=12)
REASON = "sl: RuntimeError: no idea what to play"
TRACEBACK = "Traceback (most recent call last):\n  line 1\x07 é\nRuntimeError: no idea"
CRASH = replace(record_of(MATCH, 1, "alphago", Ending.CRASH, REASON), fault_details=TRACEBACK)


@pytest.mark.parametrize(("width", "encoding"), [(40, "ascii"), (200, "utf-8")])
def test_the_details_tell_who_why_where_and_how_to_see_it_again(width: int, encoding: str) -> None:
    console = console_of(width, 24, terminal=False, encoding=encoding)
    show_details(CRASH, console)
    shown = output_of(console)
    assert f"White won by forfeit ({REASON})" in shown and f"move {len(CRASH.moves)} of" in shown
    assert "RuntimeError: no idea\n" in shown and "\x07" not in shown
    assert write_sgf(CRASH) in shown


def test_a_game_is_found_by_its_number_or_its_id_and_shown_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    with Store.of(tmp_path / "results", write=True) as store:
        store.add_event(StoredEvent(MATCH.event, "2026-01-01", "{}"))
        store.append([record_of(MATCH, 0, "sl"), CRASH, record_of(MATCH, 2, None), record_of(MATCH, 11, "sl")])
        for text in (f"{MATCH.event}/00012", "4"):
            assert store.game(text).id == f"{MATCH.event}/00012"
        for unknown in ("7", "9" * 30, "9" * 5000, "nothing", "other/12", "%", "_"):
            with pytest.raises(StoreError, match=r"there is no game '"):
                store.game(unknown)
    listed = arena("games", "--ending", "forfeit", folder=tmp_path, columns=140).stdout
    assert "1 game." in listed and "crash" in listed
    assert "by forfeit (sl: RuntimeError" in arena("show", "2", folder=tmp_path).stdout
    assert "Traceback" not in arena("show", "2", "--move", "1", folder=tmp_path).stdout
    refused(arena("show", "99", folder=tmp_path), "no game '99'", "arena games")
