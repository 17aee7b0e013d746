import type { Schema } from "effect"
import { Badge } from "../Badge.tsx"
import { UntrustedText } from "../UntrustedText.tsx"
import {
  type Comparison,
  type Difference,
  isTooLong,
  MAX_VALUE_CHARACTERS,
  type ValueGroup,
  type ValueMark
} from "./compareValues.ts"

/** The most records that are named beside a value. */
const MAX_NAMED = 3

const markTexts: Record<ValueMark, string> = {
  magnitude: "10 times the others, or a tenth",
  type: "another type"
}

interface Names {
  /** The owners of the values, in the plural: `steps`. */
  readonly noun: string
  /** The name of a value as a whole: `All arguments`. */
  readonly whole: string
  /** The name of one of the records. */
  readonly nameOf: (id: string) => string
}

/** What values have in common, and a table for each place at which they differ. */
export const ValueComparison = ({
  comparison: { common, differences },
  ...names
}: Names & { readonly comparison: Comparison }) => (
  <div className="comparison">
    {differences.map((difference) => (
      <DifferenceTable key={difference.pointer} difference={difference} {...names} />
    ))}
    {common.length === 0 ? null : (
      <dl className="comparison-common">
        {common.map(({ pointer, value }) => (
          <div key={pointer}>
            <dt>{pointer === "" ? names.whole : <UntrustedText text={pointer} />}</dt>
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

const DifferenceTable = ({
  difference: { groups, pointer },
  nameOf,
  noun,
  whole
}: Names & { readonly difference: Difference }) => (
  <table className="table difference">
    <caption>
      {pointer === "" ? whole : <UntrustedText text={pointer} />}{" "}
      <span className="quiet">{groups.length} different values</span>
    </caption>
    <thead className="visually-hidden">
      <tr>
        <th scope="col">Value</th>
        <th scope="col">In</th>
      </tr>
    </thead>
    <tbody>
      {groups.map((group) => (
        <tr key={group.ids[0]}>
          <td>
            <GroupValue group={group} />
          </td>
          <td className="difference-steps">
            <Holders ids={group.ids} nameOf={nameOf} noun={noun} />
          </td>
        </tr>
      ))}
    </tbody>
  </table>
)

const GroupValue = ({ group }: { readonly group: ValueGroup }) => {
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

const Holders = ({
  ids,
  nameOf,
  noun
}: Pick<Names, "nameOf" | "noun"> & { readonly ids: ReadonlyArray<string> }) => (
  <>
    {ids.length === 1 ? null : (
      <strong>
        {ids.length} {noun}:{" "}
      </strong>
    )}
    {ids.slice(0, MAX_NAMED).map((id, index) => (
      <span key={id}>
        {index === 0 ? "" : ", "}
        <UntrustedText text={nameOf(id)} />
      </span>
    ))}
    {ids.length > MAX_NAMED ? " …" : null}
  </>
)
