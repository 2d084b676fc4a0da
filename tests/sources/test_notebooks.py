"""Notebooks: found as one program, fixed cell by cell, and everything else in the file stays what it is."""

from __future__ import annotations

import ast
import json
import random
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amplint.adoption.add_noqa import comments_for
from amplint.config.settings import Settings
from amplint.engine.file import check_bytes, fix_bytes
from amplint.registry import all_rules
from amplint.sources.ipython import as_program, restored
from amplint.sources.load import load
from amplint.sources.source import MARK, Source
from tests import ROOT, some
from tests.conftest import Ran

Write = Callable[[dict[str, str | bytes]], Path]

EVERYTHING = Settings(frozenset(all_rules()), isolated=True)
FIXTURES = ROOT / "fixtures"
LEGACY, MODERN = "with torch.cuda.amp.autocast(): pass", 'with torch.amp.autocast("cuda"): pass'
IMPORT = "import torch"


def notebook(*cells: str | list[str], **more: Any) -> dict[str, Any]:
    """A notebook with code cells."""
    listed = [
        {"cell_type": "code", "execution_count": None, "id": f"c{at}", "metadata": {}, "outputs": [], "source": each}
        for at, each in enumerate(cells)
    ]
    return {"cells": listed, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more}


def as_bytes(*cells: str | list[str], **more: Any) -> bytes:
    return json.dumps(notebook(*cells, **more), indent=1).encode()


def found(data: bytes, name: str = "n.ipynb") -> list[str]:
    """What is found, as `CODE cell:row:column`."""
    result = check_bytes(data, name, EVERYTHING)
    places = ((each.code, result.source.place(each.start)) for each in result.findings if result.source)
    return [f"{code} {':'.join(map(str, place))}" for code, place in places]


def fixed(data: bytes) -> bytes:
    return fix_bytes(data, "n.ipynb", EVERYTHING).data


def sources(data: bytes) -> list[str]:
    return ["".join(each["source"]) for each in json.loads(data)["cells"]]


# --- one program ------------------------------------------------------------------------------------------------------

TRAINING = [
    "%matplotlib inline\n!pip install torch\nimport torch",
    "scaler = torch.amp.GradScaler('cuda')\nfiles = !ls\nmodel?",
    "%%bash\nscaler.unscale_(optimizer)",
    """\
for x, y in loader:
    %time optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = model(x)
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
plt.plot();""",
]


def test_a_scaler_of_one_cell_is_followed_into_another() -> None:
    data = as_bytes(*TRAINING)
    assert found(data) == ["AMP401 4:6:5"]
    (finding,) = check_bytes(data, "n.ipynb", EVERYTHING).findings
    assert "of the backward pass on line 5 of cell 4" in finding.message
    after = sources(fixed(data))
    assert after[:3] == TRAINING[:3]
    assert after[3] == TRAINING[3].replace("    torch.nn.utils", "    scaler.unscale_(optimizer)\n    torch.nn.utils")


def test_cells_that_are_no_code_are_counted_and_left_alone() -> None:
    document = notebook(IMPORT, LEGACY)
    document["cells"].insert(1, {"cell_type": "markdown", "metadata": {}, "source": LEGACY})
    document["cells"].insert(1, {"cell_type": "raw", "metadata": {}, "source": LEGACY})
    document["cells"].append({"cell_type": "code", "metadata": {}, "outputs": []})
    assert found(json.dumps(document).encode()) == ["AMP101 4:1:6"]


@pytest.mark.parametrize(
    ("metadata", "linted"),
    [
        ({}, True),
        ({"language_info": {"name": "python"}}, True),
        ({"kernelspec": {"language": "python"}}, True),
        ({"language_info": {"name": "ipython"}}, True),
        ({"language_info": {"name": "julia"}}, False),
        ({"kernelspec": {"language": "R"}}, False),
        ([], True),
    ],
)
def test_other_kernels_are_not_linted(metadata: Any, linted: bool) -> None:
    assert bool(found(as_bytes(f"{IMPORT}\n{LEGACY}", metadata=metadata))) is linted


def test_a_cell_of_another_language_is_not_linted() -> None:
    document = notebook(IMPORT, LEGACY)
    document["cells"][1]["metadata"] = {"vscode": {"languageId": "julia"}}
    assert found(json.dumps(document).encode()) == []


