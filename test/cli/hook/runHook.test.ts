import { assert, layer } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import { spawn } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import type { HookOptions } from "../../../src/cli/hook/hookOptions.ts"
import { runHook } from "../../../src/cli/hook/runHook.ts"
import { governedRun, type GovernedRun } from "../../adapters/governedRun.ts"
import { startScriptedServer } from "../../support/scripted.ts"
import {
  claudeCode1,
  claudeCode2,
  claudeCodeSubagent,
  codex1,
  codex2,
  codexPermission,
  ended,
  failed,
  succeeded
} from "../../support/hooks/recordedInputs.ts"
import { spawnCli } from "../../support/process.ts"
import { service } from "../../support/service.ts"

/** A coding agent: its hooks, as processes would run them. */
const codingAgent = Effect.fnUntraced(function* (organization: string) {
  const run = yield* governedRun(organization)
  const state = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(path.join(tmpdir(), "countersign-hook-"))),
    (made) => Effect.sync(() => rmSync(made, { recursive: true, force: true }))
  )
  const options: HookOptions = {
    vendor: "claude-code",
    url: run.url,
    key: run.key,
    waitMillis: 30_000,
    defer: false,
    state,
    findAgent: () => undefined
  }
  const hook = async (input: unknown, more: Partial<HookOptions> = {}) => {
    const text = typeof input === "string" ? input : JSON.stringify(input)
    const result = await runHook({ ...options, ...more }, Buffer.from(text))
    const answer: unknown = JSON.parse(result.stdout)
    return { ...result, answer, decision: decisionOf(answer), reason: reasonOf(answer) }
  }
  return { run, options, hook }
})

const specificOf = (answer: unknown): object => Object(Reflect.get(Object(answer), "hookSpecificOutput"))

const decisionOf = (answer: unknown): unknown => {
  const specific = specificOf(answer)
  return (
    Reflect.get(specific, "permissionDecision") ??
    Reflect.get(Object(Reflect.get(specific, "decision")), "behavior")
  )
}

const reasonOf = (answer: unknown): string => {
  const specific = specificOf(answer)
  const message: unknown =
    Reflect.get(specific, "permissionDecisionReason") ??
    Reflect.get(Object(Reflect.get(specific, "decision")), "message")
  return String(message)
}

/** A call of a tool that a rule of the test decides; every other waits for a person. */
const call = (tool_name: string, more: object = {}) => ({ ...claudeCode2, tool_name, ...more })

/** The agent sessions that hooks made, oldest first. */
const sessionsOf = async ({ client }: GovernedRun) => {
  const { sessions } = await client.sessions.list()
  return sessions.filter(({ metadata }) => "coding_agent" in metadata).toReversed()
}

