/** The cases of the `steps` benchmark, by name. */
import { uuidV7Hex } from "../../../src/domain/Ids.ts"
import { type Load, measure, report } from "./load.ts"
import { type InsertedStep, insertSteps, run, stepBody, type Tool, tools } from "./seed.ts"
import { MANY, type Request, type Side, type Sides } from "./sides.ts"

const concurrent = { callers: MANY, millis: 1_000, rounds: 5 }
const alone = { ...concurrent, callers: 1 }

/** Prepared steps per round, and the most steps of a round that waits: so many deliveries are queued for each endpoint at most. */
const BATCH = 1_500

/** Steps that are requested for the first time, spread over the first `sessions` sessions. */
const newSteps =
  (tool: Tool, sessions: number) =>
  async ({ seed }: Side): Promise<() => Request> => {
    let count = 0
    return () => ({
      path: `/v1/agent-sessions/${seed.sessions[count++ % sessions] ?? ""}/steps`,
      key: seed.agent.secret,
      body: stepBody(`step ${uuidV7Hex()}`, tool)
    })
  }

/** Empties the queue, so that no round starts with the deliveries of the one before. */
const withEmptyQueue =
  (prepare: Load["prepare"]): Load["prepare"] =>
  async (side) => {
    await side.sql.query("DELETE FROM delivery_queue")
    return await prepare(side)
  }

/** One request for each step that is inserted before the round. */
const forInserted =
  (
    state: "pending" | "approved" | "answered",
    request: (side: Side, step: InsertedStep) => Request
  ): Load["prepare"] =>
  async (side) => {
    const steps = (await insertSteps(side.sql, side.seed, BATCH, state)).values()
    return () => {
      const { value } = steps.next()
      if (value === undefined) throw new Error("A round needs more steps than were inserted for it")
      return request(side, value)
    }
  }

const repeated = ({ seed }: Side, { body, session_id }: InsertedStep): Request => ({
  path: `/v1/agent-sessions/${session_id}/steps`,
  key: seed.agent.secret,
  body
})

const decision = ({ seed }: Side, { approval_id }: InsertedStep): Request => ({
  path: `/v1/agent-approvals/${approval_id}/decide`,
  key: seed.reviewer.secret,
  body: JSON.stringify({ decision: "approve", comment: "Checked against the contract" })
})

const allowed = async ({ all }: Sides) => {
  const limits = { processor: 600, ratio: 50 }
  const many = (tool: Tool, sessions: number) =>
    measure(all, { ...concurrent, prepare: newSteps(tool, sessions) })
  report("A step allowed by a rule, 16 callers, 200 sessions", await many(tools.allowed, 200), limits)
  report("A step rejected by a rule, 16 callers, 200 sessions", await many(tools.rejected, 200), limits)
  report("A step allowed by a rule, 16 callers, one session", await many(tools.allowed, 1), limits)
  report(
    "A step allowed by a rule, one caller",
    await measure(all, { ...alone, prepare: newSteps(tools.allowed, 200) }),
    { p50: 2 }
  )
}

const waiting = async ({ all }: Sides) =>
  report(
    "A step that waits for a person, 16 callers, 200 sessions; 3 endpoints, in cooldown: deliveries are queued and not sent",
    await measure(all, {
      ...concurrent,
      limit: BATCH,
      prepare: withEmptyQueue(newSteps(tools.waiting, 200))
    }),
    { processor: 900, perSecond: 1_200 }
  )

const decide = async ({ all }: Sides) =>
  report(
    "A decision, 16 callers, 200 sessions; 3 endpoints, in cooldown: deliveries are queued and not sent",
    await measure(all, {
      ...concurrent,
      limit: BATCH,
      prepare: withEmptyQueue(forInserted("pending", decision))
    }),
    { processor: 800 }
  )

const resume = async ({ all }: Sides) => {
  const load = (state: "approved" | "answered") =>
    measure(all, { ...concurrent, limit: BATCH, prepare: forInserted(state, repeated) })
  report(
    "A decided step is requested again, the first time after its decision, 16 callers (the bare handler needs two round trips)",
    await load("approved"),
    { processor: 400 }
  )
  report("A decided step is requested again, further times, 16 callers", await load("answered"), {
    processor: 400
  })
}

const logRun = async ({ all }: Sides) =>
  report(
    "A run is logged with its answer, 16 callers",
    await measure(all, {
      ...concurrent,
      prepare: async ({ seed }) => {
        const body = JSON.stringify({ ...run, metadata: { agent: "bench" } })
        return () => ({ path: `/v1/tasks/${seed.task_id}/run`, key: seed.agent.secret, body })
      }
    }),
    { processor: 400 }
  )

/** The cases in the order in which they run. */
export const cases: Readonly<Record<string, (sides: Sides) => Promise<void>>> = {
  allowed,
  waiting,
  decide,
  resume,
  run: logRun
}
