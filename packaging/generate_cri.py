# SPDX-License-Identifier: Apache-2.0
"""Generates the CRI messages (`runtime_pb2.py`, `.pyi`) from `runtime.proto`.

Usage: `python packaging/generate_cri.py [DIRECTORY]`, with grpcio-tools 1.80.x installed. Without a
directory the files in the tree are replaced; with one they are written below it, for comparison.

Why exactly this generator: code of protobuf generation 6.31 loads on the oldest runtime that we ship
(6.33, Python 3.9) and on the newest (7.36). A newer generator's code does not load on the older one.
Why no `*_pb2_grpc.py`: it checks grpcio's version by itself, and the client needs no stub.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

TOOLS = "1.80."
"""The grpcio-tools versions that may generate, as a prefix."""

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path("ostreewatchd/peers/cri")
PROTO = PACKAGE / "runtime.proto"
GENERATED = (PACKAGE / "runtime_pb2.py", PACKAGE / "runtime_pb2.pyi")
LICENCE = "# SPDX-License-Identifier: Apache-2.0\n"
STUB = '# mypy: disable-error-code="type-arg"\n'
"""For the .pyi, in which protoc writes a bare Mapping."""


def generate(into: Path) -> None:
    """Writes the generated files below `into`; RuntimeError if the generator is not pinned."""
    found = metadata.version("grpcio-tools")
    if not found.startswith(TOOLS):
        raise RuntimeError(f"grpcio-tools is {found}, not {TOOLS}x: pip install 'grpcio-tools=={TOOLS}*'")
    # Imported here, so that the tests can read the constants above without grpcio-tools.
    from grpc_tools import protoc  # type: ignore[import-not-found, unused-ignore]

    # The path below the root is the name in protobuf's process-wide pool: with it, nobody else's
    # "runtime.proto" can collide with ours.
    status = protoc.main(
        ["protoc", f"--proto_path={ROOT}", f"--python_out={into}", f"--pyi_out={into}", str(ROOT / PROTO)]
    )
    if status != 0:
        raise RuntimeError(f"protoc failed with status {status}")
    for name in GENERATED:
        path = into / name
        head = LICENCE + (STUB if path.suffix == ".pyi" else "")
        path.write_text(head + path.read_text(encoding="utf-8"), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """The command; returns its exit status."""
    try:
        generate(Path(arguments[0]).resolve() if arguments else ROOT)
    except (RuntimeError, metadata.PackageNotFoundError) as error:
        print(f"generate_cri: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
