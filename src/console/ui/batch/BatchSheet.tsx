import type { Effect } from "effect"
import { type ReactNode, useEffect, useRef, useState } from "react"
import { Badge, type Tone } from "../Badge.tsx"
import { Button } from "../Button.tsx"
import { Dialog } from "../Dialog.tsx"
import type { Failure } from "../Failure.ts"
import { FailureNotice } from "../FailureNotice.tsx"
import { TextAreaField } from "../TextField.tsx"
import { ReadingHint } from "../reading/ReadingHint.tsx"
import { useReading } from "../reading/useReading.ts"
import type { SelectedRows } from "../selection/useSelection.ts"
import { useAction } from "../useAction.ts"

/** The result of an action for one record. */
export interface BatchResult<Id> {
  readonly id: Id
  readonly name: ReactNode
  /** In a few words, or the reason why nothing was done. */
  readonly outcome: ReactNode
  readonly tone: Tone
  /** What the summary counts, such as `decided`. */
  readonly summary: string
  /** Whether the action was applied. Others are listed first. */
  readonly isDone: boolean
  /** Whether the record stays selected: another try can succeed. */
  readonly isSelected: boolean
}

/** An action of a sheet. */
export interface BatchAction<Verb> {
  readonly verb: Verb
  readonly label: string
  readonly kind: "good" | "bad" | "plain" | "primary"
  /** Whether everything must have been on the screen before. */
  readonly needsReading?: boolean
  /** Whether something is missing, such as a comment. */
  readonly isDisabled?: boolean
}

/** The comment field of a sheet. The caller keeps the text, so that closing does not lose it. */
interface BatchComment {
  readonly label: string
  readonly hint: string
  readonly text: string
  readonly onChange: (text: string) => void
}

/** `3 approvals`, by the singular and the plural. */
export const countOf = (count: number, [one, many]: readonly [string, string]): string =>
  count === 1 ? `1 ${one}` : `${count.toLocaleString("en")} ${many}`

/**
 * A dialog that shows the selected records, acts on those that stay selected, and then shows the result of each. Records that leave the
 * selection in the dialog stay listed there.
 */
export const BatchSheet = <Id extends string, Row, Verb extends string, E>({
  actions,
  children,
  comment,
  idOf,
  nouns,
  onClose,
  rows,
  selection,
  send,
  title
}: {
  /** What the dialog does, such as `Decide`. */
  readonly title: string
  /** The noun of the records, in singular and plural. */
  readonly nouns: readonly [string, string]
  /** The records that the page knows, among them the selected ones. */
  readonly rows: ReadonlyArray<Row>
  readonly idOf: (row: Row) => Id
  readonly selection: SelectedRows<Id>
  readonly actions: ReadonlyArray<BatchAction<Verb>>
  readonly comment?: BatchComment
  /** Acts on the records. */
  readonly send: (verb: Verb, rows: ReadonlyArray<Row>) => Effect.Effect<ReadonlyArray<BatchResult<Id>>, E>
  /** `done`: the records of the successful request with this verb that were acted on. */
  readonly onClose: (verb: Verb | undefined, done: ReadonlyArray<Row>) => void
  /** The records as they are reviewed. `isSending`: a request runs, and the records do not change. */
  readonly children: (rows: ReadonlyArray<Row>, isSending: boolean) => ReactNode
}) => {
  const [opened] = useState(selection.ids)
  /** The running or finished request: its changes may arrive on a stream before its response. */
  const [sent, setSent] = useState<{
    readonly verb: Verb
    readonly shown: ReadonlyArray<Row>
    readonly rows: ReadonlyArray<Row>
  }>()
  const [results, setResults] = useState<ReadonlyArray<BatchResult<Id>>>()
  const action = useAction(send)
  const shown = sent?.shown ?? rows.filter((row) => opened.has(idOf(row)))
  const chosen = sent?.rows ?? shown.filter((row) => selection.ids.has(idOf(row)))
  const submit = async (verb: Verb) => {
    setSent({ verb, shown, rows: chosen })
    const response = await action.run(verb, chosen)
    if (response === undefined) return setSent(undefined)
    setResults(response)
    selection.remove(response.filter(({ isSelected }) => !isSelected).map(({ id }) => id))
    comment?.onChange("")
  }
  const close = () => {
    const done = new Set(results?.filter(({ isDone }) => isDone).map(({ id }) => id))
    onClose(
      results === undefined ? undefined : sent?.verb,
      chosen.filter((row) => done.has(idOf(row)))
    )
  }
  return (
    <Dialog
      keepsInput
      open
      title={`${results === undefined ? title : "Results of"} ${countOf(chosen.length, nouns)}`}
      className="sheet"
      explicitClose={action.pending}
      onClose={close}
    >
      {results === undefined ? (
        <BatchForm
          actions={actions}
          comment={comment}
          count={chosen.length}
          failure={action.failure}
          nouns={nouns}
          pending={action.pending ? sent?.verb : undefined}
          onClose={close}
          onSubmit={(verb) => void submit(verb)}
        >
          {children(shown, sent !== undefined)}
        </BatchForm>
      ) : (
        <BatchResults results={results} onClose={close} />
      )}
    </Dialog>
  )
}

