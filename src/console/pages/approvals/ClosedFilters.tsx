import { ClosedOutcome } from "../../../api/console/ClosedApprovals.ts"
import type { ClosedQueryFields } from "../../state/closedApprovals.ts"
import type { QueryState } from "../../state/queryState.ts"
import { Button } from "../../ui/Button.tsx"
import { DayField } from "../../ui/DayField.tsx"
import { SearchField } from "../../ui/SearchField.tsx"
import { InlineSelect } from "../../ui/Select.tsx"
import { Toolbar } from "../../ui/Toolbar.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import type { SetQuery } from "../../ui/useQueryState.ts"

const outcomes: Readonly<Record<ClosedOutcome, string>> = {
  decided: "Decided by people",
  approved: "Approved",
  rejected: "Rejected",
  timeout: "Timed out",
  session_closed: "Session closed"
}

/** The filters of closed approvals. `decidedBy`: the name of the person of the filter, if the list shows it. */
export const ClosedFilters = ({
  decidedBy,
  query: { by, from, outcome, tool, until },
  setQuery
}: {
  readonly decidedBy: string | undefined
  readonly query: QueryState<ClosedQueryFields>
  readonly setQuery: SetQuery<ClosedQueryFields>
}) => (
  <Toolbar label="Filters of closed approvals">
    <SearchField
      label="Tool"
      placeholder="Tool, its whole name"
      text={tool ?? ""}
      onSearch={(text) => setQuery({ tool: text === "" ? undefined : text }, { replace: true })}
    />
    <InlineSelect
      isLabelHidden
      label="Outcome"
      options={[
        [undefined, "All outcomes"],
        ...ClosedOutcome.literals.map((one) => [one, outcomes[one]] as const)
      ]}
      value={outcome}
      onChange={(chosen) => setQuery({ outcome: chosen })}
    />
    <DayField label="From" day={from} onChange={(day) => setQuery({ from: day })} />
    <DayField label="Until" day={until} onChange={(day) => setQuery({ until: day })} />
    {by === undefined ? null : (
      <Button small onClick={() => setQuery({ by: undefined })}>
        Only by <UntrustedText text={decidedBy ?? by} /> <span aria-hidden="true">×</span>
        <span className="visually-hidden"> (remove)</span>
      </Button>
    )}
  </Toolbar>
)
