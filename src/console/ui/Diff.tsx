/** Two JSON objects side by side, field by field. Differences are marked by text as well as by colour. */
import type { Schema } from "effect"
import type { JsonObject } from "../../domain/tasks/Dataset.ts"
import { JsonTree } from "./JsonTree.tsx"
import { UntrustedText } from "./UntrustedText.tsx"

type Kind = "same" | "changed" | "added" | "removed"

const isObject = (value: Schema.Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Deep equality of JSON values. The order of object keys does not matter. */
export const jsonEquals = (left: Schema.Json | undefined, right: Schema.Json | undefined): boolean => {
  if (left === right) return true
  if (isObject(left) && isObject(right)) {
    const names = Object.keys(left)
    return (
      names.length === Object.keys(right).length &&
      names.every((name) => Object.hasOwn(right, name) && jsonEquals(left[name], right[name]))
    )
  }
  return (
    Array.isArray(left) &&
    Array.isArray(right) &&
    left.length === right.length &&
    left.every((value: Schema.Json, index) => jsonEquals(value, right[index]))
  )
}

/** The fields of both objects: first the fields of `before` in order, then the fields that only `after` has. */
export const diffFields = (
  before: JsonObject | null,
  after: JsonObject | null
): ReadonlyArray<{ readonly name: string; readonly kind: Kind }> =>
  [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])].map((name) => {
    const had = before !== null && Object.hasOwn(before, name)
    const has = after !== null && Object.hasOwn(after, name)
    return {
      name,
      kind: !had ? "added" : !has ? "removed" : jsonEquals(before[name], after[name]) ? "same" : "changed"
    }
  })

/** A table with a row per field. Null: there is no object on that side. */
export const Diff = ({
  after,
  afterTitle,
  before,
  beforeTitle
}: {
  readonly before: JsonObject | null
  readonly after: JsonObject | null
  readonly beforeTitle: string
  readonly afterTitle: string
}) => (
  <div className="diff-scroll">
    <table className="diff">
      <thead>
        <tr>
          <th scope="col">Field</th>
          <th scope="col">{beforeTitle}</th>
          <th scope="col">{afterTitle}</th>
        </tr>
      </thead>
      <tbody>
        {diffFields(before, after).map(({ kind, name }) => (
          <tr key={name} className={kind}>
            <th scope="row">
              <UntrustedText text={name} />
              {kind === "same" ? null : (
                <span className="diff-word">
                  {kind === "changed"
                    ? "differs"
                    : `only in “${kind === "added" ? afterTitle : beforeTitle}”`}
                </span>
              )}
            </th>
            <td data-label={beforeTitle}>
              {before !== null && Object.hasOwn(before, name) ? (
                <JsonTree label={name} value={before[name]} copyable={false} />
              ) : (
                <span className="quiet">none</span>
              )}
            </td>
            <td data-label={afterTitle}>
              {after !== null && Object.hasOwn(after, name) ? (
                <JsonTree label={name} value={after[name]} copyable={false} />
              ) : (
                <span className="quiet">none</span>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  </div>
)
