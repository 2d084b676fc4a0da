#!/usr/bin/env bash
# Test the extension against the server of this repository, in an environment made for this run, and package it.
# AMPLINT_PYTHON names a Python that has `amplint[lsp]`; then no environment is made.
set -euo pipefail
cd "$(dirname "$0")"

npm ci --no-audit --no-fund
if [ -z "${AMPLINT_PYTHON:-}" ]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check "../..[lsp]"
    export AMPLINT_PYTHON="$folder/bin/python"
fi
npm test
npm run package
