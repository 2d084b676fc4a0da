"""amplint from Python: check and fix texts, with settings that you make or that amplint reads from a file.

These functions keep no state: the same text with the same settings, next to the same files, gives the same result, in
any order, process or thread. Arguments and results can be pickled, so you can map `check` over a corpus in several
processes.

Threads can call these functions at any time, but run one after the other: while one thread reads a program, amplint
raises Python's recursion limit and pauses the garbage collector for the whole process, and restores both afterwards.
For speed use processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, overload

from amplint.base.paths import TooLargeError, look_again
from amplint.config.selection import SettingsError
from amplint.config.settings import Overrides, Resolver, Settings
from amplint.engine.file import Wanted, check_bytes, check_text, draft_text, fix_bytes, fix_text
from amplint.engine.reading import failure
from amplint.engine.result import Result
from amplint.registry import known
from amplint.sources.source import Source

if TYPE_CHECKING:
    from amplint.base.findings import Finding

    StrPath = str | os.PathLike[str]


def check(source: str | bytes, filename: StrPath = "<string>", settings: Settings | None = None) -> list[Finding]:
    r"""Return the findings in a program, or in a notebook if `filename` says so, in the order of the text.

    `source` is the text, or the bytes of the file, decoded by Python's rules. If the file `filename` exists, imports
    are looked up from its place in its project; the file may have other contents than `source`. Without `settings` the
    rules that are on by default run, and no configuration is read: see `settings_for`.

    This function raises for no text: code that Python can't parse is a finding, AMP001. As in the command, a text
    without any word of AMP is only searched, not parsed. A rule or plugin that fails is AMP000, and so is a text that
    is too large.

    >>> import amplint
    >>> text = "import torch\n\nscaler = torch.cuda.amp.GradScaler()\n"
    >>> (finding,) = amplint.check(text, "train.py")
    >>> finding.code, finding.severity.value
    ('AMP102', 'warning')
    >>> finding.location
    Location(row=3, column=10, cell=None)
    >>> text[finding.start : finding.end]
    'torch.cuda.amp.GradScaler'
    >>> finding.fix.applicability
    <Applicability.SAFE: 'safe'>
    """
    look_again()
    settings = _default() if settings is None else settings
    name = os.fspath(filename)
    try:
        if isinstance(source, bytes):
            result = check_bytes(source, name, settings)
        else:
            result = check_text(source, name, settings)
    except TooLargeError as error:
        empty = Source(name, "")
        result = Result(name, empty, (failure(empty, str(error)),))
    return [*_broken_plugins(result), *result.findings]


def draft(source: str, filename: str, settings: Settings) -> tuple[list[Finding], Callable[[], list[Finding]]]:
    """What `check` returns before any fix was tried, and what returns it once they were.

    The findings are the same; of the fixes some are withheld then.
    """
    look_again()
    try:
        result, tried = draft_text(source, filename, settings)
    except TooLargeError:
        found = check(source, filename, settings)
        return found, lambda: found
    broken = _broken_plugins(result)
    return [*broken, *result.findings], lambda: [*broken, *tried().findings]


@overload
def fix(
    source: str, filename: StrPath = "<string>", settings: Settings | None = None, *, unsafe: bool | None = None
) -> str: ...
@overload
def fix(
    source: bytes, filename: StrPath = "<string>", settings: Settings | None = None, *, unsafe: bool | None = None
) -> bytes: ...
def fix(
    source: str | bytes, filename: StrPath = "<string>", settings: Settings | None = None, *, unsafe: bool | None = None
) -> str | bytes:
    r"""Return a program, or a notebook, with the fixes applied. Text that can't be fixed is returned unchanged.

    Only safe fixes are applied; with `unsafe`, or with `unsafe_fixes` in the settings, unsafe fixes too. The rest is
    as for `check`.

    >>> import amplint
    >>> print(amplint.fix("import torch\n\nscaler = torch.cuda.amp.GradScaler()\n"))
    import torch
    <BLANKLINE>
    scaler = torch.amp.GradScaler("cuda")
    <BLANKLINE>
    """
    look_again()
    settings = _default() if settings is None else settings
    name = os.fspath(filename)
    try:
        if isinstance(source, bytes):
            return fix_bytes(source, name, settings, unsafe=unsafe).data
        return fix_text(source, name, settings, unsafe=unsafe)
    except TooLargeError:
        return source


def fix_safely(source: str, filename: str, settings: Settings, wanted: Wanted | None) -> str:
    """What `fix` returns with safe fixes only, whatever the settings say; with `wanted` of the findings it gives."""
    look_again()
    try:
        return fix_text(source, filename, settings, unsafe=False, wanted=wanted)
    except TooLargeError:
        return source


def make_settings(
    *,
    select: Iterable[str] | None = None,
    extend_select: Iterable[str] | None = None,
    ignore: Iterable[str] | None = None,
    fixable: Iterable[str] | None = None,
    unfixable: Iterable[str] | None = None,
    unsafe_fixes: bool | None = None,
    target_torch: str | None = None,
    targets: Mapping[str, str] | None = None,
    device: str | None = None,
    src: Iterable[str] | None = None,
    docs: bool | None = None,
    suspicions: bool | None = None,
    preview: bool | None = None,
) -> Settings:
    """Make settings. The keywords mean the same as the keys of a configuration file; None means not set. Reads no file.

    >>> import amplint
    >>> settings = amplint.make_settings(select=["AMP4"], ignore=["AMP412"], target_torch="2.3")
    >>> "AMP401" in settings.codes, "AMP301" in settings.codes
    (True, False)
    >>> amplint.make_settings(ignore=["AMP4011"])
    Traceback (most recent call last):
    amplint.config.selection.SettingsError: 'ignore': unknown rule 'AMP4011'; the nearest is AMP401

    Raises:
        SettingsError: a value is invalid; the message is one line.
    """
    return Resolver(Overrides(_said(locals()), isolated=True)).settings(os.getcwd())


def settings_for(
    path: StrPath,
    *,
    select: Iterable[str] | None = None,
    extend_select: Iterable[str] | None = None,
    ignore: Iterable[str] | None = None,
    fixable: Iterable[str] | None = None,
    unfixable: Iterable[str] | None = None,
    unsafe_fixes: bool | None = None,
    target_torch: str | None = None,
    targets: Mapping[str, str] | None = None,
    device: str | None = None,
    src: Iterable[str] | None = None,
    docs: bool | None = None,
    suspicions: bool | None = None,
    preview: bool | None = None,
) -> Settings:
    """Return the settings of a file from the nearest configuration file, as the command does. The file need not exist.

    Keywords override the configuration file, like the command's options.

    >>> import amplint
    >>> "AMP301" in amplint.settings_for("train.py", select=["AMP4"]).codes
    False

    Raises:
        SettingsError: the configuration file, or a value, is invalid; the message is one line.
    """
    said = _said({key: value for key, value in locals().items() if key != "path"})
    look_again()
    return Resolver(Overrides(said)).for_file(os.fspath(path))


def _said(keywords: dict[str, Any]) -> dict[str, Any]:
    """What keywords say, as a configuration file would."""
    from amplint.config.keys import problem  # noqa: PLC0415 - who says nothing needs none of it

    said: dict[str, Any] = {}
    for key, value in keywords.items():
        if value is not None:
            many = isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))
            said[key.replace("_", "-")] = list(value) if many else dict(value) if isinstance(value, Mapping) else value
    if wrong := problem(said):
        place, message = wrong
        raise SettingsError(message if f"{place[0]}'" in message else f"'{place[0]}': {message}")
    return said


def _default() -> Settings:
    return Resolver(Overrides(isolated=True)).settings(os.getcwd())


def _broken_plugins(result: Result) -> list[Finding]:
    """AMP000 for each plugin whose rules can't be had: nothing else would tell."""
    return [failure(result.source or Source(result.filename, ""), each) for each in known().errors]
