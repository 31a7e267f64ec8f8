"""What the tests of training runs share."""

import json
from pathlib import Path

from trainers.settings import METRICS_FILE


class Killed(Exception):
    """Stands for a crash."""


def steps_logged(folder: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (folder / METRICS_FILE).read_text().splitlines()]
