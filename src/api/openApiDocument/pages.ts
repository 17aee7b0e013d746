/**
 * Makes components of the pages of lists, named after their items, such as `TaskPage`. The contract creates page
 * schemas without names, by a function.
 */
import { type Node, record, referenceOf } from "./node.ts"

/** The page schemas of a document's paths, by name. */
export const pagesIn = (value: unknown): Readonly<Record<string, Node>> => {
  if (typeof value !== "object" || value === null) return {}
  const node = record(value)
  const name = pageName(node)
  return name === undefined ? Object.assign({}, ...Object.values(value).map(pagesIn)) : { [name]: node }
}

/** The name of a page: a list of components and the cursor of the next page, and nothing else. */
const pageName = ({ properties }: Node): string | undefined => {
  const { next_cursor, ...lists } = record(properties)
  const [items, ...others] = Object.values(lists)
  if (next_cursor === undefined || items === undefined || others.length > 0) return undefined
  const item = referenceOf(record(record(items)["items"]))
  return item === undefined ? undefined : `${item}Page`
}
