"""amplint from Python: what is public, what it takes and gives, and that it is the same in any process and thread."""

from __future__ import annotations

import concurrent.futures
import doctest
import gc
import inspect
import multiprocessing
import os
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import amplint
import amplint.api
import amplint.verify.fixtures.run
from amplint import Edit, Finding, Fix, Location, StepRow
from amplint.base.about import installing
from amplint.config.keys import KEYS
from amplint.registry import all_rules
from amplint.registry.rule import Known
from amplint.sources.parsing import with_room
from amplint.verify.steps.judge import Fault, Judged
from amplint.verify.steps.verdict import Found
from tests import ROOT
from tests.conftest import LEGACY, MODERN, UNSAFE, Ran

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

FIXTURES = ROOT / "fixtures"
CORPUS = [
    LEGACY,
    MODERN,
    UNSAFE,
    "",
    "x = 1\n",
    "autocast = (\n",
    *(path.read_text() for path in sorted(FIXTURES.glob("AMP40[1-4]*/*/bad.py"))[:8]),
]
EXOTIC = [f"# coding: latin-1\n{LEGACY}", f"\ufeff{LEGACY}", LEGACY.replace("\n", "\r"), "é("]
PUBLIC = {
    "Applicability",
    "Confidence",
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
}
_KEYS = (
    "select: 'Iterable[str] | None' = None, extend_select: 'Iterable[str] | None' = None, "
    "ignore: 'Iterable[str] | None' = None, fixable: 'Iterable[str] | None' = None, "
    "unfixable: 'Iterable[str] | None' = None, unsafe_fixes: 'bool | None' = None, "
    "target_torch: 'str | None' = None, targets: 'Mapping[str, str] | None' = None, device: 'str | None' = None, "
    "src: 'Iterable[str] | None' = None, docs: 'bool | None' = None, suspicions: 'bool | None' = None, "
    "preview: 'bool | None' = None) -> 'Settings'"
)
SIGNATURES = {
    "check": "(source: 'str | bytes', filename: 'StrPath' = '<string>', settings: 'Settings | None' = None) "
    "-> 'list[Finding]'",
    "fix": "(source: 'str | bytes', filename: 'StrPath' = '<string>', settings: 'Settings | None' = None, *, "
    "unsafe: 'bool | None' = None) -> 'str | bytes'",
    "make_settings": f"(*, {_KEYS}",
    "settings_for": f"(path: 'StrPath', *, {_KEYS}",
    "verify": "(source: 'str | bytes', filename: 'str | os.PathLike[str]' = '<string>', "
    "settings: 'Settings | None' = None, *, unsafe: 'bool | None' = None, device: 'str | None' = None, "
    "timeout: 'float' = 60.0, memory: 'int' = 2048) -> 'list[StepRow]'",
}


@pytest.fixture
def run_amplint(amplint: Run) -> Run:
    return amplint


