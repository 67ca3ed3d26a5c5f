# SPDX-License-Identifier: Apache-2.0
"""TOML, as the configuration of container runtimes is written in. Python has a reader of it from 3.11 on.

Source: toml.io/en/v1.0.0. Dates stay text: no runtime's setting is one."""

from __future__ import annotations

import re
from typing import Any, NoReturn

MAX_BYTES = 1 << 20
_MAX_DEPTH = 32
"""Of arrays and tables in one another."""
_MAX_NUMBER = 100
"""Characters. Python takes a quadratic time for the digits of a number."""
_SPACE = re.compile(r"[ \t]*")
_NOTHING = re.compile(r"(?:[ \t]+|\r?\n|#[^\n\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*(?=\n|\Z))*")
_LINE_END = re.compile(r"[ \t]*(?:#[^\n\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*)?(?:\r?\n|\Z)")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'[^"\\\x00-\x08\x0a-\x1f\x7f]*')
_BASIC_LINES = re.compile(r'(?:[^"\\\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|"(?!""))*')
_LITERAL = re.compile(r"'([^'\x00-\x08\x0a-\x1f\x7f]*)'")
_LITERAL_LINES = re.compile(r"'''((?:[^'\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|'(?!''))*)('{3,5})")
_LINE_CONTINUED = re.compile(r"[ \t]*\r?\n[ \t\r\n]*")
_PLAIN = re.compile(r"\d{4}-\d\d-\d\d \d\d:[0-9:.Zz+-]+|[+\-0-9A-Za-z_.:]+")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}
_HEX = {"u": re.compile(r"[0-9A-Fa-f]{4}"), "U": re.compile(r"[0-9A-Fa-f]{8}")}
_DECIMAL = re.compile(r"[+-]?(?:0|[1-9](?:_?[0-9])*)")
_OTHER_BASE = re.compile(r"0(?:x[0-9A-Fa-f](?:_?[0-9A-Fa-f])*|o[0-7](?:_?[0-7])*|b[01](?:_?[01])*)")
_FLOAT = re.compile(r"[+-]?(?:(?:0|[1-9](?:_?[0-9])*)(?:\.[0-9](?:_?[0-9])*)?(?:[eE][+-]?[0-9](?:_?[0-9])*)?|inf|nan)")
_TIME = r"\d\d:\d\d:\d\d(?:\.\d+)?"
_DATE = re.compile(rf"\d{{4}}-\d\d-\d\d(?:[Tt ]{_TIME}(?:[Zz]|[+-]\d\d:\d\d)?)?|{_TIME}")


