"""The language server: findings as you type, the rules' documentation, fixes. It never runs what it reads.

Each document that the editor holds is linted as it stands there, saved or not, and so is what it imports from others
that the editor holds. The rest is read from disk, as is the configuration (`amplint.toml` or `pyproject.toml`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path
from pygls.workspace import TextDocument

from amplint import __version__
from amplint.adoption.baseline import Baseline, Known
from amplint.api import draft, fix_safely
from amplint.base.findings import Finding
from amplint.base.interruption import Interrupted, go_on, until
from amplint.base.paths import hold
from amplint.config.keys import problem
from amplint.config.selection import SettingsError
from amplint.config.settings import Overrides, Resolver, Settings
from amplint.integrations.lsp_actions import KINDS, Actions, resolves, workspace_edit
from amplint.integrations.lsp_documents import Document
from amplint.runner import describe
from amplint.sources.load import with_commands
from amplint.sources.source import Source, SourceError, encoded

T = TypeVar("T")

# Seconds without a key pressed before a document is linted again.
PAUSE = 0.2
# What decides about findings beside the documents that are open.
_WATCHED = "**/{amplint.toml,pyproject.toml,setup.cfg,setup.py,*.txt,env*.yml,env*.yaml,conda*.yml,conda*.yaml,*.py}"
# A file's findings depend on what it imports.
_PULL = types.DiagnosticOptions(inter_file_dependencies=True, workspace_diagnostics=False, identifier="amplint")


class _OutdatedError(Exception):
    """A text has changed while something was found out about it."""


class _Held(NamedTuple):
    """What holds for a file: its settings, and what a baseline holds back of it."""

    settings: Settings
    known: Known | None

    def draft(self, code: str, source: Source) -> tuple[list[Finding], Callable[[], list[Finding]]]:
        """The findings that are new, before any fix was tried, and what gives them once they were."""
        known = self.known
        found, tried = draft(code, source.filename, self.settings)
        if known is None:
            return found, tried
        return known.new(source, found), lambda: known.new(source, tried())


class Server(LanguageServer):
    """One editor's amplint."""

    def __init__(self) -> None:
        super().__init__("amplint", __version__, text_document_sync_kind=types.TextDocumentSyncKind.Full)
        self._worker = ThreadPoolExecutor(1)  # the analysis remembers what it saw of the disk, for one at a time
        self._pending: dict[str, asyncio.Task[None]] = {}  # by uri: documents that were changed
        self._known: dict[str, Document] = {}
        self._overrides = Overrides()
        self._said: dict[str, str] = {}  # by path: what is wrong with its configuration

    async def document(self, uri: str) -> Document | None:
        """An open document as it stands now, and what is found in it; None where it is not Python."""
        text = self.text(uri)
        if text is None:
            return None
        known = self._known.get(uri)
        if known is None or known.version != text.version:
            try:
                known = self._known[uri] = await self._analysed(text)
            except _OutdatedError:
                return await self.document(uri)
        return known

    async def tried(self, uri: str) -> Document | None:
        """The same, once its fixes were tried. To find out takes as long again, and diagnostics don't wait for it."""
        document = await self.document(uri)
        if document is not None and document.untried is not None:
            try:
                findings = await self._in_worker(document.untried, self._has_changed(uri, document.version))
            except _OutdatedError:
                return await self.tried(uri)
            # Where that fails, nothing says that a fix is good.
            untested = [each._replace(fix=None) for each in document.findings]
            shown = document.diagnostics()
            document.findings, document.untried = untested if findings is None else findings, None
            if document.diagnostics() != shown:  # some now say why they have no fix
                self._show_again(uri, document)
        return document

    def text(self, uri: str) -> TextDocument | None:
        """An open document of Python. The cells of notebooks are none: each by itself means nothing."""
        found = self.workspace.text_documents.get(uri)
        python = found and found.language_id == "python" and not uri.startswith("vscode-notebook-cell:")
        return found if python else None

    async def _analysed(self, text: TextDocument) -> Document:
        version, code = text.version, text.source
        source = with_commands(Source.from_text(code, _path(self, text)))
        held = self._settings(source.filename)
        drafted = None
        if held is not None:
            has_changed = self._has_changed(text.uri, version)
            drafted = await self._in_worker(lambda: held.draft(code, source), has_changed)
        findings, untried = drafted or ([], None)
        units = self.workspace.position_encoding or types.PositionEncodingKind.Utf16
        return Document(source, findings, version, str(getattr(units, "value", units)), untried)

    def _has_changed(self, uri: str, version: int | None) -> Callable[[], bool]:
        """Whether a document is no more in a version, at the time when that is asked."""

        def has_changed() -> bool:
            text = self.workspace.text_documents.get(uri)
            return text is None or text.version != version

        return has_changed

    async def fixing(self, document: Document) -> list[types.TextEdit] | None:
        """The edits that make a document's safe fixes, and no others, whatever the settings say."""
        source = document.source
        held = self._settings(source.filename)
        if held is None:
            return None
        wanted = held.known.new if held.known else None
        return await self._in_worker(
            lambda: document.edits_to(fix_safely(source.text, source.filename, held.settings, wanted))
        )

    async def _in_worker(self, work: Callable[[], T], is_over: Callable[[], bool] = lambda: False) -> T | None:
        """What some work gives, unless it is over before; None where it fails.

        Raises:
            _OutdatedError: it is over.
        """

        def run() -> T:
            try:
                with until(is_over):
                    go_on()
                    return work()
            except Interrupted:
                raise _OutdatedError from None

        try:
            return await asyncio.get_running_loop().run_in_executor(self._worker, run)
        except _OutdatedError:
            raise
        except Exception as error:  # a bug of ours, which must not end the server
            self._say_once("", describe(error))
            return None

    def _settings(self, path: str) -> _Held | None:
        """What holds for a file; None where it is left out, or its configuration or its baseline can't be read."""
        paths = [to_fs_path(each) for each in self.workspace.folders] or [self.workspace.root_path]
        folders = [each for each in paths if each]
        try:
            # Anew: a file may have been changed. What the editor's settings name lies in the folder that it has open.
            overrides = self._overrides._replace(directory=self.workspace.root_path, folders=tuple(folders))
            resolver = Resolver(overrides)
            settings = resolver.for_file(path)
            known = Baseline(settings.baseline).known(path) if settings.baseline is not None else None
        except SettingsError as error:
            self._say_once(path, str(error))
            return None
        self._said.pop(path, None)
        root = max((each for each in folders if path.startswith(each + os.sep)), key=len, default=None)
        left_out = resolver.leaves_out(path, root or os.path.dirname(path)) or resolver.refuses(path)
        return None if left_out else _Held(settings, known)

    def configure(self, said: object) -> None:
        """Take what the editor's own settings say: the keys of a configuration file, and `config`, which names one."""
        own = said.get("amplint", said) if isinstance(said, dict) else None
        if not own or not isinstance(own, dict):
            return  # some editors send nothing behind what they have begun with
        keys = dict(own)
        config = keys.pop("config", None)
        wrong = problem(keys)
        if wrong or not isinstance(config, str | None):
            what = wrong[1] if wrong else "'config' must be a string"
            self._say(f"the editor's settings for amplint: {what}")
        else:
            self._overrides = Overrides(keys, config=config)

    def _say_once(self, about: str, message: str) -> None:
        """Tell the user what is wrong, and not again with each key."""
        if self._said.get(about) != message:
            self._said[about] = message
            self._say(message)

    def _say(self, message: str) -> None:
        self.window_show_message(types.ShowMessageParams(types.MessageType.Error, f"amplint: {message}"))

    async def pulled(self, uri: str, previous: str | None) -> types.DocumentDiagnosticReport:
        """What is found in the text that the editor holds now, or that this is the result `previous`."""
        document = await self.document(uri)
        # What was found in a text that has changed since would be shown at the wrong lines.
        while document and (text := self.text(uri)) and text.version != document.version:
            document = await self.document(uri)
        if document is None:
            return types.RelatedFullDocumentDiagnosticReport([])
        if document.result_id == previous:
            return types.RelatedUnchangedDocumentDiagnosticReport(document.result_id)
        return types.RelatedFullDocumentDiagnosticReport(document.diagnostics(), result_id=document.result_id)

    @property
    def _pulls(self) -> bool:
        """Whether the editor asks for what is found: to publish it as well would show it twice."""
        client = self.client_capabilities.text_document
        return bool(client and client.diagnostic)

    def lint(self, uri: str, pause: float = 0) -> None:
        """Publish what is found in a document, unless it is changed again within `pause` seconds.

        An editor that pulls asks itself, also about the documents that import this one.
        """
        if self._pulls:
            self._known.clear()
            return
        if earlier := self._pending.pop(uri, None):
            earlier.cancel()
        self._pending[uri] = asyncio.ensure_future(self._publish(uri, pause))

    async def _publish(self, uri: str, pause: float) -> None:
        await asyncio.sleep(pause)
        self._show(uri, await self.document(uri))

    def _show(self, uri: str, document: Document | None) -> None:
        """Publish what is found in a document."""
        text = self.text(uri)
        # What was found in a text that has changed since would be shown at the wrong lines.
        if document and text and document.version == text.version:
            self.text_document_publish_diagnostics(
                types.PublishDiagnosticsParams(uri, document.diagnostics(), document.version)
            )

    def lint_all(self) -> None:
        """Lint all open documents anew: what they import, or their configuration, has changed."""
        self._known.clear()
        self._refresh()
        for uri in self.workspace.text_documents:
            self.lint(uri)

    def _show_again(self, uri: str, document: Document) -> None:
        """Have the editor show what is known of a document by now."""
        if self._pulls:
            self._refresh()
        else:
            self._show(uri, document)

    def _refresh(self) -> None:
        """Have an editor that pulls ask once more, if it can."""
        workspace = self.client_capabilities.workspace
        if self._pulls and workspace and workspace.diagnostics and workspace.diagnostics.refresh_support:
            self.workspace_diagnostic_refresh(None)

    def holds(self, uri: str) -> None:
        """Let what the editor holds of a file count for those that import it; once it is closed, the disk."""
        text = self.text(uri)
        path = to_fs_path(uri)
        if path:
            try:
                hold(path, encoded(text.source) if text else None)
            except (SourceError, UnicodeError):
                hold(path, None)

    def forget(self, uri: str) -> None:
        """A document is closed: nothing is to be shown in it any more, and others may import what is on the disk."""
        if pending := self._pending.pop(uri, None):
            pending.cancel()
        self.holds(uri)
        self.lint_all()
        if not self._pulls:
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))