def test_nbformat_3() -> None:
    cells = [
        {"cell_type": "heading", "level": 1, "source": "x"},
        {"cell_type": "code", "input": [IMPORT], "language": "python", "outputs": []},
        {"cell_type": "code", "input": [LEGACY], "language": "python", "outputs": []},
        {"cell_type": "code", "input": [LEGACY], "language": "ruby", "outputs": []},
    ]
    document = {"metadata": {}, "nbformat": 3, "nbformat_minor": 0, "worksheets": [{"cells": cells, "metadata": {}}]}
    data = json.dumps(document).encode()
    assert found(data) == ["AMP101 3:1:6"]
    assert json.loads(fixed(data))["worksheets"][0]["cells"][2]["input"] == [MODERN]


# --- what is no program -----------------------------------------------------------------------------------------------


def test_a_broken_cell_costs_the_others_nothing() -> None:
    data = as_bytes(IMPORT, f"{LEGACY}\nx = (", LEGACY)
    assert found(data) == ["AMP001 2:2:5", "AMP101 3:1:6"]
    assert sources(fixed(data)) == [IMPORT, f"{LEGACY}\nx = (", MODERN]


def test_what_a_broken_cell_may_do_is_not_known() -> None:
    """The cell may call `scaler.update()`: that it is missing can't be said."""
    step = "scaler.scale(loss).backward()\nscaler.step(optimizer)"
    made = f"{IMPORT}\nscaler = torch.amp.GradScaler('cuda')"
    loop = f"for loss in losses:\n    {step}".replace("\nscaler.s", "\n    scaler.s")
    assert found(as_bytes(made, loop)) == ["AMP404 2:3:5"]
    assert found(as_bytes(made, step, "scaler.update() print", step)) == ["AMP001 3:1:17"]
    assert found(as_bytes(made, step, "scaler.step(optimizer)")) == ["AMP406 3:1:1"]
    assert found(as_bytes(made, step, "%%mystery\nscaler.update()", "scaler.step(optimizer)")) == []


@pytest.mark.parametrize(
    ("data", "row", "column"),
    [
        (b'{"cells": [\n {"autocast": ]}', 2, 15),
        (b'{"cells": [], "x": "autocast"', 1, 30),
        (b'{"autocast": 1} []', 1, 17),
        (b'["autocast"]', 1, 1),
        (b'{"autocast": {}}', 1, 1),
        (b"[" * 100_000 + b'"autocast"', 1, 1),
        (b'"autocast', 1, 1),
        (b'{"autocast": "\n"}', 1, 15),
        (b'{autocast: ""}', 1, 2),
        (b'{"autocast": ' + b"9" * 5000 + b"}", 1, 1),
    ],
)
def test_what_is_no_notebook_is_said_with_the_place(data: bytes, row: int, column: int) -> None:
    assert found(data) == [f"AMP001 None:{row}:{column}"]


def test_what_is_no_notebook_and_has_no_word_of_amp_is_not_read() -> None:
    for data in (b"", b"{", b"[]", b'{"cells": 1}'):
        assert check_bytes(data, "n.ipynb", EVERYTHING).source is None


def test_bytes_that_are_no_text() -> None:
    assert found(b'{"cells": [\n"\xff"]}') == ["AMP001 None:2:1"]


def test_words_in_outputs_open_nothing() -> None:
    """A cell that is no program is nobody's concern where the code has nothing to do with AMP."""
    document = notebook("print 1")
    document["cells"][0]["outputs"] = [{"name": "stderr", "output_type": "stream", "text": "torch.cuda.amp.autocast"}]
    assert check_bytes(json.dumps(document).encode(), "n.ipynb", EVERYTHING).source is None


def test_no_escape_hides_a_word() -> None:
    data = as_bytes(IMPORT, LEGACY).replace(b"autocast", b"\\u0061utoc\\u0061\\u0073t")
    assert found(data) == ["AMP101 2:1:6"]


def test_words_of_rules_need_no_escape() -> None:
    """Else `gate.seen` would read every notebook: JSON may write each character of a word as it is."""
    words = {word for rule in all_rules().values() for words in rule.triggers for word in words}
    assert not [word for word in words if set(word) & set(b'/"\\') or min(word, default=32) < 32 or max(word) > 126]


