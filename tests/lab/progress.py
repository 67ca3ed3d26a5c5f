# SPDX-License-Identifier: Apache-2.0
"""Tells the person who waits for stages which ones run and for how long."""

import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Optional, TextIO

BAR = 20


class _Line:
    def __init__(self, name: str, estimate: float) -> None:
        self.name = name
        self.estimate = max(estimate, 0.1)
        self.begun: Optional[float] = None
        self.ended: Optional[float] = None
        self.state = "waits"
        self.log: Optional[Path] = None

    def elapsed(self) -> float:
        if self.begun is None:
            return 0.0
        return (self.ended or time.monotonic()) - self.begun

    def text(self) -> str:
        elapsed = self.elapsed()
        share = 1.0 if self.state == "done" else min(elapsed / self.estimate, 0.99)
        bar = ("#" * int(share * BAR)).ljust(BAR, ".")
        clock = f"{int(elapsed) // 60}:{int(elapsed) % 60:02d}"
        usual = f"of about {int(self.estimate) // 60}:{int(self.estimate) % 60:02d}" if self.state == "runs" else ""
        return f"{self.name:9} [{bar}] {clock:>5} {self.state} {usual}".rstrip()


class Display:
    """A bar for each stage on a terminal, a line at each change elsewhere."""

    def __init__(self, stages: Sequence[tuple[str, str, float]], stream: Optional[TextIO] = None) -> None:
        self._lines: dict[str, _Line] = {key: _Line(name, estimate) for key, name, estimate in stages}
        self._stream = stream or sys.stderr
        self._bars = self._stream.isatty()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._drawn = 0
        self._painter = threading.Thread(target=self._paint, daemon=True)

    def __enter__(self) -> "Display":
        self._painter.start()
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._stop.set()
        self._painter.join(timeout=5)
        if self._bars:
            self._draw()

    def starts(self, key: str, log: Path) -> None:
        line = self._lines[key]
        line.begun, line.state, line.log = time.monotonic(), "runs", log
        self._tell(line, f"log: {log}")

    def done(self, key: str) -> None:
        self._ends(key, "done")

    def failed(self, key: str, how: str) -> None:
        self._ends(key, how)

    def says(self, key: str, text: str) -> None:
        self._lines[key].state = text
        self._tell(self._lines[key])

    def _ends(self, key: str, state: str) -> None:
        line = self._lines[key]
        line.ended, line.state = time.monotonic(), state
        self._tell(line)

    def _tell(self, line: _Line, more: str = "") -> None:
        if not self._bars:
            with self._lock:
                print(
                    f"lab: {line.name}: {line.state} {line.elapsed():.0f} s {more}".rstrip(),
                    file=self._stream,
                )

    def _paint(self) -> None:
        if self._bars:
            while not self._stop.wait(0.2):
                self._draw()

    def _draw(self) -> None:
        texts: list[str] = [line.text() for line in self._lines.values()]
        with self._lock:
            if self._drawn:
                self._stream.write(f"\x1b[{self._drawn}A")
            self._stream.write("".join(f"\r\x1b[2K{text}\n" for text in texts))
            self._stream.flush()
            self._drawn = len(texts)
