"""Whether the sources of torch, and of other libraries, print the wordings that amplint says are theirs.

`python -m tests.explaining.sources` fetches the libraries from PyPI, and looks for theirs in them. The tests
look in the torch that is installed only.
"""

from __future__ import annotations

import ast
import io
import mmap
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from amplint.explain.messages import Text, known
from amplint.explain.patterns import literals, pattern, squeeze

# The releases in which the wordings of a library are looked for: each has to be in one of them.
LIBRARIES = {
    "accelerate": ["accelerate==1.15.0", "accelerate==1.2.1"],
    "transformers": ["transformers==5.23.0", "transformers==4.46.3"],
    "lightning": ["pytorch-lightning==2.6.6", "lightning-fabric==2.6.6", "pytorch-lightning==1.9.5"],
    "fairseq": ["fairseq==0.12.2"],
    "deepspeed": ["deepspeed==0.16.2"],
}


def strings(source: str) -> Iterator[str]:
    """The texts in a program, with `{}` for what is put in; parts that `+` joins are one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.expr) and (text := _text(node)) is not None:
            yield text


def _text(node: ast.expr) -> str | None:
    match node:
        case ast.Constant(value=str() as value):
            return value
        case ast.JoinedStr(values=values):
            return "".join(_text(each) or "{}" for each in values)
        case ast.FormattedValue(value=ast.IfExp() as choice):
            return _text(choice)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return f"{_text(left) or '{}'}{_text(right) or '{}'}"
    return None


def prints(wording: str, texts: Iterable[str]) -> bool:
    """Whether the wording is, in their order, in one of the texts."""
    return any(_follow(literals(wording), text) for text in texts)


def _follow(parts: list[str], text: str) -> bool:
    text = squeeze(text).replace("'", "")
    at = 0
    for part in parts:
        wanted = squeeze(part).replace("'", "")
        at = text.find(wanted, at)
        if at < 0:
            return False
        at += len(wanted)
    return True


@cache
def torch_file(name: str) -> tuple[str, ...]:
    """The texts in a file of the torch that is installed."""
    import torch

    return tuple(strings((Path(torch.__file__).parents[1] / name).read_text("utf-8")))


@cache
def _binaries() -> list[mmap.mmap]:
    import torch

    found = []
    for path in sorted((Path(torch.__file__).parent / "lib").glob("lib*.so")):
        with path.open("rb") as file:
            found.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    return found


@cache
def in_binary(part: str) -> bool:
    """Whether a text is in the compiled part of the torch that is installed."""
    return any(each.find(part.encode()) >= 0 for each in _binaries())


def of(origin: str) -> list[Text]:
    """The wordings of one origin."""
    return [text for message in known() for text in message.says if text.origin == origin]


def _archive(requirement: str, folder: str) -> Iterator[str]:
    """The programs of a release, fetched from PyPI."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, requirement]
    subprocess.run(command, check=True)
    (path,) = Path(folder).iterdir()
    data = path.read_bytes()
    if path.suffix == ".whl":
        with zipfile.ZipFile(io.BytesIO(data)) as wheel:
            yield from (wheel.read(name).decode() for name in wheel.namelist() if name.endswith(".py"))
    else:
        with tarfile.open(fileobj=io.BytesIO(data)) as sdist:
            for member in sdist:
                if member.name.endswith(".py") and (file := sdist.extractfile(member)):
                    yield file.read().decode("utf-8", "replace")


def main() -> int:
    """Look for the wordings of the libraries; the exit code is 1 where one is in no release."""
    missing = 0
    for origin, requirements in LIBRARIES.items():
        left = of(origin)
        anchors = {text: pattern(text.text).anchor for text in left}
        for requirement in requirements:
            with tempfile.TemporaryDirectory() as folder:
                for source in _archive(requirement, folder):
                    squeezed = squeeze(source).replace("'", "").replace('"', "")
                    if not any(anchors[text][:15].replace("'", "") in squeezed for text in left):
                        continue
                    texts = list(strings(source))
                    here = [text for text in left if prints(text.text, texts)]
                    for text in here:
                        print(f"{requirement}: {text.text}")
                    left = [text for text in left if text not in here]
        for text in left:
            print(f"NOT FOUND in {', '.join(requirements)}: {text.text}")
        missing += len(left)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