def attributes_on_the_page(name: str) -> set[str]:
    """The attributes that the table under a heading with a name lists."""
    page = (ROOT / "docs" / "python-api.md").read_text("utf-8")
    section = re.search(rf"^###? [^\n]*`{name}`[^\n]*\n(.+?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)
    assert section
    return {
        each for line in re.findall(r"^\| (`.+?) \|", section[1], re.MULTILINE) for each in re.findall("`(.+?)`", line)
    }


class TestTheSurface:
    def test_names(self) -> None:
        assert set(amplint.__all__) == PUBLIC
        assert set(dir(amplint)) >= PUBLIC
        for name in PUBLIC:
            assert getattr(amplint, name).__doc__, name
        with pytest.raises(AttributeError, match="'chekc'"):
            _ = amplint.chekc  # type: ignore[attr-defined]

    @pytest.mark.parametrize("name", SIGNATURES)
    def test_signatures(self, name: str) -> None:
        assert str(inspect.signature(getattr(amplint, name))) == SIGNATURES[name]

    @pytest.mark.parametrize("name", sorted(PUBLIC))
    def test_each_name_can_be_the_first(self, name: str) -> None:
        code = f"import amplint, sys; assert len([m for m in sys.modules if m[:7] == 'amplint']) == 1; amplint.{name}"
        subprocess.run([sys.executable, "-c", f"{code}; from amplint import {name}"], check=True)

    def test_linting_needs_no_torch(self) -> None:
        code = f"import amplint, sys; amplint.fix({LEGACY!r}); print('torch' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"

    def test_a_program_that_uses_it_is_typed(self, tmp_path: Path) -> None:
        (tmp_path / "user.py").write_text(
            "from pathlib import Path\n"
            "import amplint\n\n"
            "def lint(path: Path) -> list[str]:\n"
            "    settings: amplint.Settings = amplint.settings_for(path, select=['AMP4'], target_torch='2.4')\n"
            "    found: list[amplint.Finding] = amplint.check(path.read_bytes(), path, settings)\n"
            "    fixed: bytes = amplint.fix(path.read_bytes(), path, settings, unsafe=True)\n"
            "    text: str = amplint.fix(fixed.decode(), settings=amplint.make_settings(ignore={'AMP105'}))\n"
            "    rows: list[amplint.StepRow] = amplint.verify(text, device='cpu')\n"
            "    return [f'{each.location.row}: {each.code}' for each in found] + [row.verdict for row in rows]\n\n"
            "reveal_type(amplint.check('')[0].end_location.column)\n"
            "reveal_type(amplint.check('')[0].severity)\n"
            "amplint.check(1)\n"
            "amplint.make_settings(selct=['AMP4'])\n"
        )
        command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, "user.py"]
        environment = {**os.environ, "MYPYPATH": str(ROOT)}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        lines = [line.partition(": ")[2] for line in done.stdout.splitlines() if line.startswith("user.py:")]
        lines = [line for line in lines if "defined in" not in line]
        assert [line.split("  [")[0] for line in lines] == [
            'note: Revealed type is "int"',
            'note: Revealed type is "amplint.base.findings.Severity"',
            'error: Argument 1 to "check" has incompatible type "int"; expected "str | bytes"',
            'error: Unexpected keyword argument "selct" for "make_settings"; did you mean "select"?',
        ], done.stdout

    def test_its_examples(self) -> None:
        assert doctest.testmod(amplint.api).failed == 0

    def test_the_page(self, project: Write) -> None:
        pytest.importorskip("torch")
        page = (ROOT / "docs" / "python-api.md").read_text("utf-8")
        script = page.partition("```python\n")[2].partition("```")[0]
        text = (FIXTURES / "AMP401_clip_without_unscale" / "method" / "bad.py").read_text()
        root = project({"use.py": script, "train.py": text, "corpus/a.py": LEGACY, "corpus/b/c.py": MODERN})
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "use.py"]
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        assert done.stdout.splitlines() == [
            "26:13 AMP401 gradients are clipped while still multiplied by the loss scale of the backward pass on "
            "line 24; call `self.scaler.unscale_(self.optimizer)` before the clip",
            "Trainer.step confirmed",
            "corpus/a.py 1",
            "corpus/b/c.py 0",
        ]
        assert "unscale_" in (root / "train.py").read_text()

    def test_the_page_has_the_parameters(self) -> None:
        page = (ROOT / "docs" / "python-api.md").read_text("utf-8")
        listed = dict(re.findall(r"^\| `(\w+)\((.+?)\)` \|", page, re.MULTILINE))
        assert listed.keys() == SIGNATURES.keys()
        keys = inspect.signature(amplint.make_settings).parameters
        for name, said in listed.items():
            parameters = inspect.signature(getattr(amplint, name)).parameters
            takes_keys = keys.keys() <= parameters.keys()
            named = [each for each in parameters.values() if not (takes_keys and each.name in keys)]
            bare = inspect.Signature([each.replace(annotation=inspect.Parameter.empty) for each in named])
            assert said.replace('"', "'") == ", ".join(filter(None, (str(bare)[1:-1], "**keys" * takes_keys)))

    @pytest.mark.parametrize(
        ("name", "made"),
        [
            ("Finding", Finding),
            ("Fix", Fix),
            ("Edit", Edit),
            ("Location", Location),
            ("StepRow", StepRow),
            ("Found", Found),
            ("Fault", Fault),
        ],
    )
    def test_the_page_has_the_attributes_of_results(self, name: str, made: Any) -> None:
        assert attributes_on_the_page(name) == set(getattr(made, "_fields", None) or made.__dataclass_fields__)

    def test_the_page_has_no_attribute_of_halves_that_there_is_not(self) -> None:
        halves = attributes_on_the_page("before")
        assert halves
        assert halves <= set(Judged.__dataclass_fields__)

    def test_the_example_of_verify(self) -> None:
        pytest.importorskip("torch")
        result = doctest.testmod(amplint.verify)  # type: ignore[arg-type] # a package that can be called
        assert (result.failed, result.attempted > 2) == (0, True)


