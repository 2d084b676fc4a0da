"""What an editor offers to do about findings: to fix one, to fix all, to silence one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lsprotocol import types

from amplint.adoption.add_noqa import comments_for
from amplint.base.findings import Applicability, Edit, Finding
from amplint.integrations.lsp_documents import Document

FIX_ALL = f"{types.CodeActionKind.SourceFixAll.value}.amplint"
QUICK_FIX = types.CodeActionKind.QuickFix.value
KINDS = [types.CodeActionKind.QuickFix, FIX_ALL]


class Actions:
    """The actions for a range of a document, of those that the editor asked for and as it understands them."""

    def __init__(
        self, uri: str, document: Document, params: types.CodeActionParams, client: types.ClientCapabilities
    ) -> None:
        self._uri = uri
        self._document = document
        self._params = params
        self._client = client

    def listed(self) -> list[types.CodeAction]:
        """The actions; that which fixes all has its edit only once it is resolved."""
        listed = [*self._fixes(), *self._silencing()] if self._wanted(QUICK_FIX) else []
        if self._wanted(FIX_ALL) and any(map(_is_safe, self._document.findings)):
            listed.append(types.CodeAction("Apply all safe fixes of amplint", FIX_ALL, data={"uri": self._uri}))
        return listed

    def _wanted(self, kind: str) -> bool:
        only = self._params.context.only
        return only is None or any(f"{kind}.".startswith(f"{_value(each)}.") for each in only)

    def _fixes(self) -> Iterator[types.CodeAction]:
        for finding in self._document.touching(self._params.range):
            if finding.fix and finding.fix.edits:
                safe = _is_safe(finding)
                title = f"{finding.code}: {finding.fix.message}{'' if safe else ' (may change behaviour)'}"
                yield self._quick_fix(title, finding, finding.fix.edits, preferred=safe)

    def _silencing(self) -> Iterator[types.CodeAction]:
        for finding in self._document.touching(self._params.range):
            if comments := comments_for(self._document.source, [finding]):
                yield self._quick_fix(f"{finding.code}: Silence on this line", finding, comments, preferred=False)

    def _quick_fix(self, title: str, finding: Finding, edits: Iterable[Edit], *, preferred: bool) -> types.CodeAction:
        return types.CodeAction(
            title,
            types.CodeActionKind.QuickFix,
            diagnostics=[self._document.diagnostic(finding)],
            is_preferred=preferred,
            edit=workspace_edit(self._uri, self._document, self._document.edits(edits), self._client),
        )


def workspace_edit(
    uri: str, document: Document, edits: list[types.TextEdit], client: types.ClientCapabilities
) -> types.WorkspaceEdit:
    """Edits of one document: for the version that they were made for, where the editor can tell."""
    if client.workspace and client.workspace.workspace_edit and client.workspace.workspace_edit.document_changes:
        place = types.OptionalVersionedTextDocumentIdentifier(uri, document.version)
        return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(place, [*edits])])
    return types.WorkspaceEdit({uri: edits})


def resolves(client: types.ClientCapabilities) -> bool:
    """Whether the editor asks for an action's edit when it is chosen."""
    actions = client.text_document and client.text_document.code_action
    support = actions and actions.resolve_support
    return bool(support and "edit" in support.properties)


def _is_safe(finding: Finding) -> bool:
    return bool(finding.fix and finding.fix.edits and finding.fix.applicability is Applicability.SAFE)


def _value(kind: types.CodeActionKind | str) -> str:
    return kind.value if isinstance(kind, types.CodeActionKind) else kind
