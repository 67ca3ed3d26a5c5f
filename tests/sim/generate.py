# SPDX-License-Identifier: Apache-2.0
"""Random histories from a seed: one or more switches, and collaborators that fail around them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Callable

from tests.sim.events import Event, History
from tests.sim.host import PENDING_FLAG, SCRIPT_FLAG
from tests.sim.runtime import MODES

MOMENTS = (
    "look:deep", "looked:deep", "look:shallow", "looked:shallow", "look:middle", "before:stop", "after:stop", "slept",
    "before:ask", "after:ask", "before:create", "after:create",
    *(f"{when}:{write}" for when in ("before", "within", "after")
      for write in ("begin_run", "record_switch", "intend", "conclude", "end_run", "set_aside")),
)  # fmt: skip
"""Where an event can be put; a test compares them with those that a run really has."""
_BEFORE_THE_ACT = (
    "looked:deep",
    "after:record_switch",
    "before:intend",
    "within:intend",
    "after:intend",
    "look:shallow",
)
_AROUND_THE_ACT = ("after:intend", "before:stop", "after:stop", "before:conclude")
_CUTS = ("kill", "kill", "kill", "kill", "power-cut", "power-cut", "reboot", "soft-reboot", "upgrade", "watcher")
_WRITERS = ("calico-node", "kube-multus", "multus-watcher")
_RETURNS = ("stale", "stale", "never", "pod-deleted")


class _Draw:
    """One history being made."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.events: list[Event] = []
        self.names: Sequence[str] = _WRITERS

    def pick(self, things: Sequence[str]) -> str:
        return self.random.choice(things)

    def chance(self, of: float) -> bool:
        return self.random.random() < of

    def soon(self) -> float:
        """Seconds: mostly within what a remediation takes."""
        return round(self.random.choice((0.2, 1.0, 4.0, 15.0, 60.0)) * self.random.random(), 3)

    def add(self, at: float, do: str, *, moment: bool = False, **more: object) -> None:
        if moment:
            more.setdefault("on", self.pick(MOMENTS))
            more.update(nth=self.random.choice((1, 1, 1, 2, 3, 5)))
        else:
            more.pop("on", None)
        self.events.append(Event(at=round(max(0.0, at), 3), do=do, **more))  # type: ignore[arg-type]

    # --- themes

    def switch(self, at: float) -> None:
        kind = self.random.random()
        if kind < 0.75:
            script = self.pick(("none", "none", "none", "before", "during", "after", "twice"))
            more = ""
            if self.chance(0.1):
                more += f" half{self.random.randint(1, 7)}"
            if self.chance(0.08):
                more += " lost"
            if self.chance(0.12):
                more += " booted"
            self.add(at, "install", how=script + more, value=self.random.choice((0.02, 0.1, 0.4, 1.5)))
        else:
            what = self.pick(("unmount", "replace-directory"))
            self.add(at, what, moment=self.chance(0.5), on="look:middle")

    def cut(self, at: float) -> None:
        for _ in range(self.random.choice((1, 1, 2))):
            what = self.pick(_CUTS)
            who = self.pick(("", *self.names)) if what == "soft-reboot" else ""
            on = self.pick(_AROUND_THE_ACT if self.chance(0.3) else MOMENTS)
            how = "kill" if what == "upgrade" else ""
            self.add(at + self.soon(), what, moment=self.chance(0.8), on=on, who=who, how=how)

    def runtime(self, at: float) -> None:
        self.add(at + self.soon(), "runtime", moment=self.chance(0.3), how=self.pick(MODES[1:]))
        if self.chance(0.5):
            self.add(at + self.soon(), "runtime", moment=self.chance(0.3), how="ok")
        if self.chance(0.2):
            self.add(at + self.soon(), "runtime-lists", moment=self.chance(0.3), how="away")

    def kubelet(self, at: float) -> None:
        if self.chance(0.5):
            self.add(at + self.soon(), "api-server", how="away")
        self.add(at + self.soon(), "kubelet", moment=self.chance(0.4), how=self.pick(("stop", "restart", "restart")))
        if self.chance(0.5):
            self.add(at + self.soon() + 5.0, "kubelet", how="start")

    def returns(self, at: float) -> None:
        who = self.pick(self.names)
        self.add(at + self.soon(), "returns", who=who, how=self.pick(_RETURNS))
        if self.chance(0.4):
            self.add(at + self.soon(), "exits", moment=self.chance(0.3), who=who)
        if self.chance(0.3):
            self.add(at + self.soon(), "slow", who=self.pick(self.names), value=self.random.choice((3.0, 15.0, 40.0)))

    def others(self, at: float) -> None:
        for _ in range(self.random.choice((1, 2))):
            what = self.pick(
                (
                    "exits",
                    "exits",
                    "exits",
                    "delete-pod",
                    "ask",
                    "second-copy",
                    "second-copy",
                    "second-copy",
                    "second-copy",
                )
            )
            self.add(at + self.soon(), what, moment=self.chance(0.6), who=self.pick(self.names))

    def namespaces(self, at: float) -> None:
        """Left behind before the switch, mostly."""
        if self.chance(0.7):
            self.add(at - 0.3, "shim", who=self.pick(("", *self.names)))
        else:
            how = self.pick(("", "booted"))
            self.add(at + self.soon(), "shim", moment=self.chance(0.6), who=self.pick(self.names), how=how)
        if self.chance(0.3):
            self.add(at - 0.2, "runtime-namespace")
            if self.chance(0.6):
                self.add(at + self.soon() + 5.0, "runtime-namespace", how="off")

    def configuration(self, at: float) -> None:
        self.add(at + self.soon(), "configuration", moment=self.chance(0.6), how="away", on=self.pick(_BEFORE_THE_ACT))
        if self.chance(0.7):
            self.add(at + self.soon(), "kill", moment=True, on="after:intend")
        if self.chance(0.3):
            self.add(at + self.soon() + 5.0, "configuration", how="back")

    def limits(self, at: float) -> None:
        self.add(at - 0.1, "crash-loop", who=self.pick(self.names), value=float(self.random.choice((1, 3, 5, 7))))

    def pause(self, at: float) -> None:
        seconds = self.random.choice((2.0, 30.0, 900.0))
        if self.chance(0.5):
            self.add(at + self.soon() - 1.0, "pause", moment=self.chance(0.4), value=seconds)
        else:
            # What it holds back after a restart of all is owed only by a switch after that.
            self.add(at, "pause", value=900.0)
            self.add(at + self.soon(), self.pick(("power-cut", "reboot", "soft-reboot", "watcher")))
            self.switch(at + 25.0 + self.soon())
        if self.chance(0.3):
            self.add(at + self.soon() + 3.0, "resume")

    def window(self, at: float) -> None:
        """It may be open, and close or open while something is done."""
        opens = self.random.choice((-600.0, -70.0, -70.0, 30.0, 120.0, 4000.0, 200_000.0))
        minutes = str(self.random.choice((1, 2, 15, 600)))
        self.add(at + self.soon() - 2.0, "window", moment=self.chance(0.3), value=opens, how=minutes)
        if self.chance(0.2):
            self.add(at + self.soon() + 5.0, "window", how="off")

    def soft_reboot(self, at: float) -> None:
        self.add(at + self.soon(), "soft-reboot", moment=self.chance(0.4), who=self.pick(("", *self.names)))
        if self.chance(0.6):
            self.switch(at + 25.0 + self.soon())

    def blind(self, at: float) -> None:
        who = self.pick(self.names)
        self.add(at + self.soon() - 1.0, "blind", moment=self.chance(0.4), who=who)
        if self.chance(0.6):
            self.add(at + self.soon() + 2.0, "blind", who=who, how="off")

    def flags(self, at: float) -> None:
        path = self.pick((PENDING_FLAG, SCRIPT_FLAG))
        self.add(at + self.soon(), "flag", moment=self.chance(0.6), on=self.pick(("look:middle", *MOMENTS)), how=path)
        if self.chance(0.6):
            self.add(at + self.soon() + 1.0, "flag", how=path, value=-1.0)

    def ledger(self, at: float) -> None:
        how = self.pick(("lost", "lost", "lost", "garbled", "readonly", "full", "newer", "older", "older"))
        value = float(self.random.choice((0, 0, 100, 4096, 9000))) if how == "garbled" else 0.0
        where = self.pick(MOMENTS if self.chance(0.5) and how != "older" else _BEFORE_THE_ACT)
        self.add(at + self.soon(), "ledger", moment=self.chance(0.7) or how == "older", on=where, how=how, value=value)
        if how in ("readonly", "full") and self.chance(0.6):
            self.add(at + self.soon() + 1.0, "ledger", moment=self.chance(0.2), how="ok")

    def clock(self, at: float) -> None:
        step = self.random.choice((-90_000.0, -3600.0, -30.0, -2.0, 2.0, 30.0, 3600.0, 90_000.0))
        self.add(at + self.soon() - 2.0, "clock", moment=self.chance(0.3), value=step)
        if self.chance(0.6):
            # What comes back stale after the switch tempts whoever compares the wall's clock.
            who = self.pick(self.names)
            self.add(at + 1.0, "returns", who=who, how="stale")
            self.add(at + 2.0 + self.soon(), "exits", who=who)

    def systemd(self, at: float) -> None:
        self.add(at + self.soon(), "systemd", moment=self.chance(0.3), how="silent")
        if self.chance(0.6):
            self.add(at + self.soon(), "systemd", how="running")

    def product(self, at: float) -> None:
        what = self.random.random()
        if what < 0.5:
            self.add(at + self.soon() - 2.0, "mode", how="observe")
            if self.chance(0.5):
                self.add(at + self.soon() + 4.0, "mode", how="heal")
        elif what < 0.75:
            self.add(at + self.soon() - 1.0, "installed", how="away")
        else:
            self.add(at - 0.5, "hears", how="off")