class TestCheck:
    def test_places(self) -> None:
        (finding,) = amplint.check(LEGACY.replace("\n", "\r\n").replace("run", "läuft"), "x.py")
        assert finding.location == (5, 10, None)
        assert finding.end_location == (5, 33, None)

    def test_places_in_the_blocks_of_a_document(self) -> None:
        text = f"# Ünï\n\n```python\n{LEGACY}```\n"
        settings = amplint.make_settings(docs=True)
        for source in (text, text.encode()):
            (finding,) = amplint.check(source, "x.md", settings)
            assert (finding.code, finding.location) == ("AMP101", (8, 10, None))
        assert amplint.fix(text, "x.md", settings) == text.replace(LEGACY, MODERN)
        for each in ("\ud800", "\0", "```python\nautocast (\n```"):
            assert {found.code for found in amplint.check(each, "x.md", settings)} <= {"AMP001"}

    def test_places_in_a_notebook(self) -> None:
        text = '{"cells": [{"cell_type": "markdown", "source": ["# A"]}, {"cell_type": "code", "source": %s}]}'
        source = '["import torch\\n", "torch.cuda.amp.autocast(True)"]'
        notebook = text % source
        (finding, _) = amplint.check(notebook, "x.ipynb")
        assert (finding.code, finding.location) == ("AMP101", amplint.Location(2, 1, cell=2))
        assert amplint.check(notebook.encode(), Path("x.ipynb")) == amplint.check(notebook, "x.ipynb")
        fixed = amplint.fix(notebook, "x.ipynb")
        assert fixed == text % source.replace(
            "torch.cuda.amp.autocast(True)", 'torch.amp.autocast(\\"cuda\\", enabled=True)'
        )

    @pytest.mark.parametrize(
        "text",
        [*CORPUS, f"# coding: latin-1\n{LEGACY}", f"\ufeff{LEGACY}", LEGACY.replace("\n", "\r"), "é("],
    )
    def test_text_and_bytes_come_to_the_same(self, text: str) -> None:
        data = text.encode("latin-1" if "latin-1" in text else "utf-8")
        assert amplint.check(text) == amplint.check(data)
        assert amplint.fix(text).encode() == amplint.fix(data)
        assert amplint.check(text, "x.py") == amplint.check(text, Path("x.py"))

    @pytest.mark.parametrize("text", CORPUS)
    def test_the_command_says_the_same(self, project: Write, run_amplint: Run, text: str) -> None:
        project({"x.py": text})
        shown = run_amplint("x.py", "--isolated", "--output-format=concise", "-q").out
        shown = re.sub(r"\[\*\] | \(likely\)", "", shown).splitlines()
        found = amplint.check(text, "x.py")
        assert shown == [
            f"x.py:{each.location.row}:{each.location.column}: {each.code} {each.severity.value}: {each.message}"
            for each in found
        ]

    @pytest.mark.parametrize(
        ("text", "codes"),
        [
            (f"{LEGACY}x = '\ud800'\n", ["AMP001"]),
            ("\udcff", ["AMP001"]),
            (f"{LEGACY}\0", ["AMP001"]),
            ("\0", ["AMP001"]),
            ("\ufeff" * 2, []),
            ("\ufeff" * 2 + LEGACY, ["AMP001"]),
            (LEGACY.replace("\n", "\r"), ["AMP101"]),
            (f"{LEGACY}\x0c\x1c\u2028", ["AMP001"]),
            ("autocast " + "(" * 5000, ["AMP001"]),
            (f"{LEGACY}x = {'-' * 5000}1\n", ["AMP001"]),
            (f"# coding: no-such\n{LEGACY}", ["AMP101"]),
            (f"# coding: utf-16\n{LEGACY}", ["AMP101"]),
            ("\ud83d\ude00 autocast", ["AMP001"]),
        ],
    )
    def test_no_text_makes_it_raise(self, text: str, codes: list[str]) -> None:
        assert [each.code for each in amplint.check(text)] == codes
        assert amplint.fix(text, unsafe=True) == (text if codes != ["AMP101"] else amplint.fix(text))

    @pytest.mark.parametrize(
        "data", [b"\xff\xfe\0", b"\xef\xbb\xbf# coding: latin-1\n", b"# coding: x\nautocast", b"{", b"\x80"]
    )
    def test_nor_do_any_bytes(self, data: bytes) -> None:
        for name in ("x.py", "x.ipynb"):
            assert {each.code for each in amplint.check(data, name)} <= {"AMP001"}
            assert amplint.fix(data, name) == data

    @pytest.mark.parametrize("text", ["{", "\ud800", "[]", '{"cells": 1}', "autocast", '{"cells": ["autocast\ud800"]}'])
    def test_nor_does_what_is_no_notebook(self, text: str) -> None:
        assert {each.code for each in amplint.check(text, "x.ipynb")} <= {"AMP001"}
        assert amplint.fix(text, "x.ipynb") == text

    def test_a_plugin_that_is_broken_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(amplint.api, "known", lambda: Known(all_rules(), errors=("plugin x 1.0: no",)))
        for text in (LEGACY, "x = 1\n"):
            first = amplint.check(text)[0]
            assert (first.code, first.message) == ("AMP000", "plugin x 1.0: no")

    def test_what_lies_beside_it_is_looked_at_each_time(self, project: Write) -> None:
        text = "import torch\n\nscaler = torch.cuda.amp.GradScaler()\n"
        root = project({"requirements.txt": "torch>=2.4\n"})
        settings = amplint.settings_for(root / "x.py")
        assert amplint.check(text, root / "x.py", settings)[0].fix is not None
        (root / "requirements.txt").write_text("torch<2.3\n")
        assert [each.fix for each in amplint.check(text, root / "x.py", settings)] in ([], [None])


