"""f-strings and type parameters of Python 3.12, which an older Python reads with others in their place."""

from __future__ import annotations

import ast
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amplint import check, fix, make_settings
from amplint.sources.comments import layout
from amplint.sources.newer_strings import for_older_python
from amplint.sources.parsing import parsed

NEWER = {
    "its own quotes": """print(f'{names['a']}')""",
    "its own quotes in an inner one": """print(f"in {folder / f'{names['a']}.pt'}")""",
    "a backslash": r"""print(f"{'\n'.join(lines)}")""",
    "a line break": 'print(f"{\n    value\n    }, and more")',
    "in triple quotes": 'print(f"""{\n    "\\n".join(lines)}""")',
    "a format of its own": """print(f"{value:>{widths["a"]}} {value!r}")""",
    "beyond ASCII": """print(f"é {names["é"]}")""",
    "a named character": """print(f"\\N{EM DASH} {names["a"]}")""",
    "braces": """print(f"{{ {names["a"]} }}" + "{}")""",
    "next to a plain string": """print("it's" f"{names["a"]}" 'b')""",
}
OLDER = "print(f'{names[\"a\"]:>{width}}', rf'{a}\\d', f'''{b}''', 'f\"', \"{x['a']}\")  # f\"{"
TRAINING = """\
import torch


def train(model, optimizer, loader, criterion, names, scaler):
    for inputs, targets in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(inputs), targets)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        print(f"{names["loss"]} {"\\n".join([])}: {loss.item()}")


def main(model, loader, criterion):
    optimizer = torch.optim.SGD(model.parameters())
    train(model, optimizer, loader, criterion, {}, torch.amp.GradScaler("cuda"))
"""
ON_OLDER = pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python reads them itself")


SETTINGS = make_settings(select=["AMP401"])


@pytest.mark.parametrize("text", NEWER.values(), ids=NEWER)
def test_a_newer_f_string_is_read(text: str) -> None:
    (statement,) = parsed(f"{text}\n").body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)


@ON_OLDER
@pytest.mark.parametrize("text", NEWER.values(), ids=NEWER)
def test_nothing_moves(text: str) -> None:
    before, after = f"{text}  # é\nx = 1\n", for_older_python(f"{text}  # é\nx = 1\n")
    assert after != before
    assert [len(each.encode()) for each in after.split("\n")] == [len(each.encode()) for each in before.split("\n")]
    assert after.endswith(")  # é\nx = 1\n")


def test_what_any_python_reads_stays() -> None:
    assert for_older_python(OLDER) == OLDER


@pytest.mark.parametrize("text", ["f'a", "f'{", "f'{a:", "f'\\", "f'", "print(f'{a['b']}'", "f'{a b['c']}' f'{'"])
def test_what_no_python_reads_is_refused(text: str) -> None:
    with pytest.raises(SyntaxError):
        parsed(f"{text}\n")


@given(st.text(alphabet="f'\"{}[]:!\\#a\n é(", max_size=30))
@example("f':\n:é'")
def test_any_text_keeps_its_lines(text: str) -> None:
    after = for_older_python(text)
    assert [len(each.encode()) for each in after.split("\n")] == [len(each.encode()) for each in text.split("\n")]


def test_a_file_with_newer_f_strings_is_linted_and_fixed() -> None:
    (finding,) = check(TRAINING, "train.py", SETTINGS)
    assert (finding.code, finding.location.row) == ("AMP401", 10)
    fixed = fix(TRAINING, "train.py", SETTINGS)
    clip = "        torch.nn.utils.clip_grad_norm_"
    assert fixed == TRAINING.replace(clip, f"        scaler.unscale_(optimizer)\n{clip}")


def test_its_comments_are_found() -> None:
    text = TRAINING.replace("1.0)", "1.0)  # noqa: AMP401")
    assert [each.text for each in layout(text).comments] == ["# noqa: AMP401"]
    assert check(text, "train.py", SETTINGS) == []


TYPED = """\
import torch

type Batch = tuple[torch.Tensor, torch.Tensor]
type Pair[T] = tuple[T, T]


class Keeper[T: int, *Ts]:
    async def go[U](self, x: U = {"a": [1]}) -> U:  # type X = 1
        return x


"""


def test_type_parameters_are_read() -> None:
    text = TYPED + TRAINING
    older = for_older_python(text)
    assert [len(line) for line in older.splitlines()] == [len(line) for line in text.splitlines()]
    assert [each.location.row for each in check(text, settings=SETTINGS)] == [
        text[: text.index("torch.nn.utils")].count("\n") + 1
    ]
    fixed = fix(text, settings=SETTINGS)
    assert fixed.startswith(TYPED)
    assert "unscale_" in fixed


@pytest.mark.parametrize("text", ["type = 3\ntype (3)\n", "type(x)\n", "x = first[T](items)\n", "print(type)\n"])
def test_other_uses_of_the_words_stay(text: str) -> None:
    assert for_older_python(text) == text
