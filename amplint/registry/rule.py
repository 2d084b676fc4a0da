"""The shape of a rule: metadata and documentation taken from its module, and one function that finds.

A rule is one module `ampNNN_its_name.py` in a folder of `amplint/rules`. The module's name gives the code and the name,
its docstring the documentation (`DOC_HEADINGS`), and its `rule` everything else:

    rule = Rule(__name__, __doc__, severity=Severity.ERROR, triggers=("clip_grad & scaler",))

    @rule.check
    def check(module: Module) -> Iterator[Finding]: ...

Nothing else has to be touched: the registry, `amplint rule`, the README's table and the tests read it from here.
Other distributions add rules of the same shape (`amplint.registry.plugins`), which `amplint.testing` tests. What they
can rely on is in `amplint.plugin_api`.
"""

from __future__ import annotations

from enum import Enum
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
    from amplint.model import Module

    Check = Callable[[Module], Iterable[Finding]]
    Doubt = Callable[[Module], Iterable[str]]

DOC_HEADINGS = (
    "What it does",
    "Why is this bad?",
    "Example",
    "Use instead",
    "Fix safety",
    "Proof",
    "References",
)


OURS = "AMP"  # what the codes of this package start with
# What a rule's module defines beyond its header.
_DEFINED = ("doc", "severity", "trial", "shows", "about_absence", "fixes", "run", "doubts")
# Where the header starts and ends in the module's text.
_HEADER, _END, _END_WITH_COMMENT = "\nrule = Rule(", ")\n", ")  #"


class PluginError(Exception):
    """A plugin, or a rule of it, can't be used; the message is one line that names the plugin."""


class Stage(str, Enum):
    """Where a rule is in its life.

    `PREVIEW`: it runs only with `preview`. `DEPRECATED`: it runs, and to select it is warned about. `REMOVED`: it never
    runs; its page says why, and to ignore it or to silence it is not an error.
    """

    PREVIEW = "preview"
    STABLE = "stable"
    DEPRECATED = "deprecated"
    REMOVED = "removed"


class Header(NamedTuple):
    """What of a rule is known without its module: its trigger words, whether it is on by default, and its life."""

    triggers: tuple[str, ...] = ()
    default: bool = True
    stage: Stage = Stage.STABLE
    formerly: tuple[str, ...] = ()


class Shows(NamedTuple):
    """Whether a run of a training step can show what a rule says: yes, simulated, or no.

    It shows it by `observables`; simulated, on the CPU, where the device is missing. `why` says why it can't.
    """

    how: str
    observables: tuple[str, ...] = ()
    why: str = ""


