# SPDX-License-Identifier: Apache-2.0
"""Show what is live, what is owed, what is refused and why, and what was done last."""

from __future__ import annotations

import argparse

import msgspec

from ostreewatchd import ledger
from ostreewatchd.cli.scan import as_object, since
from ostreewatchd.cli.world import exit_status, json_argument, rpm_ostree, see_host, unit_states, watcher_status
from ostreewatchd.report import words
from ostreewatchd.report.jsontext import json_text
from ostreewatchd.report.printable import printable


def arguments(parser: argparse.ArgumentParser) -> None:
    json_argument(parser)


def run(options: argparse.Namespace) -> int:
    config, snapshot, findings = see_host()
    problem = snapshot.history.problem
    last = None
    try:
        last = ledger.last_run()
    except ledger.LedgerError as error:
        problem = str(error)
    # What an earlier run refused is over when nothing is owed any more.
    refusals = last.refusals if last and any(finding.owed for finding in findings) else ()
    pause = snapshot.pause
    units, watcher, daemon = unit_states(), watcher_status(), rpm_ostree()
    if options.json:
        everything = {
            **as_object(snapshot, findings),
            "mode": config.mode,
            "pause": msgspec.to_builtins(pause) if pause else None,
            "windows": [str(window) for window in config.windows],
            "units": units,
            "watcher": watcher,
            "rpm_ostree": msgspec.to_builtins(daemon),
            "flags": [msgspec.to_builtins(flag) for flag in snapshot.flags],
            "refusals": [msgspec.to_builtins(refusal) for refusal in refusals],
            "acts": [msgspec.to_builtins(act) for act in snapshot.history.acts],
            "ledger_problem": problem,
            "ledger_set_aside": snapshot.history.set_aside,
        }
        print(json_text(everything))
        return exit_status(snapshot, findings)
    names, seen = snapshot.live.deployments, since(snapshot)
    print(f"node      {snapshot.node.name} ({snapshot.node.platform}), mode {config.mode}")
    if pause is not None:
        print(printable(words.pause(pause)))
    if config.windows:
        print(f"windows   {', '.join(map(str, config.windows))} (UTC)")
    print(f"booted    {printable(names.booted) or '-'}")
    print(f"live /etc {printable(names.etc) or '-'}" + (f", first seen {words.when(seen)}" if seen else ""))
    print(f"live /usr {printable(names.usr) or '-'} ({words.usr(snapshot.live)})")
    for line in (words.pending(snapshot.live), words.not_booted(snapshot.live)):
        if line:
            print(printable(line))
    if names.staged:
        locked = ", locked" if snapshot.ostree.staged_is_locked else ""
        print(f"staged    {printable(names.staged)} (written at shutdown{locked})")
    if snapshot.ostree.next_root:
        print(f"next root {printable(snapshot.ostree.next_root)} (takes effect with the next soft reboot)")
    for unit, state in units.items():
        if state != "active":
            print(f"unit      {unit}: {state}")
    if watcher:
        print(f"watcher   {printable(watcher)}")
    if words.rpm_ostree(daemon):
        print(f"rpmostree {printable(words.rpm_ostree(daemon))}")
    for flag in snapshot.flags:
        print(f"flag      {flag.path}: {flag.means} ({flag.age:.0f} s old)")
    owed, noted, unknown, wrong, unclear = words.counts(findings)
    print(f"stale     {owed} owed, {noted} noted, {unknown} unknown, of {snapshot.container_count} containers")
    if wrong:
        print(f"wrong     {wrong} with the host, see `ostreewatchctl explain host`")
    if unclear:
        print(f"unknown   {unclear} of the host, see `ostreewatchctl explain host`")
    for finding in findings:
        print(f"  {words.finding(finding)}")
    for trouble in snapshot.problems:
        print(f"not read  {printable(trouble.where)}: {printable(trouble.what)}")
    if last is not None:
        state = f"status {last.status}: {last.summary}" if last.ended_at else "not finished"
        print(f"last run  {words.when(last.started_at)}: {printable(state)}")
    for refusal in refusals:
        print(f"  {words.refusal(refusal)}")
    for act in snapshot.history.acts[-5:]:
        print(f"act       {words.act(act)}")
    if problem:
        print(f"ledger    {printable(problem)}")
    if snapshot.history.set_aside and snapshot.history.set_aside_boot == snapshot.node.boot_id:
        print(f"ledger    a corrupt one was set aside: {printable(snapshot.history.set_aside)}")
    return exit_status(snapshot, findings)
