import { type ReactNode, useMemo, useRef, useState } from "react"
import type { ComparedItem } from "../../../../api/Console.ts"
import type { ApprovalSnapshot } from "../../../../api/SessionStream.ts"
import type { ApprovalId } from "../../../../domain/Ids.ts"
import { findObstacle } from "../../../state/findObstacle.ts"
import { useSession } from "../../../state/session.ts"
import { Badge } from "../../../ui/Badge.tsx"
import { Button } from "../../../ui/Button.tsx"
import { compareValues, type Comparison } from "../../../ui/comparison/compareValues.ts"
import { ValueComparison } from "../../../ui/comparison/ValueComparison.tsx"
import type { Failure } from "../../../ui/Failure.ts"
import { FailureNotice } from "../../../ui/FailureNotice.tsx"
import { Field } from "../../../ui/Field.tsx"
import { Countdown } from "../../../ui/Time.tsx"
import { UntrustedText } from "../../../ui/UntrustedText.tsx"
import type { Verdict } from "../ApprovalDetail.tsx"
import { EndedApprovals } from "./SelectionBar.tsx"
import { UncomparedArguments } from "./UncomparedArguments.tsx"
import type { EndedApproval } from "./useSelectedApprovals.ts"

/** The selected steps of one tool. */
interface ToolSteps {
  readonly tool: string
  readonly count: number
  readonly comparison: Comparison
}

interface SelectionReviewProps {
  readonly approvals: ReadonlyArray<ApprovalSnapshot>
  readonly ended: ReadonlyArray<EndedApproval>
  readonly items: ReadonlyArray<ComparedItem>
  readonly comment: string
  readonly pending: boolean
  readonly failure: Failure | undefined
  readonly onComment: (comment: string) => void
  readonly onRemove: (id: ApprovalId) => void
  readonly onSubmit: (verdict: Verdict) => void
  readonly onClose: () => void
}

