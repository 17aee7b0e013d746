/**
 * The test that noticed each mutant in the last run on this machine. It is tried first, alone, which takes a fraction
 * of the time of its file.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import path from "node:path"
import { type Mutant, root } from "./list.ts"

/** A test, by its file relative to `test` and its full name. */
export interface NamedTest {
  readonly test: string
  readonly name: string
}

const file = path.join(root, "node_modules/.cache/mutants.json")

const keyOf = (mutant: Mutant): string =>
  [mutant.file, mutant.from, mutant.to].join(" ").replaceAll(/\s+/g, " ")

const isNamedTest = (value: unknown): value is NamedTest =>
  typeof value === "object" &&
  value !== null &&
  "test" in value &&
  typeof value.test === "string" &&
  "name" in value &&
  typeof value.name === "string"

const read = (): Map<string, NamedTest> => {
  try {
    const content: unknown = JSON.parse(readFileSync(file, "utf8"))
    if (typeof content !== "object" || content === null) return new Map()
    return new Map(
      Object.entries(content).filter((entry): entry is [string, NamedTest] => isNamedTest(entry[1]))
    )
  } catch {
    return new Map()
  }
}

const tests = read()

/** The test that noticed a mutant, if its file is still listed. */
export const lastNoticedBy = (mutant: Mutant): NamedTest | undefined => {
  const found = tests.get(keyOf(mutant))
  return found !== undefined && mutant.tests.includes(found.test) ? found : undefined
}

/** Remembers the test that noticed a mutant. */
export const rememberNoticedBy = (mutant: Mutant, noticed: NamedTest): void => {
  tests.set(keyOf(mutant), noticed)
  mkdirSync(path.dirname(file), { recursive: true })
  writeFileSync(file, JSON.stringify(Object.fromEntries(tests), undefined, 1))
}
