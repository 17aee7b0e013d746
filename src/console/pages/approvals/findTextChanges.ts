/** Finds texts of several lines in a step's arguments that change an earlier text: beside them, or of an earlier step of the session. */
import type { Schema } from "effect"
import { diffLines, type LineChange } from "../../../domain/tasks/diffLines.ts"

/** A text that the arguments change. */
export interface TextChange {
  /** Path of the changed text, such as `edits.0.new_string`. */
  readonly path: string
  /** Path of the earlier text, and the number of its step among the given ones; undefined: it is in the same arguments. */
  readonly beforePath: string
  readonly step: number | undefined
  readonly changes: ReadonlyArray<LineChange>
}

/** The most changes that are shown, and the most texts of several lines that are compared. */
const MAX_CHANGES = 10
const MAX_TEXTS = 50

/** The most members of one object or array that are looked at, and the most values. */
const MAX_MEMBERS = 500
const MAX_VALUES = 5_000

/** Longer texts are not compared. */
const MAX_CHARACTERS = 500_000

/** The part of the newer lines that an earlier step's text must have too: else it is another text. */
const MIN_SHARED = 1 / 3

/** The words in the names of an earlier text and of the text that replaces it. */
const PAIRS = [
  ["old", "new"],
  ["before", "after"],
  ["original", "new"],
  ["original", "updated"],
  ["original", "modified"],
  ["previous", "new"],
  ["previous", "current"],
  ["current", "proposed"],
  ["search", "replace"],
  ["find", "replace"]
] as const

const capitalize = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1)

/** The names that a text which replaces the one of this name can have. */
const newerNames = (name: string): ReadonlyArray<string> =>
  PAIRS.flatMap(([older, newer]) =>
    [
      name.replace(older, newer),
      name.replace(capitalize(older), capitalize(newer)),
      name.replace(older.toUpperCase(), newer.toUpperCase())
    ].filter((other) => other !== name)
  )

interface FoundText {
  readonly path: string
  readonly text: string
  /** The members beside it, and the path of their object. */
  readonly siblings: ReadonlyMap<string, Schema.Json>
  readonly parent: string
  readonly name: string
}

const join = (parent: string, name: string): string => (parent === "" ? name : `${parent}.${name}`)

/** The texts of a value, in order. */
const textsOf = (root: Schema.Json): ReadonlyArray<FoundText> => {
  const found: Array<FoundText> = []
  const pending: Array<readonly [path: string, value: Schema.Json]> = [["", root]]
  let values = 0
  for (let next = pending.pop(); next !== undefined && values < MAX_VALUES; next = pending.pop()) {
    const [parent, value] = next
    values++
    if (typeof value !== "object" || value === null) continue
    const members = Object.entries(value).slice(0, MAX_MEMBERS)
    const siblings = new Map<string, Schema.Json>(members)
    for (const [name, member] of members) {
      if (typeof member !== "string" || member.length > MAX_CHARACTERS) continue
      found.push({ path: join(parent, name), text: member, siblings, parent, name })
    }
    pending.push(
      ...members
        .map(([name, member]: readonly [string, Schema.Json]) => [join(parent, name), member] as const)
        .toReversed()
    )
  }
  return found
}

const hasLines = (text: string): boolean => text.includes("\n")

/** The texts that the arguments change, in their order. `steps`: the arguments of earlier steps with the same tool, oldest first. */
export const findTextChanges = (
  root: Schema.Json,
  steps: ReadonlyArray<Schema.Json | undefined>
): ReadonlyArray<TextChange> => {
  const texts = textsOf(root)
  const changes: Array<TextChange> = []
  const paired = new Set<string>()
  for (const { name, parent, path, siblings, text } of texts) {
    const newer = newerNames(name).find((other) => typeof siblings.get(other) === "string")
    const after = newer === undefined ? undefined : siblings.get(newer)
    if (newer === undefined || typeof after !== "string" || after.length > MAX_CHARACTERS) continue
    if (after === text || !(hasLines(after) || hasLines(text))) continue
    paired.add(path).add(join(parent, newer))
    changes.push({
      path: join(parent, newer),
      beforePath: path,
      step: undefined,
      changes: diffLines(text, after)
    })
    if (changes.length === MAX_CHANGES) return changes
  }
  const earlier = steps.map((step) =>
    step === undefined ? new Map<string, string>() : new Map(textsOf(step).map((one) => [one.path, one.text]))
  )
  for (const { path, text } of texts.filter((one) => hasLines(one.text)).slice(0, MAX_TEXTS)) {
    if (paired.has(path)) continue
    const step = earlier.findLastIndex((known) => known.has(path))
    const before = earlier[step]?.get(path)
    if (before === undefined || before === text) continue
    const found = diffLines(before, text)
    if (sharedPart(found, text) < MIN_SHARED) continue
    changes.push({ path, beforePath: path, step, changes: found })
    if (changes.length === MAX_CHANGES) break
  }
  return changes
}

/** The part of a text's lines that stayed the same. */
const sharedPart = (changes: ReadonlyArray<LineChange>, text: string): number =>
  changes.reduce((sum, { op, text: lines }) => sum + (op === "same" ? lines.split("\n").length : 0), 0) /
  text.split("\n").length
