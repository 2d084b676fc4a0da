"use strict";

// What is packaged loads by itself: all that it needs is in the package, but for the editor's own module.

const assert = require("node:assert");
const { spawnSync } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { test } = require("node:test");
const { createVSIX } = require("@vscode/vsce");

// Each name of the stand-in is a class, from which the language client makes its own.
const LOAD = `
const Module = require("node:module");
const load = Module._load;
const editor = new Proxy({}, { get: () => class {} });
Module._load = (name, ...more) => (name === "vscode" ? editor : load(name, ...more));
const { activate, deactivate } = require("./extension");
console.log(typeof activate, typeof deactivate);
`;

test("the package loads", async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "amplint-vsix-"));
  const vsix = path.join(folder, "amplint.vsix");
  await createVSIX({ cwd: path.dirname(__dirname), packagePath: vsix });
  spawnSync("python3", ["-m", "zipfile", "-e", vsix, folder]);
  const extension = path.join(folder, "extension");
  const loaded = spawnSync(process.execPath, ["-e", LOAD], { cwd: extension, encoding: "utf-8" });
  assert.equal(loaded.stderr, "");
  assert.equal(loaded.stdout, "function function\n");
  assert.ok(!fs.existsSync(path.join(extension, "test")));
  fs.rmSync(folder, { recursive: true });
});