/** What selected approvals have in common and where they differ, and the form to decide them. */
export const SelectionReview = ({
  approvals,
  comment,
  ended,
  failure,
  items,
  onClose,
  onComment,
  onRemove,
  onSubmit,
  pending
}: SelectionReviewProps) => {
  const [checked, setChecked] = useState<ReadonlySet<ApprovalId>>(new Set())
  const [isBlocked, setBlocked] = useState(false)
  const uncomparedSection = useRef<HTMLElement>(null)
  const itemsById = useMemo(() => new Map(items.map((item) => [item.approval_id, item])), [items])
  const selected = approvals.map(({ approval_id }) => approval_id).join()
  // Snapshots change with every event; the compared parts change only with the selection.
  // oxlint-disable-next-line react/exhaustive-deps -- `selected` stands for the approvals
  const tools = useMemo(() => compareByTool(approvals, itemsById), [selected, itemsById])
  const incomplete = new Set(tools.flatMap(({ comparison }) => [...comparison.incomplete]))
  const uncompared = approvals.filter(({ approval_id }) => {
    const item = itemsById.get(approval_id)
    return item === undefined || isTooLarge(item) || incomplete.has(approval_id)
  })
  const unchecked = uncompared.filter(({ approval_id }) => !checked.has(approval_id))
  const setOneChecked = (id: ApprovalId, isChecked: boolean) =>
    setChecked((current) => new Set(isChecked ? [...current, id] : [...current].filter((one) => one !== id)))
  const marks = tools.reduce((sum, { comparison }) => sum + countMarks(comparison), 0)
  const stepName = new Map(
    approvals.map(({ approval_id, step_id }) => [String(approval_id), String(step_id)])
  )
  const submit = (verdict: Verdict) => {
    if (verdict === "approve" && unchecked.length > 0) {
      setBlocked(true)
      uncomparedSection.current?.focus()
    } else onSubmit(verdict)
  }
  return (
    <>
      {ended.length === 0 ? null : (
        <div role="status" className="notice warn">
          <EndedApprovals ended={ended} />
        </div>
      )}
      <SelectionFacts approvals={approvals} itemsById={itemsById} />
      {marks === 0 ? null : (
        <p className="notice warn">
          {marks === 1 ? "1 value stands out: it is" : `${marks} values stand out: they are`} marked below.
        </p>
      )}
      {uncompared.length === 0 ? null : (
        <section ref={uncomparedSection} tabIndex={-1} aria-labelledby="uncompared-title">
          <h3 id="uncompared-title">Arguments not shown here ({uncompared.length})</h3>
          <p className={isBlocked && unchecked.length > 0 ? "field-error" : "quiet"}>
            They are too large or differ in too much to be compared. Before you approve, show them, or confirm
            that you know them.
          </p>
          {uncompared.length < 2 ? null : (
            <label className="check">
              <input
                type="checkbox"
                checked={unchecked.length === 0}
                onChange={({ target }) =>
                  setChecked(new Set(target.checked ? uncompared.map(({ approval_id }) => approval_id) : []))
                }
              />
              <span>I know the arguments of all {uncompared.length}</span>
            </label>
          )}
          <ul className="sheet-items">
            {uncompared.map(({ approval_id, step_id, tool }) => (
              <UncomparedArguments
                key={approval_id}
                id={approval_id}
                tool={tool}
                step={step_id}
                bytes={itemsById.get(approval_id)?.arguments_bytes}
                checked={checked.has(approval_id)}
                onChecked={(isChecked) => setOneChecked(approval_id, isChecked)}
              />
            ))}
          </ul>
        </section>
      )}
      {tools.filter(isCompared).map(({ comparison, count, tool }) => (
        <section key={tool} aria-label={`Arguments of ${tool}`}>
          <h3 className="sheet-tool">
            <UntrustedText text={tool} />{" "}
            <span className="quiet">{count === 1 ? "1 step" : `${count} steps`}</span>
          </h3>
          <ValueComparison
            comparison={comparison}
            noun="steps"
            whole="All arguments"
            nameOf={(id) => stepName.get(id) ?? id}
          />
        </section>
      ))}
      <details className="sheet-all">
        <summary>{approvals.length === 1 ? "The approval" : `All ${approvals.length} approvals`}</summary>
        <ul className="sheet-items">
          {approvals.map((approval) => (
            <ReviewedApproval
              key={approval.approval_id}
              approval={approval}
              item={itemsById.get(approval.approval_id)}
              onRemove={onRemove}
            />
          ))}
        </ul>
      </details>
      <FailureNotice failure={failure} />
      <form className="sheet-form" onSubmit={(event) => event.preventDefault()}>
        <Field label="Comment (optional)" hint="Recorded with each of them.">
          {(field) => (
            <textarea
              {...field}
              rows={2}
              maxLength={4_000}
              value={comment}
              onChange={(event) => onComment(event.target.value)}
            />
          )}
        </Field>
        {isBlocked && unchecked.length > 0 ? (
          <p className="field-error" role="alert">
            Arguments of {unchecked.length} {unchecked.length === 1 ? "approval" : "approvals"} are not shown.
            Show or confirm them before you approve.
          </p>
        ) : null}
        {approvals.length === 0 ? (
          <p className="quiet">None of the selected approvals is pending any more.</p>
        ) : null}
        <div className="decide-buttons">
          {approvals.length === 0 ? null : (
            <>
              <Button kind="good" pending={pending} onClick={() => submit("approve")}>
                Approve {approvals.length}
              </Button>
              <Button kind="bad" pending={pending} onClick={() => submit("reject")}>
                Reject {approvals.length}
              </Button>
            </>
          )}
          <Button disabled={pending} onClick={onClose}>
            Cancel
          </Button>
        </div>
      </form>
    </>
  )
}

const isTooLarge = ({ arguments_bytes, arguments_json }: ComparedItem): boolean =>
  arguments_json === null && arguments_bytes > 0

/** The different values that are marked. */
const countMarks = ({ differences }: Comparison): number =>
  differences.flatMap(({ groups }) => groups).filter(({ mark }) => mark !== undefined).length

const isCompared = ({ comparison: { common, differences } }: ToolSteps): boolean =>
  common.length + differences.length > 0