def test_odd_notebooks() -> None:
    assert found(as_bytes()) == []
    assert found(b'{"autocast": 1, "cells": [1, "x", null, {}, {"cell_type": "code", "source": 5}]}') == []
    twice = as_bytes(IMPORT, LEGACY).replace(b'"cells"', b'"cells": ["torch.cuda.amp.autocast()"], "cells"')
    assert found(twice) == ["AMP101 2:1:6"]
    doubled = as_bytes(f"{IMPORT}\n{LEGACY}").replace(b'"source"', b'"source": ["x = ("], "source"')
    assert found(doubled) == ["AMP101 1:2:6"]
    assert b'["x = ("]' in fixed(doubled)


def test_control_characters_and_lone_surrogates() -> None:
    assert found(as_bytes(IMPORT, f"x = '{MARK}'", LEGACY)) == ["AMP001 2:1:6", "AMP101 3:1:6"]
    data = as_bytes(IMPORT, "x = '\\ud800'", LEGACY).replace(b"\\\\ud800", b"\\ud800")
    assert found(data) == ["AMP001 2:1:6", "AMP101 3:1:6"]
    assert fixed(data) == data.replace(json.dumps(LEGACY).encode(), json.dumps(MODERN).encode())


# --- IPython ----------------------------------------------------------------------------------------------------------

COMMANDS = [
    "%matplotlib inline",
    "!ls 'it",
    "!pip install \\\n   torch",
    "x = !ls {path}",
    "a, b[0] = %sx ls -l",
    "obj?",
    "?obj",
    "obj.x??",
    "%time f(x)",
    "%time with f(x) as y: z = g(y)",
    "%lprun -f f f(x, y=1) if a == b else None",
    "%%timeit c = f()\nwith c: pass",
    "a = %timeit -o for b, c in x: b, c = lambda: None",
    "%timeit -n 3 -r 2 f(x)  # why",
    "%timeit -n1 for x in y: pass",
    "%%time\nf(x)",
    "%%capture out\n%ls\nf(x)",
    "%%html\n<b>",
    "if x:\n    !ls\n    %cd ..\nelse:\n    y = %pwd\n",
    'x = """\n%no magic\n!neither\n"""\n!ls',
    "x = (1\n% 2)\n%ls",
    "def f():\n    %run x.py\n    return 1",
    ",f a b",
    "/f x",
    "await f(x)\n!ls",
    "!ls\r\nx = 1\r\n",
    "%load_ext autoreload\n%autoreload 2\n",
    "\n%%bash\nls",
    "!",
    "!!ls",
    "%",
    "# comment?\nx = 1\n%ls",
    "x = 'a' # b? \\\n!ls",
]


AUTOMAGICS = [
    "ls data/",
    "cd ..",
    "cd my data",
    "pip install -q torch>=2  # once",
    "conda install -y torch",
    "mkdir foo bar",
    "cat file.txt",
    "cat 'it's (1).txt",
    "rm -rf x",
    "cp a b",
    "mv a b",
    "ls *.py | wc -l",
    "ll ..",
    "time x = 1; y = 2",
    "time for x in y: f(x)",
    "timeit -n 3 f(x)",
    "run train.py --lr 1",
    "matplotlib inline",
    "load_ext autoreload",
    "set_env CUDA_VISIBLE_DEVICES 0",
]


@pytest.mark.parametrize("written", [*COMMANDS, *AUTOMAGICS])
def test_commands_of_ipython(written: str) -> None:
    code = as_program(written)
    assert code.refusal is None
    ast.parse(code.text)
    assert restored(code.text, code.masks) == written
    for before, after in zip(written.splitlines(), code.text.splitlines(), strict=True):
        assert len(after) >= len(before)
    # What is Python stays where it is.
    kept = [line for line in code.text.splitlines() if MARK not in line and line.strip()]
    assert set(kept) <= set(written.splitlines())


@pytest.mark.parametrize("line", AUTOMAGICS)
def test_a_command_without_its_sign_is_understood_where_it_is_all_of_a_cell(line: str) -> None:
    assert found(as_bytes(IMPORT, line, LEGACY)) == ["AMP101 3:1:6"]
    assert found(as_bytes(IMPORT, f"\n\n{line}", LEGACY)) == ["AMP101 3:1:6"]
    assert found(as_bytes(IMPORT, f"%%time\n{line}", LEGACY)) == ["AMP101 3:1:6"]


