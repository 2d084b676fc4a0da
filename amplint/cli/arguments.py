"""The options of `amplint check`, and the parser and the options for settings that commands share."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from amplint import __version__
from amplint.base.paths import visible
from amplint.config.defaults import DEVICES, DEVICES_KNOWN_AS
from amplint.config.formats import FORMATS, SEVERITIES
from amplint.config.selection import SettingsError
from amplint.config.settings import Overrides, Resolver

FAILED, INTERRUPTED = 2, 130
# What each command is for.
COMMANDS = {
    "check": "lint files and folders; with --fix, also fix them (the default command)",
    "rule": "list all rules, or print the pages of some",
    "explain": "explain an error message, a symptom or a log",
    "verify": "check training steps before and after fixes; the program is not run",
    "run": "run a program and report what goes wrong in it",
    "config": "print the settings in effect, and where each comes from",
    "clean": "delete the cache of a project",
    "server": "start the language server for an editor",
    "completion": "print a script that completes arguments in bash, zsh or fish",
}
# What a command may be taken to be called, and what it is in amplint: a command, or options of `check`.
MEANT = {
    "baseline": "amplint --baseline FILE --write-baseline",
    "doctor": "amplint run",
    "fix": "amplint --fix",
    "lint": "amplint check",
    "noqa": "amplint --add-noqa",
    "version": "amplint --version",
    "watch": "amplint --watch",
}
_UNKNOWN = "unrecognized arguments: "


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """A value that has to follow its option without a space stands so: `--add-noqa[=REASON]`."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        return super()._format_action_invocation(action).replace(" [=", "[=")


class Parser(argparse.ArgumentParser):
    """As argparse has it, with errors of one line, and descriptions with the line breaks that they have here.

    `examples` are commands, which the help ends with.
    """

    def __init__(
        self, prog: str, description: str, *, examples: Sequence[str], epilog: str = "", usage: str | None = None
    ) -> None:
        # To ask for the terminal's width, as argparse would for each option, takes the import of shutil.
        lines = partial(_Formatter, width=88)
        shown = "\n".join(["Examples:", *(f"  {each}" for each in examples)])
        epilog = f"{epilog}\n\n{shown}" if epilog else shown
        super().__init__(
            prog, usage=usage, description=description, epilog=epilog, formatter_class=lines, allow_abbrev=False
        )
        self.examples = examples

    def error(self, message: str) -> NoReturn:
        """One line, and not the whole usage, is what a mistake in the arguments deserves."""
        if message.startswith(_UNKNOWN):
            message = self._unknown(message.removeprefix(_UNKNOWN).split()[0])
        self.exit(FAILED, f"amplint: error: {visible(message)}\n")

    def _unknown(self, given: str) -> str:
        """What to say of the first argument that is not known."""
        if not given.startswith("-"):
            return f"unknown argument {given!r}"
        from amplint.config.selection import nearest  # noqa: PLC0415 - only a mistake needs it

        option = given.partition("=")[0]
        near = nearest(option, [each for action in self._actions for each in action.option_strings], 0.7)
        return f"unknown option {option}{f'; did you mean {near}?' if near else f'; `{self.prog} --help` lists all'}"


_EXAMPLES = (
    "amplint",
    "amplint --fix --show-fixes src/ train.py",
    "amplint --select scaler --ignore AMP412 train.py",
    "amplint --config 'target-torch = \">=2.3\"' --exit-on error src/",
)


def check_parser() -> Parser:
    """The options of the command that is meant where none is named."""
    commands = "\n".join(f"  {name:<12}{what}" for name, what in COMMANDS.items())
    parser = Parser(
        "amplint",
        "Find misuse of PyTorch automatic mixed precision (AMP), and fix it.\n\n"
        f"commands (`amplint COMMAND --help` says more):\n{commands}",
        usage="amplint [check] [options] [path ...]\n       amplint COMMAND ...",
        epilog="Exit codes: 0 no findings (with --fix: none are left; with --diff: nothing to fix);\n"
        "1 findings; 2 amplint failed (a wrong option, a file that can't be read).\n\n"
        "A finding marked `likely` may be a false alarm: code that amplint can't see may make the\n"
        "reported code right. More terms: amplint rule --glossary",
        examples=_EXAMPLES,
    )
    add = parser.add_argument
    add("paths", nargs="*", metavar="path", help="files and directories, or - for standard input [default: .]")
    fixing = parser.add_argument_group("fixing")
    fixing.add_argument("--fix", action=argparse.BooleanOptionalAction, help="apply safe fixes")
    fixing.add_argument(
        "--verify", action="store_true", help="with --fix: apply only fixes that `amplint verify` confirms"
    )
    fixing.add_argument("--diff", action="store_true", help="print what --fix would change, without changing files")
    fixing.add_argument(
        "--show-fixes", action=argparse.BooleanOptionalAction, help="list what was fixed, by file and rule"
    )
    old = parser.add_argument_group("existing code (silence its findings, to report only new ones)")
    old.add_argument(
        "--add-noqa",
        nargs="?",
        metavar="=REASON",
        help="write a comment such as `# noqa: AMP401` into each line with findings; with --diff, only show the "
        "comments",
    )
    old.add_argument("--baseline", metavar="FILE", help="don't report or fix the findings recorded in FILE")
    old.add_argument(
        "--no-baseline", action="store_true", help="ignore the configured baseline: report its findings, too"
    )
    old.add_argument(
        "--write-baseline",
        action="store_true",
        help="record the current findings in the FILE of --baseline, or of the configuration's key `baseline`",
    )
    settings = add_settings(parser)
    settings.add_argument(
        "--docs",
        action=argparse.BooleanOptionalAction,
        help="also lint code in Markdown, reStructuredText and docstrings",
    )
    settings.add_argument("--stdin-filename", metavar="PATH", help="read standard input as the contents of this file")
    settings.add_argument(
        "-j", "--jobs", type=_positive, metavar="N", help="number of parallel processes [default: one per CPU]"
    )
    settings.add_argument(
        "--no-cache", action="store_true", help="lint all files, and neither read nor write the cache"
    )
    add_cache_dir(settings)
    output = parser.add_argument_group("output")
    output.add_argument("--output-format", choices=FORMATS, help="how to print findings [default: full]")
    output.add_argument("-o", "--output-file", metavar="FILE", help="write findings to FILE, and the summary to stdout")
    output.add_argument("-w", "--watch", action="store_true", help="lint again when files change, until Ctrl-C")
    output.add_argument("--statistics", action="store_true", help="print counts by rule instead of findings")
    output.add_argument("--exit-non-zero-on-fix", action="store_true", help="also exit with 1 if a fix was made")
    output.add_argument(
        "--exit-on", choices=SEVERITIES, help="exit with 1 only for findings of this severity or worse [default: note]"
    )
    output.add_argument("--exit-zero", action="store_true", help="exit with 0 even if there are findings")
    output.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="print on stderr what amplint could not analyse, and what it assumed",
    )
    output.add_argument("-q", "--quiet", action="store_true", help="print findings only, without the summary")
    add("-V", "--version", action="version", version=f"amplint {__version__}")
    return parser


def add_cache_dir(group: argparse._ActionsContainer, what: str = "cache directory") -> None:
    """Add the option for the folder of the cache, which may also be given in the environment."""
    group.add_argument(
        "--cache-dir",
        metavar="DIR",
        default=os.environ.get("AMPLINT_CACHE_DIR") or None,
        help=f"{what} [default: $AMPLINT_CACHE_DIR, or .amplint_cache in the project]",
    )


def add_settings(parser: argparse.ArgumentParser, *, device: bool = True) -> argparse._ArgumentGroup:
    """Add the options that decide what holds for a file, which `overrides` reads; the group for more is returned."""
    rules = parser.add_argument_group(
        "rules (RULES: ALL, or codes, prefixes, names or families that `amplint rule` lists)"
    )
    for name, what in (
        ("select", "run only these rules, such as AMP401,AMP4,scaler"),
        ("ignore", "don't run these rules"),
        ("extend-select", "run these rules in addition to the selected ones"),
        ("fixable", "fix only findings of these rules"),
        ("unfixable", "don't fix findings of these rules"),
    ):
        rules.add_argument(f"--{name}", action="append", metavar="RULES", help=what)
    rules.add_argument(
        "--per-file-ignores",
        action="append",
        metavar="FILES:RULES",
        help="don't run RULES in files that match, such as 'tests/*:AMP4'",
    )
    rules.add_argument(
        "--preview",
        action=argparse.BooleanOptionalAction,
        help="also run preview rules: new rules that may still change",
    )
    settings = parser.add_argument_group("settings (they override pyproject.toml and amplint.toml)")
    settings.add_argument(
        "--config",
        action="append",
        metavar="FILE | KEY=VALUE",
        help="use this configuration file for all files, or set one key, in TOML: 'target-torch = \"2.4\"'",
    )
    settings.add_argument(
        "--isolated", action="store_true", help="ignore configuration files and the project's torch requirement"
    )
    settings.add_argument(
        "--unsafe-fixes",
        action=argparse.BooleanOptionalAction,
        help="allow unsafe fixes too, which may change behaviour",
    )
    settings.add_argument(
        "--suspicions",
        action=argparse.BooleanOptionalAction,
        help="also report suspicions: code that is usually right, but worth a look if a model doesn't learn",
    )
    settings.add_argument(
        "--target-torch",
        metavar="VERSION",
        help="lowest torch release to support, such as 2.4, or a range, such as '>=2.0,<2.4'"
        " [default: from the project's requirements]",
    )
    if device:
        settings.add_argument(
            "--device", type=device_of(DEVICES), choices=DEVICES, help="device to assume where the code names none"
        )
    for name, what in (
        ("exclude", "skip files and directories that match"),
        ("extend-exclude", "skip files and directories that match, in addition to the excluded ones"),
    ):
        settings.add_argument(f"--{name}", action="append", metavar="PATTERNS", help=what)
    settings.add_argument(
        "--force-exclude",
        action=argparse.BooleanOptionalAction,
        help="skip excluded files even if they are named on the command line",
    )
    return settings


def overrides(options: argparse.Namespace, **more: Any) -> Overrides:
    """What the options of `add_settings`, and `more` by key, say.

    Raises:
        SettingsError: one of them can't be used.
    """
    said: dict[str, Any] = {key.replace("_", "-"): value for key, value in more.items() if value is not None}
    file, inline = _configured(options)
    said |= _lists(options)
    if options.per_file_ignores is not None:
        said["per-file-ignores"] = _ignored(_listed(options.per_file_ignores))
    if getattr(options, "cache_dir", None) == "":
        raise SettingsError("--cache-dir needs the name of a folder")
    if options.target_torch is not None:
        said["target-torch"] = _target(options.target_torch)
    for key in ("unsafe-fixes", "suspicions", "force-exclude", "preview", "device", "cache-dir"):
        given = getattr(options, key.replace("-", "_"), None)
        if given is not None and key not in said:
            said[key] = given
    # `config` has one path, the others have many; nothing is the current directory.
    paths = getattr(options, "paths", None) or [getattr(options, "path", os.curdir)]
    folders = tuple(each for each in paths if os.path.isdir(each))
    return Overrides(said, options.isolated, file, inline, folders=folders)


def tell_notices(resolver: Resolver, *, quiet: bool = False) -> None:
    """Tell, once, what is to be known of the rules that the configuration and flags name."""
    for text, place in [] if quiet else resolver.notices.items():
        warn(f"{place}: {text}")
    resolver.notices.clear()


def warn(message: str) -> None:
    """Say what doesn't end the run."""
    print(f"amplint: warning: {visible(message)}", file=sys.stderr)


def _configured(options: argparse.Namespace) -> tuple[str | None, Mapping[str, Any]]:
    """The file that `--config` names, if one does, and what it says of keys."""
    given: list[str] = options.config or []
    keys = [each for each in given if "=" in each and not os.path.exists(each)]
    files = [each for each in given if each not in keys]
    if "" in files:
        raise SettingsError("--config needs the name of a file, or KEY=VALUE")
    if len(files) > 1:
        raise SettingsError(f"--config names two files, {files[0]} and {files[1]}; `extend` in one can name the other")
    if files and options.isolated:
        raise SettingsError("--config FILE can't be combined with --isolated")
    if not keys:
        return (files[0] if files else None), {}
    from amplint.config.file import inline  # noqa: PLC0415 - the TOML parser costs more than the rest of a run

    return (files[0] if files else None), inline(keys)


def _lists(options: argparse.Namespace) -> dict[str, list[str]]:
    """The options that have several values, by their keys."""
    said = {}
    for key in ("select", "ignore", "extend-select", "fixable", "unfixable", "exclude", "extend-exclude"):
        given = getattr(options, key.replace("-", "_"))
        if given is not None:
            said[key] = _listed(given)
    for key, what in (("select", "rule"), ("fixable", "rule"), ("exclude", "pattern")):
        if said.get(key) == []:
            # An empty variable in a script, most likely: to pass every check would be the wrong answer.
            raise SettingsError(f"--{key} needs at least one {what}")
    return said


def _listed(given: list[str]) -> list[str]:
    return [name.strip() for each in given for name in each.split(",") if name.strip()]


def _ignored(given: list[str]) -> dict[str, list[str]]:
    """`tests/*:AMP4`, `AMP101`, `*.pyi:ALL`: rules go with the pattern that was named last."""
    found: dict[str, list[str]] = {}
    rules: list[str] | None = None
    for each in given:
        pattern, colon, rule = each.rpartition(":")
        if colon and pattern.strip():
            rules = found.setdefault(pattern.strip(), [])
        if rules is None or not rule.strip() or (colon and not pattern.strip()):
            raise SettingsError(f"--per-file-ignores: {each!r} is not like 'tests/*:AMP401'")
        rules.append(rule.strip())
    return found


def _target(given: str) -> str:
    from amplint.config.declared_target import from_option  # noqa: PLC0415 - only to say here what is wrong with it

    try:
        from_option(given, "--target-torch")
    except ValueError as error:
        raise SettingsError(f"--target-torch: {error}") from None
    return given


def device_of(devices: Sequence[str]) -> Callable[[str], str]:
    """What reads one of some devices from an argument: it returns the device, and says which other names mean."""

    def read(text: str) -> str:
        if text not in devices:
            from amplint.config.keys import did_you_mean  # noqa: PLC0415 - only a mistake needs it

            said = f"{text!r} is none of {', '.join(devices)}{did_you_mean(text, devices, DEVICES_KNOWN_AS)}"
            raise argparse.ArgumentTypeError(said)
        return text

    return read


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes")
    return int(text)