def _path(server: Server, text: TextDocument) -> str:
    """A document's place; one that has none yet is thought to be in the folder that the editor has open."""
    return to_fs_path(text.uri) or os.path.join(server.workspace.root_path or os.getcwd(), "untitled.py")


def make() -> Server:
    """A server that knows what to answer; `start_io` lets it talk over stdin and stdout."""
    server = Server()

    @server.feature(types.INITIALIZE)
    def initialize(ls: Server, params: types.InitializeParams) -> None:
        ls.configure(params.initialization_options)

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def configured(ls: Server, params: types.DidChangeConfigurationParams) -> None:
        ls.configure(params.settings)
        ls.lint_all()

    @server.feature(types.INITIALIZED)
    async def initialized(ls: Server, params: types.InitializedParams) -> None:
        workspace = ls.client_capabilities.workspace
        watching = workspace and workspace.did_change_watched_files
        if watching and watching.dynamic_registration:
            options = types.DidChangeWatchedFilesRegistrationOptions([types.FileSystemWatcher(_WATCHED)])
            method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
            wish = types.RegistrationParams([types.Registration("amplint-files", method, options)])
            await ls.client_register_capability_async(wish)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(ls: Server, params: types.DidOpenTextDocumentParams) -> None:
        ls.holds(params.text_document.uri)
        ls.lint(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
        ls.holds(params.text_document.uri)
        ls.lint(params.text_document.uri, PAUSE)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(ls: Server, params: types.DidSaveTextDocumentParams) -> None:
        ls.lint_all()

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
        ls.forget(params.text_document.uri)

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def files_changed(ls: Server, params: types.DidChangeWatchedFilesParams) -> None:
        ls.lint_all()

    @server.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, _PULL)
    async def pulled(ls: Server, params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
        return await ls.pulled(params.text_document.uri, params.previous_result_id)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
        document = await ls.tried(params.text_document.uri)
        return document.hover(params.position) if document else None

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(KINDS, resolve_provider=True))
    async def actions(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
        document = await ls.tried(params.text_document.uri)
        if document is None:
            return []
        client = ls.client_capabilities
        listed = Actions(params.text_document.uri, document, params, client).listed()
        # To fix all takes a while. Editors that ask with each move of the cursor ask once more when it is chosen.
        automatic = params.context.trigger_kind is types.CodeActionTriggerKind.Automatic
        if resolves(client):
            return listed
        return [await resolve(ls, each) for each in listed if each.edit or not automatic]

    @server.feature(types.CODE_ACTION_RESOLVE)
    async def resolve(ls: Server, action: types.CodeAction) -> types.CodeAction:
        uri = action.data["uri"] if isinstance(action.data, dict) else ""
        document = None if action.edit else await ls.document(uri)
        edits = await ls.fixing(document) if document else None
        if document and edits is not None:
            action.edit = workspace_edit(uri, document, edits, ls.client_capabilities)
        return action

    return server
