import { Button } from "../../../ui/Button.tsx"
import { SelectionBar as RowSelectionBar } from "../../../ui/selection/SelectionBar.tsx"
import { UntrustedText } from "../../../ui/UntrustedText.tsx"
import { ClosedReason } from "../ClosedReason.tsx"
import type { EndedApproval, SelectedApprovals } from "./useSelectedApprovals.ts"

/** The number of selected approvals with the button to decide them, and the approvals that ended while they were selected. */
export const SelectionBar = ({
  canDecide,
  onDecide,
  selection
}: {
  readonly selection: SelectedApprovals
  readonly canDecide: boolean
  readonly onDecide: () => void
}) => {
  const { ended, listed, pending, remove } = selection
  return (
    <RowSelectionBar
      selection={selection}
      count={pending.length}
      {...(listed.length > pending.length && canDecide
        ? { all: { label: "Select all listed", load: () => listed } }
        : {})}
      actions={
        <>
          {ended.length === 0 ? null : (
            <Button small onClick={() => remove(ended.map(({ id }) => id))}>
              Dismiss
            </Button>
          )}
          {pending.length === 0 || !canDecide ? null : (
            <Button small kind="primary" onClick={onDecide}>
              Review and decide <kbd>a</kbd>
            </Button>
          )}
        </>
      }
    >
      {ended.length === 0 ? null : <EndedApprovals ended={ended} />}
    </RowSelectionBar>
  )
}

/** The most ended approvals that are named one by one. */
const MAX_NAMED = 3

/** The approvals that ended while they were selected, and how. */
export const EndedApprovals = ({ ended }: { readonly ended: ReadonlyArray<EndedApproval> }) => (
  <ul className="selection-ended">
    {ended.slice(0, MAX_NAMED).map(({ approval, id }) => (
      <li key={id}>
        {approval === undefined ? (
          "An approval has ended. It is no longer selected."
        ) : (
          <>
            <UntrustedText text={approval.tool} /> is no longer selected: <ClosedReason approval={approval} />
          </>
        )}
      </li>
    ))}
    {ended.length <= MAX_NAMED ? null : (
      <li>{ended.length - MAX_NAMED} more have ended and are no longer selected.</li>
    )}
  </ul>
)
