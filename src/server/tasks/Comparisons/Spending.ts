import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { addSpent, nothingSpent, type Spent } from "../../../domain/tasks/Budget.ts"
import { BYTES_PER_TOKEN, costOf, type Provider } from "../../../domain/tasks/Provider.ts"
import type { ProviderFailureReason } from "../../../domain/tasks/ProviderFailure.ts"
import { rowsOf } from "../../store/rows.ts"
import type { ProviderCall } from "../Providers.ts"
import { type ComparisonRow, spentColumns, toSpent } from "./rows.ts"

/** Failures of calls that the model may have answered nevertheless, so that their tokens are unknown instead of none. */
const MAYBE_ANSWERED: ReadonlySet<ProviderFailureReason | null> = new Set([
  "timeout",
  "invalid_response",
  "cancelled"
])

/** The spending of one example's calls so far. */
export class ExampleSpending {
  spent: Spent = nothingSpent
  /** Whether an answer came without its tokens, and whether it was one that has a price. */
  unreported = { tokens: false, cost: false }

  /** Adds calls to a provider, and the tokens that it reported. A call that may have been answered counts with its prompt at least. */
  add(provider: Provider, calls: ReadonlyArray<ProviderCall>): void {
    for (const { messages, reason, usage } of calls) {
      const isUnknown = usage.input_tokens === null || usage.output_tokens === null
      if (reason === null && isUnknown) {
        this.unreported = {
          tokens: true,
          cost: this.unreported.cost || (provider.kind !== "examples" && provider.price !== null)
        }
      }
      const mayHaveInput = reason === null || MAYBE_ANSWERED.has(reason)
      const counted = {
        input_tokens: usage.input_tokens ?? (mayHaveInput ? tokensOf(messages) : 0),
        output_tokens: usage.output_tokens ?? 0
      }
      this.spent = addSpent(this.spent, { calls: 1, ...counted, cost: costOf(provider, counted) })
    }
  }
}

const tokensOf = (messages: ProviderCall["messages"]): number =>
  Math.ceil(messages.reduce((sum, { content }) => sum + Buffer.byteLength(content), 0) / BYTES_PER_TOKEN)

/** Limits the spending of a comparison by its budget. */
export interface Spending {
  /** Reserves the calls of an example; or says, as the beginning of a sentence, why the budget has no room for it. */
  readonly reserve: () => string | undefined
  /** Says, as the beginning of a sentence, why the budget cannot be kept: the spending is unknown. Undefined if it can. */
  readonly unknown: () => string | undefined
  /** Says, as the beginning of a sentence, that as many answers have failed as end the comparison. Undefined if fewer have. */
  readonly tooManyFailures: () => string | undefined
  /** Records the spending of a reserved example, whether it was finished or interrupted. */
  readonly record: (example: ExampleSpending, failures: number) => Effect.Effect<void>
  /** The spending of the comparison in all attempts. */
  readonly spent: () => Spent
}

/**
 * The spending of one batch. It is recorded after each example, whichever replica has the lease: spending stays recorded, also if the results
 * of the batch are lost. Examples in progress count with the calls that they need at least, and with the mean tokens and cost of the
 * earlier ones.
 */
export const makeSpending = (
  sql: SqlClient.SqlClient,
  row: ComparisonRow,
  callsPerExample: number
): Spending => {
  const { max_calls, max_cost, max_failures, max_tokens } = row.budget
  let spent = toSpent(row)
  let failures = row.tally.candidate.failed + row.tally.live.failed
  let finished = row.compared
  let inProgress = 0
  let unreported = { tokens: false, cost: false }

  const isOver = (limit: number | null, used: number): boolean =>
    limit !== null && used + (inProgress * used) / Math.max(1, finished) >= limit

  const unknown = (): string | undefined =>
    (max_tokens !== null && unreported.tokens) || (max_cost !== null && unreported.cost)
      ? "A provider does not report its tokens, so the budget cannot be kept"
      : undefined

  const tooManyFailures = (): string | undefined =>
    max_failures !== null && failures >= max_failures
      ? `${failures} answers failed, and the budget ends a comparison with ${max_failures}`
      : undefined

  return {
    spent: () => spent,
    unknown,
    tooManyFailures,
    reserve: () => {
      const fault = unknown() ?? tooManyFailures()
      if (fault !== undefined) return fault
      if (max_calls !== null && spent.calls + (inProgress + 1) * callsPerExample > max_calls) {
        return `The budget of ${max_calls} calls has no room for another example`
      }
      if (isOver(max_tokens, spent.input_tokens + spent.output_tokens)) {
        return `The budget of ${max_tokens} tokens is spent`
      }
      if (isOver(max_cost, spent.cost ?? 0)) return `The budget of ${max_cost} is spent`
      inProgress++
      return undefined
    },
    record: Effect.fnUntraced(function* ({ spent: added, unreported: missing }, failed) {
      inProgress--
      finished++
      failures += failed
      unreported = {
        tokens: unreported.tokens || missing.tokens,
        cost: unreported.cost || missing.cost
      }
      if (added.calls === 0) return
      // At once, because another example may be reserved before the row is updated.
      spent = addSpent(spent, added)
      const updated = yield* Effect.orDie(
        spentRows.first(sql`
          UPDATE comparisons
          SET
            spent_calls = spent_calls + ${added.calls}::int,
            spent_input_tokens = spent_input_tokens + ${added.input_tokens}::float8,
            spent_output_tokens = spent_output_tokens + ${added.output_tokens}::float8,
            spent_cost = CASE
              WHEN ${added.cost}::float8 IS NULL THEN spent_cost
              ELSE coalesce(spent_cost, 0) + ${added.cost}::float8
            END
          WHERE org_id = ${row.org_id}
            AND comparison_id = ${row.comparison_id}
          RETURNING ${sql.literal(Object.keys(spentColumns).join(", "))}
        `)
      )
      // More than that was spent if another attempt spends too; less, if examples that were recorded meanwhile are not in the row yet.
      if (updated !== undefined) spent = largerOf(spent, toSpent(updated))
    })
  }
}

const largerOf = (left: Spent, right: Spent): Spent => ({
  calls: Math.max(left.calls, right.calls),
  input_tokens: Math.max(left.input_tokens, right.input_tokens),
  output_tokens: Math.max(left.output_tokens, right.output_tokens),
  cost:
    left.cost === null || right.cost === null ? (left.cost ?? right.cost) : Math.max(left.cost, right.cost)
})

const spentRows = rowsOf(Schema.Struct(spentColumns))

/** How much was spent, as part of a sentence. */
export const describeSpent = ({ calls, cost, input_tokens, output_tokens }: Spent): string =>
  [
    `${calls} calls, ${input_tokens} input and ${output_tokens} output tokens`,
    ...(cost === null ? [] : [`cost ${Math.round(cost * 1e6) / 1e6}`])
  ].join(", ")
