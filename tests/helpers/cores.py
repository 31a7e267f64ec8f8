"""What trainers are lent where no cluster is there: this process plays what a core would."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from trainers.cluster import Stage


class CoresHere:
    """Stands for ``trainers.cluster.Cores``. Nothing travels."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def play(
        self,
        work: Any,
        numbers: deque[int],
        slots: int,
        goes_on: Callable[[], bool] = lambda: True,
        sent: Callable[[], Any] = lambda: None,
    ) -> Iterator[Any]:
        stage = Stage()
        while goes_on() and numbers:
            self.asked.append([numbers.popleft() for _ in range(min(slots, len(numbers)))])
            stage.sent = sent()
            for game in work(self.asked[-1], stage):
                yield game
                stage.sent, stage.is_over = sent(), not goes_on()
