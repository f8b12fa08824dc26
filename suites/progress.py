"""Progress of a run, on stderr: bars on a terminal, plain lines elsewhere, with the time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import NoReturn

from tqdm import tqdm


class RunProgress:
    """Tells how far a run is; the time left is the estimate, scaled by the pace so far."""

    def __init__(self, estimates: Sequence[float]) -> None:
        """`estimates` are the expected seconds of the cells that are to be run."""
        self.estimates = list(estimates)
        self.done = 0
        self.started = self.cell_started = time.monotonic()
        self.is_terminal = sys.stderr.isatty()
        self.bar: tqdm[NoReturn] | None = None

    def __enter__(self) -> RunProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close_bar()

    def start_cell(self, label: str) -> None:
        """Announce the next cell."""
        text = f"[{self.done + 1}/{len(self.estimates)}] {label}"
        self.cell_started = time.monotonic()
        print(text, file=sys.stderr, flush=True)
        if self.is_terminal:
            self.bar = tqdm(total=1, leave=False, dynamic_ncols=True)

    def step(self, done: int, total: int, note: str) -> None:
        """`done` of `total` steps of the current cell are behind us."""
        if self.bar is not None:
            self.bar.total = total
            self.bar.set_postfix_str(note, refresh=False)
            self.bar.update(done - self.bar.n)

    def end_cell(self, error: str | None) -> None:
        """Close the current cell; tell what went wrong with it and the time left."""
        self._close_bar()
        self.done += 1
        text = f"    {'failed' if error else 'done'} in "
        text += format_seconds(time.monotonic() - self.cell_started)
        if self.done < len(self.estimates):
            text += f", about {format_seconds(self._seconds_left())} left"
        print(f"{text}: {error}" if error else text, file=sys.stderr, flush=True)

    def _seconds_left(self) -> float:
        expected = sum(self.estimates[: self.done])
        pace = (time.monotonic() - self.started) / expected if expected else 1.0
        return pace * sum(self.estimates[self.done :])

    def _close_bar(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None


def format_seconds(seconds: float) -> str:
    """Seconds for people: "4.2 s", "3 min 05 s", "2 h 10 min"."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
