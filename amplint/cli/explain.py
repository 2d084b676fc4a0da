"""The command `explain`: a message, a log or a question in, what it means and what to do out."""

from __future__ import annotations

import os
import shutil
import sys
from typing import BinaryIO

from amplint.cli.arguments import Parser
from amplint.cli.check import CLEAN, FOUND, fail
from amplint.config.selection import SettingsError
from amplint.registry import all_rules, meant_by

_DESCRIPTION = """\
Explain an error message, a warning, a log or a symptom: what it means, which rules
detect the cause, and what to do.

If a traceback names files that exist on this machine, amplint lints these files. It never
runs them."""
_EPILOG = "Exit codes: 0 the text contains a known message; 1 it contains none; 2 an error."
_EXAMPLES = (
    'amplint explain "No inf checks were recorded for this optimizer."',
    'amplint explain "loss is nan after some epochs"',
    "amplint explain log.txt",
    "python train.py 2>&1 | amplint explain",
)
_WIDEST = 100
# What the names of logs and programs end with.
_SUFFIXES = (".txt", ".log", ".out", ".err", ".py")


def make_parser() -> Parser:
    """The options of the command."""
    parser = Parser("amplint explain", _DESCRIPTION, epilog=_EPILOG, examples=_EXAMPLES)
    add = parser.add_argument
    add(
        "text",
        nargs="*",
        metavar="TEXT",
        help="the message, the name of a file with it, or - for standard input [default: -]",
    )
    add("--all", action="store_true", help="print each cause in full, where a message has many")
    add("--list", action="store_true", help="print all messages that amplint knows")
    add("--guide", action="store_true", help='print the guide "My loss is NaN under AMP"')
    add("--output-format", choices=("text", "json"), default="text", help="[default: text]")
    return parser


def run_explain(arguments: list[str]) -> int:
    """Explain what `arguments` or standard input say and return the exit code."""
    parser = make_parser()
    options = parser.parse_intermixed_args(arguments)
    if bool(options.text) + options.list + options.guide > 1:
        parser.error("give only one of: a text, --list, --guide")
    from amplint.explain import output as show  # noqa: PLC0415 - nothing of this is needed to say what is wrong with arguments
    from amplint.explain.messages import known  # noqa: PLC0415

    if options.guide:
        from amplint.guide import guide  # noqa: PLC0415

        sys.stdout.write(guide())
        return CLEAN
    if options.list:
        sys.stdout.write(show.list_json(known()) if options.output_format == "json" else show.list_text(known()))
        return CLEAN
    if not options.text and sys.stdin is not None and sys.stdin.isatty():
        parser.error('give a message, such as "Attempting to unscale FP16 gradients.", or pipe a log in')
    text, asked = _text(options.text)
    if not text.strip():
        return fail("the text is empty")
    if (rule := meant_by(text.strip())) in all_rules() or (rule := rule.upper()) in all_rules():
        return fail(f"{rule} is a rule, not a message: `amplint rule {rule}` prints its page")

    from amplint.explain.search import find  # noqa: PLC0415
    from amplint.explain.traceback_files import lint  # noqa: PLC0415

    found = find(text, asked=asked)
    files = lint((frame, hit.message.codes) for hit in found.hits for frame in hit.stack if hit.message.codes)
    if options.output_format == "json":
        sys.stdout.write(show.as_json(found, files))
    else:
        width = min(shutil.get_terminal_size((_WIDEST, 24)).columns, _WIDEST)
        sys.stdout.write(show.as_text(found, files, max(width, 40), whole=options.all))
    return CLEAN if found.hits else FOUND


def _text(given: list[str]) -> tuple[str, bool]:
    """What is to be explained, and whether a person asks it.

    It is the words that are given, what is in a file or comes through a pipe that they name, or standard input.
    """
    if given in ([], ["-"]):
        if sys.stdin is None:
            raise SettingsError("standard input is closed")
        return _read(sys.stdin.buffer), False
    if len(given) == 1 and _is_path(given[0]):
        try:
            with open(given[0], "rb") as file:
                return _read(file), False
        except OSError as error:
            raise SettingsError(f"{given[0]}: {error.strerror or error}") from None
    return " ".join(given), True


def _is_path(word: str) -> bool:
    """Whether an argument names what is there and can be read, or can't be meant as anything else."""
    if os.path.exists(word) and not os.path.isdir(word):
        return True
    separated = os.sep in word or bool(os.altsep and os.altsep in word)
    return word.split() == [word] and (separated or word.lower().endswith(_SUFFIXES))


def _read(file: BinaryIO) -> str:
    from amplint.explain.log_reader import LARGEST, decode  # noqa: PLC0415

    data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise SettingsError(f"the text has more than {LARGEST >> 20} MiB; its end is enough: `tail -c 1M`")
    return decode(data)
