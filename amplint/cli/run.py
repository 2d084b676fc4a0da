"""The command `run`: its options, and where the report of the doctor goes."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Mapping
from typing import NamedTuple

from amplint.base.paths import visible
from amplint.cli.arguments import FAILED, Parser
from amplint.cli.check import may_colour
from amplint.doctor.findings import Report
from amplint.doctor.options import Options
from amplint.doctor.start import CannotWatch, Program, Voice, run

_USAGE = "amplint run [options] SCRIPT [argument ...]\n       amplint run [options] -m MODULE [argument ...]"
_DESCRIPTION = """\
Run a training program and report what goes wrong in it. amplint executes your program
unchanged, as `python SCRIPT` would. It watches the GradScaler and the optimizers, and
looks for NaN and infinity in losses, gradients and parameters. After a NaN or infinity,
amplint repeats the failing step on a copy of its state, to find the operation at fault.
Needs torch 2.4 or later."""
_EPILOG = """\
All arguments after SCRIPT or MODULE belong to the program. The program's output on stdout
stays as it is. The report is printed on stderr when the program ends; --output-file also
writes the report to a file.

Exit codes: the program's own; 3 with --stop, if a problem was found; 2 if amplint could
not run the program.

Under torchrun (torchrun --nproc-per-node 2 -m amplint run train.py) each rank has its
own report and its own file, such as report.rank1.json. Processes that the program itself
starts are not watched."""
_EXAMPLES = ("amplint run train.py --epochs 2", "amplint run --stop --report report.json -m package.train")
_WITH_VALUE = ("--output-format", "--output-file", "-o", "--report")
_WIDEST = 120


class _File(NamedTuple):
    """A file that takes the report."""

    path: str
    format: str

    def of_rank(self, rank: int) -> _File:
        """The file of one of several processes: `report.rank1.json`."""
        stem, suffix = os.path.splitext(self.path)
        return self._replace(path=f"{stem}.rank{rank}{suffix}")


def run_program(arguments: list[str]) -> int:
    """Run the program that `arguments` name under the doctor, and return its exit code, or 2 where it was not run.

    Raises:
        KeyboardInterrupt: it ended the program.
    """
    parser = make_parser()
    try:
        ours, program = _split(parser, arguments)
        options = parser.parse_args(ours)
        files = _files(parser, options)
    except SystemExit as stop:  # argparse, after --help and after mistakes
        return int(stop.code or 0)
    rank = _rank(os.environ)
    prefix = "" if rank is None else f"[rank {rank}] "
    files = [each if rank is None else each.of_rank(rank) for each in files]
    voice, folder = Voice(prefix), os.getcwd()
    colour = sys.stderr is not None and may_colour(sys.stderr)
    width = min(shutil.get_terminal_size((100, 24)).columns, _WIDEST) - len(prefix)

    def tell(report: Report) -> None:
        from amplint.doctor.output import as_text  # noqa: PLC0415 - the program starts sooner

        voice.tell(lambda: as_text(report, width, folder, colour=colour))
        for each in files:
            _write(each, report, folder, voice)

    hello = f"amplint run executes your program, {visible(program.name)}, and watches it; the report follows at the end"
    try:
        watched = Options(options.stop, options.careful, not options.no_replay)
        return run(program, watched, voice, tell, "" if rank else hello)
    except CannotWatch as error:
        print(f"amplint: error: {visible(str(error))}", file=sys.stderr)
        return FAILED


def make_parser() -> Parser:
    """The options of the command, without the program that follows them."""
    parser = Parser("amplint run", _DESCRIPTION, usage=_USAGE, epilog=_EPILOG, examples=_EXAMPLES)
    add = parser.add_argument
    add("-m", metavar="MODULE", help="run a module, as `python -m` does")
    add("--stop", action="store_true", help="end the program at the first problem")
    add(
        "--careful",
        action="store_true",
        help="slower: in every step, check each operation that computes the loss",
    )
    add(
        "--no-replay",
        action="store_true",
        help="don't repeat a failing step: the report then doesn't name the operation at fault",
    )
    formats = ("text", "json", "sarif")
    add(
        "--output-format", choices=formats, default="text", help="format of the report in --output-file [default: text]"
    )
    add("-o", "--output-file", metavar="FILE", help="write the report to FILE, in the --output-format")
    add("--report", metavar="FILE", help="write the report to FILE as JSON (can be combined with --output-file)")
    return parser


def _split(parser: Parser, arguments: list[str]) -> tuple[list[str], Program]:
    """The options of this command, and the program with its arguments."""
    ours: list[str] = []
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "--"):
        if rest[0] in ("-h", "--help"):
            parser.parse_args(["--help"])
        taken = 2 if rest[0] in _WITH_VALUE else 1
        ours, rest = ours + rest[:taken], rest[taken:]
    is_module = rest[:1] == ["-m"]
    rest = rest[1:] if rest[:1] in (["-m"], ["--"]) else rest
    if not rest:
        parser.parse_args(ours)  # what is wrong with an option comes first
        parser.error("name a module after -m" if is_module else "name a script, or a module with -m")
    return ours, Program(rest[0], tuple(rest[1:]), is_module)


def _files(parser: Parser, options: argparse.Namespace) -> list[_File]:
    """The files to write, by absolute paths: the program may go elsewhere."""
    if options.output_file is None and options.output_format != "text":
        parser.error(f"--output-format {options.output_format} needs --output-file: stdout belongs to the program")
    wanted = [("--output-file", options.output_file, options.output_format), ("--report", options.report, "json")]
    files = []
    for option, path, output_format in wanted:
        if path is not None:
            if not path or os.path.isdir(path) or not os.path.isdir(os.path.dirname(path) or os.curdir):
                parser.error(f"{option}: {path!r} is not a file in an existing directory")
            files.append(_File(os.path.abspath(path), output_format))
    return files


def _rank(environ: Mapping[str, str]) -> int | None:
    """The number of this process among several that torchrun, or what is like it, has started."""
    rank, size = environ.get("RANK", ""), environ.get("WORLD_SIZE", "")
    return int(rank) if rank.isdecimal() and size.isdecimal() and int(size) > 1 else None


def _write(file: _File, report: Report, folder: str, voice: Voice) -> None:
    from amplint.doctor import output  # noqa: PLC0415 - the program starts sooner
    from amplint.files.atomic_write import put  # noqa: PLC0415

    if file.format == "text":
        text = output.as_text(report, _WIDEST, folder) + "\n"
    elif file.format == "json":
        text = output.as_json(report, folder)
    else:
        text = output.as_sarif(report, folder)
    try:
        put(file.path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        voice.say(f"amplint: error: {visible(file.path)}: {error.strerror or error}")
