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


def _is_simple(node: ast.AST) -> bool:
    return isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr, ast.Return))
