"""What opens a file: words in its code, not in what it says to people."""

from __future__ import annotations

import ast
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint import check
from amplint.engine import file as engine
from amplint.engine import prefilter
from amplint.engine.code_words import without_prose
from amplint.registry import all_rules
from tests.conftest import LEGACY

WORDS = ("autocast", ".scale(", "caler")
SENTENCES = [
    '"""Use autocast here."""\n',
    "x = 1  # autocast\n",
    "# autocast\n",
    "raise ValueError('run this with autocast, please')\n",
    "raise ValueError(f'run {x} with torch.autocast({y}), please')\n",
    "print(\n    'some words',\n    'and autocast among them',\n)\n",
    "def f():\n    '''Scales by scaler.scale(loss) and more.'''\n    return 1\n",
    "@decorated\n# autocast\ndef f():\n    pass\n",
    "match x:\n    case 1:\n        pass  # autocast\n",
    "try:\n    pass\nexcept E:\n    log('no autocast at all')\n",
    "x = 'é'; y = 'autocast, é by é'\r\nz = 1 # caler\r",
]
CODE = [
    "import torch.autocast\n",
    "from torch import autocast as a\n",
    "x.autocast\n",
    "def autocast(): pass\n",
    "def f(autocast): pass\n",
    "f(autocast=1)\n",
    "global autocast\n",
    "getattr(torch, 'autocast')\n",
    "getattr(torch, f'cuda.amp.autocast{x}')\n",
    "def f(x: 'torch.autocast | None'): pass\n",
    "x = f'some words {autocast} and more'\n",
    "a.scale(loss)\n",
    "@autocast\n# a comment\ndef f():\n    pass\n",
    "match x:\n    case autocast:\n        pass\n",
    "class GradScaler: pass\n",
    "x = 1; autocast; y = 2\n",
    "if x:\n    pass\nelse:\n    autocast\n",
    "try:\n    pass\nexcept E as autocast:\n    pass\n",
    "lambda autocast: 1\n",
]


@pytest.mark.parametrize("text", SENTENCES)
def test_sentences_are_left_out(text: str) -> None:
    left = without_prose(text, ast.parse(text), WORDS)
    assert len(left) == len(text)
    assert not any(word in left for word in WORDS)
    assert left.split() == [each for each in _blanked(text).split() if each]


def _blanked(text: str) -> str:
    for word in WORDS:
        text = text.replace(word, " " * len(word))
    return text


@pytest.mark.parametrize("text", CODE)
def test_code_stays(text: str) -> None:
    assert without_prose(text, ast.parse(text), WORDS) == text


@given(st.lists(st.sampled_from(SENTENCES), max_size=3), st.sampled_from(CODE), st.lists(st.sampled_from(SENTENCES)))
def test_code_between_sentences_stays(before: list[str], code: str, after: list[str]) -> None:
    head, tail = "".join(before), "".join(after)
    text = head + code + tail
    left = without_prose(text, ast.parse(text), WORDS)
    assert left[len(head) : len(head) + len(code)] == code
    assert not any(word in left[: len(head)] for word in WORDS)


def test_a_file_that_only_speaks_of_amp_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object, **__: object) -> None:
        raise AssertionError("it was read")

    monkeypatch.setattr(engine.reading, "read", read)
    assert check('"""How to use torch.cuda.amp.autocast."""\n') == []
    with pytest.raises(AssertionError, match="it was read"):
        check(LEGACY)


def test_the_words_of_few_rules_count_in_code_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a file has a rule's first word in code and the others in an example, the rule has nothing to find in it."""

    def read(*_: object, **__: object) -> None:
        raise AssertionError("it was read")

    monkeypatch.setattr(engine.reading, "read", read)
    example = '"""Takes part in training.\n\n>>> loss.backward()\n"""\n'
    assert check(f"{example}self.scaler = StdScaler(config)\nconfig.update(other)\n") == []
    with pytest.raises(AssertionError, match="it was read"):
        check(f"{example}self.scaler = StdScaler(config)\nconfig.update(other)\nloss.backward()\n")


def test_no_trigger_word_is_left_out_of_code() -> None:
    """Words that are no names, as in `import apex` or `enabled=False`, stay wherever they stand."""
    words = {word.decode() for rule in all_rules().values() for words in rule.triggers for word in words}
    names = prefilter.names(all_rules().values())
    assert {"import apex", "autocast"} <= words
    assert not any(re.search(r"(?<!\w)(import|False|None)(?!\w)", each) for each in names)
    for each in names:
        assert f"x {each} x" == without_prose(f"x {each} x", ast.parse(" ; ".join(re.findall(r"\w+", each))), [each])
