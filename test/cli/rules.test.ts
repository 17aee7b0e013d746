import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import type { NewApprovalRule } from "../../src/api/ApprovalRules.ts"
import { RULES_SCHEMA_FILE, rulesFileJsonSchema } from "../../src/api/RulesFile.ts"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { cliWithCode } from "../support/cli.ts"
import { send, service } from "../support/service.ts"

/** A directory, the command line with an admin key, and the organization's clients. */
const workplace = Effect.fnUntraced(function* (organization: string) {
  const countersign = yield* Countersign
  const key = yield* countersign.key({}, organization)
  const admin = yield* countersign.clientWith(key)
  const directory = yield* Effect.acquireRelease(
    Effect.promise(() => mkdtemp(path.join(tmpdir(), "countersign-rules-"))),
    (made) => Effect.promise(() => rm(made, { recursive: true, force: true }))
  )
  const file = (name: string) => path.join(directory, name)
  const variables = { COUNTERSIGN_KEY: Redacted.value(key) }
  return {
    admin,
    variables,
    reviewer: yield* countersign.client({ preset: "reviewer", name: "Ada" }, organization),
    file,
    url: countersign.url,
    /** Runs `rules` with the arguments; a name of a file is one in the directory. */
    rules: (command: string, name: string, ...args: ReadonlyArray<string>) =>
      cliWithCode(["rules", command, "--url", countersign.url, ...args, file(name)], variables),
    read: (name: string) => Effect.promise(() => readFile(file(name), "utf8")),
    write: (name: string, text: string) => Effect.promise(() => writeFile(file(name), text)),
    files: Effect.promise(() => readdir(directory))
  }
})

const rules: ReadonlyArray<NewApprovalRule> = [
  { tool: "search.*", effect: "allow" },
  {
    tool: "payments.refund",
    when: [
      { pointer: "/amount", op: "at_most", value: 100 },
      { pointer: "/to", op: "in", value: ["no", "on: #1", "0x10", "null"] }
    ],
    effect: "allow",
    reason: 'Small refunds: "no" question,\nin two lines'
  },
  {
    effect: "require_approval",
    review_seconds: 60,
    quorum: [{ count: 2 }],
    timeout_action: "allow",
    require_comment: "reject"
  }
]

