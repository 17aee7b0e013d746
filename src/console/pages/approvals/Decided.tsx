import type { ApprovalSnapshot } from "../../../api/SessionStream.ts"
import type { ApprovalId } from "../../../domain/Ids.ts"
import { useAtomValue } from "../../state/atoms.ts"
import { closedAtom } from "../../state/closed.ts"
import { inboxAtom } from "../../state/inbox.ts"
import { Pages } from "../../ui/Pages.tsx"
import { Empty } from "../../ui/Empty.tsx"
import { Safe } from "../../ui/Safe.tsx"
import { Ago } from "../../ui/Time.tsx"
import { outcomeOf } from "./outcome.tsx"

/** Newest first. */
const byAge = (left: ApprovalSnapshot, right: ApprovalSnapshot): number =>
  left.approval_id < right.approval_id ? 1 : -1

/** What was decided, newest first, with who did. */
export default function Decided({
  onSelect,
  selected
}: {
  readonly selected: ApprovalId | undefined
  readonly onSelect: (id: ApprovalId) => void
}) {
  const { closed } = useAtomValue(inboxAtom)
  return (
    <div className="decided-list">
      <Pages atom={closedAtom}>
        {(listed) => {
          const shown = [
            ...new Map([...listed, ...closed.values()].map((one) => [one.approval_id, one])).values()
          ].toSorted(byAge)
          return shown.length === 0 ? (
            <Empty title="Nothing was decided yet" />
          ) : (
            <ul>
              {shown.map((approval) => (
                <li key={approval.approval_id}>
                  <button
                    type="button"
                    className="decided-row"
                    aria-current={approval.approval_id === selected ? "true" : undefined}
                    onClick={() => onSelect(approval.approval_id)}
                  >
                    <span className="row-main">
                      <span className="row-tool">
                        <Safe text={approval.tool} />
                      </span>
                      {outcomeOf(approval)}
                    </span>
                    <span className="row-more">
                      {approval.decided_by === null ? (
                        "nobody decided"
                      ) : (
                        <>
                          by <Safe text={approval.decided_by.name} />
                        </>
                      )}{" "}
                      · <Ago time={approval.decided_at} />
                    </span>
                  </button>
                </li>
              ))}
            </ul>
          )
        }}
      </Pages>
    </div>
  )
}
