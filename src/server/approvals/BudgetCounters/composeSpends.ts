import { DateTime } from "effect"
import {
  addTotals,
  appendEntries,
  type BudgetEntry,
  type BudgetTotals,
  type BudgetUse,
  compactUse,
  findExceeded,
  timeOf,
  totalsOf
} from "../../../domain/approvals/budgetUse.ts"
import type { BudgetSpend } from "../../../domain/approvals/BudgetMeter.ts"
import type { OrgId } from "../../../domain/Ids.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import type { PreparedWrite } from "../SessionWriter/SessionWrite.ts"
import {
  type CounterKey,
  type CounterState,
  encodeEntry,
  encodeUse,
  firstVersion,
  joinEncoded
} from "./rows.ts"

/** The least time after which an unused counter is deleted, beside its window. `expires_at` is rounded to it, since an index has it. */
const EXPIRY_STEP_MILLIS = 3_600_000

/** The use of one budget by a step, with the counter as it was read. */
export interface CountedSpend extends BudgetSpend, CounterKey {
  readonly state: CounterState
}

/** The entry of a step, by the step's place in the list of writes. */
export interface EntryWrite {
  readonly op: number
  readonly entry: BudgetEntry
  readonly text: string
}

/** A counter to which a statement adds the entries of steps. */
export interface CounterWrite extends CounterKey {
  readonly org_id: OrgId
  readonly version: number
  readonly first_version: number
  /** The entries that it had and that still count. */
  readonly kept: BudgetUse
  readonly expires_at: Timestamp
  readonly entries: ReadonlyArray<EntryWrite>
}

/** A counter while entries are added. */
interface OpenCounter extends CounterWrite {
  readonly entries: Array<EntryWrite>
  used: BudgetTotals
  /** The time of the last entry, or of the read: none is earlier. */
  time: number
}

/** The writes that fit behind the others, in their order, with the counters that they use. */
export interface ComposedSpends {
  readonly admitted: ReadonlyArray<PreparedWrite>
  readonly counters: ReadonlyArray<CounterWrite>
}

/** The use of budgets by a write. */
const spendsOf = ({ change }: PreparedWrite): ReadonlyArray<CountedSpend> =>
  change._tag === "Step" ? change.spends : []

/** Adds the steps of a statement to their counters, one after another. `stateOf` finds the newest known state of a counter. */
export const composeSpends = (
  writes: ReadonlyArray<PreparedWrite>,
  stateOf: (spend: CountedSpend) => CounterState
): ComposedSpends => {
  // Most statements are about none.
  if (!writes.some((write) => spendsOf(write).length > 0)) return { admitted: writes, counters: [] }
  const counters = new Map<string, OpenCounter>()

  const counterOf = (spend: CountedSpend, now: Timestamp): OpenCounter => {
    const { budget, digest, org_id } = spend
    const known = counters.get(digest)
    if (known !== undefined) return known
    const { use, version } = stateOf(spend)
    const at = now.epochMilliseconds
    const kept = compactUse(budget, use, at)
    const counter: OpenCounter = {
      org_id,
      digest,
      version,
      first_version: firstVersion(now),
      kept,
      expires_at: expiryOf(now, budget.window_seconds),
      entries: [],
      used: totalsOf(kept),
      time: timeOf(use, at)
    }
    counters.set(digest, counter)
    return counter
  }

  const admitted: Array<PreparedWrite> = []
  for (const write of writes) {
    const counted = spendsOf(write).map((spend) => ({ spend, counter: counterOf(spend, write.now) }))
    const fits = counted.every(
      ({ counter: { used }, spend }) => findExceeded(spend.budget, used, spend.amount) === undefined
    )
    if (!fits) continue
    for (const { counter, spend } of counted) {
      counter.time = Math.max(counter.time, write.now.epochMilliseconds)
      const entry = { at: counter.time, steps: 1, amount: spend.amount }
      counter.used = addTotals(counter.used, entry)
      counter.entries.push({ op: admitted.length, entry, text: encodeEntry(entry) })
    }
    admitted.push(write)
  }
  return { admitted, counters: [...counters.values()] }
}

/** A counter after its statement has committed; undefined if it added nothing to it: then the version may have changed. */
export const settledState = (
  { entries, first_version, kept, version }: CounterWrite,
  written: { readonly has: (op: number) => boolean }
): CounterState | undefined => {
  const added = entries.filter(({ op }) => written.has(op))
  if (added.length === 0) return undefined
  const use = appendEntries(
    kept,
    added.map(({ entry }) => entry)
  )
  joinEncoded(use, encodeUse(kept), added)
  return { version: version === 0 ? first_version : version + 1, use }
}

const expiryOf = (now: Timestamp, window_seconds: number): Timestamp =>
  DateTime.makeUnsafe(
    Math.ceil((now.epochMilliseconds + window_seconds * 1_000) / EXPIRY_STEP_MILLIS + 1) * EXPIRY_STEP_MILLIS
  )