_THEMES: tuple[tuple[int, Callable[[_Draw, float], None]], ...] = (
    (5, _Draw.cut),
    (4, _Draw.runtime),
    (2, _Draw.kubelet),
    (4, _Draw.returns),
    (5, _Draw.others),
    (1, _Draw.blind),
    (3, _Draw.flags),
    (5, _Draw.ledger),
    (3, _Draw.clock),
    (1, _Draw.systemd),
    (2, _Draw.product),
    (3, _Draw.namespaces),
    (1, _Draw.limits),
    (3, _Draw.pause),
    (2, _Draw.window),
    (2, _Draw.soft_reboot),
    (3, _Draw.configuration),
)


def history(seed: int) -> History:
    """The history of this seed, always the same."""
    draw = _Draw(seed)
    apps = tuple(kind for kind in ("job", "none", "reader") if draw.chance(0.12))
    draw.names = (*_WRITERS, *(f"app-{kind}" if kind != "reader" else kind for kind in apps))
    weights, themes = [weight for weight, _ in _THEMES], [theme for _, theme in _THEMES]
    # A few themes at a time, each more than once: rare things meet more often than if all were drawn alike.
    chosen = draw.random.choices(themes, weights, k=draw.random.choice((1, 2, 2, 3)))
    at = 0.5
    for _ in range(draw.random.choice((1, 1, 1, 2, 2, 3))):
        draw.switch(at)
        for theme in chosen:
            if draw.chance(0.75):
                theme(draw, at)
        at += draw.random.choice((0.3, 3.0, 12.0, 50.0)) * (0.5 + draw.random.random())
    draw.events.sort(key=lambda event: event.at)
    return History(
        serials=draw.chance(0.6),
        knew_before=draw.chance(0.75),
        proof=draw.random.choice((3.0, 8.0, 20.0)),
        per_switch=draw.random.choice((20, 20, 20, 20, 1, 2)),
        per_hour=draw.random.choice((40, 40, 40, 40, 2, 4)),
        apps=apps,
        events=tuple(draw.events),
    )
