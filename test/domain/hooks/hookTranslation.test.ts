import { assert, describe, it } from "@effect/vitest"
import {
  answerAsk,
  answerFault,
  answerNote,
  canDefer,
  faultMessage,
  type HookAnswer
} from "../../../src/domain/hooks/hookAnswer.ts"
import {
  comparedArguments,
  type HookFault,
  type HookInput,
  parseHookInput
} from "../../../src/domain/hooks/HookInput.ts"
import { hookActionClass, type HookVendor } from "../../../src/domain/hooks/hookVendors.ts"
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

const parse = (vendor: HookVendor, value: unknown): HookInput => parseHookInput(vendor, JSON.stringify(value))

const faultOf = (vendor: HookVendor, text: string): HookFault => {
  const input = parseHookInput(vendor, text)
  return input._tag === "Fault" ? input : assert.fail(`understood: ${text.slice(0, 100)}`)
}

/** The members that Codex' output schemas allow (`additionalProperties: false`), and those that its runtime accepts. */
const assertCodexAccepts = (event: string, answer: HookAnswer): void => {
  const keys = (value: unknown): ReadonlyArray<string> => Object.keys(Object(value))
  const allowed = event === "PermissionRequest" ? ["hookSpecificOutput", "systemMessage"] : undefined
  assert.includeMembers(allowed ?? ["hookSpecificOutput", "systemMessage", "decision", "reason"], [
    ...keys(answer)
  ])
  const specific = answer["hookSpecificOutput"]
  if (specific === undefined) return
  assert.propertyVal(specific, "hookEventName", event)
  if (event === "PermissionRequest") {
    assert.sameMembers([...keys(specific)], ["hookEventName", "decision"])
    assert.includeMembers(["behavior", "message"], [...keys(Reflect.get(Object(specific), "decision"))])
  } else {
    assert.sameMembers(
      [...keys(specific)],
      ["hookEventName", "permissionDecision", "permissionDecisionReason"]
    )
    assert.propertyVal(specific, "permissionDecision", "deny")
    assert.isNotEmpty(String(Reflect.get(Object(specific), "permissionDecisionReason")).trim())
  }
}

