import { UntrustedText } from "../../../ui/UntrustedText.tsx"
import { ClosedReason } from "../ClosedReason.tsx"
import type { EndedApproval } from "./useSelectedApprovals.ts"

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
