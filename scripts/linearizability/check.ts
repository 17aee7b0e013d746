import { checkLinearizability } from "./checkLinearizability.ts"
import type { Model } from "./Model.ts"
import { isLost, type Operation } from "./Operation.ts"
import { type Table, tabulate } from "./tabulate.ts"

/** The result for one object. */
export interface ObjectReport {
  readonly object: string
  readonly operations: number
  readonly lost: number
  readonly verdict: "Linearizable" | "Violation" | "Undecided"
  /** Configurations that the search visited. */
  readonly visited: number
  /** The operations of an object that is not linearizable, as text. */
  readonly explanation: string | undefined
  /** For another checker; undefined if the object has too many states. */
  readonly table: () => Table | undefined
}

/** States of a table, at most. */
const MAX_STATES = 5_000

/** Checks the history of one object. */
export const checkObject = <State, Call>(
  object: string,
  model: Model<State, Call>,
  operations: ReadonlyArray<Operation<Call>>
): ObjectReport => {
  const verdict = checkLinearizability(model, operations)
  return {
    object,
    operations: operations.length,
    lost: operations.filter(isLost).length,
    verdict: verdict._tag,
    visited: verdict.visited,
    explanation:
      verdict._tag === "Violation" ? explain(object, model, operations, verdict.longest) : undefined,
    table: () => tabulate(model, operations, MAX_STATES)
  }
}

/**
 * The operations of an object in the order of their calls. The longest order that the checker found is numbered; the
 * operations without a number could not follow it.
 */
const explain = <Call>(
  object: string,
  { describe }: { readonly describe: (call: Call) => string },
  operations: ReadonlyArray<Operation<Call>>,
  longest: ReadonlyArray<Operation<Call>>
): string => {
  const begin = Math.min(...operations.map(({ invokedAt }) => invokedAt))
  const millis = (at: number) => (at - begin).toFixed(1).padStart(9)
  const places = new Map(longest.map((operation, index) => [operation, index + 1]))
  const lines = operations
    .toSorted((a, b) => a.invokedAt - b.invokedAt)
    .map((operation) => {
      const { answer, answeredAt, call, client, invokedAt } = operation
      const place = String(places.get(operation) ?? (isLost(operation) ? "" : "?")).padStart(4)
      const end = isLost(operation) ? "     lost" : millis(answeredAt)
      return `${place} ${millis(invokedAt)} ${end}  ${client}: ${describe(call)} -> ${answer ?? "no answer"}`
    })
  return [
    `${object} is not linearizable: no order of its operations explains their answers.`,
    "Columns: place in the longest order that was found (? = not placed), called at, answered at (ms), call, answer.",
    ...lines
  ].join("\n")
}
