import { type Array as Arr, Schema } from "effect"

/**
 * A string enum with the meaning of each value, in the order given. The meanings become the schema's description, one
 * line per value, and so reach the API reference; the type and the validation are the same as of `Schema.Literals`.
 */
export const documentedEnum = <const Meanings extends Readonly<Record<string, string>>>(
  meanings: Meanings
): Schema.Literals<Arr.NonEmptyReadonlyArray<keyof Meanings & string>> => {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- `Object.keys` widens the names to `string`; an enum has at least one value
  const values = Object.keys(meanings) as [keyof Meanings & string, ...Array<keyof Meanings & string>]
  return Schema.Literals(values).annotate({
    description: values.map((value) => `- \`${value}\`: ${meanings[value]}`).join("\n")
  })
}
