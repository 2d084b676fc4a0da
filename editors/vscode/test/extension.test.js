"use strict";

// The extension as it is, with a stand-in for the editor, and the real server that it starts.
//
// AMPLINT_PYTHON names a Python in which `amplint[lsp]` is installed; it is `python3` otherwise.

const assert = require("node:assert");
const { spawn, spawnSync } = require("node:child_process");
const fs = require("node:fs");
const Module = require("node:module");
const os = require("node:os");
const path = require("node:path");
const { after, before, beforeEach, test } = require("node:test");
const protocol = require("vscode-languageserver-protocol/node");
const { launch } = require("../launch");

const PYTHON = spawnSync(process.env.AMPLINT_PYTHON ?? "python3", ["-c", "import sys; print(sys.executable)"], {
  encoding: "utf-8",
}).stdout.trim();
const OLD = "import torch\n\n\ndef forward(model, x):\n    with torch.cuda.amp.autocast():\n        return model(x)\n";

/** A client of the server: it starts what the extension says, and talks to it as an editor does. */
class Client {
  /** @type {Client[]} */
  static all = [];

  constructor(id, name, server, options) {
    this.server = server;
    this.options = options;
    this.messages = [];
    Client.all.push(this);
  }

  async start() {
    const { command, args, options } = this.server;
    this.process = spawn(command, args, { ...options, stdio: ["pipe", "pipe", "inherit"] });
    this.ended = new Promise((resolve) => this.process.once("exit", resolve));
    await new Promise((resolve, reject) => this.process.once("spawn", resolve).once("error", reject));
    this.connection = protocol.createProtocolConnection(
      new protocol.StreamMessageReader(this.process.stdout),
      new protocol.StreamMessageWriter(this.process.stdin),
    );
    this.connection.onNotification("window/showMessage", (each) => this.messages.push(each.message));
    this.connection.onRequest("workspace/diagnostic/refresh", () => null);
    this.connection.listen();
    this.initialized = await this.connection.sendRequest("initialize", {
      processId: process.pid,
      rootUri: `file://${folder}`,
      capabilities: {
        textDocument: { diagnostic: {}, codeAction: { resolveSupport: { properties: ["edit"] } } },
        workspace: { diagnostics: { refreshSupport: true } },
      },
      initializationOptions: this.options.initializationOptions,
    });
    await this.connection.sendNotification("initialized", {});
  }

  async stop() {
    if (this.connection) {
      await this.connection.sendRequest("shutdown");
      await this.connection.sendNotification("exit");
      this.code = await this.ended;
      this.connection.dispose();
    }
  }

  /** What the server finds in a text. */
  async diagnostics(text) {
    const uri = `file://${folder}/train.py`;
    await this.connection.sendNotification("textDocument/didOpen", {
      textDocument: { uri, languageId: "python", version: 1, text },
    });
    return (await this.connection.sendRequest("textDocument/diagnostic", { textDocument: { uri } })).items;
  }
}

const editor = { settings: {}, commands: {}, changed: () => {}, errors: [] };
const vscode = {
  commands: {
    registerCommand: (name, work) => {
      editor.commands[name] = work;
      return { dispose() {} };
    },
  },
  workspace: {
    getConfiguration: () => ({ get: (name) => editor.settings[name] }),
    onDidChangeConfiguration: (listener) => {
      editor.changed = (name) => listener({ affectsConfiguration: (each) => name.startsWith(each) });
      return { dispose() {} };
    },
    get workspaceFolders() {
      return [{ uri: { fsPath: folder } }];
    },
  },
  window: { showErrorMessage: (message) => editor.errors.push(message) },
};
const load = Module._load;
let folder = "";
let extension;

before(() => {
  Module._load = (name, ...more) => {
    const standIn = { vscode, "vscode-languageclient/node": { LanguageClient: Client } }[name];
    return standIn ?? load(name, ...more);
  };
  extension = require("../extension");
});

after(() => {
  Module._load = load;
});

beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "amplint-vscode-"));
  fs.writeFileSync(path.join(folder, "typing.py"), "raise SystemExit('the workspace is not to be run')\n");
  Client.all = [];
  editor.errors = [];
  editor.settings = { enable: true, path: "", interpreter: PYTHON, settings: {} };
});

/** The clients that run after all that was asked for is done. */
async function settled() {
  await extension.deactivate();
  return Client.all;
}

test("the server finds, links and fixes", async () => {
  await extension.activate({ subscriptions: [] });
  const [client] = Client.all;
  assert.deepEqual(client.initialized.capabilities.diagnosticProvider.interFileDependencies, true);
  const [found] = await client.diagnostics(OLD);
  assert.equal(found.code, "AMP101");
  assert.equal(found.codeDescription.href, "https://amplint.github.io/amplint/rules/AMP101/");
  const actions = await client.connection.sendRequest("textDocument/codeAction", {
    textDocument: { uri: `file://${folder}/train.py` },
    range: found.range,
    context: { diagnostics: [found], only: ["quickfix"] },
  });
  assert.match(actions[0].title, /^AMP101: /);
  await settled();
  assert.equal(client.code, 0);
  assert.deepEqual(client.messages, []);
});

test("settings reach the server, and a change starts it again", async () => {
  await extension.activate({ subscriptions: [] });
  editor.settings.settings = { ignore: ["AMP101"] };
  editor.changed("amplint.settings");
  editor.changed("editor.fontSize");
  await editor.commands["amplint.restart"]();
  const last = Client.all.at(-1);
  assert.equal(Client.all.length, 3);
  assert.deepEqual(await last.diagnostics(OLD), []);
  assert.deepEqual(
    (await settled()).map((each) => each.code),
    [0, 0, 0],
  );
});

test("nothing is started where it is switched off", async () => {
  editor.settings.enable = false;
  await extension.activate({ subscriptions: [] });
  assert.deepEqual(await settled(), []);
  editor.settings.enable = true;
});

test("a server that is not there is said, and a later start works", async () => {
  editor.settings.interpreter = "/nowhere/python";
  await extension.activate({ subscriptions: [] });
  assert.equal(editor.errors.length, 1);
  assert.match(editor.errors[0], /`\/nowhere\/python` did not start \(pip install "amplint\[lsp\]/);
  editor.settings.interpreter = PYTHON;
  await editor.commands["amplint.restart"]();
  assert.equal((await Client.all.at(-1).diagnostics(OLD)).length, 1);
  await settled();
});

test("which command starts the server", () => {
  assert.deepEqual(launch({}, undefined), { command: "amplint", args: ["server"] });
  assert.deepEqual(launch({}, folder), { command: "amplint", args: ["server"] });
  assert.deepEqual(launch({ path: "${workspaceFolder}/bin/amplint" }, "/w"), {
    command: "/w/bin/amplint",
    args: ["server"],
  });
  assert.deepEqual(launch({ interpreter: "~/py/bin/python" }, "/w"), {
    command: path.join(os.homedir(), "py/bin/python"),
    args: ["-m", "amplint", "server"],
  });
  assert.deepEqual(launch({ path: "/a", interpreter: "/b" }, "/w").command, "/a");
  const inside = path.join(folder, ".venv", ...(process.platform === "win32" ? ["Scripts", "amplint.exe"] : ["bin", "amplint"]));
  fs.mkdirSync(path.dirname(inside), { recursive: true });
  fs.writeFileSync(inside, "");
  assert.deepEqual(launch({}, folder), { command: inside, args: ["server"] });
});