@pytest.mark.parametrize("line", AUTOMAGICS)
def test_a_command_without_its_sign_beside_others_is_said_and_hides_nothing(line: str) -> None:
    for cell, place, row in (
        (f"{line}\n{LEGACY}", "2:2:6", 1),
        (f"{LEGACY}\n{line}", "2:1:6", len(LEGACY.splitlines()) + 1),
        (f"x = 1\n{line}\n", None, 2),
        (f"# why\n{line}", None, 2),
        (f"{line}\n\n", None, 1),
        (f"!ls\n{line}", None, 2),
    ):
        data = as_bytes(IMPORT, cell, LEGACY)
        errors = [each for each in found(data) if each.startswith("AMP001")]
        assert len(errors) == 1, cell
        assert errors[0].startswith(f"AMP001 2:{row}:"), cell
        assert [each for each in found(data) if each not in errors] == [
            *([f"AMP101 {place}"] if place else []),
            "AMP101 3:1:6",
        ]
        assert sources(fixed(data)) == [IMPORT, cell.replace(LEGACY, MODERN), MODERN]


@pytest.mark.parametrize(
    "cell",
    [
        "    import torch\n    from torch.cuda.amp import autocast\n",
        "  x = 1\n\n  !ls\n  def g():\n      pass",
        ">>> import torch\n>>> for i in y:\n...     f(i)\n...\n",
        " >>> x = 1\n >>> y = 2",
        ">>>x = 1\n>>>y = 2",
        "In [1]: import torch\n\nIn [12]: for i in y:\n   ....:     f(i)\n   ....:",
        "\n>>> import torch",
    ],
)
def test_what_ipython_reads_without_indentation_and_prompts(cell: str) -> None:
    code = as_program(cell)
    assert code.refusal is None
    ast.parse(code.text)
    assert restored(code.text, code.masks) == cell
    later = "with autocast():\n    y = torch.ones(3)"
    assert found(as_bytes(cell, later)) == []
    assert found(as_bytes(IMPORT, cell, LEGACY)) == ["AMP101 3:1:6"]


@pytest.mark.parametrize(
    "cell", ["  x = 1\ny = 2", "# c\n  x = 1", "    x = (\n    y", ">>> x = (\n", "... x = 1", "In [1]: x y"]
)
def test_what_ipython_can_t_read_either(cell: str) -> None:
    assert found(as_bytes(IMPORT, cell, LEGACY))[0].startswith("AMP001 2:")


@pytest.mark.parametrize(
    ("cell", "row"),
    [
        ("print 1", 1),
        ("lss data/", 1),
        ("config = = 1", 1),
        ("cat, = = 1", 1),
        ("save (x y)", 1),
        ("env [1", 1),
        ("ls data/\nx = (", 2),
        ("ls data/\nprint 1", 2),
        ("if x:\n    mkdir data", 2),  # neither does IPython take that
        ("x = [\ncd ..\n]", 2),
    ],
)
def test_errors_of_syntax_beside_commands(cell: str, row: int) -> None:
    first, *others = found(as_bytes(IMPORT, cell, LEGACY))
    assert re.match(rf"AMP001 2:{row}:\d+$", first)
    assert others == ["AMP101 3:1:6"]


@pytest.mark.parametrize(
    "line",
    ["ls -la", "time = 1", "cat, rm = 1, 2", "env = {\n'a': 1\n}", "run (\nx\n)", "save [\n0\n]", "config\\\n= 1"],
)
def test_python_beside_commands_is_left_as_it_is(line: str) -> None:
    assert as_program(f"{line}\n!ls").text.startswith(f"{line}\n")


@pytest.mark.parametrize(
    "written", ["x = 1", "x = 5 %y", "assert x != y", "await f()", "x = a if b else c;", "", "ls", "pwd", "ls -la"]
)
def test_python_is_left_as_it_is(written: str) -> None:
    assert as_program(written) == (written, (), None)


@given(st.lists(st.sampled_from([*COMMANDS, *AUTOMAGICS, "x = (", "print 1", "f(x)", "'''", "\t", "\\"]), max_size=4))
def test_masks_can_be_taken_off(pieces: list[str]) -> None:
    written = "\n".join(pieces)
    code = as_program(written)
    ast.parse(code.text)
    assert restored(code.text, code.masks) == written
    assert len(Source("", code.text).line_starts) == len(Source("", written).line_starts)


