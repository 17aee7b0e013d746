import { Schema } from "effect"
import { defineQuery } from "../../state/queryState.ts"
import { useCan } from "../../state/session.ts"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { Tabs } from "../../ui/Tabs.tsx"
import { useQueryState } from "../../ui/useQueryState.ts"
import { ApprovalSection } from "./ApprovalSection.tsx"
import { DeliverySection } from "./DeliverySection.tsx"
import { FeedbackSection } from "./FeedbackSection.tsx"

const parameters = defineQuery({ period: Schema.Literals(["7d", "30d"]) })

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
      {can("approvals.read") ? <ApprovalSection period={period} /> : null}
      {can("feedback.read") ? <FeedbackSection period={period} /> : null}
      {can("org_config.read") ? <DeliverySection period={period} /> : null}
      {hasAny ? null : (
        <EmptyState title="Nothing to show">
          The scopes of this API key include none of <code>approvals.read</code>, <code>feedback.read</code>{" "}
          and <code>org_config.read</code>.
        </EmptyState>
      )}
    </div>
  )
}
