"""The options of `amplint check`, and the parser that all commands use."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any, NoReturn

from amplint import __version__
from amplint.paths import visible
from amplint.report import FORMATS

FAILED = 2


class Parser(argparse.ArgumentParser):
    """As argparse has it, with errors of one line."""

    def __init__(self, prog: str, description: str, **more: Any) -> None:
        # To ask for the terminal's width, as argparse would for each option, takes the import of shutil.
        lines = partial(argparse.HelpFormatter, width=88)
        super().__init__(prog, description=description, formatter_class=lines, allow_abbrev=False, **more)

    def error(self, message: str) -> NoReturn:
        """One line, and not the whole usage, is what a mistake in the arguments deserves."""
        self.exit(FAILED, f"amplint: error: {visible(message)}\n")


def check_parser() -> argparse.ArgumentParser:
    """The options of the command that is meant where none is named."""
    parser = Parser(
        prog="amplint",
        usage="amplint [check] [options] [path ...]\n       amplint rule (CODE | --all) [--output-format text|json]\n"
        "       amplint verify [options] PATH ...",
        description="Find misuse of PyTorch automatic mixed precision (AMP), and fix it.",
        epilog="Exit codes: 0 nothing found, 1 findings, 2 amplint could not do its work.",
    )
    add = parser.add_argument
    add("paths", nargs="*", metavar="path", help="files and directories, or - for standard input [default: .]")
    fixing = parser.add_argument_group("fixing")
    fixing.add_argument("--fix", action="store_true", help="apply safe fixes")
    fixing.add_argument(
        "--unsafe-fixes", action=argparse.BooleanOptionalAction, help="take in fixes that may change behaviour"
    )
    fixing.add_argument("--verify", action="store_true", help="with --fix: only fixes that `amplint verify` confirms")
    fixing.add_argument("--diff", action="store_true", help="print what --fix would change, and change nothing")
    old = parser.add_argument_group("old code, of which only what is new is to be reported")
    old.add_argument(
        "--add-noqa",
        nargs="?",
        metavar="=REASON",
        help="silence what is found by comments in the code; also with --diff",
    )
    rules = parser.add_argument_group("rules (codes such as AMP401, prefixes such as AMP4, or ALL; comma-separated)")
    rules.add_argument("--select", action="append", metavar="RULES", help="these rules only")
    rules.add_argument("--ignore", action="append", metavar="RULES", help="not these rules")
    rules.add_argument("--extend-select", action="append", metavar="RULES", help="these rules as well")
    settings = parser.add_argument_group("settings")
    settings.add_argument(
        "--target-torch", metavar="VERSION", help="lowest release of torch to support: 2.4, or '>=2.0,<2.4'"
    )
    settings.add_argument("--isolated", action="store_true", help="read no configuration files")
    settings.add_argument("--stdin-filename", metavar="PATH", help="the name of what is read from standard input")
    settings.add_argument(
        "-j", "--jobs", type=_positive, metavar="N", help="processes to use for many files [default: one a processor]"
    )
    output = parser.add_argument_group("output")
    output.add_argument("--output-format", choices=FORMATS, default="full", help="[default: full]")
    output.add_argument("-o", "--output-file", metavar="FILE", help="write them to a file, and the summary to stdout")
    output.add_argument("--statistics", action="store_true", help="print counts by rule instead of findings")
    output.add_argument("--exit-zero", action="store_true", help="exit with 0 whatever is found")
    output.add_argument("-v", "--verbose", action="store_true", help="say on stderr what could not be analysed")
    output.add_argument("-q", "--quiet", action="store_true", help="print findings and nothing else")
    add("-V", "--version", action="version", version=f"amplint {__version__}")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes")
    return int(text)
