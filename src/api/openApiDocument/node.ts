/** Reading and rebuilding parts of a JSON document. */
import { Predicate } from "effect"

/** A node of the document. */
export type Node = Readonly<Record<string, unknown>>

export const record = (value: unknown): Node => (Predicate.isReadonlyObject(value) ? value : {})

export const list = (value: unknown): ReadonlyArray<Node> => (Array.isArray(value) ? value : [])

export const mapValues = <B>(node: Node, to: (value: unknown, key: string) => B): Record<string, B> =>
  Object.fromEntries(Object.entries(node).map(([key, value]) => [key, to(value, key)]))

export const mapKeys = (node: Node, to: (key: string) => string): Node =>
  Object.fromEntries(Object.entries(node).map(([key, value]) => [to(key), value]))

export const without = (node: Node, ...keys: ReadonlyArray<string>): Node =>
  Object.fromEntries(Object.entries(node).filter(([key]) => !keys.includes(key)))

/** Rebuilds every object of a value, the innermost first. */
export const rebuild = (value: unknown, to: (node: Node) => unknown): unknown => {
  if (Array.isArray(value)) return value.map((item) => rebuild(item, to))
  return Predicate.isReadonlyObject(value) ? to(mapValues(value, (inner) => rebuild(inner, to))) : value
}

export const SCHEMAS = "#/components/schemas/"

/** The name of the component schema that a node refers to; undefined if the node is not such a reference. */
export const referenceOf = ({ $ref }: Node): string | undefined =>
  typeof $ref === "string" && $ref.startsWith(SCHEMAS) ? $ref.slice(SCHEMAS.length) : undefined

/** The one value of a property; undefined if it can have several. */
export const constantOf = (schema: unknown, property: string): unknown => {
  const found = record(record(record(schema)["properties"])[property])
  const values = list(found["enum"])
  return found["const"] ?? (values.length === 1 ? values[0] : undefined)
}
