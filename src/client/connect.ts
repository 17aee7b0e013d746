import { Effect, ManagedRuntime, Stream } from "effect"
import type { SessionEvent } from "../api/SessionStream.ts"
import type { SessionId } from "../domain/Ids.ts"
import type { StepRequest } from "../api/AgentSessions.ts"
import type { CallOptions, PlainOutput, PlainInput, PromiseCalls } from "./Call.ts"
import { Client, type ClientOptions, effectOf, mapCalls } from "./Client.ts"
import type { GovernResult, GovernOptions } from "./govern.ts"
import type { StreamOptions } from "./stream.ts"
import { toPlainOutput, toPlainProblem, inputReader } from "./plainValues.ts"

/** The typed client as plain promises. */
export interface CountersignClient extends PromiseCalls, AsyncDisposable {
  /**
   * A session's events in order, each once, over any number of breaks, until `session:closed`:
   * `for await (const event of countersign.stream(session_id)) …`. Leaving the loop ends the connection.
   */
  readonly stream: (
    id: string,
    options?: StreamOptions & CallOptions
  ) => AsyncIterable<PlainOutput<SessionEvent>>
  /** Asks for a step and waits until it is decided. Ended early, the approval stays as it is; asking again goes on there. */
  readonly govern: (
    id: string,
    step: PlainInput<StepRequest>,
    options?: GovernOptions & CallOptions
  ) => Promise<PlainOutput<GovernResult>>
  /** Ends the calls under way and all to come: they reject. Closing again does nothing. */
  readonly close: () => Promise<void>
}

/**
 * A client for those who do not use Effect: the same operations as {@link Client}'s, as promises.
 *
 * ```ts
 * const countersign = connect({ url: "http://127.0.0.1:8080", key })
 * const session = await countersign.sessions.create({ payload: { metadata: { ticket: "4711" } } })
 * ```
 *
 * Ids are plain strings here and times are `Date`, which may also be given as text (`2026-11-21T02:33:05Z`); what is none of the
 * contract's rejects before anything is sent. A call rejects with the problem that the service answered: an error whose `code`, `status`,
 * `detail` and `request_id` are those on the wire. `code` tells problems apart, also where `instanceof` cannot. Throws a `TypeError`
 * where `url` is none of http.
 */
export const connect = (options: ClientOptions): CountersignClient => {
  const runtime = ManagedRuntime.make(Client.layer(options))
  const calls = runtime.runSync(Client)
  const closed = new AbortController()
  const run = <A>(effect: Effect.Effect<A, unknown>, options?: CallOptions): Promise<PlainOutput<A>> => {
    const { done, signal } = either(closed.signal, options?.signal)
    return Effect.runPromise(effect, { signal })
      .then(toPlainOutput, (error: unknown) => {
        // As `fetch` does: a call that was ended rejects with the reason it was ended for.
        throw signal.aborted ? signal.reason : toPlainProblem(error)
      })
      .finally(done)
  }
  const { govern, stream, ...groups } = calls
  const promised = mapCalls(groups, (call, endpoint) => {
    const read = inputReader(endpoint)
    return (input?: object, callOptions?: CallOptions) => run(effectOf(call(read(input ?? {}))), callOptions)
  })
  const close = async () => {
    closed.abort(new Error("The client was closed"))
    await runtime.dispose()
  }
  return {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the groups and methods are those of `Client`, of whose types `PromiseCalls` are the promises
    ...(promised as unknown as PromiseCalls),
    stream: (id, streamOptions) =>
      Stream.toAsyncIterable(
        Stream.interruptWhen(
          Stream.map(stream(unchecked<SessionId>(id), streamOptions), toPlainOutput),
          Effect.raceFirst(aborted(closed.signal), aborted(streamOptions?.signal))
        )
      ),
    govern: (id, step, governOptions) =>
      run(govern(unchecked<SessionId>(id), unchecked<StepRequest>(step), governOptions), governOptions),
    close,
    [Symbol.asyncDispose]: close
  }
}

/**
 * A signal that is aborted with the first of two, until it is done with. `AbortSignal.any` is not everywhere that `fetch` is: Node has
 * it from 20.3 on.
 */
const either = (
  one: AbortSignal,
  other: AbortSignal | undefined
): { readonly signal: AbortSignal; readonly done: () => void } => {
  if (other === undefined) return { signal: one, done: () => {} }
  const first = new AbortController()
  const ends = [one, other].map((signal) => {
    const listener = () => first.abort(signal.reason)
    if (signal.aborted) listener()
    signal.addEventListener("abort", listener, { once: true })
    return () => signal.removeEventListener("abort", listener)
  })
  return { signal: first.signal, done: () => ends.forEach((end) => end()) }
}

/** Fails with the signal's reason once it is aborted; never without one. */
const aborted = (signal: AbortSignal | undefined): Effect.Effect<never, unknown> =>
  Effect.callback((resume) => {
    if (signal === undefined) return
    const listener = () => resume(Effect.fail(signal.reason))
    if (signal.aborted) return listener()
    signal.addEventListener("abort", listener, { once: true })
    return Effect.sync(() => signal.removeEventListener("abort", listener))
  })

/** What the schema of the operation checks before it is sent. */
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- of what is given so, `Plain` takes the brands away and nothing else
const unchecked = <A>(plain: PlainInput<A>): A => plain as A
