/** JSON texts that cost much in relation to their size, as bodies of requests. */

/** Nesting of values, which are in up to five containers of a body. */
const LEVELS = 50

/** The kinds, each as text of a JSON value with at most `values` values and `bytes` bytes. */
export const values = {
  /** One object with many members. */
  members: (size: Size) => `{${members(size.names, size.bytes)}}`,
  /** One object with many members, in an object in an object, as deep as allowed. */
  nestedMembers: (size: Size) =>
    `{"x":1,"deep":`.repeat(LEVELS) +
    `{${members(size.names, size.bytes - LEVELS * 16)}}` +
    "}".repeat(LEVELS),
  /** Many objects, each with one member of a name of its own. */
  shapes: (size: Size) =>
    list(Math.min(size.names, Math.floor(size.values / 2)), size.bytes, (index) => `{"k${index}":1}`),
  /** Lists in lists, as deep as allowed. */
  nested: (size: Size) =>
    list(Math.floor(size.values / LEVELS), size.bytes, () => "[".repeat(LEVELS) + "]".repeat(LEVELS)),
  /** Empty lists. */
  empty: (size: Size) => list(size.values, size.bytes, () => "[]"),
  /** Numbers whose digits have to be compared. */
  numbers: (size: Size) => list(size.values, size.bytes, (index) => `0.12345678901234${index % 10}e-5`),
  /** Short texts. */
  texts: (size: Size) => list(size.values, size.bytes, (index) => `"text ${index}"`),
  /** Ordinary records. */
  records: (size: Size) =>
    list(Math.floor(size.values / 6), size.bytes, (index) =>
      JSON.stringify({ id: index, name: `Item ${index}`, total: 12.5, paid: true, note: "as ordered" })
    ),
  /** One long text. */
  long: (size: Size) =>
    `"${"Lorem ipsum dolor sit amet. ".repeat(Math.ceil(size.bytes / 28)).slice(0, size.bytes)}"`
}

/** A kind of value. */
export type Kind = keyof typeof values

export const kinds = Object.keys(values).filter((name): name is Kind => Object.hasOwn(values, name))

/** How large a value is at most. */
export interface Size {
  readonly bytes: number
  readonly values: number
  readonly names: number
}

/** As large as a body of `bytes` can be, with no regard to other limits. */
export const unlimited = (bytes: number): Size => ({
  bytes,
  values: Number.POSITIVE_INFINITY,
  names: Number.POSITIVE_INFINITY
})

/** Just within the limits of the service, with room for the other members of a body. */
export const accepted = (bytes: number): Size => ({ bytes, values: 99_000, names: 19_900 })

const list = (count: number, bytes: number, item: (index: number) => string): string => {
  const items: Array<string> = []
  for (let index = 0, length = 2; index < count; index++) {
    const text = item(index)
    length += text.length + 1
    if (length > bytes) break
    items.push(text)
  }
  return `[${items.join(",")}]`
}

const members = (count: number, bytes: number): string =>
  list(count, bytes, (index) => `"k${index}":${index}`).slice(1, -1)