CONFIGURED = """\
[tool.amplint]
select = ['AMP4', 'AMP1']
ignore = ['AMP105']
target-torch = '2.3'
unfixable = ['AMP102']
unsafe-fixes = true
device = 'cuda'
targets = {lightning = '2.1'}
src = ['lib']
"""


class TestSettings:
    def test_keywords_are_those_of_the_configuration_file(self, project: Write) -> None:
        root = project({"pyproject.toml": CONFIGURED})
        read = amplint.settings_for(root / "a" / "x.py")
        made = amplint.make_settings(
            select=("AMP4", "AMP1"),
            ignore={"AMP105"},
            target_torch="2.3",
            unfixable=iter(["AMP102"]),
            unsafe_fixes=True,
            device="cuda",
            targets={"lightning": "2.1"},
            src=["lib"],
        )
        assert made == read._replace(isolated=True, target_origin="--target-torch")
        assert "AMP301" in amplint.settings_for("x.py", extend_select=["AMP301"]).codes
        assert amplint.make_settings() == amplint.make_settings(select=None)
        assert amplint.check(LEGACY, settings=amplint.make_settings()) == amplint.check(LEGACY)

    def test_no_key_is_missing_that_is_about_one_text(self) -> None:
        about_files = {
            "exclude",
            "extend-exclude",
            "force-exclude",
            "per-file-ignores",
            "extend",
            "required-version",
            "cache-dir",
        }
        about_runs = {"output-format", "fix", "show-fixes", "exit-on", "baseline"}
        keywords = {each.replace("_", "-") for each in inspect.signature(amplint.make_settings).parameters}
        assert keywords == KEYS.keys() - about_files - about_runs

    @pytest.mark.parametrize(
        ("keywords", "said"),
        [
            ({"select": "AMP4"}, "'select' must be a list of strings"),
            ({"ignore": [4]}, "'ignore' must be a list of strings"),
            ({"extend_select": ["AMP999"]}, "'extend-select': unknown rule 'AMP999'; the families are AMP0"),
            (
                {"target_torch": "new"},
                "'target-torch': 'new' is neither a release",
            ),
            ({"unsafe_fixes": 1}, "'unsafe-fixes' must be true or false"),
            ({"device": "gpu"}, "'device' must be one of 'cpu', 'cuda', "),
        ],
    )
    def test_what_means_nothing(self, keywords: dict[str, object], said: str) -> None:
        for make in (amplint.make_settings, partial(amplint.settings_for, "x.py")):
            with pytest.raises(amplint.SettingsError) as caught:
                make(**keywords)  # type: ignore[operator]
            assert str(caught.value).startswith(said)
            assert "\n" not in str(caught.value)

    def test_a_broken_file(self, project: Write) -> None:
        root = project({"amplint.toml": "selct = []\n"})
        with pytest.raises(amplint.SettingsError, match=r"amplint.toml:1: unknown key 'selct'; did"):
            amplint.settings_for(root / "x.py")

    def test_a_rule_that_is_not_installed_where_they_are_used(self) -> None:
        settings = amplint.make_settings()._replace(codes=frozenset({"HSE101"}))
        with pytest.raises(amplint.SettingsError, match="unknown rule 'HSE101': the plugin with this rule"):
            amplint.check(LEGACY, settings=settings)


