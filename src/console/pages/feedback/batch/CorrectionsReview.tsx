import { useMemo } from "react"
import type { FeedbackRow } from "../../../../api/console/FeedbackRows.ts"
import type { ReviewVerdict } from "../../../../api/ReviewBatch.ts"
import type { FeedbackId } from "../../../../domain/Ids.ts"
import { Button } from "../../../ui/Button.tsx"
import { type Comparison, compareValues } from "../../../ui/comparison/compareValues.ts"
import { ValueComparison } from "../../../ui/comparison/ValueComparison.tsx"
import type { Failure } from "../../../ui/Failure.ts"
import { FailureNotice } from "../../../ui/FailureNotice.tsx"
import { Field } from "../../../ui/Field.tsx"
import { summarizeJsonStart } from "../../../ui/summarizeJson.ts"
import { UntrustedText } from "../../../ui/UntrustedText.tsx"
import { judgementText } from "../scoreText.ts"
import { RecordName } from "./RecordName.tsx"

interface CorrectionsReviewProps {
  readonly records: ReadonlyArray<FeedbackRow>
  readonly note: string
  /** The verdict that is being sent. */
  readonly pending: ReviewVerdict | undefined
  readonly failure: Failure | undefined
  readonly onNote: (note: string) => void
  readonly onRemove: (id: FeedbackId) => void
  readonly onSubmit: (verdict: ReviewVerdict) => void
  readonly onClose: () => void
}

/** What selected corrections have in common and where they differ, by task, and the form to review them. */
export const CorrectionsReview = ({
  failure,
  note,
  onClose,
  onNote,
  onRemove,
  onSubmit,
  pending,
  records
}: CorrectionsReviewProps) => {
  const tasks = useMemo(() => compareByTask(records), [records])
  const names = new Map<string, string>(
    records.map(({ id, input_start }) => [
      id,
      input_start === null ? "large input" : summarizeJsonStart(input_start)
    ])
  )
  const incomplete = tasks.reduce((sum, { comparison }) => sum + comparison.incomplete.size, 0)
  const isStaged = records.every(({ status }) => status === "staged")
  const buttons: ReadonlyArray<
    readonly [verdict: ReviewVerdict, label: string, kind: "good" | "bad" | "plain"]
  > = isStaged
    ? [
        ["unstage", "Undo staging of", "plain"],
        ["reject", "Reject", "bad"]
      ]
    : [
        ["stage", "Stage", "good"],
        ["reject", "Reject", "bad"]
      ]
  return (
    <>
      <dl className="facts">
        <Fact name="Tasks" values={records.map(({ task_name }) => task_name)} />
        <Fact name="Scores" values={records.map(judgementText)} />
        <Fact name="Given by" values={records.map(({ created_by }) => created_by.name)} />
      </dl>
      {incomplete === 0 ? null : (
        <p className="notice warn">
          {incomplete === 1 ? "1 correction is" : `${incomplete} corrections are`} too long, or differ in too
          much, to be shown here. Open them one by one to read them.
        </p>
      )}
      {tasks.map(({ comparison, count, id, name }) => (
        <section key={id} aria-label={`Corrections of ${name}`}>
          <h3>
            <UntrustedText text={name} />{" "}
            <span className="quiet">{count === 1 ? "1 correction" : `${count} corrections`}</span>
          </h3>
          <ValueComparison
            comparison={comparison}
            noun="corrections"
            whole="The whole answer"
            nameOf={(record) => names.get(record) ?? record}
          />
        </section>
      ))}
      <details className="sheet-all">
        <summary>{records.length === 1 ? "The correction" : `All ${records.length} corrections`}</summary>
        <ul className="sheet-items">
          {records.map((record) => (
            <li key={record.id} className="sheet-item">
              <span className="sheet-item-name">
                <RecordName record={record} />
              </span>
              <Button small aria-label={`Deselect ${record.id}`} onClick={() => onRemove(record.id)}>
                Deselect
              </Button>
            </li>
          ))}
        </ul>
      </details>
      <FailureNotice failure={failure} />
      <form className="sheet-form" onSubmit={(event) => event.preventDefault()}>
        <Field
          label="Note to the submitters (optional)"
          hint="Recorded with each correction that you reject."
        >
          {(field) => (
            <textarea
              {...field}
              rows={2}
              maxLength={4_000}
              value={note}
              onChange={(event) => onNote(event.target.value)}
            />
          )}
        </Field>
        {records.length === 0 ? (
          <p className="quiet">None of the selected corrections is in this list any more.</p>
        ) : null}
        <div className="decide-buttons">
          {records.length === 0
            ? null
            : buttons.map(([verdict, label, kind]) => (
                <Button
                  key={verdict}
                  kind={kind}
                  pending={pending === verdict}
                  disabled={pending !== undefined && pending !== verdict}
                  onClick={() => onSubmit(verdict)}
                >
                  {label} {records.length}
                </Button>
              ))}
          <Button disabled={pending !== undefined} onClick={onClose}>
            Cancel
          </Button>
        </div>
      </form>
    </>
  )
}

/** The selected corrections of one task. */
interface TaskCorrections {
  readonly id: string
  readonly name: string
  readonly count: number
  readonly comparison: Comparison
}

const compareByTask = (records: ReadonlyArray<FeedbackRow>): ReadonlyArray<TaskCorrections> =>
  [...Map.groupBy(records, ({ task_id }) => task_id)].map(([id, corrected]) => ({
    id,
    name: corrected[0]?.task_name ?? id,
    count: corrected.length,
    comparison: compareValues(
      corrected.map((record) => ({ id: record.id, value: record.correction ?? undefined }))
    )
  }))

/** A fact of all corrections: its value if it is the same for all, else each value with its count. */
const Fact = ({ name, values }: { readonly name: string; readonly values: ReadonlyArray<string> }) => {
  const counts = [...Map.groupBy(values, (value) => value)]
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {counts.map(([value, same], index) => (
          <span key={value}>
            {index === 0 ? "" : ", "}
            <UntrustedText text={value} />
            {counts.length === 1 ? "" : ` (${same.length})`}
          </span>
        ))}
      </dd>
    </div>
  )
}
