import { Atom } from "effect/reactivity"
import { useMemo, useState } from "react"
import type { ComparedItem, InboxApproval } from "../../../../api/Console.ts"
import type { ApprovalId } from "../../../../domain/Ids.ts"
import { consoleClient } from "../../../state/consoleClient.ts"
import { findObstacle } from "../../../state/findObstacle.ts"
import { useSession } from "../../../state/session.ts"
import { AsyncContent } from "../../../ui/AsyncContent.tsx"
import { Badge } from "../../../ui/Badge.tsx"
import { compareValues, type Comparison } from "../../../ui/batch/compareValues.ts"
import { CountedFact, Fact } from "../../../ui/batch/Facts.tsx"
import { RecordTable } from "../../../ui/batch/RecordTable.tsx"
import { Button } from "../../../ui/Button.tsx"
import { Checkbox } from "../../../ui/Checkbox.tsx"
import { JsonTree } from "../../../ui/JsonTree.tsx"
import type { SelectedRows } from "../../../ui/selection/useSelection.ts"
import { Countdown } from "../../../ui/Time.tsx"
import { UntrustedText } from "../../../ui/UntrustedText.tsx"
import { ApprovalName, nameOfApproval } from "../ApprovalName.tsx"

/** What selected approvals have in common, and a table of the approvals of each tool with the arguments in which they differ. */
export const ComparedApprovals = ({
  approvals,
  items,
  onOpen,
  selection
}: {
  readonly approvals: ReadonlyArray<InboxApproval>
  readonly items: ReadonlyArray<ComparedItem>
  readonly selection: SelectedRows<ApprovalId>
  readonly onOpen: () => void
}) => {
  const session = useSession()
  /** The approvals whose arguments a person says to know without having them shown. */
  const [known, setKnown] = useState<ReadonlySet<ApprovalId>>(new Set())
  const itemsById = useMemo(() => new Map(items.map((item) => [item.approval_id, item])), [items])
  const listed = approvals.map(({ approval_id }) => approval_id).join()
  // Snapshots change with every event; the compared parts change only with the list.
  // oxlint-disable-next-line react/exhaustive-deps -- `listed` stands for the approvals
  const tools = useMemo(() => compareByTool(approvals, itemsById), [listed, itemsById])
  const approvalsById = new Map(approvals.map((approval) => [approval.approval_id, approval]))
  const marks = tools.reduce((sum, { comparison }) => sum + countMarks(comparison), 0)
  const uncompared = tools.flatMap((tool) => [...tool.uncompared])
  const noteOf = (approval: InboxApproval) => {
    if (itemsById.get(approval.approval_id)?.own_request === true) return obstacleNotes.own
    const obstacle = findObstacle(approval, session)
    return obstacle === undefined ? undefined : obstacleNotes[obstacle]
  }
  return (
    <>
      <SelectionFacts approvals={approvals} itemsById={itemsById} />
      {marks === 0 ? null : (
        <p className="notice warn">
          {marks === 1 ? "1 value stands out: it is" : `${marks} values stand out: they are`} marked below.
        </p>
      )}
      {uncompared.length < 2 ? null : (
        <Checkbox
          checked={uncompared.every((id) => known.has(id))}
          onChange={(isChecked) => setKnown(new Set(isChecked ? uncompared : []))}
        >
          I know the arguments of all {uncompared.length} that are too large to be compared
        </Checkbox>
      )}
      {tools.map(({ comparison, ids, tool, uncompared: large }) => (
        <section key={tool} aria-label={`Arguments of ${tool}`}>
          <h3 className="sheet-tool">
            <UntrustedText text={tool} />{" "}
            <span className="quiet">{ids.length === 1 ? "1 step" : `${ids.length} steps`}</span>
          </h3>
          <RecordTable
            label={tool}
            noun="Approval"
            whole="All arguments"
            comparison={comparison}
            selection={selection}
            onOpen={onOpen}
            records={ids.flatMap((id) => {
              const approval = approvalsById.get(id)
              if (approval === undefined) return []
              const note = noteOf(approval)
              return [
                {
                  id,
                  label: nameOfApproval(approval),
                  to: `/approvals/${id}`,
                  name: (
                    <>
                      <ApprovalName approval={approval} />
                      <span className="quiet small record-due">
                        {" · due in "}
                        <Countdown from={approval.requested_at} until={approval.expires_at} />
                      </span>
                      {note === undefined ? null : (
                        <>
                          {" "}
                          <Badge tone="bad">{note}</Badge>
                        </>
                      )}
                    </>
                  ),
                  below: large.has(id) ? (
                    <LargeArguments
                      id={id}
                      name={nameOfApproval(approval)}
                      bytes={itemsById.get(id)?.arguments_bytes}
                      isKnown={known.has(id)}
                      onKnown={(isKnown) =>
                        setKnown(
                          (current) =>
                            new Set(isKnown ? [...current, id] : [...current].filter((one) => one !== id))
                        )
                      }
                    />
                  ) : undefined
                }
              ]
            })}
          />
        </section>
      ))}
    </>
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

/** The selected steps of one tool. */
interface ToolSteps {
  readonly tool: string
  readonly ids: ReadonlyArray<ApprovalId>
  readonly comparison: Comparison
  /** The steps whose arguments are too large, or differ in too much, to be compared. */
  readonly uncompared: ReadonlySet<ApprovalId>
}

/** Compares the arguments of each tool's steps; tools with marked values come first. */
const compareByTool = (
  approvals: ReadonlyArray<InboxApproval>,
  itemsById: ReadonlyMap<ApprovalId, ComparedItem>
): ReadonlyArray<ToolSteps> =>
  [...Map.groupBy(approvals, ({ tool }) => tool)]
    .map(([tool, steps]) => {
      const ids = steps.map(({ approval_id }) => approval_id)
      const small = ids.flatMap((id) => {
        const item = itemsById.get(id)
        return item === undefined || isTooLarge(item) ? [] : [item]
      })
      const comparison = compareValues(
        small.map(({ approval_id, arguments_json }) => ({
          id: approval_id,
          value: arguments_json === null ? undefined : JSON.parse(arguments_json)
        }))
      )
      const compared = new Set(small.map(({ approval_id }) => approval_id))
      const isUncompared = (id: ApprovalId) => !compared.has(id) || comparison.incomplete.has(id)
      return { tool, ids, comparison, uncompared: new Set(ids.filter(isUncompared)) }
    })
    .toSorted(
      (left, right) => Number(countMarks(right.comparison) > 0) - Number(countMarks(left.comparison) > 0)
    )

const isTooLarge = ({ arguments_bytes, arguments_json }: ComparedItem): boolean =>
  arguments_json === null && arguments_bytes > 0

/** The different values that are marked. */
const countMarks = ({ differences }: Comparison): number =>
  differences.flatMap(({ groups }) => groups).filter(({ mark }) => mark !== undefined).length

/** The common parts of the approvals besides their arguments, and where they differ: tools, agents and deadlines. */
const SelectionFacts = ({
  approvals,
  itemsById
}: {
  readonly approvals: ReadonlyArray<InboxApproval>
  readonly itemsById: ReadonlyMap<ApprovalId, ComparedItem>
}) => {
  const [first] = approvals
  return (
    <dl className="facts">
      <CountedFact name="Tools" values={approvals.map(({ tool }) => tool)} />
      <CountedFact name="Action class" values={approvals.map(({ action_class }) => action_class)} />
      <CountedFact
        name="Requested by"
        values={approvals.map(
          ({ approval_id }) => itemsById.get(approval_id)?.requested_by.name ?? "unknown"
        )}
      />
      <CountedFact
        name="On timeout"
        values={approvals.map(({ escalation_deadline_at, stage, timeout_action }) =>
          escalation_deadline_at !== null && stage === "reviewer"
            ? "escalate to admins"
            : `${timeout_action} the step`
        )}
      />
      <Fact name="Sessions">{new Set(approvals.map(({ session_id }) => session_id)).size}</Fact>
      {first === undefined ? null : (
        <Fact name="First due in">
          <Countdown from={first.requested_at} until={first.expires_at} />
        </Fact>
      )}
    </dl>
  )
}

const itemAtom = Atom.family((id: ApprovalId) => Atom.make(consoleClient.inbox.get({ params: { id } })))

/**
 * Arguments that the comparison does not show. They count as not shown (`data-fold`) until each of their parts was opened, or a person says to know
 * them.
 */
const LargeArguments = ({
  bytes,
  id,
  isKnown,
  name,
  onKnown
}: {
  readonly id: ApprovalId
  readonly name: string
  /** Undefined: not known. */
  readonly bytes: number | undefined
  readonly isKnown: boolean
  readonly onKnown: (isKnown: boolean) => void
}) => {
  const [isOpen, setOpen] = useState(false)
  const size = bytes === undefined ? "" : ` of ${Math.ceil(bytes / 1024).toLocaleString("en")} KiB`
  return (
    <div className="large-arguments" data-known={isKnown ? "" : undefined}>
      {isOpen ? (
        <LoadedArguments id={id} />
      ) : (
        <Button
          small
          data-fold=""
          aria-label={`Show arguments${size} of ${name}`}
          onClick={() => setOpen(true)}
        >
          Show arguments{size}
        </Button>
      )}
      <Checkbox checked={isKnown} onChange={onKnown}>
        I know these arguments
      </Checkbox>
    </div>
  )
}

const LoadedArguments = ({ id }: { readonly id: ApprovalId }) => {
  const atom = itemAtom(id)
  return (
    <AsyncContent atom={atom}>
      {({ approval }) => <JsonTree label="Arguments" value={approval.arguments} />}
    </AsyncContent>
  )
}
