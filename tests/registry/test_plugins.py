"""Rules of one's own, as a distribution adds them: tests/example_plugin, and what can be wrong with one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.config.file import parse_toml
from amplint.registry import plugins
from amplint.registry.rule import Header, Rule
from tests import ROOT, some
from tests.conftest import LEGACY, Ran

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

EXAMPLE = ROOT / "tests" / "example_plugin"
PINNED = """\
import torch

scaler = torch.amp.GradScaler("cuda")


def train(model, optimizer, batches):
    for x, y in batches:
        with torch.autocast("cuda"):
            loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update(1024.0)
"""
FOUND = "HSE101 warning: `scaler.update(1024.0)` pins the scale, which never adapts to an overflow"
HOUSE = "plugin house 1.0"
HEADER = 'rule = Rule(__name__, __doc__, severity=Severity.ERROR, triggers=("pinned",){more})\n'
MODULE = (
    '"""Says that it was here."""\n'
    "from amplint.base.findings import Severity\n"
    "from amplint.registry.rule import Rule\n\n"
    f"{HEADER}\n"
    "@rule.check\n"
    "def check(module):\n"
    "    {body}\n"
)
FINDS = "return [rule.finding((0, 5), 'it is pinned')]"


def install(site: Path, name: str, points: str, modules: dict[str, str], version: str = "1.0") -> None:
    """What an installer leaves behind."""
    for path, text in modules.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (folder / "entry_points.txt").write_text(points)


def module(body: str = FINDS, more: str = "") -> str:
    return MODULE.format(body=body, more=more)


def run(site: Path, *arguments: str, cwd: Path, before: tuple[str, ...] = ("-m", "amplint")) -> Ran:
    """The command in an environment in which what lies in `site` is installed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(site), str(ROOT)))}
    command = [sys.executable, *before, *arguments]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, installed."""
    site = tmp_path_factory.mktemp("example") / "site-packages"
    project = parse_toml((EXAMPLE / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["amplint.rules"]
    shutil.copytree(EXAMPLE / "house_rules", site / "house_rules")
    lines = [f"{key} = {value}" for key, value in points.items()]
    install(site, "house_rules", "\n".join(["[amplint.rules]", *lines, ""]), {}, project["version"])
    return site


@pytest.fixture
def site(tmp_path: Path) -> Path:
    found = tmp_path / "env" / "site-packages"
    found.mkdir(parents=True)
    return found


CONCISE = ("--output-format=concise", "-q")


class TestTheExample:
    def test_its_own_tests(self, example: Path, tmp_path: Path) -> None:
        pytest.importorskip("torch")
        shutil.copytree(EXAMPLE, tmp_path / "example", ignore=shutil.ignore_patterns("house_rules"))
        ran = run(example, "-q", "-p", "no:cacheprovider", cwd=tmp_path / "example", before=("-m", "pytest"))
        assert ran.code == 0, ran.out
        assert re.search(r"\b23 passed", ran.out), ran.out

    def test_a_fixture_that_lies_is_told(self, example: Path, tmp_path: Path) -> None:
        pytest.importorskip("torch")
        root = tmp_path / "example"
        shutil.copytree(EXAMPLE, root, ignore=shutil.ignore_patterns("house_rules"))
        rule = root / "fixtures" / "HSE101_pinned_scale"
        for path, old, new in (
            ("constant/bad.py", "update(1024.0)  # expect: HSE101", "update(1024.0)"),
            ("power_of_two/fixed.py", "scaler.update()", "scaler.update(1.0)"),
            ("silent/starts_over.py", "    else:\n        scaler.update()", ""),
            ("keyword_in_a_class/bad.py", "shows=skips", "shows=warning"),
            ("keyword_in_a_class/fixed.py", "import torch\n", "# amplint-fixture: fix=hand\nimport torch\n"),
        ):
            text = (rule / path).read_text()
            assert old in text
            (rule / path).write_text(text.replace(old, new))
        changed = "constant or power_of_two or starts_over or keyword_in_a_class"
        arguments = ("-q", "-p", "no:cacheprovider", "--tb=line", "-k", changed)
        ran = run(example, *arguments, cwd=root, before=("-m", "pytest"))
        for line in (
            "reported, but not expected: bad.py:17 HSE101",
            "-    scaler.update(1.0)",
            "reported, but not expected: starts_over.py:16 HSE101",
            "refuted: the bad half does not misbehave",
            "shows=skips is right instead (before: ",
            "fixed.py: remove the line `# amplint-fixture: ...` and the comments `# expect: ...`",
        ):
            assert line in ran.out, ran.out
        assert "shows=scale is right" not in ran.out

    def test_where_no_run_shows_a_misuse_it_is_said(self, example: Path, tmp_path: Path) -> None:
        pytest.importorskip("torch")
        root = tmp_path / "example"
        shutil.copytree(EXAMPLE, root, ignore=shutil.ignore_patterns("house_rules"))
        variant = root / "fixtures" / "HSE101_pinned_scale" / "constant"
        (variant / "fixed.py").write_text((variant / "bad.py").read_text().replace("shows=skips", "shows=none"))
        arguments = ("-q", "-p", "no:cacheprovider", "--tb=line", "-k", "constant and HSE101 and misbehaves")
        ran = run(example, *arguments, cwd=root, before=("-m", "pytest"))
        assert "shows=skips: refuted: the fixed half misbehaves" in ran.out
        assert "No other `shows=` is right either" in ran.out

    def test_the_command(self, example: Path, project: Write) -> None:
        root = project({"a.py": PINNED, "old.py": LEGACY})
        ran = run(example, *CONCISE, cwd=root)
        assert (ran.code, ran.err) == (1, "")
        assert ran.out.splitlines()[0] == f"a.py:13:9: {FOUND}"
        assert "old.py:5:10: AMP101" in ran.out
        assert run(example, *CONCISE, "--select", "HSE", cwd=root).out.splitlines() == [f"a.py:13:9: {FOUND}"]
        assert run(example, *CONCISE, "--select", "AMP", "a.py", cwd=root).code == 0
        assert run(example, *CONCISE, "--ignore", "HSE101", "a.py", cwd=root).code == 0
        assert '"code": "HSE101"' in run(example, "--output-format=json", cwd=root).out

    def test_the_configuration(self, example: Path, project: Write) -> None:
        root = project({"a.py": PINNED, "pyproject.toml": "[tool.amplint]\nselect = ['HSE1']\n"})
        assert run(example, *CONCISE, cwd=root).out.splitlines() == [f"a.py:13:9: {FOUND}"]
        project({"pyproject.toml": "[tool.amplint]\nignore = ['HSE2']\n"})
        ran = run(example, cwd=root)
        assert ran.err == "amplint: error: pyproject.toml:2: unknown rule 'HSE2'; the rules are HSE101 to HSE102\n"

    def test_fixing(self, example: Path, project: Write) -> None:
        root = project({"a.py": PINNED})
        assert run(example, "--fix", cwd=root).code == 1
        assert run(example, "--fix", "--unsafe-fixes", cwd=root).code == 0
        assert (root / "a.py").read_text() == PINNED.replace("1024.0", "")

    @pytest.mark.parametrize("comment", ["noqa: HSE101", "noqa: HSE", "amplint: ignore[HSE101]", "NOQA:hse101"])
    def test_suppressions(self, example: Path, project: Write, comment: str) -> None:
        root = project({"a.py": PINNED.replace("update(1024.0)", f"update(1024.0)  # {comment}")})
        assert run(example, *CONCISE, cwd=root).out == ""
        project({"a.py": f"x = 1  # {comment}\n"})
        assert "AMP002" in run(example, *CONCISE, "--extend-select=AMP002", cwd=root).out
        # Where the plugin isn't installed, the code is another tool's.
        if "ignore" not in comment:
            assert run(root, *CONCISE, "--extend-select=AMP002", cwd=root).out == ""

    def test_its_documentation(self, example: Path, tmp_path: Path) -> None:
        ran = run(example, "rule", "HSE101", cwd=tmp_path)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith(
            "# pinned-scale (HSE101)\n\nSeverity: warning. On by default. Fixes: unsafe. Of the plugin house-rules 1.0."
        )
        pages = json.loads(run(example, "rule", "--all", "--output-format=json", cwd=tmp_path).out)
        assert [(page["code"], page["plugin"]) for page in pages][-3:] == [
            ("AMP604", None),
            ("HSE101", "house-rules 1.0"),
            ("HSE102", "house-rules 1.0"),
        ]

    def test_flake8(self, example: Path, project: Write) -> None:
        root = project({"a.py": PINNED, "b.py": PINNED.replace("1024.0)", "1024.0)  # noqa: HSE101")})
        for select, expected in (
            ((), [f"./a.py:13:9: {FOUND.replace('warning: ', '')}"]),
            (("--select=HSE",), [f"./a.py:13:9: {FOUND.replace('warning: ', '')}"]),
            (("--select=AMP",), []),
            (("--extend-ignore=HSE101",), []),
        ):
            ran = run(example, "--isolated", *select, ".", cwd=root, before=("-m", "flake8"))
            assert (ran.out.splitlines(), ran.err) == (expected, ""), select

    def test_several_processes(self, example: Path, project: Write) -> None:
        root = project({f"{number}.py": PINNED for number in range(20)})
        ran = run(example, *CONCISE, "--jobs=2", cwd=root)
        assert ran.out.count("HSE101") == 20
        assert ran.out == run(example, *CONCISE, "--jobs=1", cwd=root).out

    def test_it_is_imported_where_its_words_are(self, example: Path, project: Write) -> None:
        root = project({"a.py": PINNED, "clean.py": "import torch\n", "old.py": LEGACY})
        code = (
            "import sys; from amplint.cli import main; main(['-q', *sys.argv[1:]]); "
            "print(*(name for name in sys.modules if name.startswith('house_rules') or name == 'libcst'))"
        )
        loaded = [
            run(example, name, cwd=root, before=("-c", code)).out.splitlines()[-1].split()
            for name in ("clean.py", "old.py", "a.py")
        ]
        assert [set(each) for each in loaded] == [
            set(),
            {"libcst"},
            {"libcst", "house_rules", "house_rules.hse101_pinned_scale"},
        ]


class TestWhatIsNoPlugin:
    """Nothing is taken from the linted tree, the working directory or a folder that is only searched for modules."""

    @pytest.mark.parametrize("place", ["", "src", "site-packages"])
    @pytest.mark.parametrize("start", [("-m", "amplint"), ("-c", "from amplint.cli import main; main()")])
    def test_what_lies_in_the_tree(self, project: Write, place: str, start: tuple[str, ...]) -> None:
        root = project({"pinned.py": "pinned\n"})
        install(
            root / place,
            "evil",
            "[amplint.rules]\nEVL = evil\n",
            {"evil/evl101_x.py": "open('run', 'w')", "evil/__init__.py": "open('run', 'w')"},
        )
        search = {"": root, "src": root / "src", "site-packages": root / "other"}[place]
        ran = run(search, "pinned.py", cwd=root, before=start)
        assert (ran.out, ran.err) == ("All checks passed!\n", "")
        assert not (root / "run").exists()

    def test_a_working_directory_that_is_named_so(self, tmp_path: Path) -> None:
        root = tmp_path / "site-packages"
        install(root, "evil", "[amplint.rules]\nEVL = evil\n", {"evil/evl101_x.py": "open('run', 'w')"})
        (root / "a.py").write_text("pinned")
        assert run(root, cwd=root).err == ""


UNCLOSED = "SyntaxError: '(' was never closed (bad101_x.py, line 1)"
BROKEN = {
    "prefix": ("ab = rules", f"{HOUSE}: the prefix 'ab' is not three capital letters"),
    "ours": ("AMP = rules", f"{HOUSE}: the prefix 'AMP' is amplint's own"),
    "missing": (
        "HSE = nowhere.at.all",
        f"{HOUSE}: nowhere.at.all contains no rule, such as hse101_its_name.py",
    ),
    "empty": ("HSE = rules.empty", f"{HOUSE}: rules.empty contains no rule, such as hse101_its_name.py"),
    "an attribute": ("HSE = rules:check", f"{HOUSE}: 'rules:check' is not the name of a module"),
    "no rule": ("ABC = rules", f"{HOUSE}: rules.abc101_x has no `rule = Rule(__name__, __doc__, ...)`"),
    "no words": ("NOW = rules", f"{HOUSE}: NOW101 has no trigger words, so it would never run"),
    "twice": ("TWO = rules", f"{HOUSE}: there are two rules TWO101"),
    "no Python": (
        "BAD = rules",
        f"{HOUSE}: rules.bad101_x can't be loaded: {UNCLOSED}",
    ),
    "exits": ("END = rules", f"{HOUSE}: rules.end101_x can't be loaded: SystemExit: 3"),
}
RULES = {
    "rules/abc101_x.py": "rule = 1\n",
    "rules/now101_x.py": module().replace(', triggers=("pinned",)', ""),
    "rules/two101_x.py": module(),
    "rules/two101_y.py": module(),
    "rules/bad101_x.py": "(\n",
    "rules/end101_x.py": "raise SystemExit(3)\n",
}


class TestBrokenPlugins:
    @pytest.mark.parametrize("name", some(BROKEN, 3))
    def test_the_others_go_on(self, site: Path, project: Write, name: str) -> None:
        point, said = BROKEN[name]
        install(site, "house", f"[amplint.rules]\n{point}\n", RULES)
        root = project({"old.py": LEGACY})
        ran = run(site, *CONCISE, "old.py", cwd=root)
        assert (ran.code, ran.err) == (2, f"amplint: error: {said}\n")
        assert ran.out.startswith("old.py:5:10: AMP101")
        lines = run(site, "--isolated", "old.py", cwd=root, before=("-m", "flake8")).out.splitlines()
        assert [line.split(" ", 1)[0] for line in lines] == ["old.py:1:1:", "old.py:5:10:"]
        assert lines[0] == f"old.py:1:1: AMP000 {said}"

    def test_the_pages_of_the_others_are_printed(self, site: Path, project: Write) -> None:
        point, said = BROKEN["empty"]
        install(site, "house", f"[amplint.rules]\n{point}\n", RULES)
        ran = run(site, "rule", "--all", cwd=project({}))
        assert (ran.code, ran.err) == (2, f"amplint: error: {said}\n")
        assert "(AMP603)" in ran.out

    def test_who_selects_its_rules_keeps_the_others(self, site: Path, project: Write) -> None:
        install(site, "house", "[amplint.rules]\nHSE = nowhere\n", {})
        comments = "x = 1  # noqa: HSE101\ny = 1  # amplint: ignore[HSE101]\n"
        configured = "[tool.amplint]\nselect = ['AMP', 'HSE101']\n"
        root = project({"old.py": LEGACY + comments, "pyproject.toml": configured})
        ran = run(site, *CONCISE, cwd=root)
        assert ran.err.startswith(f"amplint: error: {HOUSE}: nowhere contains no rule, such as")
        assert ran.err.count("\n") == 1
        assert [line.split(" ")[:2] for line in ran.out.splitlines()] == [["old.py:5:10:", "AMP101"]]

    def test_two_with_one_prefix(self, site: Path, project: Write) -> None:
        for name in ("one", "other"):
            install(site, name, f"[amplint.rules]\nHSE = {name}\n", {f"{name}/hse101_x.py": module()})
        install(site, "third", "[amplint.rules]\nTHR = thr101_x\n", {"thr101_x.py": module()})
        ran = run(site, *CONCISE, "a.py", cwd=project({"a.py": "pinned\n"}))
        assert ran.err == (
            "amplint: error: plugins one 1.0 and other 1.0: both have the prefix 'HSE', so neither's rules are on\n"
        )
        assert ran.out == "a.py:1:1: THR101 error: it is pinned\n"

    def test_one_that_is_installed_twice_is_what_python_imports(self, site: Path, project: Write) -> None:
        install(site, "house_rules", "[amplint.rules]\nHSE = rules\n", {"rules/hse101_x.py": module()}, "2.0")
        other = site.parents[1] / "other" / "site-packages"
        install(other, "House.Rules", "[amplint.rules]\nHSE = rules\n", {"rules/hse101_x.py": "("})
        root = project({"a.py": "pinned\n"})
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (site, other, ROOT)))}
        command = [sys.executable, "-m", "amplint", *CONCISE]
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("a.py:1:1: HSE101 error: it is pinned\n", "")

    @pytest.mark.sampled(5)
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (
                module("raise ValueError('no\\nway')"),
                f"{HOUSE}: HSE101 failed with ValueError at hse101_x.py:9: no",
            ),
            (module("raise SystemExit"), f"{HOUSE}: HSE101 failed with SystemExit at hse101_x.py:9"),
            (module("return 1"), f"{HOUSE}: HSE101 failed with TypeError at analysis.py:"),
            (
                module("return [rule.finding((0, 9999), 'x')]"),
                f"{HOUSE}: HSE101 failed with ValueError at edits.py:",
            ),
            (
                module("return [rule.finding((0, 1), 'x')._replace(code='AMP101')]"),
                f"{HOUSE}: HSE101 failed with ValueError at analysis.py:",
            ),
            (
                f"import nowhere\n{module()}",
                f"{HOUSE}: HSE101 can't be loaded: ModuleNotFoundError: No module named 'nowhere'",
            ),
            (f"{module()}raise SystemExit(4)\n", f"{HOUSE}: HSE101 can't be loaded: SystemExit: 4"),
            (
                f"{module()}del rule\n",
                f"{HOUSE}: HSE101 can't be loaded: AttributeError: module 'rules.hse101_x'",
            ),
            (
                f'"""Like this:\n{HEADER.format(more="")}"""\n{module(more=", default=False")}',
                f"{HOUSE}: HSE101 can't be loaded: its header differs from its source text",
            ),
        ],
    )
    def test_a_rule_that_fails(self, site: Path, project: Write, text: str, said: str) -> None:
        install(site, "house", "[amplint.rules]\nHSE = rules\n", {"rules/hse101_x.py": text})
        root = project({"a.py": f"{LEGACY}# pinned\n", "old.py": LEGACY})
        ran = run(site, *CONCISE, cwd=root)
        assert (ran.code, ran.err) == (2, "")
        lines = ran.out.splitlines()
        assert lines[0].startswith(f"a.py:1:1: AMP000 error: {said}")
        assert lines[0].endswith("(please report it to the authors of house 1.0)")
        assert [line.split(" ")[1] for line in lines[1:]] == ["AMP101", "AMP101"]

    def test_documentation_that_cannot_be_had(self, site: Path, tmp_path: Path) -> None:
        install(site, "house", "[amplint.rules]\nHSE = rules\n", {"rules/hse101_x.py": f"{module()}1 / 0\n"})
        said = f"amplint: error: {HOUSE}: HSE101 can't be loaded: ZeroDivisionError: division by zero\n"
        ran = run(site, "rule", "HSE101", cwd=tmp_path)
        assert (ran.code, ran.out, ran.err) == (2, "", said)
        ran = run(site, "rule", "--all", "--output-format=json", cwd=tmp_path)
        assert (ran.code, ran.err, json.loads(ran.out)[-1]["code"]) == (2, said, "AMP604")

    def test_what_is_not_installed(self, site: Path, project: Write) -> None:
        root = project({"a.py": "pinned\n"})
        ran = run(site, "--select", "HSE101", cwd=root)
        assert (ran.code, ran.out) == (2, "")
        assert "is the plugin with the HSE rules not installed?" in ran.err


class TestHeaders:
    @pytest.mark.sampled(3)
    @pytest.mark.parametrize(
        ("more", "default"),
        [
            ("", True),
            (", default=False", False),
            (",\n    default = False, trial=False,\n", False),
            (", shown_by=('gradient', \"update\"), simulated=True, default=False", False),
            (",\n    not_shown='it is (another) library',\n    about_absence=True,\n", True),
        ],
    )
    def test_read(self, site: Path, project: Write, more: str, default: bool) -> None:
        text = f"{module(more=more)}open('imported', 'w')\n"
        install(site, "house", "[amplint.rules]\nHSE = a.b.hse101_x\n", {"a/b/hse101_x.py": text})
        root = project({"a.py": "pinned\n"})
        assert run(site, "--select=AMP", "a.py", cwd=root).code == 0
        assert not (root / "imported").exists()
        assert run(site, "a.py", cwd=root).code == (1 if default else 0)
        assert run(site, "--extend-select=HSE101", "a.py", cwd=root).code == 1
        assert (root / "imported").exists()

    def test_what_takes_more_than_reading_is_imported(self, site: Path, project: Write) -> None:
        text = module().replace('("pinned",)', "WORDS").replace("rule = ", "WORDS = ('pin' + 'ned',)\nrule = ")
        install(site, "house", "[amplint.rules]\nHSE = rules\n", {"rules/hse101_x.py": text, "rules/hse1_no.py": "("})
        ran = run(site, *CONCISE, "a.py", cwd=project({"a.py": "pinned\n"}))
        assert (ran.out, ran.err) == ("a.py:1:1: HSE101 error: it is pinned\n", "")

    @pytest.mark.parametrize("triggers", ['"a", "b & c"', "\n'a',\n\"b & c\",\n", "'a', 'b & c',"])
    def test_words(self, tmp_path: Path, triggers: str) -> None:
        file = tmp_path / "abc101_x.py"
        file.write_text(f"\nrule = Rule(__name__, __doc__, triggers=({triggers}))\n")
        point = plugins._Point("ABC", "abc101_x", "house 1.0")
        rule = plugins._rule("abc101_x", str(file), point)
        assert rule.triggers == Rule.from_header("abc101_x", Header(("a", "b & c"))).triggers
        assert (rule.code, rule.name, rule.plugin) == ("ABC101", "x", "house 1.0")


def test_a_run_without_plugins_does_not_search_for_long(tmp_path: Path) -> None:
    """Modules are counted, not milliseconds: nothing is imported for two hundred distributions without rules."""
    site = tmp_path / "site-packages"
    for number in range(200):
        install(site, f"other{number}", "[console_scripts]\nx = y:z\n", {})
    code = "import sys; from amplint.registry import all_rules; all_rules(); print(*sys.modules)"
    modules = set(run(site, cwd=tmp_path, before=("-c", code)).out.split())
    assert {name for name in modules if name.startswith("amplint")} == {
        "amplint",
        "amplint.registry",
        "amplint.registry.rule",
    }
    assert not {"importlib.metadata", "importlib.util", "email", "zipfile", "json"} & modules
