"""The page of a training run, from the files that a run leaves."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

from helpers.commandline import arena, refused

from trainers.ratings import Rating, write_rating
from trainers.settings import METRICS_FILE, choose_preset, write_file


def test_a_page_has_losses_held_out_figures_and_ratings_of_a_run(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "training" / "<mine>"
    write_file(choose_preset("zero", "cpu"), folder)
    rows = [{"step": step, "rows": 9 * step, "minutes": 1.5, "loss": 4 / step, "size": 9} for step in (1, 2, 4)]
    rows[1] |= {"validation_top1": 0.25, "validation_value_loss": 0.7, "validation_value_floor": 0.69}
    rows[2] |= {"validation_top1": 0.5, "validation_value_loss": 0.6, "validation_value_floor": 0.69}
    log = folder / METRICS_FILE
    log.write_text("".join(json.dumps(row) + "\n" for row in rows) + '[1]\n{"step": 5, "lo')
    write_rating(folder, Rating(2, "random", 20, 0.75, 0.6, 0.9))
    write_rating(folder, Rating(4, "step 2", 20, 0.5, 0.3, 0.7))
    assert arena("report", "--training", "<mine>", "--html", "m.html", folder=tmp_path).stdout == "Written to m.html.\n"
    html = (tmp_path / "m.html").read_text("utf-8")
    plots = {
        plot.get("aria-label"): plot
        for plot in map(ElementTree.fromstring, re.findall("<svg role.*?</svg>", html, re.DOTALL))
    }
    assert list(plots) == [
        "Elo over the steps; 0 is random",
        "training, loss: 1",
        "held-out games, top-1: 50.0%",
        "held-out games, result: loss (nats): 0.600; grey: the best constant",
    ]
    loss, _, value = [[one.get("points") for one in plot.iter("polyline")] for plot in [*plots.values()][1:]]
    assert loss == ["148.0,10.0 236.0,90.0 412.0,130.0", ""] and value[1] == "236.0,22.0 412.0,22.0"
    assert "Training run &lt;mine&gt;" in html and "step 2" in html and "arena-" in html
    sizes = [float(size) for plot in plots.values() for size in [plot.get("font-size")] if size]
    assert min(sizes) * 380 / 420 >= 11  # in pixels, on a page that is 400 wide


def test_a_run_that_is_not_there_and_other_options_are_refused(tmp_path: Path) -> None:
    typed = ("report", "--training", "none")
    refused(arena(*typed, "--html", "m.html", folder=tmp_path), "there is no training run 'none'")
    for wrong in ((), ("--html", "m.html", "--json"), ("--html", "m.html", "league")):
        refused(arena(*typed, *wrong, folder=tmp_path), "--training NAME takes --html FILE")
