"""`--docs`: code in documents and docstrings, found and fixed in place."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amplint.config.selection import enabled_codes
from amplint.config.settings import Settings
from amplint.engine.file import check_bytes, fix_bytes
from amplint.registry import all_rules
from tests import some
from tests.conftest import Ran, processor_time

Write = Callable[[dict[str, str | bytes]], Path]

DOCS = Settings(enabled_codes([]), isolated=True, docs=True)
OLD, NEW = "torch.cuda.amp.autocast()", 'torch.amp.autocast("cuda")'
STEP = """\
for x, y in batches:
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = model(x)
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""
TRAINING = f'scaler = torch.amp.GradScaler("cuda")\n{STEP}'
FIXED = TRAINING.replace("    torch.nn.utils", "    scaler.unscale_(optimizer)\n    torch.nn.utils")


def found(text: str, name: str = "n.md", options: Settings = DOCS) -> list[str]:
    result = check_bytes(text.encode(), name, options)
    places = ((each.code, result.source.location(each.start)) for each in result.findings if result.source)
    return [f"{code} {row}:{column}" for code, (row, column) in places]


def fixed(text: str, name: str = "n.md") -> str:
    return fix_bytes(text.encode(), name, DOCS).data.decode()


# Documents with %s where code stands, and what the code's lines are led by.
MARKDOWN = {
    "plain": "# x\n\n```python\n%s```\n",
    "short name": "```py\n%s```\n",
    "attributes": "``` {.python .numberLines}\n%s```\n",
    "title": '```python title="a.py" hl_lines="1"\n%s```\n',
    "capital": "```Python\n%s```\n",
    "tildes": "~~~~python\n%s~~~~~\n",
    "longer fence": "````py\n%s````\n",
    "never closed": "```python\n%s",
    "list": "1. do\n\n   ```python\n%s   ```\n",
    "list item": "- ```python\n%s  ```\n",
    "deep": "\t```python\n%s\t```\n",
    "quote": "> ```python\n%s> ```\n",
    "MyST": "```{code-block} python\n:linenos:\n%s```\n",
    "cell": "```{code-cell}\n%s```\n",
}
LEADS = {"list": "   ", "list item": "  ", "deep": "\t", "quote": "> "}
REST = {
    "directive": ".. code-block:: python\n\n%s\nText.\n",
    "options": ".. code-block:: python\n   :linenos:\n   :caption: x\n\n%s",
    "no language": ".. code::\n\n%s\n",
    "literal": "As in::\n\n%s\nText.\n",
    "testcode": ".. testcode::\n\n%s",
}
DOCUMENTS = [
    *((f"n{suffix}", text, LEADS.get(name, "")) for name, text in MARKDOWN.items() for suffix in (".md", ".mdx")),
    *(("n.rst", text, "   ") for text in REST.values()),
    *(
        ("n.py", f'def f():\n    """Text.\n\n{textwrap.indent(text, "    ")}    """\n', " " * 7)
        for text in REST.values()
    ),
    *(
        ("n.py", f"class C:\n    r'''Text.\n\n{textwrap.indent(MARKDOWN[name], '    ')}    '''\n", "    ")
        for name in ("plain", "tildes")
    ),
]


@pytest.mark.parametrize(
    ("name", "document", "lead", "newline"),
    # Each with one kind of line end; with AMPLINT_TEST_ALL=1 with both.
    [one for each in DOCUMENTS for one in some([(*each, "\n"), (*each, "\r\n")], 1)],
)
def test_blocks_are_linted_and_fixed_in_place(name: str, document: str, lead: str, newline: str) -> None:
    if name == "n.py":
        document = document.replace("    %s", "%s")
    before, after = (document % textwrap.indent(code, lead) for code in (TRAINING, FIXED))
    row = before[: before.index("torch.nn")].count("\n") + 1
    before, after = before.replace("\n", newline), after.replace("\n", newline)
    assert found(before, name) == [f"AMP401 {row}:{len(lead) + 5}"]
    assert fixed(before, name) == after
    assert found(after, name) == []


