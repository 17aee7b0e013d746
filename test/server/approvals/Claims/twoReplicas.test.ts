import { assert, layer } from "@effect/vitest"
import { Array as Arr, Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Claim } from "../../../../src/domain/approvals/AgentSession.ts"
import { StepId } from "../../../../src/domain/Ids.ts"
import { Deadlines } from "../../../../src/server/approvals/Deadlines.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { layerTwoReplicas, SecondReplica } from "../../../support/twoReplicas.ts"

/** Requests that claim one step at once. */
const CLAIMS = 64

/** Steps that are claimed one after another in each race. */
const ROUNDS = 3

layer(layerTwoReplicas, { excludeTestServices: true, timeout: "60 seconds" })(
  "Claims › two replicas",
  (it) => {
    /** An agent and a reviewer with a client for each replica, and a session whose steps are allowed. */
    const team = Effect.fnUntraced(function* (organization: string) {
      const second = yield* SecondReplica
      const replicas = [yield* Countersign, yield* Effect.provideContext(Countersign, second)] as const
      const deadlines = [yield* Deadlines, yield* Effect.provideContext(Deadlines, second)] as const
      const admin = yield* replicas[0].client({ preset: "admin" }, organization)
      yield* admin.approvalRules.replace({
        payload: {
          rules: [
            { tool: "again", effect: "allow", retry_unknown: true },
            { tool: "allowed", effect: "allow" }
          ]
        }
      })
      const agentKey = yield* replicas[0].key({ preset: "runtime" }, organization)
      const reviewerKey = yield* replicas[0].key({ preset: "reviewer" }, organization)
      const agents = [
        yield* replicas[0].clientWith(agentKey),
        yield* replicas[1].clientWith(agentKey)
      ] as const
      const reviewers = [
        yield* replicas[0].clientWith(reviewerKey),
        yield* replicas[1].clientWith(reviewerKey)
      ] as const
      const { session_id } = yield* agents[0].sessions.create({})
      const submit = (index: number, step_id: StepId, over: object = { claim: true }) =>
        agents[index % 2 === 0 ? 0 : 1].sessions.step({
          params: { id: session_id },
          payload: { step_id, tool: "allowed", action_class: "write", ...over }
        })
      const claim = (index: number, step_id: StepId) =>
        agents[index % 2 === 0 ? 0 : 1].sessions.claim({ params: { id: session_id, step_id }, payload: {} })
      return { agents, claim, deadlines, reviewers, session_id, submit }
    })

    /** The claim that a request got, or the code of its refusal. */
    const claimOf = <E extends { readonly _tag: string }, R>(
      request: Effect.Effect<{ readonly claim?: Claim }, E, R>
    ) =>
      Effect.map(Effect.result(request), (result) =>
        result._tag === "Success" ? result.success.claim : result.failure._tag
      )

    /** The claims and the codes of the refusals of concurrent requests. */
    const tally = <R>(requests: ReadonlyArray<Effect.Effect<Claim | string | undefined, never, R>>) =>
      Effect.map(Effect.all(requests, { concurrency: "unbounded" }), (results) => ({
        claims: results.filter((one) => typeof one === "object"),
        refusals: results.filter((one) => typeof one === "string")
      }))

    const endLease = (step_id: StepId) =>
      Effect.flatMap(
        SqlClient.SqlClient,
        (sql) => sql`
          UPDATE governed_steps
          SET claim_expires_at = claim_expires_at - interval '2 hours'
          WHERE step_id = ${step_id}
            AND execution = 'executing'
        `
      )

    it.effect("of 64 requests that submit and claim a new step at once, one gets it", () =>
      Effect.gen(function* () {
        const { submit } = yield* team("new")
        for (const round of Arr.range(1, ROUNDS)) {
          const step_id = StepId.make(`step ${round}`)
          const { claims, refusals } = yield* tally(
            Arr.makeBy(CLAIMS, (index) => claimOf(submit(index, step_id)))
          )
          assert.lengthOf(claims, 1)
          assert.deepStrictEqual(
            refusals,
            Arr.makeBy(CLAIMS - 1, () => "STEP_ALREADY_CLAIMED")
          )
        }
      })
    )

    it.effect(
      "of 64 claims of a saved step at once, one gets it, and of as many outcomes one is recorded",
      () =>
        Effect.gen(function* () {
          const { agents, claim, session_id, submit } = yield* team("saved")
          for (const round of Arr.range(1, ROUNDS)) {
            const step_id = StepId.make(`saved ${round}`)
            yield* submit(0, step_id, {})
            const { claims, refusals } = yield* tally(
              Arr.makeBy(CLAIMS, (index) =>
                index % 4 < 2 ? claimOf(claim(index, step_id)) : claimOf(submit(index, step_id))
              )
            )
            assert.lengthOf(claims, 1)
            assert.deepStrictEqual(
              refusals,
              Arr.makeBy(CLAIMS - 1, () => "STEP_ALREADY_CLAIMED")
            )
            const [held] = claims
            const outcomes = yield* Effect.all(
              Arr.makeBy(16, (index) =>
                Effect.result(
                  agents[index % 2 === 0 ? 0 : 1].sessions.reportOutcome({
                    params: { id: session_id, step_id },
                    payload: { status: "succeeded", ...(held === undefined ? {} : { claim_id: held.id }) }
                  })
                )
              ),
              { concurrency: "unbounded" }
            )
            assert.lengthOf(
              outcomes.filter(({ _tag }) => _tag === "Success"),
              1
            )
          }
        })
    )

    it.effect("a claim that races with outcomes without one: the step has one or the other", () =>
      Effect.gen(function* () {
        const { agents, claim, session_id, submit } = yield* team("unclaimed")
        for (const round of Arr.range(1, ROUNDS)) {
          const step_id = StepId.make(`unclaimed ${round}`)
          yield* submit(0, step_id, {})
          const [claimed, reported] = yield* Effect.all(
            [
              Effect.result(claim(0, step_id)),
              Effect.result(
                agents[1].sessions.reportOutcome({
                  params: { id: session_id, step_id },
                  payload: { status: "failed" }
                })
              )
            ],
            { concurrency: "unbounded" }
          )
          assert.notStrictEqual(claimed._tag, reported._tag)
        }
      })
    )

    it.effect("of everything that follows an unknown attempt at once, one happens", () =>
      Effect.gen(function* () {
        const { agents, deadlines, reviewers, session_id, submit } = yield* team("unknown")
        for (const round of Arr.range(1, ROUNDS)) {
          const step_id = StepId.make(`unknown ${round}`)
          const { claim } = yield* submit(0, step_id, { tool: "again", claim: true })
          if (claim === undefined) return assert.fail("the step must be claimed")
          yield* endLease(step_id)
          const params = { id: session_id, step_id }
          yield* Effect.all(
            deadlines.map((one) => one.runOnce),
            { concurrency: "unbounded" }
          )
          const again = Arr.makeBy(8, (index) =>
            Effect.map(
              Effect.result(submit(index, step_id, { tool: "again", claim: true, after_unknown: true })),
              (result) => (result._tag === "Success" ? "claimed" : undefined)
            )
          )
          const outcome = Effect.map(
            Effect.result(
              agents[1].sessions.reportOutcome({
                params,
                payload: { status: "succeeded", claim_id: claim.id }
              })
            ),
            (result) => (result._tag === "Success" ? "late" : undefined)
          )
          const resolve = Effect.map(
            Effect.result(
              reviewers[1].executions.resolve({
                params: { claim_id: claim.id },
                payload: { resolution: "not_executed" }
              })
            ),
            (result) => (result._tag === "Success" ? "resolved" : undefined)
          )
          const happened = yield* Effect.all([...again, outcome, resolve], { concurrency: "unbounded" })
          assert.lengthOf(
            happened.filter((one) => one !== undefined),
            1
          )
          const sql = yield* SqlClient.SqlClient
          const events = yield* sql<{ readonly type: string }>`
            SELECT type
            FROM session_events
            WHERE session_id = ${session_id}
              AND step_id = ${step_id}
            ORDER BY number
          `
          assert.lengthOf(events, 4)
          assert.deepStrictEqual(
            events.slice(0, 3).map(({ type }) => type),
            ["step:governed", "tool:claimed", "tool:unknown"]
          )
        }
      })
    )

    it.effect("a renewal that races with the end of the lease either keeps the claim or loses it", () =>
      Effect.gen(function* () {
        const { agents, deadlines, session_id, submit } = yield* team("renewal")
        for (const round of Arr.range(1, ROUNDS)) {
          const step_id = StepId.make(`renewal ${round}`)
          const { claim } = yield* submit(0, step_id, { claim: true, lease_seconds: 3_600 })
          if (claim === undefined) return assert.fail("the step must be claimed")
          yield* endLease(step_id)
          const params = { id: session_id, step_id }
          const [renewed] = yield* Effect.all(
            [
              Effect.result(agents[0].sessions.renewClaim({ params, payload: { claim_id: claim.id } })),
              ...deadlines.map((one) => one.runOnce)
            ],
            { concurrency: "unbounded" }
          )
          // It has ended, whether or not a worker has seen that.
          assert.strictEqual(renewed._tag, "Failure")
          const listed = yield* agents[1].sessions.claim({ params, payload: {} }).pipe(Effect.flip)
          if (listed._tag !== "STEP_ALREADY_CLAIMED") return assert.fail(listed._tag)
          assert.strictEqual(listed.state, "unknown")
        }
      })
    )
  }
)
