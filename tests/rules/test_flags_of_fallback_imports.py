"""AMP202: calls that only the old class gets, by a flag that is set where the import of the new one fails."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP202"}), isolated=True, target_torch="2.4")
IN_BOTH = """
try:
    from torch.amp import autocast
    NEW = True
except ImportError:
    from torch.cuda.amp import autocast
    NEW = False
"""
BEFORE = """
NEW = True
try:
    from torch.amp import autocast
except ImportError:
    from torch.cuda.amp import autocast
    NEW = False
"""
BEHIND = """
try:
    from torch.amp import autocast
except ImportError:
    from torch.cuda.amp import autocast
    NEW = False
else:
    NEW = True
"""
NEVER_SET = """
import os
NEW = "NEW" in os.environ
try:
    from torch.amp import autocast
except ImportError:
    from torch.cuda.amp import autocast
"""
USE = """

def region(dtype, use_amp):
    {0}
"""
ONLY_OLD = (
    'if NEW:\n        return autocast("cuda", dtype=dtype)\n    return autocast(dtype=dtype)',
    "if not NEW:\n        return autocast(dtype=dtype)",
    'return autocast("cuda", dtype=dtype) if NEW else autocast(dtype=dtype)',
    "if use_amp and not NEW:\n        return autocast(dtype=dtype)",
    "if not use_amp or NEW:\n        return None\n    return autocast(dtype=dtype)",
)
ALSO_NEW = (
    "return autocast(dtype=dtype)",
    "if NEW:\n        return autocast(dtype=dtype)",
    "if use_amp or not NEW:\n        return autocast(dtype=dtype)",
    "if use_amp and NEW:\n        return autocast(dtype=dtype)",
)


def found(text: str) -> list[str]:
    return [each.code for each in check(text, "a.py", SETTINGS)]


@pytest.mark.parametrize("imports", [IN_BOTH, BEFORE, BEHIND], ids=["in both", "before", "behind"])
@pytest.mark.parametrize("use", ONLY_OLD)
def test_only_the_old_class_is_called(imports: str, use: str) -> None:
    assert found(imports + USE.format(use)) == []


@pytest.mark.parametrize("imports", [IN_BOTH, BEFORE, BEHIND], ids=["in both", "before", "behind"])
@pytest.mark.parametrize("use", ALSO_NEW)
def test_the_new_class_is_called_too(imports: str, use: str) -> None:
    assert found(imports + USE.format(use)) == ["AMP202"]


@pytest.mark.parametrize("use", ONLY_OLD)
def test_a_flag_that_the_handler_does_not_set_says_nothing(use: str) -> None:
    assert found(NEVER_SET + USE.format(use)) == ["AMP202"]


BY_NAME = """
try:
    from torch.amp import autocast
    MODE = "torch.amp"
except ImportError:
    from torch.cuda.amp import autocast
    MODE = "torch.cuda.amp"
"""


@pytest.mark.parametrize(
    "use",
    [
        'if MODE == "torch.amp":\n        return autocast("cuda", dtype=dtype)\n    return autocast(dtype=dtype)',
        'if MODE != "torch.amp":\n        return autocast(dtype=dtype)',
        'if MODE == "torch.cuda.amp":\n        return autocast(dtype=dtype)',
    ],
)
def test_the_flag_may_be_a_name(use: str) -> None:
    assert found(BY_NAME + USE.format(use)) == []


@pytest.mark.parametrize("test", ['MODE == "torch.amp"', 'MODE != "torch.cuda.amp"', 'MODE == "other"'])
def test_a_name_of_the_new_one(test: str) -> None:
    wanted = [] if "other" in test else ["AMP202"]
    assert found(BY_NAME + USE.format(f"if {test}:\n        return autocast(dtype=dtype)")) == wanted
