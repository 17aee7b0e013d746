import * as newest from "@anthropic-ai/claude-agent-sdk"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as lowest from "claude-agent-sdk-lowest"
import { fileURLToPath } from "node:url"
import { z } from "zod"
import { governHooks, governPermissions } from "../../src/adapters/claudeAgent.ts"
import type { GateOptions } from "../../src/adapters/toolGate/publicTypes.ts"
import { service } from "../support/service.ts"
import { adapterContract, type AdapterRun, type Driver, TOOLS } from "./adapterContract.ts"
import { governedRun } from "./governedRun.ts"
import { eventually } from "./mcp/eventually.ts"
import { StepId } from "../../src/domain/Ids.ts"

type Sdk = Pick<typeof newest, "createSdkMcpServer" | "query" | "tool">
type Governed = Pick<newest.Options, "canUseTool" | "hooks">

const pathToClaudeCodeExecutable = fileURLToPath(
  new URL("../../examples/frameworks/models/claude-code.mjs", import.meta.url)
)

/** Both versions accept what the adapter returns as their options. */
const hooks = (gate: GateOptions<unknown>): Governed & Pick<lowest.Options, "hooks"> => ({
  hooks: governHooks(gate)
})
const permissions = (gate: GateOptions<unknown>): Governed & Pick<lowest.Options, "canUseTool" | "hooks"> =>
  governPermissions(gate)

/** Runs the SDK with a script in place of Claude Code, which speaks the SDK's protocol. */
const driver =
  (sdk: Sdk, govern: (gate: GateOptions<unknown>) => Governed): Driver =>
  async ({ execute, gate, responses, signal }: AdapterRun) => {
    const abortController = new AbortController()
    signal?.addEventListener("abort", () => abortController.abort(signal.reason))
    const tools = TOOLS.map((name) =>
      sdk.tool(name, name, { amount: z.number() }, async (input) => ({
        content: [{ type: "text", text: JSON.stringify(await execute(name, input)) }]
      }))
    )
    const told = new Map<string, string>()
    const messages = sdk.query({
      prompt: "Refund it",
      options: {
        ...govern(gate),
        abortController,
        env: { ...process.env, CLAUDE_CODE_RESPONSES: JSON.stringify(responses) },
        mcpServers: { orders: sdk.createSdkMcpServer({ name: "orders", tools }) },
        pathToClaudeCodeExecutable
      }
    })
    for await (const message of messages) {
      const content = message.type === "user" ? message.message.content : []
      for (const part of typeof content === "string" ? [] : content) {
        if (part.type === "tool_result")
          told.set(part.tool_use_id, JSON.stringify(part.content).replaceAll('\\"', '"'))
      }
    }
    return told
  }

