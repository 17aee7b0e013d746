import type { Schema } from "effect"
import type { ReactNode } from "react"
import { Link } from "../../app/router.tsx"
import { Badge } from "../Badge.tsx"
import { useElementWidth } from "../useElementWidth.ts"
import type { SelectedRows } from "../selection/useSelection.ts"
import { UntrustedText } from "../UntrustedText.tsx"
import {
  type Comparison,
  isTooLong,
  MAX_VALUE_CHARACTERS,
  type ValueGroup,
  type ValueMark
} from "./compareValues.ts"

/** The least widths of the column of names and of a column of values, in pixels. Without room for all, the values stand below the name. */
const NAME_WIDTH = 220
const VALUE_WIDTH = 110

const markTexts: Record<ValueMark, string> = {
  magnitude: "10 times the others, or a tenth",
  type: "another type"
}

/** One of the selected records. */
export interface TableRecord<Id> {
  readonly id: Id
  /** What a person calls it, for screen readers. */
  readonly label: string
  readonly name: ReactNode
  /** The page that shows it. */
  readonly to: string
  /** Below its values. */
  readonly below?: ReactNode
}

/**
 * The selected records, a row each with a checkbox that keeps it selected, and a column for each place at which their values differ. Marked
 * values come first. Below stand the values that all have.
 */
export const RecordTable = <Id extends string>({
  comparison,
  label,
  noun,
  onOpen,
  records,
  selection,
  whole
}: {
  readonly label: string
  readonly comparison: Comparison
  readonly records: ReadonlyArray<TableRecord<Id>>
  readonly selection: SelectedRows<Id>
  /** What a record is called: `Approval`. */
  readonly noun: string
  /** The name of a value as a whole: `All arguments`. */
  readonly whole: string
  /** Called when a record is opened in this tab. */
  readonly onOpen: () => void
}) => {
  const { measure, width } = useElementWidth()
  const { common, differences } = comparison
  const columns = differences.map(({ groups, pointer }) => ({
    name: pointer === "" ? whole : pointer,
    groups: new Map(groups.flatMap((group) => group.ids.map((id) => [id, group] as const)))
  }))
  const isMarked = ({ id }: TableRecord<Id>) =>
    columns.some(({ groups }) => groups.get(id)?.mark !== undefined)
  const isStacked = width < NAME_WIDTH + VALUE_WIDTH * columns.length
  return (
    <div ref={measure} className="comparison">
      <table className={isStacked ? "table records stacked" : "table records"}>
        <caption className="visually-hidden">
          <UntrustedText text={label} />
        </caption>
        <thead className={isStacked || columns.length === 0 ? "visually-hidden" : ""}>
          <tr>
            <th scope="col">{noun}</th>
            {columns.map(({ name }) => (
              <th key={name} scope="col">
                <UntrustedText text={name} />
              </th>
            ))}
          </tr>
        </thead>
        {records
          .toSorted((left, right) => Number(isMarked(right)) - Number(isMarked(left)))
          .map((record) => (
            // Nobody has to read what is not decided.
            <tbody key={record.id} data-known={selection.ids.has(record.id) ? undefined : ""}>
              <tr>
                <th scope="row">
                  <label className="record-name">
                    <input
                      type="checkbox"
                      aria-label={`Selected: ${record.label}`}
                      checked={selection.ids.has(record.id)}
                      onChange={() => selection.toggle(record.id)}
                    />
                    <span>{record.name}</span>
                  </label>
                  <Link to={record.to} aria-label={`Open ${record.label}`} onClick={onOpen}>
                    Open
                  </Link>
                </th>
                {columns.map(({ groups, name }) => (
                  <td key={name} data-label={name}>
                    <Value group={groups.get(record.id)} />
                  </td>
                ))}
              </tr>
              {record.below === undefined ? null : (
                <tr>
                  <td colSpan={columns.length + 1}>{record.below}</td>
                </tr>
              )}
            </tbody>
          ))}
      </table>
      {common.length === 0 ? null : (
        <dl className="comparison-common">
          {common.map(({ pointer, value }) => (
            <div key={pointer}>
              <dt>
                <UntrustedText text={pointer === "" ? whole : pointer} />
              </dt>
              <dd>
                {value === undefined ? (
                  <span className="quiet">none</span>
                ) : (
                  <UntrustedText text={JSON.stringify(value, null, 2)} />
                )}
              </dd>
            </div>
          ))}
        </dl>
      )}
    </div>
  )
}

const Value = ({ group }: { readonly group: ValueGroup | undefined }) => {
  if (group === undefined) return <span className="quiet">see below</span>
  const { mark, value } = group
  return (
    <>
      {value === undefined ? (
        <span className="quiet">not given</span>
      ) : (
        <span className="difference-value">
          <UntrustedText text={shownText(value)} />
          {isTooLong(group) ? "…" : null}
        </span>
      )}
      {mark === undefined ? null : (
        <>
          {" "}
          <Badge tone="bad">{markTexts[mark]}</Badge>
        </>
      )}
    </>
  )
}

const shownText = (value: Schema.Json): string => JSON.stringify(value).slice(0, MAX_VALUE_CHARACTERS)
