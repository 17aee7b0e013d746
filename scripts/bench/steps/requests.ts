/** The requests that the cases send. */
import { uuidV7Hex } from "../../../src/domain/Ids.ts"
import type { Load } from "./load.ts"
import { type InsertedStep, insertSteps, run, stepBody, type Tool, tools } from "./seed.ts"
import type { Request, Side } from "./sides.ts"

/** Steps that are inserted before a round. */
export const PREPARED = 1_500

/** Steps that are requested for the first time, spread over the first `sessions` sessions. */
export const newSteps =
  (tool: Tool, sessions: number): Load["prepare"] =>
  async ({ seed }) => {
    let count = 0
    return () => ({
      path: `/v1/agent-sessions/${seed.sessions[count++ % sessions] ?? ""}/steps`,
      key: seed.agent.secret,
      body: stepBody(`step ${uuidV7Hex()}`, tool)
    })
  }

/** One request for each step that is inserted before the round. */
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
export const repeated = ({ seed }: Side, { body, session_id }: InsertedStep): Request => ({
  path: `/v1/agent-sessions/${session_id}/steps`,
  key: seed.agent.secret,
  body
})

/** A decision of an inserted step. */
export const decision = ({ seed }: Side, { approval_id }: InsertedStep): Request => ({
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
