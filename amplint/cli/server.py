"""The command `server`: the language server, on stdin and stdout."""

from __future__ import annotations

import os
import sys

from amplint.base.about import installing
from amplint.cli.arguments import Parser
from amplint.cli.check import CLEAN, fail


def make_parser() -> Parser:
    """The options of the command."""
    description = "Start the language server, for an editor, on stdin and stdout."
    parser = Parser("amplint server", description, examples=("amplint server",))
    parser.add_argument(
        "--stdio", action="store_true", help="accepted because some editors pass it; stdin and stdout are the default"
    )
    return parser


def run_server(arguments: list[str]) -> int:
    """Serve until the editor has enough, and return the exit code."""
    make_parser().parse_args(arguments)
    try:
        from amplint.integrations.lsp_server import make  # noqa: PLC0415 - of an extra of its own
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        return fail(f"the language server needs pygls: {installing('lsp')}")
    # The protocol has stdout for itself: what a library prints by mistake must not get between.
    with open(os.dup(sys.stdout.fileno()), "wb") as to_editor:
        sys.stdout = sys.stderr
        make().start_io(stdout=to_editor)
    return CLEAN