class Rule:
    """One rule. `triggers` are alternatives; within one, every word joined by `&` has to occur in the file.

    `triggers` are searched for in the file's bytes before anything is parsed, so each has to be a word without which
    the rule can't fire; in comments and sentences it doesn't count. `trial` says that a fix is offered only after the
    new text was analysed with all rules, though with those for what is deprecated only where they are selected.
    `shown_by` names the observables by which `amplint verify` sees what the rule says in a run of a user's own step,
    `simulated` where it takes a device that a CPU only stands in for; else `not_shown` says why no run can show it.
    `about_absence` says that what is found is that something is missing, which a snippet of a program can't tell.
    `fixes` are the kinds of fixes that it offers; None where it doesn't say. `stage` is where it is in its life, and
    `formerly` the codes and names that it had before, which are still understood.

    A rule from the registry knows its `Header`, code and name; the rest it imports on first use. `default` is whether
    it is on where nothing is selected, `default_in_preview` whether it is so with `preview`.
    `plugin` is the distribution, with its release, that a rule is of; empty for ours.
    """

    doc: str
    severity: Severity
    trial: bool
    shows: Shows | None  # None: the rule doesn't say
    about_absence: bool
    fixes: tuple[Applicability, ...] | None
    run: Check | None
    doubts: Doubt | None
    plugin = ""

    def __init__(
        self,
        module_name: str,
        doc: str | None,
        *,
        severity: Severity,
        triggers: tuple[str, ...] = (),
        default: bool = True,
        trial: bool = True,
        shown_by: tuple[str, ...] = (),
        simulated: bool = False,
        not_shown: str = "",
        about_absence: bool = False,
        fixes: tuple[Applicability, ...] | None = None,
        stage: Stage = Stage.STABLE,
        formerly: tuple[str, ...] = (),
    ) -> None:
        self._take_header(module_name, Header(triggers, default, stage, formerly))
        self.doc = doc or ""
        self.severity = severity
        self.trial = trial
        how = "simulated" if simulated else "yes" if shown_by else "no"
        self.shows = Shows(how, shown_by, not_shown) if shown_by or not_shown else None
        self.about_absence = about_absence
        self.fixes = fixes
        self.run = None
        self.doubts = None

    def _take_header(self, module_name: str, header: Header) -> None:
        self.module_name = module_name
        code, _, name = module_name.rpartition(".")[2].partition("_")
        self.code = code.upper()
        self.name = name.replace("_", "-")
        self.stage = header.stage
        self.formerly = header.formerly
        self.default = header.default and header.stage is not Stage.PREVIEW
        self.default_in_preview = header.default
        self.triggers = tuple(tuple(word.strip().encode() for word in each.split("&")) for each in header.triggers)

    @classmethod
    def from_text(cls, module_name: str, text: str) -> Rule:
        """The rule of a module that is not imported: modules of rules import the model, which few files need."""
        header = header_of(text)
        stage = header.partition("stage=Stage.")[2].partition(",")[0].strip()
        said = Header(
            _words(header, "triggers"),
            "default=False" not in header,
            Stage[stage] if stage else Stage.STABLE,
            _words(header, "formerly"),
        )
        return cls.from_header(module_name, said)

    @classmethod
    def from_header(cls, module_name: str, header: Header, plugin: str = "") -> Rule:
        """The rule of a module that is not imported, of what the text says in its header."""
        rule = cls.__new__(cls)
        rule._take_header(module_name, header)
        rule.plugin = plugin
        return rule

    def __getattr__(self, name: str) -> Any:
        if name not in _DEFINED:
            raise AttributeError(name)
        defined = self._imported() if self.plugin else import_module(self.module_name).rule
        for each in _DEFINED:
            self.__dict__.setdefault(each, getattr(defined, each))
        return self.__dict__[name]

    @property
    def _header(self) -> tuple[object, ...]:
        return self.code, self.triggers, self.default_in_preview, self.stage, self.formerly

    def _imported(self) -> Rule:
        """The rule as a plugin's module has it, which may fail in any way.

        Raises:
            PluginError: it does, or its text was misread.
        """
        try:
            defined = import_module(self.module_name).rule
            if defined._header == self._header:
                return defined  # type: ignore[no-any-return]
            why = "its header differs from its source text"
        except (Exception, SystemExit) as error:
            raise PluginError(f"plugin {self.plugin}: {self.code} can't be loaded: {reason(error)}") from error
        raise PluginError(f"plugin {self.plugin}: {self.code} can't be loaded: {why}")

    def broken(self) -> str | None:
        """Why a plugin's rule can't be loaded, if it can't."""
        try:
            _ = self.doc
        except PluginError as error:
            return str(error)
        return None

    def check(self, function: Check) -> Check:
        """Register the function that yields this rule's findings for one module."""
        self.run = function
        return function

    def doubt(self, function: Doubt) -> Doubt:
        """Register the function that yields why a fix is withheld that makes a program of what it looks at.

        It speaks of what is no finding only because something out of sight may make it right.
        """
        self.doubts = function
        return function

    @property
    def summary(self) -> str:
        """The docstring's first line: what is wrong, in one sentence."""
        return self.doc.strip().partition("\n")[0]

    def sections(self) -> dict[str, str]:
        """The documentation under its fixed headings, in their order.

        Raises:
            ValueError: a heading is missing or unknown.
        """
        found: dict[str, str] = {}
        for part in self.doc.split("\n## ")[1:]:
            heading, _, body = part.partition("\n")
            found[heading.strip()] = body.strip("\n")
        if tuple(found) != DOC_HEADINGS:
            raise ValueError(f"{self.code}: documentation must have the headings {', '.join(DOC_HEADINGS)}, in order")
        return found

    def finding(
        self,
        span: tuple[int, int],
        message: str,
        *,
        fix: Fix | None = None,
        withheld: str | None = None,
        severity: Severity | None = None,
        cause: str = "",
        confidence: Confidence | None = None,
    ) -> Finding:
        """A finding of this rule at `span` (character offsets in the file's text).

        The message becomes one line, though code that it quotes may have several. Of findings with the same `cause`,
        of whichever rules, one is reported. A finding that is not certain is at most a warning, and the fix of a
        suspicion is only shown.
        """
        from amplint.base.findings import Confidence, Finding  # noqa: PLC0415 - rarely needed

        said = _one_line(message)
        if fix is not None:
            fix = fix._replace(message=_one_line(fix.message))
        withheld = withheld and _one_line(withheld)
        grave = severity or self.severity
        found = Finding(span[0], span[1], self.code, self.name, grave, said, fix, withheld, cause=cause)
        if confidence is Confidence.SUSPICION:
            return found.as_suspicion()
        return found.as_likely() if confidence is Confidence.LIKELY else found


def header_of(text: str) -> str:
    """The arguments of `rule = Rule(...)` in a module's text, as far as they end with a line, or before its comment."""
    return text.partition(_HEADER)[2].partition(_END)[0].partition(_END_WITH_COMMENT)[0]


def _words(header: str, argument: str) -> tuple[str, ...]:
    """The strings of a tuple in a header."""
    return tuple(header.partition(f"{argument}=(")[2].partition(")")[0].split('"')[1::2])


def reason(error: BaseException) -> str:
    """What an exception says, on one line."""
    said = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {said}".removesuffix(": ")


def _one_line(text: str) -> str:
    return " ".join(each.strip() for each in text.splitlines())


GROUP = b"[amplint.rules]"


class Known(NamedTuple):
    """All rules by their codes, in order; the prefixes that codes have, those of broken plugins too; what is wrong.

    Rules that were `removed` are apart: they have a page, and nothing else.
    """

    rules: dict[str, Rule]
    prefixes: tuple[str, ...] = (OURS,)
    broken: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    removed: Mapping[str, Rule] = MappingProxyType({})

    @classmethod
    def of(
        cls,
        rules: dict[str, Rule],
        prefixes: tuple[str, ...] = (OURS,),
        broken: tuple[str, ...] = (),
        errors: tuple[str, ...] = (),
    ) -> Known:
        """What is known of `rules`, which are in all stages."""
        gone = {code: rule for code, rule in rules.items() if rule.stage is Stage.REMOVED}
        left = {code: rule for code, rule in rules.items() if code not in gone}
        return cls(left, prefixes, broken, errors, gone)
