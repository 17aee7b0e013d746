import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { ProcessEnvironment } from "../../../src/cli/environment.ts"
import { countersign } from "../../../src/cli/countersign.ts"
import { withHooks, withoutHooks } from "../../../src/cli/hook/hookSettings.ts"
import { spawnCli } from "../../support/process.ts"

/** A project, and the command in it. */
const project = Effect.gen(function* () {
  const directory = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(path.join(tmpdir(), "countersign-install-"))),
    (made) => Effect.sync(() => rmSync(made, { recursive: true, force: true }))
  )
  const run = (...args: ReadonlyArray<string>) =>
    countersign(["hook", ...args]).pipe(
      Effect.provideService(ProcessEnvironment, {
        // Without coding agents in the PATH.
        variables: {
          HOME: path.join(directory, "home"),
          PATH: path.join(directory, "bin"),
          COUNTERSIGN_KEY: "csk_secret"
        },
        machine: { cwd: directory, uid: 1000 }
      })
    )
  const file = path.join(directory, ".claude", "settings.json")
  return { directory, file, run }
})

/** Blocks a call whose command cannot be started, in any shell. */
const ENDS_CLOSED = `|| /bin/sh -c 'echo "countersign hook failed" >&2; exit 2'`

/** Settings of a user, with a hook of another program. */
const existing = `{
\t"model": "opus",
\t"hooks": {
\t\t"PreToolUse": [
\t\t\t{ "matcher": "Bash", "hooks": [{ "type": "command", "command": "./lint.sh" }] }
\t\t]
\t},
\t"permissions": { "deny": ["Read(.env)"] }
}
`

const read = (file: string): Readonly<Record<string, unknown>> =>
  Object(JSON.parse(readFileSync(file, "utf8")))