@pytest.mark.parametrize(
    "text",
    [
        f"```bash\nwith {OLD}: pass\n```",
        f"```\nwith {OLD}: pass\n```",
        f"    with {OLD}: pass\n",
        f"`with {OLD}: pass`",
        f"```text\n```python\nwith {OLD}: pass\n```\n",
        f"```python\nwith {OLD} pass\n```",
        f"```python\nif x:\n  with {OLD}: pass\n y\n```",
        f"<!-- amplint: ignore-file -->\n```python\nwith {OLD}: pass\n```",
        f"```python\nwith {OLD}: pass  # noqa: AMP101\n```",
        f"```python\n# amplint: ignore-file\nwith {OLD}: pass\n```",
    ],
)
def test_what_is_silent_in_markdown(text: str) -> None:
    assert found(text) == []
    assert fixed(text) == text


@pytest.mark.parametrize(
    "text",
    [
        f".. code-block:: bash\n\n   with {OLD}: pass\n",
        f".. note::\n\n   with {OLD}: pass\n",
        f".. amplint: ignore-file\n\nX::\n\n   with {OLD}: pass\n",
        f"X::\n\nwith {OLD}: pass\n",
        f"\nwith {OLD}: pass\n",
    ],
)
def test_what_is_silent_in_rest(text: str) -> None:
    assert found(text, "n.rst") == []


def test_doctests() -> None:
    prompted = "".join(f"{'...' if line[0] == ' ' else '>>>'} {line}\n" for line in TRAINING.splitlines())
    wanted = prompted.replace("...     torch.nn.utils", "...     scaler.unscale_(optimizer)\n...     torch.nn.utils")
    for name, document in (
        ("n.md", "```pycon\n%sout\n>>> x\n```\n"),
        ("n.rst", "Text.\n\n%sout\n\n>>> x\n1\n"),
        ("n.py", '"""Do.\n\n%sout\n"""\n'),
    ):
        assert [each.split()[0] for each in found(document % prompted, name)] == ["AMP401"]
        assert fixed(document % prompted, name) == document % wanted


def test_doctests_that_would_lose_their_form_are_left() -> None:
    """The line behind the loop's last one would begin a statement."""
    made = ">>> scaler = torch.amp.GradScaler('cuda')"
    loop = ">>> for loss in losses:\n...     optimizer.zero_grad()\n...     scaler.scale(loss).backward()\n"
    loop += "...     scaler.step(optimizer)"
    text = f"```pycon\n{made}\n{loop}\nout\n>>> x = 1\n```\n"
    result = fix_bytes(text.encode(), "n.md", DOCS)
    assert [each.code for each in result.before.findings] == ["AMP404"]
    assert result.data.decode() == text
    assert result.before.findings[0].withheld == "the layout of the block in its document prevents the fix"


def test_snippets_mean_by_torch_what_all_do() -> None:
    assert found(f"```py\nwith {OLD}: pass\n```") == ["AMP101 2:6"]
    assert found(f"```py\ntorch = 1\nwith {OLD}: pass\n```") == []


def test_imports_of_blocks_above_hold() -> None:
    text = "```py\nfrom torch.cuda.amp import autocast as cast\n```\n\n```py\nwith cast(): pass\n```\n"
    first, second = check_bytes(text.encode(), "n.md", DOCS).findings
    assert (first.code, second.code) == ("AMP101", "AMP101")
    assert second.withheld == "the import that would have to change is in another block"
    assert fixed(text) == text


@pytest.mark.parametrize(
    ("above", "below", "left"),
    [
        ("from torch.cuda.amp import autocast", "with autocast(): pass", True),
        ("from torch.cuda.amp import autocast", "with autocast(): pass\nautocast = 1", True),
        ("from torch.cuda.amp import autocast", "%%time\nwith autocast(): pass", True),
        ("from torch.cuda.amp import autocast", "from torch import autocast\nwith autocast('cuda'): pass", False),
        ("from torch.cuda.amp import autocast", "y = model(x)", False),
        ("import torch\nfrom torch.cuda.amp import autocast", "y = torch.ones(3)", False),
    ],
)
def test_no_fix_changes_what_a_name_means_to_a_block_below(above: str, below: str, left: bool) -> None:
    text = f"```py\n{above}\nwith autocast(): pass\n```\n\n```py\n{below}\n```\n"
    first = check_bytes(text.encode(), "n.md", DOCS).findings[0]
    assert first.code == "AMP101"
    assert (first.withheld == "another block uses a name whose meaning would change") is left
    assert (fixed(text) == text) is left


