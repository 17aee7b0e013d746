import { Cause, Effect, FiberMap, Latch } from "effect"
import {
  formatMessage,
  INTERNAL_ERROR,
  type JsonObject,
  type RpcId,
  type RpcOutcome,
  type RpcRequest
} from "../mcp/jsonRpc.ts"
import { progressTokenOf } from "../mcp/protocol.ts"
import { describe } from "./describe.ts"

/** Time between progress notifications. Clients wait a minute by default. */
const PROGRESS_MILLIS = 10_000

/** A request of the client, which a fiber works on. */
export interface ClientRequest extends RpcRequest {
  /** Open while the request waits for a person, and at its end. */
  readonly atRest: Latch.Latch
  /** Whether the client expects no response: it has one, or cancelled the request. */
  isAnswered: boolean
  /** Whether the server may have got it. Its fiber is not interrupted then. */
  isSent: boolean
}

export type ClientRequests = Effect.Success<ReturnType<typeof makeClientRequests>>

/** The requests of the client, and the gate's messages to it. */
export const makeClientRequests = Effect.fnUntraced(function* ({
  log,
  write
}: {
  /** Sends a line to the client. */
  readonly write: (line: string) => Promise<void>
  readonly log: (line: string) => void
}) {
  const open = new Map<RpcId, ClientRequest>()
  const fibers = yield* FiberMap.make<RpcId>()

  const notify = (method: string, params?: JsonObject): void => {
    write(formatMessage(params === undefined ? { method } : { method, params })).catch(() => undefined)
  }

  /** Answers a request with the line of the server's response, unless it is answered. */
  const answerWith = (id: RpcId, line: string): Effect.Effect<void> =>
    Effect.suspend(() => {
      const request = open.get(id)
      if (request?.isAnswered === true) return Effect.void
      if (request !== undefined) request.isAnswered = true
      // A client that reads nothing does not hold the end of the gate up.
      return Effect.interruptible(Effect.promise(() => write(line)))
    })

  const answer = (id: RpcId, outcome: RpcOutcome): Effect.Effect<void> =>
    answerWith(id, formatMessage({ id, ...outcome }))

  const fail = (id: RpcId, code: number, message: string): Effect.Effect<void> =>
    answer(id, { error: { code, message } })

  const isBusy = ({ atRest, method }: ClientRequest): boolean =>
    method !== "subscriptions/listen" && !Latch.isOpen(atRest)

  return {
    answer,
    answerWith,
    fail,
    notify,
    count: () => open.size,
    find: (id: unknown): ClientRequest | undefined =>
      typeof id === "string" || typeof id === "number" ? open.get(id) : undefined,

    /** Registers a request. */
    begin: (message: RpcRequest): ClientRequest => {
      const request = { ...message, atRest: Latch.makeUnsafe(false), isAnswered: false, isSent: false }
      open.set(message.id, request)
      return request
    },

    /** Works on a request in a fiber. The request is answered with an error if that fails. */
    start: (request: ClientRequest, work: Effect.Effect<void>) =>
      work.pipe(
        Effect.catchCause((cause) => {
          const error = describe(Cause.squash(cause))
          log(`${request.method} failed: ${error}`)
          return fail(request.id, INTERNAL_ERROR, `The gate failed: ${error}`)
        }),
        Effect.ensuring(Effect.sync(() => open.delete(request.id))),
        Effect.ensuring(request.atRest.open),
        FiberMap.run(fibers, request.id)
      ),

    /** Waits for a person, with notifications that keep the client from giving up. */
    hold: <A>(request: ClientRequest, message: string, wait: Effect.Effect<A>): Effect.Effect<A> => {
      const progressToken = progressTokenOf(request.params)
      let count = 0
      const tick = Effect.sync(() => {
        count++
        // Progress must increase, and that of the server comes after it: steps that are smaller than any of its own.
        notify("notifications/progress", { progressToken, progress: count / 1_000_000, message })
      })
      const ticking = Effect.forever(Effect.andThen(tick, Effect.sleep(PROGRESS_MILLIS)))
      return Effect.acquireUseRelease(
        request.atRest.open,
        () => (progressToken === undefined ? wait : Effect.raceFirst(wait, ticking)),
        () => request.atRest.close
      )
    },

    /** Interrupts a request that was not sent, and does not answer it. */
    interrupt: (request: ClientRequest): Effect.Effect<void> =>
      Effect.suspend(() => {
        request.isAnswered = true
        return FiberMap.remove(fibers, request.id)
      }),
    unsent: (): ReadonlyArray<ClientRequest> => [...open.values()].filter(({ isSent }) => !isSent),

    /** Waits until every request waits for a person, or for events without an end. */
    drained: Effect.gen(function* () {
      for (let busy = [...open.values()].filter(isBusy); busy.length > 0;) {
        yield* Effect.forEach(busy, ({ atRest }) => atRest.await, { discard: true })
        busy = [...open.values()].filter(isBusy)
      }
    }),
    /** Waits until no request is open. */
    finished: FiberMap.awaitEmpty(fibers)
  }
})
