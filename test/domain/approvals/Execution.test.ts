import { assert, describe, it } from "@effect/vitest"
import { DateTime, Schema } from "effect"
import fc from "fast-check"
import {
  type ExecutionInput,
  type ExecutionRecord,
  type ExecutionState,
  idempotencyKeyOf,
  isLate,
  type Resolution,
  toClaim,
  transition
} from "../../../src/domain/approvals/Execution.ts"
import { Claim } from "../../../src/domain/approvals/AgentSession.ts"
import { ClaimId, KeyId, StepId } from "../../../src/domain/Ids.ts"

const claimId = (n: number) => ClaimId.make(`clm_${String(n).padStart(32, "0")}`)
const actor = (n: number) => ({ id: KeyId.make(`key_${String(n).padStart(32, "0")}`), name: `key ${n}` })
const at = (seconds: number) => DateTime.makeUnsafe(1_000_000 + seconds * 1_000)

const claim = (n: number, over: Partial<ExecutionInput & { _tag: "Claim" }> = {}): ExecutionInput => ({
  _tag: "Claim",
  claim_id: claimId(n),
  claimed_by: actor(1),
  lease_seconds: 10,
  request: null,
  after_unknown: false,
  ...over
})

const resolve = (resolution: Resolution, by = 9): ExecutionInput => ({
  _tag: "Resolve",
  resolution,
  actor: actor(by),
  makers: [],
  comment: null
})

/** The execution after these inputs, one a second. */
const after = (...inputs: ReadonlyArray<ExecutionInput>): ExecutionRecord | null =>
  inputs.reduce<ExecutionRecord | null>(
    (execution, input, second) => transition(execution, input, at(second)).execution,
    null
  )

const executing = after(claim(1))
const unknown = after(claim(1), { _tag: "CloseSession" })
const retryable = after(claim(1), { _tag: "CloseSession" }, resolve("retry"))
const completed = after(claim(1), { _tag: "Complete", claim_id: claimId(1) })