class TestVerify:
    def test_without_torch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(amplint.verify.fixtures.run.importlib.util, "find_spec", lambda _: None)
        with pytest.raises(
            amplint.CannotRun, match=f"^verify needs torch, which is not installed: {re.escape(installing('verify'))}$"
        ):
            amplint.verify(UNSAFE)

    def test_rows(self) -> None:
        pytest.importorskip("torch")
        text = (FIXTURES / "AMP401_clip_without_unscale" / "method" / "bad.py").read_text()
        (row,) = amplint.verify(text, "x.py")
        assert (row.name, row.row, row.verdict, row.device) == ("Trainer.step", 19, "confirmed", "cpu")
        assert [(each.code, each.fixed, each.shown) for each in row.findings] == [("AMP401", True, True)]
        assert pickle.loads(pickle.dumps(row)) == row

    @pytest.mark.parametrize("text", ["", "x = 1", "# autocast\nx = 1"])
    def test_what_has_no_amp(self, text: str) -> None:
        pytest.importorskip("torch")
        assert amplint.verify(text) == []

    @pytest.mark.parametrize("text", ["autocast (", "autocast\0", "autocast = '\ud800'", "# coding: x\nautocast()\n"])
    def test_what_can_t_be_parsed(self, text: str) -> None:
        pytest.importorskip("torch")
        (row,) = amplint.verify(text)
        assert (row.name, row.verdict) == ("<module>", "not checkable")
        assert row.reason.startswith("the file can't be parsed: ")

    def test_it_is_called_whatever_was_imported(self) -> None:
        code = (
            "import amplint; first = amplint.verify; import amplint.verify.fixtures.run; print(first is amplint.verify)"
        )
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"True\n"
        assert pickle.loads(pickle.dumps(amplint.verify)) is amplint.verify


def results(texts: list[str]) -> list[tuple[list[amplint.Finding], str]]:
    return [(amplint.check(text, f"{at}.py"), amplint.fix(text)) for at, text in enumerate(texts)]


class TestEverywhere:
    """The same in each process and thread, in any order."""

    def test_pickles(self) -> None:
        settings = amplint.make_settings(select=["AMP4"], targets={"lightning": "2.1"})
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            for each in (settings, amplint.check(UNSAFE), amplint.check, amplint.fix, amplint.SettingsError("no")):
                again = pickle.loads(pickle.dumps(each, protocol))
                assert again == each or str(again) == str(each)
                assert type(again) is type(each)
        job = pickle.loads(pickle.dumps(partial(amplint.check, settings=settings)))
        assert job(UNSAFE) == amplint.check(UNSAFE, settings=settings)

    @pytest.mark.parametrize("start", ["spawn", "forkserver", "fork"])
    def test_processes(self, start: str) -> None:
        if start not in multiprocessing.get_all_start_methods():
            pytest.skip("not here")
        context = multiprocessing.get_context(start)
        with context.Pool(2) as pool:
            assert pool.map(amplint.check, CORPUS) == list(map(amplint.check, CORPUS))

    def test_a_pool_of_processes(self) -> None:
        settings = amplint.make_settings(select=["ALL"])
        check = partial(amplint.check, settings=settings)
        with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
            assert list(pool.map(check, CORPUS)) == list(map(check, CORPUS))
            assert list(pool.map(amplint.fix, CORPUS)) == list(map(amplint.fix, CORPUS))

    def test_a_pool_of_threads(self) -> None:
        serial = results(CORPUS)
        before = sys.getrecursionlimit(), gc.isenabled(), threading.stack_size()
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            assert list(pool.map(results, [CORPUS] * 3)) == [serial] * 3
        assert (sys.getrecursionlimit(), gc.isenabled(), threading.stack_size()) == before

    def test_the_order_of_calls_does_not_matter(self) -> None:
        forward = {text: amplint.check(text) for text in CORPUS}
        assert {text: amplint.check(text) for text in reversed(CORPUS)} == forward

    def test_a_rule_may_check_a_text_itself(self) -> None:
        assert with_room(lambda: amplint.check(LEGACY)) == amplint.check(LEGACY)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_a_process_that_is_forked_while_a_thread_checks(self) -> None:
        inside, leave = threading.Event(), threading.Event()
        limit = sys.getrecursionlimit()
        thread = threading.Thread(target=lambda: with_room(lambda: inside.set() or leave.wait(60)))
        thread.start()
        assert inside.wait(60)
        child = os.fork()
        if child == 0:
            os._exit(0 if (sys.getrecursionlimit(), gc.isenabled()) == (limit, True) and amplint.check(LEGACY) else 1)
        status = os.waitpid(child, 0)[1]
        leave.set()
        thread.join()
        assert os.waitstatus_to_exitcode(status) == 0
        assert (sys.getrecursionlimit(), gc.isenabled()) == (limit, True)