/** Compares the arguments of each tool's steps; tools with marked values come first. Arguments that are too large are left out. */
const compareByTool = (
  approvals: ReadonlyArray<ApprovalSnapshot>,
  itemsById: ReadonlyMap<ApprovalId, ComparedItem>
): ReadonlyArray<ToolSteps> =>
  [...Map.groupBy(approvals, ({ tool }) => tool)]
    .map(([tool, steps]) => ({
      tool,
      count: steps.length,
      comparison: compareValues(
        steps.flatMap(({ approval_id }) => {
          const item = itemsById.get(approval_id)
          if (item === undefined || isTooLarge(item)) return []
          return [
            {
              id: approval_id,
              value: item.arguments_json === null ? undefined : JSON.parse(item.arguments_json)
            }
          ]
        })
      )
    }))
    .toSorted(
      (left, right) => Number(countMarks(right.comparison) > 0) - Number(countMarks(left.comparison) > 0)
    )

/** The common parts of the approvals besides their arguments, and where they differ: tools, agents and deadlines. */
const SelectionFacts = ({
  approvals,
  itemsById
}: {
  readonly approvals: ReadonlyArray<ApprovalSnapshot>
  readonly itemsById: ReadonlyMap<ApprovalId, ComparedItem>
}) => {
  const [first] = approvals
  return (
    <dl className="facts">
      <Fact name="Tools" values={approvals.map(({ tool }) => tool)} />
      <Fact name="Action class" values={approvals.map(({ action_class }) => action_class)} />
      <Fact
        name="Requested by"
        values={approvals.map(
          ({ approval_id }) => itemsById.get(approval_id)?.requested_by.name ?? "unknown"
        )}
      />
      <Fact
        name="On timeout"
        values={approvals.map(({ escalation_deadline_at, stage, timeout_action }) =>
          escalation_deadline_at !== null && stage === "reviewer"
            ? "escalate to admins"
            : `${timeout_action} the step`
        )}
      />
      <Row name="Sessions">{new Set(approvals.map(({ session_id }) => session_id)).size}</Row>
      {first === undefined ? null : (
        <Row name="First due in">
          <Countdown from={first.requested_at} until={first.expires_at} />
        </Row>
      )}
    </dl>
  )
}

const Row = ({ children, name }: { readonly name: string; readonly children: ReactNode }) => (
  <div>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
)

/** A fact of all approvals: its value if it is the same for all, else each value with its count. */
const Fact = ({ name, values }: { readonly name: string; readonly values: ReadonlyArray<string> }) => {
  const counts = [...Map.groupBy(values, (value) => value)]
  return (
    <Row name={name}>
      {counts.map(([value, same], index) => (
        <span key={value}>
          {index === 0 ? "" : ", "}
          <UntrustedText text={value} />
          {counts.length === 1 ? "" : ` (${same.length})`}
        </span>
      ))}
    </Row>
  )
}

/** One of the selected approvals, with a note if this key will probably not be permitted to decide it. */
const ReviewedApproval = ({
  approval,
  item,
  onRemove
}: {
  readonly approval: ApprovalSnapshot
  readonly item: ComparedItem | undefined
  readonly onRemove: (id: ApprovalId) => void
}) => {
  const session = useSession()
  const obstacle = findObstacle(approval, session)
  return (
    <li className="sheet-item">
      <span className="sheet-item-name">
        <UntrustedText text={approval.tool} />{" "}
        <span className="quiet">
          <UntrustedText text={approval.step_id} />, due in{" "}
          <Countdown from={approval.requested_at} until={approval.expires_at} />
        </span>
      </span>
      {item?.own_request === true || obstacle !== undefined ? (
        <Badge tone="bad">
          {item?.own_request === true ? "requested by this API key" : obstacleNotes[obstacle ?? "scope"]}
        </Badge>
      ) : null}
      <Button
        small
        aria-label={`Deselect ${approval.step_id}`}
        onClick={() => onRemove(approval.approval_id)}
      >
        Deselect
      </Button>
    </li>
  )
}

const obstacleNotes = {
  own: "requested by this API key",
  scope: "not permitted",
  admin: "only an admin can decide",
  group: "other groups decide",
  approved: "you approved",
  enough: "others must approve"
}