describe("Execution › transition", () => {
  const inputs: Readonly<Record<string, ExecutionInput>> = {
    claim: claim(2),
    claimAfterUnknown: claim(2, { after_unknown: true }),
    renew: { _tag: "Renew", claim_id: claimId(1), lease_seconds: 10 },
    renewOther: { _tag: "Renew", claim_id: claimId(2), lease_seconds: 10 },
    complete: { _tag: "Complete", claim_id: claimId(1) },
    completeOther: { _tag: "Complete", claim_id: claimId(2) },
    completeUnclaimed: { _tag: "Complete", claim_id: null },
    find: resolve("succeeded"),
    retry: resolve("retry"),
    time: { _tag: "Time" },
    close: { _tag: "CloseSession" }
  }

  /** What each input does in each state, three seconds after the claim: the events and the state after them, or the refusal. */
  const table: Readonly<
    Record<string, readonly [ExecutionRecord | null, Readonly<Partial<Record<string, string>>>]>
  > = {
    unclaimed: [
      null,
      {
        claim: "claimed → executing",
        claimAfterUnknown: "claimed → executing",
        renew: "ClaimMismatch",
        renewOther: "ClaimMismatch",
        complete: "ClaimMismatch",
        completeOther: "ClaimMismatch",
        find: "NotUnknown",
        retry: "NotUnknown"
      }
    ],
    executing: [
      executing,
      {
        claim: "AlreadyClaimed",
        claimAfterUnknown: "AlreadyClaimed",
        renew: "renewed → executing",
        renewOther: "ClaimMismatch",
        complete: "completed → completed",
        completeOther: "ClaimMismatch",
        completeUnclaimed: "ClaimMismatch",
        find: "NotUnknown",
        retry: "NotUnknown",
        close: "unknown → unknown"
      }
    ],
    unknown: [
      unknown,
      {
        claim: "AlreadyClaimed",
        claimAfterUnknown: "claimed → executing",
        renew: "ClaimMismatch",
        renewOther: "ClaimMismatch",
        complete: "completed → completed",
        completeOther: "ClaimMismatch",
        completeUnclaimed: "ClaimMismatch",
        find: "completed → completed",
        retry: "retry_allowed → retryable"
      }
    ],
    retryable: [
      retryable,
      {
        claim: "claimed → executing",
        claimAfterUnknown: "claimed → executing",
        renew: "ClaimMismatch",
        renewOther: "ClaimMismatch",
        complete: "completed → completed",
        completeOther: "ClaimMismatch",
        completeUnclaimed: "ClaimMismatch",
        find: "completed → completed"
      }
    ],
    completed: [
      completed,
      {
        claim: "AlreadyClaimed",
        claimAfterUnknown: "AlreadyClaimed",
        renew: "ClaimMismatch",
        renewOther: "ClaimMismatch",
        complete: "ClaimMismatch",
        completeOther: "ClaimMismatch",
        completeUnclaimed: "ClaimMismatch",
        find: "NotUnknown",
        retry: "NotUnknown"
      }
    ]
  }

  for (const [state, [execution, results]] of Object.entries(table)) {
    it(`every input has the result of the table in the state ${state}`, () => {
      for (const [name, input] of Object.entries(inputs)) {
        const { execution: next, refusal, transitions } = transition(execution, input, at(3))
        const happened = transitions.map(({ event }) => event).join(", ")
        const found = refusal ?? (happened === "" ? undefined : `${happened} → ${next?.state ?? "unclaimed"}`)
        assert.strictEqual(found, results[name], name)
        if (transitions.length === 0) assert.strictEqual(next, execution, name)
      }
    })
  }

  it("a lease that has ended is unknown before anything else happens", () => {
    for (const [input, events] of [
      [claim(2), ["unknown"]],
      [claim(2, { after_unknown: true }), ["unknown", "claimed"]],
      [inputs["renew"], ["unknown"]],
      [inputs["complete"], ["unknown", "completed"]],
      [inputs["time"], ["unknown"]],
      [inputs["close"], ["unknown"]],
      [inputs["find"], ["unknown", "completed"]]
    ] as const) {
      if (input === undefined) return assert.fail("the table has the input")
      const before = transition(executing, input, at(9.999))
      assert.isFalse(before.transitions.some(({ event }) => event === "unknown") && input._tag === "Time")
      const { transitions } = transition(executing, input, at(10))
      assert.deepStrictEqual(
        transitions.map(({ event }) => event),
        [...events]
      )
    }
  })

  it("a repeated request gets its claim only while it holds, and only by the same request", () => {
    const held = after(claim(1, { request: "a" }))
    const claimWith = (request: string | null, second: number) =>
      transition(held, claim(2, { request }), at(second))
    assert.deepStrictEqual(claimWith("a", 5), { transitions: [], execution: held, refusal: null })
    assert.strictEqual(claimWith("b", 5).refusal, "AlreadyClaimed")
    assert.strictEqual(claimWith(null, 5).refusal, "AlreadyClaimed")
    assert.strictEqual(claimWith("a", 10).refusal, "AlreadyClaimed")
    assert.strictEqual(transition(executing, claim(2), at(5)).refusal, "AlreadyClaimed")
  })

  it("the claimer, and keys that it made, cannot resolve; a person's own resolution can be repeated", () => {
    assert.strictEqual(transition(unknown, resolve("succeeded", 1), at(3)).refusal, "SelfApproval")
    const made: ExecutionInput = {
      _tag: "Resolve",
      resolution: "retry",
      actor: actor(2),
      makers: [actor(1).id],
      comment: null
    }
    assert.strictEqual(transition(unknown, made, at(3)).refusal, "SelfApproval")
    const { execution } = transition(unknown, resolve("succeeded"), at(3))
    const again = transition(execution, resolve("succeeded"), at(4))
    assert.deepStrictEqual(again, { transitions: [], execution, refusal: null })
    assert.strictEqual(transition(execution, resolve("succeeded", 8), at(4)).refusal, "NotUnknown")
    assert.strictEqual(transition(execution, resolve("failed"), at(4)).refusal, "NotUnknown")
  })

  it("an outcome is late only if the agent reported it after the claim had ended", () => {
    const complete: ExecutionInput = { _tag: "Complete", claim_id: claimId(1) }
    const isLateAfter = (from: ExecutionRecord | null, input: ExecutionInput) => {
      const { execution } = transition(from, input, at(3))
      return execution !== null && isLate(execution)
    }
    assert.isFalse(isLateAfter(executing, complete))
    assert.isTrue(isLateAfter(unknown, complete))
    assert.isTrue(isLateAfter(retryable, complete))
    assert.isFalse(isLateAfter(unknown, resolve("succeeded")))
  })

  const arbitraryInput: fc.Arbitrary<ExecutionInput> = fc.oneof(
    fc
      .record({ n: fc.integer({ min: 1, max: 4 }), after_unknown: fc.boolean() })
      .map(({ after_unknown, n }) => claim(n, { after_unknown })),
    fc.integer({ min: 1, max: 4 }).map((n) => ({
      _tag: "Renew" as const,
      claim_id: claimId(n),
      lease_seconds: 10
    })),
    fc.option(fc.integer({ min: 1, max: 4 })).map((n) => ({
      _tag: "Complete" as const,
      claim_id: n === null ? null : claimId(n)
    })),
    fc.constantFrom(
      resolve("succeeded"),
      resolve("failed", 8),
      resolve("not_executed"),
      resolve("retry"),
      resolve("retry", 1)
    ),
    fc.constantFrom({ _tag: "Time" as const }, { _tag: "CloseSession" as const })
  )

  /** The states that can follow each state, in one transition. */
  const successors: Readonly<Record<ExecutionState | "unclaimed", ReadonlyArray<ExecutionState>>> = {
    unclaimed: ["executing"],
    executing: ["executing", "unknown", "completed"],
    unknown: ["executing", "retryable", "completed"],
    retryable: ["executing", "completed", "retryable"],
    completed: []
  }

  it("whatever happens, at most one attempt executes, and each further one follows an unknown one", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(arbitraryInput, fc.integer({ min: 0, max: 12 })), {
          maxLength: 30
        }),
        (steps) => {
          let execution: ExecutionRecord | null = null
          let now = 0
          for (const [input, seconds] of steps) {
            now += seconds
            const result = transition(execution, input, at(now))
            for (const { event, execution: next } of result.transitions) {
              const from: ExecutionRecord | null = execution
              assert.include(successors[from?.state ?? "unclaimed"], next.state)
              if (event === "claimed") {
                assert.strictEqual(next.attempt, (from?.attempt ?? 0) + 1)
                assert.strictEqual(next.state, "executing")
                // Never from a claim that holds, and from an unknown one only if the rule or a person says so.
                assert.notStrictEqual(from?.state, "executing")
                if (from?.state === "unknown") assert.isTrue(input._tag === "Claim" && input.after_unknown)
              } else {
                assert.strictEqual(next.claim_id, from?.claim_id)
                assert.strictEqual(next.attempt, from?.attempt)
              }
              if (next.state === "executing") assert.isTrue(DateTime.isGreaterThan(next.expires_at, at(now)))
              execution = next
            }
            assert.strictEqual(result.execution, execution)
          }
        }
      )
    )
  })
})

describe("Execution › toClaim", () => {
  it("every attempt has the step's idempotency key, a UUID of version 8, and other steps have others", () => {
    const step = (digest: string) => ({ arguments_digest: digest, step_id: StepId.make("a") })
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(...Array.from("0123456789abcdef")), { minLength: 64, maxLength: 64 }),
        (digits) => {
          const key = idempotencyKeyOf(digits.join(""))
          assert.match(key, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
        }
      )
    )
    if (executing === null) return assert.fail("it is claimed")
    const first = toClaim(executing, step("a".repeat(64)))
    const second = toClaim({ ...executing, attempt: 2, claim_id: claimId(2) }, step("a".repeat(64)))
    assert.strictEqual(first.idempotency_key, second.idempotency_key)
    assert.notStrictEqual(first.idempotency_key, toClaim(executing, step("b".repeat(64))).idempotency_key)
    assert.isTrue(Schema.is(Claim)({ ...first, ticket: "" }))
  })
})
