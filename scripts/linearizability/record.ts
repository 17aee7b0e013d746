import { isProblem } from "../../src/client/connect/index.ts"
import { decisionAnswer, votersOf } from "./models/sessionModel.ts"
import type { Operation } from "./Operation.ts"

/** Records the operations of one object. */
export interface Recorder<Call> {
  readonly operations: ReadonlyArray<Operation<Call>>
  /**
   * Calls the service and records the call with its answer as text. Returns the answer; undefined if it was lost, or
   * the service did nothing.
   */
  readonly call: (client: string, call: Call, send: () => Promise<string>) => Promise<string | undefined>
  /** Records what was seen in some other way. */
  readonly add: (operation: Operation<Call>) => void
}

/** Counts of what clients met, by the code of the answer. */
export type AnswerCounts = Map<string, number>

/** What a failed call tells about its effect. */
type Failure =
  /** The service refused it, and changed nothing. */
  | { readonly _tag: "Refused"; readonly answer: string }
  /** It never reached the service, or was turned away before it was looked at. */
  | { readonly _tag: "NotDone" }
  /** It may have happened, may happen later, or not at all. */
  | { readonly _tag: "Lost" }

/** Refusals that only tell that another request was at work, or that there were too many. */
const TURNED_AWAY = new Set(["IDEMPOTENCY_KEY_IN_USE", "DATASET_BUSY", "RATE_LIMITED"])

/** Answers that leave open what happened: the database may have committed before its connection broke. */
const UNKNOWN = new Set(["UNAVAILABLE", "INTERNAL_ERROR", "UNEXPECTED_RESPONSE", "SERVICE_UNREACHABLE"])

const failureOf = (error: unknown): Failure => {
  if (!isProblem(error)) throw error
  if (isProblem(error, "SERVICE_UNREACHABLE") && error.reason === "ECONNREFUSED") return { _tag: "NotDone" }
  if (TURNED_AWAY.has(error.code)) return { _tag: "NotDone" }
  if (UNKNOWN.has(error.code)) return { _tag: "Lost" }
  return { _tag: "Refused", answer: refusalOf(error) }
}

/** A refusal as the models write it: its code, and the state that it names. */
const refusalOf = (error: unknown): string => {
  if (isProblem(error, "APPROVAL_ALREADY_DECIDED")) {
    const { decided_by, status } = error.approval
    return `${error.code}: ${decisionAnswer(status, decided_by?.id ?? "nobody", votersOf(error.approval))}`
  }
  if (isProblem(error, "APPROVAL_EXPIRED")) return `${error.code}: ${error.approval.decision_source}`
  if (isProblem(error, "DATASET_BASE_CHANGED"))
    return `${error.code}: ${error.current_dataset_id ?? "no version"}`
  if (isProblem(error, "RULES_CHANGED")) return `${error.code}: ${error.current_revision}`
  return isProblem(error) ? error.code : String(error)
}

const codeOf = (error: unknown): string =>
  isProblem(error, "SERVICE_UNREACHABLE") ? error.reason : isProblem(error) ? error.code : "UNKNOWN"

/** A recorder without operations. */
export const makeRecorder = <Call>(counts: AnswerCounts): Recorder<Call> => {
  const operations: Array<Operation<Call>> = []
  const count = (code: string) => void counts.set(code, (counts.get(code) ?? 0) + 1)
  return {
    operations,
    add: (operation) => void operations.push(operation),
    call: async (client, call, send) => {
      const invokedAt = performance.now()
      try {
        const answer = await send()
        count("answered")
        operations.push({ client, call, answer, invokedAt, answeredAt: performance.now() })
        return answer
      } catch (error) {
        count(codeOf(error))
        const failure = failureOf(error)
        switch (failure._tag) {
          case "NotDone":
            return undefined
          case "Lost":
            operations.push({
              client,
              call,
              answer: undefined,
              invokedAt,
              answeredAt: Number.POSITIVE_INFINITY
            })
            return undefined
          case "Refused":
            operations.push({
              client,
              call,
              answer: failure.answer,
              invokedAt,
              answeredAt: performance.now()
            })
            return failure.answer
        }
      }
    }
  }
}
