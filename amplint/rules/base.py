"""The shape of a rule: metadata and documentation taken from its module, and one function that finds.

A rule is one module `ampNNN_its_name.py` in this package. The module's name gives the code and the name,
its docstring the documentation (`DOC_HEADINGS`), and its `rule` everything else:

    rule = Rule(__name__, __doc__, severity=Severity.ERROR, triggers=("clip_grad & scaler",))

    @rule.check
    def check(module: Module) -> Iterator[Finding]: ...

Nothing else has to be touched: the registry, `amplint rule`, the README's table and the tests read it from here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from amplint.findings import Finding, Fix, Severity
    from amplint.model import Module

    Check = Callable[[Module], Iterable[Finding]]

DOC_HEADINGS = (
    "What it does",
    "Why is this bad?",
    "Example",
    "Use instead",
    "Fix safety",
    "Proof",
    "References",
)


# What a rule's module defines beyond its header.
_DEFINED = ("doc", "severity", "trial", "run")
# Where the header starts and ends in the module's text.
_HEADER, _END = "\nrule = Rule(", ")\n"


class Rule:
    """One rule. `triggers` are alternatives; within one, every word joined by `&` has to occur in the file.

    `triggers` are searched for in the file's bytes before anything is parsed, so each has to be a word without which
    the rule can't fire. `trial` says that a fix is offered only after the new text was analysed with all rules.

    A rule from the registry knows its header (code, name, triggers, default); the rest it imports on first use.
    """

    doc: str
    severity: Severity
    trial: bool
    run: Check | None

    def __init__(
        self,
        module_name: str,
        doc: str | None,
        *,
        severity: Severity,
        triggers: tuple[str, ...] = (),
        default: bool = True,
        trial: bool = True,
    ) -> None:
        self._read_header(module_name, triggers, default)
        self.doc = doc or ""
        self.severity = severity
        self.trial = trial
        self.run = None

    def _read_header(self, module_name: str, triggers: tuple[str, ...], default: bool) -> None:
        self.module_name = module_name
        code, _, name = module_name.rpartition(".")[2].partition("_")
        self.code = code.upper()
        self.name = name.replace("_", "-")
        self.default = default
        self.triggers = tuple(tuple(word.strip().encode() for word in each.split("&")) for each in triggers)

    @classmethod
    def from_text(cls, module_name: str, text: str) -> Rule:
        """The rule of a module that is not imported: modules of rules import the model, which few files need."""
        rule = cls.__new__(cls)
        header = text.partition(_HEADER)[2].partition(_END)[0]
        triggers = header.partition("triggers=(")[2].partition(")")[0]
        rule._read_header(module_name, tuple(triggers.split('"')[1::2]), "default=False" not in header)
        return rule

    def __getattr__(self, name: str) -> Any:
        if name not in _DEFINED:
            raise AttributeError(name)
        defined = import_module(self.module_name).rule
        for each in _DEFINED:
            self.__dict__.setdefault(each, getattr(defined, each))
        return self.__dict__[name]

    def check(self, function: Check) -> Check:
        """Register the function that yields this rule's findings for one module."""
        self.run = function
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
    ) -> Finding:
        """A finding of this rule at `span` (character offsets in the file's text).

        What is said is one line, though code that it quotes may have several.
        """
        from amplint.findings import Finding  # noqa: PLC0415 - where nothing is found it isn't needed

        said = _one_line(message)
        if fix is not None:
            fix = fix._replace(message=_one_line(fix.message))
        withheld = withheld and _one_line(withheld)
        return Finding(span[0], span[1], self.code, self.name, severity or self.severity, said, fix, withheld)


def _one_line(text: str) -> str:
    return " ".join(each.strip() for each in text.splitlines())