const outcomesOf = async ({ client }: GovernedRun, session: string) => {
  const ends: Array<string> = []
  for await (const event of client.stream(session, { after: 0 })) {
    if (event.type === "tool:outcome") ends.push(`${event.step_id} ${event.status}`)
  }
  return ends
}

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("countersign hook", (it) => {
  it.effect(
    "lets a call pass that a rule allows, records its outcome, and closes the session at its end",
    () =>
      Effect.gen(function* () {
        const { hook, options, run } = yield* codingAgent("hook allows")
        yield* Effect.promise(async () => {
          const asked = await hook(call("read"))
          assert.strictEqual(asked.decision, "allow")
          assert.deepStrictEqual([asked.code, asked.stderr], [0, ""])
          assert.deepStrictEqual((await hook(succeeded(call("read"), { text: "…" }))).answer, {})
          const other = call("read", { tool_use_id: "toolu_2", tool_input: { file: 2 } })
          await hook(other)
          assert.deepStrictEqual((await hook(failed(other, "EACCES"))).answer, {})
          const stopped = call("read", { tool_use_id: "toolu_3", tool_input: { file: 3 } })
          await hook(stopped)
          await hook({ ...failed(stopped, "Interrupted"), is_interrupt: true })
          assert.deepStrictEqual((await hook(ended(claudeCode2))).answer, {})

          const sessions = await sessionsOf(run)
          assert.lengthOf(sessions, 1)
          assert.deepInclude(sessions[0], {
            status: "closed",
            metadata: { coding_agent: "claude-code", coding_session: claudeCode2.session_id }
          })
          assert.deepStrictEqual(await outcomesOf(run, sessions[0]?.session_id ?? ""), [
            `${claudeCode2.tool_use_id} succeeded`,
            "toolu_2 failed"
          ])
          // Files are for their account alone, contain no key, and the session's own are removed.
          const [directory = ""] = readdirSync(options.state)
          const files = readdirSync(path.join(options.state, directory))
          assert.deepStrictEqual(files, ["session.json"])
          const file = path.join(options.state, directory, "session.json")
          assert.strictEqual(statSync(file).mode & 0o777, 0o600)
          assert.strictEqual(statSync(path.join(options.state, directory)).mode & 0o777, 0o700)
          assert.notInclude(readFileSync(file, "utf8"), options.key)
        })
      })
  )

  it.effect("tells the model what rejected a call", () =>
    Effect.gen(function* () {
      const { hook, run } = yield* codingAgent("hook rejects")
      yield* Effect.promise(async () => {
        const byRule = await hook(call("forbidden"))
        assert.strictEqual(byRule.decision, "deny")
        assert.include(byRule.reason, "A rule rejected this call")
        const [byPerson] = await Promise.all([
          hook(call("refund", { tool_use_id: "toolu_2" })),
          run.decide("reject", "refund", { comment: "Wrong order" })
        ])
        assert.include(byPerson.reason, 'Their comment: "Wrong order".')
      })
    })
  )

  it.effect("makes one session for parallel hooks, which ask at once", () =>
    Effect.gen(function* () {
      const { hook, run } = yield* codingAgent("hook parallel")
      yield* Effect.promise(async () => {
        const calls = [1, 2, 3, 4, 5, 6].map((n) =>
          hook(call("refund", { tool_use_id: `toolu_${n}`, tool_input: { n } }))
        )
        for (const n of [6, 5, 4, 3, 2, 1]) await run.decide("approve", "refund", { arguments: { n } })
        assert.deepStrictEqual(
          (await Promise.all(calls)).map(({ decision }) => decision),
          Array.from({ length: 6 }, () => "allow")
        )
        assert.lengthOf(await sessionsOf(run), 1)
      })
    })
  )

  it.effect("asks about two equal calls in parallel twice", () =>
    Effect.gen(function* () {
      const { hook, run } = yield* codingAgent("hook equal")
      yield* Effect.promise(async () => {
        const first = hook(call("refund"))
        const second = hook(call("refund", { tool_use_id: "toolu_2" }))
        await run.decide("approve", "refund")
        await run.decide("reject", "refund")
        const decisions = (await Promise.all([first, second])).map(({ decision }) => decision)
        assert.sameMembers(decisions, ["allow", "deny"])
      })
    })
  )

  it.effect("denies a call for which nobody decided in time, and goes on when the model calls again", () =>
    Effect.gen(function* () {
      const { hook, run } = yield* codingAgent("hook waits")
      yield* Effect.promise(async () => {
        const late = await hook(call("refund"), { waitMillis: 300 })
        assert.strictEqual(late.decision, "deny")
        assert.match(late.reason, /waits for a person \(approval apr_\w+\).*the same call .* asks again/u)
        // The end of the run leaves the session open, because the approval is pending.
        await hook(ended(claudeCode2))
        await run.decide("approve", "refund")
        // The model's next call has another ID. Nobody is asked again, and its outcome is that of the step that was approved.
        const again = call("refund", { tool_use_id: "toolu_again" })
        assert.strictEqual((await hook(again)).decision, "allow")
        assert.strictEqual((await hook(succeeded(again, "done"))).stderr, "")
        // It is not used up by a third one.
        const third = hook(call("refund", { tool_use_id: "toolu_third" }))
        await run.decide("reject", "refund")
        assert.strictEqual((await third).decision, "deny")
        await hook(ended(claudeCode2))
        const [session] = await sessionsOf(run)
        assert.deepStrictEqual(await outcomesOf(run, session?.session_id ?? ""), [
          `${claudeCode2.tool_use_id} succeeded`
        ])
      })
    })
  )

  it.effect("passes a reviewer's question to the model once, and waits on when it calls again", () =>
    Effect.gen(function* () {
      const { hook, run } = yield* codingAgent("hook asked")
      yield* Effect.promise(async () => {
        const waiting = hook(call("refund"))
        const approval = await run.say("refund", "Why?")
        const asked = await waiting
        assert.strictEqual(asked.decision, "deny")
        assert.include(asked.reason, 'A reviewer asks: "Why?".')
        assert.lengthOf(await run.conversation(approval), 2)
        // The run can end meanwhile: the session stays open.
        await hook(ended(claudeCode2))
        const again = hook(call("refund", { tool_use_id: "toolu_again" }))
        await run.decide("approve", "refund")
        assert.strictEqual((await again).decision, "allow")
        assert.lengthOf((await run.client.approvals.list()).approvals, 1)
      })
    })
  )

  it.effect("defers a call, and decides it when the run is resumed", () =>
    Effect.gen(function* () {
      const { hook, run } = yield* codingAgent("hook defers")
      yield* Effect.promise(async () => {
        const deferred = await hook(call("refund"), { defer: true })
        assert.strictEqual(deferred.decision, "defer")
        await hook(ended(claudeCode2), { defer: true })
        assert.strictEqual((await sessionsOf(run))[0]?.status, "open")
        // Resumed too early.
        assert.strictEqual((await hook(call("refund"), { defer: true })).decision, "defer")
        await run.decide("approve", "refund")
        assert.strictEqual((await hook(call("refund"), { defer: true })).decision, "allow")
        await hook(succeeded(call("refund"), "done"))
        // The same ID and arguments after an outcome are another call, about which a person decides.
        assert.strictEqual((await hook(call("refund"), { defer: true })).decision, "defer")
        // A mode that would execute what is not deferred.
        const bypass = call("refund", { tool_use_id: "toolu_2", permission_mode: "bypassPermissions" })
        assert.strictEqual((await hook(bypass, { defer: true })).decision, "deny")
      })
    })
  )

  it.effect("ends a run at one call, and leaves the others of its turn to be called again", () =>
    Effect.gen(function* () {
      const { hook, run } = yield* codingAgent("hook defers several")
      yield* Effect.promise(async () => {
        const amounts = [1, 2, 3]
        const numbered = (n: number) => call("refund", { tool_use_id: `toolu_${n}`, tool_input: { n } })
        const answers = await Promise.all(amounts.map((n) => hook(numbered(n), { defer: true })))
        assert.deepStrictEqual(answers.map(({ decision }) => decision).toSorted(), ["defer", "deny", "deny"])
        const denied = answers.find(({ decision }) => decision === "deny")
        assert.include(denied?.reason, "The run ends at another call of this turn")
        await hook(ended(claudeCode2), { defer: true })
        for (const n of amounts) await run.decide("approve", "refund", { arguments: { n } })
        // The resumed run asks about the deferred call, and the model makes the others again.
        for (const [index, { decision }] of answers.entries()) {
          const n = amounts[index] ?? 0
          const again =
            decision === "defer" ? numbered(n) : { ...numbered(n), tool_use_id: `toolu_again_${n}` }
          assert.strictEqual((await hook(again, { defer: true })).decision, "allow")
        }
        assert.lengthOf((await run.client.approvals.list({ query: {} })).approvals, amounts.length)
      })
    })
  )

  it.effect("leaves the decision for the resumed session when the coding agent has ended", () =>
    Effect.gen(function* () {
      const { hook, run } = yield* codingAgent("hook orphaned")
      const agent = spawn("sleep", ["60"])
      yield* Effect.addFinalizer(() => Effect.sync(() => agent.kill("SIGKILL")))
      yield* Effect.promise(async () => {
        const orphan = hook(call("refund"), { findAgent: () => agent.pid })
        for (;;) {
          const { approvals } = await run.client.approvals.list({ query: { status: "pending" } })
          if (approvals.length === 1) break
        }
        agent.kill("SIGKILL")
        // The resumed session asks before the orphan has noticed, and no person is asked again.
        await new Promise((closed) => agent.once("close", closed))
        const resumed = hook(call("refund", { tool_use_id: "toolu_again" }))
        const { decision, reason } = await orphan
        assert.deepStrictEqual([decision, reason.includes("the coding agent has ended")], ["deny", true])
        await run.decide("approve", "refund")
        assert.strictEqual((await resumed).decision, "allow")
        assert.lengthOf((await run.client.approvals.list({ query: {} })).approvals, 1)
      })
    })
  )

  it.effect("denies in a Claude Code whose version is too old or not known", () =>
    Effect.gen(function* () {
      const { options } = yield* codingAgent("hook version")
      for (const [AI_AGENT, expected] of [
        ["claude-code_2-1-197_harness", /Claude Code 2\.1\.197 executes a call whose hook fails/u],
        ["another", /the version of this Claude Code is not known/u]
      ] as const) {
        const environment = {
          CLAUDECODE: "1",
          AI_AGENT,
          COUNTERSIGN_KEY: options.key,
          COUNTERSIGN_URL: options.url
        }
        const child = yield* spawnCli(["hook", "claude-code"], environment)
        yield* child.write(JSON.stringify(call("read")))
        yield* child.close
        const { code, err, out } = yield* child.ended
        assert.deepStrictEqual([code, out], [2, ""])
        assert.match(err, expected)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("opens another session when a session of the coding agent is resumed after its end", () =>
    Effect.gen(function* () {
      const { hook, options, run } = yield* codingAgent("hook reopens")
      yield* Effect.promise(async () => {
        await hook(call("read"))
        await hook(ended(claudeCode2))
        assert.strictEqual((await hook(call("read", { tool_use_id: "toolu_2" }))).decision, "allow")
        assert.lengthOf(await sessionsOf(run), 2)
        // Closed by a person, and the files are lost: the first session is found again, is closed, and so is the next.
        for (const { session_id } of await sessionsOf(run)) {
          await run.client.sessions.close({ params: { id: session_id } })
        }
        rmSync(options.state, { recursive: true })
        assert.strictEqual((await hook(call("read", { tool_use_id: "toolu_3" }))).decision, "allow")
        assert.lengthOf(await sessionsOf(run), 3)
      })
    })
  )

  it.effect("closes sessions that have not been used for a week, unless a call waits in them", () =>
    Effect.gen(function* () {
      const { hook, options, run } = yield* codingAgent("hook idle")
      yield* Effect.promise(async () => {
        await hook(call("read", { session_id: "idle" }))
        await hook(call("refund", { session_id: "waiting" }), { waitMillis: 0 })
        const week = new Date(Date.now() - 8 * 24 * 60 * 60 * 1_000)
        for (const name of readdirSync(options.state)) utimesSync(path.join(options.state, name), week, week)
        await hook(call("read", { session_id: "new" }))
        const sessions = await sessionsOf(run)
        assert.deepStrictEqual(
          sessions.map(({ metadata, status }) => [Reflect.get(metadata, "coding_session"), status]),
          [
            ["idle", "closed"],
            ["waiting", "open"],
            ["new", "open"]
          ]
        )
        assert.lengthOf(readdirSync(options.state), 2)
        // It is used again.
        const again = await hook(call("read", { session_id: "idle", tool_use_id: "toolu_again" }))
        assert.strictEqual(again.decision, "allow")
      })
    })
  )

  it.effect("answers Codex: nothing for an allowed call, and its permission without asking again", () =>
    Effect.gen(function* () {
      const { hook, run } = yield* codingAgent("hook codex")
      const vendor = "codex" as const
      yield* Effect.promise(async () => {
        const asked = hook(codex1, { vendor })
        await run.decide("approve", "Bash")
        assert.deepStrictEqual((await asked).answer, {})
        const permission = await hook(codexPermission(codex1, "needs the network"), { vendor })
        assert.deepStrictEqual(permission.answer, {
          hookSpecificOutput: { hookEventName: "PermissionRequest", decision: { behavior: "allow" } }
        })
        assert.deepStrictEqual((await hook(succeeded(codex1, "output"), { vendor })).answer, {})

        const denied = hook({ ...codex2, session_id: codex1.session_id }, { vendor })
        await run.decide("reject", "apply_patch", { comment: "Not there" })
        assert.strictEqual((await denied).decision, "deny")
        // A permission alone, for a tool without `PreToolUse`. The reviewer sees the reason.
        const network = {
          ...codexPermission(codex1, "network-access example.com"),
          tool_name: "NetworkAccess"
        }
        const alone = hook(network, { vendor })
        await run.decide("approve", "NetworkAccess", { arguments: network.tool_input })
        assert.strictEqual((await alone).decision, "allow")
        assert.lengthOf(await sessionsOf(run), 1)
      })
    })
  )

  it.effect("records the outcome of a call that only a permission was asked for", () =>
    Effect.gen(function* () {
      const { hook, run } = yield* codingAgent("hook permission")
      const vendor = "codex" as const
      yield* Effect.promise(async () => {
        const asked = hook(codexPermission(codex1, "why"), { vendor })
        await run.decide("approve", "Bash")
        assert.strictEqual((await asked).decision, "allow")
        assert.strictEqual((await hook(succeeded(codex1, "output"), { vendor })).stderr, "")
        // The next equal request is a request of its own.
        const next = hook(codexPermission(codex1, "why"), { vendor })
        await run.decide("reject", "Bash")
        assert.strictEqual((await next).decision, "deny")
      })
    })
  )

  it.effect("denies when the service is out of reach, refuses the key, or has another fault", () =>
    Effect.gen(function* () {
      const { hook } = yield* codingAgent("hook unreachable")
      const faulty = yield* startScriptedServer(Array.from({ length: 20 }, () => ({ status: 500, body: {} })))
      yield* Effect.promise(async () => {
        for (const [more, expected] of [
          [{ key: "csk_wrong" }, /UNAUTHENTICATED|not accepted|key/iu],
          [{ url: faulty.url }, /could not/u],
          [{ url: "not a URL" }, /must be an http or https URL/u]
        ] as const) {
          for (const vendor of ["claude-code", "codex"] as const) {
            const denied = await hook(call("read"), { ...more, vendor })
            assert.strictEqual(denied.decision, "deny")
            assert.match(denied.reason + denied.stderr, expected)
            assert.isNotEmpty(denied.stderr)
          }
        }
      })
    })
  )

  it.effect("denies arguments that the service does not take", () =>
    Effect.gen(function* () {
      const { hook } = yield* codingAgent("hook input")
      yield* Effect.promise(async () => {
        const big = await hook(call("read", { tool_input: { text: "x".repeat(2 ** 20) } }))
        assert.strictEqual(big.decision, "allow")
        const reported = await hook(
          succeeded(call("read", { tool_input: { text: "x".repeat(2 ** 20) } }), "y".repeat(3e6))
        )
        assert.strictEqual(reported.stderr, "")
        for (const tool_input of [{ text: "x".repeat(5 * 2 ** 20) }, { half: "\ud83d" }]) {
          const denied = await hook(call("read", { tool_use_id: "toolu_odd", tool_input }))
          assert.strictEqual(denied.decision, "deny")
          assert.isNotEmpty(denied.stderr)
        }
        const odd = await hook(call("read", { tool_use_id: "toolu_2", tool_input: { "\u202e": "🙂‍↔️ é\t中" } }))
        assert.strictEqual(odd.decision, "allow")
      })
    })
  )

  it.effect("blocks by its exit code what it does not understand", () =>
    Effect.gen(function* () {
      const { hook } = yield* codingAgent("hook faults")
      yield* Effect.promise(async () => {
        for (const vendor of ["claude-code", "codex"] as const) {
          for (const input of [
            JSON.stringify(claudeCode1).slice(0, -3),
            "",
            call("read", { tool_input: undefined })
          ]) {
            const fault = await hook(input, { vendor })
            assert.strictEqual(fault.code, 2)
            assert.match(fault.stderr, /does not understand the hook's input/u)
          }
          assert.strictEqual((await hook({ ...claudeCode1, hook_event_name: "Stop" }, { vendor })).code, 1)
        }
      })
    })
  )

  it.effect("goes on with the step of a hook that was killed while a person was thinking", () =>
    Effect.gen(function* () {
      const { options, run } = yield* codingAgent("hook killed")
      const environment = {
        COUNTERSIGN_KEY: run.key,
        COUNTERSIGN_URL: run.url,
        XDG_STATE_HOME: options.state
      }
      const start = Effect.fnUntraced(function* (input: object) {
        const child = yield* spawnCli(["hook", "claude-code"], environment)
        yield* child.write(JSON.stringify(input))
        yield* child.close
        return child
      })
      const killed = yield* start(claudeCodeSubagent)
      const pending = Effect.promise(() => run.client.approvals.list({ query: { status: "pending" } }))
      yield* Effect.repeat(pending, {
        until: ({ approvals }) => approvals.length === 1,
        schedule: Schedule.spaced("1 millis")
      })
      yield* killed.kill("SIGKILL")
      yield* killed.ended
      yield* Effect.promise(() => run.decide("approve", "mcp__shop__refund"))
      // The resumed session's model calls again.
      const next = yield* start({ ...claudeCodeSubagent, tool_use_id: "toolu_next" })
      const { code, err, out } = yield* next.ended
      assert.deepStrictEqual([code, err], [0, ""])
      assert.include(out, '"permissionDecision":"allow"')
    }).pipe(Effect.scoped)
  )

  it.effect("makes one session for parallel processes", () =>
    Effect.gen(function* () {
      const { options, run } = yield* codingAgent("hook processes")
      const environment = {
        COUNTERSIGN_KEY: run.key,
        COUNTERSIGN_URL: run.url,
        XDG_STATE_HOME: options.state
      }
      const exits = yield* Effect.forEach(
        [1, 2, 3, 4],
        Effect.fnUntraced(function* (n) {
          const child = yield* spawnCli(["hook", "codex"], environment)
          yield* child.write(JSON.stringify({ ...codex1, tool_name: "read", tool_use_id: `call_${n}` }))
          yield* child.close
          return yield* child.ended
        }),
        { concurrency: 4 }
      )
      for (const exit of exits) assert.deepStrictEqual(exit, { code: 0, out: "{}\n", err: "" })
      assert.lengthOf(yield* Effect.promise(() => sessionsOf(run)), 1)
    }).pipe(Effect.scoped)
  )

  it.effect("denies at once if the directory of its state cannot be made", () =>
    Effect.gen(function* () {
      const { hook } = yield* codingAgent("no state")
      // Nothing can be made there, and the system says that the parent is missing.
      const { decision, reason } = yield* Effect.promise(() => hook(call("allowed"), { state: "/proc/1/x" }))
      assert.strictEqual(decision, "deny")
      assert.match(reason, /could not decide about this call/u)
    }).pipe(Effect.scoped)
  )

  it.effect("exits with 2 without a key, and for a wrong flag", () =>
    Effect.gen(function* () {
      for (const [args, expected] of [
        [["hook", "claude-code"], /the API key is missing: set COUNTERSIGN_KEY/u],
        [["hook", "claude-code", "--wait", "soon"], /--wait must be a time/u],
        [["hook", "codex", "--defer"], /--defer is for Claude Code/u],
        [
          ["hook", "codex", "--key-file", "/does/not/exist"],
          /--key-file: \S+ does not exist: check the path/u
        ],
        [["hook", "codex", "--nonsense"], /nonsense/u]
      ] as const) {
        const child = yield* spawnCli(args)
        yield* child.close
        const { code, err, out } = yield* child.ended
        assert.strictEqual(code, 2)
        assert.match(err, expected)
        assert.notInclude(out, "allow")
      }
    }).pipe(Effect.scoped)
  )
})
