import { assert, describe, it } from "@effect/vitest"
import { afterEach } from "vitest"
import { makeToolGate } from "../../../src/adapters/toolGate.ts"
import { connect } from "../../../src/client/connect/index.ts"
import { after, fakeService, realService, type ScriptedResponse } from "./fakeService.ts"

const session = `ses_${"a".repeat(32)}`
const at = "2026-11-21T02:33:05.123Z"

/** A response that allows and claims the step `call_1`. */
const claimed: ScriptedResponse = {
  headers: { "content-type": "application/json" },
  body: JSON.stringify({
    step_id: "call_1",
    decision: "allow",
    approval_id: null,
    reason: "Allowed",
    rule_id: null,
    decision_source: "rule",
    grant_id: null,
    decided_by: null,
    comment: null,
    expires_at: null,
    arguments_digest: "0".repeat(64),
    changes_requested: false,
    proposal: null,
    claim: {
      id: `clm_${"b".repeat(32)}`,
      step_id: "call_1",
      attempt: 1,
      idempotency_key: "k",
      claimed_at: at,
      expires_at: at,
      ticket: "ticket"
    }
  })
}
const down: ScriptedResponse = "no connection"
const recorded: ScriptedResponse = {
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ step_id: "call_1", status: "succeeded", error: null, occurred_at: at })
}

/** Executes a step in both ways that programs use, with scripted responses to its report. Returns what came when, in seconds, and the faults. */
const executed = async (
  run: "client" | "gate",
  answers: ReadonlyArray<ScriptedResponse>,
  inBackground = true
) => {
  const fetched = fakeService([claimed, ...answers])
  const faults: Array<unknown> = []
  const onFault = (fault: unknown) => void faults.push(fault)
  const client = connect({ url: "http://service", key: "csk_key", retries: 0 })
  const started = Date.now()
  const done: Promise<unknown> =
    run === "client"
      ? client.execute(
          session,
          { step_id: "call_1", tool: "read", action_class: "write" },
          () => "refunded",
          { onFault }
        )
      : makeToolGate({ client, session, onFault }, undefined, { inBackground }).run(
          { id: "call_1", tool: "read", arguments: {} },
          undefined,
          () => "refunded"
        )
  const { took, value } = await after(1_000_000, done)
  const last = fetched.at(-1)?.at ?? 0
  return {
    faults,
    result: value,
    took: took / 1_000,
    reports: fetched.length - 1,
    last: (last - started) / 1_000
  }
}

describe("an outcome that cannot be reported at once", () => {
  afterEach(realService)

  for (const run of ["client", "gate"] as const) {
    it(`is reported in the background by the ${run} until the service is back`, async () => {
      const outage = Array.from({ length: 12 }, () => down)
      const { faults, last, reports, result, took } = await executed(run, [...outage, recorded])
      assert.deepInclude(result, { result: "refunded" })
      assert.isBelow(took, 20)
      assert.deepStrictEqual(faults, [])
      assert.strictEqual(reports, 13)
      assert.isAbove(last, 30)
    })

    it(`is a fault of the ${run} after some minutes`, async () => {
      const { faults, last, result, took } = await executed(run, [down])
      assert.deepInclude(result, { result: "refunded" })
      assert.isBelow(took, 20)
      assert.lengthOf(faults, 1)
      assert.isTrue(last > 200 && last < 400, String(last))
    })
  }

  it("is a fault at once for a process that does not report in the background", async () => {
    const { faults, last, result } = await executed("gate", [down], false)
    assert.deepInclude(result, { result: "refunded" })
    assert.lengthOf(faults, 1)
    assert.isBelow(last, 20)
  })
})
