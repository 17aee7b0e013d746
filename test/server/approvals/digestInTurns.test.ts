import { assert, describe, it as plainIt, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import type { StepRequest } from "../../../src/api/AgentSessions.ts"
import { Authorized } from "../../../src/api/Authorization.ts"
import {
  proposalDigestInSlices,
  stepDigest,
  stepDigestInSlices
} from "../../../src/domain/approvals/StepDigest.ts"
import { type KeyId, type OrgId, StepId } from "../../../src/domain/Ids.ts"
import type { Principal } from "../../../src/domain/identity/Principal.ts"
import { Approvals } from "../../../src/server/approvals/Approvals.ts"
import { digestInTurns } from "../../../src/server/approvals/digestInTurns.ts"
import { Hooks } from "../../../src/server/approvals/Hooks.ts"
import { Steps } from "../../../src/server/approvals/Steps.ts"
import { inTurns } from "../../../src/server/admission/LoopTurns.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { service } from "../../support/service.ts"

const SIZE = 40_000
const numbers = Array.from({ length: SIZE }, (_, index) => index)

const content = {
  org_id: "org",
  session_id: "session",
  step_id: "step",
  tool: "export",
  action_class: "read",
  arguments: numbers
}

/** The slices of a digest of the large arguments. */
const SLICES = [...stepDigestInSlices(content)].length

/** Runs an effect as a large request. Returns its result, and the number of turns that it took. */
const countTurns = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    let turns = 0
    return Effect.map(inTurns(Effect.sync(() => void turns++))(self), (result) => ({ result, turns }))
  })