def test_timed_statements_are_followed() -> None:
    step = ["scaler.scale(loss).backward()", "%time scaler.step(optimizer)", "scaler.update()", "scaler.update()"]
    assert found(as_bytes(f"{IMPORT}\nscaler = torch.amp.GradScaler('cuda')", *step)) == ["AMP410 5:1:1"]


def test_no_fix_touches_a_line_with_a_command() -> None:
    data = as_bytes(IMPORT, "%time model(torch.cuda.amp.autocast())")
    (finding,) = check_bytes(data, "n.ipynb", EVERYTHING).findings
    assert finding.fix is None
    assert finding.withheld == "the fix would change an IPython line or a second cell"
    assert fixed(data) == data


def test_the_source_is_shown_as_it_is_written(project: Write, amplint: Callable[..., Ran]) -> None:
    project({"n.ipynb": as_bytes(IMPORT, "%time model(torch.cuda.amp.autocast())")})
    ran = amplint("n.ipynb")
    assert "\n --> n.ipynb:cell 2:1:13\n" in ran.out
    assert "1 | %time model(torch.cuda.amp.autocast())" in ran.out


@pytest.mark.parametrize(
    "command",
    [
        "%time with autocast(): y = model(x)",
        "%lprun -f model model(autocast())",
        "%%timeit c = autocast()\nwith c: y = model(x)",
        "result = %timeit -o autocast()",
        "/autocast False",
        "for x in xs:\n    %mystery autocast()",
    ],
)
def test_a_name_that_a_command_uses_is_not_changed(command: str) -> None:
    data = as_bytes(f"{IMPORT}\nfrom torch.cuda.amp import autocast", "with autocast():\n    y = model(x)", command)
    result = fix_bytes(data, "n.ipynb", EVERYTHING)
    assert result.data == data
    assert [each.code for each in result.before.findings] == ["AMP101"]
    assert [each.fix for each in result.before.findings] == [None]


@pytest.mark.parametrize(
    ("command", "clipped"),
    [
        ("%time for p in [1]: scaler.unscale_(opt)", []),
        ("%lprun -f unscale scaler.unscale_(opt)", []),
        ("%memit -r 1 if x: scaler = made()", []),
        ("%matplotlib inline", ["AMP401 2:7:5"]),
        ("!echo scaler opt", ["AMP401 2:7:5"]),
    ],
)
def test_what_a_command_may_do_is_not_known(command: str, clipped: list[str]) -> None:
    loop = f"""\
for x, y in loader:
    opt.zero_grad()
    with torch.autocast("cuda"):
        loss = model(x)
    scaler.scale(loss).backward()
    {command}
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()"""
    assert found(as_bytes(f"{IMPORT}\nscaler = torch.amp.GradScaler('cuda')", loop)) == clipped


@pytest.mark.parametrize(
    ("cell", "also"),
    [
        ("%%profile_gpu\nx = 1\nprint(x)\nwith autocast():\n    y = model(x)", []),
        ("%%ai chatgpt\nHow do I use autocast() here? with autocast()", []),
        ("def f(:\n    with autocast():\n        y = model(x)", ["AMP001 3:1:7"]),
        ("%lprun -f model model(autocast())", []),
    ],
)
def test_nothing_is_found_where_the_program_is_not_the_notebooks(
    cell: str, also: list[str], project: Write, amplint: Callable[..., Ran]
) -> None:
    use = "with autocast():\n    y = model(x)"
    data = as_bytes(f"{IMPORT}\nfrom torch.cuda.amp import autocast", use, cell)
    assert found(data) == ["AMP101 2:1:6", *also]
    root = project({"n.ipynb": data})
    assert amplint("--add-noqa").code == bool(also)
    assert sources((root / "n.ipynb").read_bytes())[1:] == [use.replace(":\n", ":  # noqa: AMP101\n"), cell]


@pytest.mark.parametrize("command", ["result = %timeit -o f()", "result = %timeit \\\n -o f()", "result = !ls"])
def test_no_comment_is_added_to_a_command(command: str) -> None:
    source = load(as_bytes(command, "x = 1"), "n.ipynb")
    places = (0, source.text.index("x = 1"))
    findings = [all_rules()["AMP101"].finding((at, at + 1), "") for at in places]
    assert [source.place(each.start) for each in comments_for(source, findings)] == [(2, 1, 6)]


# --- writing ----------------------------------------------------------------------------------------------------------


