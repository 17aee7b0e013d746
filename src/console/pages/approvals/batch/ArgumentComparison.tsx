import type { Schema } from "effect"
import { Badge } from "../../../ui/Badge.tsx"
import { UntrustedText } from "../../../ui/UntrustedText.tsx"
import type { ApprovalId } from "../../../../domain/Ids.ts"
import {
  type Comparison,
  type Difference,
  isTooLong,
  MAX_VALUE_CHARACTERS,
  type ValueGroup,
  type ValueMark
} from "./compareArguments.ts"

/** The most steps that are named beside a value. */
const MAX_NAMED = 3

const markTexts: Record<ValueMark, string> = {
  magnitude: "10 times the others, or a tenth",
  type: "another type"
}

/** What the arguments have in common, and a table for each place at which they differ. */
export const ArgumentComparison = ({
  comparison: { common, differences },
  nameOf
}: {
  readonly comparison: Comparison
  /** The name of an approval's step. */
  readonly nameOf: (id: ApprovalId) => string
}) => (
  <div className="comparison">
    {differences.map((difference) => (
      <DifferenceTable key={difference.pointer} difference={difference} nameOf={nameOf} />
    ))}
    {common.length === 0 ? null : (
      <dl className="comparison-common">
        {common.map(({ pointer, value }) => (
          <div key={pointer}>
            <dt>{pointer === "" ? "All arguments" : <UntrustedText text={pointer} />}</dt>
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
  nameOf
}: {
  readonly difference: Difference
  readonly nameOf: (id: ApprovalId) => string
}) => (
  <table className="table difference">
    <caption>
      {pointer === "" ? "All arguments" : <UntrustedText text={pointer} />}{" "}
      <span className="quiet">{groups.length} different values</span>
    </caption>
    <thead className="visually-hidden">
      <tr>
        <th scope="col">Value</th>
        <th scope="col">Steps</th>
      </tr>
    </thead>
    <tbody>
      {groups.map((group) => (
        <tr key={group.ids[0]}>
          <td>
            <GroupValue group={group} />
          </td>
          <td className="difference-steps">
            <Steps ids={group.ids} nameOf={nameOf} />
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

const Steps = ({
  ids,
  nameOf
}: {
  readonly ids: ReadonlyArray<ApprovalId>
  readonly nameOf: (id: ApprovalId) => string
}) => (
  <>
    {ids.length === 1 ? null : <strong>{ids.length} steps: </strong>}
    {ids.slice(0, MAX_NAMED).map((id, index) => (
      <span key={id}>
        {index === 0 ? "" : ", "}
        <UntrustedText text={nameOf(id)} />
      </span>
    ))}
    {ids.length > MAX_NAMED ? " …" : null}
  </>
)
