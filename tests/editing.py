"""An editor in this process, with the server object itself, and random edits of programs."""

from __future__ import annotations

import ast
import asyncio
import random
import re
from pathlib import Path
from typing import Any

from lsprotocol import types

from amplint.integrations import lsp_server

_EVENT = re.compile(r"backward|step\(|scale|autocast|zero_grad|clip_grad|update\(")
_EVENTS = (
    "self.scaler.unscale_(self.optimizer)",
    "self.scaler.update()",
    "self.optimizer.step()",
    "self.optimizer.zero_grad()",
    "loss.backward()",
    "torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)",
)
_NUMBER = re.compile(r"(?<![\w.'\"])\d+(?![\w.'\"])")


class Editor:
    """The server object, with an editor that says what it has to and keeps what is published."""

    def __init__(self, root: Path) -> None:
        self.server = lsp_server.make()
        self.root = root
        self.published: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        self.server.text_document_publish_diagnostics = self.published.put_nowait  # type: ignore[method-assign]
        self.server.protocol.set_writer(_Nowhere())

    def say(self, method: str, params: Any, number: int | None = None) -> None:
        """Send a message, as one that has come over the wire."""
        converter = self.server.protocol._converter
        content = {"jsonrpc": "2.0", "method": method, "params": converter.unstructure(params)}
        content |= {"id": number} if number is not None else {}
        self.server.protocol.handle_message(self.server.protocol.structure_message(content))

    async def start(self) -> None:
        """Open the folder."""
        params = types.InitializeParams(types.ClientCapabilities(), root_uri=self.root.as_uri())
        self.say(types.INITIALIZE, params, 1)
        await asyncio.sleep(0)
        self.say(types.INITIALIZED, types.InitializedParams())

    async def opened(self, name: str, text: str) -> list[types.Diagnostic]:
        """What is found in a document that is opened."""
        item = types.TextDocumentItem((self.root / name).as_uri(), "python", 1, text)
        self.say(types.TEXT_DOCUMENT_DID_OPEN, types.DidOpenTextDocumentParams(item))
        return list((await self.published.get()).diagnostics)

    def change(self, name: str, text: str, version: int) -> None:
        """Change a document."""
        place = types.VersionedTextDocumentIdentifier(version, (self.root / name).as_uri())
        whole = types.TextDocumentContentChangeWholeDocument(text)
        self.say(types.TEXT_DOCUMENT_DID_CHANGE, types.DidChangeTextDocumentParams(place, [whole]))

    async def changed(self, name: str, text: str, version: int) -> list[types.Diagnostic]:
        """What is found in a document that is changed."""
        self.change(name, text, version)
        return list((await self.published.get()).diagnostics)


class _Nowhere:
    """Takes what the server sends."""

    def write(self, data: bytes) -> None:
        pass

    def close(self) -> None:
        pass


def edited(text: str, chance: random.Random) -> str:
    """A text with a random edit of one line of a function that leaves it a program."""
    while True:
        lines = text.split("\n")
        functions = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.FunctionDef)]
        rows = sorted({each.lineno - 1 for function in functions for each in ast.walk(function) if _is_simple(each)})
        row = chance.choice(rows)
        line, margin = lines[row], lines[row][: len(lines[row]) - len(lines[row].lstrip())]
        lines[row : row + 1] = chance.choice(
            (
                [_NUMBER.sub(lambda found: f"{int(found[0]) + 1}", line)],
                [f"{margin}noted = {chance.randrange(100)}", line],
                [f"{margin}assert {chance.randrange(1, 100)}  # checked", line],
                [f"{line}  # {chance.randrange(100)}"],
                [],
            )
        )
        new = "\n".join(lines)
        try:
            ast.parse(new)
        except SyntaxError:
            continue
        if new != text:
            return new


def rearranged(text: str, chance: random.Random) -> str:
    """A text with a random edit that leaves it a program: of a line, an event, a name, or a whole function."""
    while True:
        new = chance.choice((_with_event, _renamed, _with_function_elsewhere, _shifted, edited))(text, chance)
        try:
            ast.parse(new)
        except SyntaxError:
            continue
        if new != text:
            return new


def _with_event(text: str, chance: random.Random) -> str:
    """With one more event of AMP, or without one."""
    lines = text.split("\n")
    rows = [row for row, line in enumerate(lines) if _EVENT.search(line)]
    row = chance.choice(rows or [0])
    line = lines[row]
    margin = line[: len(line) - len(line.lstrip())]
    lines[row : row + 1] = chance.choice(([], [line, line], [line, f"{margin}{chance.choice(_EVENTS)}"]))
    return "\n".join(lines)


def _renamed(text: str, chance: random.Random) -> str:
    """With another name for something, in all places or in one."""
    words = sorted({each.id for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Name)})
    words += [each.name for each in ast.walk(ast.parse(text)) if isinstance(each, ast.FunctionDef)]
    return re.sub(rf"\b{chance.choice(words)}\b", chance.choice(words), text, count=chance.choice((0, 1)))


def _with_function_elsewhere(text: str, chance: random.Random) -> str:
    """With a function that is moved behind another one, copied there, or gone."""
    lines = text.split("\n")
    functions = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.FunctionDef)]
    if not functions:
        return text
    moved, place = chance.choice(functions), chance.choice(functions)
    body, end = lines[moved.lineno - 1 : moved.end_lineno], place.end_lineno or 0
    if chance.random() < 0.7 and not moved.lineno <= end <= (moved.end_lineno or 0):
        lines[end:end] = body
    if chance.random() < 0.7:
        start = moved.lineno - 1 + (len(body) if end < moved.lineno and len(lines) > text.count("\n") + 1 else 0)
        del lines[start : start + len(body)]
    return "\n".join(lines)


def _shifted(text: str, chance: random.Random) -> str:
    """With a line more between others, which moves what is behind it."""
    lines = text.split("\n")
    lines.insert(chance.randrange(len(lines)), chance.choice(("", "# noted", "import math")))
    return "\n".join(lines)


def _is_simple(node: ast.AST) -> bool:
    return isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr, ast.Return))
