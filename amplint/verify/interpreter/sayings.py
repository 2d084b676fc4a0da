"""How the answers are said that a run takes for granted. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Saying(NamedTuple):
    """How the answers to a question are said: that it `holds`, and that it `fails`."""

    holds: str
    fails: str


def said(answers: Mapping[str, Any], sayings: Mapping[str, Saying]) -> str:
    """Answers in words; a question that has no saying is one."""
    return ", ".join(_said(question, answer, sayings.get(question)) for question, answer in answers.items())


def _said(question: str, answer: Any, saying: Saying | None) -> str:
    if not isinstance(answer, bool):
        return f"{question} {answer}"
    holds, fails = saying or Saying(question, f"not ({question})")
    return holds if answer else fails
