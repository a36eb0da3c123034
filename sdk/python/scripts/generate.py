"""Generates `types.py` from the API description, and the files of the synchronous client from the asynchronous ones.

    python scripts/generate.py openapi.json [--check]

The description is what `treeline-server openapi` prints. `--check` writes nothing and fails if a file differs.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import tempfile

import unasync

PACKAGE = pathlib.Path(__file__).parent.parent / "src" / "treeline"
HEAD = '"""Types of the API, generated from its description by scripts/generate.py."""\n'


def types(description: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "types.py"
        subprocess.run(
            [sys.executable, "-m", "datamodel_code_generator", "--input", description, "--input-file-type", "openapi"]
            + ["--output", str(output), "--output-model-type", "typing.TypedDict", "--target-python-version", "3.11"]
            + ["--use-union-operator", "--use-standard-collections", "--enum-field-as-literal", "all"]
            + ["--use-schema-description", "--disable-timestamp", "--disable-future-imports", "--formatters", "builtin"],
            check=True,
        )
        text = output.read_text()
    text = re.sub(r"\A(#.*\n)+", "", text).lstrip()
    # The server rejects unknown fields; type checkers do not know PEP 728 yet.
    text = text.replace(", closed=True", "").replace("    closed=True,\n", "").replace("from typing_extensions import TypedDict\n", "")
    text = text.replace("NotRequired, TypeAlias", "NotRequired, TypeAlias, TypedDict")
    if "from __future__" not in text:
        text = "from __future__ import annotations\n\n" + text
    return HEAD + text


def synchronous(name: str) -> str:
    words = {
        "AsyncClient": "Client",
        "AsyncIterator": "Iterator",
        "AsyncManagement": "Management",
        "_aio_management": "_management",
        "aclose": "close",
        "aiter_bytes": "iter_bytes",
        "aread": "read",
        "asyncio": "time",
    }
    with tempfile.TemporaryDirectory() as folder:
        source, target = pathlib.Path(folder) / "aio", pathlib.Path(folder) / "sync"
        source.mkdir()
        (source / name).write_text((PACKAGE / name).read_text())
        rule = unasync.Rule(fromdir="/aio/", todir="/sync/", additional_replacements=words)
        unasync.unasync_files([str(source / name)], [rule])
        text = (target / name).read_text()
    text = text.replace("import time\nimport json", "import json", 1)
    title, rest = text.split("\n", 1)
    title = title.replace('"""Asynchronous', '"""Synchronous', 1).removesuffix('."""')
    return f'{title}, generated from `{name}` by scripts/generate.py."""\n{rest}'


def main() -> int:
    description, check = sys.argv[1], "--check" in sys.argv[2:]
    differ = False
    files = {
        "types.py": types(description),
        "client.py": synchronous("aio.py"),
        "_management.py": synchronous("_aio_management.py"),
    }
    for name, text in files.items():
        path = PACKAGE / name
        if path.exists() and path.read_text() == text:
            continue
        differ = True
        if check:
            print(f"{name} differs from what scripts/generate.py writes", file=sys.stderr)
        else:
            path.write_text(text)
    return int(check and differ)


if __name__ == "__main__":
    sys.exit(main())
