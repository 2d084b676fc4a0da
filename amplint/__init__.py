"""amplint finds misuse of PyTorch automatic mixed precision, rewrites it, and proves the rewrite.

The public names load on first use, so that `amplint --version` costs what Python's own start does.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own takes the import of typing
if TYPE_CHECKING:
    from typing import Any

    from amplint.api import check, fix, make_settings, settings_for
    from amplint.base.findings import Applicability, Confidence, Edit, Finding, Fix, Location, Severity
    from amplint.config.selection import SettingsError
    from amplint.config.settings import Settings
    from amplint.registry.rule import Rule
    from amplint.verify import verify_steps as verify
    from amplint.verify.fixtures.run import CannotRun
    from amplint.verify.steps.verify import StepRow

__version__ = "0.1.0"

_HOME = {
    "api": ("check", "fix", "make_settings", "settings_for"),
    "base.findings": ("Applicability", "Confidence", "Edit", "Finding", "Fix", "Location", "Severity"),
    "registry.rule": ("Rule",),
    "config.selection": ("SettingsError",),
    "config.settings": ("Settings",),
    "verify": ("verify",),  # the package itself, which can be called
    "verify.fixtures.run": ("CannotRun",),
    "verify.steps.verify": ("StepRow",),
}
__all__ = [
    "Applicability",
    "CannotRun",
    "Confidence",
    "Edit",
    "Finding",
    "Fix",
    "Location",
    "Rule",
    "Settings",
    "SettingsError",
    "Severity",
    "StepRow",
    "check",
    "fix",
    "make_settings",
    "settings_for",
    "verify",
]


def __getattr__(name: str) -> Any:
    home = next((module for module, names in _HOME.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - `--version` does without it

    module = import_module(f"{__name__}.{home}")
    return module if name == home else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