describe("the translation of hooks", () => {
  it("reads a call from the inputs of several versions", () => {
    for (const [vendor, input] of [
      ["claude-code", claudeCode1],
      ["claude-code", claudeCode2],
      ["claude-code", claudeCodeSubagent],
      ["codex", codex1],
      ["codex", codex2]
    ] as const) {
      assert.deepStrictEqual(parse(vendor, input), {
        _tag: "Ask",
        event: "PreToolUse",
        session: input.session_id,
        callId: input.tool_use_id,
        tool: input.tool_name,
        arguments: input.tool_input,
        permissionMode: "permission_mode" in input ? input.permission_mode : undefined
      })
    }
  })

  it("reads a permission, which has no ID of a call, and leaves Codex' reason out of the comparison", () => {
    const asked = parse("codex", codexPermission(codex1, "needs the network"))
    assert.include(asked, { _tag: "Ask", event: "PermissionRequest", callId: undefined })
    if (asked._tag !== "Ask") return
    assert.deepStrictEqual(asked.arguments, { command: "rg -n refund .", description: "needs the network" })
    assert.deepStrictEqual(comparedArguments("codex", asked), codex1.tool_input)
    // In Claude Code the description is an argument of the tool.
    assert.deepStrictEqual(comparedArguments("claude-code", asked), asked.arguments)
  })

  it("reads outcomes and the end of a session", () => {
    const done = parse("claude-code", succeeded(claudeCode2, { filePath: "a.txt" }))
    assert.deepInclude(done, { _tag: "Report", end: { status: "succeeded", result: { filePath: "a.txt" } } })
    const broken = parse("claude-code", failed(claudeCode2, "EACCES"))
    assert.deepInclude(broken, { _tag: "Report", end: { status: "failed", error: "EACCES" } })
    const interrupted = parse("claude-code", { ...failed(claudeCode2, "Interrupted"), is_interrupt: true })
    assert.deepInclude(interrupted, { _tag: "Report", end: { status: "unknown" } })
    assert.deepInclude(parse("claude-code", ended(claudeCode1)), {
      _tag: "End",
      session: claudeCode1.session_id
    })
  })

  it("takes a call's ID with a signature of the model's thoughts", () => {
    const tool_use_id = `call_${"A".repeat(950)}`
    assert.include(parse("claude-code", { ...claudeCode2, tool_use_id }), {
      _tag: "Ask",
      callId: tool_use_id
    })
  })

  it("tolerates unknown fields, odd Unicode and a megabyte of arguments", () => {
    const odd = "\u0000\u200b\u202e🙂‍↔️ é é 中 \ud83d"
    const input = parse("claude-code", {
      ...claudeCode2,
      newer: { a: [1] },
      tool_input: { odd, long: "x".repeat(2 ** 20) }
    })
    assert.include(input, { _tag: "Ask", tool: "Write" })
  })

  it("denies input that it does not understand, and says why", () => {
    const { hook_event_name: _, ...nameless } = claudeCode2
    const text = JSON.stringify(claudeCode2)
    for (const [input, reason] of [
      ["", "The input is empty."],
      [text.slice(0, -20), "not complete JSON"],
      ["not UTF-8", "not complete JSON"],
      ["[]", "not a JSON object"],
      ["null", "not a JSON object"],
      [JSON.stringify(nameless), "`hook_event_name` is missing"],
      [
        JSON.stringify({ ...claudeCode2, hook_event_name: "BeforeTool" }),
        'does not govern the event "BeforeTool"'
      ],
      [JSON.stringify({ ...claudeCode2, hook_event_name: "constructor" }), "does not govern"],
      [JSON.stringify({ ...claudeCode2, session_id: 7 }), "`session_id` of PreToolUse is missing"],
      [JSON.stringify({ ...claudeCode2, tool_name: "" }), "`tool_name` of PreToolUse"],
      [
        JSON.stringify({ ...claudeCode2, tool_name: "x".repeat(201) }),
        "is too long: 201 characters, at most 200"
      ],
      [JSON.stringify({ ...claudeCode2, tool_use_id: undefined }), "`tool_use_id` of PreToolUse"],
      [JSON.stringify({ ...claudeCode2, tool_input: undefined }), "a newer format of Claude Code?"],
      [JSON.stringify({ ...failed(claudeCode2, ""), error: null }), "`error` of PostToolUseFailure"]
    ] as const) {
      const fault = faultOf("claude-code", input)
      assert.isTrue(fault.canBlock)
      assert.include(faultMessage(fault), reason)
      const answer = JSON.stringify(answerFault("claude-code", fault))
      assert.match(answer, /"permissionDecision":"deny"|"decision":"block"/u)
      assertCodexAccepts(fault.event ?? "PreToolUse", answerFault("codex", fault))
    }
  })

  it("does not block the end of a turn, which would make the agent go on", () => {
    for (const event of ["Stop", "SubagentStop", "Notification", "SessionStart"]) {
      const fault = faultOf("claude-code", JSON.stringify({ ...claudeCode2, hook_event_name: event }))
      assert.isFalse(fault.canBlock)
      assert.notProperty(answerFault("claude-code", fault), "decision")
    }
  })

  it("answers Claude Code", () => {
    const specific = (more: object) => ({ hookSpecificOutput: { hookEventName: "PreToolUse", ...more } })
    assert.deepStrictEqual(answerAsk("claude-code", "PreToolUse", { verdict: "allow" }), {
      ...specific({ permissionDecision: "allow", permissionDecisionReason: "Countersign allowed this call." })
    })
    for (const verdict of ["deny", "defer"] as const) {
      assert.deepStrictEqual(
        answerAsk("claude-code", "PreToolUse", { verdict, message: "Because" }),
        specific({ permissionDecision: verdict, permissionDecisionReason: "Because" })
      )
    }
    assert.deepStrictEqual(answerAsk("claude-code", "PermissionRequest", { verdict: "allow" }), {
      hookSpecificOutput: { hookEventName: "PermissionRequest", decision: { behavior: "allow" } }
    })
    assert.deepStrictEqual(
      answerAsk("claude-code", "PermissionRequest", { verdict: "deny", message: "No" }),
      {
        hookSpecificOutput: {
          hookEventName: "PermissionRequest",
          decision: { behavior: "deny", message: "No" }
        }
      }
    )
    assert.deepStrictEqual(answerNote(undefined), {})
  })

  it("sends Codex nothing that it refuses: it would go on without the answer", () => {
    assert.deepStrictEqual(answerAsk("codex", "PreToolUse", { verdict: "allow" }), {})
    for (const event of ["PreToolUse", "PermissionRequest"] as const) {
      for (const message of ["No", "", " \n", "half \ud83d of a character"]) {
        const answer = answerAsk("codex", event, { verdict: "deny", message })
        assertCodexAccepts(event, answer)
        assert.notMatch(JSON.stringify(answer), /\\ud83d/u)
      }
      assertCodexAccepts(event, answerAsk("codex", event, { verdict: "defer", message: "Later" }))
    }
    assertCodexAccepts("PermissionRequest", answerAsk("codex", "PermissionRequest", { verdict: "allow" }))
  })

  it("cuts a long text", () => {
    const answer = answerAsk("claude-code", "PreToolUse", { verdict: "deny", message: "🙂".repeat(20_000) })
    assert.isBelow(JSON.stringify(answer).length, 9_000)
    assert.notMatch(JSON.stringify(answer), /\\ud83d/u)
  })

  it("defers only where a call that is not deferred needs another permission", () => {
    const ask = (permissionMode?: string) => canDefer("claude-code", { event: "PreToolUse", permissionMode })
    assert.deepStrictEqual(["default", "plan", "dontAsk", undefined].map(ask), [true, true, true, true])
    assert.deepStrictEqual(["acceptEdits", "auto", "bypassPermissions", "newer"].map(ask), [
      false,
      false,
      false,
      false
    ])
    assert.isFalse(canDefer("codex", { event: "PreToolUse", permissionMode: "default" }))
    assert.isFalse(canDefer("claude-code", { event: "PermissionRequest", permissionMode: "default" }))
  })

  it("classifies tools", () => {
    assert.strictEqual(hookActionClass("claude-code", "Read"), "read")
    assert.strictEqual(hookActionClass("claude-code", "Bash"), "execute")
    assert.strictEqual(hookActionClass("claude-code", "Skill"), "execute")
    assert.strictEqual(hookActionClass("claude-code", "mcp__shop__refund"), "write")
    assert.strictEqual(hookActionClass("claude-code", "constructor"), "write")
    assert.strictEqual(hookActionClass("codex", "apply_patch"), "write")
  })
})
