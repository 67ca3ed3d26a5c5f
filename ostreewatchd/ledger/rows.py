# SPDX-License-Identifier: Apache-2.0
"""Between the ledger's rows and the model's types.

A newer product may have written what this one has no name for. That is no damage: what it did counts, under the
nearest name that lets nothing be done a second time."""

from __future__ import annotations

import sqlite3
from typing import Any, get_args

import msgspec

from ostreewatchd.model import History, OutcomeName, PastAct, PastRecovery, RecoveryVerdict, Refusal, Subject, Switch

VERSION = 4
"""PRAGMA user_version: counted up with each column that is added."""
_NEWEST_ACTS = 200
_MOST_ACTS = 5000
_NEWEST_RECOVERIES = 20
_OUTCOMES = frozenset(get_args(OutcomeName))
_TEXTS = ("namespace", "pod", "pod_uid", "container", "container_id", "unit")


def version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def encode(thing: object) -> str:
    """A model's type as JSON that SQLite can store."""
    return msgspec.json.encode(_texts(msgspec.to_builtins(thing)), order="deterministic").decode()


def text(any_text: str) -> str:
    """What SQLite can store: a path may have bytes that are no UTF-8."""
    return any_text.encode("utf-8", "backslashreplace").decode()


def _texts(thing: object) -> object:
    if isinstance(thing, dict):
        return {key: _texts(value) for key, value in thing.items()}
    return text(thing) if isinstance(thing, str) else thing


def history(db: sqlite3.Connection) -> History:
    """All that is asked about the past. Raises sqlite3.Error, and MsgspecError for a value that cannot be read."""
    newer = version(db) > VERSION
    switches = _switches(db)
    notes = dict(db.execute("SELECT key, value FROM note WHERE key IN ('set-aside', 'set-aside-boot')").fetchall())
    return History(
        set_aside=notes.get("set-aside", ""),
        set_aside_boot=notes.get("set-aside-boot", ""),
        switch=switches[0] if switches else None,
        before=switches[1] if len(switches) > 1 else None,
        acts=_acts(db, switches[0].id if switches else "", newer),
        recoveries=_recoveries(db),
    )


def _recoveries(db: sqlite3.Connection) -> tuple[PastRecovery, ...]:
    if not _columns(db, "recovery"):
        return ()  # An older product's file that only is read.
    found = db.execute(
        "SELECT act_id, verdict, why, judged_at, late_verdict, late_why, late_at FROM recovery"
        " ORDER BY act_id DESC LIMIT ?",
        (_NEWEST_RECOVERIES,),
    ).fetchall()
    return tuple(
        PastRecovery(
            act=row[0], verdict=_verdict(row[1]), why=row[2], judged_at=row[3], late_verdict=_verdict(row[4]),
            late_why=row[5], late_at=row[6],
        )
        for row in reversed(found)
    )  # fmt: skip


def _verdict(text: str) -> Any:
    """What a newer version calls otherwise is not judged again, and is no recovery."""
    return text if text in ("", *get_args(RecoveryVerdict)) else "cannot-know"


def _switches(db: sqlite3.Connection) -> list[Switch]:
    """The two newest, the newest first."""
    root = "root" if "root" in _columns(db, "switch") else "''"
    return [
        Switch(
            id=row[0],
            fingerprint=row[1],
            boot_id=row[2],
            deployment=row[3],
            seen_at=row[4],
            seen_boottime=row[5],
            root=row[6],
        )
        for row in db.execute(
            f"SELECT id, fingerprint, boot_id, deployment, seen_at, seen_boottime, {root} FROM switch"
            " ORDER BY number DESC LIMIT 2"
        )
    ]


def _columns(db: sqlite3.Connection, table: str) -> set[str]:
    """An older product's file that only is read has not got the later ones yet."""
    return {row[1] for row in db.execute(f"PRAGMA table_info({table})")}


def _acts(db: sqlite3.Connection, current: str, newer: bool) -> tuple[PastAct, ...]:
    """The newest acts; and, however old, those of the current switch and those without an outcome: a limit must not
    make them undone."""
    present = _columns(db, "act")
    later = (
        ("intent_boottime", "0.0"), ("boot_id", "''"), ("failure", "''"), ("invocation", "''"), ("successor", "''"),
        ("done_boottime", "0.0"),
    )  # fmt: skip
    columns = ", ".join(name if name in present else default for name, default in later)
    found = db.execute(
        "SELECT id, switch_id, step, subject, because, intent_at, outcome, outcome_at, proof, " + columns + " FROM act"
        " WHERE id > (SELECT COALESCE(MAX(id), 0) FROM act) - ? OR outcome = '' OR switch_id = ?"
        " ORDER BY id DESC LIMIT ?",
        (_NEWEST_ACTS, current, _MOST_ACTS + 1),
    ).fetchall()
    if len(found) > _MOST_ACTS:
        raise sqlite3.OperationalError(f"more than {_MOST_ACTS} acts are open or of one switch")
    return tuple(_act(row, newer) for row in reversed(found))


def _act(row: tuple[Any, ...], newer: bool) -> PastAct:
    outcome, proof = row[6], row[8]
    if outcome not in _OUTCOMES:
        outcome, proof = "abandoned", f"({outcome}, as a newer version says) {proof}"
    return PastAct(
        id=row[0],
        switch_id=row[1],
        step=row[2],
        subject=_subject(row[3], newer),
        because=row[4],
        intent_at=row[5],
        outcome=outcome,
        outcome_at=row[7],
        proof=proof,
        intent_boottime=row[9],
        boot_id=row[10],
        failure=row[11],
        invocation=row[12],
        successor=row[13],
        done_boottime=row[14],
    )


def _subject(stored: str, newer: bool) -> Subject:
    try:
        return msgspec.json.decode(stored, type=Subject)
    except msgspec.ValidationError:
        raw = msgspec.json.decode(stored)
        if not newer or not isinstance(raw, dict):
            raise
        return msgspec.convert({name: raw[name] for name in _TEXTS if isinstance(raw.get(name), str)}, Subject)


def refusal(stored: str, newer: bool) -> Refusal:
    """Raises MsgspecError."""
    try:
        return msgspec.json.decode(stored, type=Refusal)
    except msgspec.ValidationError:
        raw = msgspec.json.decode(stored)
        if not newer or not isinstance(raw, dict):
            raise
        return Refusal(
            name=str(raw.get("name", "")), because=str(raw.get("because", "")), ends=str(raw.get("ends", ""))
        )