def test_lines_that_are_added_have_the_layout_of_the_others() -> None:
    for indent, separators in ((1, None), (4, None), (None, (", ", ": ")), (None, (",", ":"))):
        document = notebook(*(each.splitlines(keepends=True) for each in TRAINING))
        data = json.dumps(document, indent=indent, separators=separators).encode()
        after = fixed(data)
        again = json.loads(after)
        assert len(again["cells"][3]["source"]) == len(document["cells"][3]["source"]) + 1
        assert json.dumps(again, indent=indent, separators=separators).encode() == after
        nbformat.validate(nbformat.from_dict(again))


def test_empty_strings_stay() -> None:
    data = as_bytes([IMPORT], ["", f"{LEGACY}\n", "", "", "x = 1", ""], [f"{LEGACY}\n", ""])
    assert fixed(data) == data.replace(json.dumps(LEGACY)[1:-1].encode(), json.dumps(MODERN)[1:-1].encode())


def test_cells_that_lose_all_their_lines() -> None:
    data = as_bytes(["import torch  # noqa: AMP401"], ["# noqa: AMP401"], ["# noqa: AMP401\n"], [])
    assert sources(fixed(data)) == ["import torch", "", "", ""]


def test_what_is_added_at_the_border_of_cells_goes_to_the_right_one() -> None:
    """An `update()` behind the step that ends a cell is part of that cell."""
    body = "optimizer.zero_grad()\nscaler.scale(loss).backward()\nscaler.step(optimizer)"
    loop = "for x in y:\n    " + body.replace("\n", "\n    ")
    data = as_bytes([IMPORT], ["scaler = torch.amp.GradScaler('cuda')"], loop, ["print(1)"])
    assert sources(fixed(data))[2:] == [f"{loop}\n    scaler.update()", "print(1)"]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_line_ends_stay(newline: str) -> None:
    training = [each.replace("\n", newline) for each in TRAINING]
    after = sources(fixed(as_bytes(*training)))
    assert after[:3] == training[:3]
    wanted = training[3].replace("    torch.nn.utils", f"    scaler.unscale_(optimizer){newline}    torch.nn.utils")
    assert after[3] == wanted


def test_escapes_stay_in_lines_that_do_not_change() -> None:
    lines = f"{IMPORT}\nx = 'a<b ü \U0001f600'\n{LEGACY}  # ü"
    raw = json.dumps(lines).encode()
    data = as_bytes(lines).replace(raw, raw.replace(b"<", b"\\u003c"))
    assert fixed(data) == data.replace(json.dumps(LEGACY)[1:-1].encode(), json.dumps(MODERN)[1:-1].encode())
    plain = json.dumps(notebook(lines), ensure_ascii=False).encode()
    wanted = json.dumps(notebook(lines.replace(LEGACY, MODERN)), ensure_ascii=False).encode()
    assert fixed(plain) == wanted


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
LINES = st.one_of(
    st.sampled_from([IMPORT, LEGACY, "%ls", "x = !ls", "", "print('ü', \"q\\t\")", "# \U0001f600", "y = x;", "x = ("]),
    TEXTS.map(lambda text: f"x = {text!r}"),
    TEXTS.map(lambda text: "# " + text.translate(dict.fromkeys((10, 13, 0, 2)))),
)


