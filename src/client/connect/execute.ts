/** How a claimed step is executed: its claim is renewed while the tool runs, and its end is reported. Shared by both clients and all adapters. */
import type { Schema } from "effect"
import { hasCode, isUnavailable } from "../isTransient.ts"
import type { Claim, Operations, StepRequest } from "./generated/Operations.ts"
import type { GovernedDecision, WaitOptions } from "./govern.ts"
import { keepClaim, type Lease } from "./keepClaim.ts"
import { notify } from "./notify.ts"
import { errorText, recordable } from "./recordable.ts"
import { retryUnavailable } from "./retryUnavailable.ts"
import type { Clock } from "./wait.ts"

/** A step that the caller alone may execute. */
export interface ClaimedDecision extends GovernedDecision {
  /** The step was allowed. */
  readonly decision: "allow"
  /** The claim of the caller. Its `idempotency_key` is the same for every attempt of the step. */
  readonly claim: Claim
}

/** A step that was executed, with the result of the tool; or one that was rejected. */
export type ExecutedStep<Result> =
  | (ClaimedDecision & {
      /** The result of the tool. */
      readonly result: Result
    })
  | (GovernedDecision & {
      /** The step was rejected, and not executed. */
      readonly decision: "reject"
    })

/** A fault while a claimed step was executed, or afterwards. */
export interface ExecutionFault {
  /**
   * The operation that failed: renewing the claim while the tool runs, or reporting the outcome. A claim that cannot be renewed is lost: the
   * outcome becomes unknown, and is recorded as late when the tool has ended.
   */
  readonly operation: "renew" | "report"
  /** The error of the client. */
  readonly error: unknown
}

/** Options of `execute`. */
export interface ExecuteOptions extends WaitOptions {
  /** Called with every fault. An error of its own is printed, and does not affect the result. Default: a line on `console.warn`. */
  readonly onFault?: (fault: ExecutionFault) => void
}

/** How a tool ended. `unknown`: it may have been executed; the claim ends without an outcome, and a person finds out. */
export type ToolEnd =
  | { readonly status: "unknown" }
  | { readonly status: "succeeded"; readonly result?: unknown }
  | { readonly status: "failed"; readonly error: unknown }

/** The outcome of a tool, for the service. */
type Outcome =
  | { readonly status: "succeeded"; readonly result?: Schema.Json }
  | { readonly status: "failed"; readonly error: string }

/** The requests about one execution, by the operations of either client. */
export interface Execution {
  readonly renew: (lease_seconds: number, timeout: number, signal: AbortSignal) => Promise<unknown>
  readonly report: (outcome: Outcome) => Promise<unknown>
  readonly onFault: (fault: ExecutionFault) => void
  /** Aborts the run of the tool. One that fails afterwards was interrupted: what it did is unknown. */
  readonly signal?: AbortSignal | undefined
  /** Whether the end is reported further in the background while the service is out of reach. Default: `true`. */
  readonly inBackground?: boolean | undefined
}

/** Retries of a report before the caller gets its result, for a service that restarts: pauses of about 15 seconds together. */
const REPORT_RETRIES = 5

/** Retries of a report after that, for a longer outage: pauses of about 5 minutes together. */
const BACKGROUND_RETRIES = 14

/** How long an unknown end is sent, in milliseconds. It is sent once: an interrupted program does not wait, and its lease ends in any case. */
const UNKNOWN_END_TIMEOUT = 5_000

/** Makes a function for faults safe to call: its own failure is printed, and changes nothing else. */
export const faultNotifier =
  <Fault>(onFault: (fault: Fault) => unknown) =>
  (fault: Fault): void =>
    notify("onFault", onFault, fault)