describe("countersign hook install", () => {
  it.effect("writes the hooks, and nothing twice", () =>
    Effect.gen(function* () {
      const { file, run } = yield* project
      yield* run("install", "claude-code", "--yes")
      const written = readFileSync(file, "utf8")
      assert.notInclude(written, "csk_secret")
      const hooks: Record<string, ReadonlyArray<unknown>> = Object(read(file)["hooks"])
      assert.deepStrictEqual(Object.keys(hooks), [
        "PreToolUse",
        "PermissionRequest",
        "PostToolUse",
        "PostToolUseFailure",
        "SessionEnd"
      ])
      assert.deepStrictEqual(hooks["PreToolUse"], [
        {
          hooks: [
            {
              type: "command",
              command: `countersign hook claude-code --wait 9m ${ENDS_CLOSED}`,
              timeout: 600,
              onFailure: "block",
              statusMessage: "Waiting for Countersign"
            }
          ]
        }
      ])
      // Commands in the text of a skill are shown to no hook.
      assert.strictEqual(read(file)["disableSkillShellExecution"], true)
      assert.strictEqual(statSync(file).mode & 0o777, 0o644)
      yield* run("install", "claude-code", "--yes")
      assert.strictEqual(readFileSync(file, "utf8"), written)
      // Other options replace the hooks.
      yield* run(
        "install",
        "claude-code",
        "--yes",
        "--wait",
        "2h",
        "--defer",
        "--url",
        "https://approve.example/",
        "--key-file",
        "agent.key"
      )
      const changed = readFileSync(file, "utf8")
      assert.notInclude(changed, "--wait 9m")
      const key = path.join(path.dirname(path.dirname(file)), "agent.key")
      assert.include(
        changed,
        `"countersign hook claude-code --wait 2h --defer --key-file ${key} --url https://approve.example || `
      )
      assert.include(changed, '"timeout": 7260')
      yield* run("uninstall", "claude-code", "--yes")
      assert.deepStrictEqual(read(file), { disableSkillShellExecution: true })
    }).pipe(Effect.scoped)
  )

  it.effect("keeps what is there: other hooks, the indentation, the mode and a symbolic link", () =>
    Effect.gen(function* () {
      const { directory, file, run } = yield* project
      mkdirSync(path.dirname(file))
      const target = path.join(directory, "dotfiles.json")
      writeFileSync(target, existing)
      chmodSync(target, 0o640)
      symlinkSync(target, file)
      yield* run("install", "claude-code", "--yes", "--http")
      assert.isTrue(lstatSync(file).isSymbolicLink())
      assert.strictEqual(statSync(target).mode & 0o777, 0o640)
      assert.deepStrictEqual(readdirSync(path.dirname(file)), ["settings.json"])
      const text = readFileSync(target, "utf8")
      assert.include(text, '\n\t"model": "opus"')
      const { hooks, ...others } = read(target)
      const { hooks: hadHooks, ...had } = Object(JSON.parse(existing))
      assert.deepStrictEqual(others, { ...had, disableSkillShellExecution: true })
      const [lint, ours] = Object(hooks).PreToolUse
      assert.deepStrictEqual(lint, hadHooks.PreToolUse[0])
      assert.deepInclude(ours.hooks[0], {
        type: "http",
        url: "http://127.0.0.1:8080/v1/hooks/claude-code?wait_seconds=50",
        timeout: 110,
        headers: { Authorization: "Bearer $COUNTERSIGN_KEY" },
        allowedEnvVars: ["COUNTERSIGN_KEY"],
        onFailure: "block"
      })
      yield* run("install", "claude-code", "--yes", "--http", "--wait", "9m", "--defer")
      assert.include(readFileSync(target, "utf8"), '/v1/hooks/claude-code?wait_seconds=540&defer=true"')
      // The command in place of the HTTP hooks, then neither.
      yield* run("install", "claude-code", "--yes")
      assert.notInclude(readFileSync(target, "utf8"), "/v1/hooks/")
      yield* run("uninstall", "claude-code", "--yes")
      assert.deepStrictEqual(read(target), { ...JSON.parse(existing), disableSkillShellExecution: true })
    }).pipe(Effect.scoped)
  )

  it.effect("writes Codex' hooks, which block if the command cannot be started", () =>
    Effect.gen(function* () {
      const { directory, run } = yield* project
      yield* run("install", "codex", "--user", "--yes", "--program", "npx countersign")
      const file = path.join(directory, "home", ".codex", "hooks.json")
      assert.strictEqual(statSync(file).mode & 0o777, 0o600)
      const hooks = Object(read(file)["hooks"])
      assert.deepStrictEqual(Object.keys(hooks), [
        "PreToolUse",
        "PermissionRequest",
        "PostToolUse",
        "SessionEnd"
      ])
      assert.strictEqual(
        hooks.PreToolUse[0].hooks[0].command,
        `npx countersign hook codex --wait 9m ${ENDS_CLOSED}`
      )
      const config = path.join(directory, "home", ".codex", "config.toml")
      assert.strictEqual(readFileSync(config, "utf8"), "[features]\nunified_exec_tty = false\n")
      yield* run("uninstall", "codex", "--user", "--yes")
      assert.deepStrictEqual(read(file), {})
    }).pipe(Effect.scoped)
  )

  it.effect("changes no file that it does not understand, and no file at all without a confirmation", () =>
    Effect.gen(function* () {
      const { directory, file, run } = yield* project
      mkdirSync(path.dirname(file))
      for (const text of ["{", "[]", '{"hooks":[]}', '{"hooks":{"PreToolUse":{}}}', "// comment\n{}"]) {
        writeFileSync(file, text)
        const failure = yield* Effect.flip(run("install", "claude-code", "--yes"))
        assert.include(String(Reflect.get(Object(failure), "cause")), "was not changed, because")
        assert.strictEqual(readFileSync(file, "utf8"), text)
      }
      rmSync(file)
      const child = yield* spawnCli(["hook", "install", "claude-code", "--user"], { HOME: directory })
      yield* child.close
      const { code, err, out } = yield* child.ended
      assert.strictEqual(code, 2)
      assert.include(out, '+   "hooks": {')
      assert.include(err, "this is not a terminal, so nobody can confirm the change: use --yes")
      assert.deepStrictEqual(readdirSync(path.dirname(file)), [])
    }).pipe(Effect.scoped)
  )

  it.effect("refuses options that do not belong together", () =>
    Effect.gen(function* () {
      const { directory, run } = yield* project
      for (const args of [
        ["codex", "--http"],
        ["codex", "--defer"],
        ["claude-code", "--http", "--key-file", "key"],
        ["claude-code", "--http", "--wait", "10m"],
        ["claude-code", "--trust"],
        ["claude-code", "--user", "--managed"],
        ["codex", "--managed", "--trust"],
        ["claude-code", "--wait", "48h"],
        ["claude-code", "--url", "ftp://a.example"],
        ["claude-code", "--url", "https://user:password@a.example"]
      ]) {
        yield* Effect.flip(run("install", ...args, "--yes"))
      }
      assert.deepStrictEqual(readdirSync(directory), [])
    }).pipe(Effect.scoped)
  )

  it.effect("refuses a Claude Code that executes calls whose hook fails", () =>
    Effect.gen(function* () {
      const { directory, file, run } = yield* project
      const bin = path.join(directory, "bin")
      mkdirSync(bin)
      const program = path.join(bin, "claude")
      writeFileSync(program, '#!/bin/sh\necho "2.1.197 (Claude Code)"\n', { mode: 0o755 })
      for (const args of [[], ["--http"]]) {
        const failure = yield* Effect.flip(run("install", "claude-code", "--yes", ...args))
        assert.include(String(Reflect.get(Object(failure), "cause")), "update it to 2.1.295 or later")
      }
      assert.isFalse(existsSync(file))
      writeFileSync(program, '#!/bin/sh\necho "2.1.295 (Claude Code)"\n')
      yield* run("install", "claude-code", "--yes")
      assert.isTrue(existsSync(file))
    }).pipe(Effect.scoped)
  )

  it("quotes what the shell would read", () => {
    const text = withHooks(undefined, {
      vendor: "claude-code",
      url: "https://a.example/it's;rm",
      http: false,
      wait: { text: "9m", millis: 540_000 },
      defer: false,
      keyFile: undefined,
      managed: false,
      program: "countersign"
    })
    assert.include(text, String.raw`--url 'https://a.example/it'\\''s;rm'`)
    assert.deepStrictEqual(JSON.parse(withoutHooks(text)), { disableSkillShellExecution: true })
    assert.strictEqual(withoutHooks('{"hooks": {}}'), '{"hooks": {}}')
  })
})