def test_what_a_call_makes_may_be_made_otherwise() -> None:
    text = "```py\nscaler = torch.cuda.amp.GradScaler()\n```\n\n```py\nscaler.update()\n```\n"
    assert fixed(text) == text.replace("torch.cuda.amp.GradScaler()", 'torch.amp.GradScaler("cuda")')


DOCSTRING = f'def f():\n    """Do.\n\n    >>> with {OLD}: pass\n    """'


@pytest.mark.parametrize(
    "text",
    [
        f"{DOCSTRING}  # noqa: AMP101\n",
        f"{DOCSTRING}  # amplint: ignore[AMP101]\n",
        f"# amplint: off[AMP101]\n{DOCSTRING}\n# amplint: on\n",
        f"# amplint: off\n{DOCSTRING}\n# amplint: on\n",
    ],
)
def test_comments_of_the_program_hold_for_its_docstrings(text: str) -> None:
    assert found(text, "n.py") == []
    assert fixed(text, "n.py") == text
    assert found(text.replace("cuda.amp.autocast()", "ones()"), "n.py")[0].startswith("AMP002")


def test_the_time_grows_with_the_blocks_and_not_their_square(monkeypatch: pytest.MonkeyPatch) -> None:
    from amplint.sources import doc_blocks

    read: list[str] = []
    parse = doc_blocks.python_tree
    monkeypatch.setattr(doc_blocks, "python_tree", lambda source: read.append(source.text) or parse(source))
    monkeypatch.setattr(doc_blocks, "parse", lambda source: read.append(source.text) or parse(source))

    def reads(count: int) -> int:
        read.clear()
        assert len(found(f"```py\nwith {OLD}: pass\n```\n" * count)) == count
        return len(read)

    assert reads(20) == 2 * reads(10)


@pytest.mark.parametrize(
    "line", [" " * 50_000, f"{' ' * 50_000}```", "#" * 50_000, f".. x::{' ' * 50_000}!", "> " * 9999]
)
@pytest.mark.parametrize("name", ["n.md", "n.rst"])
def test_long_lines_take_no_time(line: str, name: str) -> None:
    """What tries each of so many characters as a beginning, or an end, never ends."""
    code = f"```py\n{LEGACY}\n```\n" if name == "n.md" else f">>> {LEGACY}\n"
    text = f"{code}\n```py\n{line.strip()}\n```\n\nX::\n\n  {line}\n  x = 1\n\n{line}\n"
    with processor_time(at_most=20):
        assert len(found(text, name)) == 1


def test_what_follows_a_literal_block_that_the_first_line_opens() -> None:
    text = f'def f():\n    """Use it::\n\n        s = {OLD}\n\n    and so on.\n    """\n'
    assert found(text, "n.py") == ["AMP101 4:13"]
    assert fixed(text, "n.py") == text.replace(OLD, NEW)


def test_doctests_stay_examples_of_one_statement() -> None:
    """The line behind the region's last one would begin a statement where doctest reads on."""
    text = '>>> with torch.autocast("cuda"):\n...     loss = model(x)\n...     loss.backward()\n'
    result = fix_bytes(text.encode(), "n.rst", DOCS)
    assert [each.code for each in result.before.findings] == ["AMP301"]
    assert result.data.decode() == text
    assert result.before.findings[0].withheld == "the layout of the block in its document prevents the fix"


def test_a_name_that_a_snippet_does_not_bind_is_no_mistake() -> None:
    text = "```py\nscaler = GradScaler()\n```"
    assert found(text) == []
    assert found("import torch\nscaler = GradScaler()\n", "n.py") == ["AMP107 2:10"]


