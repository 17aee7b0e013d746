import { apiKey, baseUrl, type ClientOptions } from "./ClientOptions.ts"
import { changeOf, makeApprovalWaits } from "./connect/approvalWaits.ts"
import { call, type CallDefaults } from "./connect/call.ts"
import type { CallOptions } from "./connect/CallOptions.ts"
import { callPromise, pagePromise } from "./connect/CallPromise.ts"
import { toMillis } from "./connect/Duration.ts"
import {
  type ClaimedDecision,
  type ExecutedStep,
  type ExecuteOptions,
  type ExecutionFault,
  executionOf,
  faultNotifier,
  renewWhileRunning,
  reportEnd,
  requestedLease,
  runReported
} from "./connect/execute.ts"
import { eventSource } from "./connect/eventSource.ts"
import type {
  ApprovalMessage,
  ApprovalSnapshot,
  GovernedStep,
  Operations,
  SessionEvent,
  StepRequest
} from "./connect/generated/Operations.ts"
import { operationTable } from "./connect/generated/operationTable.ts"
import {
  govern,
  type GovernedDecision,
  proposedStep,
  stepHeaders,
  type WaitOptions
} from "./connect/govern.ts"
import { backgroundClock } from "./connect/keepClaim.ts"
import type { Connection } from "./connect/send.ts"
import { makeFollower } from "./connect/sessionEvents.ts"
import type { OperationEntry } from "./connect/shape.ts"
import { Closing, linkSignals, systemClock } from "./connect/wait.ts"
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
   * without limit afterwards. With `claim` in the step, an allowed one is claimed for this call alone, also if a response was lost:
   * execute it, renew the claim meanwhile, and report the outcome with its ID.
   *
   * @throws DECISION_TIMEOUT after its `timeout`, and the problems of `sessions.step`.
   */
  readonly govern: (id: string, step: StepRequest, options?: WaitOptions) => Promise<GovernedDecision>
  /**
   * Requests a step with a claim, waits for its decision, executes it if it is allowed, and reports the outcome. No other process executes the
   * step: the claim is renewed while the tool runs. If this process ends before the outcome is reported, or the tool throws after the `signal`
   * was aborted, the execution is unknown, and a person finds out what happened. `lease_seconds` and `after_unknown` of the step say how it is claimed.
   *
   * @throws the tool's error; STEP_ALREADY_CLAIMED if the step was claimed before; and the errors of `govern`.
   */
  readonly execute: <Result>(
    id: string,
    step: StepRequest,
    tool: (allowed: ClaimedDecision) => Promise<Result> | Result,
    options?: ExecuteOptions
  ) => Promise<ExecutedStep<Result>>
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
 * `url` and `key` default to the variables `COUNTERSIGN_URL` and `COUNTERSIGN_KEY`. Ids are plain strings and times are `Date`; in input, times may also be strings (`2026-11-21T02:33:05Z`). Input of the wrong type rejects
 * with `INVALID_REQUEST` before anything is sent. A call rejects with a {@link Problem}: an error with a `code`, and the `status`, `detail`
 * and `request_id` of the response if one arrived. Distinguish problems with {@link isProblem}. Throws a `TypeError` if `url` or `key` is
 * missing or cannot be used.
 */
