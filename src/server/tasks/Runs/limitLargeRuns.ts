import type { Effect } from "effect"
import type { SqlError } from "effect/sql"
import { makeKeyedSemaphore } from "../../admission/KeyedSemaphore.ts"
import { permitTimeout } from "../../store/databaseErrors.ts"
import { ABANDONED_WRITE_MILLIS } from "../../store/makeStatementBatcher.ts"
import type { NewRunRow } from "./insertRuns.ts"

/** Characters of JSON above which a run is logged by a statement of its own. */
const LARGE_RUN = 64 * 1024

/** Large runs of one organization that are logged at a time. More of them would take PostgreSQL's processors from all organizations. */
const CONCURRENT_LARGE_RUNS = 2

/** The part of a row that its size depends on. */
type Texts = Pick<NewRunRow, "answer" | "input" | "metadata">

/** Characters of a run's JSON. */
const textLength = ({ answer, input, metadata }: Texts): number =>
  input.length + (answer?.length ?? 0) + metadata.length

/** Bytes of a run's JSON, as it is stored. */
export const textBytes = ({ answer, input, metadata }: Texts): number =>
  Buffer.byteLength(input) + Buffer.byteLength(answer ?? "") + Buffer.byteLength(metadata)

/** Whether a run is logged by a statement of its own, because of its size. */
export const isLargeRun = (row: Texts): boolean => textLength(row) > LARGE_RUN

/** Limits how many large runs of one organization are inserted at a time. Further ones wait in order. */
export const limitLargeRuns = <Row extends Texts & { readonly run: Pick<NewRunRow["run"], "org_id"> }, E>(
  insert: (row: Row) => Effect.Effect<boolean, E>
): ((row: Row) => Effect.Effect<boolean, E | SqlError.SqlError>) => {
  const withPermit = makeKeyedSemaphore({
    permits: CONCURRENT_LARGE_RUNS,
    // Longer than a statement may take: a run that was paid for is logged if the database responds at all.
    timeout: ABANDONED_WRITE_MILLIS,
    onTimeout: permitTimeout
  })
  return (row) => (isLargeRun(row) ? withPermit(row.run.org_id)(insert(row)) : insert(row))
}
