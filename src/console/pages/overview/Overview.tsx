import { Schema } from "effect"
import { AsyncResult, Atom } from "effect/reactivity"
import type { OverviewPeriod } from "../../../api/console/Overview.ts"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { approvalOverviewAtom, deliveryOverviewAtom, feedbackOverviewAtom } from "../../state/overview.ts"
import { defineQuery } from "../../state/queryState.ts"
import { useCan } from "../../state/session.ts"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { FirstRecord } from "../../ui/FirstRecord.tsx"
import { Skeleton } from "../../ui/Skeleton.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { Tabs } from "../../ui/Tabs.tsx"
import { useQueryState } from "../../ui/useQueryState.ts"
import { ApprovalSection } from "./ApprovalSection.tsx"
import { DeliverySection } from "./DeliverySection.tsx"
import { FeedbackSection } from "./FeedbackSection.tsx"

const parameters = defineQuery({ period: Schema.Literals(["7d", "30d"]) })

const noneAtom = Atom.make(AsyncResult.initial<never>())

/** Whether neither approvals, runs nor deliveries were in a period, as far as the key can read them. Undefined: not known yet. */
const useIsEmpty = (period: OverviewPeriod): boolean | undefined => {
  const can = useCan()
  const approvals = useAtomValue(can("approvals.read") ? approvalOverviewAtom(period) : noneAtom)
  const feedback = useAtomValue(can("feedback.read") ? feedbackOverviewAtom(period) : noneAtom)
  const deliveries = useAtomValue(can("org_config.read") ? deliveryOverviewAtom(period) : noneAtom)
  if (!can("approvals.read") || !can("feedback.read")) return false
  if ([approvals, feedback, deliveries].some(({ _tag }) => _tag === "Failure")) return false
  if (!AsyncResult.isSuccess(approvals) || !AsyncResult.isSuccess(feedback)) return undefined
  if (AsyncResult.isSuccess(deliveries)) {
    const { failing, total } = deliveries.value
    if (failing.length + total.delivered + total.failed + total.waiting > 0) return false
  } else if (can("org_config.read")) return undefined
  const { pending, total } = approvals.value
  return (
    pending.count === 0 &&
    total.approved + total.rejected + total.timed_out + total.session_closed === 0 &&
    feedback.value.total.runs === 0
  )
}

const Sections = ({ period }: { readonly period: OverviewPeriod }) => {
  const isEmpty = useIsEmpty(period)
  return isEmpty === true ? <Beginning period={period} /> : <Figures period={period} />
}

/** The first steps of an organization without records, in place of figures that are all zero. */
const Beginning = ({ period }: { readonly period: OverviewPeriod }) => {
  const can = useCan()
  const isEmpty = useIsEmpty("30d")
  const look = () => {
    refresh(approvalOverviewAtom(period))
    refresh(feedbackOverviewAtom(period))
    if (can("org_config.read")) refresh(deliveryOverviewAtom(period))
  }
  if (isEmpty === undefined) return <Skeleton />
  if (!isEmpty) return <Figures period={period} />
  return (
    <>
      <p>
        Nothing was recorded in the last 30 days. The figures appear here with the first approval or run:
        begin with either.
      </p>
      <div className="card">
        <FirstRecord of={({ firstApproval }, origin) => firstApproval(origin)} look={look} />
      </div>
      {can("tasks.read") ? (
        <div className="card">
          <FirstRecord of={({ firstTask }, origin) => firstTask(origin)} look={look} />
        </div>
      ) : null}
    </>
  )
}

const Figures = ({ period }: { readonly period: OverviewPeriod }) => {
  const can = useCan()
  return (
    <>
      {can("approvals.read") ? <ApprovalSection period={period} /> : null}
      {can("feedback.read") ? <FeedbackSection period={period} /> : null}
      {can("org_config.read") ? <DeliverySection period={period} /> : null}
    </>
  )
}

/** The start page: how approvals, answers and deliveries go. A section needs the scope of its lists. */
export default function Overview() {
  const [{ period = "7d" }, setQuery] = useQueryState(parameters)
  const can = useCan()
  const hasAny = can("approvals.read") || can("feedback.read") || can("org_config.read")
  return (
    <div className="stack overview">
      <PageHeader
        title="Overview"
        aside={
          <Tabs
            label="Period"
            selected={period}
            onSelect={(next) => setQuery({ period: next === "7d" ? undefined : next })}
            options={[
              ["7d", "7 days"],
              ["30d", "30 days"]
            ]}
          />
        }
      >
        Days are in UTC. Today counts up to now.
      </PageHeader>
      <Sections period={period} />
      {hasAny ? null : (
        <EmptyState title="Nothing to show">
          The scopes of this API key include none of <code>approvals.read</code>, <code>feedback.read</code>{" "}
          and <code>org_config.read</code>.
        </EmptyState>
      )}
    </div>
  )
}