def written_somehow(value: Any, rnd: random.Random, depth: int = 0) -> str:
    """JSON in any layout; what holds LEGACY is written in one way."""

    def space() -> str:
        return rnd.choice(["", "", " ", "\n", "\n  ", "\r\n\t"])

    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=rnd.random() < 0.5)
        if LEGACY not in value:
            text = "".join(
                f"\\u{ord(each):04X}"
                if each.isalpha() and each.isascii() and rnd.random() < 0.2 and "\\" not in text
                else each
                for each in text
            )
        return text
    if isinstance(value, dict):
        items = (
            f"{space()}{json.dumps(k)}{space()}:{space()}{written_somehow(v, rnd)}{space()}" for k, v in value.items()
        )
        return f"{{{','.join(items) or space()}}}"
    if isinstance(value, list):
        return f"[{','.join(f'{space()}{written_somehow(each, rnd)}{space()}' for each in value) or space()}]"
    return json.dumps(value)


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.lists(LINES, max_size=5), st.booleans()), max_size=5),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_only_the_lines_that_change_are_written(
    cells: list[tuple[list[str], bool]], rnd: random.Random, bom: bool
) -> None:
    written = [
        [f"{each}\n" for each in lines[:-1]] + lines[-1:] + [""] * rnd.randrange(2) if listed else "\n".join(lines)
        for lines, listed in cells
    ]
    document = notebook(IMPORT, *written)
    document["cells"][0]["outputs"] = [{"text": LEGACY, "ü": 1.50, "list": [[], {}]}]
    text = written_somehow(document, rnd)
    data = b"\xef\xbb\xbf" * bom + text.encode()
    after = fixed(data)
    broken = [as_program("".join(each)).refusal is not None for each in written]
    again = json.loads(after.removeprefix(b"\xef\xbb\xbf"))
    # Where libcst loses a form feed, in a comment before a cell that is taken out, that is said.
    unread = any(
        "can't read this code yet" in each.message for each in check_bytes(data, "n.ipynb", EVERYTHING).findings
    )
    for at, (each, is_broken) in enumerate(zip(written, broken, strict=True)):
        kept = "".join(each) if is_broken or unread else "".join(each).replace(LEGACY, MODERN)
        assert "".join(again["cells"][at + 1]["source"]) == kept
    if not any(broken):
        old, new = json.dumps(LEGACY)[1:-1], json.dumps(MODERN)[1:-1]
        head, kept, rest = text.partition(old)  # the outputs of the first cell stand before all others
        assert after == b"\xef\xbb\xbf" * bom + f"{head}{kept}{rest.replace(old, new)}".encode()
    assert fixed(after) == after


PROGRAMS = [min(folder.glob("*/bad.py")) for folder in sorted(FIXTURES.iterdir()) if any(folder.glob("*/bad.py"))]


@pytest.mark.parametrize("path", some(PROGRAMS, 15), ids=lambda path: path.parts[-3])
def test_a_program_in_cells_is_the_same_program(path: Path) -> None:
    """Cut at statements, it has the same findings and becomes the same as in one piece."""
    text = path.read_text("utf-8")
    lines, rnd = text.split("\n"), random.Random(path.parts[-3])
    firsts = [
        min([each.lineno, *(d.lineno for d in getattr(each, "decorator_list", ()))]) for each in ast.parse(text).body
    ]
    cuts = [0, *(row - 1 for row in firsts[1:] if rnd.random() < 0.6), len(lines)]
    cells = ["\n".join(lines[a:b]) for a, b in pairwise(cuts)]
    data = as_bytes(*(each.splitlines(keepends=True) if rnd.random() < 0.5 else each for each in cells))
    options = Settings(frozenset(all_rules()), isolated=True, unsafe_fixes=True)
    whole, parts = fix_bytes(text.encode(), "x.py", options), fix_bytes(data, "x.ipynb", options)
    assert [each.code for each in parts.before.findings] == [each.code for each in whole.before.findings]
    kept = [after for before, after in zip(cells, sources(parts.data), strict=True) if after or not before]
    assert "\n".join(kept) == whole.data.decode()


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command(project: Write, amplint: Callable[..., Ran]) -> None:
    root = project({"a/n.ipynb": as_bytes(*TRAINING), "a/.ipynb_checkpoints/n-checkpoint.ipynb": as_bytes(*TRAINING)})
    ran = amplint("--output-format", "concise")
    assert ran.code == 1
    assert ran.out.startswith("a/n.ipynb:cell 4:6:5: AMP401 [*] error: gradients")
    assert ran.out.count("AMP401") == 1
    told = json.loads(amplint("--output-format", "json").out)
    assert [(each["cell"], each["location"]["row"], each["noqa_row"]) for each in told] == [(4, 6, 6)]
    assert [edit["cell"] for edit in told[0]["fix"]["edits"]] == [4]
    diff = amplint("--diff")
    assert diff.out.startswith("--- a/a/n.ipynb:cell 4\t\n+++ b/a/n.ipynb:cell 4\t\n@@ ")
    assert [line for line in diff.out.splitlines()[2:] if line[0] in "+-"] == ["+    scaler.unscale_(optimizer)"]
    assert amplint("--fix", "--quiet").code == 0
    assert amplint().code == 0
    nbformat.validate(nbformat.reads((root / "a/n.ipynb").read_text(), as_version=4))


