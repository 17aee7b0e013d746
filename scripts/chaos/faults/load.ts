/**
 * Agents and a reviewer that use the service while faults happen, and record which of their writes were acknowledged.
 * A write that was not acknowledged is repeated until it is, as clients do.
 */
import { Effect, type Redacted, Redacted as Secret, type Scope } from "effect"
import { randomUUID } from "node:crypto"
import { call, type Reply } from "./service.ts"

/** What the service acknowledged. */
export interface Acknowledged {
  readonly sessions: Set<string>
  /** Session and step, joined by a space. */
  readonly steps: Set<string>
  /** Approvals that a decision approved. */
  readonly decisions: Set<string>
}

/** A running load. */
export interface Load {
  readonly acknowledged: Acknowledged
  /** Calls by how they ended. */
  readonly replies: Readonly<Record<Reply["_tag"], number>>
  /** Responses that the API does not promise during an outage. */
  readonly wrong: ReadonlyArray<string>
  /** Calls that were accepted, by the number of the service. */
  readonly acceptedBy: ReadonlyArray<number>
  /** Ends the load after the calls in flight. */
  readonly stop: Effect.Effect<void>
}

/** The keys of the load. An agent cannot approve its own requests, and neither can keys that it created. */
export interface Keys {
  readonly agent: Redacted.Redacted
  readonly reviewer: Redacted.Redacted
}

const STEPS_PER_SESSION = 20
const WORKERS = 6
/** Pause before a refused call is repeated. */
const RETRY_MILLIS = 100
/** The arguments of a step: large enough that the database's files and its write-ahead log grow. */
const ARGUMENT_LENGTH = 4_000

/** A client that repeats each call until a service accepts it, and counts how the calls ended. */
export const makePersistentClient = (urls: () => ReadonlyArray<string>, ending: AbortSignal) => {
  const replies: Record<Reply["_tag"], number> = { Accepted: 0, Refused: 0, Unreachable: 0, Wrong: 0 }
  const wrong: Array<string> = []
  const acceptedBy: Array<number> = []
  return {
    replies,
    wrong,
    acceptedBy,
    /** Repeats a call until it is accepted, at another service each time. Undefined: the load was stopped. */
    insist: async (worker: number, key: Redacted.Redacted, path: string, body: unknown) => {
      const idempotencyKey = randomUUID()
      for (let attempt = worker; !ending.aborted; attempt++) {
        const list = urls()
        const number = attempt % list.length
        const url = list[number] ?? ""
        const reply = await call({ url, key, path, body, idempotencyKey })
        replies[reply._tag]++
        if (reply._tag === "Accepted") {
          acceptedBy[number] = (acceptedBy[number] ?? 0) + 1
          return reply.body
        }
        if (reply._tag === "Wrong") wrong.push(reply.description)
        await new Promise((resume) => setTimeout(resume, RETRY_MILLIS))
      }
      return undefined
    }
  }
}

/** Starts the load on services that share one database. Ends it when the scope closes. */
export const startLoad = (
  urls: () => ReadonlyArray<string>,
  keys: Keys
): Effect.Effect<Load, never, Scope.Scope> =>
  Effect.gen(function* () {
    const acknowledged: Acknowledged = { sessions: new Set(), steps: new Set(), decisions: new Set() }
    const ending = new AbortController()
    const isEnding = () => ending.signal.aborted
    const { acceptedBy, insist, replies, wrong } = makePersistentClient(urls, ending.signal)

    const work = async (worker: number) => {
      while (!isEnding()) {
        const session = await insist(worker, keys.agent, "/v1/agent-sessions", {})
        if (session === undefined) return
        const sessionId = String(session["session_id"])
        acknowledged.sessions.add(sessionId)
        for (let number = 1; number <= STEPS_PER_SESSION; number++) {
          const stepId = `step-${number}`
          const step = await insist(worker, keys.agent, `/v1/agent-sessions/${sessionId}/steps`, {
            step_id: stepId,
            tool: "payments.refund",
            action_class: "write",
            arguments: { number, note: incompressible(ARGUMENT_LENGTH) }
          })
          if (step === undefined) return
          acknowledged.steps.add(`${sessionId} ${stepId}`)
          const approvalId = String(step["approval_id"])
          const decided = await insist(worker, keys.reviewer, `/v1/agent-approvals/${approvalId}/decide`, {
            decision: "approve"
          })
          if (decided === undefined) return
          acknowledged.decisions.add(approvalId)
        }
      }
    }

    const workers = Array.from({ length: WORKERS }, (_, worker) => work(worker))
    const stop = Effect.promise(async () => {
      ending.abort()
      await Promise.all(workers)
    })
    yield* Effect.addFinalizer(() => stop)
    return { acknowledged, replies, wrong, acceptedBy, stop }
  })

const incompressible = (length: number): string => {
  let text = ""
  while (text.length < length) text += Math.random().toString(36).slice(2)
  return text.slice(0, length)
}

/** Creates the keys of the load and an endpoint for all events, with the first admin key. */
export const prepareOrganization = (url: string, admin: Redacted.Redacted, receiver: string) =>
  Effect.promise(async (): Promise<Keys> => {
    const create = async (path: string, body: unknown) => {
      const reply = await call({ url, key: admin, path, body })
      if (reply._tag !== "Accepted") throw new Error(JSON.stringify(reply))
      return reply.body
    }
    const createKey = async (preset: string) =>
      Secret.make(String((await create("/v1/api-keys", { name: preset, preset }))["secret"]))
    await create("/v1/notification-endpoints", { url: receiver })
    return { agent: await createKey("runtime"), reviewer: await createKey("reviewer") }
  })
