import { DEFAULT_COLUMNS, InboxColumn } from "./filterApprovals.ts"
import { Checkbox } from "../../ui/Checkbox.tsx"

const labels: Readonly<Record<InboxColumn, string>> = {
  amount: "Amount of the summary",
  session: "Session",
  requester: "Requested by",
  tool: "Tool or class",
  age: "Age",
  due: "Due"
}

/** A choice of the facts that each row of the list shows. `onChange` gets undefined for the default. */
export const ColumnsField = ({
  columns,
  onChange
}: {
  readonly columns: ReadonlyArray<InboxColumn>
  readonly onChange: (columns: ReadonlyArray<InboxColumn> | undefined) => void
}) => (
  <details className="dropdown columns-field">
    <summary className="button plain">Columns</summary>
    <div className="dropdown-body card padded">
      {InboxColumn.literals.map((column) => (
        <Checkbox
          key={column}
          checked={columns.includes(column)}
          onChange={(isChecked) => {
            const chosen = InboxColumn.literals.filter((one) =>
              one === column ? isChecked : columns.includes(one)
            )
            onChange(chosen.join() === DEFAULT_COLUMNS.join() ? undefined : chosen)
          }}
        >
          {labels[column]}
        </Checkbox>
      ))}
    </div>
  </details>
)
