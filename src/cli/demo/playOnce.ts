import { Deferred, Effect, Schedule } from "effect"
import { makeToolGate } from "../../adapters/toolGate.ts"
import type { EffectCalls } from "../../client/Call.ts"
import { connect } from "../../client/connect.ts"
import type { Execution } from "../../domain/approvals/Execution.ts"
import { printResult, printStep } from "../print.ts"
import { clientFor, createClient } from "./clients.ts"
import { DemoFailed, during } from "./DemoFailed.ts"
import { playBudget } from "./playBudget.ts"
import type { DemoService } from "./service.ts"

/** The lease of a claim. Short, so that a viewer need not wait long after the crash. */
const LEASE_SECONDS = 2

/** How long the outcome of the stopped agent may take to become unknown. */
const UNKNOWN_TIMEOUT = "30 seconds"

/** The call that both agents want to make: the step of one approval. */
const refund = {
  id: "refund-1",
  tool: "payments.refund",
  arguments: { order: "4711", amount_cents: 12_900, currency: "EUR" }
}

/**
 * Plays a crash: two agents resume an approved refund at once and one of them makes it, stops before it reports the outcome, and a person
 * resolves the execution. Then a budget runs out. Fails unless the refund was made exactly once, the other agent got the outcome, and the
 * budget was kept.
 */
export const playOnce = Effect.fnUntraced(function* (service: DemoService) {
  const admin = yield* clientFor(service, service.key)
  yield* printStep("The service", `${service.url} (${service.about})`)
  const { secret } = yield* admin.apiKeys
    .create({ payload: { name: "demo agents", preset: "runtime" } })
    .pipe(during("creating the key of the agents"))
  const reviewer = yield* createClient(service, admin, "reviewer", "demo reviewer")
  const agent = connect({ url: service.url, key: secret })
  yield* Effect.addFinalizer(() => Effect.promise(() => agent.close()))
  const { session_id } = yield* Effect.tryPromise(() => agent.sessions.create()).pipe(
    during("opening a session")
  )

  const gate = makeToolGate({ client: agent, session: session_id, leaseSeconds: LEASE_SECONDS })
  const asked = yield* Effect.promise(() => gate.ask({ ...refund }, undefined, { wait: false }))
  if (asked.verdict !== "pending") return yield* unexpected("The first request", asked.verdict)
  yield* printStep(`An agent asks to call ${refund.tool}`, JSON.stringify(refund.arguments), asked.message)
  const { approvals } = yield* reviewer.approvals
    .list({ query: { status: "pending" } })
    .pipe(during("reading the approval"))
  for (const { approval_id } of approvals) {
    yield* reviewer.approvals
      .decide({ params: { id: approval_id }, payload: { decision: "approve" } })
      .pipe(during("approving"))
  }
  yield* printStep("A person approves")

  // Each agent has a gate of its own, as in a process of its own. The one that may pay never comes back.
  let paid = 0
  const stopping = new AbortController()
  const paying = yield* Deferred.make<string>()
  const resume = (name: string) =>
    makeToolGate({ client: agent, session: session_id, leaseSeconds: LEASE_SECONDS })
      .run(
        { ...refund },
        undefined,
        (claim) => {
          paid++
          Effect.runSync(Deferred.succeed(paying, `${name} pays, under the claim ${claim?.id ?? "none"}`))
          return new Promise<never>(() => undefined)
        },
        { signal: stopping.signal }
      )
      .then((end) => ({ name, end }))
  const agents = [resume("agent 1"), resume("agent 2")]
  const payer = yield* Deferred.await(paying)
  const { end, name } = yield* Effect.promise(() => Promise.race(agents))
  if (end.verdict !== "deny") return yield* unexpected("The second agent's answer", end.verdict)
  yield* printStep("Two agents resume the step at once", payer, `${name} does not: ${end.message}`)

  stopping.abort()
  const unknown = yield* awaitUnknown(reviewer, session_id)
  yield* printStep(
    "The agent that paid is stopped before it reports the outcome",
    `GET /v1/executions: ${unknown.tool} is ${unknown.state}, attempt ${unknown.attempt}`
  )

  const late = yield* Effect.promise(() => gate.ask({ ...refund }, undefined, { wait: false }))
  if (late.verdict !== "deny" || late.cause !== "unknown")
    return yield* unexpected("The answer after the crash", late.verdict)
  yield* printStep("The other agent tries again, and is denied", late.message)

  const resolved = yield* reviewer.executions
    .resolve({
      params: { claim_id: unknown.claim_id },
      payload: { resolution: "succeeded", comment: "The bank's statement has the refund" }
    })
    .pipe(during("resolving the execution"))
  yield* printStep(
    "A person finds the refund in the bank's statement, and resolves the execution",
    `state: ${resolved.state}, by ${resolved.resolution?.resolved_by.name ?? "nobody"}`
  )

  const told = yield* Effect.promise(() => gate.ask({ ...refund }, undefined, { wait: false }))
  if (told.verdict !== "deny" || told.cause !== "executed")
    return yield* unexpected("The answer after the resolution", told.verdict)
  yield* printStep("The other agent tries again, and is told the outcome", told.message)
  if (paid !== 1) return yield* new DemoFailed({ message: `the refund was made ${paid} times` })
  yield* playBudget(admin, agent)
  yield* printResult(true, "Two agents, one crash, one refund, and a budget that was kept.")
})

const unexpected = (what: string, verdict: string) =>
  Effect.fail(new DemoFailed({ message: `${what} is unexpected: ${verdict}` }))

/** Waits until people are shown that the outcome is unknown. */
const awaitUnknown = (reviewer: EffectCalls, session_id: string): Effect.Effect<Execution, DemoFailed> =>
  reviewer.executions.list({ query: { state: "unknown" } }).pipe(
    during("listing the executions"),
    Effect.map(({ executions }) => executions.find((execution) => execution.session_id === session_id)),
    Effect.repeat({ until: (found) => found !== undefined, schedule: Schedule.spaced("100 millis") }),
    Effect.flatMap((found) =>
      found === undefined ? unexpected("The list of executions", "empty") : Effect.succeed(found)
    ),
    Effect.timeoutOrElse({
      duration: UNKNOWN_TIMEOUT,
      orElse: () => unexpected("The list of executions", `empty after ${UNKNOWN_TIMEOUT}`)
    })
  )
