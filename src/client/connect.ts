import { baseUrl, type ClientOptions, redactedKey } from "./ClientOptions.ts"
import { makeApprovalWaits } from "./connect/approvalWaits.ts"
import { call, type CallInput } from "./connect/call.ts"
import type { CallOptions } from "./connect/CallOptions.ts"
import { govern, type GovernedDecision, type WaitOptions } from "./connect/govern.ts"
import type { GovernedStep, Operations, SessionEvent, StepRequest } from "./connect/generated/Operations.ts"
import { operationTable } from "./connect/generated/operationTable.ts"
import type { Connection } from "./connect/send.ts"
import { makeFollower } from "./connect/sessionEvents.ts"
import { Closing, toMillis } from "./connect/wait.ts"
import { DEFAULT_RETRIES, DEFAULT_TIMEOUT, RUN_TIMEOUT } from "./retryPolicy.ts"
import type { StreamOptions } from "./StreamOptions.ts"

/** The typed client with promises. */
export interface CountersignClient extends Operations, AsyncDisposable {
  /**
   * Streams a session's events in order, each once, across reconnects, until `session:closed`: `for await (const event of
   * countersign.stream(session_id)) …`. Leaving the loop closes the connection.
   */
  readonly stream: (id: string, options?: StreamOptions & CallOptions) => AsyncIterable<SessionEvent>
  /**
   * Requests a step and waits for its decision. Aborting the wait leaves the approval pending; calling again with the same step resumes it.
   * Requesting a step is idempotent, so a request is retried if the service is busy or unreachable: three times before the first response,
   * without limit afterwards.
   *
   * @throws DECISION_TIMEOUT after its `timeout`, and the problems of `sessions.step`.
   */
  readonly govern: (id: string, step: StepRequest, options?: WaitOptions) => Promise<GovernedDecision>
  /** Aborts running and future calls: they reject. Idempotent. */
  readonly close: () => Promise<void>
}

/**
 * Creates a client with promises. It needs `fetch`, and little else: it is a fifth of the size of the Effect client.
 *
 * ```ts
 * const countersign = connect({ url: "http://127.0.0.1:8080", key })
 * const session = await countersign.sessions.create({ payload: { metadata: { ticket: "4711" } } })
 * ```
 *
 * Ids are plain strings and times are `Date`; in input, times may also be strings (`2026-11-21T02:33:05Z`). Input of the wrong type rejects
 * with `INVALID_REQUEST` before anything is sent. A call rejects with a {@link Problem}: an error with a `code`, and the `status`, `detail`
 * and `request_id` of the response if one arrived. Distinguish problems with {@link isProblem}. Throws a `TypeError` if `url` is not an
 * http or https URL.
 */
export const connect = (options: ClientOptions): CountersignClient => {
  const closed = new Closing()
  const connection: Connection = {
    url: baseUrl(options.url),
    key: redactedKey(options.key),
    retries: options.retries ?? DEFAULT_RETRIES,
    closed
  }
  const timeout = toMillis(options.timeout ?? DEFAULT_TIMEOUT)
  const runTimeout = toMillis(options.timeout ?? RUN_TIMEOUT)

  const groups = Object.fromEntries(
    Object.entries(operationTable).map(([group, entries]) => [
      group,
      Object.fromEntries(
        Object.entries(entries)
          .filter(
            ([, { json, lines, status }]) => json !== undefined || lines !== undefined || status === 204
          )
          .map(([name, entry]) => {
            const operation = `${group}.${name}`
            const limit = operation === "tasks.run" ? runTimeout : timeout
            return [
              name,
              (input: CallInput = {}, callOptions: CallOptions = {}) =>
                call(connection, operation, entry, input, limit, callOptions)
            ]
          })
      )
    ])
  )
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- table and types are generated from the same contract, and `call` checks responses by the table
  const operations = groups as unknown as Operations

  const follower = makeFollower(connection, timeout)
  const waits = makeApprovalWaits(follower)
  const close = async () => closed.close(new Error("The client was closed"))
  return {
    ...operations,
    stream: follower.stream,
    govern: (id, step, waitOptions = {}) => {
      const submit = (payload: StepRequest, signal: AbortSignal): Promise<GovernedStep> =>
        operations.sessions.step({ params: { id }, payload }, { signal })
      return govern(submit, waits, id, step, waitOptions, closed)
    },
    close,
    [Symbol.asyncDispose]: close
  }
}