export const connect = (options: ClientOptions = {}): CountersignClient => {
  const closing = new Closing()
  const connection: Connection = {
    url: baseUrl(options.url),
    key: apiKey(options.key),
    log: options.log,
    closing
  }
  const retries = options.retries ?? DEFAULT_RETRIES
  const defaults: CallDefaults = { retries, timeout: toMillis(options.timeout ?? DEFAULT_TIMEOUT) }
  const runDefaults: CallDefaults = { retries, timeout: toMillis(options.timeout ?? RUN_TIMEOUT) }

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
            return [
              name,
              method(connection, operation, entry, operation === "tasks.run" ? runDefaults : defaults)
            ]
          })
      )
    ])
  )
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- table and types are generated from the same contract, and `call` checks responses by the table
  const operations = groups as unknown as Operations

  const follower = makeFollower<SessionEvent>()
  const waits = makeApprovalWaits(follower, changeOf<ApprovalSnapshot>)
  const close = async () => closing.close()
  const client: CountersignClient = {
    ...operations,
    async *stream(id, { signal: given, ...streamOptions } = {}) {
      const { signal, unlink } = linkSignals(closing.during("stream"), given)
      try {
        yield* follower.stream(eventSource(connection, streamOptions, defaults), id, streamOptions, signal)
      } finally {
        unlink()
      }
    },
    async govern(id, step, { acceptProposal, idempotencyKey, onMessage, signal: given, ...limits } = {}) {
      const { signal, unlink } = linkSignals(closing.during("govern"), given)
      const headers = stepHeaders(step, idempotencyKey)
      try {
        return await govern<
          StepRequest["arguments"],
          StepRequest,
          GovernedStep,
          ApprovalSnapshot,
          ApprovalMessage
        >(
          {
            clock: systemClock,
            submit: (payload, during, after_message) =>
              operations.sessions.step(
                {
                  params: { id },
                  headers,
                  payload,
                  ...(after_message === undefined ? {} : { query: { after_message } })
                },
                { signal: during }
              ),
            listen: () => waits.listen(id, eventSource(connection, {}, defaults)),
            accept: async (rejected, step_id) => {
              const { proposal } = rejected
              if (proposal?.arguments === undefined) return undefined
              const isAccepted = await acceptProposal?.(proposal, rejected)
              return isAccepted === true ? proposedStep(step, step_id, proposal.arguments) : undefined
            },
            reply: async (message, pending) => onMessage?.(message, pending),
            send: (reply, during) => operations.approvals.sendMessage(reply, { signal: during })
          },
          step,
          { ...limits, signal }
        )
      } finally {
        unlink()
      }
    },
    async execute(id, step, tool, { onFault = warn, ...options } = {}) {
      const lease = requestedLease(step, options.idempotencyKey, systemClock)
      const { claim, decision, ...rest } = await client.govern(id, { ...step, claim: true }, options)
      if (decision === "reject") return { ...rest, decision }
      // Only a service that knows no claims answers without one.
      if (claim === undefined) throw new TypeError("The service did not claim the step")
      const allowed = { ...rest, decision, claim }
      const params = { id, step_id: rest.step_id }
      const execution = executionOf(client.sessions, params, claim.id, {
        onFault: faultNotifier(onFault),
        signal: options.signal
      })
      const release = renewWhileRunning(lease, execution, backgroundClock)
      const result = await runReported(
        () => tool(allowed),
        (end) => {
          release()
          return reportEnd(end, execution)
        }
      )
      return { ...allowed, result }
    },
    close,
    [Symbol.asyncDispose]: close
  }
  return client
}

const warn = ({ error, operation }: ExecutionFault): void => {
  const reason = error instanceof Error ? error.message : String(error)
  const what = operation === "renew" ? "a claim was lost" : "an outcome was not recorded"
  // oxlint-disable-next-line no-console -- a library that has no logger of its application
  console.warn(`countersign: ${what}: ${reason}`)
}

/** The method of an operation. An ID stands for the input that has nothing else. */
const method =
  (connection: Connection, operation: string, entry: OperationEntry, defaults: CallDefaults) =>
  (given: string | Readonly<Record<string, unknown>> = {}, options: CallOptions = {}) => {
    const input = typeof given === "string" ? { params: { id: given } } : given
    const first = callPromise(call(connection, operation, entry, input, options, defaults))
    const { items } = entry
    if (items === undefined) return first
    return pagePromise(first, items, async (cursor) => {
      const query = { ...(typeof input["query"] === "object" ? input["query"] : {}), cursor }
      const { result } = await call(connection, operation, entry, { ...input, query }, options, defaults)
      return result
    })
  }