const signal = new AbortController().signal
const input = (hook_event_name: string, tool_use_id: string, more: object = {}) => ({
  session_id: "a7b1",
  transcript_path: "/home/ada/.claude/projects/refunds/a7b1.jsonl",
  cwd: "/home/ada/refunds",
  permission_mode: "bypassPermissions",
  hook_event_name,
  tool_name: "Bash",
  tool_input: { command: "rm -r build", description: "Remove the build" },
  tool_use_id,
  ...more
})

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("claudeAgent", (it) => {
  // The MCP server of a tool converts its arguments after the hooks.
  // An abort ends Claude Code, and no hook is called.
  const contract = { coerces: false, seesAborts: false }
  adapterContract(it, "governHooks", driver(newest, hooks), contract)
  adapterContract(it, "governPermissions", driver(newest, permissions), contract)
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- fewer kinds of messages
  const lowestSdk = lowest as unknown as Sdk
  adapterContract(it, "the lowest governHooks", driver(lowestSdk, hooks), contract)
  adapterContract(it, "the lowest governPermissions", driver(lowestSdk, permissions), contract)

  it.effect("denies a call whose hook has no ID or another form", () =>
    Effect.gen(function* () {
      const { client, session } = yield* governedRun("claude bad input")
      const [matcher] = governHooks({ client, session, onFault: () => {} }).PreToolUse
      yield* Effect.promise(async () => {
        for (const bad of [
          input("PreToolUse", "1", { tool_use_id: undefined }),
          input("PreToolUse", "2", { tool_name: 7 }),
          input("PreToolUse", "3", { tool_input: 1n })
        ]) {
          const { hookSpecificOutput } = await matcher!.hooks[0]!(bad, undefined, { signal })
          assert.strictEqual(hookSpecificOutput.permissionDecision, "deny")
        }
      })
    })
  )

  it.effect("waits for people longer than Claude Code waits for hooks, and blocks what fails", () =>
    Effect.gen(function* () {
      const { client, session } = yield* governedRun("claude timeout")
      const { PostToolUse, PreToolUse } = governHooks({ client, session })
      assert.isAbove(PreToolUse[0]!.timeout, 20 * 24 * 3_600)
      // The longest timer is 2^31 - 1 milliseconds; a longer one fires at once.
      assert.isBelow(PreToolUse[0]!.timeout * 1_000, 2 ** 31)
      assert.strictEqual(PreToolUse[0]!.onFailure, "block")
      assert.isUndefined(PostToolUse[0]!.onFailure)
    })
  )

  it.effect("records only the calls that it allowed", () =>
    Effect.gen(function* () {
      const { client, executions, outcomes, session } = yield* governedRun("claude outcomes")
      const faults: Array<unknown> = []
      const { canUseTool, hooks } = governPermissions({
        client,
        session,
        onFault: (fault) => faults.push(fault)
      })
      yield* Effect.promise(async () => {
        const allowed = await canUseTool("read", { file: "a" }, { signal, toolUseID: "1" })
        assert.deepStrictEqual(allowed, { behavior: "allow", updatedInput: { file: "a" } })
        const interrupted = input("PostToolUseFailure", "1", { error: "Interrupted", is_interrupt: true })
        await hooks.PostToolUseFailure[0]!.hooks[0]!(interrupted, "1", { signal })
        // Claude Code's own rules allowed it.
        const other = input("PostToolUse", "2", { tool_response: { stdout: "" } })
        await hooks.PostToolUse[0]!.hooks[0]!(other, "2", { signal })
        // What an interrupted call did is unknown.
        await canUseTool("read", { file: "b" }, { signal, toolUseID: "3" })
        const failed = input("PostToolUseFailure", "3", { error: "No such file", is_interrupt: false })
        await hooks.PostToolUseFailure[0]!.hooks[0]!(failed, "3", { signal })
        await eventually(async () =>
          assert.deepInclude((await executions())[0], { state: "unknown", step_id: StepId.make("1") })
        )
        assert.deepStrictEqual(await outcomes(), [{ step_id: "3", tool: "read", status: "failed" }])
      })
      assert.deepStrictEqual(faults, [])
    })
  )

  it.effect("reports an interrupted call of the main thread that governPermissions allowed as unknown", () =>
    Effect.gen(function* () {
      const { client, executions, outcomes, session } = yield* governedRun("claude permissions interrupted")
      const { canUseTool, hooks } = governPermissions({ client, session })
      yield* Effect.promise(async () => {
        await canUseTool("read", { file: "a" }, { signal, toolUseID: "interrupted" })
        await canUseTool("read", { file: "b" }, { signal, toolUseID: "of a subagent", agentID: "agent_1" })
        await hooks.Stop[0]!.hooks[0]!({ hook_event_name: "Stop", session_id: "a7b1" }, undefined, { signal })
        await eventually(async () =>
          assert.deepStrictEqual(
            (await executions()).map(({ state, step_id }) => [state, String(step_id)]),
            [["unknown", "interrupted"]]
          )
        )
        const ended = input("PostToolUse", "of a subagent", { agent_id: "agent_1", tool_response: "done" })
        await hooks.PostToolUse[0]!.hooks[0]!(ended, "of a subagent", { signal })
        assert.deepStrictEqual(await outcomes(), [
          { step_id: "of a subagent", tool: "read", status: "succeeded" }
        ])
      })
    })
  )

  it.effect(
    "reports a call as unknown that it allowed and that Claude Code did not execute or interrupted",
    () =>
      Effect.gen(function* () {
        const { client, executions, outcomes, session } = yield* governedRun("claude forbidden")
        const { PostToolBatch, PostToolUse, PreToolUse, Stop } = governHooks({ client, session })
        const call = (id: string, more: object = {}) => ({ tool_name: "read", tool_use_id: id, ...more })
        const others = [
          call("of a subagent", { agent_id: "agent_1" }),
          call("of another session", { session_id: "b8c2" })
        ]
        const succeed = ({ tool_use_id, ...more }: ReturnType<typeof call>) =>
          PostToolUse[0]!.hooks[0]!(
            input("PostToolUse", tool_use_id, { ...more, tool_response: "done" }),
            tool_use_id,
            { signal }
          )
        const untilUnknown = (...steps: ReadonlyArray<string>) =>
          eventually(async () =>
            assert.sameMembers(
              (await executions())
                .filter(({ state }) => state === "unknown")
                .map(({ step_id }) => String(step_id)),
              [...steps]
            )
          )
        yield* Effect.promise(async () => {
          for (const { tool_use_id, ...more } of [
            call("forbidden"),
            call("executed"),
            call("interrupted"),
            ...others
          ]) {
            const asked = input("PreToolUse", tool_use_id, more)
            const { hookSpecificOutput } = await PreToolUse[0]!.hooks[0]!(asked, tool_use_id, { signal })
            assert.strictEqual(hookSpecificOutput.permissionDecision, "allow")
          }
          await succeed(call("executed"))
          // A deny rule of Claude Code's own forbade one of them.
          const batch = {
            hook_event_name: "PostToolBatch",
            tool_calls: [call("forbidden"), call("executed")]
          }
          await PostToolBatch[0]!.hooks[0]!({ ...batch, session_id: "a7b1" }, undefined, { signal })
          await untilUnknown("forbidden")
          await Stop[0]!.hooks[0]!({ hook_event_name: "Stop", session_id: "a7b1" }, undefined, { signal })
          await untilUnknown("forbidden", "interrupted")
          for (const other of others) await succeed(other)
          assert.sameDeepMembers(
            [...(await outcomes())],
            ["executed", "of a subagent", "of another session"].map((step_id) => ({
              step_id,
              tool: "read",
              status: "succeeded"
            }))
          )
        })
      })
  )
})
