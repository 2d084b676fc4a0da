"""The language server, talked to over stdio by a client of its own process's."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types
from pygls.lsp.client import LanguageClient

from amplint import check
from amplint.base.about import rule_url
from amplint.integrations.lsp_documents import Document
from amplint.integrations.lsp_server import PAUSE
from amplint.sources.source import Source
from tests import ROOT
from tests.conftest import LEGACY, MODERN, UNSAFE

Write = Callable[[dict[str, str | bytes]], Path]
_WAIT = 600.0  # only if it fails
NO_CLIP = "def clip(model):\n    pass\n"
CLIP = "import torch\n\n\ndef clip(model):\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
CALLS_CLIP = """\
import torch

from helper import clip


def train(model, optimizer, batches):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = (model(x) - y).square().mean()
        scaler.scale(loss).backward()
        clip(model)
        scaler.step(optimizer)
        scaler.update()
"""
_RESOLVES = types.CodeActionClientCapabilities(resolve_support=types.ClientCodeActionResolveOptions(["edit"]))


class Editor(LanguageClient):
    """An editor with a folder open. It keeps what the server publishes."""

    def __init__(self, root: Path) -> None:
        super().__init__("editor", "1")
        self.root = root
        self.published: dict[str, list[types.PublishDiagnosticsParams]] = {}
        self.messages: list[str] = []
        self.registered: list[types.Registration] = []
        self.server: types.InitializeResult
        self.refreshed = 0
        self.news = asyncio.Event()

        @self.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: types.PublishDiagnosticsParams) -> None:
            self.published.setdefault(params.uri, []).append(params)
            self.news.set()

        @self.feature(types.WINDOW_SHOW_MESSAGE)
        def message(params: types.ShowMessageParams) -> None:
            self.messages.append(params.message)
            self.news.set()

        @self.feature(types.CLIENT_REGISTER_CAPABILITY)
        def registered(params: types.RegistrationParams) -> None:
            self.registered += params.registrations
            self.news.set()

        @self.feature(types.WORKSPACE_DIAGNOSTIC_REFRESH)
        def refresh(params: None) -> None:
            self.refreshed += 1
            self.news.set()

    def uri(self, name: str) -> str:
        return (self.root / name).as_uri()

    async def until(self, holds: Callable[[], Any]) -> Any:
        """Wait for what the server says, until something holds, and return it."""

        async def wait() -> Any:
            while not (found := holds()):
                self.news.clear()
                await self.news.wait()
            return found

        return await asyncio.wait_for(wait(), _WAIT)

    def open(self, name: str, text: str, language: str = "python") -> str:
        uri = self.uri(name)
        item = types.TextDocumentItem(uri, language, 1, text)
        self.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return uri

    def change(self, uri: str, text: str, version: int) -> None:
        place = types.VersionedTextDocumentIdentifier(version, uri)
        whole = types.TextDocumentContentChangeWholeDocument(text)
        self.text_document_did_change(types.DidChangeTextDocumentParams(place, [whole]))

    async def diagnostics(self, uri: str, version: int = 1) -> list[types.Diagnostic]:
        """What is published for a version of a document."""

        def of_version() -> list[types.PublishDiagnosticsParams]:
            return [each for each in self.published.get(uri, []) if each.version == version]

        found: list[types.PublishDiagnosticsParams] = await self.until(of_version)
        return list(found[-1].diagnostics)

    async def pull(self, uri: str, previous: str | None = None) -> types.DocumentDiagnosticReport:
        """What the server answers when it is asked what is in a document."""
        document = types.TextDocumentIdentifier(uri)
        asked = types.DocumentDiagnosticParams(document, identifier="amplint", previous_result_id=previous)
        return await self.text_document_diagnostic_async(asked)

    async def actions(
        self, uri: str, at: tuple[int, int] = (4, 12), only: list[str] | None = None
    ) -> list[types.CodeAction]:
        place = types.Position(*at)
        context = types.CodeActionContext([], only=only)
        asked = types.CodeActionParams(types.TextDocumentIdentifier(uri), types.Range(place, place), context)
        return [
            each
            for each in await self.text_document_code_action_async(asked) or []
            if isinstance(each, types.CodeAction)
        ]

    async def hover(self, uri: str, line: int, character: int) -> str | None:
        place = types.Position(line, character)
        found = await self.text_document_hover_async(types.HoverParams(types.TextDocumentIdentifier(uri), place))
        if found is None:
            return None
        assert isinstance(found.contents, types.MarkupContent)
        return found.contents.value


Work = Callable[[Editor], Awaitable[None]]


def session(
    root: Path,
    work: Work,
    *,
    encodings: list[types.PositionEncodingKind] | None = None,
    actions: types.CodeActionClientCapabilities | None = None,
    document_changes: bool = True,
    options: object = None,
    pulls: bool = False,
) -> None:
    """Start a server, let an editor work with it, and see it end as it should."""

    async def talk() -> None:
        editor = Editor(root)
        await editor.start_io(sys.executable, "-m", "amplint", "server", "--stdio")
        watching = types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True)
        edits = types.WorkspaceEditClientCapabilities(document_changes=document_changes)
        pulling = types.DiagnosticClientCapabilities() if pulls else None
        refreshing = types.DiagnosticWorkspaceClientCapabilities(refresh_support=pulls)
        can = types.ClientCapabilities(
            workspace=types.WorkspaceClientCapabilities(
                workspace_edit=edits, did_change_watched_files=watching, diagnostics=refreshing
            ),
            text_document=types.TextDocumentClientCapabilities(code_action=actions, diagnostic=pulling),
            general=types.GeneralClientCapabilities(position_encodings=encodings),
        )
        editor.server = await editor.initialize_async(
            types.InitializeParams(can, root_uri=root.as_uri(), initialization_options=options)
        )
        editor.initialized(types.InitializedParams())
        await work(editor)
        await editor.shutdown_async(None)
        editor.exit(None)
        process = editor._server
        assert process
        assert await asyncio.wait_for(process.wait(), _WAIT) == 0
        await editor.stop()

    asyncio.run(talk())


def applied(text: str, edits: list[types.TextEdit]) -> str:
    """What an editor makes of edits, whose columns count characters."""
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:each])) for each in range(len(lines) + 1)]

    def offset(place: types.Position) -> int:
        return starts[place.line] + place.character

    for edit in sorted(edits, key=lambda each: offset(each.range.start), reverse=True):
        text = text[: offset(edit.range.start)] + edit.new_text + text[offset(edit.range.end) :]
    return text


def edits_in(action: types.CodeAction) -> list[types.TextEdit]:
    assert action.edit
    if action.edit.changes:
        return [each for edits in action.edit.changes.values() for each in edits]
    changes = action.edit.document_changes or []
    return [
        edit
        for each in changes
        if isinstance(each, types.TextDocumentEdit)
        for edit in each.edits
        if isinstance(edit, types.TextEdit)
    ]


def test_findings_as_you_type(project: Write) -> None:
    root = project({"train.py": MODERN})

    async def work(editor: Editor) -> None:
        uri = editor.open("train.py", LEGACY)  # not what is on the disk
        (found,) = await editor.diagnostics(uri)
        assert (found.code, found.source, found.severity) == ("AMP101", "amplint", types.DiagnosticSeverity.Warning)
        assert (found.range.start, found.range.end) == (types.Position(4, 9), types.Position(4, 32))
        assert list(found.tags or ()) == [types.DiagnosticTag.Deprecated]
        editor.change(uri, MODERN, 2)
        assert await editor.diagnostics(uri, 2) == []
        editor.change(uri, f"# moved\n{LEGACY}", 3)
        editor.change(uri, f"# moved\n\n{LEGACY}", 4)
        (found,) = await editor.diagnostics(uri, 4)
        assert found.range.start.line == 6
        editor.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))
        await editor.until(lambda: not editor.published[uri][-1].diagnostics)
        assert editor.messages == []

    session(root, work)


class TestPulled:
    def test_full_then_unchanged(self, project: Write) -> None:
        async def work(editor: Editor) -> None:
            uri = editor.open("train.py", LEGACY)
            first = await editor.pull(uri)
            assert isinstance(first, types.RelatedFullDocumentDiagnosticReport)
            (found,) = first.items
            assert found.code_description
            assert found.code_description.href == "https://amplint.github.io/amplint/rules/AMP101/"
            assert first.result_id
            again = await editor.pull(uri, first.result_id)
            assert isinstance(again, types.RelatedUnchangedDocumentDiagnosticReport)
            assert again.result_id == first.result_id
            editor.change(uri, f"# moved\n{LEGACY}", 2)
            moved = await editor.pull(uri, first.result_id)
            assert isinstance(moved, types.RelatedFullDocumentDiagnosticReport)
            assert moved.items[0].range.start.line == found.range.start.line + 1
            editor.change(uri, MODERN, 3)
            clean = await editor.pull(uri, moved.result_id)
            assert isinstance(clean, types.RelatedFullDocumentDiagnosticReport)
            assert not clean.items

        session(project({}), work, pulls=True)

    def test_nothing_is_pushed(self, project: Write) -> None:
        async def work(editor: Editor) -> None:
            uri = editor.open("train.py", LEGACY)
            editor.change(uri, f"{LEGACY}\n", 2)
            editor.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri)))
            await editor.until(lambda: editor.refreshed)
            await asyncio.sleep(2 * PAUSE)  # the time after which it would be
            await editor.pull(uri)
            editor.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))
            await editor.until(lambda: editor.refreshed > 1)
            assert editor.published == {}

        session(project({}), work, pulls=True)

    def test_what_an_open_file_imports_counts_before_it_is_saved(self, project: Write) -> None:
        root = project({"helper.py": NO_CLIP, "main.py": CALLS_CLIP})

        async def work(editor: Editor) -> None:
            uri = editor.open("main.py", CALLS_CLIP)
            before = await editor.pull(uri)
            assert isinstance(before, types.RelatedFullDocumentDiagnosticReport)
            assert not before.items
            other = editor.open("helper.py", NO_CLIP)
            editor.change(other, CLIP, 2)
            after = await editor.pull(uri, before.result_id)
            assert isinstance(after, types.RelatedFullDocumentDiagnosticReport)
            assert [each.code for each in after.items] == ["AMP401"]

        session(root, work, pulls=True)

    def test_the_server_says_that_it_can_be_asked(self, project: Write) -> None:
        async def work(editor: Editor) -> None:
            provider = editor.server.capabilities.diagnostic_provider
            assert isinstance(provider, types.DiagnosticOptions)
            assert provider.inter_file_dependencies
            assert not provider.workspace_diagnostics

        session(project({}), work)

    def test_there_is_nothing_in_other_files(self, project: Write) -> None:
        async def work(editor: Editor) -> None:
            for uri in (editor.open("a.txt", LEGACY, "plaintext"), editor.uri("never_opened.py")):
                report = await editor.pull(uri)
                assert isinstance(report, types.RelatedFullDocumentDiagnosticReport)
                assert not report.items

        session(project({"never_opened.py": LEGACY}), work, pulls=True)


def test_half_typed_code(project: Write) -> None:
    async def work(editor: Editor) -> None:
        uri = editor.open("train.py", f"{LEGACY}def f(:\n")
        (found,) = await editor.diagnostics(uri)
        assert found.code == "AMP001"
        editor.change(uri, LEGACY, 2)
        (found,) = await editor.diagnostics(uri, 2)
        assert found.code == "AMP101"

    session(project({}), work)


def test_columns_in_the_units_of_the_editor(project: Write) -> None:
    text = LEGACY.replace("    with", '    name = "\U0001f600ü"; run(name);\n    with').replace(
        "torch.cuda.amp.autocast():", 'f("\U0001f600ü"), torch.cuda.amp.autocast():'
    )
    row = text.splitlines()[5]
    before = row[: row.index("torch")]
    expected = {
        types.PositionEncodingKind.Utf8: len(before.encode()),
        types.PositionEncodingKind.Utf16: len(before) + 1,
        types.PositionEncodingKind.Utf32: len(before),
    }
    for encoding, column in expected.items():

        async def work(editor: Editor, column: int = column) -> None:
            uri = editor.open("train.py", text)
            (found,) = await editor.diagnostics(uri)
            assert found.range.start == types.Position(5, column)
            assert [each.title for each in await editor.actions(uri, (5, column))]
            assert await editor.hover(uri, 5, column)
            assert await editor.hover(uri, 5, column - 1) is None

        session(project({}), work, encodings=[encoding])


def test_byte_order_mark(project: Write) -> None:
    text = "\ufefffrom torch.cuda.amp import autocast; region = autocast()\n"

    async def work(editor: Editor) -> None:
        uri = editor.open("train.py", text)
        (found,) = await editor.diagnostics(uri)
        assert found.range.start == types.Position(0, text.index("autocast()"))
        (fix_all,) = await editor.actions(uri, (0, 0), ["source.fixAll"])
        fixed = applied(text, edits_in(fix_all))
        assert fixed == '\ufefffrom torch.amp import autocast; region = autocast("cuda")\n'

    session(project({}), work, encodings=[types.PositionEncodingKind.Utf32])


class TestActions:
    @pytest.mark.parametrize("document_changes", [True, False])
    def test_a_safe_fix(self, project: Write, document_changes: bool) -> None:
        async def work(editor: Editor) -> None:
            uri = editor.open("train.py", LEGACY)
            first, *_ = await editor.actions(uri, only=["quickfix"])
            assert first.is_preferred
            assert first.diagnostics
            assert first.diagnostics[0].code == "AMP101"
            assert applied(LEGACY, edits_in(first)) == MODERN
            assert await editor.actions(uri, (0, 0), ["quickfix"]) == []

        session(project({}), work, document_changes=document_changes)

    def test_an_unsafe_one_is_marked(self, project: Write) -> None:
        async def work(editor: Editor) -> None:
            uri = editor.open("train.py", UNSAFE)
            (found,) = await editor.diagnostics(uri)
            actions = await editor.actions(uri, (found.range.start.line, found.range.start.character))
            assert not actions[0].is_preferred
            assert actions[0].title.endswith("(may change behaviour)")
            assert not [each for each in actions if each.kind == "source.fixAll.amplint"]

        session(project({}), work)

    def test_a_finding_is_silenced(self, project: Write) -> None:
        async def work(editor: Editor) -> None:
            uri = editor.open("train.py", LEGACY)
            actions = await editor.actions(uri, only=["quickfix"])
            assert [each.title for each in actions][1:] == ["AMP101: Silence on this line"]
            silenced = applied(LEGACY, edits_in(actions[-1]))
            assert silenced == LEGACY.replace("autocast():", "autocast():  # noqa: AMP101")
            editor.change(uri, silenced, 2)
            assert await editor.diagnostics(uri, 2) == []

        session(project({}), work)

    @pytest.mark.parametrize("capabilities", [None, _RESOLVES], ids=["at once", "on demand"])
    def test_fix_all(self, project: Write, capabilities: types.CodeActionClientCapabilities | None) -> None:
        text = LEGACY + LEGACY.partition("\n")[2].replace("def run", "def other")

        async def work(editor: Editor) -> None:
            uri = editor.open("train.py", text)
            (action,) = await editor.actions(uri, (0, 0), ["source.fixAll.amplint"])
            assert bool(action.edit) is (capabilities is None)
            if action.edit is None:
                action = await editor.code_action_resolve_async(action)
            assert applied(text, edits_in(action)) == text.replace(
                "torch.cuda.amp.autocast()", 'torch.amp.autocast("cuda")'
            )
            assert all(edit.range.start.line in (4, 9) for edit in edits_in(action))
            assert await editor.actions(uri, (0, 0), ["refactor"]) == []

        session(project({}), work, actions=capabilities)

    def test_fix_all_is_safe_whatever_the_settings_say(self, project: Write) -> None:
        text = LEGACY + UNSAFE.partition("\n")[2]

        async def work(editor: Editor) -> None:
            uri = editor.open("train.py", text)
            (action,) = await editor.actions(uri, (0, 0), ["source.fixAll"])
            assert applied(text, edits_in(action)) == MODERN + UNSAFE.partition("\n")[2]

        session(project({"pyproject.toml": "[tool.amplint]\nunsafe-fixes = true\n"}), work)


# No fix, for a reason that needs no trial.
REFUSED = """\
from torch.cuda.amp import GradScaler, autocast