/** The requests about one execution, by the operations of the client with promises. A step that was not claimed has an outcome, but no lease. */
export const executionOf = (
  sessions: Pick<Operations["sessions"], "renewClaim" | "reportOutcome">,
  params: { readonly id: string; readonly step_id: string },
  claim_id: string | undefined,
  options: Pick<Execution, "inBackground" | "onFault" | "signal">
): Execution => ({
  renew: async (lease_seconds, timeout, signal) => {
    if (claim_id === undefined) return
    await sessions.renewClaim(
      { params, payload: { claim_id, lease_seconds } },
      { signal, timeout, retries: 0 }
    )
  },
  report: (outcome) =>
    sessions.reportOutcome({
      params,
      payload: { ...outcome, ...(claim_id === undefined ? {} : { claim_id }) }
    }),
  ...options
})

/** Renews the claim of a step until the returned function is called. */
export const renewWhileRunning = (
  lease: Lease,
  { onFault, renew }: Pick<Execution, "onFault" | "renew">,
  clock: Clock
): (() => void) =>
  keepClaim(lease, { clock, renew, onLost: (error) => onFault({ operation: "renew", error }) })

/** The lease of a step's claim that is requested now. With a stored idempotency key, an earlier process may have requested it. */
export const requestedLease = (
  { lease_seconds }: Pick<StepRequest, "lease_seconds">,
  idempotencyKey: string | undefined,
  { now }: Pick<Clock, "now">
): Lease => ({ lease_seconds, since: idempotencyKey === undefined ? now() : undefined })

/**
 * Reports how a tool ended. Never rejects: an end that cannot be recorded is a fault. In an outage it returns after some seconds, and goes on in
 * the background.
 */
export const reportEnd = async (
  end: ToolEnd,
  { inBackground = true, onFault, renew, report, signal }: Execution
): Promise<void> => {
  const isUnknown = end.status === "unknown" || (end.status === "failed" && signal?.aborted === true)
  const send = () =>
    // People see an unknown execution now, and not when the lease ends.
    isUnknown
      ? renew(1, UNKNOWN_END_TIMEOUT, AbortSignal.timeout(UNKNOWN_END_TIMEOUT))
      : reportRecordable(outcomeOf(end), report)
  const onFailed = (error: unknown) => {
    // A report whose response was lost is sent again: the first one counts. A lease that has ended needs no end.
    const isKnown =
      hasCode(error, "STEP_ALREADY_COMPLETED") || (isUnknown && hasCode(error, "CLAIM_MISMATCH"))
    if (!isKnown) onFault({ operation: "report", error })
  }
  try {
    await retryUnavailable(send, { retries: isUnknown ? 0 : REPORT_RETRIES })
  } catch (error) {
    if (isUnknown || !inBackground || !isUnavailable(error)) return onFailed(error)
    retryUnavailable(send, { retries: BACKGROUND_RETRIES }).catch(onFailed)
  }
}

/** Reports an outcome; without its result if the service does not accept that, such as for its nesting. */
const reportRecordable = async (outcome: Outcome, report: Execution["report"]): Promise<unknown> => {
  try {
    return await report(outcome)
  } catch (error) {
    const isRefused = hasCode(error, "INVALID_REQUEST") || hasCode(error, "PAYLOAD_TOO_LARGE")
    if (!isRefused || outcome.status === "failed" || outcome.result === undefined) throw error
    return report({
      status: "succeeded",
      result: { omitted: `The service refused the result: ${errorText(error)}` }
    })
  }
}

const outcomeOf = (end: Exclude<ToolEnd, { readonly status: "unknown" }>): Outcome => {
  if (end.status === "failed") return { status: "failed", error: errorText(end.error) }
  return { status: "succeeded", ...(end.result === undefined ? {} : { result: recordable(end.result) }) }
}

/** Runs a tool, and then reports how it ended. Rejects with the error of the tool. */
export const runReported = async <Result>(
  tool: () => Promise<Result> | Result,
  report: (end: ToolEnd) => Promise<void>
): Promise<Result> => {
  let result
  try {
    result = await tool()
  } catch (error) {
    await report({ status: "failed", error })
    throw error
  }
  await report({ status: "succeeded", result })
  return result
}