const BatchForm = <Verb extends string>({
  actions,
  children,
  comment,
  count,
  failure,
  nouns,
  onClose,
  onSubmit,
  pending
}: {
  readonly actions: ReadonlyArray<BatchAction<Verb>>
  readonly comment: BatchComment | undefined
  readonly count: number
  readonly failure: Failure | undefined
  readonly nouns: readonly [string, string]
  /** The action that is being sent. */
  readonly pending: Verb | undefined
  readonly onClose: () => void
  readonly onSubmit: (verb: Verb) => void
  readonly children: ReactNode
}) => {
  const region = useRef<HTMLDivElement>(null)
  const reading = useReading(region)
  const isReadFirst = actions.some(({ needsReading }) => needsReading)
  return (
    <>
      <div ref={region} className="sheet-body">
        {children}
      </div>
      <FailureNotice failure={failure} />
      <form className="sheet-form" data-covers="" onSubmit={(event) => event.preventDefault()}>
        {comment === undefined ? null : (
          <TextAreaField
            label={comment.label}
            hint={comment.hint}
            rows={2}
            maxLength={4_000}
            readOnly={pending !== undefined}
            value={comment.text}
            onChange={(text) => comment.onChange(text)}
          />
        )}
        {count === 0 ? (
          <p className="quiet">No {nouns[0]} is selected any more.</p>
        ) : isReadFirst ? (
          <ReadingHint reading={reading} />
        ) : null}
        <div className="decide-buttons">
          {count === 0
            ? null
            : actions.map(({ isDisabled = false, kind, label, needsReading = false, verb }) =>
                needsReading && !reading.isSeen ? (
                  <Button key={verb} onClick={reading.showNext}>
                    Show the rest
                  </Button>
                ) : (
                  <Button
                    key={verb}
                    kind={kind}
                    pending={pending === verb}
                    disabled={pending === undefined ? isDisabled : pending !== verb}
                    onClick={() => onSubmit(verb)}
                  >
                    {label} {count.toLocaleString("en")}
                  </Button>
                )
              )}
          <Button disabled={pending !== undefined} onClick={onClose}>
            Cancel
          </Button>
        </div>
      </form>
    </>
  )
}

/** A summary, and the result of each record. */
const BatchResults = <Id extends string>({
  onClose,
  results
}: {
  readonly results: ReadonlyArray<BatchResult<Id>>
  readonly onClose: () => void
}) => {
  const title = useRef<HTMLParagraphElement>(null)
  // The button that had the focus is gone.
  useEffect(() => title.current?.focus(), [])
  const counts = [...Map.groupBy(results, ({ summary }) => summary)]
  const selected = results.filter(({ isSelected }) => isSelected).length
  return (
    <>
      <p ref={title} tabIndex={-1} className="notice-title sheet-summary">
        {counts.map(([summary, group]) => `${group.length} ${summary}`).join(", ")}
        {selected === 0 ? "" : selected === 1 ? ". It stays selected." : ". They stay selected."}
      </p>
      <ul className="sheet-items" aria-label="Results">
        {results
          .toSorted((left, right) => Number(left.isDone) - Number(right.isDone))
          .map(({ id, name, outcome, tone }) => (
            <li key={id} className="sheet-item">
              <span className="sheet-item-name">{name}</span>
              <Badge tone={tone}>{outcome}</Badge>
            </li>
          ))}
      </ul>
      <div className="dialog-actions">
        <Button kind="primary" onClick={onClose}>
          Close
        </Button>
      </div>
    </>
  )
}
