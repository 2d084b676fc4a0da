"""amplint finds misuse of PyTorch automatic mixed precision, rewrites it, and proves the rewrite.

The public names load on first use, so that `amplint --version` costs what Python's own start does.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own takes the import of typing
if TYPE_CHECKING:
    from typing import Any

    from amplint.engine import check, fix
    from amplint.findings import Applicability, Edit, Finding, Fix, Severity

__version__ = "0.1.0"

_HOME = {
    "check": "engine",
    "fix": "engine",
    "Applicability": "findings",
    "Edit": "findings",
    "Finding": "findings",
    "Fix": "findings",
    "Severity": "findings",
}
__all__ = ["Applicability", "Edit", "Finding", "Fix", "Severity", "check", "fix"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - `--version` does without it

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
