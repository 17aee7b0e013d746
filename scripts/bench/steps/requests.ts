/** The requests that the cases send. */
import { Schema } from "effect"
import { uuidV7Hex } from "../../../src/domain/Ids.ts"
import type { Load } from "./load.ts"
import { approve, type InsertedStep, insertSteps, run, stepBody, type Tool, tools } from "./seed.ts"
import { MANY, type Request, type Side } from "./sides.ts"

/** Steps that are inserted before a round. */
export const PREPARED = 1_500

/** Steps that are requested for the first time, spread over the first `sessions` sessions. */
export const newSteps =
  (tool: Tool, sessions: number, claims = false): Load["prepare"] =>
  async ({ seed }) => {
    let count = 0
    return () => ({
      path: `/v1/agent-sessions/${seed.sessions[count++ % sessions] ?? ""}/steps`,
      key: seed.agent.secret,
      body: stepBody(`step ${uuidV7Hex()}`, tool, claims)
    })
  }

/** A step that the side has made wait for a person. */
type RequestedStep = Pick<InsertedStep, "session_id" | "approval_id" | "body">

/** Requests `PREPARED` steps that wait for a person, as agents do, and approves them in the database if they are to be `approved`. */
const requestSteps = async (
  side: Side,
  state: "pending" | "approved" | "answered"
): Promise<ReadonlyArray<RequestedStep>> => {
  const next = await newSteps(tools.waiting, side.seed.sessions.length)(side)
  const steps: Array<RequestedStep> = []
  await concurrently(Array.from({ length: PREPARED }, next), async (request) => {
    const { approval_id } = decodeAnswer(await side.send(request))
    steps.push({ session_id: request.path.split("/")[3] ?? "", approval_id, body: request.body })
  })
  if (state !== "pending") {
    await approve(
      side.sql,
      side.seed,
      steps.map((step) => step.approval_id)
    )
  }
  if (state === "answered") await concurrently(steps, (step) => side.send(repeated(side, step)))
  await side.sql.query("DELETE FROM delivery_queue")
  return steps
}

/** Runs `work` for each item, by as many callers as a round has. */
const concurrently = async <A>(
  items: ReadonlyArray<A>,
  work: (item: A) => Promise<unknown>
): Promise<void> => {
  const left = items.values()
  await Promise.all(
    Array.from({ length: MANY }, async () => {
      for (const item of left) await work(item)
    })
  )
}

/** The outcomes of `PREPARED` steps that are requested, and claimed if `claims`, before the round. */
export const outcomes =
  (claims: boolean): Load["prepare"] =>
  async (side) => {
    const next = await newSteps(tools.allowed, side.seed.sessions.length, claims)(side)
    const reports: Array<Request> = []
    await concurrently(Array.from({ length: PREPARED }, next), async (request) => {
      const { claim, step_id } = decodeAllowed(await side.send(request))
      reports.push({
        ...request,
        path: `${request.path}/${encodeURIComponent(step_id)}/outcome`,
        body: JSON.stringify({ status: "succeeded", result: { ok: true }, claim_id: claim?.id })
      })
    })
    const left = reports.values()
    return () => left.next().value ?? outOfSteps()
  }

const outOfSteps = (): never => {
  throw new Error("A round needs more steps than were requested for it")
}

const decodeAllowed = Schema.decodeUnknownSync(
  Schema.fromJsonString(
    Schema.Struct({
      step_id: Schema.String,
      claim: Schema.optionalKey(Schema.Struct({ id: Schema.String }))
    })
  )
)

const decodeAnswer = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ approval_id: Schema.String }))
)

/** One request for each step that the side makes wait before the round: its replica has seen them, as it usually has. */
export const forRequested =
  (
    state: "pending" | "approved" | "answered",
    request: (side: Side, step: RequestedStep) => Request
  ): Load["prepare"] =>
  async (side) => {
    const steps = (await requestSteps(side, state)).values()
    return () => {
      const { value } = steps.next()
      if (value === undefined) throw new Error("A round needs more steps than were requested for it")
      return request(side, value)
    }
  }

/** One request for each step that is inserted before the round: this service's process has not seen them. */
export const forInserted =
  (
    state: "pending" | "approved" | "answered",
    request: (side: Side, step: InsertedStep) => Request
  ): Load["prepare"] =>
  async (side) => {
    const steps = (await insertSteps(side.sql, side.seed, PREPARED, state)).values()
    return () => {
      const { value } = steps.next()
      if (value === undefined) throw new Error("A round needs more steps than were inserted for it")
      return request(side, value)
    }
  }

/** The request of an inserted step, again. */
export const repeated = ({ seed }: Side, { body, session_id }: RequestedStep): Request => ({
  path: `/v1/agent-sessions/${session_id}/steps`,
  key: seed.agent.secret,
  body
})

/** A decision of an inserted step. */
export const decision = ({ seed }: Side, { approval_id }: RequestedStep): Request => ({
  path: `/v1/agent-approvals/${approval_id}/decide`,
  key: seed.reviewer.secret,
  body: JSON.stringify({ decision: "approve", comment: "Checked against the contract" })
})

/** Runs with the caller's answer. */
export const newRuns: Load["prepare"] = async ({ seed }) => {
  const body = JSON.stringify({ ...run, metadata: { agent: "bench" } })
  return () => ({ path: `/v1/tasks/${seed.task_id}/run`, key: seed.agent.secret, body })
}

/** All kinds in turn. */
export const mixedRequests: Load["prepare"] = async (side) => {
  const kinds = [
    newSteps(tools.allowed, 200),
    newSteps(tools.waiting, 200),
    forInserted("pending", decision),
    forInserted("approved", repeated),
    newRuns
  ]
  const sources = await Promise.all(kinds.map((prepare) => prepare(side)))
  let count = 0
  return () => {
    const next = sources[count++ % sources.length]
    if (next === undefined) throw new Error("There must be a source of requests")
    return next()
  }
}