class TomlError(ValueError):
    """It is no TOML. The text says what is wrong, with the line; of the file it holds a key's name at the most."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}")
        self.line = line


def decode(data: bytes) -> dict[str, Any]:
    """The document. Raises TomlError."""
    if len(data) > MAX_BYTES:
        raise TomlError(1, f"larger than {MAX_BYTES} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise TomlError(data.count(b"\n", 0, error.start) + 1, "no UTF-8") from None
    # Not by the codec that does this: it is a module, which Python would load from a tree that is another one by now.
    return _Reader(text[1:] if text.startswith("\ufeff") else text).document()


class _Reader:
    """One document's. Tables are told apart by what made them, for that decides who may add to them."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._root: dict[str, Any] = {}
        self._by_header: set[int] = set()
        self._by_dots: set[int] = set()
        self._closed: set[int] = set()
        """Inline tables, and arrays that are values."""

    def document(self) -> dict[str, Any]:
        table = self._root
        while True:
            self._skip(_NOTHING)
            if self._at >= len(self._text):
                return self._root
            if self._text.startswith("[", self._at):
                table = self._header()
            else:
                self._pair(table, 0)
            if not self._skip(_LINE_END):
                self._fail("something behind what should be the whole line")

    def _fail(self, what: str) -> NoReturn:
        raise TomlError(self._text.count("\n", 0, self._at) + 1, what)

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        match = pattern.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
        return match is not None

    def _take(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _header(self) -> dict[str, Any]:
        many = self._take("[[")
        if not many:
            self._take("[")
        keys = self._keys()
        if not self._take("]]" if many else "]"):
            self._fail("the name of a table without its end")
        table = self._root
        for key in keys[:-1]:
            table = self._below(table, key)
        last = keys[-1]
        if many:
            tables = table.setdefault(last, [])
            if not isinstance(tables, list) or id(tables) in self._closed:
                self._fail(f"{_name(last)} is no array of tables")
            tables.append({})
            return tables[-1]  # type: ignore[no-any-return]
        made = table.setdefault(last, {})
        taken = (self._by_header, self._by_dots, self._closed)
        if not isinstance(made, dict) or any(id(made) in tables for tables in taken):
            self._fail(f"{_name(last)} is there twice")
        self._by_header.add(id(made))
        return made

    def _below(self, table: dict[str, Any], key: str) -> dict[str, Any]:
        found = table.setdefault(key, {})
        if isinstance(found, list) and found and id(found) not in self._closed:
            found = found[-1]
        if not isinstance(found, dict) or id(found) in self._closed:
            self._fail(f"{_name(key)} is no table that can be added to")
        return found

    def _keys(self) -> list[str]:
        keys = []
        while True:
            self._skip(_SPACE)
            keys.append(self._key())
            self._skip(_SPACE)
            if not self._take("."):
                return keys
            if len(keys) >= _MAX_DEPTH:
                self._fail("a name of too many parts")

    def _key(self) -> str:
        if self._text.startswith(('"', "'"), self._at):
            return self._one_line()
        match = _BARE.match(self._text, self._at)
        if match is None:
            self._fail("no name where one should be")
        self._at = match.end()
        return match.group()

    def _pair(self, table: dict[str, Any], depth: int) -> None:
        keys = self._keys()
        if not self._take("="):
            self._fail("a name without a value")
        for key in keys[:-1]:
            found = table.setdefault(key, {})
            if not isinstance(found, dict) or id(found) in self._by_header or id(found) in self._closed:
                self._fail(f"{_name(key)} is no table that can be added to")
            self._by_dots.add(id(found))
            table = found
        if keys[-1] in table:
            self._fail(f"{_name(keys[-1])} is there twice")
        self._skip(_SPACE)
        table[keys[-1]] = self._value(depth)

    def _value(self, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            self._fail("too many arrays and tables in one another")
        if self._text.startswith(('"""', "'''"), self._at):
            return self._lines()
        if self._text.startswith(('"', "'"), self._at):
            return self._one_line()
        if self._take("["):
            return self._array(depth)
        if self._take("{"):
            return self._inline(depth)
        match = _PLAIN.match(self._text, self._at)
        if match is None or len(match.group()) > _MAX_NUMBER:
            self._fail("no value where one should be")
        value = _plain(match.group())
        if value is None:
            self._fail("a value that is neither text nor a number, a date, true or false")
        self._at = match.end()
        return value

    def _array(self, depth: int) -> list[Any]:
        found: list[Any] = []
        self._closed.add(id(found))
        while True:
            self._skip(_NOTHING)
            if self._take("]"):
                return found
            found.append(self._value(depth + 1))
            self._skip(_NOTHING)
            if not self._take(",") and not self._text.startswith("]", self._at):
                self._fail("an array without its end")

    def _inline(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self._skip(_SPACE)
        if not self._take("}"):
            while True:
                self._pair(found, depth + 1)
                self._skip(_SPACE)
                if self._take("}"):
                    break
                if not self._take(","):
                    self._fail("a table in braces without its end")
        self._close(found)
        return found

    def _close(self, table: dict[str, Any]) -> None:
        self._closed.add(id(table))
        for value in table.values():
            if isinstance(value, dict) and id(value) not in self._closed:
                self._close(value)

    def _one_line(self) -> str:
        if self._text.startswith("'", self._at):
            match = _LITERAL.match(self._text, self._at)
            if match is None:
                self._fail("a text without its end")
            self._at = match.end()
            return match.group(1)
        self._at += 1
        parts = []
        while True:
            parts.append(self._matched(_BASIC))
            if self._take('"'):
                return "".join(parts)
            parts.append(self._escape())

    def _lines(self) -> str:
        if self._text.startswith("'''", self._at):
            match = _LITERAL_LINES.match(self._text, self._at)
            if match is None:
                self._fail("a text without its end")
            self._at = match.end()
            return _without_first_newline(match.group(1)) + match.group(2)[3:]
        self._at += 3
        parts = []
        while True:
            parts.append(self._matched(_BASIC_LINES))
            if self._take('"""'):
                parts += ['"' for _ in range(2) if self._take('"')]
                return _without_first_newline("".join(parts))
            if self._text.startswith("\\", self._at) and self._continued():
                continue
            parts.append(self._escape())

    def _continued(self) -> bool:
        """A backslash at the end of a line: what follows up to the next text is nothing."""
        match = _LINE_CONTINUED.match(self._text, self._at + 1)
        if match is not None:
            self._at = match.end()
        return match is not None

    def _matched(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match.group()

    def _escape(self) -> str:
        if not self._take("\\"):
            self._fail("a text without its end")
        letter = self._text[self._at : self._at + 1]
        self._at += 1
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        match = _HEX[letter].match(self._text, self._at) if letter in _HEX else None
        number = int(match.group(), 16) if match is not None else -1
        if match is None or number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
            self._fail("a backslash that means nothing")
        self._at = match.end()
        return chr(number)


def _without_first_newline(text: str) -> str:
    return text[2:] if text.startswith("\r\n") else text[1:] if text.startswith("\n") else text


def _plain(text: str) -> Any:
    """None: it is none."""
    if text in ("true", "false"):
        return text == "true"
    if _DECIMAL.fullmatch(text):
        return int(text.replace("_", ""))
    if _OTHER_BASE.fullmatch(text):
        return int(text.replace("_", ""), 0)
    if _FLOAT.fullmatch(text):
        return float(text.replace("_", ""))
    return text if _DATE.fullmatch(text) else None


def _name(key: str) -> str:
    """Printable and short, for an error."""
    return ascii(key[:40])
