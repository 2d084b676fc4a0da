"""A report for people and for programs."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from textwrap import wrap
from typing import Any

from amplint import __version__
from amplint.base.about import SCHEMA_VERSION
from amplint.base.paths import absolute, visible
from amplint.doctor.findings import Cause, Evidence, Finding, Place, Related, Report
from amplint.registry import all_rules
from amplint.report.formats import sarif
from amplint.report.text import BOLD, CYAN, SEVERITY_COLOUR, paint
from amplint.base.findings import Severity

_HEAD = "amplint run"
_MISSED = "the linter doesn't see this"
_ERROR, _QUIET = SEVERITY_COLOUR[Severity.ERROR], CYAN
