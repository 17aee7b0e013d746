import { Effect, ManagedRuntime, Stream } from "effect"
import type { SessionEvent } from "../api/SessionStream.ts"
import type { SessionId } from "../domain/Ids.ts"
import type { StepRequest } from "../api/AgentSessions.ts"
import type { CallOptions, PlainOutput, PlainInput, PromiseCalls } from "./Call.ts"
import { Client, type ClientOptions, asEffect, mapCalls } from "./Client.ts"
import type { GovernResult, GovernOptions } from "./govern.ts"
import type { StreamOptions } from "./stream.ts"
import { toPlainOutput, toPlainProblem, inputReader } from "./plainValues.ts"

/** The typed client with promises. */
export interface CountersignClient extends PromiseCalls, AsyncDisposable {
  /**
   * Streams a session's events in order, each once, across reconnects, until `session:closed`: `for await (const event of
   * countersign.stream(session_id)) …`. Leaving the loop closes the connection.
   */
  readonly stream: (
    id: string,
    options?: StreamOptions & CallOptions
  ) => AsyncIterable<PlainOutput<SessionEvent>>
  /**
   * Requests a step and waits for its decision. Aborting the wait leaves the approval pending; calling again with the same step resumes it.
   */
  readonly govern: (
    id: string,
    step: PlainInput<StepRequest>,
    options?: GovernOptions & CallOptions
  ) => Promise<PlainOutput<GovernResult>>
  /** Aborts running and future calls: they reject. Idempotent. */
  readonly close: () => Promise<void>
}

/**
 * Creates a client without Effect: the operations of {@link Client} as promises.
 *
 * ```ts
 * const countersign = connect({ url: "http://127.0.0.1:8080", key })
 * const session = await countersign.sessions.create({ payload: { metadata: { ticket: "4711" } } })
 * ```
 *
 * Ids are plain strings and times are `Date`; in input, times may also be strings (`2026-11-21T02:33:05Z`). Invalid input rejects before
 * anything is sent. A call rejects with the service's problem: an error with the `code`, `status`, `detail` and `request_id` of the
 * response. Distinguish problems by `code`, which works even if `instanceof` does not. Throws a `TypeError` if `url` is not an http or
 * https URL.
 */
export const connect = (options: ClientOptions): CountersignClient => {
  const runtime = ManagedRuntime.make(Client.layer(options))
  const calls = runtime.runSync(Client)
  const closed = new AbortController()
  const run = <A>(effect: Effect.Effect<A, unknown>, options?: CallOptions): Promise<PlainOutput<A>> => {
    const { done, signal } = abortOnFirst(closed.signal, options?.signal)
    return Effect.runPromise(effect, { signal })
      .then(toPlainOutput, (error: unknown) => {
        // Like `fetch`, an aborted call rejects with the signal's reason.
        throw signal.aborted ? signal.reason : toPlainProblem(error)
      })
      .finally(done)
  }
  const { govern, stream, ...groups } = calls
  const promised = mapCalls(groups, (call, endpoint) => {
    const read = inputReader(endpoint)
    return (input?: object, callOptions?: CallOptions) => run(asEffect(call(read(input ?? {}))), callOptions)
  })
  const close = async () => {
    closed.abort(new Error("The client was closed"))
    await runtime.dispose()
  }
  return {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the same groups and methods as `Client`, with promises
    ...(promised as unknown as PromiseCalls),
    stream: (id, streamOptions) =>
      Stream.toAsyncIterable(
        Stream.interruptWhen(
          Stream.map(stream(fromPlain<SessionId>(id), streamOptions), toPlainOutput),
          Effect.raceFirst(aborted(closed.signal), aborted(streamOptions?.signal))
        )
      ),
    govern: (id, step, governOptions) =>
      run(govern(fromPlain<SessionId>(id), fromPlain<StepRequest>(step), governOptions), governOptions),
    close,
    [Symbol.asyncDispose]: close
  }
}

/**
 * Returns a signal that aborts with the first of two, and a function that removes its listeners. Node has `AbortSignal.any` from 20.3 on
 * only.
 */
const abortOnFirst = (
  one: AbortSignal,
  other: AbortSignal | undefined
): { readonly signal: AbortSignal; readonly done: () => void } => {
  if (other === undefined) return { signal: one, done: () => {} }
  const first = new AbortController()
  const removals = [one, other].map((signal) => {
    const listener = () => first.abort(signal.reason)
    if (signal.aborted) listener()
    signal.addEventListener("abort", listener, { once: true })
    return () => signal.removeEventListener("abort", listener)
  })
  return { signal: first.signal, done: () => removals.forEach((remove) => remove()) }
}

/** Fails with the signal's reason when it aborts; never completes without a signal. */
const aborted = (signal: AbortSignal | undefined): Effect.Effect<never, unknown> =>
  Effect.callback((resume) => {
    if (signal === undefined) return
    const listener = () => resume(Effect.fail(signal.reason))
    if (signal.aborted) return listener()
    signal.addEventListener("abort", listener, { once: true })
    return Effect.sync(() => signal.removeEventListener("abort", listener))
  })

/** Passes plain input to an operation, whose schema checks it before it is sent. */
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- `PlainInput` of these types only removes brands
const fromPlain = <A>(plain: PlainInput<A>): A => plain as A
