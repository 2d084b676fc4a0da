"""amplint finds misuse of PyTorch automatic mixed precision, rewrites it, and proves the rewrite.

The public names load on first use, so that `amplint --version` costs what Python's own start does.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own takes the import of typing
if TYPE_CHECKING:
    from typing import Any

    from amplint.api import check, fix, make_settings, settings_for
    from amplint.findings import Applicability, Edit, Finding, Fix, Location, Severity
    from amplint.rules.base import Rule
    from amplint.selection import SettingsError
    from amplint.settings import Settings
    from amplint.verify import verify_steps as verify
    from amplint.verify.run import CannotRun
    from amplint.verify.training import StepRow

__version__ = "0.1.0"

_HOME = {
    "api": ("check", "fix", "make_settings", "settings_for"),
    "findings": ("Applicability", "Edit", "Finding", "Fix", "Location", "Severity"),
    "rules.base": ("Rule",),
    "selection": ("SettingsError",),
    "settings": ("Settings",),
    "verify": ("verify",),  # the package itself, which can be called
    "verify.run": ("CannotRun",),
    "verify.training": ("StepRow",),
}
__all__ = [
    "Applicability",
    "CannotRun",
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
