"""The interface for rules in other packages. Everything else in amplint may change with any release.

A rule in another package imports these names from here, and nothing else of amplint except `amplint.testing` for its
tests:

- `Rule`, with its `check` and `finding`, and its `Stage`; `Finding`, `Fix`, `Edit`, `Severity`, `Confidence` and
  `Applicability`;
- `Module`, what a file means: `source`, `target`; `calls_of(*names)`, `references(*names)`; `whole` and `own`, with the
  `calls`, `statements`, `values` and `functions` of `near(*words)`; `names.of(value)`, the qualified names that a value
  can have; `is_own(node)`; `span(node)`, `text(node)`, `on_one_line(node)`, `line(node)`, `row(node)`, and
  `layout.inside_parens(call)`, `layout.outer(value)`; `once(make)`, for results that several rules need;
- `ir`, the nodes of the intermediate representation, with `statement_of`, `function_of`, `last_name`, `walk_values` and
  `walk_statements`;
- `events(module).of(call)`, the `Event` of a call: what the call does to a scaler, to gradients or to an optimizer, and
  to which one; `number(module, value)`, which says that a value is a number: the result's `value` is the number itself,
  None where it varies; the result is None where the value may be something else;
- `regions(module)`, a `Region` for each autocast object that is created: its `call`; its arguments `device_type`,
  `dtype`, `enabled` and `cache_enabled`, by keyword or by position, None where one is not given; `device`, that of an
  old class; `opaque`, whether arguments are unpacked or their meaning is unknown; `chosen`, what is called where it is
  one of several old classes;
- the functions that make edits: `insert`, `add_first_argument`, `add_last_argument` and `remove_lines`, with
  `alone_on_lines`, which says whether a statement's lines can be removed, and `indentation`.
"""

from __future__ import annotations

from amplint.base.findings import Applicability, Confidence, Edit, Finding, Fix, Severity
from amplint.fixes.edits import (
    add_first_argument,
    add_last_argument,
    alone_on_lines,
    indentation,
    insert,
    remove_lines,
)
from amplint.model.calls.events import events
from amplint.model.inference.numbers import number
from amplint.model.module import Module
from amplint.model.objects.autocast_objects import Region, regions
from amplint.model.objects.event import Event
from amplint.model.syntax import ir
from amplint.registry.rule import Rule, Stage

__all__ = [
    "Applicability",
    "Confidence",
    "Edit",
    "Event",
    "Finding",
    "Fix",
    "Module",
    "Region",
    "Rule",
    "Severity",
    "Stage",
    "add_first_argument",
    "add_last_argument",
    "alone_on_lines",
    "events",
    "indentation",
    "insert",
    "ir",
    "number",
    "regions",
    "remove_lines",
]
