import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { addSpent, nothingSpent, type Spent } from "../../../domain/tasks/Budget.ts"
import { sumUsage, costOf, type Provider, type Usage } from "../../../domain/tasks/Provider.ts"
import { rowsOf } from "../../store/rows.ts"
import type { ProviderCall } from "../Providers.ts"
import { type ComparisonRow, spentColumns, toSpent } from "./rows.ts"

/** What the calls of one example have cost so far. */
export class ExampleSpending {
  spent: Spent = nothingSpent

  /** Adds calls to a provider, and the tokens that they used together, as far as the provider reported them. */
  add(provider: Provider, calls: number, usage: Usage): void {
    this.spent = addSpent(this.spent, {
      calls,
      input_tokens: usage.input_tokens ?? 0,
      output_tokens: usage.output_tokens ?? 0,
      cost: costOf(provider, usage)
    })
  }

  /** Adds the calls of an answer that was interrupted. */
  addInterrupted(provider: Provider, calls: ReadonlyArray<ProviderCall>): void {
    this.add(provider, calls.length, sumUsage(calls.map(({ usage }) => usage)))
  }
}

/** Limits what a comparison spends by its budget. */
export interface Spending {
  /** Reserves the calls of an example; or says, as the beginning of a sentence, why the budget has no room for it. */
  readonly reserve: () => string | undefined
  /** Records what a reserved example has spent, whether it was finished or interrupted. */
  readonly record: (spent: Spent, failures: number) => Effect.Effect<void>
  /** What the comparison has spent, in all attempts. */
  readonly spent: () => Spent
}

/**
 * The spending of one batch. It is recorded after each example, and whoever holds the lease: what was spent stays spent, also if the results
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

  const isOver = (limit: number | null, used: number): boolean =>
    limit !== null && used + (inProgress * used) / Math.max(1, finished) >= limit

  return {
    spent: () => spent,
    reserve: () => {
      if (max_failures !== null && failures >= max_failures) {
        return `${failures} answers failed, and the budget allows ${max_failures}`
      }
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
    record: Effect.fnUntraced(function* (added, failed) {
      inProgress--
      finished++
      failures += failed
      if (added.calls === 0 && added.input_tokens === 0 && added.output_tokens === 0) return
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
      if (updated !== undefined) spent = toSpent(updated)
    })
  }
}

const spentRows = rowsOf(Schema.Struct(spentColumns))

/** How much was spent, as part of a sentence. */
export const describeSpent = ({ calls, cost, input_tokens, output_tokens }: Spent): string =>
  [
    `${calls} calls, ${input_tokens} input and ${output_tokens} output tokens`,
    ...(cost === null ? [] : [`cost ${Math.round(cost * 1e6) / 1e6}`])
  ].join(", ")
