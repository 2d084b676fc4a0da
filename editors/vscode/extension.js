"use strict";

// Starts amplint's language server and connects it to the editor, which does all the rest by the protocol.

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");
const { launch } = require("./launch");

/** @type {LanguageClient | undefined} */
let client;
/** Starts and stops follow each other: a change of settings may come while the server starts. */
let done = Promise.resolve();

/** @param {vscode.ExtensionContext} context */
async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("amplint.restart", restart),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("amplint")) {
        void restart();
      }
    }),
  );
  await restart();
}

/** @returns {Promise<void>} */
function deactivate() {
  return next(stop);
}

function restart() {
  return next(async () => {
    await stop();
    await start();
  });
}

/** @param {() => Promise<void>} work */
function next(work) {
  done = done.then(work, work);
  return done;
}

async function start() {
  const settings = vscode.workspace.getConfiguration("amplint");
  if (!settings.get("enable")) {
    return;
  }
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  const { command, args } = launch(
    { path: settings.get("path"), interpreter: settings.get("interpreter") },
    folder,
  );
  const started = new LanguageClient(
    "amplint",
    "amplint",
    // Python looks for modules where it starts: not among those of the workspace.
    { command, args, options: { cwd: __dirname } },
    {
      documentSelector: [
        { language: "python", scheme: "file" },
        { language: "python", scheme: "untitled" },
      ],
      initializationOptions: { amplint: settings.get("settings") ?? {} },
    },
  );
  try {
    await started.start();
    client = started;
  } catch (error) {
    await started.stop().catch(() => undefined);
    const how = 'pip install "amplint[lsp] @ git+https://github.com/amplint/amplint"';
    void vscode.window.showErrorMessage(`amplint: \`${command}\` did not start (${how}): ${error}`);
  }
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.stop();
}

module.exports = { activate, deactivate };
