# SPDX-License-Identifier: Apache-2.0
"""CRI-O's log: logrus' text lines on standard error, which systemd puts into the journal."""

from __future__ import annotations

import json
import sys
import time

_LEVELS = ("debug", "info", "warning", "error", "fatal")


class Log:
    """`level`: what is below it is not written. SIGHUP may change it: that one is effective."""

    def __init__(self, level: str) -> None:
        self.level = level

    def debug(self, text: str) -> None:
        self._write("debug", text)

    def info(self, text: str) -> None:
        self._write("info", text)

    def warning(self, text: str) -> None:
        self._write("warning", text)

    def error(self, text: str) -> None:
        self._write("error", text)

    def fatal(self, text: str) -> None:
        self._write("fatal", text)

    def _write(self, level: str, text: str) -> None:
        least = self.level if self.level in _LEVELS else "info"
        if _LEVELS.index(level) >= _LEVELS.index(least):
            moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
            # In one piece: threads write too.
            sys.stderr.write(f'time="{moment}Z" level={level} msg={json.dumps(text, ensure_ascii=False)}\n')
            sys.stderr.flush()
