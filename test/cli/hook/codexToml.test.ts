import { assert, describe, it } from "@effect/vitest"
import {
  setInTable,
  withFeatures,
  withManagedHooks,
  withoutManagedHooks,
  withTrust
} from "../../../src/cli/hook/codexToml.ts"

const installation = {
  vendor: "codex",
  url: undefined,
  http: false,
  wait: { text: "9m", millis: 540_000 },
  defer: false,
  keyFile: undefined,
  managed: true,
  program: "countersign"
} as const

describe("Codex' settings", () => {
  it("get a value in the table where it belongs, and keep the rest", () => {
    assert.strictEqual(withFeatures(undefined), "[features]\nunified_exec_tty = false\n")
    const before = `model = "a" # [features]
notes = """
[features]
unified_exec_tty = true
"""

[features] # mine
hooks = true
unified_exec_tty = true

[tui]
unified_exec_tty = "another"
`
    const after = withFeatures(before)
    assert.strictEqual(
      after,
      before.replace("hooks = true\nunified_exec_tty = true", "hooks = true\nunified_exec_tty = false")
    )
    assert.strictEqual(withFeatures(after), after)
    assert.strictEqual(
      setInTable("[features]\na = 1\n", "features", "b", true),
      "[features]\nb = true\na = 1\n"
    )
  })

  it("get the hash of a trusted hook once", () => {
    const key = '/home/a "b"/.codex/hooks.json:pre_tool_use:0:0'
    const trusted = withTrust('model = "a"\n', key, "sha256:1")
    assert.strictEqual(
      trusted,
      String.raw`model = "a"

[hooks.state."/home/a \"b\"/.codex/hooks.json:pre_tool_use:0:0"]
trusted_hash = "sha256:1"
`
    )
    assert.strictEqual(withTrust(trusted, key, "sha256:2"), trusted.replace("sha256:1", "sha256:2"))
  })

  it("get no table and no value twice, however the first is written: Codex would not start", () => {
    const trusted = withTrust("", "/home/a/C#/.codex/hooks.json:pre_tool_use:0:0", "sha256:1")
    assert.strictEqual(
      withTrust(trusted, "/home/a/C#/.codex/hooks.json:pre_tool_use:0:0", "sha256:2"),
      trusted.replace("sha256:1", "sha256:2")
    )
    for (const header of ["  [features]", "[ features ] # mine", "[features]\r"])
      for (const name of ["unified_exec_tty", '  "unified_exec_tty"'])
        assert.strictEqual(
          withFeatures(`${header}\n${name} = true\n`),
          `${header}\nunified_exec_tty = false\n`,
          JSON.stringify([header, name])
        )
  })

  it("are found behind delimiters of texts that begin none", () => {
    for (const line of [
      "# \"\"\" and it's '''",
      "a = \"'''\"",
      'a = \'"""\'',
      'a = """ \\""" """',
      'a = """\n\'\'\'\n"""',
      "a = '''\n\\'''"
    ]) {
      const before = `${line}\n[features]\nunified_exec_tty = true\n`
      assert.strictEqual(withFeatures(before), before.replace("true", "false"))
    }
    for (const quote of ['"', "'"]) {
      const header = `[${quote}features${quote}]`
      const before = `${header}\n${quote}unified_exec_tty${quote} = true\n`
      assert.strictEqual(withFeatures(before), `${header}\nunified_exec_tty = false\n`)
    }
  })

  it("are not changed in a form that is not understood", () => {
    assert.throws(() => withFeatures("features = { hooks = true }\n"), "write [features]")
    assert.throws(() => withFeatures("features.hooks = true\n"), "write [features]")
    assert.throws(() => withManagedHooks("hooks = {}\n", installation), "[[hooks.Event]]")
    assert.throws(() => withoutManagedHooks("# countersign hook install: begin\n"), "is missing")
  })

  it("get the machine's hooks once, and lose them", () => {
    const before = '# ours\nallowed_approval_policies = ["never"]\n'
    const installed = withManagedHooks(before, installation)
    assert.include(installed, "[features]\nunified_exec_tty = false\nhooks = true\n")
    assert.include(
      installed,
      String.raw`[[hooks.PreToolUse]]
[[hooks.PreToolUse.hooks]]
type = "command"
command = "countersign hook codex --wait 9m || /bin/sh -c 'echo \"countersign hook failed\" >&2; exit 2'"
timeout = 600
`
    )
    assert.strictEqual(withManagedHooks(installed, installation), installed)
    assert.strictEqual(
      withoutManagedHooks(installed),
      `${before}\n[features]\nunified_exec_tty = false\nhooks = true\n`
    )
  })
})