def f(x):
    # amplint: off[AMP101]
    with autocast():
        return x


scaler = GradScaler()
"""
WHY = "no fix: the fix would change lines where amplint is off"
# No fix, for a reason that only the trial of the fix gives.
FAILS_TRIAL = (ROOT / "fixtures/AMP404_missing_update/step_method_called_for_each_name/bad.py").read_text()
BY_HAND = (ROOT / "fixtures/AMP105_apex_amp/imported/bad.py").read_text()


class TestWhyThereIsNoFix:
    def test_the_diagnostic_says_it(self, project: Write) -> None:
        async def work(editor: Editor) -> None:
            (found,) = await editor.diagnostics(editor.open("train.py", REFUSED))
            assert found.message.splitlines()[1:] == [WHY]
            (other,) = await editor.diagnostics(editor.open("legacy.py", LEGACY))
            assert "\n" not in other.message

        session(project({}), work)

    @pytest.mark.parametrize("pulls", [False, True])
    def test_it_is_shown_once_a_trial_has_given_it(self, project: Write, pulls: bool) -> None:
        why = "no fix: the fixed code would be reported as AMP410 (misplaced-update)"

        async def shown(editor: Editor, uri: str) -> list[types.Diagnostic]:
            if not pulls:
                return await editor.diagnostics(uri)
            report = await editor.pull(uri)
            assert isinstance(report, types.RelatedFullDocumentDiagnosticReport)
            return list(report.items)

        async def work(editor: Editor) -> None:
            uri = editor.open("train.py", FAILS_TRIAL)
            (found,) = await shown(editor, uri)
            assert why not in found.message
            await editor.actions(uri, (found.range.start.line, found.range.start.character))
            await editor.until(lambda: editor.refreshed if pulls else len(editor.published[uri]) == 2)
            (found,) = await shown(editor, uri)
            assert found.message.splitlines()[1:] == [why]

        session(project({}), work, pulls=pulls)


@pytest.mark.parametrize(
    ("text", "said"),
    [(LEGACY, "Fix: Replace with"), (UNSAFE, "(may change behaviour)"), (REFUSED, WHY), (BY_HAND, "by hand: ")],
)
def test_hover_begins_with_what_is_wrong_and_what_to_do(text: str, said: str) -> None:
    (finding,) = check(text)
    document = Document(Source("train.py", text), [finding], 1, "utf-8")
    shown = document.hover(document.position(finding.start))
    assert shown
    assert isinstance(shown.contents, types.MarkupContent)
    wrong, what_to_do, line, title, why, *_ = shown.contents.value.split("\n\n")
    assert wrong == finding.said
    assert said in what_to_do
    assert (line, title) == ("---", f"# {finding.name} ({finding.code})")
    assert why.startswith("## Why is this bad?\n")
    assert "## Proof" not in shown.contents.value
    assert shown.contents.value.endswith(f"[More]({rule_url(finding.code)})")


def test_hover_shows_the_rule(project: Write) -> None:
    async def work(editor: Editor) -> None:
        uri = editor.open("train.py", f"{LEGACY}print()  # noqa: AMP401\n")
        shown = await editor.hover(uri, 4, 12)
        assert shown
        assert "# deprecated-autocast (AMP101)" in shown
        shown = await editor.hover(uri, 6, 18)
        assert shown
        assert "# clip-without-unscale (AMP401)" in shown
        assert await editor.hover(uri, 0, 0) is None
        assert await editor.hover(uri, 600, 700) is None

    session(project({}), work)


class TestConfiguration:
    def test_the_nearest_file_decides_and_may_change(self, project: Write) -> None:
        root = project({"sub/pyproject.toml": "[tool.amplint]\nignore = ['AMP101']\n"})

        async def work(editor: Editor) -> None:
            uri = editor.open("sub/train.py", LEGACY)
            assert not await editor.diagnostics(uri)
            (root / "sub/pyproject.toml").write_text("")
            await editor.until(lambda: editor.registered)
            changed = types.FileEvent(editor.uri("sub/pyproject.toml"), types.FileChangeType.Changed)
            editor.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([changed]))
            await editor.until(lambda: editor.published[uri][-1].diagnostics)

        session(root, work)

    def test_a_broken_one_is_said_once(self, project: Write) -> None:
        root = project({"pyproject.toml": "[tool.amplint]\nselct = ['AMP1']\n"})

        async def work(editor: Editor) -> None:
            uri = editor.open("train.py", LEGACY)
            assert not await editor.diagnostics(uri)
            editor.change(uri, LEGACY + "\n", 2)
            assert await editor.diagnostics(uri, 2) == []
            (message,) = editor.messages
            assert "unknown key 'selct'; did you mean 'select'?" in message

        session(root, work)

    def test_what_is_left_out(self, project: Write) -> None:
        root = project({"pyproject.toml": "[tool.amplint]\nextend-exclude = ['old/']\n", "old/amplint.toml": ""})

        async def work(editor: Editor) -> None:
            assert await editor.diagnostics(editor.open("old/deep/train.py", LEGACY)) == []
            assert await editor.diagnostics(editor.open("venv/train.py", LEGACY)) == []
            assert await editor.diagnostics(editor.open("new/train.py", LEGACY)) != []

        session(root, work)

    @pytest.mark.parametrize("force", [False, True])
    def test_what_is_left_out_above_the_folder_that_is_open(self, project: Write, force: bool) -> None:
        said = f"[tool.amplint]\nextend-exclude = ['old/']\nforce-exclude = {str(force).lower()}\n"
        root = project({"pyproject.toml": said, "old/x.py": ""})

        async def work(editor: Editor) -> None:
            assert (await editor.diagnostics(editor.open("train.py", LEGACY)) == []) == force

        session(root / "old", work)

    def test_the_editors_own_settings(self, project: Write) -> None:
        async def work(editor: Editor) -> None:
            uri = editor.open("train.py", LEGACY)
            assert not await editor.diagnostics(uri)
            settings = {"amplint": {"ignore": ["AMP4"]}}
            editor.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings))
            await editor.until(lambda: editor.published[uri][-1].diagnostics)
            editor.workspace_did_change_configuration(types.DidChangeConfigurationParams({"ignroe": ["AMP1"]}))
            (message,) = await editor.until(lambda: editor.messages)
            assert "unknown key 'ignroe'; did you mean 'ignore'?" in message

        session(project({}), work, options={"ignore": ["AMP101"]})

    def test_broken_settings_of_the_editor_change_nothing(self, project: Write) -> None:
        async def work(editor: Editor) -> None:
            uri = editor.open("train.py", LEGACY)
            assert not await editor.diagnostics(uri)
            for count, broken in enumerate([{"config": 3}, {"amplint": {"select": 1}}], 1):
                editor.workspace_did_change_configuration(types.DidChangeConfigurationParams(broken))
                await editor.until(lambda count=count: len(editor.messages) == count)
            for nothing in (None, {}, {"amplint": None}, {"amplint": {}}, 3):
                editor.workspace_did_change_configuration(types.DidChangeConfigurationParams(nothing))
            editor.change(uri, LEGACY + "\n", 2)
            assert not await editor.diagnostics(uri, 2)
            assert len(editor.messages) == 2

        session(project({}), work, options={"ignore": ["AMP101"]})

    def test_what_the_editor_names_lies_in_its_folder(
        self, project: Write, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        root = project({"conf/my.toml": "ignore = ['AMP101']\n"})
        monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))  # where the server starts

        async def by_file(editor: Editor) -> None:
            assert not await editor.diagnostics(editor.open("train.py", LEGACY))

        async def by_pattern(editor: Editor) -> None:
            assert not await editor.diagnostics(editor.open("gen/train.py", LEGACY))
            assert await editor.diagnostics(editor.open("train.py", LEGACY))

        session(root, by_file, options={"config": "conf/my.toml"})
        session(root, by_pattern, options={"per-file-ignores": {"gen/*": ["ALL"]}})

    def test_a_file_that_the_editor_names(self, project: Write) -> None:
        root = project({"other.toml": "ignore = ['AMP101']\n"})

        async def work(editor: Editor) -> None:
            assert await editor.diagnostics(editor.open("train.py", LEGACY)) == []

        session(root, work, options={"config": str(root / "other.toml")})


class TestBaseline:
    def test_what_it_holds_is_neither_shown_nor_fixed(self, project: Write, amplint: Any) -> None:
        root = project({"amplint.toml": 'baseline = "amp.json"\n', "train.py": LEGACY})
        assert amplint("--write-baseline").code == 0
        second = LEGACY.removeprefix("import torch\n").replace("run", "again").replace("autocast()", "autocast(True)")

        async def work(editor: Editor) -> None:
            uri = editor.open("train.py", LEGACY)
            assert await editor.diagnostics(uri) == []
            assert await editor.actions(uri) == []
            assert await editor.hover(uri, 4, 12) is None
            editor.change(uri, LEGACY + second, 2)
            (found,) = await editor.diagnostics(uri, 2)
            assert found.range.start.line == 9
            (action,) = await editor.actions(uri, (0, 0), ["source.fixAll"])
            fixed = applied(LEGACY + second, edits_in(action))
            assert fixed == LEGACY + second.replace("cuda.amp.autocast(True)", 'amp.autocast("cuda", enabled=True)')

        session(root, work)

    def test_one_that_is_missing_is_said(self, project: Write) -> None:
        async def work(editor: Editor) -> None:
            assert await editor.diagnostics(editor.open("train.py", LEGACY)) == []
            (message,) = await editor.until(lambda: editor.messages)
            assert message.endswith("amp.json: no such file; --write-baseline creates it")

        session(project({"amplint.toml": 'baseline = "amp.json"\n'}), work)


def test_other_languages_are_left_alone(project: Write) -> None:
    async def work(editor: Editor) -> None:
        editor.open("a.md", LEGACY, "markdown")
        uri = editor.open("train.py", LEGACY)
        assert await editor.diagnostics(uri)
        assert list(editor.published) == [uri]

    session(project({}), work)


def test_unsaved_text_of_an_imported_file_counts(project: Write) -> None:
    """A helper that the editor holds is read as it stands there, and from disk again when it is closed."""
    root = project({"helper.py": NO_CLIP, "main.py": CALLS_CLIP})

    async def work(editor: Editor) -> None:
        uri = editor.open("main.py", CALLS_CLIP)
        assert not await editor.diagnostics(uri)
        other = editor.open("helper.py", CLIP)
        editor.change(uri, CALLS_CLIP + "\n", 2)
        (found,) = await editor.diagnostics(uri, 2)
        assert found.code == "AMP401"
        editor.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(other)))
        await editor.until(lambda: not editor.published[uri][-1].diagnostics)

    session(root, work)


def test_nothing_of_the_project_is_run(project: Write) -> None:
    mark = "open(__file__ + '.was_run', 'w').close()\n"
    names = ("pygls.py", "libcst.py", "sitecustomize.py", "helper.py", "train.py", "conftest.py")
    root = project({**dict.fromkeys(names, mark), "pkg/__init__.py": mark})

    async def work(editor: Editor) -> None:
        uri = editor.open("train.py", f"import helper\nimport pkg\n{mark}{LEGACY}")
        assert await editor.diagnostics(uri)

    session(root, work)
    assert not list(root.rglob("*.was_run"))


def test_without_pygls(project: Write, amplint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    project({})
    monkeypatch.setitem(sys.modules, "pygls", None)
    monkeypatch.delitem(sys.modules, "amplint.integrations.lsp_server", raising=False)
    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    ran = amplint("server")
    assert ran.code == 2
    assert 'pip install "amplint[lsp] @ git+https://github.com/amplint/amplint"' in ran.err


def test_many_quick_edits_end_in_what_the_last_text_has(project: Write) -> None:
    """What is shown at last is what the last text has, whatever was answered to those before."""
    pieces = [LEGACY, MODERN, "def f(:\n", UNSAFE, "# \U0001f600\n", ""]

    async def work(editor: Editor) -> None:
        uri = editor.open("train.py", "")
        for version in range(2, 60):
            editor.change(uri, pieces[version % len(pieces)] + LEGACY * (version % 3), version)
            if version % 7 == 0:
                await asyncio.sleep(0.25)
            if version % 11 == 0:
                await editor.actions(uri)
        editor.change(uri, UNSAFE, 60)
        assert [each.code for each in await editor.diagnostics(uri, 60)] == [each.code for each in check(UNSAFE)]
        versions = [each.version or 0 for each in editor.published[uri]]
        assert versions == sorted(versions)

    session(project({}), work)


_WIDE = st.text(alphabet=st.sampled_from("ab \t\n\r\x0c\u2028é\U0001f600"), max_size=30)
_UNITS = st.sampled_from(["utf-8", "utf-16", "utf-32"])


def _place(text: str, position: types.Position, units: str) -> int:
    """The offset of a position, as the protocol defines it."""
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", text)
    before, line = "".join(lines[: position.line]), "".join(lines[position.line : position.line + 1])
    data = line.encode(f"{units}-le" if units != "utf-8" else units)
    size = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[units]
    return len(before) + len(data[: position.character * size].decode(f"{units}-le" if units != "utf-8" else units))


@given(old=_WIDE, new=_WIDE, units=_UNITS)
def test_edits_make_the_new_text_of_the_old(old: str, new: str, units: str) -> None:
    document = Document(Source("a.py", old), [], 1, units)
    made = old
    for edit in reversed(document.edits_to(new)):
        start, end = _place(old, edit.range.start, units), _place(old, edit.range.end, units)
        made = made[:start] + edit.new_text + made[end:]
    assert made == new


@given(text=_WIDE, units=_UNITS, mark=st.booleans(), data=st.data())
def test_places_and_offsets(text: str, units: str, mark: bool, data: st.DataObject) -> None:
    document = Document(Source("a.py", text, bom=mark), [], 1, units)
    offset = data.draw(st.integers(0, len(text)))
    assert _place("\ufeff" * mark + text, document.position(offset), units) == offset + mark
    assert document.offset(document.position(offset)) in (
        offset,
        offset - 1 if text[offset - 1 : offset] == "\r" else offset,
    )