def test_comments_are_added_to_cells(project: Write, amplint: Callable[..., Ran]) -> None:
    root = project({"n.ipynb": as_bytes(*TRAINING, "%time f(torch.cuda.amp.autocast())")})
    assert "+++ b/n.ipynb:cell 4\t" in amplint("--add-noqa", "--diff").out
    assert amplint("--add-noqa").code == 0
    before, after = TRAINING, sources((root / "n.ipynb").read_bytes())
    assert after[:3] == before[:3]
    assert after[3] == before[3].replace("1.0)\n", "1.0)  # noqa: AMP401\n")
    assert after[4] == "%time f(torch.cuda.amp.autocast())  # noqa: AMP101"
    assert amplint().code == 0


def test_steps_are_verified(project: Write, amplint: Callable[..., Ran]) -> None:
    text = (FIXTURES / "AMP401_clip_without_unscale/method/bad.py").read_text("utf-8")
    head, trainer, main = text.split("\n\n\n")
    root = project({"n.ipynb": as_bytes(f"%matplotlib inline\n{head}", trainer, main)})
    told = amplint("verify", "--explain", "n.ipynb").out.splitlines()
    assert told[0] == "n.ipynb:cell 2:14 Trainer.step: confirmed (cpu)"
    assert "  AMP401 line 21 of cell 2: shown by the run, gone after the fix" in told
    assert "    cell 2:22  self.scaler.step(self.optimizer)" in told
    (row,) = json.loads(amplint("verify", "--output-format", "json", "n.ipynb").out)
    (start,) = (first for first, number in row["cells"] if number == 2)
    assert row["line"] == start + 13
    assert amplint("--fix", "--verify").code == 0
    assert sources((root / "n.ipynb").read_bytes())[1] == trainer.replace(
        "            nn.utils", "            self.scaler.unscale_(self.optimizer)\n            nn.utils"
    )


@pytest.mark.parametrize("listed", [True, False])
def test_what_shows_the_file_is_told_the_place_in_it(project: Write, amplint: Callable[..., Ran], listed: bool) -> None:
    training = [each.splitlines(keepends=True) if listed else each for each in TRAINING]
    training[3] = [f"# ü\n{training[3]}"] if not listed else ["# ü\n", *training[3]]
    data = as_bytes(*training)
    project({"n.ipynb": data})
    told = amplint("--output-format", "github").out
    place = dict(each.split("=") for each in told.split("::")[1].split(",")[1:])
    lines = data.decode().split("\n")
    row, column, last, end = (int(place[each]) for each in ("line", "col", "endLine", "endColumn"))
    assert row == last
    assert lines[row - 1][column - 1 : end - 1] == "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    assert "n.ipynb:cell 4:7:5: AMP401" in told
    sarif = json.loads(amplint("--output-format", "sarif").out)["runs"][0]["results"][0]
    assert sarif["locations"][0]["physicalLocation"]["region"]["startLine"] == row
    assert "fixes" not in sarif
    rdjson = json.loads(amplint("--output-format", "rdjson").out)["diagnostics"][0]
    assert rdjson["location"]["range"]["start"] == {"line": row, "column": column}
    assert "suggestions" not in rdjson


def test_standard_input(amplint: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = as_bytes(IMPORT, LEGACY)
    (tmp_path / "n.ipynb").write_bytes(data)
    with (tmp_path / "n.ipynb").open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        ran = amplint("--fix", "--stdin-filename", "n.ipynb", "-")
    assert ran.out.encode() == fixed(data)


def test_comments_hold_in_their_cells() -> None:
    assert found(as_bytes(IMPORT, f"{LEGACY}  # noqa: AMP101", LEGACY)) == ["AMP101 3:1:6"]
    assert found(as_bytes(f"# amplint: ignore-file\n{IMPORT}", LEGACY)) == []
    assert found(as_bytes(IMPORT, "x = 1  # noqa: AMP101")) == ["AMP002 2:1:8"]


def test_a_form_feed_that_libcst_loses_is_said_and_nothing_is_written() -> None:
    """It is in the comment that ends a cell, and the next one, which is taken out, has several lines."""
    data = json.dumps(notebook(IMPORT, f"{LEGACY}\n# \f", "x = (\nx = ''\n# ")).encode()
    assert fixed(data) == data
    said = [each.message for each in check_bytes(data, "n.ipynb", EVERYTHING).findings]
    assert any("can't read this code yet" in each for each in said)
