import type { SelectedRows } from "./useSelection.ts"

/** The checkbox that selects a row of a list or table. With Shift it selects the range from the row that was selected last. */
export const RowCheckbox = <Id,>({
  id,
  label,
  selection
}: {
  readonly id: Id
  /** The name of the row, for screen readers. */
  readonly label: string
  readonly selection: SelectedRows<Id>
}) => (
  <label className="row-checkbox" title="Select (x)">
    <input
      type="checkbox"
      aria-label={`Select ${label}`}
      checked={selection.ids.has(id)}
      // Without this, a click with Shift selects the text between two rows.
      onMouseDown={(event) => {
        if (event.shiftKey) event.preventDefault()
      }}
      onChange={({ nativeEvent }) => {
        if (nativeEvent instanceof MouseEvent && nativeEvent.shiftKey) selection.extendTo(id)
        else selection.toggle(id)
      }}
    />
  </label>
)
