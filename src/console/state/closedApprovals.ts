/** Closed approvals: by a person, by a timeout, or with their session. */
import { DateTime, Effect } from "effect"
import { Atom } from "effect/reactivity"
import { type ClosedCursor, type ClosedFilter, ClosedOutcome } from "../../api/console/ClosedApprovals.ts"
import type { ApprovalSnapshot } from "../../api/SessionStream.ts"
import { KeyId } from "../../domain/Ids.ts"
import { consoleClient } from "./consoleClient.ts"
import { pagedAtom } from "./pagedAtom.ts"
import { defineQuery, QueryDay, type QueryState, QueryText, startOfDay } from "./queryState.ts"

const fields = { tool: QueryText, by: KeyId, outcome: ClosedOutcome, from: QueryDay, until: QueryDay }
export type ClosedQueryFields = typeof fields

/** The filters of the list in its address. */
export const closedQuery = defineQuery(fields)

/** The filter of a query, as the service takes it. */
export const toClosedFilter = ({
  by,
  from,
  outcome,
  tool,
  until
}: QueryState<ClosedQueryFields>): ClosedFilter => ({
  ...(tool === undefined ? {} : { tool: tool.trim() }),
  ...(by === undefined ? {} : { decided_by: by }),
  ...(outcome === undefined ? {} : { outcome }),
  ...(from === undefined ? {} : { since: startOfDay(from) }),
  ...(until === undefined ? {} : { until: startOfDay(until, 1) })
})

/** Whether an approval that closed meanwhile belongs into a list. */
export const matchesClosedFilter = (
  { decided_at, decided_by, decision_source, status, tool }: ApprovalSnapshot,
  filter: ClosedFilter
): boolean =>
  (filter.tool === undefined || tool === filter.tool) &&
  (filter.decided_by === undefined || decided_by?.id === filter.decided_by) &&
  (filter.outcome === undefined ||
    (filter.outcome === "decided"
      ? status === "approved" || status === "rejected"
      : (status === "expired" ? decision_source : status) === filter.outcome)) &&
  (filter.since === undefined ||
    (decided_at !== null && DateTime.isGreaterThanOrEqualTo(decided_at, filter.since))) &&
  (filter.until === undefined || (decided_at !== null && DateTime.isLessThan(decided_at, filter.until)))

/** The pages of a list by its query, last closed first. Each item is a page, which also tells how far it has searched. */
export const closedPagesAtom = Atom.family((search: string) => {
  const filter = toClosedFilter(closedQuery.read(search))
  return pagedAtom(
    (cursor: ClosedCursor | undefined) =>
      Effect.map(consoleClient.closed_approvals.list({ query: { ...filter, ...cursor } }), (page) => ({
        pages: [page],
        next_cursor: page.next_cursor
      })),
    "pages"
  )
})

/** The encoded filter of an export. */
export const closedExportFilter = (
  query: QueryState<ClosedQueryFields>
): Readonly<Record<string, string | undefined>> => encodeFilter(toClosedFilter(query))

const encodeFilter = ({ decided_by, outcome, since, tool, until }: ClosedFilter) => ({
  tool,
  decided_by,
  outcome,
  since: since === undefined ? undefined : DateTime.formatIso(since),
  until: until === undefined ? undefined : DateTime.formatIso(until)
})
