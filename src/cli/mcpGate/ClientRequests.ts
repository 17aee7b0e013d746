import {
  formatMessage,
  INTERNAL_ERROR,
  type JsonObject,
  type RpcError,
  type RpcId,
  type RpcOutcome,
  type RpcRequest
} from "../mcp/jsonRpc.ts"
import { progressTokenOf } from "../mcp/protocol.ts"
import { describe } from "./describe.ts"

/** Time between progress notifications. Clients wait a minute by default. */
const PROGRESS_MILLIS = 10_000

/** A call of a tool that the client waits for. */
export interface OpenCall {
  readonly abort: AbortController
  /** Whether it waits for a person. */
  isHeld: boolean
  /** Whether it was sent to the server. */
  isSent: boolean
  /** The schema of its arguments. */
  schema: unknown
}

/** The requests of the client, and the gate's messages to it. */
export interface ClientRequests {
  /** Requests without a response. */
  readonly count: () => number
  /** Whether a request with this id is worked on, or has no response. */
  readonly isOpen: (id: RpcId) => boolean
  /** Registers a request, which has no response yet. */
  readonly begin: (request: RpcRequest) => void
  /** Registers a request as a call of a tool. */
  readonly beginCall: (request: RpcRequest) => OpenCall
  readonly findCall: (id: RpcId) => OpenCall | undefined
  readonly calls: () => Iterable<readonly [RpcId, OpenCall]>
  /** Whether a request has no response yet. */
  readonly isUnanswered: (id: RpcId) => boolean
  /** Answers a request. */
  readonly answer: (id: RpcId, outcome: RpcOutcome) => Promise<void>
  /** Answers a request with the line of the server's response. */
  readonly answerWith: (id: RpcId, line: string) => Promise<void>
  readonly fail: (id: RpcId, code: number, message: string) => Promise<void>
  readonly notify: (method: string, params?: JsonObject) => void
  /** Waits, with notifications that keep the client from giving up. */
  readonly withProgress: <A>(request: RpcRequest, message: string, wait: () => Promise<A>) => Promise<A>
  /** Works on a request, which is answered with an error if that fails. */
  readonly track: (request: RpcRequest, working: Promise<void>) => void
  /** Whether requests are worked on. */
  readonly hasWork: () => boolean
  /** Whether every request waits for a person, or for events without an end. */
  readonly isIdle: () => boolean
}

export const makeClientRequests = ({
  log,
  write
}: {
  /** Sends a line to the client. */
  readonly write: (line: string) => Promise<void>
  readonly log: (line: string) => void
}): ClientRequests => {
  /** Methods of the requests without a response. */
  const unanswered = new Map<RpcId, string>()
  const openCalls = new Map<RpcId, OpenCall>()
  const work = new Set<Promise<void>>()

  const notify: ClientRequests["notify"] = (method, params) => {
    write(formatMessage(params === undefined ? { method } : { method, params })).catch(ignore)
  }

  const answer: ClientRequests["answer"] = async (id, outcome) => {
    unanswered.delete(id)
    await write(formatMessage({ id, ...outcome }))
  }

  const fail: ClientRequests["fail"] = (id, code, message) => {
    const error: RpcError = { code, message }
    return answer(id, { error })
  }

  return {
    count: () => unanswered.size,
    isOpen: (id) => unanswered.has(id) || openCalls.has(id),
    begin: ({ id, method }) => void unanswered.set(id, method),
    beginCall: ({ id }) => {
      const call: OpenCall = {
        abort: new AbortController(),
        isHeld: false,
        isSent: false,
        schema: undefined
      }
      openCalls.set(id, call)
      return call
    },
    findCall: (id) => openCalls.get(id),
    calls: () => openCalls,
    isUnanswered: (id) => unanswered.has(id),
    answer,
    answerWith: async (id, line) => {
      unanswered.delete(id)
      await write(line)
    },
    fail,
    notify,
    withProgress: async (request, message, wait) => {
      const progressToken = progressTokenOf(request.params)
      if (progressToken === undefined) return wait()
      let count = 0
      const tick = () => {
        count++
        // Progress must increase, and that of the server comes after it: steps that are smaller than any of its own.
        notify("notifications/progress", { progressToken, progress: count / 1_000_000, message })
      }
      tick()
      const timer = setInterval(tick, PROGRESS_MILLIS)
      try {
        return await wait()
      } finally {
        clearInterval(timer)
      }
    },
    track: (request, working) => {
      const tracked = working
        .catch(async (error: unknown) => {
          log(`${request.method} failed: ${describe(error)}`)
          if (!unanswered.has(request.id)) return
          await fail(request.id, INTERNAL_ERROR, `The gate failed: ${describe(error)}`)
        })
        .catch((error: unknown) => log(describe(error)))
        .finally(() => {
          unanswered.delete(request.id)
          openCalls.delete(request.id)
          work.delete(tracked)
        })
      work.add(tracked)
    },
    hasWork: () => work.size > 0,
    isIdle: () =>
      [...unanswered].every(
        ([id, method]) => method === "subscriptions/listen" || openCalls.get(id)?.isHeld === true
      )
  }
}

const ignore = (): void => undefined