describe("digestInTurns", () => {
  const digest = digestInTurns(() => stepDigestInSlices(content))

  plainIt.effect("a large request takes a turn for each slice", () =>
    Effect.gen(function* () {
      const { result, turns } = yield* countTurns(digest)
      assert.strictEqual(result, stepDigest(content))
      assert.strictEqual(turns, SLICES + 1)
      assert.isAbove(SLICES, 5)
    })
  )

  plainIt.effect("a small request yields between the slices of stored arguments", () =>
    Effect.gen(function* () {
      let passes = 0
      const other = yield* Effect.forkChild(
        Effect.gen(function* () {
          for (;;) {
            yield* Effect.yieldNow
            passes++
          }
        })
      )
      yield* digest
      assert.isAtLeast(passes, SLICES - 1)
      yield* Fiber.interrupt(other)
    })
  )

  plainIt.effect("computes the digest each time it runs, as in a transaction that is retried", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* Effect.all([digest, digest]), [stepDigest(content), stepDigest(content)])
    })
  )
})

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("Large arguments", (it) => {
  /** The arguments, and how many items were read since. */
  const watched = () => {
    const reads = { count: 0 }
    const value = new Proxy(numbers, {
      get: (target, name, receiver): unknown => {
        if (typeof name === "string" && /^\d/.test(name)) reads.count++
        return Reflect.get(target, name, receiver)
      }
    })
    return { reads, value }
  }

  const team = Effect.fnUntraced(function* (organization: string) {
    const countersign = yield* Countersign
    const admin = yield* countersign.client({ name: "owner" }, organization)
    const agent = yield* countersign.client({ preset: "runtime", name: "agent" }, organization)
    const reviewer = yield* countersign.client({ preset: "reviewer", name: "Ada" }, organization)
    yield* admin.approvalRules.replace({ payload: { rules: [{ effect: "require_approval" }] } })
    const { session_id } = yield* agent.sessions.create({})
    const sql = yield* SqlClient.SqlClient
    const keys = yield* sql<{ readonly org_id: OrgId; readonly key_id: KeyId; readonly name: string }>`
      SELECT org_id, key_id, api_keys.name
      FROM api_keys
        JOIN organizations USING (org_id)
      WHERE organizations.name = ${organization}
    `
    const principalNamed = (wanted: string): Principal => {
      const { key_id, name, org_id } = keys.find((key) => key.name === wanted) ?? assert.fail("no such key")
      return { org_id, actor: { id: key_id, name }, scopes: new Set(), groups: [], keyMakers: [], makers: [] }
    }
    const steps = yield* Steps
    const check = (name: string, more: Partial<StepRequest>) =>
      steps
        .check(session_id, { step_id: StepId.make(name), tool: "export", action_class: "read", ...more })
        .pipe(Effect.provideService(Authorized("sessions.write"), principalNamed("agent")))
    const ask = (name: string, more: Partial<StepRequest>) =>
      Effect.map(check(name, more), ({ approval_id }) => approval_id ?? assert.fail("the step waits"))
    return { ask, check, principalNamed, reviewer }
  })

  it.effect("are digested once when a waiting step is repeated", () =>
    Effect.gen(function* () {
      const { ask, check } = yield* team("repeated")
      yield* ask("step", { arguments: numbers })
      const { reads, value } = watched()
      const { result, turns } = yield* countTurns(check("step", { arguments: value }))
      assert.strictEqual(result.decision, "pending")
      // By the digest, and by the JSON text.
      assert.isAtMost(reads.count, 2 * SIZE)
      assert.isAtLeast(turns, SLICES)
    })
  )

  it.effect("of a repeated step with another tool are compared under the saved one", () =>
    Effect.gen(function* () {
      const { ask, check } = yield* team("mismatched")
      yield* ask("step", { arguments: numbers })
      const mismatchOf = (more: Partial<StepRequest>) =>
        Effect.map(Effect.flip(check("step", more)), (problem) =>
          problem._tag === "STEP_MISMATCH" ? problem.mismatched : assert.fail(problem._tag)
        )
      assert.deepStrictEqual(yield* mismatchOf({ tool: "delete", arguments: numbers }), ["tool"])
      const other = numbers.toReversed()
      assert.deepStrictEqual(yield* mismatchOf({ tool: "delete", arguments: other }), ["tool", "arguments"])
      assert.deepStrictEqual(yield* mismatchOf({ arguments: other }), ["arguments"])
    })
  )

  it.effect("that a reviewer proposes are digested in turns", () =>
    Effect.gen(function* () {
      const { ask, check, principalNamed } = yield* team("proposed")
      const approvals = yield* Approvals
      const id = yield* ask("step", { arguments: {} })
      const decided = yield* countTurns(
        approvals
          .decide(id, { decision: "reject", proposed_arguments: { numbers } })
          .pipe(Effect.provideService(Authorized("approvals.decide"), principalNamed("Ada")))
      )
      assert.isNotNull(decided.result.proposal)
      // Those of the step, and those of the proposal.
      assert.isAtLeast(decided.turns, 2 * SLICES)
      assert.strictEqual((yield* check("again", { arguments: { numbers } })).decision, "allow")
    })
  )

  it.effect("are digested once for all grants of a session", () =>
    Effect.gen(function* () {
      const { ask, check, reviewer } = yield* team("granted")
      for (const order of [1, 2, 3]) {
        const id = yield* ask(`step ${order}`, { arguments: { order } })
        yield* reviewer.approvals.decide({
          params: { id },
          payload: { decision: "approve", grant: { scope: "arguments" } }
        })
      }
      const { reads, value } = watched()
      assert.strictEqual((yield* check("large", { arguments: value })).decision, "pending")
      // By the digest of the step, by that of grants, and by the JSON text.
      assert.isAtMost(reads.count, 3 * SIZE)
    })
  )

  it.effect("of a coding agent's call are digested in turns", () =>
    Effect.gen(function* () {
      const { principalNamed } = yield* team("called")
      const hooks = yield* Hooks
      const event = {
        session: "coding session",
        callId: "call",
        tool: "export",
        arguments: { numbers },
        permissionMode: undefined
      }
      const { turns } = yield* countTurns(
        hooks
          .answer({ _tag: "Ask", event: "PreToolUse", ...event }, { defer: false, waitSeconds: 0 })
          .pipe(Effect.provideService(Authorized("sessions.write"), principalNamed("agent")))
      )
      const slices = [...proposalDigestInSlices({ ...content, arguments: { numbers } })].length
      // To find an earlier call, and for the step.
      assert.isAtLeast(turns, 2 * slices)
    })
  )
})
