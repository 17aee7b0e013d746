/** The figures of the start page. */
import { Atom } from "effect/reactivity"
import type { OverviewPeriod } from "../../api/console/Overview.ts"
import { consoleClient } from "./consoleClient.ts"

/** How approvals were decided. */
export const approvalOverviewAtom = Atom.family((period: OverviewPeriod) =>
  Atom.make(consoleClient.overview.approvals({ query: { period } }))
)

/** How people judged answers. */
export const feedbackOverviewAtom = Atom.family((period: OverviewPeriod) =>
  Atom.make(consoleClient.overview.feedback({ query: { period } }))
)

/** How webhooks were delivered. */
export const deliveryOverviewAtom = Atom.family((period: OverviewPeriod) =>
  Atom.make(consoleClient.overview.deliveries({ query: { period } }))
)
