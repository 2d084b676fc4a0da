"use strict";

// Which process is the language server, by the user's settings.

const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

/** The folders of a workspace in which a virtual environment is looked for. */
const ENVIRONMENTS = [".venv", "venv"];

/**
 * The command that starts the server.
 *
 * @param {{path?: string, interpreter?: string}} settings
 * @param {string | undefined} folder The folder of the workspace, if one is open.
 * @returns {{command: string, args: string[]}}
 */
function launch(settings, folder) {
  if (settings.path) {
    return { command: replaced(settings.path, folder), args: ["server"] };
  }
  if (settings.interpreter) {
    return { command: replaced(settings.interpreter, folder), args: ["-m", "amplint", "server"] };
  }
  return { command: installed(folder) ?? "amplint", args: ["server"] };
}

/**
 * The executable in the workspace's own virtual environment.
 *
 * @param {string | undefined} folder
 * @returns {string | undefined}
 */
function installed(folder) {
  const inside = process.platform === "win32" ? ["Scripts", "amplint.exe"] : ["bin", "amplint"];
  return ENVIRONMENTS.map((name) => path.join(folder ?? "", name, ...inside)).find(
    (each) => folder && fs.existsSync(each),
  );
}

/**
 * @param {string} text
 * @param {string | undefined} folder
 */
function replaced(text, folder) {
  return text.replaceAll("${workspaceFolder}", folder ?? "").replace(/^~(?=[/\\])/, os.homedir());
}

module.exports = { launch };
