import { Effect, ManagedRuntime } from "effect"
import type { CallOptions, PromiseCalls } from "./Call.ts"
import { Client, type ClientOptions, mapCalls } from "./Client.ts"

/** The typed client as plain promises. */
export interface CountersignClient extends PromiseCalls, AsyncDisposable {
  /** Ends the calls under way and all to come: they reject. Closing again does nothing. */
  readonly close: () => Promise<void>
}

/**
 * A client for those who do not use Effect: the same operations as {@link Client}'s, as promises.
 *
 * ```ts
 * const countersign = connect({ url: "http://127.0.0.1:8080", key: process.env.COUNTERSIGN_KEY })
 * const session = await countersign.sessions.create({ payload: { metadata: { ticket: "4711" } } })
 * ```
 *
 * A call rejects with the problem that the service answered: an error whose `code`, `status`, `detail` and `request_id` are those on
 * the wire. `code` tells problems apart, also where `instanceof` cannot. Throws a `TypeError` where `url` is none of http.
 */
export const connect = (options: ClientOptions): CountersignClient => {
  const runtime = ManagedRuntime.make(Client.layer(options))
  const calls = runtime.runSync(Client)
  const closed = new AbortController()
  const promised = mapCalls(calls, (call) => (input?: object, callOptions?: CallOptions) => {
    const given = callOptions?.signal
    const signal = given === undefined ? closed.signal : AbortSignal.any([closed.signal, given])
    return Effect.runPromise(effectOf(call(input ?? {})), { signal }).catch((error: unknown) => {
      // As `fetch` does: a call that was ended rejects with the reason it was ended for.
      throw signal.aborted ? signal.reason : error
    })
  })
  const close = async () => {
    closed.abort(new Error("The client was closed"))
    await runtime.dispose()
  }
  return {
    // The groups and methods are those of `Client`, of whose types `PromiseCalls` are the promises.
    ...(promised as unknown as PromiseCalls),
    close,
    [Symbol.asyncDispose]: close
  }
}

/** Every method of `Client` answers with an effect that needs nothing. */
const effectOf = (answer: unknown) => answer as Effect.Effect<unknown, unknown>