layer(service(), { excludeTestServices: true })("countersign rules", (it) => {
  it.effect(
    "pulled rules change nothing when they are applied, and a pull after it writes the same bytes",
    () =>
      Effect.gen(function* () {
        for (const name of ["rules.yaml", "rules.json"]) {
          const at = yield* workplace(`round trip of ${name}`)
          const stored = yield* at.admin.approvalRules.replace({ payload: { rules } })
          assert.strictEqual((yield* at.rules("pull", name)).code, 0)
          const pulled = yield* at.read(name)
          assert.include(pulled, `${at.url}/${RULES_SCHEMA_FILE}`)
          assert.strictEqual((yield* at.rules("diff", name)).code, 0)
          const applied = yield* at.rules("apply", name)
          assert.strictEqual(applied.code, 0)
          assert.include(applied.err, "nothing to change")
          assert.deepStrictEqual(yield* at.admin.approvalRules.get({}), stored)

          // Also through a service that has none of the rules.
          yield* at.admin.approvalRules.replace({ payload: { rules: [] } })
          assert.strictEqual((yield* at.rules("apply", name)).code, 0)
          assert.deepStrictEqual((yield* at.admin.approvalRules.get({})).rules, stored.rules)
          yield* at.write(
            name,
            "rules: []".replace("rules", name.endsWith("json") ? '{"rules"' : "rules") +
              (name.endsWith("json") ? "}" : "")
          )
          assert.strictEqual((yield* at.rules("pull", name)).code, 0)
          if (name.endsWith("json")) assert.strictEqual(yield* at.read(name), pulled)
          else assert.include(pulled, yield* at.read(name))
          assert.deepStrictEqual(yield* at.files, [name])
        }
      }).pipe(Effect.scoped)
  )

  it.effect("a pull into a YAML file keeps the comments and the notation of rules that are still there", () =>
    Effect.gen(function* () {
      const at = yield* workplace("comments")
      const text = [
        "# Our rules",
        "rules:",
        "  # Reading is harmless.",
        "  - { tool: search.*, effect: allow } # always",
        "  # Ask about everything else.",
        "  - effect: require_approval",
        "    review_seconds: 60 # one minute",
        ""
      ].join("\n")
      yield* at.write("rules.yaml", text)
      const applied = yield* at.rules("apply", "rules.yaml")
      assert.strictEqual(applied.code, 0, applied.err)
      assert.include(applied.out, "+ - tool: search.*")
      // Rules without an id keep theirs, and a file that says the same is not touched.
      const first = yield* at.admin.approvalRules.get({})
      assert.include((yield* at.rules("apply", "rules.yaml")).err, "nothing to change")
      assert.include((yield* at.rules("pull", "rules.yaml")).err, "unchanged")
      assert.strictEqual(yield* at.read("rules.yaml"), text)

      const [search, ask] = first.rules
      if (search === undefined || ask === undefined) return assert.fail("there are two")
      yield* at.admin.approvalRules.replace({
        payload: { rules: [{ tool: "drop.*", effect: "reject", reason: "Never" }, search, ask] }
      })
      assert.strictEqual((yield* at.rules("pull", "rules.yaml")).code, 0)
      const updated = yield* at.read("rules.yaml")
      for (const kept of [
        "# Our rules",
        "tool: search.*, effect: allow }",
        "# always",
        "# Ask about everything",
        "# one minute"
      ])
        assert.include(updated, kept)
      assert.include(updated, "tool: drop.*")
      assert.strictEqual((yield* at.rules("diff", "rules.yaml")).code, 0)
    }).pipe(Effect.scoped)
  )

  it.effect("apply shows what changes, and refuses a revision that is no longer current", () =>
    Effect.gen(function* () {
      const at = yield* workplace("stale")
      const { revision } = yield* at.admin.approvalRules.replace({ payload: { rules } })
      yield* at.rules("pull", "rules.yaml")
      const pulled = yield* at.read("rules.yaml")
      yield* at.write("rules.yaml", pulled.replace("value: 100", "value: 250"))
      const differs = yield* at.rules("diff", "rules.yaml")
      assert.strictEqual(differs.code, 1)
      assert.match(differs.out, /^-\s+value: 100$/m)
      assert.match(differs.out, /^\+\s+value: 250$/m)
      yield* at.admin.approvalRules.replace({ payload: { rules: [...rules, { effect: "reject" }] } })
      const refused = yield* at.rules("apply", "rules.yaml", "--revision", String(revision))
      assert.strictEqual(refused.code, 2)
      assert.include(refused.err, "RULES_CHANGED")
      assert.lengthOf((yield* at.admin.approvalRules.get({})).rules, 4)
      const applied = yield* at.rules("apply", "rules.yaml", "--revision", String(revision + 1))
      assert.strictEqual(applied.code, 0, applied.err)
      assert.include(applied.out, "value: 250")
      assert.lengthOf((yield* at.admin.approvalRules.get({})).rules, 3)
    }).pipe(Effect.scoped)
  )

  it.effect("invisible characters of rules are shown as escapes, and cannot write to the terminal", () =>
    Effect.gen(function* () {
      const at = yield* workplace("invisible")
      const reason = "\u001b[31mred\u009b31m\u202e\u200b"
      yield* at.admin.approvalRules.replace({ payload: { rules: [{ effect: "reject", reason }] } })
      yield* at.write("rules.yaml", "rules: []\n")
      const { out } = yield* at.rules("diff", "rules.yaml")
      assert.include(out, String.raw`red\u{9b}31m\u{202e}\u{200b}`)
      for (const character of ["\u001b", "\u009b", "\u202e", "\u200b"]) assert.notInclude(out, character)
    }).pipe(Effect.scoped)
  )

  it.effect("faults are shown with their line and column, also those that only the service finds", () =>
    Effect.gen(function* () {
      const at = yield* workplace("faults")
      const faults = Effect.fnUntraced(function* (name: string, text: string) {
        yield* at.write(name, text)
        const { code, err } = yield* at.rules("apply", name)
        assert.strictEqual(code, 2, err)
        return err.replaceAll(at.file(name), name)
      })
      assert.include(
        yield* faults("a.yaml", "rules:\n  - effect: allow\n    whn: []\n"),
        "a.yaml:3:5: #/rules/0/whn: "
      )
      assert.include(
        yield* faults("b.yaml", "rules:\n  - tool: x\n    effect: permit\n"),
        "b.yaml:3:5: #/rules/0/effect: "
      )
      assert.match(yield* faults("c.yaml", "rules: [\n"), /c\.yaml:\d+:\d+: /)
      assert.include(
        yield* faults(
          "d.yaml",
          "rules:\n  - effect: allow\n    review_seconds: 5\n    expiring_seconds: 5\n"
        ),
        "d.yaml:4:5: #/rules/0/expiring_seconds: Expected less than review_seconds."
      )
      assert.include(
        yield* faults(
          "e.yaml",
          "rules:\n  - effect: allow\n    when:\n      - { pointer: /n, op: at_most, value: 12345678901234567890 }\n"
        ),
        "e.yaml:4:44: Expected a number that JSON can hold exactly."
      )
      assert.include(yield* faults("f.json", '{"rules": [], "rules": []}'), "f.json:#/rules")
      // YAML, and not JSON.
      assert.include(
        yield* faults("h.json", '{"rules": [\n]} # none'),
        "h.json:2:4: Not JSON: expected the end of the text"
      )
      assert.include(yield* faults("i.json", "rules: []"), "i.json:1:1: Not JSON: expected a value")
      assert.include(yield* faults("g.txt", "rules: []"), "must end in .yaml, .yml or .json")
      assert.include((yield* at.rules("apply", "missing.yaml")).err, "does not exist")
      assert.deepStrictEqual(yield* at.admin.approvalRules.get({}), {
        rules: [],
        revision: 0,
        warnings: []
      })
    }).pipe(Effect.scoped)
  )

  it.effect("test exits with 1 if a step that a person rejected would run, and links to it", () =>
    Effect.gen(function* () {
      const at = yield* workplace("gate")
      const { session_id } = yield* at.admin.sessions.create({})
      const { approval_id } = yield* at.admin.sessions.step({
        params: { id: session_id },
        payload: {
          step_id: StepId.make("1"),
          tool: "payments.refund",
          action_class: "write",
          arguments: { amount: 90 }
        }
      })
      if (approval_id === null) return assert.fail("it waits for a person")
      yield* at.reviewer.approvals.decide({
        params: { id: approval_id },
        payload: { decision: "reject", comment: "Not\u001b[2J this\none" }
      })
      const gate = Effect.fnUntraced(function* (text: string, ...args: ReadonlyArray<string>) {
        yield* at.write("rules.yaml", text)
        return yield* at.rules("test", "rules.yaml", ...args)
      })
      const upTo = (amount: number) =>
        `rules:\n  - effect: allow\n    when: [{ pointer: /amount, op: at_most, value: ${amount} }]\n`
      const passed = yield* gate(upTo(80), "--since", "1h")
      assert.strictEqual(passed.code, 0, passed.err)
      assert.include(passed.out, "1 step from ")
      assert.include(passed.out, "0 steps that a person rejected would run")
      const failed = yield* gate(upTo(100), "--since", "1h")
      assert.strictEqual(failed.code, 1)
      assert.include(failed.out, `${at.url}/console/approvals/${approval_id}`)
      assert.include(failed.out, "rejected by Ada: Not [2J this one")
      assert.include(failed.err, "1 step that a person rejected would run")
      const lines = yield* gate(upTo(100), "--json")
      assert.deepInclude(JSON.parse(lines.out.split("\n").at(-1) ?? ""), {
        type: "result",
        rejected_would_run: 1
      })
      const before = yield* gate(upTo(100), "--since", "2026-01-01", "--until", "2026-02-01")
      assert.strictEqual(before.code, 0, before.err)
      for (const args of [["--since", "soon"], ["--until", "2026-13-01"], ["--bogus"]])
        assert.strictEqual((yield* gate(upTo(100), ...args)).code, 2, args.join(" "))
      assert.strictEqual((yield* cliWithCode(["rules", "test", at.file("rules.yaml")])).code, 2)
    }).pipe(Effect.scoped)
  )

  it.effect("test and apply warn about rules that trust the agent's own statements, at their line", () =>
    Effect.gen(function* () {
      const { rules, write } = yield* workplace("warnings")
      yield* write(
        "rules.yaml",
        "rules:\n  - effect: reject\n    tool: x\n  - action_class: read\n    effect: allow\n"
      )
      for (const command of ["test", "apply"]) {
        const { code, err } = yield* rules(command, "rules.yaml")
        assert.strictEqual(code, 0)
        assert.match(err, /rules\.yaml:4:5: warning: #\/rules\/1: Allows any tool by its action class/u)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("the service serves the JSON Schema of the files, without a key", () =>
    Effect.gen(function* () {
      const { body, headers, status } = yield* send(`/${RULES_SCHEMA_FILE}`)
      assert.strictEqual(status, 200)
      assert.strictEqual(headers.get("content-type"), "application/schema+json")
      assert.deepStrictEqual(body, rulesFileJsonSchema())
    })
  )

  it.effect(
    "shadow rules are applied, compared, listed and promoted, and the live ones stay until then",
    () =>
      Effect.gen(function* () {
        const at = yield* workplace("shadow")
        const shadow = (...args: ReadonlyArray<string>) => {
          const [command = "", ...rest] = args
          return cliWithCode(["rules", "shadow", command, "--url", at.url, ...rest], at.variables)
        }
        const live = yield* at.admin.approvalRules.replace({ payload: { rules: [{ effect: "allow" }] } })
        yield* at.write("rules.yaml", "rules:\n  - effect: reject\n    reason: Frozen\n  - effect: allow\n")
        assert.include((yield* shadow("pull")).err, "shadow revision 0: no shadow rules")
        assert.strictEqual((yield* shadow("promote", "--revision", "0")).code, 2)
        assert.strictEqual((yield* shadow("diff", at.file("rules.yaml"))).code, 1)
        const applied = yield* shadow("apply", at.file("rules.yaml"))
        assert.strictEqual(applied.code, 0, applied.err)
        assert.include(applied.err, "applied: shadow revision 1: 2 rules")
        assert.include((yield* shadow("apply", at.file("rules.yaml"))).err, "nothing to change")
        assert.strictEqual((yield* shadow("diff", at.file("rules.yaml"))).code, 0)
        assert.deepStrictEqual(yield* at.admin.approvalRules.get({}), live)
        // A rule with the content of a live one has its id.
        const stored = yield* at.admin.approvalRules.getShadow({})
        assert.strictEqual(stored.rules[1]?.id, live.rules[0]?.id)

        const { session_id } = yield* at.admin.sessions.create({})
        yield* at.admin.sessions.step({
          params: { id: session_id },
          payload: { step_id: StepId.make("2"), tool: "pay", action_class: "write" }
        })
        const listed = yield* shadow("differences")
        assert.strictEqual(listed.code, 0, listed.err)
        assert.include(listed.err, "allowed, would be rejected: 1 step")
        assert.include(listed.out, "pay (write) allowed, would be rejected")
        assert.include(listed.out, "shadow: Frozen")
        assert.include(listed.out, `/console/sessions/${session_id}`)
        const json: unknown = JSON.parse((yield* shadow("differences", "--json", "--limit", "1")).out)
        assert.deepInclude(json, { revision: 1, changes: [{ live: "allow", shadow: "reject", steps: 1 }] })

        const stale = yield* shadow("promote", "--revision", "7")
        assert.strictEqual(stale.code, 2)
        assert.include(stale.err, "RULES_CHANGED: the shadow rules have revision 1, not 7")
        const promoted = yield* shadow("promote", "--revision", "1")
        assert.strictEqual(promoted.code, 0, promoted.err)
        assert.include(promoted.out, "reason: Frozen")
        assert.deepStrictEqual((yield* at.admin.approvalRules.get({})).rules, stored.rules)
        assert.strictEqual((yield* shadow("apply", at.file("rules.yaml"))).code, 0)
        assert.strictEqual((yield* shadow("remove")).code, 0)
        assert.isFalse((yield* at.admin.approvalRules.getShadow({})).active)
      }).pipe(Effect.scoped)
  )
})
