import { globSync, readFileSync } from "node:fs"
import { relative } from "node:path"

const root = `${import.meta.dirname}/../../src/server`

/** The text of all modules of the server, by their path. */
const modules = new Map(
  globSync(`${root}/**/*.ts`).map((file) => [
    relative(root, file),
    readFileSync(file, "utf8").replace(/\s+/g, " ")
  ])
)

/**
 * What a pattern, or its groups, find in all modules of the server, sorted: `tasks/deleteRuns.ts: DELETE FROM runs`. White space in a text
 * is one blank.
 */
export const findInServer = (pattern: RegExp): ReadonlyArray<string> =>
  [...modules]
    .flatMap(([path, text]) =>
      [...text.matchAll(pattern)].map(
        ([found, ...groups]) => `${path}: ${groups.length === 0 ? found : groups.join(" ")}`
      )
    )
    .toSorted()
