# SPDX-License-Identifier: Apache-2.0
"""The CRI client as a part of the product: its errors, what it loads, what it prints, its generated code."""

from __future__ import annotations

import copy
import importlib.util
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ostreewatchd.peers.cri import channel, errors
from ostreewatchd.peers.cri.acts import RuntimeActs
from ostreewatchd.peers.cri.client import Runtime
from ostreewatchd.peers.errors import PeerError
from tests.fakes.cri_server import FakeRuntime, raw

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeRuntime]:
    with FakeRuntime(tmp_path / "cri.sock") as server:
        yield server


def test_reading_and_acting_are_apart() -> None:
    assert not [name for name in dir(Runtime) if "stop" in name]
    assert not {"version", "status", "sandboxes", "containers", "container_status"} & set(dir(RuntimeActs))


def test_errors_are_one_family_and_can_be_copied() -> None:
    classes = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, PeerError)]
    assert len(classes) == 10
    for each in classes:
        build: Callable[..., PeerError] = each
        error = (
            build("it broke", "mend it", "UNKNOWN") if each is errors.RuntimeRefused else build("it broke", "mend it")
        )
        for twin in (error, copy.copy(error), pickle.loads(pickle.dumps(error))):
            assert (twin.what, twin.hint, str(twin)) == ("it broke", "mend it", "it broke; mend it")
            assert vars(twin) == vars(error)


def python(code: str) -> str:
    """What a fresh interpreter prints; its stderr must stay empty."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("GRPC_")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_light_modules_load_no_grpc() -> None:
    code = (
        "import sys, ostreewatchd.peers.errors, ostreewatchd.peers.cri.errors, ostreewatchd.peers.cri.types;"
        "print([m for m in sys.modules if m.split('.')[0] in ('grpc', 'google')])"
    )
    assert python(code) == "[]\n"


def test_who_looks_does_not_load_what_acts() -> None:
    code = "import sys, ostreewatchd.peers.cri.client; print('ostreewatchd.peers.cri.acts' in sys.modules)"
    assert python(code) == "False\n"


def test_failures_print_nothing(fake: FakeRuntime) -> None:
    fake.faults["Version"] = raw(b"\xff")
    fake.faults["ListContainers"] = raw(b"\0" * (channel.MAX_ANSWER + 1))
    fake.faults["ListPodSandbox"] = fake.silence
    code = f"""
from ostreewatchd.peers.cri.client import Runtime
from ostreewatchd.peers.cri.errors import CriError
with Runtime.connect({str(fake.socket)!r}, deadline=0.5) as runtime:
    for call in (runtime.version, runtime.containers, runtime.sandboxes):
        try:
            call()
        except CriError as error:
            print(type(error).__name__)
"""
    assert python(code).split() == ["AnswerUnclear", "AnswerTooLarge", "RuntimeSilent"]


def test_spawning_with_an_open_connection(fake: FakeRuntime) -> None:
    code = f"""
import subprocess
from ostreewatchd.peers.cri.client import Runtime
with Runtime.connect({str(fake.socket)!r}, deadline=5) as runtime:
    runtime.version()
    for _ in range(100):
        subprocess.run(["true"], check=True)
    print(runtime.version().runtime)
"""
    assert python(code) == "fake\n"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_cri", ROOT / "packaging/generate_cri.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_code_is_that_of_the_proto(tmp_path: Path) -> None:
    generate = generator()
    code = (ROOT / generate.GENERATED[0]).read_text(encoding="utf-8")
    assert "# Protobuf Python Version: 6.31." in code  # the newest that protobuf 6.33 and 7.36 both load
    assert not list((ROOT / generate.PACKAGE).glob("*_grpc.py*"))
    if importlib.util.find_spec("grpc_tools") is None:
        return
    generate.generate(tmp_path)
    for name in generate.GENERATED:
        assert (tmp_path / name).read_bytes() == (ROOT / name).read_bytes(), f"{name}: run packaging/generate_cri.py"


def test_the_generator_is_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    generate = generator()
    monkeypatch.setattr(generate.metadata, "version", lambda name: "1.85.0")
    assert generate.main([str(tmp_path)]) == 1
    assert "grpcio-tools is 1.85.0, not 1.80.x" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
