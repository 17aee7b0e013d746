import { useAtomValue } from "../../state/atoms.ts"
import { advanceAtom, setAdvance } from "../../state/advance.ts"
import { Checkbox } from "../../ui/Checkbox.tsx"
import { SearchField } from "../../ui/SearchField.tsx"
import { InlineSelect } from "../../ui/Select.tsx"
import { Tabs } from "../../ui/Tabs.tsx"
import { Toolbar } from "../../ui/Toolbar.tsx"
import { ColumnsField } from "./ColumnsField.tsx"
import type { InboxColumn, InboxGroup, InboxOrder, InboxPart } from "./filterApprovals.ts"

const partLabels = { mine: "Mine", all: "All", admins: "Admins" } as const

/** The page has all pending approvals: no request follows. Browsers limit how often a page writes its address. */
const FILTER_DELAY_MS = 10

const orders = [
  ["newest", "Newest first"],
  ["oldest", "Oldest first"],
  ["tool", "By tool"],
  ["amount", "By amount"]
] as const satisfies ReadonlyArray<readonly [InboxOrder, string]>

/** The filters of the pending approvals. */
export const InboxToolbar = ({
  canDecide,
  columns,
  counts,
  group,
  onColumns,
  onGroup,
  onPart,
  onSearch,
  onSort,
  part,
  sort,
  text
}: {
  /** Whether the signed-in key can decide approvals; without it, none is its own to decide. */
  readonly canDecide: boolean
  readonly counts: Readonly<Record<InboxPart, number>>
  readonly part: InboxPart
  readonly text: string
  readonly group: InboxGroup | undefined
  readonly onPart: (part: InboxPart) => void
  readonly onSearch: (text: string) => void
  readonly sort: InboxOrder | undefined
  readonly onSort: (sort: InboxOrder | undefined) => void
  readonly columns: ReadonlyArray<InboxColumn>
  readonly onColumns: (columns: ReadonlyArray<InboxColumn> | undefined) => void
  readonly onGroup: (group: InboxGroup | undefined) => void
}) => (
  <Toolbar label="Filter of pending approvals">
    <SearchField
      label="Filter by tool, agent, summary or metadata"
      delayMs={FILTER_DELAY_MS}
      placeholder="Filter"
      text={text}
      onSearch={onSearch}
    />
    <Tabs
      label="Who decides"
      selected={part}
      onSelect={onPart}
      options={(["mine", "all", "admins"] as const)
        .filter((one) => canDecide || one !== "mine")
        .map((one) => [one, `${partLabels[one]} ${counts[one].toLocaleString("en")}`] as const)}
    />
    <Tabs
      label="Group by"
      selected={group ?? "none"}
      onSelect={(by) => onGroup(by === "none" ? undefined : by)}
      options={[
        ["none", "List"],
        ["tool", "Tool"],
        ["session", "Session"]
      ]}
    />
    <InlineSelect
      isLabelHidden
      label="Sort by"
      options={[[undefined, "By deadline"], ...orders]}
      value={sort}
      onChange={onSort}
    />
    <ColumnsField columns={columns} onChange={onColumns} />
    <Checkbox className="inbox-advance" checked={useAtomValue(advanceAtom)} onChange={setAdvance}>
      Open the next after a decision
    </Checkbox>
  </Toolbar>
)