def test_what_is_missing_is_said_only_of_whole_programs() -> None:
    step = "for loss in losses:\n    scaler.scale(loss).backward()\n    scaler.step(optimizer)\n"
    made = "scaler = torch.amp.GradScaler('cuda')\n"
    assert found(f"```py\n{made}{step}```") == ["AMP404 5:5"]
    assert found(f"```py\n{made}{step}    ...\n```") == []
    assert found(f"```py\n{made}# ... the model\n{step}```") == []
    assert found(f"```py\n{step}```") == []


def test_escapes_in_docstrings_hide_code() -> None:
    body = f"Example::\n\n        with {OLD}:\n            print('\\n')\n    "
    assert found(f'def f():\n    """{body}"""\n', "n.py") == []
    assert found(f'def f():\n    r"""{body}"""\n', "n.py") == ["AMP101 4:14"]


def test_a_program_and_its_docstrings() -> None:
    text = f'"""x\n\n>>> with {OLD}: pass\n"""\nimport torch\n\nwith {OLD}: pass\n'
    assert found(text, "n.py") == ["AMP101 3:10", "AMP101 7:6"]
    assert fixed(text, "n.py") == text.replace(OLD, NEW)
    assert found(f"# amplint: ignore-file\n{text}", "n.py") == []
    assert found(text, "n.py", DOCS._replace(docs=False)) == ["AMP101 7:6"]


LEGACY = f"with {OLD}: pass"
LINES = st.sampled_from([
    "# x", "", "> q", "- i", "```", "~~~", "```py", "    ```python", "> ```py", "::", ".. code::", "   ", '"', "text",
    ">>> x = 1", "... y", "\tx", LEGACY, f"   {LEGACY}", f">>> {LEGACY}", f"> {LEGACY}",
])  # fmt: skip


@settings(max_examples=50)
@given(st.lists(LINES, max_size=12), st.sampled_from(["n.md", "n.rst", "n.py"]), st.sampled_from(["\n", "\r\n", "\r"]))
def test_any_document(lines: list[str], name: str, newline: str) -> None:
    """Only code that is found changes, and once."""
    text = newline.join(lines)
    if name == "n.py":
        text = f"'''{text}'''{newline}"
    after = fixed(text, name)
    assert after.replace(NEW, OLD) == text
    assert after.count(NEW) == len(found(text, name))
    assert found(after, name) == []


def test_the_command(project: Write, amplint: Callable[..., Ran]) -> None:
    block = f"```py\nwith {OLD}: pass\n```\n"
    docstring = f'def f():\n    """\n    >>> with {OLD}: pass\n    """\n'
    latin = b"\xe9 autocast\n"
    root = project({"README.md": block, "docs/a.rst": f"X::\n\n  with {OLD}: pass\n", "b.py": docstring, "c.md": latin})
    assert amplint().code == 0
    concise = "--output-format=concise"
    ran = amplint("--docs", concise)
    assert [line.split(": ")[0] for line in ran.out.splitlines()[:3]] == [
        "README.md:2:6",
        "b.py:3:14",
        "docs/a.rst:3:8",
    ]
    assert (ran.code, ran.err) == (1, "")
    assert amplint("--docs", "--diff").out.startswith("--- a/README.md\n+++ b/README.md\n@@ ")
    (root / "amplint.toml").write_text("docs = true\n")
    assert amplint("--no-docs").code == 0
    assert amplint(concise).out == ran.out
    assert amplint("--fix").code == 0
    assert (root / "README.md").read_text() == block.replace(OLD, NEW)
    assert (root / "c.md").read_bytes() == latin
    assert amplint("--docs", "--fix", "--verify").code == 2


def test_verify_is_not_named_for_documents(project: Write, amplint: Callable[..., Ran]) -> None:
    project({"a.md": f"```py\n{TRAINING}```\n", "b.py": f"import torch\n\n{TRAINING}"})
    assert amplint("--docs", "a.md").out.endswith("\n[*] 1 fixable with `--fix`.\n")
    assert amplint("--docs", "b.py").out.endswith("; `amplint verify FILE` checks the finding on real tensors.\n")


def test_of_a_snippet_rules_about_what_is_missing_are_told_apart() -> None:
    absent = {code for code, rule in all_rules().items() if rule.about_absence}
    assert {"AMP404", "AMP413"} <= absent
    assert "AMP401" not in absent
